//! Operators without keyed state that may keep records back for a while.

use slackwater_core::time::{Millis, Now};

use crate::keyed::Rest;
use crate::operator::OperatorError;
use crate::output::Output;
use crate::record::Record;

/// Makes records of records, and may keep some back: to put several together, say (Flink: mini-batch bundles). One
/// instance per subtask.
///
/// What it keeps is no part of a checkpoint. So it emits all of it in [`Transform::before_barrier`], and the records
/// travel ahead of the barrier (rule X9). It bounds what it keeps by itself: what it emits then waits for no room, so that
/// a barrier never waits for the subtasks behind.
pub trait Transform: Send + 'static {
    /// What it takes.
    type In: Record + ?Sized;
    /// What it emits.
    type Out: Record + ?Sized;

    /// Takes a record.
    ///
    /// # Errors
    /// Ends the job.
    fn on_record(
        &mut self,
        record: &Self::In,
        now: Now,
        out: &mut Output<'_, Self::Out>,
    ) -> Result<(), OperatorError>;

    /// A barrier is about to be sent: emits what is kept, a bounded piece per call. Called until it is done; no record
    /// comes in between.
    ///
    /// # Errors
    /// Ends the job.
    fn before_barrier(&mut self, out: &mut Output<'_, Self::Out>) -> Result<Rest, OperatorError>;

    /// No more records follow: emits what is kept, a bounded piece per call. Called until it is done.
    ///
    /// # Errors
    /// Ends the job.
    fn on_end_of_data(&mut self, out: &mut Output<'_, Self::Out>) -> Result<Rest, OperatorError> {
        self.before_barrier(out)
    }

    /// The monotonic time at which [`Transform::on_deadline`] is wanted, if it is; asked after every batch.
    fn next_deadline(&self) -> Option<Millis> {
        None
    }

    /// The deadline is reached and there is room behind: emits a bounded piece of what has been kept for too long. Called
    /// again while the deadline is not later than now.
    ///
    /// # Errors
    /// Ends the job.
    fn on_deadline(&mut self, now: Now, out: &mut Output<'_, Self::Out>) -> Result<(), OperatorError> {
        let _nothing = (now, out);
        Ok(())
    }
}

//! Operators without keyed state that may keep records back for a while.

use slackwater_core::time::{Millis, Now};

use crate::keyed::Rest;
use crate::list_state::{ListStates, RestoredLists};
use crate::operator::OperatorError;
use crate::output::Output;
use crate::record::Record;

/// Makes records of records, and may keep some back: to put several together, say (Flink: mini-batch bundles). One
/// instance per subtask.
///
/// Records that it keeps are best no part of a checkpoint. So it emits all of them in [`Transform::before_barrier`], and they
/// travel ahead of the barrier (rule X9). It bounds what it keeps by itself: what it emits then waits for no room, so that
/// a barrier never waits for the subtasks behind. What it has to remember it gives to the checkpoint in [`Transform::snapshot`],
/// and gets back in [`Transform::restore`], at whatever parallelism the job goes on.
pub trait Transform: Send + 'static {
    /// What it takes.
    type In: Record + ?Sized;
    /// What it emits.
    type Out: Record + ?Sized;

    /// Takes over its part of a checkpoint that knows the operator, before any record; not called on a fresh start.
    ///
    /// # Errors
    /// What it gets is not what it has given.
    fn restore(&mut self, states: &RestoredLists<'_>) -> Result<(), OperatorError> {
        let _nothing = states;
        Ok(())
    }

    /// Gives the lists that the checkpoint is to cover, right behind the last call of [`Transform::before_barrier`]. Called for
    /// every checkpoint: give every list each time, also an empty one.
    ///
    /// # Errors
    /// Fails the task; see [`OperatorError`].
    fn snapshot(&mut self, states: &mut ListStates<'_>) -> Result<(), OperatorError> {
        let _nothing = states;
        Ok(())
    }

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

//! Coordinators of operators: one instance that talks with all subtasks of its operator, by events.

mod actor;
#[cfg(test)]
mod tests;

use slackwater_core::ids::CheckpointId;
use slackwater_core::time::{Millis, Now};

pub(crate) use self::actor::{OperatorCoordinatorActor, OperatorCoordinatorParts, ToCoordinator};
use crate::operator::OperatorError;

/// Decides for all subtasks of a source what each reads (Flink: `OperatorCoordinator`). It is an actor of its own: its
/// calls should do a bounded piece of work each, but the job's coordinator does not wait for them.
///
/// Events to subtasks and its state fit each other: the state of a checkpoint covers exactly the events that every subtask has
/// had when it takes its snapshot. What is sent after [`OperatorCoordinator::snapshot`] reaches a subtask behind its
/// snapshot, so a restored coordinator has not sent it and a restored subtask has not got it (rules P27 to P29). What
/// subtasks ask for is no part of any checkpoint: a subtask that starts again asks again.
pub trait OperatorCoordinator: Send + 'static {
    /// Takes over the state of a checkpoint before anything else: none where the checkpoint has none of it. Called once
    /// after a restore; not called on a fresh start.
    ///
    /// # Errors
    /// The job does not start.
    fn restore(&mut self, state: Option<&[u8]>) -> Result<(), OperatorError>;

    /// The job runs.
    ///
    /// # Errors
    /// Ends the job.
    fn start(&mut self, now: Now, subtasks: &mut Subtasks<'_>) -> Result<(), OperatorError> {
        let _nothing = (now, subtasks);
        Ok(())
    }

    /// A subtask asks for something, see [`Source::take_request`](crate::operator::Source::take_request).
    ///
    /// # Errors
    /// Ends the job.
    fn on_request(
        &mut self,
        subtask: u16,
        request: &[u8],
        subtasks: &mut Subtasks<'_>,
    ) -> Result<(), OperatorError>;

    /// Its state, if it has any: what it needs to go on behind all events sent so far.
    ///
    /// # Errors
    /// The checkpoint fails, the job goes on.
    fn snapshot(&mut self, checkpoint: CheckpointId) -> Result<Option<Vec<u8>>, OperatorError>;

    /// The checkpoint is complete. May not be told of each: a later one covers earlier ones.
    fn on_complete(&mut self, checkpoint: CheckpointId) {
        let _nothing = checkpoint;
    }

    /// The checkpoint is off.
    fn on_abort(&mut self, checkpoint: CheckpointId) {
        let _nothing = checkpoint;
    }

    /// The monotonic time at which [`OperatorCoordinator::on_deadline`] is wanted; asked after every call.
    fn next_deadline(&self) -> Option<Millis> {
        None
    }

    /// The deadline is reached.
    ///
    /// # Errors
    /// Ends the job.
    fn on_deadline(&mut self, now: Now, subtasks: &mut Subtasks<'_>) -> Result<(), OperatorError> {
        let _nothing = (now, subtasks);
        Ok(())
    }
}

/// The way to the subtasks of an operator.
#[derive(Debug)]
pub struct Subtasks<'a> {
    count: u16,
    sent: &'a mut Vec<(u16, Vec<u8>)>,
}

impl<'a> Subtasks<'a> {
    /// Keeps what is sent in a list; for tests of coordinators.
    pub const fn new(count: u16, sent: &'a mut Vec<(u16, Vec<u8>)>) -> Self {
        Self { count, sent }
    }

    /// How many there are.
    #[must_use]
    pub const fn count(&self) -> u16 {
        self.count
    }

    /// Sends an event to a subtask, behind all sent to it before; see
    /// [`Source::on_event`](crate::operator::Source::on_event). One to a subtask that is not there ends the job.
    pub fn send(&mut self, subtask: u16, event: Vec<u8>) {
        self.sent.push((subtask, event));
    }
}

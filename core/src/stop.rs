//! Ends a job with a savepoint (rule X26; Flink: `StopWithSavepoint`, `StopWithSavepointTerminationManager`).
//!
//! Beside the coordinator: no checkpoint may start between the savepoint and the end, so periodic ones are paused first.
//! Then the savepoint is asked for, and when it is complete the tasks end by themselves (rules X27 and X28). If they do not,
//! the job restarts, from its last checkpoint; the savepoint stays usable. The work of each event is bounded by
//! `TASK_WORDS`.
//!
//! # Invariants
//! - EI1: while tasks are waited for, one of them runs.

#[cfg(test)]
mod tests;

use heapless::VecView;

use crate::bit_set::BitSet;
use crate::ids::{CheckpointId, SavepointFormat, TaskIndex};
use crate::machine::{Admission, Orders, Rejected, first_broken};
use crate::reason::FailureReason;
use crate::time::{Millis, Now};

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopEvent {
    /// Somebody wants the job to end.
    StopRequested {
        /// Whether the operators emit all they have first.
        drain: bool,
        /// The format of the savepoint.
        format: SavepointFormat,
    },
    /// The savepoint is complete.
    SavepointCompleted(CheckpointId),
    /// There will be no savepoint.
    SavepointFailed(FailureReason),
    /// A task has ended well.
    TaskFinished(TaskIndex),
    /// A task has died.
    TaskFailed(TaskIndex),
}

/// What must be done, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopAction {
    /// Let no periodic checkpoint start.
    PausePeriodic,
    /// Ask the coordinator for a savepoint with which the job ends.
    RequestSavepoint {
        /// Whether the operators emit all they have first.
        drain: bool,
        /// Its format.
        format: SavepointFormat,
    },
    /// Let periodic checkpoints start again: the job goes on.
    ResumePeriodic,
    /// Tell whoever asked that the job goes on.
    Refuse(FailureReason),
    /// Restart all of the job: some tasks have ended and others have not. The savepoint is usable.
    RestartJob(CheckpointId),
    /// Every task has ended: tell whoever asked.
    Confirm(CheckpointId),
}

/// The end of a job of up to `32 * TASK_WORDS` tasks.
#[derive(Clone, Debug)]
pub struct StopWithSavepoint<const TASK_WORDS: usize> {
    admission: Admission,
    state: State,
    /// Tasks that have not ended.
    running: BitSet<TASK_WORDS>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Idle,
    AwaitingSavepoint,
    AwaitingTasks { savepoint: CheckpointId },
    Over,
}

impl<const TASK_WORDS: usize> StopWithSavepoint<TASK_WORDS> {
    /// The most actions that one event gives.
    pub const ACTIONS_MAX: usize = 2;

    /// A job whose `running` tasks have not ended.
    #[must_use]
    pub fn new(running: BitSet<TASK_WORDS>) -> Self {
        Self { admission: Admission::default(), state: State::Idle, running }
    }

    /// Takes an event and writes what must be done into `out`, in order.
    ///
    /// # Errors
    /// [`Rejected`]; the machine is unchanged.
    pub fn on_event(
        &mut self,
        now: Now,
        event: StopEvent,
        out: &mut VecView<StopAction>,
    ) -> Result<(), Rejected> {
        self.admission.admit(now, out, Self::ACTIONS_MAX)?;
        let mut orders = Orders::new(out, Self::ACTIONS_MAX);
        self.step(event, &mut orders)?;
        self.admission.conclude(&orders, self.broken_invariant())
    }

    fn step(&mut self, event: StopEvent, orders: &mut Orders<'_, StopAction>) -> Result<(), Rejected> {
        use StopEvent as E;
        match (self.state, event) {
            (State::Idle, E::StopRequested { drain, format }) => {
                self.state = State::AwaitingSavepoint;
                orders.push(StopAction::PausePeriodic);
                orders.push(StopAction::RequestSavepoint { drain, format });
            }
            (_, E::StopRequested { .. }) => return unexpected("the job is being stopped, or has stopped"),
            (State::AwaitingSavepoint, E::SavepointCompleted(savepoint)) => {
                self.state = State::AwaitingTasks { savepoint };
                self.confirm_if_over(orders);
            }
            (State::AwaitingSavepoint, E::SavepointFailed(reason)) => {
                self.state = State::Idle;
                orders.push(StopAction::ResumePeriodic);
                orders.push(StopAction::Refuse(reason));
            }
            (_, E::SavepointCompleted(_) | E::SavepointFailed(_)) => {
                return unexpected("no savepoint was asked for");
            }
            (_, E::TaskFinished(task)) => {
                self.running.remove(task.0);
                self.confirm_if_over(orders);
            }
            (State::AwaitingTasks { savepoint }, E::TaskFailed(_)) => {
                self.state = State::Over;
                orders.push(StopAction::RestartJob(savepoint));
            }
            (_, E::TaskFailed(_)) => {} // Its savepoint fails, if there is one.
        }
        Ok(())
    }

    fn confirm_if_over(&mut self, orders: &mut Orders<'_, StopAction>) {
        if let State::AwaitingTasks { savepoint } = self.state
            && self.running.is_empty()
        {
            self.state = State::Over;
            orders.push(StopAction::Confirm(savepoint));
        }
    }

    /// The savepoint has the coordinator's time-out; the end has none.
    #[must_use]
    pub const fn next_deadline(&self, _now: Now) -> Option<Millis> {
        None
    }

    /// Asserts every invariant.
    ///
    /// # Panics
    /// If one does not hold.
    pub fn check(&self) {
        assert_eq!(self.broken_invariant(), None);
    }

    fn broken_invariant(&self) -> Option<&'static str> {
        let awaits_tasks = matches!(self.state, State::AwaitingTasks { .. });
        first_broken(&[("EI1", !awaits_tasks || !self.running.is_empty())])
    }
}

const fn unexpected(what: &'static str) -> Result<(), Rejected> {
    Err(Rejected::Unexpected { what })
}

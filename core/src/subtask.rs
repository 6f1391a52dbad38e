//! The order of steps of one subtask's checkpoint (Flink: `SubtaskCheckpointCoordinatorImpl`).
//!
//! A checkpoint has a synchronous part, during which the subtask takes nothing from its inputs - operators prepare,
//! the barrier goes out, the state is frozen - and an asynchronous part, in which the frozen state becomes durable
//! while the subtask goes on. The messages of the coordinator may be lost or come in any order (rules X19 to X25).
//! The work of each event is bounded by `PENDING`.
//!
//! Which checkpoints were aborted before their barrier came is remembered exactly for the 128 ids up to the highest
//! aborted one. Every older id counts as aborted: a checkpoint that was overtaken by 128 others has long expired, and
//! to skip it is safe, whereas to take part in one that was aborted is not.
//!
//! # Invariants
//! - SI1: no checkpoint is in the asynchronous part twice.
//! - SI2: a checkpoint in the asynchronous part is not newer than the last one taken part in.
//! - SI3: the checkpoint in the synchronous part is not in the asynchronous part.
//! - SI4: during the synchronous part there is room for one more asynchronous part.

mod steps;
#[cfg(test)]
mod tests;

use heapless::VecView;

use crate::gate::AlignmentMetrics;
use crate::ids::{Barrier, CheckpointId};
use crate::machine::{Admission, Orders, Rejected, first_broken};
use crate::reason::FailureReason;
use crate::recent_ids::RecentIds;
use crate::time::{Millis, Now};

/// What happened at or around the subtask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SubtaskEvent {
    /// The subtask has opened its operators and processes records.
    Started,
    /// The subtask no longer processes records.
    Stopped,
    /// The coordinator triggers a checkpoint at a subtask without inputs.
    TriggerReceived(Barrier),
    /// The gate has seen the last barrier.
    AlignmentCompleted {
        /// The barrier.
        barrier: Barrier,
        /// Measured by the gate.
        alignment: AlignmentMetrics,
    },
    /// The gate gave the checkpoint up.
    AlignmentAborted {
        /// The checkpoint.
        id: CheckpointId,
        /// Why.
        reason: FailureReason,
    },
    /// The synchronous part is done: the operators' state is frozen.
    SnapshotTaken(CheckpointId),
    /// The synchronous part failed; the subtask has to fail (rule X12).
    SnapshotFailed(CheckpointId),
    /// The asynchronous part is durable.
    Persisted(CheckpointId),
    /// The asynchronous part failed for good.
    PersistFailed {
        /// The checkpoint.
        id: CheckpointId,
        /// Why.
        reason: FailureReason,
    },
    /// The coordinator says that a checkpoint is off.
    AbortNotified {
        /// The checkpoint.
        id: CheckpointId,
        /// The latest one that is complete, so that a lost notification is made up for.
        latest_completed: Option<CheckpointId>,
    },
    /// The coordinator says that a checkpoint is complete.
    CompleteNotified(CheckpointId),
    /// The coordinator says that this and all older checkpoints are no longer retained.
    SubsumeNotified(CheckpointId),
}

/// What the subtask must do, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SubtaskAction {
    /// Let the operators emit what has to precede the barrier, head to tail.
    PrepareOperators(CheckpointId),
    /// Send the barrier on every output.
    BroadcastBarrier(Barrier),
    /// Freeze the operators' state, tail to head, then report `SnapshotTaken` or `SnapshotFailed`.
    SnapshotOperators(Barrier),
    /// Send a cancel marker on every output.
    BroadcastCancel(CheckpointId),
    /// Make the frozen state durable, then report `Persisted` or `PersistFailed`.
    Persist(CheckpointId),
    /// Let go of the frozen state and what was written of it; nothing need be reported.
    CancelPersist(CheckpointId),
    /// Tell the coordinator that this subtask's part is durable.
    Acknowledge {
        /// The checkpoint.
        id: CheckpointId,
        /// Measured by the gate.
        alignment: AlignmentMetrics,
    },
    /// Tell the coordinator that this subtask will not take part.
    Decline {
        /// The checkpoint.
        id: CheckpointId,
        /// Why.
        reason: FailureReason,
    },
    /// Tell the operators, tail to head, that this and every earlier checkpoint is complete.
    NotifyComplete(CheckpointId),
    /// Tell the operators, tail to head, that a checkpoint is off.
    NotifyAbort(CheckpointId),
    /// Tell the operators, tail to head, that a checkpoint is no longer retained.
    NotifySubsume(CheckpointId),
    /// The subtask must fail; the job restarts from its last checkpoint.
    FailTask(CheckpointId),
}

/// One subtask's part in checkpoints, of which up to `PENDING` may be in the asynchronous part.
///
/// A further one is declined, so `PENDING` should exceed the coordinator's `max_concurrent`: the news that an aborted
/// checkpoint is off may come after the next one's barrier.
#[derive(Clone, Debug)]
pub struct Subtask<const PENDING: usize> {
    admission: Admission,
    state: State,
    persisting: [Option<Snapshot>; PENDING],
    /// The newest checkpoint this subtask took part in, skipped or gave up.
    last: Option<CheckpointId>,
    latest_completed: Option<CheckpointId>,
    aborted: RecentIds,
}

#[derive(Clone, Copy, Debug)]
enum State {
    AwaitingStart,
    Running,
    /// In the synchronous part of a checkpoint, which may have been aborted meanwhile.
    Snapshotting {
        snapshot: Snapshot,
        aborted: bool,
    },
    Stopped,
}

#[derive(Clone, Copy, Debug)]
struct Snapshot {
    id: CheckpointId,
    alignment: AlignmentMetrics,
}

impl<const PENDING: usize> Default for Subtask<PENDING> {
    fn default() -> Self {
        Self::new()
    }
}

impl<const PENDING: usize> Subtask<PENDING> {
    /// The most actions that one event gives.
    pub const ACTIONS_MAX: usize = 3;

    /// A subtask that has not started.
    #[must_use]
    pub fn new() -> Self {
        Self {
            admission: Admission::default(),
            state: State::AwaitingStart,
            persisting: [None; PENDING],
            last: None,
            latest_completed: None,
            aborted: RecentIds::default(),
        }
    }

    /// Takes an event and writes what must be done into `out`, in order.
    ///
    /// # Errors
    /// [`Rejected`]; the machine is unchanged.
    pub fn on_event(
        &mut self,
        now: Now,
        event: SubtaskEvent,
        out: &mut VecView<SubtaskAction>,
    ) -> Result<(), Rejected> {
        self.admission.admit(now, out, Self::ACTIONS_MAX)?;
        let mut orders = Orders::new(out, Self::ACTIONS_MAX);
        self.step(now, event, &mut orders)?;
        self.admission.conclude(&orders, self.broken_invariant())
    }

    fn step(
        &mut self,
        now: Now,
        event: SubtaskEvent,
        orders: &mut Orders<'_, SubtaskAction>,
    ) -> Result<(), Rejected> {
        match (self.state, event) {
            (State::AwaitingStart, SubtaskEvent::Started) => self.state = State::Running,
            (_, SubtaskEvent::Started) => return unexpected("the subtask has started already"),
            (_, SubtaskEvent::Stopped) => self.on_stopped(orders),
            (
                State::Snapshotting { .. },
                SubtaskEvent::TriggerReceived(_) | SubtaskEvent::AlignmentCompleted { .. },
            ) => {
                return unexpected("nothing may be taken from the inputs during the synchronous part");
            }
            (State::Running, SubtaskEvent::TriggerReceived(barrier)) => {
                let start_delay = now.wall.since(barrier.triggered_at);
                self.running_on_barrier(
                    barrier,
                    AlignmentMetrics { start_delay, ..Default::default() },
                    orders,
                );
            }
            (State::Running, SubtaskEvent::AlignmentCompleted { barrier, alignment }) => {
                self.running_on_barrier(barrier, alignment, orders);
            }
            (_, SubtaskEvent::TriggerReceived(barrier)) => not_running_on_trigger(barrier.id, orders),
            (_, SubtaskEvent::AlignmentCompleted { barrier, .. }) => {
                orders.push(SubtaskAction::BroadcastCancel(barrier.id)); // Rule X4.
            }
            (_, SubtaskEvent::AlignmentAborted { id, reason }) => self.give_up(id, reason, orders),
            (State::Snapshotting { snapshot, aborted }, SubtaskEvent::SnapshotTaken(id))
                if snapshot.id == id =>
            {
                self.snapshotting_on_taken(snapshot, aborted, orders);
            }
            (State::Snapshotting { snapshot, .. }, SubtaskEvent::SnapshotFailed(id)) if snapshot.id == id => {
                self.state = State::Stopped;
                orders.push(SubtaskAction::FailTask(id)); // Rule X12.
            }
            (_, SubtaskEvent::SnapshotTaken(_) | SubtaskEvent::SnapshotFailed(_)) => {
                return unexpected("no snapshot of this checkpoint is being taken");
            }
            (_, SubtaskEvent::Persisted(id) | SubtaskEvent::PersistFailed { id, .. })
                if self.last < Some(id) =>
            {
                return unexpected("this checkpoint has not been taken yet");
            }
            (_, SubtaskEvent::Persisted(id)) => self.on_persisted(id, orders),
            (_, SubtaskEvent::PersistFailed { id, reason }) => self.on_persist_failed(id, reason, orders),
            (_, SubtaskEvent::AbortNotified { id, latest_completed }) => {
                self.on_abort_notified(id, latest_completed, orders);
            }
            (_, SubtaskEvent::CompleteNotified(id)) => self.complete(id, orders),
            (_, SubtaskEvent::SubsumeNotified(id)) if self.is_running() => {
                orders.push(SubtaskAction::NotifySubsume(id)); // Rule X24.
            }
            (_, SubtaskEvent::SubsumeNotified(_)) => {}
        }
        Ok(())
    }

    /// A subtask waits for events only, never for a time.
    #[must_use]
    pub const fn next_deadline(&self, _now: Now) -> Option<Millis> {
        None
    }

    /// Whether the subtask processes records.
    #[must_use]
    pub const fn is_running(&self) -> bool {
        matches!(self.state, State::Running | State::Snapshotting { .. })
    }

    /// How many checkpoints are in the asynchronous part. A subtask that stops should wait until there is none.
    #[must_use]
    pub fn persisting_count(&self) -> usize {
        self.persisting.iter().flatten().count()
    }

    /// The newest checkpoint that the subtask knows to be complete.
    #[must_use]
    pub const fn latest_completed(&self) -> Option<CheckpointId> {
        self.latest_completed
    }

    /// Asserts every invariant.
    ///
    /// # Panics
    /// If one does not hold.
    pub fn check(&self) {
        assert_eq!(self.broken_invariant(), None);
    }

    fn broken_invariant(&self) -> Option<&'static str> {
        let is_once =
            |id| self.persisting.iter().flatten().filter(|persisting| persisting.id == id).count() == 1;
        first_broken(&[
            ("SI1", self.persisting.iter().flatten().all(|persisting| is_once(persisting.id))),
            ("SI2", self.persisting.iter().flatten().all(|persisting| Some(persisting.id) <= self.last)),
        ])
        .or_else(|| {
            let State::Snapshotting { snapshot, .. } = self.state else { return None };
            first_broken(&[
                ("SI3", self.persisting.iter().flatten().all(|persisting| persisting.id != snapshot.id)),
                ("SI4", self.persisting.iter().any(Option::is_none)),
            ])
        })
    }
}

const fn unexpected(what: &'static str) -> Result<(), Rejected> {
    Err(Rejected::Unexpected { what })
}

fn not_running_on_trigger(id: CheckpointId, orders: &mut Orders<'_, SubtaskAction>) {
    orders.push(SubtaskAction::BroadcastCancel(id));
    let reason = FailureReason::CheckpointDeclinedTaskNotReady;
    orders.push(SubtaskAction::Decline { id, reason }); // Rules X1 and X4.
}

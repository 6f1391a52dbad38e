//! The order of steps of one subtask's checkpoint (Flink: `SubtaskCheckpointCoordinatorImpl`).

use heapless::VecView;

use crate::gate::AlignmentMetrics;
use crate::ids::{Barrier, CheckpointId};
use crate::machine::{Admission, Rejected};
use crate::reason::FailureReason;
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
    /// Give up the asynchronous part; nothing need be reported.
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
#[derive(Debug, Default)]
pub struct Subtask<const PENDING: usize> {
    admission: Admission,
}

impl<const PENDING: usize> Subtask<PENDING> {
    /// The most actions that one event gives.
    pub const ACTIONS_MAX: usize = 4;

    /// A subtask that has not started.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
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
        let _ = event;
        Ok(())
    }

    /// A subtask waits for events only, never for a time.
    #[must_use]
    pub const fn next_deadline(&self, _now: Now) -> Option<Millis> {
        None
    }

    /// Asserts every invariant.
    pub fn check(&self) {
        assert!(self.admission.broken().is_none());
    }
}

//! The order of steps of one subtask's checkpoint (Flink: `SubtaskCheckpointCoordinatorImpl`).

use crate::gate::AlignmentMetrics;
use crate::ids::{Barrier, CheckpointId};
use crate::reason::FailureReason;

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

//! What a subtask is told and what it orders.

use super::snapshot::{Part, PartSet, PartSizes, SnapshotMetrics};
use crate::gate::AlignmentMetrics;
use crate::ids::{Barrier, CheckpointId};
use crate::reason::FailureReason;
use crate::time::Millis;

/// What happened at or around the subtask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SubtaskEvent {
    /// The subtask has opened its operators and processes records.
    Started,
    /// Every input channel has ended. A subtask without inputs need not be told.
    InputsFinished,
    /// No record follows: the operators have emitted their rest if they were to, and that it is over was passed on.
    DataEnded {
        /// Whether the operators have emitted all they had, and so are finished (rule X29).
        drained: bool,
    },
    /// Those behind have processed everything that this subtask has emitted.
    OutputsConsumed,
    /// The subtask no longer processes records.
    Stopped,
    /// The coordinator triggers a checkpoint here.
    TriggerReceived(Barrier),
    /// The source itself starts a checkpoint (rule X30).
    CheckpointInduced(Barrier),
    /// The gate triggers a checkpoint: of an aligned one it has seen the last barrier, of an unaligned one the first.
    CheckpointTriggered {
        /// The barrier.
        barrier: Barrier,
        /// Measured by the gate so far.
        alignment: AlignmentMetrics,
    },
    /// The gate gave the checkpoint up.
    AlignmentAborted {
        /// The checkpoint.
        id: CheckpointId,
        /// Why.
        reason: FailureReason,
    },
    /// Every barrier of an unaligned checkpoint is in, and the records that they overtook are captured.
    InputCaptured {
        /// The checkpoint.
        id: CheckpointId,
        /// Measured by the gate from the first to the last barrier.
        alignment: AlignmentMetrics,
    },
    /// The synchronous part is done: the operators' state is frozen.
    SnapshotTaken {
        /// The checkpoint.
        id: CheckpointId,
        /// What has to become durable, but for captured records.
        parts: PartSet,
        /// When the first operator was asked, by the monotonic clock.
        since: Millis,
    },
    /// The synchronous part failed; the subtask has to fail (rule X12).
    SnapshotFailed(CheckpointId),
    /// A part is durable.
    PartPersisted {
        /// The checkpoint.
        id: CheckpointId,
        /// The part.
        part: Part,
        /// How large it is.
        sizes: PartSizes,
    },
    /// A part failed for good, and with it all of the asynchronous part.
    PersistFailed {
        /// The checkpoint.
        id: CheckpointId,
        /// Why, if its cause has a name of its own.
        reason: Option<FailureReason>,
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
    /// An operator failed while it was told of a checkpoint (rule X24).
    NotificationFailed(CheckpointId),
    /// Time has passed; send it when `next_deadline` is reached.
    DeadlineReached,
}

/// What the subtask must do, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SubtaskAction {
    /// Let the gate count the barrier as arrived on every open channel (rules X3 and B26).
    InjectBarrier(Barrier),
    /// Stop reading for a savepoint and end the data, then report `DataEnded` (rule X27).
    EndData {
        /// Whether the operators emit all they have first.
        drain: bool,
    },
    /// Let the operators emit what has to precede the barrier, head to tail.
    PrepareOperators(CheckpointId),
    /// Send the barrier on every output; ahead of the records there if it is unaligned.
    BroadcastBarrier(Barrier),
    /// Freeze the operators' state, tail to head, then report `SnapshotTaken` or `SnapshotFailed`.
    SnapshotOperators(Barrier),
    /// The barrier, where it still waits in an output, overtakes the records before it (rule X10).
    OvertakeOutputs(Barrier),
    /// Send a cancel marker on every output.
    BroadcastCancel(CheckpointId),
    /// Let go of what was captured of the input for this checkpoint, if anything was.
    DropCapture(CheckpointId),
    /// Tell the operators' coordinators that events for the next checkpoint may come (rules X11 and P29).
    ReopenGateways(CheckpointId),
    /// Make these parts of the frozen state durable, then report each as `PartPersisted`, or once `PersistFailed`.
    Persist {
        /// The checkpoint.
        id: CheckpointId,
        /// The parts.
        parts: PartSet,
    },
    /// Make the captured records durable, then report them as [`Part::Input`], or `PersistFailed`.
    PersistInput(CheckpointId),
    /// Let go of the frozen state and what was written of it; nothing need be reported.
    CancelPersist(CheckpointId),
    /// Keep a second copy at hand for a restart (rule V13).
    StoreLocalState(CheckpointId),
    /// Tell the coordinator that this subtask's part is durable.
    Acknowledge {
        /// The checkpoint.
        id: CheckpointId,
        /// What there is; without any part the subtask has no state.
        parts: PartSet,
        /// Whether the operators had finished before (rules X29 and P6).
        is_finished: bool,
        /// What it took.
        metrics: SnapshotMetrics,
    },
    /// Tell the coordinator what a checkpoint took that this subtask did not finish (rules X18 and M7).
    ReportIncomplete {
        /// The checkpoint.
        id: CheckpointId,
        /// What it took so far.
        metrics: SnapshotMetrics,
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
    /// Drop local copies older than this one's (rule V14).
    ConfirmLocalState(CheckpointId),
    /// Drop the local copy of this one (rule V14).
    DropLocalState(CheckpointId),
    /// Nothing is left to wait for: take no more messages, carry out what is ordered already, wait until nothing is in
    /// the asynchronous part, close the operators and report `Stopped` (rule X28).
    Close,
    /// The subtask must fail; the job restarts from its last checkpoint.
    FailTask {
        /// The checkpoint.
        id: CheckpointId,
        /// Why.
        failure: TaskFailure,
    },
}

/// Why a checkpoint makes a subtask fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskFailure {
    /// The synchronous part failed (rule X12).
    Snapshot,
    /// An operator failed while it was told of a checkpoint (rule X24).
    Notification,
    /// The data has ended for a savepoint that is off (rules X20 and X21).
    StopWithSavepoint,
    /// The backend cannot take a checkpoint that shares nothing (rule X2).
    FullCheckpointUnsupported,
    /// The backend cannot take a savepoint in this format (rule X2).
    SavepointFormatUnsupported,
}

impl core::fmt::Display for TaskFailure {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::Snapshot => "its state could not be frozen",
            Self::Notification => "an operator failed when it was told of it",
            Self::StopWithSavepoint => "stop with savepoint failed",
            Self::FullCheckpointUnsupported => "the backend cannot take full checkpoints",
            Self::SavepointFormatUnsupported => "the backend cannot take savepoints in this format",
        })
    }
}

//! What a coordinator orders.

use super::{Attempt, RequestToken, TaskSet};
use crate::bit_set::BitSet;
use crate::ids::{Barrier, CheckpointId, SnapshotKind, TaskIndex};
use crate::reason::FailureReason;
use crate::time::Millis;

/// Coordinators of operators, or hooks: at most 32 of each.
pub type ParticipantSet = BitSet<1>;

/// Who has a part in a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Participant {
    /// A task.
    Task(Attempt),
    /// The coordinator of an operator.
    OperatorCoordinator(u16),
    /// A hook.
    Hook(u16),
}

/// What the program must do, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CoordinatorAction<const TASK_WORDS: usize> {
    /// Make the checkpoint's folder, then report `LocationPrepared` or `LocationFailed`.
    PrepareLocation {
        /// The checkpoint.
        id: CheckpointId,
        /// What it is for.
        kind: SnapshotKind,
        /// Who asked for it and may have said where to put it.
        request: Option<RequestToken>,
        /// Make the folders that all checkpoints share first (rule T4).
        with_base: bool,
    },
    /// Ask these operators' coordinators for their state; each reports `OperatorCoordinatorAcknowledged` or `...Failed`.
    SnapshotOperatorCoordinators {
        /// The checkpoint.
        id: CheckpointId,
        /// Whom to ask.
        coordinators: ParticipantSet,
    },
    /// Run these hooks; each reports `HookAcknowledged` or `HookFailed`.
    TriggerHooks {
        /// The checkpoint.
        id: CheckpointId,
        /// Wall-clock time of the checkpoint's trigger.
        triggered_at: Millis,
        /// Which to run.
        hooks: ParticipantSet,
    },
    /// Send the barrier to these tasks. Where the job ends with the snapshot, they first stop reading (rule T27).
    TriggerTasks {
        /// The barrier.
        barrier: Barrier,
        /// Tasks without running predecessors.
        tasks: TaskSet<TASK_WORDS>,
    },
    /// Register the shared files that this part refers to, whatever becomes of the part (rule P9).
    RegisterShared {
        /// The checkpoint.
        id: CheckpointId,
        /// Whose part it is.
        by: Attempt,
    },
    /// The task's part counts: keep it, and publish what was measured (rule P7).
    KeepPart {
        /// The checkpoint.
        id: CheckpointId,
        /// Whose part it is.
        by: Attempt,
    },
    /// Everybody has acknowledged: confirm the shared files it uses (rule S21), write the manifest, then report
    /// `ManifestPersisted` or `ManifestFailed`.
    PersistManifest {
        /// The checkpoint.
        id: CheckpointId,
        /// Tasks whose operators it marks as finished; where that is every task of a vertex, the whole vertex.
        finished: TaskSet<TASK_WORDS>,
    },
    /// Add it to the store of complete checkpoints, then report `Stored` or `StoreFailed`.
    AddToStore(CheckpointId),
    /// Tell these tasks and every operator's coordinator; nobody answers, and the message may be lost (rule P19).
    Notify {
        /// The tasks that took part.
        tasks: TaskSet<TASK_WORDS>,
        /// What to tell.
        notification: Notification,
    },
    /// Drop what was written for an aborted checkpoint - a manifest first, if there is one, its folder last - and
    /// what coordinators and hooks gave, then report `CleaningEnded`, whether that went well or not.
    DiscardAcknowledged(CheckpointId),
    /// Drop what this one participant has written: it came too late, or was not asked.
    DiscardLate {
        /// The checkpoint.
        id: CheckpointId,
        /// Who wrote it.
        by: Participant,
        /// The checkpoint is one of the last sixteen that expired (rule P11): nothing to worry about.
        is_expired: bool,
    },
    /// Tell whoever asked that the checkpoint is complete.
    RequestCompleted {
        /// The request.
        request: RequestToken,
        /// Its checkpoint.
        id: CheckpointId,
    },
    /// Tell whoever asked that nothing was tried (rule T24).
    RequestRefused {
        /// The request; none for a periodic one.
        request: Option<RequestToken>,
        /// Why.
        reason: FailureReason,
    },
    /// Tell whoever asked that there will be no checkpoint.
    RequestFailed {
        /// The request; none for a periodic one.
        request: Option<RequestToken>,
        /// Its checkpoint, if it got as far as that.
        id: Option<CheckpointId>,
        /// Why.
        reason: FailureReason,
    },
    /// More consecutive failures than tolerated, or a stop with savepoint that failed: the job has to fail.
    FailJob {
        /// The last failure.
        reason: FailureReason,
        /// The task that it is due to.
        task: Option<TaskIndex>,
    },
    /// Give the hooks their state of this checkpoint, or reset them (rules P33 and P34).
    RestoreHooks(Option<CheckpointId>),
    /// Close every hook: they are not called again (rule T14).
    CloseHooks,
}

/// What tasks and operators' coordinators are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notification {
    /// This checkpoint is complete. A task first hears that the subsumed one and all older ones are gone (rule P18).
    Complete {
        /// The checkpoint.
        id: CheckpointId,
        /// The newest one that is no longer retained because of it.
        last_subsumed: Option<CheckpointId>,
    },
    /// This checkpoint is off.
    Abort {
        /// The checkpoint.
        id: CheckpointId,
        /// The latest one that is complete.
        latest_completed: Option<CheckpointId>,
    },
}

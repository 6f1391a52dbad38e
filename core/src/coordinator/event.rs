//! What a coordinator is told.

use super::RequestToken;
use crate::ids::{CheckpointId, SavepointFormat, SnapshotKind, TaskIndex};
use crate::reason::FailureReason;

/// One of the successive executions of a task; a task that never restarts has only number 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Attempt {
    /// The task.
    pub task: TaskIndex,
    /// Ascending with every restart of the task.
    pub number: u16,
}

impl Attempt {
    /// The first execution of a task.
    #[must_use]
    pub const fn first(task: TaskIndex) -> Self {
        Self { task, number: 0 }
    }
}

/// How far the execution of a task is (rule T6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskState {
    /// Not deployed, not started, or dead.
    Pending,
    /// It takes part in checkpoints.
    Running,
    /// It has ended well.
    Finished,
}

/// What somebody asks for (rule T32).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestKind {
    /// A checkpoint of the kind that the job is configured with.
    Configured,
    /// A checkpoint that shares nothing with earlier ones.
    Full,
    /// A checkpoint that may share files with earlier ones.
    Incremental,
    /// A copy for the user.
    Savepoint(SavepointFormat),
    /// A savepoint with which the job ends; what lies in windows and timers stays in it.
    Suspend(SavepointFormat),
    /// A savepoint with which the job ends, after the operators have emitted all they had.
    Drain(SavepointFormat),
}

impl RequestKind {
    /// What the snapshot will be, in a job configured with `configured`.
    pub(super) const fn snapshot(self, configured: SnapshotKind) -> SnapshotKind {
        match self {
            Self::Configured => configured,
            Self::Full => SnapshotKind::FullCheckpoint,
            Self::Incremental => SnapshotKind::Checkpoint,
            Self::Savepoint(format) => SnapshotKind::Savepoint(format),
            Self::Suspend(format) => SnapshotKind::Suspend(format),
            Self::Drain(format) => SnapshotKind::Drain(format),
        }
    }
}

/// What a task says of its part beside that it is durable (rule P6).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TaskReport {
    /// It has written something.
    pub has_state: bool,
    /// Some of it is list state that every subtask gets whole on restore.
    pub has_union_state: bool,
    /// Its operators have finished.
    pub is_finished: bool,
    /// It only stands in for a task that had finished before the restore, and opened no operators (rule P38).
    pub was_deployed_finished: bool,
}

/// Why something on the way to the tasks went wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TriggerError {
    /// The storage failed.
    Io,
    /// It failed for a reason of the protocol.
    Checkpoint(FailureReason),
    /// Anything else.
    Other,
}

impl TriggerError {
    /// What a chain of causes comes to: the storage first, then a reason of the protocol (rule T31).
    #[must_use]
    pub fn of_chain(causes: impl IntoIterator<Item = Self>) -> Self {
        causes.into_iter().fold(Self::Other, |found, cause| match (found, cause) {
            (Self::Io, _) | (_, Self::Io) => Self::Io,
            (Self::Other, _) => cause,
            (Self::Checkpoint(_), _) => found,
        })
    }

    /// The reason that goes with it (rule T31).
    #[must_use]
    pub const fn reason(self) -> FailureReason {
        match self {
            Self::Io => FailureReason::IoException,
            Self::Checkpoint(reason) => reason,
            Self::Other => FailureReason::TriggerCheckpointFailure,
        }
    }
}

/// What a job was restored from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RestoredFrom {
    /// The checkpoint or savepoint.
    pub id: CheckpointId,
    /// It still belongs to the user, so the next checkpoint must share nothing with it (rule V8).
    pub is_unclaimed: bool,
}

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CoordinatorEvent {
    /// The job is in its running state.
    JobStarted,
    /// The job left the running state: everything waiting or pending is given up, but for a manifest being written.
    JobStopped,
    /// The end: as `JobStopped`, and nothing is triggered, acknowledged or declined any more.
    ShutDown,
    /// The state of a task is another one, or it has a new attempt. Every task starts as pending.
    TaskChanged {
        /// The newest attempt of the task.
        attempt: Attempt,
        /// Its state.
        state: TaskState,
    },
    /// An attempt died: what it has not acknowledged cannot complete. Tell of its new state as well.
    TaskFailed(Attempt),
    /// Somebody ends periodic checkpoints, as before a stop with savepoint (rule T9).
    PeriodicPaused,
    /// Somebody wants them back (rule T8).
    PeriodicResumed,
    /// A source has fallen behind, or has caught up (rule T13).
    BacklogChanged {
        /// The source operator, below 32.
        source: u16,
        /// Whether it is behind.
        is_behind: bool,
    },
    /// Time has passed; send it when `next_deadline` is reached.
    DeadlineReached,
    /// Somebody asks for a checkpoint now.
    CheckpointRequested {
        /// The name of the request.
        request: RequestToken,
        /// What is asked for.
        kind: RequestKind,
    },
    /// The folder of a checkpoint exists.
    LocationPrepared(CheckpointId),
    /// The folder of a checkpoint could not be made.
    LocationFailed {
        /// The checkpoint.
        id: CheckpointId,
        /// Why.
        error: TriggerError,
    },
    /// An operator's coordinator has given its state, which is kept under its index.
    OperatorCoordinatorAcknowledged {
        /// The checkpoint.
        id: CheckpointId,
        /// The operator's coordinator.
        coordinator: u16,
    },
    /// An operator's coordinator has no part for this checkpoint.
    OperatorCoordinatorFailed {
        /// The checkpoint.
        id: CheckpointId,
        /// The operator's coordinator.
        coordinator: u16,
        /// Why.
        error: TriggerError,
    },
    /// A hook has given its state, or has none.
    HookAcknowledged {
        /// The checkpoint.
        id: CheckpointId,
        /// The hook.
        hook: u16,
    },
    /// A hook failed.
    HookFailed {
        /// The checkpoint.
        id: CheckpointId,
        /// The hook.
        hook: u16,
        /// Why.
        error: TriggerError,
    },
    /// A task could not be told of the checkpoint (rule T28).
    TriggerFailed {
        /// The checkpoint.
        id: CheckpointId,
        /// The task.
        task: TaskIndex,
        /// Why.
        error: TriggerError,
    },
    /// A task's part is durable.
    Acknowledged {
        /// The checkpoint.
        id: CheckpointId,
        /// The task.
        by: Attempt,
        /// What it says of its part.
        report: TaskReport,
    },
    /// A task will not take part.
    Declined {
        /// The checkpoint.
        id: CheckpointId,
        /// The task.
        by: Attempt,
        /// Why.
        reason: FailureReason,
    },
    /// The manifest is durable under its final name.
    ManifestPersisted(CheckpointId),
    /// The manifest could not be made durable.
    ManifestFailed(CheckpointId),
    /// The store of complete checkpoints lists this one.
    Stored {
        /// The checkpoint.
        id: CheckpointId,
        /// The newest one that it drove out of the store and whose files may go.
        subsumed: Option<CheckpointId>,
    },
    /// The store could not take it.
    StoreFailed {
        /// The checkpoint.
        id: CheckpointId,
        /// The store may list it all the same, so its files have to stay.
        may_be_stored: bool,
    },
    /// The files of some checkpoint began to be removed, other than by an order to discard it (rule S9).
    CleaningStarted,
    /// The files of some checkpoint are gone, or could not be removed; also the answer to `DiscardAcknowledged`.
    CleaningEnded,
    /// The job was restored, or there was nothing to restore it from (rules P34, S33 and S34).
    Restored(Option<RestoredFrom>),
}

//! Decides when a checkpoint starts, when it is complete and what becomes of it (Flink: `CheckpointCoordinator`).

use crate::bit_set::BitSet;
use crate::ids::{Barrier, CheckpointId, TaskIndex};
use crate::reason::FailureReason;

/// The tasks of a job.
pub type TaskSet<const TASK_WORDS: usize> = BitSet<TASK_WORDS>;

/// Names a request for a checkpoint, chosen by the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestToken(pub u32);

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CoordinatorEvent {
    /// Every task runs; periodic checkpoints start.
    JobStarted,
    /// The job left the running state: everything pending is given up.
    JobStopped,
    /// The end: later events are ignored.
    ShutDown,
    /// Time has passed; send it when `next_deadline` is reached.
    DeadlineReached,
    /// Somebody asks for a checkpoint now.
    CheckpointRequested(RequestToken),
    /// The folder of a checkpoint exists.
    LocationPrepared(CheckpointId),
    /// The folder of a checkpoint could not be made.
    LocationFailed(CheckpointId),
    /// A task's part is durable.
    Acknowledged {
        /// The checkpoint.
        id: CheckpointId,
        /// The task.
        task: TaskIndex,
    },
    /// A task will not take part.
    Declined {
        /// The checkpoint.
        id: CheckpointId,
        /// The task.
        task: TaskIndex,
        /// Why.
        reason: FailureReason,
    },
    /// A task died.
    TaskFailed(TaskIndex),
    /// The manifest is durable under its final name.
    ManifestPersisted(CheckpointId),
    /// The manifest could not be made durable.
    ManifestFailed(CheckpointId),
}

/// What the program must do, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CoordinatorAction<const TASK_WORDS: usize> {
    /// Make the checkpoint's folder, then report `LocationPrepared` or `LocationFailed`.
    PrepareLocation(CheckpointId),
    /// Send the barrier to these tasks.
    TriggerTasks {
        /// The barrier.
        barrier: Barrier,
        /// Tasks without running predecessors.
        tasks: TaskSet<TASK_WORDS>,
    },
    /// Every task has acknowledged: write the manifest, then report `ManifestPersisted` or `ManifestFailed`.
    PersistManifest(CheckpointId),
    /// Tell every task.
    NotifyAll(Notification),
    /// Drop what the tasks of an aborted checkpoint have written.
    DiscardAcknowledged(CheckpointId),
    /// Drop what this one task has written: it came too late.
    DiscardLate {
        /// The checkpoint.
        id: CheckpointId,
        /// The task.
        task: TaskIndex,
    },
    /// Tell whoever asked that the checkpoint is complete.
    RequestCompleted {
        /// The request.
        request: RequestToken,
        /// Its checkpoint.
        id: CheckpointId,
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
    /// More consecutive failures than tolerated: the job has to fail.
    FailJob(FailureReason),
}

/// What every task is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notification {
    /// This checkpoint is complete.
    Complete(CheckpointId),
    /// This checkpoint is off.
    Abort {
        /// The checkpoint.
        id: CheckpointId,
        /// The latest one that is complete.
        latest_completed: Option<CheckpointId>,
    },
    /// This and all older checkpoints are no longer retained.
    Subsume(CheckpointId),
}

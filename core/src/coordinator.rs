//! Decides when a checkpoint starts, when it is complete and what becomes of it (Flink: `CheckpointCoordinator`).

use core::fmt;

use heapless::VecView;

use crate::bit_set::BitSet;
use crate::ids::{Barrier, CheckpointId, TaskIndex};
use crate::machine::{Admission, Rejected};
use crate::reason::FailureReason;
use crate::time::{Millis, Now};

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

/// When checkpoints start and how much may go wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CoordinatorOptions {
    /// Time between periodic checkpoints, at least 10 ms; none: manual ones only.
    pub interval: Option<Millis>,
    /// Time after which a checkpoint expires, at least 10 ms.
    pub timeout: Millis,
    /// Least time from a completion to the next periodic checkpoint.
    pub min_pause: Millis,
    /// How many checkpoints may be pending at once, at least 1 and below the coordinator's `PENDING`.
    pub max_concurrent: u16,
    /// How many consecutive failures the job survives; `u32::MAX`: any number.
    pub tolerable_failures: u32,
    /// Seed of the initial delay.
    pub seed: u64,
}

/// Why a coordinator cannot be built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InvalidOptions {
    /// The interval is below 10 ms.
    IntervalTooShort(Millis),
    /// The time-out is below 10 ms.
    TimeoutTooShort(Millis),
    /// No checkpoint may ever be pending.
    NoConcurrency,
    /// More checkpoints may be pending than the coordinator has room for.
    TooManyConcurrent {
        /// What was asked for.
        max_concurrent: u16,
        /// The most that fits: one slot is kept for a checkpoint that was given up while its folder was made.
        limit: usize,
    },
    /// There is no task to wait for.
    NoTasks,
    /// There is no task to trigger.
    NoSources,
    /// A source is not among the tasks.
    SourceIsNoTask,
}

impl fmt::Display for InvalidOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::IntervalTooShort(interval) => write!(f, "interval {interval} is below 10 ms"),
            Self::TimeoutTooShort(timeout) => write!(f, "time-out {timeout} is below 10 ms"),
            Self::NoConcurrency => write!(f, "max_concurrent is 0: allow at least 1 checkpoint"),
            Self::TooManyConcurrent { max_concurrent, limit } => {
                write!(
                    f,
                    "max_concurrent {max_concurrent} is above {limit}: use a coordinator with more slots"
                )
            }
            Self::NoTasks => write!(f, "a checkpoint needs a task to wait for: the job has none"),
            Self::NoSources => write!(f, "a checkpoint needs a task to trigger: the job has no source"),
            Self::SourceIsNoTask => write!(f, "a source is not among the job's tasks: add it"),
        }
    }
}

impl core::error::Error for InvalidOptions {}

/// Up to `PENDING` checkpoints of a job of up to `32 * TASK_WORDS` tasks.
#[derive(Debug)]
pub struct Coordinator<const TASK_WORDS: usize, const PENDING: usize> {
    admission: Admission,
    options: CoordinatorOptions,
    tasks: TaskSet<TASK_WORDS>,
    sources: TaskSet<TASK_WORDS>,
    next_id: CheckpointId,
}

impl<const TASK_WORDS: usize, const PENDING: usize> Coordinator<TASK_WORDS, PENDING> {
    /// The most actions that one event gives.
    pub const ACTIONS_MAX: usize = 16;

    /// A coordinator of a job that does not run yet. Its first checkpoint gets `next_id`.
    ///
    /// # Errors
    /// [`InvalidOptions`] (rule T5).
    pub fn new(
        options: CoordinatorOptions,
        tasks: TaskSet<TASK_WORDS>,
        sources: TaskSet<TASK_WORDS>,
        next_id: CheckpointId,
    ) -> Result<Self, InvalidOptions> {
        Ok(Self { admission: Admission::default(), options, tasks, sources, next_id })
    }

    /// Takes an event and writes what must be done into `out`, in order.
    ///
    /// # Errors
    /// [`Rejected`]; the coordinator is unchanged.
    pub fn on_event(
        &mut self,
        now: Now,
        event: CoordinatorEvent,
        out: &mut VecView<CoordinatorAction<TASK_WORDS>>,
    ) -> Result<(), Rejected> {
        self.admission.admit(now, out, Self::ACTIONS_MAX)?;
        let _ = (event, self.options, self.tasks, self.sources);
        Ok(())
    }

    /// When to send `DeadlineReached`, by the monotonic clock. A time that is not after `now`: at once, because
    /// the last event left actions behind that did not fit.
    #[must_use]
    pub const fn next_deadline(&self, _now: Now) -> Option<Millis> {
        None
    }

    /// The newest checkpoint that is complete.
    #[must_use]
    pub const fn latest_completed(&self) -> Option<CheckpointId> {
        None
    }

    /// How many checkpoints are pending.
    #[must_use]
    pub const fn pending_count(&self) -> usize {
        0
    }

    /// The id that the next checkpoint gets.
    #[must_use]
    pub const fn next_id(&self) -> CheckpointId {
        self.next_id
    }

    /// Asserts every invariant.
    pub fn check(&self) {
        assert!(self.admission.broken().is_none());
    }
}

//! Decides when a checkpoint starts, when it is complete and what becomes of it (Flink: `CheckpointCoordinator`).
//!
//! A checkpoint gets its id and its time-out first, then its folder, and only then do the tasks hear of it. When all
//! of them have acknowledged, its manifest is ordered. From there on nothing but the manifest's writer decides: time-outs,
//! declines, the end of the job and even `ShutDown` leave it alone, because the manifest may be durable already. So
//! wait for that report before choosing what to restore.
//!
//! A checkpoint that is given up takes no more acknowledgements at once. If one event ends so many that the actions do
//! not fit, the rest is announced at the next events, and `next_deadline` asks for one immediately. A checkpoint given
//! up while its folder is being made keeps a slot until the report comes; without a free slot requests wait (as rule
//! T20 lets them wait for checkpoints being cleaned up). The work of each event is bounded by `TASK_WORDS` and
//! the square of `PENDING`.
//!
//! # Invariants
//! - CI1: checkpoints have different ids, all given out by this coordinator.
//! - CI2: no more than `max_concurrent` checkpoints are pending.
//! - CI3: at most one of them awaits its folder.
//! - CI4: a checkpoint that can be aborted awaits a task, one that awaits its manifest does not.
//! - CI5: only tasks of the job are awaited.
//! - CI6: requests wait only while the job runs.
//! - CI7: no checkpoint that can be aborted is older than the newest complete one.

mod checkpoint;
mod failures;
mod options;
mod requests;
mod steps;
#[cfg(test)]
mod tests;
mod trigger;
#[cfg(test)]
mod walk;

use heapless::VecView;

use checkpoint::{Checkpoint, Stage};
use failures::Failures;
pub use options::{CoordinatorOptions, InvalidOptions};
use requests::Requests;

use crate::bit_set::BitSet;
use crate::ids::{Barrier, CheckpointId, TaskIndex};
use crate::machine::{Admission, Orders, Rejected, first_broken};
use crate::reason::FailureReason;
use crate::recent_ids::RecentIds;
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
    /// The job left the running state: everything waiting or pending is given up, but for a manifest being written.
    JobStopped,
    /// The end: as `JobStopped`, and nothing is triggered, acknowledged or declined any more.
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
    /// Drop what the tasks of an aborted checkpoint have written: a manifest first, if there is one, its folder last.
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

/// Up to `PENDING` checkpoints of a job of up to `32 * TASK_WORDS` tasks, of which one less may be pending at once.
#[derive(Clone, Debug)]
pub struct Coordinator<const TASK_WORDS: usize, const PENDING: usize> {
    admission: Admission,
    options: CoordinatorOptions,
    tasks: TaskSet<TASK_WORDS>,
    sources: TaskSet<TASK_WORDS>,
    state: State,
    checkpoints: [Option<Checkpoint<TASK_WORDS>>; PENDING],
    requests: Requests,
    failures: Failures,
    first_id: CheckpointId,
    next_id: CheckpointId,
    latest_completed: Option<CheckpointId>,
    /// Which of the last checkpoints are complete: their files must stay whatever comes late.
    completed: RecentIds,
    last_completion: Option<Millis>,
    random: u64,
}

/// Whether checkpoints may start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Stopped,
    Running { next_trigger: Option<Millis> },
    ShutDown,
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
        options.validate(PENDING, &tasks, &sources)?;
        Ok(Self {
            admission: Admission::default(),
            options,
            tasks,
            sources,
            state: State::Stopped,
            checkpoints: [None; PENDING],
            requests: Requests::default(),
            failures: Failures::new(options.tolerable_failures),
            first_id: next_id,
            next_id,
            latest_completed: None,
            completed: RecentIds::default(),
            last_completion: None,
            random: options.seed,
        })
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
        self.validate(event)?;
        let mut orders = Orders::new(out, Self::ACTIONS_MAX);
        self.step(now, event, &mut orders);
        self.announce_aborted(&mut orders);
        self.poll(now, &mut orders);
        self.admission.conclude(&orders, self.broken_invariant())
    }

    fn step(
        &mut self,
        now: Now,
        event: CoordinatorEvent,
        orders: &mut Orders<'_, CoordinatorAction<TASK_WORDS>>,
    ) {
        use CoordinatorEvent as E;
        match (self.state, event) {
            (State::ShutDown, E::JobStarted | E::JobStopped | E::ShutDown) => {}
            (State::ShutDown, E::Acknowledged { .. } | E::Declined { .. } | E::TaskFailed(_)) => {} // Rule T14.
            (State::Stopped, E::JobStarted) => self.stopped_on_job_started(now),
            (State::Running { .. }, E::JobStarted) | (State::Stopped, E::JobStopped) => {} // Rule T6.
            (State::Running { .. }, E::JobStopped) => {
                self.stop(State::Stopped, FailureReason::CheckpointCoordinatorSuspend, orders);
            }
            (_, E::ShutDown) => {
                self.stop(State::ShutDown, FailureReason::CheckpointCoordinatorShutdown, orders);
            }
            (_, E::DeadlineReached) => self.on_deadline(now),
            (_, E::CheckpointRequested(request)) => self.on_requested(request, orders),
            (_, E::LocationPrepared(id)) => self.on_location_prepared(id, orders),
            (_, E::LocationFailed(id)) => self.on_location_failed(id),
            (_, E::Acknowledged { id, task }) => self.on_acknowledged(id, task, orders),
            (_, E::Declined { id, reason, .. }) => self.on_declined(id, reason),
            (_, E::TaskFailed(task)) => self.on_task_failed(task),
            (_, E::ManifestPersisted(id)) => self.on_manifest_persisted(now, id, orders),
            (_, E::ManifestFailed(id)) => self.on_manifest_failed(id),
        }
    }

    /// When to send `DeadlineReached`, by the monotonic clock. `now` itself means at once: the last event ended more
    /// checkpoints than its actions could tell of.
    #[must_use]
    pub fn next_deadline(&self, now: Now) -> Option<Millis> {
        let alive = self.checkpoints.iter().flatten();
        let due = alive.filter_map(|checkpoint| match checkpoint.stage {
            Stage::Aborted { .. } => Some(now.monotonic),
            Stage::AwaitingLocation | Stage::AwaitingAcknowledgements => Some(checkpoint.expires_at),
            Stage::AwaitingManifest | Stage::Orphaned => None,
        });
        due.chain(self.state.next_trigger()).min()
    }

    /// The newest checkpoint that is complete.
    #[must_use]
    pub const fn latest_completed(&self) -> Option<CheckpointId> {
        self.latest_completed
    }

    /// How many checkpoints may still complete.
    #[must_use]
    pub fn pending_count(&self) -> usize {
        self.checkpoints.iter().flatten().filter(|checkpoint| checkpoint.is_pending()).count()
    }

    /// Whether no report is outstanding and nothing remains to be announced.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.checkpoints.iter().all(Option::is_none)
    }

    /// The id that the next checkpoint gets.
    #[must_use]
    pub const fn next_id(&self) -> CheckpointId {
        self.next_id
    }

    /// Asserts every invariant.
    ///
    /// # Panics
    /// If one does not hold.
    pub fn check(&self) {
        assert_eq!(self.broken_invariant(), None);
    }

    fn broken_invariant(&self) -> Option<&'static str> {
        let all = || self.checkpoints.iter().flatten();
        let given_out = self.first_id..self.next_id;
        let is_once = |id| all().filter(|other| other.id == id).count() == 1;
        let awaiting_folder = all().filter(|checkpoint| checkpoint.stage == Stage::AwaitingLocation).count();
        let is_awaited_right = |checkpoint: &Checkpoint<TASK_WORDS>| {
            if checkpoint.can_be_aborted() {
                return !checkpoint.awaited.is_empty();
            }
            checkpoint.stage != Stage::AwaitingManifest || checkpoint.awaited.is_empty()
        };
        first_broken(&[
            ("CI1", all().all(|checkpoint| is_once(checkpoint.id) && given_out.contains(&checkpoint.id))),
            ("CI2", self.pending_count() <= usize::from(self.options.max_concurrent)),
            ("CI3", awaiting_folder <= 1),
            ("CI4", all().all(is_awaited_right)),
            ("CI5", all().all(|checkpoint| checkpoint.awaited.is_subset(&self.tasks))),
            ("CI6", self.requests.is_empty() || matches!(self.state, State::Running { .. })),
            ("CI7", all().all(|other| !other.can_be_aborted() || Some(other.id) > self.latest_completed)),
        ])
    }
}

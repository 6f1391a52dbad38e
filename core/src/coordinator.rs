//! Decides when a checkpoint starts, when it is complete and what becomes of it (Flink: `CheckpointCoordinator`).
//!
//! A checkpoint gets its id and its time-out first, then its folder, then the state of operators' coordinators and of
//! hooks, and only then do the tasks hear of it. When all of them have acknowledged, its manifest is ordered. From
//! there on nothing but the manifest's writer and the store decide: time-outs, declines, the end of the job and even
//! `ShutDown` leave it alone, because the manifest may be durable already. So wait for those reports before choosing
//! what to restore.
//!
//! A checkpoint that is given up takes no more acknowledgements at once. If one event ends so many checkpoints or
//! requests that the actions do not fit, the rest is announced at the next events, and `next_deadline` asks for one
//! immediately. A checkpoint given up while its folder is being made keeps a slot until the report comes; without a
//! free slot requests wait (as rule T20 lets them wait for checkpoints being cleaned up). The work of each event is
//! bounded by `TASK_WORDS` and the squares of `PENDING` and `QUEUE`, and by the graph where tasks have finished.
//!
//! # Invariants
//! - CI1: checkpoints have different ids, all given out by this coordinator.
//! - CI2: no more than `max_concurrent_checkpoints` checkpoints that were not forced are pending.
//! - CI3: at most one of them is not known to its tasks yet.
//! - CI4: a checkpoint that can be aborted awaits a task, one that awaits its manifest or the store does not;
//!   at most one awaits the store.
//! - CI5: only tasks that take part are awaited or triggered, and somebody is triggered.
//! - CI6: a periodic request waits only while periodic checkpoints are on, and nothing waits after the end.
//! - CI7: no checkpoint that can be aborted and subsumed is older than the newest that subsumes.
//! - CI8: requests lie in the order in which they are served.
//! - CI9: no task both runs and has finished.

mod abort;
mod action;
mod checkpoint;
mod completion;
#[cfg(test)]
mod enumeration;
mod event;
mod failures;
mod finished;
pub mod gateways;
mod graph;
mod hooks;
mod options;
mod plan;
mod requests;
mod schedule;
pub mod statistics;
mod steps;
mod tasks;
#[cfg(test)]
mod tests;
mod trigger;
#[cfg(test)]
mod walk;

use heapless::VecView;

pub use action::{CoordinatorAction, Notification, Participant, ParticipantSet};
use checkpoint::Checkpoint;
pub use event::{Attempt, CoordinatorEvent, RequestKind, RestoredFrom, TaskReport, TaskState, TriggerError};
use failures::Failures;
pub use finished::{FinishedState, ModifiedGraph};
pub use graph::{Edge, EdgePattern, Graph, InvalidGraph, JobGraph, Sources};
pub use hooks::{HookRestore, Hooks, InvalidHooks};
pub use options::{CoordinatorOptions, InvalidOptions};
use requests::Requests;
use schedule::Schedule;
use tasks::Tasks;

use crate::bit_set::BitSet;
use crate::ids::CheckpointId;
use crate::machine::{self, Admission, Rejected, first_broken};
use crate::recent_ids::RecentIds;
use crate::time::{Millis, Now};

/// The tasks of a job.
pub type TaskSet<const TASK_WORDS: usize> = BitSet<TASK_WORDS>;

type Orders<'a, const TASK_WORDS: usize> = machine::Orders<'a, CoordinatorAction<TASK_WORDS>>;

/// Names a request for a checkpoint, chosen by the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestToken(pub u32);

/// Up to `PENDING` checkpoints of a job of up to `32 * TASK_WORDS` tasks, of which one less may be pending at once
/// without force, and up to `QUEUE` requests that wait.
#[derive(Clone, Debug)]
pub struct Coordinator<
    const TASK_WORDS: usize,
    const PENDING: usize,
    const QUEUE: usize = 8,
    G = Sources<TASK_WORDS>,
> {
    admission: Admission,
    options: CoordinatorOptions,
    graph: G,
    tasks: Tasks<TASK_WORDS>,
    schedule: Schedule,
    checkpoints: [Option<Checkpoint<TASK_WORDS>>; PENDING],
    requests: Requests<QUEUE>,
    failures: Failures,
    /// How many checkpoints are being cleaned up (rule S9).
    cleaning: u16,
    first_id: CheckpointId,
    next_id: CheckpointId,
    latest_completed: Option<CheckpointId>,
    /// The newest complete one that has made older ones pointless.
    latest_subsuming: Option<CheckpointId>,
    /// Which of the last checkpoints are, or may be, complete: their files must stay whatever comes late.
    completed: RecentIds,
    expired: RecentIds,
    /// The next checkpoint shares nothing with what the job was restored from (rule V8).
    force_full: bool,
    has_base: bool,
}

impl<const TASK_WORDS: usize, const PENDING: usize, const QUEUE: usize, G: Graph<TASK_WORDS>>
    Coordinator<TASK_WORDS, PENDING, QUEUE, G>
{
    /// The most actions that one event gives.
    pub const ACTIONS_MAX: usize = 12;

    /// A coordinator of a job that does not run yet. Its first checkpoint gets `next_id`.
    ///
    /// # Errors
    /// [`InvalidOptions`] (rule T5).
    pub fn new(options: CoordinatorOptions, graph: G, next_id: CheckpointId) -> Result<Self, InvalidOptions> {
        options.validate((PENDING, QUEUE), &graph, next_id)?;
        Ok(Self {
            admission: Admission::default(),
            options,
            tasks: Tasks::of(&graph),
            graph,
            schedule: Schedule::new(options.seed),
            checkpoints: [None; PENDING],
            requests: Requests::new(),
            failures: Failures::new(options.tolerable_failed_checkpoints),
            cleaning: 0,
            first_id: next_id,
            next_id,
            latest_completed: None,
            latest_subsuming: None,
            completed: RecentIds::default(),
            expired: RecentIds::default(),
            force_full: false,
            has_base: false,
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
        if !self.schedule.is_shut_down() || event.outlives_the_coordinator() {
            self.step(now, event, &mut orders);
        }
        self.announce_refused(&mut orders);
        self.announce_aborted(&mut orders);
        self.poll(now, &mut orders);
        self.admission.conclude(&orders, self.broken_invariant())
    }

    fn step(&mut self, now: Now, event: CoordinatorEvent, orders: &mut Orders<'_, TASK_WORDS>) {
        use CoordinatorEvent as E;
        match event {
            E::JobStarted => self.on_job_changed(now, true),
            E::JobStopped => self.on_job_changed(now, false),
            E::ShutDown => self.on_shut_down(orders),
            E::TaskChanged { attempt, state } => self.on_task_changed(now, attempt, state),
            E::TaskFailed(attempt) => self.on_task_failed(attempt),
            E::PeriodicPaused => self.on_periodic_wanted(now, false),
            E::PeriodicResumed => self.on_periodic_wanted(now, true),
            E::BacklogChanged { source, is_behind } => self.on_backlog_changed(now, source, is_behind),
            E::DeadlineReached => self.on_deadline(now, orders),
            E::CheckpointRequested { request, kind } => self.on_requested(now, request, kind, orders),
            E::LocationPrepared(id) => self.on_location_prepared(id, orders),
            E::LocationFailed { id, error } => self.on_location_failed(id, error),
            E::OperatorCoordinatorAcknowledged { id, coordinator } => {
                self.on_participant(id, Participant::OperatorCoordinator(coordinator), orders);
            }
            E::HookAcknowledged { id, hook } => self.on_participant(id, Participant::Hook(hook), orders),
            E::OperatorCoordinatorFailed { id, error, .. }
            | E::HookFailed { id, error, .. }
            | E::TriggerFailed { id, error, .. } => self.abort(id, error.reason()),
            E::Acknowledged { id, by, report } => self.on_acknowledged(id, by, report, orders),
            E::Declined { id, by, reason } => self.on_declined(id, by.task, reason),
            E::ManifestPersisted(id) => self.on_manifest_persisted(now, id, orders),
            E::ManifestFailed(id) => self.on_manifest_failed(id),
            E::Stored { id, subsumed } => self.on_stored(now, id, subsumed, orders),
            E::StoreFailed { id, may_be_stored } => self.on_store_failed(id, may_be_stored, orders),
            E::CleaningStarted => self.cleaning = self.cleaning.saturating_add(1),
            E::CleaningEnded => self.cleaning = self.cleaning.saturating_sub(1),
            E::Restored(from) => self.on_restored(from, orders),
        }
    }

    /// When to send `DeadlineReached`, by the monotonic clock. `now` itself means at once: the last event ended more
    /// than its actions could tell of.
    #[must_use]
    pub fn next_deadline(&self, now: Now) -> Option<Millis> {
        let alive = self.checkpoints.iter().flatten();
        let due = alive.filter_map(|checkpoint| match checkpoint.stage.aborted() {
            Some(_) => Some(now.monotonic),
            None => checkpoint.stage.can_be_aborted().then_some(checkpoint.expires_at),
        });
        let at_once = self.requests.has_refused() || self.may_choose();
        due.chain(at_once.then_some(now.monotonic)).chain(self.schedule.next_trigger()).min()
    }

    /// The newest checkpoint that is complete; savepoints do not count.
    #[must_use]
    pub const fn latest_completed(&self) -> Option<CheckpointId> {
        self.latest_completed
    }

    /// How many checkpoints may still complete.
    #[must_use]
    pub fn pending_count(&self) -> usize {
        self.checkpoints.iter().flatten().filter(|checkpoint| checkpoint.stage.is_pending()).count()
    }

    /// Whether no report is outstanding but those of cleaning, and nothing remains to be announced.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.checkpoints.iter().all(Option::is_none) && !self.requests.has_refused()
    }

    /// The id that the next checkpoint gets.
    #[must_use]
    pub const fn next_id(&self) -> CheckpointId {
        self.next_id
    }

    /// The graph of the job.
    #[must_use]
    pub const fn graph(&self) -> &G {
        &self.graph
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
        let count = |wanted: fn(&Checkpoint<TASK_WORDS>) -> bool| all().filter(|other| wanted(other)).count();
        let unforced = count(|other| other.stage.is_pending() && !other.is_forced);
        let periodic = self.requests.has_periodic();
        let is_over = self.schedule.is_shut_down();
        first_broken(&[
            ("CI1", all().all(|checkpoint| is_once(checkpoint.id) && given_out.contains(&checkpoint.id))),
            ("CI2", unforced <= usize::from(self.options.max_concurrent_checkpoints)),
            ("CI3", count(|other| other.stage.is_triggering()) <= 1),
            ("CI4", all().all(Checkpoint::is_awaited_right) && count(Checkpoint::is_offered) <= 1),
            ("CI5", all().all(Checkpoint::is_planned_right)),
            ("CI6", (!periodic || self.schedule.is_on()) && !(is_over && self.requests.first().is_some())),
            ("CI7", all().all(|other| !other.is_pointless(self.latest_subsuming))),
            ("CI8", self.requests.is_sorted()),
            ("CI9", self.tasks.running.is_disjoint(&self.tasks.finished)),
        ])
    }
}

//! Rules and worked sequences of the coordinator, and the public bugs that struck it.
//!
//! Unless a test says otherwise, the job has a source S, a task M in the middle and a sink K.

mod bugs;
mod invariants;
mod limits;
mod pending;
mod plan;
mod requests;
mod sequences;
mod trigger;

use std::vec::Vec;

use super::{
    Attempt, Coordinator, CoordinatorAction, CoordinatorEvent, CoordinatorOptions, Edge, EdgePattern, Graph,
    InvalidOptions, JobGraph, Notification, Participant, RequestKind, RequestToken, TaskReport, TaskSet,
    TaskState, TriggerError,
};
use crate::ids::{
    Alignment, AlignmentOptions, Barrier, CheckpointId, Guarantee, SavepointFormat, SnapshotKind, TaskIndex,
};
use crate::machine::Rejected;
use crate::reason::FailureReason;
use crate::time::{Millis, Now};

use CoordinatorEvent::{
    DeadlineReached, JobStarted, JobStopped, LocationPrepared, ManifestFailed, ManifestPersisted, ShutDown,
};

type Action = CoordinatorAction<1>;
type Flow = JobGraph<1, 4, 4>;
type Machine = Coordinator<1, 4, 8, Flow>;

const S: TaskIndex = TaskIndex(0);
const M: TaskIndex = TaskIndex(1);
const K: TaskIndex = TaskIndex(2);
const ALL: [TaskIndex; 3] = [S, M, K];

/// What the wall clock is ahead of the monotonic one.
const WALL: u64 = 1_000_000;

const SAVEPOINT: RequestKind = RequestKind::Savepoint(SavepointFormat::Canonical);
const DRAIN: RequestKind = RequestKind::Drain(SavepointFormat::Native);

const ALIGNED: AlignmentOptions =
    AlignmentOptions { guarantee: Guarantee::ExactlyOnce, unaligned: false, aligned_timeout: None };
const UNALIGNED: AlignmentOptions = AlignmentOptions { unaligned: true, ..ALIGNED };

const MANUAL: CoordinatorOptions = CoordinatorOptions {
    interval: None,
    interval_during_backlog: None,
    timeout: Millis(1_000),
    min_pause: Millis(0),
    max_concurrent_checkpoints: 2,
    tolerable_failed_checkpoints: u32::MAX,
    alignment: ALIGNED,
    checkpoints_after_tasks_finish: true,
    kind: SnapshotKind::Checkpoint,
    operator_coordinators: 0,
    hooks: 0,
    seed: 7,
};

const PERIODIC: CoordinatorOptions = CoordinatorOptions {
    interval: Some(Millis(100)),
    max_concurrent_checkpoints: 1,
    timeout: Millis(60_000),
    ..MANUAL
};

#[derive(Clone)]
struct Bench<const PENDING: usize = 4, const QUEUE: usize = 8> {
    machine: Coordinator<1, PENDING, QUEUE, Flow>,
    at: u64,
    /// Whoever cleans up is done at once.
    cleans_at_once: bool,
}

impl Bench {
    /// A coordinator of a running job.
    fn new(options: CoordinatorOptions) -> Self {
        Self::with(options)
    }
}

impl<const PENDING: usize, const QUEUE: usize> Bench<PENDING, QUEUE> {
    fn with(options: CoordinatorOptions) -> Self {
        Self::of(options, chain(), CheckpointId::FIRST)
    }

    fn of(options: CoordinatorOptions, graph: Flow, next_id: CheckpointId) -> Self {
        let mut bench = Self::idle(options, graph, next_id);
        let tasks = bench.machine.graph().tasks();
        tasks.iter().for_each(|task| assert_eq!(bench.set(0, TaskIndex(task), TaskState::Running), []));
        assert_eq!(bench.send(0, JobStarted), []);
        bench
    }

    /// A coordinator of a job that does not run yet.
    fn idle(options: CoordinatorOptions, graph: Flow, next_id: CheckpointId) -> Self {
        let machine = Coordinator::new(options, graph, next_id).unwrap();
        Self { machine, at: 0, cleans_at_once: true }
    }

    fn now(&self) -> Now {
        Now { monotonic: Millis(self.at), wall: Millis(self.at + WALL) }
    }

    fn try_send(&mut self, at: u64, event: CoordinatorEvent) -> Result<Vec<Action>, Rejected> {
        let mut out = heapless::Vec::<_, { Machine::ACTIONS_MAX }>::new();
        self.at = at;
        self.machine.on_event(self.now(), event, &mut out)?;
        self.machine.check();
        let mut actions: Vec<_> = out.into_iter().collect();
        let discards = actions.iter().filter(|action| matches!(action, Action::DiscardAcknowledged(_)));
        for _ in 0..discards.count() {
            if self.cleans_at_once {
                actions.extend(self.send(at, CoordinatorEvent::CleaningEnded));
            }
        }
        Ok(actions)
    }

    fn send(&mut self, at: u64, event: CoordinatorEvent) -> Vec<Action> {
        self.try_send(at, event).unwrap()
    }

    /// What is refused because the event makes no sense here.
    fn refuses(&mut self, at: u64, event: CoordinatorEvent) -> bool {
        matches!(self.try_send(at, event), Err(Rejected::Unexpected { .. } | Rejected::OutOfRange { .. }))
    }

    fn set(&mut self, at: u64, task: TaskIndex, state: TaskState) -> Vec<Action> {
        self.send(at, CoordinatorEvent::TaskChanged { attempt: Attempt::first(task), state })
    }

    fn request(&mut self, at: u64, token: u32) -> Vec<Action> {
        self.request_kind(at, token, RequestKind::Configured)
    }

    fn request_kind(&mut self, at: u64, token: u32, kind: RequestKind) -> Vec<Action> {
        self.send(at, CoordinatorEvent::CheckpointRequested { request: RequestToken(token), kind })
    }

    /// Each task acknowledges; gives what is ordered beside keeping its part.
    fn acknowledge(&mut self, at: u64, number: u64, tasks: &[TaskIndex]) -> Vec<Action> {
        let each = tasks.iter().flat_map(|&task| self.report(at, number, task, TaskReport::default()));
        each.filter(|action| !matches!(action, Action::KeepPart { .. })).collect()
    }

    fn report(&mut self, at: u64, number: u64, task: TaskIndex, report: TaskReport) -> Vec<Action> {
        self.send(at, CoordinatorEvent::Acknowledged { id: id(number), by: Attempt::first(task), report })
    }

    fn decline(&mut self, at: u64, number: u64, task: TaskIndex, reason: FailureReason) -> Vec<Action> {
        self.send(at, CoordinatorEvent::Declined { id: id(number), by: Attempt::first(task), reason })
    }

    fn fail_task(&mut self, at: u64, task: TaskIndex) -> Vec<Action> {
        self.send(at, CoordinatorEvent::TaskFailed(Attempt::first(task)))
    }

    /// Requests checkpoint `number` and triggers the tasks.
    fn start(&mut self, at: u64, number: u64) {
        self.start_kind(at, number, RequestKind::Configured);
    }

    fn start_kind(&mut self, at: u64, number: u64, kind: RequestKind) -> Vec<Action> {
        let began = self.request_kind(at, token(number).0, kind);
        assert!(matches!(began[..], [Action::PrepareLocation { .. }]), "{began:?}");
        let triggered = self.send(at, LocationPrepared(id(number)));
        assert!(matches!(triggered[..], [Action::TriggerTasks { .. }]), "{triggered:?}");
        triggered
    }

    /// Requests checkpoint `number` and takes it to where its manifest is written.
    fn start_and_acknowledge(&mut self, at: u64, number: u64) {
        self.start(at, number);
        assert_eq!(self.acknowledge(at, number, &ALL), [persist(number)]);
    }

    /// The manifest becomes durable and the store takes the checkpoint; gives what follows.
    fn store(&mut self, at: u64, number: u64) -> Vec<Action> {
        assert_eq!(self.send(at, ManifestPersisted(id(number))), [Action::AddToStore(id(number))]);
        self.send(at, CoordinatorEvent::Stored { id: id(number), subsumed: None })
    }

    /// Takes checkpoint `number` through without a hitch.
    fn complete(&mut self, at: u64, number: u64) {
        self.start_and_acknowledge(at, number);
        assert_eq!(self.store(at, number), completed(number));
    }

    fn deadline(&self) -> Option<u64> {
        self.machine.next_deadline(self.now()).map(|at| at.0)
    }

    /// Lets time pass to `until`, answering at once to whatever is ordered but acknowledgements; gives the times at
    /// which checkpoints start.
    fn starts_until(&mut self, until: u64) -> Vec<u64> {
        let mut starts = Vec::new();
        while let Some(at) = self.deadline().filter(|at| *at <= until) {
            for action in self.send(at.max(self.at), DeadlineReached) {
                if let Action::PrepareLocation { id, .. } = action {
                    starts.push(self.at);
                    self.send(self.at, LocationPrepared(id));
                }
            }
        }
        self.at = until;
        starts
    }
}

/// S, M and K, one after the other.
fn chain() -> Flow {
    graph(&[1, 1, 1], &[(0, 1, EdgePattern::AllToAll), (1, 2, EdgePattern::AllToAll)])
}

/// Vertices by their parallelism, and edges.
fn graph(vertices: &[u16], edges: &[(u16, u16, EdgePattern)]) -> Flow {
    let mut graph = Flow::new();
    for parallelism in vertices {
        graph.add_vertex(*parallelism).unwrap();
    }
    for &(from, to, pattern) in edges {
        graph.add_edge(Edge { from, to, pattern }).unwrap();
    }
    graph
}

fn set(tasks: impl IntoIterator<Item = u16>) -> TaskSet<1> {
    tasks.into_iter().collect()
}

fn id(number: u64) -> CheckpointId {
    CheckpointId(number)
}

fn token(number: u64) -> RequestToken {
    RequestToken(100 + u32::try_from(number).unwrap())
}

/// How the first checkpoint `number` of the kind configured begins if it was asked for in its name.
fn prepare(number: u64) -> Action {
    prepare_for(number, Some(token(number)))
}

fn prepare_for(number: u64, request: Option<RequestToken>) -> Action {
    let kind = SnapshotKind::Checkpoint;
    Action::PrepareLocation { id: id(number), kind, request, with_base: number == 1 }
}

fn trigger(number: u64, at: u64) -> Action {
    let barrier = Barrier {
        id: id(number),
        triggered_at: Millis(at + WALL),
        kind: SnapshotKind::Checkpoint,
        alignment: Alignment::Aligned,
    };
    Action::TriggerTasks { barrier, tasks: TaskSet::first(1) }
}

fn persist(number: u64) -> Action {
    Action::PersistManifest { id: id(number), finished: TaskSet::empty() }
}

fn keep(number: u64, task: TaskIndex) -> Action {
    Action::KeepPart { id: id(number), by: Attempt::first(task) }
}

fn notify_complete(number: u64) -> Action {
    let notification = Notification::Complete { id: id(number), last_subsumed: None };
    Action::Notify { tasks: TaskSet::first(3), notification }
}

fn notify_abort(number: u64, latest: Option<u64>) -> Action {
    let notification = Notification::Abort { id: id(number), latest_completed: latest.map(CheckpointId) };
    Action::Notify { tasks: TaskSet::first(3), notification }
}

fn completed(number: u64) -> [Action; 2] {
    [Action::RequestCompleted { request: token(number), id: id(number) }, notify_complete(number)]
}

fn failed(request: Option<RequestToken>, number: Option<u64>, reason: FailureReason) -> Action {
    Action::RequestFailed { request, id: number.map(CheckpointId), reason }
}

fn refused(request: impl Into<Option<u32>>, reason: FailureReason) -> Action {
    Action::RequestRefused { request: request.into().map(RequestToken), reason }
}

fn fail_job(reason: FailureReason, task: Option<TaskIndex>) -> Action {
    Action::FailJob { reason, task }
}

/// What follows when the requested checkpoint `number` is given up after its folder was made.
fn aborted(number: u64, reason: FailureReason, latest: Option<u64>) -> [Action; 3] {
    let discard = Action::DiscardAcknowledged(id(number));
    [failed(Some(token(number)), Some(number), reason), discard, notify_abort(number, latest)]
}

fn late(number: u64, task: TaskIndex) -> Action {
    Action::DiscardLate { id: id(number), by: Participant::Task(Attempt::first(task)), is_expired: false }
}

fn late_expired(number: u64, task: TaskIndex) -> Action {
    Action::DiscardLate { id: id(number), by: Participant::Task(Attempt::first(task)), is_expired: true }
}

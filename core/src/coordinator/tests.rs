//! Rules and worked sequences of the coordinator, and the public bugs that struck it.
//!
//! The job has a source S, a task M in the middle and a sink K.

use std::collections::BTreeSet;
use std::vec;
use std::vec::Vec;

use super::requests::REQUESTS_MAX;
use super::{
    Coordinator, CoordinatorAction, CoordinatorEvent, CoordinatorOptions, InvalidOptions, Notification,
    RequestToken, TaskSet,
};
use crate::ids::{Alignment, Barrier, CheckpointId, SnapshotKind, TaskIndex};
use crate::machine::Rejected;
use crate::reason::FailureReason;
use crate::time::{Millis, Now};

use CoordinatorEvent::{
    CheckpointRequested, DeadlineReached, JobStarted, JobStopped, LocationFailed, LocationPrepared,
    ManifestFailed, ManifestPersisted, ShutDown, TaskFailed,
};

type Action = CoordinatorAction<1>;
type Machine = Coordinator<1, 4>;

const S: TaskIndex = TaskIndex(0);
const M: TaskIndex = TaskIndex(1);
const K: TaskIndex = TaskIndex(2);

/// What the wall clock is ahead of the monotonic one.
const WALL: u64 = 1_000_000;

const MANUAL: CoordinatorOptions = CoordinatorOptions {
    interval: None,
    timeout: Millis(1_000),
    min_pause: Millis(0),
    max_concurrent: 2,
    tolerable_failures: u32::MAX,
    seed: 7,
};

const PERIODIC: CoordinatorOptions =
    CoordinatorOptions { interval: Some(Millis(100)), max_concurrent: 1, timeout: Millis(60_000), ..MANUAL };

struct Bench<const PENDING: usize> {
    machine: Coordinator<1, PENDING>,
    at: u64,
}

impl Bench<4> {
    /// A coordinator of a running job.
    fn new(options: CoordinatorOptions) -> Self {
        let mut bench = Self { machine: machine(options).unwrap(), at: 0 };
        assert_eq!(bench.send(0, JobStarted), []);
        bench
    }
}

impl<const PENDING: usize> Bench<PENDING> {
    fn now(&self) -> Now {
        Now { monotonic: Millis(self.at), wall: Millis(self.at + WALL) }
    }

    fn try_send(&mut self, at: u64, event: CoordinatorEvent) -> Result<Vec<Action>, Rejected> {
        let mut out = heapless::Vec::<_, { Machine::ACTIONS_MAX }>::new();
        self.at = at;
        self.machine.on_event(self.now(), event, &mut out)?;
        self.machine.check();
        Ok(out.into_iter().collect())
    }

    fn send(&mut self, at: u64, event: CoordinatorEvent) -> Vec<Action> {
        self.try_send(at, event).unwrap()
    }

    fn request(&mut self, at: u64, token: u32) -> Vec<Action> {
        self.send(at, CheckpointRequested(RequestToken(token)))
    }

    fn acknowledge(&mut self, at: u64, number: u64, tasks: &[TaskIndex]) -> Vec<Action> {
        let each = tasks
            .iter()
            .flat_map(|&task| self.send(at, CoordinatorEvent::Acknowledged { id: id(number), task }));
        each.collect()
    }

    fn decline(&mut self, at: u64, number: u64, task: TaskIndex, reason: FailureReason) -> Vec<Action> {
        self.send(at, CoordinatorEvent::Declined { id: id(number), task, reason })
    }

    /// Requests checkpoint `number` and triggers the tasks.
    fn start(&mut self, at: u64, number: u64) {
        assert_eq!(self.request(at, token(number).0), [prepare(number)]);
        assert_eq!(self.send(at, LocationPrepared(id(number))), [trigger(number, at)]);
    }

    /// Requests checkpoint `number` and takes it to where its manifest is written.
    fn start_and_acknowledge(&mut self, at: u64, number: u64) {
        self.start(at, number);
        assert_eq!(
            self.acknowledge(at, number, &[S, M, K]),
            [CoordinatorAction::PersistManifest(id(number))]
        );
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
                if let CoordinatorAction::PrepareLocation(id) = action {
                    starts.push(self.at);
                    self.send(self.at, LocationPrepared(id));
                }
            }
        }
        self.at = until;
        starts
    }
}

fn machine(options: CoordinatorOptions) -> Result<Machine, InvalidOptions> {
    Coordinator::new(options, TaskSet::first(3), TaskSet::first(1), CheckpointId::FIRST)
}

fn id(number: u64) -> CheckpointId {
    CheckpointId(number)
}

fn token(number: u64) -> RequestToken {
    RequestToken(100 + u32::try_from(number).unwrap())
}

fn prepare(number: u64) -> Action {
    CoordinatorAction::PrepareLocation(id(number))
}

fn trigger(number: u64, at: u64) -> Action {
    let barrier = Barrier {
        id: id(number),
        triggered_at: Millis(at + WALL),
        kind: SnapshotKind::Checkpoint,
        alignment: Alignment::Aligned,
    };
    CoordinatorAction::TriggerTasks { barrier, tasks: TaskSet::first(1) }
}

fn notify_complete(number: u64) -> Action {
    CoordinatorAction::NotifyAll(Notification::Complete(id(number)))
}

fn notify_abort(number: u64, latest: Option<u64>) -> Action {
    CoordinatorAction::NotifyAll(Notification::Abort {
        id: id(number),
        latest_completed: latest.map(CheckpointId),
    })
}

fn completed(number: u64) -> [Action; 2] {
    [CoordinatorAction::RequestCompleted { request: token(number), id: id(number) }, notify_complete(number)]
}

fn failed(request: Option<RequestToken>, number: Option<u64>, reason: FailureReason) -> Action {
    CoordinatorAction::RequestFailed { request, id: number.map(CheckpointId), reason }
}

/// What follows when the requested checkpoint `number` is given up after its folder was made.
fn aborted(number: u64, reason: FailureReason, latest: Option<u64>) -> [Action; 3] {
    let discard = CoordinatorAction::DiscardAcknowledged(id(number));
    [failed(Some(token(number)), Some(number), reason), discard, notify_abort(number, latest)]
}

fn late(number: u64, task: TaskIndex) -> Action {
    CoordinatorAction::DiscardLate { id: id(number), task }
}

#[test]
fn t5_options_that_cannot_work_are_refused() {
    let cases = [
        (
            CoordinatorOptions { interval: Some(Millis(9)), ..MANUAL },
            InvalidOptions::IntervalTooShort(Millis(9)),
        ),
        (CoordinatorOptions { timeout: Millis(9), ..MANUAL }, InvalidOptions::TimeoutTooShort(Millis(9))),
        (CoordinatorOptions { max_concurrent: 0, ..MANUAL }, InvalidOptions::NoConcurrency),
        (
            CoordinatorOptions { max_concurrent: 4, ..MANUAL },
            InvalidOptions::TooManyConcurrent { max_concurrent: 4, limit: 3 },
        ),
    ];
    for (options, error) in cases {
        assert_eq!(machine(options).unwrap_err(), error);
    }
    assert!(
        machine(CoordinatorOptions { interval: Some(Millis(10)), timeout: Millis(10), ..MANUAL }).is_ok()
    );
    let tasks = |tasks, sources| {
        let (tasks, sources) = (TaskSet::first(tasks), TaskSet::first(sources));
        Machine::new(MANUAL, tasks, sources, CheckpointId::FIRST).unwrap_err()
    };
    assert_eq!(tasks(0, 0), InvalidOptions::NoTasks);
    assert_eq!(tasks(3, 0), InvalidOptions::NoSources);
    assert_eq!(tasks(3, 4), InvalidOptions::SourceIsNoTask);
}

#[test]
fn t8_the_first_trigger_is_drawn_between_pause_and_interval() {
    let mut drawn = BTreeSet::new();
    for seed in 0..400 {
        let options =
            CoordinatorOptions { interval: Some(Millis(30)), min_pause: Millis(20), seed, ..PERIODIC };
        let first = Bench::new(options).deadline().unwrap();
        assert_eq!(Bench::new(options).deadline(), Some(first), "the seed decides");
        drawn.insert(first);
    }
    assert!(drawn.into_iter().eq(20..=30), "both ends included");
}

#[test]
fn t1_t2_a_long_pause_stretches_the_interval_and_none_means_no_periodic_checkpoints() {
    let stretched = CoordinatorOptions { min_pause: Millis(500), ..PERIODIC };
    assert_eq!(Bench::new(stretched).starts_until(500), [500]);
    for interval in [None, Some(Millis::MAX)] {
        assert_eq!(Bench::new(CoordinatorOptions { interval, ..MANUAL }).deadline(), None);
    }
    let year = 365 * 24 * 3_600_000;
    assert_eq!(
        Bench::new(CoordinatorOptions { min_pause: Millis(u64::MAX - 1), ..PERIODIC }).deadline(),
        Some(year)
    );
}

#[test]
fn t6_a_job_that_is_started_twice_keeps_its_next_trigger() {
    let mut bench = Bench::new(PERIODIC);
    let first = bench.deadline();
    assert_eq!(bench.send(5, JobStarted), []);
    assert_eq!(bench.deadline(), first);
    assert_eq!(bench.send(6, JobStopped), []);
    assert_eq!(bench.send(7, JobStopped), []);
    assert_eq!(bench.deadline(), None);
}

#[test]
fn t10_ticks_keep_their_rate_and_missed_ones_are_caught_up() {
    let mut bench = Bench::new(PERIODIC);
    let first = bench.deadline().unwrap();
    assert_eq!(bench.send(first - 1, DeadlineReached), [], "too early");
    assert_eq!(bench.send(first + 250, DeadlineReached), [prepare(1)]);
    assert_eq!(bench.deadline(), Some(first + 100));
    assert_eq!(bench.starts_until(first + 250), []);
    assert_eq!(bench.deadline(), Some(first + 300));
}

#[test]
fn t18_a_request_beyond_the_capacity_is_refused() {
    let mut bench = Bench::new(CoordinatorOptions { max_concurrent: 1, ..MANUAL });
    assert_eq!(bench.request(0, 0), [prepare(1)]);
    for waiting in 1..=8 {
        assert_eq!(bench.request(0, waiting), []);
    }
    let reason = FailureReason::TooManyCheckpointRequests;
    assert_eq!(bench.request(0, 9), [failed(Some(RequestToken(9)), None, reason)]);
}

#[test]
fn t17_t20_manual_requests_wait_for_their_turn_before_periodic_ones() {
    let mut bench = Bench::new(PERIODIC);
    assert_eq!(bench.starts_until(100).len(), 1);
    assert_eq!(bench.starts_until(200), [], "the periodic request waits");
    assert_eq!(bench.request(210, 102), [], "so does the manual one");
    assert_eq!(bench.acknowledge(220, 1, &[S, M, K]), [CoordinatorAction::PersistManifest(id(1))]);
    assert_eq!(bench.send(230, ManifestPersisted(id(1))), [notify_complete(1), prepare(2)]);
    bench.send(230, LocationPrepared(id(2)));
    bench.acknowledge(240, 2, &[S, M, K]);
    let [done, told] = completed(2);
    assert_eq!(bench.send(250, ManifestPersisted(id(2))), [done, told, prepare(3)]);
}

#[test]
fn t20_a_periodic_request_inside_the_pause_fails_and_the_trigger_moves() {
    let mut bench = Bench::new(CoordinatorOptions { min_pause: Millis(50), ..PERIODIC });
    let first = bench.starts_until(100)[0];
    bench.acknowledge(first, 1, &[S, M, K]);
    assert_eq!(bench.starts_until(first + 100), [], "waits for the pending one");
    let at = first + 130;
    let reason = FailureReason::MinimumTimeBetweenCheckpoints;
    assert_eq!(bench.send(at, ManifestPersisted(id(1))), [notify_complete(1), failed(None, None, reason)]);
    assert_eq!(bench.deadline(), Some(at + 50));
    assert_eq!(bench.starts_until(at + 149), [at + 50]);
}

#[test]
fn t21_a_manual_request_skips_the_pause() {
    let mut bench = Bench::new(CoordinatorOptions { min_pause: Millis(500), ..MANUAL });
    bench.start_and_acknowledge(0, 1);
    assert_eq!(bench.send(1, ManifestPersisted(id(1))), completed(1));
    bench.start(2, 2);
}

#[test]
fn t25_requests_of_a_job_that_does_not_run_fail_at_once() {
    let mut bench = Bench { machine: machine(MANUAL).unwrap(), at: 0 };
    let token = RequestToken(1);
    let failed = |reason| [failed(Some(token), None, reason)];
    assert_eq!(bench.request(0, 1), failed(FailureReason::NotAllRequiredTasksRunning));
    assert_eq!(bench.send(0, ShutDown), []);
    assert_eq!(bench.send(0, JobStarted), []);
    assert_eq!(bench.request(0, 1), failed(FailureReason::CheckpointCoordinatorShutdown));
}

#[test]
fn t31_a_folder_that_cannot_be_made_fails_with_an_io_exception_and_is_left_alone() {
    let mut bench = Bench::new(CoordinatorOptions { tolerable_failures: 0, ..MANUAL });
    assert_eq!(bench.request(0, 1), [prepare(1)]);
    let reason = FailureReason::IoException;
    let told = [
        failed(Some(RequestToken(1)), Some(1), reason),
        CoordinatorAction::FailJob(reason),
        notify_abort(1, None),
    ];
    assert_eq!(bench.send(0, LocationFailed(id(1))), told);
    assert!(bench.machine.is_idle());
    bench.start(1, 2);
}

#[test]
fn w1_the_last_acknowledgement_orders_the_manifest_and_its_report_completes() {
    let mut bench = Bench::new(MANUAL);
    bench.start(10, 1);
    assert_eq!(bench.acknowledge(11, 1, &[S, M]), []);
    assert_eq!(bench.acknowledge(12, 1, &[K]), [CoordinatorAction::PersistManifest(id(1))]);
    assert_eq!(bench.send(13, ManifestPersisted(id(1))), completed(1));
    assert_eq!(bench.machine.latest_completed(), Some(id(1)));
    assert!(bench.machine.is_idle());
}

#[test]
fn p5_p10_w2_a_repeated_acknowledgement_changes_and_discards_nothing() {
    let mut bench = Bench::new(MANUAL);
    bench.start(0, 1);
    assert_eq!(bench.acknowledge(0, 1, &[S, S, M, M]), []);
    assert_eq!(bench.acknowledge(0, 1, &[K, K]), [CoordinatorAction::PersistManifest(id(1))]);
    bench.send(0, ManifestPersisted(id(1)));
    assert_eq!(bench.acknowledge(0, 1, &[S]), [], "its files belong to a complete checkpoint");
    for number in 2..=200 {
        bench.start_and_acknowledge(0, number);
        bench.send(0, ManifestPersisted(id(number)));
    }
    assert_eq!(bench.acknowledge(0, 1, &[S]), [], "nor is it discarded when nobody remembers");
}

#[test]
fn w3_an_acknowledgement_from_elsewhere_is_refused() {
    let mut bench = Bench::new(MANUAL);
    bench.start(0, 1);
    for (number, task) in [(0, S), (2, S), (1, TaskIndex(3)), (1, TaskIndex(1_000))] {
        let refusal = bench.try_send(0, CoordinatorEvent::Acknowledged { id: id(number), task });
        assert!(matches!(refusal, Err(Rejected::Unexpected { .. })), "{number} {task:?}");
    }
}

#[test]
fn p16_p17_w4_a_newer_completion_subsumes_older_checkpoints() {
    let mut bench = Bench::new(MANUAL);
    bench.start(0, 1);
    bench.start_and_acknowledge(0, 2);
    let told = [completed(2).as_slice(), &aborted(1, FailureReason::CheckpointSubsumed, Some(2))].concat();
    assert_eq!(bench.send(1, ManifestPersisted(id(2))), told);
    assert_eq!(bench.acknowledge(2, 1, &[S]), [late(1, S)]);
}

#[test]
fn p25_w7_an_expired_checkpoint_is_given_up_and_what_comes_late_is_discarded() {
    let mut bench = Bench::new(MANUAL);
    bench.start(0, 1);
    bench.acknowledge(0, 1, &[S]);
    assert_eq!(bench.deadline(), Some(1_000));
    assert_eq!(bench.send(999, DeadlineReached), []);
    assert_eq!(bench.send(1_000, DeadlineReached), aborted(1, FailureReason::CheckpointExpired, None));
    assert_eq!(bench.acknowledge(1_001, 1, &[M]), [late(1, M)]);
    assert_eq!(bench.decline(1_001, 1, K, FailureReason::CheckpointDeclined), []);
}

#[test]
fn p26_w8_a_decline_ends_the_checkpoint_once_and_counts() {
    let mut bench = Bench::new(CoordinatorOptions { tolerable_failures: 1, ..MANUAL });
    let declined = FailureReason::CheckpointDeclined;
    bench.start(0, 1);
    assert_eq!(bench.decline(1, 1, M, declined), aborted(1, declined, None));
    assert_eq!(bench.decline(1, 1, K, declined), []);
    bench.start(2, 2);
    let [request, discard, told] = aborted(2, declined, None);
    assert_eq!(
        bench.decline(3, 2, M, declined),
        [request, discard, CoordinatorAction::FailJob(declined), told]
    );
}

#[test]
fn f6_reasons_that_do_not_count_never_fail_the_job() {
    let mut bench = Bench::new(CoordinatorOptions { tolerable_failures: 0, ..MANUAL });
    for (number, reason) in (1..).zip(FailureReason::ALL.iter().filter(|reason| !reason.counts())) {
        bench.start(0, number);
        assert_eq!(bench.decline(0, number, M, *reason), aborted(number, *reason, None));
    }
}

#[test]
fn p22_w9_a_task_that_dies_ends_what_it_has_not_acknowledged() {
    let mut bench = Bench::new(MANUAL);
    bench.start(0, 1);
    bench.acknowledge(0, 1, &[S]);
    assert_eq!(bench.send(1, TaskFailed(S)), []);
    assert_eq!(bench.send(2, TaskFailed(M)), aborted(1, FailureReason::TaskFailure, None));
}

#[test]
fn t9_t24_w10_a_stopped_job_fails_what_waits_and_then_what_is_pending() {
    let mut bench = Bench::new(PERIODIC);
    assert_eq!(bench.starts_until(100).len(), 1);
    assert_eq!(bench.starts_until(200), []);
    assert_eq!(bench.request(210, 5), []);
    let reason = FailureReason::CheckpointCoordinatorSuspend;
    let told = [
        failed(Some(RequestToken(5)), None, reason),
        failed(None, None, reason),
        failed(None, Some(1), reason),
        CoordinatorAction::DiscardAcknowledged(id(1)),
        notify_abort(1, None),
    ];
    assert_eq!(bench.send(220, JobStopped), told);
    assert!(bench.machine.is_idle());
    assert_eq!(bench.deadline(), None);
}

/// W11, but the failure counts (case C-05).
#[test]
fn p14_w11_a_manifest_that_fails_ends_the_checkpoint_and_the_next_one_may_run() {
    let mut bench = Bench::new(CoordinatorOptions { max_concurrent: 1, ..MANUAL });
    bench.start_and_acknowledge(0, 1);
    assert_eq!(bench.request(1, 9), []);
    let reason = FailureReason::FinalizeCheckpointFailure;
    let told = [aborted(1, reason, None).as_slice(), &[prepare(2)]].concat();
    assert_eq!(bench.send(2, ManifestFailed(id(1))), told);
    assert_eq!(bench.machine.latest_completed(), None);
}

#[test]
fn w12_tasks_hear_of_a_checkpoint_only_when_its_folder_is_made() {
    let mut bench = Bench::new(MANUAL);
    assert_eq!(bench.request(0, 1), [prepare(1)]);
    let early = CoordinatorEvent::Acknowledged { id: id(1), task: S };
    assert!(matches!(bench.try_send(0, early), Err(Rejected::Unexpected { .. })));
    assert_eq!(bench.request(0, 2), [], "one trigger at a time");
    assert_eq!(bench.send(3, LocationPrepared(id(1))), [trigger(1, 0), prepare(2)]);
}

#[test]
fn t14_w13_shutdown_while_triggering_uses_the_id_up_and_removes_the_folder_later() {
    let mut bench = Bench::new(MANUAL);
    assert_eq!(bench.request(0, 1), [prepare(1)]);
    let reason = FailureReason::CheckpointCoordinatorShutdown;
    let told = [failed(Some(RequestToken(1)), Some(1), reason), notify_abort(1, None)];
    assert_eq!(bench.send(1, ShutDown), told);
    assert_eq!(bench.send(2, LocationPrepared(id(1))), [CoordinatorAction::DiscardAcknowledged(id(1))]);
    assert_eq!(bench.send(3, ShutDown), []);
    assert!(bench.machine.is_idle());
    assert_eq!(bench.machine.next_id(), id(2));
}

#[test]
fn t14_acknowledgements_and_declines_after_shutdown_are_ignored() {
    let mut bench = Bench::new(MANUAL);
    bench.start(0, 1);
    assert_eq!(bench.send(1, ShutDown), aborted(1, FailureReason::CheckpointCoordinatorShutdown, None));
    assert_eq!(bench.acknowledge(2, 1, &[S]), []);
    assert_eq!(bench.decline(2, 1, S, FailureReason::CheckpointDeclined), []);
    assert_eq!(bench.send(2, TaskFailed(S)), []);
}

#[test]
fn once_its_manifest_is_ordered_a_checkpoint_can_only_complete_or_fail() {
    for end in [JobStopped, ShutDown] {
        let mut bench = Bench::new(MANUAL);
        bench.start_and_acknowledge(0, 1);
        assert_eq!(bench.deadline(), None);
        assert_eq!(bench.send(5_000, DeadlineReached), []);
        assert_eq!(bench.decline(5_000, 1, S, FailureReason::CheckpointDeclined), []);
        assert_eq!(bench.send(5_000, TaskFailed(S)), []);
        assert_eq!(bench.send(5_001, end), []);
        let mut fails = Bench { machine: bench.machine.clone(), at: bench.at };
        assert_eq!(bench.send(5_002, ManifestPersisted(id(1))), completed(1));
        let reason = FailureReason::FinalizeCheckpointFailure;
        assert_eq!(fails.send(5_002, ManifestFailed(id(1))), aborted(1, reason, None));
        assert!(bench.machine.is_idle() && fails.machine.is_idle());
    }
}

#[test]
fn an_older_manifest_may_become_durable_after_a_newer_one() {
    let mut bench = Bench::new(MANUAL);
    bench.start_and_acknowledge(0, 1);
    bench.start_and_acknowledge(0, 2);
    assert_eq!(bench.send(1, ManifestPersisted(id(2))), completed(2));
    assert_eq!(bench.send(2, ManifestPersisted(id(1))), completed(1));
    assert_eq!(bench.machine.latest_completed(), Some(id(2)));
}

/// Case C-02: periodic triggering survives an abort of all pending checkpoints.
#[test]
fn c02_the_cadence_goes_on_after_an_abort_of_everything_pending() {
    let mut bench = Bench::new(PERIODIC);
    let first = bench.starts_until(100)[0];
    assert_eq!(bench.starts_until(250), []);
    let mut restarted = Bench { machine: bench.machine.clone(), at: bench.at };
    let actions = bench.send(250, TaskFailed(M));
    assert_eq!(actions.last(), Some(&prepare(2)), "what waits starts at once");
    bench.send(250, TaskFailed(M));
    bench.send(251, LocationPrepared(id(2)));
    bench.send(251, TaskFailed(M));
    let next_tick = first + 300 - if first < 50 { 0 } else { 100 };
    assert_eq!(bench.starts_until(350), [next_tick]);

    restarted.send(250, JobStopped);
    restarted.send(250, JobStarted);
    assert_eq!(restarted.starts_until(350).len(), 1);
}

/// Case C-03: a checkpoint that dies while it is being triggered does not wedge the coordinator.
#[test]
fn c03_a_checkpoint_that_expires_before_its_folder_is_made_leaves_the_way_free() {
    let mut bench = Bench::new(CoordinatorOptions { max_concurrent: 1, ..MANUAL });
    assert_eq!(bench.request(0, 1), [prepare(1)]);
    let expired =
        [failed(Some(RequestToken(1)), Some(1), FailureReason::CheckpointExpired), notify_abort(1, None)];
    assert_eq!(bench.send(1_000, DeadlineReached), expired);
    assert_eq!(bench.request(1_100, 2), [prepare(2)]);
    assert_eq!(bench.send(1_200, LocationPrepared(id(1))), [CoordinatorAction::DiscardAcknowledged(id(1))]);
    assert!(matches!(bench.try_send(1_200, LocationPrepared(id(1))), Err(Rejected::Unexpected { .. })));
    assert_eq!(bench.send(1_300, LocationPrepared(id(2))), [trigger(2, 1_100)]);
}

#[test]
fn requests_wait_while_every_slot_is_kept_for_a_folder() {
    let mut bench = Bench::new(CoordinatorOptions { max_concurrent: 1, ..MANUAL });
    for number in 1..=4 {
        assert_eq!(bench.request(bench.at, 0), [prepare(number)]);
        bench.send(bench.at + 1_000, DeadlineReached);
    }
    assert_eq!(bench.request(9_000, 5), []);
    assert_eq!(bench.send(9_001, LocationFailed(id(2))), [prepare(5)]);
}

/// Case C-04: the pause is measured from the real last completion.
#[test]
fn c04_no_periodic_checkpoint_starts_within_the_pause() {
    let options = CoordinatorOptions { interval: Some(Millis(10)), min_pause: Millis(500), ..PERIODIC };
    let mut bench = Bench::new(options);
    assert_eq!(bench.starts_until(999), [500]);
    for number in 1..200 {
        let at = bench.at + number % 7 + 1;
        bench.acknowledge(at, number, &[S, M, K]);
        let done = bench.send(at, ManifestPersisted(id(number)));
        assert!(!done.contains(&prepare(number + 1)));
        assert_eq!(bench.starts_until(at + 600), [at + 500], "{number}");
    }
}

/// Case C-05 (b) and (c): a store that fails is a failure like any other.
#[test]
fn c05_a_manifest_that_fails_is_never_announced_and_counts() {
    let reason = FailureReason::FinalizeCheckpointFailure;
    let mut bench = Bench::new(CoordinatorOptions { tolerable_failures: 1, ..MANUAL });
    bench.start_and_acknowledge(0, 1);
    bench.send(0, ManifestPersisted(id(1)));
    bench.start_and_acknowledge(0, 2);
    assert_eq!(bench.send(0, ManifestFailed(id(2))), aborted(2, reason, Some(1)));
    assert_eq!(bench.machine.latest_completed(), Some(id(1)));
    bench.start_and_acknowledge(0, 3);
    let [request, discard, told] = aborted(3, reason, Some(1));
    assert_eq!(
        bench.send(0, ManifestFailed(id(3))),
        [request, discard, CoordinatorAction::FailJob(reason), told]
    );
    bench.start_and_acknowledge(0, 4);
    assert_eq!(bench.send(0, ManifestPersisted(id(4))), completed(4));
}

#[test]
fn what_does_not_fit_into_one_event_is_told_at_the_next_ones() {
    let options = CoordinatorOptions { max_concurrent: 11, ..MANUAL };
    let machine = Coordinator::<1, 12>::new(options, TaskSet::first(3), TaskSet::first(1), id(40)).unwrap();
    let mut bench = Bench { machine, at: 0 };
    bench.send(0, JobStarted);
    (40..51).for_each(|number| bench.start(0, number));
    (0..8).for_each(|waiting| assert_eq!(bench.request(0, waiting), []));
    let mut told = bench.send(1, JobStopped);
    assert_eq!(told.len(), REQUESTS_MAX + 3 * 2, "two announcements fit beside the requests");
    let mut events = 0;
    while bench.deadline() == Some(bench.at) {
        told.extend(bench.send(1, DeadlineReached));
        events += 1;
    }
    assert_eq!((told.len(), events), (REQUESTS_MAX + 3 * 11, 3));
    let reason = FailureReason::CheckpointCoordinatorSuspend;
    let expected: Vec<_> = (40..51).flat_map(|number| aborted(number, reason, None)).collect();
    assert_eq!(told[REQUESTS_MAX..], expected);
    assert!(bench.machine.is_idle());
}

#[test]
fn ids_start_anywhere_and_are_never_given_out_twice() {
    let start = id(u64::MAX - 1);
    let machine = Machine::new(MANUAL, TaskSet::first(3), TaskSet::first(1), start).unwrap();
    let mut bench = Bench { machine, at: 0 };
    bench.send(0, JobStarted);
    assert_eq!(bench.request(0, 1), [CoordinatorAction::PrepareLocation(start)]);
    bench.send(0, LocationPrepared(start));
    let reason = FailureReason::TriggerCheckpointFailure;
    assert_eq!(bench.request(0, 2), [failed(Some(RequestToken(2)), None, reason)]);
}

#[test]
fn refused_events_change_nothing() {
    let mut bench = Bench::new(MANUAL);
    bench.start(10, 1);
    let before = std::format!("{:?}", bench.machine);
    let refusals = vec![
        bench.try_send(10, LocationPrepared(id(1))),
        bench.try_send(10, LocationFailed(id(2))),
        bench.try_send(10, ManifestPersisted(id(1))),
        bench.try_send(10, ManifestFailed(id(1))),
        bench.try_send(10, TaskFailed(TaskIndex(3))),
        bench.try_send(9, JobStopped),
    ];
    assert!(refusals.iter().all(Result::is_err), "{refusals:?}");
    let mut short = heapless::Vec::<_, { Machine::ACTIONS_MAX - 1 }>::new();
    bench.at = 10;
    assert_eq!(
        bench.machine.on_event(bench.now(), JobStopped, &mut short),
        Err(Rejected::NoRoom { needed: 16, free: 15 })
    );
    assert_eq!(std::format!("{:?}", bench.machine), before);
}

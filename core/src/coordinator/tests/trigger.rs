//! Options, the schedule, and the way from a request to the barriers: T1 to T14, T25 to T32, G1 and G3.

use std::collections::BTreeSet;

use super::*;
use crate::coordinator::{ParticipantSet, RestoredFrom, Sources};

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
fn t3_a_coordinator_without_an_id_to_give_out_cannot_be_built() {
    let last = id(u64::MAX);
    assert_eq!(Machine::new(MANUAL, chain(), last).unwrap_err(), InvalidOptions::NoIdLeft);
    assert_eq!(Machine::new(MANUAL, chain(), id(9)).unwrap().next_id(), id(9));
}

#[test]
fn t4_shared_folders_are_made_with_the_first_location_that_is_no_savepoints() {
    let mut bench = Bench::new(MANUAL);
    let with_base = |actions: &[Action]| match actions {
        [Action::PrepareLocation { with_base, .. }] => *with_base,
        _ => panic!("{actions:?}"),
    };
    assert!(!with_base(&bench.request_kind(0, 1, SAVEPOINT)), "a savepoint has its own folder");
    bench.send(0, LocationPrepared(id(1)));
    assert!(with_base(&bench.request(0, 2)), "a savepoint does not count as the first");
    bench.send(0, CoordinatorEvent::LocationFailed { id: id(2), error: TriggerError::Io });
    assert!(with_base(&bench.request(0, 3)), "they could not be made");
    bench.send(0, LocationPrepared(id(3)));
    bench.decline(0, 3, S, FailureReason::CheckpointDeclined);
    assert!(!with_base(&bench.request(0, 4)));
}

#[test]
fn t5_g3_options_that_cannot_work_are_refused() {
    use InvalidOptions as Invalid;
    let unaligned = CoordinatorOptions { alignment: UNALIGNED, max_concurrent_checkpoints: 1, ..MANUAL };
    let cases = [
        (CoordinatorOptions { interval: Some(Millis(9)), ..MANUAL }, Invalid::IntervalTooShort(Millis(9))),
        (
            CoordinatorOptions { interval_during_backlog: Some(Millis(99)), ..PERIODIC },
            Invalid::BacklogIntervalTooShort(Millis(99)),
        ),
        (CoordinatorOptions { timeout: Millis(9), ..MANUAL }, Invalid::TimeoutTooShort(Millis(9))),
        (CoordinatorOptions { max_concurrent_checkpoints: 0, ..MANUAL }, Invalid::NoConcurrency),
        (
            CoordinatorOptions { max_concurrent_checkpoints: 4, ..MANUAL },
            Invalid::TooManyConcurrent { max_concurrent_checkpoints: 4, limit: 3 },
        ),
        (CoordinatorOptions { max_concurrent_checkpoints: 2, ..unaligned }, Invalid::UnalignedConcurrency(2)),
        (
            CoordinatorOptions {
                alignment: AlignmentOptions { guarantee: Guarantee::AtLeastOnce, ..UNALIGNED },
                ..unaligned
            },
            Invalid::UnalignedAtLeastOnce,
        ),
        (
            CoordinatorOptions { kind: SnapshotKind::Drain(SavepointFormat::Native), ..MANUAL },
            Invalid::SavepointsOnly,
        ),
        (CoordinatorOptions { hooks: 33, ..MANUAL }, Invalid::TooManyParticipants(33)),
        (CoordinatorOptions { operator_coordinators: 33, ..MANUAL }, Invalid::TooManyParticipants(33)),
    ];
    for (options, error) in cases {
        assert_eq!(Machine::new(options, chain(), CheckpointId::FIRST).unwrap_err(), error);
    }
    let least = CoordinatorOptions { interval: Some(Millis(10)), timeout: Millis(10), ..unaligned };
    assert!(Machine::new(least, chain(), CheckpointId::FIRST).is_ok());
    let none = Coordinator::<1, 4, 0, Flow>::new(MANUAL, chain(), CheckpointId::FIRST);
    assert_eq!(none.unwrap_err(), Invalid::NoQueue);
    let of = |tasks, sources, checkpoints_after_tasks_finish| {
        let (tasks, sources) = (TaskSet::first(tasks), TaskSet::first(sources));
        let options = CoordinatorOptions { checkpoints_after_tasks_finish, ..MANUAL };
        Coordinator::<1, 4>::new(options, Sources { tasks, sources }, CheckpointId::FIRST).unwrap_err()
    };
    assert_eq!(of(0, 0, false), Invalid::NoTasks);
    assert_eq!(of(3, 1, true), Invalid::EdgesUnknown);
    let lonely = Sources { tasks: set([1, 2]), sources: set([0]) };
    let options = CoordinatorOptions { checkpoints_after_tasks_finish: false, ..MANUAL };
    let built = Coordinator::<1, 4>::new(options, lonely, CheckpointId::FIRST);
    assert_eq!(built.unwrap_err(), Invalid::NoSources);
}

#[test]
fn t6_periodic_checkpoints_are_on_while_the_job_runs_and_no_task_is_pending() {
    let mut bench = Bench::<4, 8>::idle(PERIODIC, chain(), CheckpointId::FIRST);
    let is_on = |bench: &Bench| bench.deadline().is_some();
    assert_eq!(bench.send(0, JobStarted), []);
    for task in [S, M] {
        bench.set(0, task, TaskState::Running);
        assert!(!is_on(&bench), "K is pending");
    }
    bench.set(0, K, TaskState::Finished);
    assert!(is_on(&bench), "a finished task is not pending");
    let first = bench.deadline();
    assert_eq!(bench.send(5, JobStarted), []);
    assert_eq!(bench.set(5, S, TaskState::Running), []);
    assert_eq!(bench.deadline(), first, "on already");
    bench.set(6, M, TaskState::Pending);
    assert!(!is_on(&bench));
    assert_eq!(bench.send(6, JobStopped), []);
    bench.set(7, M, TaskState::Running);
    assert!(!is_on(&bench), "the job does not run");
    bench.send(8, JobStarted);
    assert!(is_on(&bench));
}

#[test]
fn t7_where_every_task_is_told_to_run_once_the_jobs_state_alone_decides() {
    let mut bench = Bench::new(PERIODIC);
    for at in 1..4 {
        bench.send(at, JobStopped);
        assert_eq!(bench.deadline(), None);
        bench.send(at, JobStarted);
        assert!(bench.deadline().is_some());
    }
}

#[test]
fn t8_a_start_gives_up_what_is_pending_savepoints_too_and_draws_the_first_trigger() {
    let mut drawn = BTreeSet::new();
    for seed in 0..400 {
        let options =
            CoordinatorOptions { interval: Some(Millis(30)), min_pause: Millis(20), seed, ..PERIODIC };
        let first = Bench::new(options).deadline().unwrap();
        assert_eq!(Bench::new(options).deadline(), Some(first), "the seed decides");
        drawn.insert(first);
    }
    assert!(drawn.into_iter().eq(20..=30), "both ends included");

    let mut bench = Bench::new(PERIODIC);
    assert_eq!(bench.send(0, CoordinatorEvent::PeriodicPaused), []);
    bench.start_kind(1, 1, SAVEPOINT);
    let suspended = FailureReason::CheckpointCoordinatorSuspend;
    assert_eq!(bench.send(2, CoordinatorEvent::PeriodicResumed), aborted(1, suspended, None));
    assert!(bench.deadline().is_some());
    assert!(Bench::new(MANUAL).refuses(0, CoordinatorEvent::PeriodicResumed), "nothing is configured");
    bench.send(3, ShutDown);
    assert!(bench.refuses(3, CoordinatorEvent::PeriodicResumed));
}

#[test]
fn t9_t24_a_stop_spares_nobody_and_tells_those_who_wait_first() {
    let mut bench = Bench::new(PERIODIC);
    bench.start_kind(0, 1, SAVEPOINT);
    assert_eq!(bench.request(1, 5), []);
    let suspended = FailureReason::CheckpointCoordinatorSuspend;
    let told = [&[refused(5, suspended)], aborted(1, suspended, None).as_slice()].concat();
    assert_eq!(bench.send(2, CoordinatorEvent::PeriodicPaused), told);
    assert_eq!(bench.deadline(), None);
    bench.start(3, 2);
    assert_eq!(
        bench.send(4, JobStopped),
        aborted(2, suspended, None),
        "a stop of the job does so in any case"
    );
}

#[test]
fn t10_ticks_keep_their_rate_and_missed_ones_are_caught_up() {
    let mut bench = Bench::new(PERIODIC);
    let first = bench.deadline().unwrap();
    assert_eq!(bench.send(first - 1, DeadlineReached), [], "too early");
    assert_eq!(bench.send(first + 250, DeadlineReached), [prepare_for(1, None)]);
    assert_eq!(bench.deadline(), Some(first + 100));
    assert_eq!(bench.starts_until(first + 250), []);
    assert_eq!(bench.deadline(), Some(first + 300));
}

#[test]
fn t10_a_tick_after_periodic_checkpoints_were_turned_off_by_backlog_still_asks_for_one() {
    let mut bench = Bench::new(CoordinatorOptions { interval_during_backlog: Some(Millis(0)), ..PERIODIC });
    let tick = bench.deadline().unwrap();
    backlog(&mut bench, 0, 3, true);
    assert_eq!(bench.send(tick, DeadlineReached), [prepare_for(1, None)]);
    bench.send(tick, LocationPrepared(id(1)));
    assert_eq!(bench.deadline(), Some(tick + 60_000), "nothing but the time-out is left");
}

fn backlog(bench: &mut Bench, at: u64, source: u16, is_behind: bool) {
    assert_eq!(bench.send(at, CoordinatorEvent::BacklogChanged { source, is_behind }), []);
}

#[test]
fn t11_t12_t13_backlog_stretches_the_interval_and_its_end_brings_the_next_trigger_forward() {
    let mut bench = Bench::new(CoordinatorOptions { interval_during_backlog: Some(Millis(700)), ..PERIODIC });
    let first = bench.deadline().unwrap();
    backlog(&mut bench, 0, 3, true);
    backlog(&mut bench, 0, 5, true);
    assert_eq!(bench.deadline(), Some(first), "never moves further away");
    assert_eq!(bench.starts_until(first), [first]);
    bench.acknowledge(first, 1, &ALL);
    bench.store_periodic(first, 1);
    assert_eq!(bench.deadline(), Some(first + 700));
    backlog(&mut bench, first + 10, 3, false);
    assert_eq!(bench.deadline(), Some(first + 700), "another source is behind");
    backlog(&mut bench, first + 20, 5, false);
    assert_eq!(bench.deadline(), Some(first + 120));
    backlog(&mut bench, first + 60, 5, false);
    assert_eq!(bench.deadline(), Some(first + 120));
    assert!(bench.refuses(first + 60, CoordinatorEvent::BacklogChanged { source: 32, is_behind: true }));
}

impl Bench {
    fn store_periodic(&mut self, at: u64, number: u64) {
        assert_eq!(self.store(at, number), [notify_complete(number)]);
    }
}

#[test]
fn t14_after_the_end_nothing_starts_counts_or_is_restored() {
    let mut bench = Bench::new(CoordinatorOptions { hooks: 1, ..PERIODIC });
    let ended = FailureReason::CheckpointCoordinatorShutdown;
    bench.request(0, 101);
    bench.send(0, LocationPrepared(id(1)));
    bench.send(0, CoordinatorEvent::HookAcknowledged { id: id(1), hook: 0 });
    assert_eq!(bench.request(0, 2), []);
    let told = [&[Action::CloseHooks, refused(2, ended)], aborted(1, ended, None).as_slice()].concat();
    assert_eq!(bench.send(1, ShutDown), told);
    assert_eq!(bench.send(1, ShutDown), [], "only once");
    assert_eq!(bench.acknowledge(2, 1, &[S]), []);
    assert_eq!(bench.decline(2, 1, S, FailureReason::CheckpointDeclined), []);
    assert_eq!(bench.fail_task(2, S), []);
    assert_eq!(bench.send(2, JobStarted), []);
    assert_eq!(bench.deadline(), None);
    assert!(bench.refuses(2, CoordinatorEvent::Restored(None)));
    assert_eq!(bench.request(2, 3), [refused(3, ended)]);
}

#[test]
fn t25_the_plan_comes_before_the_id_and_the_time_out_before_the_folder() {
    let mut bench = Bench::new(MANUAL);
    bench.set(0, M, TaskState::Pending);
    let reason = FailureReason::NotAllRequiredTasksRunning;
    assert_eq!(bench.request(0, 1), [failed(Some(RequestToken(1)), None, reason)]);
    assert_eq!(bench.machine.next_id(), id(1), "no id was used up");
    bench.set(0, M, TaskState::Running);
    assert_eq!(bench.request(5, 101), [prepare(1)]);
    assert_eq!(bench.machine.next_id(), id(2));
    assert_eq!(bench.deadline(), Some(1_005));
    assert_eq!(bench.send(7, LocationPrepared(id(1))), [trigger(1, 5)]);
    assert_eq!(bench.deadline(), Some(1_005));
}

#[test]
fn t25_coordinators_come_after_the_folder_then_hooks_then_the_tasks() {
    let mut bench = Bench::new(CoordinatorOptions { operator_coordinators: 2, hooks: 1, ..MANUAL });
    bench.request(0, 101);
    let coordinators = ParticipantSet::first(2);
    let asked = Action::SnapshotOperatorCoordinators { id: id(1), coordinators };
    assert_eq!(bench.send(1, LocationPrepared(id(1))), [asked]);
    let acknowledged =
        |coordinator| CoordinatorEvent::OperatorCoordinatorAcknowledged { id: id(1), coordinator };
    assert_eq!(bench.send(2, acknowledged(1)), []);
    let hooks = ParticipantSet::first(1);
    let triggered = Action::TriggerHooks { id: id(1), triggered_at: Millis(WALL), hooks };
    assert_eq!(bench.send(3, acknowledged(0)), [triggered]);
    assert_eq!(bench.send(4, CoordinatorEvent::HookAcknowledged { id: id(1), hook: 0 }), [trigger(1, 0)]);
}

#[test]
fn t26_after_an_unclaimed_restore_checkpoints_are_full_until_the_store_takes_one() {
    let mut bench = Bench::new(MANUAL);
    assert_eq!(bench.send(0, restored(4, true)), []);
    assert_eq!(kind_of(&bench.start_kind(0, 5, RequestKind::Incremental)), SnapshotKind::FullCheckpoint);
    let savepoint = SnapshotKind::Savepoint(SavepointFormat::Canonical);
    assert_eq!(kind_of(&bench.start_kind(0, 6, SAVEPOINT)), savepoint);
    bench.acknowledge(0, 6, &ALL);
    bench.send(0, ManifestPersisted(id(6)));
    bench.acknowledge(0, 5, &ALL);
    assert_eq!(bench.send(0, ManifestPersisted(id(5))), [Action::AddToStore(id(5))]);
    assert_eq!(kind_of(&bench.start_kind(0, 7, RequestKind::Configured)), SnapshotKind::FullCheckpoint);
    bench.send(0, CoordinatorEvent::Stored { id: id(5), subsumed: None });
    assert_eq!(kind_of(&bench.start_kind(0, 8, RequestKind::Configured)), SnapshotKind::Checkpoint);
    let mut claimed = Bench::new(MANUAL);
    claimed.send(0, restored(4, false));
    assert_eq!(kind_of(&claimed.start_kind(0, 5, RequestKind::Configured)), SnapshotKind::Checkpoint);
}

fn restored(number: u64, is_unclaimed: bool) -> CoordinatorEvent {
    CoordinatorEvent::Restored(Some(RestoredFrom { id: id(number), is_unclaimed }))
}

/// The kind that the barrier names.
fn kind_of(actions: &[Action]) -> SnapshotKind {
    match actions {
        [Action::TriggerTasks { barrier, .. }] => barrier.kind,
        _ => panic!("{actions:?}"),
    }
}

#[test]
fn t27_the_barrier_says_that_the_job_ends_with_a_savepoint() {
    for (asked, kind) in [
        (DRAIN, SnapshotKind::Drain(SavepointFormat::Native)),
        (RequestKind::Suspend(SavepointFormat::Canonical), SnapshotKind::Suspend(SavepointFormat::Canonical)),
    ] {
        let barrier_kind = kind_of(&Bench::new(MANUAL).start_kind(0, 1, asked));
        assert_eq!(barrier_kind, kind);
        assert!(barrier_kind.is_synchronous());
    }
}

#[test]
fn t28_a_task_that_cannot_be_told_ends_the_checkpoint() {
    for (error, reason) in [
        (TriggerError::Other, FailureReason::TriggerCheckpointFailure),
        (TriggerError::Io, FailureReason::IoException),
        (
            TriggerError::Checkpoint(FailureReason::TaskCheckpointFailure),
            FailureReason::TaskCheckpointFailure,
        ),
    ] {
        let mut bench = Bench::new(MANUAL);
        bench.start(0, 1);
        let event = CoordinatorEvent::TriggerFailed { id: id(1), task: S, error };
        assert_eq!(bench.send(1, event), aborted(1, reason, None));
        assert_eq!(bench.send(1, event), [], "it is over");
    }
}

#[test]
fn t29_a_request_that_fails_before_there_is_a_checkpoint_lets_the_next_one_run() {
    let start = id(u64::MAX - 1);
    let mut bench = Bench::<4, 8>::of(MANUAL, chain(), start);
    bench.request(0, 1);
    assert_eq!(bench.request(0, 2), [], "one trigger at a time");
    assert_eq!(bench.request(0, 3), []);
    let reason = FailureReason::TriggerCheckpointFailure;
    let both = [2, 3].map(|token| failed(Some(RequestToken(token)), None, reason));
    assert_eq!(bench.send(0, LocationPrepared(start))[1..], both);
}

#[test]
fn t30_a_coordinator_or_hook_that_fails_ends_the_checkpoint() {
    let options = CoordinatorOptions { operator_coordinators: 1, hooks: 1, ..MANUAL };
    let reason = FailureReason::TriggerCheckpointFailure;
    let error = TriggerError::Other;
    let mut bench = Bench::new(options);
    bench.request(0, 101);
    bench.send(0, LocationPrepared(id(1)));
    let event = CoordinatorEvent::OperatorCoordinatorFailed { id: id(1), coordinator: 0, error };
    assert_eq!(bench.send(1, event), aborted(1, reason, None));

    bench.request(2, 102);
    bench.send(2, LocationPrepared(id(2)));
    bench.send(2, CoordinatorEvent::OperatorCoordinatorAcknowledged { id: id(2), coordinator: 0 });
    let event = CoordinatorEvent::HookFailed { id: id(2), hook: 0, error };
    assert_eq!(bench.send(3, event), aborted(2, reason, None));
    assert!(bench.machine.is_idle());
}

#[test]
fn t31_storage_comes_first_among_the_causes_then_a_reason_of_the_protocol() {
    let declined = TriggerError::Checkpoint(FailureReason::CheckpointDeclined);
    let expired = TriggerError::Checkpoint(FailureReason::CheckpointExpired);
    let cases: [(&[TriggerError], FailureReason); 5] = [
        (&[TriggerError::Other, declined, TriggerError::Io], FailureReason::IoException),
        (&[TriggerError::Io, declined], FailureReason::IoException),
        (&[TriggerError::Other, declined, expired], FailureReason::CheckpointDeclined),
        (&[TriggerError::Other], FailureReason::TriggerCheckpointFailure),
        (&[], FailureReason::TriggerCheckpointFailure),
    ];
    for (chain, reason) in cases {
        assert_eq!(TriggerError::of_chain(chain.iter().copied()).reason(), reason, "{chain:?}");
    }
}

#[test]
fn t31_a_folder_that_cannot_be_made_fails_with_an_io_exception_and_is_left_alone() {
    let mut bench = Bench::new(CoordinatorOptions { tolerable_failed_checkpoints: 0, ..MANUAL });
    assert_eq!(bench.request(0, 101), [prepare(1)]);
    let reason = FailureReason::IoException;
    let told = [failed(Some(token(1)), Some(1), reason), fail_job(reason, None), notify_abort(1, None)];
    let event = CoordinatorEvent::LocationFailed { id: id(1), error: TriggerError::Io };
    assert_eq!(bench.send(0, event), told);
    assert!(bench.machine.is_idle());
    bench.start(1, 2);
}

#[test]
fn t32_a_request_says_what_kind_of_checkpoint_it_wants() {
    use RequestKind as Kind;
    let cases = [
        (SnapshotKind::Checkpoint, Kind::Configured, SnapshotKind::Checkpoint),
        (SnapshotKind::FullCheckpoint, Kind::Configured, SnapshotKind::FullCheckpoint),
        (SnapshotKind::Checkpoint, Kind::Full, SnapshotKind::FullCheckpoint),
        (SnapshotKind::FullCheckpoint, Kind::Incremental, SnapshotKind::Checkpoint),
    ];
    for (configured, asked, expected) in cases {
        let mut bench = Bench::new(CoordinatorOptions { kind: configured, ..MANUAL });
        assert_eq!(kind_of(&bench.start_kind(0, 1, asked)), expected, "{configured:?} {asked:?}");
    }
    let mut bench = Bench::new(CoordinatorOptions { min_pause: Millis(500), ..MANUAL });
    bench.complete(0, 1);
    bench.start(1, 2); // It is not a periodic one, for which the pause would count.
}

#[test]
fn g1_without_an_interval_checkpoints_start_on_request_alone() {
    let mut bench = Bench::new(MANUAL);
    assert_eq!(bench.deadline(), None);
    assert_eq!(bench.starts_until(1_000_000), []);
    bench.start(1_000_000, 1);
    bench.start_kind(1_000_000, 2, SAVEPOINT);
}

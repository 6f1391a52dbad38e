//! What does not fit, what is too late, and what is refused.

use super::*;

#[test]
fn once_its_manifest_is_ordered_a_checkpoint_can_only_complete_or_fail() {
    for end in [JobStopped, ShutDown] {
        let mut bench = Bench::new(MANUAL);
        bench.start_and_acknowledge(0, 1);
        assert_eq!(bench.deadline(), None);
        assert_eq!(bench.send(5_000, DeadlineReached), []);
        assert_eq!(bench.decline(5_000, 1, S, FailureReason::CheckpointDeclined), []);
        assert_eq!(bench.fail_task(5_000, S), []);
        assert_eq!(bench.send(5_001, end), []);
        let mut fails = bench.clone();
        assert_eq!(bench.store(5_002, 1), completed(1));
        let reason = FailureReason::FinalizeCheckpointFailure;
        assert_eq!(fails.send(5_002, ManifestFailed(id(1))), aborted(1, reason, None));
        assert!(bench.machine.is_idle() && fails.machine.is_idle());
    }
}

#[test]
fn requests_wait_while_every_slot_is_kept_for_a_folder() {
    let mut bench = Bench::new(CoordinatorOptions { max_concurrent_checkpoints: 1, ..MANUAL });
    for number in 1..=4 {
        assert_eq!(bench.request(bench.at, token(number).0).len(), 1);
        bench.send(bench.at + 1_000, DeadlineReached);
    }
    assert_eq!(bench.request(9_000, 5), []);
    let event = CoordinatorEvent::LocationFailed { id: id(2), error: TriggerError::Io };
    assert!(matches!(bench.send(9_001, event)[..], [Action::PrepareLocation { .. }]));
}

#[test]
fn what_does_not_fit_into_one_event_is_told_at_the_next_ones_in_order() {
    const WAITING: u32 = 20;
    let options = CoordinatorOptions { max_concurrent_checkpoints: 11, ..MANUAL };
    let mut bench = Bench::<12, 20>::of(options, chain(), id(40));
    bench.cleans_at_once = false;
    (40..51).for_each(|number| drop(bench.start_kind(0, number, RequestKind::Configured)));
    (0..WAITING).for_each(|waiting| assert_eq!(bench.request(0, waiting), []));
    let mut told = bench.send(1, JobStopped);
    assert!(told.len() <= Machine::ACTIONS_MAX);
    let mut events = 0;
    while bench.deadline() == Some(bench.at) {
        told.extend(bench.send(1, DeadlineReached));
        events += 1;
    }
    let reason = FailureReason::CheckpointCoordinatorSuspend;
    let requests = (0..WAITING).map(|waiting| refused(waiting, reason));
    let checkpoints = (40..51).flat_map(|number| aborted(number, reason, None));
    assert_eq!(told, requests.chain(checkpoints).collect::<Vec<_>>());
    assert!(events < 12, "{events}");
    assert!(bench.machine.is_idle());
}

#[test]
fn refused_requests_alone_are_told_of_at_once_too() {
    let options = CoordinatorOptions { max_concurrent_checkpoints: 1, ..MANUAL };
    let mut bench = Bench::<4, 20>::with(options);
    bench.start_and_acknowledge(0, 1);
    (2..22).for_each(|waiting| assert_eq!(bench.request(0, waiting), []));
    // Two actions are kept for what may start.
    let told = Machine::ACTIONS_MAX - 2;
    assert_eq!(bench.send(1, JobStopped).len(), told);
    assert_eq!(bench.deadline(), Some(1));
    assert_eq!(bench.send(1, DeadlineReached).len(), 20 - told);
    assert_eq!(bench.deadline(), None);
}

#[test]
fn ids_start_anywhere_and_are_never_given_out_twice() {
    let start = id(u64::MAX - 1);
    let mut bench = Bench::<4, 8>::of(MANUAL, chain(), start);
    assert_eq!(bench.request(0, 1).len(), 1);
    bench.send(0, LocationPrepared(start));
    let reason = FailureReason::TriggerCheckpointFailure;
    assert_eq!(bench.request(0, 2), [failed(Some(RequestToken(2)), None, reason)]);
}

#[test]
fn refused_events_change_nothing() {
    let mut bench = Bench::new(MANUAL);
    bench.start(10, 1);
    let before = std::format!("{:?}", bench.machine);
    let location_failed =
        |number| CoordinatorEvent::LocationFailed { id: id(number), error: TriggerError::Io };
    let refusals = [
        bench.try_send(10, LocationPrepared(id(1))),
        bench.try_send(10, location_failed(2)),
        bench.try_send(10, ManifestPersisted(id(1))),
        bench.try_send(10, ManifestFailed(id(1))),
        bench.try_send(10, CoordinatorEvent::Stored { id: id(1), subsumed: None }),
        bench.try_send(10, CoordinatorEvent::StoreFailed { id: id(1), may_be_stored: true }),
        bench.try_send(10, CoordinatorEvent::TaskFailed(Attempt::first(TaskIndex(3)))),
        bench.try_send(10, CoordinatorEvent::CleaningEnded),
        bench.try_send(10, CoordinatorEvent::PeriodicResumed),
        bench.try_send(9, JobStopped),
    ];
    assert!(refusals.iter().all(Result::is_err), "{refusals:?}");
    let mut short = heapless::Vec::<_, { Machine::ACTIONS_MAX - 1 }>::new();
    bench.at = 10;
    assert_eq!(
        bench.machine.on_event(bench.now(), JobStopped, &mut short),
        Err(Rejected::NoRoom { needed: Machine::ACTIONS_MAX, free: Machine::ACTIONS_MAX - 1 })
    );
    assert_eq!(std::format!("{:?}", bench.machine), before);
}

#[test]
fn t1_t5_the_greatest_and_least_options_that_are_allowed() {
    let year = Millis(31_536_000_000);
    let paused = |min_pause| CoordinatorOptions { min_pause, ..PERIODIC }.pause();
    assert_eq!([Millis(5), year, Millis(year.0 + 1), Millis::MAX].map(paused), [Millis(5), year, year, year]);
    assert_eq!(CoordinatorOptions::default().timeout, Millis(600_000));
    let build = |options| Machine::new(options, chain(), CheckpointId::FIRST).map(|_| ());
    for participants in [31, 32] {
        assert_eq!(build(CoordinatorOptions { hooks: participants, ..MANUAL }), Ok(()));
        assert_eq!(build(CoordinatorOptions { operator_coordinators: participants, ..MANUAL }), Ok(()));
    }
    let backlog =
        |slow| build(CoordinatorOptions { interval_during_backlog: Some(Millis(slow)), ..PERIODIC });
    assert_eq!([backlog(100), backlog(101), backlog(0)], [Ok(()); 3]);
    assert_eq!(backlog(99), Err(InvalidOptions::BacklogIntervalTooShort(Millis(99))));
}

#[test]
fn a_coordinator_is_idle_when_nothing_is_under_way_and_all_is_told() {
    let mut bench = Bench::new(MANUAL);
    assert!(bench.machine.is_idle());
    bench.start(0, 1);
    assert!(!bench.machine.is_idle());
    bench.acknowledge(0, 1, &ALL);
    bench.store(0, 1);
    assert!(bench.machine.is_idle());
}

#[test]
fn graphs_and_refusals_speak_for_themselves() {
    let sources = super::super::Sources { tasks: set([0, 1]), sources: set([0]) };
    assert_eq!(sources.vertex(TaskIndex(1)), set([1]));
    let said = |error: InvalidOptions| std::format!("{error}");
    assert_eq!(said(InvalidOptions::IntervalTooShort(Millis(9))), "interval 9 ms is below 10 ms");
    assert_eq!(
        said(InvalidOptions::NoConcurrency),
        "max_concurrent_checkpoints is 0: allow at least 1 checkpoint"
    );
    let graph = std::format!("{}", super::super::graph::InvalidGraph::NoTasks);
    assert_eq!(graph, "a vertex needs at least one task");
    let modified = super::super::ModifiedGraph { vertex: 3, predecessor: 1 };
    let said = "vertex 3 had finished, but vertex 1, from which it reads, would go on";
    assert_eq!(std::format!("{modified}"), said);
    let hooks = std::format!("{}", super::super::InvalidHooks::BlankName);
    assert!(!hooks.is_empty());
}

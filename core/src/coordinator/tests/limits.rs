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
    let mut bench = Bench::new(CoordinatorOptions { max_concurrent: 1, ..MANUAL });
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
    let options = CoordinatorOptions { max_concurrent: 11, ..MANUAL };
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

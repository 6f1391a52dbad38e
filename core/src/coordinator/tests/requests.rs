//! The queue of requests and who is served when: T15 to T24.

use super::*;

/// The token or, of a periodic request, nothing.
fn started(actions: &[Action]) -> Option<Option<RequestToken>> {
    actions.iter().find_map(|action| {
        let Action::PrepareLocation { request, .. } = action else { return None };
        Some(*request)
    })
}

#[test]
fn t15_t17_w15_savepoints_come_first_then_forced_then_asked_for_then_older_ones() {
    // Whether savepoints are forced depends on the job, so the two are put in line by hand.
    use crate::coordinator::requests::{Request, Requests};
    let request = |token: Option<u32>, kind, is_forced, at| Request {
        token: token.map(RequestToken),
        kind,
        is_forced,
        requested_at: Millis(at),
        refused: None,
    };
    let savepoint = SnapshotKind::Savepoint(SavepointFormat::Canonical);
    let waiting = [
        request(None, SnapshotKind::Checkpoint, false, 1),
        request(Some(2), SnapshotKind::Checkpoint, false, 2),
        request(Some(3), savepoint, false, 3),
        request(Some(4), savepoint, true, 4),
        request(Some(5), SnapshotKind::FullCheckpoint, false, 2),
        request(Some(6), SnapshotKind::Checkpoint, false, 1),
    ];
    for first in 0..waiting.len() {
        let mut requests = Requests::<8>::new();
        let order = (0..waiting.len()).map(|index| waiting[(first + index) % waiting.len()]);
        order.for_each(|request| assert_eq!(requests.add(request), None));
        assert!(requests.is_sorted());
        let served: Vec<_> =
            core::iter::from_fn(|| requests.take_first()).map(|request| request.token.map(|t| t.0)).collect();
        let equal = if (2..5).contains(&first) { [5, 2] } else { [2, 5] };
        let expected = [4, 3, 6, equal[0], equal[1]].map(Some);
        assert_eq!(
            served,
            [expected.as_slice(), &[None]].concat(),
            "equal ones in order of arrival: {first}"
        );
    }
}

#[test]
fn t16_a_savepoint_is_forced_unless_barriers_overtake() {
    for (alignment, is_forced) in [(ALIGNED, true), (UNALIGNED, false)] {
        let mut bench = Bench::new(CoordinatorOptions { alignment, max_concurrent_checkpoints: 1, ..MANUAL });
        bench.start(0, 1);
        assert_eq!(bench.request(0, 9), [], "a checkpoint never is");
        let savepoint = bench.request_kind(0, 102, SAVEPOINT);
        assert_eq!(started(&savepoint).is_some(), is_forced);
    }
}

#[test]
fn t17_t20_manual_requests_wait_for_their_turn_before_periodic_ones() {
    let mut bench = Bench::new(PERIODIC);
    assert_eq!(bench.starts_until(100).len(), 1);
    assert_eq!(bench.starts_until(200), [], "the periodic request waits");
    assert_eq!(bench.request(210, 102), [], "so does the manual one");
    assert_eq!(bench.acknowledge(220, 1, &ALL), [persist(1)]);
    assert_eq!(bench.store(230, 1), [notify_complete(1), prepare(2)]);
    bench.send(230, LocationPrepared(id(2)));
    bench.acknowledge(240, 2, &ALL);
    let [done, told] = completed(2);
    assert_eq!(bench.store(250, 2), [done, told, prepare_for(3, None)]);
}

#[test]
fn t18_full_queue_fails_the_new_request() {
    let mut bench = Bench::new(CoordinatorOptions { max_concurrent_checkpoints: 1, ..MANUAL });
    assert_eq!(bench.request(0, 101), [prepare(1)]);
    for waiting in 1..=8 {
        assert_eq!(bench.request(0, waiting), []);
    }
    let reason = FailureReason::TooManyCheckpointRequests;
    assert_eq!(bench.request(0, 9), [refused(9, reason)]);
    assert_eq!(bench.request_kind(0, 10, SAVEPOINT), [refused(10, reason)], "whatever it is");
}

#[test]
fn t19_a_request_drives_a_periodic_one_out_of_a_full_queue() {
    let mut bench = Bench::<4, 2>::with(PERIODIC);
    assert_eq!(bench.starts_until(100).len(), 1);
    assert_eq!(bench.request(110, 1), []);
    assert_eq!(bench.starts_until(200), [], "the periodic request waits behind");
    let reason = FailureReason::TooManyCheckpointRequests;
    assert_eq!(bench.request(210, 2), [refused(None, reason)]);
    assert_eq!(bench.starts_until(280), []);
    let tick = bench.deadline().unwrap();
    assert_eq!(bench.send(tick, DeadlineReached), [refused(None, reason)], "a new periodic one is the last");
}

#[test]
fn t20_nothing_starts_while_more_checkpoints_are_cleaned_up_than_may_be_pending() {
    let mut bench = Bench::new(CoordinatorOptions { max_concurrent_checkpoints: 1, ..MANUAL });
    bench.cleans_at_once = false;
    bench.start(0, 1);
    bench.decline(0, 1, S, FailureReason::CheckpointDeclined);
    bench.start(0, 2);
    bench.decline(0, 2, S, FailureReason::CheckpointDeclined);
    assert_eq!(bench.request_kind(1, 103, SAVEPOINT), [], "not even a forced savepoint");
    assert_eq!(bench.deadline(), None);
    assert_eq!(started(&bench.send(2, CoordinatorEvent::CleaningEnded)), Some(Some(token(3))));
    assert_eq!(bench.send(3, CoordinatorEvent::CleaningStarted), []);
    bench.send(3, LocationPrepared(id(3)));
    assert_eq!(bench.request_kind(4, 104, SAVEPOINT), [], "others clean up, too");
    assert_eq!(started(&bench.send(5, CoordinatorEvent::CleaningEnded)), Some(Some(token(4))));
    bench.send(5, CoordinatorEvent::CleaningEnded);
    assert!(bench.refuses(5, CoordinatorEvent::CleaningEnded), "nothing is being cleaned up");
}

#[test]
fn t20_a_periodic_request_inside_the_pause_fails_and_the_trigger_moves() {
    let mut bench = Bench::new(CoordinatorOptions { min_pause: Millis(50), ..PERIODIC });
    let first = bench.starts_until(100)[0];
    bench.acknowledge(first, 1, &ALL);
    assert_eq!(bench.starts_until(first + 100), [], "waits for the pending one");
    let at = first + 130;
    let reason = FailureReason::MinimumTimeBetweenCheckpoints;
    assert_eq!(bench.store(at, 1), [notify_complete(1), refused(None, reason)]);
    assert_eq!(bench.deadline(), Some(at + 50));
    assert_eq!(bench.starts_until(at + 149), [at + 50]);
}

#[test]
fn t21_a_manual_request_skips_the_pause_and_a_forced_one_the_others_too() {
    let mut bench =
        Bench::new(CoordinatorOptions { min_pause: Millis(500), max_concurrent_checkpoints: 1, ..MANUAL });
    bench.complete(0, 1);
    bench.start(2, 2);
    assert_eq!(bench.request(3, 9), [], "it waits for the pending one");
    bench.start_kind(3, 3, SAVEPOINT);
    assert_eq!(bench.machine.pending_count(), 2);
}

#[test]
fn t22_every_completion_counts_for_the_pause_savepoints_too_and_no_failure_does() {
    let options = CoordinatorOptions { min_pause: Millis(50), ..PERIODIC };
    let mut bench = Bench::new(options);
    let first = bench.deadline().unwrap();
    assert!(first <= 100, "before any completion there is no pause to wait for");
    bench.start_kind(first - 1, 1, SAVEPOINT);
    bench.acknowledge(first - 1, 1, &ALL);
    bench.send(first - 1, ManifestPersisted(id(1)));
    let reason = FailureReason::MinimumTimeBetweenCheckpoints;
    assert_eq!(bench.send(first, DeadlineReached), [refused(None, reason)]);
    assert_eq!(bench.deadline(), Some(first + 49));

    let mut failing = Bench::new(options);
    failing.start(first - 1, 1);
    failing.decline(first - 1, 1, S, FailureReason::CheckpointDeclined);
    assert_eq!(started(&failing.send(first, DeadlineReached)), Some(None));
}

#[test]
fn t23_the_next_request_starts_when_a_trigger_a_checkpoint_or_a_cleaning_ends() {
    let mut bench = Bench::new(CoordinatorOptions { max_concurrent_checkpoints: 1, ..MANUAL });
    bench.request(0, 101);
    (2..=5).for_each(|number| assert_eq!(bench.request(0, token(number).0), []));
    assert_eq!(
        bench.send(0, CoordinatorEvent::LocationFailed { id: id(1), error: TriggerError::Io }).last(),
        Some(&Action::PrepareLocation {
            id: id(2),
            kind: SnapshotKind::Checkpoint,
            request: Some(token(2)),
            with_base: true
        }),
        "a trigger ends"
    );
    bench.send(1, LocationPrepared(id(2)));
    let declined = bench.decline(2, 2, S, FailureReason::CheckpointDeclined);
    assert_eq!(started(&declined), Some(Some(token(3))), "a checkpoint is given up");
    bench.send(3, LocationPrepared(id(3)));
    bench.acknowledge(3, 3, &ALL);
    assert_eq!(started(&bench.store(4, 3)), Some(Some(token(4))), "a checkpoint is complete");
    assert_eq!(bench.machine.pending_count(), 1, "one at a time");
}

#[test]
fn t24_those_who_wait_are_told_in_their_order_and_it_counts_as_no_failure() {
    let mut bench = Bench::new(CoordinatorOptions {
        max_concurrent_checkpoints: 1,
        tolerable_failed_checkpoints: 0,
        ..MANUAL
    });
    bench.start(0, 1);
    bench.acknowledge(0, 1, &ALL);
    assert_eq!(bench.request(0, 3), []);
    assert_eq!(bench.request(1, 4), []);
    let reason = FailureReason::CheckpointCoordinatorShutdown;
    assert_eq!(bench.send(2, ShutDown), [refused(3, reason), refused(4, reason)]);
}

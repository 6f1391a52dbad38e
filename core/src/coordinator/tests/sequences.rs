//! The worked sequences W1 to W15; W15 lies with the queue.

use std::vec;

use super::*;
use crate::coordinator::ParticipantSet;

#[test]
fn w1_the_last_acknowledgement_orders_the_manifest_and_the_store_completes() {
    let mut bench = Bench::new(MANUAL);
    assert_eq!(bench.request(10, 101), [prepare(1)]);
    assert_eq!(bench.send(10, LocationPrepared(id(1))), [trigger(1, 10)], "a message to S only");
    assert_eq!(bench.acknowledge(11, 1, &[S, M]), []);
    assert_eq!(bench.acknowledge(12, 1, &[K]), [persist(1)]);
    assert_eq!(bench.send(13, ManifestPersisted(id(1))), [Action::AddToStore(id(1))]);
    assert_eq!(bench.send(14, CoordinatorEvent::Stored { id: id(1), subsumed: None }), completed(1));
    assert_eq!(bench.machine.latest_completed(), Some(id(1)));
    assert!(bench.machine.is_idle());
}

#[test]
fn w2_a_repeated_acknowledgement_changes_and_discards_nothing() {
    let mut bench = Bench::new(MANUAL);
    bench.start(0, 1);
    assert_eq!(bench.report(0, 1, S, TaskReport::default()), [keep(1, S)]);
    assert_eq!(bench.report(0, 1, S, TaskReport::default()), []);
    assert_eq!(bench.acknowledge(0, 1, &[M, M]), []);
    assert_eq!(bench.acknowledge(0, 1, &[K, K]), [persist(1)]);
}

#[test]
fn w3_a_part_of_a_previous_attempt_is_discarded_and_changes_nothing() {
    let mut bench = Bench::new(MANUAL);
    let second = Attempt { task: S, number: 2 };
    bench.send(0, CoordinatorEvent::TaskChanged { attempt: second, state: TaskState::Running });
    bench.start(0, 1);
    let report = TaskReport::default();
    assert_eq!(bench.report(0, 1, S, report), [late(1, S)]);
    assert_eq!(bench.machine.pending_count(), 1);
    let acknowledged = CoordinatorEvent::Acknowledged { id: id(1), by: second, report };
    assert_eq!(bench.send(0, acknowledged), [Action::KeepPart { id: id(1), by: second }]);
}

#[test]
fn w4_a_checkpoint_that_overtakes_ends_the_older_one() {
    let mut bench = Bench::new(MANUAL);
    bench.start(0, 1);
    bench.start_and_acknowledge(0, 2);
    let told = [completed(2).as_slice(), &aborted(1, FailureReason::CheckpointSubsumed, Some(2))].concat();
    assert_eq!(bench.store(1, 2), told);
    assert_eq!(bench.acknowledge(2, 1, &[S]), [late(1, S)], "it had not expired");
}

#[test]
fn w5_a_savepoint_that_overtakes_ends_the_older_one_only_if_the_job_ends_with_it() {
    for (kind, ends) in [(SAVEPOINT, false), (DRAIN, true)] {
        let mut bench = Bench::new(MANUAL);
        bench.start(0, 1);
        bench.start_kind(0, 2, kind);
        bench.acknowledge(0, 2, &ALL);
        let done = Action::RequestCompleted { request: token(2), id: id(2) };
        let subsumed = aborted(1, FailureReason::CheckpointSubsumed, None);
        let told = if ends { [&[done, notify_complete(2)], &subsumed[..]].concat() } else { vec![done] };
        assert_eq!(bench.send(1, ManifestPersisted(id(2))), told, "{kind:?}");
        assert_eq!(bench.machine.pending_count(), usize::from(!ends));
    }
}

#[test]
fn w6_a_savepoint_that_is_overtaken_goes_on_and_its_late_success_resets_nothing() {
    let mut bench = Bench::new(CoordinatorOptions { tolerable_failed_checkpoints: 1, ..MANUAL });
    bench.start_kind(0, 1, SAVEPOINT);
    bench.complete(0, 2);
    bench.start(1, 3);
    bench.decline(1, 3, M, FailureReason::CheckpointDeclined);
    bench.acknowledge(1, 1, &ALL);
    let done = Action::RequestCompleted { request: token(1), id: id(1) };
    assert_eq!(bench.send(1, ManifestPersisted(id(1))), [done]);
    bench.start(2, 4);
    let told = bench.decline(2, 4, M, FailureReason::CheckpointDeclined);
    assert!(told.contains(&fail_job(FailureReason::CheckpointDeclined, Some(M))), "{told:?}");
}

#[test]
fn w7_an_expired_checkpoint_is_given_up_and_remembered_for_sixteen_more() {
    let mut bench = Bench::new(MANUAL);
    let expire = |bench: &mut Bench, number| {
        bench.start(bench.at, number);
        bench.acknowledge(bench.at, number, &[S]);
        let told = bench.send(bench.at + 1_000, DeadlineReached);
        assert_eq!(told, aborted(number, FailureReason::CheckpointExpired, None));
    };
    expire(&mut bench, 1);
    assert_eq!(bench.acknowledge(bench.at, 1, &[M]), [late_expired(1, M)]);
    assert_eq!(bench.decline(bench.at, 1, K, FailureReason::CheckpointDeclined), []);
    (2..=16).for_each(|number| expire(&mut bench, number));
    assert_eq!(bench.acknowledge(bench.at, 1, &[M]), [late_expired(1, M)]);
    expire(&mut bench, 17);
    assert_eq!(bench.acknowledge(bench.at, 1, &[M]), [late(1, M)]);
}

#[test]
fn w8_a_decline_ends_the_checkpoint_once_and_counts() {
    let mut bench = Bench::new(CoordinatorOptions { tolerable_failed_checkpoints: 1, ..MANUAL });
    let declined = FailureReason::CheckpointDeclined;
    bench.start(0, 1);
    assert_eq!(bench.decline(1, 1, M, declined), aborted(1, declined, None));
    assert_eq!(bench.decline(1, 1, K, declined), []);
    bench.start(2, 2);
    let [request, discard, told] = aborted(2, declined, None);
    assert_eq!(bench.decline(3, 2, M, declined), [request, discard, fail_job(declined, Some(M)), told]);
}

#[test]
fn w9_a_task_that_dies_ends_only_what_it_has_not_acknowledged() {
    let mut bench = Bench::new(CoordinatorOptions { tolerable_failed_checkpoints: 0, ..MANUAL });
    bench.start(0, 1);
    bench.acknowledge(0, 1, &[S]);
    assert_eq!(bench.fail_task(1, S), []);
    assert_eq!(bench.fail_task(2, M), aborted(1, FailureReason::TaskFailure, None));
}

#[test]
fn w10_a_job_that_stops_fails_what_waits_savepoints_first_and_then_what_is_pending() {
    let options = CoordinatorOptions { alignment: UNALIGNED, tolerable_failed_checkpoints: 0, ..PERIODIC };
    let mut bench = Bench::new(options);
    assert_eq!(bench.starts_until(100).len(), 1);
    assert_eq!(bench.starts_until(200), []);
    assert_eq!(bench.request_kind(210, 5, SAVEPOINT), []);
    let reason = FailureReason::CheckpointCoordinatorSuspend;
    let [_, discard, told] = aborted(1, reason, None);
    let expected = [refused(5, reason), refused(None, reason), failed(None, Some(1), reason), discard, told];
    assert_eq!(bench.send(220, JobStopped), expected);
    assert!(bench.machine.is_idle());
    assert_eq!(bench.deadline(), None);
}

/// But the failure counts (case C-05).
#[test]
fn w11_a_store_that_fails_ends_the_checkpoint_and_the_next_one_may_run() {
    let mut bench = Bench::new(CoordinatorOptions { max_concurrent_checkpoints: 1, ..MANUAL });
    bench.start_and_acknowledge(0, 1);
    assert_eq!(bench.request(1, 102), []);
    let reason = FailureReason::FinalizeCheckpointFailure;
    bench.send(1, ManifestPersisted(id(1)));
    let told = [aborted(1, reason, None).as_slice(), &[prepare(2)]].concat();
    assert_eq!(bench.send(2, CoordinatorEvent::StoreFailed { id: id(1), may_be_stored: false }), told);
    assert_eq!(bench.machine.latest_completed(), None);
}

#[test]
fn w12_tasks_hear_of_a_checkpoint_only_when_its_coordinators_have_acknowledged() {
    let mut bench = Bench::new(CoordinatorOptions { operator_coordinators: 1, ..MANUAL });
    assert_eq!(bench.request(0, 101), [prepare(1)]);
    let (by, report) = (Attempt::first(S), TaskReport::default());
    let early = CoordinatorEvent::Acknowledged { id: id(1), by, report };
    assert!(bench.refuses(0, early));
    let coordinators = ParticipantSet::first(1);
    let asked = Action::SnapshotOperatorCoordinators { id: id(1), coordinators };
    assert_eq!(bench.send(1, LocationPrepared(id(1))), [asked]);
    assert!(bench.refuses(1, early));
    assert_eq!(bench.request(1, 102), [], "one trigger at a time");
    let acknowledged = CoordinatorEvent::OperatorCoordinatorAcknowledged { id: id(1), coordinator: 0 };
    assert_eq!(bench.send(3, acknowledged), [trigger(1, 0), prepare(2)]);
    assert_eq!(bench.acknowledge(4, 1, &ALL), [persist(1)], "once");
}

#[test]
fn w13_shutdown_while_triggering_uses_the_id_up_and_removes_the_folder_later() {
    let mut bench = Bench::new(MANUAL);
    assert_eq!(bench.request(0, 101), [prepare(1)]);
    let reason = FailureReason::CheckpointCoordinatorShutdown;
    let told = [failed(Some(token(1)), Some(1), reason), notify_abort(1, None)];
    assert_eq!(bench.send(1, ShutDown), told);
    assert_eq!(bench.send(2, LocationPrepared(id(1))), [Action::DiscardAcknowledged(id(1))]);
    assert_eq!(bench.send(3, ShutDown), []);
    assert!(bench.machine.is_idle());
    assert_eq!(bench.machine.next_id(), id(2));
}

#[test]
fn w14_behind_a_finished_source_the_next_task_is_triggered() {
    let mut bench = Bench::new(MANUAL);
    assert_eq!(bench.set(0, S, TaskState::Finished), []);
    let triggered = bench.start_kind(0, 1, RequestKind::Configured);
    let [Action::TriggerTasks { tasks, .. }] = triggered[..] else { panic!("{triggered:?}") };
    assert_eq!(tasks, set([M.0]));
    assert_eq!(bench.acknowledge(1, 1, &[M]), []);
    let finished = set([S.0]);
    assert_eq!(bench.acknowledge(1, 1, &[K]), [Action::PersistManifest { id: id(1), finished }]);
}

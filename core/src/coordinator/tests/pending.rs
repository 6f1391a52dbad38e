//! A checkpoint from its trigger to its end: P1 to P26, P30 and P32, and what of section 3 shows from outside.

use std::vec;

use super::*;
use crate::coordinator::{ParticipantSet, RestoredFrom};

const STATE: TaskReport =
    TaskReport { has_state: true, has_union_state: false, is_finished: false, was_deployed_finished: false };

fn register(number: u64, task: TaskIndex) -> Action {
    Action::RegisterShared { id: id(number), by: Attempt::first(task) }
}

#[test]
fn p1_p2_a_checkpoint_waits_for_each_task_once_and_is_complete_with_the_last() {
    for order in [[S, M, K], [K, M, S], [M, S, K]] {
        let mut bench = Bench::new(MANUAL);
        bench.start(0, 1);
        assert_eq!(bench.acknowledge(0, 1, &order[..2]), []);
        assert_eq!(bench.machine.pending_count(), 1);
        assert_eq!(bench.acknowledge(0, 1, &order[2..]), [persist(1)]);
    }
    let mut bench = Bench::new(MANUAL);
    bench.start(0, 1);
    bench.acknowledge(0, 1, &[S, M]);
    bench.send(1_000, DeadlineReached);
    let [discarded] = bench.acknowledge(1_000, 1, &[K])[..] else { panic!("nothing completes any more") };
    assert_eq!(discarded, late_expired(1, K));
}

#[test]
fn p3_whatever_is_a_savepoint_cannot_be_subsumed() {
    for kind in [SAVEPOINT, DRAIN] {
        let mut bench = Bench::new(MANUAL);
        bench.start_kind(0, 1, kind);
        bench.complete(0, 2);
        assert_eq!(bench.machine.pending_count(), 1, "{kind:?}");
    }
    let unforced = CoordinatorOptions { alignment: UNALIGNED, max_concurrent_checkpoints: 1, ..MANUAL };
    let mut bench = Bench::new(unforced);
    bench.start_kind(0, 1, SAVEPOINT);
    assert_eq!(bench.machine.pending_count(), 1);
}

#[test]
fn p4_p25_the_time_out_is_set_once_and_ends_what_is_not_over() {
    let mut bench = Bench::new(MANUAL);
    bench.request(3, 101);
    bench.send(700, LocationPrepared(id(1)));
    assert_eq!(bench.deadline(), Some(1_003), "no step sets it anew");
    bench.acknowledge(900, 1, &[S]);
    assert_eq!(bench.send(1_002, DeadlineReached), []);
    assert_eq!(bench.send(1_003, DeadlineReached), aborted(1, FailureReason::CheckpointExpired, None));
    assert_eq!(bench.deadline(), None);
}

#[test]
fn p5_p7_a_part_is_kept_once_and_only_of_the_attempt_that_was_asked() {
    let mut bench = Bench::new(MANUAL);
    let report = TaskReport::default();
    let from =
        |task, number| CoordinatorEvent::Acknowledged { id: id(1), by: Attempt { task, number }, report };
    bench.start(0, 1);
    assert_eq!(bench.send(0, from(S, 0)), [keep(1, S)]);
    assert_eq!(bench.send(0, from(S, 0)), [], "a duplicate");
    let unknown = |task, number| {
        let by = Participant::Task(Attempt { task, number });
        [Action::DiscardLate { id: id(1), by, is_expired: false }]
    };
    assert_eq!(bench.send(0, from(M, 7)), unknown(M, 7), "nobody asked this attempt");
    assert_eq!(bench.send(0, from(M, 0)), [keep(1, M)], "the checkpoint was not affected");
    assert_eq!(bench.send(0, from(M, 7)), [], "the part may be the one that was kept");
    bench.decline(0, 1, K, FailureReason::CheckpointDeclined);
    assert_eq!(bench.send(0, from(K, 0)), unknown(K, 0), "the checkpoint is over");
}

#[test]
fn p6_what_tasks_say_of_their_operators_reaches_the_manifest() {
    let stands_in = TaskReport { was_deployed_finished: true, ..TaskReport::default() };
    let mut bench = Bench::new(MANUAL);
    bench.start(0, 1);
    assert!(bench.refuses(
        0,
        CoordinatorEvent::Acknowledged {
            id: id(1),
            by: Attempt::first(S),
            report: TaskReport { has_state: true, ..stands_in },
        }
    ));
    assert_eq!(bench.report(0, 1, S, stands_in), [keep(1, S)]);
    assert_eq!(bench.report(0, 1, M, TaskReport { is_finished: true, ..STATE })[1..], [keep(1, M)]);
    let finished = set([S.0]);
    assert_eq!(bench.acknowledge(0, 1, &[K]), [Action::PersistManifest { id: id(1), finished }]);
}

#[test]
fn p8_coordinators_and_hooks_count_once_and_what_comes_late_is_dropped() {
    let mut bench = Bench::new(CoordinatorOptions { operator_coordinators: 2, hooks: 2, ..MANUAL });
    let coordinator =
        |index| CoordinatorEvent::OperatorCoordinatorAcknowledged { id: id(1), coordinator: index };
    let hook = |hook| CoordinatorEvent::HookAcknowledged { id: id(1), hook };
    bench.request(0, 101);
    assert!(bench.refuses(0, coordinator(0)), "nobody was asked");
    bench.send(0, LocationPrepared(id(1)));
    assert!(bench.refuses(0, hook(0)) && bench.refuses(0, coordinator(2)));
    assert_eq!(bench.send(0, coordinator(0)), []);
    assert_eq!(bench.send(0, coordinator(0)), [], "a duplicate is not the other one");
    let hooks = ParticipantSet::first(2);
    let triggered = Action::TriggerHooks { id: id(1), triggered_at: Millis(WALL), hooks };
    assert_eq!(bench.send(0, coordinator(1)), [triggered]);
    assert_eq!(bench.send(0, coordinator(1)), []);
    assert_eq!(bench.send(0, hook(1)), []);
    bench.send(1_000, DeadlineReached);
    let dropped = |by| [Action::DiscardLate { id: id(1), by, is_expired: true }];
    assert_eq!(bench.send(1_001, hook(0)), dropped(Participant::Hook(0)));
    assert_eq!(bench.send(1_001, coordinator(0)), dropped(Participant::OperatorCoordinator(0)));
}

#[test]
fn p9_shared_files_are_registered_first_whatever_becomes_of_the_part() {
    let mut bench = Bench::new(MANUAL);
    bench.start(0, 1);
    assert_eq!(bench.report(0, 1, S, STATE), [register(1, S), keep(1, S)]);
    assert_eq!(bench.report(0, 1, S, STATE), [register(1, S)], "a duplicate, too");
    bench.decline(0, 1, K, FailureReason::CheckpointDeclined);
    assert_eq!(bench.report(0, 1, M, STATE), [register(1, M), late(1, M)], "a late one, too");
    bench.start_kind(0, 2, SAVEPOINT);
    assert_eq!(bench.report(0, 2, S, STATE), [keep(2, S)], "a savepoint shares nothing");
    bench.send(0, ShutDown);
    assert_eq!(bench.report(0, 2, M, STATE), []);
}

#[test]
fn p9_p26_messages_of_other_jobs_are_refused() {
    let mut bench = Bench::new(MANUAL);
    bench.start(0, 1);
    for (number, task) in [(0, S), (2, S), (1, TaskIndex(3)), (1, TaskIndex(1_000))] {
        let (id, by, report) = (id(number), Attempt::first(task), TaskReport::default());
        assert!(bench.refuses(0, CoordinatorEvent::Acknowledged { id, by, report }), "{number} {task:?}");
        let reason = FailureReason::CheckpointDeclined;
        assert!(bench.refuses(0, CoordinatorEvent::Declined { id, by, reason }), "{number} {task:?}");
    }
    assert_eq!(bench.machine.pending_count(), 1);
}

#[test]
fn p10_p11_nothing_that_may_belong_to_a_complete_checkpoint_is_discarded() {
    let mut bench = Bench::new(MANUAL);
    bench.complete(0, 1);
    assert_eq!(bench.acknowledge(0, 1, &[S]), [], "its files belong to a complete checkpoint");
    (2..=200).for_each(|number| bench.complete(0, number));
    assert_eq!(bench.acknowledge(0, 1, &[S]), [], "nor is it discarded when nobody remembers");
}

#[test]
fn p11_what_comes_late_for_one_of_the_last_sixteen_that_expired_is_known_as_such() {
    let mut bench = Bench::new(MANUAL);
    for number in 1..=17 {
        bench.start(bench.at, number);
        bench.send(bench.at + 1_000, DeadlineReached);
    }
    assert_eq!(bench.acknowledge(bench.at, 1, &[S]), [late(1, S)]);
    assert_eq!(bench.acknowledge(bench.at, 2, &[S]), [late_expired(2, S)]);
    assert_eq!(bench.acknowledge(bench.at, 17, &[S]), [late_expired(17, S)]);
}

#[test]
fn p12_the_store_comes_before_the_promise_and_the_tasks_last() {
    let mut bench = Bench::new(CoordinatorOptions { tolerable_failed_checkpoints: 1, ..MANUAL });
    bench.start_and_acknowledge(0, 1);
    assert_eq!(bench.send(1, ManifestPersisted(id(1))), [Action::AddToStore(id(1))]);
    assert_eq!(bench.machine.latest_completed(), None);
    assert!(bench.refuses(1, ManifestPersisted(id(1))));
    let stored = CoordinatorEvent::Stored { id: id(1), subsumed: None };
    assert_eq!(bench.send(2, stored), completed(1));
    assert_eq!(bench.machine.latest_completed(), Some(id(1)));
    assert!(bench.refuses(2, stored));

    bench.start_kind(3, 2, SAVEPOINT);
    bench.acknowledge(3, 2, &ALL);
    let done = Action::RequestCompleted { request: token(2), id: id(2) };
    assert_eq!(bench.send(4, ManifestPersisted(id(2))), [done], "neither stored nor told");
    assert_eq!(bench.machine.latest_completed(), Some(id(1)));

    bench.start_kind(5, 3, DRAIN);
    bench.acknowledge(5, 3, &ALL);
    assert_eq!(bench.send(6, ManifestPersisted(id(3))), completed(3), "told, but not stored");
}

#[test]
fn p13_a_manifest_that_cannot_be_written_ends_the_checkpoint() {
    let mut bench = Bench::new(MANUAL);
    bench.start_and_acknowledge(0, 1);
    let reason = FailureReason::FinalizeCheckpointFailure;
    assert_eq!(bench.send(1, ManifestFailed(id(1))), aborted(1, reason, None));
    assert!(bench.machine.is_idle());
}

#[test]
fn p14_a_store_that_fails_ends_the_checkpoint_and_keeps_its_files_only_if_it_may_list_it() {
    let reason = FailureReason::FinalizeCheckpointFailure;
    for may_be_stored in [false, true] {
        let mut bench = Bench::new(CoordinatorOptions { min_pause: Millis(500), ..MANUAL });
        bench.start_and_acknowledge(0, 1);
        bench.send(0, ManifestPersisted(id(1)));
        let told = bench.send(1, CoordinatorEvent::StoreFailed { id: id(1), may_be_stored });
        let [request, discard, abort] = aborted(1, reason, None);
        let expected = if may_be_stored { vec![request, abort] } else { vec![request, discard, abort] };
        assert_eq!(told, expected);
        let duplicate = if may_be_stored { vec![] } else { vec![late(1, S)] };
        assert_eq!(bench.acknowledge(2, 1, &[S]), duplicate);
        assert_eq!(bench.machine.latest_completed(), None);
    }
}

#[test]
fn p15_only_a_checkpoint_that_the_store_took_may_be_built_upon_after_an_unclaimed_restore() {
    let mut bench = Bench::new(MANUAL);
    bench.send(0, CoordinatorEvent::Restored(Some(RestoredFrom { id: id(4), is_unclaimed: true })));
    let is_full = |actions: Vec<Action>| match actions[..] {
        [Action::TriggerTasks { barrier, .. }] => barrier.kind == SnapshotKind::FullCheckpoint,
        _ => panic!("{actions:?}"),
    };
    assert!(is_full(bench.start_kind(0, 5, RequestKind::Configured)));
    bench.acknowledge(0, 5, &ALL);
    bench.send(0, ManifestPersisted(id(5)));
    bench.send(0, CoordinatorEvent::StoreFailed { id: id(5), may_be_stored: false });
    assert!(is_full(bench.start_kind(0, 6, RequestKind::Configured)), "5 was not stored");
    bench.acknowledge(0, 6, &ALL);
    bench.store(0, 6);
    assert!(!is_full(bench.start_kind(0, 7, RequestKind::Configured)));
}

#[test]
fn p16_p17_a_completion_ends_older_checkpoints_even_while_their_manifest_is_written() {
    let subsumed = FailureReason::CheckpointSubsumed;
    let mut bench = Bench::new(MANUAL);
    bench.start_and_acknowledge(0, 1);
    bench.start_and_acknowledge(0, 2);
    assert_eq!(bench.store(1, 2), completed(2), "the manifest of 1 may be durable at any moment");
    let mut fails = bench.clone();
    assert_eq!(
        bench.send(2, ManifestPersisted(id(1))),
        aborted(1, subsumed, Some(2)),
        "the store gets ids in order"
    );
    let reason = FailureReason::FinalizeCheckpointFailure;
    assert_eq!(fails.send(2, ManifestFailed(id(1))), aborted(1, reason, Some(2)));
    assert_eq!(bench.machine.latest_completed(), Some(id(2)));
}

#[test]
fn p16_the_store_is_offered_one_checkpoint_at_a_time() {
    let offered = |number| [Action::AddToStore(id(number))];
    for newer_is_stored in [true, false] {
        let mut bench = Bench::new(MANUAL);
        bench.start_and_acknowledge(0, 1);
        bench.start_and_acknowledge(0, 2);
        assert_eq!(bench.send(1, ManifestPersisted(id(2))), offered(2));
        assert_eq!(bench.send(1, ManifestPersisted(id(1))), [], "it waits for its turn");
        if newer_is_stored {
            let told = bench.send(2, CoordinatorEvent::Stored { id: id(2), subsumed: None });
            let subsumed = aborted(1, FailureReason::CheckpointSubsumed, Some(2));
            assert_eq!(told, [completed(2).as_slice(), &subsumed].concat());
        } else {
            let told = bench.send(2, CoordinatorEvent::StoreFailed { id: id(2), may_be_stored: false });
            assert_eq!(told[..1], offered(1));
            assert_eq!(bench.send(3, CoordinatorEvent::Stored { id: id(1), subsumed: None }), completed(1));
        }
        assert!(bench.machine.is_idle());
    }
}

#[test]
fn p18_tasks_hear_what_the_store_let_go() {
    let mut bench = Bench::new(MANUAL);
    bench.start_and_acknowledge(0, 1);
    bench.send(0, ManifestPersisted(id(1)));
    let last_subsumed = Some(id(40));
    let told = bench.send(0, CoordinatorEvent::Stored { id: id(1), subsumed: last_subsumed });
    let notification = Notification::Complete { id: id(1), last_subsumed };
    assert_eq!(told[1..], [Action::Notify { tasks: TaskSet::first(3), notification }]);
}

#[test]
fn p18_p23_only_tasks_that_took_part_are_told() {
    let mut bench = Bench::new(MANUAL);
    bench.set(0, S, TaskState::Finished);
    bench.start(0, 1);
    let reason = FailureReason::CheckpointDeclined;
    let told = bench.decline(0, 1, M, reason);
    let notification = Notification::Abort { id: id(1), latest_completed: None };
    assert_eq!(told[2..], [Action::Notify { tasks: set([M.0, K.0]), notification }]);
    bench.start(0, 2);
    bench.acknowledge(0, 2, &[M, K]);
    let notification = Notification::Complete { id: id(2), last_subsumed: None };
    assert_eq!(bench.store(0, 2)[1..], [Action::Notify { tasks: set([M.0, K.0]), notification }]);
}

#[test]
fn p19_a_lost_notification_is_made_up_for_by_the_next_abort() {
    let mut bench = Bench::new(MANUAL);
    bench.complete(0, 1);
    bench.start(1, 2);
    let told = bench.decline(1, 2, M, FailureReason::CheckpointDeclined);
    assert_eq!(told.last(), Some(&notify_abort(2, Some(1))), "it names the latest that is complete");
    assert_eq!(bench.deadline(), None, "nothing is sent twice");
}

#[test]
fn p20_p21_a_checkpoint_is_given_up_once_in_this_order_and_frees_its_place() {
    let mut bench = Bench::new(CoordinatorOptions {
        max_concurrent_checkpoints: 1,
        tolerable_failed_checkpoints: 0,
        ..MANUAL
    });
    bench.start(0, 1);
    bench.acknowledge(0, 1, &[S]);
    assert_eq!(bench.request(0, 102), []);
    let reason = FailureReason::CheckpointDeclined;
    let [request, discard, abort] = aborted(1, reason, None);
    let next = Action::PrepareLocation {
        id: id(2),
        kind: SnapshotKind::Checkpoint,
        request: Some(token(2)),
        with_base: false,
    };
    assert_eq!(
        bench.decline(1, 1, M, reason),
        [request, discard, fail_job(reason, Some(M)), abort, next],
        "who asked, the files, the failure count, the tasks, the queue"
    );
    assert_eq!(bench.decline(1, 1, K, reason), []);
    assert_eq!(bench.deadline(), Some(1_001), "of the next one");
}

#[test]
fn p22_a_task_that_dies_ends_what_it_has_not_acknowledged() {
    let mut bench = Bench::new(MANUAL);
    bench.start(0, 1);
    bench.acknowledge(0, 1, &[S]);
    assert_eq!(bench.fail_task(1, S), []);
    assert_eq!(bench.fail_task(2, M), aborted(1, FailureReason::TaskFailure, None));
}

#[test]
fn p22_a_new_attempt_means_that_the_old_one_is_gone() {
    let mut bench = Bench::new(MANUAL);
    bench.start(0, 1);
    let running = |number| CoordinatorEvent::TaskChanged {
        attempt: Attempt { task: M, number },
        state: TaskState::Running,
    };
    assert_eq!(bench.send(1, running(1)), aborted(1, FailureReason::TaskFailure, None));
    assert!(bench.refuses(1, running(0)), "the one before");
    bench.start(2, 2);
    assert_eq!(bench.fail_task(2, M), [], "the old attempt owes nothing");
    let from = |number| CoordinatorEvent::Acknowledged {
        id: id(2),
        by: Attempt { task: M, number },
        report: TaskReport::default(),
    };
    assert!(matches!(bench.send(3, from(0))[..], [Action::DiscardLate { .. }]));
    assert!(matches!(bench.send(3, from(1))[..], [Action::KeepPart { .. }]));
}

#[test]
fn p24_what_was_collected_goes_with_the_checkpoint_and_the_folder_only_if_it_was_made() {
    let mut bench = Bench::new(MANUAL);
    bench.cleans_at_once = false;
    bench.request(0, 101);
    let expired = [failed(Some(token(1)), Some(1), FailureReason::CheckpointExpired), notify_abort(1, None)];
    assert_eq!(bench.send(1_000, DeadlineReached), expired);
    assert_eq!(bench.send(1_001, LocationPrepared(id(1))), [Action::DiscardAcknowledged(id(1))]);
    assert!(bench.machine.is_idle(), "it does not wait for the cleaning");
}

#[test]
fn p30_p32_late_results_of_coordinators_and_hooks_change_nothing_and_failures_of_theirs_end_nothing_else() {
    let mut bench = Bench::new(CoordinatorOptions { operator_coordinators: 1, hooks: 1, ..MANUAL });
    let coordinator =
        |number| CoordinatorEvent::OperatorCoordinatorAcknowledged { id: id(number), coordinator: 0 };
    bench.request(0, 101);
    bench.send(0, LocationPrepared(id(1)));
    bench.send(0, coordinator(1));
    let error = TriggerError::Io;
    let failed = bench.send(0, CoordinatorEvent::HookFailed { id: id(1), hook: 0, error });
    assert_eq!(failed, aborted(1, FailureReason::IoException, None), "the first that fails");
    assert_eq!(bench.send(0, CoordinatorEvent::HookFailed { id: id(1), hook: 0, error }), []);
    bench.request(1, 102);
    bench.send(1, LocationPrepared(id(2)));
    let dropped = Action::DiscardLate { id: id(1), by: Participant::Hook(0), is_expired: false };
    assert_eq!(bench.send(1, CoordinatorEvent::HookAcknowledged { id: id(1), hook: 0 }), [dropped]);
    assert!(matches!(bench.send(1, coordinator(2))[..], [Action::TriggerHooks { .. }]));
}

#[test]
fn p34_without_a_checkpoint_to_restore_hooks_are_reset() {
    let mut bench = Bench::new(CoordinatorOptions { hooks: 1, ..MANUAL });
    assert_eq!(bench.send(0, CoordinatorEvent::Restored(None)), [Action::RestoreHooks(None)]);
    let from = RestoredFrom { id: id(7), is_unclaimed: false };
    assert_eq!(bench.send(0, CoordinatorEvent::Restored(Some(from))), [Action::RestoreHooks(Some(id(7)))]);
    assert_eq!(Bench::new(MANUAL).send(0, CoordinatorEvent::Restored(None)), [], "there are no hooks");
}

#[test]
fn after_a_restore_ids_go_on_above_and_never_back() {
    let mut bench = Bench::new(MANUAL);
    let restored =
        |number| CoordinatorEvent::Restored(Some(RestoredFrom { id: id(number), is_unclaimed: false }));
    bench.send(0, restored(9));
    assert_eq!(bench.machine.next_id(), id(10));
    assert_eq!(bench.machine.latest_completed(), Some(id(9)));
    bench.start(0, 10);
    bench.send(0, restored(3));
    assert_eq!(bench.machine.next_id(), id(11));
    let foreign = CoordinatorEvent::Acknowledged { id: id(9), by: Attempt::first(S), report: STATE };
    assert!(bench.refuses(0, foreign), "what was restored is not ours to discard");
}

#[test]
fn f2_a_failure_without_a_checkpoint_is_told_apart_from_one_that_has_an_id() {
    let mut bench = Bench::new(MANUAL);
    bench.set(0, M, TaskState::Pending);
    let reason = FailureReason::NotAllRequiredTasksRunning;
    assert_eq!(bench.request(0, 1), [failed(Some(RequestToken(1)), None, reason)]);
    bench.set(0, M, TaskState::Running);
    bench.start(0, 1);
    let reason = FailureReason::CheckpointDeclined;
    let told = bench.decline(0, 1, M, reason);
    assert_eq!(told[0], failed(Some(token(1)), Some(1), reason), "before the failure is counted");
}

#[test]
fn f5_a_stop_with_savepoint_that_a_task_declines_fails_the_job() {
    let reason = FailureReason::CheckpointDeclined;
    for (kind, job_fails) in [(DRAIN, true), (SAVEPOINT, false)] {
        let mut bench = Bench::new(MANUAL);
        bench.start_kind(0, 1, kind);
        let told = bench.decline(0, 1, M, reason);
        assert_eq!(told.contains(&fail_job(reason, Some(M))), job_fails, "{kind:?}");
    }
}

#[test]
fn f6_reasons_that_do_not_count_never_fail_the_job() {
    let mut bench = Bench::new(CoordinatorOptions { tolerable_failed_checkpoints: 0, ..MANUAL });
    for (number, reason) in (1..).zip(FailureReason::ALL.iter().filter(|reason| !reason.counts())) {
        bench.start(0, number);
        assert_eq!(bench.decline(0, number, M, *reason), aborted(number, *reason, None));
    }
}

#[test]
fn f9_a_task_that_fails_in_its_synchronous_part_counts_for_nothing() {
    let mut bench = Bench::new(CoordinatorOptions { tolerable_failed_checkpoints: 0, ..MANUAL });
    for number in 1..5 {
        bench.start(0, number);
        assert_eq!(bench.fail_task(0, M), aborted(number, FailureReason::TaskFailure, None));
    }
}

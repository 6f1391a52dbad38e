//! Area C of the public bugs: what went wrong in coordinators elsewhere.

use super::*;

/// Late acknowledgements of a dead checkpoint: what they brought goes, but only that.
#[test]
fn bug_c01_late_parts_are_discarded_once_each_and_foreign_ones_are_left_alone() {
    let mut bench = Bench::new(MANUAL);
    bench.start(0, 1);
    bench.decline(1, 1, M, FailureReason::CheckpointDeclined);
    assert_eq!(bench.acknowledge(2, 1, &[S]), [late(1, S)]);
    bench.start(3, 2);
    bench.send(1_003, DeadlineReached);
    assert_eq!(bench.acknowledge(1_004, 2, &[S]), [late_expired(2, S)]);
    let foreign = Attempt::first(TaskIndex(30));
    for number in [1, 3] {
        let (id, report) = (id(number), TaskReport::default());
        assert!(bench.refuses(1_005, CoordinatorEvent::Acknowledged { id, by: foreign, report }));
    }
    assert_eq!(bench.acknowledge(1_006, 1, &[M, K]), [late(1, M), late(1, K)], "it never completes");
    assert_eq!(bench.machine.latest_completed(), None);
}

/// Periodic triggering survives an abort of all pending checkpoints.
#[test]
fn bug_c02_the_cadence_goes_on_after_an_abort_of_everything_pending() {
    let mut bench = Bench::new(PERIODIC);
    let first = bench.starts_until(100)[0];
    assert_eq!(bench.starts_until(250), []);
    let mut restarted = bench.clone();
    let actions = bench.fail_task(250, M);
    assert_eq!(actions.last(), Some(&prepare_for(2, None)), "what waits starts at once");
    bench.fail_task(250, M);
    bench.send(251, LocationPrepared(id(2)));
    bench.fail_task(251, M);
    let next_tick = first + 300 - if first < 50 { 0 } else { 100 };
    assert_eq!(bench.starts_until(350), [next_tick]);

    restarted.fail_task(250, M);
    for state in [TaskState::Pending, TaskState::Running] {
        restarted.send(250, CoordinatorEvent::TaskChanged { attempt: Attempt { task: M, number: 1 }, state });
    }
    assert_eq!(restarted.starts_until(350).len(), 1);
}

/// A checkpoint that dies while it is being triggered does not wedge the coordinator.
#[test]
fn bug_c03_a_checkpoint_that_expires_while_it_is_triggered_leaves_the_way_free() {
    let mut bench = Bench::new(CoordinatorOptions { max_concurrent_checkpoints: 1, ..MANUAL });
    assert_eq!(bench.request(0, 101), [prepare(1)]);
    let expired = [failed(Some(token(1)), Some(1), FailureReason::CheckpointExpired), notify_abort(1, None)];
    assert_eq!(bench.send(1_000, DeadlineReached), expired);
    let began = bench.request(1_100, 102);
    assert!(matches!(began[..], [Action::PrepareLocation { id: CheckpointId(2), .. }]), "{began:?}");
    assert_eq!(bench.send(1_200, LocationPrepared(id(1))), [Action::DiscardAcknowledged(id(1))]);
    assert!(bench.refuses(1_200, LocationPrepared(id(1))));
    assert_eq!(bench.send(1_300, LocationPrepared(id(2))), [trigger(2, 1_100)]);
}

/// The same, with the state of a hook that comes too late.
#[test]
fn bug_c03_a_hook_that_outlives_its_checkpoint_has_its_state_discarded_once() {
    let mut bench = Bench::new(CoordinatorOptions { max_concurrent_checkpoints: 1, hooks: 1, ..MANUAL });
    bench.request(0, 101);
    assert!(matches!(bench.send(0, LocationPrepared(id(1)))[..], [Action::TriggerHooks { .. }]));
    assert_eq!(bench.send(1_000, DeadlineReached), aborted(1, FailureReason::CheckpointExpired, None));
    assert_eq!(bench.request(1_100, 102), [prepare(2)]);
    let hook = |number| CoordinatorEvent::HookAcknowledged { id: id(number), hook: 0 };
    let dropped = Action::DiscardLate { id: id(1), by: Participant::Hook(0), is_expired: true };
    assert_eq!(bench.send(1_200, hook(1)), [dropped]);
    assert!(matches!(bench.send(1_300, LocationPrepared(id(2)))[..], [Action::TriggerHooks { .. }]));
    assert_eq!(bench.send(1_300, hook(2)), [trigger(2, 1_100)]);
}

/// The pause is measured from the real last completion.
#[test]
fn bug_c04_no_periodic_checkpoint_starts_within_the_pause() {
    let options = CoordinatorOptions { interval: Some(Millis(10)), min_pause: Millis(500), ..PERIODIC };
    let mut bench = Bench::new(options);
    assert_eq!(bench.starts_until(999), [500]);
    for number in 1..200 {
        let at = if number == 1 { 1_000 } else { bench.at + number % 7 + 1 };
        bench.acknowledge(at, number, &ALL);
        let done = bench.store(at, number);
        assert!(!done.iter().any(|action| matches!(action, Action::PrepareLocation { .. })));
        let mut starts = Vec::new();
        for now in at + 1..=at + 600 {
            starts.extend(bench.starts_until(now));
        }
        assert_eq!(starts, [at + 500], "{number}");
    }
}

/// Adding to the store of complete checkpoints, three failures: (a) is the store's own affair.
#[test]
fn bug_c05_a_checkpoint_that_cannot_be_stored_is_never_announced_and_counts() {
    let reason = FailureReason::FinalizeCheckpointFailure;
    for tolerable_failed_checkpoints in [0, 1] {
        let mut bench = Bench::new(CoordinatorOptions { tolerable_failed_checkpoints, ..MANUAL });
        bench.complete(0, 1);
        bench.start_and_acknowledge(0, 2);
        assert_eq!(bench.store(0, 2), completed(2), "(a) what becomes of 1 does not matter");
        bench.start_and_acknowledge(0, 3);
        bench.send(0, ManifestPersisted(id(3)));
        let told = bench.send(0, CoordinatorEvent::StoreFailed { id: id(3), may_be_stored: false });
        let [request, discard, abort] = aborted(3, reason, Some(2));
        if tolerable_failed_checkpoints == 0 {
            assert_eq!(told, [request, discard, fail_job(reason, None), abort], "(c)");
            continue;
        }
        assert_eq!(told, [request, discard, abort], "(b)");
        assert_eq!(bench.machine.latest_completed(), Some(id(2)));
        bench.start_and_acknowledge(0, 4);
        let [request, discard, abort] = aborted(4, reason, Some(2));
        assert_eq!(
            bench.send(0, ManifestFailed(id(4))),
            [request, discard, fail_job(reason, None), abort],
            "the second in a row"
        );
        bench.complete(0, 5);
    }
}

/// A trigger that reaches a task which finished a moment ago.
#[test]
fn bug_c06_a_checkpoint_planned_for_a_task_that_has_finished_ends_at_once() {
    let graph = || graph(&[1, 1], &[]);
    let (first, second) = (TaskIndex(0), TaskIndex(1));
    let not_ready = FailureReason::CheckpointDeclinedTaskNotReady;
    let unreachable = TriggerError::Checkpoint(not_ready);
    for event in [
        CoordinatorEvent::Declined { id: id(4), by: Attempt::first(first), reason: not_ready },
        CoordinatorEvent::TriggerFailed { id: id(4), task: first, error: unreachable },
    ] {
        let options =
            CoordinatorOptions { timeout: Millis(600_000), tolerable_failed_checkpoints: 0, ..MANUAL };
        let mut bench = Bench::<4, 8>::of(options, graph(), id(4));
        bench.start(0, 4);
        bench.set(0, first, TaskState::Finished);
        assert_eq!(bench.send(0, event)[0], failed(Some(token(4)), Some(4), not_ready));
        let triggered = bench.start_kind(0, 5, RequestKind::Configured);
        let [Action::TriggerTasks { tasks, .. }] = triggered[..] else { panic!("{triggered:?}") };
        assert_eq!(tasks, set([1]));
        let finished = set([0]);
        assert_eq!(bench.acknowledge(0, 5, &[second]), [Action::PersistManifest { id: id(5), finished }]);
    }
}

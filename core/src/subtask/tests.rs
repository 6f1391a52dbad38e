//! Worked sequences of one subtask as tables of events and the actions they give.

use std::vec::Vec;

use super::{Subtask, SubtaskAction, SubtaskEvent};
use crate::gate::AlignmentMetrics;
use crate::ids::{Alignment, Barrier, CheckpointId, SnapshotKind};
use crate::machine::Rejected;
use crate::reason::FailureReason;
use crate::time::{Millis, Now};

use SubtaskAction::{
    BroadcastBarrier, BroadcastCancel, CancelPersist, FailTask, NotifyAbort, NotifyComplete, NotifySubsume,
    Persist, PrepareOperators, SnapshotOperators,
};
use SubtaskEvent::{
    PersistFailed, Persisted, SnapshotFailed, SnapshotTaken, Started, Stopped, TriggerReceived,
};

const ALIGNMENT: AlignmentMetrics =
    AlignmentMetrics { duration: Millis(3), start_delay: Millis(8), ..AlignmentMetrics::ZERO };
const NOW: Now = Now { monotonic: Millis(70), wall: Millis(1_000) };

type Machine = Subtask<2>;

fn send(machine: &mut Machine, event: SubtaskEvent) -> Result<Vec<SubtaskAction>, Rejected> {
    let mut out = heapless::Vec::<_, { Machine::ACTIONS_MAX }>::new();
    machine.on_event(NOW, event, &mut out)?;
    machine.check();
    Ok(out.into_iter().collect())
}

/// Starts a subtask and sends it each event in turn.
fn run(table: &[(SubtaskEvent, &[SubtaskAction])]) -> Machine {
    let mut machine = Machine::new();
    assert_eq!(send(&mut machine, Started), Ok([].into()));
    go_on(&mut machine, table);
    machine
}

fn go_on(machine: &mut Machine, table: &[(SubtaskEvent, &[SubtaskAction])]) {
    for (row, (event, actions)) in table.iter().enumerate() {
        assert_eq!(send(machine, *event).as_deref(), Ok(*actions), "row {row}: {event:?}");
    }
}

fn id(id: u64) -> CheckpointId {
    CheckpointId(id)
}

fn barrier(number: u64) -> Barrier {
    Barrier {
        id: id(number),
        triggered_at: Millis(990),
        kind: SnapshotKind::Checkpoint,
        alignment: Alignment::Aligned,
    }
}

/// The gate has seen every barrier: the subtask has to perform the checkpoint.
fn perform(number: u64) -> SubtaskEvent {
    SubtaskEvent::AlignmentCompleted { barrier: barrier(number), alignment: ALIGNMENT }
}

fn abort(number: u64, latest_completed: Option<u64>) -> SubtaskEvent {
    SubtaskEvent::AbortNotified { id: id(number), latest_completed: latest_completed.map(CheckpointId) }
}

fn complete(number: u64) -> SubtaskEvent {
    SubtaskEvent::CompleteNotified(id(number))
}

fn steps(number: u64) -> [SubtaskAction; 3] {
    [PrepareOperators(id(number)), BroadcastBarrier(barrier(number)), SnapshotOperators(barrier(number))]
}

fn acknowledge(number: u64) -> SubtaskAction {
    SubtaskAction::Acknowledge { id: id(number), alignment: ALIGNMENT }
}

fn decline(number: u64, reason: FailureReason) -> SubtaskAction {
    SubtaskAction::Decline { id: id(number), reason }
}

#[test]
fn y1_prepares_then_sends_the_barrier_then_freezes_then_acknowledges() {
    let machine = run(&[
        (perform(5), &steps(5)),
        (SnapshotTaken(id(5)), &[Persist(id(5))]),
        (Persisted(id(5)), &[acknowledge(5)]),
        (complete(5), &[NotifyComplete(id(5))]),
        (SubtaskEvent::SubsumeNotified(id(4)), &[NotifySubsume(id(4))]),
    ]);
    assert_eq!((machine.persisting_count(), machine.latest_completed()), (0, Some(id(5))));
}

#[test]
fn x3_a_source_reports_the_delay_since_the_trigger() {
    let alignment = AlignmentMetrics { start_delay: Millis(10), ..AlignmentMetrics::ZERO };
    run(&[
        (TriggerReceived(barrier(1)), &steps(1)),
        (SnapshotTaken(id(1)), &[Persist(id(1))]),
        (Persisted(id(1)), &[SubtaskAction::Acknowledge { id: id(1), alignment }]),
    ]);
}

#[test]
fn x7_y2_abort_before_the_barrier_turns_it_into_a_cancel_marker() {
    run(&[
        (abort(6, None), &[NotifyAbort(id(6))]),
        (perform(6), &[BroadcastCancel(id(6))]),
        (perform(7), &steps(7)),
    ]);
}

#[test]
fn x6_y3_an_older_barrier_is_ignored() {
    run(&[
        (perform(7), &steps(7)),
        (SnapshotTaken(id(7)), &[Persist(id(7))]),
        (perform(6), &[]),
        (perform(7), &[]),
        (Persisted(id(7)), &[acknowledge(7)]),
    ]);
}

#[test]
fn x21_y4_abort_during_the_asynchronous_part_cancels_it() {
    run(&[
        (perform(8), &steps(8)),
        (SnapshotTaken(id(8)), &[Persist(id(8))]),
        (abort(8, None), &[CancelPersist(id(8)), NotifyAbort(id(8))]),
        (Persisted(id(8)), &[]),
        (PersistFailed { id: id(8), reason: FailureReason::CheckpointAsyncException }, &[]),
    ]);
}

#[test]
fn x22_abort_during_the_synchronous_part_keeps_it_from_becoming_durable() {
    run(&[
        (perform(8), &steps(8)),
        (abort(8, None), &[NotifyAbort(id(8))]),
        (SnapshotTaken(id(8)), &[CancelPersist(id(8))]),
        (perform(9), &steps(9)),
    ]);
}

#[test]
fn y5_abort_after_the_acknowledgement_only_tells_the_operators() {
    run(&[
        (perform(8), &steps(8)),
        (SnapshotTaken(id(8)), &[Persist(id(8))]),
        (Persisted(id(8)), &[acknowledge(8)]),
        (abort(8, None), &[NotifyAbort(id(8))]),
    ]);
}

#[test]
fn x21_y6_abort_makes_up_for_a_lost_completion_once() {
    run(&[(complete(9), &[NotifyComplete(id(9))]), (abort(10, Some(9)), &[NotifyAbort(id(10))])]);
    run(&[(abort(10, Some(9)), &[NotifyComplete(id(9)), NotifyAbort(id(10))]), (complete(9), &[])]);
}

#[test]
fn x23_y7_an_older_completion_is_ignored() {
    run(&[(complete(9), &[NotifyComplete(id(9))]), (complete(8), &[])]);
}

/// The 128 newest ids are remembered one by one; every older one counts as aborted, the one on the edge included.
#[test]
fn x19_y8_no_aborted_checkpoint_escapes_the_bounded_memory() {
    let mut aborted = run(&[]);
    for number in 1..=200 {
        go_on(&mut aborted, &[(abort(number, None), &[NotifyAbort(id(number))])]);
    }
    for number in [10, 72, 73, 200] {
        go_on(&mut aborted.clone(), &[(perform(number), &[BroadcastCancel(id(number))])]);
    }
    go_on(&mut aborted, &[(perform(201), &steps(201))]);
}

#[test]
fn x19_a_gap_among_aborted_checkpoints_is_not_aborted() {
    run(&[
        (abort(5, None), &[NotifyAbort(id(5))]),
        (abort(9, None), &[NotifyAbort(id(9))]),
        (perform(8), &steps(8)),
        (SnapshotTaken(id(8)), &[Persist(id(8))]),
        (perform(9), &[BroadcastCancel(id(9))]),
    ]);
}

#[test]
fn x12_a_failed_synchronous_part_fails_the_task() {
    run(&[
        (perform(5), &steps(5)),
        (SnapshotFailed(id(5)), &[FailTask(id(5))]),
        (perform(6), &[BroadcastCancel(id(6))]),
    ]);
}

#[test]
fn x17_y10_a_failed_asynchronous_part_declines_and_the_task_goes_on() {
    let reason = FailureReason::CheckpointAsyncException;
    run(&[
        (perform(5), &steps(5)),
        (SnapshotTaken(id(5)), &[Persist(id(5))]),
        (PersistFailed { id: id(5), reason }, &[decline(5, reason)]),
        (perform(6), &steps(6)),
    ]);
}

#[test]
fn x17_a_stopped_task_acknowledges_but_does_not_decline() {
    let reason = FailureReason::CheckpointAsyncException;
    run(&[
        (perform(5), &steps(5)),
        (SnapshotTaken(id(5)), &[Persist(id(5))]),
        (perform(6), &steps(6)),
        (SnapshotTaken(id(6)), &[Persist(id(6))]),
        (Stopped, &[]),
        (PersistFailed { id: id(5), reason }, &[]),
        (Persisted(id(6)), &[acknowledge(6)]),
        (complete(6), &[]),
        (abort(7, None), &[]),
    ]);
}

#[test]
fn stopping_during_the_synchronous_part_lets_go_of_the_frozen_state() {
    run(&[(perform(5), &steps(5)), (Stopped, &[CancelPersist(id(5))])]);
}

#[test]
fn x4_y11_a_task_that_does_not_run_passes_on_a_cancel_marker_and_a_source_declines() {
    let not_ready = FailureReason::CheckpointDeclinedTaskNotReady;
    let mut machine = Machine::new();
    let table: &[(_, &[_])] = &[
        (perform(11), &[BroadcastCancel(id(11))]),
        (TriggerReceived(barrier(12)), &[BroadcastCancel(id(12)), decline(12, not_ready)]),
    ];
    go_on(&mut machine, table);
    go_on(&mut machine, &[(Started, &[]), (Stopped, &[])]);
    go_on(&mut machine, table);
}

#[test]
fn x20_y12_an_aborted_alignment_declines_and_passes_on_a_cancel_marker() {
    let reason = FailureReason::CheckpointDeclinedSubsumed;
    run(&[
        (SubtaskEvent::AlignmentAborted { id: id(1), reason }, &[decline(1, reason), BroadcastCancel(id(1))]),
        (abort(1, None), &[NotifyAbort(id(1))]),
        (perform(1), &[]),
        (perform(2), &steps(2)),
    ]);
}

#[test]
fn several_checkpoints_become_durable_in_any_order() {
    run(&[
        (perform(1), &steps(1)),
        (SnapshotTaken(id(1)), &[Persist(id(1))]),
        (perform(2), &steps(2)),
        (SnapshotTaken(id(2)), &[Persist(id(2))]),
        (Persisted(id(2)), &[acknowledge(2)]),
        (Persisted(id(1)), &[acknowledge(1)]),
    ]);
}

#[test]
fn a_checkpoint_without_room_is_declined_before_anything_goes_out() {
    run(&[
        (perform(1), &steps(1)),
        (SnapshotTaken(id(1)), &[Persist(id(1))]),
        (perform(2), &steps(2)),
        (SnapshotTaken(id(2)), &[Persist(id(2))]),
        (perform(3), &[decline(3, FailureReason::TaskCheckpointFailure), BroadcastCancel(id(3))]),
        (Persisted(id(1)), &[acknowledge(1)]),
        (perform(4), &steps(4)),
    ]);
}

/// Case A-05: a task that skips an aborted checkpoint tells those behind it, and remembers within bounds.
#[test]
fn a05_an_aborted_checkpoint_is_skipped_with_one_cancel_marker() {
    let mut machine = run(&[
        (abort(7, None), &[NotifyAbort(id(7))]),
        (perform(7), &[BroadcastCancel(id(7))]),
        (perform(8), &steps(8)),
        (SnapshotTaken(id(8)), &[Persist(id(8))]),
    ]);
    for number in 100..10_100 {
        go_on(&mut machine, &[(abort(number, None), &[NotifyAbort(id(number))])]);
    }
    assert!(size_of::<Machine>() < 512, "the memory of aborted checkpoints is part of the machine");
    go_on(&mut machine, &[(perform(20_000), &steps(20_000))]);
}

#[test]
fn refused_events_change_nothing() {
    let mut machine = run(&[(perform(5), &steps(5))]);
    let before = std::format!("{machine:?}");
    for event in [
        Started,
        perform(6),
        TriggerReceived(barrier(6)),
        SnapshotTaken(id(4)),
        SnapshotFailed(id(6)),
        Persisted(id(6)),
    ] {
        assert!(matches!(send(&mut machine, event), Err(Rejected::Unexpected { .. })), "{event:?}");
    }
    let mut short = heapless::Vec::<_, 2>::new();
    assert_eq!(machine.on_event(NOW, Stopped, &mut short), Err(Rejected::NoRoom { needed: 3, free: 2 }));
    let earlier = Now { monotonic: Millis(69), ..NOW };
    let mut out = heapless::Vec::<_, 3>::new();
    assert!(matches!(machine.on_event(earlier, Stopped, &mut out), Err(Rejected::TimeWentBack { .. })));
    assert_eq!(std::format!("{machine:?}"), before);
}

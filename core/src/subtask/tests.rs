//! Each rule, and the worked sequences, as tables of events and the actions they give.

use std::format;
use std::vec::Vec;

use super::{
    Part, PartSet, PartSizes, SnapshotMetrics, Subtask, SubtaskAction, SubtaskEvent, SubtaskOptions,
    TaskFailure,
};
use crate::gate::AlignmentMetrics;
use crate::ids::{Alignment, Barrier, CheckpointId, SavepointFormat, SnapshotKind};
use crate::machine::Rejected;
use crate::reason::FailureReason;
use crate::time::{Millis, Now};

use SubtaskAction::{
    BroadcastBarrier, BroadcastCancel, CancelPersist, Close, ConfirmLocalState, DropCapture, DropLocalState,
    EndData, InjectBarrier, NotifyAbort, NotifyComplete, NotifySubsume, OvertakeOutputs, PersistInput,
    PrepareOperators, ReopenGateways, SnapshotOperators, StoreLocalState,
};
use SubtaskEvent::{
    CheckpointInduced, DeadlineReached, InputsFinished, NotificationFailed, OutputsConsumed, SnapshotFailed,
    Started, Stopped, SubsumeNotified, TriggerReceived,
};

const ALIGNMENT: AlignmentMetrics =
    AlignmentMetrics { duration: Millis(3), start_delay: Millis(8), bytes_processed: 40, bytes_persisted: 0 };
const NOW: Now = Now { monotonic: Millis(70), wall: Millis(1_000) };
const FORMAT: SavepointFormat = SavepointFormat::Canonical;

mod invariants;

type Machine = Subtask<2>;
type Table<'a> = &'a [(SubtaskEvent, &'a [SubtaskAction])];

fn send_at(machine: &mut Machine, now: Now, event: SubtaskEvent) -> Result<Vec<SubtaskAction>, Rejected> {
    let mut out = heapless::Vec::<_, { Machine::ACTIONS_MAX }>::new();
    machine.on_event(now, event, &mut out)?;
    machine.check();
    Ok(out.into_iter().collect())
}

fn send(machine: &mut Machine, event: SubtaskEvent) -> Result<Vec<SubtaskAction>, Rejected> {
    send_at(machine, NOW, event)
}

fn go_on(machine: &mut Machine, table: Table<'_>) {
    for (row, (event, actions)) in table.iter().enumerate() {
        assert_eq!(send(machine, *event).as_deref(), Ok(*actions), "row {row}: {event:?}");
    }
}

fn started(options: SubtaskOptions) -> Machine {
    let mut machine = Machine::new(options);
    assert_eq!(send(&mut machine, Started), Ok([].into()));
    machine
}

/// Starts a subtask with inputs and sends it each event in turn.
fn run(table: Table<'_>) -> Machine {
    let mut machine = started(SubtaskOptions::INNER);
    go_on(&mut machine, table);
    machine
}

/// The same with a source.
fn run_source(table: Table<'_>) -> Machine {
    let mut machine = started(SubtaskOptions::SOURCE);
    go_on(&mut machine, table);
    machine
}

fn is_refused(machine: &mut Machine, event: SubtaskEvent) -> bool {
    let before = format!("{machine:?}");
    let refused = matches!(send(machine, event), Err(Rejected::Unexpected { .. }));
    assert_eq!(format!("{machine:?}"), before, "{event:?}");
    refused
}

const fn id(id: u64) -> CheckpointId {
    CheckpointId(id)
}

const fn barrier(number: u64) -> Barrier {
    Barrier {
        id: id(number),
        triggered_at: Millis(990),
        kind: SnapshotKind::Checkpoint,
        alignment: Alignment::Aligned,
    }
}

const fn unaligned(number: u64) -> Barrier {
    Barrier { alignment: Alignment::Unaligned, ..barrier(number) }
}

/// Stop with savepoint.
const fn stop(number: u64, kind: SnapshotKind) -> Barrier {
    Barrier { kind, ..barrier(number) }
}

const fn triggered(barrier: Barrier) -> SubtaskEvent {
    SubtaskEvent::CheckpointTriggered { barrier, alignment: ALIGNMENT }
}

/// The gate has seen every barrier: the subtask has to perform the checkpoint.
const fn perform(number: u64) -> SubtaskEvent {
    triggered(barrier(number))
}

const fn gate_aborts(number: u64, reason: FailureReason) -> SubtaskEvent {
    SubtaskEvent::AlignmentAborted { id: id(number), reason }
}

const fn captured(number: u64) -> SubtaskEvent {
    let alignment = AlignmentMetrics { duration: Millis(30), ..ALIGNMENT };
    SubtaskEvent::InputCaptured { id: id(number), alignment }
}

fn keyed() -> PartSet {
    PartSet::only(Part::ManagedKeyed)
}

fn taken_with(number: u64, parts: PartSet) -> SubtaskEvent {
    SubtaskEvent::SnapshotTaken { id: id(number), parts, since: Millis(65) }
}

fn taken(number: u64) -> SubtaskEvent {
    taken_with(number, keyed())
}

const fn part(number: u64, part: Part) -> SubtaskEvent {
    let sizes = PartSizes { written_bytes: 10, state_bytes: 100 };
    SubtaskEvent::PartPersisted { id: id(number), part, sizes }
}

const fn persisted(number: u64) -> SubtaskEvent {
    part(number, Part::ManagedKeyed)
}

const fn persist_failed(number: u64, reason: Option<FailureReason>) -> SubtaskEvent {
    SubtaskEvent::PersistFailed { id: id(number), reason }
}

const fn abort(number: u64, latest_completed: Option<u64>) -> SubtaskEvent {
    let latest_completed = match latest_completed {
        Some(number) => Some(id(number)),
        None => None,
    };
    SubtaskEvent::AbortNotified { id: id(number), latest_completed }
}

const fn complete(number: u64) -> SubtaskEvent {
    SubtaskEvent::CompleteNotified(id(number))
}

const fn ended(drained: bool) -> SubtaskEvent {
    SubtaskEvent::DataEnded { drained }
}

const fn steps_of(barrier: Barrier) -> [SubtaskAction; 3] {
    [PrepareOperators(barrier.id), BroadcastBarrier(barrier), SnapshotOperators(barrier)]
}

const fn steps(number: u64) -> [SubtaskAction; 3] {
    steps_of(barrier(number))
}

fn persist(number: u64) -> SubtaskAction {
    SubtaskAction::Persist { id: id(number), parts: keyed() }
}

/// What the keyed state took that was frozen at once.
fn metrics(alignment: AlignmentMetrics) -> SnapshotMetrics {
    SnapshotMetrics {
        alignment,
        sync_duration: Millis(5),
        async_duration: Millis(0),
        checkpointed_bytes: 10,
        state_bytes: 100,
    }
}

fn acknowledge_with(number: u64, alignment: AlignmentMetrics, is_finished: bool) -> SubtaskAction {
    let metrics = metrics(alignment);
    SubtaskAction::Acknowledge { id: id(number), parts: keyed(), is_finished, metrics }
}

fn acknowledge(number: u64) -> SubtaskAction {
    acknowledge_with(number, ALIGNMENT, false)
}

/// That of a source.
fn acknowledge_directly(number: u64, is_finished: bool) -> SubtaskAction {
    let alignment = AlignmentMetrics { start_delay: Millis(10), ..AlignmentMetrics::ZERO };
    acknowledge_with(number, alignment, is_finished)
}

/// Nothing was durable yet.
fn incomplete(number: u64) -> SubtaskAction {
    let metrics = SnapshotMetrics { checkpointed_bytes: 0, state_bytes: 0, ..metrics(ALIGNMENT) };
    SubtaskAction::ReportIncomplete { id: id(number), metrics }
}

const fn decline(number: u64, reason: FailureReason) -> SubtaskAction {
    SubtaskAction::Decline { id: id(number), reason }
}

const fn fail(number: u64, failure: TaskFailure) -> SubtaskAction {
    SubtaskAction::FailTask { id: id(number), failure }
}

#[test]
fn x1_a_trigger_is_declined_before_the_start_after_the_end_and_while_closing() {
    let not_ready = FailureReason::CheckpointDeclinedTaskNotReady;
    let closing = FailureReason::CheckpointDeclinedTaskClosing;
    let options = SubtaskOptions { checkpoints_after_end: false, ..SubtaskOptions::SOURCE };
    let mut machine = Machine::new(options);
    go_on(
        &mut machine,
        &[
            (TriggerReceived(barrier(7)), &[BroadcastCancel(id(7)), decline(7, not_ready)]),
            (Started, &[]),
            (ended(true), &[Close]),
            (TriggerReceived(barrier(8)), &[BroadcastCancel(id(8)), decline(8, closing)]),
        ],
    );
    assert!(machine.is_running(), "what is ordered already is carried out");
    go_on(
        &mut machine,
        &[(Stopped, &[]), (TriggerReceived(barrier(9)), &[BroadcastCancel(id(9)), decline(9, not_ready)])],
    );
}

#[test]
fn x2_what_the_backend_cannot_do_fails_the_task() {
    let none = SubtaskOptions {
        full_checkpoints: false,
        canonical_savepoints: false,
        native_savepoints: false,
        ..SubtaskOptions::SOURCE
    };
    let (full, format) = (TaskFailure::FullCheckpointUnsupported, TaskFailure::SavepointFormatUnsupported);
    let savepoint = |format| SnapshotKind::Savepoint(format);
    let native = SavepointFormat::Native;
    let table = [
        (none, SnapshotKind::FullCheckpoint, full),
        (none, savepoint(FORMAT), format),
        (none, savepoint(native), format),
        (none, SnapshotKind::Drain(native), format),
        (SubtaskOptions { canonical_savepoints: true, ..none }, SnapshotKind::Suspend(native), format),
        (SubtaskOptions { native_savepoints: true, ..none }, SnapshotKind::Suspend(FORMAT), format),
    ];
    for (options, kind, failure) in table {
        let mut machine = started(options);
        let trigger = TriggerReceived(stop(4, kind));
        go_on(&mut machine, &[(trigger, &[fail(4, failure)])]);
        assert!(!machine.is_running());
    }
    for kind in [SnapshotKind::FullCheckpoint, savepoint(FORMAT), savepoint(native)] {
        let barrier = stop(4, kind);
        run_source(&[(TriggerReceived(barrier), &steps_of(barrier))]);
    }
    go_on(&mut started(none), &[(TriggerReceived(barrier(4)), &steps(4))]);
}

#[test]
fn x3_a_source_takes_the_checkpoint_at_once_and_reports_the_delay_since_the_trigger() {
    run_source(&[
        (TriggerReceived(barrier(1)), &steps(1)),
        (taken(1), &[persist(1)]),
        (persisted(1), &[acknowledge_directly(1, false)]),
    ]);
}

#[test]
fn x3_a_subtask_with_inputs_injects_the_barrier_until_all_of_them_have_ended() {
    run(&[
        (TriggerReceived(barrier(1)), &[InjectBarrier(barrier(1))]),
        (perform(1), &steps(1)),
        (taken(1), &[persist(1)]),
        (persisted(1), &[acknowledge(1)]),
        (InputsFinished, &[]),
        (TriggerReceived(barrier(2)), &steps(2)),
        (taken(2), &[persist(2)]),
        (persisted(2), &[acknowledge_directly(2, false)]),
    ]);
}

#[test]
fn x4_y11_a_subtask_that_does_not_run_passes_on_a_cancel_marker_and_a_source_declines() {
    let not_ready = FailureReason::CheckpointDeclinedTaskNotReady;
    let mut machine = Machine::new(SubtaskOptions::INNER);
    for first in [11, 21] {
        go_on(
            &mut machine,
            &[
                (perform(first), &[BroadcastCancel(id(first))]),
                (perform(first), &[]),
                (
                    triggered(unaligned(first + 1)),
                    &[DropCapture(id(first + 1)), BroadcastCancel(id(first + 1))],
                ),
                (
                    TriggerReceived(barrier(first + 2)),
                    &[BroadcastCancel(id(first + 2)), decline(first + 2, not_ready)],
                ),
            ],
        );
        if first == 11 {
            go_on(&mut machine, &[(Started, &[]), (Stopped, &[])]);
        }
    }
}

#[test]
fn x5_only_a_barrier_that_has_overtaken_waits_for_captured_records() {
    let timed = Barrier { alignment: Alignment::AlignedFor(Millis(50)), ..barrier(1) };
    for barrier in [barrier(1), timed, Barrier { alignment: Alignment::AtLeastOnce, ..barrier(1) }] {
        let mut machine = run(&[
            (triggered(barrier), &steps_of(barrier)),
            (taken(1), &[persist(1)]),
            (persisted(1), &[acknowledge(1)]),
        ]);
        assert_eq!(machine.persisting_count(), 0);
        assert_eq!(send(&mut machine, captured(1)), Ok([DropCapture(id(1))].into()));
    }
    // Without inputs there is nothing to overtake.
    let table: Table<'_> =
        &[(TriggerReceived(unaligned(1)), &steps_of(unaligned(1))), (taken(1), &[persist(1)])];
    let mut machine = run_source(table);
    go_on(&mut machine, &[(persisted(1), &[acknowledge_directly(1, false)])]);
}

#[test]
fn x6_y3_an_older_or_repeated_barrier_is_ignored_and_its_capture_dropped() {
    run(&[
        (perform(7), &steps(7)),
        (taken(7), &[persist(7)]),
        (perform(6), &[]),
        (triggered(unaligned(6)), &[DropCapture(id(6))]),
        (perform(7), &[]),
        (persisted(7), &[acknowledge(7)]),
        (triggered(unaligned(8)), &steps_of(unaligned(8))),
        (taken(8), &[persist(8)]),
        (triggered(unaligned(8)), &[]),
        (captured(8), &[PersistInput(id(8))]),
    ]);
}

#[test]
fn x7_y2_abort_before_the_barrier_turns_it_into_a_cancel_marker() {
    run(&[
        (abort(6, None), &[NotifyAbort(id(6))]),
        (perform(6), &[BroadcastCancel(id(6))]),
        (perform(7), &steps(7)),
    ]);
    run(&[
        (abort(6, None), &[NotifyAbort(id(6))]),
        (triggered(unaligned(6)), &[DropCapture(id(6)), BroadcastCancel(id(6))]),
        (perform(6), &[]),
    ]);
}

#[test]
fn x8_a_barrier_that_had_to_keep_its_place_may_overtake_again() {
    let table = [
        (None, Alignment::Unaligned, None),
        (Some(Millis(50)), Alignment::AlignedFor(Millis(50)), Some(Millis(110))),
    ];
    for (timeout, alignment, deadline) in table {
        let forced = Barrier { alignment: Alignment::ForcedAligned { timeout }, ..barrier(3) };
        let passed_on = Barrier { alignment, ..barrier(3) };
        let mut machine = run(&[(triggered(forced), &steps_of(passed_on))]);
        assert_eq!(machine.next_deadline(NOW), deadline);
        // The inputs were aligned: nothing is captured.
        go_on(&mut machine, &[(taken(3), &[persist(3)]), (persisted(3), &[acknowledge(3)])]);
    }
}

#[test]
fn x9_x11_y1_prepares_then_sends_the_barrier_then_freezes_then_acknowledges() {
    let machine = run(&[
        (perform(5), &steps(5)),
        (taken(5), &[persist(5)]),
        (persisted(5), &[acknowledge(5)]),
        (complete(5), &[NotifyComplete(id(5))]),
    ]);
    assert_eq!((machine.persisting_count(), machine.latest_completed()), (0, Some(id(5))));
}

#[test]
fn x10_an_unaligned_barrier_goes_out_as_it_is_and_a_timed_one_overtakes_when_its_time_is_up() {
    run(&[(triggered(unaligned(5)), &steps_of(unaligned(5)))]);
    let timed = |number| Barrier { alignment: Alignment::AlignedFor(Millis(50)), ..barrier(number) };
    // 10 ms of the 50 have passed.
    let mut machine = run(&[(triggered(timed(5)), &steps_of(timed(5)))]);
    assert_eq!(machine.next_deadline(NOW), Some(Millis(110)));
    go_on(&mut machine, &[(taken(5), &[persist(5)]), (DeadlineReached, &[])]);
    let now = Now { monotonic: Millis(110), wall: Millis(1_040) };
    assert_eq!(send_at(&mut machine, now, DeadlineReached), Ok([OvertakeOutputs(unaligned(5))].into()));
    assert_eq!(machine.next_deadline(now), None);
    assert_eq!(send_at(&mut machine, now, DeadlineReached), Ok([].into()), "once");
}

#[test]
fn x10_the_time_of_an_older_or_given_up_checkpoint_is_cancelled() {
    let timed = Barrier { alignment: Alignment::AlignedFor(Millis(50)), ..barrier(5) };
    let reason = FailureReason::CheckpointDeclinedSubsumed;
    for event in [perform(6), abort(5, None), gate_aborts(5, reason), gate_aborts(6, reason), Stopped] {
        let mut machine = run(&[(triggered(timed), &steps_of(timed)), (taken(5), &[persist(5)])]);
        assert!(machine.next_deadline(NOW).is_some());
        send(&mut machine, event).unwrap();
        assert_eq!(machine.next_deadline(NOW), None, "{event:?}");
    }
    // Nor need the newer one be taken for that.
    let mut machine = run_source(&[
        (ended(true), &[]),
        (OutputsConsumed, &[]),
        (TriggerReceived(timed), &steps_of(timed)),
        (taken(5), &[persist(5)]),
        (complete(5), &[NotifyComplete(id(5)), Close]),
    ]);
    let closing = FailureReason::CheckpointDeclinedTaskClosing;
    go_on(&mut machine, &[(TriggerReceived(barrier(6)), &[BroadcastCancel(id(6)), decline(6, closing)])]);
    assert_eq!(machine.next_deadline(NOW), None);
    // One that is far past its time overtakes at once.
    let late = Now { monotonic: Millis(70), wall: Millis(5_000) };
    let mut machine = run(&[]);
    send_at(&mut machine, late, triggered(timed)).unwrap();
    assert_eq!(machine.next_deadline(late), Some(Millis(70)));
}

#[test]
fn x11_coordinators_of_operators_hear_of_every_synchronous_part() {
    let mut machine = started(SubtaskOptions { has_coordinators: true, ..SubtaskOptions::INNER });
    go_on(
        &mut machine,
        &[
            (perform(1), &steps(1)),
            (taken(1), &[ReopenGateways(id(1)), persist(1)]),
            (perform(2), &steps(2)),
            (abort(2, None), &[NotifyAbort(id(2))]),
            (taken(2), &[ReopenGateways(id(2)), CancelPersist(id(2)), incomplete(2)]),
        ],
    );
}

#[test]
fn x12_y9_a_failed_synchronous_part_fails_the_task_and_is_no_decline() {
    let failure = fail(5, TaskFailure::Snapshot);
    let mut machine = run(&[
        (perform(5), &steps(5)),
        (SnapshotFailed(id(5)), &[failure]),
        (perform(6), &[BroadcastCancel(id(6))]),
    ]);
    assert!(!machine.is_running());
    assert!(is_refused(&mut machine, SnapshotFailed(id(5))));
    run(&[
        (triggered(unaligned(5)), &steps_of(unaligned(5))),
        (SnapshotFailed(id(5)), &[DropCapture(id(5)), failure]),
    ]);
}

/// Raw and managed, keyed and not, and what lies outside: each part becomes durable by itself.
#[test]
fn x13_x15_the_last_part_acknowledges_whatever_the_order() {
    let parts = Part::ALL.into_iter().filter(|part| *part != Part::Input);
    let all = parts.clone().fold(PartSet::EMPTY, PartSet::with);
    assert_eq!(all.parts().collect::<Vec<_>>(), parts.clone().collect::<Vec<_>>());
    let metrics = SnapshotMetrics { checkpointed_bytes: 50, state_bytes: 500, ..metrics(ALIGNMENT) };
    for first in 0..5 {
        let order: Vec<_> = parts.clone().cycle().skip(first).take(5).collect();
        let mut machine = run(&[(perform(1), &steps(1))]);
        go_on(&mut machine, &[(taken_with(1, all), &[SubtaskAction::Persist { id: id(1), parts: all }])]);
        for early in &order[..4] {
            go_on(&mut machine, &[(part(1, *early), &[])]);
            assert!(is_refused(&mut machine, part(1, *early)), "twice");
        }
        let acknowledged = SubtaskAction::Acknowledge { id: id(1), parts: all, is_finished: false, metrics };
        go_on(&mut machine, &[(part(1, order[4]), &[acknowledged])]);
    }
}

#[test]
fn x14_a_checkpoint_is_in_the_asynchronous_part_once() {
    let mut machine = run(&[(perform(1), &steps(1)), (taken(1), &[persist(1)])]);
    assert!(is_refused(&mut machine, taken(1)));
    go_on(&mut machine, &[(perform(1), &[])]);
    assert_eq!(machine.persisting_count(), 1);
}

#[test]
fn x14_several_checkpoints_become_durable_in_any_order() {
    run(&[
        (perform(1), &steps(1)),
        (taken(1), &[persist(1)]),
        (perform(2), &steps(2)),
        (taken(2), &[persist(2)]),
        (persisted(2), &[acknowledge(2)]),
        (persisted(1), &[acknowledge(1)]),
    ]);
}

#[test]
fn x14_a_checkpoint_without_room_is_declined_before_anything_goes_out() {
    let reason = FailureReason::TaskCheckpointFailure;
    run(&[
        (perform(1), &steps(1)),
        (taken(1), &[persist(1)]),
        (perform(2), &steps(2)),
        (taken(2), &[persist(2)]),
        (perform(3), &[decline(3, reason), BroadcastCancel(id(3))]),
        (triggered(unaligned(4)), &[DropCapture(id(4)), decline(4, reason), BroadcastCancel(id(4))]),
        (persisted(1), &[acknowledge(1)]),
        (perform(5), &steps(5)),
    ]);
}

#[test]
fn x15_x16_durations_and_bytes_are_measured_part_by_part() {
    let at = |monotonic| Now { monotonic: Millis(monotonic), ..NOW };
    let mut machine = run(&[]);
    let both = keyed().with(Part::ManagedOperator);
    let expected = SnapshotMetrics {
        alignment: AlignmentMetrics { duration: Millis(30), bytes_persisted: 100, ..ALIGNMENT },
        sync_duration: Millis(6),
        async_duration: Millis(44),
        checkpointed_bytes: 30,
        state_bytes: 300,
    };
    let snapshot = SubtaskEvent::SnapshotTaken { id: id(1), parts: both, since: Millis(100) };
    let acknowledged = SubtaskAction::Acknowledge {
        id: id(1),
        parts: both.with(Part::Input),
        is_finished: false,
        metrics: expected,
    };
    let table: [(u64, _, &[_]); 6] = [
        (99, triggered(unaligned(1)), &steps_of(unaligned(1))),
        (106, snapshot, &[SubtaskAction::Persist { id: id(1), parts: both }]),
        (110, part(1, Part::ManagedOperator), &[]),
        (120, captured(1), &[PersistInput(id(1))]),
        (130, part(1, Part::Input), &[]),
        (150, persisted(1), &[acknowledged]),
    ];
    for (monotonic, event, actions) in table {
        assert_eq!(send_at(&mut machine, at(monotonic), event).as_deref(), Ok(actions), "{event:?}");
    }
    assert!(expected.alignment.is_unaligned());
}

#[test]
fn x15_the_acknowledgement_waits_for_the_captured_input_whenever_it_comes() {
    let steps = steps_of(unaligned(1));
    let input = keyed().with(Part::Input);
    let alignment = AlignmentMetrics { duration: Millis(30), bytes_persisted: 100, ..ALIGNMENT };
    let metrics =
        SnapshotMetrics { alignment, checkpointed_bytes: 20, state_bytes: 200, ..metrics(ALIGNMENT) };
    let acknowledged = SubtaskAction::Acknowledge { id: id(1), parts: input, is_finished: false, metrics };
    // During the synchronous part.
    run(&[
        (triggered(unaligned(1)), &steps),
        (captured(1), &[]),
        (taken(1), &[persist(1), PersistInput(id(1))]),
        (persisted(1), &[]),
        (part(1, Part::Input), &[acknowledged]),
    ]);
    // After everything else is durable.
    let mut machine =
        run(&[(triggered(unaligned(1)), &steps), (taken(1), &[persist(1)]), (persisted(1), &[])]);
    assert!(is_refused(&mut machine, part(1, Part::Input)), "not before it is captured");
    go_on(&mut machine, &[(captured(1), &[PersistInput(id(1))])]);
    assert!(is_refused(&mut machine, captured(1)), "twice");
    go_on(&mut machine, &[(part(1, Part::Input), &[acknowledged])]);
}

#[test]
fn x17_a_subtask_without_state_acknowledges_at_once() {
    let metrics = SnapshotMetrics { checkpointed_bytes: 0, state_bytes: 0, ..metrics(ALIGNMENT) };
    let parts = PartSet::EMPTY;
    let acknowledged = SubtaskAction::Acknowledge { id: id(1), parts, is_finished: false, metrics };
    run(&[(perform(1), &steps(1)), (taken_with(1, parts), &[acknowledged])]);
}

#[test]
fn x17_the_local_copy_is_stored_before_the_acknowledgement() {
    let mut machine = started(SubtaskOptions { keeps_local_state: true, ..SubtaskOptions::INNER });
    go_on(
        &mut machine,
        &[
            (perform(1), &steps(1)),
            (taken(1), &[persist(1)]),
            (persisted(1), &[StoreLocalState(id(1)), acknowledge(1)]),
        ],
    );
}

#[test]
fn x17_y10_a_failed_asynchronous_part_declines_and_the_task_goes_on() {
    let reason = FailureReason::CheckpointAsyncException;
    let other = FailureReason::IoException;
    for (given, said) in [(None, reason), (Some(other), other)] {
        run(&[
            (perform(5), &steps(5)),
            (
                taken_with(5, keyed().with(Part::RawKeyed)),
                &[SubtaskAction::Persist { id: id(5), parts: keyed().with(Part::RawKeyed) }],
            ),
            (persisted(5), &[]),
            (persist_failed(5, given), &[CancelPersist(id(5)), decline(5, said)]),
            (persist_failed(5, given), &[]),
            (part(5, Part::RawKeyed), &[]),
            (perform(6), &steps(6)),
        ]);
    }
}

#[test]
fn x17_a_capture_that_fails_during_the_synchronous_part_declines_once() {
    let reason = FailureReason::CheckpointAsyncException;
    run(&[
        (triggered(unaligned(5)), &steps_of(unaligned(5))),
        (persist_failed(5, None), &[DropCapture(id(5)), decline(5, reason)]),
        (persist_failed(5, None), &[]),
        (captured(5), &[DropCapture(id(5))]),
        (taken(5), &[CancelPersist(id(5)), incomplete(5)]),
        (perform(6), &steps(6)),
    ]);
}

#[test]
fn x17_a_stopped_subtask_acknowledges_but_does_not_decline() {
    run(&[
        (perform(5), &steps(5)),
        (taken(5), &[persist(5)]),
        (perform(6), &steps(6)),
        (taken(6), &[persist(6)]),
        (Stopped, &[]),
        (persist_failed(5, None), &[CancelPersist(id(5))]),
        (persisted(6), &[acknowledge(6)]),
        (complete(6), &[]),
        (abort(7, None), &[]),
    ]);
}

#[test]
fn x18_y4_abort_during_the_asynchronous_part_cancels_it_and_reports_what_it_took() {
    let mut machine = run(&[
        (perform(8), &steps(8)),
        (taken(8), &[persist(8)]),
        (abort(8, None), &[CancelPersist(id(8)), incomplete(8), NotifyAbort(id(8))]),
        (persisted(8), &[]),
        (persist_failed(8, None), &[]),
    ]);
    assert_eq!(machine.persisting_count(), 0);
    let at = |monotonic| Now { monotonic: Millis(monotonic), ..NOW };
    let both = keyed().with(Part::RawKeyed);
    for (monotonic, event) in [(70, perform(9)), (80, taken_with(9, both)), (90, persisted(9))] {
        send_at(&mut machine, at(monotonic), event).unwrap();
    }
    let metrics =
        SnapshotMetrics { sync_duration: Millis(15), async_duration: Millis(20), ..metrics(ALIGNMENT) };
    let report = SubtaskAction::ReportIncomplete { id: id(9), metrics };
    let cancelled = send_at(&mut machine, at(100), abort(9, None));
    assert_eq!(
        cancelled,
        Ok([CancelPersist(id(9)), report, NotifyAbort(id(9))].into()),
        "with the partial sizes"
    );
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
        (taken(8), &[persist(8)]),
        (perform(9), &[BroadcastCancel(id(9))]),
    ]);
}

#[test]
fn x20_y12_an_aborted_alignment_declines_and_passes_on_a_cancel_marker() {
    let reason = FailureReason::CheckpointDeclinedSubsumed;
    run(&[
        (gate_aborts(1, reason), &[decline(1, reason), BroadcastCancel(id(1))]),
        (abort(1, None), &[NotifyAbort(id(1))]),
        (perform(1), &[]),
        (perform(2), &steps(2)),
    ]);
}

/// As Q12 has it: the asynchronous part of an unaligned checkpoint may be under way already.
#[test]
fn x20_the_gate_gives_an_unaligned_checkpoint_up_after_it_was_triggered() {
    let reason = FailureReason::CheckpointDeclinedSubsumed;
    run(&[
        (triggered(unaligned(1)), &steps_of(unaligned(1))),
        (taken(1), &[persist(1)]),
        (
            gate_aborts(1, reason),
            &[
                CancelPersist(id(1)),
                DropCapture(id(1)),
                incomplete(1),
                decline(1, reason),
                BroadcastCancel(id(1)),
            ],
        ),
        (persisted(1), &[]),
        (captured(1), &[DropCapture(id(1))]),
        (triggered(unaligned(2)), &steps_of(unaligned(2))),
    ]);
    // In the synchronous part what is frozen goes when it is there.
    run(&[
        (triggered(unaligned(1)), &steps_of(unaligned(1))),
        (gate_aborts(1, reason), &[DropCapture(id(1)), decline(1, reason), BroadcastCancel(id(1))]),
        (taken(1), &[CancelPersist(id(1)), incomplete(1)]),
    ]);
}

/// Rule B12 lets the gate drop a checkpoint in silence when a later one is cancelled.
#[test]
fn x20_an_unaligned_checkpoint_that_a_later_one_has_pushed_out_of_the_gate_is_declined() {
    let reason = FailureReason::CheckpointDeclinedOnCancellationBarrier;
    let subsumed = FailureReason::CheckpointDeclinedSubsumed;
    let table: Table<'_> = &[(triggered(unaligned(1)), &steps_of(unaligned(1))), (taken(1), &[persist(1)])];
    let gone = [CancelPersist(id(1)), DropCapture(id(1)), incomplete(1)];
    let cancelled = [&gone[..], &[decline(1, reason), decline(2, reason), BroadcastCancel(id(2))]].concat();
    let mut machine = run(table);
    go_on(&mut machine, &[(gate_aborts(2, reason), &cancelled)]);
    assert_eq!(machine.persisting_count(), 0);
    let newer = [&gone[..], &[decline(1, subsumed)], &steps_of(unaligned(2))].concat();
    go_on(&mut run(table), &[(triggered(unaligned(2)), &newer)]);
}

#[test]
fn x21_y6_abort_makes_up_for_a_lost_completion_once() {
    run(&[(complete(9), &[NotifyComplete(id(9))]), (abort(10, Some(9)), &[NotifyAbort(id(10))])]);
    run(&[(abort(10, Some(9)), &[NotifyComplete(id(9)), NotifyAbort(id(10))]), (complete(9), &[])]);
}

#[test]
fn x21_abort_drops_what_was_captured() {
    run(&[
        (triggered(unaligned(1)), &steps_of(unaligned(1))),
        (taken(1), &[persist(1)]),
        (abort(1, None), &[CancelPersist(id(1)), DropCapture(id(1)), incomplete(1), NotifyAbort(id(1))]),
    ]);
}

#[test]
fn x21_x23_local_copies_are_confirmed_and_dropped_even_if_the_subtask_does_not_run() {
    let mut machine = started(SubtaskOptions { keeps_local_state: true, ..SubtaskOptions::INNER });
    go_on(
        &mut machine,
        &[
            (complete(1), &[NotifyComplete(id(1)), ConfirmLocalState(id(1))]),
            (
                abort(3, Some(2)),
                &[NotifyComplete(id(2)), ConfirmLocalState(id(2)), NotifyAbort(id(3)), DropLocalState(id(3))],
            ),
            (SubsumeNotified(id(1)), &[NotifySubsume(id(1))]),
            (Stopped, &[]),
            (complete(4), &[ConfirmLocalState(id(4))]),
            (abort(5, None), &[]),
        ],
    );
}

#[test]
fn x22_abort_during_the_synchronous_part_keeps_it_from_becoming_durable() {
    run(&[
        (perform(8), &steps(8)),
        (abort(8, None), &[NotifyAbort(id(8))]),
        (taken(8), &[CancelPersist(id(8)), incomplete(8)]),
        (perform(9), &steps(9)),
    ]);
}

#[test]
fn x22_a_smaller_barrier_after_the_abort_of_a_larger_one_is_taken_and_then_one_is_out_of_order() {
    run(&[
        (abort(9, None), &[NotifyAbort(id(9))]),
        (perform(9), &[BroadcastCancel(id(9))]),
        (perform(8), &[]),
    ]);
}

#[test]
fn x22_y5_abort_after_the_acknowledgement_only_tells_the_operators() {
    run(&[
        (perform(8), &steps(8)),
        (taken(8), &[persist(8)]),
        (persisted(8), &[acknowledge(8)]),
        (abort(8, None), &[NotifyAbort(id(8))]),
        (perform(8), &[]),
    ]);
}

#[test]
fn x23_y7_an_older_completion_is_ignored() {
    run(&[(complete(9), &[NotifyComplete(id(9))]), (complete(8), &[]), (complete(9), &[])]);
}

#[test]
fn x24_a_subsumed_checkpoint_is_told_and_an_operator_that_fails_at_it_fails_the_task() {
    let mut machine = run(&[
        (SubsumeNotified(id(4)), &[NotifySubsume(id(4))]),
        (NotificationFailed(id(4)), &[fail(4, TaskFailure::Notification)]),
        (NotificationFailed(id(4)), &[]),
        (SubsumeNotified(id(5)), &[]),
    ]);
    assert!(is_refused(&mut machine, Started));
}

/// Only the newest completion is told: operators take it for every earlier one (see C4).
#[test]
fn x25_a_completion_stands_for_all_earlier_ones() {
    run(&[
        (perform(1), &steps(1)),
        (taken(1), &[persist(1)]),
        (persisted(1), &[acknowledge(1)]),
        (perform(2), &steps(2)),
        (taken(2), &[persist(2)]),
        (persisted(2), &[acknowledge(2)]),
        (complete(2), &[NotifyComplete(id(2))]),
        (complete(1), &[]),
    ]);
}

#[test]
fn x27_y13_a_source_ends_its_data_before_it_takes_the_savepoint_to_stop_with() {
    for (kind, drain) in [(SnapshotKind::Drain(FORMAT), true), (SnapshotKind::Suspend(FORMAT), false)] {
        let barrier = stop(12, kind);
        let mut machine = run_source(&[
            (TriggerReceived(barrier), &[EndData { drain }]),
            (TriggerReceived(barrier), &[]),
            (ended(drain), &steps_of(barrier)),
            (taken(12), &[persist(12)]),
            (persisted(12), &[acknowledge_directly(12, drain)]),
            (OutputsConsumed, &[]),
        ]);
        go_on(&mut machine.clone(), &[(complete(12), &[NotifyComplete(id(12)), Close])]);
        go_on(
            &mut machine,
            &[(abort(12, Some(11)), &[NotifyComplete(id(11)), fail(12, TaskFailure::StopWithSavepoint)])],
        );
    }
}

#[test]
fn x27_a_savepoint_that_is_old_or_aborted_does_not_end_the_data() {
    let barrier = stop(12, SnapshotKind::Drain(FORMAT));
    run_source(&[
        (abort(12, None), &[NotifyAbort(id(12))]),
        (TriggerReceived(barrier), &[BroadcastCancel(id(12))]),
        (TriggerReceived(self::barrier(13)), &steps(13)),
        (taken(13), &[persist(13)]),
        (TriggerReceived(barrier), &[]),
        // Nor one with the id of the newest checkpoint.
        (TriggerReceived(stop(13, SnapshotKind::Drain(FORMAT))), &[]),
    ]);
}

#[test]
fn x27_other_triggers_are_declined_while_the_data_ends_for_a_savepoint() {
    let closing = FailureReason::CheckpointDeclinedTaskClosing;
    let savepoint = stop(12, SnapshotKind::Suspend(FORMAT));
    let table: Table<'_> = &[
        (TriggerReceived(savepoint), &[EndData { drain: false }]),
        (TriggerReceived(barrier(13)), &[BroadcastCancel(id(13)), decline(13, closing)]),
        (TriggerReceived(barrier(11)), &[BroadcastCancel(id(11)), decline(11, closing)]),
    ];
    let mut machine = run_source(table);
    go_on(&mut machine, &[(ended(false), &steps_of(savepoint))]);
    // Data that ends by itself meanwhile does for the savepoint, too.
    go_on(&mut run_source(table), &[(ended(true), &steps_of(savepoint))]);
    go_on(&mut run_source(table), &[(abort(12, None), &[fail(12, TaskFailure::StopWithSavepoint)])]);
}

#[test]
fn x20_x21_a_savepoint_to_stop_with_that_is_given_up_fails_the_task() {
    let savepoint = stop(12, SnapshotKind::Suspend(FORMAT));
    let failure = fail(12, TaskFailure::StopWithSavepoint);
    let table: Table<'_> = &[(triggered(savepoint), &steps_of(savepoint)), (taken(12), &[persist(12)])];
    go_on(&mut run(table), &[(gate_aborts(12, FailureReason::CheckpointDeclinedSubsumed), &[failure])]);
    let mut machine = run(table);
    go_on(&mut machine, &[(abort(11, None), &[NotifyAbort(id(11))]), (abort(12, None), &[failure])]);
    // Before it was taken here it is one like any other.
    let reason = FailureReason::CheckpointDeclinedOnCancellationBarrier;
    run(&[(gate_aborts(12, reason), &[decline(12, reason), BroadcastCancel(id(12))])]);
}

#[test]
fn x28_y14_a_finished_subtask_waits_for_a_final_checkpoint_and_for_those_behind() {
    let mut machine = run_source(&[
        (ended(true), &[]),
        (TriggerReceived(barrier(20)), &steps(20)),
        (taken(20), &[persist(20)]),
        (persisted(20), &[acknowledge_directly(20, true)]),
        (complete(19), &[NotifyComplete(id(19))]),
        (OutputsConsumed, &[]),
    ]);
    go_on(&mut machine.clone(), &[(complete(20), &[NotifyComplete(id(20)), Close])]);
    // An abort brings the completion as well; and after the order to close there is no second one.
    go_on(
        &mut machine,
        &[
            (abort(22, Some(21)), &[NotifyComplete(id(21)), NotifyAbort(id(22)), Close]),
            (complete(23), &[NotifyComplete(id(23))]),
        ],
    );
}

#[test]
fn x28_a_checkpoint_from_before_the_end_of_the_data_is_no_final_one() {
    let mut machine = run_source(&[
        (TriggerReceived(barrier(20)), &steps(20)),
        (taken(20), &[persist(20)]),
        (ended(true), &[]),
        (persisted(20), &[acknowledge_directly(20, false)]),
        (OutputsConsumed, &[]),
        (complete(20), &[NotifyComplete(id(20))]),
    ]);
    go_on(
        &mut machine,
        &[
            (TriggerReceived(barrier(21)), &steps(21)),
            (taken(21), &[persist(21)]),
            (persisted(21), &[acknowledge_directly(21, true)]),
            (complete(21), &[NotifyComplete(id(21)), Close]),
        ],
    );
}

#[test]
fn x28_a_subtask_closes_when_the_last_of_its_conditions_holds() {
    let table = [
        // Checkpoints after the end, a savepoint to stop with, what has to come besides the end of the data.
        (true, false, std::vec![OutputsConsumed, InputsFinished, complete(9)]),
        (true, true, std::vec![OutputsConsumed, InputsFinished, complete(9)]),
        (false, true, std::vec![InputsFinished, complete(9)]),
        (false, false, std::vec![InputsFinished]),
    ];
    for (checkpoints_after_end, stops, conditions) in table {
        for first in 0..conditions.len() {
            let options = SubtaskOptions { checkpoints_after_end, ..SubtaskOptions::INNER };
            let mut machine = started(options);
            let kind = if stops { SnapshotKind::Suspend(FORMAT) } else { SnapshotKind::Checkpoint };
            for event in [ended(true), triggered(stop(9, kind)), taken(9), persisted(9)] {
                assert!(!send(&mut machine, event).unwrap().contains(&Close));
            }
            let order: Vec<_> = conditions.iter().cycle().skip(first).take(conditions.len()).collect();
            for (index, event) in order.iter().enumerate() {
                let is_last = index + 1 == order.len();
                let closes = send(&mut machine, **event).unwrap().contains(&Close);
                assert_eq!(closes, is_last, "{checkpoints_after_end} {stops} {order:?} at {event:?}");
            }
        }
    }
}

#[test]
fn x28_a_subtask_that_closes_waits_for_its_asynchronous_parts() {
    let mut machine = run_source(&[
        (ended(true), &[]),
        (OutputsConsumed, &[]),
        (TriggerReceived(barrier(1)), &steps(1)),
        (taken(1), &[persist(1)]),
        (persisted(1), &[acknowledge_directly(1, true)]),
        (TriggerReceived(barrier(2)), &steps(2)),
        (complete(1), &[NotifyComplete(id(1))]),
        // Not in the middle of a synchronous part.
        (taken(2), &[persist(2), Close]),
    ]);
    assert_eq!(machine.persisting_count(), 1);
    go_on(&mut machine, &[(Stopped, &[]), (persisted(2), &[acknowledge_directly(2, true)])]);
    assert_eq!(machine.persisting_count(), 0);
}

#[test]
fn x28_a_subtask_that_stops_lets_go_of_what_can_no_longer_become_durable() {
    run(&[(perform(5), &steps(5)), (Stopped, &[CancelPersist(id(5))])]);
    run(&[
        (triggered(unaligned(5)), &steps_of(unaligned(5))),
        (Stopped, &[CancelPersist(id(5)), DropCapture(id(5))]),
    ]);
    let mut machine = run(&[
        (perform(4), &steps(4)),
        (taken(4), &[persist(4)]),
        (triggered(unaligned(5)), &steps_of(unaligned(5))),
        (taken(5), &[persist(5)]),
        (Stopped, &[CancelPersist(id(5)), DropCapture(id(5)), incomplete(5)]),
    ]);
    assert_eq!(machine.persisting_count(), 1, "4 can still become durable");
    go_on(&mut machine, &[(persisted(4), &[acknowledge(4)])]);
}

#[test]
fn x29_the_snapshot_says_whether_the_operators_had_finished() {
    for (drained, is_finished) in [(true, true), (false, false)] {
        run(&[
            (perform(1), &steps(1)),
            (taken(1), &[persist(1)]),
            (ended(drained), &[]),
            (perform(2), &steps(2)),
            (taken(2), &[persist(2)]),
            (persisted(1), &[acknowledge(1)]),
            (persisted(2), &[acknowledge_with(2, ALIGNMENT, is_finished)]),
        ]);
    }
}

#[test]
fn x29_with_a_savepoint_to_stop_with_no_other_checkpoint_is_final() {
    let savepoint = stop(12, SnapshotKind::Drain(FORMAT));
    let mut machine = run(&[
        (ended(true), &[]),
        (InputsFinished, &[]),
        (OutputsConsumed, &[]),
        (triggered(savepoint), &steps_of(savepoint)),
        (taken(12), &[persist(12)]),
        (persisted(12), &[acknowledge_with(12, ALIGNMENT, true)]),
        (complete(13), &[NotifyComplete(id(13))]),
    ]);
    assert_eq!(
        send(&mut machine, complete(12)),
        Ok([Close].into()),
        "told already, but it is the one waited for"
    );
}

#[test]
fn x30_a_source_that_starts_checkpoints_itself_takes_no_triggers() {
    let mut machine = started(SubtaskOptions { induces_checkpoints: true, ..SubtaskOptions::SOURCE });
    go_on(&mut machine, &[(TriggerReceived(barrier(1)), &[]), (CheckpointInduced(barrier(1)), &steps(1))]);
    go_on(&mut machine, &[(taken(1), &[persist(1)]), (persisted(1), &[acknowledge_directly(1, false)])]);
    let full = stop(2, SnapshotKind::FullCheckpoint);
    go_on(&mut machine, &[(TriggerReceived(full), &[fail(2, TaskFailure::FullCheckpointUnsupported)])]);
    go_on(&mut machine, &[(CheckpointInduced(barrier(3)), &[BroadcastCancel(id(3))])]);
    assert!(is_refused(&mut run_source(&[]), CheckpointInduced(barrier(1))));
}

#[test]
fn a05_an_aborted_checkpoint_is_skipped_with_one_cancel_marker_and_remembered_within_bounds() {
    let mut machine = run(&[
        (abort(7, None), &[NotifyAbort(id(7))]),
        (perform(7), &[BroadcastCancel(id(7))]),
        (perform(8), &steps(8)),
        (taken(8), &[persist(8)]),
    ]);
    for number in 100..10_100 {
        go_on(&mut machine, &[(abort(number, None), &[NotifyAbort(id(number))])]);
    }
    assert!(size_of::<Machine>() < 1024, "the memory of aborted checkpoints is part of the machine");
    go_on(&mut machine, &[(perform(20_000), &steps(20_000))]);
}

#[test]
fn b05_a_newer_checkpoint_replaces_an_unaligned_one_without_failing_the_task() {
    let reason = FailureReason::CheckpointDeclinedSubsumed;
    let machine = run(&[
        (triggered(unaligned(1)), &steps_of(unaligned(1))),
        (taken(1), &[persist(1)]),
        (persisted(1), &[]),
        (
            gate_aborts(1, reason),
            &[
                CancelPersist(id(1)),
                DropCapture(id(1)),
                SubtaskAction::ReportIncomplete { id: id(1), metrics: metrics(ALIGNMENT) },
                decline(1, reason),
                BroadcastCancel(id(1)),
            ],
        ),
        (triggered(unaligned(2)), &steps_of(unaligned(2))),
        (taken(2), &[persist(2)]),
        (captured(2), &[PersistInput(id(2))]),
    ]);
    assert!(machine.is_running());
    assert_eq!(machine.persisting_count(), 1, "nothing of 1 is left");
}

#[test]
fn b06_a_start_that_was_queued_before_the_abort_does_nothing() {
    let reason = FailureReason::CheckpointDeclinedOnCancellationBarrier;
    run(&[
        (gate_aborts(1, reason), &[decline(1, reason), BroadcastCancel(id(1))]),
        (triggered(unaligned(1)), &[DropCapture(id(1))]),
        (triggered(unaligned(2)), &steps_of(unaligned(2))),
    ]);
}

#[test]
fn h04_a_sink_acknowledges_only_when_its_transactions_are_flushed() {
    let parts = PartSet::only(Part::Transactions);
    let table: Table<'_> =
        &[(perform(1), &steps(1)), (taken_with(1, parts), &[SubtaskAction::Persist { id: id(1), parts }])];
    let mut machine = run(table);
    assert_eq!(machine.persisting_count(), 1, "no acknowledgement while the flush is held");
    let acknowledged =
        SubtaskAction::Acknowledge { id: id(1), parts, is_finished: false, metrics: metrics(ALIGNMENT) };
    go_on(&mut machine, &[(part(1, Part::Transactions), &[acknowledged])]);
    let failed = [CancelPersist(id(1)), decline(1, FailureReason::CheckpointAsyncException)];
    go_on(&mut run(table), &[(persist_failed(1, None), &failed)]);
}

#[test]
fn refused_events_change_nothing() {
    let mut machine = run(&[(perform(5), &steps(5))]);
    for event in [
        Started,
        perform(6),
        ended(true),
        TriggerReceived(barrier(6)),
        taken(4),
        taken_with(5, PartSet::only(Part::Input)),
        SnapshotFailed(id(6)),
        persisted(5),
        persisted(6),
        persist_failed(6, None),
        captured(6),
        captured(5),
    ] {
        assert!(is_refused(&mut machine, event), "{event:?}");
    }
    let before = format!("{machine:?}");
    let mut short = heapless::Vec::<_, 7>::new();
    assert_eq!(machine.on_event(NOW, Stopped, &mut short), Err(Rejected::NoRoom { needed: 8, free: 7 }));
    let earlier = Now { monotonic: Millis(69), ..NOW };
    assert!(matches!(send_at(&mut machine, earlier, Stopped), Err(Rejected::TimeWentBack { .. })));
    assert_eq!(format!("{machine:?}"), before);
    let mut machine = run(&[(ended(true), &[])]);
    assert!(is_refused(&mut machine, ended(true)));
}

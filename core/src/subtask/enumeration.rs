//! Every short row of events of one subtask, against a simple oracle.
//!
//! The oracle knows nothing of states. It keeps what was ordered for each checkpoint and holds that (1) the orders of one
//! checkpoint come in the order prepare, barrier, freeze, make durable, acknowledge, (2) a checkpoint that was begun ends
//! exactly once - acknowledged, or given up by cancel, decline or failure - and nothing of it is under way then, (3) none
//! is begun after its abort was told, after a newer one, or twice, (4) those behind hear of each checkpoint that was
//! triggered either one barrier or a cancel marker, unless it is old, (5) completions are told in ascending order,
//! each once, and none that nobody spoke of.

use std::vec::Vec;

use super::{Part, PartSet, PartSizes, Subtask, SubtaskAction, SubtaskEvent, SubtaskOptions};
use crate::gate::AlignmentMetrics;
use crate::ids::{Alignment, Barrier, CheckpointId, SavepointFormat, SnapshotKind};
use crate::reason::FailureReason;
use crate::time::{Millis, Now};

use SubtaskEvent as E;

/// Checkpoints 1 to this number.
const IDS: u64 = 3;

/// What was ordered and reported of one checkpoint.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    prepared: u8,
    barriers: u8,
    cancels: u8,
    freezes: u8,
    is_frozen: bool,
    persists: u8,
    input_persists: u8,
    acknowledgements: u8,
    cancelled: u8,
    abort_told: bool,
    /// Captured records are awaited or dropped.
    captures: bool,
    capture_dropped: bool,
}

/// The events so far.
type Log = heapless::Vec<SubtaskEvent, 10>;

/// One state of the search.
#[derive(Clone)]
struct World<'a> {
    machine: Subtask<2>,
    events: &'a [SubtaskEvent],
    seen: [Seen; 4],
    /// The newest checkpoint that was triggered here or given up by the gate.
    newest: u64,
    told_complete: u64,
    spoken_complete: [bool; 4],
    has_failed: bool,
    log: Log,
}

impl World<'_> {
    /// Sends every event in every order, `depth` times; gives the number of rows.
    fn explore(&self, depth: u32) -> u64 {
        if depth == 0 {
            return 1;
        }
        let mut rows = 0;
        for event in self.events {
            let mut next = self.clone();
            if next.take(*event) {
                rows += next.explore(depth - 1);
            }
        }
        rows
    }

    /// False if the event is refused: then nothing has changed.
    fn take(&mut self, event: SubtaskEvent) -> bool {
        let mut out = heapless::Vec::<_, { Subtask::<2>::ACTIONS_MAX }>::new();
        if self.machine.on_event(Now::default(), event, &mut out).is_err() {
            return false;
        }
        self.log.push(event).unwrap();
        self.machine.check();
        self.note(event);
        for action in out {
            self.judge(event, action);
        }
        self.assert_nothing_is_left();
        true
    }

    fn note(&mut self, event: SubtaskEvent) {
        match event {
            E::SnapshotTaken { id, .. } => self.seen[index(id)].is_frozen = true,
            E::CompleteNotified(id) | E::AbortNotified { latest_completed: Some(id), .. } => {
                self.spoken_complete[index(id)] = true;
            }
            E::CheckpointTriggered { barrier, .. } => {
                let captures = barrier.alignment == Alignment::Unaligned;
                let seen = &mut self.seen[index(barrier.id)];
                seen.captures |= captures && seen.barriers == 0;
            }
            E::Started
            | E::InputsFinished
            | E::DataEnded { .. }
            | E::OutputsConsumed
            | E::Stopped
            | E::TriggerReceived(_)
            | E::CheckpointInduced(_)
            | E::AlignmentAborted { .. }
            | E::AbortNotified { latest_completed: None, .. }
            | E::InputCaptured { .. }
            | E::SnapshotFailed(_)
            | E::PartPersisted { .. }
            | E::PersistFailed { .. }
            | E::SubsumeNotified(_)
            | E::NotificationFailed(_)
            | E::DeadlineReached => {}
        }
    }

    fn judge(&mut self, event: SubtaskEvent, action: SubtaskAction) {
        let log = &self.log;
        match action {
            SubtaskAction::PrepareOperators(id) => self.begin(id),
            SubtaskAction::BroadcastBarrier(Barrier { id, .. }) => {
                let seen = &mut self.seen[index(id)];
                assert!(seen.prepared == 1 && seen.barriers == 0, "{log:?}");
                seen.barriers += 1;
            }
            SubtaskAction::SnapshotOperators(Barrier { id, .. }) => {
                let seen = &mut self.seen[index(id)];
                assert!(seen.barriers == 1 && seen.freezes == 0, "{log:?}");
                seen.freezes += 1;
            }
            SubtaskAction::Persist { id, .. } => {
                let seen = &mut self.seen[index(id)];
                assert!(seen.is_frozen && seen.persists == 0 && seen.cancelled == 0, "{log:?}");
                seen.persists += 1;
            }
            SubtaskAction::PersistInput(id) => {
                let seen = &mut self.seen[index(id)];
                let is_due = seen.is_frozen && seen.captures && !seen.capture_dropped;
                assert!(is_due && seen.input_persists == 0 && seen.cancelled == 0, "{log:?}");
                seen.input_persists += 1;
            }
            SubtaskAction::Acknowledge { id, .. } => self.acknowledge(event, id),
            SubtaskAction::CancelPersist(id) => {
                let seen = &mut self.seen[index(id)];
                assert!(seen.acknowledgements == 0 && seen.cancelled == 0, "{id} ends twice: {log:?}");
                seen.cancelled += 1;
            }
            SubtaskAction::DropCapture(id) => self.seen[index(id)].capture_dropped = true,
            SubtaskAction::BroadcastCancel(id) => self.send_marker(event, id),
            SubtaskAction::NotifyComplete(id) => {
                assert!(self.spoken_complete[index(id)], "{log:?}");
                assert!(self.told_complete < id.0, "{log:?}");
                self.told_complete = id.0;
            }
            SubtaskAction::NotifyAbort(id) => {
                let seen = &mut self.seen[index(id)];
                seen.abort_told = true;
            }
            SubtaskAction::FailTask { .. } => {
                assert!(!self.has_failed, "fails twice: {log:?}");
                self.has_failed = true;
            }
            SubtaskAction::Decline { id, .. } => {
                let by_gate = matches!(event, E::AlignmentAborted { .. });
                assert!(by_gate || self.seen[index(id)].acknowledgements == 0, "{id} ends twice: {log:?}");
            }
            SubtaskAction::InjectBarrier(_)
            | SubtaskAction::EndData { .. }
            | SubtaskAction::OvertakeOutputs(_)
            | SubtaskAction::ReopenGateways(_)
            | SubtaskAction::StoreLocalState(_)
            | SubtaskAction::ReportIncomplete { .. }
            | SubtaskAction::NotifySubsume(_)
            | SubtaskAction::ConfirmLocalState(_)
            | SubtaskAction::DropLocalState(_)
            | SubtaskAction::Close => {}
        }
    }

    fn begin(&mut self, id: CheckpointId) {
        let log = &self.log;
        let seen = &mut self.seen[index(id)];
        assert!(seen.prepared == 0 && seen.cancels == 0, "{id} is begun twice, or after its end: {log:?}");
        assert!(!seen.abort_told, "{id} is begun after its abort: {log:?}");
        assert!(id.0 > self.newest, "{id} is begun after {}: {log:?}", self.newest);
        assert!(!self.has_failed, "{id} is begun after the failure: {log:?}");
        seen.prepared += 1;
        self.newest = id.0;
    }

    fn acknowledge(&mut self, event: SubtaskEvent, id: CheckpointId) {
        let log = &self.log;
        let seen = &mut self.seen[index(id)];
        let is_whole = seen.persists == 1 && (!seen.captures || seen.input_persists == 1);
        assert!(is_whole, "{id} is acknowledged before it is durable: {log:?}");
        assert!(seen.acknowledgements == 0 && seen.cancelled == 0, "{id} ends twice: {log:?}");
        assert!(matches!(event, E::PartPersisted { id: last, .. } if last == id), "{log:?}");
        seen.acknowledgements += 1;
    }

    fn send_marker(&mut self, event: SubtaskEvent, id: CheckpointId) {
        let log = &self.log;
        let seen = &mut self.seen[index(id)];
        let by_gate = matches!(event, E::AlignmentAborted { .. });
        assert!(seen.barriers == 0 || by_gate, "a barrier and a marker of {id}: {log:?}");
        seen.cancels += 1;
        self.newest = self.newest.max(id.0);
    }

    /// What is under way is exactly what was handed over and has not ended.
    fn assert_nothing_is_left(&self) {
        let is_open = |seen: &&Seen| {
            seen.persists + seen.input_persists > 0 && seen.acknowledgements == 0 && seen.cancelled == 0
        };
        let open = self.seen.iter().filter(is_open).count();
        assert_eq!(self.machine.persisting_count(), open, "{:?}", self.log);
    }
}

fn index(id: CheckpointId) -> usize {
    usize::try_from(id.0).unwrap()
}

fn barrier(id: u64, kind: SnapshotKind, alignment: Alignment) -> Barrier {
    Barrier { id: CheckpointId(id), triggered_at: Millis(0), kind, alignment }
}

/// What may happen around a checkpoint of this form.
fn events_of(number: u64, kind: SnapshotKind, alignment: Alignment) -> Vec<SubtaskEvent> {
    let id = CheckpointId(number);
    let barrier = barrier(number, kind, alignment);
    let parts = PartSet::only(Part::ManagedKeyed);
    let reason = FailureReason::CheckpointDeclinedOnCancellationBarrier;
    let part = |part| E::PartPersisted { id, part, sizes: PartSizes::default() };
    let mut events = std::vec![
        E::CheckpointTriggered { barrier, alignment: AlignmentMetrics::ZERO },
        E::SnapshotTaken { id, parts, since: Millis(0) },
        part(Part::ManagedKeyed),
        E::PersistFailed { id, reason: None },
        E::AlignmentAborted { id, reason },
        E::AbortNotified {
            id,
            latest_completed: CheckpointId(number - 1)
                .gt(&CheckpointId(0))
                .then_some(CheckpointId(number - 1))
        },
        E::CompleteNotified(id),
    ];
    if alignment == Alignment::Unaligned {
        events.push(E::InputCaptured { id, alignment: AlignmentMetrics::ZERO });
        events.push(part(Part::Input));
    }
    events
}

fn explore(events: &[SubtaskEvent], depth: u32) -> u64 {
    explore_after(&[], events, depth)
}

/// The same once these have happened.
fn explore_after(first: &[SubtaskEvent], events: &[SubtaskEvent], depth: u32) -> u64 {
    let mut world = World {
        machine: Subtask::new(SubtaskOptions::INNER),
        events,
        seen: [Seen::default(); 4],
        newest: 0,
        told_complete: 0,
        spoken_complete: [false; 4],
        has_failed: false,
        log: Log::default(),
    };
    assert!(world.take(E::Started));
    assert!(first.iter().all(|event| world.take(*event)));
    world.explore(depth)
}

#[test]
fn every_row_of_events_of_aligned_checkpoints_ends_each_of_them_once() {
    let kind = SnapshotKind::Checkpoint;
    let events: Vec<_> = (1..=IDS).flat_map(|id| events_of(id, kind, Alignment::Aligned)).collect();
    let rows = explore(&events, 5);
    assert!(rows > 540_000, "{rows}");
}

#[test]
fn every_row_of_events_of_unaligned_checkpoints_ends_each_of_them_once() {
    let kind = SnapshotKind::Checkpoint;
    let two: Vec<_> = (1..=2).flat_map(|id| events_of(id, kind, Alignment::Unaligned)).collect();
    let rows = explore(&events_of(1, kind, Alignment::Unaligned), 7) + explore(&two, 5);
    assert!(rows > 540_000, "{rows}");
}

#[test]
fn every_row_of_events_of_checkpoints_that_may_turn_unaligned_ends_each_of_them_once() {
    let (kind, timed) = (SnapshotKind::Checkpoint, Alignment::AlignedFor(Millis(0)));
    let mut events: Vec<_> = (1..=2).flat_map(|id| events_of(id, kind, timed)).collect();
    events.push(E::DeadlineReached);
    // A subtask that has ended closes with the first of them.
    let ended = [E::DataEnded { drained: true }, E::InputsFinished, E::OutputsConsumed];
    let rows = explore(&events, 5) + explore_after(&ended, &events, 5);
    assert!(rows > 240_000, "{rows}");
}

#[test]
fn every_row_of_events_around_a_savepoint_to_stop_with_ends_each_checkpoint_once() {
    let mut events = events_of(1, SnapshotKind::Checkpoint, Alignment::Unaligned);
    events.extend(events_of(2, SnapshotKind::Drain(SavepointFormat::Canonical), Alignment::Aligned));
    events.extend([E::DataEnded { drained: true }, E::InputsFinished, E::OutputsConsumed, E::Stopped]);
    let rows = explore(&events, 5);
    assert!(rows > 500_000, "{rows}");
}

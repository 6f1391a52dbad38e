//! The machines never reach for an allocator, not even the one that a program with `std` has.

use allocation_counter::measure;
use heapless::VecView;
use slackwater_core::bit_set::BitSet;
use slackwater_core::coordinator::{
    Attempt, Coordinator, CoordinatorAction, CoordinatorEvent, CoordinatorOptions, RequestKind, RequestToken,
    Sources, TaskReport, TaskState,
};
use slackwater_core::gate::{AlignmentMetrics, Gate, GateEvent, GateOptions};
use slackwater_core::ids::{Alignment, Barrier, ChannelIndex, CheckpointId, SnapshotKind, TaskIndex};
use slackwater_core::subtask::{
    Part, PartSet, PartSizes, Subtask, SubtaskAction, SubtaskEvent, SubtaskOptions,
};
use slackwater_core::time::{Millis, Now};
use slackwater_core::two_phase::{TwoPhase, TwoPhaseAction, TwoPhaseEvent, TwoPhaseOptions};

const NOW: Now = Now { monotonic: Millis(1_000), wall: Millis(50_000) };
const TASKS: u16 = 64;

fn barrier(id: CheckpointId, alignment: Alignment) -> Barrier {
    Barrier { id, triggered_at: Millis(49_900), kind: SnapshotKind::Checkpoint, alignment }
}

/// How often memory was asked for meanwhile.
fn allocations(run: impl FnOnce()) -> u64 {
    measure(run).count_total
}

#[test]
fn the_counter_counts() {
    assert_eq!(allocations(|| drop(std::hint::black_box(Box::new(1_u8)))), 1);
}

#[test]
fn alignments_of_every_kind_allocate_nothing() {
    let table = [
        (GateOptions::ALIGNED, Alignment::Aligned),
        (GateOptions::UNALIGNED, Alignment::Unaligned),
        (GateOptions::UNALIGNED, Alignment::AlignedFor(Millis(500))),
        (GateOptions::AT_LEAST_ONCE, Alignment::AtLeastOnce),
    ];
    for (options, alignment) in table {
        let mut triggered = 0;
        let counted = allocations(|| {
            let mut gate = Gate::<1>::new(8, options).unwrap();
            let mut out = heapless::Vec::<_, { Gate::<1>::ACTIONS_MAX }>::new();
            for id in (1..=100).map(CheckpointId) {
                for channel in (0..8).map(ChannelIndex) {
                    let barrier = barrier(id, alignment);
                    gate.on_event(NOW, GateEvent::BarrierArrived { channel, barrier }, &mut out).unwrap();
                    triggered += out.len();
                    out.clear();
                }
            }
        });
        assert_eq!(counted, 0, "{alignment:?}");
        assert!(triggered >= 100, "{alignment:?}");
    }
}

#[test]
fn a_checkpoint_of_64_tasks_allocates_nothing() {
    type Machine = Coordinator<2, 2>;
    let options =
        CoordinatorOptions { checkpoints_after_tasks_finish: false, ..CoordinatorOptions::default() };
    let graph = Sources { tasks: BitSet::first(TASKS.into()), sources: BitSet::first(8) };
    let id = CheckpointId::FIRST;
    let attempts = || (0..TASKS).map(TaskIndex).map(Attempt::first);
    let running =
        attempts().map(|attempt| CoordinatorEvent::TaskChanged { attempt, state: TaskState::Running });
    let begin = [
        CoordinatorEvent::JobStarted,
        CoordinatorEvent::CheckpointRequested { request: RequestToken(0), kind: RequestKind::Configured },
        CoordinatorEvent::LocationPrepared(id),
    ];
    let report = TaskReport { has_state: true, ..TaskReport::default() };
    let acknowledged = attempts().map(|by| CoordinatorEvent::Acknowledged { id, by, report });
    let end = [CoordinatorEvent::ManifestPersisted(id), CoordinatorEvent::Stored { id, subsumed: None }];
    let mut is_persisted = false;
    let counted = allocations(|| {
        let mut coordinator = Machine::new(options, graph, id).unwrap();
        let mut out = heapless::Vec::<_, { Machine::ACTIONS_MAX }>::new();
        for event in running.chain(begin).chain(acknowledged).chain(end) {
            coordinator.on_event(NOW, event, &mut out).unwrap();
            is_persisted |=
                out.iter().any(|action| matches!(action, CoordinatorAction::PersistManifest { .. }));
            out.clear();
        }
    });
    assert_eq!(counted, 0);
    assert!(is_persisted);
}

fn tell(machine: &mut Subtask<2>, event: SubtaskEvent, out: &mut VecView<SubtaskAction>) -> bool {
    out.clear();
    machine.on_event(NOW, event, out).expect("the machine takes it");
    out.iter().any(|action| matches!(action, SubtaskAction::Acknowledge { .. }))
}

#[test]
fn a_subtasks_part_in_checkpoints_allocates_nothing() {
    let parts = PartSet::only(Part::ManagedKeyed);
    let mut acknowledged = 0;
    let counted = allocations(|| {
        let mut machine = Subtask::<2>::new(SubtaskOptions::INNER);
        let mut out = heapless::Vec::<_, { Subtask::<2>::ACTIONS_MAX }>::new();
        tell(&mut machine, SubtaskEvent::Started, &mut out);
        for id in (1..=100).map(CheckpointId) {
            let (barrier, part) = (barrier(id, Alignment::Aligned), Part::ManagedKeyed);
            for event in [
                SubtaskEvent::CheckpointTriggered { barrier, alignment: AlignmentMetrics::ZERO },
                SubtaskEvent::SnapshotTaken { id, parts, since: Millis(990) },
                SubtaskEvent::PartPersisted { id, part, sizes: PartSizes::default() },
                SubtaskEvent::CompleteNotified(id),
            ] {
                acknowledged += u32::from(tell(&mut machine, event, &mut out));
            }
        }
    });
    assert_eq!((counted, acknowledged), (0, 100));
}

#[test]
fn transactions_allocate_nothing() {
    type Machine = TwoPhase<4>;
    let mut committed = 0;
    let counted = allocations(|| {
        let mut machine = Machine::new(TwoPhaseOptions::default());
        let mut out = heapless::Vec::<_, { Machine::ACTIONS_MAX }>::new();
        machine.on_event(NOW, TwoPhaseEvent::Opened, &mut out).unwrap();
        for id in (1..=100).map(CheckpointId) {
            let token = machine.current().unwrap();
            for event in [
                TwoPhaseEvent::SnapshotRequested(id),
                TwoPhaseEvent::PreCommitted(token),
                TwoPhaseEvent::CompleteNotified(id),
            ] {
                out.clear();
                machine.on_event(NOW, event, &mut out).unwrap();
            }
            let Some(TwoPhaseAction::Commit(ordered)) =
                out.iter().copied().find(|action| matches!(action, TwoPhaseAction::Commit(_)))
            else {
                panic!("checkpoint {id} commits nothing: {out:?}")
            };
            out.clear();
            machine.on_event(NOW, TwoPhaseEvent::Committed(ordered), &mut out).unwrap();
            committed += 1;
        }
    });
    assert_eq!((counted, committed), (0, 100));
}

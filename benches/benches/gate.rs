//! What a gate costs per event, in each of its modes. It has no allocator that it could use.
#![expect(clippy::unwrap_used, reason = "a bench that cannot go on fails, as a test does")]

use criterion::{Criterion, Throughput};
use slackwater_core::gate::{Gate, GateAction, GateEvent, GateOptions};
use slackwater_core::ids::{Alignment, Barrier, ChannelIndex, CheckpointId, SnapshotKind};
use slackwater_core::time::{Millis, Now};

const CHANNELS: u16 = 8;
const NOW: Now = Now { monotonic: Millis(1_000), wall: Millis(50_000) };
const TIMED: Alignment = Alignment::AlignedFor(Millis(100));

type Actions = heapless::Vec<GateAction<1>, { Gate::<1>::ACTIONS_MAX }>;

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    let channels = || (0..CHANNELS).map(ChannelIndex);
    let all_arrive =
        |barrier: Barrier| channels().map(move |channel| GateEvent::BarrierArrived { channel, barrier });
    bench(&mut criterion, "align_8_channels", GateOptions::ALIGNED, 8, |gate, id| {
        align(gate, all_arrive(barrier(id, Alignment::Aligned)))
    });
    bench(&mut criterion, "track_8_channels", GateOptions::AT_LEAST_ONCE, 8, |gate, id| {
        align(gate, all_arrive(barrier(id, Alignment::AtLeastOnce)))
    });
    bench(&mut criterion, "overtake_8_channels", GateOptions::UNALIGNED, 8, |gate, id| {
        align(gate, all_arrive(barrier(id, Alignment::Unaligned)))
    });
    bench(&mut criterion, "turn_8_channels", GateOptions::UNALIGNED, 13, |gate, id| {
        let (timed, unaligned) = (barrier(id, TIMED), barrier(id, Alignment::Unaligned));
        let arrived = channels().take(4).map(|channel| GateEvent::BarrierArrived { channel, barrier: timed });
        let announced =
            channels().skip(4).map(|channel| GateEvent::BarrierAnnounced { channel, barrier: timed });
        let overtaking =
            channels().skip(4).map(|channel| GateEvent::BarrierArrived { channel, barrier: unaligned });
        align(gate, arrived.chain(announced).chain([GateEvent::DeadlineReached]).chain(overtaking))
    });
    criterion.final_summary();
}

/// One iteration is all of one checkpoint.
fn bench(
    criterion: &mut Criterion,
    name: &str,
    options: GateOptions,
    events: u64,
    mut align: impl FnMut(&mut Gate<1>, CheckpointId) -> CheckpointId,
) {
    let mut group = criterion.benchmark_group("gate");
    group.throughput(Throughput::Elements(events));
    group.bench_function(name, |bencher| {
        let mut gate = Gate::<1>::new(CHANNELS, options).unwrap();
        let mut id = CheckpointId::FIRST;
        bencher.iter(|| {
            let triggered = align(&mut gate, id);
            assert_eq!(triggered, id);
            id = id.next();
        });
        assert!(!gate.is_aligning(), "each iteration ends its checkpoint");
    });
    group.finish();
}

/// Gives the checkpoint that was triggered. The clock is at the deadline.
fn align(gate: &mut Gate<1>, events: impl Iterator<Item = GateEvent>) -> CheckpointId {
    let mut actions = Actions::new();
    let mut triggered = None;
    for event in events {
        actions.clear();
        gate.on_event(NOW, event, &mut actions).unwrap();
        for action in &actions {
            if let GateAction::TriggerCheckpoint { barrier, .. } = action {
                triggered = Some(barrier.id);
            }
        }
    }
    triggered.unwrap()
}

fn barrier(id: CheckpointId, alignment: Alignment) -> Barrier {
    // As old as the time-out: late is what is older.
    let triggered_at = Millis(NOW.wall.0.saturating_sub(100));
    Barrier { id, triggered_at, kind: SnapshotKind::Checkpoint, alignment }
}

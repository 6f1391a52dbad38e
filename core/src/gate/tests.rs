//! Rules and worked sequences of the aligned handler, and the public bugs that struck it.

use std::vec::Vec;

use super::{ChannelSet, Gate, GateAction, GateEvent, GateOptions};
use crate::ids::{Alignment, Barrier, ChannelIndex, CheckpointId, SnapshotKind};
use crate::machine::Rejected;
use crate::reason::FailureReason;
use crate::time::{Millis, Now};

use GateEvent::{BarrierArrived, CancelArrived, EndOfPartition};

const A: ChannelIndex = ChannelIndex(0);
const B: ChannelIndex = ChannelIndex(1);
const C: ChannelIndex = ChannelIndex(2);

/// An action without what most tests do not ask about.
#[derive(Debug, PartialEq, Eq)]
enum Did {
    Block(u16),
    Resume(Vec<u16>),
    Trigger(u64),
    Abort(u64, FailureReason),
    Aborts(Vec<u64>, FailureReason),
    Overtake(u64, Vec<u16>),
    Start(u64, Vec<u16>),
    Stop(u64),
    Drop(u64),
}

use Did::{Abort, Aborts, Block, Drop, Overtake, Resume, Start, Stop, Trigger};
use FailureReason::{
    CheckpointDeclinedInputEndOfStream as Ended, CheckpointDeclinedOnCancellationBarrier as Cancelled,
    CheckpointDeclinedSubsumed as Subsumed,
};

struct Bench {
    gate: Gate<1>,
    now: Now,
}

impl Bench {
    fn new(channels: u16, count_ended_channels: bool) -> Self {
        let gate = Gate::new(channels, GateOptions { count_ended_channels, ..GateOptions::ALIGNED }).unwrap();
        Self { gate, now: Now { monotonic: Millis(1_000), wall: Millis(50_000) } }
    }

    fn at(&mut self, monotonic: u64) -> &mut Self {
        self.now.monotonic = Millis(monotonic);
        self
    }

    fn actions(&mut self, event: GateEvent) -> Result<Vec<GateAction<1>>, Rejected> {
        let mut out = heapless::Vec::<_, { Gate::<1>::ACTIONS_MAX }>::new();
        self.gate.on_event(self.now, event, &mut out)?;
        self.gate.check();
        Ok(out.into_iter().collect())
    }

    fn send(&mut self, event: GateEvent) -> Vec<Did> {
        let actions = self.actions(event).unwrap();
        actions
            .iter()
            .map(|action| match action {
                GateAction::Block(channel) => Block(channel.0),
                GateAction::Resume(channels) => Resume(channels.iter().collect()),
                GateAction::TriggerCheckpoint { barrier, .. } => Trigger(barrier.id.0),
                GateAction::AbortCheckpoint { id, reason } => Abort(id.0, *reason),
                GateAction::AbortCheckpoints { ids, reason } => {
                    Aborts(ids.iter().map(|id| id.0).collect(), *reason)
                }
                GateAction::Overtake { id, channels } => Overtake(id.0, channels.iter().collect()),
                GateAction::StartCapture { id, channels } => Start(id.0, channels.iter().collect()),
                GateAction::StopCapture { id, .. } => Stop(id.0),
                GateAction::DropCapture(id) => Drop(id.0),
            })
            .collect()
    }

    fn bar(&mut self, channel: ChannelIndex, id: u64) -> Vec<Did> {
        self.send(BarrierArrived { channel, barrier: barrier(id) })
    }

    fn cancel(&mut self, channel: ChannelIndex, id: u64) -> Vec<Did> {
        self.send(CancelArrived { channel, checkpoint: CheckpointId(id) })
    }

    fn eop(&mut self, channel: ChannelIndex) -> Vec<Did> {
        self.send(EndOfPartition { channel })
    }
}

fn barrier(id: u64) -> Barrier {
    Barrier {
        id: CheckpointId(id),
        triggered_at: Millis(49_000),
        kind: SnapshotKind::Checkpoint,
        alignment: Alignment::Aligned,
    }
}

#[test]
fn q1_the_last_barrier_triggers_before_the_channels_are_released() {
    let mut bench = Bench::new(3, true);
    assert_eq!(bench.bar(A, 1), [Block(0)]);
    assert!(bench.gate.is_blocked(A) && !bench.gate.is_blocked(B) && bench.gate.is_aligning());
    assert_eq!(bench.at(1_010).bar(C, 1), [Block(2)]);
    bench.at(1_030).now.wall = Millis(1);
    let actions = bench.actions(BarrierArrived { channel: B, barrier: barrier(1) }).unwrap();
    assert_eq!(actions[0], GateAction::Block(B));
    // Rules B32 and B33: the delay by the wall clock at the first barrier, the duration by the monotonic one.
    let GateAction::TriggerCheckpoint { barrier: passed_on, alignment } = actions[1] else {
        panic!("{actions:?}")
    };
    assert_eq!(
        (passed_on, alignment.duration, alignment.start_delay),
        (barrier(1), Millis(30), Millis(1_000))
    );
    assert_eq!(actions[2], GateAction::Resume(ChannelSet::first(3)));
    assert!(!bench.gate.is_blocked(A) && !bench.gate.is_aligning());
}

#[test]
fn b11_q2_newer_barrier_declines_the_pending_checkpoint() {
    let mut bench = Bench::new(3, true);
    assert_eq!(bench.bar(A, 1), [Block(0)]);
    assert_eq!(bench.bar(B, 2), [Abort(1, Subsumed), Resume([0].into()), Block(1)]);
    assert_eq!(bench.bar(C, 1), [Resume([2].into())]);
    assert_eq!(bench.bar(A, 2), [Block(0)]);
    assert_eq!(bench.bar(C, 2), [Block(2), Trigger(2), Resume([0, 1, 2].into())]);
}

#[test]
fn b12_q3_cancel_marker_aborts_the_checkpoint_being_aligned() {
    let mut bench = Bench::new(3, true);
    assert_eq!(bench.bar(A, 1), [Block(0)]);
    assert_eq!(bench.cancel(B, 1), [Abort(1, Cancelled), Resume([0].into())]);
    assert_eq!(bench.bar(C, 1), [Resume([2].into())]);
    assert_eq!(bench.cancel(C, 1), []);
}

#[test]
fn q4_cancel_marker_before_every_barrier_makes_them_obsolete() {
    let mut bench = Bench::new(3, true);
    assert_eq!(bench.cancel(A, 2), [Abort(2, Cancelled)]);
    assert_eq!(bench.bar(B, 2), [Resume([1].into())]);
    assert_eq!(bench.bar(C, 2), [Resume([2].into())]);
    assert_eq!(bench.bar(B, 1), [Resume([1].into())]);
}

#[test]
fn b12_q5_cancel_marker_of_a_later_checkpoint_drops_the_pending_one_in_silence() {
    let mut bench = Bench::new(2, true);
    assert_eq!(bench.bar(A, 1), [Block(0)]);
    assert_eq!(bench.cancel(B, 2), [Abort(2, Cancelled), Resume([0].into())]);
    assert_eq!(bench.bar(B, 1), [Resume([1].into())]);
    assert_eq!(bench.gate.current(), Some(CheckpointId(2)));
}

#[test]
fn b14_q6_a_channel_that_ends_counts_as_aligned() {
    let mut bench = Bench::new(3, true);
    assert_eq!(bench.bar(A, 1), [Block(0)]);
    assert_eq!(bench.eop(B), []);
    assert_eq!(bench.bar(C, 1), [Block(2), Trigger(1), Resume([0, 2].into())]);
    assert_eq!(bench.bar(A, 2), [Block(0)]);
    assert_eq!(bench.bar(C, 2), [Block(2), Trigger(2), Resume([0, 2].into())]);
}

#[test]
fn b14_q6_the_end_of_the_last_awaited_channel_triggers() {
    let mut bench = Bench::new(3, true);
    assert_eq!(bench.bar(A, 1), [Block(0)]);
    assert_eq!(bench.bar(C, 1), [Block(2)]);
    assert_eq!(bench.eop(B), [Trigger(1), Resume([0, 2].into())]);
}

#[test]
fn b14_q7_without_the_option_the_end_of_a_channel_aborts() {
    let mut bench = Bench::new(3, false);
    assert_eq!(bench.bar(A, 1), [Block(0)]);
    assert_eq!(bench.eop(B), [Abort(1, Ended), Resume([0].into())]);
    assert_eq!(bench.bar(A, 2), [Block(0)]);
    assert_eq!(bench.bar(C, 2), [Block(2), Trigger(2), Resume([0, 2].into())]);
}

#[test]
fn b25_q8_the_last_open_channel_aligns_with_itself() {
    let mut bench = Bench::new(3, true);
    assert_eq!(bench.eop(A), []);
    assert_eq!(bench.eop(B), []);
    assert_eq!(bench.bar(C, 1), [Block(2), Trigger(1), Resume([2].into())]);
    assert_eq!(bench.eop(C), []);
    assert!(bench.gate.is_finished() && bench.gate.open_channels().is_empty());
}

#[test]
fn b25_q9_one_channel_triggers_at_once_and_gaps_are_fine() {
    let mut bench = Bench::new(1, true);
    assert_eq!(bench.bar(A, 1), [Block(0), Trigger(1), Resume([0].into())]);
    assert_eq!(bench.bar(A, 1), [Resume([0].into())]);
    assert_eq!(bench.bar(A, 3), [Block(0), Trigger(3), Resume([0].into())]);
    assert_eq!(bench.bar(A, 2), [Resume([0].into())]);
}

#[test]
fn b8_a_repeated_barrier_counts_once_and_keeps_its_channel_blocked() {
    let mut bench = Bench::new(2, true);
    assert_eq!(bench.bar(A, 1), [Block(0)]);
    assert_eq!(bench.at(1_005).bar(A, 1), [Block(0)]);
    let actions = bench.at(1_007).actions(BarrierArrived { channel: B, barrier: barrier(1) }).unwrap();
    let GateAction::TriggerCheckpoint { alignment, .. } = actions[1] else { panic!("{actions:?}") };
    assert_eq!(alignment.duration, Millis(7), "the repetition must not restart the measurement");
}

#[test]
fn b13_b33_metrics_start_anew_after_an_abort() {
    let mut bench = Bench::new(2, true);
    bench.bar(A, 1);
    assert_eq!(bench.at(2_000).bar(B, 2), [Abort(1, Subsumed), Resume([0].into()), Block(1)]);
    let actions = bench.at(2_004).actions(BarrierArrived { channel: A, barrier: barrier(2) }).unwrap();
    let GateAction::TriggerCheckpoint { alignment, .. } = actions[1] else { panic!("{actions:?}") };
    assert_eq!(alignment.duration, Millis(4));
}

#[test]
fn b32_a_barrier_from_the_future_has_no_delay() {
    let mut bench = Bench::new(1, true);
    bench.now.wall = Millis(10);
    let actions = bench.actions(BarrierArrived { channel: A, barrier: barrier(1) }).unwrap();
    let GateAction::TriggerCheckpoint { alignment, .. } = actions[1] else { panic!("{actions:?}") };
    assert_eq!(alignment.start_delay, Millis(0));
}

/// Case A-01: alignment must not wait for a channel that has ended.
#[test]
fn a01_a_blocked_channel_is_released_when_the_others_end() {
    for (count, end) in [(true, Trigger(1)), (false, Abort(1, Ended))] {
        let mut bench = Bench::new(2, count);
        assert_eq!(bench.bar(A, 1), [Block(0)]);
        assert_eq!(bench.eop(B), [end, Resume([0].into())]);
        assert!(!bench.gate.is_blocked(A));
        assert_eq!(bench.eop(A), []);
        assert!(bench.gate.is_finished());
    }
}

/// Case A-03, aligned: late markers of cancelled checkpoints must not multiply.
#[test]
fn a03_interleaved_cancel_markers_abort_each_checkpoint_once() {
    let mut bench = Bench::new(3, true);
    let mut log = Vec::new();
    for channel in [A, B, C] {
        log.extend(bench.cancel(channel, 1));
        log.extend(bench.cancel(channel, 2));
    }
    assert_eq!(log, [Abort(1, Cancelled), Abort(2, Cancelled)]);
    log.clear();
    for channel in [A, B, C] {
        log.extend(bench.bar(channel, 3));
    }
    assert_eq!(log, [Block(0), Block(1), Block(2), Trigger(3), Resume([0, 1, 2].into())]);
}

/// Case A-04: a stale cancel marker must not kill the newer checkpoint.
#[test]
fn a04_a_stale_cancel_marker_leaves_the_newer_checkpoint_alone() {
    let mut bench = Bench::new(3, true);
    assert_eq!(bench.bar(B, 3), [Block(1)]);
    assert_eq!(bench.bar(A, 3), [Block(0)]);
    assert_eq!(bench.bar(C, 5), [Abort(3, Subsumed), Resume([0, 1].into()), Block(2)]);
    assert_eq!(bench.cancel(A, 4), []);
    assert_eq!(bench.cancel(B, 3), []);
    assert_eq!(bench.bar(A, 5), [Block(0)]);
    assert_eq!(bench.bar(B, 5), [Block(1), Trigger(5), Resume([0, 1, 2].into())]);
}

#[test]
fn refused_events_change_nothing() {
    assert!(matches!(Gate::<1>::new(33, GateOptions::ALIGNED), Err(Rejected::OutOfRange { .. })));
    let mut bench = Bench::new(2, true);
    bench.bar(A, 1);
    bench.eop(B);
    let before = std::format!("{:?}", bench.gate);
    let refusals = [
        bench.actions(BarrierArrived { channel: C, barrier: barrier(2) }),
        bench.actions(BarrierArrived { channel: B, barrier: barrier(2) }),
        bench.actions(EndOfPartition { channel: B }),
        bench.at(1).actions(EndOfPartition { channel: A }),
    ];
    assert!(refusals.iter().all(Result::is_err), "{refusals:?}");
    let mut short = heapless::Vec::<_, { Gate::<1>::ACTIONS_MAX - 1 }>::new();
    let refusal = bench.gate.on_event(
        Now { monotonic: Millis(1_000), ..bench.now },
        EndOfPartition { channel: A },
        &mut short,
    );
    assert_eq!(refusal, Err(Rejected::NoRoom { needed: 6, free: 5 }));
    assert_eq!(std::format!("{:?}", bench.gate), before);
}

//! The aligned handler, and what both handlers share.

use super::*;
use crate::ids::{AlignmentOptions, Guarantee, SavepointFormat};

#[test]
fn b9_q1_the_last_barrier_triggers_before_the_channels_are_released() {
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
fn b12_q4_cancel_marker_before_every_barrier_makes_them_obsolete() {
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
fn b1_the_options_choose_the_handler() {
    // What the first barrier of two does: it blocks, it triggers, it is counted.
    for (options, first, second) in [
        (GateOptions::ALIGNED, std::vec![Block(0)], std::vec![Block(1), Trigger(1), Resume([0, 1].into())]),
        (GateOptions::AT_LEAST_ONCE, std::vec![], std::vec![Trigger(1)]),
    ] {
        let mut bench: Bench = Bench::with(2, options);
        assert_eq!((bench.bar(A, 1), bench.bar(B, 1)), (first, second), "{options:?}");
    }
    let mut bench = Bench::alternating(2);
    assert_eq!(bench.ubar(A, 1), [Start(1, [0, 1].into()), TriggerUnaligned(1)]);
}

#[test]
fn b1_u27_options_that_do_not_go_together_make_no_gate() {
    let unaligned_at_least_once = GateOptions { unaligned: true, ..GateOptions::AT_LEAST_ONCE };
    assert!(matches!(Gate::<1>::new(2, unaligned_at_least_once), Err(Rejected::Unexpected { .. })));
    assert!(matches!(Gate::<1>::new(33, GateOptions::ALIGNED), Err(Rejected::OutOfRange { .. })));
    assert!(Gate::<1>::new(32, GateOptions::ALIGNED).is_ok());
    // A source has a gate of no channels.
    assert!(Gate::<1>::new(0, GateOptions::ALIGNED).unwrap().is_finished());
}

#[test]
fn b2_b3_a_checkpoint_is_pending_from_its_first_sign_until_it_is_over() {
    let mut bench = Bench::new(2, true);
    assert_eq!((bench.gate.current(), bench.gate.is_aligning()), (None, false));
    bench.bar(A, 1);
    assert_eq!((bench.gate.current(), bench.gate.is_aligning()), (Some(CheckpointId(1)), true));
    bench.bar(B, 1);
    assert_eq!((bench.gate.current(), bench.gate.is_aligning()), (Some(CheckpointId(1)), false));
    bench.cancel(B, 4);
    assert_eq!((bench.gate.current(), bench.gate.is_aligning()), (Some(CheckpointId(4)), false));
    let mut bench = Bench::alternating(2);
    bench.ann(A, 3);
    assert_eq!((bench.gate.current(), bench.gate.is_aligning()), (Some(CheckpointId(3)), true));
}

#[test]
fn b4_each_kind_of_event_has_its_rule_and_records_are_only_counted() {
    let events = [
        (BarrierArrived { channel: A, barrier: timed(2) }, std::vec![Block(0)]),
        (BarrierAnnounced { channel: A, barrier: timed(2) }, std::vec![]),
        (BarrierInjected(timed(2)), std::vec![Trigger(2)]),
        (CancelArrived { channel: A, checkpoint: CheckpointId(2) }, std::vec![Abort(2, Cancelled)]),
        (EndOfPartition { channel: A }, std::vec![]),
        (DeadlineReached, std::vec![]),
        (StashOverflowed, std::vec![]),
    ];
    for (event, did) in events {
        let mut bench = Bench::alternating(2);
        bench.gate.count_bytes(10);
        assert_eq!(bench.send(event), did, "{event:?}");
    }
}

#[test]
fn b5_barriers_that_overtake_their_announcements_and_cancel_markers_wait_behind_nothing() {
    use crate::queue::{Consumer, Control, Position, Producer, Queue};
    let queue = Queue::<u8, 4>::with_bound(2).unwrap();
    let (mut producer, mut consumer) = (Producer::claim(&queue).unwrap(), Consumer::claim(&queue).unwrap());
    producer.try_push(1).unwrap();
    producer.try_push(2).unwrap();
    assert!(producer.try_push(3).is_err(), "the data lane is full");
    let overtaking = Some((unaligned(1), Position(2)));
    producer.publish(Control { overtaking, ..Control::default() });
    assert_eq!(consumer.control().and_then(|control| control.overtaking), overtaking);
    assert_eq!(consumer.len(), 2, "nothing was taken for it");
}

#[test]
fn b6_an_obsolete_barrier_resumes_its_channel_unless_it_overtook() {
    for over in [BarrierInjected(barrier(3)), CancelArrived { channel: A, checkpoint: CheckpointId(3) }] {
        let mut bench = Bench::alternating(2);
        bench.send(over);
        for id in [1, 2, 3] {
            assert_eq!(bench.bar(B, id), [Resume([1].into())], "{over:?}");
            assert_eq!(bench.tbar(B, id), [Resume([1].into())], "{over:?}");
            assert_eq!(bench.ubar(B, id), [], "{over:?}");
            assert_eq!(bench.ann(B, id), [], "{over:?}");
        }
    }
    // Older than the pending one: that goes on.
    let mut bench = Bench::alternating(2);
    bench.tbar(A, 3);
    assert_eq!(bench.tbar(B, 2), [Resume([1].into())]);
    assert_eq!(bench.ubar(B, 2), []);
    assert_eq!(bench.progress(3), Some(BarrierProgress::Awaited));
}

#[test]
fn b7_a_checkpoint_awaits_the_channels_that_are_open_when_it_begins() {
    let mut bench = Bench::new(3, true);
    bench.eop(B);
    assert_eq!(bench.bar(A, 1), [Block(0)]);
    assert_eq!(bench.bar(C, 1), [Block(2), Trigger(1), Resume([0, 2].into())]);
}

#[test]
fn b13_what_trails_behind_an_aborted_checkpoint_is_obsolete() {
    let mut bench = Bench::new(3, true);
    bench.bar(A, 1);
    bench.cancel(B, 1);
    assert_eq!(bench.progress(1), Some(BarrierProgress::GivenUp));
    assert_eq!(bench.bar(C, 1), [Resume([2].into())]);
    assert_eq!(bench.cancel(C, 1), []);
    assert_eq!(bench.bar(A, 2), [Block(0)], "the next one is not affected");
}

#[test]
fn b14_a_channel_that_ends_although_it_is_blocked_is_not_resumed() {
    let mut bench = Bench::new(3, true);
    bench.bar(A, 1);
    assert_eq!(bench.eop(A), []);
    assert!(!bench.gate.is_blocked(A));
    assert_eq!(bench.bar(B, 1), [Block(1)]);
    assert_eq!(bench.bar(C, 1), [Block(2), Trigger(1), Resume([1, 2].into())]);
}

#[test]
fn b15_progress_tells_what_is_awaited_of_a_checkpoint() {
    let mut bench = Bench::new(2, true);
    assert_eq!(bench.progress(1), None, "nothing was seen of it");
    bench.bar(A, 2);
    assert_eq!(bench.progress(1), Some(BarrierProgress::Complete), "older ones are over");
    assert_eq!(bench.progress(2), Some(BarrierProgress::Awaited));
    assert_eq!(bench.progress(3), None);
    bench.bar(B, 2);
    assert_eq!(bench.progress(2), Some(BarrierProgress::Complete));
    bench.bar(A, 3);
    bench.cancel(B, 3);
    assert_eq!(bench.progress(3), Some(BarrierProgress::GivenUp));
    bench.eop(A);
    bench.eop(B);
    assert_eq!(bench.progress(9), Some(BarrierProgress::Complete), "no channel is open");
}

#[test]
fn b17_an_aligned_gate_takes_no_barrier_that_overtakes_and_knows_no_deadline() {
    let mut bench = Bench::new(2, true);
    assert!(bench.actions(BarrierArrived { channel: A, barrier: unaligned(1) }).is_err());
    assert!(bench.actions(BarrierInjected(unaligned(1))).is_err());
    assert_eq!(bench.ann(A, 1), []);
    assert_eq!(bench.deadline(), None);
    // It is not late, however old it is.
    assert_eq!(bench.at(90_000).tbar(A, 1), [Block(0)]);
    assert_eq!(bench.send(DeadlineReached), []);
    assert_eq!(bench.tbar(B, 1), [Block(1), Trigger(1), Resume([0, 1].into())]);
}

#[test]
fn u5_a_savepoint_never_overtakes() {
    let mut bench = Bench::alternating(2);
    for kind in [
        SnapshotKind::Savepoint(SavepointFormat::Canonical),
        SnapshotKind::Suspend(SavepointFormat::Native),
        SnapshotKind::Drain(SavepointFormat::Native),
    ] {
        for barrier in [unaligned(1), timed(1)].map(|barrier| Barrier { kind, ..barrier }) {
            assert!(bench.actions(BarrierArrived { channel: A, barrier }).is_err(), "{barrier:?}");
            assert!(bench.actions(BarrierAnnounced { channel: A, barrier }).is_err(), "{barrier:?}");
            assert!(bench.actions(BarrierInjected(barrier)).is_err(), "{barrier:?}");
        }
        let options = AlignmentOptions {
            guarantee: Guarantee::ExactlyOnce,
            unaligned: true,
            aligned_timeout: Some(Millis(5)),
        };
        assert_eq!(options.alignment_of(kind), Alignment::Aligned);
    }
}

#[test]
fn q2_an_obsolete_barrier_of_the_older_checkpoint_does_not_disturb_the_newer() {
    let mut bench = Bench::new(3, true);
    bench.bar(A, 1);
    bench.bar(B, 2);
    assert_eq!(bench.bar(C, 1), [Resume([2].into())]);
    assert_eq!(bench.bar(A, 2), [Block(0)]);
    assert_eq!(bench.bar(C, 2), [Block(2), Trigger(2), Resume([0, 1, 2].into())]);
}

#[test]
fn b26_q10_an_injected_barrier_triggers_and_blocks_nothing() {
    let mut bench = Bench::new(3, true);
    assert_eq!(bench.send(BarrierInjected(barrier(1))), [Trigger(1)]);
    assert_eq!(bench.send(BarrierInjected(barrier(1))), [], "it is over");
    // Where some barriers had come, their channels are released.
    bench.bar(B, 2);
    assert_eq!(bench.send(BarrierInjected(barrier(2))), [Trigger(2), Resume([1].into())]);
    bench.bar(B, 3);
    let did = bench.send(BarrierInjected(barrier(4)));
    assert_eq!(did, [Abort(3, Subsumed), Resume([1].into()), Trigger(4)]);
    for channel in [A, B, C] {
        bench.eop(channel);
    }
    assert!(bench.actions(BarrierInjected(barrier(5))).is_err(), "the subtask takes it directly");
}

#[test]
fn refused_events_change_nothing() {
    for options in [GateOptions::ALIGNED, GateOptions::UNALIGNED, GateOptions::AT_LEAST_ONCE] {
        let mut bench: Bench = Bench::with(2, options);
        bench.bar(A, 1);
        bench.eop(B);
        bench.bar(A, 2);
        let before = std::format!("{:?}", bench.gate);
        let refusals = [
            bench.actions(BarrierArrived { channel: C, barrier: barrier(3) }),
            bench.actions(BarrierAnnounced { channel: C, barrier: barrier(3) }),
            bench.actions(CancelArrived { channel: C, checkpoint: CheckpointId(3) }),
            bench.actions(BarrierArrived { channel: B, barrier: barrier(3) }),
            bench.actions(EndOfPartition { channel: B }),
            bench.at(1).actions(EndOfPartition { channel: A }),
        ];
        assert!(refusals.iter().all(Result::is_err), "{refusals:?}");
        let mut short = heapless::Vec::<_, { Gate::<1>::ACTIONS_MAX - 1 }>::new();
        let refusal = bench.at(1_000).gate.on_event(
            Now { monotonic: Millis(1_000), wall: Millis(50_000) },
            EndOfPartition { channel: A },
            &mut short,
        );
        assert_eq!(refusal, Err(Rejected::NoRoom { needed: 6, free: 5 }));
        assert_eq!(std::format!("{:?}", bench.gate), before);
    }
}

#[test]
fn a_gate_takes_a_few_hundred_bytes() {
    assert!(size_of::<Gate<1>>() <= 640, "{}", size_of::<Gate<1>>());
    assert!(size_of::<Gate<1, 1>>() <= 320, "{}", size_of::<Gate<1, 1>>());
    assert!(size_of::<GateAction<1>>() <= 96, "{}", size_of::<GateAction<1>>());
}

//! The tracker of at-least-once.

use super::*;

#[test]
fn b27_nothing_blocks_and_several_checkpoints_are_counted_at_once() {
    let mut bench = Bench::tracker(3);
    for id in 1..=3 {
        assert_eq!(bench.bar(A, id), []);
    }
    assert!(!bench.gate.is_blocked(A) && bench.gate.is_aligning());
    assert_eq!([bench.bar(B, 1), bench.bar(B, 2), bench.bar(C, 1)], [vec(), vec(), [Trigger(1)].into()]);
    assert_eq!(bench.bar(C, 2), [Trigger(2)]);
}

const fn vec() -> Vec<Did> {
    Vec::new()
}

#[test]
fn b27_beyond_the_limit_the_oldest_goes_in_silence() {
    let mut bench: Bench<50> = Bench::with(2, GateOptions::AT_LEAST_ONCE);
    for id in 1..=51 {
        assert_eq!(bench.bar(A, id), []);
    }
    assert_eq!(bench.bar(B, 1), [], "51 were too many by one");
    assert_eq!(bench.bar(B, 2), [Trigger(2)]);
    let mut bench: Bench<1> = Bench::with(2, GateOptions::AT_LEAST_ONCE);
    assert_eq!([bench.bar(A, 1), bench.bar(A, 2), bench.bar(B, 1)], [vec(), vec(), vec()]);
    assert_eq!(bench.bar(B, 2), [Trigger(2)]);
}

#[test]
fn b28_one_open_channel_triggers_at_once() {
    let mut bench = Bench::tracker(2);
    bench.bar(A, 1);
    bench.eop(B);
    assert_eq!(bench.bar(A, 4), [Trigger(4)]);
    assert_eq!(bench.bar(A, 6), [Trigger(6)]);
    assert_eq!(bench.bar(A, 6), [Trigger(6)], "repetitions are left to the subtask");
    assert!(!bench.gate.is_aligning());
}

#[test]
fn b28_what_was_tracked_ends_in_silence_when_the_last_channel_is_past_it() {
    let mut bench = Bench::tracker(3);
    bench.bar(A, 1);
    bench.eop(A);
    bench.eop(B);
    assert!(bench.gate.is_aligning());
    assert_eq!(bench.bar(C, 2), [Trigger(2)]);
    assert!(!bench.gate.is_aligning());
    assert_eq!(bench.eop(C), [], "1 must not be triggered behind 2");
}

#[test]
fn b28_a_repeated_barrier_counts_once_and_an_unknown_older_one_is_ignored() {
    let mut bench = Bench::tracker(2);
    assert_eq!([bench.bar(A, 3), bench.bar(A, 3), bench.bar(B, 2)], [vec(), vec(), vec()]);
    assert_eq!(bench.bar(B, 3), [Trigger(3)]);
    assert_eq!(bench.bar(B, 3), []);
}

#[test]
fn b29_cancel_markers_abort_what_is_older_and_each_checkpoint_once() {
    let mut bench = Bench::tracker(3);
    for id in [1, 2, 3, 5] {
        bench.bar(A, id);
    }
    assert_eq!(bench.cancel(B, 3), [Aborts([1, 2, 3].into(), Cancelled)]);
    assert_eq!(bench.cancel(C, 3), []);
    assert_eq!(bench.cancel(C, 4), [], "it was never seen, and 5 was");
    assert_eq!(bench.cancel(B, 7), [Aborts([5, 7].into(), Cancelled)]);
    assert_eq!(bench.cancel(C, 7), []);
    assert_eq!(bench.bar(A, 7), []);
    assert!(!bench.gate.is_aligning());
    assert_eq!([bench.bar(A, 8), bench.bar(B, 8), bench.bar(C, 8)], [vec(), vec(), [Trigger(8)].into()]);
}

#[test]
fn b29_a_single_channel_reports_each_cancel_marker() {
    let mut bench = Bench::tracker(1);
    assert_eq!(bench.cancel(A, 2), [Aborts([2].into(), Cancelled)]);
    assert_eq!(bench.cancel(A, 3), [Aborts([3].into(), Cancelled)]);
    assert_eq!(bench.bar(A, 4), [Trigger(4)]);
}

#[test]
fn b29_those_far_behind_a_cancel_marker_go_in_silence() {
    let mut bench = Bench::tracker(2);
    for id in [1, 36, 37, 99] {
        bench.bar(A, id);
    }
    assert_eq!(bench.cancel(A, 100), [Aborts([37, 99, 100].into(), Cancelled)]);
}

#[test]
fn b30_an_end_completes_the_newest_that_awaited_only_it() {
    let mut bench = Bench::tracker(3);
    for id in [1, 2, 3] {
        bench.bar(A, id);
    }
    bench.bar(B, 1);
    bench.bar(B, 2);
    assert_eq!(bench.eop(C), [Trigger(2)], "1 goes in silence");
    assert_eq!(bench.bar(B, 3), [Trigger(3)], "the end counted for 3, too");
}

#[test]
fn b30_without_the_option_an_end_aborts_all() {
    let options = GateOptions { count_ended_channels: false, ..GateOptions::AT_LEAST_ONCE };
    let mut bench: Bench = Bench::with(3, options);
    bench.bar(A, 1);
    bench.bar(A, 2);
    bench.cancel(B, 1);
    bench.bar(B, 4);
    assert_eq!(bench.eop(C), [Aborts([2, 4].into(), Ended)]);
    assert!(!bench.gate.is_aligning());
    assert_eq!(bench.bar(A, 4), []);
    assert_eq!([bench.bar(A, 5), bench.bar(B, 5)], [vec(), [Trigger(5)].into()]);
}

#[test]
fn b30_given_up_ones_are_completed_in_silence() {
    let mut bench = Bench::tracker(3);
    bench.bar(A, 1);
    bench.cancel(B, 1);
    assert_eq!(bench.eop(C), []);
    assert_eq!(bench.progress(1), Some(BarrierProgress::Complete));
}

#[test]
fn b31_only_the_alignment_of_the_newest_is_measured() {
    let mut bench = Bench::tracker(2);
    bench.bar(A, 1);
    bench.at(1_100).bar(A, 2);
    assert_eq!(bench.at(1_200).bar(B, 1), [Trigger(1)]);
    assert_eq!(bench.measured, Some(AlignmentMetrics::ZERO));
    assert_eq!(bench.at(1_250).bar(B, 2), [Trigger(2)]);
    let measured = bench.measured.unwrap();
    assert_eq!((measured.duration, measured.start_delay), (Millis(150), Millis(1_100)));
}

#[test]
fn b15_awaited_while_it_is_tracked() {
    let mut bench = Bench::tracker(3);
    bench.bar(A, 1);
    bench.bar(A, 2);
    assert_eq!(bench.progress(1), Some(BarrierProgress::Awaited));
    bench.cancel(B, 1);
    assert_eq!(bench.progress(1), Some(BarrierProgress::GivenUp));
    bench.bar(B, 2);
    bench.bar(C, 2);
    assert_eq!(bench.progress(2), Some(BarrierProgress::Complete));
}

#[test]
fn b26_an_injected_barrier_triggers() {
    let mut bench = Bench::tracker(2);
    assert_eq!(bench.send(BarrierInjected(barrier(1))), [Trigger(1)]);
    assert_eq!(bench.send(BarrierInjected(barrier(1))), []);
    bench.bar(A, 2);
    assert_eq!(bench.send(BarrierInjected(barrier(2))), [Trigger(2)]);
    bench.eop(A);
    assert_eq!(bench.send(BarrierInjected(barrier(3))), [Trigger(3)]);
}

#[test]
fn q19_a_newer_checkpoint_that_is_complete_drops_older_ones_in_silence() {
    let mut bench = Bench::tracker(2);
    assert_eq!([bench.bar(A, 1), bench.bar(A, 2)], [vec(), vec()]);
    assert_eq!(bench.bar(B, 2), [Trigger(2)]);
    assert_eq!(bench.bar(B, 1), []);
}

#[test]
fn q20_a_cancel_marker_aborts_once_and_older_ones_with_it() {
    let mut bench = Bench::tracker(2);
    bench.bar(A, 1);
    assert_eq!(bench.cancel(B, 1), [Aborts([1].into(), Cancelled)]);
    assert!(!bench.gate.is_aligning());
    let mut bench = Bench::tracker(2);
    bench.bar(A, 1);
    bench.bar(A, 2);
    assert_eq!(bench.cancel(B, 2), [Aborts([1, 2].into(), Cancelled)]);
}

#[test]
fn q21_an_end_triggers_the_newest_that_it_completes() {
    let mut bench = Bench::tracker(2);
    bench.bar(A, 1);
    assert_eq!(bench.eop(B), [Trigger(1)]);
    let mut bench = Bench::tracker(2);
    bench.bar(A, 1);
    bench.bar(A, 2);
    assert_eq!(bench.eop(B), [Trigger(2)]);
    assert!(!bench.gate.is_aligning());
}

#[test]
fn b31_an_older_checkpoint_does_not_end_the_measurement_of_the_newest() {
    let mut bench = Bench::tracker(2);
    bench.bar(A, 1);
    bench.at(2_000).bar(A, 2);
    bench.gate.count_bytes(10);
    assert_eq!(bench.at(2_100).bar(B, 1), [Trigger(1)]);
    assert_eq!(bench.measured, Some(AlignmentMetrics::ZERO));
    bench.gate.count_bytes(5);
    assert_eq!(bench.at(2_300).bar(B, 2), [Trigger(2)]);
    let measured = bench.measured.unwrap();
    assert_eq!((measured.duration, measured.bytes_processed), (Millis(300), 15));
}

#[test]
fn b27_the_newest_checkpoint_stays_known_when_it_is_over() {
    let mut bench = Bench::tracker(2);
    assert_eq!(bench.gate.current(), None);
    bench.bar(A, 3);
    assert_eq!(bench.gate.current(), Some(CheckpointId(3)));
    assert_eq!(bench.bar(B, 3), [Trigger(3)]);
    assert_eq!(bench.gate.current(), Some(CheckpointId(3)));
}

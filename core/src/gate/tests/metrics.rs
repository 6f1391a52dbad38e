//! What alignment costs.

use super::*;

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

#[test]
fn b32_the_delay_is_that_of_the_first_barrier() {
    let mut bench = Bench::new(2, true);
    bench.bar(A, 1);
    bench.at(1_500).bar(B, 1);
    assert_eq!(bench.measured.unwrap().start_delay, Millis(1_000));
    // An announcement is no barrier.
    let mut bench = Bench::alternating(2);
    bench.ann(A, 1);
    bench.at(1_200).tbar(A, 1);
    bench.at(1_300).tbar(B, 1);
    let measured = bench.measured.unwrap();
    assert_eq!((measured.start_delay, measured.duration), (Millis(1_200), Millis(100)));
}

#[test]
fn b33_one_channel_has_no_duration_and_an_end_may_be_what_ends_it() {
    let mut bench = Bench::new(2, true);
    bench.bar(A, 1);
    bench.at(1_060).eop(B);
    assert_eq!(bench.measured.unwrap().duration, Millis(60));
    bench.at(1_100).bar(A, 2);
    assert_eq!(bench.measured.unwrap().duration, Millis(0));
}

#[test]
fn b34_bytes_count_from_the_first_to_the_last_barrier() {
    for (mut bench, last) in [
        (Bench::new(2, true), Trigger(1)),
        (Bench::alternating(2), Trigger(1)),
        (Bench::tracker(2), Trigger(1)),
    ] {
        bench.gate.count_bytes(1);
        bench.bar(A, 1);
        bench.gate.count_bytes(10);
        bench.gate.count_bytes(100);
        assert!(bench.bar(B, 1).contains(&last));
        assert_eq!(bench.measured.unwrap().bytes_processed, 110);
        bench.gate.count_bytes(1_000);
        bench.bar(A, 2);
        bench.gate.count_bytes(u64::MAX);
        bench.gate.count_bytes(1);
        bench.bar(B, 2);
        assert_eq!(bench.measured.unwrap().bytes_processed, u64::MAX, "it does not wrap");
    }
}

#[test]
fn b34_of_an_unaligned_checkpoint_bytes_count_on_after_the_snapshot() {
    let mut bench = Bench::alternating(2);
    bench.ubar(A, 1);
    assert_eq!(bench.measured.unwrap().bytes_processed, 0);
    bench.gate.count_bytes(5);
    assert_eq!(bench.ubar(B, 1), [Stop(1)]);
    assert_eq!(bench.measured.unwrap().bytes_processed, 5);
}

#[test]
fn b35_of_another_alignment_nothing_is_reported() {
    let mut bench = Bench::tracker(2);
    bench.bar(A, 1);
    bench.gate.count_bytes(7);
    bench.bar(A, 2);
    bench.gate.count_bytes(8);
    bench.at(1_400).bar(B, 1);
    assert_eq!(bench.measured, Some(AlignmentMetrics::ZERO));
    bench.bar(B, 2);
    assert_eq!(bench.measured.unwrap().bytes_processed, 8);
}

#[test]
fn b36_captured_bytes_make_a_checkpoint_count_as_unaligned() {
    let mut bench = Bench::alternating(2);
    bench.ubar(A, 1);
    bench.ubar(B, 1);
    let measured = bench.measured.unwrap();
    assert_eq!((measured.bytes_persisted, measured.is_unaligned()), (0, false), "nothing was in flight");
    assert!(AlignmentMetrics { bytes_persisted: 1, ..measured }.is_unaligned());
}

//! The alternating handler: aligned at first, unaligned when a barrier overtakes or has waited too long.

use super::*;

/// Two channels of three have their barriers, the third has announced it.
fn waiting() -> Bench {
    let mut bench = Bench::alternating(3);
    assert_eq!(bench.tbar(A, 1), [Block(0)]);
    assert_eq!(bench.ann(C, 1), []);
    bench
}

#[test]
fn b7_b16_the_first_sign_of_a_checkpoint_arms_the_timer() {
    for announced in [false, true] {
        let mut bench = Bench::alternating(2);
        assert_eq!(bench.deadline(), None);
        let first = if announced { bench.ann(A, 1) } else { bench.tbar(A, 1) };
        assert_eq!(first.len(), usize::from(!announced));
        assert_eq!(bench.deadline(), Some(2_100), "the rest of the time-out, counted from the trigger");
        assert_eq!(bench.at(1_500).send(DeadlineReached), [], "not reached yet");
        assert_eq!(bench.deadline(), Some(2_100));
        let turned = bench.at(2_100).send(DeadlineReached);
        assert_eq!(turned.len(), if announced { 1 } else { 2 });
        assert_eq!(bench.deadline(), None);
        assert_eq!(bench.send(DeadlineReached), [], "it turns once");
    }
    // A trigger of long ago, and one in the future of this clock.
    for (wall, deadline) in [(90_000, 1_000), (10, 3_100)] {
        let mut bench = Bench::alternating(2);
        bench.now.wall = Millis(wall);
        bench.ann(A, 1);
        assert_eq!(bench.deadline(), Some(deadline), "{wall}");
    }
    // Nothing that cannot turn has a deadline.
    for alignment in [Alignment::Aligned, Alignment::ForcedAligned { timeout: Some(TIMEOUT) }] {
        let mut bench = Bench::alternating(2);
        bench.send(BarrierArrived { channel: A, barrier: formed(1, alignment) });
        assert_eq!(bench.deadline(), None);
    }
}

#[test]
fn b16_the_timer_of_a_checkpoint_goes_with_it() {
    let ends: [fn(&mut Bench) -> Vec<Did>; 4] = [
        |bench| bench.tbar(B, 1),
        |bench| bench.cancel(B, 1),
        |bench| bench.bar(B, 2),
        |bench| bench.ubar(B, 1),
    ];
    for end in ends {
        let mut bench = Bench::alternating(2);
        bench.tbar(A, 1);
        end(&mut bench);
        assert_eq!(bench.deadline(), None);
        assert_eq!(bench.at(9_000).send(DeadlineReached), []);
    }
}

#[test]
fn b10_an_announcement_gives_an_older_checkpoint_up_and_is_ignored_when_late() {
    let mut bench = Bench::alternating(2);
    bench.tbar(A, 1);
    assert_eq!(bench.ann(B, 2), [Abort(1, Subsumed), Resume([0].into())]);
    assert_eq!(bench.ann(A, 1), []);
    assert_eq!((bench.gate.current(), bench.gate.is_aligning()), (Some(CheckpointId(2)), true));
    // A barrier that has come is not called again.
    bench.tbar(B, 2);
    assert_eq!(bench.ann(B, 2), []);
    assert_eq!(bench.at(2_100).send(DeadlineReached), [Start(2, [0].into()), TriggerUnaligned(2)]);
}

#[test]
fn b10_an_announcement_that_is_read_after_the_end_of_its_channel_is_ignored() {
    let mut bench = Bench::alternating(2);
    bench.eop(A);
    assert_eq!(bench.ann(A, 1), []);
    assert_eq!(bench.gate.current(), None);
}

#[test]
fn b12_a_cancel_marker_ends_what_is_known_from_an_announcement_alone() {
    let mut bench = Bench::alternating(2);
    bench.ann(A, 1);
    assert_eq!(bench.cancel(B, 1), [Abort(1, Cancelled)]);
    assert_eq!(bench.tbar(A, 1), [Resume([0].into())], "it must not wait for the other channel");
}

#[test]
fn b12_a_cancel_marker_of_a_later_checkpoint_drops_what_was_captured() {
    let mut bench = Bench::alternating(2);
    bench.ubar(A, 1);
    assert_eq!(bench.cancel(B, 2), [Drop(1), Abort(2, Cancelled)]);
    assert_eq!(bench.ubar(B, 1), []);
}

#[test]
fn b14_a_channel_that_ends_is_forgotten_in_every_state() {
    // Announced: the others are still awaited, and the barrier of the ended one is not called.
    let mut bench = Bench::alternating(3);
    bench.ann(A, 1);
    bench.ann(B, 1);
    assert_eq!(bench.eop(B), []);
    assert_eq!(bench.at(2_100).send(DeadlineReached), [Overtake(1, [0].into())]);
    // Awaiting the first that overtakes.
    assert_eq!(bench.eop(C), []);
    assert_eq!(bench.ubar(A, 1), [Start(1, [0].into()), TriggerUnaligned(1), Stop(1)]);
    // Aligning: in time, and late.
    for (at, did) in [(2_100, std::vec![]), (2_101, std::vec![Start(1, [1].into()), TriggerUnaligned(1)])] {
        let mut bench = Bench::alternating(3);
        bench.tbar(A, 1);
        assert_eq!(bench.at(at).eop(C), did, "{at}");
    }
    // Aligning and late, but it was the last.
    let mut bench = Bench::alternating(2);
    bench.tbar(A, 1);
    assert_eq!(bench.at(5_000).eop(B), [Trigger(1), Resume([0].into())]);
}

#[test]
fn b14_an_announced_barrier_that_never_came_ends_with_the_channels() {
    for turned in [false, true] {
        let mut bench = Bench::alternating(2);
        bench.ann(A, 1);
        if turned {
            bench.at(2_100).send(DeadlineReached);
        }
        assert_eq!(bench.eop(A), []);
        assert_eq!(bench.eop(B), [Abort(1, Ended)]);
    }
}

#[test]
fn b14_without_the_option_the_end_of_a_channel_drops_what_was_captured() {
    let options = GateOptions { count_ended_channels: false, ..GateOptions::UNALIGNED };
    let mut bench: Bench = Bench::with(3, options);
    bench.ubar(A, 1);
    assert_eq!(bench.eop(B), [Drop(1), Abort(1, Ended)]);
    assert_eq!(bench.ubar(C, 1), []);
}

#[test]
fn b18_in_time_it_is_aligned() {
    let mut bench = waiting();
    assert_eq!(bench.at(2_100).tbar(C, 1), [Block(2)], "as old as the time-out is in time");
    assert_eq!(bench.tbar(B, 1), [Block(1), Trigger(1), Resume([0, 1, 2].into())]);
    assert_eq!(bench.deadline(), None);
}

#[test]
fn b18_the_last_barrier_of_all_is_aligned_however_late() {
    let mut bench = waiting();
    bench.tbar(C, 1);
    assert_eq!(bench.at(9_000).tbar(B, 1), [Block(1), Trigger(1), Resume([0, 1, 2].into())]);
}

#[test]
fn b19_blocked_channels_stay_blocked_when_it_turns_and_give_nothing_to_capture() {
    let mut bench = waiting();
    let turned = bench.at(2_100).send(DeadlineReached);
    assert_eq!(turned, [Overtake(1, [2].into()), Start(1, [1, 2].into()), TriggerUnaligned(1)]);
    assert!(bench.gate.is_blocked(A) && bench.gate.is_aligning());
    assert_eq!(bench.ubar(C, 1), []);
    assert!(bench.gate.is_blocked(A));
    assert_eq!(bench.ubar(B, 1), [Stop(1), Resume([0].into())]);
}

#[test]
fn b20_a_barrier_and_an_end_are_late_only_beyond_the_time_out() {
    for (at, is_late) in [(2_099, false), (2_100, false), (2_101, true)] {
        let mut bench = Bench::alternating(2);
        let did = bench.at(at).tbar(A, 1);
        assert_eq!(did.contains(&TriggerUnaligned(1)), is_late, "{at}");
    }
}

#[test]
fn b21_the_first_barrier_triggers_even_if_it_kept_its_place() {
    let mut bench = Bench::alternating(2);
    bench.ann(A, 1);
    assert_eq!(bench.at(2_100).send(DeadlineReached), [Overtake(1, [0].into())]);
    // The place of B's barrier was reached before anybody announced it.
    let did = bench.tbar(B, 1);
    assert_eq!(did, [Block(1), Start(1, [0].into()), TriggerUnaligned(1)]);
    assert_eq!(bench.ubar(A, 1), [Stop(1), Resume([1].into())]);
}

#[test]
fn b22_later_barriers_trigger_nothing_and_those_in_their_place_block() {
    let mut bench = Bench::alternating(3);
    bench.ubar(A, 1);
    assert_eq!(bench.tbar(B, 1), [Block(1)]);
    assert_eq!(bench.ubar(B, 1), [], "repeated");
    assert!(bench.gate.is_blocked(B));
    assert_eq!(bench.ann(C, 1), [Overtake(1, [2].into())], "called at once");
    assert_eq!(bench.ubar(C, 1), [Stop(1), Resume([1].into())]);
}

#[test]
fn b21_b22_an_announcement_is_called_at_once_when_unaligned() {
    let mut bench = Bench::alternating(3);
    bench.ann(A, 1);
    bench.at(2_100).send(DeadlineReached);
    assert_eq!(bench.ann(B, 1), [Overtake(1, [1].into())]);
    bench.ubar(A, 1);
    assert_eq!(bench.ann(C, 1), [Overtake(1, [2].into())]);
    assert_eq!(bench.ann(A, 1), [], "its barrier has come");
}

#[test]
fn b23_finished_or_given_up_what_was_blocked_is_released_and_the_next_begins_aligned() {
    let mut bench = waiting();
    bench.at(2_100).send(DeadlineReached);
    assert_eq!(bench.cancel(B, 1), [Drop(1), Abort(1, Cancelled), Resume([0].into())]);
    assert_eq!(bench.at(2_200).send(BarrierArrived { channel: A, barrier: barrier(2) }), [Block(0)]);
}

#[test]
fn b24_unaligned_triggers_on_the_first_barrier_aligned_on_the_last() {
    let mut bench = Bench::alternating(3);
    assert!(bench.ubar(B, 1).contains(&TriggerUnaligned(1)));
    assert!(!bench.ubar(A, 1).contains(&TriggerUnaligned(1)));
    assert_eq!(bench.ubar(C, 1), [Stop(1)]);
    assert_eq!([bench.bar(B, 2).len(), bench.bar(A, 2).len()], [1, 1]);
    assert!(bench.bar(C, 2).contains(&Trigger(2)));
}

#[test]
fn b25_one_channel_triggers_and_ends_in_one_step() {
    let mut bench = Bench::alternating(1);
    assert_eq!(bench.ubar(A, 1), [Start(1, [0].into()), TriggerUnaligned(1), Stop(1)]);
    assert_eq!(bench.measured.unwrap().duration, Millis(0));
    assert_eq!(bench.at(9_000).tbar(A, 2), [Block(0), Trigger(2), Resume([0].into())]);
    assert_eq!(bench.measured.unwrap().duration, Millis(0));
}

#[test]
fn b26_an_injected_barrier_overtakes_everywhere_at_once() {
    let mut bench = Bench::alternating(2);
    let all = [Start(1, [0, 1].into()), TriggerUnaligned(1), Stop(1)];
    assert_eq!(bench.send(BarrierInjected(unaligned(1))), all);
    // Late as a first barrier would be.
    assert_eq!(bench.at(2_100).send(BarrierInjected(timed(2))), [Trigger(2)]);
    let all = [Start(3, [0, 1].into()), TriggerUnaligned(3), Stop(3)];
    assert_eq!(bench.at(2_101).send(BarrierInjected(timed(3))), all);
    // What others have begun, it ends.
    bench.ubar(A, 4);
    assert_eq!(bench.send(BarrierInjected(unaligned(4))), [Stop(4)]);
    bench.bar(A, 5);
    let did = bench.send(BarrierInjected(unaligned(6)));
    let all = [Start(6, [0, 1].into()), TriggerUnaligned(6), Stop(6)];
    assert_eq!(did[..2], [Abort(5, Subsumed), Resume([0].into())]);
    assert_eq!(did[2..], all);
}

#[test]
fn u3_a_checkpoint_that_may_not_overtake_on_one_channel_does_on_none() {
    for alignment in [Alignment::ForcedAligned { timeout: None }, Alignment::AtLeastOnce] {
        let mut bench = Bench::alternating(3);
        let forced = formed(1, alignment);
        assert_eq!(bench.send(BarrierArrived { channel: A, barrier: forced }), [Block(0)]);
        let before = std::format!("{:?}", bench.gate);
        assert!(bench.actions(BarrierArrived { channel: B, barrier: unaligned(1) }).is_err());
        assert!(bench.actions(BarrierInjected(unaligned(1))).is_err());
        assert_eq!(std::format!("{:?}", bench.gate), before);
        assert_eq!(bench.send(BarrierAnnounced { channel: B, barrier: forced }), []);
        assert_eq!(bench.at(90_000).send(DeadlineReached), [], "nothing to wait for");
        assert_eq!(bench.send(BarrierArrived { channel: B, barrier: forced }), [Block(1)]);
        let last = bench.send(BarrierArrived { channel: C, barrier: forced });
        assert_eq!(last, [Block(2), Trigger(1), Resume([0, 1, 2].into())]);
    }
}

#[test]
fn q11_with_time_out_0_the_first_barrier_triggers_and_the_last_ends_it() {
    let mut bench = Bench::alternating(3);
    assert_eq!(bench.ubar(B, 1), [Start(1, [0, 1, 2].into()), TriggerUnaligned(1)]);
    assert_eq!(bench.measured.unwrap().duration, Millis(0), "not known yet");
    assert_eq!(bench.at(1_010).ubar(A, 1), []);
    assert_eq!(bench.progress(1), Some(BarrierProgress::Awaited));
    assert_eq!(bench.at(1_030).ubar(C, 1), [Stop(1)]);
    assert_eq!(bench.measured.unwrap().duration, Millis(30));
    assert_eq!(bench.progress(1), Some(BarrierProgress::Complete));
}

#[test]
fn q12_a_newer_barrier_gives_the_triggered_checkpoint_up_and_triggers_at_once() {
    let mut bench = Bench::alternating(3);
    bench.ubar(B, 1);
    let did = bench.ubar(A, 2);
    assert_eq!(did, [Drop(1), Abort(1, Subsumed), Start(2, [0, 1, 2].into()), TriggerUnaligned(2)]);
}

#[test]
fn q13_an_end_counts_and_a_cancel_marker_aborts_when_unaligned() {
    let mut bench = Bench::alternating(3);
    bench.ubar(B, 1);
    assert_eq!(bench.eop(A), []);
    assert_eq!(bench.ubar(C, 1), [Stop(1)]);
    let mut bench = Bench::alternating(3);
    bench.ubar(B, 1);
    assert_eq!(bench.cancel(A, 1), [Drop(1), Abort(1, Cancelled)]);
}

#[test]
fn q14_announced_and_in_time_it_is_aligned() {
    let mut bench = Bench::alternating(3);
    assert_eq!(bench.ann(A, 1), []);
    assert_eq!(bench.deadline(), Some(2_100));
    assert_eq!(bench.at(1_100).tbar(A, 1), [Block(0)]);
    assert_eq!(bench.tbar(B, 1), [Block(1)]);
    assert_eq!(bench.tbar(C, 1), [Block(2), Trigger(1), Resume([0, 1, 2].into())]);
    assert_eq!(bench.deadline(), None);
}

#[test]
fn q15_the_timer_fires_before_any_barrier() {
    let mut bench = Bench::alternating(3);
    bench.ann(A, 1);
    assert_eq!(bench.at(2_100).send(DeadlineReached), [Overtake(1, [0].into())]);
    assert_eq!(bench.ubar(A, 1), [Start(1, [0, 1, 2].into()), TriggerUnaligned(1)]);
}

#[test]
fn q16_the_timer_fires_with_one_channel_blocked() {
    let mut bench = Bench::alternating(3);
    bench.tbar(A, 1);
    bench.ann(B, 1);
    let did = bench.at(2_100).send(DeadlineReached);
    assert_eq!(did, [Overtake(1, [1].into()), Start(1, [1, 2].into()), TriggerUnaligned(1)]);
    assert_eq!(bench.ubar(B, 1), []);
    assert!(bench.gate.is_blocked(A));
    assert_eq!(bench.tbar(C, 1), [Block(2), Stop(1), Resume([0, 2].into())]);
}

#[test]
fn q17_a_first_barrier_that_is_late_triggers_at_once() {
    let mut bench = Bench::alternating(3);
    let did = bench.at(2_101).tbar(A, 1);
    assert_eq!(did, [Block(0), Start(1, [1, 2].into()), TriggerUnaligned(1)]);
    assert!(bench.gate.is_blocked(A));
    assert_eq!(Bench::alternating(3).at(2_100).tbar(A, 1), [Block(0)]);
}

#[test]
fn q18_a_barrier_that_overtook_upstream_turns_it_before_the_timer() {
    let mut bench = Bench::alternating(3);
    bench.tbar(A, 1);
    assert_eq!(bench.ubar(B, 1), [Start(1, [1, 2].into()), TriggerUnaligned(1)]);
    assert_eq!(bench.deadline(), None);
    assert_eq!(bench.ubar(C, 1), [Stop(1), Resume([0].into())]);
}

#[test]
fn b14_the_end_of_the_last_awaited_channel_ends_the_capture() {
    let mut bench = Bench::alternating(2);
    assert_eq!(bench.ubar(A, 1), [Start(1, [0, 1].into()), TriggerUnaligned(1)]);
    assert_eq!(bench.eop(B), [Stop(1)]);
    assert_eq!(bench.progress(1), Some(BarrierProgress::Complete));
}

#[test]
fn b19_only_announced_barriers_that_may_overtake_are_called() {
    let mut bench = Bench::alternating(3);
    assert_eq!(bench.tbar(A, 1), [Block(0)]);
    let forced = formed(1, Alignment::ForcedAligned { timeout: None });
    assert_eq!(bench.send(BarrierAnnounced { channel: B, barrier: forced }), []);
    assert_eq!(bench.ann(C, 1), []);
    let deadline = bench.deadline().unwrap();
    let did = bench.at(deadline).send(DeadlineReached);
    assert_eq!(did, [Overtake(1, [2].into()), Start(1, [1, 2].into()), TriggerUnaligned(1)]);
}

#[test]
fn b26_an_injected_barrier_that_is_the_last_one_is_never_late() {
    let mut bench = Bench::alternating(1);
    assert_eq!(bench.at(2_101).send(BarrierInjected(timed(1))), [Trigger(1)]);
}

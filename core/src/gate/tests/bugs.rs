//! Bugs that users of other systems reported in public.

use super::*;

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

/// Case A-02: the shortcut for one open channel must leave nothing behind.
#[test]
fn a02_one_open_channel_finishes_what_two_have_begun() {
    for is_cancelled in [false, true] {
        let mut bench = Bench::tracker(2);
        assert_eq!(bench.bar(A, 5), []);
        assert_eq!(bench.eop(A), []);
        assert!(bench.gate.is_aligning());
        if is_cancelled {
            assert_eq!(bench.cancel(B, 5), [Aborts([5].into(), Cancelled)]);
        } else {
            assert_eq!(bench.bar(B, 5), [Trigger(5)]);
        }
        assert!(!bench.gate.is_aligning());
        assert_eq!(bench.bar(B, 6), [Trigger(6)]);
    }
}

/// Case A-03, tracked.
#[test]
fn a03_interleaved_cancel_markers_abort_each_tracked_checkpoint_once() {
    let mut bench = Bench::tracker(3);
    let mut log = Vec::new();
    for channel in [A, B, C] {
        log.extend(bench.cancel(channel, 1));
        log.extend(bench.cancel(channel, 2));
    }
    assert_eq!(log, [Aborts([1].into(), Cancelled), Aborts([2].into(), Cancelled)]);
    assert!(!bench.gate.is_aligning());
    log.clear();
    for channel in [A, B, C] {
        log.extend(bench.bar(channel, 3));
    }
    assert_eq!(log, [Trigger(3)]);
}

/// Case B-01 (a): the time-out is over when the first barrier comes.
#[test]
fn b01_a_barrier_that_comes_too_late_triggers_within_the_call() {
    for (wall, is_late) in [(51_100, false), (51_101, true), (1_000_000_000, true), (0, false)] {
        let mut bench = Bench::alternating(2);
        bench.now.wall = Millis(wall);
        let did = bench.tbar(A, 1);
        if is_late {
            assert_eq!(did, [Block(0), Start(1, [1].into()), TriggerUnaligned(1)], "{wall}");
        } else {
            assert_eq!(did, [Block(0)], "{wall}");
        }
        if wall == 51_100 {
            // As old as the time-out: the timer is due now, the barrier alone changes nothing.
            assert_eq!(bench.deadline(), Some(1_000));
            assert_eq!(bench.send(DeadlineReached), [Start(1, [1].into()), TriggerUnaligned(1)]);
        }
    }
}

/// Case B-01 (b): announced on one channel, overtaking on the other.
#[test]
fn b01_a_barrier_that_overtakes_meets_an_announcement() {
    let mut bench = Bench::alternating(2);
    assert_eq!(bench.ann(A, 1), []);
    let did = bench.at(1_005).ubar(B, 1);
    assert_eq!(did, [Overtake(1, [0].into()), Start(1, [0, 1].into()), TriggerUnaligned(1)]);
    assert!(!bench.gate.is_blocked(B));
    assert_eq!(bench.ubar(A, 1), [Stop(1)]);
}

/// Case B-02: a barrier without an announcement starts the time-out, too.
#[test]
fn b02_the_barrier_of_a_local_channel_starts_the_time_out() {
    let mut bench = Bench::alternating(2);
    assert_eq!(bench.at(1_010).tbar(A, 1), [Block(0)]);
    assert_eq!(bench.at(2_080).ann(B, 1), []);
    assert_eq!(bench.deadline(), Some(2_100), "by the trigger, not by what came here");
    let did = bench.at(2_100).send(DeadlineReached);
    assert_eq!(did, [Overtake(1, [1].into()), Start(1, [1].into()), TriggerUnaligned(1)]);
    assert_eq!(bench.ubar(B, 1), [Stop(1), Resume([0].into())]);
}

/// Case B-03: an edge that forbids overtaking keeps a barrier in its place although it has a time-out.
#[test]
fn b03_a_forced_barrier_stays_aligned_however_old_it_gets() {
    let mut bench = Bench::alternating(2);
    let forced = formed(1, Alignment::AlignedFor(TIMEOUT).without_overtaking());
    assert_eq!(bench.send(BarrierAnnounced { channel: B, barrier: forced }), []);
    assert_eq!(bench.at(80_000).send(BarrierArrived { channel: A, barrier: forced }), [Block(0)]);
    assert_eq!((bench.deadline(), bench.send(DeadlineReached)), (None, [].into()));
    let did = bench.send(BarrierArrived { channel: B, barrier: forced });
    assert_eq!(did, [Block(1), Trigger(1), Resume([0, 1].into())]);
    // Behind the gate it may overtake again.
    assert_eq!(forced.alignment.with_overtaking(), Alignment::AlignedFor(TIMEOUT));
}

/// Case B-05: to be replaced by a newer checkpoint is no failure of the task.
#[test]
fn b05_a_replaced_checkpoint_is_declined_once_and_waited_for_no_more() {
    let mut bench = Bench::alternating(2);
    assert_eq!(bench.ubar(A, 1), [Start(1, [0, 1].into()), TriggerUnaligned(1)]);
    let did = bench.ubar(A, 2);
    assert_eq!(did, [Drop(1), Abort(1, Subsumed), Start(2, [0, 1].into()), TriggerUnaligned(2)]);
    assert_eq!(bench.progress(1), Some(BarrierProgress::Complete), "who still waits for 1 goes on");
    assert_eq!(bench.ubar(B, 1), []);
    assert_eq!(bench.ubar(B, 2), [Stop(2)]);
}

/// Case B-06: a cancel marker, or an end, is seen before the barrier that was on its way.
#[test]
fn b06_a_barrier_behind_the_cancel_marker_triggers_nothing() {
    let mut bench = Bench::alternating(2);
    assert_eq!(bench.cancel(B, 1), [Abort(1, Cancelled)]);
    assert_eq!(bench.ubar(A, 1), []);
    assert!(bench.ubar(A, 2).contains(&TriggerUnaligned(2)));
    assert_eq!(bench.ubar(B, 2), [Stop(2)]);

    let options = GateOptions { count_ended_channels: false, ..GateOptions::UNALIGNED };
    let mut bench: Bench = Bench::with(2, options);
    bench.ann(A, 1);
    assert_eq!(bench.eop(B), [Abort(1, Ended)]);
    assert_eq!(bench.ubar(A, 1), []);
    assert_eq!(bench.ubar(A, 2), [Start(2, [0].into()), TriggerUnaligned(2), Stop(2)]);
}

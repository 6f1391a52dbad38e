//! What the gate says of itself. The invariants of the handlers are broken next to them.

use super::*;

#[test]
#[should_panic(expected = "GI1")]
fn check_panics_at_a_channel_that_is_not_there() {
    let mut bench = Bench::new(2, true);
    bench.gate.open.insert(2);
    bench.gate.check();
}

#[test]
fn an_invariant_of_either_handler_is_one_of_the_gate() {
    for mut bench in [Bench::alternating(2), Bench::tracker(2)] {
        bench.bar(A, 1);
        assert_eq!(bench.gate.broken_invariant(), None);
        bench.gate.open.remove(1);
        assert!(bench.gate.broken_invariant().is_some());
    }
}

#[test]
fn a_gate_is_finished_when_its_last_channel_has_ended() {
    let mut bench = Bench::new(2, true);
    let finished = [A, B].map(|channel| {
        let before = bench.gate.is_finished();
        bench.eop(channel);
        before
    });
    assert_eq!((finished, bench.gate.is_finished()), ([false, false], true));
}

#[test]
fn a_channel_is_blocked_from_its_barrier_to_the_end_of_the_alignment() {
    let blocked = |bench: &Bench| [A, B].map(|channel| bench.gate.is_blocked(channel));
    let mut bench = Bench::new(2, true);
    assert_eq!(blocked(&bench), [false, false]);
    bench.bar(B, 1);
    assert_eq!(blocked(&bench), [false, true]);
    bench.bar(A, 1);
    assert_eq!(blocked(&bench), [false, false]);
    let mut bench = Bench::tracker(2);
    bench.bar(B, 1);
    assert_eq!(blocked(&bench), [false, false], "nothing is ever blocked");
}

#[test]
fn checkpoints_given_up_together_are_shown_oldest_first() {
    let mut ids = super::super::CheckpointIds::up_to(CheckpointId(5));
    ids.insert(CheckpointId(5));
    ids.insert(CheckpointId(3));
    assert_eq!(std::format!("{ids:?}"), "{CheckpointId(3), CheckpointId(5)}");
}

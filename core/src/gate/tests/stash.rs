//! Inputs that cannot be blocked.

use std::collections::VecDeque;

use super::*;
use crate::gate::{Stash, StashFull};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Item {
    Record(u32),
    Barrier(u64),
    End,
}

/// What comes from the sockets is read in this order, blocked or not; what was delivered and done in the end.
struct Socket {
    bench: Bench,
    stash: Stash<Item, 4>,
    input: VecDeque<(ChannelIndex, Item)>,
    log: Vec<std::string::String>,
}

impl Socket {
    fn new(channels: u16, count_ended_channels: bool, input: &[(ChannelIndex, Item)]) -> Self {
        let bench = Bench::new(channels, count_ended_channels);
        Self { bench, stash: Stash::new(1_000), input: input.iter().copied().collect(), log: Vec::new() }
    }

    fn run(mut self) -> (Vec<std::string::String>, usize) {
        loop {
            let gate = &self.bench.gate;
            if let Some((channel, _, item)) = self.stash.pop(|channel| gate.is_blocked(channel)) {
                self.take(channel, item);
            } else if let Some((channel, item)) = self.input.pop_front() {
                if gate.is_blocked(channel) {
                    self.stash(channel, item);
                } else {
                    self.take(channel, item);
                }
            } else {
                return (self.log, self.stash.len());
            }
        }
    }

    /// What finds no room comes again when the alignment has been given up.
    fn stash(&mut self, channel: ChannelIndex, item: Item) {
        if let Err(StashFull(item)) = self.stash.push(channel, 1, item) {
            self.input.push_front((channel, item));
            self.tell(StashOverflowed);
        }
    }

    fn take(&mut self, channel: ChannelIndex, item: Item) {
        match item {
            Rec(number) => self.log.push(std::format!("{number}")),
            Bar(id) => self.tell(BarrierArrived { channel, barrier: barrier(id) }),
            End => self.tell(EndOfPartition { channel }),
        }
    }

    fn tell(&mut self, event: GateEvent) {
        for did in self.bench.send(event) {
            match did {
                Trigger(id) => self.log.push(std::format!("trigger {id}")),
                Abort(id, reason) => self.log.push(std::format!("abort {id} {reason:?}")),
                Block(_) | Resume(_) => {}
                TriggerUnaligned(_) | Aborts(..) | Overtake(..) | Start(..) | Stop(_) | Drop(_) => {
                    panic!("{did:?}")
                }
            }
        }
    }
}

use Item::{Barrier as Bar, End, Record as Rec};

#[test]
fn l7_what_comes_from_blocked_channels_is_replayed_before_new_input() {
    let input = [(A, Bar(1)), (A, Rec(1)), (B, Rec(2)), (A, Rec(3)), (B, Bar(1)), (A, Rec(4)), (B, Rec(5))];
    let (log, left) = Socket::new(2, true, &input).run();
    assert_eq!(log, ["2", "trigger 1", "1", "3", "4", "5"]);
    assert_eq!(left, 0);
}

#[test]
fn l7_a_barrier_among_what_is_replayed_starts_the_next_alignment() {
    // B's records before its first barrier come after A's second barrier, which waits with what is behind it.
    let input = [
        (A, Bar(1)),
        (A, Rec(1)),
        (A, Bar(2)),
        (A, Rec(2)),
        (B, Rec(3)),
        (B, Bar(1)),
        (B, Rec(4)),
        (A, Rec(5)),
        (B, Bar(2)),
        (B, Rec(6)),
    ];
    let (log, left) = Socket::new(2, true, &input).run();
    assert_eq!(log, ["3", "trigger 1", "1", "4", "trigger 2", "2", "5", "6"]);
    assert_eq!(left, 0);
}

#[test]
fn l7_a_full_stash_declines_the_checkpoint_and_nothing_is_lost() {
    let mut input = std::vec![(A, Bar(1))];
    input.extend((1..=6).map(|number| (A, Rec(number))));
    input.extend([(B, Bar(1)), (B, Rec(7)), (A, Bar(2)), (B, Bar(2))]);
    let (log, left) = Socket::new(2, true, &input).run();
    let declined = "abort 1 CheckpointDeclinedAlignmentLimitExceeded";
    assert_eq!(log, [declined, "1", "2", "3", "4", "5", "6", "7", "trigger 2"]);
    assert_eq!(left, 0);
    assert_eq!(Overflowed.name(), "CHECKPOINT_DECLINED_ALIGNMENT_LIMIT_EXCEEDED");
    assert!(!Overflowed.counts() && !Overflowed.is_preflight());
}

#[test]
fn l7_an_overflow_ends_what_is_pending_and_nothing_else() {
    let mut bench = Bench::new(2, true);
    assert_eq!(bench.send(StashOverflowed), []);
    bench.bar(A, 1);
    assert_eq!(bench.send(StashOverflowed), [Abort(1, Overflowed), Resume([0].into())]);
    assert_eq!(bench.send(StashOverflowed), []);
    assert_eq!(bench.bar(B, 1), [Resume([1].into())]);
    assert_eq!([bench.bar(A, 2).len(), bench.bar(B, 2).len()], [1, 3]);
    let mut bench = Bench::alternating(2);
    bench.ubar(A, 1);
    assert_eq!(bench.send(StashOverflowed), [Drop(1), Abort(1, Overflowed)]);
    let mut bench = Bench::tracker(2);
    bench.bar(A, 1);
    assert_eq!(bench.send(StashOverflowed), []);
}

#[test]
fn l7_bytes_are_limited_as_well_as_items() {
    let mut stash = Stash::<&str, 3>::new(10);
    assert_eq!(stash.push(A, 6, "a"), Ok(()));
    assert_eq!(stash.push(B, 5, "b"), Err(StashFull("b")));
    assert_eq!(stash.push(B, u64::MAX, "b"), Err(StashFull("b")));
    assert_eq!((stash.push(B, 4, "b"), stash.push(A, 0, "c")), (Ok(()), Ok(())));
    assert_eq!(stash.push(A, 0, "d"), Err(StashFull("d")));
    assert_eq!((stash.len(), stash.bytes(), stash.is_empty()), (3, 10, false));
    assert_eq!(std::format!("{stash:?}"), "Stash { len: 3, bytes: 10, .. }");
    let full = "the stash is full: give the alignment up and take from the stash before trying again";
    assert_eq!(std::format!("{}", StashFull("d")), full);
    assert_eq!(stash.pop(|channel| channel == A), Some((B, 4, "b")));
    assert_eq!(stash.pop(|channel| channel == A), None);
    assert_eq!((stash.len(), stash.bytes()), (2, 6));
    assert_eq!(stash.push(B, 4, "e"), Ok(()));
    let rest: Vec<_> = core::iter::from_fn(|| stash.pop(|_| false)).map(|(_, _, item)| item).collect();
    assert_eq!(rest, ["a", "c", "e"]);
    assert!(stash.is_empty() && stash.bytes() == 0);
}

#[test]
fn l8_a_newer_barrier_takes_over_and_a_late_one_waits_for_nobody() {
    let input = [(A, Bar(1)), (A, Rec(1)), (B, Bar(2)), (B, Rec(2)), (A, Bar(1)), (A, Bar(2)), (A, Rec(3))];
    let (log, left) = Socket::new(2, true, &input).run();
    assert_eq!(log, ["abort 1 CheckpointDeclinedSubsumed", "1", "trigger 2", "2", "3"]);
    assert_eq!(left, 0);
}

#[test]
fn l8_channels_that_have_ended_count_or_abort() {
    let input = [(A, Bar(1)), (A, Rec(1)), (B, End), (A, End)];
    for (count, end) in [(true, "trigger 1"), (false, "abort 1 CheckpointDeclinedInputEndOfStream")] {
        let (log, left) = Socket::new(2, count, &input).run();
        assert_eq!(log, [end, "1"]);
        assert_eq!(left, 0);
    }
}

/// Every order of a few operations, against a list.
#[test]
fn l7_the_stash_is_a_list_in_which_blocked_channels_are_passed_over() {
    for script in 0..6u32.pow(7) {
        let mut stash = Stash::<u32, 3>::new(u64::MAX);
        let mut list = Vec::new();
        for step in 0..7 {
            let operation = u16::try_from(script / 6u32.pow(step) % 6).unwrap();
            if operation < 3 {
                let pushed = stash.push(ChannelIndex(operation), 1, step);
                assert_eq!(pushed.is_ok(), list.len() < 3);
                if pushed.is_ok() {
                    list.push((ChannelIndex(operation), 1, step));
                }
                continue;
            }
            let blocked = ChannelIndex(operation - 3);
            let at = list.iter().position(|(channel, ..)| *channel != blocked);
            assert_eq!(stash.pop(|channel| channel == blocked), at.map(|at| list.remove(at)));
            assert_eq!(stash.len(), list.len());
        }
    }
}

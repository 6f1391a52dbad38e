//! Gate, capture and queues together: rule U14 on random channels, and the public bugs of unaligned checkpoints.
#![cfg(not(slackwater_loom))]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "unaligned/receiver.rs"]
mod receiver;

use receiver::{Item, Receiver};
use slackwater_core::gate::GateOptions;
use slackwater_core::ids::{Alignment, Barrier, CheckpointId, SnapshotKind};
use slackwater_core::queue::{Consumer, Control, Producer, Queue};
use slackwater_core::reason::FailureReason;
use slackwater_core::time::Millis;

type Channel = Queue<Item, 128>;

/// The sending side of some channels to one receiver.
struct World<'q> {
    senders: Vec<Option<Producer<&'q Channel>>>,
    receiver: Receiver<&'q Channel>,
    /// How many records were sent on each channel, and before which barriers.
    sent: Vec<u32>,
    barriers: Vec<Vec<(u64, u32)>>,
}

fn channels(count: usize) -> Vec<Channel> {
    (0..count).map(|_| Queue::with_bound(100).unwrap()).collect()
}

impl<'q> World<'q> {
    fn new(channels: &'q [Channel], options: GateOptions) -> Self {
        let consumers = channels.iter().map(|channel| Consumer::claim(channel).unwrap()).collect();
        Self {
            senders: channels.iter().map(|channel| Some(Producer::claim(channel).unwrap())).collect(),
            receiver: Receiver::new(consumers, options),
            sent: vec![0; channels.len()],
            barriers: vec![Vec::new(); channels.len()],
        }
    }

    fn sender(&mut self, channel: usize) -> &mut Producer<&'q Channel> {
        self.senders[channel].as_mut().unwrap()
    }

    fn send(&mut self, channel: usize, records: u32) {
        for _ in 0..records {
            let record = self.sent[channel];
            self.sender(channel).try_push(Item::Record(record)).unwrap();
            self.sent[channel] += 1;
        }
    }

    /// In its place and announced, or ahead of everything.
    fn barrier(&mut self, channel: usize, barrier: Barrier) {
        let sent = self.sent[channel];
        self.barriers[channel].push((barrier.id.0, sent));
        let sender = self.sender(channel);
        let control = if barrier.alignment.is_unaligned() {
            Control { overtaking: Some((barrier, sender.position())), ..Control::default() }
        } else {
            let at = sender.push_reserved(Item::Barrier(barrier)).unwrap();
            if barrier.alignment.timeout().is_none() {
                return;
            }
            Control { announced: Some((barrier, at)), ..Control::default() }
        };
        self.sender(channel).publish(control);
    }

    fn cancel(&mut self, channel: usize, id: u64) {
        let cancelled = Some(CheckpointId(id));
        self.sender(channel).publish(Control { cancelled, ..Control::default() });
    }

    /// Takes until nothing is left.
    fn drain(&mut self) {
        while (0..self.sent.len()).filter(|index| self.receiver.visit(*index)).count() > 0 {}
    }

    /// Each cut is what was sent before its barriers, and everything sent was processed.
    fn judge(&self) {
        let all: Vec<Vec<u32>> = self.sent.iter().map(|sent| (0..*sent).collect()).collect();
        assert_eq!(self.receiver.processed, all);
        for (id, cut) in &self.receiver.cuts {
            assert!(cut.is_complete, "{id} has no end: {cut:?}");
            for (channel, barriers) in self.barriers.iter().enumerate() {
                let covered = [cut.state[channel].as_slice(), &cut.captured[channel]].concat();
                // A channel that ended without the barrier is covered to its end.
                let sent =
                    barriers.iter().find(|(of, _)| of == id).map_or(self.sent[channel], |(_, sent)| *sent);
                assert_eq!(covered, (0..sent).collect::<Vec<_>>(), "{id} on {channel}: {cut:?}");
            }
        }
    }

    fn captured(&self, id: u64) -> Vec<Vec<u32>> {
        self.receiver.cuts[&id].captured.clone()
    }
}

fn barrier(id: u64, triggered_at: u64, alignment: Alignment) -> Barrier {
    let (id, triggered_at, kind) = (CheckpointId(id), Millis(triggered_at), SnapshotKind::Checkpoint);
    Barrier { id, triggered_at, kind, alignment }
}

const AFTER_100: Alignment = Alignment::AlignedFor(Millis(100));

/// Splitmix64: equal seeds give equal runs.
struct Rng(u64);

impl Rng {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((mixed ^ (mixed >> 31)) % (limit as u64)).unwrap()
    }
}

/// What the runs of all seeds came to.
#[derive(Debug, Default)]
struct Counts {
    aligned: usize,
    unaligned: usize,
    captured: usize,
    aborted: usize,
}

/// Three channels, each of which sends records and the barriers of eight checkpoints in turn: overtaking, with a
/// time-out, or none but a cancel marker; the receiver visits them at random.
fn run(seed: u64, counts: &mut Counts) {
    let mut rng = Rng(seed);
    let count = 1 + rng.below(3);
    let queues = channels(count);
    let mut world = World::new(&queues, GateOptions::UNALIGNED);
    let mut next_id = vec![1; count];
    let mut triggered_at = [0; 10];
    for millis in 0..400 {
        let channel = rng.below(count);
        match rng.below(12) {
            0 if next_id[channel] <= 8 => {
                let id = next_id[channel];
                next_id[channel] += 1;
                // The coordinator triggers once, whenever the barrier comes to a sender.
                let at = &mut triggered_at[usize::try_from(id).unwrap()];
                *at = if *at == 0 { millis } else { *at };
                let alignment =
                    if rng.below(2) == 0 { Alignment::Unaligned } else { Alignment::AlignedFor(Millis(9)) };
                let barrier = barrier(id, *at, alignment);
                if rng.below(12) == 0 { world.cancel(channel, id) } else { world.barrier(channel, barrier) }
            }
            0..3 if world.sent[channel] < 80 => world.send(channel, 1),
            3 => world.receiver.set_time(millis),
            _ => drop(world.receiver.visit(channel)),
        }
    }
    world.senders.iter_mut().for_each(|sender| *sender = None);
    world.drain();
    assert!(world.receiver.has_ended());
    world.judge();
    let cuts = world.receiver.cuts.values();
    counts.unaligned += cuts.clone().filter(|cut| cut.is_unaligned).count();
    counts.aligned += cuts.clone().filter(|cut| !cut.is_unaligned).count();
    counts.captured += cuts.flat_map(|cut| &cut.captured).map(Vec::len).sum::<usize>();
    counts.aborted += world.receiver.aborted.len();
}

#[test]
fn u14_every_cut_of_gate_and_capture_is_whole() {
    let mut counts = Counts::default();
    for seed in 0..3_000 {
        let failed =
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| run(seed, &mut counts))).is_err();
        assert!(!failed, "run({seed}, ..) failed");
    }
    let Counts { aligned, unaligned, captured, aborted } = counts;
    assert!([aligned, unaligned, captured, aborted].iter().all(|count| *count > 500), "{counts:?}");
}

#[test]
fn bug_b01_a_time_out_that_is_over_already_turns_at_once() {
    for (now, is_over) in [(100, false), (101, true), (1_000_000_000, true)] {
        let queues = channels(2);
        let mut world = World::new(&queues, GateOptions::UNALIGNED);
        world.receiver.set_time(now);
        world.barrier(0, barrier(1, 0, AFTER_100));
        world.send(1, 2);
        world.barrier(1, barrier(1, 0, AFTER_100));
        world.receiver.visit(0);
        assert_eq!(world.receiver.cuts.contains_key(&1), is_over, "at {now}");
        if is_over {
            assert_eq!(world.captured(1), [vec![], vec![0, 1]]);
        }
        world.drain();
        world.judge();
        assert_eq!(world.receiver.cuts[&1].is_unaligned, is_over);
    }
}

#[test]
fn bug_b01_one_barrier_overtakes_where_another_was_only_announced() {
    let queues = channels(2);
    let mut world = World::new(&queues, GateOptions::UNALIGNED);
    world.send(0, 2);
    world.barrier(0, barrier(1, 0, Alignment::AlignedFor(Millis(1_000))));
    world.receiver.look(0);
    world.receiver.set_time(5);
    world.barrier(1, barrier(1, 0, Alignment::Unaligned));
    world.send(1, 1);
    world.receiver.visit(1);
    assert_eq!(world.captured(1), [vec![0, 1], vec![]]);
    assert_eq!(world.receiver.processed[1], [0], "the channel is not blocked");
    world.drain();
    world.judge();
}

#[test]
fn bug_b02_a_barrier_that_is_never_announced_starts_the_time_out() {
    let queues = channels(2);
    let mut world = World::new(&queues, GateOptions::UNALIGNED);
    world.receiver.set_time(10);
    let unannounced = Item::Barrier(barrier(1, 0, AFTER_100));
    world.sender(0).push_reserved(unannounced).unwrap();
    world.barriers[0].push((1, 0));
    world.receiver.visit(0);
    world.receiver.set_time(80);
    world.send(1, 1);
    world.barrier(1, barrier(1, 0, AFTER_100));
    world.receiver.look(1);
    let turned = (81..=200).find(|now| {
        world.receiver.set_time(*now);
        world.receiver.cuts.contains_key(&1)
    });
    assert!(turned.is_some_and(|now| (100..=110).contains(&now)), "{turned:?}");
    assert_eq!(world.captured(1), [vec![], vec![0]]);
    world.drain();
    world.judge();
}

#[test]
fn bug_b03_nothing_overtakes_on_an_edge_that_forbids_it() {
    let queues = [channels(1), channels(1)];
    for (queues, is_allowed) in queues.iter().zip([true, false]) {
        let mut world = World::new(queues, GateOptions::UNALIGNED);
        world.send(0, 50);
        let sent = barrier(1, 0, AFTER_100);
        let alignment = if is_allowed { sent.alignment } else { sent.alignment.without_overtaking() };
        world.barrier(0, Barrier { alignment, ..sent });
        world.receiver.look(0);
        world.receiver.set_time(101);
        assert_eq!(world.receiver.cuts.contains_key(&1), is_allowed);
        world.drain();
        world.judge();
        assert_eq!(world.captured(1)[0].len(), if is_allowed { 50 } else { 0 });
    }
}

#[test]
fn bug_b05_a_checkpoint_that_a_newer_one_replaces_ends_once_and_leaves_nothing() {
    let queues = channels(2);
    let mut world = World::new(&queues, GateOptions::UNALIGNED);
    world.barrier(0, barrier(1, 0, Alignment::Unaligned));
    world.receiver.visit(0);
    assert!(world.receiver.cuts.contains_key(&1));
    world.send(1, 1);
    world.receiver.visit(1);
    assert_eq!(world.captured(1)[1], [0]);
    world.barrier(0, barrier(2, 0, Alignment::Unaligned));
    world.receiver.visit(0);
    world.barrier(1, barrier(1, 0, Alignment::Unaligned));
    world.receiver.visit(1);
    world.send(1, 1);
    world.barrier(1, barrier(2, 0, Alignment::Unaligned));
    world.drain();
    world.judge();
    assert_eq!(world.captured(2), [vec![], vec![1]]);
    assert_eq!(world.receiver.cuts.len(), 1);
    assert_eq!(world.receiver.aborted, [(1, FailureReason::CheckpointDeclinedSubsumed)]);
}

//! Gate, capture and queues together: rule U14 on random channels, and the public bugs of unaligned checkpoints.
#![cfg(not(slackwater_loom))]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "unaligned/receiver.rs"]
mod receiver;
#[path = "../src/test_rng.rs"]
mod test_rng;

use receiver::{Item, Receiver};
use slackwater_core::gate::GateOptions;
use slackwater_core::ids::{Alignment, Barrier, CheckpointId, SnapshotKind};
use slackwater_core::queue::{Consumer, Control, Producer, Queue};
use slackwater_core::reason::FailureReason;
use slackwater_core::time::Millis;
use test_rng::Rng;

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

    /// A world whose senders and receiver go on from where those of `before` were at checkpoint `id`.
    fn restored(channels: &'q [Channel], before: &World<'_>, id: u64) -> Self {
        let mut world = Self::new(channels, GateOptions::UNALIGNED);
        world.receiver.restore(&before.receiver.cuts[&id]);
        world.sent = (0..channels.len()).map(|channel| before.sent_before(channel, id)).collect();
        world
    }

    /// How many records lie before barrier `id` on a channel. One that ended without it is covered to its end.
    fn sent_before(&self, channel: usize, id: u64) -> u32 {
        let barrier = self.barriers[channel].iter().find(|(of, _)| *of == id);
        barrier.map_or(self.sent[channel], |(_, sent)| *sent)
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
            for channel in 0..self.sent.len() {
                let covered = [cut.state[channel].as_slice(), &cut.captured[channel]].concat();
                let sent = self.sent_before(channel, *id);
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

/// What the runs of all seeds came to.
#[derive(Debug, Default)]
struct Counts {
    aligned: usize,
    unaligned: usize,
    captured: usize,
    aborted: usize,
    restored: usize,
}

/// Up to three channels, each of which sends records and the barriers of checkpoints `ids` in turn: overtaking, with a
/// time-out, or none but a cancel marker; the receiver visits them at random.
fn run(world: &mut World<'_>, rng: &mut Rng, ids: std::ops::Range<u64>) {
    let count = world.sent.len();
    let mut next_id = vec![ids.start; count];
    let mut triggered_at = std::collections::BTreeMap::new();
    for millis in 0..400 {
        let channel = rng.below(count);
        match rng.below(12) {
            0 if next_id[channel] < ids.end => {
                let id = next_id[channel];
                next_id[channel] += 1;
                // The coordinator triggers once, whenever the barrier comes to a sender.
                let triggered_at = *triggered_at.entry(id).or_insert(millis);
                let overtakes = rng.below(2) == 0;
                let alignment =
                    if overtakes { Alignment::Unaligned } else { Alignment::AlignedFor(Millis(9)) };
                if rng.below(12) == 0 {
                    world.cancel(channel, id);
                } else {
                    world.barrier(channel, barrier(id, triggered_at, alignment));
                }
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
}

fn run_from(seed: u64, counts: &mut Counts) {
    let mut rng = Rng(seed);
    let queues = channels(1 + rng.below(3));
    let mut world = World::new(&queues, GateOptions::UNALIGNED);
    run(&mut world, &mut rng, 1..9);
    let cuts = world.receiver.cuts.values();
    counts.unaligned += cuts.clone().filter(|cut| cut.is_unaligned).count();
    counts.aligned += cuts.clone().filter(|cut| !cut.is_unaligned).count();
    counts.captured += cuts.flat_map(|cut| &cut.captured).map(Vec::len).sum::<usize>();
    counts.aborted += world.receiver.aborted.len();
    // Back to the newest checkpoint in which something was in flight.
    let in_flight = |cut: &receiver::Cut| cut.captured.iter().any(|records| !records.is_empty());
    let Some((id, _)) = world.receiver.cuts.iter().rev().find(|(_, cut)| in_flight(cut)) else { return };
    counts.restored += 1;
    let queues = channels(queues.len());
    run(&mut World::restored(&queues, &world, *id), &mut rng, 9..13);
}

/// Each seed in turn; the counts must show that the runs were not about nothing.
fn run_all() -> Counts {
    let mut counts = Counts::default();
    for seed in 0..2_000 {
        let run = std::panic::AssertUnwindSafe(|| run_from(seed, &mut counts));
        assert!(std::panic::catch_unwind(run).is_ok(), "run_from({seed}, ..) failed");
    }
    counts
}

#[test]
fn u14_u17_every_cut_is_whole_and_a_restored_one_ends_with_every_record_once() {
    let Counts { aligned, unaligned, captured, aborted, restored } = run_all();
    let counts = [aligned, unaligned, captured, aborted, restored];
    assert!(counts.iter().all(|count| *count > 300), "{counts:?}");
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

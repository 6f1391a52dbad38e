//! Every interleaving of every small pair of channels, against a simple oracle.
//!
//! A channel is a list of items that ends with its end. The oracle holds that (1) a snapshot cuts each channel exactly
//! at its barrier, (2) a checkpoint that was seen ends exactly once - it is triggered, aborted, or dropped by the
//! cancel marker of a later one - and (3) whatever the order, every item of every channel is taken in the end.

use std::vec::Vec;

use super::{Gate, GateAction, GateEvent, GateOptions};
use crate::ids::{Alignment, Barrier, ChannelIndex, CheckpointId, SnapshotKind};
use crate::time::{Millis, Now};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Item {
    Record,
    Barrier(u64),
    Cancel(u64),
    End,
}

/// One state of the search: what has been taken from each channel and how each checkpoint ended.
#[derive(Clone)]
struct World<'a> {
    gate: Gate<1>,
    channels: [&'a [Item]; 2],
    taken: [usize; 2],
    /// Where reading has stopped, by the gate's orders.
    blocked: [bool; 2],
    started: [bool; 4],
    ended: [bool; 4],
    log: Vec<(u16, Item)>,
}

impl World<'_> {
    /// Takes the rest in every possible order; gives the number of orders.
    fn explore(&self) -> u64 {
        let choices = [0u16, 1].map(|channel| {
            let index = usize::from(channel);
            let item = self.channels[index].get(self.taken[index]).copied();
            item.filter(|_| !self.blocked[index])
        });
        let mut orders = 0;
        for (channel, item) in (0u16..).zip(choices) {
            let Some(item) = item else { continue };
            let mut next = self.clone();
            next.take(channel, item);
            orders += next.explore();
        }
        if orders == 0 {
            self.assert_all_taken();
            return 1;
        }
        orders
    }

    fn assert_all_taken(&self) {
        let left = self.channels.iter().zip(self.taken).any(|(items, taken)| taken < items.len());
        assert!(!left, "a channel stays blocked: {:?}", self.log);
        assert!(self.gate.is_finished(), "{:?}", self.log);
        let open = self.started.iter().zip(self.ended).position(|(started, ended)| *started && !ended);
        assert_eq!(open, None, "a checkpoint has no end: {:?}", self.log);
    }

    fn take(&mut self, channel: u16, item: Item) {
        self.taken[usize::from(channel)] += 1;
        self.log.push((channel, item));
        let channel = ChannelIndex(channel);
        let event = match item {
            Item::Record => return,
            Item::Barrier(id) => GateEvent::BarrierArrived { channel, barrier: barrier(id) },
            Item::Cancel(id) => GateEvent::CancelArrived { channel, checkpoint: CheckpointId(id) },
            Item::End => GateEvent::EndOfPartition { channel },
        };
        let mut out = heapless::Vec::<_, { Gate::<1>::ACTIONS_MAX }>::new();
        self.gate.on_event(Now::default(), event, &mut out).unwrap();
        self.gate.check();
        self.judge(item, &out);
    }

    fn judge(&mut self, item: Item, actions: &[GateAction<1>]) {
        for action in actions {
            match *action {
                GateAction::TriggerCheckpoint { barrier, .. } => {
                    self.assert_cut(barrier.id.0);
                    self.end(barrier.id.0);
                }
                GateAction::AbortCheckpoint { id, .. } => {
                    self.end(id.0);
                    if let Item::Cancel(_) = item {
                        self.drop_older(id.0);
                    }
                }
                GateAction::Block(channel) => {
                    let Item::Barrier(id) = item else { panic!("blocked without a barrier: {:?}", self.log) };
                    self.started[index(id)] = true;
                    self.blocked[usize::from(channel.0)] = true;
                }
                GateAction::Resume(channels) => {
                    channels.iter().for_each(|channel| self.blocked[usize::from(channel)] = false);
                }
                GateAction::Overtake { .. }
                | GateAction::StartCapture { .. }
                | GateAction::StopCapture { .. }
                | GateAction::DropCapture(_)
                | GateAction::AbortCheckpoints { .. } => panic!("a gate that only aligns orders {action:?}"),
            }
        }
        let blocked = [0, 1].map(|channel| self.gate.is_blocked(ChannelIndex(channel)));
        assert_eq!(self.blocked, blocked, "orders and state differ: {:?}", self.log);
    }

    /// The cancel marker of a later checkpoint drops those being aligned.
    fn drop_older(&mut self, id: u64) {
        let older = self.started.iter().zip(&mut self.ended).take(index(id));
        older.for_each(|(started, ended)| *ended |= *started);
    }

    fn end(&mut self, id: u64) {
        assert!(!self.ended[index(id)], "{id} ends twice: {:?}", self.log);
        self.ended[index(id)] = true;
    }

    /// Each channel was read up to its barrier of `id` and no further, or has ended.
    fn assert_cut(&self, id: u64) {
        for (items, taken) in self.channels.iter().zip(self.taken) {
            let taken = &items[..taken];
            let at_barrier = taken.last() == Some(&Item::Barrier(id));
            let ended_without = taken.last() == Some(&Item::End) && !taken.contains(&Item::Barrier(id));
            assert!(at_barrier || ended_without, "{id} cuts at {taken:?}: {:?}", self.log);
        }
    }
}

fn index(id: u64) -> usize {
    usize::try_from(id).unwrap()
}

fn barrier(id: u64) -> Barrier {
    Barrier {
        id: CheckpointId(id),
        triggered_at: Millis(0),
        kind: SnapshotKind::Checkpoint,
        alignment: Alignment::Aligned,
    }
}

/// Every channel that has a record and then, for each of `ids` in turn, nothing, a barrier and a record behind it, or a cancel marker.
fn every_channel(ids: u64) -> Vec<Vec<Item>> {
    let mut channels = std::vec![std::vec![Item::Record]];
    for id in 1..=ids {
        let choices: [&[Item]; 3] = [&[], &[Item::Barrier(id), Item::Record], &[Item::Cancel(id)]];
        channels = channels
            .iter()
            .flat_map(|items: &Vec<Item>| choices.map(|choice| [items.as_slice(), choice].concat()))
            .collect();
    }
    channels.iter_mut().for_each(|items| items.push(Item::End));
    channels
}

#[test]
fn every_order_of_two_channels_cuts_exactly_and_ends_every_checkpoint_once() {
    let channels = every_channel(3);
    let mut orders = 0;
    for count_ended_channels in [true, false] {
        for (left, right) in channels.iter().flat_map(|left| channels.iter().map(move |right| (left, right)))
        {
            let gate = Gate::new(2, GateOptions { count_ended_channels, ..GateOptions::ALIGNED }).unwrap();
            let channels = [left.as_slice(), right.as_slice()];
            let world = World {
                gate,
                channels,
                taken: [0; 2],
                blocked: [false; 2],
                started: [false; 4],
                ended: [false; 4],
                log: Vec::new(),
            };
            orders += world.explore();
        }
    }
    assert!(orders > 150_000, "{orders}");
}

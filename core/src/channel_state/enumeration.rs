//! Rule U14 in every interleaving of small channels, and in random walks through larger ones.
//!
//! Senders push records and a barrier, the receiver looks, reports and takes. The gate is a few lines here, so that
//! nothing but capture is under test. The oracle: what was processed before the snapshot and what was captured are
//! together just the records before the barrier, channel by channel and in order, and each record is processed once.

use core::fmt::{self, Write};
use std::collections::BTreeSet;
use std::collections::hash_map::DefaultHasher;
use std::format;
use std::hash::{Hash, Hasher};
use std::string::{String, ToString};
use std::vec::Vec;

use super::{ChannelState, ChannelStateAction, ChannelStateEvent};
use crate::ids::{ChannelIndex, CheckpointId};
use crate::queue::Position;
use crate::test_rng::Rng;
use crate::time::Now;

use Sent::{Announce, Barrier, Overtake, Record};

type Machine = ChannelState<3, 1>;

const ID: CheckpointId = CheckpointId(1);

/// One step of a sender. Pushing a barrier and saying where it lies are two: the receiver may come in between.
#[derive(Clone, Copy, Debug)]
enum Sent {
    Record(u8),
    Barrier,
    Announce,
    Overtake,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Item {
    Record(u8),
    Barrier,
}

#[derive(Clone, Debug, Default)]
struct Channel<'s> {
    script: &'s [Sent],
    sent: usize,
    queue: Vec<Item>,
    head: usize,
    /// Published and not looked at yet.
    announced: Option<usize>,
    overtaking: Option<usize>,
    /// Where the gate knows a barrier to lie.
    known: Option<usize>,
    has_barrier: bool,
    is_blocked: bool,
    processed: Vec<u8>,
    processed_at_snapshot: usize,
    captured: Vec<u8>,
}

/// What a caller could do wrong; the oracle must find each.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    ControlBeforeEnd,
    TakenUnreported,
    QueuesNotReported,
    MarksForgotten,
    MarksNotSought,
    StoppedEarly,
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Send(usize),
    Visit(usize),
    FinishVisit,
    TimeOut,
}

#[derive(Clone, Debug)]
struct World<'s> {
    state: Machine,
    channels: Vec<Channel<'s>>,
    fault: Option<Fault>,
    /// A channel in the middle of a visit: the end of its queue, and what the control lane has said.
    visited: Option<(usize, usize, [Option<usize>; 2])>,
    is_triggered: bool,
    is_unaligned: bool,
    is_finished: bool,
}

type Verdict = Result<(), String>;

/// Positions begin before the wrap.
fn place(index: usize) -> Position {
    Position((usize::MAX - 1).wrapping_add(index))
}

fn index_of(channel: ChannelIndex) -> usize {
    usize::from(channel.0)
}

fn channel_index(index: usize) -> ChannelIndex {
    ChannelIndex(u16::try_from(index).unwrap())
}

impl<'s> World<'s> {
    fn new(scripts: &[&'s [Sent]], fault: Option<Fault>) -> Self {
        let channel = |script: &&'s [Sent]| Channel { script, ..Channel::default() };
        Self {
            state: Machine::new(u16::try_from(scripts.len()).unwrap()).unwrap(),
            channels: scripts.iter().map(channel).collect(),
            fault,
            visited: None,
            is_triggered: false,
            is_unaligned: false,
            is_finished: false,
        }
    }

    fn steps(&self) -> Vec<Step> {
        let can_send = |index: usize| self.channels[index].sent < self.channels[index].script.len();
        if let Some((index, ..)) = self.visited {
            let send = can_send(index).then_some(Step::Send(index));
            return send.into_iter().chain([Step::FinishVisit]).collect();
        }
        let indices = 0..self.channels.len();
        let sends = indices.clone().filter(|index| can_send(*index)).map(Step::Send);
        let knows = self.channels.iter().any(|channel| channel.has_barrier || channel.known.is_some());
        let time_out = (knows && !self.is_triggered).then_some(Step::TimeOut);
        sends.chain(indices.map(Step::Visit)).chain(time_out).collect()
    }

    fn take_step(&mut self, step: Step) -> Verdict {
        match step {
            Step::Send(index) => self.send(index),
            Step::Visit(index) => {
                let control = self.fault == Some(Fault::ControlBeforeEnd);
                let control = if control { self.read_control(index) } else { [None; 2] };
                self.visited = Some((index, self.channels[index].queue.len(), control));
            }
            Step::FinishVisit => {
                let Some((index, mut end, mut control)) = self.visited.take() else { return Ok(()) };
                if self.fault == Some(Fault::ControlBeforeEnd) {
                    end = self.channels[index].queue.len();
                } else {
                    control = self.read_control(index);
                }
                self.on_control(index, control)?;
                self.report(index, end)?;
                self.take(index, end)?;
            }
            Step::TimeOut => self.turn_unaligned()?,
        }
        self.state.check();
        Ok(())
    }

    fn send(&mut self, index: usize) {
        let channel = &mut self.channels[index];
        let end = channel.queue.len();
        match channel.script[channel.sent] {
            Record(record) => channel.queue.push(Item::Record(record)),
            Barrier => channel.queue.push(Item::Barrier),
            Announce => {
                channel.announced = channel.queue.iter().position(|item| *item == Item::Barrier);
            }
            Overtake => channel.overtaking = Some(end),
        }
        channel.sent += 1;
    }

    fn read_control(&mut self, index: usize) -> [Option<usize>; 2] {
        let channel = &mut self.channels[index];
        [channel.announced.take(), channel.overtaking.take()]
    }

    fn on_control(&mut self, index: usize, [announced, overtaking]: [Option<usize>; 2]) -> Verdict {
        let channel = channel_index(index);
        if let Some(at) = announced {
            self.tell(ChannelStateEvent::BarrierAnnounced { channel, id: ID, at: place(at) })?;
            if self.is_unaligned && !self.channels[index].has_barrier {
                self.barrier_seen(index, at)?;
                self.arrive(index)?;
            } else {
                self.channels[index].known = Some(at);
            }
        }
        if let Some(at) = overtaking {
            self.barrier_seen(index, at)?;
            if !self.is_triggered {
                self.turn_unaligned()?;
            }
            self.arrive(index)?;
        }
        Ok(())
    }

    /// The snapshot at the first barrier, or when aligning takes too long.
    fn turn_unaligned(&mut self) -> Verdict {
        let late = |channel: &Channel<'_>| channel.known.filter(|_| !channel.has_barrier);
        let overtaking: Vec<_> = self.channels.iter().map(late).collect();
        for (index, at) in overtaking.iter().enumerate() {
            at.map_or(Ok(()), |at| self.barrier_seen(index, at))?;
        }
        self.is_unaligned = true;
        self.tell(ChannelStateEvent::Started(ID))?;
        self.snapshot();
        for (index, _) in overtaking.iter().enumerate().filter(|(_, at)| at.is_some()) {
            self.arrive(index)?;
        }
        self.stop_if_complete()
    }

    fn snapshot(&mut self) {
        self.is_triggered = true;
        for channel in &mut self.channels {
            channel.processed_at_snapshot = channel.processed.len();
        }
    }

    fn barrier_seen(&mut self, index: usize, at: usize) -> Verdict {
        let channel = channel_index(index);
        self.tell(ChannelStateEvent::BarrierSeen { channel, id: ID, at: place(at) })
    }

    fn arrive(&mut self, index: usize) -> Verdict {
        self.channels[index].has_barrier = true;
        self.stop_if_complete()
    }

    fn stop_if_complete(&mut self) -> Verdict {
        let all = self.channels.iter().all(|channel| channel.has_barrier);
        if !self.is_unaligned || self.is_finished || !all && self.fault != Some(Fault::StoppedEarly) {
            return Ok(());
        }
        self.release();
        self.tell(ChannelStateEvent::Stopped(ID))
    }

    fn release(&mut self) {
        self.channels.iter_mut().for_each(|channel| channel.is_blocked = false);
    }

    fn report(&mut self, index: usize, end: usize) -> Verdict {
        let is_capturing = self.state.is_capturing(channel_index(index));
        if !is_capturing || self.fault == Some(Fault::TakenUnreported) && self.is_unaligned {
            return Ok(());
        }
        self.seek_barrier(index, end)?;
        let (first, end) = (place(self.channels[index].head), place(end));
        self.tell(ChannelStateEvent::QueueSeen { channel: channel_index(index), first, end })
    }

    /// Not every sender announces its barriers.
    fn seek_barrier(&mut self, index: usize, end: usize) -> Verdict {
        let channel = channel_index(index);
        let head = self.channels[index].head;
        let mut waiting = self.channels[index].queue[..end].iter().enumerate().skip(head);
        match waiting.find(|(_, item)| **item == Item::Barrier) {
            Some((at, _)) if self.fault != Some(Fault::MarksNotSought) => {
                self.tell(ChannelStateEvent::BarrierAnnounced { channel, id: ID, at: place(at) })
            }
            _ => Ok(()),
        }
    }

    fn take(&mut self, index: usize, end: usize) -> Verdict {
        let channel = &mut self.channels[index];
        if channel.is_blocked || channel.head >= end {
            return Ok(());
        }
        let at = channel.head;
        channel.head += 1;
        match channel.queue[at] {
            Item::Record(record) => {
                channel.processed.push(record);
                Ok(())
            }
            Item::Barrier => self.on_barrier(index, at),
        }
    }

    /// A barrier that was taken from its place.
    fn on_barrier(&mut self, index: usize, at: usize) -> Verdict {
        if self.fault != Some(Fault::MarksForgotten) {
            self.barrier_seen(index, at)?;
        }
        if self.is_triggered {
            return self.arrive(index);
        }
        self.channels[index].has_barrier = true;
        self.channels[index].is_blocked = true;
        if self.channels.iter().all(|channel| channel.has_barrier) {
            self.snapshot();
            self.is_finished = true;
            self.release();
        }
        Ok(())
    }

    fn tell(&mut self, event: ChannelStateEvent) -> Verdict {
        let mut out = heapless::Vec::<_, { Machine::ACTIONS_MAX }>::new();
        self.state.on_event(Now::default(), event, &mut out).map_err(|rejected| rejected.to_string())?;
        for action in out {
            match action {
                ChannelStateAction::ReportQueues(_) => self.report_all()?,
                ChannelStateAction::Capture { channel, from, until, .. } => {
                    self.capture(index_of(channel), from, until);
                }
                ChannelStateAction::Finish(_) => self.is_finished = true,
                ChannelStateAction::Discard(_)
                | ChannelStateAction::Decline { .. }
                | ChannelStateAction::Run => {
                    return Err(format!("{action:?} was not expected"));
                }
            }
        }
        Ok(())
    }

    fn report_all(&mut self) -> Verdict {
        if self.fault == Some(Fault::QueuesNotReported) {
            return Ok(());
        }
        for index in 0..self.channels.len() {
            let end = self.channels[index].queue.len();
            let control = self.read_control(index);
            // The gate is in the middle of an event, so it hears of these after it.
            let channel = channel_index(index);
            if let Some(at) = control[0] {
                self.tell(ChannelStateEvent::BarrierAnnounced { channel, id: ID, at: place(at) })?;
            }
            if let Some(at) = control[1] {
                self.barrier_seen(index, at)?;
            }
            self.channels[index].announced = control[0];
            self.channels[index].overtaking = control[1];
            self.report(index, end)?;
        }
        Ok(())
    }

    fn capture(&mut self, index: usize, from: Position, until: Position) {
        let channel = &mut self.channels[index];
        let places = from.since(place(0))..until.since(place(0));
        let records = channel.queue[places].iter();
        channel.captured.extend(records.filter_map(|item| match item {
            Item::Record(record) => Some(record),
            Item::Barrier => None,
        }));
    }

    fn is_over(&self) -> bool {
        self.visited.is_none()
            && self.channels.iter().all(|channel| {
                channel.sent == channel.script.len()
                    && channel.head == channel.queue.len()
                    && channel.announced.or(channel.overtaking).is_none()
            })
    }

    fn judge(&self) -> Verdict {
        for channel in &self.channels {
            let is_barrier = |send: &&Sent| !matches!(send, Barrier | Overtake);
            let record = |send: &Sent| if let Record(record) = send { Some(*record) } else { None };
            let before: Vec<_> = channel.script.iter().take_while(is_barrier).filter_map(record).collect();
            let all: Vec<_> = channel.script.iter().filter_map(record).collect();
            let of_state = &channel.processed[..channel.processed_at_snapshot];
            let covered = [of_state, channel.captured.as_slice()].concat();
            if !self.is_finished || covered != before || channel.processed != all {
                return Err(format!("state {of_state:?}, captured {:?} of {before:?}", channel.captured));
            }
        }
        Ok(())
    }

    /// All that may differ between two worlds of the same scripts.
    fn fingerprint(&self) -> u64 {
        let mut hashed = Hashed::default();
        write!(hashed, "{:?}{:?}", self.state, self.visited).unwrap();
        [self.is_triggered, self.is_unaligned, self.is_finished].hash(&mut hashed.0);
        for channel in &self.channels {
            let Channel { sent, head, announced, overtaking, known, has_barrier, is_blocked, .. } = channel;
            (sent, head, announced, overtaking, known, has_barrier, is_blocked).hash(&mut hashed.0);
            (&channel.processed, channel.processed_at_snapshot, &channel.captured).hash(&mut hashed.0);
        }
        hashed.0.finish()
    }

    /// Goes on in every way that was not gone before.
    fn explore(&self, me: u64, known: &mut BTreeSet<u64>, found: &mut Found) -> Verdict {
        if !known.insert(me) {
            return Ok(());
        }
        found.states += 1;
        if self.is_over() {
            found.cuts += 1;
            found.captures += u64::from(self.channels.iter().any(|channel| !channel.captured.is_empty()));
            return self.judge();
        }
        let mut moves = false;
        for step in self.steps() {
            let mut next = self.clone();
            next.take_step(step)?;
            let fingerprint = next.fingerprint();
            moves |= fingerprint != me;
            next.explore(fingerprint, known, found)?;
        }
        if moves { Ok(()) } else { Err(format!("stuck: {self:?}")) }
    }
}

/// Hashes what is written, so that a machine can be told from another by what it shows of itself.
#[derive(Default)]
struct Hashed(DefaultHasher);

impl Write for Hashed {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.write(text.as_bytes());
        Ok(())
    }
}

#[derive(Debug, Default)]
struct Found {
    states: u64,
    cuts: u64,
    captures: u64,
}

/// Records, a barrier in one of three ways, and a record behind it. A barrier that stays in its place may be announced
/// late or never.
const SCRIPTS: [&[Sent]; 7] = [
    &[Overtake, Record(1)],
    &[Barrier, Announce, Record(1)],
    &[Record(1), Overtake, Record(2)],
    &[Record(1), Barrier, Announce, Record(2)],
    &[Record(1), Barrier, Record(2)],
    &[Record(1), Record(2), Overtake, Record(3)],
    &[Record(1), Record(2), Barrier, Record(3), Announce],
];

fn explore_all(fault: Option<Fault>) -> Result<Found, String> {
    let mut found = Found::default();
    for (number, left) in SCRIPTS.iter().enumerate() {
        for right in &SCRIPTS[number..] {
            let world = World::new(&[left, right], fault);
            world.explore(world.fingerprint(), &mut BTreeSet::new(), &mut found)?;
        }
    }
    Ok(found)
}

#[test]
fn u14_each_record_is_in_the_state_or_captured_or_behind_the_barrier_in_every_interleaving() {
    let found = explore_all(None).unwrap();
    assert!(found.states > 80_000 && found.cuts > 200 && found.captures > 100, "{found:?}");
}

#[test]
fn u14_what_a_caller_could_do_wrong_is_found() {
    for fault in [
        Fault::ControlBeforeEnd,
        Fault::TakenUnreported,
        Fault::QueuesNotReported,
        Fault::MarksForgotten,
        Fault::MarksNotSought,
        Fault::StoppedEarly,
    ] {
        assert!(explore_all(Some(fault)).is_err(), "{fault:?} went unnoticed");
    }
}

/// Up to six records before the barrier and three behind it.
fn script(rng: &mut Rng) -> Vec<Sent> {
    let before = rng.below(7);
    let records =
        |from: usize, count| (from..from + count).map(|record| Record(u8::try_from(record).unwrap()));
    let mut script: Vec<_> = records(0, before).collect();
    let way: &[&[Sent]] = &[&[Overtake], &[Barrier], &[Barrier, Announce]];
    script.extend_from_slice(way[rng.below(3)]);
    script.extend(records(before, rng.below(4)));
    script
}

/// How it went: whether a barrier overtook, and how many records were captured.
fn walk(seed: u64, fault: Option<Fault>) -> Result<(bool, usize), String> {
    let mut rng = Rng(seed);
    let scripts: Vec<_> = (0..1 + rng.below(3)).map(|_| script(&mut rng)).collect();
    let scripts: Vec<&[Sent]> = scripts.iter().map(Vec::as_slice).collect();
    let mut world = World::new(&scripts, fault);
    while !world.is_over() {
        let steps = world.steps();
        world.take_step(steps[rng.below(steps.len())])?;
    }
    world.judge()?;
    Ok((world.is_unaligned, world.channels.iter().map(|channel| channel.captured.len()).sum()))
}

#[test]
fn u14_holds_on_random_walks_through_three_channels() {
    let (mut unaligned, mut captured) = (0, 0);
    for seed in 0..2_000 {
        let (is_unaligned, count) =
            walk(seed, None).unwrap_or_else(|error| panic!("walk({seed}, None): {error}"));
        unaligned += usize::from(is_unaligned);
        captured += count;
    }
    assert!(unaligned > 500 && captured > 500, "{unaligned} unaligned, {captured} records captured");
    assert!((0..2_000).any(|seed| walk(seed, Some(Fault::ControlBeforeEnd)).is_err()), "nothing is found");
}

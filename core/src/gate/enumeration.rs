//! Every order of events of every small set of channels, for each handler, against a simple oracle.
//!
//! A channel is a list of items that ends with its end; they are taken in order unless the channel is blocked. Beside
//! that, barriers are announced and overtake, time passes, a stash overflows, and the coordinator injects a barrier
//! when nothing but ends is left, each at any moment at which it can. The oracle knows nothing of states. It holds that
//! (1) exactly-once, what a checkpoint covers of each channel ends at the barrier: nothing from behind it was taken
//! before the snapshot, and what was not taken yet is captured; at-least-once, every barrier was passed;
//! (2) a checkpoint that was begun ends exactly once - it is whole, aborted, or dropped because of a later one - and
//! checkpoints are triggered in the order of their ids;
//! (3) every item is taken in the end: no channel is blocked for ever, and no record is taken twice or lost.
//!
//! `SLACKWATER_ENUMERATION=large` takes longer channels. The number of orders is printed.

use std::vec::Vec;

use super::{ChannelSet, Gate, GateAction, GateEvent, GateOptions};
use crate::ids::{Alignment, Barrier, ChannelIndex, CheckpointId, Guarantee, SnapshotKind};
use crate::time::{Millis, Now};

const TIMEOUT: u64 = 10;
/// Barriers are not late, and late.
const YOUNG: Now = Now { monotonic: Millis(5), wall: Millis(5) };
const OLD: Now = Now { monotonic: Millis(20), wall: Millis(20) };
/// One more than the newest id.
const IDS: usize = 5;
/// The checkpoint that the coordinator injects.
const INJECTED: u8 = 4;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Item {
    Record,
    Barrier(u8),
    Cancel(u8),
    End,
}

/// What happens next; channels by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Take(usize),
    Announce(usize),
    Overtake(usize),
    Age,
    Deadline,
    Inject,
    Overflow,
}

/// A set of numbers below 8.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Few(u8);

impl Few {
    const fn has(self, number: u8) -> bool {
        self.0 >> number & 1 != 0
    }

    const fn add(&mut self, number: u8) {
        self.0 |= 1 << number;
    }
}

/// What does not change on the way.
#[derive(Debug)]
struct Setting<'a> {
    options: GateOptions,
    /// How the barriers of each channel pass records.
    forms: &'a [Alignment],
    streams: &'a [&'a [Item]],
    extras: Extras,
}

/// What may happen beside that.
#[derive(Clone, Copy, Debug)]
struct Extras {
    /// The stash overflows once.
    overflow: bool,
    /// The coordinator injects a barrier.
    injection: bool,
    /// The deadline is seen late, and called barriers take their time.
    delay: bool,
}

/// One state of the search: what was done, what came of it.
#[derive(Clone)]
struct World<'a> {
    setting: &'a Setting<'a>,
    gate: Gate<1, 4>,
    taken: [u8; 3],
    /// By channel, checkpoints whose barrier was announced, called, taken ahead of its place.
    announced: [Few; 3],
    called: [Few; 3],
    ahead: [Few; 3],
    /// Channels from which nothing may be taken, by the gate's orders.
    blocked: Few,
    is_old: bool,
    has_overflowed: bool,
    has_injected: bool,
    started: Few,
    ended: Few,
    /// Unaligned, by checkpoint: how many items of each channel were taken before the snapshot, and which channels
    /// are captured.
    cuts: [Option<([u8; 3], Few)>; IDS],
    newest_triggered: u8,
    log: heapless::Vec<Step, 64>,
}

impl<'a> World<'a> {
    fn new(setting: &'a Setting<'a>) -> Self {
        let channels = u16::try_from(setting.streams.len()).unwrap();
        Self {
            setting,
            gate: Gate::new(channels, setting.options).unwrap(),
            taken: [0; 3],
            announced: [Few::default(); 3],
            called: [Few::default(); 3],
            ahead: [Few::default(); 3],
            blocked: Few::default(),
            is_old: false,
            has_overflowed: false,
            has_injected: false,
            started: Few::default(),
            ended: Few::default(),
            cuts: [None; IDS],
            newest_triggered: 0,
            log: heapless::Vec::new(),
        }
    }

    fn rest(&self, channel: usize) -> &'a [Item] {
        &self.setting.streams[channel][usize::from(self.taken[channel])..]
    }

    fn channels(&self) -> core::ops::Range<usize> {
        0..self.setting.streams.len()
    }

    fn now(&self) -> Now {
        if self.is_old { OLD } else { YOUNG }
    }

    /// Goes on in every possible order; gives the number of orders.
    fn explore(&self) -> u64 {
        if self.channels().all(|channel| self.rest(channel).is_empty()) {
            self.assert_over();
            return 1;
        }
        let steps = self.steps();
        self.claim(steps.iter().any(|step| matches!(step, Step::Take(_))), "a channel is blocked for ever");
        let mut orders = 0;
        for step in steps {
            let mut next = self.clone();
            next.go(step);
            orders += next.explore();
        }
        orders
    }

    fn steps(&self) -> heapless::Vec<Step, 13> {
        let mut steps = heapless::Vec::new();
        let mut can = |is_possible: bool, step| {
            if is_possible {
                steps.push(step).unwrap();
            }
        };
        for channel in self.channels() {
            let is_blocked = self.blocked.has(u8::try_from(channel).unwrap());
            can(!is_blocked && !self.rest(channel).is_empty(), Step::Take(channel));
            let Some(id) = self.next_barrier(channel).filter(|_| self.setting.options.unaligned) else {
                continue;
            };
            let is_timed = self.setting.forms[channel].timeout().is_some();
            can(is_timed && !self.announced[channel].has(id), Step::Announce(channel));
            let overtakes = self.setting.forms[channel].is_unaligned() || self.called[channel].has(id);
            can(overtakes, Step::Overtake(channel));
        }
        let is_timed = self.setting.forms.iter().any(|form| form.timeout().is_some());
        can(is_timed && !self.is_old, Step::Age);
        let Extras { overflow, injection, delay } = self.setting.extras;
        can(delay && self.is_due(), Step::Deadline);
        can(injection && !self.has_injected && self.has_only_ends(), Step::Inject);
        can(overflow && !self.has_overflowed && self.blocked.0 != 0, Step::Overflow);
        steps
    }

    fn is_due(&self) -> bool {
        self.gate.next_deadline(self.now()).is_some_and(|deadline| deadline <= self.now().monotonic)
    }

    /// The next barrier that lies behind something else and was not taken ahead of its place.
    fn next_barrier(&self, channel: usize) -> Option<u8> {
        let mut barriers = self.rest(channel).iter().enumerate().filter_map(|(place, item)| match item {
            Item::Barrier(id) if !self.ahead[channel].has(*id) => Some((place, *id)),
            Item::Barrier(_) | Item::Record | Item::Cancel(_) | Item::End => None,
        });
        barriers.next().filter(|(place, _)| *place > 0).map(|(_, id)| id)
    }

    /// Every predecessor has finished, and not everything is known here.
    fn has_only_ends(&self) -> bool {
        self.channels().all(|channel| matches!(self.rest(channel), [] | [Item::End]))
    }

    fn go(&mut self, step: Step) {
        self.log.push(step).unwrap();
        match step {
            Step::Take(channel) => self.take(channel),
            Step::Announce(channel) => {
                let id = self.next_barrier(channel).unwrap();
                self.announced[channel].add(id);
                let barrier = barrier(id, self.setting.forms[channel]);
                self.tell(GateEvent::BarrierAnnounced { channel: index(channel), barrier });
            }
            Step::Overtake(channel) => self.overtake(channel),
            Step::Age => self.is_old = true,
            Step::Deadline => self.tell(GateEvent::DeadlineReached),
            Step::Inject => {
                self.has_injected = true;
                self.tell(GateEvent::BarrierInjected(barrier(INJECTED, self.setting.forms[0])));
            }
            Step::Overflow => {
                self.has_overflowed = true;
                self.tell(GateEvent::StashOverflowed);
                self.claim(self.blocked == Few::default(), "a full stash is not emptied");
            }
        }
        if !self.setting.extras.delay {
            if self.is_due() {
                self.tell(GateEvent::DeadlineReached);
            }
            let is_called =
                |channel: &usize| self.next_barrier(*channel).is_some_and(|id| self.called[*channel].has(id));
            let called: heapless::Vec<usize, 3> = self.channels().filter(is_called).collect();
            called.into_iter().for_each(|channel| self.overtake(channel));
        }
    }

    fn overtake(&mut self, channel: usize) {
        let id = self.next_barrier(channel).unwrap();
        self.ahead[channel].add(id);
        let barrier = barrier(id, Alignment::Unaligned);
        self.tell(GateEvent::BarrierArrived { channel: index(channel), barrier });
    }

    fn take(&mut self, number: usize) {
        let item = self.rest(number)[0];
        self.taken[number] += 1;
        let channel = index(number);
        match item {
            Item::Record => {}
            Item::Barrier(id) if self.ahead[number].has(id) => {}
            Item::Barrier(id) => {
                let is_called = self.called[number].has(id);
                let form = if is_called { Alignment::Unaligned } else { self.setting.forms[number] };
                self.tell(GateEvent::BarrierArrived { channel, barrier: barrier(id, form) });
            }
            Item::Cancel(id) => {
                self.tell(GateEvent::CancelArrived { channel, checkpoint: CheckpointId(id.into()) });
            }
            Item::End => self.tell(GateEvent::EndOfPartition { channel }),
        }
    }

    fn tell(&mut self, event: GateEvent) {
        let mut out = heapless::Vec::<_, { Gate::<1>::ACTIONS_MAX }>::new();
        let told = self.gate.on_event(self.now(), event, &mut out);
        self.claim(told.is_ok(), "an event is refused");
        for action in out {
            self.judge(event, action);
        }
        let blocked = self.channels().filter(|channel| self.gate.is_blocked(index(*channel)));
        let blocked = blocked.fold(0, |set, channel| set | 1 << channel);
        self.claim(self.blocked == Few(blocked), "orders and state differ");
        if let (true, Some(current)) = (self.gate.is_aligning(), self.gate.current()) {
            self.started.add(small(current));
        }
    }

    fn judge(&mut self, event: GateEvent, action: GateAction<1>) {
        match action {
            GateAction::Block(channel) => self.blocked.add(u8::try_from(channel.0).unwrap()),
            GateAction::Resume(channels) => self.blocked.0 &= !few(&channels).0,
            GateAction::Overtake { id, channels } => {
                for channel in channels.iter().map(usize::from) {
                    let is_there =
                        self.announced[channel].has(small(id)) && !self.ahead[channel].has(small(id));
                    self.claim(is_there, "a barrier is called that is not announced or has come");
                    self.called[channel].add(small(id));
                }
            }
            GateAction::StartCapture { id, channels } => {
                let has_no_blocked = few(&channels).0 & self.blocked.0 == 0;
                self.claim(has_no_blocked, "what lies behind a barrier is captured");
                self.cuts[usize::from(small(id))] = Some((self.taken, few(&channels)));
            }
            GateAction::TriggerCheckpoint { barrier, .. } => self.on_trigger(barrier),
            GateAction::StopCapture { id, .. } => {
                self.assert_whole(small(id));
                self.end(small(id));
            }
            GateAction::DropCapture(id) => {
                let is_captured = self.cuts[usize::from(small(id))].take().is_some();
                self.claim(is_captured && !self.ended.has(small(id)), "nothing of it was captured");
            }
            GateAction::AbortCheckpoint { id, .. } => {
                self.end(small(id));
                if matches!(event, GateEvent::CancelArrived { .. }) {
                    self.drop_older(small(id));
                }
            }
            GateAction::AbortCheckpoints { ids, .. } => ids.iter().for_each(|id| self.end(small(id))),
        }
    }

    fn on_trigger(&mut self, barrier: Barrier) {
        let id = small(barrier.id);
        self.claim(id > self.newest_triggered, "triggered behind a newer one");
        self.claim(!self.ended.has(id), "triggered after its end");
        self.newest_triggered = id;
        if barrier.alignment.is_unaligned() {
            return self.claim(self.cuts[usize::from(id)].is_some(), "nothing is captured");
        }
        self.assert_passed(id);
        self.end(id);
        if !self.is_exactly_once() {
            self.drop_older(id);
        }
    }

    fn is_exactly_once(&self) -> bool {
        self.setting.options.guarantee == Guarantee::ExactlyOnce
    }

    /// Where the barrier of `id` lies in a channel.
    fn place(&self, channel: usize, id: u8) -> Option<u8> {
        let place = self.setting.streams[channel].iter().position(|item| *item == Item::Barrier(id));
        place.map(|place| u8::try_from(place).unwrap())
    }

    /// Each channel was read up to its barrier of `id` and, for exactly-once, no further, or has ended.
    fn assert_passed(&self, id: u8) {
        for channel in self.channels() {
            let passed = match self.place(channel, id) {
                Some(place) if self.is_exactly_once() => self.taken[channel] == place + 1,
                Some(place) => self.taken[channel] > place,
                None => self.rest(channel).is_empty() || id == INJECTED,
            };
            self.claim(passed, "an aligned checkpoint is not cut at the barriers");
        }
    }

    /// Each barrier has come; what lies before it was taken before the snapshot or is captured, and what lies behind it
    /// was not taken.
    fn assert_whole(&self, id: u8) {
        let Some((cut, captured)) = self.cuts[usize::from(id)] else {
            return self.claim(false, "nothing was captured of it");
        };
        for channel in self.channels() {
            let end = match self.place(channel, id) {
                Some(place) => {
                    let has_come = self.ahead[channel].has(id) || self.taken[channel] > place;
                    self.claim(has_come, "a barrier is missing");
                    self.claim(cut[channel] <= place + 1, "a record behind the barrier is in the snapshot");
                    place
                }
                None => {
                    self.claim(self.rest(channel).is_empty() || id == INJECTED, "a channel has not ended");
                    u8::try_from(self.setting.streams[channel].len() - 1).unwrap()
                }
            };
            let is_captured = captured.has(u8::try_from(channel).unwrap());
            self.claim(cut[channel] >= end || is_captured, "records in flight are lost");
        }
    }

    fn end(&mut self, id: u8) {
        self.claim(!self.ended.has(id), "a checkpoint ends twice");
        self.ended.add(id);
    }

    /// A later checkpoint ends those begun before it.
    fn drop_older(&mut self, id: u8) {
        for older in (0..id).filter(|older| self.started.has(*older)) {
            self.claim(
                self.ended.has(older) || self.cuts[usize::from(older)].is_none(),
                "a capture is not dropped",
            );
            self.ended.add(older);
        }
    }

    fn assert_over(&self) {
        self.claim(self.gate.is_finished() && !self.gate.is_aligning(), "something is pending in the end");
        self.claim(self.started.0 & !self.ended.0 == 0, "a checkpoint has no end");
        self.claim(self.gate.next_deadline(self.now()).is_none(), "there is a deadline in the end");
    }

    fn claim(&self, holds: bool, what: &str) {
        assert!(holds, "{what}: {:?} {:?}", self.setting, self.log);
    }
}

fn index(channel: usize) -> ChannelIndex {
    ChannelIndex(u16::try_from(channel).unwrap())
}

fn small(id: CheckpointId) -> u8 {
    u8::try_from(id.0).unwrap()
}

fn few(channels: &ChannelSet<1>) -> Few {
    let mut set = Few::default();
    channels.iter().for_each(|channel| set.add(u8::try_from(channel).unwrap()));
    set
}

fn barrier(id: u8, alignment: Alignment) -> Barrier {
    let (id, kind) = (CheckpointId(id.into()), SnapshotKind::Checkpoint);
    Barrier { id, triggered_at: Millis(0), kind, alignment }
}

/// Every channel that has a record and then, for each of `ids` in turn, nothing, a barrier with a record behind it, or a
/// cancel marker. In short ones the next item is all that lies behind a barrier.
fn every_stream(ids: u8, is_short: bool) -> Vec<Vec<Item>> {
    let mut streams = std::vec![std::vec![Item::Record]];
    for id in 1..=ids {
        let barrier = [Item::Barrier(id), Item::Record];
        let choices: [&[Item]; 3] =
            [&[], if is_short { &barrier[..1] } else { &barrier }, &[Item::Cancel(id)]];
        streams = streams
            .iter()
            .flat_map(|items: &Vec<Item>| choices.map(|choice| [items.as_slice(), choice].concat()))
            .collect();
    }
    streams.iter_mut().for_each(|items| items.push(Item::End));
    streams
}

/// Every choice of one of `options` for each of `count` places.
fn every_choice<T: Copy>(options: &[T], count: usize) -> Vec<Vec<T>> {
    (0..count).fold(std::vec![Vec::new()], |choices, _| {
        let longer = |choice: &Vec<T>| {
            let choice = choice.clone();
            options.iter().map(move |option| choice.iter().copied().chain([*option]).collect())
        };
        choices.iter().flat_map(longer).collect()
    })
}

/// What one exploration goes through, with ended channels counted and not.
#[derive(Clone, Copy, Debug)]
struct Case {
    options: GateOptions,
    /// Barriers of each channel have any of these forms.
    forms: &'static [Alignment],
    channels: usize,
    /// Checkpoints of which each channel has a barrier, a cancel marker or nothing.
    ids: u8,
    is_short: bool,
    extras: Extras,
}

impl Case {
    /// Gives the number of orders.
    fn explore(&self) -> u64 {
        let streams = every_stream(self.ids, self.is_short);
        let streams: Vec<&[Item]> = streams.iter().map(Vec::as_slice).collect();
        let mut orders = 0;
        for forms in every_choice(self.forms, self.channels) {
            for streams in every_choice(&streams, self.channels) {
                for count_ended_channels in [true, false] {
                    let options = GateOptions { count_ended_channels, ..self.options };
                    let (forms, streams, extras) = (&forms, &streams, self.extras);
                    let setting = Setting { options, forms, streams, extras };
                    orders += World::new(&setting).explore();
                }
            }
        }
        std::println!("{orders} orders: {self:?}");
        orders
    }
}

const TIMED: Alignment = Alignment::AlignedFor(Millis(TIMEOUT));

const EXTRAS: Extras = Extras { overflow: false, injection: true, delay: true };
const OVERFLOW: Extras = Extras { overflow: true, ..EXTRAS };
const NONE: Extras = Extras { overflow: false, injection: false, delay: false };

const ALIGNED: Case = Case {
    options: GateOptions::ALIGNED,
    forms: &[Alignment::Aligned],
    channels: 2,
    ids: 3,
    is_short: false,
    extras: EXTRAS,
};
const TRACKED: Case =
    Case { options: GateOptions::AT_LEAST_ONCE, forms: &[Alignment::AtLeastOnce], ..ALIGNED };
const UNALIGNED: Case =
    Case { options: GateOptions::UNALIGNED, forms: &[Alignment::Unaligned], ids: 2, ..ALIGNED };
const ALTERNATING: Case = Case { forms: &[TIMED, Alignment::Unaligned], ..UNALIGNED };

/// Explores `cases`, and `larger` if asked to; at least so many orders without the latter.
fn explore_all(cases: &[Case], larger: &[Case], orders_min: u64) {
    let orders: u64 = cases.iter().map(Case::explore).sum();
    std::println!("{orders} orders in all");
    assert!(orders >= orders_min, "{orders}");
    if std::env::var("SLACKWATER_ENUMERATION").is_ok_and(|size| size == "large") {
        larger.iter().for_each(|case| {
            case.explore();
        });
    }
}

#[test]
fn every_order_of_aligned_channels_keeps_to_the_oracle() {
    let cases = [
        ALIGNED,
        Case { ids: 2, extras: OVERFLOW, ..ALIGNED },
        Case { channels: 3, ids: 1, extras: OVERFLOW, ..ALIGNED },
    ];
    let larger = [Case { channels: 3, ids: 2, is_short: true, ..ALIGNED }];
    explore_all(&cases, &larger, 1_700_000);
}

#[test]
fn every_order_of_tracked_channels_keeps_to_the_oracle() {
    let cases = [Case { ids: 2, ..TRACKED }, Case { channels: 3, ids: 1, ..TRACKED }];
    let larger = [TRACKED, Case { channels: 3, ids: 2, is_short: true, ..TRACKED }];
    explore_all(&cases, &larger, 600_000);
}

#[test]
fn every_order_of_unaligned_channels_keeps_to_the_oracle() {
    let cases = [UNALIGNED, Case { channels: 3, ids: 1, is_short: true, ..UNALIGNED }];
    let larger = [Case { channels: 3, ids: 1, ..UNALIGNED }];
    explore_all(&cases, &larger, 3_300_000);
}

#[test]
fn every_order_of_alternating_channels_keeps_to_the_oracle() {
    let short = Case { is_short: true, ..ALTERNATING };
    let of_three = Case { channels: 3, ids: 1, extras: NONE, ..short };
    let cases = [
        Case { ids: 1, extras: OVERFLOW, ..ALTERNATING },
        Case { forms: &[TIMED], ..of_three },
        Case { forms: &[TIMED], extras: NONE, ..short },
    ];
    explore_all(&cases, &[short, of_three], 4_000_000);
}

//! A receiver of records: a gate, the capture and the queues, put together as a subtask would.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::{BTreeMap, VecDeque};

use slackwater_core::channel_state::{ChannelState, ChannelStateAction, ChannelStateEvent};
use slackwater_core::gate::{Gate, GateAction, GateEvent, GateOptions};
use slackwater_core::ids::{Barrier, ChannelIndex, CheckpointId};
use slackwater_core::queue::{Consumer, Control, Position, Queue, Share};
use slackwater_core::reason::FailureReason;
use slackwater_core::time::{Millis, Now};

type Capture = ChannelState<4, 1>;

/// What the channels carry.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Item {
    Record(u32),
    Barrier(Barrier),
}

/// What a checkpoint covers, channel by channel.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cut {
    pub(crate) state: Vec<Vec<u32>>,
    pub(crate) captured: Vec<Vec<u32>>,
    /// Whether records before barriers were captured.
    pub(crate) is_unaligned: bool,
    pub(crate) is_complete: bool,
}

struct Input<Q: Share> {
    consumer: Consumer<Q>,
    /// Where a barrier lies that could be called ahead.
    announced: Option<(Barrier, Position)>,
    /// The one that was called ahead, so that it means nothing when it is taken from its place.
    called: Option<CheckpointId>,
    is_blocked: bool,
    has_ended: bool,
    /// What was in flight when the restored checkpoint was taken.
    recovered: VecDeque<u32>,
}

pub(crate) struct Receiver<Q: Share> {
    gate: Gate<1>,
    state: Capture,
    inputs: Vec<Input<Q>>,
    /// What the gate is told when it has been obeyed in what it ordered before.
    news: VecDeque<GateEvent>,
    capturing: Option<CheckpointId>,
    pub(crate) now: Now,
    pub(crate) processed: Vec<Vec<u32>>,
    pub(crate) cuts: BTreeMap<u64, Cut>,
    pub(crate) aborted: Vec<(u64, FailureReason)>,
}

fn index_of(channel: ChannelIndex) -> usize {
    usize::from(channel.0)
}

impl<const SLOTS: usize, Q: Share<Target = Queue<Item, SLOTS>>> Receiver<Q> {
    pub(crate) fn new(consumers: Vec<Consumer<Q>>, options: GateOptions) -> Self {
        let count = u16::try_from(consumers.len()).unwrap();
        let input = |consumer| Input {
            consumer,
            announced: None,
            called: None,
            is_blocked: false,
            has_ended: false,
            recovered: VecDeque::new(),
        };
        Self {
            gate: Gate::new(count, options).unwrap(),
            state: Capture::new(count).unwrap(),
            processed: vec![Vec::new(); consumers.len()],
            inputs: consumers.into_iter().map(input).collect(),
            news: VecDeque::new(),
            capturing: None,
            now: Now::default(),
            cuts: BTreeMap::new(),
            aborted: Vec::new(),
        }
    }

    /// Goes back to `cut`, with what was captured still to replay.
    #[cfg(not(slackwater_loom))]
    pub(crate) fn restore(&mut self, cut: &Cut) {
        self.processed.clone_from(&cut.state);
        let parts: Vec<_> = cut.captured.iter().map(|records| u16::from(!records.is_empty())).collect();
        self.state = Capture::recovering(&parts).unwrap();
        for (input, captured) in self.inputs.iter_mut().zip(&cut.captured) {
            input.recovered.extend(captured);
        }
    }

    /// Replays a record. Nothing new is looked at before everything has been replayed.
    fn replay(&mut self, index: usize) -> bool {
        let recovered = &mut self.inputs[index].recovered;
        let Some(record) = recovered.pop_front() else { return false };
        let is_last = recovered.is_empty();
        self.processed[index].push(record);
        if is_last {
            self.tell_capture(ChannelStateEvent::Replayed(channel_index(index)));
        }
        true
    }

    /// Looks at a channel without taking anything; gives the end of what waits and whether there was news.
    pub(crate) fn look(&mut self, index: usize) -> (Position, bool) {
        let (end, control) = self.inputs[index].consumer.look();
        self.on_control(index, control);
        self.settle();
        self.report(index, end);
        (end, control.is_some())
    }

    /// Looks at a channel and takes at most one item. False if nothing changed.
    pub(crate) fn visit(&mut self, index: usize) -> bool {
        if self.state.is_replaying() {
            return self.replay(index);
        }
        let is_abandoned = self.inputs[index].consumer.is_abandoned();
        let (end, has_news) = self.look(index);
        let input = &mut self.inputs[index];
        let at = input.consumer.position();
        if !input.is_blocked && at.is_before(end) {
            let item = input.consumer.pop().unwrap();
            self.on_item(index, at, item);
        } else if is_abandoned && at == end && !input.has_ended {
            input.has_ended = true;
            self.news.push_back(GateEvent::EndOfPartition { channel: channel_index(index) });
        } else {
            return has_news;
        }
        self.settle();
        true
    }

    /// Lets the gate look at the time.
    pub(crate) fn set_time(&mut self, millis: u64) {
        self.now = Now { monotonic: Millis(millis), wall: Millis(millis) };
        if self.gate.next_deadline(self.now).is_some_and(|deadline| deadline <= self.now.monotonic) {
            self.tell_gate(GateEvent::DeadlineReached);
            self.settle();
        }
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.inputs.iter().all(|input| input.has_ended)
    }

    fn on_item(&mut self, index: usize, at: Position, item: Item) {
        match item {
            Item::Record(record) => self.processed[index].push(record),
            Item::Barrier(barrier) => {
                let channel = channel_index(index);
                self.tell_capture(ChannelStateEvent::BarrierSeen { channel, id: barrier.id, at });
                if self.inputs[index].called != Some(barrier.id) {
                    self.news.push_back(GateEvent::BarrierArrived { channel, barrier });
                }
            }
        }
    }

    /// Barriers are reported to the capture at once, to the gate when it has been obeyed.
    fn on_control(&mut self, index: usize, control: Option<Control>) {
        let channel = channel_index(index);
        let Control { announced, overtaking, cancelled } = control.unwrap_or_default();
        if let Some(checkpoint) = cancelled {
            self.news.push_back(GateEvent::CancelArrived { channel, checkpoint });
        }
        if let Some((barrier, at)) = announced {
            self.inputs[index].announced = announced;
            self.tell_capture(ChannelStateEvent::BarrierAnnounced { channel, id: barrier.id, at });
            self.news.push_back(GateEvent::BarrierAnnounced { channel, barrier });
        }
        if let Some((barrier, at)) = overtaking {
            self.tell_capture(ChannelStateEvent::BarrierSeen { channel, id: barrier.id, at });
            self.news.push_back(GateEvent::BarrierArrived { channel, barrier });
        }
    }

    fn settle(&mut self) {
        while let Some(event) = self.news.pop_front() {
            self.tell_gate(event);
        }
    }

    /// Reports what waits before `end`, and first a barrier that lies in it without having been announced.
    fn report(&mut self, index: usize, end: Position) {
        let channel = channel_index(index);
        let Some(id) = self.capturing.filter(|_| self.state.is_capturing(channel)) else { return };
        let consumer = &mut self.inputs[index].consumer;
        let first = consumer.position();
        let is_barrier = |item: &Item| matches!(item, Item::Barrier(barrier) if barrier.id == id);
        if let Some(ahead) = consumer.pending_until(end).position(is_barrier) {
            let at = Position(first.0.wrapping_add(ahead));
            self.tell_capture(ChannelStateEvent::BarrierAnnounced { channel, id, at });
        }
        self.tell_capture(ChannelStateEvent::QueueSeen { channel, first, end });
    }

    fn tell_gate(&mut self, event: GateEvent) {
        let mut actions = heapless::Vec::<_, { Gate::<1>::ACTIONS_MAX }>::new();
        self.gate.on_event(self.now, event, &mut actions).unwrap();
        self.gate.check();
        for action in actions {
            self.obey_gate(action);
        }
    }

    fn obey_gate(&mut self, action: GateAction<1>) {
        match action {
            GateAction::Block(channel) => self.inputs[index_of(channel)].is_blocked = true,
            GateAction::Resume(channels) => {
                channels.iter().for_each(|index| self.inputs[usize::from(index)].is_blocked = false);
            }
            GateAction::Overtake { id, channels } => {
                channels.iter().for_each(|index| self.call_ahead(ChannelIndex(index), id));
            }
            GateAction::StartCapture { id, .. } => self.tell_capture(ChannelStateEvent::Started(id)),
            GateAction::TriggerCheckpoint { barrier, .. } => {
                let state = self.processed.clone();
                let is_unaligned = self.capturing == Some(barrier.id);
                let cut = self.cut(barrier.id);
                (cut.state, cut.is_unaligned, cut.is_complete) = (state, is_unaligned, !is_unaligned);
            }
            GateAction::StopCapture { id, .. } => self.tell_capture(ChannelStateEvent::Stopped(id)),
            GateAction::DropCapture(id) => self.tell_capture(ChannelStateEvent::Aborted(id)),
            GateAction::AbortCheckpoint { id, reason } => {
                self.cuts.remove(&id.0);
                self.aborted.push((id.0, reason));
            }
            GateAction::AbortCheckpoints { .. } => panic!("nothing is tracked"),
        }
    }

    fn call_ahead(&mut self, channel: ChannelIndex, id: CheckpointId) {
        let input = &mut self.inputs[index_of(channel)];
        let (barrier, at) = input.announced.filter(|(barrier, _)| barrier.id == id).unwrap();
        input.called = Some(id);
        let barrier = barrier.to_unaligned().unwrap();
        self.tell_capture(ChannelStateEvent::BarrierSeen { channel, id, at });
        self.news.push_back(GateEvent::BarrierArrived { channel, barrier });
    }

    fn tell_capture(&mut self, event: ChannelStateEvent) {
        let mut actions = heapless::Vec::<_, { Capture::ACTIONS_MAX }>::new();
        self.state.on_event(self.now, event, &mut actions).unwrap();
        self.state.check();
        for action in actions {
            self.obey_capture(action);
        }
    }

    fn obey_capture(&mut self, action: ChannelStateAction) {
        match action {
            ChannelStateAction::ReportQueues(id) => {
                self.capturing = Some(id);
                for index in 0..self.inputs.len() {
                    let (end, control) = self.inputs[index].consumer.look();
                    self.on_control(index, control);
                    self.report(index, end);
                }
            }
            ChannelStateAction::Capture { id, channel, from, until } => {
                let consumer = &mut self.inputs[index_of(channel)].consumer;
                let already = from.since(consumer.position());
                let items = consumer.pending_until(until).skip(already);
                let record = |item: &Item| if let Item::Record(record) = item { Some(*record) } else { None };
                let records: Vec<_> = items.filter_map(record).collect();
                self.cut(id).captured[index_of(channel)].extend(records);
            }
            ChannelStateAction::Finish(id) => {
                self.capturing = None;
                self.cut(id).is_complete = true;
                self.tell_capture(ChannelStateEvent::ResultTaken(id));
            }
            ChannelStateAction::Discard(id) => {
                self.capturing = None;
                self.cuts.remove(&id.0);
            }
            ChannelStateAction::Decline { id, reason } => self.aborted.push((id.0, reason)),
            ChannelStateAction::Run => assert!(self.inputs.iter().all(|input| input.recovered.is_empty())),
        }
    }

    fn cut(&mut self, id: CheckpointId) -> &mut Cut {
        let none = vec![Vec::new(); self.inputs.len()];
        self.cuts.entry(id.0).or_insert_with(|| Cut { captured: none, ..Cut::default() })
    }
}

fn channel_index(index: usize) -> ChannelIndex {
    ChannelIndex(u16::try_from(index).unwrap())
}

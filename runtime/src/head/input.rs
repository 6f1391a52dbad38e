//! Channels and the chain of operators behind them.

use std::sync::Arc;

use slackwater_core::gate::ChannelSet;
use slackwater_core::ids::{Barrier, ChannelIndex, CheckpointId};
use slackwater_core::queue::{Control, Position};
use slackwater_mem::Unencodable;

use super::{CHANNEL_WORDS, Head, Inputs, Poll};
use crate::chain::{ChainOps, Cx, Stage};
use crate::channel::{Item, Mark, News, Receiver};
use crate::checkpoint::InlineState;
use crate::record::{Batch, Record, RecordCodec};

/// Room and memory are looked for once in so many records; growing batches take what these few emit.
const ROOM_CHECK: usize = 8;

/// Channels and the chain behind them.
pub(crate) struct InputHead<R: Record + ?Sized> {
    channels: Vec<Channel<R>>,
    news: Arc<News>,
    /// Channels that may have a next item; no other has one that was told of.
    filled: ChannelSet<CHANNEL_WORDS>,
    /// Channels on which something may have been published; on no other was anything that was told of.
    called: ChannelSet<CHANNEL_WORDS>,
    /// The channel to look at next.
    turn: u16,
    /// The batch in work, how many of its records are done, and the channel that it came from.
    current: R::Batch,
    done: usize,
    source: u16,
    /// Bytes of the batches taken so far.
    bytes: u64,
    /// Barriers may overtake records.
    is_watchful: bool,
    codec: Option<RecordCodec<R>>,
    next: Box<dyn Stage<R>>,
}

struct Channel<R: Record + ?Sized> {
    receiver: Receiver<R>,
    /// Nothing from here on may be taken before it has been reported.
    limit: Option<Position>,
}

impl<R: Record + ?Sized> InputHead<R> {
    pub(crate) fn new(
        channels: Vec<Receiver<R>>,
        codec: Option<RecordCodec<R>>,
        next: Box<dyn Stage<R>>,
    ) -> Self {
        let news = channels.first().map(|receiver| Arc::clone(&receiver.news)).unwrap_or_default();
        let channels = channels.into_iter().map(|receiver| Channel { receiver, limit: None });
        Self {
            channels: channels.collect(),
            news,
            filled: ChannelSet::empty(),
            called: ChannelSet::empty(),
            turn: 0,
            current: R::Batch::default(),
            done: 0,
            source: 0,
            bytes: 0,
            is_watchful: false,
            codec,
            next,
        }
    }

    /// Goes on with the batch in work.
    fn process(&mut self, cx: &mut Cx) -> Poll {
        let before = self.done;
        while let Some(record) = self.current.get(self.done) {
            if self.done.is_multiple_of(ROOM_CHECK)
                && (!self.next.has_room() || !cx.has_memory() || cx.failure.is_some() || self.is_called())
            {
                break;
            }
            if cx.is_loading && !self.next.has_state(record, cx) {
                break;
            }
            self.next.process(record, cx);
            self.done += 1;
        }
        if self.done == before { Poll::NoRoom } else { Poll::Processed((self.done - before) as u64) }
    }

    /// Whether a barrier may have overtaken the batch in work.
    fn is_called(&self) -> bool {
        let is_called = |index| {
            let channel = self.channels.get(usize::from(index));
            channel.is_some_and(|channel| channel.receiver.consumer.has_control())
        };
        self.is_watchful && self.news.seen().iter().any(is_called)
    }

    /// Takes over what has been told since the last time.
    fn hear(&mut self) {
        let news = self.news.take();
        self.filled = self.filled.union(&news);
        self.called = self.called.union(&news);
    }

    /// The next channel that may have an item, in turn.
    fn next_filled(&self, blocked: &ChannelSet<CHANNEL_WORDS>) -> Option<u16> {
        let filled = self.filled.difference(blocked);
        filled.iter().find(|index| *index >= self.turn).or_else(|| filled.iter().next())
    }

    fn is_working(&self) -> bool {
        self.done < self.current.len()
    }

    /// Looks for what overtakes the items of a channel, blocked or not.
    fn control(&mut self) -> Option<Poll> {
        loop {
            let index = self.called.iter().next()?;
            let channel = self.channels.get_mut(usize::from(index));
            if let Some(control) = channel.and_then(|channel| channel.receiver.consumer.control()) {
                return Some(Poll::Control(ChannelIndex(index), control));
            }
            self.called.remove(index);
        }
    }

    /// Takes the next item of a channel.
    fn pop(&mut self, index: u16, cx: &mut Cx) -> Option<Poll> {
        let channel = self.channels.get_mut(usize::from(index))?;
        if self.is_watchful
            && let Some(poll) = channel.before_pop(ChannelIndex(index))
        {
            return Some(poll);
        }
        let at = channel.receiver.consumer.position();
        let item = channel.receiver.consumer.pop()?;
        channel.receiver.sender.made_room();
        Some(match item {
            Item::Mark(mark) => Poll::Marked(ChannelIndex(index), mark, at),
            Item::Records(batch) => {
                self.bytes += batch.size() as u64;
                (self.current, self.done, self.source) = (batch, 0, index);
                self.process(cx)
            }
        })
    }
}

impl<R: Record + ?Sized> Channel<R> {
    /// What comes before the next item, if there is one: what was published before it was pushed, for that may be a barrier
    /// that it lies behind; and a report of it.
    fn before_pop(&mut self, index: ChannelIndex) -> Option<Poll> {
        self.receiver.consumer.peek()?;
        if let Some(control) = self.receiver.consumer.control() {
            return Some(Poll::Control(index, control));
        }
        let at = self.receiver.consumer.position();
        self.limit.is_some_and(|limit| !at.is_before(limit)).then_some(Poll::Unreported(index))
    }
}

impl<R: Record + ?Sized> Head for InputHead<R> {
    fn poll(&mut self, blocked: &ChannelSet<CHANNEL_WORDS>, cx: &mut Cx) -> Poll {
        self.hear();
        if let Some(poll) = self.control() {
            return poll;
        }
        if self.is_working() {
            return self.process(cx);
        }
        while let Some(index) = self.next_filled(blocked) {
            self.turn = index + 1;
            if let Some(poll) = self.pop(index, cx) {
                return poll;
            }
            self.filled.remove(index);
        }
        Poll::Empty
    }

    fn channels(&self) -> usize {
        self.channels.len()
    }

    fn snapshot(&mut self, id: CheckpointId, states: &mut Vec<InlineState>, cx: &mut Cx) {
        self.next.snapshot(id, states, cx);
    }

    fn bytes_read(&self) -> u64 {
        self.bytes
    }

    fn inputs(&mut self) -> Option<&mut dyn Inputs> {
        Some(self)
    }

    fn chain(&mut self) -> &mut dyn ChainOps {
        &mut *self.next
    }
}

impl<R: Record + ?Sized> Inputs for InputHead<R> {
    fn watch(&mut self) {
        self.is_watchful = true;
    }

    fn look(&mut self, channel: ChannelIndex) -> (Position, Option<Control>) {
        self.channels[usize::from(channel.0)].receiver.consumer.look()
    }

    fn first(&self, channel: ChannelIndex) -> Position {
        let next = self.next_item(channel);
        let is_in_work = self.is_working() && self.source == channel.0;
        Position(next.0.wrapping_sub(usize::from(is_in_work)))
    }

    fn next_item(&self, channel: ChannelIndex) -> Position {
        self.channels[usize::from(channel.0)].receiver.consumer.position()
    }

    fn find_barrier(&mut self, channel: ChannelIndex, id: CheckpointId, end: Position) -> Option<Position> {
        let consumer = &mut self.channels[usize::from(channel.0)].receiver.consumer;
        let mut at = consumer.position();
        for item in consumer.pending_until(end) {
            if matches!(item, Item::Mark(Mark::Barrier(Barrier { id: found, .. })) if *found == id) {
                return Some(at);
            }
            at = at.next();
        }
        None
    }

    fn limit(&mut self, channel: ChannelIndex, limit: Option<Position>) {
        self.channels[usize::from(channel.0)].limit = limit;
    }

    fn encode(
        &mut self,
        channel: ChannelIndex,
        (from, until): (Position, Position),
    ) -> Result<Vec<Vec<u8>>, Unencodable> {
        let Some(codec) = self.codec else { return Ok(Vec::new()) };
        let mut batches = Vec::new();
        if from.is_before(self.next_item(channel)) {
            batches.push(codec.encode(&self.current, self.done)?);
        }
        let consumer = &mut self.channels[usize::from(channel.0)].receiver.consumer;
        let mut at = consumer.position();
        for item in consumer.pending_until(until) {
            if let Item::Records(batch) = item
                && !at.is_before(from)
            {
                batches.push(codec.encode(batch, 0)?);
            }
            at = at.next();
        }
        Ok(batches)
    }
}

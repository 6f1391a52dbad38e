//! The front of a subtask: a source, or channels; with the chain of operators behind it.

use slackwater_core::gate::ChannelSet;
use slackwater_core::ids::{ChannelIndex, CheckpointId};

use crate::chain::{ChainOps, Cx, Emit, Stage};
use crate::channel::{Item, Mark, Receiver};
use crate::checkpoint::{InlineState, Redistribution, RestoredStates};
use crate::operator::{OperatorError, Source, SourceStatus, SubtaskInfo};
use crate::output::Output;
use crate::record::{Batch, Record};

/// Words of a set of channels: 1024 of them.
pub(crate) const CHANNEL_WORDS: usize = 32;

/// Name of the state that holds a source's splits.
const SPLITS: &str = "splits";

/// Room and memory are looked for once in so many records; growing batches take what these few emit.
const ROOM_CHECK: usize = 8;

/// A source or channels, and the chain behind.
pub(crate) trait Head: Send {
    /// Processes about one batch, or takes one mark. Not from channels in `blocked`.
    fn poll(&mut self, blocked: &ChannelSet<CHANNEL_WORDS>, cx: &mut Cx) -> Poll;

    /// How many input channels there are; none in front of a source.
    fn channels(&self) -> usize;

    /// Takes over a source's share of a checkpoint.
    fn restore(&mut self, _restored: &RestoredStates<'_>, _info: &SubtaskInfo) -> Result<(), OperatorError> {
        Ok(())
    }

    /// The states that go into the manifest, tail to head (rule X11).
    fn snapshot(&mut self, id: CheckpointId, states: &mut Vec<InlineState>, cx: &mut Cx);

    /// Bytes that the source has read in this run.
    fn bytes_read(&self) -> u64 {
        0
    }

    /// Bytes that earlier runs had read before the restored checkpoint.
    fn bytes_restored(&self) -> u64 {
        0
    }

    /// The chain.
    fn chain(&mut self) -> &mut dyn ChainOps;
}

/// What a poll came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Poll {
    /// This many records were taken.
    Processed(u64),
    /// Nothing there.
    Empty,
    /// Something behind is full, or snapshots hold the memory.
    NoRoom,
    /// The source has ended, with this many records.
    Ended(u64),
    /// A mark was taken from a channel.
    Marked(ChannelIndex, Mark),
    /// A cancel marker was taken from a channel.
    Cancelled(ChannelIndex, CheckpointId),
}

/// A source and its chain.
pub(crate) struct SourceHead<S: Source> {
    name: String,
    source: S,
    next: Box<dyn Stage<S::Out>>,
}

impl<S: Source> SourceHead<S> {
    pub(crate) const fn new(name: String, source: S, next: Box<dyn Stage<S::Out>>) -> Self {
        Self { name, source, next }
    }
}

impl<S: Source> Head for SourceHead<S> {
    fn poll(&mut self, _blocked: &ChannelSet<CHANNEL_WORDS>, cx: &mut Cx) -> Poll {
        if !self.next.has_room() {
            return Poll::NoRoom;
        }
        let mut emit = Emit { next: &mut *self.next, cx, records: 0 };
        let status = self.source.read(&mut Output::new(&mut emit));
        let records = emit.records;
        match status {
            Ok(SourceStatus::More) => Poll::Processed(records),
            Ok(SourceStatus::Ended) => Poll::Ended(records),
            Err(error) => {
                cx.fail(&self.name, error);
                Poll::Empty
            }
        }
    }

    fn channels(&self) -> usize {
        0
    }

    fn restore(&mut self, restored: &RestoredStates<'_>, info: &SubtaskInfo) -> Result<(), OperatorError> {
        if restored.checkpoint().is_none() {
            return Ok(());
        }
        self.source.restore(restored.split(&self.name, SPLITS, info.index, info.parallelism))
    }

    fn snapshot(&mut self, id: CheckpointId, states: &mut Vec<InlineState>, cx: &mut Cx) {
        self.next.snapshot(id, states, cx);
        states.push(InlineState {
            operator: self.name.clone(),
            name: SPLITS.to_owned(),
            redistribution: Redistribution::Split,
            partitions: self.source.snapshot(),
        });
    }

    fn bytes_read(&self) -> u64 {
        self.source.bytes_read()
    }

    fn bytes_restored(&self) -> u64 {
        self.source.bytes_restored()
    }

    fn chain(&mut self) -> &mut dyn ChainOps {
        &mut *self.next
    }
}

/// Channels and the chain behind them.
pub(crate) struct InputHead<R: Record + ?Sized> {
    channels: Vec<Receiver<R>>,
    /// The channel to look at next.
    turn: u16,
    /// The batch in work and how many of its records are done.
    current: R::Batch,
    done: usize,
    next: Box<dyn Stage<R>>,
}

impl<R: Record + ?Sized> InputHead<R> {
    pub(crate) fn new(channels: Vec<Receiver<R>>, next: Box<dyn Stage<R>>) -> Self {
        Self { channels, turn: 0, current: R::Batch::default(), done: 0, next }
    }

    /// Goes on with the batch in work.
    fn process(&mut self, cx: &mut Cx) -> Poll {
        let before = self.done;
        while let Some(record) = self.current.get(self.done) {
            if self.done.is_multiple_of(ROOM_CHECK)
                && (!self.next.has_room() || !cx.has_memory() || cx.failure.is_some())
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

    fn is_working(&self) -> bool {
        self.done < self.current.len()
    }

    /// Looks for a cancel marker; they overtake the items of every channel, blocked or not.
    fn cancelled(&mut self) -> Option<Poll> {
        (0u16..).zip(&mut self.channels).find_map(|(index, channel)| {
            let id = channel.consumer.control()?.cancelled?;
            Some(Poll::Cancelled(ChannelIndex(index), id))
        })
    }

    /// Takes the next item of a channel.
    fn pop(&mut self, index: u16, cx: &mut Cx) -> Option<Poll> {
        let channel = self.channels.get_mut(usize::from(index))?;
        let item = channel.consumer.pop()?;
        channel.sender.wake();
        Some(match item {
            Item::Mark(mark) => Poll::Marked(ChannelIndex(index), mark),
            Item::Records(batch) => {
                self.current = batch;
                self.done = 0;
                self.process(cx)
            }
        })
    }
}

impl<R: Record + ?Sized> Head for InputHead<R> {
    fn poll(&mut self, blocked: &ChannelSet<CHANNEL_WORDS>, cx: &mut Cx) -> Poll {
        if let Some(poll) = self.cancelled() {
            return poll;
        }
        if self.is_working() {
            return self.process(cx);
        }
        for _ in 0..self.channels.len() {
            let index = self.turn;
            self.turn = if usize::from(index) + 1 < self.channels.len() { index + 1 } else { 0 };
            if blocked.contains(index) {
                continue;
            }
            if let Some(poll) = self.pop(index, cx) {
                return poll;
            }
        }
        Poll::Empty
    }

    fn channels(&self) -> usize {
        self.channels.len()
    }

    fn snapshot(&mut self, id: CheckpointId, states: &mut Vec<InlineState>, cx: &mut Cx) {
        self.next.snapshot(id, states, cx);
    }

    fn chain(&mut self) -> &mut dyn ChainOps {
        &mut *self.next
    }
}

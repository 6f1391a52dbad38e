//! The front of a subtask: a source, or channels; with the chain of operators behind it.

use slackwater_core::gate::ChannelSet;
use slackwater_core::ids::{ChannelIndex, CheckpointId};
use slackwater_core::queue::{Control, Position};
use slackwater_mem::Unencodable;

use crate::chain::{ChainOps, Cx, Emit, Stage};
use crate::channel::Mark;
use crate::checkpoint::{InlineState, Redistribution, RestoredStates};
use crate::operator::{OperatorError, Source, SourceStatus, SubtaskInfo};
use crate::output::Output;

mod input;

pub(crate) use input::InputHead;

/// Words of a set of channels: 1024 of them.
pub(crate) const CHANNEL_WORDS: usize = 32;

/// Name of the state that holds a source's splits.
const SPLITS: &str = "splits";

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

    /// An event for a source from the coordinator of its operator.
    fn on_event(&mut self, _event: &[u8], _cx: &mut Cx) {}

    /// What a source asks the coordinator of its operator for.
    fn take_request(&mut self) -> Option<Vec<u8>> {
        None
    }

    /// The states that go into the manifest, tail to head (rule X11).
    fn snapshot(&mut self, id: CheckpointId, states: &mut Vec<InlineState>, cx: &mut Cx);

    /// Bytes that the source has read in this run, or that batches of the channels took.
    fn bytes_read(&self) -> u64 {
        0
    }

    /// Bytes that earlier runs had read before the restored checkpoint.
    fn bytes_restored(&self) -> u64 {
        0
    }

    /// The channels; none in front of a source.
    fn inputs(&mut self) -> Option<&mut dyn Inputs> {
        None
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
    /// A mark was taken from its place in a channel.
    Marked(ChannelIndex, Mark, Position),
    /// Something overtakes what lies in a channel.
    Control(ChannelIndex, Control),
    /// What lies next in a channel has to be reported before it is taken.
    Unreported(ChannelIndex),
}

/// The channels of a head, as capture sees them: places in queues (see [`slackwater_core::channel_state`]). The index of a
/// channel is that of the subtask that sends on it.
pub(crate) trait Inputs {
    /// From now on barriers may overtake records.
    fn watch(&mut self);

    /// The end of the queue, and what was published before.
    fn look(&mut self, channel: ChannelIndex) -> (Position, Option<Control>);

    /// Place of the oldest item that is not processed to its end.
    fn first(&self, channel: ChannelIndex) -> Position;

    /// Place of the item that is taken next.
    fn next_item(&self, channel: ChannelIndex) -> Position;

    /// Where the barrier of a checkpoint lies, if it lies before `end`. Looks at every item.
    fn find_barrier(&mut self, channel: ChannelIndex, id: CheckpointId, end: Position) -> Option<Position>;

    /// Takes nothing from there on before it was reported.
    fn limit(&mut self, channel: ChannelIndex, limit: Option<Position>);

    /// The records between two places that are not processed yet, batch by batch.
    ///
    /// # Errors
    /// One has no encoding.
    fn encode(
        &mut self,
        channel: ChannelIndex,
        extent: (Position, Position),
    ) -> Result<Vec<Vec<u8>>, Unencodable>;
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
            Ok(SourceStatus::Idle) if records == 0 => Poll::Empty,
            Ok(SourceStatus::More | SourceStatus::Idle) => Poll::Processed(records),
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
        // A source that the checkpoint does not know starts afresh, in all its subtasks.
        if !restored.knows(&self.name) {
            return Ok(());
        }
        let splits = restored.part_of(&self.name, SPLITS, info.index, info.parallelism);
        self.source.restore(splits.map_err(|error| OperatorError::new(error.to_string()))?)
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

    fn on_event(&mut self, event: &[u8], cx: &mut Cx) {
        if let Err(error) = self.source.on_event(event) {
            cx.fail(&self.name, error);
        }
    }

    fn take_request(&mut self) -> Option<Vec<u8>> {
        self.source.take_request()
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

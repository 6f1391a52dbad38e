//! The end of a chain that sends records to the subtasks of the next vertex.

use slackwater_core::assign::ChannelMapping;
use slackwater_core::ids::{Barrier, CheckpointId};
use slackwater_core::queue::{Control, Full, Position};

use crate::chain::{ChainOps, Cx, Stage};
use crate::channel::{Item, Mark, Sender};
use crate::checkpoint::RestoredStates;
use crate::operator::{OperatorError, SubtaskInfo};
use crate::record::{Batch, Record, RecordCodec};

mod overtaking;
mod replay;
#[cfg(test)]
mod tests;

/// Bytes from which on a batch is sent.
const BATCH_TARGET: usize = 32 << 10;

/// Decides which subtask gets a record.
pub(crate) trait Partition<R: ?Sized>: Send {
    /// The index of an output, below `outputs`.
    fn choose(&mut self, record: &R, outputs: usize) -> usize;
}

/// Each output in turn.
#[derive(Debug, Default)]
pub(crate) struct RoundRobin {
    next: usize,
}

impl<R: ?Sized> Partition<R> for RoundRobin {
    fn choose(&mut self, _record: &R, outputs: usize) -> usize {
        self.next = if self.next + 1 < outputs { self.next + 1 } else { 0 };
        self.next
    }
}

/// Where records go, and what that means for those in flight.
#[derive(Debug)]
pub(crate) struct Edge<R: ?Sized> {
    /// Name of the vertex that receives.
    pub(crate) receiver: String,
    /// How records in flight find its subtasks after a restore.
    pub(crate) mapping: ChannelMapping,
    /// How they are written into checkpoints. Without one nothing overtakes here.
    pub(crate) codec: Option<RecordCodec<R>>,
}

impl<R: ?Sized> Clone for Edge<R> {
    fn clone(&self) -> Self {
        Self { receiver: self.receiver.clone(), mapping: self.mapping, codec: self.codec }
    }
}

/// Batches on their way to the subtasks of the next vertex.
///
/// A record always finds room in the growing batch of its output. A batch that has reached its target and
/// cannot be pushed makes the exchange full, and no further record may start.
pub(crate) struct Exchange<R: Record + ?Sized, P> {
    outputs: Vec<Outgoing<R>>,
    partition: P,
    is_full: bool,
    edge: Edge<R>,
    /// No records follow.
    has_ended: bool,
}

struct Outgoing<R: Record + ?Sized> {
    sender: Sender<R>,
    growing: R::Batch,
    /// The mark on its way has been pushed here.
    is_marked: bool,
    /// What had to precede a barrier lies beyond the bound: no record may start until all are within it.
    is_beyond: bool,
    /// The last barrier that lies in the queue and may overtake, and its place.
    barrier: Option<(Barrier, Position)>,
    /// What was in flight and goes behind the first new records.
    #[cfg(feature = "mutants")]
    late: R::Batch,
}

impl<R: Record + ?Sized, P: Partition<R>> Exchange<R, P> {
    pub(crate) fn new(senders: Vec<Sender<R>>, partition: P, edge: Edge<R>) -> Self {
        let outputs = senders.into_iter().map(|sender| Outgoing {
            sender,
            growing: R::Batch::default(),
            is_marked: false,
            is_beyond: false,
            barrier: None,
            #[cfg(feature = "mutants")]
            late: R::Batch::default(),
        });
        Self { outputs: outputs.collect(), partition, is_full: false, edge, has_ended: false }
    }

    /// Pushes full batches as far as there is room, and finds out whether a record may start.
    fn push_full(&mut self) {
        if self.is_full {
            self.is_full = false;
            for output in &mut self.outputs {
                self.is_full |= output.is_stuck();
            }
        }
    }
}

impl<R: Record + ?Sized> Outgoing<R> {
    /// Pushes the growing batch if the queue is below its bound.
    fn push(&mut self) -> bool {
        if !self.sender.producer.has_room() {
            return false;
        }
        #[cfg(feature = "mutants")]
        self.send_late();
        let batch = std::mem::take(&mut self.growing);
        let pushed = self.sender.producer.try_push(Item::Records(batch));
        self.after(pushed)
    }

    /// Pushes the growing batch, into the reserved slot if need be.
    fn push_rest(&mut self) -> bool {
        #[cfg(feature = "mutants")]
        self.send_late();
        if self.growing.is_empty() {
            return true;
        }
        let batch = std::mem::take(&mut self.growing);
        let pushed = self.sender.producer.push_reserved(Item::Records(batch));
        let is_done = self.after(pushed);
        self.is_beyond = !self.sender.producer.has_room();
        is_done
    }

    /// Pushes the growing batch and the mark behind it. Gives the mark's place.
    fn push_mark(&mut self, mark: Mark) -> Option<Position> {
        if !self.push_rest() {
            return None;
        }
        let at = self.sender.producer.position();
        let pushed = self.sender.producer.push_overdraft(Item::Mark(mark));
        self.after(pushed).then_some(at)
    }

    /// Whether a record may not start for what lies here.
    fn is_stuck(&mut self) -> bool {
        self.is_beyond = self.is_beyond && !self.sender.producer.has_room();
        self.is_beyond || self.growing.size() >= BATCH_TARGET && !self.push()
    }

    fn after<T>(&mut self, pushed: Result<T, Full<Item<R::Batch>>>) -> bool {
        match pushed {
            Ok(_) => {
                self.sender.tell();
                true
            }
            Err(Full(Item::Records(batch))) => {
                self.growing = batch;
                false
            }
            Err(Full(Item::Mark(_))) => false,
        }
    }
}

impl<R: Record + ?Sized, P: Partition<R>> Stage<R> for Exchange<R, P> {
    #[inline]
    fn process(&mut self, record: &R, _cx: &mut Cx) {
        let index = self.partition.choose(record, self.outputs.len());
        let output = &mut self.outputs[index];
        output.growing.push(record);
        if output.growing.size() >= BATCH_TARGET && !output.push() {
            self.is_full = true;
        }
    }
}

impl<R: Record + ?Sized, P: Partition<R>> ChainOps for Exchange<R, P> {
    #[inline]
    fn has_room(&self) -> bool {
        !self.is_full
    }

    fn make_room(&mut self, _cx: &mut Cx) {
        self.push_full();
    }

    fn flush(&mut self) -> bool {
        let mut is_done = true;
        for output in self.outputs.iter_mut().filter(|output| !output.growing.is_empty()) {
            is_done &= output.push();
        }
        self.push_full();
        is_done
    }

    fn send(&mut self, mark: Mark) -> bool {
        let mark = self.in_form(mark);
        let mut done = true;
        for output in self.outputs.iter_mut().filter(|output| !output.is_marked) {
            output.is_marked = output.send(mark);
            done &= output.is_marked;
        }
        if done {
            self.outputs.iter_mut().for_each(|output| output.is_marked = false);
            self.is_full = self.outputs.iter().any(|output| output.is_beyond);
            self.has_ended |= matches!(mark, Mark::EndOfData { .. });
        }
        done
    }

    fn overtake(&mut self, barrier: Barrier) {
        self.outputs.iter_mut().for_each(|output| output.overtake(barrier));
    }

    fn cancel(&mut self, id: CheckpointId) {
        for output in &mut self.outputs {
            output.publish(Control { cancelled: Some(id), ..Control::default() });
        }
    }

    fn replay(&mut self, states: &RestoredStates<'_>, info: &SubtaskInfo) -> Result<(), OperatorError> {
        self.send_again(states, info)
    }
}

impl<R: Record + ?Sized, P> std::fmt::Debug for Exchange<R, P> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Exchange")
            .field("outputs", &self.outputs.len())
            .field("is_full", &self.is_full)
            .finish()
    }
}

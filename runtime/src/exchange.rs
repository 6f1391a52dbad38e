//! The end of a chain that sends records to the subtasks of the next vertex.

use slackwater_core::ids::CheckpointId;
use slackwater_core::queue::{Control, Full};

use crate::chain::{ChainOps, Cx, Stage};
use crate::channel::{Item, Mark, Sender};
use crate::record::{Batch, Record};

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

/// Batches on their way to the subtasks of the next vertex.
///
/// A record always finds room in the growing batch of its output. A batch that has reached its target and
/// cannot be pushed makes the exchange full, and no further record may start.
pub(crate) struct Exchange<R: Record + ?Sized, P> {
    outputs: Vec<Outgoing<R>>,
    partition: P,
    is_full: bool,
}

struct Outgoing<R: Record + ?Sized> {
    sender: Sender<R>,
    growing: R::Batch,
    /// The mark on its way has been pushed here.
    is_marked: bool,
}

impl<R: Record + ?Sized, P: Partition<R>> Exchange<R, P> {
    pub(crate) fn new(senders: Vec<Sender<R>>, partition: P) -> Self {
        let outputs = senders.into_iter().map(|sender| Outgoing {
            sender,
            growing: R::Batch::default(),
            is_marked: false,
        });
        Self { outputs: outputs.collect(), partition, is_full: false }
    }

    /// Pushes full batches as far as there is room.
    fn push_full(&mut self) {
        if self.is_full {
            self.is_full = false;
            for output in self.outputs.iter_mut().filter(|output| output.growing.size() >= BATCH_TARGET) {
                self.is_full |= !output.push();
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
        let batch = std::mem::take(&mut self.growing);
        let pushed = self.sender.producer.try_push(Item::Records(batch));
        self.after(pushed)
    }

    /// Pushes the growing batch, into the reserved slot if need be, and the mark behind it.
    fn push_mark(&mut self, mark: Mark) -> bool {
        if !self.growing.is_empty() {
            let batch = std::mem::take(&mut self.growing);
            let pushed = self.sender.producer.push_reserved(Item::Records(batch));
            if !self.after(pushed) {
                return false;
            }
        }
        let pushed = self.sender.producer.push_overdraft(Item::Mark(mark));
        self.is_marked = self.after(pushed);
        self.is_marked
    }

    fn after<T>(&mut self, pushed: Result<T, Full<Item<R::Batch>>>) -> bool {
        match pushed {
            Ok(_) => {
                self.sender.receiver.wake();
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

    fn flush(&mut self) {
        for output in self.outputs.iter_mut().filter(|output| !output.growing.is_empty()) {
            output.push();
        }
        self.push_full();
    }

    fn send(&mut self, mark: Mark) -> bool {
        let mut done = true;
        for output in self.outputs.iter_mut().filter(|output| !output.is_marked) {
            done &= output.push_mark(mark);
        }
        if done {
            self.outputs.iter_mut().for_each(|output| output.is_marked = false);
            self.is_full = false;
        }
        done
    }

    fn cancel(&mut self, id: CheckpointId) {
        for output in &mut self.outputs {
            output.sender.producer.publish(Control { cancelled: Some(id), ..Control::default() });
            output.sender.receiver.wake();
        }
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

//! Channels between subtasks: one queue each, with the signals of both ends.

use std::sync::Arc;

use slackwater_core::ids::Barrier;
use slackwater_core::queue::{Consumer, Producer, Queue};

use crate::actor::Signal;
use crate::record::Record;

/// Slots of a queue: bound, overdraft for marks, one reserved for a half-filled batch.
const SLOTS: usize = 16;
/// Batches in a queue from which on no record may start.
pub(crate) const BOUND: usize = 8;

/// What lies in a queue.
#[derive(Debug)]
pub(crate) enum Item<B> {
    Records(B),
    Mark(Mark),
}

/// What separates records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mark {
    /// A checkpoint covers what lies before it.
    Barrier(Barrier),
    /// No records follow. Barriers still do.
    EndOfData {
        /// The sender has emitted all that it ever will; if not, the job stops with a savepoint.
        is_drained: bool,
    },
}

type Batches<R> = Queue<Item<<R as Record>::Batch>, SLOTS>;

/// The sending end.
pub(crate) struct Sender<R: Record + ?Sized> {
    pub(crate) producer: Producer<Arc<Batches<R>>>,
    pub(crate) receiver: Signal,
}

/// The receiving end.
pub(crate) struct Receiver<R: Record + ?Sized> {
    pub(crate) consumer: Consumer<Arc<Batches<R>>>,
    pub(crate) sender: Signal,
}

/// A new channel between the owners of these two signals.
pub(crate) fn channel<R: Record + ?Sized>(sender: &Signal, receiver: &Signal) -> (Sender<R>, Receiver<R>) {
    let queue = Arc::new(Batches::<R>::with_bound(BOUND).expect("the bound leaves an overdraft"));
    let producer = Producer::claim(Arc::clone(&queue)).expect("a new queue has no producer");
    let consumer = Consumer::claim(queue).expect("a new queue has no consumer");
    (Sender { producer, receiver: receiver.clone() }, Receiver { consumer, sender: sender.clone() })
}

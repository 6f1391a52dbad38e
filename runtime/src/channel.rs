//! Channels between subtasks: one queue each, with the signals of both ends.

use std::sync::Arc;

use slackwater_core::ids::Barrier;
use slackwater_core::queue::{self, Consumer, Producer, Queue};

use crate::actor::Signal;
use crate::head::CHANNEL_WORDS;
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

/// On which of its channels a subtask has something to look at.
pub(crate) type News = queue::News<CHANNEL_WORDS>;

type Batches<R> = Queue<Item<<R as Record>::Batch>, SLOTS>;

/// The sending end.
pub(crate) struct Sender<R: Record + ?Sized> {
    pub(crate) producer: Producer<Arc<Batches<R>>>,
    receiver: Signal,
    news: Arc<News>,
    /// Which of the receiver's channels this is.
    index: u16,
}

impl<R: Record + ?Sized> Sender<R> {
    /// Lets the receiver know that something has come.
    pub(crate) fn tell(&self) {
        self.news.tell(self.index);
        self.receiver.wake();
    }
}

/// The receiving end.
pub(crate) struct Receiver<R: Record + ?Sized> {
    pub(crate) consumer: Consumer<Arc<Batches<R>>>,
    pub(crate) sender: Signal,
    pub(crate) news: Arc<News>,
}

/// The subtask that receives, and what it hears of its channels.
#[derive(Clone, Debug)]
pub(crate) struct Destination {
    signal: Signal,
    news: Arc<News>,
}

impl Destination {
    pub(crate) fn new(signal: Signal) -> Self {
        Self { signal, news: Arc::default() }
    }
}

/// A new channel from the owner of a signal, the `index`-th that ends there.
pub(crate) fn channel<R: Record + ?Sized>(
    sender: &Signal,
    to: &Destination,
    index: u16,
) -> (Sender<R>, Receiver<R>) {
    let queue = Arc::new(Batches::<R>::with_bound(BOUND).expect("the bound leaves an overdraft"));
    let producer = Producer::claim(Arc::clone(&queue)).expect("a new queue has no producer");
    let consumer = Consumer::claim(queue).expect("a new queue has no consumer");
    let (receiver, news) = (to.signal.clone(), Arc::clone(&to.news));
    let receiving = Receiver { consumer, sender: sender.clone(), news: Arc::clone(&news) };
    (Sender { producer, receiver, news, index }, receiving)
}

//! The pushing end.

#![expect(unsafe_code, reason = "moves items into slots that both ends can reach")]

use core::fmt;

use super::control::{Control, OwnCell};
use super::{AlreadyClaimed, CONSUMER, Full, PRODUCER, Position, Queue, Share, publish_order};
use crate::sync::Ordering;

/// The pushing end of a queue that is reached through `Q`.
pub struct Producer<Q: Share> {
    queue: Q,
    tail: Position,
    /// The consumer's position when last looked at; looking again costs a cache line.
    head_seen: Position,
    control_cell: OwnCell,
    control: Control,
}

impl<T, const SLOTS: usize, Q: Share<Target = Queue<T, SLOTS>>> Producer<Q> {
    /// Becomes the producer of `queue`.
    ///
    /// # Errors
    /// The queue has had one.
    pub fn claim(queue: Q) -> Result<Self, AlreadyClaimed> {
        PRODUCER.claim(&queue)?;
        // Nothing has been pushed yet, so nothing has been popped: both positions are the initial one.
        let start = Position(queue.tail.0.load(Ordering::Relaxed));
        let control = Control::default();
        Ok(Self { queue, tail: start, head_seen: start, control_cell: OwnCell::PRODUCER, control })
    }

    /// Whether the queue is below its bound, so that the next record may start.
    pub fn has_room(&mut self) -> bool {
        self.is_below(self.queue.bound)
    }

    /// Pushes an item if the queue is below its bound.
    ///
    /// # Errors
    /// The queue has reached its bound.
    pub fn try_push(&mut self, item: T) -> Result<Position, Full<T>> {
        self.push_below(self.queue.bound, item)
    }

    /// Pushes output of the record in work, beyond the bound if need be.
    ///
    /// # Errors
    /// The overdraft is used up.
    pub fn push_overdraft(&mut self, item: T) -> Result<Position, Full<T>> {
        self.push_below(SLOTS.wrapping_sub(1), item)
    }

    /// Pushes what has to precede a barrier, into the reserved slot if need be.
    ///
    /// # Errors
    /// Every slot is taken.
    pub fn push_reserved(&mut self, item: T) -> Result<Position, Full<T>> {
        self.push_below(SLOTS, item)
    }

    /// Makes the kinds that `control` has the newest ones. Never full: what the receiver has not looked at
    /// yet is overwritten, kind by kind.
    pub fn publish(&mut self, control: Control) {
        self.control = self.control.updated_by(control);
        // SAFETY: the cell began as the producer's, and by RING4 there is one producer.
        unsafe { self.queue.control.0.put(&mut self.control_cell, self.control) };
    }

    /// The position that the next item pushed will have.
    #[must_use]
    pub const fn position(&self) -> Position {
        self.tail
    }

    /// How many items the receiver has not taken.
    #[must_use]
    pub fn len(&self) -> usize {
        self.tail.since(self.head())
    }

    /// Whether the receiver has taken everything.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The number of items from which on no record may start.
    #[must_use]
    pub fn bound(&self) -> usize {
        self.queue.bound
    }

    /// Whether the consumer is gone: nothing will be popped any more.
    #[must_use]
    pub fn is_abandoned(&self) -> bool {
        CONSUMER.is_gone(&self.queue)
    }

    fn push_below(&mut self, limit: usize, item: T) -> Result<Position, Full<T>> {
        if !self.is_below(limit) {
            return Err(Full(item));
        }
        let position = self.tail;
        let Some(slot) = self.queue.slot(position) else { return Err(Full(item)) };
        // SAFETY: there is room, so `position` is not among the positions of RING2: the slot is empty and, by
        // RING3, the producer's.
        unsafe { slot.put(item) };
        self.tail = position.next();
        self.queue.tail.0.store(self.tail.0, publish_order());
        Ok(position)
    }

    fn is_below(&mut self, limit: usize) -> bool {
        if self.tail.since(self.head_seen) < limit {
            return true;
        }
        self.head_seen = self.head();
        self.tail.since(self.head_seen) < limit
    }

    fn head(&self) -> Position {
        Position(self.queue.head.0.load(Ordering::Acquire))
    }
}

impl<Q: Share> Drop for Producer<Q> {
    fn drop(&mut self) {
        PRODUCER.leave(&self.queue);
    }
}

impl<Q: Share> fmt::Debug for Producer<Q> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Producer").field("position", &self.tail).finish_non_exhaustive()
    }
}

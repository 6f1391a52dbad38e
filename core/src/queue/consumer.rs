//! The popping end.

#![expect(unsafe_code, reason = "moves items out of slots that both ends can reach")]

use core::fmt;
use core::marker::PhantomData;

use super::control::{Control, OwnCell};
use super::{AlreadyClaimed, CONSUMER, PRODUCER, Position, Queue, Share, release_order};
use crate::sync::{Ordering, is_mutant};

/// The popping end of a queue that is reached through `Q`.
pub struct Consumer<Q: Share> {
    queue: Q,
    head: Position,
    /// The producer's position when last looked at; looking again costs a cache line.
    tail_seen: Position,
    control_cell: OwnCell,
    control: Control,
}

impl<T, const SLOTS: usize, Q: Share<Target = Queue<T, SLOTS>>> Consumer<Q> {
    /// Becomes the consumer of `queue`.
    ///
    /// # Errors
    /// The queue has had one.
    pub fn claim(queue: Q) -> Result<Self, AlreadyClaimed> {
        CONSUMER.claim(&queue)?;
        // Nothing has been popped yet, so this is the initial position.
        let start = Position(queue.head.0.load(Ordering::Relaxed));
        let control = Control::default();
        Ok(Self { queue, head: start, tail_seen: start, control_cell: OwnCell::CONSUMER, control })
    }

    /// Takes the oldest item.
    ///
    /// None from a queue whose producer was seen to be gone before the call means the end.
    pub fn pop(&mut self) -> Option<T> {
        let position = self.ready()?;
        let slot = self.queue.slot(position)?;
        self.head = position.next();
        if is_mutant("queue_slot_released_early") {
            self.queue.head.0.store(self.head.0, release_order());
        }
        // SAFETY: by RING2 and RING3 the slot of an item that is ready holds it and is the consumer's. It
        // counts as empty from the store below on.
        let item = unsafe { slot.take() };
        self.queue.head.0.store(self.head.0, release_order());
        Some(item)
    }

    /// Looks at the oldest item.
    pub fn peek(&mut self) -> Option<&T> {
        let position = self.ready()?;
        let slot = self.queue.slot(position)?;
        // SAFETY: by RING2 and RING3 the slot holds an item and is the consumer's, until a pop that the
        // borrow of `self` rules out.
        Some(unsafe { slot.get() })
    }

    /// The items that wait before `end`, oldest first: what a barrier at `end` has overtaken (rule U7).
    ///
    /// Items that the producer pushes while the iterator lives are not in it. All those before a position
    /// that was read from [`Consumer::control`] are.
    pub fn pending_until(&mut self, end: Position) -> Pending<'_, T, SLOTS> {
        self.tail_seen = self.tail();
        let left = end.since(self.head).min(self.tail_seen.since(self.head));
        Pending { queue: &self.queue, next: self.head, left, items: PhantomData }
    }

    /// The place behind the newest item, and then what the producer has published: whatever it published before it
    /// pushed an item before that place is seen. So no item behind a barrier is taken for one before it.
    pub fn look(&mut self) -> (Position, Option<Control>) {
        if is_mutant("queue_control_before_end") {
            let control = self.control();
            return (self.tail(), control);
        }
        let end = self.tail();
        (end, self.control())
    }

    /// What the producer has published since the last call; of each kind the newest, and only kinds that
    /// have changed. None if nothing has.
    pub fn control(&mut self) -> Option<Control> {
        // SAFETY: the cell began as the consumer's, and by RING4 there is one consumer.
        let newest = unsafe { self.queue.control.0.take(&mut self.control_cell) }?;
        let changed = newest.changed_since(&self.control);
        self.control = newest;
        changed
    }

    /// Whether the producer has published something since the last call of [`control`](Self::control). Costs a look at
    /// what is in the cache unless there is.
    #[must_use]
    pub fn has_control(&self) -> bool {
        self.queue.control.0.is_unseen()
    }

    /// The position of the next item popped.
    #[must_use]
    pub const fn position(&self) -> Position {
        self.head
    }

    /// How many items wait.
    #[must_use]
    pub fn len(&self) -> usize {
        self.tail().since(self.head)
    }

    /// Whether no item waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether the producer is gone: what waits now is all that ever will.
    #[must_use]
    pub fn is_abandoned(&self) -> bool {
        PRODUCER.is_gone(&self.queue)
    }

    /// The position of the oldest item, if there is one.
    fn ready(&mut self) -> Option<Position> {
        if self.head == self.tail_seen {
            self.tail_seen = self.tail();
        }
        (self.head != self.tail_seen).then_some(self.head)
    }

    fn tail(&self) -> Position {
        Position(self.queue.tail.0.load(Ordering::Acquire))
    }
}

impl<Q: Share> Drop for Consumer<Q> {
    fn drop(&mut self) {
        CONSUMER.leave(&self.queue);
    }
}

impl<Q: Share> fmt::Debug for Consumer<Q> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Consumer").field("position", &self.head).finish_non_exhaustive()
    }
}

/// Items that wait in a queue; see [`Consumer::pending_until`].
pub struct Pending<'c, T, const SLOTS: usize> {
    queue: &'c Queue<T, SLOTS>,
    next: Position,
    left: usize,
    /// Hands out `&T`, so it may go to another thread only if `T` may be shared.
    items: PhantomData<&'c T>,
}

impl<'c, T, const SLOTS: usize> Iterator for Pending<'c, T, SLOTS> {
    type Item = &'c T;

    fn next(&mut self) -> Option<&'c T> {
        self.left = self.left.checked_sub(1)?;
        let slot = self.queue.slot(self.next)?;
        self.next = self.next.next();
        // SAFETY: by RING2 and RING3 the slot holds an item and is the consumer's, until a pop that the
        // borrow of the consumer rules out.
        Some(unsafe { slot.get() })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl<T, const SLOTS: usize> ExactSizeIterator for Pending<'_, T, SLOTS> {}

impl<T, const SLOTS: usize> fmt::Debug for Pending<'_, T, SLOTS> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pending").field("next", &self.next).field("left", &self.left).finish_non_exhaustive()
    }
}

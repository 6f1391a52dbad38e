//! A bounded queue between two subtasks: one end pushes, the other pops, neither ever waits.
//!
//! The data lane is a ring of `SLOTS` owned items. Its room is given away in three steps:
//!
//! | items in the ring | who may push |
//! |---|---|
//! | below the bound | anyone: [`Producer::try_push`] |
//! | below `SLOTS - 1` | the record in work, so that it is not stuck halfway: [`Producer::push_overdraft`] |
//! | below `SLOTS` | a half-filled batch that has to precede a barrier: [`Producer::push_reserved`] |
//!
//! The control lane holds the newest [`Control`] and is never full: it overtakes the data lane. Both lanes
//! are tied together by [`Position`]s, so that the receiver knows which items a barrier has overtaken.
//!
//! Each operation takes constant time and never allocates.
//!
//! # Invariants
//!
//! - RING1: `head <= tail <= head + SLOTS`, compared with wrap-around.
//! - RING2: exactly the slots of the positions from `head` to `tail` hold an item.
//! - RING3: the slots of RING2 are the consumer's alone, all others the producer's alone. A slot passes to
//!   the consumer with the store of `tail` and back with the store of `head`.
//! - RING4: at most one producer and one consumer are ever made for a queue.

#![expect(unsafe_code, reason = "items pass between two threads through slots that both can reach")]

use core::fmt;
use core::ops::Deref;

use crate::sync::{AtomicUsize, Ordering, is_mutant};

mod consumer;
mod control;
mod news;
mod producer;
mod room;
mod slot;
#[cfg(test)]
#[cfg(not(slackwater_loom))]
mod tests;

pub use consumer::{Consumer, Pending};
pub use control::Control;
pub use news::News;
pub use producer::Producer;
pub use room::RoomWanted;

use control::ControlLane;
use sealed::Reach;
use slot::Slot;

// The memory orders that invariant RING3 rests on. Each has a mutant that the loom tests must find.
fn publish_order() -> Ordering {
    weakened_by("queue_publish_relaxed", Ordering::Release)
}

fn release_order() -> Ordering {
    weakened_by("queue_release_relaxed", Ordering::Release)
}

fn exchange_order() -> Ordering {
    weakened_by("queue_exchange_relaxed", Ordering::AcqRel)
}

fn leave_order() -> Ordering {
    weakened_by("queue_leave_relaxed", Ordering::Release)
}

fn weakened_by(mutant: &str, order: Ordering) -> Ordering {
    if is_mutant(mutant) { Ordering::Relaxed } else { order }
}

/// A queue of at most `SLOTS` items of type `T`; see the module's page.
///
/// Items that were never popped are dropped with the queue.
pub struct Queue<T, const SLOTS: usize> {
    /// Position of the next item to pop; written by the consumer.
    head: CachePadded<AtomicUsize>,
    /// Position of the next item to push; written by the producer.
    tail: CachePadded<AtomicUsize>,
    control: CachePadded<ControlLane>,
    claims: AtomicUsize,
    bound: usize,
    slots: [Slot<T>; SLOTS],
}

// SAFETY: by RING3 and RING4 each item is reached by one thread at a time, and passes between threads by
// value.
unsafe impl<T: Send, const SLOTS: usize> Sync for Queue<T, SLOTS> {}

impl<T, const SLOTS: usize> Queue<T, SLOTS> {
    /// The largest bound: one slot is reserved and at least one is left for the overdraft.
    pub const BOUND_MAX: usize = SLOTS.saturating_sub(2);

    /// An empty queue in which a record may start while there are fewer than `bound` items.
    ///
    /// The overdraft is what the bound leaves: `SLOTS - 1 - bound` items.
    ///
    /// # Errors
    /// `bound` is not within 1 and [`Self::BOUND_MAX`].
    pub fn with_bound(bound: usize) -> Result<Self, InvalidBound> {
        Self::starting_at(Position(0), bound)
    }

    fn starting_at(start: Position, bound: usize) -> Result<Self, InvalidBound> {
        const {
            assert!(SLOTS.is_power_of_two(), "the slot of a position must not jump where positions wrap");
            assert!(SLOTS >= 4, "a bound, an overdraft and the reserved slot need room");
            assert!(SLOTS <= 1 << (usize::BITS - 2), "positions must tell before from after");
        }
        if bound == 0 || bound > Self::BOUND_MAX {
            return Err(InvalidBound { bound, bound_max: Self::BOUND_MAX });
        }
        Ok(Self {
            head: CachePadded(AtomicUsize::new(start.0)),
            tail: CachePadded(AtomicUsize::new(start.0)),
            control: CachePadded(ControlLane::new()),
            claims: AtomicUsize::new(0),
            bound,
            slots: core::array::from_fn(|_| Slot::empty()),
        })
    }

    /// The slot of `position`. Never none, since a mask below the number of slots is applied.
    #[inline]
    fn slot(&self, position: Position) -> Option<&Slot<T>> {
        self.slots.get(position.0 & SLOTS.wrapping_sub(1))
    }

    /// Takes an item out on the way to the end of the queue.
    fn take_unread(&mut self) -> Option<T> {
        let head = Position(self.head.0.load(Ordering::Relaxed));
        if head.0 == self.tail.0.load(Ordering::Relaxed) {
            return None;
        }
        // First, so that an item whose drop panics is not met again.
        self.head.0.store(head.next().0, Ordering::Relaxed);
        let slot = self.slot(head)?;
        // SAFETY: the slot held an item by RING2, and `&mut self` shows that both ends are gone.
        Some(unsafe { slot.take() })
    }
}

impl<T, const SLOTS: usize> Drop for Queue<T, SLOTS> {
    fn drop(&mut self) {
        /// Goes on with the rest if the drop of one item panics.
        struct Unread<'q, T, const SLOTS: usize>(&'q mut Queue<T, SLOTS>);
        impl<T, const SLOTS: usize> Drop for Unread<'_, T, SLOTS> {
            fn drop(&mut self) {
                while let Some(item) = self.0.take_unread() {
                    drop(item);
                }
            }
        }
        let unread = Unread(self);
        while let Some(item) = unread.0.take_unread() {
            drop(item);
        }
    }
}

impl<T, const SLOTS: usize> fmt::Debug for Queue<T, SLOTS> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Queue").field("slots", &SLOTS).field("bound", &self.bound).finish_non_exhaustive()
    }
}

/// Place of an item in the order of pushes, counted from the start of the queue. Wraps around: positions
/// compare rightly as long as they lie within `usize::MAX / 2` of each other, and those that matter at one
/// moment lie within the slots of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Position(pub usize);

impl Position {
    /// The place of the item that is pushed next.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0.wrapping_add(1))
    }

    /// Whether an item here is popped before one at `other`.
    #[must_use]
    pub const fn is_before(self, other: Self) -> bool {
        self.0.wrapping_sub(other.0).cast_signed() < 0
    }

    /// How many items lie from `earlier`, included, to here, excluded; none if `earlier` is not before.
    #[must_use]
    pub const fn since(self, earlier: Self) -> usize {
        if earlier.is_before(self) { self.0.wrapping_sub(earlier.0) } else { 0 }
    }
}

/// A handle that reaches the same queue for as long as it lives: `&Queue`, or `Arc<Queue>` with the feature
/// `alloc`.
///
/// # Safety
/// `deref` must return the same queue each time, and it must not move or be dropped before the handle.
pub unsafe trait Share: Deref<Target: Reach> {}

// SAFETY: a shared reference keeps its target in place.
unsafe impl<T, const SLOTS: usize> Share for &Queue<T, SLOTS> {}

// SAFETY: a reference-counted queue stays in place until the last handle is gone.
#[cfg(feature = "alloc")]
unsafe impl<T, const SLOTS: usize> Share for alloc::sync::Arc<Queue<T, SLOTS>> {}

// SAFETY: as for the `Arc` that it stands in for.
#[cfg(slackwater_loom)]
unsafe impl<T, const SLOTS: usize> Share for loom::sync::Arc<Queue<T, SLOTS>> {}

mod sealed {
    use super::{AtomicUsize, Queue};

    /// Reaches what does not depend on the type of a queue's items.
    #[expect(unnameable_types, reason = "sealed: only a queue can be reached")]
    pub trait Reach {
        fn claims(&self) -> &AtomicUsize;
    }

    impl<T, const SLOTS: usize> Reach for Queue<T, SLOTS> {
        fn claims(&self) -> &AtomicUsize {
            &self.claims
        }
    }
}

/// One end of a queue, as bits of `Queue::claims`.
#[derive(Clone, Copy)]
struct End {
    claimed: usize,
    gone: usize,
}

const PRODUCER: End = End { claimed: 1, gone: 2 };
const CONSUMER: End = End { claimed: 4, gone: 8 };

impl End {
    /// Enforces RING4.
    fn claim(self, queue: &impl Share) -> Result<(), AlreadyClaimed> {
        let before = queue.claims().fetch_or(self.claimed, Ordering::AcqRel);
        if before & self.claimed == 0 { Ok(()) } else { Err(AlreadyClaimed) }
    }

    /// What this end did before is visible to whoever sees that it is gone.
    fn leave(self, queue: &impl Share) {
        queue.claims().fetch_or(self.gone, leave_order());
    }

    fn is_gone(self, queue: &impl Share) -> bool {
        queue.claims().load(Ordering::Acquire) & self.gone != 0
    }
}

/// Keeps what one end writes away from what the other end writes. Processors fetch lines in pairs; 32-bit
/// ones that matter here have no cache that two cores fight over.
#[cfg_attr(target_pointer_width = "64", repr(align(128)))]
struct CachePadded<V>(V);

/// There is no room; here is the item back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full<T>(pub T);

impl<T> fmt::Display for Full<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the queue is full: push again when the receiver has taken an item")
    }
}

impl<T: fmt::Debug> core::error::Error for Full<T> {}

/// A queue cannot have this bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidBound {
    /// The bound asked for.
    pub bound: usize,
    /// The largest one its slots allow.
    pub bound_max: usize,
}

impl fmt::Display for InvalidBound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "queue bound {} is not within 1 and {}", self.bound, self.bound_max)
    }
}

impl core::error::Error for InvalidBound {}

/// This end of the queue was claimed before; a queue has one producer and one consumer in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AlreadyClaimed;

impl fmt::Display for AlreadyClaimed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("this end of the queue was claimed before: make a new queue")
    }
}

impl core::error::Error for AlreadyClaimed {}

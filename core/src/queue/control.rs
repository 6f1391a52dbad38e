//! The control lane: a cell that always takes a new value and hands out the newest one (a triple buffer).
//!
//! Of its three cells, one is the producer's, one the consumer's, and one waits between them. Each side
//! exchanges its own cell for the waiting one, so neither ever sees a value that is being written.

#![expect(unsafe_code, reason = "a value passes between two threads through cells that both can reach")]

use super::{Position, exchange_order};
use crate::ids::{Barrier, CheckpointId};
use crate::sync::{AtomicUsize, Ordering, UnsafeCell};

/// What overtakes the items of a queue; of each kind the newest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Control {
    /// A barrier that lies in the data lane at this position.
    pub announced: Option<(Barrier, Position)>,
    /// A barrier that has overtaken the items before this position.
    pub overtaking: Option<(Barrier, Position)>,
    /// A checkpoint that was given up upstream.
    pub cancelled: Option<CheckpointId>,
}

impl Control {
    /// `self`, with the kinds that `newer` has in their place.
    pub(super) fn updated_by(self, newer: Self) -> Self {
        Self {
            announced: newer.announced.or(self.announced),
            overtaking: newer.overtaking.or(self.overtaking),
            cancelled: newer.cancelled.or(self.cancelled),
        }
    }

    /// The kinds of `self` that differ from those of `seen`; none if all are equal.
    pub(super) fn changed_since(self, seen: &Self) -> Option<Self> {
        let changed = Self {
            announced: self.announced.filter(|_| self.announced != seen.announced),
            overtaking: self.overtaking.filter(|_| self.overtaking != seen.overtaking),
            cancelled: self.cancelled.filter(|_| self.cancelled != seen.cancelled),
        };
        (changed != Self::default()).then_some(changed)
    }
}

/// Bit of the waiting index: the consumer has not seen its cell.
const UNSEEN: usize = 4;

/// The cells and which of them waits; the two sides keep the index of their own.
pub(super) struct ControlLane {
    cells: [UnsafeCell<Control>; 3],
    waiting: AtomicUsize,
}

/// Index of the cell that belongs to one side alone.
pub(super) struct OwnCell(usize);

impl OwnCell {
    pub(super) const PRODUCER: Self = Self(0);
    pub(super) const CONSUMER: Self = Self(1);
}

impl ControlLane {
    pub(super) fn new() -> Self {
        Self {
            cells: core::array::from_fn(|_| UnsafeCell::new(Control::default())),
            waiting: AtomicUsize::new(2),
        }
    }

    /// Makes `value` the newest one.
    ///
    /// # Safety
    /// `own` began as [`OwnCell::PRODUCER`] and nothing else did.
    pub(super) unsafe fn put(&self, own: &mut OwnCell, value: Control) {
        let Some(cell) = self.cells.get(own.0) else { return };
        cell.with_mut(|content| {
            // SAFETY: `own` is this side's alone: it was, or came in exchange for a cell that was.
            unsafe { content.write(value) };
        });
        own.0 = self.waiting.swap(own.0 | UNSEEN, exchange_order()) & !UNSEEN;
    }

    /// Whether there is a value that has not been taken.
    pub(super) fn is_unseen(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) & UNSEEN != 0
    }

    /// The newest value; none if it has been taken before.
    ///
    /// # Safety
    /// `own` began as [`OwnCell::CONSUMER`] and nothing else did.
    pub(super) unsafe fn take(&self, own: &mut OwnCell) -> Option<Control> {
        if !self.is_unseen() {
            return None;
        }
        own.0 = self.waiting.swap(own.0, exchange_order()) & !UNSEEN;
        self.cells.get(own.0).map(|cell| {
            cell.with(|content| {
                // SAFETY: `own` is this side's alone: it came in exchange for a cell that was.
                unsafe { content.read() }
            })
        })
    }
}

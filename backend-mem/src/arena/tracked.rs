use std::vec::Vec;

use slackwater_core::sync::{AtomicUsize, UnsafeCell};

use super::SLOTS;

/// Bytes that a cell stands for: the smallest frame, or a part of a larger one.
const PART: usize = 256;

/// Tells loom who reads and writes which part of an arena, so that it finds a race on frames.
#[derive(Debug)]
pub(super) struct Tracked {
    parts: Vec<UnsafeCell<()>>,
    /// The bits of key groups that are done, a word for each slot.
    done: [[AtomicUsize; 1]; SLOTS],
}

impl Tracked {
    pub(super) fn new(len: usize) -> Self {
        Self {
            parts: (0..len.div_ceil(PART)).map(|_| UnsafeCell::new(())).collect(),
            done: core::array::from_fn(|_| [AtomicUsize::new(0)]),
        }
    }

    pub(super) fn done(&self, slot: usize) -> &[AtomicUsize] {
        self.done.get(slot).map_or(&[], |words| words)
    }

    pub(super) fn read(&self, offset: usize, len: usize) {
        for cell in self.cells(offset, len) {
            cell.with(|_| ());
        }
    }

    pub(super) fn write(&self, offset: usize, len: usize) {
        for cell in self.cells(offset, len) {
            cell.with_mut(|_| ());
        }
    }

    fn cells(&self, offset: usize, len: usize) -> &[UnsafeCell<()>] {
        self.parts.get(offset / PART..(offset + len).div_ceil(PART)).unwrap_or(&[])
    }
}

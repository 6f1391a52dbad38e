use std::vec::Vec;

use slackwater_core::sync::UnsafeCell;

/// Bytes that a cell stands for: the smallest frame, or a part of a larger one.
const PART: usize = 256;

/// Tells loom who reads and writes which part of an arena, so that it finds a race on frames.
#[derive(Debug)]
pub(super) struct Tracked(Vec<UnsafeCell<()>>);

impl Tracked {
    pub(super) fn new(len: usize) -> Self {
        Self((0..len.div_ceil(PART)).map(|_| UnsafeCell::new(())).collect())
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
        self.0.get(offset / PART..(offset + len).div_ceil(PART)).unwrap_or(&[])
    }
}

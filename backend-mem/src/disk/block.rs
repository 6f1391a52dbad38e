//! The blocks a disk lends out.

use core::fmt;
use std::boxed::Box;
use std::sync::Arc;
use std::vec::Vec;

/// A block of 256 KiB, lent by a disk. One that is dropped, not given back, may be lent anew.
pub struct Block {
    bytes: Box<[u8]>,
    /// Counts the blocks that exist.
    _alive: Arc<()>,
}

impl Block {
    const SIZE: usize = 256 << 10;
}

impl AsRef<[u8]> for Block {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl AsMut<[u8]> for Block {
    fn as_mut(&mut self) -> &mut [u8] {
        &mut self.bytes
    }
}

impl fmt::Debug for Block {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Block({} bytes)", self.bytes.len())
    }
}

/// Blocks that are not lent, and the count of all.
pub(super) struct Pool {
    free: Vec<Block>,
    alive: Arc<()>,
}

impl Pool {
    /// Blocks that may exist at a time.
    const BLOCKS_MAX: usize = 16;

    pub(super) fn new() -> Self {
        Self { free: Vec::new(), alive: Arc::new(()) }
    }

    pub(super) fn lend(&mut self) -> Option<Block> {
        if let Some(block) = self.free.pop() {
            return Some(block);
        }
        let blocks = Arc::strong_count(&self.alive) - 1;
        (blocks < Self::BLOCKS_MAX)
            .then(|| Block { bytes: std::vec![0; Block::SIZE].into(), _alive: Arc::clone(&self.alive) })
    }

    pub(super) fn take_back(&mut self, block: Block) {
        self.free.push(block);
    }
}

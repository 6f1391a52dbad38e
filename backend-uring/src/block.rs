//! Memory that a device can read and write directly.

use std::fmt;
use std::io;
use std::sync::Arc;

use memmap2::{Advice, MmapMut};

/// A block lent by a [`UringDisk`](crate::UringDisk). One that is dropped, not given back, may be lent anew.
pub struct Block {
    /// A mapping of its own: it begins at a page, which is aligned enough for every device that direct I/O takes, and
    /// the system can give it huge pages, each of which is one piece to the device.
    bytes: MmapMut,
    /// Counts the blocks that exist.
    _alive: Arc<()>,
}

impl Block {
    fn new(len: usize, alive: Arc<()>) -> io::Result<Self> {
        let bytes = MmapMut::map_anon(len)?;
        // A system without huge pages refuses; no harm.
        #[cfg(target_os = "linux")]
        let _refused = bytes.advise(Advice::HugePage);
        Ok(Self { bytes, _alive: alive })
    }

    /// A block of its own, which belongs to no pool.
    pub(crate) fn copy_of(bytes: &[u8]) -> io::Result<Self> {
        let mut block = Self::new(bytes.len(), Arc::new(()))?;
        block.as_mut().copy_from_slice(bytes);
        Ok(block)
    }
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

/// What direct I/O and the format want lengths to be multiples of.
const ALIGNMENT: usize = 4096;

/// Blocks that are not lent, and the count of all.
#[derive(Debug)]
pub(crate) struct Pool {
    free: Vec<Block>,
    block_size: usize,
    blocks_max: usize,
    alive: Arc<()>,
}

impl Pool {
    pub(crate) fn new(block_size: usize, blocks_max: usize) -> Self {
        let block_size = block_size.max(64 << 10).next_multiple_of(ALIGNMENT);
        Self { free: Vec::new(), block_size, blocks_max: blocks_max.max(1), alive: Arc::new(()) }
    }

    pub(crate) fn lend(&mut self) -> Option<Block> {
        if let Some(block) = self.free.pop() {
            return Some(block);
        }
        let blocks = Arc::strong_count(&self.alive) - 1;
        if blocks >= self.blocks_max {
            return None;
        }
        // Without memory there is no block now; whoever waits for one asks again.
        Block::new(self.block_size, Arc::clone(&self.alive)).ok()
    }

    /// A copy made for one write is not a block of the pool and ends here.
    pub(crate) fn take_back(&mut self, block: Block) {
        if Arc::ptr_eq(&block._alive, &self.alive) {
            self.free.push(block);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_aligned_and_bounded() {
        let mut pool = Pool::new(100_000, 2);
        let (first, second) = (pool.lend().unwrap(), pool.lend().unwrap());
        assert!(pool.lend().is_none());
        for block in [&first, &second] {
            assert_eq!(block.as_ref().as_ptr().align_offset(ALIGNMENT), 0);
            assert_eq!(block.as_ref().len(), 102_400);
        }
        drop(first);
        assert!(pool.lend().is_some(), "a dropped block makes room");
        pool.take_back(second);
        pool.take_back(Block::copy_of(&[1; 10]).unwrap());
        assert_eq!(pool.free.len(), 1);
    }
}

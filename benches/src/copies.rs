//! The least that moving pages costs.

use std::hint::black_box;
use std::io;

use memmap2::MmapMut;

use crate::mappings::map;
use crate::stream::shuffle;

const FRAME_SIZE: usize = 4096;

/// Frames of 4 KiB that are copied to other frames. They are aligned as the heap's own: a copy that crosses pages is
/// several times slower.
#[derive(Debug)]
pub struct Copies {
    from: MmapMut,
    to: MmapMut,
    order: Vec<usize>,
}

impl Copies {
    /// `count` frames to copy, in memory with or without huge pages.
    ///
    /// # Errors
    /// The system has no memory.
    pub fn new(count: usize, huge_pages: bool) -> io::Result<Self> {
        let len = count.max(1) * FRAME_SIZE;
        let (mut from, mut to) = (map(len, huge_pages)?, map(len, huge_pages)?);
        from.fill(1);
        to.fill(2);
        let mut order: Vec<usize> = (0..count).collect();
        shuffle(&mut order);
        Ok(Self { from, to, order })
    }

    /// How many frames there are.
    #[must_use]
    pub const fn count(&self) -> usize {
        self.order.len()
    }

    /// Copies every frame once, from random places to one place after the other.
    pub fn copy_all(&mut self) {
        for (to, from) in self.to.chunks_exact_mut(FRAME_SIZE).zip(&self.order) {
            let start = from * FRAME_SIZE;
            if let Some(from) = self.from.get(start..start + FRAME_SIZE) {
                to.copy_from_slice(from);
            }
        }
        black_box(&self.to);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_frame_is_copied() {
        let mut copies = Copies::new(5, false).unwrap();
        copies.copy_all();
        assert_eq!(copies.count(), 5);
        assert!(copies.to.iter().all(|byte| *byte == 1));
    }
}

//! A sparse image in memory.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::log::Entry;

const BLOCK_LEN: usize = 4096;

/// A sparse image: blocks that were never written are zeros.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    len: u64,
    blocks: BTreeMap<u64, Box<[u8; BLOCK_LEN]>>,
}

impl Image {
    /// An image of zeros.
    pub(super) const fn new(len: u64) -> Self {
        Self { len, blocks: BTreeMap::new() }
    }

    pub(super) fn apply(&mut self, entry: &Entry) {
        match entry {
            Entry::Write { offset, bytes } => self.write(*offset, bytes),
            Entry::Zeros { offset, len } => self.zero(*offset, *len),
            Entry::Flush | Entry::Mark(_) => {}
        }
    }

    pub(super) fn write(&mut self, mut offset: u64, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let (block, within) = place(offset);
            let (now, later) = bytes.split_at(bytes.len().min(BLOCK_LEN - within));
            let block = self.blocks.entry(block).or_insert_with(|| Box::new([0; BLOCK_LEN]));
            block[within..within + now.len()].copy_from_slice(now);
            offset += now.len() as u64;
            bytes = later;
        }
    }

    fn zero(&mut self, offset: u64, len: u64) {
        let end = offset + len;
        let (first, last) = (offset / BLOCK_LEN as u64, end.div_ceil(BLOCK_LEN as u64));
        for (block, bytes) in self.blocks.range_mut(first..last) {
            let start = block * BLOCK_LEN as u64;
            let within = |position: u64| {
                usize::try_from(position.saturating_sub(start))
                    .map_or(BLOCK_LEN, |place| place.min(BLOCK_LEN))
            };
            bytes[within(offset)..within(end)].fill(0);
        }
    }

    /// Writes the image into a new file, zeros left out.
    ///
    /// # Errors
    /// What the system said.
    pub fn write_to(&self, path: &Path) -> io::Result<()> {
        let file = File::create(path)?;
        file.set_len(self.len)?;
        self.blocks
            .iter()
            .try_for_each(|(block, bytes)| file.write_all_at(&bytes[..], block * BLOCK_LEN as u64))
    }

    /// The whole image.
    #[cfg(test)]
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let blocks = 0..self.len / BLOCK_LEN as u64;
        let bytes = blocks.map(|block| self.blocks.get(&block).map_or([0; BLOCK_LEN], |bytes| **bytes));
        bytes.flatten().collect()
    }
}

/// Block, and place in it.
fn place(offset: u64) -> (u64, usize) {
    let within = offset % BLOCK_LEN as u64;
    (offset / BLOCK_LEN as u64, usize::try_from(within).expect("it lies within a block"))
}

#[cfg(test)]
mod tests {
    use super::Image;

    #[test]
    fn writes_and_zeros_cross_blocks() {
        let mut image = Image::new(4 * 4096);
        image.write(4000, &[1; 5000]);
        image.zero(4090, 4106);
        let mut expected = vec![0; 4 * 4096];
        expected[4000..9000].fill(1);
        expected[4090..8196].fill(0);
        assert!(image.to_bytes() == expected);
        image.zero(0, 4 * 4096);
        assert!(image.to_bytes().iter().all(|byte| *byte == 0));
    }
}

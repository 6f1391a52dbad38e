//! Frames on their way into compressed chunks.

use std::vec::Vec;

use slackwater_core::format::segment::{CHUNK_LEN_MAX, ChunkHead, Compression, SegmentHeader};
use zerocopy::IntoBytes;

use super::super::compression::Compressor;

/// Cuts the frames of one key group after the other into chunks.
#[derive(Debug)]
pub(super) struct ChunkWriter {
    compressor: Compressor,
    /// Frames that do not make a whole chunk yet.
    waiting: Vec<u8>,
    /// Chunks of this key group so far.
    count: u32,
    scratch: Vec<u8>,
}

impl ChunkWriter {
    /// For a segment of this compression; none where frames are stored as they are.
    pub(super) fn new(compression: Compression) -> Option<Self> {
        let compressor = match compression {
            Compression::None => return None,
            Compression::Lz4 | Compression::Zstd => Compressor::new(compression),
        };
        Some(Self { compressor, waiting: Vec::new(), count: 0, scratch: Vec::new() })
    }

    /// Takes frames from the front of `frames`, at most those of a chunk, and says how many bytes. When they make a
    /// chunk, it is appended to `out`.
    pub(super) fn take(
        &mut self,
        frames: &[u8],
        (header, group): (&SegmentHeader, u16),
        out: &mut Vec<u8>,
    ) -> usize {
        let room = CHUNK_LEN_MAX - self.waiting.len();
        let taken = frames.get(..room).unwrap_or(frames);
        if taken.len() == CHUNK_LEN_MAX {
            self.push(taken, (header, group), out);
            return taken.len();
        }
        self.waiting.extend_from_slice(taken);
        if self.waiting.len() == CHUNK_LEN_MAX {
            self.flush((header, group), out);
        }
        taken.len()
    }

    /// Appends what waits as a chunk.
    fn flush(&mut self, of: (&SegmentHeader, u16), out: &mut Vec<u8>) {
        let waiting = core::mem::take(&mut self.waiting);
        if !waiting.is_empty() {
            self.push(&waiting, of, out);
        }
        self.waiting = waiting;
        self.waiting.clear();
    }

    /// Ends the key group: what waits is appended as its last chunk.
    pub(super) fn end(&mut self, of: (&SegmentHeader, u16), out: &mut Vec<u8>) {
        self.flush(of, out);
        self.count = 0;
    }

    fn push(&mut self, frames: &[u8], (header, group): (&SegmentHeader, u16), out: &mut Vec<u8>) {
        let stored = self.compressor.compress(frames, &mut self.scratch);
        // At most 64 KiB.
        let raw_len = u32::try_from(frames.len()).unwrap_or(u32::MAX);
        let head = ChunkHead::new(header, group, self.count, raw_len, stored);
        out.extend_from_slice(head.as_bytes());
        out.extend_from_slice(stored);
        self.count += 1;
    }
}

/// The most bytes that the frames of a key group can take in chunks.
pub(super) fn data_len_max(frames: u64, header: &SegmentHeader) -> u64 {
    let len = frames * header.frame_size();
    match header.compression {
        Compression::None => len,
        Compression::Lz4 | Compression::Zstd => {
            len + len.div_ceil(CHUNK_LEN_MAX as u64) * ChunkHead::LEN as u64
        }
    }
}

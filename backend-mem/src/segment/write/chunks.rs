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
    /// Memory for a chunk, and how much of it the newest one has.
    chunk: Vec<u8>,
    chunk_len: usize,
}

impl ChunkWriter {
    /// For a segment of this compression; none where frames are stored as they are.
    pub(super) fn new(compression: Compression) -> Option<Self> {
        let compressor = match compression {
            Compression::None => return None,
            Compression::Lz4 | Compression::Zstd => Compressor::new(compression),
        };
        Some(Self { compressor, waiting: Vec::new(), count: 0, chunk: Vec::new(), chunk_len: 0 })
    }

    /// The most bytes that a chunk can take while it is made.
    pub(super) fn len_max(&self) -> usize {
        ChunkHead::LEN + self.compressor.len_max(CHUNK_LEN_MAX)
    }

    /// The chunk that the last call has made, if it was not made in place; otherwise nothing.
    pub(super) fn chunk(&self) -> &[u8] {
        self.chunk.get(..self.chunk_len).unwrap_or_default()
    }

    /// Takes frames from the front of `frames`, at most those of a chunk. They may make a [chunk](Self::chunk); it is
    /// made in `spare` if that is [long enough](Self::len_max).
    pub(super) fn take(&mut self, frames: &[u8], of: (&SegmentHeader, u16), spare: &mut [u8]) -> Taken {
        self.chunk_len = 0;
        let room = CHUNK_LEN_MAX - self.waiting.len();
        let taken = frames.get(..room).unwrap_or(frames);
        if taken.len() == CHUNK_LEN_MAX {
            return Taken { frames: taken.len(), in_place: self.make(taken, of, spare) };
        }
        self.waiting.extend_from_slice(taken);
        let is_whole = self.waiting.len() == CHUNK_LEN_MAX;
        Taken { frames: taken.len(), in_place: if is_whole { self.flush(of, spare) } else { 0 } }
    }

    /// Ends the key group: what waits makes its last [chunk](Self::chunk).
    pub(super) fn end(&mut self, of: (&SegmentHeader, u16)) {
        self.chunk_len = 0;
        self.flush(of, &mut []);
        self.count = 0;
    }

    /// Makes a chunk of what waits.
    fn flush(&mut self, of: (&SegmentHeader, u16), spare: &mut [u8]) -> usize {
        let waiting = core::mem::take(&mut self.waiting);
        let in_place = if waiting.is_empty() { 0 } else { self.make(&waiting, of, spare) };
        self.waiting = waiting;
        self.waiting.clear();
        in_place
    }

    /// Makes a chunk, in `spare` or else in memory of its own, and says how much of `spare` it has taken.
    fn make(&mut self, frames: &[u8], of: (&SegmentHeader, u16), spare: &mut [u8]) -> usize {
        let len_max = self.len_max();
        if spare.len() >= len_max {
            return self.make_in(frames, of, spare);
        }
        let mut chunk = core::mem::take(&mut self.chunk);
        chunk.resize(len_max, 0);
        self.chunk_len = self.make_in(frames, of, &mut chunk);
        self.chunk = chunk;
        0
    }

    fn make_in(&mut self, frames: &[u8], (header, group): (&SegmentHeader, u16), room: &mut [u8]) -> usize {
        let Some((head, room)) = room.split_at_mut_checked(ChunkHead::LEN) else { return 0 };
        let stored = self.compressor.compress(frames, room);
        // At most 64 KiB.
        let raw_len = u32::try_from(frames.len()).unwrap_or(u32::MAX);
        head.copy_from_slice(ChunkHead::new(header, group, self.count, raw_len, stored).as_bytes());
        self.count += 1;
        ChunkHead::LEN + stored.len()
    }
}

/// What became of frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Taken {
    /// Bytes of frames that were taken.
    pub(super) frames: usize,
    /// Bytes of a chunk that was made in place.
    pub(super) in_place: usize,
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

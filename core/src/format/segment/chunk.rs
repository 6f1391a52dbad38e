use zerocopy::little_endian::U32;
use zerocopy::{FromBytes, IntoBytes};

use super::super::checksum::{Checksum, PART_CHUNK};
use super::super::error::{FormatError, corrupt, expect_eq, expect_within};
use super::super::layout::layout;
use super::{KeyGroupRow, SegmentHeader};

/// The most bytes of frames in a chunk.
pub const CHUNK_LEN_MAX: usize = 64 * 1024;

layout! {
    /// Begins a chunk: frames of one key group, compressed together. The stored bytes follow.
    pub struct ChunkHead {
        /// Bytes of the frames: a multiple of the frame size, at most [`CHUNK_LEN_MAX`].
        pub raw_len: U32,
        /// Bytes that are stored, at most `raw_len`; as many when the frames lie there as they are.
        pub stored_len: U32,
        /// Of the bytes before it and of the stored ones.
        pub checksum: U32,
    }
}

impl ChunkHead {
    /// Of chunk `number` of a key group, counted from 0.
    #[must_use]
    pub fn new(header: &SegmentHeader, key_group: u16, number: u32, raw_len: u32, stored: &[u8]) -> Self {
        // More than a chunk may have is no chunk: a reader refuses it.
        let stored_len = u32::try_from(stored.len()).unwrap_or(u32::MAX);
        let mut head =
            Self { raw_len: U32::new(raw_len), stored_len: U32::new(stored_len), checksum: U32::new(0) };
        head.checksum = U32::new(head.sum(header, key_group, number, stored));
        head
    }

    /// What the checksum should be.
    #[must_use]
    pub fn sum(&self, header: &SegmentHeader, key_group: u16, number: u32, stored: &[u8]) -> u32 {
        let identity = header.identity(PART_CHUNK).of_key_group(key_group).of_page(0, number);
        let mut checksum = Checksum::new(&identity);
        checksum.update(self.raw_len.as_bytes());
        checksum.update(self.stored_len.as_bytes());
        checksum.update(stored);
        checksum.get()
    }
}

/// A chunk, checked but for what its bytes decode to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chunk<'a> {
    /// Bytes of the frames: at least one frame, at most [`CHUNK_LEN_MAX`].
    pub raw_len: usize,
    /// The stored bytes.
    pub stored: &'a [u8],
    /// Where these begin in the file.
    pub offset: u64,
}

impl Chunk<'_> {
    /// Whether the frames are stored as they are.
    #[must_use]
    pub const fn is_plain(&self) -> bool {
        self.stored.len() == self.raw_len
    }
}

/// Iterator over the chunks of a key group. Ends behind the last frame, or with an error.
#[derive(Clone, Debug)]
pub struct Chunks<'a> {
    header: &'a SegmentHeader,
    row: &'a KeyGroupRow,
    bytes: &'a [u8],
    /// Bytes behind the chunks so far.
    rest: &'a [u8],
    number: u32,
    /// Bytes of frames that are still to come.
    raw_left: u64,
}

impl<'a> Chunks<'a> {
    /// Of the key group that the footer's `row` speaks of; `bytes` is its data.
    #[must_use]
    pub fn new(bytes: &'a [u8], header: &'a SegmentHeader, row: &'a KeyGroupRow) -> Self {
        let raw_left = u64::from(row.frame_count.get()).saturating_mul(header.frame_size());
        Self { header, row, bytes, rest: bytes, number: 0, raw_left }
    }

    fn at(&self) -> usize {
        self.bytes.len().saturating_sub(self.rest.len())
    }

    fn split(&mut self) -> Result<Chunk<'a>, FormatError> {
        let at = self.at();
        let Ok((head, rest)) = ChunkHead::ref_from_prefix(self.rest) else {
            return Err(corrupt("length of a chunk", at, ChunkHead::LEN as u64, self.rest.len() as u64));
        };
        let raw_len = u64::from(head.raw_len.get());
        let raw_max = self.raw_left.min(CHUNK_LEN_MAX as u64);
        expect_within("length of a chunk's frames", at, (self.header.frame_size(), raw_max), raw_len)?;
        let beyond = raw_len.checked_rem(self.header.frame_size()).unwrap_or(0);
        expect_eq("bytes of a chunk behind its last frame", at, 0, beyond)?;
        let stored_len = u64::from(head.stored_len.get());
        let stored_max = raw_len.min(rest.len() as u64);
        expect_within("length of a chunk's stored bytes", at.saturating_add(4), (1, stored_max), stored_len)?;
        let cut = || corrupt("length of a chunk", at, stored_len, rest.len() as u64);
        let (stored, behind) =
            usize::try_from(stored_len).ok().and_then(|len| rest.split_at_checked(len)).ok_or_else(cut)?;
        let found = head.sum(self.header, self.row.key_group.get(), self.number, stored);
        expect_eq("checksum of a chunk", at.saturating_add(8), head.checksum.get().into(), found.into())?;

        self.rest = behind;
        self.number = self.number.saturating_add(1);
        self.raw_left = self.raw_left.saturating_sub(raw_len);
        let offset = self.row.data_offset.get().saturating_add(at.saturating_add(ChunkHead::LEN) as u64);
        Ok(Chunk { raw_len: usize::try_from(raw_len).unwrap_or(0), stored, offset })
    }

    fn step(&mut self) -> Option<Result<Chunk<'a>, FormatError>> {
        match (self.raw_left, self.rest.len()) {
            (0, 0) => None,
            (0, left) => Some(Err(corrupt("bytes behind the chunks", self.at(), 0, left as u64))),
            (..) => Some(self.split()),
        }
    }
}

impl<'a> Iterator for Chunks<'a> {
    type Item = Result<Chunk<'a>, FormatError>;

    fn next(&mut self) -> Option<Self::Item> {
        let chunk = self.step()?;
        Some(chunk.map_err(|error| {
            (self.rest, self.raw_left) = (&[], 0);
            error.within(self.row.data_offset.get())
        }))
    }
}

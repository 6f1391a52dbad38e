use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, IntoBytes};

use super::super::checksum::{Identity, PART_HEADER};
use super::super::error::{FormatError, corrupt, expect_eq, expect_magic, expect_within, expect_zero};
use super::super::layout::layout;
use super::super::{VERSION, VERSION_MIN, page};
use super::{BLOCK_SIZE_MAX, BLOCK_SIZE_MIN, Compression, SEGMENT_MAGIC};
use crate::key_group::{KeyGroup, KeyGroupRange};

layout! {
    /// The start of block 0; the rest of the block is zero.
    pub struct SegmentHeaderLayout {
        /// [`SEGMENT_MAGIC`].
        pub magic: [u8; 8],
        /// [`VERSION`].
        pub version: U16,
        /// None is defined: 0.
        pub flags: U16,
        /// Logarithm of the block size.
        pub block_size_log2: u8,
        /// Logarithm of the frame size.
        pub frame_size_log2: u8,
        /// How the frames are stored: the number of a [`Compression`].
        pub compression: u8,
        /// 0.
        pub reserved: u8,
        /// The file's own id.
        pub file_id: [u8; 16],
        /// The job.
        pub job_id: [u8; 16],
        /// The checkpoint it was written for.
        pub checkpoint: U64,
        /// The heap's epoch whose state this is.
        pub epoch: U64,
        /// The checkpoint that deltas build on: 0, there are none.
        pub base_checkpoint: U64,
        /// The attempt of the subtask.
        pub attempt: U64,
        /// Seed of the hash that places keys in pages.
        pub hash_seed: U64,
        /// The subtask's index within its operators.
        pub subtask: U32,
        /// The number of key groups of the job.
        pub max_parallelism: U32,
        /// The first key group of the subtask.
        pub first_key_group: U16,
        /// The last one.
        pub last_key_group: U16,
        /// 0.
        pub reserved2: [u8; 24],
        /// Of the bytes before it.
        pub checksum: U32,
    }
}

/// What a segment is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentHeader {
    /// Logarithm of the block size: 9 to 16.
    pub block_size_log2: u8,
    /// Logarithm of the frame size: 8 to 14.
    pub frame_size_log2: u8,
    /// How the frames are stored.
    pub compression: Compression,
    /// The file's own id.
    pub file_id: u128,
    /// The job.
    pub job_id: u128,
    /// The checkpoint it was written for.
    pub checkpoint: u64,
    /// The heap's epoch whose state this is.
    pub epoch: u64,
    /// The attempt of the subtask.
    pub attempt: u64,
    /// Seed of the hash that places keys in pages.
    pub hash_seed: u64,
    /// The subtask's index within its operators.
    pub subtask: u32,
    /// The number of key groups of the job, 1 to 32768.
    pub max_parallelism: u32,
    /// The key groups of the subtask.
    pub key_groups: KeyGroupRange,
}

impl SegmentHeader {
    /// Block size in bytes.
    #[must_use]
    pub fn block_size(&self) -> u64 {
        1_u64.checked_shl(u32::from(self.block_size_log2)).unwrap_or(0)
    }

    /// Frame size in bytes.
    #[must_use]
    pub fn frame_size(&self) -> u64 {
        1_u64.checked_shl(u32::from(self.frame_size_log2)).unwrap_or(0)
    }

    /// Where frame `frame_no` begins in the file, if frames are stored as they are.
    #[must_use]
    pub fn offset_of_frame(&self, frame_no: u64) -> u64 {
        self.block_size().saturating_add(frame_no.saturating_mul(self.frame_size()))
    }

    /// The identity of a part of this segment.
    #[must_use]
    pub const fn identity(&self, part: u8) -> Identity {
        Identity::new(part, self.file_id, self.epoch)
    }

    /// The bytes at the start of block 0, checksum included.
    #[must_use]
    pub fn encode(&self) -> SegmentHeaderLayout {
        let mut raw = SegmentHeaderLayout {
            magic: SEGMENT_MAGIC,
            version: U16::new(VERSION),
            flags: U16::new(0),
            block_size_log2: self.block_size_log2,
            frame_size_log2: self.frame_size_log2,
            compression: self.compression.number(),
            reserved: 0,
            file_id: self.file_id.to_le_bytes(),
            job_id: self.job_id.to_le_bytes(),
            checkpoint: U64::new(self.checkpoint),
            epoch: U64::new(self.epoch),
            base_checkpoint: U64::new(0),
            attempt: U64::new(self.attempt),
            hash_seed: U64::new(self.hash_seed),
            subtask: U32::new(self.subtask),
            max_parallelism: U32::new(self.max_parallelism),
            first_key_group: U16::new(self.key_groups.first.0),
            last_key_group: U16::new(self.key_groups.last.0),
            reserved2: [0; 24],
            checksum: U32::new(0),
        };
        raw.checksum = U32::new(raw.sum());
        raw
    }

    /// Reads the header from block 0, or from as much of it as the caller has.
    ///
    /// Whatever of the block lies behind the header must be zero.
    ///
    /// # Errors
    /// `Corrupt`, or `Unsupported` for a newer version, for deltas, and for a compression that is not known.
    pub fn parse(block: &[u8]) -> Result<Self, FormatError> {
        let len_min = SegmentHeaderLayout::LEN as u64;
        let Ok((raw, _)) = SegmentHeaderLayout::ref_from_prefix(block) else {
            return Err(corrupt("length of the segment header", 0, len_min, block.len() as u64));
        };
        raw.check()?;
        let header = raw.header();
        let in_block = usize::try_from(header.block_size()).unwrap_or(usize::MAX).min(block.len());
        let padding = block.get(SegmentHeaderLayout::LEN..in_block).unwrap_or(&[]);
        expect_zero("padding of the header block", SegmentHeaderLayout::LEN, padding)?;
        Ok(header)
    }
}

impl SegmentHeaderLayout {
    fn sum(&self) -> u32 {
        let bytes = self.as_bytes();
        let identity = Identity::new(PART_HEADER, u128::from_le_bytes(self.file_id), self.epoch.get());
        identity.checksum(bytes.get(..Self::LEN.saturating_sub(4)).unwrap_or(&[]))
    }

    /// The version comes first: what a newer one means by the rest is not known.
    fn check(&self) -> Result<(), FormatError> {
        expect_magic("magic of a segment", 0, SEGMENT_MAGIC, self.magic)?;
        let version = self.version.get();
        let as_of_ours = Self { version: U16::new(VERSION), ..*self };
        // Where the checksum fits with our version, the number is what is damaged.
        if version > VERSION && as_of_ours.sum() != self.checksum.get() {
            return Err(FormatError::Unsupported { what: "version of a segment", value: u64::from(version) });
        }
        expect_within("version of a segment", 8, (VERSION_MIN.into(), VERSION.into()), version.into())?;
        let at = Self::LEN.saturating_sub(4);
        expect_eq("checksum of the segment header", at, u64::from(self.sum()), self.checksum.get().into())?;
        if Compression::from_number(self.compression).is_none() {
            return Err(FormatError::Unsupported { what: "compression", value: self.compression.into() });
        }
        if self.base_checkpoint.get() != 0 {
            return Err(FormatError::Unsupported {
                what: "delta on checkpoint",
                value: self.base_checkpoint.get(),
            });
        }
        self.check_ranges()
    }

    fn check_ranges(&self) -> Result<(), FormatError> {
        expect_eq("segment flags", 10, 0, u64::from(self.flags.get()))?;
        expect_eq("reserved byte of the segment header", 15, 0, u64::from(self.reserved))?;
        expect_zero("reserved bytes of the segment header", 100, &self.reserved2)?;
        let log2 = |size: usize| u64::from(size.trailing_zeros());
        let blocks = (log2(BLOCK_SIZE_MIN), log2(BLOCK_SIZE_MAX));
        expect_within("block size", 12, blocks, u64::from(self.block_size_log2))?;
        let frames = (log2(page::FRAME_SIZE_MIN), log2(page::FRAME_SIZE_MAX));
        expect_within("frame size", 13, frames, u64::from(self.frame_size_log2))?;
        let groups = u64::from(self.max_parallelism.get());
        expect_within("max parallelism", 92, (1, 1 << 15), groups)?;
        let last = u64::from(self.last_key_group.get());
        expect_within("last key group", 98, (0, groups.saturating_sub(1)), last)?;
        expect_within("first key group", 96, (0, last), u64::from(self.first_key_group.get()))
    }

    fn header(&self) -> SegmentHeader {
        SegmentHeader {
            block_size_log2: self.block_size_log2,
            frame_size_log2: self.frame_size_log2,
            compression: Compression::from_number(self.compression).unwrap_or_default(),
            file_id: u128::from_le_bytes(self.file_id),
            job_id: u128::from_le_bytes(self.job_id),
            checkpoint: self.checkpoint.get(),
            epoch: self.epoch.get(),
            attempt: self.attempt.get(),
            hash_seed: self.hash_seed.get(),
            subtask: self.subtask.get(),
            max_parallelism: self.max_parallelism.get(),
            key_groups: KeyGroupRange {
                first: KeyGroup(self.first_key_group.get()),
                last: KeyGroup(self.last_key_group.get()),
            },
        }
    }
}

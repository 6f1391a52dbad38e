use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, IntoBytes};

use super::super::checksum::{Identity, PART_TRAILER};
use super::super::error::{FormatError, corrupt, expect_eq, expect_magic, expect_within};
use super::super::layout::layout;
use super::super::{VERSION, VERSION_MIN};
use super::{SegmentHeader, TRAILER_MAGIC};

layout! {
    /// The last bytes of a segment.
    pub struct SegmentTrailerLayout {
        /// [`TRAILER_MAGIC`].
        pub magic: [u8; 8],
        /// [`VERSION`].
        pub version: U16,
        /// 0.
        pub reserved: U16,
        /// Checksum of the footer.
        pub footer_checksum: U32,
        /// Where the footer begins.
        pub footer_offset: U64,
        /// Length of the footer.
        pub footer_len: U64,
        /// Length of the file.
        pub file_len: U64,
        /// The file's own id.
        pub file_id: [u8; 16],
        /// 0.
        pub reserved2: U32,
        /// Of the bytes before it.
        pub checksum: U32,
    }
}

/// Where the footer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentTrailer {
    /// Checksum of the footer.
    pub footer_checksum: u32,
    /// Where the footer begins.
    pub footer_offset: u64,
    /// Length of the footer.
    pub footer_len: u64,
    /// Length of the file.
    pub file_len: u64,
    /// The file's own id.
    pub file_id: u128,
}

impl SegmentTrailer {
    /// Length of a file whose footer lies there: the next multiple of the block size that leaves room for
    /// the trailer.
    #[must_use]
    pub fn file_len(footer_offset: u64, footer_len: u64, header: &SegmentHeader) -> u64 {
        let end = footer_offset.saturating_add(footer_len).saturating_add(SegmentTrailerLayout::LEN as u64);
        end.checked_next_multiple_of(header.block_size()).unwrap_or(u64::MAX)
    }

    /// The bytes at the end of the file, checksum included.
    #[must_use]
    pub fn encode(&self) -> SegmentTrailerLayout {
        let mut raw = SegmentTrailerLayout {
            magic: TRAILER_MAGIC,
            version: U16::new(VERSION),
            reserved: U16::new(0),
            footer_checksum: U32::new(self.footer_checksum),
            footer_offset: U64::new(self.footer_offset),
            footer_len: U64::new(self.footer_len),
            file_len: U64::new(self.file_len),
            file_id: self.file_id.to_le_bytes(),
            reserved2: U32::new(0),
            checksum: U32::new(0),
        };
        raw.checksum = U32::new(raw.sum());
        raw
    }

    /// Reads the trailer from the end of `tail`, the last bytes of a file of `file_len` bytes.
    ///
    /// # Errors
    /// `Corrupt`, or `Unsupported` for a newer version.
    pub fn parse(tail: &[u8], file_len: u64) -> Result<Self, FormatError> {
        let Ok((_, raw)) = SegmentTrailerLayout::ref_from_suffix(tail) else {
            let len_min = SegmentTrailerLayout::LEN as u64;
            return Err(corrupt("length of the trailer", 0, len_min, tail.len() as u64));
        };
        let base = file_len.saturating_sub(SegmentTrailerLayout::LEN as u64);
        raw.check(file_len).map_err(|error| error.within(base))?;
        Ok(Self {
            footer_checksum: raw.footer_checksum.get(),
            footer_offset: raw.footer_offset.get(),
            footer_len: raw.footer_len.get(),
            file_len,
            file_id: u128::from_le_bytes(raw.file_id),
        })
    }
}

impl SegmentTrailerLayout {
    fn sum(&self) -> u32 {
        let bytes = self.as_bytes();
        let identity = Identity::new(PART_TRAILER, u128::from_le_bytes(self.file_id), 0);
        identity.checksum(bytes.get(..Self::LEN.saturating_sub(4)).unwrap_or(&[]))
    }

    fn check(&self, file_len: u64) -> Result<(), FormatError> {
        expect_magic("magic of a trailer", 0, TRAILER_MAGIC, self.magic)?;
        let version = self.version.get();
        let as_of_ours = Self { version: U16::new(VERSION), ..*self };
        // Where the checksum fits with our version, the number is what is damaged.
        if version > VERSION && as_of_ours.sum() != self.checksum.get() {
            return Err(FormatError::Unsupported { what: "version of a trailer", value: u64::from(version) });
        }
        expect_within("version of a trailer", 8, (VERSION_MIN.into(), VERSION.into()), version.into())?;
        expect_eq("checksum of the trailer", 60, u64::from(self.sum()), self.checksum.get().into())?;
        expect_eq("reserved field of the trailer", 10, 0, u64::from(self.reserved.get()))?;
        expect_eq("reserved field of the trailer", 56, 0, u64::from(self.reserved2.get()))?;
        expect_eq("length of the file", 32, file_len, self.file_len.get())?;
        let before = file_len.checked_sub(Self::LEN as u64);
        let end = self.footer_offset.get().checked_add(self.footer_len.get());
        match (before, end) {
            (Some(before), Some(end)) if end <= before => Ok(()),
            _ => Err(corrupt(
                "end of the footer",
                16,
                before.unwrap_or(0),
                self.footer_offset.get().saturating_add(self.footer_len.get()),
            )),
        }
    }
}

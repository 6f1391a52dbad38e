use zerocopy::FromBytes;

use super::super::error::{FormatError, corrupt, expect_eq, expect_within, expect_zero};
use super::{NO_PAGE, OVERFLOW_BYTES_OFFSET, OverflowHead, PageHeader};

/// A page of an overflow chain.
#[derive(Clone, Copy, Debug)]
pub struct OverflowPage<'a> {
    header: &'a PageHeader,
    head: &'a OverflowHead,
    bytes: &'a [u8],
}

impl<'a> OverflowPage<'a> {
    pub(super) fn parse(frame: &'a [u8], header: &'a PageHeader) -> Result<Self, FormatError> {
        // Slots, depth, prefix, top and garbage belong to hash pages.
        expect_zero("slots of an overflow page", 4, frame.get(4..8).unwrap_or(&[]))?;
        expect_eq("local depth of an overflow page", 10, 0, u64::from(header.local_depth))?;
        expect_eq("hash prefix of an overflow page", 16, 0, header.hash_prefix.get())?;
        expect_zero("top of an overflow page", 36, frame.get(36..40).unwrap_or(&[]))?;
        expect_zero("next hash page of an overflow page", 44, frame.get(44..48).unwrap_or(&[]))?;
        let body = frame.get(PageHeader::LEN..).unwrap_or(&[]);
        let Ok((head, bytes)) = OverflowHead::ref_from_prefix(body) else {
            return Err(corrupt("frame size", 0, OVERFLOW_BYTES_OFFSET as u64, frame.len() as u64));
        };
        let len = head.len.get();
        expect_within("bytes in an overflow page", 68, (1, bytes.len() as u64), u64::from(len))?;
        let bytes = bytes.get(..len as usize).unwrap_or(&[]);
        Ok(Self { header, head, bytes })
    }

    /// The header.
    #[must_use]
    pub const fn header(&self) -> &'a PageHeader {
        self.header
    }

    /// The next page of the chain, if this is not the last.
    #[must_use]
    pub const fn next_lpn(&self) -> Option<u32> {
        match self.head.next_lpn.get() {
            NO_PAGE => None,
            lpn => Some(lpn),
        }
    }

    /// The part of the key or value that lies here.
    #[must_use]
    pub const fn bytes(&self) -> &'a [u8] {
        self.bytes
    }
}

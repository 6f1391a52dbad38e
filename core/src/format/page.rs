//! Pages: the heap's memory image of a page is its image on disk.
//!
//! A page fills one frame, 256 bytes to 16 KiB, a power of two. A hash page holds whole records, an ordered
//! page is a node of a tree; a key or a value that does not fit inline lies in a chain of overflow pages. A page is named by its logical page
//! number (lpn), unique within its state and key group; pages refer to each other by it alone.

use zerocopy::FromBytes;
use zerocopy::little_endian::{U16, U32, U64};

use super::error::{FormatError, corrupt, expect_eq, expect_within, expect_zero};
use super::layout::layout;

mod hash;
mod overflow;
#[cfg(test)]
mod tests;
mod tree;

pub use hash::{Content, HashPage, Record, Records};
pub use overflow::OverflowPage;
pub use tree::{
    TREE_ENTRY_LEN_MIN, TREE_HINTS, TREE_HINTS_FRAME_SIZE_MIN, TREE_LEVELS_MAX, TreeEntry, TreeKey, TreePage,
    TreeRecordHead, TreeSlot, tree_entry_len_max, tree_head, tree_head_padded, tree_hint_distance,
    tree_key_len_max, tree_slots_offset,
};

/// The smallest frame in bytes.
pub const FRAME_SIZE_MIN: usize = 256;
/// The largest frame in bytes.
pub const FRAME_SIZE_MAX: usize = 16 * 1024;
/// The longest key in bytes.
pub const KEY_LEN_MAX: usize = 16 * 1024 * 1024;
/// The longest value in bytes.
pub const VALUE_LEN_MAX: usize = 64 * 1024 * 1024;
/// The lpn that names no page: the end of a chain.
pub const NO_PAGE: u32 = u32::MAX;
/// The version of the page layouts.
pub const PAGE_FORMAT: u8 = 1;
/// [`PageHeader::page_type`] of a hash page whose records all have the same size.
pub const PAGE_TYPE_HASH_FIXED: u16 = 1;
/// [`PageHeader::page_type`] of a hash page with records of any size.
pub const PAGE_TYPE_HASH: u16 = 2;
/// [`PageHeader::page_type`] of an ordered page with entries.
pub const PAGE_TYPE_LEAF: u16 = 3;
/// [`PageHeader::page_type`] of an ordered page with children.
pub const PAGE_TYPE_INNER: u16 = 4;
/// [`PageHeader::page_type`] of a page of an overflow chain.
pub const PAGE_TYPE_OVERFLOW: u16 = 5;

/// Tag of an empty slot (bit 7 apart).
pub const TAG_EMPTY: u8 = 0;
/// Largest fingerprint; fingerprints are 1 to 126.
pub const FINGERPRINT_MAX: u8 = 126;
/// Tag of the bytes behind the last slot, up to a multiple of 16.
pub const TAG_PADDING: u8 = 127;
/// The bits of a tag without its dirty bit.
pub const TAG_MASK: u8 = 0x7f;
/// Bit of a tag: the slot has changed since the snapshot [`PageHeader::delta_base`].
pub const TAG_DIRTY: u8 = 0x80;

/// Bit of a record's lengths: in place of the bytes stands an [`OverflowRef`], whose size the length then gives.
pub const LEN_OVERFLOW: u16 = 0x8000;
/// The bits of a record's lengths that count the bytes in the page.
pub const LEN_MASK: u16 = 0x7fff;

layout! {
    /// The first 64 bytes of every page.
    pub struct PageHeader {
        /// One of the `PAGE_TYPE_` numbers.
        pub page_type: U16,
        /// [`PAGE_FORMAT`].
        pub format: u8,
        /// Logarithm of the frame size.
        pub frame_size_log2: u8,
        /// Slots of a hash page or an ordered page; 0 in an overflow page.
        pub n_slots: U16,
        /// Slots in use; 0 in an overflow page.
        pub n_used: U16,
        /// Bytes of a record of a page with records of one size; 0 in others.
        pub stride: U16,
        /// How many leading bits of the hash all records share; levels above the leaves in an ordered page; 0 in an
        /// overflow page.
        pub local_depth: u8,
        /// None is defined: 0.
        pub flags: u8,
        /// The state, as the segment's registry numbers it.
        pub state_id: U16,
        /// The key group.
        pub key_group: U16,
        /// The shared bits of the hash, left-aligned; the others are 0, and all of them but in a hash page.
        pub hash_prefix: U64,
        /// The page's name.
        pub lpn: U32,
        /// The snapshot that the dirty bits are relative to.
        pub delta_base: U32,
        /// The epoch in which the page was last changed; at most the segment's.
        pub epoch: U32,
        /// Offset of the lowest record of any size; when there is none, where records end. 0 in other pages.
        pub heap_top: U16,
        /// Bytes above `heap_top` that belong to no record; 0 in other pages.
        pub garbage: U16,
        /// First child of an inner page; 0 in all others.
        pub left_lpn: U32,
        /// The hash page behind this one with the same prefix, for hashes too much alike to be split; 0 for none.
        /// 0 in other pages.
        pub right_lpn: U32,
        /// 0.
        pub fence_lo: U16,
        /// 0.
        pub fence_hi: U16,
        /// Bytes at the end of an ordered page with which all its keys begin; 0 in other pages.
        pub prefix_len: U16,
        /// Bytes of a key of a page with records of one size; 0 in others.
        pub key_width: U16,
        /// 0.
        pub reserved: [u8; 8],
    }
}

layout! {
    /// Stands before each record of a hash page; the key's bytes follow, then the value's.
    pub struct RecordHead {
        /// Bytes of the key in the page, and [`LEN_OVERFLOW`].
        pub key_len: U16,
        /// Bytes of the value in the page, and [`LEN_OVERFLOW`].
        pub value_len: U16,
    }
}

layout! {
    /// Stands in a record for a key or a value that lies in an overflow chain.
    pub struct OverflowRef {
        /// The first page of the chain.
        pub first_lpn: U32,
        /// Bytes in the whole chain.
        pub len: U32,
        /// For a key: its 64-bit hash, so that a different key is told apart without the chain. For a value of a
        /// hash page: 0, or the last page of the chain, so that its end is found without the chain.
        pub digest: U64,
    }
}

layout! {
    /// Follows the header of an overflow page; the bytes follow it.
    pub struct OverflowHead {
        /// The next page of the chain, or [`NO_PAGE`].
        pub next_lpn: U32,
        /// Bytes of the chain that lie in this page.
        pub len: U32,
    }
}

/// Offset of the tags in a hash page.
pub const TAGS_OFFSET: usize = PageHeader::LEN;
/// Offset of the bytes in an overflow page.
pub const OVERFLOW_BYTES_OFFSET: usize = PageHeader::LEN + OverflowHead::LEN;

/// The most bytes that key and value together may take inline: a quarter of the frame. Above it the value
/// goes to a chain; if key and reference are still too much, the key goes too, and then the value stays
/// inline if it fits beside the key's reference.
#[must_use]
pub const fn inline_len_max(frame_size: usize) -> usize {
    frame_size / 4
}

/// Length of the tags of a hash page: one byte for each slot, rounded up to 16.
#[must_use]
pub const fn tags_len(n_slots: usize) -> usize {
    n_slots.saturating_add(15) & !15
}

/// Offset in a hash page of what stands behind the tags: the record offsets, a `u16` for each slot, or, if all
/// records have the same size, the records themselves.
#[must_use]
pub const fn offs_offset(n_slots: usize) -> usize {
    TAGS_OFFSET.saturating_add(tags_len(n_slots))
}

/// Offset of the first byte behind the record offsets: records may not start below it.
#[must_use]
pub const fn records_offset_min(n_slots: usize) -> usize {
    offs_offset(n_slots).saturating_add(n_slots.saturating_mul(2))
}

/// How many slots of `stride` bytes, with their tags, fit in a frame.
#[must_use]
pub const fn fixed_slots_max(frame_size: usize, stride: usize) -> usize {
    let room = frame_size.saturating_sub(TAGS_OFFSET);
    let Some(mut slots) = room.checked_div(stride.saturating_add(1)) else { return 0 };
    while slots > 0 && offs_offset(slots).saturating_add(slots.saturating_mul(stride)) > frame_size {
        slots = slots.saturating_sub(1);
    }
    slots
}

/// The fingerprint that a key's 64-bit hash puts into its tag: 1 to 126, from the hash's bits 32 to 38.
#[must_use]
pub const fn fingerprint(hash: u64) -> u8 {
    let bits = ((hash >> 32) & 0x7f) as u8;
    (bits % FINGERPRINT_MAX).saturating_add(1)
}

/// A page of any kind, over the caller's bytes.
#[derive(Clone, Copy, Debug)]
pub enum PageView<'a> {
    /// A hash page.
    Hash(HashPage<'a>),
    /// An ordered page, a leaf or an inner one.
    Tree(TreePage<'a>),
    /// A page of an overflow chain.
    Overflow(OverflowPage<'a>),
}

impl<'a> PageView<'a> {
    /// Checks everything about a page but its records, which are checked as they are visited.
    ///
    /// `frame` is the whole frame. Work is bounded by the number of slots.
    ///
    /// # Errors
    /// `Corrupt` for bytes that are no page, `Unsupported` for a kind or version of page this build cannot read.
    pub fn parse(frame: &'a [u8]) -> Result<Self, FormatError> {
        let header = parse_header(frame)?;
        match header.page_type.get() {
            PAGE_TYPE_HASH_FIXED | PAGE_TYPE_HASH => HashPage::parse(frame, header).map(Self::Hash),
            PAGE_TYPE_OVERFLOW => OverflowPage::parse(frame, header).map(Self::Overflow),
            PAGE_TYPE_LEAF | PAGE_TYPE_INNER => TreePage::parse(frame, header).map(Self::Tree),
            other => Err(corrupt("page type", 0, u64::from(PAGE_TYPE_HASH), u64::from(other))),
        }
    }

    /// The header.
    #[must_use]
    pub const fn header(&self) -> &'a PageHeader {
        match self {
            Self::Hash(page) => page.header(),
            Self::Tree(page) => page.header(),
            Self::Overflow(page) => page.header(),
        }
    }

    /// Checks every record, and that records do not take more room than there is.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn check(&self) -> Result<(), FormatError> {
        match self {
            Self::Hash(page) => page.check(),
            Self::Tree(page) => page.check(),
            Self::Overflow(_) => Ok(()),
        }
    }
}

/// The header of a frame, with what all kinds of pages have in common checked.
fn parse_header(frame: &[u8]) -> Result<&PageHeader, FormatError> {
    let found = frame.len() as u64;
    expect_within("frame size", 0, (FRAME_SIZE_MIN as u64, FRAME_SIZE_MAX as u64), found)?;
    let Ok((header, _)) = PageHeader::ref_from_prefix(frame) else {
        return Err(corrupt("frame size", 0, FRAME_SIZE_MIN as u64, found));
    };
    let size = 1_u64.checked_shl(u32::from(header.frame_size_log2)).unwrap_or(0);
    expect_eq("frame size of the page", 3, found, size)?;
    if header.format > PAGE_FORMAT {
        return Err(FormatError::Unsupported { what: "page format", value: u64::from(header.format) });
    }
    expect_eq("page format", 2, u64::from(PAGE_FORMAT), u64::from(header.format))?;
    if header.page_type.get() != PAGE_TYPE_HASH_FIXED {
        expect_eq("stride", 8, 0, u64::from(header.stride.get()))?;
        expect_eq("width of keys", 54, 0, u64::from(header.key_width.get()))?;
    }
    expect_eq("page flags", 11, 0, u64::from(header.flags))?;
    if !matches!(header.page_type.get(), PAGE_TYPE_LEAF | PAGE_TYPE_INNER) {
        expect_zero("first child of the page", 40, frame.get(40..44).unwrap_or(&[]))?;
        expect_zero("tree fields of the page header", 48, frame.get(48..54).unwrap_or(&[]))?;
    }
    expect_zero("reserved bytes of the page header", 56, frame.get(56..PageHeader::LEN).unwrap_or(&[]))?;
    Ok(header)
}

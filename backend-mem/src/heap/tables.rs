//! From the root to the directory of a key group.
//!
//! ```text
//! root frame: u32 states | 12 B | { u32 description, u32 table } for each state
//! description: the state's names and codecs, written once
//! table: u64 entries | 8 B | u32 chunk for each few key groups
//! chunk: a head for each key group
//! ```
//! All of it is in frames and is copied on write like the pages, so a frozen root leads to a frozen heap.

use slackwater_core::format::page::NO_PAGE;
use slackwater_core::key_group::{KeyGroup, KeyGroupRange};
use zerocopy::little_endian::U32;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::StateId;
use crate::arena::{FrameId, FrameView};

/// Directories of up to eight entries lie in the head itself.
pub(crate) const INLINE_DEPTH_MAX: u8 = 3;
/// Offset of the first state in the root and of the first chunk in a table.
pub(crate) const LIST_AT: usize = 16;
/// Bit of the lpn of every page that the overflow table holds; others are made from depth and prefix.
pub(crate) const LPN_OVERFLOW: u32 = 1 << 31;
/// Bit of a free entry of the overflow table; the other bits name the next free one.
pub(crate) const ENTRY_FREE: u32 = 1 << 31;
/// End of the list of free entries.
pub(crate) const NO_ENTRY: u32 = ENTRY_FREE - 1;

/// What a key group of a state has.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct Head {
    /// The run of the directory, when it does not lie inline.
    pub(crate) directory: U32,
    /// The run of the overflow table: frames of pages by lpn.
    pub(crate) overflow: U32,
    /// Entries of the user.
    pub(crate) entries: U32,
    /// Hash pages of the directory.
    pub(crate) pages: U32,
    /// Entries of the overflow table that were ever used.
    pub(crate) overflow_used: U32,
    /// The first free one among them; meaningless if there is none in use at all.
    pub(crate) overflow_free: U32,
    /// Bytes of the head that are not used yet.
    pub(crate) reserved: [u8; 5],
    /// The directory has `2^depth` entries.
    pub(crate) depth: u8,
    /// The overflow table has `2^overflow_log2` entries.
    pub(crate) overflow_log2: u8,
    /// Whether there is an overflow table.
    pub(crate) has_overflow: u8,
    /// The directory, as long as it is small.
    pub(crate) inline: [U32; 8],
}

pub(crate) const HEAD_LEN: usize = size_of::<Head>();
const _: () = assert!(HEAD_LEN == 64, "a head is one cache line");

/// The head of a key group that nothing was written to.
pub(crate) static EMPTY_HEAD: Head = Head {
    directory: U32::ZERO,
    overflow: U32::ZERO,
    entries: U32::ZERO,
    pages: U32::ZERO,
    overflow_used: U32::ZERO,
    overflow_free: U32::ZERO,
    reserved: [0; 5],
    depth: 0,
    overflow_log2: 0,
    has_overflow: 0,
    inline: [U32::ZERO; 8],
};

/// The frame of the page that the overflow table holds under `lpn`.
pub(crate) fn overflow_frame(frames: FrameView<'_>, head: &Head, lpn: u32) -> FrameId {
    let index = lpn & !LPN_OVERFLOW;
    if lpn == NO_PAGE || index >= head.overflow_used.get() {
        return FrameId::NONE;
    }
    match frames.u32(FrameId(head.overflow.get()), index as usize * 4) {
        free if free & ENTRY_FREE != 0 => FrameId::NONE,
        frame => FrameId(frame),
    }
}

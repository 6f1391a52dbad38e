//! From the root to the directory of a key group.
//!
//! ```text
//! root: u32 states | 12 B | a row for each state
//! row: the runs of description and table, and what every access needs to know
//! description: the state's names and codecs, written once
//! table: u64 entries | 8 B | u32 chunk for each few key groups
//! chunk: a head for each key group; of a state that is not kept by key just one
//! ```
//! The root is a run that doubles when one more state does not fit. All of it is in frames and is copied on
//! write like the pages, so a frozen root leads to a frozen heap.

use slackwater_core::format::page::NO_PAGE;
use slackwater_core::key_group::{KeyGroup, KeyGroupRange};
use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::page::Fixed;
use super::{HeapError, StateId, StateKind};
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
/// Bytes before the names in a description.
pub(crate) const NAMES_AT: usize = 16;

/// What the root has for a state.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct StateRow {
    /// The run of the description.
    pub(crate) description: U32,
    /// The run of the table; none before the first write.
    pub(crate) table: U32,
    /// One of the `STATE_KIND_` numbers.
    pub(crate) kind: u8,
    /// Number of the state's [`Distribution`](slackwater_core::format::segment::Distribution).
    pub(crate) distribution: u8,
    /// Slots of each page if all records have the same size, otherwise 0.
    pub(crate) slots: U16,
    /// Bytes of a key if all records have the same size.
    pub(crate) key_width: U16,
    /// Bytes of a value if all records have the same size.
    pub(crate) value_width: U16,
}

impl StateRow {
    /// How the state's entries are found.
    #[inline]
    pub(crate) const fn kind(&self) -> StateKind {
        StateKind::of_number(self.kind)
    }

    /// Refuses to use a state as one of another kind.
    #[inline]
    pub(super) fn expect(&self, kind: StateKind, state: StateId) -> Result<(), HeapError> {
        if self.kind() == kind { Ok(()) } else { Err(HeapError::OtherKind { state, kind: self.kind() }) }
    }

    /// The shape of the state's pages, if all records have the same size.
    #[inline]
    pub(super) fn fixed(&self) -> Option<Fixed> {
        let (slots, key_width) = (self.slots.get(), self.key_width.get());
        let stride = key_width.saturating_add(self.value_width.get());
        (slots != 0).then(|| Fixed::of(slots, stride, key_width))
    }
}

/// In place of the key groups of a state that is not kept by key.
const NO_KEY_GROUPS: KeyGroupRange = KeyGroupRange { first: KeyGroup::NONE, last: KeyGroup::NONE };

/// Bytes of a row.
pub(crate) const ROW_LEN: usize = size_of::<StateRow>();

/// What a key group of a state has.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct Head {
    /// The run of the directory, when it does not lie inline; of an ordered state the lpn of its root, or 0.
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
    /// How many free ones there are among them.
    pub(crate) overflow_free_count: U32,
    /// A quarter of the slots of the page with records of any size that was made last: where tags and offsets will
    /// be found, mostly. 0 if there is none.
    pub(crate) slots_hint: u8,
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
    overflow_free_count: U32::ZERO,
    slots_hint: 0,
    depth: 0,
    overflow_log2: 0,
    has_overflow: 0,
    inline: [U32::ZERO; 8],
};

/// The frame of the page that the overflow table holds under `lpn`.
#[inline]
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

/// Where the entry for a hash lies in a directory of that depth.
#[inline]
pub(crate) const fn directory_index(hash: u64, depth: u8) -> usize {
    // In two steps, as no shift by 64 is possible.
    (hash >> 1 >> (63 - (depth & 63))) as usize
}

/// The frame in an entry of the directory.
#[inline]
pub(crate) fn directory_entry(frames: FrameView<'_>, head: &Head, index: usize) -> FrameId {
    if head.depth <= INLINE_DEPTH_MAX {
        return FrameId(head.inline.get(index % head.inline.len()).map_or(0, |frame| frame.get()));
    }
    FrameId(frames.u32(FrameId(head.directory.get()), index * 4))
}

/// Reads from a root downwards.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Walk<'a> {
    pub(crate) frames: FrameView<'a>,
    pub(crate) root: FrameId,
    pub(crate) key_groups: KeyGroupRange,
    /// A bit for each key group that a restore has yet to bring; nothing if there is none.
    pub(crate) awaited: &'a [u64],
}

impl<'a> Walk<'a> {
    #[inline]
    pub(crate) fn states(self) -> u32 {
        self.frames.u32(self.root, 0)
    }

    pub(crate) fn description(self, state: StateId) -> FrameId {
        FrameId(self.frames.u32(self.root, state_at(state)))
    }

    #[inline]
    pub(crate) fn table(self, state: StateId) -> FrameId {
        FrameId(self.frames.u32(self.root, state_at(state) + 4))
    }

    /// Entries of a state.
    pub(crate) fn entries(self, state: StateId) -> u64 {
        let table = self.table(state);
        if u32::from(state.0) >= self.states() || table.is_none() {
            return 0;
        }
        self.frames.part(table, 0, 8).try_into().map_or(0, u64::from_le_bytes)
    }

    /// The head of a key group of a state.
    #[inline]
    pub(crate) fn head(self, state: StateId, group: KeyGroup) -> Result<&'a Head, HeapError> {
        Ok(self.row_and_head(state, group)?.1)
    }

    /// What the root has for a state, and the head of one of its key groups.
    #[inline]
    pub(crate) fn row_and_head(
        self,
        state: StateId,
        group: KeyGroup,
    ) -> Result<(&'a StateRow, &'a Head), HeapError> {
        let row = self.row(state)?;
        if row.distribution != 0 || !self.key_groups.contains(group) {
            self.check_group(row, group)?;
        }
        if !self.awaited.is_empty() {
            self.check_is_there(group)?;
        }
        let (chunk, offset) = self.head_at(group);
        let table = FrameId(row.table.get());
        let chunk = if table.is_none() { FrameId::NONE } else { FrameId(self.frames.u32(table, chunk)) };
        Ok((row, if chunk.is_none() { &EMPTY_HEAD } else { self.head_in(chunk, offset) }))
    }

    /// What the root has for a state.
    #[inline]
    pub(crate) fn row(self, state: StateId) -> Result<&'a StateRow, HeapError> {
        match self.frames.read(self.root, state_at(state)) {
            Some(row) if u32::from(state.0) < self.states() => Ok(row),
            _ => Err(HeapError::UnknownState { state }),
        }
    }

    /// Refuses a key group where the state cannot have entries.
    #[cold]
    fn check_group(self, row: &StateRow, group: KeyGroup) -> Result<(), HeapError> {
        let owned = if row.distribution == 0 { self.key_groups } else { NO_KEY_GROUPS };
        if owned.contains(group) {
            Ok(())
        } else {
            Err(HeapError::ForeignKeyGroup { key_group: group, owned })
        }
    }

    /// Where a state may have entries.
    pub(crate) fn groups_of(self, state: StateId) -> KeyGroupRange {
        match self.row(state) {
            Ok(row) if row.distribution != 0 => NO_KEY_GROUPS,
            Ok(_) | Err(_) => self.key_groups,
        }
    }

    #[inline]
    pub(crate) fn head_in(self, chunk: FrameId, offset: usize) -> &'a Head {
        self.frames.read(chunk, offset).unwrap_or(&EMPTY_HEAD)
    }

    /// Where in a table the chunk of a key group stands, and where in that chunk its head.
    #[inline]
    pub(crate) fn head_at(self, group: KeyGroup) -> (usize, usize) {
        let index = match group {
            KeyGroup::NONE => 0,
            KeyGroup(group) => usize::from(group.wrapping_sub(self.key_groups.first.0)),
        };
        let offset = index * HEAD_LEN;
        let log2 = self.frames.frame_size_log2();
        (LIST_AT + (offset >> log2) * 4, offset & (self.frames.frame_size() - 1))
    }

    /// Bytes of a table.
    pub(crate) fn table_len(self) -> usize {
        LIST_AT + 4 * (self.key_groups.len() * HEAD_LEN).div_ceil(self.frames.frame_size())
    }
}

/// Where in the root a state stands.
#[inline]
pub(crate) const fn state_at(state: StateId) -> usize {
    LIST_AT + ROW_LEN * state.0 as usize
}

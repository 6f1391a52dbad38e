//! Ordered pages: the nodes of a tree in which the entries of a key group ascend by their keys' bytes.
//!
//! A leaf holds entries. An inner page holds children, named by lpn, with a separator before each but the
//! first: what is below a separator lies to its left, all else to its right. Neither knows its neighbours or
//! its parent, so that a change touches as few pages as can be; a scan comes back to the parent.

use zerocopy::FromBytes;
use zerocopy::little_endian::{U16, U32};

use super::super::layout::layout;
use super::{Content, LEN_MASK, LEN_OVERFLOW, OverflowRef, PAGE_TYPE_INNER, PageHeader};

mod check;
#[cfg(test)]
mod tests;

layout! {
    /// An entry of an ordered page. Slots ascend by key.
    pub struct TreeSlot {
        /// Offset of its record in the page.
        pub offset: U16,
        /// Bytes of the key in the record, and [`LEN_OVERFLOW`]: then the last 16 of them are an [`OverflowRef`].
        pub key_len: U16,
        /// The key's first four bytes behind the page's prefix, the first one being the highest; 0 for missing ones.
        pub head: U32,
    }
}

layout! {
    /// Begins a record of an ordered page; the key's bytes behind the page's prefix follow, then the value's.
    pub struct TreeRecordHead {
        /// Bytes of the value in the record, and [`LEN_OVERFLOW`].
        pub value_len: U16,
    }
}

/// Hints of an ordered page, where it has any.
pub const TREE_HINTS: usize = 16;
/// Frames below this have no hints.
pub const TREE_HINTS_FRAME_SIZE_MIN: usize = 1024;
/// The most levels of inner pages above a leaf.
pub const TREE_LEVELS_MAX: u8 = 32;

/// Offset of the slots in an ordered page: the hints come before them.
#[must_use]
pub const fn tree_slots_offset(frame_size: usize) -> usize {
    PageHeader::LEN.saturating_add(hint_count(frame_size).saturating_mul(4))
}

/// The most bytes that an entry may take in an ordered page, its slot included: two always fit.
#[must_use]
pub const fn tree_entry_len_max(frame_size: usize) -> usize {
    frame_size.saturating_sub(tree_slots_offset(frame_size)) / 2
}

/// The most bytes of a key that an ordered page holds. The rest of a longer one lies in a chain.
#[must_use]
pub const fn tree_key_len_max(frame_size: usize) -> usize {
    tree_entry_len_max(frame_size).saturating_sub(TREE_ENTRY_LEN_MIN.saturating_add(2 * OverflowRef::LEN))
}

/// Bytes of an entry without key and value.
pub const TREE_ENTRY_LEN_MIN: usize = TreeSlot::LEN + TreeRecordHead::LEN;

/// Every so many slots there is one whose head is a hint; 0 if there are too few for that.
#[must_use]
#[inline]
pub const fn tree_hint_distance(slots: usize) -> usize {
    slots / (TREE_HINTS + 1)
}

const fn hint_count(frame_size: usize) -> usize {
    if frame_size < TREE_HINTS_FRAME_SIZE_MIN { 0 } else { TREE_HINTS }
}

/// The [`TreeSlot::head`] of a key of which `rest` lies behind the prefix.
#[must_use]
#[inline]
pub fn tree_head(rest: &[u8]) -> u32 {
    tree_head_padded(rest, 0)
}

/// As [`tree_head`], with other bytes for missing ones.
#[must_use]
#[inline]
pub fn tree_head_padded(rest: &[u8], padding: u8) -> u32 {
    let bytes = rest.first_chunk::<4>().copied().unwrap_or_else(|| {
        let mut bytes = [padding; 4];
        bytes.iter_mut().zip(rest).for_each(|(to, from)| *to = *from);
        bytes
    });
    u32::from_le_bytes(bytes).swap_bytes()
}

/// An ordered page.
#[derive(Clone, Copy, Debug)]
pub struct TreePage<'a> {
    frame: &'a [u8],
    header: &'a PageHeader,
    hints: &'a [U32],
    slots: &'a [TreeSlot],
    prefix: &'a [u8],
}

/// A key of an ordered page: the bytes of the three parts, one behind the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TreeKey<'a> {
    /// What all keys of the page begin with.
    pub prefix: &'a [u8],
    /// What the record holds.
    pub rest: &'a [u8],
    /// Where the rest of a long key is. Its first two parts have [`tree_key_len_max`] bytes.
    pub chain: Option<OverflowRef>,
}

/// An entry of a leaf, or a separator with the child behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TreeEntry<'a> {
    /// The key.
    pub key: TreeKey<'a>,
    /// The value; in an inner page the child's lpn.
    pub value: Content<'a>,
}

impl<'a> TreePage<'a> {
    /// An ordered page whose slots and prefix lie within the frame. Nothing else is looked at: for pages that
    /// are known to be sound.
    #[must_use]
    #[inline]
    pub fn of(frame: &'a [u8]) -> Option<Self> {
        let (header, rest) = PageHeader::ref_from_prefix(frame).ok()?;
        let (hints, rest) = <[U32]>::ref_from_prefix_with_elems(rest, hint_count(frame.len())).ok()?;
        let slots = usize::from(header.n_slots.get());
        let (slots, _) = <[TreeSlot]>::ref_from_prefix_with_elems(rest, slots).ok()?;
        let prefix_at = frame.len().checked_sub(usize::from(header.prefix_len.get()))?;
        Some(Self { frame, header, hints, slots, prefix: frame.get(prefix_at..)? })
    }

    /// The header.
    #[must_use]
    #[inline]
    pub const fn header(&self) -> &'a PageHeader {
        self.header
    }

    /// Whether it is an inner page.
    #[must_use]
    #[inline]
    pub fn is_inner(&self) -> bool {
        self.header.page_type.get() == PAGE_TYPE_INNER
    }

    /// The slots, ascending by key.
    #[must_use]
    #[inline]
    pub const fn slots(&self) -> &'a [TreeSlot] {
        self.slots
    }

    /// Heads of every [`tree_hint_distance`]-th slot. They mean nothing if that is 0.
    #[must_use]
    #[inline]
    pub const fn hints(&self) -> &'a [U32] {
        self.hints
    }

    /// What all keys begin with.
    #[must_use]
    #[inline]
    pub const fn prefix(&self) -> &'a [u8] {
        self.prefix
    }

    /// Offset of the first byte behind the records.
    #[must_use]
    #[inline]
    pub const fn records_end(&self) -> usize {
        self.frame.len().saturating_sub(self.prefix.len())
    }

    /// The key in a slot.
    #[must_use]
    #[inline]
    pub fn key(&self, slot: &TreeSlot) -> Option<TreeKey<'a>> {
        let at = usize::from(slot.offset.get()).saturating_add(TreeRecordHead::LEN);
        let len = slot.key_len.get();
        let bytes = self.frame.get(at..)?.get(..usize::from(len & LEN_MASK))?;
        if len & LEN_OVERFLOW == 0 {
            return Some(TreeKey { prefix: self.prefix, rest: bytes, chain: None });
        }
        let (rest, chain) = OverflowRef::read_from_suffix(bytes).ok()?;
        Some(TreeKey { prefix: self.prefix, rest, chain: Some(chain) })
    }

    /// An entry; none if there are not so many, or if it does not lie within the page.
    #[must_use]
    #[inline]
    pub fn entry(&self, index: usize) -> Option<TreeEntry<'a>> {
        let slot = self.slots.get(index)?;
        let record = self.frame.get(usize::from(slot.offset.get())..self.records_end())?;
        let (head, rest) = TreeRecordHead::ref_from_prefix(record).ok()?;
        let rest = rest.get(usize::from(slot.key_len.get() & LEN_MASK)..)?;
        let len = head.value_len.get();
        let bytes = rest.get(..usize::from(len & LEN_MASK))?;
        let value = if len & LEN_OVERFLOW == 0 {
            Content::Inline(bytes)
        } else {
            Content::Overflow(OverflowRef::read_from_bytes(bytes).ok()?)
        };
        Some(TreeEntry { key: self.key(slot)?, value })
    }

    /// What the record of an entry holds of its key, and the value, if both lie in the page to the end.
    #[must_use]
    #[inline]
    pub fn inline_entry(&self, index: usize) -> Option<(&'a [u8], &'a [u8])> {
        let slot = self.slots.get(index)?;
        let record = self.frame.get(usize::from(slot.offset.get())..)?;
        let (head, rest) = TreeRecordHead::ref_from_prefix(record).ok()?;
        let (key_len, value_len) = (slot.key_len.get(), head.value_len.get());
        if (key_len | value_len) & LEN_OVERFLOW != 0 {
            return None;
        }
        let (key, rest) = rest.split_at_checked(key_len.into())?;
        Some((key, rest.get(..value_len.into())?))
    }

    /// The entries in order, as far as they lie within the page.
    pub fn entries(&self) -> impl Iterator<Item = TreeEntry<'a>> + Clone + use<'a> {
        let page = *self;
        (0..page.slots.len()).map_while(move |index| page.entry(index))
    }

    /// A child of an inner page, counted from zero; there is one more than there are slots.
    #[must_use]
    #[inline]
    pub fn child(&self, index: usize) -> Option<u32> {
        let Some(before) = index.checked_sub(1) else { return Some(self.header.left_lpn.get()) };
        match self.entry(before)?.value {
            Content::Inline(lpn) => lpn.try_into().ok().map(u32::from_le_bytes),
            Content::Overflow(_) => None,
        }
    }
}

impl TreeEntry<'_> {
    /// Whether its key or its value goes on in a chain.
    #[must_use]
    pub const fn has_chains(&self) -> bool {
        self.key.chain.is_some() || matches!(self.value, Content::Overflow(_))
    }

    /// Bytes that its record takes in the page.
    #[must_use]
    #[inline]
    pub const fn record_len(&self) -> usize {
        TreeRecordHead::LEN.saturating_add(self.key.len_in_record()).saturating_add(self.value.len_in_page())
    }
}

impl TreeKey<'_> {
    /// Length of the key in bytes.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "an empty key is a key like any other")]
    pub const fn len(&self) -> usize {
        let chain = match &self.chain {
            Some(chain) => chain.len.get() as usize,
            None => 0,
        };
        self.prefix.len().saturating_add(self.rest.len()).saturating_add(chain)
    }

    const fn len_in_record(&self) -> usize {
        match self.chain {
            Some(_) => self.rest.len().saturating_add(OverflowRef::LEN),
            None => self.rest.len(),
        }
    }
}

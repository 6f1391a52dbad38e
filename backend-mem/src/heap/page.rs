//! A hash page being used: look-up, insertion, removal, rebuilding.
//!
//! Slots are searched in groups of sixteen, from the group of the slot that the low 32 bits of the hash give and
//! going round; a group with an empty slot ends the search, so there is always one. Functions answer none for
//! bytes that are no page of this heap, which the heap reports as broken.

use slackwater_core::format::page::{
    Content, LEN_MASK, LEN_OVERFLOW, OverflowRef, PAGE_TYPE_HASH_FIXED, PageHeader, RecordHead, TAG_MASK,
    TAGS_OFFSET, fingerprint, records_offset_min,
};
use zerocopy::FromBytes;

use super::tags::{GROUP_LEN, Tags, prefetch};

mod append;
mod edit;
mod fixed;
mod remove;
mod room;
#[cfg(test)]
mod tests;

pub(super) use append::{append_to_value, set_value_chain};
pub(super) use edit::{
    Identity, fill, init, insert, insert_fixed, mark_dirty, set_next, set_value, thaw, widen,
};
pub(super) use fixed::find_mut;
pub(crate) use fixed::{Fixed, SlotPage};
pub(super) use remove::remove;
pub(super) use room::{slots_for, slots_usable};

/// How the records of a page are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Layout {
    /// Records of any size at the end of the page, offsets in `slots` slots.
    Records { slots: usize },
    /// Records of one size in the slots themselves.
    Fixed(Fixed),
}

impl Layout {
    pub(super) const fn slots(self) -> usize {
        match self {
            Self::Records { slots } => slots,
            Self::Fixed(fixed) => fixed.slots(),
        }
    }
}

/// A record and where it is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place<'a> {
    pub(super) slot: usize,
    /// Offset of the record, its head included if it has one.
    pub(super) offset: usize,
    pub(super) key: Content<'a>,
    pub(super) value: Content<'a>,
    head_len: usize,
}

impl Place<'_> {
    /// Bytes of the record in the page.
    pub(super) const fn len(&self) -> usize {
        self.head_len + inline_len(&self.key) + inline_len(&self.value)
    }

    /// Offset of the value's bytes.
    pub(super) const fn value_offset(&self) -> usize {
        self.offset + self.head_len + inline_len(&self.key)
    }
}

const fn inline_len(content: &Content<'_>) -> usize {
    match content {
        Content::Inline(bytes) => bytes.len(),
        Content::Overflow(_) => OverflowRef::LEN,
    }
}

/// Bytes that a record of any size takes in a page.
pub(super) const fn record_len(key: &Content<'_>, value: &Content<'_>) -> usize {
    RecordHead::LEN + inline_len(key) + inline_len(value)
}

/// Where the tags of so many slots end; without the caution of [`offs_offset`](slackwater_core::format::page::offs_offset),
/// as no page has so many that a sum of them would not fit.
#[inline]
const fn tags_end(slots: usize) -> usize {
    TAGS_OFFSET + ((slots + GROUP_LEN - 1) & !(GROUP_LEN - 1))
}

/// Where the search for a hash starts.
#[inline]
pub(super) const fn home(hash: u64, slots: usize) -> usize {
    (((hash & 0xffff_ffff) * slots as u64) >> 32) as usize
}

/// Asks for what a search for that hash reads first in a page with records of any size: header, tags, offsets. How
/// many slots it has stands in the header, so for the others `slots` must be guessed; 0 if it cannot be.
#[inline]
pub(super) fn prefetch_records(page: &[u8], hash: u64, slots: usize) {
    let home = home(hash, slots);
    let guessed = [0, TAGS_OFFSET + home, tags_end(slots) + 2 * home];
    for at in guessed.into_iter().take(if slots == 0 { 1 } else { 3 }) {
        if let Some(line) = page.get(at..) {
            prefetch(line.as_ptr());
        }
    }
}

/// Asks `hit` about each slot that may hold a record of that hash, until it answers. `tags_at` gives the tags of the
/// sixteen slots from one on that is a multiple of sixteen, and 0 or below their number.
#[expect(clippy::inline_always, reason = "the loop of every look-up")]
#[inline(always)]
fn search<R>(
    tags_at: impl Fn(usize) -> Option<Tags>,
    slots: usize,
    hash: u64,
    mut hit: impl FnMut(usize) -> Option<R>,
) -> Option<R> {
    let wanted = fingerprint(hash);
    let mut first = home(hash, slots) / GROUP_LEN * GROUP_LEN;
    let mut slots_left = slots;
    loop {
        let tags = tags_at(first)?;
        let mut equal = tags.equal(wanted);
        while equal != 0 {
            if let Some(found) = hit(first + equal.trailing_zeros() as usize) {
                return Some(found);
            }
            equal &= equal - 1;
        }
        if tags.empty() != 0 || slots_left <= GROUP_LEN {
            return None;
        }
        slots_left -= GROUP_LEN;
        first = if first + GROUP_LEN < slots { first + GROUP_LEN } else { 0 };
    }
}

/// A hash page, for reading.
#[derive(Clone, Copy, Debug)]
pub(super) struct Page<'a> {
    bytes: &'a [u8],
    header: &'a PageHeader,
}

impl<'a> Page<'a> {
    #[inline]
    pub(super) fn new(bytes: &'a [u8]) -> Option<Self> {
        let (header, _) = PageHeader::ref_from_prefix(bytes).ok()?;
        Some(Self { bytes, header })
    }

    pub(super) const fn header(&self) -> &'a PageHeader {
        self.header
    }

    #[inline]
    fn slots(&self) -> usize {
        usize::from(self.header.n_slots.get())
    }

    #[inline]
    pub(super) fn layout(&self) -> Layout {
        let header = self.header;
        if header.page_type.get() == PAGE_TYPE_HASH_FIXED {
            Layout::Fixed(Fixed::of(header.n_slots.get(), header.stride.get(), header.key_width.get()))
        } else {
            Layout::Records { slots: self.slots() }
        }
    }

    /// Finds the record of that hash whose key `is_key` accepts.
    #[inline]
    pub(super) fn find(&self, hash: u64, mut is_key: impl FnMut(Content<'a>) -> bool) -> Option<Place<'a>> {
        let layout = self.layout();
        let tags_at = |first| Some(Tags::new(self.bytes.get(TAGS_OFFSET + first..)?.first_chunk()?));
        search(tags_at, layout.slots(), hash, |slot| {
            self.place_in(layout, slot).filter(|place| is_key(place.key))
        })
    }

    fn tag(&self, slot: usize) -> Option<u8> {
        self.bytes.get(TAGS_OFFSET + slot).map(|tag| tag & TAG_MASK)
    }

    /// The record in a slot in use.
    #[inline]
    fn place(&self, slot: usize) -> Option<Place<'a>> {
        self.place_in(self.layout(), slot)
    }

    #[inline]
    fn place_in(&self, layout: Layout, slot: usize) -> Option<Place<'a>> {
        match layout {
            Layout::Records { slots } => {
                let offset = usize::from(u16_at(self.bytes, tags_end(slots) + 2 * slot)?);
                let (head, rest) = RecordHead::ref_from_prefix(self.bytes.get(offset..)?).ok()?;
                let (key, rest) = content(head.key_len.get(), rest)?;
                let (value, _) = content(head.value_len.get(), rest)?;
                Some(Place { slot, offset, key, value, head_len: RecordHead::LEN })
            }
            Layout::Fixed(fixed) => {
                let offset = fixed.slot_at(slot);
                let record = self.bytes.get(offset..)?.get(..fixed.stride())?;
                let (key, value) = record.split_at_checked(fixed.key_width())?;
                let (key, value) = (Content::Inline(key), Content::Inline(value));
                Some(Place { slot, offset, key, value, head_len: 0 })
            }
        }
    }

    /// The records in the order of their slots.
    pub(super) fn places(&self) -> impl Iterator<Item = Place<'a>> + use<'a> {
        let (page, layout) = (*self, self.layout());
        (0..layout.slots())
            .filter(move |slot| page.tag(*slot).is_some_and(|tag| tag != 0))
            .filter_map(move |slot| page.place_in(layout, slot))
    }

    pub(super) const fn frame_size(&self) -> usize {
        self.bytes.len()
    }

    pub(super) fn count(&self) -> usize {
        usize::from(self.header.n_used.get())
    }

    /// Bytes of its records of any size.
    pub(super) fn record_bytes(&self) -> usize {
        let above = self.bytes.len().saturating_sub(usize::from(self.header.heap_top.get()));
        above.saturating_sub(usize::from(self.header.garbage.get()))
    }

    pub(super) fn free_bytes(&self) -> usize {
        usize::from(self.header.heap_top.get()).saturating_sub(records_offset_min(self.slots()))
    }

    /// Whether one more record of `len` bytes has room.
    pub(super) fn has_room(&self, len: usize) -> bool {
        let has_slot = self.count() < slots_usable(self.slots());
        match self.layout() {
            Layout::Records { .. } => has_slot && len <= self.free_bytes(),
            Layout::Fixed(_) => has_slot,
        }
    }

    /// The number of slots with which the page, built anew, has room for one more record of `len` bytes, if
    /// that gains at least a sixteenth: then rebuilding pays for itself by what can be written before the next.
    pub(super) fn slots_to_rebuild_for(&self, len: usize) -> Option<usize> {
        if let Layout::Fixed(_) = self.layout() {
            return None;
        }
        let slots = slots_for(self.bytes.len(), self.count() + 1, self.record_bytes() + len)?;
        let bytes_free = self.bytes.len() - records_offset_min(slots) - self.record_bytes();
        let gains_bytes = bytes_free >= self.free_bytes() + self.bytes.len() / 16;
        let usable = slots_usable(self.slots());
        let gains_slots = slots_usable(slots) > usable + usable / 16;
        (gains_bytes || gains_slots).then_some(slots)
    }
}

/// A key or a value at the front of `bytes`, and what lies behind it.
#[inline]
fn content(len_and_flag: u16, bytes: &[u8]) -> Option<(Content<'_>, &[u8])> {
    let (content, rest) = bytes.split_at_checked(usize::from(len_and_flag & LEN_MASK))?;
    if len_and_flag & LEN_OVERFLOW == 0 {
        return Some((Content::Inline(content), rest));
    }
    Some((Content::Overflow(OverflowRef::read_from_bytes(content).ok()?), rest))
}

#[inline]
fn u16_at(bytes: &[u8], offset: usize) -> Option<u16> {
    bytes.get(offset..)?.first_chunk::<2>().map(|number| u16::from_le_bytes(*number))
}

//! A hash page being used: look-up, insertion, removal, rebuilding.
//!
//! Records are found by linear probing over the slots, starting at the slot that the low 32 bits of the hash
//! give and going round; a slot that is empty ends the search, so there is always one. Functions answer none
//! for bytes that are no page of this heap, which the heap reports as broken.

use core::mem::offset_of;

use slackwater_core::format::page::{
    Content, LEN_MASK, LEN_OVERFLOW, OverflowRef, PAGE_FORMAT, PAGE_TYPE_HASH, PageHeader, RecordHead,
    TAG_DIRTY, TAG_MASK, TAG_PADDING, TAGS_OFFSET, fingerprint, offs_offset, records_offset_min, tags_len,
};
use zerocopy::{FromBytes, IntoBytes};

#[cfg(test)]
mod tests;

/// Fewer slots than this make no page.
const SLOTS_MIN: usize = 4;

/// Which page of which key group; goes into the header.
#[derive(Clone, Copy, Debug)]
pub(super) struct Identity {
    pub(super) state_id: u16,
    pub(super) key_group: u16,
    pub(super) prefix: u64,
    pub(super) depth: u8,
    pub(super) lpn: u32,
    pub(super) epoch: u32,
}

/// A record and where it is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place<'a> {
    pub(super) slot: usize,
    pub(super) offset: usize,
    pub(super) key: Content<'a>,
    pub(super) value: Content<'a>,
}

impl Place<'_> {
    /// Bytes of the record in the page.
    pub(super) const fn len(&self) -> usize {
        record_len(&self.key, &self.value)
    }

    /// Offset of the value's bytes.
    pub(super) const fn value_offset(&self) -> usize {
        self.offset + RecordHead::LEN + inline_len(&self.key)
    }
}

const fn inline_len(content: &Content<'_>) -> usize {
    match content {
        Content::Inline(bytes) => bytes.len(),
        Content::Overflow(_) => OverflowRef::LEN,
    }
}

/// Bytes that a record takes in a page.
pub(super) const fn record_len(key: &Content<'_>, value: &Content<'_>) -> usize {
    RecordHead::LEN + inline_len(key) + inline_len(value)
}

/// How many of `slots` slots may be in use: seven of eight, and never all.
const fn slots_usable(slots: usize) -> usize {
    slots - slots.div_ceil(8)
}

/// The number of slots for a page of `count` records of `bytes` bytes in all: as many as fit of their mean
/// size, or as few as these need. None if they do not fit at all.
pub(super) fn slots_for(frame_size: usize, count: usize, bytes: usize) -> Option<usize> {
    let mean = bytes.checked_add(count)?.saturating_sub(1).checked_div(count)?.max(RecordHead::LEN);
    let fits = |slots: usize, bytes: usize| records_offset_min(slots) + bytes <= frame_size;
    // 7/8 of a record, two bytes of offset and one of tag for each slot.
    let mut slots = ((frame_size - TAGS_OFFSET) * 8).checked_div(7 * mean + 24)?.max(SLOTS_MIN);
    while slots > SLOTS_MIN && !fits(slots, slots_usable(slots) * mean) {
        slots -= 1;
    }
    while slots_usable(slots) < count {
        slots += 1;
    }
    fits(slots, bytes).then_some(slots)
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

    /// Where the search for a hash starts.
    #[inline]
    fn home(&self, hash: u64) -> usize {
        (((hash & 0xffff_ffff) * self.slots() as u64) >> 32) as usize
    }

    /// Finds the record of that hash whose key `is_key` accepts.
    #[inline]
    pub(super) fn find(&self, hash: u64, mut is_key: impl FnMut(Content<'a>) -> bool) -> Option<Place<'a>> {
        let slots = self.slots();
        let wanted = u64::from(fingerprint(hash)) * ONES;
        let mut group = self.home(hash);
        for _ in 0..slots.div_ceil(8) + 1 {
            let (tags, valid) = self.tag_group(group)?;
            let mut matches = zero_bytes(tags ^ wanted) & valid;
            while matches != 0 {
                let place = self.place(group + first_byte(matches))?;
                if is_key(place.key) {
                    return Some(place);
                }
                matches &= matches - 1;
            }
            if zero_bytes(tags) & valid != 0 {
                return None;
            }
            group += 8;
            if group >= slots {
                group = 0;
            }
        }
        None
    }

    /// Eight tags from a slot on without their dirty bits, and a mask of those that are slots.
    #[inline]
    fn tag_group(&self, group: usize) -> Option<(u64, u64)> {
        let tags = self.bytes.get(TAGS_OFFSET + group..)?.first_chunk::<8>()?;
        let left = self.slots().checked_sub(group)?;
        let valid = if left >= 8 { HIGHS } else { HIGHS & ((1 << (8 * left)) - 1) };
        Some((u64::from_le_bytes(*tags) & !HIGHS, valid))
    }

    /// The first empty slot for a hash.
    fn vacancy(&self, hash: u64) -> Option<usize> {
        let slots = self.slots();
        let mut group = self.home(hash);
        for _ in 0..slots.div_ceil(8) + 1 {
            let (tags, valid) = self.tag_group(group)?;
            let empty = zero_bytes(tags) & valid;
            if empty != 0 {
                return Some(group + first_byte(empty));
            }
            group += 8;
            if group >= slots {
                group = 0;
            }
        }
        None
    }

    fn tag(&self, slot: usize) -> Option<u8> {
        self.bytes.get(TAGS_OFFSET + slot).map(|tag| tag & TAG_MASK)
    }

    /// The record in a slot in use.
    #[inline]
    fn place(&self, slot: usize) -> Option<Place<'a>> {
        let offset = usize::from(u16_at(self.bytes, offs_offset(self.slots()) + 2 * slot)?);
        let (head, rest) = RecordHead::ref_from_prefix(self.bytes.get(offset..)?).ok()?;
        let (key, rest) = content(head.key_len.get(), rest)?;
        let (value, _) = content(head.value_len.get(), rest)?;
        Some(Place { slot, offset, key, value })
    }

    /// The records in the order of their slots.
    pub(super) fn places(&self) -> impl Iterator<Item = Place<'a>> + use<'a> {
        let page = *self;
        (0..page.slots())
            .filter(move |slot| page.tag(*slot).is_some_and(|tag| tag != 0))
            .filter_map(move |slot| page.place(slot))
    }

    pub(super) fn count(&self) -> usize {
        usize::from(self.header.n_used.get())
    }

    /// Bytes of its records.
    pub(super) fn record_bytes(&self) -> usize {
        let above = self.bytes.len().saturating_sub(usize::from(self.header.heap_top.get()));
        above.saturating_sub(usize::from(self.header.garbage.get()))
    }

    fn free_bytes(&self) -> usize {
        usize::from(self.header.heap_top.get()).saturating_sub(records_offset_min(self.slots()))
    }

    /// Whether one more record of `len` bytes has room.
    pub(super) fn has_room(&self, len: usize) -> bool {
        self.count() < slots_usable(self.slots()) && len <= self.free_bytes()
    }

    /// The number of slots with which the page, built anew, has room for one more record of `len` bytes, if
    /// that gains at least a sixteenth: then rebuilding pays for itself by what can be written before the next.
    pub(super) fn slots_to_rebuild_for(&self, len: usize) -> Option<usize> {
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

const ONES: u64 = 0x0101_0101_0101_0101;
const HIGHS: u64 = 0x8080_8080_8080_8080;

/// The high bit of each byte that is zero; no byte may be above 127.
#[inline]
const fn zero_bytes(bytes: u64) -> u64 {
    !(bytes + !HIGHS) & HIGHS
}

#[inline]
const fn first_byte(highs: u64) -> usize {
    (highs.trailing_zeros() / 8) as usize
}

#[inline]
fn u16_at(bytes: &[u8], offset: usize) -> Option<u16> {
    bytes.get(offset..)?.first_chunk::<2>().map(|number| u16::from_le_bytes(*number))
}

/// Makes an empty page with so many slots.
pub(super) fn init(bytes: &mut [u8], identity: Identity, slots: usize) -> Option<()> {
    bytes.fill(0);
    let size = bytes.len();
    let (header, _) = PageHeader::mut_from_prefix(bytes).ok()?;
    header.page_type = PAGE_TYPE_HASH.into();
    header.format = PAGE_FORMAT;
    header.frame_size_log2 = u8::try_from(size.trailing_zeros()).ok()?;
    header.n_slots = u16::try_from(slots).ok()?.into();
    header.local_depth = identity.depth;
    header.state_id = identity.state_id.into();
    header.key_group = identity.key_group.into();
    header.hash_prefix = identity.prefix.into();
    header.lpn = identity.lpn.into();
    header.epoch = identity.epoch.into();
    header.heap_top = u16::try_from(size).ok()?.into();
    bytes.get_mut(TAGS_OFFSET + slots..TAGS_OFFSET + tags_len(slots))?.fill(TAG_PADDING);
    Some(())
}

/// The page was frozen and becomes writable: no slot has changed since snapshot `epoch - 1`.
pub(super) fn thaw(bytes: &mut [u8], epoch: u32) -> Option<()> {
    let (header, _) = PageHeader::mut_from_prefix(bytes).ok()?;
    header.epoch = epoch.into();
    header.delta_base = epoch.saturating_sub(1).into();
    let slots = usize::from(header.n_slots.get());
    for tag in bytes.get_mut(TAGS_OFFSET..TAGS_OFFSET + slots)? {
        *tag &= TAG_MASK;
    }
    Some(())
}

/// The page takes over its buddy's prefix. It goes to the next increment in full.
pub(super) fn widen(bytes: &mut [u8], (prefix, depth): (u64, u8), lpn: u32) -> Option<()> {
    let (header, _) = PageHeader::mut_from_prefix(bytes).ok()?;
    header.hash_prefix = prefix.into();
    header.local_depth = depth;
    header.lpn = lpn.into();
    header.delta_base = 0.into();
    Some(())
}

/// Marks a slot as changed.
#[inline]
pub(super) fn mark_dirty(bytes: &mut [u8], slot: usize) -> Option<()> {
    *bytes.get_mut(TAGS_OFFSET + slot)? |= TAG_DIRTY;
    Some(())
}

/// Links the next page of the same prefix behind this one; 0 for none.
pub(super) fn set_next(bytes: &mut [u8], lpn: u32) -> Option<()> {
    let (header, _) = PageHeader::mut_from_prefix(bytes).ok()?;
    header.right_lpn = lpn.into();
    Some(())
}

/// Adds a record that has room and whose key is not there.
pub(super) fn insert(bytes: &mut [u8], hash: u64, key: &Content<'_>, value: &Content<'_>) -> Option<()> {
    let page = Page::new(bytes)?;
    let len = record_len(key, value);
    if !page.has_room(len) {
        return None;
    }
    let (slot, slots) = (page.vacancy(hash)?, page.slots());
    let top = usize::from(page.header.heap_top.get()).checked_sub(len)?;
    let (header, _) = PageHeader::mut_from_prefix(bytes).ok()?;
    header.n_used += 1;
    header.heap_top = u16::try_from(top).ok()?.into();
    *bytes.get_mut(TAGS_OFFSET + slot)? = fingerprint(hash) | TAG_DIRTY;
    set_u16(bytes, offs_offset(slots) + 2 * slot, top)?;
    let record = bytes.get_mut(top..top + len)?;
    let (head, rest) = record.split_at_mut_checked(RecordHead::LEN)?;
    head.copy_from_slice(
        RecordHead { key_len: len_and_flag(key)?.into(), value_len: len_and_flag(value)?.into() }.as_bytes(),
    );
    let (key_bytes, value_bytes) = rest.split_at_mut_checked(inline_len(key))?;
    write_content(key_bytes, key);
    write_content(value_bytes, value);
    Some(())
}

/// Replaces an inline value by one that is not longer.
pub(super) fn shorten_value(bytes: &mut [u8], slot: usize, value: &[u8]) -> Option<()> {
    let place = Page::new(bytes)?.place(slot)?;
    let (at, saved, offset) = (place.value_offset(), inline_len(&place.value), place.offset);
    let saved = saved.checked_sub(value.len())?;
    bytes.get_mut(at..at + value.len())?.copy_from_slice(value);
    mark_dirty(bytes, slot)?;
    if saved > 0 {
        set_u16(bytes, offset + offset_of!(RecordHead, value_len), value.len())?;
        let (header, _) = PageHeader::mut_from_prefix(bytes).ok()?;
        header.garbage += u16::try_from(saved).ok()?;
    }
    Some(())
}

/// Removes the record in a slot and moves those behind it that its place belongs to.
pub(super) fn remove(bytes: &mut [u8], slot: usize, hash_of: impl Fn(&Content<'_>) -> u64) -> Option<()> {
    forget_record(bytes, slot)?;
    let (mut hole, mut slot_behind) = (slot, slot);
    loop {
        let page = Page::new(bytes)?;
        let slots = page.slots();
        slot_behind = next_slot(slot_behind, slots);
        let tag = page.tag(slot_behind)?;
        if tag == 0 || slot_behind == hole {
            break;
        }
        let home = page.home(hash_of(&page.place(slot_behind)?.key));
        if distance(home, slot_behind, slots) >= distance(hole, slot_behind, slots) {
            let offset = u16_at(bytes, offs_offset(slots) + 2 * slot_behind)?;
            set_u16(bytes, offs_offset(slots) + 2 * hole, usize::from(offset))?;
            *bytes.get_mut(TAGS_OFFSET + hole)? = tag | TAG_DIRTY;
            hole = slot_behind;
        }
    }
    let slots = Page::new(bytes)?.slots();
    set_u16(bytes, offs_offset(slots) + 2 * hole, 0)?;
    *bytes.get_mut(TAGS_OFFSET + hole)? = TAG_DIRTY;
    Some(())
}

/// Takes a record out of the counts of the header.
fn forget_record(bytes: &mut [u8], slot: usize) -> Option<()> {
    let size = u16::try_from(bytes.len()).ok()?;
    let place = Page::new(bytes)?.place(slot)?;
    let (offset, len) = (u16::try_from(place.offset).ok()?, u16::try_from(place.len()).ok()?);
    let (header, _) = PageHeader::mut_from_prefix(bytes).ok()?;
    header.n_used -= 1;
    if header.n_used == 0 {
        header.heap_top = size.into();
        header.garbage = 0.into();
    } else if header.heap_top == offset {
        header.heap_top += len;
    } else {
        header.garbage += len;
    }
    Some(())
}

/// Fills an initialised page with those records of `from` that `wanted` takes by their hash.
pub(super) fn fill(
    from: Page<'_>,
    to: &mut [u8],
    hash_of: impl Fn(&Content<'_>) -> u64,
    wanted: impl Fn(u64) -> bool,
) -> Option<()> {
    for place in from.places() {
        let hash = hash_of(&place.key);
        if wanted(hash) {
            insert(to, hash, &place.key, &place.value)?;
        }
    }
    Some(())
}

const fn next_slot(slot: usize, slots: usize) -> usize {
    if slot + 1 < slots { slot + 1 } else { 0 }
}

/// Steps from one slot to another, going round.
const fn distance(from: usize, to: usize, slots: usize) -> usize {
    if to >= from { to - from } else { to + slots - from }
}

fn len_and_flag(content: &Content<'_>) -> Option<u16> {
    match content {
        Content::Inline(bytes) => u16::try_from(bytes.len()).ok().filter(|len| *len <= LEN_MASK),
        Content::Overflow(_) => u16::try_from(OverflowRef::LEN).ok().map(|len| len | LEN_OVERFLOW),
    }
}

fn write_content(out: &mut [u8], content: &Content<'_>) {
    match content {
        Content::Inline(bytes) if bytes.len() == out.len() => out.copy_from_slice(bytes),
        Content::Overflow(reference) if OverflowRef::LEN == out.len() => {
            out.copy_from_slice(reference.as_bytes());
        }
        Content::Inline(_) | Content::Overflow(_) => {
            debug_assert!(false, "a record's parts have its lengths");
        }
    }
}

#[inline]
fn set_u16(bytes: &mut [u8], offset: usize, number: usize) -> Option<()> {
    let number = u16::try_from(number).ok()?;
    bytes.get_mut(offset..offset + 2)?.copy_from_slice(&number.to_le_bytes());
    Some(())
}

//! Making and changing pages.

use core::mem::offset_of;

use slackwater_core::format::page::{
    Content, LEN_MASK, LEN_OVERFLOW, OverflowRef, PAGE_FORMAT, PAGE_TYPE_HASH, PAGE_TYPE_HASH_FIXED,
    PageHeader, RecordHead, TAG_DIRTY, TAG_MASK, TAG_PADDING, TAGS_OFFSET, fingerprint, offs_offset,
    tags_len,
};
use zerocopy::{FromBytes, IntoBytes};

use super::room::slots_usable;
use super::{Fixed, GROUP_LEN, Layout, Page, Tags, home, inline_len, record_len};

/// Which page of which key group; goes into the header.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Identity {
    pub(in super::super) state_id: u16,
    pub(in super::super) key_group: u16,
    pub(in super::super) prefix: u64,
    pub(in super::super) depth: u8,
    pub(in super::super) lpn: u32,
    pub(in super::super) epoch: u32,
}

/// Makes an empty page.
pub(in super::super) fn init(bytes: &mut [u8], identity: Identity, layout: Layout) -> Option<()> {
    bytes.fill(0);
    let (size, slots) = (bytes.len(), layout.slots());
    let (header, _) = PageHeader::mut_from_prefix(bytes).ok()?;
    header.format = PAGE_FORMAT;
    header.frame_size_log2 = u8::try_from(size.trailing_zeros()).ok()?;
    header.n_slots = u16::try_from(slots).ok()?.into();
    header.local_depth = identity.depth;
    header.state_id = identity.state_id.into();
    header.key_group = identity.key_group.into();
    header.hash_prefix = identity.prefix.into();
    header.lpn = identity.lpn.into();
    header.epoch = identity.epoch.into();
    match layout {
        Layout::Records { .. } => {
            header.page_type = PAGE_TYPE_HASH.into();
            header.heap_top = u16::try_from(size).ok()?.into();
        }
        Layout::Fixed(fixed) => {
            header.page_type = PAGE_TYPE_HASH_FIXED.into();
            header.stride = u16::try_from(fixed.stride()).ok()?.into();
            header.key_width = u16::try_from(fixed.key_width()).ok()?.into();
        }
    }
    bytes.get_mut(TAGS_OFFSET + slots..TAGS_OFFSET + tags_len(slots))?.fill(TAG_PADDING);
    Some(())
}

/// The page was frozen and becomes writable: no slot has changed since snapshot `epoch - 1`.
pub(in super::super) fn thaw(bytes: &mut [u8], epoch: u32) -> Option<()> {
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
pub(in super::super) fn widen(bytes: &mut [u8], (prefix, depth): (u64, u8), lpn: u32) -> Option<()> {
    let (header, _) = PageHeader::mut_from_prefix(bytes).ok()?;
    header.hash_prefix = prefix.into();
    header.local_depth = depth;
    header.lpn = lpn.into();
    header.delta_base = 0.into();
    Some(())
}

/// Marks a slot as changed.
#[inline]
pub(in super::super) fn mark_dirty(bytes: &mut [u8], slot: usize) -> Option<()> {
    let tag = bytes.get_mut(TAGS_OFFSET + slot)?;
    if *tag & TAG_DIRTY == 0 {
        *tag |= TAG_DIRTY;
    }
    Some(())
}

/// Links the next page of the same prefix behind this one; 0 for none.
pub(in super::super) fn set_next(bytes: &mut [u8], lpn: u32) -> Option<()> {
    let (header, _) = PageHeader::mut_from_prefix(bytes).ok()?;
    header.right_lpn = lpn.into();
    Some(())
}

/// The empty slot for a hash that is the nearest behind its home in the first group that has one.
#[inline]
fn vacancy(bytes: &[u8], slots: usize, hash: u64) -> Option<usize> {
    let (groups, _) = bytes.get(TAGS_OFFSET..offs_offset(slots))?.as_chunks::<GROUP_LEN>();
    let home = home(hash, slots);
    let mut group = home / GROUP_LEN;
    let mut not_before_home = u16::MAX << (home % GROUP_LEN);
    for _ in groups {
        let empty = Tags::new(groups.get(group)?).empty();
        let nearest = if empty & not_before_home == 0 { empty } else { empty & not_before_home };
        if nearest != 0 {
            return Some(group * GROUP_LEN + nearest.trailing_zeros() as usize);
        }
        not_before_home = u16::MAX;
        group = if group + 1 < groups.len() { group + 1 } else { 0 };
    }
    None
}

/// Adds a record that has room and whose key is not there.
pub(in super::super) fn insert(
    bytes: &mut [u8],
    hash: u64,
    key: &Content<'_>,
    value: &Content<'_>,
) -> Option<()> {
    match Page::new(bytes)?.layout() {
        Layout::Records { slots } => insert_record(bytes, slots, hash, key, value),
        Layout::Fixed(fixed) => {
            let (Content::Inline(key), Content::Inline(value)) = (key, value) else { return None };
            insert_fixed(bytes, fixed, hash, key, value).map(|_| ())
        }
    }
}

fn insert_record(
    bytes: &mut [u8],
    slots: usize,
    hash: u64,
    key: &Content<'_>,
    value: &Content<'_>,
) -> Option<()> {
    let len = record_len(key, value);
    let page = Page::new(bytes)?;
    if !page.has_room(len) {
        return None;
    }
    let slot = vacancy(bytes, slots, hash)?;
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

/// Adds a record to a page with records of one size, if a slot may be used for it; gives the slot.
#[inline]
pub(in super::super) fn insert_fixed(
    bytes: &mut [u8],
    fixed: Fixed,
    hash: u64,
    key: &[u8],
    value: &[u8],
) -> Option<usize> {
    let (header, _) = PageHeader::mut_from_prefix(bytes).ok()?;
    let fits = fixed.holds(key, value);
    if !fits || usize::from(header.n_used.get()) >= slots_usable(fixed.slots()) {
        return None;
    }
    header.n_used += 1;
    let slot = vacancy(bytes, fixed.slots(), hash)?;
    *bytes.get_mut(TAGS_OFFSET + slot)? = fingerprint(hash) | TAG_DIRTY;
    let record = bytes.get_mut(fixed.slot_at(slot)..)?.get_mut(..fixed.stride())?;
    let (key_bytes, value_bytes) = record.split_at_mut_checked(key.len())?;
    key_bytes.copy_from_slice(key);
    value_bytes.copy_from_slice(value);
    Some(slot)
}

/// Replaces an inline value by one that is not longer, or has the same length where all have.
pub(in super::super) fn set_value(bytes: &mut [u8], slot: usize, value: &[u8]) -> Option<()> {
    let place = Page::new(bytes)?.place(slot)?;
    let (at, head_len, offset) = (place.value_offset(), place.head_len, place.offset);
    let saved = inline_len(&place.value).checked_sub(value.len())?;
    bytes.get_mut(at..at + value.len())?.copy_from_slice(value);
    mark_dirty(bytes, slot)?;
    if saved == 0 {
        return Some(());
    }
    if head_len == 0 {
        return None;
    }
    set_u16(bytes, offset + offset_of!(RecordHead, value_len), value.len())?;
    let (header, _) = PageHeader::mut_from_prefix(bytes).ok()?;
    header.garbage += u16::try_from(saved).ok()?;
    Some(())
}

/// Fills an initialised page with those records of `from` that `wanted` takes by their hash.
pub(in super::super) fn fill(
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
pub(super) fn set_u16(bytes: &mut [u8], offset: usize, number: usize) -> Option<()> {
    let number = u16::try_from(number).ok()?;
    bytes.get_mut(offset..offset + 2)?.copy_from_slice(&number.to_le_bytes());
    Some(())
}

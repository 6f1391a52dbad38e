//! An ordered page being written. Functions answer none for bytes that are no page of this heap, which the heap
//! reports as broken.

use core::mem::offset_of;

use slackwater_core::format::page::{
    Content, LEN_OVERFLOW, OverflowRef, PAGE_FORMAT, PAGE_TYPE_INNER, PAGE_TYPE_LEAF, PageHeader,
    TREE_ENTRY_LEN_MIN, TreeEntry, TreeKey, TreePage, TreeRecordHead, TreeSlot, tree_entry_len_max,
    tree_head, tree_hint_distance, tree_slots_offset,
};
use zerocopy::little_endian::U32;
use zerocopy::{FromBytes, IntoBytes};

/// Which page of which key group; goes into the header.
#[derive(Clone, Copy, Debug)]
pub(super) struct Identity {
    pub(super) state_id: u16,
    pub(super) key_group: u16,
    pub(super) lpn: u32,
    pub(super) epoch: u32,
    /// 0 for a leaf.
    pub(super) level: u8,
    /// Of an inner page; 0 for a leaf.
    pub(super) first_child: u32,
}

impl Identity {
    /// That of a page that is there.
    pub(super) const fn of(page: &TreePage<'_>) -> Self {
        let header = page.header();
        Self {
            state_id: header.state_id.get(),
            key_group: header.key_group.get(),
            lpn: header.lpn.get(),
            epoch: header.epoch.get(),
            level: header.local_depth,
            first_child: header.left_lpn.get(),
        }
    }
}

/// The bytes of a key behind its first `skip`, in two parts.
fn behind<'a>(key: &TreeKey<'a>, skip: usize) -> [&'a [u8]; 2] {
    match key.prefix.get(skip..) {
        Some(front) => [front, key.rest],
        None => [&[], key.rest.get(skip - key.prefix.len()..).unwrap_or_default()],
    }
}

/// The bytes of a key that a page holds.
fn inline_bytes<'a>(key: &TreeKey<'a>) -> impl Iterator<Item = &'a u8> + use<'a> {
    key.prefix.iter().chain(key.rest)
}

fn inline_len(key: &TreeKey<'_>) -> usize {
    key.prefix.len() + key.rest.len()
}

/// How many bytes two keys have in common at the front, of those that a page holds.
pub(super) fn common_len(key: &TreeKey<'_>, other: &TreeKey<'_>) -> usize {
    inline_bytes(key).zip(inline_bytes(other)).take_while(|(a, b)| a == b).count()
}

/// A byte of a key, of those that a page holds.
pub(super) fn byte_at(key: &TreeKey<'_>, index: usize) -> Option<u8> {
    let [front, back] = behind(key, index);
    front.first().or_else(|| back.first()).copied()
}

/// The first `len` bytes of a key, of those that a page holds.
pub(super) fn front<'a>(key: &TreeKey<'a>, len: usize) -> TreeKey<'a> {
    let prefix = key.prefix.get(..len).unwrap_or(key.prefix);
    TreeKey { prefix, rest: key.rest.get(..len - prefix.len()).unwrap_or(key.rest), chain: None }
}

fn begins_with(key: &TreeKey<'_>, prefix: &[u8]) -> bool {
    inline_len(key) >= prefix.len() && inline_bytes(key).zip(prefix).all(|(a, b)| a == b)
}

/// Bytes that an entry takes in a page without a prefix, its slot included.
pub(super) fn entry_len(entry: &TreeEntry<'_>) -> usize {
    TREE_ENTRY_LEN_MIN
        + inline_len(&entry.key)
        + entry.key.chain.map_or(0, |_| OverflowRef::LEN)
        + match entry.value {
            Content::Inline(bytes) => bytes.len(),
            Content::Overflow(_) => OverflowRef::LEN,
        }
}

fn room(frame_size: usize) -> usize {
    frame_size - tree_slots_offset(frame_size)
}

fn slots_end(page: &TreePage<'_>, frame_size: usize) -> usize {
    tree_slots_offset(frame_size) + page.slots().len() * TreeSlot::LEN
}

/// Bytes that the entries would take without a prefix.
fn full_len(page: &TreePage<'_>) -> usize {
    let header = page.header();
    let above = page.records_end() - usize::from(header.heap_top.get()).min(page.records_end());
    let records = above.saturating_sub(usize::from(header.garbage.get()));
    records + page.slots().len() * (TreeSlot::LEN + page.prefix().len())
}

/// Whether a page may lack room for a separator.
pub(super) fn is_crowded(page: &TreePage<'_>, frame_size: usize) -> bool {
    full_len(page) + tree_entry_len_max(frame_size) > room(frame_size)
}

/// Whether the entry has room as the page is.
pub(super) fn has_room(page: &TreePage<'_>, frame_size: usize, entry: &TreeEntry<'_>) -> bool {
    let free = usize::from(page.header().heap_top.get()).saturating_sub(slots_end(page, frame_size));
    begins_with(&entry.key, page.prefix()) && entry_len(entry) <= free + page.prefix().len()
}

/// Whether the entry has room after `fill`, without the one in `replaced`, and whether that is worth it.
pub(super) fn has_room_when_filled(
    page: &TreePage<'_>,
    frame_size: usize,
    entry: &TreeEntry<'_>,
    replaced: Option<usize>,
) -> Option<bool> {
    let prefix = prefix_len_for(page, Some(&entry.key), replaced)?;
    let old = replaced.map_or(Some(0), |index| Some(entry_len(&page.entry(index)?)))?;
    let count = page.slots().len() + 1 - usize::from(replaced.is_some());
    let len = full_len(page) + entry_len(entry) - old - prefix * (count - 1);
    // Two entries always fit; more are worth the work if some room is left for the next.
    let slack = if count <= 2 { 0 } else { frame_size / 16 };
    Some(len + slack <= room(frame_size))
}

/// The length of the prefix for the keys of a page, without `left_out` and with `key`.
pub(super) fn prefix_len_for(
    page: &TreePage<'_>,
    key: Option<&TreeKey<'_>>,
    left_out: Option<usize>,
) -> Option<usize> {
    let mut kept = (0..page.slots().len()).filter(|index| Some(*index) != left_out);
    let Some(first) = kept.next() else { return Some(0) };
    let first = page.entry(first)?.key;
    let last = kept.next_back().map_or(Some(None), |last| page.entry(last).map(|entry| Some(entry.key)))?;
    let others = [last.as_ref(), key].into_iter().flatten();
    Some(others.map(|other| common_len(&first, other)).min().unwrap_or(0))
}

/// Makes a page of these entries, which ascend and begin with the same `prefix_len` bytes.
pub(super) fn fill<'a>(
    bytes: &mut [u8],
    identity: &Identity,
    entries: impl Iterator<Item = TreeEntry<'a>> + Clone,
    prefix_len: usize,
) -> Option<()> {
    init(bytes, identity)?;
    if let Some(first) = entries.clone().next() {
        let prefix_at = bytes.len().checked_sub(prefix_len)?;
        let prefix = bytes.get_mut(prefix_at..)?;
        prefix.iter_mut().zip(inline_bytes(&first.key)).for_each(|(to, from)| *to = *from);
        let (header, _) = PageHeader::mut_from_prefix(bytes).ok()?;
        header.prefix_len = u16::try_from(prefix_len).ok()?.into();
        header.heap_top = u16::try_from(prefix_at).ok()?.into();
    }
    for (index, entry) in entries.enumerate() {
        add(bytes, index, &entry)?;
    }
    refresh_hints(bytes, 0, 0)
}

fn init(bytes: &mut [u8], identity: &Identity) -> Option<()> {
    bytes.fill(0);
    let size = bytes.len();
    let (header, _) = PageHeader::mut_from_prefix(bytes).ok()?;
    header.page_type = if identity.level == 0 { PAGE_TYPE_LEAF } else { PAGE_TYPE_INNER }.into();
    header.format = PAGE_FORMAT;
    header.frame_size_log2 = u8::try_from(size.trailing_zeros()).ok()?;
    header.local_depth = identity.level;
    header.state_id = identity.state_id.into();
    header.key_group = identity.key_group.into();
    header.lpn = identity.lpn.into();
    header.epoch = identity.epoch.into();
    header.left_lpn = identity.first_child.into();
    header.heap_top = u16::try_from(size).ok()?.into();
    Some(())
}

/// The page was frozen and becomes writable. It goes to the next increment in full.
pub(super) fn thaw(bytes: &mut [u8], epoch: u32) -> Option<()> {
    PageHeader::mut_from_prefix(bytes).ok()?.0.epoch = epoch.into();
    Some(())
}

/// Names another first child.
pub(super) fn set_first_child(bytes: &mut [u8], lpn: u32) -> Option<()> {
    PageHeader::mut_from_prefix(bytes).ok()?.0.left_lpn = lpn.into();
    Some(())
}

/// Adds an entry that has room before the slot `index`.
pub(super) fn insert(bytes: &mut [u8], index: usize, entry: &TreeEntry<'_>) -> Option<()> {
    let count = TreePage::of(bytes)?.slots().len();
    add(bytes, index, entry)?;
    refresh_hints(bytes, index, count)
}

/// As `insert`, but for the hints.
#[inline]
fn add(bytes: &mut [u8], index: usize, entry: &TreeEntry<'_>) -> Option<()> {
    let page = TreePage::of(bytes)?;
    let parts = behind(&entry.key, page.prefix().len());
    let len = entry_len(entry).checked_sub(TreeSlot::LEN + page.prefix().len())?;
    let (page_slots, end) = (page.slots().len(), slots_end(&page, bytes.len()));
    let top = usize::from(page.header().heap_top.get()).checked_sub(len)?;
    if index > page_slots || end + TreeSlot::LEN > top {
        return None;
    }
    let [front, back] = parts;
    let head = if front.is_empty() { tree_head(back) } else { joined_head(front, back) };
    let chain_len = entry.key.chain.map_or(0, |_| OverflowRef::LEN);
    let flag = if chain_len > 0 { LEN_OVERFLOW } else { 0 };
    let key_len = u16::try_from(front.len() + back.len() + chain_len).ok()? | flag;
    let slot =
        TreeSlot { offset: u16::try_from(top).ok()?.into(), key_len: key_len.into(), head: head.into() };

    let (_, slots) = hints_and_slots(bytes, page_slots + 1)?;
    let moved = slots.get_mut(index..)?;
    move_up(moved);
    *moved.first_mut()? = slot;
    write_record(bytes.get_mut(top..top + len)?, parts, entry)?;
    let (header, _) = PageHeader::mut_from_prefix(bytes).ok()?;
    header.n_slots += 1;
    header.n_used += 1;
    header.heap_top = slot.offset;
    Some(())
}

/// Moves each slot to the next place; the last one goes. In blocks, which take a few instructions each.
fn move_up(slots: &mut [TreeSlot]) {
    let Some(mut before) = slots.first().copied() else { return };
    let (blocks, rest) = slots.as_chunks_mut();
    for block in blocks {
        let [a, b, c, d, e, f, g, h] = *block;
        *block = [before, a, b, c, d, e, f, g];
        before = h;
    }
    rest.iter_mut().for_each(|slot| core::mem::swap(slot, &mut before));
}

fn write_record(record: &mut [u8], [front, back]: [&[u8]; 2], entry: &TreeEntry<'_>) -> Option<()> {
    let chain = entry.key.chain;
    let (value, flag) = match &entry.value {
        Content::Inline(bytes) => (*bytes, 0),
        Content::Overflow(reference) => (reference.as_bytes(), LEN_OVERFLOW),
    };
    let value_len = u16::try_from(value.len()).ok()? | flag;
    let head = TreeRecordHead { value_len: value_len.into() };
    let mut rest = record;
    for part in [head.as_bytes(), front, back, chain.as_ref().map_or(&[], IntoBytes::as_bytes), value] {
        let (place, behind) = rest.split_at_mut_checked(part.len())?;
        place.copy_from_slice(part);
        rest = behind;
    }
    rest.is_empty().then_some(())
}

fn joined_head(front: &[u8], back: &[u8]) -> u32 {
    let mut bytes = [0; 4];
    bytes.iter_mut().zip(front.iter().chain(back)).for_each(|(to, from)| *to = *from);
    tree_head(&bytes)
}

/// Takes an entry out.
pub(super) fn remove(bytes: &mut [u8], index: usize) -> Option<()> {
    let page = TreePage::of(bytes)?;
    let (count, records_end) = (page.slots().len(), page.records_end());
    let (offset, len) = (page.slots().get(index)?.offset.get(), page.entry(index)?.record_len());
    let (_, slots) = hints_and_slots(bytes, count)?;
    let moved = slots.get_mut(index..)?;
    moved.first()?;
    moved.copy_within(1.., 0);
    let (header, _) = PageHeader::mut_from_prefix(bytes).ok()?;
    header.n_slots -= 1;
    header.n_used -= 1;
    if count == 1 {
        header.heap_top = u16::try_from(records_end).ok()?.into();
        header.garbage = 0.into();
    } else if header.heap_top == offset {
        header.heap_top += u16::try_from(len).ok()?;
    } else {
        header.garbage += u16::try_from(len).ok()?;
    }
    refresh_hints(bytes, index, count)
}

/// Replaces an inline value by one that is not longer.
pub(super) fn shorten_value(bytes: &mut [u8], index: usize, value: &[u8]) -> Option<()> {
    let page = TreePage::of(bytes)?;
    let (record, entry) = (usize::from(page.slots().get(index)?.offset.get()), page.entry(index)?);
    let Content::Inline(old) = entry.value else { return None };
    let saved = old.len().checked_sub(value.len())?;
    let end = record + entry.record_len();
    let start = end - old.len();
    bytes.get_mut(start..start + value.len())?.copy_from_slice(value);
    if saved > 0 {
        let head = TreeRecordHead { value_len: u16::try_from(value.len()).ok()?.into() };
        let at = record + offset_of!(TreeRecordHead, value_len);
        bytes.get_mut(at..at + TreeRecordHead::LEN)?.copy_from_slice(head.as_bytes());
        PageHeader::mut_from_prefix(bytes).ok()?.0.garbage += u16::try_from(saved).ok()?;
    }
    Some(())
}

/// The hints and so many slots. Both moves of slots and setting of hints are without a way to panic.
#[inline]
fn hints_and_slots(bytes: &mut [u8], slots: usize) -> Option<(&mut [U32], &mut [TreeSlot])> {
    let hints = (tree_slots_offset(bytes.len()) - PageHeader::LEN) / size_of::<U32>();
    let (_, rest) = PageHeader::mut_from_prefix(bytes).ok()?;
    let (hints, rest) = <[U32]>::mut_from_prefix_with_elems(rest, hints).ok()?;
    let (slots, _) = <[TreeSlot]>::mut_from_prefix_with_elems(rest, slots).ok()?;
    Some((hints, slots))
}

/// Sets the hints right after the slots from `index` on have changed; there were `count_before`.
#[inline]
fn refresh_hints(bytes: &mut [u8], index: usize, count_before: usize) -> Option<()> {
    let count = TreePage::of(bytes)?.slots().len();
    let distance = tree_hint_distance(count);
    if distance == 0 {
        return Some(());
    }
    let is_alike = distance == tree_hint_distance(count_before);
    let unchanged = if is_alike { index.saturating_sub(1) / distance } else { 0 };
    let (hints, slots) = hints_and_slots(bytes, count)?;
    for (number, hint) in (1..).zip(hints).skip(unchanged) {
        *hint = slots.get(distance * number)?.head;
    }
    Some(())
}

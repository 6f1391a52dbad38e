//! Removing a record without leaving a tombstone.

use slackwater_core::format::page::{Content, PageHeader, TAG_DIRTY, TAGS_OFFSET, offs_offset};
use zerocopy::FromBytes;

use super::edit::set_u16;
use super::{GROUP_LEN, Layout, Page, home, u16_at};

/// Removes the record in a slot. If its group was full, searches went on behind it, so a record from there that
/// now would not be found any more takes its slot, and so on.
pub(in super::super) fn remove(
    bytes: &mut [u8],
    slot: usize,
    hash_of: impl Fn(&Content<'_>) -> u64,
) -> Option<()> {
    let layout = Page::new(bytes)?.layout();
    forget_record(bytes, layout, slot)?;
    let mut hole = slot;
    while let Some(moved) = successor(Page::new(bytes)?, hole, &hash_of) {
        let tag = *bytes.get(TAGS_OFFSET + moved)?;
        move_record(bytes, layout, moved, hole)?;
        *bytes.get_mut(TAGS_OFFSET + hole)? = tag | TAG_DIRTY;
        hole = moved;
    }
    if let Layout::Records { slots } = layout {
        set_u16(bytes, offs_offset(slots) + 2 * hole, 0)?;
    }
    *bytes.get_mut(TAGS_OFFSET + hole)? = TAG_DIRTY;
    Some(())
}

/// A slot behind the group of `hole` whose record is searched for in that group or before, if `hole` was the
/// last slot there that was not empty already.
fn successor(page: Page<'_>, hole: usize, hash_of: impl Fn(&Content<'_>) -> u64) -> Option<usize> {
    let slots = page.layout().slots();
    let groups = slots.div_ceil(GROUP_LEN);
    let hole_group = hole / GROUP_LEN;
    let group_slots = |group: usize| group * GROUP_LEN..((group + 1) * GROUP_LEN).min(slots);
    let has_empty = |group: usize| {
        group_slots(group).any(|slot| slot != hole && page.tag(slot).is_none_or(|tag| tag == 0))
    };
    let mut group = hole_group;
    for _ in 1..groups {
        if has_empty(group) {
            return None;
        }
        group = if group + 1 < groups { group + 1 } else { 0 };
        let found =
            group_slots(group).filter(|slot| page.tag(*slot).is_some_and(|tag| tag != 0)).find(|slot| {
                let Some(place) = page.place(*slot) else { return false };
                let home_group = home(hash_of(&place.key), slots) / GROUP_LEN;
                distance(home_group, group, groups) >= distance(hole_group, group, groups)
            });
        if found.is_some() {
            return found;
        }
    }
    None
}

fn move_record(bytes: &mut [u8], layout: Layout, from: usize, to: usize) -> Option<()> {
    match layout {
        Layout::Records { slots } => {
            let offset = u16_at(bytes, offs_offset(slots) + 2 * from)?;
            set_u16(bytes, offs_offset(slots) + 2 * to, usize::from(offset))
        }
        Layout::Fixed(fixed) => {
            let (from, to) = (fixed.slot_at(from), fixed.slot_at(to));
            let (low, high) = (from.min(to), from.max(to));
            let (before, behind) = bytes.split_at_mut_checked(high)?;
            let (low, high) =
                (before.get_mut(low..)?.get_mut(..fixed.stride())?, behind.get_mut(..fixed.stride())?);
            if from < to {
                high.copy_from_slice(low);
            } else {
                low.copy_from_slice(high);
            }
            Some(())
        }
    }
}

/// Takes a record out of the counts of the header.
fn forget_record(bytes: &mut [u8], layout: Layout, slot: usize) -> Option<()> {
    let size = u16::try_from(bytes.len()).ok()?;
    let place = Page::new(bytes)?.place(slot)?;
    let (offset, len) = (u16::try_from(place.offset).ok()?, u16::try_from(place.len()).ok()?);
    let (header, _) = PageHeader::mut_from_prefix(bytes).ok()?;
    header.n_used = header.n_used.get().checked_sub(1)?.into();
    if let Layout::Fixed(_) = layout {
        return Some(());
    }
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

/// Steps from one group to another, going round.
const fn distance(from: usize, to: usize, groups: usize) -> usize {
    if to >= from { to - from } else { to + groups - from }
}

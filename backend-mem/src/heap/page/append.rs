//! Values that grow.

use core::cell::Cell;
use core::mem::offset_of;

use slackwater_core::format::page::{Content, OverflowRef, PageHeader, RecordHead, offs_offset};
use zerocopy::{FromBytes, IntoBytes};

use super::edit::{mark_dirty, set_u16};
use super::{Layout, Page};

/// Adds bytes to the inline value of a record of any size; none, and nothing is changed, if there is no room. A
/// record that is not the lowest of its page moves there first, so that growing again makes no more garbage.
pub(in super::super) fn append_to_value(bytes: &mut [u8], slot: usize, more: &[u8]) -> Option<()> {
    let page = Page::new(bytes)?;
    let place = page.place(slot)?;
    let (Layout::Records { slots }, Content::Inline(value)) = (page.layout(), place.value) else {
        return None;
    };
    let value_len = value.len() + more.len();
    let (offset, len, top) = (place.offset, place.len(), usize::from(page.header.heap_top.get()));
    let garbage = if offset == top { 0 } else { len };
    if garbage + more.len() > page.free_bytes() {
        return None;
    }
    let moved = top.checked_sub(garbage + more.len())?;
    move_down(bytes.get_mut(moved..offset + len)?, offset.checked_sub(moved)?);
    bytes.get_mut(moved + len..moved + len + more.len())?.copy_from_slice(more);
    set_u16(bytes, moved + offset_of!(RecordHead, value_len), value_len)?;
    set_u16(bytes, offs_offset(slots) + 2 * slot, moved)?;
    mark_dirty(bytes, slot)?;
    let (header, _) = PageHeader::mut_from_prefix(bytes).ok()?;
    header.heap_top = u16::try_from(moved).ok()?.into();
    header.garbage += u16::try_from(garbage).ok()?;
    Some(())
}

/// Moves what lies behind the first `gap` bytes to the front, as `copy_within` does, which can panic.
fn move_down(bytes: &mut [u8], gap: usize) {
    let cells = Cell::from_mut(bytes).as_slice_of_cells();
    for (to, from) in cells.iter().zip(cells.iter().skip(gap)) {
        to.set(from.get());
    }
}

/// Replaces the reference to a value's chain.
pub(in super::super) fn set_value_chain(bytes: &mut [u8], slot: usize, chain: &OverflowRef) -> Option<()> {
    let at = Page::new(bytes)?.place(slot)?.value_offset();
    bytes.get_mut(at..at + OverflowRef::LEN)?.copy_from_slice(chain.as_bytes());
    mark_dirty(bytes, slot)
}

//! How many slots a page has, and how many of them may be in use.

use slackwater_core::format::page::{RecordHead, TAGS_OFFSET, records_offset_min};

/// Fewer slots than this make no page.
pub(super) const SLOTS_MIN: usize = 4;

/// How many of `slots` slots may be in use: seven of eight, and never all.
pub(in super::super) const fn slots_usable(slots: usize) -> usize {
    slots - slots.div_ceil(8)
}

/// The number of slots for a page of `count` records of any size, `bytes` bytes in all: as many as fit of their
/// mean size, or as few as these need. None if they do not fit at all.
pub(in super::super) fn slots_for(frame_size: usize, count: usize, bytes: usize) -> Option<usize> {
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

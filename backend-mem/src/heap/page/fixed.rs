//! Pages with records of one size.

#![expect(unsafe_code, reason = "looks at the shape of a page once, not at every record of it")]

use core::marker::PhantomData;
use core::ptr::NonNull;

#[cfg(feature = "std")]
use slackwater_core::format::page::fingerprint;
use slackwater_core::format::page::{TAG_DIRTY, TAGS_OFFSET, fixed_slots_max, inline_len_max};

use super::{home, room, search, tags_end};
#[cfg(feature = "std")]
use crate::heap::hash::Hasher;
use crate::heap::hash::same;
use crate::heap::tags::{GROUP_LEN, Tags, prefetch};
use crate::heap::{HeapError, StateId};

/// The shape of a page with records of one size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fixed {
    slots: u32,
    key_width: u32,
    stride: u32,
    /// Offset of the first slot.
    slots_at: u32,
    /// Where the last slot ends.
    end: u32,
}

impl Fixed {
    /// A page of no slots.
    pub(crate) const NONE: Self = Self::of(0, 0, 0);

    /// Of pages of that size; none for records so long that too few would fit.
    pub(in super::super) fn new(frame_size: usize, key_width: usize, value_width: usize) -> Option<Self> {
        let stride = key_width.checked_add(value_width)?;
        let slots = fixed_slots_max(frame_size, stride);
        let widths = (u16::try_from(stride).ok()?, u16::try_from(key_width).ok()?);
        (slots >= room::SLOTS_MIN).then_some(Self::of(u16::try_from(slots).ok()?, widths.0, widths.1))
    }

    /// Of so many slots. A key is no longer than its record.
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "there are at most 65535 slots")]
    pub(in super::super) const fn of(slots: u16, stride: u16, key_width: u16) -> Self {
        let key_width = if key_width <= stride { key_width } else { stride } as u32;
        let (slots, stride) = (slots as u32, stride as u32);
        // Room for a group of tags even if there is no slot, so that the first group can always be read.
        let slots_at = tags_end(if slots == 0 { 1 } else { slots as usize }) as u32;
        Self { slots, key_width, stride, slots_at, end: (slots * stride).saturating_add(slots_at) }
    }

    /// Of the pages of a state whose keys and values have these widths, if they have any.
    pub(crate) fn of_widths(frame_size: usize, key: Option<u16>, value: Option<u16>) -> Option<Self> {
        let (key, value) = (usize::from(key?), usize::from(value?));
        (key + value <= inline_len_max(frame_size)).then(|| Self::new(frame_size, key, value)).flatten()
    }

    #[inline]
    pub(crate) const fn slots(self) -> usize {
        self.slots as usize
    }

    #[inline]
    pub(in super::super) const fn stride(self) -> usize {
        self.stride as usize
    }

    #[inline]
    pub(in super::super) const fn key_width(self) -> usize {
        self.key_width as usize
    }

    #[inline]
    const fn value_width(self) -> usize {
        (self.stride - self.key_width) as usize
    }

    /// Whether a key and a value have the widths of these.
    #[inline]
    pub(super) const fn holds(self, key: &[u8], value: &[u8]) -> bool {
        key.len() == self.key_width() && key.len() + value.len() == self.stride()
    }

    /// Refuses a key or a value of another width.
    #[inline]
    pub(in super::super) const fn check(
        self,
        state: StateId,
        key: &[u8],
        value: &[u8],
    ) -> Result<(), HeapError> {
        self.check_lens(state, (key.len(), value.len()))
    }

    #[inline]
    pub(in super::super) const fn check_lens(
        self,
        state: StateId,
        len: (usize, usize),
    ) -> Result<(), HeapError> {
        let width = (self.key_width(), self.value_width());
        if len.0 == width.0 && len.1 == width.1 {
            return Ok(());
        }
        Err(HeapError::OtherWidth { state, width, len })
    }

    /// Offset of a slot.
    #[inline]
    pub(in super::super) const fn slot_at(self, slot: usize) -> usize {
        self.slots_at as usize + slot * self.stride as usize
    }

    /// Offset of the value in a slot.
    #[inline]
    pub(in super::super) const fn value_at(self, slot: usize) -> usize {
        self.slot_at(slot) + self.key_width as usize
    }
}

/// A page with records of one size: tags and slots lie within its bytes.
#[derive(Clone, Copy)]
pub(crate) struct SlotPage<'a, 'f> {
    at: NonNull<u8>,
    fixed: &'f Fixed,
    _bytes: PhantomData<&'a [u8]>,
}

impl<'a, 'f> SlotPage<'a, 'f> {
    /// None if the page is too short for its shape.
    #[inline]
    pub(in super::super) const fn new(bytes: &'a [u8], fixed: &'f Fixed) -> Option<Self> {
        if fixed.end as usize > bytes.len() {
            return None;
        }
        let at = NonNull::from_ref(bytes).cast();
        Some(Self { at, fixed, _bytes: PhantomData })
    }

    /// Asks for what a search for that hash reads first.
    #[inline]
    pub(in super::super) fn prefetch(self, hash: u64) {
        prefetch(self.at.as_ptr().wrapping_add(TAGS_OFFSET + home(hash, self.fixed.slots())));
        self.prefetch_slot(hash);
    }

    /// Asks for the slot that a search for that hash mostly ends at: most records lie right behind their home.
    #[inline]
    pub(in super::super) fn prefetch_slot(self, hash: u64) {
        prefetch(self.at.as_ptr().wrapping_add(self.fixed.slot_at(home(hash, self.fixed.slots()))));
    }

    /// The slot of a key, and its value.
    #[expect(clippy::inline_always, reason = "the loop of every look-up")]
    #[inline(always)]
    pub(in super::super) fn find(self, hash: u64, key: &[u8]) -> Option<(usize, &'a [u8])> {
        let slot = self.slot_of(hash, key)?;
        // SAFETY: the value lies behind the key in a slot below their number, which `new` has seen to be in the page.
        let at = unsafe { self.at.add(self.fixed.value_at(slot)) };
        // SAFETY: and all of the page is initialised and lives for 'a.
        Some((slot, unsafe { core::slice::from_raw_parts(at.as_ptr(), self.fixed.value_width()) }))
    }

    /// The slot of a key, below the number of slots.
    #[expect(clippy::inline_always, reason = "the loop of every look-up")]
    #[inline(always)]
    fn slot_of(&self, hash: u64, key: &[u8]) -> Option<usize> {
        if key.len() != self.fixed.key_width() {
            return None;
        }
        let slots = self.fixed.slots();
        // What fills up the last group is no fingerprint, but nobody need rely on it.
        let is_it = |slot: usize| slot < slots && same(self.key(slot, key.len()), key);
        search(|first| Some(self.tags(first)), slots, hash, |slot| is_it(slot).then_some(slot))
    }

    /// The first record that a look-up does not find in its slot, or whose hash has other leading bits than these; and
    /// the slot where it is found.
    #[cfg(feature = "std")]
    pub(in super::super) fn first_misplaced(
        &self,
        hasher: &Hasher,
        place: (u64, u32),
    ) -> Option<(usize, u64, Option<usize>)> {
        match self.fixed.key_width() {
            // The most usual width gets a loop of its own, whose hash has no branch.
            8 => self.misplaced(place, |slot| hasher.of(self.key(slot, 8))),
            width => self.misplaced(place, |slot| hasher.of(self.key(slot, width))),
        }
    }

    #[cfg(feature = "std")]
    #[expect(clippy::inline_always, reason = "once for each way to hash")]
    #[inline(always)]
    fn misplaced(
        &self,
        (prefix, depth): (u64, u32),
        hash_of: impl Fn(usize) -> u64,
    ) -> Option<(usize, u64, Option<usize>)> {
        let slots = self.fixed.slots();
        for first in (0..slots).step_by(GROUP_LEN) {
            let tags = self.tags(first);
            let mut used = !tags.empty() & (u16::MAX >> GROUP_LEN.saturating_sub(slots - first).min(15));
            while used != 0 {
                let slot = first + used.trailing_zeros() as usize;
                let own = used & used.wrapping_neg();
                used ^= own;
                let hash = hash_of(slot);
                // Nearly all lie where the search begins, and their fingerprint is the only one of its kind there.
                let is_first = home(hash, slots) & !(GROUP_LEN - 1) == first;
                let is_alone = is_first && tags.equal(fingerprint(hash)) == own;
                let is_own = (hash ^ prefix).leading_zeros() >= depth;
                if is_own && is_alone {
                    continue;
                }
                let found = self.slot_of(hash, self.key(slot, self.fixed.key_width()));
                if !is_own || found != Some(slot) {
                    return Some((slot, hash, found));
                }
            }
        }
        None
    }

    /// The key in a slot, which is below their number; `len` is the width of keys.
    #[inline]
    fn key(&self, slot: usize, len: usize) -> &[u8] {
        debug_assert!(slot < self.fixed.slots() && len == self.fixed.key_width());
        // SAFETY: a slot begins with its key, and `new` has seen all slots to be in the page.
        let at = unsafe { self.at.add(self.fixed.slot_at(slot)) };
        // SAFETY: and all of the page is initialised and lives longer than the borrow.
        unsafe { core::slice::from_raw_parts(at.as_ptr(), len) }
    }

    /// The tags of the sixteen slots from `first` on, which is a multiple of sixteen and 0 or below the number of slots.
    #[inline]
    fn tags(&self, first: usize) -> Tags {
        debug_assert!(first.is_multiple_of(GROUP_LEN) && (first == 0 || first < self.fixed.slots()));
        // SAFETY: a whole group of tags begins there, in front of the slots.
        let at = unsafe { self.at.add(TAGS_OFFSET + first) };
        // SAFETY: all of the page is initialised and lives for 'a.
        Tags::new(unsafe { at.cast::<[u8; GROUP_LEN]>().as_ref() })
    }
}

/// The value of a key in a page with records of one size, which counts as changed. None if the key is not there, or the
/// page is too short for its shape.
#[expect(clippy::inline_always, reason = "the loop of every update")]
#[inline(always)]
pub(in super::super) fn find_mut<'a>(
    bytes: &'a mut [u8],
    fixed: &Fixed,
    hash: u64,
    key: &[u8],
) -> Option<&'a mut [u8]> {
    if fixed.end as usize > bytes.len() {
        return None;
    }
    let at = NonNull::from_mut(bytes).cast::<u8>();
    let slot = SlotPage { at, fixed, _bytes: PhantomData }.slot_of(hash, key)?;
    // SAFETY: there is a tag for each slot, in front of the slots, which lie within the page.
    let tag = unsafe { at.add(TAGS_OFFSET + slot) };
    // SAFETY: all of the page is initialised, and was borrowed for writing.
    let old = unsafe { tag.read() };
    if old & TAG_DIRTY == 0 {
        // SAFETY: as for reading.
        unsafe { tag.write(old | TAG_DIRTY) };
    }
    // SAFETY: the value lies behind the key in a slot below their number, and these lie within the page.
    let value = unsafe { at.add(fixed.value_at(slot)) };
    // SAFETY: all of the page is initialised and borrowed for writing for 'a, and nothing else uses that any more.
    Some(unsafe { core::slice::from_raw_parts_mut(value.as_ptr(), fixed.value_width()) })
}

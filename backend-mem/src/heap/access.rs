//! Reading a value and changing it in its place.

use slackwater_core::format::page::Content;
use slackwater_core::key_group::KeyGroup;
use zerocopy::IntoBytes;

use super::direct::Direct;
use super::group::{BROKEN, PageAt};
use super::hash::same;
use super::overflow::chain_of;
use super::page::{self, Fixed, Page, Place, SlotPage};
use super::tables::{Head, directory_entry, directory_index, overflow_frame};
use super::{Heap, HeapError, StateId, Value};
use crate::arena::{ArenaHandle, FrameId, FrameView};

/// What a key has.
#[derive(Debug)]
pub(crate) enum Slot<'a> {
    /// A value in its page, to be changed in place.
    Here(&'a mut [u8]),
    /// A value that lies in a chain.
    Elsewhere,
    /// None.
    Absent,
}

impl<A: ArenaHandle> Heap<A> {
    /// The value of a key.
    ///
    /// # Errors
    /// `UnknownState`, `ForeignKeyGroup`.
    #[inline]
    pub fn get(&self, state: StateId, group: KeyGroup, key: &[u8]) -> Result<Option<Value<'_>>, HeapError> {
        self.read(state, group, key, |value| value)
    }

    /// What `with` makes of the value of a key. A value in a slot never becomes a [`Value`] that might be a chain.
    #[inline]
    pub(crate) fn read<'h, R>(
        &'h self,
        state: StateId,
        group: KeyGroup,
        key: &[u8],
        with: impl FnOnce(Value<'h>) -> R,
    ) -> Result<Option<R>, HeapError> {
        match self.look_up(state, group, key) {
            Direct::Found(value) => Ok(Some(with(Value::inline(value)))),
            Direct::Absent => Ok(None),
            Direct::Unknown => self.read_far(state, group, key, with),
        }
    }

    /// The same by the long way.
    #[inline(never)]
    fn read_far<'h, R>(
        &'h self,
        state: StateId,
        group: KeyGroup,
        key: &[u8],
        with: impl FnOnce(Value<'h>) -> R,
    ) -> Result<Option<R>, HeapError> {
        let sought = self.seek(state, group, key)?;
        let Some(fixed) = sought.fixed else {
            return Ok(self.find_value(sought, key).map(with));
        };
        Ok(self.find_fixed(fixed, sought, key).map(|found| with(Value::inline(found.value))))
    }

    /// The page that a key lies in if it is there. Reads nothing of the page itself, but asks for it.
    #[inline]
    pub(super) fn seek(&self, state: StateId, group: KeyGroup, key: &[u8]) -> Result<Sought<'_>, HeapError> {
        let frames = self.frames.view();
        let near = self.near.way(state).and_then(|way| Some((way.fixed(), way.head(frames, group)?)));
        let (fixed, head) = match near {
            Some(near) => near,
            None => self.long_way(state, group)?,
        };
        debug_assert!(
            self.long_way(state, group)
                .is_ok_and(|long| long.1.as_bytes() == head.as_bytes() && long.0 == fixed)
        );
        let hash = self.hasher.of(key);
        let frame = directory_entry(frames, head, directory_index(hash, head.depth));
        if let Some(page) = frames.frame_at(frame) {
            match fixed {
                Some(fixed) => SlotPage::new(page, &fixed).into_iter().for_each(|page| page.prefetch(hash)),
                None => page::prefetch_records(page, hash, usize::from(head.slots_hint) * 4),
            }
        }
        Ok(Sought { head, hash, fixed, frame })
    }

    /// Asks for the page that a key lies in if it is there.
    pub(crate) fn prefetch(&self, state: StateId, group: KeyGroup, key: &[u8]) -> Result<(), HeapError> {
        self.seek(state, group, key).map(|_| ())
    }

    /// The shape of a state's pages, and the head of a key group, from the root on.
    #[cold]
    #[inline(never)]
    fn long_way(&self, state: StateId, group: KeyGroup) -> Result<(Option<Fixed>, &Head), HeapError> {
        let (row, head) = self.walk().row_and_head(state, group)?;
        Ok((row.fixed(), head))
    }

    /// The value of a key, to be changed in place, if the key is there and its value lies in its page.
    ///
    /// # Errors
    /// `UnknownState`, `ForeignKeyGroup`, `SnapshotHolds` if its page is frozen and cannot be copied.
    #[inline]
    pub fn get_mut(
        &mut self,
        state: StateId,
        group: KeyGroup,
        key: &[u8],
    ) -> Result<Option<&mut [u8]>, HeapError> {
        Ok(match self.slot_mut(state, group, key)? {
            Slot::Here(value) => Some(value),
            Slot::Elsewhere | Slot::Absent => None,
        })
    }

    #[inline]
    pub(crate) fn slot_mut(
        &mut self,
        state: StateId,
        group: KeyGroup,
        key: &[u8],
    ) -> Result<Slot<'_>, HeapError> {
        let sought = self.seek(state, group, key)?;
        let (page, slot, start, end) = if let Some(fixed) = sought.fixed {
            let Some(InSlot { page, slot, .. }) = self.find_fixed(fixed, sought, key) else {
                return Ok(Slot::Absent);
            };
            (page, slot, fixed.value_at(slot), fixed.slot_at(slot) + fixed.stride())
        } else {
            let Some((page, place)) = self.find_record(sought, key) else {
                return Ok(Slot::Absent);
            };
            if chain_of(&place.value).is_some() {
                return Ok(Slot::Elsewhere);
            }
            (page, place.slot, place.value_offset(), place.offset + place.len())
        };
        let frame = self.writable_page_of(state, group, page)?;
        let bytes = self.frames.write_frame(frame).ok_or(BROKEN)?;
        page::mark_dirty(bytes, slot).ok_or(BROKEN)?;
        bytes.get_mut(start..end).map(Slot::Here).ok_or(BROKEN)
    }

    /// Makes a page writable whose key group may not be yet.
    #[inline]
    pub(super) fn writable_page_of(
        &mut self,
        state: StateId,
        group: KeyGroup,
        page: PageAt,
    ) -> Result<FrameId, HeapError> {
        if self.frames.is_writable(page.frame) {
            return Ok(page.frame);
        }
        self.move_page(state, group, page)
    }

    #[cold]
    #[inline(never)]
    fn move_page(&mut self, state: StateId, group: KeyGroup, page: PageAt) -> Result<FrameId, HeapError> {
        let at = self.open(state, group)?;
        self.writable_page(at, page)
    }

    /// Finds a key of a state with records of one size.
    #[inline]
    pub(super) fn find_fixed<'h>(
        &'h self,
        fixed: Fixed,
        sought: Sought<'h>,
        key: &[u8],
    ) -> Option<InSlot<'h>> {
        let Sought { head, hash, frame, .. } = sought;
        if frame.is_none() {
            return None;
        }
        match SlotPage::new(self.frames.view().frame_at(frame)?, &fixed)?.find(hash, key) {
            Some((slot, value)) => Some(InSlot { page: PageAt { frame, overflow_lpn: 0 }, slot, value }),
            // Only then may there be pages linked behind this one, and its header must be looked at.
            None if head.has_overflow != 0 => self.find_linked(sought, key),
            None => None,
        }
    }

    #[cold]
    fn find_linked<'h>(&'h self, sought: Sought<'h>, key: &[u8]) -> Option<InSlot<'h>> {
        let (page, place) = self.find(sought, key)?;
        let Content::Inline(value) = place.value else { return None };
        Some(InSlot { page, slot: place.slot, value })
    }

    #[inline(never)]
    fn find_record<'h>(&'h self, sought: Sought<'h>, key: &[u8]) -> Option<(PageAt, Place<'h>)> {
        self.find(sought, key)
    }

    /// Finds the value of a key of a state with records of any size.
    #[inline(never)]
    fn find_value<'h>(&'h self, sought: Sought<'h>, key: &[u8]) -> Option<Value<'h>> {
        self.find(sought, key).map(|(_, place)| Value::of(place.value, self.frames.view(), sought.head))
    }

    /// Finds a key.
    #[inline]
    pub(super) fn find<'h>(&'h self, sought: Sought<'h>, key: &[u8]) -> Option<(PageAt, Place<'h>)> {
        let Sought { head, hash, frame, .. } = sought;
        let frames = self.frames.view();
        let mut at = PageAt { frame, overflow_lpn: 0 };
        while !at.frame.is_none() {
            let page = Page::new(frames.frame(at.frame))?;
            if let Some(place) = page.find(hash, |content| is_key(content, hash, key, frames, head)) {
                return Some((at, place));
            }
            let lpn = page.header().right_lpn.get();
            if lpn == 0 {
                break;
            }
            at = PageAt { frame: overflow_frame(frames, head, lpn), overflow_lpn: lpn };
        }
        None
    }
}

/// Where a key lies if it is there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sought<'h> {
    head: &'h Head,
    hash: u64,
    fixed: Option<Fixed>,
    frame: FrameId,
}

impl Sought<'_> {
    pub(super) const fn hash(&self) -> u64 {
        self.hash
    }

    /// The shape of the page, if all records of the state have the same size.
    pub(super) const fn fixed(&self) -> Option<Fixed> {
        self.fixed
    }
}

/// A record of one size that was found.
#[derive(Clone, Copy, Debug)]
pub(super) struct InSlot<'h> {
    pub(super) page: PageAt,
    pub(super) slot: usize,
    value: &'h [u8],
}

/// Whether a record's key is `key`, whose hash is `hash`.
#[inline]
pub(super) fn is_key(
    content: Content<'_>,
    hash: u64,
    key: &[u8],
    frames: FrameView<'_>,
    head: &Head,
) -> bool {
    match content {
        Content::Inline(bytes) => same(bytes, key),
        Content::Overflow(reference) => {
            reference.digest.get() == hash && Value::of(content, frames, head).is(key)
        }
    }
}

//! Setting and removing entries.

use slackwater_core::format::page::{Content, KEY_LEN_MAX, OverflowRef, VALUE_LEN_MAX, inline_len_max};
use slackwater_core::key_group::KeyGroup;

use super::access::is_key;
use super::group::{BROKEN, Group, PageAt};
use super::overflow::chain_of;
use super::page::{self, Fixed, Page, record_len};
use super::tables;
use super::{Heap, HeapError, StateId, StateKind};
use crate::arena::{ArenaHandle, FrameId};

/// More steps than it takes to make room for any record.
const STEPS_MAX: usize = 64;

/// A record that is there.
pub(super) struct Found {
    pub(super) page: PageAt,
    pub(super) slot: usize,
    pub(super) key: Option<OverflowRef>,
    pub(super) value: Option<OverflowRef>,
    pub(super) value_len: usize,
}

/// What the record to be written holds: references for what does not fit inline.
pub(super) struct Parts<'a> {
    pub(super) key: Content<'a>,
    pub(super) value: Content<'a>,
}

impl<A: ArenaHandle> Heap<A> {
    pub(super) fn put_checked(
        &mut self,
        state: StateId,
        group: KeyGroup,
        key: &[u8],
        value: &[u8],
    ) -> Result<(), HeapError> {
        let sought = self.seek(state, group, key)?;
        let hash = sought.hash();
        if let Some(fixed) = sought.fixed() {
            fixed.check(state, key, value)?;
            let found = self.find_fixed(fixed, sought, key).map(|found| (found.page, found.slot));
            return self.put_fixed((state, group), fixed, found, hash, (key, value));
        }
        self.walk().row(state)?.expect(StateKind::Hash, state)?;
        Self::check_lengths(key, value)?;
        let (key_out, value_out) = self.what_overflows(key.len(), value.len());
        let at = self.open(state, group)?;
        let found = self.find_for_write(at, hash, key);
        if let Some(found) = &found
            && found.value.is_none()
            && found.key.is_some() == key_out
            && !value_out
            && value.len() <= found.value_len
        {
            let frame = self.writable_page(at, found.page)?;
            let bytes = self.frames.write(frame).ok_or(BROKEN)?;
            return page::set_value(bytes, found.slot, value).ok_or(BROKEN);
        }
        let known_key = found.and_then(|found| found.key);
        let parts = self.write_chains(at, hash, (key, key_out, known_key), (value, value_out))?;
        let placed = self.place(at, hash, key, &parts);
        if placed.is_err() {
            self.give_up(at, &parts, known_key)?;
        }
        placed
    }

    /// Sets the value of a key of a state with records of one size.
    fn put_fixed(
        &mut self,
        (state, group): (StateId, KeyGroup),
        fixed: Fixed,
        found: Option<(PageAt, usize)>,
        hash: u64,
        (key, value): (&[u8], &[u8]),
    ) -> Result<(), HeapError> {
        if let Some((page, slot)) = found {
            let frame = self.writable_page_of(state, group, page)?;
            let bytes = self.frames.write(frame).ok_or(BROKEN)?;
            return page::set_value(bytes, slot, value).ok_or(BROKEN);
        }
        let at = self.open(state, group)?;
        let first = self.pages_for(at, hash).next().map(|(page, _)| page);
        if let Some(first) = first {
            let frame = self.writable_page(at, first)?;
            let bytes = self.frames.write(frame).ok_or(BROKEN)?;
            if page::insert_fixed(bytes, fixed, hash, key, value).is_some() {
                return self.count(at, true);
            }
        }
        let parts = Parts { key: Content::Inline(key), value: Content::Inline(value) };
        self.place(at, hash, key, &parts)
    }

    /// Whether the key and the value go to chains (see `inline_len_max`).
    pub(super) fn what_overflows(&self, key: usize, value: usize) -> (bool, bool) {
        let max = inline_len_max(self.frames.geometry().frame_size());
        if key + value <= max {
            (false, false)
        } else if key + OverflowRef::LEN <= max {
            (false, true)
        } else {
            (true, OverflowRef::LEN + value > max)
        }
    }

    /// Refuses keys and values that no heap takes.
    pub(super) fn check_lengths(key: &[u8], value: &[u8]) -> Result<(), HeapError> {
        if key.len() > KEY_LEN_MAX {
            return Err(HeapError::KeyTooLarge { len: key.len(), len_max: KEY_LEN_MAX });
        }
        if value.len() > VALUE_LEN_MAX {
            return Err(HeapError::ValueTooLarge { len: value.len(), len_max: VALUE_LEN_MAX });
        }
        Ok(())
    }

    /// Writes the chains of a new record; the key's is there already if the key is.
    pub(super) fn write_chains<'a>(
        &mut self,
        at: Group,
        hash: u64,
        (key, key_out, known_key): (&'a [u8], bool, Option<OverflowRef>),
        (value, value_out): (&'a [u8], bool),
    ) -> Result<Parts<'a>, HeapError> {
        let value = if value_out {
            Content::Overflow(self.write_chain(at, value, 0)?)
        } else {
            Content::Inline(value)
        };
        let key = match known_key {
            _ if !key_out => Content::Inline(key),
            Some(reference) => Content::Overflow(reference),
            None => match self.write_chain(at, key, hash) {
                Ok(reference) => Content::Overflow(reference),
                Err(error) => {
                    self.free_content(at, chain_of(&value))?;
                    return Err(error);
                }
            },
        };
        Ok(Parts { key, value })
    }

    /// Frees the chains of a record that found no place.
    pub(super) fn give_up(
        &mut self,
        at: Group,
        parts: &Parts<'_>,
        known_key: Option<OverflowRef>,
    ) -> Result<(), HeapError> {
        self.free_content(at, chain_of(&parts.value))?;
        if known_key.is_none() {
            self.free_content(at, chain_of(&parts.key))?;
        }
        Ok(())
    }

    /// Puts a record into a page, in place of the one of its key.
    pub(super) fn place(
        &mut self,
        at: Group,
        hash: u64,
        key: &[u8],
        parts: &Parts<'_>,
    ) -> Result<(), HeapError> {
        let len = record_len(&parts.key, &parts.value);
        for _ in 0..STEPS_MAX {
            let target = self.pages_for(at, hash).find(|(_, page)| page.has_room(len)).map(|(page, _)| page);
            let Some(target) = target else {
                self.make_room(at, hash, len)?;
                continue;
            };
            let target = PageAt { frame: self.writable_page(at, target)?, ..target };
            match self.find_for_write(at, hash, key) {
                Some(found) => {
                    let kept = chain_of(&parts.key).is_some();
                    self.take_out(at, &found, kept)?;
                }
                None => self.count(at, true)?,
            }
            let bytes = self.frames.write(target.frame).ok_or(BROKEN)?;
            return page::insert(bytes, hash, &parts.key, &parts.value).ok_or(BROKEN);
        }
        Err(BROKEN)
    }

    /// Takes a record out of its page and frees its chains, but not the key's if that is kept. Fails before
    /// anything has changed or not at all.
    fn take_out(&mut self, at: Group, found: &Found, keep_key: bool) -> Result<FrameId, HeapError> {
        let frame = self.writable_page(at, found.page)?;
        if found.key.is_some() || found.value.is_some() {
            self.writable_overflow(at)?;
        }
        let hasher = self.hasher;
        let bytes = self.frames.write(frame).ok_or(BROKEN)?;
        page::remove(bytes, found.slot, |key| hasher.of_content(key)).ok_or(BROKEN)?;
        self.free_content(at, found.value)?;
        if !keep_key {
            self.free_content(at, found.key)?;
        }
        Ok(frame)
    }

    pub(super) fn find_for_write(&self, at: Group, hash: u64, key: &[u8]) -> Option<Found> {
        let (frames, head) = (self.frames.view(), self.head(at));
        self.pages_for(at, hash).find_map(|(at, page)| {
            let place = page.find(hash, |content| is_key(content, hash, key, frames, head))?;
            Some(Found {
                page: at,
                slot: place.slot,
                key: chain_of(&place.key),
                value: chain_of(&place.value),
                value_len: match place.value {
                    Content::Inline(bytes) => bytes.len(),
                    Content::Overflow(_) => 0,
                },
            })
        })
    }

    pub(super) fn remove_checked(
        &mut self,
        state: StateId,
        group: KeyGroup,
        key: &[u8],
    ) -> Result<bool, HeapError> {
        let sought = self.seek(state, group, key)?;
        let hash = sought.hash();
        if self.find(sought, key).is_none() {
            return Ok(false);
        }
        let at = self.open(state, group)?;
        let found = self.find_for_write(at, hash, key).ok_or(BROKEN)?;
        let frame = self.take_out(at, &found, false)?;
        self.count(at, false)?;
        if self.head(at).entries.get() == 0 {
            self.clear(at)?;
        } else {
            self.after_removal(at, hash, PageAt { frame, ..found.page })?;
        }
        Ok(true)
    }

    /// Gives back everything of a key group, whose entries are not counted any more.
    pub(super) fn clear(&mut self, at: Group) -> Result<(), HeapError> {
        let head = *self.head(at);
        let mut index = 0;
        while index < 1_usize << head.depth {
            let frame = tables::directory_entry(self.frames.view(), &head, index);
            let depth = Page::new(self.frames.view().frame(frame)).ok_or(BROKEN)?.header().local_depth;
            self.frames.retire_of(at.group, frame);
            index += 1 << head.depth.saturating_sub(depth);
        }
        if head.depth > tables::INLINE_DEPTH_MAX {
            self.frames.retire_of(at.group, FrameId(head.directory.get()));
        }
        self.retire_overflow(at);
        *self.head_mut(at)? = tables::EMPTY_HEAD;
        Ok(())
    }
}

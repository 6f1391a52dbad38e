//! Keys and values too long for a record, in chains of pages of their own. A chain changes only
//! at its end, by appending. The overflow table of a key group gives the frame for each lpn.

use slackwater_core::format::page::{
    Content, NO_PAGE, OVERFLOW_BYTES_OFFSET, OverflowHead, OverflowRef, PAGE_FORMAT, PAGE_TYPE_OVERFLOW,
    PageHeader,
};
use zerocopy::FromBytes;

use super::group::{BROKEN, Group};
use super::tables::{self, ENTRY_FREE, LPN_OVERFLOW, NO_ENTRY};
use super::{Heap, HeapError};
use crate::arena::{ArenaHandle, FrameId};

/// Offset of the next page's lpn in a page of a chain.
const NEXT_LPN_AT: usize = OVERFLOW_BYTES_OFFSET - OverflowHead::LEN;

impl<A: ArenaHandle> Heap<A> {
    /// Makes the overflow table writable, if there is one.
    pub(super) fn writable_overflow(&mut self, at: Group) -> Result<(), HeapError> {
        let head = self.head(at);
        if head.has_overflow != 0 {
            let table = self.frames.make_writable_of(at.group, FrameId(head.overflow.get()))?;
            self.head_mut(at)?.overflow = table.0.into();
        }
        Ok(())
    }

    /// Takes a free lpn; its entry must be set next.
    pub(super) fn take_lpn(&mut self, at: Group) -> Result<u32, HeapError> {
        self.writable_overflow(at)?;
        let head = self.head(at);
        let (has, free, used) = (head.has_overflow != 0, head.overflow_free.get(), head.overflow_used.get());
        if has && free != NO_ENTRY {
            let next = self.frames.view().u32(FrameId(head.overflow.get()), free as usize * 4) & !ENTRY_FREE;
            let head = self.head_mut(at)?;
            head.overflow_free = next.into();
            head.overflow_free_count = head.overflow_free_count.get().saturating_sub(1).into();
            return Ok(LPN_OVERFLOW | free);
        }
        if !has || used >> head.overflow_log2 != 0 {
            self.grow_overflow(at)?;
        }
        self.head_mut(at)?.overflow_used = (used + 1).into();
        Ok(LPN_OVERFLOW | used)
    }

    /// Makes the overflow table, or doubles it.
    fn grow_overflow(&mut self, at: Group) -> Result<(), HeapError> {
        let head = self.head(at);
        let (has, old) = (head.has_overflow != 0, FrameId(head.overflow.get()));
        let entries_log2 = if has { head.overflow_log2 + 1 } else { self.overflow_log2_min() };
        let order = self.order_of_entries(entries_log2);
        let run = if has { self.enlarge(old, order)? } else { self.frames.take_zeroed(order)? };
        let head = self.head_mut(at)?;
        head.overflow = run.0.into();
        head.overflow_log2 = entries_log2;
        head.has_overflow = 1;
        if !has {
            head.overflow_free = NO_ENTRY.into();
        }
        Ok(())
    }

    /// Logarithm of the entries of the smallest overflow table: a frame.
    pub(super) const fn overflow_log2_min(&self) -> u8 {
        self.frames.geometry().frame_size_log2 - 2
    }

    /// Sets the frame of an lpn in the writable overflow table.
    pub(super) fn set_overflow(&mut self, at: Group, lpn: u32, entry: u32) -> Result<(), HeapError> {
        let table = FrameId(self.head(at).overflow.get());
        let offset = (lpn & !LPN_OVERFLOW) as usize * 4;
        let place =
            self.frames.write(table).and_then(|table| table.get_mut(offset..offset + 4)).ok_or(BROKEN)?;
        place.copy_from_slice(&entry.to_le_bytes());
        Ok(())
    }

    /// Gives back an lpn; the overflow table is writable. The table goes with its last page, and shrinks when
    /// hardly any are left.
    pub(super) fn give_lpn(&mut self, at: Group, lpn: u32) -> Result<(), HeapError> {
        let next = self.head(at).overflow_free.get();
        self.set_overflow(at, lpn, ENTRY_FREE | next)?;
        let head = self.head_mut(at)?;
        head.overflow_free = (lpn & !LPN_OVERFLOW).into();
        head.overflow_free_count += 1;
        let live = head.overflow_used.get().saturating_sub(head.overflow_free_count.get());
        // Only at powers of two: a table that cannot shrink is not looked through again and again.
        if live == 0 || live.is_power_of_two() && (live * 8) >> head.overflow_log2 == 0 {
            self.shrink_overflow(at)?;
        }
        Ok(())
    }

    /// Cuts the free entries off the table's end, if that saves frames.
    fn shrink_overflow(&mut self, at: Group) -> Result<(), HeapError> {
        let head = self.head(at);
        let (old, old_log2) = (FrameId(head.overflow.get()), head.overflow_log2);
        let frames = self.frames.view();
        let is_live = |index: &u32| frames.u32(old, *index as usize * 4) & ENTRY_FREE == 0;
        let Some(last) = (0..head.overflow_used.get()).rev().find(is_live) else {
            let head = self.head_mut(at)?;
            head.has_overflow = 0;
            (head.overflow_used, head.overflow_free_count) = (0.into(), 0.into());
            self.frames.retire_of(at.group, old);
            return Ok(());
        };
        let used = last + 1;
        let entries_log2 = self.overflow_log2_min().max(low_log2(used));
        if self.order_of_entries(entries_log2) >= self.order_of_entries(old_log2) {
            return Ok(());
        }
        // Without memory for a smaller one the table stays.
        let Ok(run) = self.frames.take(self.order_of_entries(entries_log2)) else { return Ok(()) };
        let (from, to) = self.frames.read_and_write(old, run).ok_or(BROKEN)?;
        to.copy_from_slice(from.get(..to.len()).ok_or(BROKEN)?);
        self.frames.retire_of(at.group, old);
        let head = self.head_mut(at)?;
        head.overflow = run.0.into();
        head.overflow_log2 = entries_log2;
        head.overflow_used = used.into();
        self.link_free_entries(at, used)
    }

    /// Makes the list of free entries anew, the first ones first.
    pub(super) fn link_free_entries(&mut self, at: Group, used: u32) -> Result<(), HeapError> {
        let table = FrameId(self.head(at).overflow.get());
        let (mut next, mut count) = (NO_ENTRY, 0);
        for index in (0..used).rev() {
            if self.frames.view().u32(table, index as usize * 4) & ENTRY_FREE != 0 {
                self.set_overflow(at, LPN_OVERFLOW | index, ENTRY_FREE | next)?;
                (next, count) = (index, count + 1);
            }
        }
        let head = self.head_mut(at)?;
        head.overflow_free = next.into();
        head.overflow_free_count = count.into();
        Ok(())
    }

    /// Writes a chain, the last page first. Takes nothing if it does not fit.
    pub(super) fn write_chain(
        &mut self,
        at: Group,
        bytes: &[u8],
        digest: u64,
    ) -> Result<OverflowRef, HeapError> {
        let room = self.frames.geometry().frame_size().saturating_sub(OVERFLOW_BYTES_OFFSET).max(1);
        let mut next = NO_PAGE;
        let mut written = 0;
        for part in bytes.chunks(room).rev() {
            match self.write_part(at, part, next) {
                Ok(lpn) => next = lpn,
                Err(error) => {
                    self.free_chain(
                        at,
                        &OverflowRef { first_lpn: next.into(), len: written.into(), digest: 0.into() },
                    )?;
                    return Err(error);
                }
            }
            written += len_of(part);
        }
        Ok(OverflowRef { first_lpn: next.into(), len: written.into(), digest: digest.into() })
    }

    /// Takes an lpn and a writable frame for it.
    pub(super) fn take_lpn_page(&mut self, at: Group) -> Result<(u32, FrameId), HeapError> {
        let lpn = self.take_lpn(at)?;
        match self.frames.take(0) {
            Ok(frame) => self.set_overflow(at, lpn, frame.0).map(|()| (lpn, frame)),
            Err(error) => self.give_lpn(at, lpn).and(Err(error)),
        }
    }

    /// Gives back a page; the overflow table is writable.
    pub(super) fn give_lpn_page(&mut self, at: Group, lpn: u32) -> Result<(), HeapError> {
        self.frames.retire_of(at.group, tables::overflow_frame(self.frames.view(), self.head(at), lpn));
        self.give_lpn(at, lpn)
    }

    fn write_part(&mut self, at: Group, part: &[u8], next: u32) -> Result<u32, HeapError> {
        let (lpn, frame) = self.take_lpn_page(at)?;
        let (epoch, frame_size_log2) = (self.frames.epoch(), self.frames.geometry().frame_size_log2);
        let bytes = self.frames.write(frame).ok_or(BROKEN)?;
        bytes.fill(0);
        let (header, rest) = PageHeader::mut_from_prefix(bytes).map_err(|_| BROKEN)?;
        header.page_type = PAGE_TYPE_OVERFLOW.into();
        header.format = PAGE_FORMAT;
        header.frame_size_log2 = frame_size_log2;
        header.state_id = at.state.0.into();
        header.key_group = at.group.0.into();
        header.lpn = lpn.into();
        header.epoch = epoch.into();
        let (head, rest) = OverflowHead::mut_from_prefix(rest).map_err(|_| BROKEN)?;
        head.next_lpn = next.into();
        head.len = len_of(part).into();
        rest.get_mut(..part.len()).ok_or(BROKEN)?.copy_from_slice(part);
        Ok(lpn)
    }

    /// Writes a chain with the bytes of another. Takes nothing if it does not fit.
    pub(super) fn copy_chain(&mut self, at: Group, chain: &OverflowRef) -> Result<OverflowRef, HeapError> {
        let mut copy = OverflowRef { first_lpn: NO_PAGE.into(), ..*chain };
        let (mut from, mut last) = (chain.first_lpn.get(), FrameId::NONE);
        while from != NO_PAGE {
            let (lpn, frame) = match self.take_lpn_page(at) {
                Ok(page) => page,
                Err(error) => return self.free_chain(at, &copy).and(Err(error)),
            };
            let source = tables::overflow_frame(self.frames.view(), self.head(at), from);
            from = self.frames.view().u32(source, NEXT_LPN_AT);
            self.copy_part(source, frame, lpn)?;
            if last.is_none() {
                copy.first_lpn = lpn.into();
            } else {
                self.set_number(last, NEXT_LPN_AT, lpn)?;
            }
            last = frame;
        }
        Ok(copy)
    }

    /// Copies a page of a chain, which becomes the last of its own.
    fn copy_part(&mut self, from: FrameId, to: FrameId, lpn: u32) -> Result<(), HeapError> {
        let epoch = self.frames.epoch();
        let (source, bytes) = self.frames.read_and_write(from, to).ok_or(BROKEN)?;
        bytes.copy_from_slice(source.get(..bytes.len()).ok_or(BROKEN)?);
        let (header, rest) = PageHeader::mut_from_prefix(bytes).map_err(|_| BROKEN)?;
        header.lpn = lpn.into();
        header.epoch = epoch.into();
        OverflowHead::mut_from_prefix(rest).map_err(|_| BROKEN)?.0.next_lpn = NO_PAGE.into();
        Ok(())
    }

    /// Gives back a chain; the overflow table is writable.
    pub(super) fn free_chain(&mut self, at: Group, reference: &OverflowRef) -> Result<(), HeapError> {
        let mut lpn = reference.first_lpn.get();
        while lpn != NO_PAGE {
            let frame = tables::overflow_frame(self.frames.view(), self.head(at), lpn);
            if frame.is_none() {
                return Err(BROKEN);
            }
            let next = self.frames.view().u32(frame, NEXT_LPN_AT);
            self.give_lpn_page(at, lpn)?;
            lpn = next;
        }
        Ok(())
    }

    /// Gives back the overflow table and all its pages. The caller forgets it.
    pub(super) fn retire_overflow(&mut self, at: Group) {
        let head = self.head(at);
        if head.has_overflow == 0 {
            return;
        }
        let (table, used) = (FrameId(head.overflow.get()), head.overflow_used.get());
        for index in 0..used {
            let entry = self.frames.view().u32(table, index as usize * 4);
            if entry & ENTRY_FREE == 0 {
                self.frames.retire_of(at.group, FrameId(entry));
            }
        }
        self.frames.retire_of(at.group, table);
    }

    /// Gives back the chain of a key or value that has one.
    pub(super) fn free_content(&mut self, at: Group, content: Option<OverflowRef>) -> Result<(), HeapError> {
        content.map_or(Ok(()), |reference| self.free_chain(at, &reference))
    }
}

/// The chain of a key or value, if it has one.
pub(super) const fn chain_of(content: &Content<'_>) -> Option<OverflowRef> {
    match content {
        Content::Inline(_) => None,
        Content::Overflow(reference) => Some(*reference),
    }
}

/// The length of a part of a chain. Lengths are checked against the format's limits before.
pub(super) fn len_of(part: &[u8]) -> u32 {
    u32::try_from(part.len()).unwrap_or(u32::MAX)
}

/// The logarithm of the smallest power of two that is not below `count`.
pub(super) fn low_log2(count: u32) -> u8 {
    u8::try_from(count.next_power_of_two().trailing_zeros()).unwrap_or(u8::MAX)
}

//! Making values longer at their end, whatever their length.

use slackwater_core::format::page::{
    Content, NO_PAGE, OVERFLOW_BYTES_OFFSET, OverflowHead, OverflowRef, PAGE_TYPE_OVERFLOW, PageHeader,
    VALUE_LEN_MAX,
};
use slackwater_core::key_group::KeyGroup;
use zerocopy::FromBytes;

use super::access::is_key;
use super::group::{BROKEN, Group};
use super::overflow::len_of;
use super::write::Found;
use super::{Heap, HeapError, StateId, page, tables};
use crate::arena::{ArenaHandle, FrameId};

#[cfg(test)]
mod tests;

/// No value that lies in a page is longer.
const INLINE_LEN_MAX: usize = 4096;

impl<A: ArenaHandle> Heap<A> {
    /// Adds bytes behind the value of a key; they are its value if it has none.
    ///
    /// A value that lies in its page is moved within it, a long one is written at its end only: beside `bytes`
    /// it touches two pages, but for the first time after a `put` of a long value, which looks for the end.
    ///
    /// # Errors
    /// As [`Heap::put`]; the old value stays.
    pub fn append(
        &mut self,
        state: StateId,
        group: KeyGroup,
        key: &[u8],
        bytes: &[u8],
    ) -> Result<(), HeapError> {
        let (row, _) = self.walk().row_and_head(state, group)?;
        if let Some(fixed) = row.fixed() {
            return match self.get(state, group, key)? {
                None => self.put_checked(state, group, key, bytes),
                Some(value) => fixed.check_lens(state, (key.len(), value.len() + bytes.len())),
            };
        }
        Self::check_lengths(key, bytes)?;
        let hash = self.hasher.of(key);
        let at = self.open(state, group)?;
        let Some(found) = self.find_for_write(at, hash, key) else {
            return self.put_checked(state, group, key, bytes);
        };
        match found.value {
            Some(chain) => self.append_to_chain(at, &found, chain, bytes),
            None => self.append_inline(at, hash, key, &found, bytes),
        }
    }

    fn append_inline(
        &mut self,
        at: Group,
        hash: u64,
        key: &[u8],
        found: &Found,
        bytes: &[u8],
    ) -> Result<(), HeapError> {
        let (key_out, value_out) = self.what_overflows(key.len(), found.value_len + bytes.len());
        if !value_out && key_out == found.key.is_some() {
            let frame = self.writable_page(at, found.page)?;
            let page = self.frames.write(frame).ok_or(BROKEN)?;
            if page::append_to_value(page, found.slot, bytes).is_some() {
                return Ok(());
            }
        }
        let mut joined = heapless::Vec::<u8, INLINE_LEN_MAX>::new();
        let old = self.inline_value(at, hash, key).ok_or(BROKEN)?;
        joined.extend_from_slice(old).map_err(|_| BROKEN)?;
        if !value_out {
            joined.extend_from_slice(bytes).map_err(|_| BROKEN)?;
        }
        let mut parts = self.write_chains(at, hash, (key, key_out, found.key), (&joined, value_out))?;
        let grown = match parts.value {
            Content::Inline(_) => Ok(()),
            Content::Overflow(chain) => self.extend_chain(at, chain, bytes).map(|chain| {
                parts.value = Content::Overflow(chain);
            }),
        };
        let placed = grown.and_then(|()| self.place(at, hash, key, &parts));
        if placed.is_err() {
            self.give_up(at, &parts, found.key)?;
        }
        placed
    }

    fn inline_value(&self, at: Group, hash: u64, key: &[u8]) -> Option<&[u8]> {
        let (frames, head) = (self.frames.view(), self.head(at));
        let mut pages = self.pages_for(at, hash);
        let place = pages
            .find_map(|(_, page)| page.find(hash, |content| is_key(content, hash, key, frames, head)))?;
        match place.value {
            Content::Inline(bytes) => Some(bytes),
            Content::Overflow(_) => None,
        }
    }

    fn append_to_chain(
        &mut self,
        at: Group,
        found: &Found,
        chain: OverflowRef,
        bytes: &[u8],
    ) -> Result<(), HeapError> {
        let len = chain.len.get() as usize + bytes.len();
        if len > VALUE_LEN_MAX {
            return Err(HeapError::ValueTooLarge { len, len_max: VALUE_LEN_MAX });
        }
        let frame = self.writable_page(at, found.page)?;
        let chain = self.extend_chain(at, chain, bytes)?;
        let page = self.frames.write(frame).ok_or(BROKEN)?;
        page::set_value_chain(page, found.slot, &chain).ok_or(BROKEN)
    }

    /// Makes a chain longer; the reference must be replaced by the one it gives. Nothing changes before
    /// everything that can fail is done.
    fn extend_chain(
        &mut self,
        at: Group,
        chain: OverflowRef,
        bytes: &[u8],
    ) -> Result<OverflowRef, HeapError> {
        if chain.len.get() == 0 {
            return self.write_chain(at, bytes, 0);
        }
        let mut last_lpn = self.last_of_chain(at, &chain)?;
        let last = self.writable_chain_page(at, last_lpn)?;
        let (slack, behind) = bytes.split_at(bytes.len().min(self.slack_of(last)));
        let mut next_lpn = None;
        if !behind.is_empty() {
            let more = self.write_chain(at, behind, 0)?;
            last_lpn = self.last_of_chain(at, &more)?;
            next_lpn = Some(more.first_lpn.get());
        }
        self.fill_chain_page(last, slack, next_lpn).ok_or(BROKEN)?;
        let len = chain.len.get().checked_add(len_of(bytes)).ok_or(BROKEN)?;
        Ok(OverflowRef { len: len.into(), digest: u64::from(last_lpn).into(), ..chain })
    }

    /// The last page of a chain: the reference names it, or it is found by going there.
    fn last_of_chain(&self, at: Group, chain: &OverflowRef) -> Result<u32, HeapError> {
        let mut lpn = match u32::try_from(chain.digest.get()) {
            Ok(0) => chain.first_lpn.get(),
            Ok(last) => last,
            Err(_) => return Err(BROKEN),
        };
        loop {
            let frame = tables::overflow_frame(self.frames.view(), self.head(at), lpn);
            if frame.is_none() {
                return Err(BROKEN);
            }
            match self.frames.view().u32(frame, OVERFLOW_BYTES_OFFSET - OverflowHead::LEN) {
                NO_PAGE => return Ok(lpn),
                next => lpn = next,
            }
        }
    }

    /// Makes a page of a chain writable, in its place or in another.
    fn writable_chain_page(&mut self, at: Group, lpn: u32) -> Result<FrameId, HeapError> {
        let frame = tables::overflow_frame(self.frames.view(), self.head(at), lpn);
        if self.frames.is_writable(frame) {
            return Ok(frame);
        }
        self.writable_overflow(at)?;
        let moved = self.frames.make_writable_of(at.group, frame)?;
        let epoch = self.frames.epoch();
        let bytes = self.frames.write(moved).ok_or(BROKEN)?;
        let (header, _) = PageHeader::mut_from_prefix(bytes).map_err(|_| BROKEN)?;
        if header.page_type.get() != PAGE_TYPE_OVERFLOW {
            return Err(BROKEN);
        }
        header.epoch = epoch.into();
        self.set_overflow(at, lpn, moved.0)?;
        Ok(moved)
    }

    /// How many bytes a page of a chain has room for.
    fn slack_of(&self, frame: FrameId) -> usize {
        let room = self.frames.geometry().frame_size() - OVERFLOW_BYTES_OFFSET;
        room.saturating_sub(self.frames.view().u32(frame, OVERFLOW_BYTES_OFFSET - 4) as usize)
    }

    /// Adds bytes to a page of a chain that has room for them, and links the next page behind it.
    fn fill_chain_page(&mut self, frame: FrameId, bytes: &[u8], next_lpn: Option<u32>) -> Option<()> {
        let page = self.frames.write(frame)?.get_mut(PageHeader::LEN..)?;
        let (head, rest) = OverflowHead::mut_from_prefix(page).ok()?;
        let used = head.len.get() as usize;
        rest.get_mut(used..used + bytes.len())?.copy_from_slice(bytes);
        head.len += len_of(bytes);
        if let Some(lpn) = next_lpn {
            head.next_lpn = lpn.into();
        }
        Some(())
    }
}

//! Joining pages that hold little, so that a state that shrinks gives its memory back.
//!
//! A page that a record was taken out of joins its buddy, whose prefix differs in the last bit, if both together
//! fit into half a page: so many records have gone since the split, and as many must come before the next one.

use super::group::{BROKEN, Group, PageAt};
use super::page::{self, Layout, Page, slots_for, slots_usable};
use super::tables::{self, INLINE_DEPTH_MAX, directory_entry, directory_index};
use super::{Heap, HeapError, grow};
use crate::arena::{ArenaHandle, FrameId};

/// A directory with fewer entries than this for each page is left as it is.
const ENTRIES_PER_PAGE_MAX: usize = 8;

impl<A: ArenaHandle> Heap<A> {
    /// A record with that hash was taken out of a writable page: merges what can be merged. Without memory for
    /// it the pages stay as they are, and nothing is lost.
    pub(super) fn after_removal(&mut self, at: Group, hash: u64, page: PageAt) -> Result<(), HeapError> {
        let merged =
            if page.overflow_lpn == 0 { self.merge_up(at, page.frame) } else { self.unlink(at, hash, page) };
        match merged {
            Err(HeapError::MemoryLimit { .. }) => Ok(()),
            other => other,
        }
    }

    /// Merges a page with its buddy, what comes of it with its own buddy, and so on.
    fn merge_up(&mut self, at: Group, frame: FrameId) -> Result<(), HeapError> {
        let page = self.page(frame)?;
        if page.count() * 4 > slots_usable(page.layout().slots()) {
            return Ok(());
        }
        let (mut kept, mut has_merged) = (frame, false);
        while let Some(buddy) = self.buddy_to_merge(at, kept) {
            kept = self.merge(at, kept, buddy)?;
            has_merged = true;
        }
        if has_merged { self.shrink_directory(at) } else { Ok(()) }
    }

    fn page(&self, frame: FrameId) -> Result<Page<'_>, HeapError> {
        Page::new(self.frames.view().frame(frame)).ok_or(BROKEN)
    }

    /// The page whose prefix differs in the last bit, if both fit into half a page.
    fn buddy_to_merge(&self, at: Group, frame: FrameId) -> Option<FrameId> {
        let page = Page::new(self.frames.view().frame(frame))?;
        let header = page.header();
        let bit = (1_u64 << 63) >> header.local_depth.checked_sub(1)?;
        let head = self.head(at);
        let index = directory_index(header.hash_prefix.get() ^ bit, head.depth);
        let buddy = directory_entry(self.frames.view(), head, index);
        let buddy_page = Page::new(self.frames.view().frame(buddy))?;
        let other = buddy_page.header();
        let merges = other.local_depth == header.local_depth
            && header.right_lpn.get() == NO_LINK
            && other.right_lpn.get() == NO_LINK
            && fit_half(page, buddy_page);
        merges.then_some(buddy)
    }

    /// Moves the records of one of two pages to the other, which takes over both prefixes. The first is
    /// writable, and with it the directory. Gives the page that stays.
    fn merge(&mut self, at: Group, frame: FrameId, buddy: FrameId) -> Result<FrameId, HeapError> {
        self.writable_directory(at)?;
        let moves_first = self.frames.is_writable(buddy) && self.page(frame)?.count() == 0;
        let (from, to) = if moves_first { (frame, buddy) } else { (buddy, frame) };
        self.make_room_for_all(at, from, to)?;
        let header = self.page(to)?.header();
        let depth = header.local_depth.checked_sub(1).ok_or(BROKEN)?;
        let prefix = header.hash_prefix.get() & !((1 << 63) >> depth);
        let hasher = self.hasher;
        let (records, bytes) = self.frames.read_and_write(from, to).ok_or(BROKEN)?;
        let records = Page::new(records).ok_or(BROKEN)?;
        page::fill(records, bytes, |key| hasher.of_content(key), |_| true).ok_or(BROKEN)?;
        page::widen(bytes, (prefix, depth), grow::directory_lpn(prefix, depth)).ok_or(BROKEN)?;
        self.set_directory(at, prefix, depth, to)?;
        self.head_mut(at)?.pages -= 1;
        self.frames.retire_of(at.group, from);
        Ok(to)
    }

    /// Rebuilds a page if the records of another do not fit as it is.
    fn make_room_for_all(&mut self, at: Group, from: FrameId, to: FrameId) -> Result<(), HeapError> {
        let (from, page) = (self.page(from)?, self.page(to)?);
        if let Layout::Fixed(_) = page.layout() {
            return Ok(());
        }
        let (count, bytes) = (from.count() + page.count(), from.record_bytes() + page.record_bytes());
        let has_slots = count <= slots_usable(page.layout().slots());
        if from.count() == 0 || has_slots && from.record_bytes() <= page.free_bytes() {
            return Ok(());
        }
        let slots = slots_for(self.frames.geometry().frame_size(), count, bytes).ok_or(BROKEN)?;
        self.rebuild(at, PageAt { frame: to, overflow_lpn: 0 }, slots)
    }

    /// Halves the directory as long as no page needs its last bit, if it is far larger than the number of pages
    /// asks for. Looks at the pages only when their number is a power of two.
    fn shrink_directory(&mut self, at: Group) -> Result<(), HeapError> {
        let head = self.head(at);
        let (depth, pages) = (head.depth, head.pages.get());
        let is_large = 1_usize << depth > ENTRIES_PER_PAGE_MAX * pages as usize;
        if depth <= INLINE_DEPTH_MAX || !is_large || !pages.is_power_of_two() {
            return Ok(());
        }
        let needed = self.deepest(at)?;
        if needed >= depth {
            return Ok(());
        }
        let old = FrameId(head.directory.get());
        if needed <= INLINE_DEPTH_MAX {
            let mut inline = tables::EMPTY_HEAD.inline;
            for (index, entry) in inline.iter_mut().enumerate().take(1 << needed) {
                *entry =
                    directory_entry(self.frames.view(), self.head(at), index << (depth - needed)).0.into();
            }
            self.head_mut(at)?.inline = inline;
        } else {
            let run = self.frames.take_zeroed(self.order_of_entries(needed))?;
            for index in 0..1_usize << needed {
                let entry = directory_entry(self.frames.view(), self.head(at), index << (depth - needed));
                self.set_number(run, index * 4, entry.0)?;
            }
            self.head_mut(at)?.directory = run.0.into();
        }
        self.head_mut(at)?.depth = needed;
        self.frames.retire_of(at.group, old);
        Ok(())
    }

    /// The most leading bits that the records of a page share.
    fn deepest(&self, at: Group) -> Result<u8, HeapError> {
        let head = self.head(at);
        let (mut index, mut deepest) = (0, 0);
        while index >> head.depth == 0 {
            let page = self.page(directory_entry(self.frames.view(), head, index))?;
            let depth = page.header().local_depth;
            deepest = deepest.max(depth);
            index += 1 << head.depth.saturating_sub(depth);
        }
        Ok(deepest)
    }

    /// Takes an empty page out of the chain behind a page of the directory.
    fn unlink(&mut self, at: Group, hash: u64, page: PageAt) -> Result<(), HeapError> {
        let empty = self.page(page.frame)?;
        if empty.count() > 0 {
            return Ok(());
        }
        let next = empty.header().right_lpn.get();
        let before =
            self.pages_for(at, hash).find(|(_, before)| before.header().right_lpn == page.overflow_lpn);
        let before = before.map(|(before, _)| before).ok_or(BROKEN)?;
        let before = self.writable_page(at, before)?;
        self.writable_overflow(at)?;
        self.frames.write(before).and_then(|bytes| page::set_next(bytes, next)).ok_or(BROKEN)?;
        self.frames.retire_of(at.group, page.frame);
        self.give_lpn(at, page.overflow_lpn)
    }
}

/// What stands for no page linked behind one.
const NO_LINK: u32 = 0;

/// Whether all records of two pages fit into half a page.
fn fit_half(page: Page<'_>, other: Page<'_>) -> bool {
    let count = page.count() + other.count();
    match page.layout() {
        Layout::Fixed(fixed) => count <= slots_usable(fixed.slots()) / 2,
        Layout::Records { .. } => {
            let bytes = page.record_bytes() + other.record_bytes();
            count == 0 || slots_for(page.frame_size() / 2, count, bytes).is_some()
        }
    }
}

//! Taking over a key group's pages as a segment holds them, instead of putting entry by entry.
//!
//! Pages come one by one into frames that nothing leads to yet. When all of a state in a key group are there and
//! have been checked together, directory and overflow table are made for them and the head is set: from then on
//! they are pages like any other. They count as written before the epoch in work, so that the first change of each
//! starts its dirty bits anew, relative to the restored snapshot.

use slackwater_core::format::page::PageHeader;
use slackwater_core::key_group::KeyGroup;
use zerocopy::FromBytes;

use super::group::BROKEN;
use super::overflow::low_log2;
use super::tables::{EMPTY_HEAD, ENTRY_FREE, Head, INLINE_DEPTH_MAX, LPN_OVERFLOW, directory_index};
use super::{Hasher, Heap, HeapError, StateId};
use crate::arena::{ArenaHandle, FrameId};

pub(crate) mod check;

/// A page that was taken over: its lpn and its frame.
pub(crate) type PageTaken = (u32, FrameId);

impl<A: ArenaHandle> Heap<A> {
    /// Goes to an epoch above that of the snapshot whose pages are taken over.
    pub(crate) fn rise_above(&mut self, epoch: u32) -> Result<(), HeapError> {
        self.frames.rise_above(epoch)
    }

    /// The hash that places its keys.
    pub(crate) const fn hasher(&self) -> Hasher {
        self.hasher
    }

    /// Keeps only these bits of hashes, so that they are alike.
    #[cfg(test)]
    pub(crate) fn mask_hashes(&mut self, mask: u64) {
        self.hasher.mask = mask;
    }

    /// Whether nothing was ever put into a key group, or all of it is gone.
    pub(crate) fn is_group_empty(&self, state: StateId, group: KeyGroup) -> Result<bool, HeapError> {
        let head = self.walk().head(state, group)?;
        Ok(head.pages.get() == 0 && head.directory.get() == 0)
    }

    /// Copies a page of `state` into a frame that nothing leads to. Its bytes have passed for a page.
    pub(crate) fn take_page(&mut self, state: StateId, page: &[u8]) -> Result<FrameId, HeapError> {
        let frame = self.frames.take(0)?;
        let bytes = self.frames.write(frame).filter(|bytes| bytes.len() == page.len()).ok_or(BROKEN)?;
        bytes.copy_from_slice(page);
        let (header, _) = PageHeader::mut_from_prefix(bytes).map_err(|_| BROKEN)?;
        header.state_id = state.0.into();
        self.frames.settle(frame);
        Ok(frame)
    }

    /// The bytes of a page that was taken.
    pub(crate) fn page_taken(&self, frame: FrameId) -> &[u8] {
        self.frames.view().frame(frame)
    }

    /// Gives back a page that was taken and not adopted.
    pub(crate) fn drop_page(&mut self, frame: FrameId) {
        self.frames.retire(frame);
    }

    /// Makes the pages those of an empty key group of `state`. They ascend by lpn and have passed
    /// [`check::SectionPages`], which counted the entries. `root` is that of a tree, or 0.
    ///
    /// # Errors
    /// `MemoryLimit`; the pages are then still the caller's.
    pub(crate) fn adopt(
        &mut self,
        (state, group): (StateId, KeyGroup),
        pages: &[PageTaken],
        (entries, root): (u64, u32),
    ) -> Result<(), HeapError> {
        let added = u32::try_from(entries).map_err(|_| BROKEN)?;
        let at = self.open(state, group)?;
        let linked = pages.partition_point(|(lpn, _)| lpn & LPN_OVERFLOW == 0);
        let (of_directory, linked) = pages.split_at_checked(linked).ok_or(BROKEN)?;
        let mut head = EMPTY_HEAD;
        self.make_overflow(&mut head, linked)?;
        if let Err(error) = self.make_directory(&mut head, of_directory) {
            if head.has_overflow != 0 {
                self.frames.retire(FrameId(head.overflow.get()));
            }
            return Err(error);
        }
        if root != 0 {
            head.directory = root.into();
        }
        *self.head_mut(at)? = head;
        if head.has_overflow != 0 {
            self.link_free_entries(at, head.overflow_used.get())?;
        }
        self.count_many(at, added.into())
    }

    /// Makes the directory that leads to the pages.
    fn make_directory(&mut self, head: &mut Head, pages: &[PageTaken]) -> Result<(), HeapError> {
        let place_of = |heap: &Self, frame: FrameId| {
            let (header, _) = PageHeader::ref_from_prefix(heap.page_taken(frame)).ok()?;
            Some((header.hash_prefix.get(), header.local_depth))
        };
        let depths = pages.iter().filter_map(|(_, frame)| place_of(self, *frame));
        let depth = depths.map(|(_, depth)| depth).max().unwrap_or(0);
        head.depth = depth;
        head.pages = u32::try_from(pages.len()).map_err(|_| BROKEN)?.into();
        if depth > INLINE_DEPTH_MAX {
            head.directory = self.frames.take_zeroed(self.order_of_entries(depth))?.0.into();
        }
        let run = FrameId(head.directory.get());
        for (_, frame) in pages {
            let (prefix, own_depth) = place_of(self, *frame).ok_or(BROKEN)?;
            let start = directory_index(prefix, depth);
            let end = start + (1 << depth.saturating_sub(own_depth));
            if depth <= INLINE_DEPTH_MAX {
                head.inline.get_mut(start..end).ok_or(BROKEN)?.fill(frame.0.into());
            } else {
                self.write_entries(run, start..end, frame.0)?;
            }
        }
        Ok(())
    }

    /// Makes the overflow table for the pages, if there are any. Lpns between theirs are free, and yet to be linked.
    fn make_overflow(&mut self, head: &mut Head, pages: &[PageTaken]) -> Result<(), HeapError> {
        let Some((last, _)) = pages.last() else { return Ok(()) };
        let used = (last & !LPN_OVERFLOW) + 1;
        let log2 = self.overflow_log2_min().max(low_log2(used));
        let run = self.frames.take_zeroed(self.order_of_entries(log2))?;
        head.overflow = run.0.into();
        head.overflow_log2 = log2;
        head.overflow_used = used.into();
        head.has_overflow = 1;
        self.write_entries(run, 0..used as usize, ENTRY_FREE)?;
        for (lpn, frame) in pages {
            let index = (lpn & !LPN_OVERFLOW) as usize;
            self.write_entries(run, index..index + 1, frame.0)?;
        }
        Ok(())
    }

    /// Writes numbers of a run that was just taken.
    fn write_entries(
        &mut self,
        run: FrameId,
        entries: core::ops::Range<usize>,
        entry: u32,
    ) -> Result<(), HeapError> {
        let bytes = self.frames.write(run).and_then(|run| run.get_mut(entries.start * 4..entries.end * 4));
        for place in bytes.ok_or(BROKEN)?.chunks_exact_mut(4) {
            place.copy_from_slice(&entry.to_le_bytes());
        }
        Ok(())
    }
}

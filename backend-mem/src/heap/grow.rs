//! Making room for a record: rebuilding its page, splitting it, or adding a page behind it.

use slackwater_core::format::page::Content;

use super::group::{BROKEN, Group, PageAt};
use super::page::{self, Identity, Layout, Page, slots_for};
use super::tables::{self, directory_index};
use super::{Heap, HeapError};
use crate::arena::{ArenaHandle, FrameId};

/// A directory may be this many bits deeper than one of evenly filled pages would be: a restore brings keys in
/// the order of their hashes, and its first pages need the depth of the whole.
pub(super) const DEPTH_SLACK: u8 = 12;
/// And never deeper than this.
pub(super) const DEPTH_MAX: u8 = 27;

impl<A: ArenaHandle> Heap<A> {
    /// The pages that a record with that hash may be in: the one of the directory, then those linked behind it.
    pub(super) fn pages_for(&self, at: Group, hash: u64) -> impl Iterator<Item = (PageAt, Page<'_>)> {
        let (frames, head) = (self.frames.view(), self.head(at));
        let first = tables::directory_entry(frames, head, directory_index(hash, head.depth));
        let mut next = Some(PageAt { frame: first, overflow_lpn: 0 });
        core::iter::from_fn(move || {
            let at = next.take().filter(|at| !at.frame.is_none())?;
            let page = Page::new(frames.frame(at.frame))?;
            let lpn = page.header().right_lpn.get();
            if lpn != 0 {
                next = Some(PageAt { frame: tables::overflow_frame(frames, head, lpn), overflow_lpn: lpn });
            }
            Some((at, page))
        })
    }

    /// Does one thing that brings room for a record of `len` bytes closer. The caller tries again.
    pub(super) fn make_room(&mut self, at: Group, hash: u64, len: usize) -> Result<(), HeapError> {
        if self.head(at).pages.get() == 0 {
            return self.add_first_page(at, len);
        }
        let rebuilt =
            self.pages_for(at, hash).find_map(|(at, page)| Some((at, page.slots_to_rebuild_for(len)?)));
        if let Some((page, slots)) = rebuilt {
            return self.rebuild(at, page, slots);
        }
        let mut pages = self.pages_for(at, hash);
        let (first, page) = pages.next().ok_or(BROKEN)?;
        let last = pages.last().map(|(last, _)| last);
        if last.is_none() && self.splitting_helps(at, page, hash) {
            return self.split(at, first);
        }
        self.add_linked_page(at, hash, last.unwrap_or(first), len)
    }

    fn add_first_page(&mut self, at: Group, len: usize) -> Result<(), HeapError> {
        let frame = self.frames.take(0)?;
        self.init_page(at, frame, (0, 0), 1, (1, len))?;
        let head = self.head_mut(at)?;
        head.depth = 0;
        head.pages = 1.into();
        self.set_directory(at, 0, 0, frame)
    }

    /// Makes an empty page for `(count, bytes)` of records.
    fn init_page(
        &mut self,
        at: Group,
        frame: FrameId,
        (prefix, depth): (u64, u8),
        lpn: u32,
        (count, bytes): (usize, usize),
    ) -> Result<(), HeapError> {
        let identity = self.identity(at, (prefix, depth), lpn);
        let layout = self.layout_for(at, count, bytes)?;
        self.frames.write(frame).and_then(|bytes| page::init(bytes, identity, layout)).ok_or(BROKEN)
    }

    /// How a page for `(count, bytes)` of records is laid out.
    fn layout_for(&self, at: Group, count: usize, bytes: usize) -> Result<Layout, HeapError> {
        if let Some(fixed) = self.walk().row(at.state)?.fixed() {
            return Ok(Layout::Fixed(fixed));
        }
        self.layout_of_records(count, bytes)
    }

    fn layout_of_records(&self, count: usize, bytes: usize) -> Result<Layout, HeapError> {
        let slots = slots_for(self.frames.geometry().frame_size(), count, bytes).ok_or(BROKEN)?;
        Ok(Layout::Records { slots })
    }

    fn identity(&self, at: Group, (prefix, depth): (u64, u8), lpn: u32) -> Identity {
        let epoch = self.frames.epoch();
        Identity { state_id: at.state.0, key_group: at.group.0, prefix, depth, lpn, epoch }
    }

    /// Writes a page anew without garbage and with so many slots.
    pub(super) fn rebuild(&mut self, at: Group, page: PageAt, slots: usize) -> Result<(), HeapError> {
        let frame = self.writable_page(at, page)?;
        self.frames.save(frame).ok_or(BROKEN)?;
        let header = Page::new(self.frames.view().frame(frame)).ok_or(BROKEN)?.header();
        let (place, lpn, next) =
            ((header.hash_prefix.get(), header.local_depth), header.lpn.get(), header.right_lpn.get());
        let identity = self.identity(at, place, lpn);
        let hasher = self.hasher;
        let (saved, bytes) = self.frames.saved_and_write(frame).ok_or(BROKEN)?;
        page::init(bytes, identity, Layout::Records { slots }).ok_or(BROKEN)?;
        page::set_next(bytes, next).ok_or(BROKEN)?;
        page::fill(Page::new(saved).ok_or(BROKEN)?, bytes, |key| hasher.of_content(key), |_| true)
            .ok_or(BROKEN)?;
        self.hint_slots(at, slots)
    }

    /// Notes how many slots pages with records of any size have now.
    fn hint_slots(&mut self, at: Group, slots: usize) -> Result<(), HeapError> {
        self.head_mut(at)?.slots_hint = u8::try_from(slots / 4).unwrap_or(0);
        Ok(())
    }

    /// Whether the directory may be deep enough to part this page's records, the new one among them.
    fn splitting_helps(&self, at: Group, page: Page<'_>, hash: u64) -> bool {
        let pages_log2 = u8::try_from(self.head(at).pages.get().checked_ilog2().unwrap_or(0)).unwrap_or(0);
        let depth_max = DEPTH_MAX.min(pages_log2 + DEPTH_SLACK);
        let shared = page
            .places()
            .map(|place| (self.hasher.of_content(&place.key) ^ hash).leading_zeros())
            .min()
            .unwrap_or(u64::BITS);
        shared < u32::from(depth_max)
    }

    /// Parts a page's records by the next bit of their hash.
    fn split(&mut self, at: Group, page: PageAt) -> Result<(), HeapError> {
        let header = Page::new(self.frames.view().frame(page.frame)).ok_or(BROKEN)?.header();
        let (prefix, depth) = (header.hash_prefix.get(), header.local_depth);
        self.writable_directory(at)?;
        if depth == self.head(at).depth {
            self.double_directory(at)?;
        }
        let lower = self.writable_page(at, page)?;
        let upper = self.frames.take(0)?;
        self.frames.save(lower).ok_or(BROKEN)?;
        let bit = (1 << 63) >> depth;
        self.fill_half(at, lower, (prefix, depth + 1), bit)?;
        self.fill_half(at, upper, (prefix | bit, depth + 1), bit)?;
        let head = self.head_mut(at)?;
        head.pages += 1;
        self.set_directory(at, prefix | bit, depth + 1, upper)
    }

    /// Makes a page of those saved records whose hash has the page's own value of `bit`.
    fn fill_half(
        &mut self,
        at: Group,
        frame: FrameId,
        (prefix, depth): (u64, u8),
        bit: u64,
    ) -> Result<(), HeapError> {
        let hasher = self.hasher;
        let hash_of = |key: &Content<'_>| hasher.of_content(key);
        let wanted = |hash: u64| (hash ^ prefix) & bit == 0;
        let identity = self.identity(at, (prefix, depth), directory_lpn(prefix, depth));
        let layout = match self.walk().row(at.state)?.fixed() {
            Some(fixed) => Layout::Fixed(fixed),
            None => self.layout_of_half(|key| wanted(hash_of(key)))?,
        };
        let (saved, bytes) = self.frames.saved_and_write(frame).ok_or(BROKEN)?;
        page::init(bytes, identity, layout).ok_or(BROKEN)?;
        page::fill(Page::new(saved).ok_or(BROKEN)?, bytes, hash_of, wanted).ok_or(BROKEN)?;
        match layout {
            Layout::Records { slots } => self.hint_slots(at, slots),
            Layout::Fixed(_) => Ok(()),
        }
    }

    /// How a page for those saved records of any size is laid out that `wanted` takes by their key.
    fn layout_of_half(&self, wanted: impl Fn(&Content<'_>) -> bool) -> Result<Layout, HeapError> {
        let saved = Page::new(self.frames.saved()).ok_or(BROKEN)?;
        let add = |(count, len), place: page::Place<'_>| (count + 1, len + place.len());
        let mut load = saved.places().filter(|place| wanted(&place.key)).fold((0, 0), add);
        if load.0 == 0 {
            load = (saved.count(), saved.record_bytes());
        }
        self.layout_of_records(load.0, load.1)
    }

    /// Adds a page of the same prefix behind the last: its records' hashes are too much alike to be parted.
    fn add_linked_page(&mut self, at: Group, hash: u64, last: PageAt, len: usize) -> Result<(), HeapError> {
        let last = self.writable_page(at, last)?;
        let (lpn, frame) = self.take_lpn_page(at)?;
        let first = self.pages_for(at, hash).next().ok_or(BROKEN)?.1.header();
        let place = (first.hash_prefix.get(), first.local_depth);
        self.init_page(at, frame, place, lpn, (1, len))?;
        self.frames.write(last).and_then(|bytes| page::set_next(bytes, lpn)).ok_or(BROKEN)
    }
}

/// The lpn of a page of the directory: its prefix behind a leading one, so that no two are equal.
pub(super) fn directory_lpn(prefix: u64, depth: u8) -> u32 {
    let index = u32::try_from(directory_index(prefix, depth)).unwrap_or(0);
    1_u32.checked_shl(u32::from(depth)).unwrap_or(0) | index
}

//! Records of one size by the shortest way, for the operations that programs spend their time in.
//!
//! No way out but one: whatever is unusual - a state or a key group that is not near, a page linked behind another, a
//! frozen page - is left to the long way, which does everything from the start. What was never written needs no
//! branch: frame 0, which is all zero, stands for a chunk of heads of nothing, and for a page in which nothing is
//! found.

use slackwater_core::key_group::KeyGroup;

use super::group::PageAt;
use super::near::Way;
use super::page::{SlotPage, find_mut};
use super::tables::{Head, directory_entry, directory_index};
use super::{Hasher, Heap, StateId};
use crate::arena::{ArenaHandle, FrameId, FrameView};

/// What the shortest way came to.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Direct<R> {
    Found(R),
    Absent,
    /// The long way must be taken.
    Unknown,
}

/// The shortest way to the records of one state.
#[derive(Clone, Copy)]
pub(crate) struct Shortcut<'h> {
    frames: FrameView<'h>,
    way: &'h Way,
    hasher: &'h Hasher,
}

/// The page that a key lies in if it is there.
#[derive(Clone, Copy)]
pub(crate) struct Located<'h> {
    page: SlotPage<'h, 'h>,
    head: &'h Head,
    hash: u64,
}

impl<A: ArenaHandle> Heap<A> {
    /// The shortest way to the records of a state, if it is one of the first.
    #[inline]
    pub(crate) fn shortcut(&self, state: StateId) -> Option<Shortcut<'_>> {
        let way = self.near.way(state)?;
        Some(Shortcut { frames: self.frames.view(), way, hasher: &self.hasher })
    }

    /// The value of a key, as far as the shortest way can tell.
    #[inline]
    pub(crate) fn look_up(&self, state: StateId, group: KeyGroup, key: &[u8]) -> Direct<&[u8]> {
        let place = self.shortcut(state).and_then(|shortcut| shortcut.locate(group, key));
        place.map_or(Direct::Unknown, |place| {
            place.page.prefetch_slot(place.hash);
            place.find(key)
        })
    }

    /// The value of a key, if it is found by the shortest way and may be written; it counts as changed.
    #[expect(clippy::inline_always, reason = "the hottest path; its results fill many registers")]
    #[inline(always)]
    pub(crate) fn direct_mut(&mut self, state: StateId, group: KeyGroup, key: &[u8]) -> Option<&mut [u8]> {
        let way = self.near.way(state)?;
        let shortcut = Shortcut { frames: self.frames.view(), way, hasher: &self.hasher };
        let (_, hash, frame) = shortcut.frame(group, key)?;
        shortcut.page(frame)?.prefetch_slot(hash);
        find_mut(self.frames.write_frame(frame)?, way.shape(), hash, key)
    }

    /// The same with a page that moves if it is frozen, even if the key is not there: whoever asks is about to write.
    #[inline(never)]
    pub(crate) fn direct_mut_moved(
        &mut self,
        state: StateId,
        group: KeyGroup,
        key: &[u8],
    ) -> Option<&mut [u8]> {
        let (_, hash, frame) = self.shortcut(state)?.frame(group, key)?;
        if frame.is_none() {
            return None;
        }
        // Why it cannot move the long way will find out, too.
        let moved = self.writable_page_of(state, group, PageAt { frame, overflow_lpn: 0 }).ok()?;
        find_mut(self.frames.write_frame(moved)?, self.near.way(state)?.shape(), hash, key)
    }
}

impl<'h> Shortcut<'h> {
    /// Where a key lies if it is there. Reads nothing of the page itself.
    #[expect(clippy::inline_always, reason = "the hottest path; its results fill many registers")]
    #[inline(always)]
    pub(crate) fn locate(self, group: KeyGroup, key: &[u8]) -> Option<Located<'h>> {
        let (head, hash, frame) = self.frame(group, key)?;
        Some(Located { page: self.page(frame)?, head, hash })
    }

    #[expect(clippy::inline_always, reason = "the hottest path; its results fill many registers")]
    #[inline(always)]
    fn frame(self, group: KeyGroup, key: &[u8]) -> Option<(&'h Head, u64, FrameId)> {
        let head = self.way.head_of_one_size(self.frames, group)?;
        let hash = self.hasher.of(key);
        Some((head, hash, directory_entry(self.frames, head, directory_index(hash, head.depth))))
    }

    #[inline]
    fn page(self, frame: FrameId) -> Option<SlotPage<'h, 'h>> {
        SlotPage::new(self.frames.frame_at(frame)?, self.way.shape())
    }
}

impl<'h> Located<'h> {
    /// Asks for what a search reads first.
    #[inline]
    pub(crate) fn prefetch(self) {
        self.page.prefetch(self.hash);
    }

    /// The value of the key that was located.
    #[expect(clippy::inline_always, reason = "the hottest path; its results fill many registers")]
    #[inline(always)]
    pub(crate) fn find(self, key: &[u8]) -> Direct<&'h [u8]> {
        match self.page.find(self.hash, key) {
            Some((_, value)) => Direct::Found(value),
            // Only then may there be pages linked behind this one.
            None if self.head.has_overflow != 0 => Direct::Unknown,
            None => Direct::Absent,
        }
    }
}

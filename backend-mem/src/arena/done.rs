#![expect(unsafe_code, reason = "a part of the arena holds atomic numbers")]

use slackwater_core::key_group::KeyGroup;
use slackwater_core::sync::{AtomicUsize, Ordering, is_mutant};

use super::{Arena, Geometry};

/// Which key groups of a snapshot nobody reads any more: a bit for each.
///
/// The holder of the snapshot sets a bit after the last read of the key group (Release); the heap that sees it
/// (Acquire) sees those reads behind it. There is one such table for each slot and never one number for all:
/// two snapshots may be through with key groups in any order.
#[derive(Debug)]
pub(crate) struct DoneGroups<'a> {
    words: &'a [AtomicUsize],
    geometry: Geometry,
}

impl<'a> DoneGroups<'a> {
    /// Of a slot of the arena.
    ///
    /// # Safety
    /// The heap that has claimed the arena lies in it as `geometry` says.
    pub(crate) unsafe fn new(arena: &'a Arena<'_>, geometry: Geometry, slot: usize) -> Self {
        let slot = if is_mutant("heap_done_shared") { 0 } else { slot };
        // SAFETY: as the caller says.
        Self { words: unsafe { words(arena, geometry, slot) }, geometry }
    }

    /// Before the heap opens the slot.
    pub(crate) fn clear(&self) {
        // Published with the snapshot; the readers of the slot's last one are gone.
        self.words.iter().for_each(|word| word.store(0, Ordering::Relaxed));
    }

    /// Nobody reads the key group any more. Nothing is noted where there are no bits.
    pub(crate) fn set(&self, group: KeyGroup) {
        let order = if is_mutant("heap_done_relaxed") { Ordering::Relaxed } else { Ordering::Release };
        if let Some((word, bit)) = self.place(group) {
            word.fetch_or(bit, order);
        }
    }

    /// Whether nobody reads the key group any more.
    pub(crate) fn has(&self, group: KeyGroup) -> bool {
        let order = if is_mutant("heap_done_unseen") { Ordering::Relaxed } else { Ordering::Acquire };
        let bits = self.place(group).map_or(0, |(word, bit)| {
            let bit = if is_mutant("heap_done_of_neighbour") { usize::MAX } else { bit };
            word.load(order) & bit
        });
        bits != 0
    }

    /// How many key groups that are.
    pub(crate) fn count(&self) -> u32 {
        self.words.iter().map(|word| word.load(Ordering::Relaxed).count_ones()).sum()
    }

    fn place(&self, group: KeyGroup) -> Option<(&AtomicUsize, usize)> {
        let index = usize::from(group.0.checked_sub(self.geometry.key_groups.first.0)?);
        let word = self.words.get(index / usize::BITS as usize)?;
        Some((word, 1 << (index % usize::BITS as usize)))
    }
}

/// # Safety
/// As for [`DoneGroups::new`].
#[cfg(not(slackwater_loom))]
unsafe fn words<'a>(arena: &'a Arena<'_>, geometry: Geometry, slot: usize) -> &'a [AtomicUsize] {
    let offset = geometry.side_at + slot * geometry.done_words * size_of::<AtomicUsize>();
    let first = arena.at(offset).cast::<AtomicUsize>();
    // SAFETY: the geometry keeps this part of the arena, aligned to 64 bytes and initialised, for these numbers;
    // nobody reaches it but through them.
    unsafe { core::slice::from_raw_parts(first, geometry.done_words) }
}

/// Loom's atomic numbers cannot lie in an arena.
///
/// # Safety
/// As for [`DoneGroups::new`].
#[cfg(slackwater_loom)]
unsafe fn words<'a>(arena: &'a Arena<'_>, geometry: Geometry, slot: usize) -> &'a [AtomicUsize] {
    debug_assert!(geometry.done_words <= 1 && geometry.side_at < 64, "a model has few key groups");
    arena.tracked.done(slot)
}

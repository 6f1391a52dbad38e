//! Key groups that a restore has yet to bring: until then nobody may look into them, or take a snapshot without them.
//!
//! While there are any, no state is near: every access goes the long way, which asks here.

#[cfg(feature = "std")]
use std::vec;

use slackwater_core::key_group::KeyGroup;

use super::tables::Walk;
use super::{Heap, HeapError};
#[cfg(feature = "std")]
use super::{Near, StateId};
use crate::arena::ArenaHandle;

const WORD_BITS: usize = u64::BITS as usize;

impl Walk<'_> {
    /// Refuses a key group that a restore has yet to bring.
    #[cold]
    pub(super) fn check_is_there(self, group: KeyGroup) -> Result<(), HeapError> {
        let index = usize::from(group.0.wrapping_sub(self.key_groups.first.0));
        let word = self.awaited.get(index / WORD_BITS).copied().unwrap_or(0);
        if word >> (index % WORD_BITS) & 1 == 0 {
            Ok(())
        } else {
            Err(HeapError::NotRestored { key_group: group })
        }
    }
}

impl<A: ArenaHandle> Heap<A> {
    /// A bit for each key group that a restore has yet to bring; nothing if there is none.
    #[inline]
    pub(super) fn awaited(&self) -> &[u64] {
        #[cfg(feature = "std")]
        return &self.awaited;
        #[cfg(not(feature = "std"))]
        return &[];
    }

    /// Refuses what needs every key group, while a restore has yet to bring one.
    pub(super) fn check_all_are_there(&self) -> Result<(), HeapError> {
        if self.awaited().is_empty() {
            return Ok(());
        }
        self.options.key_groups.iter().try_for_each(|group| self.walk().check_is_there(group))
    }
}

#[cfg(feature = "std")]
impl<A: ArenaHandle> Heap<A> {
    /// Whether a [restore](crate::segment::SegmentRestore) has yet to bring the key group. Until it has, the heap
    /// refuses to look into it with `NotRestored`, and to be frozen.
    #[must_use]
    pub fn is_awaited(&self, group: KeyGroup) -> bool {
        self.walk().check_is_there(group).is_err()
    }

    /// Nobody may look into the key group until it has arrived.
    pub(crate) fn await_group(&mut self, group: KeyGroup) {
        if self.awaited.is_empty() {
            self.awaited = vec![0; self.options.key_groups.len().div_ceil(WORD_BITS)];
            self.near = Near::NONE;
        }
        self.set_awaited(group, true);
    }

    /// The restore puts entries into the key group.
    pub(crate) fn arrived(&mut self, group: KeyGroup) {
        self.set_awaited(group, false);
        if self.awaited.iter().all(|word| *word == 0) {
            self.awaited = vec![];
            let states = u16::try_from(self.walk().states()).unwrap_or(u16::MAX);
            (0..states).for_each(|state| self.refresh_near(StateId(state)));
        }
    }

    fn set_awaited(&mut self, group: KeyGroup, is_awaited: bool) {
        let index = usize::from(group.0.wrapping_sub(self.options.key_groups.first.0));
        if let Some(word) = self.awaited.get_mut(index / WORD_BITS) {
            let bit = 1 << (index % WORD_BITS);
            *word = if is_awaited { *word | bit } else { *word & !bit };
        }
    }
}

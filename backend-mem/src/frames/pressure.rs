//! What is done when no frame is free, but snapshots hold some.

use slackwater_core::key_group::KeyGroup;

use super::side::Mark;
use super::{FrameStore, List, join, pop};
use crate::arena::{ArenaHandle, FrameId, Geometry};
use crate::heap::HeapError;

/// Retired runs that are looked at for a key group to ask for.
const LOOK_STEPS: usize = 64;

impl<A: ArenaHandle> FrameStore<A> {
    /// Sees to it that so many frames are free, one by one that is. A step for each that becomes free, and for
    /// each retired run when a snapshot has given up key groups since the last time.
    pub(crate) fn reserve(&mut self, frames: u32) -> Result<(), HeapError> {
        if self.free_frames() >= frames {
            return Ok(());
        }
        self.collect();
        while self.free_frames() < frames {
            if !self.drain_one() && !self.sweep() {
                return Err(self.out_of_frames());
            }
        }
        Ok(())
    }

    /// Frames that are free or were never used.
    fn free_frames(&self) -> u32 {
        // Frame 0 is neither.
        (self.side.geometry().frames - 1).saturating_sub(self.live_frames + self.retired_frames)
    }

    /// Frees what was retired of key groups that snapshots have given up since the last time; says whether
    /// there was any.
    pub(super) fn sweep(&mut self) -> bool {
        let done = self.snapshots.iter().map(|alive| self.done_groups(alive.slot).count()).sum();
        if core::mem::replace(&mut self.swept, done) == done {
            return false;
        }
        let before = self.retired_frames;
        (0..self.snapshots.len()).for_each(|index| self.sweep_list(index));
        self.retired_frames < before
    }

    fn sweep_list(&mut self, index: usize) {
        let Some(alive) = self.snapshots.get_mut(index) else { return };
        let mut rest = core::mem::replace(&mut alive.retired, List::EMPTY);
        let mut kept = List::EMPTY;
        while let Some(run) = pop(&self.side, &mut rest) {
            match self.side.mark(run) {
                Mark::Retired(order) if !self.is_awaited(run, index) => {
                    self.retired_frames -= 1 << order;
                    self.free.give(&mut self.side, run, order);
                }
                Mark::Retired(_) | Mark::Used(_) | Mark::Free(_) | Mark::None => {
                    kept = join(&mut self.side, kept, List { head: run, tail: run });
                }
            }
        }
        if let Some(alive) = self.snapshots.get_mut(index) {
            alive.retired = kept;
        }
    }

    /// Whether a snapshot that may see the run, retired while snapshot `index` was the newest, has not given up
    /// its key group.
    fn is_awaited(&self, run: FrameId, index: usize) -> bool {
        let group = self.side.key_group(run);
        self.snapshots.iter().take(index + 1).any(|alive| !self.done_groups(alive.slot).has(group))
    }

    /// Why there is no frame. While snapshots are alive, asks them for a key group.
    pub(super) fn out_of_frames(&self) -> HeapError {
        let Geometry { frames, frame_size_log2, frames_at, .. } = self.side.geometry();
        let limit_bytes = frames_at as u64 + (u64::from(frames) << frame_size_log2);
        if self.snapshots.is_empty() {
            return HeapError::MemoryLimit { limit_bytes };
        }
        self.ask_for(self.retired_group());
        HeapError::SnapshotHolds {
            held_bytes: u64::from(self.retired_frames) << frame_size_log2,
            limit_bytes,
        }
    }

    /// Asks the readers of all snapshots to be through with this key group next.
    pub(super) fn ask_for(&self, group: Option<KeyGroup>) {
        let slots = self.side.handle().arena().slots();
        let key_groups = self.side.geometry().key_groups;
        let Some(group) = group.filter(|group| key_groups.contains(*group)) else { return };
        self.snapshots.iter().for_each(|alive| slots.ask_for(alive.slot, group));
    }

    /// A key group of which a frame was retired lately that is still awaited.
    fn retired_group(&self) -> Option<KeyGroup> {
        self.snapshots.iter().enumerate().rev().find_map(|(index, alive)| {
            let mut rest = alive.retired;
            core::iter::from_fn(|| pop(&self.side, &mut rest))
                .take(LOOK_STEPS)
                .find(|run| matches!(self.side.mark(*run), Mark::Retired(_)) && self.is_awaited(*run, index))
                .map(|run| self.side.key_group(run))
        })
    }
}

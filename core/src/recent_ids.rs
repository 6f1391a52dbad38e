//! Remembers for the newest checkpoints whether something was said of them, in two words.

use crate::ids::CheckpointId;

/// A set of checkpoints that forgets those more than [`WINDOW`](Self::WINDOW) behind its newest one.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RecentIds {
    newest: u64,
    /// Bit `n` stands for the checkpoint `newest - n`.
    recent: u128,
}

impl RecentIds {
    /// How many checkpoints it tells apart, the newest included.
    pub(crate) const WINDOW: u64 = 128;

    /// Adds `id`; does nothing if it is forgotten already.
    pub(crate) fn insert(&mut self, id: CheckpointId) {
        if let Some(ahead) = id.0.checked_sub(self.newest) {
            self.recent = shifted(self.recent, ahead);
            self.newest = id.0;
        }
        self.recent |= self.bit(id);
    }

    /// Whether `id` was added and is not forgotten.
    pub(crate) fn contains(&self, id: CheckpointId) -> bool {
        self.recent & self.bit(id) != 0
    }

    /// Whether `id` is so old that the set cannot tell.
    pub(crate) const fn has_forgotten(&self, id: CheckpointId) -> bool {
        self.newest.saturating_sub(id.0) >= Self::WINDOW
    }

    /// How many of those it remembers are newer than `id`.
    pub(crate) fn count_after(&self, id: CheckpointId) -> usize {
        let newer = self.newest.checked_sub(id.0).map_or(0, |ahead| shifted(1, ahead).wrapping_sub(1));
        (self.recent & newer).count_ones() as usize
    }

    fn bit(&self, id: CheckpointId) -> u128 {
        self.newest.checked_sub(id.0).map_or(0, |behind| shifted(1, behind))
    }
}

/// Not inlined: 128 bits take many instructions on a microcontroller.
#[inline(never)]
fn shifted(bits: u128, by: u64) -> u128 {
    u32::try_from(by).ok().and_then(|by| bits.checked_shl(by)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::RecentIds;
    use crate::ids::CheckpointId;

    #[test]
    fn tells_recent_ids_apart_and_forgets_older_ones() {
        let mut set = RecentIds::default();
        assert!(!set.contains(CheckpointId(0)) && !set.has_forgotten(CheckpointId(0)));
        for id in [0, 7, 5, 130] {
            set.insert(CheckpointId(id));
        }
        for id in 0..200 {
            assert_eq!(set.contains(CheckpointId(id)), [5, 7, 130].contains(&id), "{id}");
            assert_eq!(set.has_forgotten(CheckpointId(id)), id <= 2, "{id}");
        }
        assert_eq!(
            [200, 130, 129, 7, 5, 4, 0].map(|id| set.count_after(CheckpointId(id))),
            [0, 0, 1, 1, 2, 3, 3]
        );
        set.insert(CheckpointId(1));
        assert!(!set.contains(CheckpointId(1)));
        set.insert(CheckpointId(u64::MAX));
        assert!(set.contains(CheckpointId(u64::MAX)) && !set.contains(CheckpointId(130)));
    }
}

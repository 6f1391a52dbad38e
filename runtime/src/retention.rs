//! Which completed checkpoints are kept, and which to delete.

use std::collections::BTreeSet;

use slackwater_core::ids::CheckpointId;

/// Keeps the newest completed checkpoints and says which older ones to delete, and what aborted ones have
/// left behind.
///
/// A manifest that cannot be read stops all deletion: nobody knows what it refers to.
#[derive(Debug)]
pub(crate) struct Retention {
    keep: usize,
    is_stopped: bool,
    retained: BTreeSet<CheckpointId>,
    /// Folders without a manifest.
    incomplete: BTreeSet<CheckpointId>,
}

impl Retention {
    /// Fewer than this many completed checkpoints are never kept: the newest may turn out damaged.
    pub(crate) const KEEP_MIN: usize = 2;

    /// Keeps `keep` checkpoints, at least [`Self::KEEP_MIN`].
    #[must_use]
    pub(crate) fn new(keep: usize) -> Self {
        let keep = keep.max(Self::KEEP_MIN);
        Self { keep, is_stopped: false, retained: BTreeSet::new(), incomplete: BTreeSet::new() }
    }

    /// A manifest lies in the folder that cannot be read.
    pub(crate) const fn found_unreadable(&mut self) {
        self.is_stopped = true;
    }

    /// Notes a complete checkpoint.
    pub(crate) fn completed(&mut self, id: CheckpointId) {
        self.incomplete.remove(&id);
        self.retained.insert(id);
    }

    /// Notes a checkpoint that will never be complete.
    pub(crate) fn aborted(&mut self, id: CheckpointId) {
        self.incomplete.insert(id);
    }

    /// The checkpoints to delete now, each once, oldest first: completed ones beyond the number kept, and
    /// remains of aborted ones that are older than all that are kept.
    pub(crate) fn take_deletions(&mut self) -> Vec<CheckpointId> {
        let mut deletions = BTreeSet::new();
        while !self.is_stopped && self.retained.len() > self.keep {
            deletions.extend(self.retained.pop_first());
        }
        if !self.is_stopped
            && self.retained.len() == self.keep
            && let Some(oldest) = self.retained.first()
        {
            let newer = self.incomplete.split_off(oldest);
            deletions.extend(std::mem::replace(&mut self.incomplete, newer));
        }
        deletions.into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::Retention;
    use slackwater_core::ids::CheckpointId;

    fn deleted(retention: &mut Retention) -> Vec<u64> {
        retention.take_deletions().into_iter().map(|id| id.0).collect()
    }

    fn complete(retention: &mut Retention, ids: impl IntoIterator<Item = u64>) {
        ids.into_iter().for_each(|id| retention.completed(CheckpointId(id)));
    }

    #[test]
    fn the_oldest_beyond_the_number_kept_go() {
        let mut retention = Retention::new(3);
        complete(&mut retention, 1..=5);
        assert_eq!(deleted(&mut retention), [1, 2]);
        assert!(deleted(&mut retention).is_empty(), "each once");
    }

    #[test]
    fn two_are_kept_even_if_fewer_are_asked_for() {
        let mut retention = Retention::new(0);
        complete(&mut retention, 1..=3);
        assert_eq!(deleted(&mut retention), [1]);
    }

    #[test]
    fn remains_go_when_all_that_is_kept_is_newer() {
        let mut retention = Retention::new(2);
        retention.aborted(CheckpointId(2));
        retention.aborted(CheckpointId(5));
        complete(&mut retention, [1, 3]);
        assert!(deleted(&mut retention).is_empty());
        complete(&mut retention, [4]);
        assert_eq!(deleted(&mut retention), [1, 2]);
    }

    #[test]
    fn an_unreadable_manifest_stops_all_deletion() {
        let mut retention = Retention::new(2);
        retention.found_unreadable();
        retention.aborted(CheckpointId(1));
        complete(&mut retention, 2..=9);
        assert!(deleted(&mut retention).is_empty());
    }
}

//! Which completed checkpoints are kept, and which to delete.

use std::collections::BTreeSet;

use heapless::Vec as FixedVec;
use slackwater_core::ids::CheckpointId;
use slackwater_core::retained::{
    CheckpointKind, JobStatus, Retained, RetainedAction, RetainedEvent, RetentionPolicy,
};
use slackwater_core::time::Now;

use crate::error::JobError;

/// Completed checkpoints, those being deleted included. They share no files.
type Machine = Retained<1024, 0>;

/// Keeps the newest completed checkpoints and says which older ones to delete, and what aborted ones have
/// left behind.
///
/// A manifest that cannot be read stops all deletion: nobody knows what it refers to.
#[derive(Debug)]
pub(crate) struct Retention {
    machine: Box<Machine>,
    /// What becomes of the checkpoints when somebody ends the job.
    policy: RetentionPolicy,
    /// Found at the start, too old to be known to the machine: they go with the first that leaves.
    surplus: BTreeSet<CheckpointId>,
    /// Folders without a manifest.
    incomplete: BTreeSet<CheckpointId>,
    /// A manifest cannot be read.
    is_in_doubt: bool,
}

/// What follows from an event.
#[derive(Debug, Default)]
pub(crate) struct Leaving {
    /// The newest checkpoint that is retained no longer.
    pub(crate) subsumed: Option<CheckpointId>,
    /// What to delete now, each once: completed checkpoints beyond the number kept, and remains of aborted ones that
    /// are older than all that are kept.
    pub(crate) deletions: BTreeSet<CheckpointId>,
}

impl Retention {
    /// Fewer than this many completed checkpoints are never kept: the newest may turn out damaged.
    const KEEP_MIN: usize = 2;
    /// More than this many are never kept: as many again may be on their way out.
    const KEEP_MAX: usize = 512;

    /// Keeps `keep` checkpoints, at least [`Self::KEEP_MIN`].
    ///
    /// # Errors
    /// [`JobError::CapacityExceeded`] beyond [`Self::KEEP_MAX`].
    pub(crate) fn new(keep: usize, policy: RetentionPolicy) -> Result<Self, JobError> {
        if keep > Self::KEEP_MAX {
            let (what, limit) = ("checkpoints to retain", Self::KEEP_MAX);
            return Err(JobError::CapacityExceeded { what, wanted: keep, limit });
        }
        let machine = Machine::new(keep.max(Self::KEEP_MIN));
        let machine = machine.map_err(|rejected| JobError::machine("retention", rejected))?;
        Ok(Self {
            machine: Box::new(machine),
            policy,
            surplus: BTreeSet::new(),
            incomplete: BTreeSet::new(),
            is_in_doubt: false,
        })
    }

    /// Notes the complete checkpoints that are there at the start, oldest first.
    pub(crate) fn recovered(&mut self, ids: &[CheckpointId]) -> Result<(), JobError> {
        let kind = self.kind();
        let (surplus, known) = ids.split_at(ids.len().saturating_sub(Self::KEEP_MAX));
        self.surplus.extend(surplus);
        known.iter().try_for_each(|&id| {
            let event = RetainedEvent::CheckpointRecovered { id, kind };
            self.tell(event).map(drop)
        })
    }

    /// A manifest lies in the folder that cannot be read.
    pub(crate) fn found_unreadable(&mut self) -> Result<(), JobError> {
        self.surplus.clear();
        self.is_in_doubt = true;
        self.tell(RetainedEvent::UnreadableManifestFound).map(drop)
    }

    /// Takes what never completed, to be deleted now that nobody writes to it any longer, or soon not; so jobs that fail and
    /// start again do not fill the disk. The folder `but` stays; all do if a manifest cannot be read.
    pub(crate) fn take_remains(&mut self, but: Option<CheckpointId>) -> BTreeSet<CheckpointId> {
        if self.is_in_doubt {
            return BTreeSet::new();
        }
        let stays = |id: &CheckpointId| Some(*id) == but;
        let (kept, remains) = std::mem::take(&mut self.incomplete).into_iter().partition(stays);
        self.incomplete = kept;
        remains
    }

    /// Notes a checkpoint that will never be complete.
    pub(crate) fn aborted(&mut self, id: CheckpointId) {
        self.incomplete.insert(id);
    }

    /// Notes a complete checkpoint.
    pub(crate) fn completed(&mut self, id: CheckpointId) -> Result<Leaving, JobError> {
        self.incomplete.remove(&id);
        let kind = self.kind();
        self.tell(RetainedEvent::CheckpointCompleted { id, kind })
    }

    /// A checkpoint was deleted, or could not be.
    pub(crate) fn deleted(&mut self, id: CheckpointId, is_gone: bool) -> Result<(), JobError> {
        self.tell(RetainedEvent::DiscardEnded { id, manifest_gone: is_gone }).map(drop)
    }

    /// Somebody has ended the job: what to delete, by the policy (rule S10).
    pub(crate) fn stopped(&mut self) -> Result<BTreeSet<CheckpointId>, JobError> {
        Ok(self.tell(RetainedEvent::ShutDown(JobStatus::Canceled))?.deletions)
    }

    const fn kind(&self) -> CheckpointKind {
        CheckpointKind::Checkpoint(self.policy)
    }

    fn tell(&mut self, event: RetainedEvent) -> Result<Leaving, JobError> {
        let mut leaving = Leaving::default();
        let mut event = Some(event);
        while let Some(next) = event.take() {
            let mut actions = FixedVec::<_, { Machine::ACTIONS_MAX }>::new();
            let told = self.machine.on_event(Now::default(), next, &mut actions);
            told.map_err(|rejected| JobError::machine("retention", rejected))?;
            for action in actions {
                self.follow(action, &mut leaving);
            }
            event = self.machine.next_deadline(Now::default()).map(|_| RetainedEvent::DeadlineReached);
        }
        Ok(leaving)
    }

    fn follow(&mut self, action: RetainedAction, leaving: &mut Leaving) {
        match action {
            RetainedAction::NotifySubsumed(id) => leaving.subsumed = Some(id),
            RetainedAction::DiscardCheckpoint(id) => {
                leaving.deletions.append(&mut self.surplus);
                leaving.deletions.insert(id);
            }
            RetainedAction::DiscardRemains { below } => {
                let newer = self.incomplete.split_off(&below);
                leaving.deletions.append(&mut std::mem::replace(&mut self.incomplete, newer));
            }
            RetainedAction::UseFile { .. } | RetainedAction::DeleteFile(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::Retention;
    use crate::error::JobError;
    use slackwater_core::ids::CheckpointId;
    use slackwater_core::retained::RetentionPolicy;

    fn keeping(keep: usize) -> Result<Retention, JobError> {
        Retention::new(keep, RetentionPolicy::RetainOnCancellation)
    }

    /// What goes when these complete.
    fn complete(retention: &mut Retention, ids: impl IntoIterator<Item = u64>) -> Vec<u64> {
        let deleted = ids.into_iter().flat_map(|id| retention.completed(CheckpointId(id)).unwrap().deletions);
        deleted.map(|id| id.0).collect()
    }

    #[test]
    fn the_oldest_beyond_the_number_kept_go() {
        let mut retention = keeping(3).unwrap();
        assert_eq!(complete(&mut retention, 1..=5), [1, 2]);
        retention.deleted(CheckpointId(1), true).unwrap();
        retention.deleted(CheckpointId(2), false).unwrap();
        assert_eq!(complete(&mut retention, [6]), [3], "each once");
        assert_eq!(retention.completed(CheckpointId(7)).unwrap().subsumed, Some(CheckpointId(4)));
    }

    #[test]
    fn two_are_kept_even_if_fewer_are_asked_for() {
        assert_eq!(complete(&mut keeping(0).unwrap(), 1..=3), [1]);
    }

    #[test]
    fn remains_go_when_all_that_is_kept_is_newer() {
        let mut retention = keeping(2).unwrap();
        retention.aborted(CheckpointId(2));
        retention.aborted(CheckpointId(5));
        assert!(complete(&mut retention, [1, 3]).is_empty());
        assert_eq!(complete(&mut retention, [4]), [1, 2]);
    }

    #[test]
    fn remains_that_nobody_writes_to_go_before_their_time_but_for_one() {
        let ids = |ids: &[u64]| ids.iter().copied().map(CheckpointId).collect::<BTreeSet<_>>();
        let mut retention = keeping(2).unwrap();
        ids(&[2, 5, 9]).into_iter().for_each(|id| retention.aborted(id));
        assert_eq!(retention.take_remains(Some(CheckpointId(9))), ids(&[2, 5]));
        assert_eq!(complete(&mut retention, [10, 11]), [9]);
        ids(&[12, 13]).into_iter().for_each(|id| retention.aborted(id));
        assert_eq!(retention.take_remains(None), ids(&[12, 13]));
        retention.aborted(CheckpointId(14));
        retention.found_unreadable().unwrap();
        assert_eq!(retention.take_remains(None), ids(&[]));
    }

    #[test]
    fn an_unreadable_manifest_stops_all_deletion() {
        let mut retention = keeping(2).unwrap();
        retention.recovered(&[CheckpointId(1)]).unwrap();
        retention.found_unreadable().unwrap();
        retention.aborted(CheckpointId(2));
        assert!(complete(&mut retention, 3..=9).is_empty());
    }

    #[test]
    fn more_than_can_be_known_are_deleted_like_others() {
        let mut retention = keeping(2).unwrap();
        let ids: Vec<_> = (1..=2000).map(CheckpointId).collect();
        retention.recovered(&ids).unwrap();
        assert_eq!(complete(&mut retention, [2001]), (1..=1999).collect::<Vec<_>>());
        let refused = keeping(513).err();
        assert!(matches!(refused, Some(JobError::CapacityExceeded { limit: 512, .. })), "{refused:?}");
    }

    #[test]
    fn s10_what_is_there_when_somebody_ends_the_job_stays_or_goes_by_the_policy() {
        for (policy, deleted) in [
            (RetentionPolicy::RetainOnCancellation, vec![]),
            (RetentionPolicy::RetainOnFailure, vec![2, 3, 4]),
        ] {
            let mut retention = Retention::new(3, policy).unwrap();
            assert_eq!(complete(&mut retention, 1..=4), [1]);
            let gone: Vec<_> = retention.stopped().unwrap().into_iter().map(|id| id.0).collect();
            assert_eq!(gone, deleted, "{policy:?}");
        }
    }
}

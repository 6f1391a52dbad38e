//! Orders deletions as far as an event's actions go (Flink: `CheckpointsCleaner`).

use super::files::Entry;
use super::{Checkpoint, Ownership, Retained, RetainedAction, Stage};
use crate::ids::CheckpointId;
use crate::machine::Orders;

impl<const CHECKPOINTS: usize, const FILES: usize> Retained<CHECKPOINTS, FILES> {
    /// The oldest retained checkpoint that is not a savepoint: no file is used by older ones alone (rule S5).
    pub(super) fn lowest(&self) -> Option<CheckpointId> {
        self.retained().filter(|(_, kind)| !kind.is_savepoint()).map(|(id, _)| id).min()
    }

    /// Orders checkpoints to be discarded, and then the files that none of them can list any more.
    pub(super) fn clean(&mut self, orders: &mut Orders<'_, RetainedAction>) {
        if let Some(lowest) = self.lowest() {
            self.condemn_subsumed(lowest);
        }
        self.leave_in_place();
        for index in 0..self.checkpoints.len() {
            let due = self.checkpoints.get(index).filter(|checkpoint| self.may_be_discarded(checkpoint));
            if let Some(id) = due.map(|checkpoint| checkpoint.id).filter(|_| orders.left() > 0) {
                self.checkpoints.iter_mut().skip(index).take(1).for_each(|it| it.stage = Stage::Cleaning);
                orders.push(RetainedAction::DiscardCheckpoint(id));
            }
        }
        self.checkpoints.retain(|checkpoint| checkpoint.stage != Stage::Dropped);
        let Self { checkpoints, files, .. } = self;
        files.forget(|file| {
            let waits = |other: &Checkpoint| matches!(other.stage, Stage::Subsumed | Stage::Condemned);
            let has_folder = checkpoints.iter().any(|other| file.is_inside(other.id) && waits(other));
            file.is_condemned() && file.ownership == Ownership::InsideCheckpoint && !has_folder
        });
        while orders.left() > 0 {
            let Self { checkpoints, files, .. } = self;
            let Some(file) = files.take(|file| may_be_deleted(checkpoints, file)) else { break };
            orders.push(RetainedAction::DeleteFile(file));
        }
    }

    /// Whether an order is due that did not fit.
    pub(super) fn has_work(&self) -> bool {
        self.checkpoints.iter().any(|checkpoint| self.may_be_discarded(checkpoint))
            || self.files.iter().any(|file| may_be_deleted(&self.checkpoints, file))
    }

    /// A condemned checkpoint waits for all that may list a file inside its folder; those are newer, so none waits for
    /// itself.
    fn may_be_discarded(&self, checkpoint: &Checkpoint) -> bool {
        let mut inside = self.files.iter().filter(|file| file.is_inside(checkpoint.id));
        let others = || self.checkpoints.iter().filter(|other| other.id != checkpoint.id);
        checkpoint.stage == Stage::Condemned && !inside.any(|file| may_be_listed(others(), file))
    }

    /// Subsumed checkpoints below `lowest` without a file inside that is in use are next (rule S8).
    pub(super) fn condemn_subsumed(&mut self, lowest: CheckpointId) {
        let Self { checkpoints, files, .. } = self;
        let is_in_use = |id| files.live().any(|file| file.is_inside(id));
        for checkpoint in checkpoints.iter_mut().filter(|checkpoint| checkpoint.id < lowest) {
            if checkpoint.stage == Stage::Subsumed && !is_in_use(checkpoint.id) {
                checkpoint.stage = Stage::Condemned;
            }
        }
    }

    /// Drops what would be next, but has to be left where it is.
    fn leave_in_place(&mut self) {
        let is_deleting = self.is_deleting;
        let condemned = self.checkpoints.iter_mut().filter(|checkpoint| checkpoint.stage == Stage::Condemned);
        condemned
            .filter(|checkpoint| checkpoint.is_left_in_place || !is_deleting)
            .for_each(|checkpoint| checkpoint.stage = Stage::Dropped);
        self.files.forget(|file| file.is_condemned() && !is_deleting);
    }
}

/// Whether a file of ours is due, and no checkpoint may list it any more.
fn may_be_deleted(checkpoints: &[Checkpoint], file: &Entry) -> bool {
    file.is_condemned() && file.ownership == Ownership::Own && !may_be_listed(checkpoints.iter(), file)
}

/// Whether one that is yet to be discarded, or not known to be, may list the file.
fn may_be_listed<'c>(mut checkpoints: impl Iterator<Item = &'c Checkpoint>, file: &Entry) -> bool {
    checkpoints.any(|checkpoint| checkpoint.stage != Stage::Retained && file.may_be_used_by(checkpoint.id))
}

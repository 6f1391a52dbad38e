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

    /// Whether a file inside the checkpoint's folder may be used by others (rule S20).
    pub(super) fn is_in_use(&self, id: CheckpointId) -> bool {
        let mut inside = self.files.live().filter(|file| file.ownership == Ownership::InsideCheckpoint);
        inside.any(|file| file.created_by == id)
    }

    /// Orders checkpoints to be discarded, and then the files that none of them can list any more.
    pub(super) fn clean(&mut self, orders: &mut Orders<'_, RetainedAction>) {
        self.condemn_subsumed();
        if !self.is_deleting {
            self.leave_in_place();
        }
        for checkpoint in &mut self.checkpoints {
            if checkpoint.stage == Stage::Condemned && orders.left() > 0 {
                checkpoint.stage = Stage::Cleaning;
                orders.push(RetainedAction::DiscardCheckpoint(checkpoint.id));
            }
        }
        self.checkpoints.retain(|checkpoint| checkpoint.stage != Stage::Dropped);
        while orders.left() > 0 {
            let Self { checkpoints, files, .. } = self;
            let Some(file) = files.take_condemned(|file| may_go(checkpoints, file)) else { break };
            orders.push(RetainedAction::DeleteFile(file));
        }
    }

    /// Whether an order is due that did not fit.
    pub(super) fn has_work(&self) -> bool {
        let may_go = |file: &Entry| file.is_condemned() && may_go(&self.checkpoints, file);
        self.of_stage(Stage::Condemned).next().is_some() || self.files.iter().any(may_go)
    }

    /// Rule S8.
    fn condemn_subsumed(&mut self) {
        let Some(lowest) = self.lowest() else { return };
        for index in 0..self.checkpoints.len() {
            let Some(checkpoint) = self.checkpoints.get(index).copied() else { return };
            if checkpoint.stage == Stage::Subsumed && checkpoint.id < lowest && !self.is_in_use(checkpoint.id)
            {
                self.checkpoints.iter_mut().skip(index).take(1).for_each(|it| it.stage = Stage::Condemned);
            }
        }
    }

    /// Nothing may be deleted: what was to go is left where it is.
    fn leave_in_place(&mut self) {
        let condemned = self.checkpoints.iter_mut().filter(|checkpoint| checkpoint.stage == Stage::Condemned);
        condemned.for_each(|checkpoint| checkpoint.stage = Stage::Dropped);
        self.files.forget(Entry::is_condemned);
    }
}

/// Whether no checkpoint that is yet to be discarded, or not known to be, may list the file.
fn may_go(checkpoints: &[Checkpoint], file: &Entry) -> bool {
    let mut leaving = checkpoints.iter().filter(|checkpoint| checkpoint.stage != Stage::Retained);
    !leaving.any(|checkpoint| file.may_be_used_by(checkpoint.id))
}

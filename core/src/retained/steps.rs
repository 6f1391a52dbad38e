//! What each event does to the store, one function per event.

use super::files::{Effect, Entry, Reference};
use super::{
    Checkpoint, CheckpointKind, JobStatus, Ownership, Retained, RetainedAction, RetainedEvent, Stage,
};
use crate::ids::CheckpointId;
use crate::machine::{Orders, Rejected};

impl<const CHECKPOINTS: usize, const FILES: usize> Retained<CHECKPOINTS, FILES> {
    /// Refuses what cannot be in this state, and what does not fit.
    pub(super) fn validate(&self, event: RetainedEvent) -> Result<(), Rejected> {
        use RetainedEvent as E;
        match event {
            E::FileReferenced { checkpoint, key, file, ownership } => {
                self.check_open()?;
                self.files.effect_of(&Reference { checkpoint, key, file, ownership }).map(|_| ())
            }
            E::CheckpointCompleted { kind, .. } if kind.is_savepoint() => {
                Err(Rejected::Unexpected { what: "a savepoint belongs to whoever asked for it" })
            }
            E::CheckpointCompleted { id, .. } if self.is_completing(id) => self.check_open(),
            E::CheckpointCompleted { id, .. }
            | E::CheckpointRecovered { id, .. }
            | E::SnapshotRestored { id, .. } => self.check_addition(id),
            E::AllAcknowledged(id) => self.check_addition(id),
            E::ManifestFailed { .. }
            | E::UnreadableManifestFound
            | E::DiscardEnded { .. }
            | E::ShutDown(_)
            | E::DeadlineReached => Ok(()),
        }
    }

    fn check_open(&self) -> Result<(), Rejected> {
        if self.is_shut_down {
            return Err(Rejected::Unexpected { what: "the job has ended" });
        }
        Ok(())
    }

    fn is_completing(&self, id: CheckpointId) -> bool {
        self.of_stage(Stage::Completing).any(|checkpoint| checkpoint.id == id)
    }

    fn check_addition(&self, id: CheckpointId) -> Result<(), Rejected> {
        self.check_open()?;
        if self.checkpoints.iter().any(|checkpoint| checkpoint.id == id) {
            return Err(Rejected::Unexpected { what: "the checkpoint is there already" });
        }
        if self.has_room() {
            return Ok(());
        }
        let limit = CHECKPOINTS as u64;
        Err(Rejected::OutOfRange { what: "number of completed checkpoints", value: limit, limit })
    }

    /// The reference counts even if its checkpoint never completes (rules S16 and S19).
    pub(super) fn on_file_referenced(
        &mut self,
        reference: &Reference,
        orders: &mut Orders<'_, RetainedAction>,
    ) {
        self.newest_seen = self.newest_seen.max(Some(reference.checkpoint));
        let Ok(effect) = self.files.effect_of(reference) else { return };
        let Some(file) = self.files.apply(reference, effect) else { return };
        orders.push(RetainedAction::UseFile { checkpoint: reference.checkpoint, key: reference.key, file });
        if let Effect::UseInstead(_, unneeded) = effect
            && reference.ownership == Ownership::Own
            && self.is_deleting
        {
            orders.push(RetainedAction::DeleteFile(unneeded));
        }
    }

    /// What the checkpoint was the last to use is confirmed (rule S21), and stays until its manifest has become durable or
    /// has failed: nothing can stop it now, not even a newer one that completes first.
    pub(super) fn on_all_acknowledged(&mut self, id: CheckpointId) {
        self.files.confirm(id);
        self.insert(id, CheckpointKind::Savepoint, Stage::Completing);
    }

    /// A checkpoint joins those retained, and the oldest may leave them (rule S5).
    pub(super) fn on_completed(
        &mut self,
        id: CheckpointId,
        kind: CheckpointKind,
        orders: &mut Orders<'_, RetainedAction>,
    ) {
        self.checkpoints.retain(|checkpoint| checkpoint.id != id);
        self.insert(id, kind, Stage::Retained);
        if let Some(subsumed) = self.subsume_oldest()
            && subsumed.kind.is_discarded_when_subsumed()
        {
            orders.push(RetainedAction::NotifySubsumed(subsumed.id));
        }
        self.release_unused();
        self.order_remains(orders);
    }

    /// What was there already joins without making others leave (rule S12).
    pub(super) fn on_recovered(&mut self, id: CheckpointId, kind: CheckpointKind) {
        if kind == CheckpointKind::Unclaimed {
            let brought = self.files.iter_mut().filter(|file| file.created_by == id);
            brought.for_each(|file| file.ownership = Ownership::Foreign);
        }
        self.newest_seen = self.newest_seen.max(Some(id));
        self.newest = if kind.is_savepoint() { self.newest } else { Some(id) };
        self.push(Checkpoint { id, kind, stage: Stage::Retained, is_left_in_place: false });
    }

    /// Adds a checkpoint of the job's own, before newer ones that completed earlier.
    fn insert(&mut self, id: CheckpointId, kind: CheckpointKind, stage: Stage) {
        self.newest_seen = self.newest_seen.max(Some(id));
        if stage == Stage::Retained {
            self.newest = self.newest.max(Some(id));
        }
        let mut moving = Checkpoint { id, kind, stage, is_left_in_place: false };
        let behind = self.checkpoints.iter().rev().take_while(|other| id < other.id).count();
        let index = self.checkpoints.len().saturating_sub(behind);
        self.checkpoints.iter_mut().skip(index).for_each(|other| core::mem::swap(other, &mut moving));
        self.push(moving);
    }

    /// There is room, or the event would have been refused.
    fn push(&mut self, checkpoint: Checkpoint) {
        self.checkpoints.push(checkpoint).unwrap_or_default();
    }

    /// The snapshot that the job is started from counts as one more (rules S7 and S34).
    pub(super) fn on_snapshot_restored(&mut self, id: CheckpointId, kind: CheckpointKind) {
        self.on_recovered(id, kind);
        self.subsume_oldest();
        self.release_unused();
    }

    /// Oldest first, everything that may leave leaves until few enough are left (rule S6). The one with the largest id.
    fn subsume_oldest(&mut self) -> Option<Checkpoint> {
        let (latest, latest_kind) = self.latest()?;
        let newest = self.newest;
        let may_leave = |checkpoint: &Checkpoint| {
            let is_spared =
                Some(checkpoint.id) == newest && latest_kind != CheckpointKind::SynchronousSavepoint;
            checkpoint.id != latest && (checkpoint.kind.is_savepoint() || !is_spared)
        };
        let excess = self.retained().count().saturating_sub(self.num_retained);
        let retained = self.checkpoints.iter_mut().filter(|checkpoint| checkpoint.stage == Stage::Retained);
        let mut subsumed: Option<Checkpoint> = None;
        for checkpoint in retained.filter(|checkpoint| may_leave(checkpoint)).take(excess) {
            let is_discarded = checkpoint.kind.is_discarded_when_subsumed();
            checkpoint.stage = if is_discarded { Stage::Subsumed } else { Stage::Dropped };
            if subsumed.is_none_or(|other| other.id < checkpoint.id) {
                subsumed = Some(*checkpoint);
            }
            self.newest = self.newest.filter(|newest| *newest != checkpoint.id);
        }
        subsumed
    }

    /// Lets go of the files that only checkpoints before the oldest retained one could use (rule S17).
    fn release_unused(&mut self) {
        let Some(lowest) = self.lowest() else { return };
        let Self { checkpoints, files, .. } = self;
        let completing = || checkpoints.iter().filter(|checkpoint| checkpoint.stage == Stage::Completing);
        let is_listed = |file: &Entry| completing().any(|checkpoint| file.may_be_used_by(checkpoint.id));
        files.release(|file| file.last_used < lowest && !is_listed(file));
    }

    /// When as many are retained as shall be, and all are newer, nobody writes to what never completed.
    fn order_remains(&self, orders: &mut Orders<'_, RetainedAction>) {
        let is_young =
            |checkpoint: &&Checkpoint| matches!(checkpoint.stage, Stage::Retained | Stage::Completing);
        let oldest = self.checkpoints.iter().filter(is_young).map(|checkpoint| checkpoint.id).min();
        let is_full = self.retained().count() >= self.num_retained;
        if let Some(below) = oldest
            && is_full
            && self.is_deleting
        {
            orders.push(RetainedAction::DiscardRemains { below });
        }
    }

    /// A checkpoint is gone. If its manifest may be there nevertheless, all that it may list stays.
    pub(super) fn end(&mut self, id: CheckpointId, stage: Stage, may_exist: bool) {
        let is_meant = |checkpoint: &&mut Checkpoint| checkpoint.id == id && checkpoint.stage == stage;
        let Some(checkpoint) = self.checkpoints.iter_mut().find(is_meant) else { return };
        checkpoint.stage = Stage::Dropped;
        if may_exist {
            for folder in &mut self.checkpoints {
                let mut inside = self.files.iter().filter(|file| file.is_inside(folder.id));
                folder.is_left_in_place |= inside.any(|file| file.may_be_used_by(id));
            }
            self.files.forget(|file| file.is_condemned() && file.may_be_used_by(id));
            for file in self.files.iter_mut().filter(|file| file.may_be_used_by(id)) {
                file.ownership = Ownership::Foreign;
            }
        }
    }

    /// The job is over for good: what its policy does not keep is discarded, with every file that nothing kept can use
    /// (rule S10).
    pub(super) fn on_job_ended(&mut self, status: JobStatus) {
        if self.is_shut_down {
            return;
        }
        self.is_shut_down = true;
        let retained = self.checkpoints.iter_mut().filter(|checkpoint| checkpoint.stage == Stage::Retained);
        for checkpoint in retained.filter(|checkpoint| checkpoint.kind.is_discarded_at(status)) {
            checkpoint.stage = Stage::Subsumed;
        }
        let Self { checkpoints, files, .. } = self;
        let is_kept =
            |checkpoint: &&Checkpoint| matches!(checkpoint.stage, Stage::Retained | Stage::Completing);
        let kept = || checkpoints.iter().filter(is_kept);
        files.release(|file| !kept().any(|checkpoint| file.may_be_used_by(checkpoint.id)));
        self.condemn_subsumed(CheckpointId(u64::MAX));
        let left = self.checkpoints.iter_mut();
        left.filter(|checkpoint| !matches!(checkpoint.stage, Stage::Condemned | Stage::Cleaning))
            .for_each(|checkpoint| checkpoint.stage = Stage::Dropped);
        self.files.forget(|file| !file.is_condemned());
    }

    /// Another process goes on with the job: nothing is deleted but what has been ordered (rule S10).
    pub(super) fn on_suspended(&mut self) {
        self.is_shut_down = true;
        self.is_deleting = false;
        let others = self.checkpoints.iter_mut().filter(|checkpoint| checkpoint.stage != Stage::Cleaning);
        others.for_each(|checkpoint| checkpoint.stage = Stage::Dropped);
        self.files.forget(|_| true);
    }
}

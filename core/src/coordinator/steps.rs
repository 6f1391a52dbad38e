//! What becomes of a checkpoint that has started, one function per edge.

use super::checkpoint::{Checkpoint, Folder, Stage};
use super::{Coordinator, CoordinatorAction, CoordinatorEvent, Notification};
use crate::ids::{CheckpointId, TaskIndex};
use crate::machine::{Orders, Rejected};
use crate::reason::FailureReason;
use crate::time::Now;

/// The most actions that the announcement of one aborted checkpoint takes.
const ANNOUNCEMENT_MAX: usize = 4;
/// The most actions of a poll, for which announcements leave room.
const POLL_MAX: usize = 1;

impl<const TASK_WORDS: usize, const PENDING: usize> Coordinator<TASK_WORDS, PENDING> {
    /// Refuses reports on what was never ordered, or has been reported already.
    pub(super) fn validate(&self, event: CoordinatorEvent) -> Result<(), Rejected> {
        use CoordinatorEvent as E;
        if let E::Acknowledged { task, .. } | E::Declined { task, .. } | E::TaskFailed(task) = event
            && !self.tasks.contains(task.0)
        {
            return unexpected("the job has no such task");
        }
        let (E::LocationPrepared(id)
        | E::LocationFailed(id)
        | E::ManifestPersisted(id)
        | E::ManifestFailed(id)
        | E::Acknowledged { id, .. }
        | E::Declined { id, .. }) = event
        else {
            return Ok(());
        };
        if id < self.first_id || id >= self.next_id {
            return unexpected("this coordinator has not triggered the checkpoint");
        }
        let known = self.find(id);
        let stage = known.map(|checkpoint| checkpoint.stage);
        if let E::LocationPrepared(_) | E::LocationFailed(_) = event {
            let awaited = known.is_some_and(Checkpoint::awaits_location);
            return expected(awaited, "the folder of this checkpoint is not being made");
        }
        if let E::ManifestPersisted(_) | E::ManifestFailed(_) = event {
            let awaited = stage == Some(Stage::AwaitingManifest);
            return expected(awaited, "the manifest of this checkpoint is not being written");
        }
        expected(stage != Some(Stage::AwaitingLocation), "the tasks have not been triggered yet")
    }

    /// Only now do the tasks learn of the checkpoint; if it was given up meanwhile, they never do.
    pub(super) fn on_location_prepared(
        &mut self,
        id: CheckpointId,
        orders: &mut Orders<'_, CoordinatorAction<TASK_WORDS>>,
    ) {
        let tasks = self.sources;
        let Some(checkpoint) = self.find_mut(id) else { return };
        match &mut checkpoint.stage {
            Stage::AwaitingLocation => {
                checkpoint.stage = Stage::AwaitingAcknowledgements;
                orders.push(CoordinatorAction::TriggerTasks { barrier: checkpoint.barrier(), tasks });
            }
            Stage::Aborted { folder, .. } => *folder = Folder::Made,
            Stage::Orphaned => {
                self.remove(id);
                orders.push(CoordinatorAction::DiscardAcknowledged(id));
            }
            Stage::AwaitingAcknowledgements | Stage::AwaitingManifest => {}
        }
    }

    /// Rule T31.
    pub(super) fn on_location_failed(&mut self, id: CheckpointId) {
        let Some(checkpoint) = self.find_mut(id) else { return };
        match &mut checkpoint.stage {
            Stage::AwaitingLocation => {
                let (reason, folder) = (FailureReason::IoException, Folder::Missing);
                checkpoint.stage = Stage::Aborted { reason, folder };
            }
            Stage::Aborted { folder, .. } => *folder = Folder::Missing,
            Stage::Orphaned => self.remove(id),
            Stage::AwaitingAcknowledgements | Stage::AwaitingManifest => {}
        }
    }

    /// Counts each task once (rules P5 and P10); what a task wrote for a checkpoint that is off has to go, but never
    /// what it wrote for one that is, or may be, complete (rule P11).
    pub(super) fn on_acknowledged(
        &mut self,
        id: CheckpointId,
        task: TaskIndex,
        orders: &mut Orders<'_, CoordinatorAction<TASK_WORDS>>,
    ) {
        let may_be_complete = self.completed.contains(id) || self.completed.has_forgotten(id);
        match self.find_mut(id) {
            Some(checkpoint) if checkpoint.is_pending() => {
                if checkpoint.awaited.remove(task.0) && checkpoint.awaited.is_empty() {
                    checkpoint.stage = Stage::AwaitingManifest;
                    orders.push(CoordinatorAction::PersistManifest(id));
                }
            }
            None if may_be_complete => {}
            Some(_) | None => orders.push(CoordinatorAction::DiscardLate { id, task }),
        }
    }

    /// Rule P26; a checkpoint that is over, or about to become complete, takes no notice.
    pub(super) fn on_declined(&mut self, id: CheckpointId, reason: FailureReason) {
        if let Some(checkpoint) = self.find_mut(id) {
            checkpoint.abort(reason);
        }
    }

    /// Checkpoints that the task has acknowledged go on (rule P22).
    pub(super) fn on_task_failed(&mut self, task: TaskIndex) {
        let struck = self.checkpoints.iter_mut().flatten().filter(|other| other.awaited.contains(task.0));
        struck.for_each(|checkpoint| checkpoint.abort(FailureReason::TaskFailure));
    }

    /// The checkpoint is complete: older ones have become pointless (rules P12 and P16 to P18).
    pub(super) fn on_manifest_persisted(
        &mut self,
        now: Now,
        id: CheckpointId,
        orders: &mut Orders<'_, CoordinatorAction<TASK_WORDS>>,
    ) {
        let request = self.find(id).and_then(|checkpoint| checkpoint.request);
        self.remove(id);
        self.completed.insert(id);
        self.latest_completed = self.latest_completed.max(Some(id));
        self.failures.succeeded(id);
        self.last_completion = Some(now.monotonic);
        if let Some(request) = request {
            orders.push(CoordinatorAction::RequestCompleted { request, id });
        }
        let older = self.checkpoints.iter_mut().flatten().filter(|other| other.id < id);
        older.for_each(|checkpoint| checkpoint.abort(FailureReason::CheckpointSubsumed));
        orders.push(CoordinatorAction::NotifyAll(Notification::Complete(id)));
    }

    /// Rules P13 and P14.
    pub(super) fn on_manifest_failed(&mut self, id: CheckpointId) {
        if let Some(checkpoint) = self.find_mut(id) {
            let (reason, folder) = (FailureReason::FinalizeCheckpointFailure, Folder::Made);
            checkpoint.stage = Stage::Aborted { reason, folder };
        }
    }

    /// Tells everybody of aborted checkpoints, oldest first, as far as the event's actions reach (rule P20).
    pub(super) fn announce_aborted(&mut self, orders: &mut Orders<'_, CoordinatorAction<TASK_WORDS>>) {
        while orders.left() >= ANNOUNCEMENT_MAX + POLL_MAX {
            let aborted = self.checkpoints.iter().flatten().filter(|checkpoint| checkpoint.is_aborted());
            let Some(&oldest) = aborted.min_by_key(|checkpoint| checkpoint.id) else { return };
            let Stage::Aborted { reason, folder } = oldest.stage else { return };
            self.announce(oldest, reason, folder, orders);
        }
    }

    fn announce(
        &mut self,
        checkpoint: Checkpoint<TASK_WORDS>,
        reason: FailureReason,
        folder: Folder,
        orders: &mut Orders<'_, CoordinatorAction<TASK_WORDS>>,
    ) {
        let Checkpoint { id, request, .. } = checkpoint;
        orders.push(CoordinatorAction::RequestFailed { request, id: Some(id), reason });
        match (folder, self.find_mut(id)) {
            (Folder::Awaited, Some(checkpoint)) => checkpoint.stage = Stage::Orphaned,
            (Folder::Awaited, None) => {}
            (Folder::Made, _) => {
                self.remove(id);
                orders.push(CoordinatorAction::DiscardAcknowledged(id));
            }
            (Folder::Missing, _) => self.remove(id),
        }
        if self.failures.failed(id, reason) {
            orders.push(CoordinatorAction::FailJob(reason));
        }
        let latest_completed = self.latest_completed;
        orders.push(CoordinatorAction::NotifyAll(Notification::Abort { id, latest_completed }));
    }

    pub(super) fn find(&self, id: CheckpointId) -> Option<&Checkpoint<TASK_WORDS>> {
        self.checkpoints.iter().flatten().find(|checkpoint| checkpoint.id == id)
    }

    fn find_mut(&mut self, id: CheckpointId) -> Option<&mut Checkpoint<TASK_WORDS>> {
        self.checkpoints.iter_mut().flatten().find(|checkpoint| checkpoint.id == id)
    }

    fn remove(&mut self, id: CheckpointId) {
        let is_it = |slot: &&mut Option<Checkpoint<TASK_WORDS>>| slot.is_some_and(|other| other.id == id);
        if let Some(slot) = self.checkpoints.iter_mut().find(is_it) {
            *slot = None;
        }
    }
}

const fn expected(is_so: bool, what: &'static str) -> Result<(), Rejected> {
    if is_so { Ok(()) } else { unexpected(what) }
}

const fn unexpected(what: &'static str) -> Result<(), Rejected> {
    Err(Rejected::Unexpected { what })
}

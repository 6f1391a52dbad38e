//! The end of checkpoints that everybody has acknowledged.

use super::checkpoint::{Failure, Folder, Stage};
use super::{Coordinator, CoordinatorAction, Graph, Notification, Orders, RestoredFrom};
use crate::ids::CheckpointId;
use crate::reason::FailureReason;
use crate::time::Now;

impl<const TASK_WORDS: usize, const PENDING: usize, const QUEUE: usize, G: Graph<TASK_WORDS>>
    Coordinator<TASK_WORDS, PENDING, QUEUE, G>
{
    /// Everybody has acknowledged (rule P13).
    pub(super) fn finalise(&mut self, id: CheckpointId, orders: &mut Orders<'_, TASK_WORDS>) {
        if self.find(id).is_some_and(|checkpoint| self.finishes_badly(checkpoint)) {
            return self.abort(id, FailureReason::CheckpointDeclinedTaskClosing);
        }
        if let Some(checkpoint) = self.find_mut(id) {
            checkpoint.stage = Stage::AwaitingManifest;
            orders.push(CoordinatorAction::PersistManifest { id, finished: checkpoint.plan.finished });
        }
    }

    /// A savepoint is complete with its manifest, a checkpoint when it is in the store (rule P12).
    pub(super) fn on_manifest_persisted(
        &mut self,
        now: Now,
        id: CheckpointId,
        orders: &mut Orders<'_, TASK_WORDS>,
    ) {
        let Some(checkpoint) = self.find_mut(id) else { return };
        if checkpoint.can_be_subsumed() {
            checkpoint.stage = Stage::AwaitingTurn;
            self.offer_next(orders);
        } else {
            self.complete(now, id, None, orders);
        }
    }

    /// The store is offered one checkpoint at a time, so that what it lists ascends. One that was overtaken while its
    /// manifest was written is given up only now (rule P17).
    fn offer_next(&mut self, orders: &mut Orders<'_, TASK_WORDS>) {
        let latest_subsuming = self.latest_subsuming;
        let waiting =
            self.checkpoints.iter_mut().flatten().filter(|other| other.stage == Stage::AwaitingTurn);
        for overtaken in waiting.filter(|waiting| Some(waiting.id) < latest_subsuming) {
            let failure = Failure::from(FailureReason::CheckpointSubsumed);
            overtaken.stage = Stage::Aborted { failure, folder: Folder::Made };
        }
        if self.checkpoints.iter().flatten().any(|other| other.stage == Stage::AwaitingStore) {
            return;
        }
        let waiting =
            self.checkpoints.iter_mut().flatten().filter(|other| other.stage == Stage::AwaitingTurn);
        if let Some(next) = waiting.min_by_key(|waiting| waiting.id) {
            next.stage = Stage::AwaitingStore;
            orders.push(CoordinatorAction::AddToStore(next.id));
        }
    }

    /// Rule P13.
    pub(super) fn on_manifest_failed(&mut self, id: CheckpointId) {
        self.fail_to_finalise(id, Folder::Made);
    }

    /// Rules P14 and P15.
    pub(super) fn on_stored(
        &mut self,
        now: Now,
        id: CheckpointId,
        subsumed: Option<CheckpointId>,
        orders: &mut Orders<'_, TASK_WORDS>,
    ) {
        self.force_full = false;
        self.latest_completed = self.latest_completed.max(Some(id));
        self.complete(now, id, subsumed, orders);
        self.offer_next(orders);
    }

    /// Rule P14: files that the store may list have to stay, whatever comes late.
    pub(super) fn on_store_failed(
        &mut self,
        id: CheckpointId,
        may_be_stored: bool,
        orders: &mut Orders<'_, TASK_WORDS>,
    ) {
        if may_be_stored {
            self.completed.insert(id);
        }
        self.fail_to_finalise(id, if may_be_stored { Folder::NotOurs } else { Folder::Made });
        self.offer_next(orders);
    }

    fn fail_to_finalise(&mut self, id: CheckpointId, folder: Folder) {
        if let Some(checkpoint) = self.find_mut(id) {
            let failure = Failure::from(FailureReason::FinalizeCheckpointFailure);
            checkpoint.stage = Stage::Aborted { failure, folder };
        }
    }

    /// Steps 4 to 8 of rule P12. Older checkpoints have become pointless, savepoints never do (rules P16 and P17).
    fn complete(
        &mut self,
        now: Now,
        id: CheckpointId,
        last_subsumed: Option<CheckpointId>,
        orders: &mut Orders<'_, TASK_WORDS>,
    ) {
        let Some(&checkpoint) = self.find(id) else { return };
        if let Some(request) = checkpoint.request {
            orders.push(CoordinatorAction::RequestCompleted { request, id });
        }
        self.failures.succeeded(id);
        self.remove(id);
        self.completed.insert(id);
        self.schedule.completed(now);
        if checkpoint.can_be_subsumed() || checkpoint.kind.is_synchronous() {
            self.latest_subsuming = self.latest_subsuming.max(Some(id));
            let subsumed = Failure::from(FailureReason::CheckpointSubsumed);
            self.abort_all(&|other| other.id < id && other.can_be_subsumed(), subsumed);
            let notification = Notification::Complete { id, last_subsumed };
            orders.push(CoordinatorAction::Notify { tasks: checkpoint.plan.taking_part, notification });
        }
    }

    /// Ids go on above what was restored (rules S34 and V9); what is the user's is not built upon (rule V8).
    pub(super) fn on_restored(&mut self, from: Option<RestoredFrom>, orders: &mut Orders<'_, TASK_WORDS>) {
        if let Some(RestoredFrom { id, is_unclaimed }) = from {
            self.force_full = is_unclaimed;
            if self.next_id == self.first_id {
                self.first_id = self.first_id.max(id.next());
            }
            self.next_id = self.next_id.max(id.next());
            self.latest_completed = Some(id);
            self.completed.insert(id);
        }
        if self.options.hooks > 0 {
            orders.push(CoordinatorAction::RestoreHooks(from.map(|from| from.id)));
        }
    }
}

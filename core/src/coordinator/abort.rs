//! The end of checkpoints that are given up, and of requests that are not served.

use super::checkpoint::{Checkpoint, Failure, Folder, Stage};
use super::trigger::POLL_MAX;
use super::{Coordinator, CoordinatorAction, Graph, Notification, Orders, Participant};
use crate::ids::{CheckpointId, TaskIndex};
use crate::reason::FailureReason;

/// The most actions that the announcement of one aborted checkpoint takes.
const ANNOUNCEMENT_MAX: usize = 4;
/// How many expired checkpoints are remembered as such (rule P11).
const EXPIRED_MAX: usize = 16;

impl<const TASK_WORDS: usize, const PENDING: usize, const QUEUE: usize, G: Graph<TASK_WORDS>>
    Coordinator<TASK_WORDS, PENDING, QUEUE, G>
{
    /// Gives one checkpoint up, if it is not too late.
    pub(super) fn abort(&mut self, id: CheckpointId, failure: impl Into<Failure>) {
        if let Some(checkpoint) = self.find_mut(id) {
            checkpoint.abort(failure.into());
        }
    }

    /// Gives up all that are `struck`.
    pub(super) fn abort_all(&mut self, struck: &dyn Fn(&Checkpoint<TASK_WORDS>) -> bool, failure: Failure) {
        let struck = self.checkpoints.iter_mut().flatten().filter(|checkpoint| struck(checkpoint));
        struck.for_each(|checkpoint| checkpoint.abort(failure));
    }

    /// Checkpoints that the task has acknowledged go on (rule P22).
    pub(super) fn abort_awaiting(&mut self, task: TaskIndex) {
        let failure = Failure { reason: FailureReason::TaskFailure, task: Some(task) };
        self.abort_all(&|checkpoint| checkpoint.awaited.contains(task.0), failure);
    }

    /// Tells who asked that nothing was tried, in the order of the queue, as far as the event's actions reach.
    pub(super) fn announce_refused(&mut self, orders: &mut Orders<'_, TASK_WORDS>) {
        while orders.left() > POLL_MAX
            && let Some((request, reason)) = self.requests.take_refused()
        {
            orders.push(CoordinatorAction::RequestRefused { request, reason });
        }
    }

    /// Tells everybody of aborted checkpoints, oldest first, as far as the event's actions reach (rule P20); not before
    /// all is told of requests (rule T24).
    pub(super) fn announce_aborted(&mut self, orders: &mut Orders<'_, TASK_WORDS>) {
        while orders.left() >= ANNOUNCEMENT_MAX + POLL_MAX && !self.requests.has_refused() {
            let all = self.checkpoints.iter().flatten();
            let aborted = all.filter_map(|checkpoint| Some((checkpoint, checkpoint.stage.aborted()?)));
            let Some((&oldest, (failure, folder))) = aborted.min_by_key(|(checkpoint, _)| checkpoint.id)
            else {
                return;
            };
            self.announce(&oldest, failure, folder, orders);
        }
    }

    fn announce(
        &mut self,
        checkpoint: &Checkpoint<TASK_WORDS>,
        failure: Failure,
        folder: Folder,
        orders: &mut Orders<'_, TASK_WORDS>,
    ) {
        let Checkpoint { id, request, kind, ref plan, .. } = *checkpoint;
        let reason = failure.reason;
        orders.push(CoordinatorAction::RequestFailed { request, id: Some(id), reason });
        match (folder, self.find_mut(id)) {
            (Folder::Awaited, Some(checkpoint)) => checkpoint.stage = Stage::Orphaned,
            (Folder::Made, _) => self.discard(id, orders),
            (Folder::NotOurs | Folder::Awaited, _) => self.remove(id),
        }
        if reason == FailureReason::CheckpointExpired {
            self.expired.insert(id);
        }
        if self.failures.failed(Some(id), kind, failure) {
            let task = failure.task.filter(|_| failure.is_of_task());
            orders.push(CoordinatorAction::FailJob { reason, task });
        }
        let notification = Notification::Abort { id, latest_completed: self.latest_completed };
        orders.push(CoordinatorAction::Notify { tasks: plan.taking_part, notification });
    }

    /// Lets what was written for a checkpoint go, and the checkpoint (rules P24 and S9).
    pub(super) fn discard(&mut self, id: CheckpointId, orders: &mut Orders<'_, TASK_WORDS>) {
        self.remove(id);
        self.cleaning = self.cleaning.saturating_add(1);
        orders.push(CoordinatorAction::DiscardAcknowledged(id));
    }

    /// Lets go what came too late, unless the checkpoint is, or may be, complete (rules P10 and P11).
    pub(super) fn discard_late(
        &mut self,
        id: CheckpointId,
        by: Participant,
        orders: &mut Orders<'_, TASK_WORDS>,
    ) {
        let may_be_complete = self.completed.contains(id) || self.completed.has_forgotten(id);
        if self.find(id).is_none() && may_be_complete {
            return;
        }
        let is_expired = self.expired.contains(id) && self.expired.count_after(id) < EXPIRED_MAX;
        orders.push(CoordinatorAction::DiscardLate { id, by, is_expired });
    }
}

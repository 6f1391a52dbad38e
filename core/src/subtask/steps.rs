//! What each event does to a subtask, one function per edge.

use super::{Snapshot, State, Subtask, SubtaskAction};
use crate::gate::AlignmentMetrics;
use crate::ids::{Barrier, CheckpointId};
use crate::machine::Orders;
use crate::reason::FailureReason;

impl<const PENDING: usize> Subtask<PENDING> {
    /// What was frozen but not yet handed over can no longer become part of a checkpoint.
    pub(super) fn on_stopped(&mut self, orders: &mut Orders<'_, SubtaskAction>) {
        if let State::Snapshotting { snapshot, .. } = self.state {
            orders.push(SubtaskAction::CancelPersist(snapshot.id));
        }
        self.state = State::Stopped;
    }

    /// Takes part in a checkpoint (rules X6 to X11), unless it is old, was aborted before, or there is no room.
    pub(super) fn running_on_barrier(
        &mut self,
        barrier: Barrier,
        alignment: AlignmentMetrics,
        orders: &mut Orders<'_, SubtaskAction>,
    ) {
        let id = barrier.id;
        if self.last >= Some(id) {
            return; // Rule X6.
        }
        if self.is_aborted(id) {
            self.last = Some(id);
            orders.push(SubtaskAction::BroadcastCancel(id)); // Rule X7: without it the tasks behind wait for ever.
            return;
        }
        if self.persisting.iter().all(Option::is_some) {
            return self.give_up(id, FailureReason::TaskCheckpointFailure, orders);
        }
        self.last = Some(id);
        self.state = State::Snapshotting { snapshot: Snapshot { id, alignment }, aborted: false };
        orders.push(SubtaskAction::PrepareOperators(id));
        orders.push(SubtaskAction::BroadcastBarrier(barrier));
        orders.push(SubtaskAction::SnapshotOperators(barrier));
    }

    /// The coordinator and the tasks behind learn that the checkpoint is off (rule X20).
    pub(super) fn give_up(
        &mut self,
        id: CheckpointId,
        reason: FailureReason,
        orders: &mut Orders<'_, SubtaskAction>,
    ) {
        self.last = self.last.max(Some(id));
        orders.push(SubtaskAction::Decline { id, reason });
        orders.push(SubtaskAction::BroadcastCancel(id));
    }

    pub(super) fn snapshotting_on_taken(
        &mut self,
        snapshot: Snapshot,
        aborted: bool,
        orders: &mut Orders<'_, SubtaskAction>,
    ) {
        self.state = State::Running;
        if aborted {
            orders.push(SubtaskAction::CancelPersist(snapshot.id));
        } else if let Some(free) = self.persisting.iter_mut().find(|slot| slot.is_none()) {
            *free = Some(snapshot);
            orders.push(SubtaskAction::Persist(snapshot.id));
        }
    }

    /// An asynchronous part that was given up reports nothing (rule X17).
    pub(super) fn on_persisted(&mut self, id: CheckpointId, orders: &mut Orders<'_, SubtaskAction>) {
        if let Some(Snapshot { id, alignment }) = self.take_persisting(id) {
            orders.push(SubtaskAction::Acknowledge { id, alignment });
        }
    }

    /// A subtask that has stopped stays silent, so that its end is not counted as a failure (rule X17).
    pub(super) fn on_persist_failed(
        &mut self,
        id: CheckpointId,
        reason: FailureReason,
        orders: &mut Orders<'_, SubtaskAction>,
    ) {
        if self.take_persisting(id).is_some() && self.is_running() {
            orders.push(SubtaskAction::Decline { id, reason });
        }
    }

    /// Makes up for a lost completion first, then gives the checkpoint up wherever it stands (rules X21 and X22).
    pub(super) fn on_abort_notified(
        &mut self,
        id: CheckpointId,
        latest_completed: Option<CheckpointId>,
        orders: &mut Orders<'_, SubtaskAction>,
    ) {
        if let Some(completed) = latest_completed {
            self.complete(completed, orders);
        }
        if !self.is_running() {
            return;
        }
        if let State::Snapshotting { snapshot, aborted } = &mut self.state
            && snapshot.id == id
        {
            *aborted = true;
        } else if self.take_persisting(id).is_some() {
            orders.push(SubtaskAction::CancelPersist(id));
        } else if self.last < Some(id) {
            self.aborted.insert(id);
        }
        orders.push(SubtaskAction::NotifyAbort(id));
    }

    /// Completions that are repeated or come late do nothing (rule X23).
    pub(super) fn complete(&mut self, id: CheckpointId, orders: &mut Orders<'_, SubtaskAction>) {
        if self.latest_completed >= Some(id) {
            return;
        }
        self.latest_completed = Some(id);
        if self.is_running() {
            orders.push(SubtaskAction::NotifyComplete(id));
        }
    }

    /// Rule X19, but an id that is too old to be known never counts as alive.
    fn is_aborted(&self, id: CheckpointId) -> bool {
        self.aborted.contains(id) || self.aborted.has_forgotten(id)
    }

    fn take_persisting(&mut self, id: CheckpointId) -> Option<Snapshot> {
        let is_it = |slot: &&mut Option<Snapshot>| slot.is_some_and(|snapshot| snapshot.id == id);
        self.persisting.iter_mut().find(is_it).and_then(Option::take)
    }
}

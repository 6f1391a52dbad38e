//! What the coordinator's notifications and the end of the subtask do, one function per edge.

use super::{State, Subtask, SubtaskAction, TaskFailure};
use crate::ids::CheckpointId;
use crate::machine::Orders;
use crate::time::Now;

impl<const PENDING: usize> Subtask<PENDING> {
    /// Makes up for a lost completion first, then gives the checkpoint up wherever it stands (rules X21 and X22).
    pub(super) fn on_abort_notified(
        &mut self,
        now: Now,
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
        if self.ending.savepoint == Some(id) {
            return self.fail(id, TaskFailure::StopWithSavepoint, orders);
        }
        self.overtaking = self.overtaking.filter(|(_, barrier)| barrier.id != id);
        if !self.cancel(now, id, orders) && self.last < Some(id) {
            self.aborted.insert(id);
        }
        orders.push(SubtaskAction::NotifyAbort(id));
        if self.options.keeps_local_state {
            orders.push(SubtaskAction::DropLocalState(id));
        }
    }

    /// Completions that are repeated or come late do nothing (rule X23), but that they may end the subtask.
    pub(super) fn complete(&mut self, id: CheckpointId, orders: &mut Orders<'_, SubtaskAction>) {
        self.ending.complete(id);
        if self.latest_completed >= Some(id) {
            return;
        }
        self.latest_completed = Some(id);
        if self.is_running() {
            orders.push(SubtaskAction::NotifyComplete(id));
        }
        if self.options.keeps_local_state {
            orders.push(SubtaskAction::ConfirmLocalState(id));
        }
    }

    pub(super) fn on_subsume_notified(&self, id: CheckpointId, orders: &mut Orders<'_, SubtaskAction>) {
        if self.is_running() {
            orders.push(SubtaskAction::NotifySubsume(id)); // Rule X24.
        }
    }

    pub(super) fn on_notification_failed(
        &mut self,
        id: CheckpointId,
        orders: &mut Orders<'_, SubtaskAction>,
    ) {
        self.fail(id, TaskFailure::Notification, orders); // Rule X24.
    }

    /// What is not handed over, or awaits records that will not be captured, can no longer become durable.
    pub(super) fn on_stopped(&mut self, now: Now, orders: &mut Orders<'_, SubtaskAction>) {
        if let State::Snapshotting { snapshot, .. } = self.state {
            orders.push(SubtaskAction::CancelPersist(snapshot.id));
            snapshot.drop_input(orders);
        }
        self.stop();
        if let Some(id) = self.capturing() {
            self.cancel(now, id, orders);
        }
    }

    pub(super) fn fail(
        &mut self,
        id: CheckpointId,
        failure: TaskFailure,
        orders: &mut Orders<'_, SubtaskAction>,
    ) {
        if self.is_running() {
            self.stop();
            orders.push(SubtaskAction::FailTask { id, failure });
        }
    }

    fn stop(&mut self) {
        self.state = State::Stopped;
        self.held = None;
        self.overtaking = None;
    }

    /// Rule X28.
    pub(super) fn close_if_over(&mut self, orders: &mut Orders<'_, SubtaskAction>) {
        if matches!(self.state, State::Running) && self.ending.may_close(&self.options) {
            self.state = State::Closing;
            orders.push(SubtaskAction::Close);
        }
    }
}

//! From the frozen state to the acknowledgement, and what ends it before: one function per edge.

use super::snapshot::{Input, Part, PartSet, PartSizes, Snapshot};
use super::{State, Subtask, SubtaskAction, TaskFailure};
use crate::gate::AlignmentMetrics;
use crate::ids::CheckpointId;
use crate::machine::Orders;
use crate::reason::FailureReason;
use crate::time::{Millis, Now};

impl<const PENDING: usize> Subtask<PENDING> {
    pub(super) fn on_input_captured(
        &mut self,
        id: CheckpointId,
        alignment: AlignmentMetrics,
        orders: &mut Orders<'_, SubtaskAction>,
    ) {
        if let State::Snapshotting { snapshot, aborted: false } = &mut self.state
            && snapshot.id == id
        {
            snapshot.captured(alignment);
        } else if let Some(snapshot) = self.persisting.iter_mut().flatten().find(|snapshot| snapshot.id == id)
        {
            snapshot.captured(alignment);
            orders.push(SubtaskAction::PersistInput(id));
        } else {
            orders.push(SubtaskAction::DropCapture(id)); // It was given up meanwhile.
        }
    }

    /// The frozen state becomes durable beside the stream of records (rules X11, X14 and X15).
    pub(super) fn snapshotting_on_taken(
        &mut self,
        now: Now,
        mut snapshot: Snapshot,
        aborted: bool,
        (parts, since): (PartSet, Millis),
        orders: &mut Orders<'_, SubtaskAction>,
    ) {
        let id = snapshot.id;
        self.state = State::Running;
        snapshot.taken(now, parts, since);
        if self.options.has_coordinators {
            orders.push(SubtaskAction::ReopenGateways(id));
        }
        if aborted {
            orders.push(SubtaskAction::CancelPersist(id));
            orders.push(SubtaskAction::ReportIncomplete { id, metrics: snapshot.metrics(now) });
            return;
        }
        if !parts.is_empty() {
            orders.push(SubtaskAction::Persist { id, parts });
        }
        if snapshot.input == Input::Captured {
            orders.push(SubtaskAction::PersistInput(id));
        }
        if snapshot.awaited.is_empty() {
            self.acknowledge(now, snapshot, orders);
        } else if let Some(free) = self.persisting.iter_mut().find(|slot| slot.is_none()) {
            *free = Some(snapshot);
        }
    }

    pub(super) fn snapshotting_on_failed(
        &mut self,
        snapshot: Snapshot,
        orders: &mut Orders<'_, SubtaskAction>,
    ) {
        snapshot.drop_input(orders);
        self.fail(snapshot.id, TaskFailure::Snapshot, orders); // Rule X12.
    }

    /// The last part acknowledges. An asynchronous part that was given up reports nothing (rule X17).
    pub(super) fn on_persisted(
        &mut self,
        now: Now,
        id: CheckpointId,
        part: Part,
        sizes: PartSizes,
        orders: &mut Orders<'_, SubtaskAction>,
    ) {
        let snapshot = self.persisting.iter_mut().flatten().find(|snapshot| snapshot.id == id);
        let is_durable = snapshot.is_some_and(|snapshot| {
            snapshot.persisted(part, sizes);
            snapshot.awaited.is_empty()
        });
        if is_durable && let Some(snapshot) = self.take_persisting(id) {
            self.acknowledge(now, snapshot, orders);
        }
    }

    fn acknowledge(&self, now: Now, snapshot: Snapshot, orders: &mut Orders<'_, SubtaskAction>) {
        let Snapshot { id, parts, is_finished, .. } = snapshot;
        if self.options.keeps_local_state {
            orders.push(SubtaskAction::StoreLocalState(id));
        }
        let metrics = snapshot.metrics(now);
        orders.push(SubtaskAction::Acknowledge { id, parts, is_finished, metrics });
    }

    /// A subtask that has stopped stays silent, so that its end is not counted as a failure (rule X17).
    pub(super) fn on_persist_failed(
        &mut self,
        id: CheckpointId,
        reason: Option<FailureReason>,
        orders: &mut Orders<'_, SubtaskAction>,
    ) {
        let is_off = if let State::Snapshotting { snapshot, aborted } = &mut self.state
            && snapshot.id == id
            && !*aborted
        {
            *aborted = true;
            snapshot.drop_input(orders);
            true
        } else if let Some(snapshot) = self.take_persisting(id) {
            orders.push(SubtaskAction::CancelPersist(id));
            snapshot.drop_input(orders);
            true
        } else {
            false
        };
        if is_off && self.is_running() {
            let reason = reason.unwrap_or(FailureReason::CheckpointAsyncException);
            orders.push(SubtaskAction::Decline { id, reason });
        }
    }

    /// Lets go of what is durable or under way of a checkpoint that is off (rule X18). False if there is nothing.
    pub(super) fn cancel(
        &mut self,
        now: Now,
        id: CheckpointId,
        orders: &mut Orders<'_, SubtaskAction>,
    ) -> bool {
        if let State::Snapshotting { snapshot, aborted } = &mut self.state
            && snapshot.id == id
        {
            *aborted = true;
            snapshot.drop_input(orders);
            return true;
        }
        let Some(snapshot) = self.take_persisting(id) else { return false };
        orders.push(SubtaskAction::CancelPersist(id));
        snapshot.drop_input(orders);
        orders.push(SubtaskAction::ReportIncomplete { id, metrics: snapshot.metrics(now) });
        true
    }

    fn take_persisting(&mut self, id: CheckpointId) -> Option<Snapshot> {
        let is_it = |slot: &&mut Option<Snapshot>| slot.is_some_and(|snapshot| snapshot.id == id);
        self.persisting.iter_mut().find(is_it).and_then(Option::take)
    }

    /// The checkpoint whose records are being captured.
    pub(super) fn capturing(&self) -> Option<CheckpointId> {
        let is_it = |snapshot: &&Snapshot| snapshot.input == Input::Capturing;
        self.alive().find(is_it).map(|snapshot| snapshot.id)
    }

    /// The checkpoints that this subtask takes part in and that are not off.
    pub(super) fn alive(&self) -> impl Iterator<Item = &Snapshot> {
        let taking = match &self.state {
            State::Snapshotting { snapshot, aborted: false } => Some(snapshot),
            State::Snapshotting { aborted: true, .. }
            | State::AwaitingStart
            | State::Running
            | State::Closing
            | State::Stopped => None,
        };
        self.persisting.iter().flatten().chain(taking)
    }
}

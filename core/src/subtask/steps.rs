//! What triggers, barriers and their snapshots do to a subtask, one function per edge.

use super::snapshot::{Input, Snapshot};
use super::{State, Subtask, SubtaskAction, TaskFailure, drop_capture, skip};
use crate::gate::AlignmentMetrics;
use crate::ids::{Barrier, CheckpointId, SnapshotKind};
use crate::machine::Orders;
use crate::reason::FailureReason;
use crate::time::Now;

impl<const PENDING: usize> Subtask<PENDING> {
    /// The coordinator triggers sources, and subtasks whose predecessors have ended (rules X2, X3 and X27).
    pub(super) fn running_on_trigger(
        &mut self,
        now: Now,
        barrier: Barrier,
        orders: &mut Orders<'_, SubtaskAction>,
    ) {
        let id = barrier.id;
        if let Some(failure) = self.options.unsupported(barrier.kind) {
            self.fail(id, failure, orders);
        } else if self.options.induces_checkpoints {
            // Rule X30: it comes as `CheckpointInduced` instead.
        } else if self.options.has_inputs && !self.ending.inputs_finished {
            orders.push(SubtaskAction::InjectBarrier(barrier));
        } else if self.held.is_some() {
            self.held_on_trigger(barrier, orders);
        } else if barrier.kind.is_synchronous() && self.ending.data_ended.is_none() && self.is_fresh(id) {
            self.held = Some(barrier);
            self.ending.savepoint = Some(id);
            orders.push(SubtaskAction::EndData { drain: matches!(barrier.kind, SnapshotKind::Drain(_)) });
        } else {
            self.take_directly(now, barrier, orders);
        }
    }

    /// The barrier of another checkpoint must not cut the end of the data in two.
    fn held_on_trigger(&self, barrier: Barrier, orders: &mut Orders<'_, SubtaskAction>) {
        if self.held.is_none_or(|held| held.id != barrier.id) {
            skip(barrier, orders);
            let reason = FailureReason::CheckpointDeclinedTaskClosing;
            orders.push(SubtaskAction::Decline { id: barrier.id, reason });
        }
    }

    /// Those behind must not wait, and whoever asked is told (rules X1 and X4).
    pub(super) fn not_running_on_trigger(
        &mut self,
        barrier: Barrier,
        orders: &mut Orders<'_, SubtaskAction>,
    ) {
        let id = barrier.id;
        self.not_running_on_barrier(barrier, orders);
        let reason = match self.state {
            State::Closing => FailureReason::CheckpointDeclinedTaskClosing,
            State::AwaitingStart | State::Running | State::Snapshotting { .. } | State::Stopped => {
                FailureReason::CheckpointDeclinedTaskNotReady
            }
        };
        orders.push(SubtaskAction::Decline { id, reason });
    }

    /// Rule X4. Whoever is behind has had a barrier or a marker of an older one.
    pub(super) fn not_running_on_barrier(
        &mut self,
        barrier: Barrier,
        orders: &mut Orders<'_, SubtaskAction>,
    ) {
        if self.last < Some(barrier.id) {
            self.supersede(barrier.id);
            skip(barrier, orders);
        } else {
            self.ignore(barrier, orders);
        }
    }

    /// Without inputs there is nothing to align (rule X3).
    pub(super) fn take_directly(
        &mut self,
        now: Now,
        barrier: Barrier,
        orders: &mut Orders<'_, SubtaskAction>,
    ) {
        let start_delay = now.wall.since(barrier.triggered_at);
        let alignment = AlignmentMetrics { start_delay, ..AlignmentMetrics::default() };
        self.take(now, barrier, alignment, Input::Nothing, orders);
    }

    pub(super) fn running_on_barrier(
        &mut self,
        now: Now,
        barrier: Barrier,
        alignment: AlignmentMetrics,
        orders: &mut Orders<'_, SubtaskAction>,
    ) {
        // Rule X5: one that may only turn unaligned was aligned in time, so there is nothing to capture.
        let input = if barrier.alignment.is_unaligned() { Input::Capturing } else { Input::Nothing };
        self.take(now, barrier, alignment, input, orders);
    }

    /// Takes part in a checkpoint (rules X4 to X11), unless it is old, was aborted before, or there is no room.
    fn take(
        &mut self,
        now: Now,
        barrier: Barrier,
        alignment: AlignmentMetrics,
        input: Input,
        orders: &mut Orders<'_, SubtaskAction>,
    ) {
        let id = barrier.id;
        if self.last >= Some(id) {
            return self.ignore(barrier, orders);
        }
        self.supersede(id);
        self.decline_capturing(now, id, FailureReason::CheckpointDeclinedSubsumed, orders);
        if self.is_aborted(id) {
            return skip(barrier, orders); // Rule X7.
        }
        self.ending.take_part(id, barrier.kind.is_synchronous(), &self.options);
        if self.persisting.iter().all(Option::is_some) {
            drop_capture(barrier, orders);
            return self.give_up(now, id, FailureReason::TaskCheckpointFailure, orders);
        }
        let snapshot = Snapshot::new(id, alignment, input, self.ending.is_finished());
        self.state = State::Snapshotting { snapshot, aborted: false };
        // Rule X8: behind an edge where nothing may overtake the barrier may do so again.
        let barrier = Barrier { alignment: barrier.alignment.with_overtaking(), ..barrier };
        self.arm(now, barrier);
        orders.push(SubtaskAction::PrepareOperators(id));
        orders.push(SubtaskAction::BroadcastBarrier(barrier));
        orders.push(SubtaskAction::SnapshotOperators(barrier));
    }

    /// Nothing of an older checkpoint goes out any more, nor does its barrier overtake (rules X6 and X10).
    const fn supersede(&mut self, id: CheckpointId) {
        self.last = Some(id);
        self.overtaking = None;
    }

    /// Rule X6. What is captured for a barrier that is only repeated is still wanted.
    fn ignore(&self, barrier: Barrier, orders: &mut Orders<'_, SubtaskAction>) {
        if self.find(barrier.id).is_none() {
            drop_capture(barrier, orders);
        }
    }

    /// Rule X10: the time counts from the trigger of the checkpoint.
    fn arm(&mut self, now: Now, barrier: Barrier) {
        let Some(timeout) = barrier.alignment.timeout() else { return };
        let left = timeout.since(now.wall.since(barrier.triggered_at));
        self.overtaking = barrier.to_unaligned().map(|barrier| (now.monotonic.after(left), barrier));
    }

    pub(super) fn on_deadline(&mut self, now: Now, orders: &mut Orders<'_, SubtaskAction>) {
        if let Some((_, barrier)) = self.overtaking.take_if(|(at, _)| *at <= now.monotonic) {
            orders.push(SubtaskAction::OvertakeOutputs(barrier));
        }
    }

    /// A savepoint that has waited for the end of the data is taken now (rule X27).
    pub(super) fn on_data_ended(&mut self, now: Now, drained: bool, orders: &mut Orders<'_, SubtaskAction>) {
        self.ending.data_ended = Some(drained);
        if let Some(barrier) = self.held.take() {
            self.take_directly(now, barrier, orders);
        }
    }

    /// The coordinator and the tasks behind learn that the checkpoint is off (rule X20).
    pub(super) fn give_up(
        &mut self,
        now: Now,
        id: CheckpointId,
        reason: FailureReason,
        orders: &mut Orders<'_, SubtaskAction>,
    ) {
        if self.ending.savepoint == Some(id) {
            return self.fail(id, TaskFailure::StopWithSavepoint, orders);
        }
        if self.last <= Some(id) {
            self.supersede(id);
        }
        self.decline_capturing(now, id, reason, orders);
        self.cancel(now, id, orders);
        orders.push(SubtaskAction::Decline { id, reason });
        orders.push(SubtaskAction::BroadcastCancel(id));
    }

    /// The gate captures for its newest checkpoint only: one that has come to know of `id` drops an older one, of
    /// which it may say no more (rule B12).
    fn decline_capturing(
        &mut self,
        now: Now,
        id: CheckpointId,
        reason: FailureReason,
        orders: &mut Orders<'_, SubtaskAction>,
    ) {
        if let Some(older) = self.capturing().filter(|older| *older < id) {
            self.cancel(now, older, orders);
            orders.push(SubtaskAction::Decline { id: older, reason });
        }
    }

    /// Whether the subtask would take part.
    fn is_fresh(&self, id: CheckpointId) -> bool {
        self.last < Some(id) && !self.is_aborted(id)
    }

    /// Rule X19, but an id that is too old to be known never counts as alive.
    pub(super) fn is_aborted(&self, id: CheckpointId) -> bool {
        self.aborted.contains(id) || self.aborted.has_forgotten(id)
    }
}

//! What tasks say of a checkpoint, and what is refused.

use super::checkpoint::{Checkpoint, Failure, Stage};
use super::{
    Attempt, Coordinator, CoordinatorAction, CoordinatorEvent, Graph, Orders, Participant, TaskReport,
};
use crate::ids::{CheckpointId, TaskIndex};
use crate::machine::Rejected;
use crate::reason::FailureReason;

impl CoordinatorEvent {
    /// Whether a coordinator that has been shut down still goes by it: reports on what it had ordered (rule T14).
    pub(super) const fn outlives_the_coordinator(&self) -> bool {
        matches!(
            self,
            Self::CheckpointRequested { .. }
                | Self::LocationPrepared(_)
                | Self::LocationFailed { .. }
                | Self::OperatorCoordinatorAcknowledged { .. }
                | Self::HookAcknowledged { .. }
                | Self::ManifestPersisted(_)
                | Self::ManifestFailed(_)
                | Self::Stored { .. }
                | Self::StoreFailed { .. }
                | Self::CleaningStarted
                | Self::CleaningEnded
        )
    }

    const fn task(&self) -> Option<TaskIndex> {
        let (Self::Acknowledged { by: Attempt { task, .. }, .. }
        | Self::Declined { by: Attempt { task, .. }, .. }
        | Self::TaskChanged { attempt: Attempt { task, .. }, .. }
        | Self::TaskFailed(Attempt { task, .. })
        | Self::TriggerFailed { task, .. }) = self
        else {
            return None;
        };
        Some(*task)
    }

    const fn checkpoint(&self) -> Option<CheckpointId> {
        let (Self::LocationPrepared(id)
        | Self::LocationFailed { id, .. }
        | Self::OperatorCoordinatorAcknowledged { id, .. }
        | Self::OperatorCoordinatorFailed { id, .. }
        | Self::HookAcknowledged { id, .. }
        | Self::HookFailed { id, .. }
        | Self::TriggerFailed { id, .. }
        | Self::Acknowledged { id, .. }
        | Self::Declined { id, .. }
        | Self::ManifestPersisted(id)
        | Self::ManifestFailed(id)
        | Self::Stored { id, .. }
        | Self::StoreFailed { id, .. }) = self
        else {
            return None;
        };
        Some(*id)
    }
}

impl<const TASK_WORDS: usize, const PENDING: usize, const QUEUE: usize, G: Graph<TASK_WORDS>>
    Coordinator<TASK_WORDS, PENDING, QUEUE, G>
{
    /// Refuses what was never ordered, has been reported already, or belongs to another job.
    pub(super) fn validate(&self, event: CoordinatorEvent) -> Result<(), Rejected> {
        if event.task().is_some_and(|task| !self.tasks.all.contains(task.0)) {
            return unexpected("the job has no such task");
        }
        let Some(id) = event.checkpoint() else { return self.validate_general(event) };
        if id < self.first_id || id >= self.next_id {
            return unexpected("this coordinator has not triggered the checkpoint");
        }
        self.validate_report(event, self.find(id).map(|checkpoint| checkpoint.stage))
    }

    fn validate_general(&self, event: CoordinatorEvent) -> Result<(), Rejected> {
        use CoordinatorEvent as E;
        if let E::TaskChanged { attempt, .. } = event {
            let is_old = self.tasks.is_replaced(attempt);
            expected(!is_old, "a later attempt has taken the place of this one")?;
        }
        if let E::BacklogChanged { source, .. } = event {
            in_range("source", source, 32)?;
        }
        if let E::PeriodicResumed | E::Restored(_) = event {
            expected(!self.schedule.is_shut_down(), "the coordinator has been shut down")?;
        }
        if matches!(event, E::PeriodicResumed) {
            expected(self.options.base_interval().is_some(), "the job has no periodic checkpoints")?;
        }
        expected(!matches!(event, E::CleaningEnded) || self.cleaning > 0, "nothing is being cleaned up")
    }

    fn validate_report(&self, event: CoordinatorEvent, stage: Option<Stage>) -> Result<(), Rejected> {
        use CoordinatorEvent as E;
        if let E::LocationPrepared(_) | E::LocationFailed { .. } = event {
            let awaited = stage.is_some_and(Stage::awaits_location);
            return expected(awaited, "the folder of this checkpoint is not being made");
        }
        if let E::ManifestPersisted(_) | E::ManifestFailed(_) = event {
            let awaited = stage == Some(Stage::AwaitingManifest);
            return expected(awaited, "the manifest of this checkpoint is not being written");
        }
        if let E::Stored { .. } | E::StoreFailed { .. } = event {
            let awaited = stage == Some(Stage::AwaitingStore);
            return expected(awaited, "the store was not asked to take this checkpoint");
        }
        if let E::OperatorCoordinatorAcknowledged { coordinator: index, .. }
        | E::OperatorCoordinatorFailed { coordinator: index, .. } = event
        {
            in_range("operator coordinator", index, self.options.operator_coordinators)?;
            return expected(stage != Some(Stage::AwaitingLocation), "no coordinator has been asked yet");
        }
        if let E::HookAcknowledged { hook, .. } | E::HookFailed { hook, .. } = event {
            in_range("hook", hook, self.options.hooks)?;
            let early = matches!(stage, Some(Stage::AwaitingLocation | Stage::AwaitingCoordinators));
            return expected(!early, "no hook has been triggered yet");
        }
        if let E::Acknowledged { report, .. } = event {
            let is_possible = !report.was_deployed_finished || !report.has_state;
            expected(is_possible, "a task that only stands in for a finished one has no state")?;
        }
        expected(!stage.is_some_and(Stage::is_triggering), "the tasks have not been triggered yet")
    }

    /// Counts each task once (rules P5, P6, P9 and P10).
    pub(super) fn on_acknowledged(
        &mut self,
        id: CheckpointId,
        by: Attempt,
        report: TaskReport,
        orders: &mut Orders<'_, TASK_WORDS>,
    ) {
        let is_current = self.tasks.is_current(by);
        let checkpoint = self.find_mut(id).filter(|checkpoint| checkpoint.stage.is_pending());
        if report.has_state && checkpoint.as_ref().is_none_or(|checkpoint| checkpoint.can_be_subsumed()) {
            orders.push(CoordinatorAction::RegisterShared { id, by });
        }
        let Some(checkpoint) = checkpoint else {
            return self.discard_late(id, Participant::Task(by), orders);
        };
        // The part of a task that acknowledges twice may be the very one that was kept.
        if checkpoint.has_acknowledged(by.task) {
            return;
        }
        if !is_current || !checkpoint.awaited.remove(by.task.0) {
            return self.discard_late(id, Participant::Task(by), orders);
        }
        checkpoint.note(by.task, report);
        let is_last = checkpoint.awaited.is_empty();
        orders.push(CoordinatorAction::KeepPart { id, by });
        if is_last {
            self.finalise(id, orders);
        }
    }

    /// Rule P26; a checkpoint that is over, or about to become complete, takes no notice.
    pub(super) fn on_declined(&mut self, id: CheckpointId, task: TaskIndex, reason: FailureReason) {
        self.abort(id, Failure { reason, task: Some(task) });
    }

    /// What an earlier attempt owes is given up already (rule P22).
    pub(super) fn on_task_failed(&mut self, attempt: Attempt) {
        if self.tasks.is_current(attempt) {
            self.abort_awaiting(attempt.task);
        }
    }

    /// As its neighbours not inlined: they are called from everywhere, and a firmware has to be small.
    #[inline(never)]
    pub(super) fn find(&self, id: CheckpointId) -> Option<&Checkpoint<TASK_WORDS>> {
        self.checkpoints.iter().flatten().find(|checkpoint| checkpoint.id == id)
    }

    #[inline(never)]
    pub(super) fn find_mut(&mut self, id: CheckpointId) -> Option<&mut Checkpoint<TASK_WORDS>> {
        self.checkpoints.iter_mut().flatten().find(|checkpoint| checkpoint.id == id)
    }

    #[inline(never)]
    pub(super) fn remove(&mut self, id: CheckpointId) {
        let is_it = |slot: &&mut Option<Checkpoint<TASK_WORDS>>| slot.is_some_and(|other| other.id == id);
        if let Some(slot) = self.checkpoints.iter_mut().find(is_it) {
            *slot = None;
        }
    }
}

const fn in_range(what: &'static str, value: u16, limit: u16) -> Result<(), Rejected> {
    if value < limit {
        return Ok(());
    }
    Err(Rejected::OutOfRange { what, value: value as u64, limit: limit as u64 })
}

const fn expected(is_so: bool, what: &'static str) -> Result<(), Rejected> {
    if is_so { Ok(()) } else { unexpected(what) }
}

const fn unexpected(what: &'static str) -> Result<(), Rejected> {
    Err(Rejected::Unexpected { what })
}

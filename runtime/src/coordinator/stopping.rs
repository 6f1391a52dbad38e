//! Ends the job with a savepoint, as `core::stop` decides.

use std::collections::BTreeSet;

use heapless::Vec as FixedVec;
use slackwater_core::coordinator::{CoordinatorEvent, RequestKind, RequestToken, TaskSet};
use slackwater_core::ids::{CheckpointId, SavepointFormat, TaskIndex};
use slackwater_core::reason::FailureReason;
use slackwater_core::stop::{StopAction, StopEvent, StopWithSavepoint};
use slackwater_core::time::Now;

use super::{CoordinatorActor, End, TASK_WORDS};
use crate::error::JobError;
use crate::mail::WriterMail;
use crate::savepoint::{SavepointError, SavepointOrder};
use crate::stop::{StopMode, StopOrder};

type Machine = StopWithSavepoint<TASK_WORDS>;

/// How far the job is on its way to an end that somebody asked for.
pub(super) struct Stopping {
    machine: Machine,
    /// Who wants it, until it is answered.
    order: Option<StopOrder>,
    /// Under which name the savepoint was asked for.
    request: Option<RequestToken>,
    /// The savepoint, once it is complete: tasks that have committed it have ended.
    savepoint: Option<CheckpointId>,
    /// Checkpoints to be deleted before the job ends; none as long as tasks have yet to commit.
    deleting: Option<BTreeSet<CheckpointId>>,
}

impl Stopping {
    pub(super) fn new(task_count: usize) -> Self {
        let machine = Machine::new(TaskSet::first(task_count));
        Self { machine, order: None, request: None, savepoint: None, deleting: None }
    }

    /// No other last checkpoint is needed: the savepoint is one.
    pub(super) const fn is_under_way(&self) -> bool {
        self.order.is_some()
    }
}

impl CoordinatorActor {
    pub(super) fn on_stop_requested(&mut self, now: Now, order: StopOrder) -> Result<(), JobError> {
        if self.stopping.is_under_way() || matches!(self.end, End::Committing { .. }) {
            order.stopped.give(Err(SavepointError::AlreadyEnding));
            return Ok(());
        }
        let drain = order.mode == StopMode::Drain;
        self.stopping.order = Some(order);
        self.tell_stop(now, StopEvent::StopRequested { drain, format: SavepointFormat::Native })
    }

    /// A savepoint is there; the job ends if it was asked for with that one.
    pub(super) fn stop_saved(
        &mut self,
        now: Now,
        request: RequestToken,
        id: CheckpointId,
    ) -> Result<(), JobError> {
        if self.stopping.request.take_if(|asked| *asked == request).is_none() {
            return Ok(());
        }
        self.stopping.savepoint = Some(id);
        self.tell_stop(now, StopEvent::SavepointCompleted(id))
    }

    /// A savepoint will not be; the job goes on if it was to end with that one.
    pub(super) fn stop_failed(
        &mut self,
        now: Now,
        request: RequestToken,
        reason: FailureReason,
    ) -> Result<(), JobError> {
        if self.stopping.request.take_if(|asked| *asked == request).is_none() {
            return Ok(());
        }
        self.tell_stop(now, StopEvent::SavepointFailed(reason))
    }

    /// A task that has committed the savepoint has nothing left to do.
    pub(super) fn stop_committed(
        &mut self,
        now: Now,
        id: CheckpointId,
        task: TaskIndex,
    ) -> Result<(), JobError> {
        if self.stopping.savepoint.is_none_or(|savepoint| id < savepoint) {
            return Ok(());
        }
        self.tell_stop(now, StopEvent::TaskFinished(task))
    }

    fn tell_stop(&mut self, now: Now, event: StopEvent) -> Result<(), JobError> {
        let mut actions = FixedVec::<_, { Machine::ACTIONS_MAX }>::new();
        let told = self.stopping.machine.on_event(now, event, &mut actions);
        told.map_err(|rejected| JobError::machine("coordinator", rejected))?;
        actions.into_iter().try_for_each(|action| self.stop_act(now, action))
    }

    fn stop_act(&mut self, now: Now, action: StopAction) -> Result<(), JobError> {
        match action {
            StopAction::PausePeriodic if self.is_periodic => {
                self.tell_machine(now, CoordinatorEvent::PeriodicPaused)
            }
            StopAction::ResumePeriodic if self.is_periodic => {
                self.tell_machine(now, CoordinatorEvent::PeriodicResumed)
            }
            StopAction::RequestSavepoint { drain, format } => {
                let kind = if drain { RequestKind::Drain(format) } else { RequestKind::Suspend(format) };
                self.request_last_savepoint(now, kind)
            }
            StopAction::Refuse(reason) => {
                let refused = SavepointError::Failed { reason, cause: self.cause };
                self.stopping.order.take().into_iter().for_each(|order| order.stopped.give(Err(refused)));
                // The input may have ended meanwhile.
                self.request_last(now)
            }
            StopAction::Confirm(savepoint) => self.stopped(savepoint),
            StopAction::PausePeriodic | StopAction::ResumePeriodic => Ok(()),
            // A task that fails ends the job by itself, with its own error.
            StopAction::RestartJob(_) => Ok(()),
        }
    }

    fn request_last_savepoint(&mut self, now: Now, kind: RequestKind) -> Result<(), JobError> {
        let Some(StopOrder { folder, saved, .. }) = self.stopping.order.clone() else { return Ok(()) };
        let request = self.new_request();
        self.stopping.request = Some(request);
        self.savepoints.insert(request, SavepointOrder { folder, answer: saved });
        self.tell_machine(now, CoordinatorEvent::CheckpointRequested { request, kind })
    }

    /// All that the savepoint covers is committed: nobody needs the checkpoints that the job does not leave behind.
    fn stopped(&mut self, savepoint: CheckpointId) -> Result<(), JobError> {
        self.shared.set_stopped_with(savepoint);
        let deletions = self.retention.stopped()?;
        deletions.iter().for_each(|id| self.writer.send(WriterMail::Delete(*id)));
        self.stopping.deleting = Some(deletions);
        self.end_if_stopped();
        Ok(())
    }

    /// A checkpoint is gone, or could not be deleted.
    pub(super) fn stop_deleted(&mut self, id: CheckpointId) {
        if let Some(deleting) = &mut self.stopping.deleting {
            deleting.remove(&id);
            self.end_if_stopped();
        }
    }

    fn end_if_stopped(&mut self) {
        if self.stopping.deleting.as_ref().is_some_and(BTreeSet::is_empty)
            && let (Some(order), Some(savepoint)) = (self.stopping.order.take(), self.stopping.savepoint)
        {
            order.stopped.give(Ok(savepoint));
            self.shared.end();
        }
    }
}

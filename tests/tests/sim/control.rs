//! The coordinator, and the store of complete checkpoints: what they order and what they are told.

use std::collections::{BTreeMap, BTreeSet};

use slackwater_core::coordinator::{
    Attempt, Coordinator, CoordinatorAction, CoordinatorEvent, Notification, Participant, RequestToken,
    TaskReport, TaskSet, TaskState, TriggerError,
};
use slackwater_core::ids::{Barrier, CheckpointId, TaskIndex};
use slackwater_core::reason::FailureReason;
use slackwater_core::retained::{CheckpointKind, Retained, RetainedAction, RetainedEvent, RetentionPolicy};

use crate::event::Event;
use crate::job::{Graph, Job};
use crate::plan::Plan;
use crate::storage::{FileName, Manifest};
use crate::task::{Flow, Mail, Verdict};
use crate::world::{Phase, World};

type Machine = Coordinator<1, 4, 4, Graph>;
type Action = CoordinatorAction<1>;
type Store = Retained<16, 4>;

pub(crate) const KIND: CheckpointKind = CheckpointKind::Checkpoint(RetentionPolicy::RetainOnCancellation);

/// The process that coordinates a job.
pub(crate) struct Control {
    pub(crate) machine: Machine,
    pub(crate) store: Store,
    /// Of the tasks; the machine tells them apart.
    pub(crate) attempt: u16,
    /// What was acknowledged, by checkpoint, task and attempt.
    acknowledged: BTreeMap<(CheckpointId, u16, u16), Vec<FileName>>,
    parts: BTreeMap<CheckpointId, BTreeMap<u16, Vec<FileName>>>,
    /// Not answered yet.
    pub(crate) requests: BTreeSet<RequestToken>,
    /// The newest checkpoint that the store has let go of while it was told of another one.
    subsumed: Option<CheckpointId>,
}

impl Control {
    pub(crate) fn new(plan: &Plan, job: &Job, next_id: CheckpointId) -> Result<Self, String> {
        let machine = Machine::new(plan.coordinator_options(), job.graph(), next_id);
        Ok(Self {
            machine: machine.map_err(|error| error.to_string())?,
            store: Store::new(plan.num_retained).map_err(|error| error.to_string())?,
            attempt: 0,
            acknowledged: BTreeMap::new(),
            parts: BTreeMap::new(),
            requests: BTreeSet::new(),
            subsumed: None,
        })
    }

    pub(crate) const fn by(&self, task: u16, attempt: u16) -> Attempt {
        Attempt { task: TaskIndex(task), number: attempt }
    }
}

impl World {
    pub(crate) fn drive_coordinator(&mut self) -> Verdict {
        let now = self.now();
        if self.control.machine.next_deadline(now).is_some_and(|at| at <= now.monotonic) {
            self.tell_coordinator(CoordinatorEvent::DeadlineReached)?;
        }
        if self.control.store.next_deadline(now).is_some_and(|at| at <= now.monotonic) {
            self.tell_store(RetainedEvent::DeadlineReached)?;
        }
        Ok(())
    }

    pub(crate) fn tell_coordinator(&mut self, event: CoordinatorEvent) -> Verdict {
        let mut actions = heapless::Vec::<_, { Machine::ACTIONS_MAX }>::new();
        let told = self.control.machine.on_event(self.now(), event, &mut actions);
        told.map_err(|rejected| format!("coordinator: {event:?}: {rejected}"))?;
        self.control.machine.check();
        actions.into_iter().try_for_each(|action| self.act(action))
    }

    fn act(&mut self, action: Action) -> Verdict {
        self.trace(&action);
        match action {
            Action::PrepareLocation { id, kind, .. } => {
                self.prepare_location(id, kind.is_savepoint());
            }
            Action::SnapshotOperatorCoordinators { id, coordinators } => {
                for coordinator in coordinators.iter() {
                    let event = CoordinatorEvent::OperatorCoordinatorAcknowledged { id, coordinator };
                    self.report(event);
                }
            }
            Action::TriggerHooks { id, hooks, .. } => {
                hooks.iter().for_each(|hook| self.report(CoordinatorEvent::HookAcknowledged { id, hook }));
            }
            Action::TriggerTasks { barrier, tasks } => self.trigger(barrier, &tasks),
            Action::KeepPart { id, by } => {
                let files = self.control.acknowledged.remove(&(id, by.task.0, by.number));
                let parts = self.control.parts.entry(id).or_default();
                parts.insert(by.task.0, files.unwrap_or_default());
            }
            Action::PersistManifest { id, .. } => self.persist_manifest(id)?,
            Action::AddToStore(id) => {
                self.control.subsumed = None;
                self.tell_store(RetainedEvent::CheckpointCompleted { id, kind: KIND })?;
                let subsumed = self.control.subsumed;
                self.coverage.note("complete checkpoints");
                self.tell_coordinator(CoordinatorEvent::Stored { id, subsumed })?;
            }
            Action::Notify { tasks, notification } => self.notify(&tasks, notification),
            Action::DiscardAcknowledged(id) => {
                let delay = self.delay();
                self.after(delay, Event::Cleaned(id));
            }
            Action::DiscardLate { id, by: Participant::Task(by), .. } => {
                self.coverage.note("late acknowledgements");
                let files = self.control.acknowledged.remove(&(id, by.task.0, by.number));
                files.into_iter().flatten().for_each(|name| self.storage.remove(name));
            }
            Action::FailJob { .. } => {
                self.coverage.note("failed jobs");
                let run = self.run;
                self.after(0, Event::FailOver { run });
            }
            Action::RequestFailed { request, reason, .. } => {
                self.note_failure(reason);
                self.answer(request)?;
            }
            Action::RequestCompleted { request, .. } => self.answer(Some(request))?,
            Action::RequestRefused { request, .. } => self.answer(request)?,
            Action::RegisterShared { .. }
            | Action::DiscardLate { .. }
            | Action::RestoreHooks(_)
            | Action::CloseHooks => {}
        }
        Ok(())
    }

    fn answer(&mut self, request: Option<RequestToken>) -> Verdict {
        match request {
            Some(request) if !self.control.requests.remove(&request) => {
                Err(format!("{request:?} is answered twice"))
            }
            Some(_) | None => Ok(()),
        }
    }

    fn note_failure(&mut self, reason: FailureReason) {
        if reason == FailureReason::CheckpointExpired {
            self.coverage.note("expired checkpoints");
        }
        if reason == FailureReason::CheckpointSubsumed {
            self.coverage.note("subsumed checkpoints");
        }
        self.coverage.note("failed checkpoints");
    }

    fn report(&mut self, event: CoordinatorEvent) {
        let delay = self.delay();
        self.after(delay, Event::Coordinator(event));
    }

    fn prepare_location(&mut self, id: CheckpointId, is_savepoint: bool) {
        if self.rng.chance(self.plan.chances.failed_folder) {
            self.fail_operation();
        }
        if !self.storage.make_folder(id, is_savepoint) {
            self.coverage.note("failed folders");
            return self.report(CoordinatorEvent::LocationFailed { id, error: TriggerError::Io });
        }
        self.report(CoordinatorEvent::LocationPrepared(id));
    }

    fn trigger(&mut self, barrier: Barrier, tasks: &TaskSet<1>) {
        let run = self.run;
        for task in tasks.iter() {
            if self.rng.chance(self.plan.chances.lost_trigger) {
                self.coverage.note("lost triggers");
            } else {
                let delay = self.delay();
                self.after(delay, Event::Mail { run, task, mail: Mail::Trigger(barrier) });
            }
        }
    }

    fn notify(&mut self, tasks: &TaskSet<1>, notification: Notification) {
        let run = self.run;
        for task in tasks.iter() {
            if self.rng.chance(self.plan.chances.lost_notification) {
                self.coverage.note("lost notifications");
            } else {
                let delay = self.delay();
                self.after(delay, Event::Mail { run, task, mail: Mail::Notify(notification) });
            }
        }
    }

    pub(crate) fn on_acknowledged(
        &mut self,
        id: CheckpointId,
        (task, attempt): (u16, u16),
        report: TaskReport,
        files: Vec<FileName>,
    ) -> Verdict {
        let by = self.control.by(task, attempt);
        self.control.acknowledged.insert((id, task, attempt), files);
        self.tell_coordinator(CoordinatorEvent::Acknowledged { id, by, report })
    }

    pub(crate) fn on_task_changed(&mut self, run: u32, task: u16, state: TaskState) -> Verdict {
        if run != self.run || self.phase != Phase::Running {
            return Ok(());
        }
        let attempt = self.control.by(task, self.control.attempt);
        self.tell_coordinator(CoordinatorEvent::TaskChanged { attempt, state })?;
        let is_over = |task: &crate::task::Task| task.flow == Flow::Finished;
        if state == TaskState::Finished && self.tasks.iter().all(is_over) {
            self.phase = Phase::Over;
        }
        Ok(())
    }

    fn persist_manifest(&mut self, id: CheckpointId) -> Verdict {
        let parts = self.control.parts.remove(&id).unwrap_or_default();
        let manifest = Manifest { parallelism: self.job.parallelism.clone(), parts };
        if !self.storage.is_savepoint(id) {
            if !self.control.store.has_room() {
                let delay = self.delay();
                self.after(delay, Event::Manifest { id, is_good: false, may_exist: false });
                return Ok(());
            }
            self.tell_store(RetainedEvent::AllAcknowledged(id))?;
        }
        if self.rng.chance(self.plan.chances.failed_manifest) {
            self.fail_operation();
        }
        self.storage.write_manifest(id, manifest);
        Ok(())
    }

    pub(crate) fn on_manifest(&mut self, id: CheckpointId, is_good: bool, may_exist: bool) -> Verdict {
        if self.storage.is_savepoint(id) {
            self.coverage.note(if is_good { "savepoints" } else { "failed savepoints" });
        } else if !is_good {
            self.coverage.note("failed manifests");
            if may_exist {
                self.coverage.note("failed manifests that may lie there");
            }
            self.tell_store(RetainedEvent::ManifestFailed { id, may_exist })?;
        }
        self.tell_coordinator(if is_good {
            CoordinatorEvent::ManifestPersisted(id)
        } else {
            CoordinatorEvent::ManifestFailed(id)
        })
    }

    /// What was written for a checkpoint that was given up is gone.
    pub(crate) fn on_cleaned(&mut self, id: CheckpointId) -> Verdict {
        let may_exist = !self.storage.remove_checkpoint(id);
        self.tell_store(RetainedEvent::ManifestFailed { id, may_exist })?;
        self.tell_coordinator(CoordinatorEvent::CleaningEnded)
    }

    pub(crate) fn tell_store(&mut self, event: RetainedEvent) -> Verdict {
        let mut actions = heapless::Vec::<_, { Store::ACTIONS_MAX }>::new();
        let told = self.control.store.on_event(self.now(), event, &mut actions);
        told.map_err(|rejected| format!("store: {event:?}: {rejected}"))?;
        self.control.store.check();
        for action in actions {
            match action {
                RetainedAction::NotifySubsumed(id) => self.control.subsumed = Some(id),
                RetainedAction::DiscardCheckpoint(id) => {
                    self.coverage.note("discarded checkpoints");
                    let delay = self.delay();
                    self.after(delay, Event::Discarded(id));
                }
                RetainedAction::DiscardRemains { below } => self.storage.remove_incomplete_below(below),
                RetainedAction::UseFile { .. } | RetainedAction::DeleteFile(_) => {}
            }
        }
        Ok(())
    }

    pub(crate) fn on_discarded(&mut self, id: CheckpointId) -> Verdict {
        let manifest_gone = self.storage.remove_checkpoint(id);
        self.tell_store(RetainedEvent::DiscardEnded { id, manifest_gone })
    }
}

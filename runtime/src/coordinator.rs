//! The coordinator as an actor: starts checkpoints, collects their parts, completes them, ends the job.

use std::collections::{BTreeMap, BTreeSet};
use std::task::Waker;

use heapless::Vec as FixedVec;
use slackwater_core::coordinator::statistics::SubtaskFigures;
use slackwater_core::coordinator::{
    Attempt, Coordinator, CoordinatorAction, CoordinatorEvent, CoordinatorOptions, Notification, RequestKind,
    RequestToken, Sources, TaskSet, TaskState, TriggerError,
};
use slackwater_core::durable::DiskError;
use slackwater_core::ids::{Barrier, CheckpointId, SavepointFormat, TaskIndex};
use slackwater_core::reason::FailureReason;
use slackwater_core::time::{Millis, Now};

use crate::actor::{Actor, Mailbox, Parked, ParkedOn, Signal, Step};
use crate::checkpoint::{Manifest, SubtaskPart, VertexPart};
use crate::error::JobError;
use crate::mail::{CoordinatorMail, TaskMail, WriterMail};
use crate::participants::Participants;
use crate::retention::{Leaving, Retention};
use crate::savepoint::{SavepointError, SavepointOrder};
use crate::shared::Shared;

mod participation;
mod statistics;
mod stopping;
#[cfg(test)]
mod tests;

use stopping::Stopping;

/// Words of a set of tasks: 2048 of them.
const TASK_WORDS: usize = 64;
/// Checkpoints that may be under way at the same time.
pub(crate) const PENDING: usize = 8;
/// Messages that one step takes.
const MAIL_PER_STEP: usize = 256;
/// The one request that the runtime itself makes: the last checkpoint.
const LAST: RequestToken = RequestToken(0);
/// How long after its failure the last checkpoint is asked for again.
const ASK_AGAIN: Millis = Millis(100);

type Machine = Coordinator<TASK_WORDS, PENDING>;
type Action = CoordinatorAction<TASK_WORDS>;

/// What the coordinator is made of.
pub(crate) struct CoordinatorParts {
    pub(crate) options: CoordinatorOptions,
    pub(crate) next_id: CheckpointId,
    pub(crate) tasks: Vec<Mailbox<TaskMail>>,
    /// Those without inputs.
    pub(crate) sources: Vec<TaskIndex>,
    pub(crate) writer: Mailbox<WriterMail>,
    pub(crate) signal: Signal,
    pub(crate) mail: Mailbox<CoordinatorMail>,
    pub(crate) shared: Shared,
    /// What every manifest of this run says; the rest is filled in.
    pub(crate) template: Manifest,
    pub(crate) retention: Retention,
    /// The checkpoint with the highest number that has a folder.
    pub(crate) newest_folder: Option<CheckpointId>,
    /// Subtasks whose restored state has yet to come and be verified.
    pub(crate) loading: BTreeSet<TaskIndex>,
    /// Coordinators of operators, and hooks.
    pub(crate) participants: Participants,
}

/// The coordinator of a job.
pub(crate) struct CoordinatorActor {
    machine: Box<Machine>,
    is_started: bool,
    /// Subtasks whose restored state has yet to come and be verified; none once the sinks have recovered, too. No
    /// checkpoint begins before.
    loading: Option<BTreeSet<TaskIndex>>,
    tasks: Vec<Mailbox<TaskMail>>,
    writer: Mailbox<WriterMail>,
    signal: Signal,
    mail: Mailbox<CoordinatorMail>,
    shared: Shared,
    template: Manifest,
    retention: Retention,
    pending: BTreeMap<CheckpointId, Pending>,
    /// Savepoints that somebody waits for.
    savepoints: BTreeMap<RequestToken, SavepointOrder>,
    last_request: RequestToken,
    drained: BTreeSet<TaskIndex>,
    end: End,
    stopping: Stopping,
    participants: Participants,
    /// Whether checkpoints are taken from time to time.
    is_periodic: bool,
    /// What was asked for before the job was started.
    early: Vec<CoordinatorMail>,
    /// The newest error of the disk, for the one line that the user sees.
    cause: Option<DiskError>,
    last_failed: Option<CheckpointId>,
    /// A checkpoint has failed since the last one that completed.
    is_failing: bool,
    /// What was reported of the part that the machine is told of.
    reported: Option<SubtaskFigures>,
    /// A checkpoint of this attempt has its folder.
    has_folder: bool,
    /// When to ask again for the last checkpoint.
    ask_again_at: Option<Millis>,
}

/// A checkpoint under way.
#[derive(Debug)]
struct Pending {
    barrier: Option<Barrier>,
    parts: BTreeMap<TaskIndex, SubtaskPart>,
    manifest: Option<Manifest>,
}

/// How near the job is to its end.
#[derive(Debug)]
enum End {
    /// Records flow.
    Far,
    /// All tasks are drained; the last checkpoint has been asked for.
    Requested,
    /// The last checkpoint is complete; these tasks have yet to commit it.
    Committing { id: CheckpointId, left: BTreeSet<TaskIndex> },
}

impl CoordinatorActor {
    pub(crate) fn new(parts: CoordinatorParts) -> Result<Self, JobError> {
        let count = parts.tasks.len();
        if count > TaskSet::<TASK_WORDS>::CAPACITY {
            let limit = TaskSet::<TASK_WORDS>::CAPACITY;
            return Err(JobError::CapacityExceeded { what: "subtasks", wanted: count, limit });
        }
        let sources = parts.sources.iter().map(|source| source.0).collect();
        let graph = Sources { tasks: TaskSet::first(count), sources };
        // Tasks end with the job, so nobody has to know who reads from whom.
        let options = CoordinatorOptions { checkpoints_after_tasks_finish: false, ..parts.options };
        let machine = Machine::new(options, graph, parts.next_id);
        let machine = machine.map_err(|error| JobError::InvalidJob { what: error.to_string() })?;
        let mut coordinator = Self {
            machine: Box::new(machine),
            is_started: false,
            loading: Some(parts.loading).filter(|loading| !loading.is_empty()),
            tasks: parts.tasks,
            writer: parts.writer,
            signal: parts.signal,
            mail: parts.mail,
            shared: parts.shared,
            template: parts.template,
            retention: parts.retention,
            pending: BTreeMap::new(),
            savepoints: BTreeMap::new(),
            last_request: LAST,
            drained: BTreeSet::new(),
            end: End::Far,
            stopping: Stopping::new(count),
            participants: parts.participants,
            is_periodic: options.interval.is_some(),
            early: Vec::new(),
            cause: None,
            last_failed: None,
            is_failing: false,
            reported: None,
            has_folder: false,
            ask_again_at: None,
        };
        // What earlier attempts left; the numbers go on from the newest folder, so that one waits for another.
        coordinator.delete_remains(parts.newest_folder);
        Ok(coordinator)
    }

    fn delete_remains(&mut self, but: Option<CheckpointId>) {
        let remains = self.retention.take_remains(but);
        remains.into_iter().for_each(|id| self.writer.send(WriterMail::Delete(id)));
    }

    fn advance(&mut self, now: Now) -> Result<Step, JobError> {
        let mut did_something = false;
        if !self.is_started && self.loading.is_none() {
            did_something = true;
            self.start(now)?;
        }
        for _ in 0..MAIL_PER_STEP {
            let Some(mail) = self.mail.receive() else { break };
            did_something = true;
            self.on_mail(now, mail)?;
        }
        if self.machine.next_deadline(now).is_some_and(|deadline| deadline <= now.monotonic) {
            did_something = true;
            self.tell_machine(now, CoordinatorEvent::DeadlineReached)?;
        }
        if self.ask_again_at.take_if(|at| *at <= now.monotonic).is_some() {
            did_something = true;
            self.request_last(now)?;
        }
        if self.shared.is_over() {
            return Ok(Step::Finished);
        }
        if did_something {
            return Ok(Step::Progress);
        }
        let deadline = self.machine.next_deadline(now).into_iter().chain(self.ask_again_at).min();
        Ok(Step::Parked(Parked { deadline, on: ParkedOn::Mail }))
    }

    fn start(&mut self, now: Now) -> Result<(), JobError> {
        self.is_started = true;
        for task in (0u16..).map(TaskIndex).take(self.tasks.len()) {
            let (attempt, state) = (Attempt::first(task), TaskState::Running);
            self.tell_machine(now, CoordinatorEvent::TaskChanged { attempt, state })?;
        }
        self.tell_machine(now, CoordinatorEvent::JobStarted)?;
        std::mem::take(&mut self.early).into_iter().try_for_each(|mail| self.on_mail(now, mail))?;
        self.request_last(now)
    }

    fn on_mail(&mut self, now: Now, mail: CoordinatorMail) -> Result<(), JobError> {
        match mail {
            CoordinatorMail::Savepoint(_) | CoordinatorMail::Stop(_) if !self.is_started => {
                self.early.push(mail);
                Ok(())
            }
            CoordinatorMail::Savepoint(order) => self.request_savepoint(now, order),
            CoordinatorMail::Stop(order) => self.on_stop_requested(now, order),
            CoordinatorMail::Acknowledge { id, task, part, metrics } => {
                self.on_acknowledged(now, id, task, *part, &metrics)
            }
            CoordinatorMail::Incomplete { id, task, metrics } => {
                let figures = statistics::figures(now, task, &metrics);
                self.shared.statistics().reported(id, SubtaskFigures { is_complete: false, ..figures });
                Ok(())
            }
            CoordinatorMail::Decline { id, task, reason, cause } => {
                self.cause = cause.or(self.cause);
                self.tell_machine(now, CoordinatorEvent::Declined { id, by: Attempt::first(task), reason })
            }
            CoordinatorMail::ParticipantAnswered { id, by, answer } => {
                self.on_participant(now, id, by, answer)
            }
            CoordinatorMail::Drained(task) => {
                self.drained.insert(task);
                self.request_last(now)
            }
            CoordinatorMail::Restored(task) => {
                self.on_restored(task);
                Ok(())
            }
            CoordinatorMail::SinksRecovered => {
                self.loading = None;
                Ok(())
            }
            CoordinatorMail::Committed { id, task } => {
                self.shared.statistics().committed(now, id, task);
                self.on_committed(id, task);
                self.stop_committed(now, id, task)
            }
            CoordinatorMail::LocationPrepared(id, Ok(())) => {
                if !std::mem::replace(&mut self.has_folder, true) {
                    self.delete_remains(Some(id));
                }
                self.tell_machine(now, CoordinatorEvent::LocationPrepared(id))
            }
            CoordinatorMail::LocationPrepared(id, Err(cause)) => {
                self.cause = Some(cause);
                let error = TriggerError::Io;
                self.tell_machine(now, CoordinatorEvent::LocationFailed { id, error })
            }
            CoordinatorMail::ManifestPersisted(id, Ok(())) => {
                self.tell_machine(now, CoordinatorEvent::ManifestPersisted(id))
            }
            CoordinatorMail::ManifestPersisted(id, Err(cause)) => {
                self.cause = Some(cause);
                self.tell_machine(now, CoordinatorEvent::ManifestFailed(id))
            }
            CoordinatorMail::Deleted(id, result) => {
                if let Err(error) = result {
                    self.shared.note(format!("checkpoint {id} could not be deleted: {error}"));
                }
                self.stop_deleted(id);
                self.shared.statistics().discarded(id);
                self.retention.deleted(id, result.is_ok())
            }
        }
    }

    /// The sinks recover when all that was restored is verified.
    fn on_restored(&mut self, task: TaskIndex) {
        if let Some(loading) = &mut self.loading
            && loading.remove(&task)
            && loading.is_empty()
        {
            self.writer.send(WriterMail::RecoverSinks);
        }
    }

    /// Asks for the last checkpoint once every task is drained.
    fn request_last(&mut self, now: Now) -> Result<(), JobError> {
        let is_due =
            self.is_started && self.drained.len() == self.tasks.len() && !self.stopping.is_under_way();
        if !matches!(self.end, End::Far) || !is_due {
            return Ok(());
        }
        self.end = End::Requested;
        let (request, kind) = (LAST, RequestKind::Configured);
        self.tell_machine(now, CoordinatorEvent::CheckpointRequested { request, kind })
    }

    /// The checkpoint is complete with its manifest; what is kept is known here, so storing it cannot fail.
    fn store(&mut self, now: Now, id: CheckpointId) -> Result<(), JobError> {
        let mut leaving = Leaving::default();
        if let Some(manifest) = self.pending.remove(&id).and_then(|pending| pending.manifest) {
            // Commits of the first one that is finished cover all others, and no task reports them again.
            if manifest.is_finished && !matches!(self.end, End::Committing { .. }) {
                let left = (0u16..).zip(&self.tasks).map(|(task, _)| TaskIndex(task)).collect();
                self.end = End::Committing { id, left };
                self.delete_remains(None);
            }
            leaving = self.retention.completed(id)?;
        }
        self.completed(now, id)?;
        self.shared.checkpoint_completed(id);
        self.participants.completed();
        (self.is_failing, self.cause) = (false, None);
        self.tell_machine(now, CoordinatorEvent::Stored { id, subsumed: leaving.subsumed })?;
        leaving.deletions.into_iter().for_each(|id| self.writer.send(WriterMail::Delete(id)));
        Ok(())
    }

    /// The job is over when every task has committed the last checkpoint.
    fn on_committed(&mut self, id: CheckpointId, task: TaskIndex) {
        if let End::Committing { id: last, left } = &mut self.end
            && id >= *last
        {
            left.remove(&task);
            if left.is_empty() {
                self.shared.end();
            }
        }
    }

    fn tell_machine(&mut self, now: Now, event: CoordinatorEvent) -> Result<(), JobError> {
        let mut actions = FixedVec::<Action, { Machine::ACTIONS_MAX }>::new();
        let told = self.machine.on_event(now, event, &mut actions);
        told.map_err(|rejected| JobError::machine("coordinator", rejected))?;
        actions.into_iter().try_for_each(|action| self.act(now, action))
    }

    fn act(&mut self, now: Now, action: Action) -> Result<(), JobError> {
        match action {
            // Nothing is left that another checkpoint could cover; its folder would stay incomplete.
            CoordinatorAction::PrepareLocation { .. } if matches!(self.end, End::Committing { .. }) => {}
            CoordinatorAction::PrepareLocation { id, kind, request, .. } => {
                self.triggered(now, id, kind)?;
                self.pending.insert(id, Pending { barrier: None, parts: BTreeMap::new(), manifest: None });
                let order = request.and_then(|request| self.savepoints.get(&request));
                let savepoint = order.map(|order| order.folder.clone());
                self.writer.send(WriterMail::PrepareLocation { id, savepoint });
            }
            CoordinatorAction::TriggerTasks { barrier, tasks } => {
                if let Some(pending) = self.pending.get_mut(&barrier.id) {
                    pending.barrier = Some(barrier);
                }
                self.tell_tasks(|| TaskMail::Trigger(barrier), &tasks);
            }
            CoordinatorAction::SnapshotOperatorCoordinators { id, coordinators } => {
                self.participants.ask_coordinators(id, &coordinators);
            }
            CoordinatorAction::TriggerHooks { id, triggered_at, hooks } => {
                self.participants.trigger_hooks((id, triggered_at), &hooks, &self.mail)?;
            }
            CoordinatorAction::PersistManifest { id, .. } => self.persist_manifest(id)?,
            CoordinatorAction::AddToStore(id) => self.store(now, id)?,
            CoordinatorAction::Notify { tasks, notification } => {
                if let Notification::Abort { id, .. } = notification {
                    self.pending.remove(&id);
                    self.retention.aborted(id);
                    self.last_failed = Some(id);
                    self.shared.checkpoint_failed();
                }
                self.participants.notify(notification);
                self.tell_tasks(|| TaskMail::Notify(notification), &tasks);
            }
            // What they wrote lies in the checkpoint's folder, which no manifest commits: see `retention`.
            CoordinatorAction::DiscardAcknowledged(id) => {
                self.pending.remove(&id);
                self.participants.forget(id);
                self.tell_machine(now, CoordinatorEvent::CleaningEnded)?;
            }
            CoordinatorAction::RequestFailed { request, id, reason } => {
                self.last_failed = id.or(self.last_failed);
                self.note_failure(reason);
                self.failed(now, id, reason)?;
                self.on_request_failed(now, request, reason)?;
            }
            CoordinatorAction::RequestRefused { request, reason } => {
                self.on_request_failed(now, request, reason)?;
            }
            CoordinatorAction::RequestCompleted { request, id } => {
                self.on_request_completed(now, request, id)?;
            }
            CoordinatorAction::KeepPart { id, .. } => self.keep_figures(id),
            CoordinatorAction::FailJob { reason, .. } => {
                return Err(JobError::Checkpoint { checkpoint: self.last_failed, reason, cause: self.cause });
            }
            // Files are not shared; hooks are restored before the coordinator is made, and closed when it ends.
            CoordinatorAction::RegisterShared { .. }
            | CoordinatorAction::DiscardLate { .. }
            | CoordinatorAction::RestoreHooks(_)
            | CoordinatorAction::CloseHooks => {}
        }
        Ok(())
    }

    /// One sentence for any number of failures in a row, should the job outlive them.
    fn note_failure(&mut self, reason: FailureReason) {
        if reason.counts() && !std::mem::replace(&mut self.is_failing, true) {
            let error = JobError::Checkpoint { checkpoint: self.last_failed, reason, cause: self.cause };
            self.shared.note(format!("{error}; the job went on"));
        }
    }

    /// A name that no other request under way has.
    fn new_request(&mut self) -> RequestToken {
        self.last_request = RequestToken(self.last_request.0.wrapping_add(1).max(1));
        self.last_request
    }

    fn request_savepoint(&mut self, now: Now, order: SavepointOrder) -> Result<(), JobError> {
        let (request, kind) = (self.new_request(), RequestKind::Savepoint(SavepointFormat::Native));
        self.savepoints.insert(request, order);
        self.tell_machine(now, CoordinatorEvent::CheckpointRequested { request, kind })
    }

    /// A savepoint is complete with its manifest: it is no part of what is retained.
    fn on_request_completed(
        &mut self,
        now: Now,
        request: RequestToken,
        id: CheckpointId,
    ) -> Result<(), JobError> {
        let Some(order) = self.savepoints.remove(&request) else { return Ok(()) };
        self.pending.remove(&id);
        self.completed(now, id)?;
        order.answer.give(Ok(id));
        self.stop_saved(now, request, id)
    }

    fn on_request_failed(
        &mut self,
        now: Now,
        request: Option<RequestToken>,
        reason: FailureReason,
    ) -> Result<(), JobError> {
        let Some(request) = request else { return Ok(()) };
        if let Some(order) = self.savepoints.remove(&request) {
            order.answer.give(Err(SavepointError::Failed { reason, cause: self.cause }));
        }
        if request == LAST && matches!(self.end, End::Requested) {
            self.end = End::Far;
            self.ask_again_at = Some(now.monotonic.after(ASK_AGAIN));
        }
        self.stop_failed(now, request, reason)
    }

    fn tell_tasks(&self, mail: impl Fn() -> TaskMail, tasks: &TaskSet<TASK_WORDS>) {
        for index in tasks.iter() {
            if let Some(task) = self.tasks.get(usize::from(index)) {
                task.send(mail());
            }
        }
    }

    fn persist_manifest(&mut self, id: CheckpointId) -> Result<(), JobError> {
        let Some(pending) = self.pending.get_mut(&id) else { return Ok(()) };
        let mut manifest = self.template.clone();
        manifest.id = id;
        manifest.triggered_at = pending.barrier.map_or(manifest.triggered_at, |barrier| barrier.triggered_at);
        let mut parts = std::mem::take(&mut pending.parts).into_values();
        for subtask in manifest.vertices.iter_mut().flat_map(|vertex: &mut VertexPart| &mut vertex.subtasks) {
            *subtask = parts.next().unwrap_or_default();
        }
        let mut subtasks = manifest.vertices.iter().flat_map(|vertex| &vertex.subtasks);
        manifest.is_finished = subtasks.all(|subtask| subtask.is_drained);
        manifest.participants = self.participants.take(id);
        let bytes = manifest.encode().map_err(|error| JobError::InvalidJob { what: error.to_string() })?;
        pending.manifest = Some(manifest);
        self.writer.send(WriterMail::PersistManifest { id, bytes });
        Ok(())
    }
}

impl Actor for CoordinatorActor {
    fn step(&mut self, now: Now) -> Step {
        let step = if self.shared.is_over() { Ok(Step::Finished) } else { self.advance(now) };
        let step = step.unwrap_or_else(|error| {
            self.shared.fail(error);
            Step::Finished
        });
        if step == Step::Finished {
            self.participants.close().into_iter().for_each(|note| self.shared.note(note));
        }
        step
    }

    fn set_waker(&mut self, waker: Waker) {
        self.signal.set(waker);
    }

    fn name(&self) -> &str {
        "coordinator"
    }
}

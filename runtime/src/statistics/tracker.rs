//! Follows the checkpoints of a running job.

use std::collections::{BTreeMap, BTreeSet};

use slackwater_core::coordinator::statistics::Statistics;
use slackwater_core::ids::{CheckpointId, SnapshotKind, TaskIndex};
use slackwater_core::machine::Rejected;
use slackwater_core::reason::FailureReason;
use slackwater_core::time::{Millis, Now};

use super::samples::Samples;
use super::{
    CheckpointFigures, CheckpointRecord, CheckpointStatistics, HISTORY, RestoreFigures, SubtaskFigures,
    SubtaskRecord, Summary,
};
use crate::shared::Progress;
use crate::telemetry::Telemetry;

/// Checkpoints that may be under way at the same time.
const PENDING: usize = 8;

/// The figures of a job.
#[derive(Debug, Default)]
pub(crate) struct Tracker {
    telemetry: Telemetry,
    /// The vertex and index of each task.
    tasks: Vec<(String, u16)>,
    machine: Statistics<PENDING, HISTORY>,
    /// What the machine lets pass through, for all checkpoints that it remembers.
    pub(super) details: BTreeMap<CheckpointId, Details>,
    duration: Samples,
    state_size: Samples,
    checkpointed_size: Samples,
    processed: Samples,
    persisted: Samples,
}

#[derive(Debug, Default)]
pub(super) struct Details {
    subtasks: BTreeMap<TaskIndex, SubtaskFigures>,
    /// When it was complete, and whose sinks have yet to commit it.
    committing: Option<(Millis, BTreeSet<TaskIndex>)>,
    commit: Option<Millis>,
}

impl Tracker {
    /// Of a job with these tasks, each named by its vertex and its index there.
    pub(crate) fn new(job: &str, tasks: Vec<(String, u16)>) -> Self {
        Self { telemetry: Telemetry::new(job), tasks, ..Self::default() }
    }

    pub(crate) fn restored(&mut self, from: RestoreFigures) {
        self.telemetry.restored(&from);
        self.machine.restored(from);
    }

    pub(crate) fn triggered(
        &mut self,
        now: Now,
        id: CheckpointId,
        kind: SnapshotKind,
    ) -> Result<(), Rejected> {
        let tasks = u32::try_from(self.tasks.len()).unwrap_or(u32::MAX);
        self.machine.triggered(id, kind, now.wall, tasks, 0)?;
        self.telemetry.triggered(id, kind);
        self.details.insert(id, Details::default());
        Ok(())
    }

    /// What a task has reported, whether or not it counts.
    pub(crate) fn reported(&mut self, id: CheckpointId, figures: SubtaskFigures) {
        if let Some((operator, index)) = self.tasks.get(usize::from(figures.task.0)) {
            self.telemetry.reported(id, operator, *index, &figures);
        }
        self.machine.reported(id, &figures);
        if let Some(details) = self.details.get_mut(&id) {
            details.subtasks.insert(figures.task, figures);
        }
    }

    /// A checkpoint is complete, and the job has come so far.
    pub(crate) fn completed(
        &mut self,
        now: Now,
        id: CheckpointId,
        progress: &Progress,
    ) -> Result<(), Rejected> {
        self.machine.completed(id)?;
        if let Some(figures) = self.machine.find(id) {
            self.telemetry.completed(figures, progress);
            self.duration.add(figures.duration().0);
            self.state_size.add(figures.state_size);
            self.checkpointed_size.add(figures.checkpointed_size);
            self.processed.add(figures.processed);
            self.persisted.add(figures.persisted);
        }
        let everybody = (0u16..).map(TaskIndex).take(self.tasks.len()).collect();
        if let Some(details) = self.details.get_mut(&id) {
            details.committing = Some((now.monotonic, everybody));
        }
        self.forget();
        Ok(())
    }

    /// A task's sinks have committed this checkpoint and all before it.
    pub(crate) fn committed(&mut self, now: Now, id: CheckpointId, task: TaskIndex) {
        for (id, details) in self.details.range_mut(..=id) {
            if let Some((since, left)) = &mut details.committing
                && left.remove(&task)
                && left.is_empty()
            {
                let took = now.monotonic.since(*since);
                self.telemetry.committed(*id, took);
                (details.commit, details.committing) = (Some(took), None);
            }
        }
    }

    /// A checkpoint failed, or a request for one before it had a number.
    pub(crate) fn failed(
        &mut self,
        now: Now,
        id: Option<CheckpointId>,
        reason: FailureReason,
    ) -> Result<(), Rejected> {
        match id.filter(|id| self.machine.in_progress().any(|pending| pending.id == *id)) {
            Some(id) => self.machine.failed(id, now.wall, reason)?,
            None => self.machine.failed_without_checkpoint(),
        }
        self.telemetry.failed(id, reason);
        self.forget();
        Ok(())
    }

    pub(crate) fn discarded(&mut self, id: CheckpointId) {
        self.machine.discarded(id);
    }

    pub(crate) fn statistics(&self) -> CheckpointStatistics {
        let record = |figures: &CheckpointFigures| self.record(figures);
        let latest = self.machine.latest();
        CheckpointStatistics {
            counts: self.machine.counts(),
            in_progress: self.machine.in_progress().map(record).collect(),
            history: self.machine.history().map(record).collect(),
            latest_completed: latest.completed.as_ref().map(record),
            latest_savepoint: latest.savepoint.as_ref().map(record),
            latest_failed: latest.failed.as_ref().map(record),
            latest_restored: latest.restored,
            summary: Summary {
                duration: self.duration.distribution(),
                state_size: self.state_size.distribution(),
                checkpointed_size: self.checkpointed_size.distribution(),
                processed: self.processed.distribution(),
                persisted: self.persisted.distribution(),
            },
        }
    }

    fn record(&self, figures: &CheckpointFigures) -> CheckpointRecord {
        let details = self.details.get(&figures.id);
        let subtasks = details.into_iter().flat_map(|details| &details.subtasks);
        let named = subtasks.filter_map(|(task, figures)| {
            let (operator, index) = self.tasks.get(usize::from(task.0))?;
            Some(SubtaskRecord { operator: operator.clone(), index: *index, figures: *figures })
        });
        let subtasks = named.collect();
        CheckpointRecord { figures: *figures, commit: details.and_then(|details| details.commit), subtasks }
    }

    /// Drops what the machine has forgotten.
    fn forget(&mut self) {
        let Self { machine, details, .. } = self;
        details.retain(|id, _| machine.find(*id).is_some());
    }
}

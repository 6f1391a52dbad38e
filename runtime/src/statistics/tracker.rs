//! Follows the checkpoints of a running job.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use slackwater_core::coordinator::statistics::Statistics;
use slackwater_core::ids::{CheckpointId, SnapshotKind, TaskIndex};
use slackwater_core::machine::Rejected;
use slackwater_core::reason::FailureReason;
use slackwater_core::time::{Millis, Now};

use super::samples::SummarySamples;
use super::{
    CheckpointFigures, CheckpointRecord, CheckpointStatistics, HISTORY, RestoreFigures, SubtaskFigures,
    SubtaskRecord,
};
use crate::shared::Progress;
use crate::telemetry::Telemetry;

/// Checkpoints that may be under way at the same time.
const PENDING: usize = 8;

/// The figures of a job.
#[derive(Debug, Default)]
pub(crate) struct Tracker {
    telemetry: Telemetry,
    tasks: Tasks,
    figures: Figures,
}

/// The vertex and index of each task.
type Tasks = Arc<[(String, u16)]>;

/// What goes on when a job starts again.
#[derive(Clone, Debug, Default)]
pub(crate) struct Figures {
    machine: Statistics<PENDING, HISTORY>,
    /// What the machine lets pass through, for all checkpoints that it remembers.
    pub(super) details: Vec<Details>,
    samples: SummarySamples,
}

/// An attempt may give a number again that an earlier one had given to a checkpoint that failed.
#[derive(Clone, Debug)]
pub(super) struct Details {
    id: CheckpointId,
    triggered_at: Millis,
    /// Those of its attempt.
    tasks: Tasks,
    subtasks: BTreeMap<TaskIndex, SubtaskFigures>,
    /// When it was complete, and whose sinks have yet to commit it.
    committing: Option<(Millis, BTreeSet<TaskIndex>)>,
    commit: Option<Millis>,
}

impl Tracker {
    /// Of a job with these tasks, each named by its vertex and its index there.
    pub(crate) fn new(job: &str, tasks: Vec<(String, u16)>) -> Self {
        Self { telemetry: Telemetry::new(job), tasks: tasks.into(), figures: Figures::default() }
    }

    pub(crate) fn restored(&mut self, from: RestoreFigures) {
        self.telemetry.restored(&from);
        self.figures.machine.restored(from);
    }

    /// The job has failed and starts again: what is under way fails with it, and what sinks have yet to commit they commit
    /// before the next attempt. Gives what that goes on from.
    pub(crate) fn interrupted(&mut self, now: Now) -> Result<Figures, Rejected> {
        let under_way: Vec<_> = self.figures.machine.in_progress().map(|figures| figures.id).collect();
        for id in under_way {
            self.failed(now, Some(id), FailureReason::JobFailoverRegion)?;
        }
        self.figures.details.iter_mut().for_each(|details| details.committing = None);
        Ok(self.figures.clone())
    }

    /// Goes on where the attempt before left off, from what this one was restored from.
    pub(crate) fn go_on_from(&mut self, earlier: Figures) {
        let restored = self.figures.machine.latest().restored;
        self.figures = earlier;
        restored.into_iter().for_each(|from| self.figures.machine.restored(from));
    }

    pub(crate) fn triggered(
        &mut self,
        now: Now,
        id: CheckpointId,
        kind: SnapshotKind,
    ) -> Result<(), Rejected> {
        let tasks = u32::try_from(self.tasks.len()).unwrap_or(u32::MAX);
        self.figures.machine.triggered(id, kind, now.wall, tasks, 0)?;
        self.telemetry.triggered(id, kind);
        self.figures.details.push(Details {
            id,
            triggered_at: now.wall,
            tasks: Arc::clone(&self.tasks),
            subtasks: BTreeMap::new(),
            committing: None,
            commit: None,
        });
        Ok(())
    }

    /// What a task has reported, whether or not it counts.
    pub(crate) fn reported(&mut self, id: CheckpointId, figures: SubtaskFigures) {
        if let Some((operator, index)) = self.tasks.get(usize::from(figures.task.0)) {
            self.telemetry.reported(id, operator, *index, &figures);
        }
        self.figures.machine.reported(id, &figures);
        if let Some(details) = self.figures.newest(id) {
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
        self.figures.machine.completed(id)?;
        if let Some(figures) = self.figures.machine.find(id) {
            self.telemetry.completed(figures, progress);
            self.figures.samples.add(figures);
        }
        let everybody = (0u16..).map(TaskIndex).take(self.tasks.len()).collect();
        if let Some(details) = self.figures.newest(id) {
            details.committing = Some((now.monotonic, everybody));
        }
        self.figures.forget();
        Ok(())
    }

    /// A task's sinks have committed this checkpoint and all before it.
    pub(crate) fn committed(&mut self, now: Now, id: CheckpointId, task: TaskIndex) {
        for details in self.figures.details.iter_mut().filter(|details| details.id <= id) {
            if let Some((since, left)) = &mut details.committing
                && left.remove(&task)
                && left.is_empty()
            {
                let took = now.monotonic.since(*since);
                self.telemetry.committed(details.id, took);
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
        let machine = &mut self.figures.machine;
        match id.filter(|id| machine.in_progress().any(|pending| pending.id == *id)) {
            Some(id) => machine.failed(id, now.wall, reason)?,
            None => machine.failed_without_checkpoint(),
        }
        self.telemetry.failed(id, reason);
        self.figures.forget();
        Ok(())
    }

    pub(crate) fn discarded(&mut self, id: CheckpointId) {
        self.figures.machine.discarded(id);
    }

    pub(crate) fn statistics(&self) -> CheckpointStatistics {
        self.figures.statistics()
    }

    #[cfg(test)]
    pub(super) const fn figures(&self) -> &Figures {
        &self.figures
    }
}

impl Figures {
    fn statistics(&self) -> CheckpointStatistics {
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
            summary: self.samples.summary(),
        }
    }

    fn record(&self, figures: &CheckpointFigures) -> CheckpointRecord {
        let details = self.details.iter().find(|details| details.are_of(figures));
        let subtasks = details.into_iter().flat_map(Details::named).collect();
        CheckpointRecord { figures: *figures, commit: details.and_then(|details| details.commit), subtasks }
    }

    /// The details of a checkpoint of the attempt that runs.
    fn newest(&mut self, id: CheckpointId) -> Option<&mut Details> {
        self.details.iter_mut().rfind(|details| details.id == id)
    }

    /// Drops what the machine has forgotten.
    fn forget(&mut self) {
        let Self { machine, details, .. } = self;
        let latest = machine.latest();
        let latest = [&latest.completed, &latest.savepoint, &latest.failed].into_iter().flatten();
        let known: Vec<_> = machine.in_progress().chain(machine.history()).chain(latest).collect();
        details.retain(|details| known.iter().any(|figures| details.are_of(figures)));
    }
}

impl Details {
    fn are_of(&self, figures: &CheckpointFigures) -> bool {
        (self.id, self.triggered_at) == (figures.id, figures.triggered_at)
    }

    fn named(&self) -> impl Iterator<Item = SubtaskRecord> {
        self.subtasks.iter().filter_map(|(task, figures)| {
            let (operator, index) = self.tasks.get(usize::from(task.0))?;
            Some(SubtaskRecord { operator: operator.clone(), index: *index, figures: *figures })
        })
    }
}

//! Keeps the figures of checkpoints up to date.

use slackwater_core::coordinator::CoordinatorEvent;
use slackwater_core::coordinator::statistics::SubtaskFigures;
use slackwater_core::ids::{CheckpointId, SnapshotKind, TaskIndex};
use slackwater_core::machine::Rejected;
use slackwater_core::reason::FailureReason;
use slackwater_core::subtask::SnapshotMetrics;
use slackwater_core::time::Now;

use super::{Attempt, CoordinatorActor};
use crate::checkpoint::SubtaskPart;
use crate::error::JobError;

impl CoordinatorActor {
    /// A subtask's part is durable. Whether it counts is the machine's to say (rules P7 and P11).
    pub(super) fn on_acknowledged(
        &mut self,
        now: Now,
        id: CheckpointId,
        task: TaskIndex,
        mut part: SubtaskPart,
        metrics: &SnapshotMetrics,
    ) -> Result<(), JobError> {
        let (by, report) = (Attempt::first(task), part.report());
        let figures = figures(now, task, metrics);
        part.figures = Some(figures);
        if let Some(pending) = self.pending.get_mut(&id) {
            pending.parts.insert(task, part);
        }
        self.reported = Some(figures);
        self.tell_machine(now, CoordinatorEvent::Acknowledged { id, by, report })?;
        if let Some(figures) = self.reported.take() {
            self.shared.statistics().reported(id, SubtaskFigures { is_complete: false, ..figures });
        }
        Ok(())
    }

    /// The part that was reported counts.
    pub(super) fn keep_figures(&mut self, id: CheckpointId) {
        if let Some(figures) = self.reported.take() {
            self.shared.statistics().reported(id, figures);
        }
    }

    pub(super) fn triggered(&self, now: Now, id: CheckpointId, kind: SnapshotKind) -> Result<(), JobError> {
        self.shared.statistics().triggered(now, id, kind).map_err(refused)
    }

    pub(super) fn completed(&self, now: Now, id: CheckpointId) -> Result<(), JobError> {
        let progress = self.shared.progress();
        self.shared.statistics().completed(now, id, &progress).map_err(refused)
    }

    pub(super) fn failed(
        &self,
        now: Now,
        id: Option<CheckpointId>,
        reason: FailureReason,
    ) -> Result<(), JobError> {
        self.shared.statistics().failed(now, id, reason).map_err(refused)
    }
}

fn refused(rejected: Rejected) -> JobError {
    JobError::machine("statistics", rejected)
}

/// What a task has measured of its part, acknowledged now (rule M6).
pub(super) const fn figures(now: Now, task: TaskIndex, metrics: &SnapshotMetrics) -> SubtaskFigures {
    SubtaskFigures {
        task,
        acknowledged_at: now.wall,
        checkpointed_size: metrics.checkpointed_bytes,
        state_size: metrics.state_bytes,
        synchronous: metrics.sync_duration,
        asynchronous: metrics.async_duration,
        processed: metrics.alignment.bytes_processed,
        persisted: metrics.alignment.bytes_persisted,
        alignment: metrics.alignment.duration,
        start_delay: metrics.alignment.start_delay,
        is_unaligned: metrics.alignment.is_unaligned(),
        is_complete: true,
    }
}

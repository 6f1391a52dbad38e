//! Figures of checkpoints (Flink: `CheckpointStatsTracker`, `CheckpointStatsHistory`).
//!
//! Beside counts and a summary there is one record for each pending checkpoint, for the newest `HISTORY` ones that have
//! ended, and for the latest of each sort; nothing grows. Per-subtask figures pass through: keep a [`Spread`] for each
//! vertex whose figures are of interest. All times are by the wall clock; a span that would be negative counts as none.

mod figures;
#[cfg(test)]
mod tests;

pub use figures::{Figure, Spread, SubtaskFigures};

use crate::ids::{CheckpointId, SnapshotKind};
use crate::machine::Rejected;
use crate::reason::FailureReason;
use crate::time::Millis;

/// How a checkpoint stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckpointStatus {
    /// It may still complete.
    InProgress,
    /// It is complete.
    Completed,
    /// It failed.
    Failed {
        /// When.
        at: Millis,
        /// Why.
        reason: FailureReason,
    },
}

/// What is known of one checkpoint (rule M5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CheckpointFigures {
    /// The checkpoint.
    pub id: CheckpointId,
    /// What it is for.
    pub kind: SnapshotKind,
    /// How it stands.
    pub status: CheckpointStatus,
    /// When it was triggered.
    pub triggered_at: Millis,
    /// When the last task acknowledged; none if none has.
    pub acknowledged_at: Option<Millis>,
    /// How many tasks have acknowledged, those that had finished before included.
    pub acknowledged: u32,
    /// How many tasks there are.
    pub tasks: u32,
    /// How many tasks reported on a part that did not count.
    pub incomplete: u32,
    /// Bytes that a restore would read.
    pub state_size: u64,
    /// Bytes that were written for it.
    pub checkpointed_size: u64,
    /// Bytes that went by while tasks aligned.
    pub processed: u64,
    /// Bytes in flight that became part of it.
    pub persisted: u64,
    /// Its files were removed, or dropped.
    pub is_discarded: bool,
}

impl CheckpointFigures {
    /// From the trigger to the last acknowledgement.
    #[must_use]
    pub fn duration(&self) -> Millis {
        self.acknowledged_at.map_or(Millis(0), |at| at.since(self.triggered_at))
    }

    fn count(&mut self, figures: &SubtaskFigures) {
        self.add(figures);
        let counted = if figures.is_complete { &mut self.acknowledged } else { &mut self.incomplete };
        *counted = counted.saturating_add(1);
    }

    fn add(&mut self, figures: &SubtaskFigures) {
        self.acknowledged_at = self.acknowledged_at.max(Some(figures.acknowledged_at));
        for (sum, more) in [
            (&mut self.state_size, figures.state_size),
            (&mut self.checkpointed_size, figures.checkpointed_size),
            (&mut self.processed, figures.processed),
            (&mut self.persisted, figures.persisted),
        ] {
            *sum = sum.saturating_add(more);
        }
    }
}

/// What a job was restored from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RestoreFigures {
    /// The checkpoint.
    pub id: CheckpointId,
    /// What it was for.
    pub kind: SnapshotKind,
    /// When.
    pub at: Millis,
    /// Bytes that were read.
    pub state_size: u64,
}

/// How many checkpoints there were (rule M2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CheckpointCounts {
    /// All that were triggered, or failed before they could be.
    pub total: u64,
    /// Those that may still complete.
    pub in_progress: u64,
    /// Those that are complete.
    pub completed: u64,
    /// Those that failed.
    pub failed: u64,
    /// How often the job was restored.
    pub restored: u64,
}

/// Figures over all completed checkpoints (rule M4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Bytes that a restore would read.
    pub state_size: Figure,
    /// Bytes written.
    pub checkpointed_size: Figure,
    /// Milliseconds from trigger to last acknowledgement.
    pub duration: Figure,
    /// Bytes that went by while tasks aligned.
    pub processed: Figure,
    /// Bytes in flight that became part.
    pub persisted: Figure,
}

impl Summary {
    fn add(&mut self, checkpoint: &CheckpointFigures) {
        self.state_size.add(checkpoint.state_size);
        self.checkpointed_size.add(checkpoint.checkpointed_size);
        self.duration.add(checkpoint.duration().0);
        self.processed.add(checkpoint.processed);
        self.persisted.add(checkpoint.persisted);
    }
}

/// The latest of each sort (rule M3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Latest {
    /// The latest completed checkpoint; savepoints do not count.
    pub completed: Option<CheckpointFigures>,
    /// The latest completed savepoint.
    pub savepoint: Option<CheckpointFigures>,
    /// The latest that failed.
    pub failed: Option<CheckpointFigures>,
    /// The latest restore.
    pub restored: Option<RestoreFigures>,
}

/// Figures of up to `PENDING` checkpoints at once and of the newest `HISTORY` that have ended; none of those if that
/// is zero. The work of each call is bounded by their sum.
#[derive(Clone, Debug)]
pub struct Statistics<const PENDING: usize, const HISTORY: usize = 10> {
    counts: CheckpointCounts,
    pending: [Option<CheckpointFigures>; PENDING],
    /// Newest first.
    history: [Option<CheckpointFigures>; HISTORY],
    latest: Latest,
    summary: Summary,
}

impl<const PENDING: usize, const HISTORY: usize> Default for Statistics<PENDING, HISTORY> {
    fn default() -> Self {
        Self::new()
    }
}

impl<const PENDING: usize, const HISTORY: usize> Statistics<PENDING, HISTORY> {
    /// No figures.
    #[must_use]
    pub fn new() -> Self {
        Self {
            counts: CheckpointCounts::default(),
            pending: [None; PENDING],
            history: [None; HISTORY],
            latest: Latest::default(),
            summary: Summary::default(),
        }
    }

    /// A checkpoint was triggered, for `tasks` tasks of which `finished` had finished before: those count as
    /// acknowledged, with nothing (rule M7).
    ///
    /// # Errors
    /// [`Rejected`]: it is known, or more than `PENDING` are under way.
    pub fn triggered(
        &mut self,
        id: CheckpointId,
        kind: SnapshotKind,
        at: Millis,
        tasks: u32,
        finished: u32,
    ) -> Result<(), Rejected> {
        if self.pending(id).is_some() {
            return unknown("the checkpoint has been triggered already");
        }
        let Some(free) = self.pending.iter_mut().find(|slot| slot.is_none()) else {
            return unknown("more checkpoints are under way than there is room for");
        };
        *free = Some(CheckpointFigures {
            id,
            kind,
            status: CheckpointStatus::InProgress,
            triggered_at: at,
            acknowledged_at: None,
            acknowledged: finished,
            tasks,
            incomplete: 0,
            state_size: 0,
            checkpointed_size: 0,
            processed: 0,
            persisted: 0,
            is_discarded: false,
        });
        self.counts.total = self.counts.total.saturating_add(1);
        self.counts.in_progress = self.counts.in_progress.saturating_add(1);
        Ok(())
    }

    /// A request failed before there was a checkpoint (rules F2 and M2).
    pub const fn failed_without_checkpoint(&mut self) {
        self.counts.total = self.counts.total.saturating_add(1);
        self.counts.failed = self.counts.failed.saturating_add(1);
    }

    /// A task's part counts, as `KeepPart` orders (rule P7). A part that does not - late, or of an aborted checkpoint -
    /// is added as incomplete to what is still known of the checkpoint (rule M7).
    pub fn reported(&mut self, id: CheckpointId, figures: &SubtaskFigures) {
        let is_it = |record: &&mut CheckpointFigures| record.id == id;
        // A job that has started again may give the number of one that had failed to another.
        match self.pending.iter_mut().flatten().find(is_it) {
            Some(pending) => pending.count(figures),
            None => {
                let ended = self.history.iter_mut().chain([&mut self.latest.failed]).flatten();
                ended.filter(is_it).for_each(|record| record.count(figures));
            }
        }
    }

    /// A checkpoint is complete.
    ///
    /// # Errors
    /// [`Rejected`]: it is not under way.
    pub fn completed(&mut self, id: CheckpointId) -> Result<(), Rejected> {
        let record = self.end(id, CheckpointStatus::Completed)?;
        self.counts.completed = self.counts.completed.saturating_add(1);
        self.summary.add(&record);
        let latest =
            if record.kind.is_savepoint() { &mut self.latest.savepoint } else { &mut self.latest.completed };
        *latest = Some(record);
        Ok(())
    }

    /// A checkpoint failed.
    ///
    /// # Errors
    /// [`Rejected`]: it is not under way.
    pub fn failed(&mut self, id: CheckpointId, at: Millis, reason: FailureReason) -> Result<(), Rejected> {
        let record = self.end(id, CheckpointStatus::Failed { at, reason })?;
        self.counts.failed = self.counts.failed.saturating_add(1);
        self.latest.failed = Some(record);
        Ok(())
    }

    /// The files of a checkpoint are gone.
    pub fn discarded(&mut self, id: CheckpointId) {
        let latest = [&mut self.latest.completed, &mut self.latest.savepoint, &mut self.latest.failed];
        let known = self.pending.iter_mut().chain(&mut self.history).chain(latest).flatten();
        known.filter(|record| record.id == id).for_each(|record| record.is_discarded = true);
    }

    /// The job was restored.
    pub const fn restored(&mut self, from: RestoreFigures) {
        self.counts.restored = self.counts.restored.saturating_add(1);
        self.latest.restored = Some(from);
    }

    /// How many checkpoints there were.
    #[must_use]
    pub const fn counts(&self) -> CheckpointCounts {
        self.counts
    }

    /// Figures over all completed checkpoints.
    #[must_use]
    pub const fn summary(&self) -> &Summary {
        &self.summary
    }

    /// The latest of each sort.
    #[must_use]
    pub const fn latest(&self) -> &Latest {
        &self.latest
    }

    /// Those under way.
    pub fn in_progress(&self) -> impl Iterator<Item = &CheckpointFigures> {
        self.pending.iter().flatten()
    }

    /// Those that have ended, newest first.
    pub fn history(&self) -> impl Iterator<Item = &CheckpointFigures> {
        self.history.iter().flatten()
    }

    /// One that is under way or not yet forgotten.
    #[must_use]
    pub fn find(&self, id: CheckpointId) -> Option<&CheckpointFigures> {
        let latest = [&self.latest.completed, &self.latest.savepoint, &self.latest.failed];
        let known = self.pending.iter().chain(&self.history).chain(latest).flatten();
        known.into_iter().find(|record| record.id == id)
    }

    fn pending(&self, id: CheckpointId) -> Option<&CheckpointFigures> {
        self.pending.iter().flatten().find(|record| record.id == id)
    }

    fn end(&mut self, id: CheckpointId, status: CheckpointStatus) -> Result<CheckpointFigures, Rejected> {
        let ends = |record: &mut CheckpointFigures| record.id == id;
        let Some(mut record) = self.pending.iter_mut().find_map(|slot| slot.take_if(ends)) else {
            return unknown("the checkpoint is not under way");
        };
        record.status = status;
        self.counts.in_progress = self.counts.in_progress.saturating_sub(1);
        let mut moving = Some(record);
        self.history.iter_mut().for_each(|slot| core::mem::swap(slot, &mut moving));
        Ok(record)
    }
}

const fn unknown<T>(what: &'static str) -> Result<T, Rejected> {
    Err(Rejected::Unexpected { what })
}

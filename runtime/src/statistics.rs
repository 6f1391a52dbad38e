//! What checkpoints took: each of the newest ones with all its subtasks, and all of them together (Flink:
//! `CheckpointStatsTracker`).
//!
//! [`Observer::checkpoints`](crate::Observer::checkpoints) gives it while a job runs and after. What the subtasks of a complete
//! checkpoint took also lies in its manifest ([`SubtaskPart::figures`](crate::checkpoint::SubtaskPart::figures)), so it can be
//! looked at when the job is long gone. Spans are in milliseconds: those within a task by the monotonic clock, those from
//! the trigger by the wall clock.

use slackwater_core::time::Millis;

pub use slackwater_core::coordinator::statistics::{
    CheckpointCounts, CheckpointFigures, CheckpointStatus, Figure, RestoreFigures, Spread, SubtaskFigures,
};

mod samples;
#[cfg(test)]
mod tests;
mod tracker;

pub use samples::Distribution;
pub(crate) use tracker::{Figures, Tracker};

/// How many checkpoints that have ended are remembered, besides the latest of each sort (rule M3).
pub const HISTORY: usize = 10;

/// Figures of a job's checkpoints, all of one moment. A job that starts again under a
/// [`Supervisor`](crate::Supervisor) goes on with those of its earlier attempts: checkpoints that were under way when it failed
/// count as failed, and [`CheckpointCounts::restored`] says how often it went on from a checkpoint.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckpointStatistics {
    /// How many there were (rule M2).
    pub counts: CheckpointCounts,
    /// Those under way.
    pub in_progress: Vec<CheckpointRecord>,
    /// The last [`HISTORY`] that have ended, newest first.
    pub history: Vec<CheckpointRecord>,
    /// The latest completed checkpoint; savepoints do not count.
    pub latest_completed: Option<CheckpointRecord>,
    /// The latest completed savepoint.
    pub latest_savepoint: Option<CheckpointRecord>,
    /// The latest that failed.
    pub latest_failed: Option<CheckpointRecord>,
    /// What the job was restored from the last time.
    pub latest_restored: Option<RestoreFigures>,
    /// Over all completed checkpoints.
    pub summary: Summary,
}

/// A checkpoint with all its subtasks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckpointRecord {
    /// Of all subtasks together (rule M5).
    pub figures: CheckpointFigures,
    /// From completion until every sink had committed; none while one has not, or if the job failed before.
    pub commit: Option<Millis>,
    /// What was reported of each subtask, in the order of the graph (rule M6).
    pub subtasks: Vec<SubtaskRecord>,
}

/// A subtask's part in a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubtaskRecord {
    /// The first operator of its vertex.
    pub operator: String,
    /// Its index in the vertex.
    pub index: u16,
    /// What it measured.
    pub figures: SubtaskFigures,
}

impl CheckpointRecord {
    /// Least, greatest and mean over the subtasks of each vertex, in the order of the graph (rule M8).
    #[must_use]
    pub fn vertices(&self) -> Vec<(&str, Spread)> {
        let mut vertices: Vec<(&str, Spread)> = Vec::new();
        for subtask in &self.subtasks {
            let is_new = vertices.last().is_none_or(|(operator, _)| *operator != subtask.operator);
            if is_new {
                vertices.push((&subtask.operator, Spread::default()));
            }
            if let Some((_, spread)) = vertices.last_mut() {
                spread.add(&subtask.figures, self.figures.triggered_at);
            }
        }
        vertices
    }
}

/// Over all completed checkpoints, savepoints included (rule M4).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Milliseconds from the trigger to the last acknowledgement.
    pub duration: Distribution,
    /// Bytes that a restore would read.
    pub state_size: Distribution,
    /// Bytes that were written.
    pub checkpointed_size: Distribution,
    /// Bytes that went by while tasks aligned.
    pub processed: Distribution,
    /// Bytes in flight that became part.
    pub persisted: Distribution,
}

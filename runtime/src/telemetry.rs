//! Spans, events and metrics of a job, for whoever listens.
//!
//! With the feature `tracing` a job emits spans and events through the crate of that name, with the feature `metrics`
//! counters and histograms through the facade of that name. Without a feature, none of it is compiled. Nothing is done for
//! records, nor for batches of them: everything here follows from a checkpoint, a start or an end.
//!
//! | span | level | from | until |
//! |---|---|---|---|
//! | `recovery` | info | a job is assembled | it is, or cannot be |
//! | `checkpoint` | info | its trigger | it is complete, or has failed |
//! | `snapshot` | debug | a subtask's state is to be frozen | it is |
//! | `persist` | debug | the writer takes a segment | it is durable, or never will be |
//!
//! Their target is `slackwater`. Events tell of a checkpoint that is complete (info) or has failed (warn), of what a subtask reported (debug), of a commit that
//! is done (debug), of a restored checkpoint (info), of those passed over (warn), and of a job that has failed and starts again
//! (warn).
//!
//! Every metric has the label `job`, those of subtasks `operator`, too. Spans of time are in seconds. What a job reads again after a
//! restart counts again. A job that fails before it has been put together for the first time has the label "" there.
//!
//! | metric | kind | what it is |
//! |---|---|---|
//! | `slackwater_checkpoints_triggered_total` | counter | checkpoints that were started |
//! | `slackwater_checkpoints_completed_total` | counter | checkpoints, and savepoints, that are complete |
//! | `slackwater_checkpoints_failed_total` | counter | those that failed, or could not be started |
//! | `slackwater_restores_total` | counter | starts from a checkpoint |
//! | `slackwater_restarts_total` | counter | failures after which the job starts again |
//! | `slackwater_source_records_total` | counter | records that sources have emitted, as of the last complete checkpoint |
//! | `slackwater_source_bytes_total` | counter | bytes that sources have read, as of the last complete checkpoint |
//! | `slackwater_records_total` | counter | records taken from channels, as of the last complete checkpoint |
//! | `slackwater_checkpoint_duration_seconds` | histogram | from the trigger to the last acknowledgement |
//! | `slackwater_checkpoint_commit_seconds` | histogram | from completion until every sink had committed |
//! | `slackwater_checkpoint_state_bytes` | histogram | what a restore would read |
//! | `slackwater_checkpoint_written_bytes` | histogram | what was written for a checkpoint |
//! | `slackwater_subtask_start_delay_seconds` | histogram | from the trigger to the first barrier |
//! | `slackwater_subtask_alignment_seconds` | histogram | from the first barrier to the last |
//! | `slackwater_subtask_sync_seconds` | histogram | the part of a snapshot in which a subtask stood still |
//! | `slackwater_subtask_async_seconds` | histogram | the part in which it went on |

use slackwater_core::ids::{CheckpointId, SnapshotKind};
use slackwater_core::reason::FailureReason;
use slackwater_core::time::Millis;

use crate::shared::Progress;
use crate::statistics::{CheckpointFigures, RestoreFigures, SubtaskFigures};
use crate::supervisor::Restart;

#[cfg(feature = "metrics")]
mod meter;
#[cfg(test)]
mod tests;
mod trace;

pub(crate) use trace::{Span, in_recovery, in_snapshot, passed_over, persisting};

/// Tells of the checkpoints of one job.
#[derive(Debug, Default)]
pub(crate) struct Telemetry {
    #[cfg(feature = "metrics")]
    meter: meter::Meter,
    trace: trace::Trace,
}

/// A job has failed and will start again.
pub(crate) fn restarting(job: &str, restart: &Restart) {
    #[cfg(feature = "metrics")]
    meter::restarting(job);
    trace::restarting(job, restart);
}

impl Telemetry {
    pub(crate) fn new(job: &str) -> Self {
        Self {
            #[cfg(feature = "metrics")]
            meter: meter::Meter::new(job),
            trace: trace::Trace::new(job),
        }
    }

    pub(crate) fn restored(&self, from: &RestoreFigures) {
        #[cfg(feature = "metrics")]
        self.meter.restored();
        self.trace.restored(from);
    }

    pub(crate) fn triggered(&mut self, id: CheckpointId, kind: SnapshotKind) {
        #[cfg(feature = "metrics")]
        self.meter.triggered();
        self.trace.triggered(id, kind);
    }

    /// A subtask of the vertex has reported.
    pub(crate) fn reported(&self, id: CheckpointId, operator: &str, index: u16, figures: &SubtaskFigures) {
        #[cfg(feature = "metrics")]
        self.meter.reported(operator, figures);
        self.trace.reported(id, operator, index, figures);
    }

    pub(crate) fn completed(&mut self, figures: &CheckpointFigures, progress: &Progress) {
        #[cfg(feature = "metrics")]
        self.meter.completed(figures, progress);
        self.trace.completed(figures, progress);
    }

    pub(crate) fn failed(&mut self, id: Option<CheckpointId>, reason: FailureReason) {
        #[cfg(feature = "metrics")]
        self.meter.failed();
        self.trace.failed(id, reason);
    }

    pub(crate) fn committed(&self, id: CheckpointId, took: Millis) {
        #[cfg(feature = "metrics")]
        self.meter.committed(took);
        self.trace.committed(id, took);
    }
}

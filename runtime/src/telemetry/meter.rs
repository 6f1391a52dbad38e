//! Counters and histograms through the `metrics` facade.

use metrics::{counter, histogram};
use slackwater_core::time::Millis;

use crate::shared::Progress;
use crate::statistics::{CheckpointFigures, SubtaskFigures};

/// The metrics of one job.
#[derive(Debug, Default)]
pub(super) struct Meter {
    job: String,
    /// What has been counted of this attempt.
    counted: Progress,
}

/// A job has failed and will start again.
pub(super) fn restarting(job: &str) {
    counter!("slackwater_restarts_total", "job" => job.to_owned()).increment(1);
}

impl Meter {
    pub(super) fn new(job: &str) -> Self {
        Self { job: job.to_owned(), counted: Progress::default() }
    }

    fn count(&self, name: &'static str) -> metrics::Counter {
        counter!(name, "job" => self.job.clone())
    }

    fn sample(&self, name: &'static str, value: f64) {
        histogram!(name, "job" => self.job.clone()).record(value);
    }

    pub(super) fn restored(&self) {
        self.count("slackwater_restores_total").increment(1);
    }

    pub(super) fn triggered(&self) {
        self.count("slackwater_checkpoints_triggered_total").increment(1);
    }

    pub(super) fn reported(&self, operator: &str, figures: &SubtaskFigures) {
        for (name, span) in [
            ("slackwater_subtask_start_delay_seconds", figures.start_delay),
            ("slackwater_subtask_alignment_seconds", figures.alignment),
            ("slackwater_subtask_sync_seconds", figures.synchronous),
            ("slackwater_subtask_async_seconds", figures.asynchronous),
        ] {
            let histogram = histogram!(name, "job" => self.job.clone(), "operator" => operator.to_owned());
            histogram.record(seconds(span));
        }
    }

    pub(super) fn completed(&mut self, figures: &CheckpointFigures, progress: &Progress) {
        self.count("slackwater_checkpoints_completed_total").increment(1);
        let before = std::mem::replace(&mut self.counted, *progress);
        for (name, now, before) in [
            ("slackwater_source_records_total", progress.source_records, before.source_records),
            ("slackwater_source_bytes_total", progress.bytes_read, before.bytes_read),
            ("slackwater_records_total", progress.records, before.records),
        ] {
            self.count(name).increment(now.saturating_sub(before));
        }
        self.sample("slackwater_checkpoint_duration_seconds", seconds(figures.duration()));
        self.sample("slackwater_checkpoint_state_bytes", bytes(figures.state_size));
        self.sample("slackwater_checkpoint_written_bytes", bytes(figures.checkpointed_size));
    }

    pub(super) fn failed(&self) {
        self.count("slackwater_checkpoints_failed_total").increment(1);
    }

    pub(super) fn committed(&self, took: Millis) {
        self.sample("slackwater_checkpoint_commit_seconds", seconds(took));
    }
}

fn seconds(span: Millis) -> f64 {
    std::time::Duration::from_millis(span.0).as_secs_f64()
}

/// Exact up to 2^53.
const fn bytes(count: u64) -> f64 {
    count as f64
}

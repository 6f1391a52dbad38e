//! What alignment costs.

use crate::ids::{Barrier, CheckpointId};
use crate::time::{Millis, Now};

/// What the alignment of one checkpoint cost a subtask (rules B32 to B36).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AlignmentMetrics {
    /// From the first to the last barrier, by the monotonic clock.
    pub duration: Millis,
    /// From the trigger to the first barrier, by the wall clock.
    pub start_delay: Millis,
    /// Size of the records that were taken in between.
    pub bytes_processed: u64,
    /// Size of the records in flight that became part of the checkpoint. The gate leaves it at zero: who captures
    /// them counts them.
    pub bytes_persisted: u64,
}

impl AlignmentMetrics {
    /// Nothing was measured.
    pub const ZERO: Self =
        Self { duration: Millis(0), start_delay: Millis(0), bytes_processed: 0, bytes_persisted: 0 };

    /// Whether the checkpoint is reported as unaligned (rule B36).
    #[must_use]
    pub const fn is_unaligned(&self) -> bool {
        self.bytes_persisted > 0
    }
}

/// The measurement of the alignment that was started last.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Measure {
    id: Option<CheckpointId>,
    is_running: bool,
    started_at: Millis,
    metrics: AlignmentMetrics,
}

impl Measure {
    /// The first barrier has come (rule B32). Does nothing if this alignment was started before.
    pub(super) fn start(&mut self, now: Now, barrier: &Barrier) {
        if self.id == Some(barrier.id) {
            return;
        }
        let metrics =
            AlignmentMetrics { start_delay: now.wall.since(barrier.triggered_at), ..AlignmentMetrics::ZERO };
        *self = Self { id: Some(barrier.id), is_running: true, started_at: now.monotonic, metrics };
    }

    /// The last barrier of `id` has come (rule B33).
    pub(super) fn stop(&mut self, now: Now, id: CheckpointId) {
        if self.is_running && self.id == Some(id) {
            self.metrics.duration = now.monotonic.since(self.started_at);
            self.is_running = false;
        }
    }

    /// The alignment was given up (rule B13).
    pub(super) fn reset(&mut self) {
        *self = Self::default();
    }

    /// Rule B34.
    pub(super) const fn count_bytes(&mut self, bytes: u64) {
        if self.is_running {
            self.metrics.bytes_processed = self.metrics.bytes_processed.saturating_add(bytes);
        }
    }

    /// What was measured for `id`: nothing if another alignment was started since (rule B35).
    pub(super) fn of(&self, id: CheckpointId) -> AlignmentMetrics {
        if self.id == Some(id) { self.metrics } else { AlignmentMetrics::ZERO }
    }
}

//! What the actors of a job and those who watch it have in common.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use slackwater_core::ids::CheckpointId;

use crate::actor::{Signal, lock};
use crate::error::JobError;
use crate::statistics::{CheckpointStatistics, Tracker};

/// Progress of a running job, to be looked at from anywhere. Each number is exact, but they are not taken
/// at the same moment.
#[derive(Clone, Debug)]
pub struct Observer {
    shared: Shared,
}

impl Observer {
    pub(crate) const fn new(shared: Shared) -> Self {
        Self { shared }
    }

    /// The numbers of this moment.
    #[must_use]
    pub fn progress(&self) -> Progress {
        self.shared.progress()
    }

    /// What its checkpoints took, all of one moment.
    #[must_use]
    pub fn checkpoints(&self) -> CheckpointStatistics {
        self.shared.statistics().statistics()
    }

    /// Tells the job to end soon, without a checkpoint; it then reports [`JobError::Stopped`].
    pub fn stop(&self) {
        self.shared.fail(JobError::Stopped);
    }

    /// Whether the job has ended, well or not.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.shared.is_over()
    }
}

/// How far a job has come in this run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Bytes that the sources have read.
    pub bytes_read: u64,
    /// Bytes that earlier runs had read before the restored checkpoint: where this run began.
    pub bytes_restored: u64,
    /// Records that the sources have emitted.
    pub source_records: u64,
    /// Records that subtasks have taken from channels.
    pub records: u64,
    /// The newest complete checkpoint of this run.
    pub last_checkpoint: Option<CheckpointId>,
    /// Checkpoints completed in this run.
    pub checkpoints_completed: u64,
    /// Checkpoints that failed in this run.
    pub checkpoints_failed: u64,
}

/// Shared by every actor of a job.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shared {
    inner: Arc<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    is_over: AtomicBool,
    failure: Mutex<Option<JobError>>,
    signals: Mutex<Vec<Signal>>,
    notes: Mutex<Vec<String>>,
    counters: Counters,
    statistics: Mutex<Tracker>,
}

#[derive(Debug, Default)]
struct Counters {
    bytes_read: AtomicU64,
    bytes_restored: AtomicU64,
    source_records: AtomicU64,
    records: AtomicU64,
    last_checkpoint: AtomicU64,
    /// 0 if there is none.
    stopped_with: AtomicU64,
    completed: AtomicU64,
    failed: AtomicU64,
}

/// Sentences that are kept for the report.
const NOTES_MAX: usize = 100;

/// Adds a sentence, or once that more are left out.
pub(crate) fn keep_note(notes: &mut Vec<String>, sentence: String) {
    match notes.len() {
        NOTES_MAX => notes.push("there is more like this, which is left out".to_owned()),
        ..NOTES_MAX => notes.push(sentence),
        _ => {}
    }
}

impl Shared {
    /// Has `signal` woken when the job is over.
    pub(crate) fn watch(&self, signal: Signal) {
        lock(&self.inner.signals).push(signal);
    }

    /// Ends the job for this reason; the first one counts.
    pub(crate) fn fail(&self, error: JobError) {
        if !self.is_over() {
            lock(&self.inner.failure).get_or_insert(error);
        }
        self.end();
    }

    /// Ends the job: every actor finishes in its next step.
    pub(crate) fn end(&self) {
        self.inner.is_over.store(true, Ordering::Release);
        lock(&self.inner.signals).iter().for_each(Signal::wake);
    }

    pub(crate) fn is_over(&self) -> bool {
        self.inner.is_over.load(Ordering::Acquire)
    }

    pub(crate) fn failure(&self) -> Option<JobError> {
        lock(&self.inner.failure).clone()
    }

    /// Keeps a sentence for the report.
    pub(crate) fn note(&self, sentence: String) {
        keep_note(&mut lock(&self.inner.notes), sentence);
    }

    pub(crate) fn notes(&self) -> Vec<String> {
        lock(&self.inner.notes).clone()
    }

    pub(crate) fn progress(&self) -> Progress {
        let counters = &self.inner.counters;
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Progress {
            bytes_read: read(&counters.bytes_read),
            bytes_restored: read(&counters.bytes_restored),
            source_records: read(&counters.source_records),
            records: read(&counters.records),
            last_checkpoint: Some(read(&counters.last_checkpoint)).filter(|id| *id > 0).map(CheckpointId),
            checkpoints_completed: read(&counters.completed),
            checkpoints_failed: read(&counters.failed),
        }
    }

    /// Figures of the job's checkpoints. Nobody on the way of records asks for them.
    pub(crate) fn statistics(&self) -> MutexGuard<'_, Tracker> {
        lock(&self.inner.statistics)
    }

    pub(crate) fn add_input(&self, records: u64, bytes: u64) {
        self.inner.counters.source_records.fetch_add(records, Ordering::Relaxed);
        self.inner.counters.bytes_read.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn add_restored(&self, bytes: u64) {
        self.inner.counters.bytes_restored.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn add_records(&self, records: u64) {
        self.inner.counters.records.fetch_add(records, Ordering::Relaxed);
    }

    pub(crate) fn checkpoint_completed(&self, id: CheckpointId) {
        self.inner.counters.last_checkpoint.fetch_max(id.0, Ordering::Relaxed);
        self.inner.counters.completed.fetch_add(1, Ordering::Relaxed);
    }

    /// The job ends with this savepoint.
    pub(crate) fn set_stopped_with(&self, savepoint: CheckpointId) {
        self.inner.counters.stopped_with.store(savepoint.0, Ordering::Relaxed);
    }

    pub(crate) fn stopped_with(&self) -> Option<CheckpointId> {
        let id = self.inner.counters.stopped_with.load(Ordering::Relaxed);
        Some(CheckpointId(id)).filter(|id| id.0 > 0)
    }

    pub(crate) fn checkpoint_failed(&self) {
        self.inner.counters.failed.fetch_add(1, Ordering::Relaxed);
    }
}

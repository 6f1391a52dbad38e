//! A job: options, assembly, running, report.

use std::time::Duration;

use slackwater_core::durable::Disk;
use slackwater_core::ids::CheckpointId;
use slackwater_core::restart::RestartStrategy;
use slackwater_core::retained::RetentionPolicy;
use slackwater_core::time::{Millis, Now};
use slackwater_mem::FrozenRun;
use slackwater_mem::segment::Compression;

use crate::CheckpointingMode;
use crate::actor::{Actor, Mailbox};
use crate::driver::{Clock, run_on_threads};
use crate::error::JobError;
use crate::graph::JobBuilder;
use crate::mail::CoordinatorMail;
use crate::operator::Guarantee;
use crate::recovery::PassedOver;
use crate::savepoint::{Controller, RestoreFrom};
use crate::shared::{Observer, Shared};
use crate::supervisor::Cause;

mod assemble;
mod matching;
mod mode;
mod participants;
mod restore;
#[cfg(test)]
mod tests;

/// How a job runs. Start from [`JobOptions::new`] and change what you need.
///
/// What Flink has an option for bears its name and has its default where both mean the same; three differ. Checkpoints are
/// on from the start, at least two are kept, since the newest may turn out to be damaged, and those of a job that was
/// stopped stay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobOptions {
    /// Folder on the disk that holds the jobs' folders; empty for the disk's root (Flink: `execution.checkpointing.dir`).
    pub folder: String,
    /// A number that no other start of the job has had: part of the names of files, so that none is ever
    /// written twice. Nanoseconds since 1970 do.
    pub attempt: u64,
    /// Seed of the hash that places keys, for a job that starts anew; a restored one keeps its own. Take a random
    /// number where keys come from strangers: who knows it can make keys that all fall into one place.
    pub hash_seed: u64,
    /// From one periodic checkpoint to the next, at least 10 ms; none for no periodic ones. A last checkpoint is always taken
    /// (Flink: `execution.checkpointing.interval`, none unless it is set).
    pub interval: Option<Millis>,
    /// A checkpoint that takes longer is given up; at least 10 ms (Flink: `execution.checkpointing.timeout`).
    pub timeout: Millis,
    /// The least time between the end of a checkpoint and the start of the next periodic one (Flink:
    /// `execution.checkpointing.min-pause`).
    pub min_pause: Millis,
    /// How many checkpoints may be under way at the same time (Flink:
    /// `execution.checkpointing.max-concurrent-checkpoints`).
    pub max_concurrent_checkpoints: u16,
    /// What the output promises when the job starts again: that every record counts once, or that every one counts, and
    /// some twice. At-least-once never holds a channel back (Flink: `execution.checkpointing.mode`).
    pub mode: CheckpointingMode,
    /// Whether barriers may overtake records, which then become part of the checkpoint: it completes in the time of its
    /// writes however slow a sink is, and is larger. Only exactly-once, and only one checkpoint at a time; savepoints are
    /// always aligned (Flink: `execution.checkpointing.unaligned.enabled`).
    pub unaligned: bool,
    /// If so, how old a checkpoint must be before its barriers overtake; zero: at once (Flink:
    /// `execution.checkpointing.aligned-checkpoint-timeout`).
    pub aligned_checkpoint_timeout: Millis,
    /// How long a record may wait in a task that is busy until the batch that it travels in is full; zero: for one step. A
    /// task that has nothing to do sends what it has, so this is about tasks that are never done: less of it is less delay and
    /// more, smaller batches (Flink: `execution.buffer-timeout.interval`).
    pub buffer_timeout: Millis,
    /// How many checkpoints in a row may fail before the job does (Flink:
    /// `execution.checkpointing.tolerable-failed-checkpoints`).
    pub tolerable_failed_checkpoints: u32,
    /// How often and when a supervised job starts again after a failure; none: without limit if there are periodic
    /// checkpoints, else never ([`RestartStrategy::for_job`]; Flink: `restart-strategy.type`).
    pub restart: Option<RestartStrategy>,
    /// How many completed checkpoints are kept, at least 2 and at most 512 (Flink: `execution.checkpointing.num-retained`, 1 by
    /// default).
    pub num_retained: usize,
    /// What becomes of the completed checkpoints when the job is stopped with a savepoint, which stays in any case (Flink:
    /// `execution.checkpointing.externalized-checkpoint-retention`, whose default keeps none).
    pub on_cancellation: OnCancellation,
    /// The most memory that keyed state may take, in bytes, over all subtasks.
    pub memory_limit_bytes: u64,
    /// Size of a frame of state, in bytes: a power of two, 256 to 16384.
    pub frame_size: u32,
    /// A savepoint to start from. Where the job has a sound checkpoint of its own that is newer, or of another origin, it
    /// goes on from that, so that it can be started again and again with the same options (Flink:
    /// `execution.state-recovery.path`, and `execution.state-recovery.claim-mode`).
    pub restore_from: Option<RestoreFrom>,
    /// Whether state of operators, coordinators and hooks that the job does not have is dropped, and [said](Report::notes), instead of refusing the
    /// checkpoint (Flink: `execution.state-recovery.ignore-unclaimed-state`). Output that a sink without an operator had not
    /// committed is dropped with it.
    pub allow_non_restored_state: bool,
    /// Whether records flow before all keyed state has been read back: a key group is read when the first of its keys
    /// comes, the others meanwhile. Until all has been verified no checkpoint begins and no sink commits; damage that is
    /// found by then ends the job, and its next start goes on from an older checkpoint. A state whose codec is migrated
    /// cannot be restored so, and until [`on_restored`](crate::keyed::KeyedProcess::on_restored) an operator may look at
    /// the state of its record's key alone.
    pub lazy_restore: bool,
    /// How keyed state is stored in checkpoints: smaller, for processor time of the writer. All but `None` needs the
    /// feature of its name. Any is restored, whatever is chosen here (Flink: `execution.checkpointing.snapshot-compression`).
    pub compression: Compression,
}

impl JobOptions {
    /// An aligned checkpoint every second, exactly once, three kept, at most 1 GiB of state, no failure tolerated; batches leave
    /// after 100 ms; the attempt as seed.
    #[must_use]
    pub const fn new(attempt: u64) -> Self {
        Self {
            folder: String::new(),
            attempt,
            hash_seed: attempt,
            interval: Some(Millis(1000)),
            timeout: Millis(600_000),
            min_pause: Millis(0),
            max_concurrent_checkpoints: 1,
            mode: CheckpointingMode::ExactlyOnce,
            unaligned: false,
            aligned_checkpoint_timeout: Millis(0),
            buffer_timeout: Millis(100),
            tolerable_failed_checkpoints: 0,
            restart: None,
            num_retained: 3,
            on_cancellation: OnCancellation::Keep,
            memory_limit_bytes: 1 << 30,
            frame_size: 4096,
            restore_from: None,
            allow_non_restored_state: false,
            lazy_restore: false,
            compression: Compression::None,
        }
    }
}

/// What becomes of a job's completed checkpoints when somebody ends it (Flink: `ExternalizedCheckpointRetention`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnCancellation {
    /// They stay.
    #[default]
    Keep,
    /// They are deleted.
    Delete,
}

impl From<OnCancellation> for RetentionPolicy {
    fn from(option: OnCancellation) -> Self {
        match option {
            OnCancellation::Keep => Self::RetainOnCancellation,
            OnCancellation::Delete => Self::RetainOnFailure,
        }
    }
}

/// Puts jobs together.
#[derive(Debug)]
pub struct Job;

impl Job {
    /// Restores the newest checkpoint that verifies, if there is one, and makes the actors of the job: one per
    /// subtask, then the coordinator, then the writer. Waits for the disk. Uses no thread, clock or random
    /// number: the same disk and arguments give the same job.
    ///
    /// # Errors
    /// [`JobError`]: the graph makes no sense, the checkpoint is not of this job, the job has finished, the
    /// disk said no. Nothing has been emitted then.
    pub fn assemble<D>(
        builder: JobBuilder,
        disk: D,
        now: Now,
        options: &JobOptions,
    ) -> Result<AssembledJob, JobError>
    where
        D: Disk<Frozen = FrozenRun> + Send + 'static,
    {
        assemble::assemble(builder, disk, now, options)
    }
}

/// A job that is ready to run.
pub struct AssembledJob {
    /// Everything that has to be driven. Stepped until all have finished, or dropped.
    pub actors: Vec<Box<dyn Actor>>,
    /// The checkpoint that it goes on from.
    pub resumed_from: Option<CheckpointId>,
    /// Newer checkpoints that did not verify.
    pub passed_over: Vec<PassedOver>,
    /// Its sinks by the names of their operators, and what each promises.
    pub sinks: Vec<(String, Guarantee)>,
    pub(crate) name: String,
    pub(crate) shared: Shared,
    pub(crate) coordinator: Mailbox<CoordinatorMail>,
}

impl AssembledJob {
    /// Shows the job's progress, from anywhere.
    #[must_use]
    pub fn observer(&self) -> Observer {
        Observer::new(self.shared.clone())
    }

    /// Asks things of the job while it runs, from anywhere.
    #[must_use]
    pub fn controller(&self) -> Controller {
        Controller::new(self.coordinator.clone(), self.shared.clone())
    }

    /// Takes the actors out, for a driver of your own, and leaves what makes the report.
    #[must_use]
    pub fn take_actors(&mut self) -> Vec<Box<dyn Actor>> {
        std::mem::take(&mut self.actors)
    }

    /// Runs the job on one thread per actor until it has ended. `observe` is called every `tick`.
    ///
    /// # Errors
    /// [`JobError`]; the last completed checkpoint stands.
    pub fn run(mut self, tick: Duration, observe: &mut dyn FnMut()) -> Result<Report, JobError> {
        self.drive(Clock::start(), tick, &mut |_| observe());
        self.report()
    }

    /// Runs all actors to their end. Why that came before its time is known here from then on.
    pub(crate) fn drive(&mut self, clock: Clock, tick: Duration, observe: &mut dyn FnMut(&Self)) {
        let actors = self.take_actors();
        if let Err(error) = run_on_threads(actors, clock, tick, &mut || observe(self)) {
            self.shared.fail(error);
        }
    }

    pub(crate) fn failure(&self) -> Option<JobError> {
        self.shared.failure()
    }

    /// What the job came to, once all actors have finished.
    ///
    /// # Errors
    /// Why it ended before its time.
    pub fn report(&self) -> Result<Report, JobError> {
        self.failure().map_or_else(|| Ok(self.tally()), Err)
    }

    /// What the job came to so far.
    pub(crate) fn tally(&self) -> Report {
        let progress = self.observer().progress();
        Report {
            bytes_read: progress.bytes_read,
            source_records: progress.source_records,
            records: progress.records,
            checkpoints_completed: progress.checkpoints_completed,
            checkpoints_failed: progress.checkpoints_failed,
            last_checkpoint: progress.last_checkpoint,
            stopped_with: self.shared.stopped_with(),
            resumed_from: self.resumed_from,
            bytes_after_resume: if self.resumed_from.is_some() { progress.bytes_read } else { 0 },
            passed_over: self.passed_over.clone(),
            sinks: self.sinks.clone(),
            notes: self.shared.notes(),
            restarts: 0,
            causes: Vec::new(),
        }
    }
}

impl std::fmt::Debug for AssembledJob {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AssembledJob")
            .field("actors", &self.actors.iter().map(|actor| actor.name()).collect::<Vec<_>>())
            .field("resumed_from", &self.resumed_from)
            .field("passed_over", &self.passed_over)
            .finish_non_exhaustive()
    }
}

/// What a run of a job came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Bytes that the sources read in this run.
    pub bytes_read: u64,
    /// Records that the sources emitted in this run.
    pub source_records: u64,
    /// Records that subtasks took from channels in this run.
    pub records: u64,
    /// Checkpoints completed in this run.
    pub checkpoints_completed: u64,
    /// Checkpoints that failed in this run.
    pub checkpoints_failed: u64,
    /// The newest complete checkpoint of this run.
    pub last_checkpoint: Option<CheckpointId>,
    /// The savepoint with which somebody has stopped the job; none if it came to the end of its input.
    pub stopped_with: Option<CheckpointId>,
    /// The checkpoint that this run went on from.
    pub resumed_from: Option<CheckpointId>,
    /// Bytes read behind the restored positions: what an earlier run had read after its last checkpoint, and
    /// what no run had read yet. A killed process leaves nothing that tells the two apart, so this is the most
    /// that can have been read twice. 0 in a run that did not resume.
    pub bytes_after_resume: u64,
    /// Newer checkpoints that did not verify and were left in place.
    pub passed_over: Vec<PassedOver>,
    /// The sinks by the names of their operators, and what each promises.
    pub sinks: Vec<(String, Guarantee)>,
    /// Sentences for the user.
    pub notes: Vec<String>,
    /// How often the job was started again in this run; none unless somebody supervises it.
    pub restarts: u64,
    /// Why: the first causes that differ, each once.
    pub causes: Vec<Cause>,
}

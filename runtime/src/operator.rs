//! What a user writes: sources, functions, keyed processes, sinks.

use std::fmt;
use std::task::Waker;

use slackwater_core::durable::DiskError;
use slackwater_core::ids::CheckpointId;

use crate::files::{BlockingFiles, FileEvent, Files};
use crate::output::Output;
use crate::record::Record;

/// Where records come from. One instance per subtask.
pub trait Source: Send + 'static {
    /// What it reads.
    type Out: Record + ?Sized;

    /// Gives the waker of its task, before anything else. A source that has been [`SourceStatus::Idle`] wakes its task when there
    /// is something again: a thread that hears from a socket does, or one that knows the time.
    fn set_waker(&mut self, waker: Waker) {
        drop(waker);
    }

    /// Takes over its share of a checkpoint before the first read: the partitions that some subtasks gave in
    /// [`Source::snapshot`], spread over the subtasks of now (rule R12). Called once after a restore, with an
    /// empty list where there are more subtasks than partitions; not called on a fresh start.
    ///
    /// # Errors
    /// When the input is not the one the checkpoint was taken of.
    fn restore(&mut self, splits: Vec<Vec<u8>>) -> Result<(), OperatorError>;

    /// Reads a bounded amount (about 64 KiB) into `out`, or less if there is less or no room.
    ///
    /// # Errors
    /// Fails the task; see [`OperatorError`].
    fn read(&mut self, out: &mut Output<'_, Self::Out>) -> Result<SourceStatus, OperatorError>;

    /// Its state as partitions that can be spread over another number of subtasks: all that is needed to go
    /// on behind the last record emitted. Called between two reads.
    fn snapshot(&mut self) -> Vec<Vec<u8>>;

    /// Takes an event of its operator's coordinator (see [`OperatorCoordinator`](crate::operator_coordinator)), between two
    /// reads: what it does is part of the next snapshot.
    ///
    /// # Errors
    /// Ends the job.
    fn on_event(&mut self, event: &[u8]) -> Result<(), OperatorError> {
        let _unexpected = event;
        Err(OperatorError::new("an event came, but the source takes none"))
    }

    /// What it asks its operator's coordinator for, if anything; called after each read until there is nothing. It is no part
    /// of a snapshot: whoever waits for an answer asks again after a restore.
    fn take_request(&mut self) -> Option<Vec<u8>> {
        None
    }

    /// Bytes read since the start of this run, for progress.
    fn bytes_read(&self) -> u64 {
        0
    }

    /// Bytes that earlier runs had read before the restored checkpoint, for progress.
    fn bytes_restored(&self) -> u64 {
        0
    }
}

/// What a source has left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SourceStatus {
    /// Call again.
    More,
    /// Nothing is there for now: call again after an event or a wake-up ([`Source::set_waker`]). It may be called before, too.
    Idle,
    /// Everything is read.
    Ended,
}

/// Where records go: a sink that commits in two phases, so that what it shows is exactly what checkpoints
/// cover (Flink: `TwoPhaseCommitSinkFunction`). One instance per subtask.
///
/// It does its file work through [`Files`], which never waits; answers come to [`Sink::on_file`]. A sink that has
/// threads or a consumer of its own wakes its task when one of them has got on, which then calls [`Sink::poll`].
///
/// A commit that fails fails the job. The restart calls [`Sink::recover`] with what the newest complete checkpoint
/// lists, so a commit is tried again until it is done. A sink is dropped without a word at the end: what it has pre-committed
/// is left for a recovery, and what was never pre-committed has to vanish, then or in a later recovery (rule C8).
/// `sink_kit` (feature `test-kit`) tries whether a sink keeps all of this.
pub trait Sink: Send + 'static {
    /// What it takes.
    type In: Record + ?Sized;

    /// What it shows of a job that runs exactly once.
    const GUARANTEE: Guarantee = Guarantee::ExactlyOnce;

    /// Gives the waker of its task, before anything else. Wake the task whenever it may have room again, or more may
    /// be sealed or committed, for a reason that the job does not see; files need no such thing.
    fn set_waker(&mut self, waker: Waker) {
        drop(waker);
    }

    /// Called in each step of the task, so at least once after a wake-up: goes on with what had to wait for a thread
    /// or a consumer. Never waits.
    ///
    /// # Errors
    /// Ends the job.
    fn poll(&mut self, files: &mut Files) -> Result<(), OperatorError> {
        let _nothing_waits = files;
        Ok(())
    }

    /// Before any record, once for the whole operator: commits again what the restored checkpoint lists
    /// (`pending`, from all subtasks; may be committed already, rule C7), discards what no checkpoint lists,
    /// moves aside what later checkpoints had committed. On a fresh start `restored` is none and `pending`
    /// is empty. Returns sentences for the user about what was moved or discarded.
    ///
    /// # Errors
    /// Fails the task; see [`OperatorError`].
    fn recover(
        &mut self,
        restored: Option<CheckpointId>,
        pending: &[Vec<u8>],
        files: &mut dyn BlockingFiles,
    ) -> Result<Vec<String>, OperatorError>;

    /// Takes a record into the current transaction (rule C2).
    ///
    /// # Errors
    /// Fails the task; see [`OperatorError`].
    fn write(&mut self, record: &Self::In, files: &mut Files) -> Result<(), OperatorError>;

    /// Whether another record may come; the task waits while not.
    fn has_room(&self, files: &Files) -> bool {
        files.unwritten() < Files::UNWRITTEN_MAX
    }

    /// Closes the current transaction under `checkpoint` and begins the next. Returns every transaction that
    /// is not committed yet, older ones included, as partitions (rule C3); they go into the checkpoint.
    ///
    /// # Errors
    /// Fails the task; see [`OperatorError`].
    fn pre_commit(
        &mut self,
        checkpoint: CheckpointId,
        files: &mut Files,
    ) -> Result<Vec<Vec<u8>>, OperatorError>;

    /// Whether everything pre-committed up to `checkpoint` is durable. The checkpoint waits for it.
    fn is_sealed(&self, checkpoint: CheckpointId) -> bool;

    /// The checkpoint is complete: commits every transaction up to it (rule C4).
    ///
    /// # Errors
    /// Fails the task; the restart commits again.
    fn commit(&mut self, checkpoint: CheckpointId, files: &mut Files) -> Result<(), OperatorError>;

    /// Whether every transaction up to `checkpoint` is committed, durably.
    fn is_committed(&self, checkpoint: CheckpointId) -> bool;

    /// The checkpoint is off. Its transaction stays pending: a later checkpoint commits it (rule C5).
    fn abort(&mut self, checkpoint: CheckpointId) {
        let _later = checkpoint;
    }

    /// A request to [`Files`] has ended well; one that fails fails the task.
    ///
    /// # Errors
    /// Fails the task; see [`OperatorError`].
    fn on_file(&mut self, event: FileEvent, files: &mut Files) -> Result<(), OperatorError>;
}

/// What a sink shows when a job is killed and resumed, provided that the job itself processes exactly once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Guarantee {
    /// Each record that a complete checkpoint covers once, and no other.
    ExactlyOnce,
    /// Each record that a complete checkpoint covers, possibly again after a restart, and also some that no checkpoint
    /// covers yet.
    AtLeastOnce,
}

impl fmt::Display for Guarantee {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ExactlyOnce => "exactly-once",
            Self::AtLeastOnce => "at-least-once",
        })
    }
}

/// Which of its operator's instances this is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubtaskInfo {
    /// The operator's name.
    pub operator: String,
    /// Counted from zero.
    pub index: u16,
    /// How many there are.
    pub parallelism: u16,
    /// How many key groups the job has.
    pub max_parallelism: u16,
    /// Unique per start of the job: part of names of files that must be new.
    pub attempt: u64,
}

impl SubtaskInfo {
    /// The name of its task: the operator, and which of how many.
    #[must_use]
    pub fn task_name(&self) -> String {
        format!("{} ({}/{})", self.operator, self.index + 1, self.parallelism)
    }
}

/// Why an operator cannot go on; one sentence for the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperatorError {
    message: String,
    severity: Severity,
}

/// What follows from an error of an operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Severity {
    /// This checkpoint is off; the task goes on.
    Declines,
    /// The task has failed; the job may start again.
    Fails,
    /// The job ends: starting again would come to the same.
    Ends,
}

impl OperatorError {
    /// With this sentence. It fails the task, and a job with a restart strategy starts again.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), severity: Severity::Fails }
    }

    /// With this sentence, of something that does not get better by starting again: a person has to act. It ends the job.
    pub fn beyond_restart(message: impl Into<String>) -> Self {
        Self { message: message.into(), severity: Severity::Ends }
    }

    /// With this sentence, where a sink cannot take part in a checkpoint for now: from [`Sink::pre_commit`], which has
    /// changed nothing then. The checkpoint is declined, and the task goes on. Elsewhere it fails the task.
    pub fn decline(message: impl Into<String>) -> Self {
        Self { message: message.into(), severity: Severity::Declines }
    }

    pub(crate) const fn severity(&self) -> Severity {
        self.severity
    }
}

impl fmt::Display for OperatorError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for OperatorError {}

impl From<DiskError> for OperatorError {
    fn from(error: DiskError) -> Self {
        Self::new(error.to_string())
    }
}

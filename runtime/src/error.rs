//! Why a job did not start, or ended before its time.

use std::fmt;

use slackwater_core::durable::DiskError;
use slackwater_core::ids::CheckpointId;
use slackwater_core::machine::Rejected;
use slackwater_core::reason::FailureReason;

use crate::operator::{OperatorError, Severity};

mod remedy;

pub use self::remedy::Remedy;

/// Why a job did not start, or ended before its time. One line each, saying what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JobError {
    /// The graph or its options make no sense.
    InvalidJob {
        /// What is wrong.
        what: String,
    },
    /// The graph is larger than what the machines are built for.
    CapacityExceeded {
        /// Of what there is too much.
        what: &'static str,
        /// How much.
        wanted: usize,
        /// How much fits.
        limit: usize,
    },
    /// An operator would have more subtasks than the job has key groups.
    ParallelismAboveMaximum {
        /// The operator.
        operator: String,
        /// Its subtasks.
        parallelism: u16,
        /// The job's key groups.
        max_parallelism: u16,
    },
    /// The folder holds checkpoints of another job.
    OtherJob {
        /// The checkpoint.
        checkpoint: CheckpointId,
        /// What does not match: the names of the jobs, or of an operator.
        what: String,
    },
    /// The checkpoint has state of somebody whom the job does not have.
    NonRestoredState {
        /// The checkpoint.
        checkpoint: CheckpointId,
        /// Whose it is: an operator, the coordinator of one, or a hook, with its name.
        owner: String,
    },
    /// The checkpoint was taken with another number of key groups.
    OtherMaxParallelism {
        /// The checkpoint.
        checkpoint: CheckpointId,
        /// Its key groups.
        recorded: u16,
        /// The key groups asked for.
        wanted: u16,
    },
    /// The job had come to its end already.
    AlreadyFinished {
        /// Its last checkpoint.
        checkpoint: CheckpointId,
    },
    /// Another process works on the folder.
    FolderInUse {
        /// The folder.
        folder: String,
    },
    /// The storage could not be opened.
    Storage {
        /// Where.
        folder: String,
        /// What the system said.
        message: String,
    },
    /// The disk said no while the job was starting.
    Disk {
        /// On what.
        path: String,
        /// What it said.
        error: DiskError,
    },
    /// The newest checkpoint is compressed in a way that is not built in, or of a newer version. It is not passed over:
    /// that would take back what sinks have committed.
    Unsupported {
        /// Which file of it.
        path: String,
        /// What is missing.
        what: String,
    },
    /// A checkpoint could not be restored although nothing is wrong with its files.
    Restore {
        /// The checkpoint.
        checkpoint: CheckpointId,
        /// Why.
        message: String,
    },
    /// The job was to start from a savepoint that is not there, or not sound.
    NoSavepoint {
        /// Where it was looked for.
        folder: String,
        /// The one that is not sound, there or, once it was claimed, among the job's own checkpoints.
        damaged: Option<DamagedSavepoint>,
    },
    /// Keyed state of the restored checkpoint turned out to be damaged while records flowed already. Nothing was
    /// committed.
    LateDamage {
        /// The checkpoint.
        checkpoint: CheckpointId,
        /// What is wrong with it.
        message: String,
        /// Why it could not be noted for the next start, if it could not.
        unnoted: Option<DiskError>,
    },
    /// An operator gave up.
    Operator {
        /// The subtask.
        task: String,
        /// The operator.
        operator: String,
        /// What it said.
        message: String,
    },
    /// An operator gave up for a reason that starting again does not change.
    Refused {
        /// The subtask.
        task: String,
        /// The operator.
        operator: String,
        /// What it said.
        message: String,
    },
    /// A sink's file could not be written.
    Output {
        /// The subtask.
        task: String,
        /// The file.
        path: String,
        /// What the disk said.
        error: DiskError,
    },
    /// More checkpoints in a row failed than are tolerated.
    Checkpoint {
        /// The last of them, if it got as far as a number.
        checkpoint: Option<CheckpointId>,
        /// Why.
        reason: FailureReason,
        /// What the disk said, if it is why.
        cause: Option<DiskError>,
    },
    /// An actor panicked.
    Panicked {
        /// Which.
        task: String,
        /// With what message.
        message: String,
    },
    /// The thread of an actor could not be started.
    NoThread {
        /// Which.
        task: String,
        /// What the system said.
        message: String,
    },
    /// A machine refused an event: an error of this program.
    Machine {
        /// Whose.
        task: String,
        /// What it refused.
        rejected: Rejected,
    },
    /// The job was told to stop before it had finished; its last checkpoint stands.
    Stopped,
    /// The job failed more often than its restart strategy allows.
    GivenUp {
        /// How often it was started again before.
        restarts: u64,
        /// Its last failure.
        cause: Box<Self>,
    },
}

/// A savepoint that a job cannot start from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DamagedSavepoint {
    /// Its number.
    pub checkpoint: CheckpointId,
    /// The folder that it lies in.
    pub folder: String,
    /// What is wrong with it.
    pub reason: String,
}

impl JobError {
    /// An error of an operator in a subtask.
    pub(crate) fn operator(task: &str, operator: &str, error: &OperatorError) -> Self {
        let (task, operator, message) = (task.to_owned(), operator.to_owned(), error.to_string());
        match error.severity() {
            Severity::Ends => Self::Refused { task, operator, message },
            Severity::Fails | Severity::Declines => Self::Operator { task, operator, message },
        }
    }

    pub(crate) fn machine(task: &str, rejected: Rejected) -> Self {
        Self::Machine { task: task.to_owned(), rejected }
    }

    pub(crate) fn unsupported(path: &str, what: impl fmt::Display) -> Self {
        Self::Unsupported { path: path.to_owned(), what: what.to_string() }
    }

    pub(crate) fn disk(path: &str, error: DiskError) -> Self {
        Self::Disk { path: path.to_owned(), error }
    }
}

impl fmt::Display for JobError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InvalidJob { what } => f.write_str(what),
            Self::CapacityExceeded { what, wanted, limit } => {
                write!(f, "{wanted} {what} do not fit, {limit} do: lower the parallelism")
            }
            Self::ParallelismAboveMaximum { operator, parallelism, max_parallelism } => write!(
                f,
                "parallelism {parallelism} of {operator} is above the job's maximum of {max_parallelism}: \
                 lower it, or start afresh with a larger maximum"
            ),
            Self::OtherJob { checkpoint, what } => {
                write!(f, "checkpoint {checkpoint} is not of this job ({what}): use another folder")
            }
            Self::NonRestoredState { checkpoint, owner } => write!(
                f,
                "checkpoint {checkpoint} has state of {owner}, which is not in the job: add it, say which operator was named \
                 so before, allow its state to be dropped, or use another folder"
            ),
            Self::OtherMaxParallelism { checkpoint, recorded, wanted } => write!(
                f,
                "checkpoint {checkpoint} was taken with max parallelism {recorded}, not {wanted}: \
                 ask for {recorded}, or use another folder"
            ),
            Self::AlreadyFinished { checkpoint } => write!(
                f,
                "the job had finished with checkpoint {checkpoint}, its output is complete: \
                 use another folder to run it again"
            ),
            Self::FolderInUse { folder } => {
                write!(f, "another process works on {folder}: wait for it, or use another folder")
            }
            Self::Storage { folder, message } => write!(f, "cannot use {folder}: {message}"),
            Self::Disk { path, error } => write!(f, "{path}: {error}"),
            Self::Unsupported { path, what } => write!(f, "{path}: {what}"),
            Self::Restore { checkpoint, message } => {
                write!(f, "checkpoint {checkpoint} could not be restored: {message}")
            }
            Self::NoSavepoint { folder, damaged } => no_savepoint(f, folder, damaged.as_ref()),
            Self::LateDamage { checkpoint, message, unnoted } => {
                late_damage(f, *checkpoint, message, *unnoted)
            }
            Self::Operator { task, operator, message } | Self::Refused { task, operator, message }
                if task.starts_with(operator.as_str()) =>
            {
                write!(f, "{task}: {message}")
            }
            Self::Operator { task, operator, message } | Self::Refused { task, operator, message } => {
                write!(f, "{task}, operator {operator}: {message}")
            }
            Self::Output { task, path, error } => write!(f, "{task} could not write {path}: {error}"),
            Self::Checkpoint { checkpoint, reason, cause } => {
                checkpoint_failed(f, *checkpoint, *reason, *cause)
            }
            Self::Panicked { task, message } => write!(f, "{task} panicked: {message}"),
            Self::NoThread { task, message } => {
                write!(f, "the thread of {task} could not be started ({message}): use a lower parallelism")
            }
            Self::Machine { task, rejected } => write!(f, "{task}: internal error: {rejected}"),
            Self::Stopped => {
                f.write_str("the job was stopped; start it again to go on from its last checkpoint")
            }
            Self::GivenUp { restarts: 0, cause } => cause.fmt(f),
            Self::GivenUp { restarts, cause } => {
                write!(f, "{cause}; {restarts} restart(s) did not help: mend that, then start again")
            }
        }
    }
}

fn no_savepoint(f: &mut fmt::Formatter<'_>, folder: &str, damaged: Option<&DamagedSavepoint>) -> fmt::Result {
    let Some(DamagedSavepoint { checkpoint, folder: found_in, reason }) = damaged else {
        return write!(
            f,
            "there is no savepoint of this job in {folder}: give the folder that it was asked for in"
        );
    };
    write!(f, "savepoint {checkpoint} in {found_in} is not sound ({reason})")?;
    if found_in != folder {
        write!(f, ", and there is none in {folder}, from which it may have been claimed")?;
    }
    f.write_str(": use another")
}

fn late_damage(
    f: &mut fmt::Formatter<'_>,
    checkpoint: CheckpointId,
    message: &str,
    unnoted: Option<DiskError>,
) -> fmt::Result {
    write!(f, "checkpoint {checkpoint} is not sound ({message})")?;
    match unnoted {
        None => f.write_str(": start again to go on from an older one"),
        Some(error) => write!(
            f,
            ", which could not be noted there ({error}): start again without lazy restore to go on from an \
             older one"
        ),
    }
}

fn checkpoint_failed(
    f: &mut fmt::Formatter<'_>,
    checkpoint: Option<CheckpointId>,
    reason: FailureReason,
    cause: Option<DiskError>,
) -> fmt::Result {
    match checkpoint {
        Some(id) => write!(f, "checkpoint {id} failed")?,
        None => f.write_str("no checkpoint could be started")?,
    }
    match cause {
        Some(cause) => write!(f, ": {cause}"),
        None => write!(f, " with {reason}"),
    }
}

impl std::error::Error for JobError {}

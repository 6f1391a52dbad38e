//! Savepoints: consistent cuts that a person asks for and owns.
//!
//! A savepoint lies in a folder like those that jobs keep their checkpoints in, with the one checkpoint and nothing else:
//! all that reads checkpoints reads it, no file of it lies elsewhere, and it can be moved. What sinks had sealed when it
//! was taken stays where their output is.

use std::fmt;
use std::sync::{Arc, Mutex};

use slackwater_core::durable::DiskError;
use slackwater_core::ids::CheckpointId;
use slackwater_core::reason::FailureReason;

use crate::actor::{Mailbox, lock};
use crate::mail::CoordinatorMail;
use crate::shared::Shared;

/// Asks things of a running job, from anywhere.
#[derive(Clone, Debug)]
pub struct Controller {
    pub(crate) mail: Mailbox<CoordinatorMail>,
    pub(crate) shared: Shared,
}

impl Controller {
    pub(crate) const fn new(mail: Mailbox<CoordinatorMail>, shared: Shared) -> Self {
        Self { mail, shared }
    }

    /// Asks for a savepoint in `folder`, a path on the job's disk that is made and must be empty. Checkpoints go on, and
    /// sinks commit nothing for it. It outlives the job, whatever becomes of it.
    #[must_use]
    pub fn savepoint(&self, folder: &str) -> Savepoint {
        let answer = Answer::default();
        let order = SavepointOrder { folder: folder.to_owned(), answer: answer.clone() };
        self.mail.send(CoordinatorMail::Savepoint(order));
        Savepoint { answer, shared: self.shared.clone() }
    }
}

/// A savepoint that was asked for.
#[derive(Clone, Debug)]
pub struct Savepoint {
    answer: Answer,
    shared: Shared,
}

impl Savepoint {
    /// Its number once it is durable, or why there is none; nothing while it is on its way.
    #[must_use]
    pub fn result(&self) -> Option<Result<CheckpointId, SavepointError>> {
        // In this order: a job that ends answers first.
        let is_over = self.shared.is_over();
        self.answer.get().or_else(|| is_over.then_some(Err(SavepointError::JobEnded)))
    }
}

/// Why there is no savepoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SavepointError {
    /// The job ended before it was complete.
    JobEnded,
    /// The job ends already, with its input or because somebody else has stopped it.
    AlreadyEnding,
    /// The job was to stop with it, but failed before all that it covers was committed.
    NotStopped {
        /// It is there, and can be started from.
        savepoint: CheckpointId,
    },
    /// It was refused, or failed.
    Failed {
        /// Why.
        reason: FailureReason,
        /// What the disk said, if it is why.
        cause: Option<DiskError>,
    },
}

impl fmt::Display for SavepointError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::JobEnded => f.write_str("there is no savepoint: the job has ended"),
            Self::AlreadyEnding => f.write_str("the job is ending already: wait for it"),
            Self::NotStopped { savepoint } => write!(
                f,
                "the job failed while it was stopping, but savepoint {savepoint} is there: start the job again"
            ),
            Self::Failed { cause: Some(cause), .. } if cause.errno == DiskError::EXISTS => {
                f.write_str("there is no savepoint: its folder is not empty; give it one of its own")
            }
            Self::Failed { reason, cause: None } => write!(f, "there is no savepoint: {reason}; ask again"),
            Self::Failed { reason, cause: Some(cause) } => {
                write!(f, "there is no savepoint: {reason} ({cause}); mend that and ask again")
            }
        }
    }
}

impl std::error::Error for SavepointError {}

/// What the coordinator is asked for.
#[derive(Debug)]
pub(crate) struct SavepointOrder {
    pub(crate) folder: String,
    pub(crate) answer: Answer,
}

/// Where an answer is left. The first one counts.
#[derive(Clone, Debug, Default)]
pub(crate) struct Answer(Arc<Mutex<Option<Result<CheckpointId, SavepointError>>>>);

impl Answer {
    pub(crate) fn give(&self, answer: Result<CheckpointId, SavepointError>) {
        lock(&self.0).get_or_insert(answer);
    }

    pub(crate) fn get(&self) -> Option<Result<CheckpointId, SavepointError>> {
        *lock(&self.0)
    }
}

/// A savepoint, or another job's folder of checkpoints, to start from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RestoreFrom {
    /// Its folder, a path on the job's disk: the one that the savepoint was asked for in.
    pub folder: String,
    /// Whose it is from then on.
    pub mode: RestoreMode,
}

/// Whose a savepoint is that a job has started from (rule V5; Flink: `RecoveryClaimMode`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RestoreMode {
    /// Its owner's: the job only reads it.
    NoClaim,
    /// The job's: it is moved to the job's checkpoints, and deleted as they are.
    Claim,
}

//! Who has to act after an error.

use super::JobError;

/// What may help after an error: who has to act.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remedy {
    /// Nobody: starting again from the newest checkpoint may do.
    Restart,
    /// Whoever keeps the machine. A job that has run before can be started again and again meanwhile; one that has
    /// never run tells the person who is starting it.
    Environment,
    /// Whoever starts the job: with other options, another folder, or a file brought back. Starting again as it is comes to
    /// the same, or is not wanted.
    Person,
}

impl JobError {
    /// What may help.
    #[must_use]
    pub const fn remedy(&self) -> Remedy {
        match self {
            Self::Operator { .. }
            | Self::Panicked { .. }
            | Self::Output { .. }
            | Self::Checkpoint { .. }
            | Self::Machine { .. }
            | Self::LateDamage { unnoted: None, .. } => Remedy::Restart,
            Self::Storage { .. } | Self::Disk { .. } | Self::NoThread { .. } => Remedy::Environment,
            Self::InvalidJob { .. }
            | Self::CapacityExceeded { .. }
            | Self::ParallelismAboveMaximum { .. }
            | Self::OtherJob { .. }
            | Self::NonRestoredState { .. }
            | Self::OtherMaxParallelism { .. }
            | Self::AlreadyFinished { .. }
            | Self::FolderInUse { .. }
            | Self::Unsupported { .. }
            | Self::Restore { .. }
            | Self::NoSavepoint { .. }
            | Self::LateDamage { unnoted: Some(_), .. }
            | Self::Refused { .. }
            | Self::Stopped
            | Self::GivenUp { .. } => Remedy::Person,
        }
    }
}

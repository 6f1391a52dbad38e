use core::fmt;

use crate::ids::SnapshotKind;

/// When a checkpoint outlives its job (Flink: `CheckpointRetentionPolicy`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetentionPolicy {
    /// Never.
    NeverRetain,
    /// If the job fails.
    RetainOnFailure,
    /// If the job fails, is canceled or suspended.
    RetainOnCancellation,
}

/// What a user asks for (Flink: `ExternalizedCheckpointRetention`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ExternalizedRetention {
    /// Nothing is kept.
    #[default]
    NoExternalizedCheckpoints,
    /// What is there when the job is canceled goes.
    DeleteOnCancellation,
    /// What is there when the job is canceled stays.
    RetainOnCancellation,
}

impl From<ExternalizedRetention> for RetentionPolicy {
    /// Rule S1.
    fn from(option: ExternalizedRetention) -> Self {
        match option {
            ExternalizedRetention::NoExternalizedCheckpoints => Self::NeverRetain,
            ExternalizedRetention::DeleteOnCancellation => Self::RetainOnFailure,
            ExternalizedRetention::RetainOnCancellation => Self::RetainOnCancellation,
        }
    }
}

/// How a job has ended, or that it has not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobStatus {
    /// It runs, or is about to.
    Running,
    /// It has nothing more to do.
    Finished,
    /// Somebody ended it.
    Canceled,
    /// It ended with an error.
    Failed,
    /// This process gives it up; another one goes on with it.
    Suspended,
}

impl JobStatus {
    /// Whether the job ends for good.
    #[must_use]
    pub const fn is_terminal(self) -> bool {
        matches!(self, Self::Finished | Self::Canceled | Self::Failed)
    }
}

/// What a completed checkpoint is to its job, and so when it is discarded (Flink: `CheckpointProperties`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckpointKind {
    /// The job's own.
    Checkpoint(RetentionPolicy),
    /// One that a person asked for and owns.
    Savepoint,
    /// The savepoint with which a job stops.
    SynchronousSavepoint,
    /// What the job was started from without owning it.
    Unclaimed,
}

impl CheckpointKind {
    /// Whether it counts as a savepoint when the oldest are dropped (rule S6).
    #[must_use]
    pub const fn is_savepoint(self) -> bool {
        !matches!(self, Self::Checkpoint(_))
    }

    /// Whether it is discarded when newer ones take its place.
    #[must_use]
    pub const fn is_discarded_when_subsumed(self) -> bool {
        matches!(self, Self::Checkpoint(_))
    }

    /// Whether it is discarded when its job ends so (rule S2).
    #[must_use]
    pub const fn is_discarded_at(self, status: JobStatus) -> bool {
        let Self::Checkpoint(policy) = self else { return false };
        match status {
            JobStatus::Running => false,
            JobStatus::Finished => true,
            JobStatus::Canceled | JobStatus::Suspended => {
                !matches!(policy, RetentionPolicy::RetainOnCancellation)
            }
            JobStatus::Failed => matches!(policy, RetentionPolicy::NeverRetain),
        }
    }
}

/// Who owns the snapshot that a job is started from (Flink: `RecoveryClaimMode`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClaimMode {
    /// The job: it may build on it, and deletes it when it is no longer needed (rule V5).
    Claim,
    /// Whoever owned it before: the job never deletes it, and its first checkpoint is a full one (rule V6).
    #[default]
    NoClaim,
}

impl ClaimMode {
    /// Every mode there is (rule V7).
    pub const ALL: &'static [Self] = &[Self::Claim, Self::NoClaim];

    /// The name under which users of Flink know it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Claim => "CLAIM",
            Self::NoClaim => "NO_CLAIM",
        }
    }

    /// What the snapshot is to a job that keeps its own checkpoints by `policy` (rule S34).
    #[must_use]
    pub const fn kind_of_restored(self, policy: RetentionPolicy) -> CheckpointKind {
        match self {
            Self::Claim => CheckpointKind::Checkpoint(policy),
            Self::NoClaim => CheckpointKind::Unclaimed,
        }
    }
}

impl fmt::Display for ClaimMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl SnapshotKind {
    /// Whether it may refer to files of earlier ones (rule V3).
    #[must_use]
    pub const fn may_build_on_earlier(self) -> bool {
        matches!(self, Self::Checkpoint)
    }

    /// Whether later ones may refer to its files (rule V3).
    #[must_use]
    pub const fn may_be_built_on(self) -> bool {
        !self.is_savepoint()
    }

    /// What is triggered instead while the next checkpoint must be full (rule V8).
    #[must_use]
    pub const fn when_full_is_forced(self, is_forced: bool) -> Self {
        if is_forced && matches!(self, Self::Checkpoint) { Self::FullCheckpoint } else { self }
    }
}

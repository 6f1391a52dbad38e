//! The identifiers that travel between machines.

mod alignment;

use core::fmt;

use crate::time::Millis;

pub use alignment::{Alignment, AlignmentOptions, Guarantee};

/// Number of a checkpoint; the first one ever triggered is 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CheckpointId(pub u64);

impl CheckpointId {
    /// The id of the first checkpoint of a job.
    pub const FIRST: Self = Self(1);

    /// The id that follows this one.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

impl fmt::Display for CheckpointId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// An input channel of a subtask, counted from zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChannelIndex(pub u16);

/// A subtask of the job, counted from zero over all operators.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskIndex(pub u16);

/// The mark that travels through the stream and separates what a checkpoint covers from what it does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Barrier {
    /// The checkpoint it belongs to.
    pub id: CheckpointId,
    /// Wall-clock time at which the coordinator triggered the checkpoint.
    pub triggered_at: Millis,
    /// What the checkpoint is for.
    pub kind: SnapshotKind,
    /// How the barrier passes records.
    pub alignment: Alignment,
}

/// What a snapshot is for, and so who owns it and what it may share (rules V1 and V3; Flink: `SnapshotType`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SnapshotKind {
    /// A checkpoint of the job's own, which may share files with earlier and later ones.
    #[default]
    Checkpoint,
    /// A checkpoint that shares nothing with earlier ones.
    FullCheckpoint,
    /// A copy for the user, shared with nothing.
    Savepoint(SavepointFormat),
    /// A savepoint with which the job ends; what lies in windows and timers stays in it.
    Suspend(SavepointFormat),
    /// A savepoint with which the job ends, after the operators have emitted all they had.
    Drain(SavepointFormat),
}

impl SnapshotKind {
    /// Whether the user owns the result.
    #[must_use]
    pub const fn is_savepoint(self) -> bool {
        self.savepoint_format().is_some()
    }

    /// Whether the job ends with it (Flink: synchronous savepoint).
    #[must_use]
    pub const fn is_synchronous(self) -> bool {
        matches!(self, Self::Suspend(_) | Self::Drain(_))
    }

    /// In which format, if it is a savepoint.
    #[must_use]
    pub const fn savepoint_format(self) -> Option<SavepointFormat> {
        match self {
            Self::Checkpoint | Self::FullCheckpoint => None,
            Self::Savepoint(format) | Self::Suspend(format) | Self::Drain(format) => Some(format),
        }
    }
}

/// How a savepoint is written (rule V2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SavepointFormat {
    /// A layout that every backend reads.
    #[default]
    Canonical,
    /// The backend's own.
    Native,
}

//! The identifiers that travel between machines.

use core::fmt;

use crate::time::Millis;

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
    /// How the barrier passes records.
    pub alignment: Alignment,
}

/// How a barrier passes the records that lie before it in a channel (Flink: `CheckpointOptions`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Alignment {
    /// It keeps its place; channels wait for each other.
    Aligned,
}

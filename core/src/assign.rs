//! Which state goes to which subtask when a job is restored, with the same parallelism or another.
//!
//! The answers are Flink's (`StateAssignmentOperation`, `RoundRobinOperatorStateRepartitioner`,
//! `SubtaskStateMapper`). Each new subtask can work out its own part alone, from how many partitions the old
//! ones had; nothing is allocated, and what an iterator costs is one step for each old subtask.

#![deny(clippy::arithmetic_side_effects)]

use core::fmt;
use core::num::NonZeroU32;

use crate::key_group::{InvalidParallelism, MaxParallelism, range_of_subtask};

mod channel;
mod keyed;
mod matching;
mod operator;
#[cfg(test)]
mod tests;

pub use channel::{ChannelMapping, OldSubtasks, check_in_flight_owners, old_channels};
pub use keyed::{KeyedPart, KeyedParts};
pub use matching::{
    ChainRestore, JobOperator, MatchError, NonRestored, StoredOperator, operator_of, restore_chain,
};
pub use operator::{OperatorAssigner, OperatorPart, OperatorParts, StateAssignment};

/// From how many subtasks to how many an operator goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rescaling {
    max_parallelism: MaxParallelism,
    old: NonZeroU32,
    new: NonZeroU32,
}

impl Rescaling {
    /// Of an operator that was stored with `old` subtasks and shall have `new` ones.
    ///
    /// # Errors
    /// Either is not within 1 and `max_parallelism` (rules R6 and R14).
    pub fn new(max_parallelism: MaxParallelism, old: u32, new: u32) -> Result<Self, AssignError> {
        let checked = |parallelism| {
            range_of_subtask(max_parallelism, parallelism, 0)?;
            NonZeroU32::new(parallelism)
                .ok_or(InvalidParallelism::Parallelism { parallelism, max_parallelism })
        };
        Ok(Self { max_parallelism, old: checked(old)?, new: checked(new)? })
    }

    /// Whether there are as many subtasks as there were.
    #[must_use]
    pub const fn is_unchanged(self) -> bool {
        self.old.get() == self.new.get()
    }

    fn check_new(self, index: u32) -> Result<(), AssignError> {
        let parallelism = self.new.get();
        if index < parallelism {
            return Ok(());
        }
        Err(InvalidParallelism::Subtask { index, parallelism }.into())
    }
}

/// The number of key groups to go on with (rules R2 and R6): the stored one, unless the job insists on another.
///
/// # Errors
/// `set_by_job` differs from `stored`: keys would change their key groups.
pub fn restored_max_parallelism(
    stored: MaxParallelism,
    set_by_job: Option<MaxParallelism>,
) -> Result<MaxParallelism, AssignError> {
    match set_by_job {
        Some(wanted) if wanted != stored => Err(AssignError::MaxParallelismDiffers { stored, wanted }),
        Some(_) | None => Ok(stored),
    }
}

/// Why stored state cannot be given out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AssignError {
    /// A number of subtasks or an index is out of bounds.
    Parallelism(InvalidParallelism),
    /// The job sets a number of key groups that is not the stored one.
    MaxParallelismDiffers {
        /// As stored.
        stored: MaxParallelism,
        /// As the job has it.
        wanted: MaxParallelism,
    },
    /// A state is described by more or fewer old subtasks than there were.
    WrongSubtaskCount {
        /// How many describe it.
        given: usize,
        /// How many there were.
        old_parallelism: u32,
    },
    /// The partitions of a state are more than can be counted.
    TooManyPartitions,
    /// A state that belongs to its subtask alone, or records in flight on such a channel, and the number of
    /// subtasks has changed.
    NotRescalable {
        /// What it is.
        what: &'static str,
        /// How many subtasks there were.
        old_parallelism: u32,
        /// How many there shall be.
        new_parallelism: u32,
    },
    /// Records in flight were stored with an operator that now is not the head of its chain.
    InFlightBehindHead {
        /// Its place in the chain; the head's is 0.
        position: usize,
    },
    /// Two inputs of an operator, or two outputs, give the old subtasks to the new ones in different ways.
    ConflictingMappings {
        /// That of the first.
        one: ChannelMapping,
        /// That of the other.
        other: ChannelMapping,
    },
}

impl fmt::Display for AssignError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Parallelism(error) => error.fmt(f),
            Self::MaxParallelismDiffers { stored, wanted } => write!(
                f,
                "the state was stored with maximum parallelism {stored}, the job sets {wanted}: set {stored} or none"
            ),
            Self::WrongSubtaskCount { given, old_parallelism } => {
                write!(f, "{given} subtasks describe a state that {old_parallelism} subtasks stored")
            }
            Self::TooManyPartitions => f.write_str("the partitions of a state are more than 2^64"),
            Self::NotRescalable { what, old_parallelism, new_parallelism } => write!(
                f,
                "{what} cannot go from {old_parallelism} subtasks to {new_parallelism}: restore with {old_parallelism}"
            ),
            Self::InFlightBehindHead { position } => write!(
                f,
                "records in flight belong to operator {position} of a chain, behind its head: chain the operators as before"
            ),
            Self::ConflictingMappings { one, other } => write!(
                f,
                "channels of one operator would be rescaled in different ways ({one:?}, {other:?}): restore with the stored parallelism"
            ),
        }
    }
}

impl core::error::Error for AssignError {}

impl From<InvalidParallelism> for AssignError {
    fn from(error: InvalidParallelism) -> Self {
        Self::Parallelism(error)
    }
}

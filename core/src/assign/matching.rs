use core::fmt;

use super::{AssignError, Rescaling, restored_max_parallelism};
use crate::key_group::MaxParallelism;

/// An operator as a checkpoint has it. `I` is its lasting name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredOperator<I> {
    /// Its name.
    pub id: I,
    /// Its subtasks.
    pub parallelism: u32,
    /// Its key groups.
    pub max_parallelism: MaxParallelism,
    /// Whether any subtask, or its coordinator, has state.
    pub has_state: bool,
    /// Whether any of that is kept by key.
    pub is_keyed: bool,
}

/// An operator as the job has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JobOperator<I> {
    /// Its name.
    pub id: I,
    /// Another name under which checkpoints may know it.
    pub other_id: Option<I>,
    /// Its subtasks.
    pub parallelism: u32,
    /// Its key groups, if the job sets them.
    pub max_parallelism: Option<MaxParallelism>,
}

/// What becomes of state whose operator the job does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NonRestored {
    /// It is dropped; whoever calls says so to the user.
    Dropped,
    /// It is an error if there is any: a savepoint may name operators that had none.
    RefusedIfAny,
    /// It is an error, state or not: the job is the one that made the checkpoint.
    Refused,
}

/// Why a checkpoint does not fit a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MatchError<I> {
    /// The job lacks an operator.
    NoOperator {
        /// Which.
        operator: I,
    },
    /// Two operators of one chain were stored with different numbers of key groups.
    ChainDisagrees {
        /// The first.
        operator: I,
        /// Its key groups.
        max_parallelism: MaxParallelism,
        /// The other.
        other: I,
        /// Its key groups.
        other_max_parallelism: MaxParallelism,
    },
    /// The state cannot be given to the operator's subtasks.
    Assign {
        /// The operator.
        operator: I,
        /// Why not.
        error: AssignError,
    },
}

/// How a chain of operators goes on from a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChainRestore {
    /// The key groups to go on with.
    pub max_parallelism: MaxParallelism,
    /// From how many subtasks to how many; none: there is nothing to restore.
    pub rescaling: Option<Rescaling>,
}

/// The operator of the job that stored state belongs to (rules R1, R3 and R5): the one of that name, or else one that
/// goes by it too. None if it is dropped.
///
/// # Errors
/// [`MatchError::NoOperator`].
pub fn operator_of<'j, I: PartialEq + Copy>(
    stored: &StoredOperator<I>,
    job: &'j [JobOperator<I>],
    non_restored: NonRestored,
) -> Result<Option<&'j JobOperator<I>>, MatchError<I>> {
    let by_name = job.iter().find(|operator| operator.id == stored.id);
    let found = by_name.or_else(|| job.iter().find(|operator| operator.other_id == Some(stored.id)));
    let is_dropped = match non_restored {
        NonRestored::Dropped => true,
        NonRestored::RefusedIfAny => !stored.has_state,
        NonRestored::Refused => false,
    };
    if found.is_none() && !is_dropped {
        return Err(MatchError::NoOperator { operator: stored.id });
    }
    Ok(found)
}

/// How the operators of one chain go on together (rules R2, R6 and R7). One that the checkpoint does not have starts
/// with nothing; `default` is the number of key groups of a job that sets none and has nothing to restore.
///
/// # Errors
/// [`MatchError::ChainDisagrees`], and [`MatchError::Assign`] with [`AssignError::MaxParallelismDiffers`] or
/// [`AssignError::Parallelism`].
pub fn restore_chain<I: PartialEq + Copy>(
    chain: &[JobOperator<I>],
    stored: &[StoredOperator<I>],
    default: MaxParallelism,
) -> Result<ChainRestore, MatchError<I>> {
    let of_chain = |stored: &&StoredOperator<I>| {
        stored.has_state && matches!(operator_of(stored, chain, NonRestored::Dropped), Ok(Some(_)))
    };
    let mut found = stored.iter().filter(of_chain);
    let wanted = chain.iter().find_map(|operator| operator.max_parallelism);
    let keyed = chain_key_groups(found.clone().filter(|stored| stored.is_keyed))?;
    let max_parallelism = match keyed {
        Some((operator, stored)) => restored_max_parallelism(stored, wanted)
            .map_err(|error| MatchError::Assign { operator, error })?,
        None => wanted.unwrap_or(default),
    };
    let Some((first, subtasks)) = found.next().zip(chain.first()) else {
        return Ok(ChainRestore { max_parallelism, rescaling: None });
    };
    let checked_against =
        if keyed.is_some() { max_parallelism } else { max_parallelism.max(first.max_parallelism) };
    let rescaling = Rescaling::new(checked_against, first.parallelism, subtasks.parallelism)
        .map_err(|error| MatchError::Assign { operator: first.id, error })?;
    Ok(ChainRestore { max_parallelism, rescaling: Some(rescaling) })
}

/// The key groups that all of them were stored with.
fn chain_key_groups<'s, I: Copy + 's>(
    mut keyed: impl Iterator<Item = &'s StoredOperator<I>>,
) -> Result<Option<(I, MaxParallelism)>, MatchError<I>> {
    let Some(first) = keyed.next() else { return Ok(None) };
    match keyed.find(|other| other.max_parallelism != first.max_parallelism) {
        None => Ok(Some((first.id, first.max_parallelism))),
        Some(other) => Err(MatchError::ChainDisagrees {
            operator: first.id,
            max_parallelism: first.max_parallelism,
            other: other.id,
            other_max_parallelism: other.max_parallelism,
        }),
    }
}

impl<I: fmt::Display> fmt::Display for MatchError<I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoOperator { operator } => write!(
                f,
                "the checkpoint has state of operator {operator}, which is not in the job: allow it to be dropped, or add the operator"
            ),
            Self::ChainDisagrees { operator, max_parallelism, other, other_max_parallelism } => write!(
                f,
                "operators {operator} and {other} of one chain were stored with maximum parallelism {max_parallelism} and {other_max_parallelism}: separate them"
            ),
            Self::Assign { operator, error } => write!(f, "operator {operator}: {error}"),
        }
    }
}

impl<I: fmt::Debug + fmt::Display> core::error::Error for MatchError<I> {}

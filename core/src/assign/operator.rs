use core::num::NonZeroU64;
use core::ops::Range;

use super::{AssignError, Rescaling};
use crate::format::manifest::StateMode;

/// Gives out the states of one operator that have partitions instead of keys, one state after the other. Raw
/// operator state is a split state among them (rule R14).
#[derive(Clone, Debug)]
pub struct OperatorAssigner {
    rescaling: Rescaling,
    /// The new subtask where the next split state begins, so that small states spread over different ones.
    split_start: u32,
}

/// How the partitions of one state are given out.
#[derive(Clone, Debug)]
pub struct StateAssignment<'c> {
    rescaling: Rescaling,
    mode: StateMode,
    counts: &'c [Option<u64>],
    total: u64,
    split_start: u32,
}

/// Partitions that a new subtask takes over from an old one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperatorPart {
    /// The old subtask.
    pub subtask: u32,
    /// Which of its partitions, counted from 0.
    pub partitions: Range<u64>,
    /// Which partition of the new subtask the first of them becomes.
    pub at: u64,
}

/// Iterator over the parts of a new subtask's state: old subtasks ascending, none without partitions.
#[derive(Clone, Debug)]
pub struct OperatorParts<'c> {
    counts: &'c [Option<u64>],
    /// What is wanted of the partitions of all old subtasks, one behind the other.
    wanted: Range<u64>,
    next: usize,
    /// Partitions of the old subtasks before `next`.
    before: u64,
}

impl OperatorAssigner {
    /// For the states of one operator.
    #[must_use]
    pub const fn new(rescaling: Rescaling) -> Self {
        Self { rescaling, split_start: 0 }
    }

    /// Gives out the next state. `counts` says how many partitions each old subtask had of it; none, that the
    /// subtask did not have the state. The states must come in the same order at every new subtask.
    ///
    /// # Errors
    /// `WrongSubtaskCount`, `TooManyPartitions`; `NotRescalable` for [`StateMode::Plain`].
    pub fn next_state<'c>(
        &mut self,
        mode: StateMode,
        counts: &'c [Option<u64>],
    ) -> Result<StateAssignment<'c>, AssignError> {
        let Rescaling { old, new, .. } = self.rescaling;
        if counts.len() != old.get() as usize {
            return Err(AssignError::WrongSubtaskCount { given: counts.len(), old_parallelism: old.get() });
        }
        let total = counts.iter().flatten().try_fold(0_u64, |sum, count| sum.checked_add(*count));
        let total = total.ok_or(AssignError::TooManyPartitions)?;
        let split_start = self.split_start;
        match mode {
            StateMode::Split if !self.rescaling.is_unchanged() => {
                // The next one begins where the odd partitions of this one ran out.
                let new = NonZeroU64::from(new);
                let behind = (total % new).saturating_add(split_start.into()) % new;
                self.split_start = u32::try_from(behind).unwrap_or(0);
            }
            StateMode::Plain if !self.rescaling.is_unchanged() => {
                return Err(AssignError::NotRescalable {
                    what: "a state of a subtask's own",
                    old_parallelism: old.get(),
                    new_parallelism: new.get(),
                });
            }
            StateMode::Split | StateMode::Union | StateMode::Broadcast | StateMode::Plain => {}
        }
        Ok(StateAssignment { rescaling: self.rescaling, mode, counts, total, split_start })
    }
}

impl<'c> StateAssignment<'c> {
    /// What new subtask `index` gets (rules R11 and R12).
    ///
    /// # Errors
    /// There is no such new subtask.
    pub fn parts(&self, index: u32) -> Result<OperatorParts<'c>, AssignError> {
        self.rescaling.check_new(index)?;
        let wanted = match self.mode {
            StateMode::Union => 0..self.total,
            StateMode::Broadcast => self.copy_for(index),
            StateMode::Split if !self.rescaling.is_unchanged() => self.share_of(index),
            StateMode::Split | StateMode::Plain => self.partitions_of(index as usize),
        };
        Ok(OperatorParts { counts: self.counts, wanted, next: 0, before: 0 })
    }

    /// How many partitions that is. One step for each old subtask at most.
    ///
    /// # Errors
    /// There is no such new subtask.
    pub fn len(&self, index: u32) -> Result<u64, AssignError> {
        let wanted = self.parts(index)?.wanted;
        Ok(wanted.end.saturating_sub(wanted.start))
    }

    /// Partitions are dealt out in runs: an equal share to each new subtask, and the odd ones, from
    /// `split_start` on and around, one more.
    fn share_of(&self, index: u32) -> Range<u64> {
        let new = NonZeroU64::from(self.rescaling.new);
        let (share, odd) = (self.total / new, self.total % new);
        let turn = u64::from(index).saturating_add(new.get()).saturating_sub(self.split_start.into()) % new;
        let start = turn.saturating_mul(share).saturating_add(turn.min(odd));
        start..start.saturating_add(share).saturating_add((turn < odd).into())
    }

    /// All copies say the same. The subtask's own is taken if the parallelism is the same; otherwise, or if it
    /// had none because it had finished, those that are there are taken in turn.
    fn copy_for(&self, index: u32) -> Range<u64> {
        let own = self.counts.get(index as usize).is_some_and(Option::is_some);
        if own && self.rescaling.is_unchanged() {
            return self.partitions_of(index as usize);
        }
        let mut copies = (0..).zip(self.counts).filter(|(_, count)| count.is_some()).map(|(at, _)| at);
        let turn = (index as usize).checked_rem(copies.clone().count());
        turn.and_then(|turn| copies.nth(turn)).map_or(0..0, |at| self.partitions_of(at))
    }

    /// Where the partitions of an old subtask lie among those of all.
    fn partitions_of(&self, subtask: usize) -> Range<u64> {
        let start =
            self.counts.iter().take(subtask).flatten().fold(0_u64, |sum, count| sum.saturating_add(*count));
        let count = self.counts.get(subtask).copied().flatten().unwrap_or(0);
        start..start.saturating_add(count)
    }
}

impl Iterator for OperatorParts<'_> {
    type Item = OperatorPart;

    fn next(&mut self) -> Option<OperatorPart> {
        loop {
            let count = self.counts.get(self.next)?.unwrap_or(0);
            let (subtask, first) = (u32::try_from(self.next).ok()?, self.before);
            self.next = self.next.saturating_add(1);
            self.before = first.saturating_add(count);
            let from = first.max(self.wanted.start);
            let to = self.before.min(self.wanted.end);
            if from < to {
                let partitions = from.saturating_sub(first)..to.saturating_sub(first);
                return Some(OperatorPart {
                    subtask,
                    partitions,
                    at: from.saturating_sub(self.wanted.start),
                });
            }
        }
    }
}

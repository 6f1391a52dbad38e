use super::{AssignError, Rescaling};
use crate::key_group::{KeyGroupRange, range_of_subtask, subtask_of_key_group};

/// Key groups that a new subtask takes over from an old one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyedPart {
    /// The old subtask.
    pub subtask: u32,
    /// The key groups of it.
    pub key_groups: KeyGroupRange,
}

/// Iterator over the parts of a new subtask's keyed state.
#[derive(Clone, Debug)]
pub struct KeyedParts {
    rescaling: Rescaling,
    wanted: KeyGroupRange,
    next: u32,
    last: u32,
}

impl Rescaling {
    /// Where the keyed state of new subtask `index`, raw or not, lies: the old subtasks in order, each with the
    /// key groups that both own (rules R8 and R9). Together they are just the new subtask's key groups.
    ///
    /// # Errors
    /// There is no such new subtask.
    pub fn keyed_parts(self, index: u32) -> Result<KeyedParts, AssignError> {
        let wanted = range_of_subtask(self.max_parallelism, self.new.get(), index)?;
        let owner = |group| subtask_of_key_group(self.max_parallelism, self.old.get(), group);
        Ok(KeyedParts { rescaling: self, wanted, next: owner(wanted.first)?, last: owner(wanted.last)? })
    }
}

impl Iterator for KeyedParts {
    type Item = KeyedPart;

    fn next(&mut self) -> Option<KeyedPart> {
        if self.next > self.last {
            return None;
        }
        let subtask = self.next;
        self.next = subtask.saturating_add(1);
        let Rescaling { max_parallelism, old, .. } = self.rescaling;
        let owned = range_of_subtask(max_parallelism, old.get(), subtask).ok()?;
        Some(KeyedPart { subtask, key_groups: owned.intersect(self.wanted)? })
    }
}

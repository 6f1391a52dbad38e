//! State of operators without a key: lists of byte strings, which lie in the manifest of a checkpoint (Flink: `ListState` of
//! the `OperatorStateStore`).
//!
//! They are for kilobytes: the coordinator holds all of them until the manifest is written. What grows with the data belongs
//! into [keyed state](crate::keyed).

use std::fmt;

use crate::checkpoint::{InlineState, Redistribution, RestoredStates};
use crate::operator::{OperatorError, SubtaskInfo};

/// Takes the lists that an operator gives to a checkpoint.
#[derive(Debug)]
pub struct ListStates<'a> {
    operator: &'a str,
    lists: &'a mut Vec<InlineState>,
}

impl<'a> ListStates<'a> {
    pub(crate) const fn new(operator: &'a str, lists: &'a mut Vec<InlineState>) -> Self {
        Self { operator, lists }
    }

    /// A list whose elements are this subtask's. As many subtasks each get back what they had, another number of them equal
    /// shares of all (rules R11 and R12).
    ///
    /// # Errors
    /// There is one of this name.
    pub fn split(&mut self, name: &str, elements: Vec<Vec<u8>>) -> Result<(), OperatorError> {
        self.add(name, Redistribution::Split, elements)
    }

    /// A list of which every subtask gets the elements of all subtasks, in their order (rules R11 and R12). Whoever writes
    /// back what it got lets it grow with each restore.
    ///
    /// # Errors
    /// There is one of this name.
    pub fn union(&mut self, name: &str, elements: Vec<Vec<u8>>) -> Result<(), OperatorError> {
        self.add(name, Redistribution::Union, elements)
    }

    fn add(
        &mut self,
        name: &str,
        redistribution: Redistribution,
        partitions: Vec<Vec<u8>>,
    ) -> Result<(), OperatorError> {
        if self.lists.iter().any(|list| list.operator == self.operator && list.name == name) {
            return Err(OperatorError::beyond_restart(format!("two of its lists are named {name}")));
        }
        let operator = self.operator.to_owned();
        self.lists.push(InlineState { operator, name: name.to_owned(), redistribution, partitions });
        Ok(())
    }
}

/// Gives an operator its part of the lists of the restored checkpoint.
pub struct RestoredLists<'a> {
    operator: &'a str,
    info: &'a SubtaskInfo,
    restored: &'a RestoredStates<'a>,
}

impl<'a> RestoredLists<'a> {
    /// None if the checkpoint does not know the operator.
    pub(crate) fn of(
        operator: &'a str,
        info: &'a SubtaskInfo,
        restored: &'a RestoredStates<'a>,
    ) -> Option<Self> {
        restored.knows(operator).then_some(Self { operator, info, restored })
    }

    /// What this subtask gets of a list, whatever sort it is of; nothing of one that the checkpoint does not have.
    ///
    /// # Errors
    /// The old subtasks do not agree on what sort of state it is.
    pub fn list(&self, name: &str) -> Result<Vec<Vec<u8>>, OperatorError> {
        let part = self.restored.part_of(self.operator, name, self.info.index, self.info.parallelism);
        part.map_err(|error| OperatorError::new(error.to_string()))
    }
}

impl fmt::Debug for RestoredLists<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RestoredLists").field("operator", &self.operator).finish_non_exhaustive()
    }
}

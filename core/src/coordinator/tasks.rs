//! What is known of the tasks' executions.

use super::{Attempt, Graph, TaskSet};
use crate::ids::TaskIndex;

/// The tasks of a job and how far each of them is.
#[derive(Clone, Debug)]
pub(super) struct Tasks<const TASK_WORDS: usize> {
    pub(super) all: TaskSet<TASK_WORDS>,
    pub(super) sources: TaskSet<TASK_WORDS>,
    pub(super) running: TaskSet<TASK_WORDS>,
    pub(super) finished: TaskSet<TASK_WORDS>,
    attempts: [[u16; 32]; TASK_WORDS],
}

impl<const TASK_WORDS: usize> Tasks<TASK_WORDS> {
    pub(super) fn of(graph: &impl Graph<TASK_WORDS>) -> Self {
        let all = graph.tasks();
        Self {
            all,
            sources: all.iter().filter(|task| graph.predecessors(TaskIndex(*task)).is_empty()).collect(),
            running: TaskSet::empty(),
            finished: TaskSet::empty(),
            attempts: [[0; 32]; TASK_WORDS],
        }
    }

    pub(super) fn attempt_mut(&mut self, task: TaskIndex) -> Option<&mut u16> {
        self.attempts.get_mut(usize::from(task.0 / 32))?.get_mut(usize::from(task.0 % 32))
    }

    fn number(&self, task: TaskIndex) -> Option<u16> {
        self.attempts.get(usize::from(task.0 / 32))?.get(usize::from(task.0 % 32)).copied()
    }

    pub(super) fn is_current(&self, attempt: Attempt) -> bool {
        self.number(attempt.task) == Some(attempt.number)
    }

    pub(super) fn is_replaced(&self, attempt: Attempt) -> bool {
        self.number(attempt.task).is_some_and(|number| attempt.number < number)
    }

    /// Whether some execution is pending (rule T6).
    pub(super) fn has_pending(&self) -> bool {
        !self.all.is_subset(&self.running.union(&self.finished))
    }
}

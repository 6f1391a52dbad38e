//! Whether a job may be restored where some of its vertices had finished (Flink: `VertexFinishedStateChecker`).

use core::fmt;

use super::graph::{EdgePattern, JobGraph};

/// How much of a vertex had finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FinishedState {
    /// No subtask.
    Running,
    /// Some subtasks.
    Partly,
    /// Every subtask.
    Fully,
}

impl FinishedState {
    /// What the operators of one vertex say of it; none if they contradict each other (rule P37). A vertex without
    /// stored operators was running.
    #[must_use]
    pub fn agreed(operators: impl IntoIterator<Item = Self>) -> Option<Self> {
        let mut operators = operators.into_iter();
        let first = operators.next().unwrap_or(Self::Running);
        operators.all(|other| other == first).then_some(first)
    }
}

/// Why a job cannot be restored: its graph was changed where it had finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModifiedGraph {
    /// The vertex that had finished.
    pub vertex: u16,
    /// One from which it reads, and which had not finished far enough.
    pub predecessor: u16,
}

impl fmt::Display for ModifiedGraph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { vertex, predecessor } = self;
        write!(f, "vertex {vertex} had finished, but vertex {predecessor}, from which it reads, would go on")
    }
}

impl core::error::Error for ModifiedGraph {}

impl<const TASK_WORDS: usize, const VERTICES: usize, const EDGES: usize>
    JobGraph<TASK_WORDS, VERTICES, EDGES>
{
    /// Whether vertices in these states, in order, fit this graph: who has finished must not be sent anything. Missing
    /// states count as running (rule P37).
    ///
    /// # Errors
    /// [`ModifiedGraph`] names the first place where they do not.
    pub fn check_finished(&self, states: &[FinishedState]) -> Result<(), ModifiedGraph> {
        let state = |vertex: u16| states.get(usize::from(vertex)).copied().unwrap_or(FinishedState::Running);
        for vertex in 0..self.vertex_count() {
            for edge in self.edges_to(vertex) {
                let least = match (state(vertex), edge.pattern) {
                    (FinishedState::Running, _) => FinishedState::Running,
                    (FinishedState::Partly, EdgePattern::Pointwise) => FinishedState::Partly,
                    (FinishedState::Partly, EdgePattern::AllToAll) | (FinishedState::Fully, _) => {
                        FinishedState::Fully
                    }
                };
                if state(edge.from) < least {
                    return Err(ModifiedGraph { vertex, predecessor: edge.from });
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::FinishedState::{self, Fully, Partly, Running};
    use super::{EdgePattern, JobGraph, ModifiedGraph};
    use crate::coordinator::Edge;

    #[test]
    fn p37_operators_of_a_vertex_have_to_agree() {
        assert_eq!(FinishedState::agreed([Partly, Partly]), Some(Partly));
        assert_eq!(FinishedState::agreed([Fully, Running]), None);
        assert_eq!(FinishedState::agreed([Partly, Fully]), None);
        assert_eq!(FinishedState::agreed([]), Some(Running));
    }

    #[test]
    fn p37_nothing_may_be_sent_to_what_had_finished() {
        use EdgePattern::{AllToAll, Pointwise};
        let fits = |pattern: &[EdgePattern], states: [FinishedState; 2]| {
            let mut graph = JobGraph::<1, 2, 2>::new();
            graph.add_vertex(2).unwrap();
            graph.add_vertex(2).unwrap();
            for pattern in pattern {
                graph.add_edge(Edge { from: 0, to: 1, pattern: *pattern }).unwrap();
            }
            let checked = graph.check_finished(&states);
            assert!(checked.is_ok() || checked == Err(ModifiedGraph { vertex: 1, predecessor: 0 }));
            checked.is_ok()
        };
        let expected = [
            ([Running, Running], true, true),
            ([Running, Partly], false, false),
            ([Running, Fully], false, false),
            ([Partly, Running], true, true),
            ([Partly, Partly], false, true),
            ([Partly, Fully], false, false),
            ([Fully, Running], true, true),
            ([Fully, Partly], true, true),
            ([Fully, Fully], true, true),
        ];
        for (states, all_to_all, pointwise) in expected {
            assert_eq!(fits(&[AllToAll], states), all_to_all, "{states:?}");
            assert_eq!(fits(&[Pointwise], states), pointwise, "{states:?}");
            assert_eq!(fits(&[Pointwise, AllToAll], states), all_to_all, "{states:?}");
            assert!(fits(&[], states), "nobody sends anything");
        }
    }
}

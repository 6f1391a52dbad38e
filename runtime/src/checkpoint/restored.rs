//! What the operators of a job take over from a checkpoint.

use std::collections::{BTreeMap, BTreeSet};

use slackwater_core::assign::AssignError;
use slackwater_core::coordinator::FinishedState;
use slackwater_core::ids::CheckpointId;
use slackwater_mem::in_flight::InFlight;
use slackwater_mem::segment::SegmentRef;

use super::{Manifest, VertexPart, assigned};

/// The inline states of the checkpoint that a job starts from, or of none.
/// Operators are asked for by the names that they have in the job.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RestoredStates<'m> {
    manifest: Option<&'m Manifest>,
    captured: &'m [Vec<InFlight>],
    previous: &'m Previous,
}

impl<'m> RestoredStates<'m> {
    pub(crate) const fn new(manifest: Option<&'m Manifest>, captured: &'m [Vec<InFlight>]) -> Self {
        Self { manifest, captured, previous: &NO_PREVIOUS }
    }

    /// For a job whose operators may have had other names.
    pub(crate) const fn with_previous(self, previous: &'m Previous) -> Self {
        Self { previous, ..self }
    }

    /// Whether the checkpoint has state of an operator.
    pub(crate) fn knows(&self, operator: &str) -> bool {
        self.vertex_of(operator).is_some()
    }

    /// The name by which the checkpoint knows an operator, if it does (rule R1).
    pub(crate) fn stored_name<'n>(&self, operator: &'n str) -> &'n str
    where
        'm: 'n,
    {
        let previous = self.previous.of(operator).filter(|_| self.stored_vertex(operator).is_none());
        previous.filter(|name| self.stored_vertex(name).is_some()).unwrap_or(operator)
    }

    /// The vertex that had an operator, which had this name then.
    fn stored_vertex(&self, name: &str) -> Option<&'m VertexPart> {
        self.manifest?.vertices.iter().find(|vertex| vertex.name == name || vertex.has_state_of(name))
    }

    pub(crate) fn checkpoint(&self) -> Option<CheckpointId> {
        self.manifest.map(|manifest| manifest.id)
    }

    /// All partitions of a state, in the order of the old subtasks.
    pub(crate) fn partitions(&self, operator: &str, name: &str) -> Vec<Vec<u8>> {
        let operator = self.stored_name(operator);
        let subtasks = self.manifest.iter().flat_map(|m| &m.vertices).flat_map(|vertex| &vertex.subtasks);
        subtasks
            .flat_map(|subtask| &subtask.inline)
            .filter(|state| state.operator == operator && state.name == name)
            .flat_map(|state| state.partitions.iter().cloned())
            .collect()
    }

    /// The partitions of a state that subtask `index` of `parallelism` takes over (rules R11 to R14).
    pub(crate) fn part_of(
        &self,
        operator: &str,
        name: &str,
        index: u16,
        parallelism: u16,
    ) -> Result<Vec<Vec<u8>>, AssignError> {
        let stored = self.stored_name(operator);
        self.stored_vertex(stored)
            .map_or(Ok(Vec::new()), |vertex| assigned::partitions(vertex, (stored, name), index, parallelism))
    }

    /// The segments of a keyed operator, in the order of the old subtasks.
    pub(crate) fn segments(&self, operator: &str) -> impl Iterator<Item = &'m SegmentRef> {
        self.segments_by_subtask(operator).flatten()
    }

    /// The same for every old subtask, those without one included.
    pub(crate) fn segments_by_subtask(&self, operator: &str) -> impl Iterator<Item = Option<&'m SegmentRef>> {
        let stored = self.stored_name(operator);
        let vertex = self.manifest.into_iter().flat_map(|m| &m.vertices).find(|vertex| vertex.name == stored);
        vertex.into_iter().flat_map(|v| &v.subtasks).map(|part| part.segment.as_ref())
    }

    /// What was in flight to each old subtask of a vertex, in their order.
    pub(crate) fn in_flight(&self, vertex: &str) -> &'m [InFlight] {
        let vertices = self.manifest.map_or(&[][..], |manifest| &manifest.vertices);
        let stored = self.stored_name(vertex);
        let at = vertices.iter().position(|vertex| vertex.name == stored);
        at.and_then(|at| self.captured.get(at)).map_or(&[], Vec::as_slice)
    }

    /// Whether every subtask of the vertices that had these operators had emitted everything; none if some had and others
    /// had not. Subtasks of a vertex differ only where sources do, and a source that goes on from its end ends at once.
    pub(crate) fn is_drained(&self, operators: &[String]) -> Option<bool> {
        let vertices = operators.iter().filter_map(|operator| self.vertex_of(operator));
        let state = |vertex: &VertexPart| {
            let is_drained = vertex.subtasks.iter().all(|part| part.is_drained);
            if is_drained { FinishedState::Fully } else { FinishedState::Running }
        };
        FinishedState::agreed(vertices.map(state)).map(|state| state == FinishedState::Fully)
    }

    fn vertex_of(&self, operator: &str) -> Option<&'m VertexPart> {
        self.stored_vertex(self.stored_name(operator))
    }
}

impl VertexPart {
    fn has_state_of(&self, operator: &str) -> bool {
        self.subtasks.iter().flat_map(|subtask| &subtask.inline).any(|state| state.operator == operator)
    }
}

/// Other names by which checkpoints may know the operators of a job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Previous(BTreeMap<String, String>);

/// Every operator has the name that it had.
static NO_PREVIOUS: Previous = Previous(BTreeMap::new());

impl Previous {
    pub(crate) fn insert(&mut self, operator: String, previous: String) {
        self.0.insert(operator, previous);
    }

    pub(crate) fn of(&self, operator: &str) -> Option<&str> {
        self.0.get(operator).map(String::as_str)
    }

    /// What makes no sense in a job with operators of these names, sorted.
    pub(crate) fn contradiction(&self, operators: &[&String]) -> Option<String> {
        let is_operator = |name: &String| operators.binary_search(&name).is_ok();
        let mut taken = BTreeSet::new();
        self.0.iter().find_map(|(operator, previous)| {
            if !is_operator(operator) {
                Some(format!("there is no operator {operator} that could have been named {previous}"))
            } else if is_operator(previous) {
                Some(format!("{operator} cannot have been named {previous}: another operator has that name"))
            } else if !taken.insert(previous) {
                Some(format!("two operators cannot have been named {previous}"))
            } else {
                None
            }
        })
    }
}

//! What a checkpoint consists of, as owned values: the manifest and its parts.

use slackwater_core::assign::AssignError;
use slackwater_core::coordinator::TaskReport;
use slackwater_core::coordinator::statistics::SubtaskFigures;
use slackwater_core::ids::CheckpointId;
use slackwater_core::time::Millis;
use slackwater_mem::in_flight::{InFlight, StoredInFlight};
use slackwater_mem::segment::SegmentRef;

mod assigned;
mod encoding;
mod figures;

pub use slackwater_core::format::manifest::ParticipantKind;

pub use self::encoding::MEMORY_PER_BYTE;

/// Everything that `_metadata` says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manifest {
    /// The checkpoint.
    pub id: CheckpointId,
    /// The job, since its first start.
    pub job_id: u128,
    /// Its name.
    pub job_name: String,
    /// Wall-clock time at which the checkpoint was triggered.
    pub triggered_at: Millis,
    /// How many key groups the job has.
    pub max_parallelism: u16,
    /// Seed of the hash that places keys in pages.
    pub hash_seed: u64,
    /// Every subtask had emitted everything before the barrier: there is nothing to go on with.
    pub is_finished: bool,
    /// What those gave who take part beside the subtasks: coordinators of operators, then hooks.
    pub participants: Vec<ParticipantPart>,
    /// The vertices, in the order of the graph.
    pub vertices: Vec<VertexPart>,
}

/// What a coordinator of an operator, or a hook, has given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParticipantPart {
    /// Which of the two it is.
    pub kind: ParticipantKind,
    /// The name of the coordinator's operator, or of the hook.
    pub name: String,
    /// Its state.
    pub state: Vec<u8>,
}

/// A vertex: operators that run chained in the same subtasks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VertexPart {
    /// Name of its first operator.
    pub name: String,
    /// Its subtasks, in order.
    pub subtasks: Vec<SubtaskPart>,
}

/// What one subtask contributes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SubtaskPart {
    /// It had emitted everything before the barrier.
    pub is_drained: bool,
    /// Its keyed state, if it had any.
    pub segment: Option<SegmentRef>,
    /// What was in flight to it, if the checkpoint's barriers have overtaken any records.
    pub in_flight: Option<StoredInFlight>,
    /// Small states that lie in the manifest itself.
    pub inline: Vec<InlineState>,
    /// What it took to take it, where that is known.
    pub figures: Option<SubtaskFigures>,
}

impl SubtaskPart {
    /// Bytes of state that a restore reads, or finds in the manifest.
    #[must_use]
    pub fn state_bytes(&self) -> u64 {
        let segment = self.segment.as_ref().map_or(0, |segment| segment.used_len);
        let inline = self.inline.iter().flat_map(|state| &state.partitions).map(|bytes| bytes.len() as u64);
        segment + inline.sum::<u64>()
    }

    /// What the coordinator is told of it.
    pub(crate) fn report(&self) -> TaskReport {
        let is_union = |state: &InlineState| state.redistribution == Redistribution::Union;
        TaskReport {
            has_state: self.segment.is_some() || !self.inline.is_empty(),
            has_union_state: self.inline.iter().any(is_union),
            ..TaskReport::default()
        }
    }
}

/// A state that lies in the manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InlineState {
    /// The operator.
    pub operator: String,
    /// The state's name.
    pub name: String,
    /// How it is spread over another number of subtasks.
    pub redistribution: Redistribution,
    /// Its pieces.
    pub partitions: Vec<Vec<u8>>,
}

/// What becomes of the partitions of a state in a restore (rule R12).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Redistribution {
    /// Each partition goes to one subtask.
    Split,
    /// Every subtask gets all partitions.
    Union,
    /// Every subtask had the same and gets one copy.
    Broadcast,
    /// Stays with its subtask.
    Plain,
}

/// What was in flight to each subtask, vertex by vertex as in the manifest.
pub(crate) type Captured = Vec<Vec<InFlight>>;

/// The inline states of the checkpoint that a job starts from, or of none, and what was in flight.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RestoredStates<'m> {
    manifest: Option<&'m Manifest>,
    captured: &'m [Vec<InFlight>],
}

impl<'m> RestoredStates<'m> {
    pub(crate) const fn new(manifest: Option<&'m Manifest>, captured: &'m [Vec<InFlight>]) -> Self {
        Self { manifest, captured }
    }

    pub(crate) fn checkpoint(&self) -> Option<CheckpointId> {
        self.manifest.map(|manifest| manifest.id)
    }

    /// All partitions of a state, in the order of the old subtasks.
    pub(crate) fn partitions(&self, operator: &str, name: &str) -> Vec<Vec<u8>> {
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
        let vertex = self.vertex_of(operator);
        vertex.map_or(Ok(Vec::new()), |vertex| {
            assigned::partitions(vertex, (operator, name), index, parallelism)
        })
    }

    /// The segments of a vertex, in the order of the old subtasks.
    pub(crate) fn segments(&self, vertex: &str) -> impl Iterator<Item = &'m SegmentRef> {
        self.segments_by_subtask(vertex).flatten()
    }

    /// The same for every old subtask, those without one included.
    pub(crate) fn segments_by_subtask(&self, vertex: &str) -> impl Iterator<Item = Option<&'m SegmentRef>> {
        self.vertex(vertex).into_iter().flat_map(|v| &v.subtasks).map(|part| part.segment.as_ref())
    }

    /// What was in flight to each old subtask of a vertex, in their order.
    pub(crate) fn in_flight(&self, vertex: &str) -> &'m [InFlight] {
        let vertices = self.manifest.map_or(&[][..], |manifest| &manifest.vertices);
        let at = vertices.iter().position(|stored| stored.name == vertex);
        at.and_then(|at| self.captured.get(at)).map_or(&[], Vec::as_slice)
    }

    /// Whether every subtask of a vertex had emitted everything. They differ only where sources do, and a
    /// source that goes on from its end ends at once.
    pub(crate) fn is_drained(&self, vertex: &str) -> bool {
        self.vertex(vertex).is_some_and(|v| v.subtasks.iter().all(|part| part.is_drained))
    }

    fn vertex(&self, name: &str) -> Option<&'m VertexPart> {
        self.manifest?.vertices.iter().find(|vertex| vertex.name == name)
    }

    fn vertex_of(&self, operator: &str) -> Option<&'m VertexPart> {
        let vertices = self.manifest?.vertices.iter();
        vertices.into_iter().find(|vertex| {
            vertex.subtasks.iter().flat_map(|subtask| &subtask.inline).any(|state| state.operator == operator)
        })
    }
}

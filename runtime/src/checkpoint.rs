//! What a checkpoint consists of, as owned values: the manifest and its parts.

use slackwater_core::coordinator::TaskReport;
use slackwater_core::coordinator::statistics::SubtaskFigures;
use slackwater_core::ids::CheckpointId;
use slackwater_core::time::Millis;
use slackwater_mem::in_flight::{InFlight, StoredInFlight};
use slackwater_mem::segment::SegmentRef;

mod encoding;
mod figures;

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
    /// The vertices, in the order of the graph.
    pub vertices: Vec<VertexPart>,
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

    /// The part of a split state that subtask `index` of `parallelism` takes over (rules R11 and R12).
    pub(crate) fn split(&self, operator: &str, name: &str, index: u16, parallelism: u16) -> Vec<Vec<u8>> {
        let (index, parallelism) = (usize::from(index), usize::from(parallelism));
        let unchanged = self.vertex_of(operator).filter(|vertex| vertex.subtasks.len() == parallelism);
        if let Some(subtask) = unchanged.and_then(|vertex| vertex.subtasks.get(index)) {
            let mine = subtask.inline.iter().filter(|s| s.operator == operator && s.name == name);
            return mine.flat_map(|state| state.partitions.iter().cloned()).collect();
        }
        let all = self.partitions(operator, name);
        let (base, odd) = (all.len() / parallelism.max(1), all.len() % parallelism.max(1));
        let start = index * base + index.min(odd);
        let len = base + usize::from(index < odd);
        all.into_iter().skip(start).take(len).collect()
    }

    /// The segments of a vertex, in the order of the old subtasks.
    pub(crate) fn segments(&self, vertex: &str) -> impl Iterator<Item = &'m SegmentRef> {
        self.vertex(vertex).into_iter().flat_map(|v| &v.subtasks).filter_map(|part| part.segment.as_ref())
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

#[cfg(test)]
mod tests {
    use super::{InlineState, Manifest, Redistribution, RestoredStates, SubtaskPart, VertexPart};
    use slackwater_core::ids::CheckpointId;
    use slackwater_core::time::Millis;

    fn manifest(sizes: &[u8]) -> Manifest {
        let mut next = 0;
        let subtasks = sizes.iter().map(|size| {
            let partitions = (0..*size).map(|_| {
                next += 1;
                vec![next]
            });
            let inline = vec![InlineState {
                operator: "lines".into(),
                name: "splits".into(),
                redistribution: Redistribution::Split,
                partitions: partitions.collect(),
            }];
            SubtaskPart { inline, ..SubtaskPart::default() }
        });
        Manifest {
            id: CheckpointId(1),
            job_id: 1,
            job_name: "job".into(),
            triggered_at: Millis(0),
            max_parallelism: 128,
            hash_seed: 0,
            is_finished: false,
            vertices: vec![VertexPart { name: "lines".into(), subtasks: subtasks.collect() }],
        }
    }

    fn spread(sizes: &[u8], parallelism: u16) -> Vec<Vec<u8>> {
        let manifest = manifest(sizes);
        let states = RestoredStates::new(Some(&manifest), &[]);
        (0..parallelism).map(|i| states.split("lines", "splits", i, parallelism).concat()).collect()
    }

    #[test]
    fn the_same_parallelism_leaves_partitions_where_they_are() {
        assert_eq!(spread(&[3, 1], 2), [vec![1, 2, 3], vec![4]], "rule R11");
    }

    #[test]
    fn another_parallelism_spreads_partitions_evenly_and_in_order() {
        assert_eq!(spread(&[3, 4], 3), [vec![1, 2, 3], vec![4, 5], vec![6, 7]], "rule R12");
        assert_eq!(spread(&[2], 3), [vec![1], vec![2], vec![]], "rule R12");
    }
}

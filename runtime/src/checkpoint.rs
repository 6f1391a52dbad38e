//! What a checkpoint consists of, as owned values: the manifest and its parts.

use slackwater_core::coordinator::TaskReport;
use slackwater_core::coordinator::statistics::SubtaskFigures;
use slackwater_core::ids::CheckpointId;
use slackwater_core::time::Millis;
use slackwater_mem::in_flight::{InFlight, StoredInFlight};
use slackwater_mem::segment::SegmentRef;

mod assigned;
mod encoding;
mod figures;
mod restored;

pub use slackwater_core::format::manifest::ParticipantKind;

pub use self::encoding::MEMORY_PER_BYTE;
pub(crate) use self::restored::{Previous, RestoredStates};

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

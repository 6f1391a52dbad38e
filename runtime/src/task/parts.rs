//! The parts of checkpoints that a subtask has taken and not yet acknowledged.

use std::collections::BTreeMap;

use slackwater_core::durable::DiskError;
use slackwater_core::ids::CheckpointId;
use slackwater_core::subtask::PartSizes;

use crate::checkpoint::{InlineState, SubtaskPart};
use slackwater_mem::Snapshot;
use slackwater_mem::in_flight::StoredInFlight;
use slackwater_mem::segment::SegmentRef;

/// What a subtask contributes to the checkpoints under way.
#[derive(Debug)]
pub(super) struct Parts {
    is_drained: bool,
    taken: BTreeMap<CheckpointId, Taken>,
    /// The newest complete checkpoint that the sink may not have committed yet.
    committing: Option<CheckpointId>,
    causes: BTreeMap<CheckpointId, DiskError>,
}

#[derive(Debug)]
struct Taken {
    part: SubtaskPart,
    /// Not yet with the writer.
    frozen: Frozen,
    segment: Segment,
    /// The machine waits for the word that it is durable.
    is_awaited: bool,
}

/// The keyed state of a checkpoint.
#[derive(Debug)]
pub(super) enum Frozen {
    State(Box<Snapshot>),
    /// There is none, or the writer has it.
    Nothing,
    /// It could not be frozen.
    Refused,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Segment {
    /// There is nothing to write.
    None,
    Awaited,
    Written,
}

impl Parts {
    pub(super) const fn new(is_drained: bool) -> Self {
        Self { is_drained, taken: BTreeMap::new(), committing: None, causes: BTreeMap::new() }
    }

    /// Everything that this subtask ever emits has been emitted.
    pub(super) const fn drained(&mut self) {
        self.is_drained = true;
    }

    pub(super) const fn is_drained(&self) -> bool {
        self.is_drained
    }

    pub(super) fn take(&mut self, id: CheckpointId, frozen: Frozen, inline: Vec<InlineState>) {
        let part = SubtaskPart { is_drained: self.is_drained, inline, ..SubtaskPart::default() };
        let segment = if matches!(frozen, Frozen::Nothing) { Segment::None } else { Segment::Awaited };
        self.taken.insert(id, Taken { part, frozen, segment, is_awaited: false });
    }

    /// The machine wants it durable: gives the frozen state to be written.
    pub(super) fn persist(&mut self, id: CheckpointId) -> Frozen {
        let Some(taken) = self.taken.get_mut(&id) else { return Frozen::Nothing };
        taken.is_awaited = true;
        std::mem::replace(&mut taken.frozen, Frozen::Nothing)
    }

    pub(super) fn segment_written(&mut self, id: CheckpointId, entry: SegmentRef) {
        if let Some(taken) = self.taken.get_mut(&id) {
            taken.part.segment = Some(entry);
            taken.segment = Segment::Written;
        }
    }

    /// What was captured is durable; says how large it is.
    pub(super) fn in_flight_stored(&mut self, id: CheckpointId, stored: Option<StoredInFlight>) -> PartSizes {
        let bytes = stored.as_ref().map_or(0, StoredInFlight::len);
        if let Some(taken) = self.taken.get_mut(&id) {
            taken.part.in_flight = stored;
        }
        PartSizes { written_bytes: bytes, state_bytes: bytes }
    }

    pub(super) fn segment_failed(&mut self, id: CheckpointId, cause: DiskError) {
        if self.taken.remove(&id).is_some() {
            self.causes.insert(id, cause);
        }
    }

    /// A checkpoint whose segment is durable and whose sink `is_sealed`; the machine has yet to hear of it.
    pub(super) fn durable(&mut self, is_sealed: impl Fn(CheckpointId) -> bool) -> Option<CheckpointId> {
        let (id, taken) = self
            .taken
            .iter_mut()
            .find(|(id, taken)| taken.is_awaited && taken.segment != Segment::Awaited && is_sealed(**id))?;
        taken.is_awaited = false;
        Some(*id)
    }

    /// How large the part is. Nothing is shared with earlier checkpoints, so all of it is written.
    pub(super) fn sizes(&self, id: CheckpointId) -> PartSizes {
        let bytes = self.taken.get(&id).map_or(0, |taken| taken.part.state_bytes());
        PartSizes { written_bytes: bytes, state_bytes: bytes }
    }

    /// Takes the part out, for the coordinator.
    pub(super) fn acknowledge(&mut self, id: CheckpointId) -> SubtaskPart {
        self.taken.remove(&id).map_or_else(SubtaskPart::default, |taken| taken.part)
    }

    /// Why a checkpoint could not be made durable, if the disk is why.
    pub(super) fn cause(&mut self, id: CheckpointId) -> Option<DiskError> {
        self.causes.remove(&id)
    }

    /// Nobody wants the checkpoint any more.
    pub(super) fn forget(&mut self, id: CheckpointId) {
        self.taken.remove(&id);
    }

    pub(super) fn committing(&mut self, id: CheckpointId) {
        self.committing = self.committing.max(Some(id));
    }

    /// The checkpoint up to which everything is committed, once.
    pub(super) fn committed(&mut self, is_committed: impl Fn(CheckpointId) -> bool) -> Option<CheckpointId> {
        self.committing.take_if(|id| is_committed(*id))
    }
}

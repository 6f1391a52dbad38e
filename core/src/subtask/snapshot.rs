//! A snapshot on its way: which parts have to become durable, and what it takes.

use super::SubtaskAction;
use crate::bit_set::BitSet;
use crate::gate::AlignmentMetrics;
use crate::ids::CheckpointId;
use crate::machine::Orders;
use crate::time::{Millis, Now};

/// A part of a subtask's snapshot, made durable by itself (rules X13 and X15; Flink: `OperatorSnapshotFutures`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Bytes that an operator wrote for each key group.
    RawKeyed,
    /// Keyed state.
    ManagedKeyed,
    /// Bytes that an operator wrote for itself.
    RawOperator,
    /// Lists and broadcast maps of an operator.
    ManagedOperator,
    /// What lies outside the state: the flushed transactions of a sink (rule C3).
    Transactions,
    /// Records of the input that the barriers overtook.
    Input,
}

impl Part {
    /// Every part, in order of declaration.
    pub const ALL: [Self; 6] = [
        Self::RawKeyed,
        Self::ManagedKeyed,
        Self::RawOperator,
        Self::ManagedOperator,
        Self::Transactions,
        Self::Input,
    ];
}

/// Parts of a snapshot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PartSet(BitSet<1>);

impl PartSet {
    /// No part.
    pub const EMPTY: Self = Self(BitSet::empty());

    /// This one alone.
    #[must_use]
    pub fn only(part: Part) -> Self {
        Self::EMPTY.with(part)
    }

    /// These and one more.
    #[must_use]
    pub fn with(mut self, part: Part) -> Self {
        self.0.insert(part as u16);
        self
    }

    /// Whether `part` is among them.
    #[must_use]
    pub fn contains(self, part: Part) -> bool {
        self.0.contains(part as u16)
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.0.is_empty()
    }

    /// The parts, in order of declaration.
    pub fn parts(self) -> impl Iterator<Item = Part> {
        Part::ALL.into_iter().filter(move |part| self.contains(*part))
    }

    pub(super) fn remove(&mut self, part: Part) -> bool {
        self.0.remove(part as u16)
    }
}

/// How large a durable part is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PartSizes {
    /// Bytes written for this checkpoint.
    pub written_bytes: u64,
    /// Bytes of all that the part consists of, shared files included.
    pub state_bytes: u64,
}

/// What a subtask's part in a checkpoint took (rules X15 to X18 and M6; Flink: `CheckpointMetrics`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SnapshotMetrics {
    /// Measured by the gate, and the captured records that were made durable (rule X16).
    pub alignment: AlignmentMetrics,
    /// Time in which nothing was processed.
    pub sync_duration: Millis,
    /// Time from then until everything was durable, or until now if it is not.
    pub async_duration: Millis,
    /// Bytes written for this checkpoint, captured records included.
    pub checkpointed_bytes: u64,
    /// Bytes of the whole state, captured records included.
    pub state_bytes: u64,
}

/// A checkpoint that this subtask takes part in, from its barrier to its acknowledgement.
#[derive(Clone, Copy, Debug)]
pub(super) struct Snapshot {
    pub(super) id: CheckpointId,
    /// Everything that the snapshot consists of.
    pub(super) parts: PartSet,
    /// What is not durable yet.
    pub(super) awaited: PartSet,
    pub(super) input: Input,
    pub(super) is_finished: bool,
    /// When the asynchronous part began, by the monotonic clock.
    async_since: Millis,
    metrics: SnapshotMetrics,
}

/// What becomes of the records that the barriers overtake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Input {
    /// There are none: every channel was aligned, or has ended.
    Nothing,
    /// Barriers are still to come (rule U9).
    Capturing,
    /// They are captured.
    Captured,
}

impl Snapshot {
    pub(super) fn new(
        id: CheckpointId,
        alignment: AlignmentMetrics,
        input: Input,
        is_finished: bool,
    ) -> Self {
        let parts = if input == Input::Nothing { PartSet::EMPTY } else { PartSet::only(Part::Input) };
        let metrics = SnapshotMetrics { alignment, ..SnapshotMetrics::default() };
        Self { id, parts, awaited: parts, input, is_finished, async_since: Millis(0), metrics }
    }

    /// The synchronous part is done.
    pub(super) fn taken(&mut self, now: Now, parts: PartSet, since: Millis) {
        for part in parts.parts() {
            self.parts = self.parts.with(part);
            self.awaited = self.awaited.with(part);
        }
        self.metrics.sync_duration = now.monotonic.since(since);
        self.async_since = now.monotonic;
    }

    /// A part is durable. False if it was not awaited.
    pub(super) fn persisted(&mut self, part: Part, sizes: PartSizes) -> bool {
        if !self.awaited.remove(part) {
            return false;
        }
        let metrics = &mut self.metrics;
        metrics.checkpointed_bytes = metrics.checkpointed_bytes.saturating_add(sizes.written_bytes);
        metrics.state_bytes = metrics.state_bytes.saturating_add(sizes.state_bytes);
        if part == Part::Input {
            let persisted = &mut metrics.alignment.bytes_persisted;
            *persisted = persisted.saturating_add(sizes.state_bytes);
        }
        true
    }

    pub(super) fn captured(&mut self, alignment: AlignmentMetrics) {
        self.input = Input::Captured;
        self.metrics.alignment = alignment;
    }

    /// Captured records that nobody makes durable have to go.
    pub(super) fn drop_input(&self, orders: &mut Orders<'_, SubtaskAction>) {
        if self.input != Input::Nothing {
            orders.push(SubtaskAction::DropCapture(self.id));
        }
    }

    /// What it took until now, in the asynchronous part.
    pub(super) fn metrics(&self, now: Now) -> SnapshotMetrics {
        SnapshotMetrics { async_duration: now.monotonic.since(self.async_since), ..self.metrics }
    }
}

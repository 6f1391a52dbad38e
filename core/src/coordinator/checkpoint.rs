//! What the coordinator knows of one checkpoint (Flink: `PendingCheckpoint`).

use super::{RequestToken, TaskSet};
use crate::ids::{Alignment, Barrier, CheckpointId, SnapshotKind};
use crate::reason::FailureReason;
use crate::time::Millis;

/// A checkpoint from its trigger until it is complete, or its failure announced (rule P1).
#[derive(Clone, Copy, Debug)]
pub(super) struct Checkpoint<const TASK_WORDS: usize> {
    pub(super) id: CheckpointId,
    /// Who asked for it; nobody for a periodic one.
    pub(super) request: Option<RequestToken>,
    /// By the wall clock.
    pub(super) triggered_at: Millis,
    /// By the monotonic clock.
    pub(super) expires_at: Millis,
    /// Tasks that have not acknowledged.
    pub(super) awaited: TaskSet<TASK_WORDS>,
    pub(super) stage: Stage,
}

/// How far a checkpoint has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    AwaitingLocation,
    AwaitingAcknowledgements,
    /// The manifest may become durable at any moment, so nothing but its writer decides any more.
    AwaitingManifest,
    /// Given up, but nobody has been told.
    Aborted {
        reason: FailureReason,
        folder: Folder,
    },
    /// Given up and announced, but its folder is still being made and will have to go.
    Orphaned,
}

/// What became of the folder of a checkpoint that was given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Folder {
    Awaited,
    Made,
    /// Not made by this checkpoint: what is in its place may belong to another one.
    Missing,
}

impl<const TASK_WORDS: usize> Checkpoint<TASK_WORDS> {
    pub(super) const fn barrier(&self) -> Barrier {
        Barrier {
            id: self.id,
            triggered_at: self.triggered_at,
            kind: SnapshotKind::Checkpoint,
            alignment: Alignment::Aligned,
        }
    }

    /// Whether it may still complete.
    pub(super) const fn is_pending(&self) -> bool {
        self.can_be_aborted() || matches!(self.stage, Stage::AwaitingManifest)
    }

    /// Whether it was given up and nobody has been told.
    pub(super) const fn is_aborted(&self) -> bool {
        matches!(self.stage, Stage::Aborted { .. })
    }

    pub(super) const fn can_be_aborted(&self) -> bool {
        matches!(self.stage, Stage::AwaitingLocation | Stage::AwaitingAcknowledgements)
    }

    /// Whether the report about its folder has not come yet.
    pub(super) const fn awaits_location(&self) -> bool {
        matches!(
            self.stage,
            Stage::AwaitingLocation | Stage::Aborted { folder: Folder::Awaited, .. } | Stage::Orphaned
        )
    }

    /// Gives it up, unless that is too late (rule P20).
    pub(super) const fn abort(&mut self, reason: FailureReason) {
        match self.stage {
            Stage::AwaitingLocation => self.stage = Stage::Aborted { reason, folder: Folder::Awaited },
            Stage::AwaitingAcknowledgements => self.stage = Stage::Aborted { reason, folder: Folder::Made },
            Stage::AwaitingManifest | Stage::Aborted { .. } | Stage::Orphaned => {}
        }
    }
}

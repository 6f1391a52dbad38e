use super::CheckpointKind;
use crate::ids::{CheckpointId, SnapshotKind};

/// What the next snapshot of a task may build on: the newest checkpoint it was told is complete (rules V4 and V10).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IncrementalBase {
    confirmed: Option<CheckpointId>,
}

impl IncrementalBase {
    /// Of a task that starts from nothing.
    #[must_use]
    pub const fn new() -> Self {
        Self { confirmed: None }
    }

    /// Of a task that was restored from this; what the job does not own is nothing to build on (rules V5 and V6).
    #[must_use]
    pub const fn restored(id: CheckpointId, kind: CheckpointKind) -> Self {
        Self { confirmed: if kind.is_savepoint() { None } else { Some(id) } }
    }

    /// The task was told that a snapshot of this type is complete. Only that moves the base: acknowledging does not,
    /// nor does an abort, and a savepoint is not built on.
    pub fn on_complete(&mut self, id: CheckpointId, snapshot: SnapshotKind) {
        if snapshot.may_be_built_on() {
            self.confirmed = self.confirmed.max(Some(id));
        }
    }

    /// The checkpoint whose files a new snapshot of this type may refer to by placeholders; none: it uploads all.
    #[must_use]
    pub fn base_of(&self, snapshot: SnapshotKind) -> Option<CheckpointId> {
        self.confirmed.filter(|_| snapshot.may_build_on_earlier())
    }
}

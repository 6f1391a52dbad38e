use super::Retained;
use crate::ids::CheckpointId;
use crate::machine::Rejected;

/// Why a job's state is restored (Flink: the methods of `CheckpointCoordinator` that restore).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RestoreEntry {
    /// Some subtasks failed and start again (rule S30).
    LatestToSubtasks,
    /// The whole job starts again (rule S31).
    LatestToAll {
        /// Whether state without an operator is dropped.
        allow_non_restored: bool,
    },
    /// The coordinator's process starts again (rule S32).
    Initial,
    /// A person starts the job from a snapshot, which has been added (rule S34).
    Snapshot {
        /// Whether state without an operator is dropped.
        allow_non_restored: bool,
    },
}

/// What happens to operator coordinators.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CoordinatorRestore {
    /// They go on.
    Untouched,
    /// They get their state back.
    Restored,
    /// They start from nothing: there is no checkpoint.
    ResetToEmpty,
}

/// How a job's state is restored, in the order of the fields after `forces_full`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RestorePlan {
    /// From what; none: the job starts from nothing.
    pub checkpoint: Option<CheckpointId>,
    /// Whether the next checkpoint must be a full one.
    pub forces_full: bool,
    /// Records in flight are not restored.
    pub drops_in_flight: bool,
    /// Whether the finished operators are held against the job's graph (rule P37).
    pub checks_finished: bool,
    /// Whether state without an operator is dropped; if not, it is an error (rules R3 and R5).
    pub allow_non_restored: bool,
    /// Whether master hooks get their state back; if not, they are reset (rule P34).
    pub restores_hooks: bool,
    /// What happens to operator coordinators.
    pub coordinators: CoordinatorRestore,
}

impl<const CHECKPOINTS: usize, const FILES: usize> Retained<CHECKPOINTS, FILES> {
    /// How to restore the latest checkpoint (rule S33). Records in flight of `without_channel_state` are left out.
    ///
    /// # Errors
    /// [`Rejected::Unexpected`] if the job has ended, or there is no checkpoint where there must be one.
    pub fn restore(
        &self,
        entry: RestoreEntry,
        without_channel_state: Option<CheckpointId>,
    ) -> Result<RestorePlan, Rejected> {
        if self.is_shut_down {
            return Err(Rejected::Unexpected { what: "the job has ended" });
        }
        let checkpoint = self.latest().map(|(id, _)| id);
        if checkpoint.is_none() && matches!(entry, RestoreEntry::Snapshot { .. }) {
            return Err(Rejected::Unexpected { what: "there is no snapshot to start from" });
        }
        Ok(RestorePlan {
            checkpoint,
            forces_full: self.forces_full(),
            drops_in_flight: checkpoint.is_some() && checkpoint == without_channel_state,
            checks_finished: matches!(entry, RestoreEntry::Initial | RestoreEntry::Snapshot { .. }),
            allow_non_restored: entry.allows_non_restored(),
            restores_hooks: checkpoint.is_some(),
            coordinators: entry.coordinators(checkpoint.is_some()),
        })
    }
}

impl RestoreEntry {
    const fn allows_non_restored(self) -> bool {
        match self {
            Self::LatestToSubtasks => true,
            Self::Initial => false,
            Self::LatestToAll { allow_non_restored } | Self::Snapshot { allow_non_restored } => {
                allow_non_restored
            }
        }
    }

    const fn coordinators(self, is_restored: bool) -> CoordinatorRestore {
        match self {
            Self::LatestToSubtasks => CoordinatorRestore::Untouched,
            Self::LatestToAll { .. } | Self::Initial | Self::Snapshot { .. } if is_restored => {
                CoordinatorRestore::Restored
            }
            Self::LatestToAll { .. } => CoordinatorRestore::ResetToEmpty,
            Self::Initial | Self::Snapshot { .. } => CoordinatorRestore::Untouched,
        }
    }
}

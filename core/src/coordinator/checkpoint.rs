//! What the coordinator knows of one checkpoint (Flink: `PendingCheckpoint`).

use super::action::ParticipantSet;
use super::{RequestToken, TaskReport, TaskSet};
use crate::ids::{CheckpointId, SnapshotKind, TaskIndex};
use crate::reason::FailureReason;
use crate::time::Millis;

/// A checkpoint from its trigger until it is complete, or its failure announced (rule P1).
#[derive(Clone, Copy, Debug)]
pub(super) struct Checkpoint<const TASK_WORDS: usize> {
    pub(super) id: CheckpointId,
    /// Who asked for it; nobody for a periodic one.
    pub(super) request: Option<RequestToken>,
    pub(super) kind: SnapshotKind,
    /// It was let in beyond the number of concurrent ones.
    pub(super) is_forced: bool,
    /// By the wall clock.
    pub(super) triggered_at: Millis,
    /// By the monotonic clock.
    pub(super) expires_at: Millis,
    /// Coordinators or hooks, whichever the stage waits for, that have not acknowledged.
    pub(super) participants: ParticipantSet,
    pub(super) plan: Plan<TASK_WORDS>,
    /// Tasks that have not acknowledged.
    pub(super) awaited: TaskSet<TASK_WORDS>,
    /// Tasks that say their operators have finished.
    pub(super) reported_finished: TaskSet<TASK_WORDS>,
    /// Tasks that have union list state.
    pub(super) with_union_state: TaskSet<TASK_WORDS>,
    pub(super) stage: Stage,
}

/// Who does what in a checkpoint (Flink: `CheckpointPlan`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Plan<const TASK_WORDS: usize> {
    /// Tasks that are told by message; the others by barrier.
    pub(super) triggered: TaskSet<TASK_WORDS>,
    /// Tasks that acknowledge, and are told how it ended.
    pub(super) taking_part: TaskSet<TASK_WORDS>,
    /// Tasks that had finished, or stand in for one that had.
    pub(super) finished: TaskSet<TASK_WORDS>,
}

/// How far a checkpoint has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    AwaitingLocation,
    AwaitingCoordinators,
    AwaitingHooks,
    AwaitingAcknowledgements,
    /// The manifest may become durable at any moment, so nothing but its writer decides any more.
    AwaitingManifest,
    /// The manifest is durable, but the store is busy with another checkpoint.
    AwaitingTurn,
    /// The store decides.
    AwaitingStore,
    /// Given up, but nobody has been told.
    Aborted {
        failure: Failure,
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
    /// Not made by this checkpoint, so what is in its place may belong to another one; or listed by the store all the
    /// same, perhaps.
    NotOurs,
}

/// Why a checkpoint was given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Failure {
    pub(super) reason: FailureReason,
    /// The task that it is due to, if it is a task's.
    pub(super) task: Option<TaskIndex>,
}

impl From<FailureReason> for Failure {
    fn from(reason: FailureReason) -> Self {
        Self { reason, task: None }
    }
}

impl Stage {
    /// Whether the tasks have not heard of the checkpoint yet.
    pub(super) const fn is_triggering(self) -> bool {
        matches!(self, Self::AwaitingLocation | Self::AwaitingCoordinators | Self::AwaitingHooks)
    }

    /// Whether it can still be given up.
    pub(super) const fn can_be_aborted(self) -> bool {
        self.is_triggering() || matches!(self, Self::AwaitingAcknowledgements)
    }

    /// Whether its files are final.
    pub(super) const fn is_finalising(self) -> bool {
        matches!(self, Self::AwaitingManifest | Self::AwaitingTurn | Self::AwaitingStore)
    }

    /// Whether the checkpoint may still complete.
    pub(super) const fn is_pending(self) -> bool {
        self.can_be_aborted() || self.is_finalising()
    }

    /// Why it was given up, and its folder, if nobody has been told.
    pub(super) const fn aborted(self) -> Option<(Failure, Folder)> {
        if let Self::Aborted { failure, folder } = self { Some((failure, folder)) } else { None }
    }

    /// Whether the report about the folder has not come yet.
    pub(super) const fn awaits_location(self) -> bool {
        matches!(
            self,
            Self::AwaitingLocation | Self::Aborted { folder: Folder::Awaited, .. } | Self::Orphaned
        )
    }
}

impl<const TASK_WORDS: usize> Checkpoint<TASK_WORDS> {
    /// Rule P3.
    pub(super) const fn can_be_subsumed(&self) -> bool {
        !self.kind.is_savepoint()
    }

    /// Whether `task` has acknowledged it.
    pub(super) fn has_acknowledged(&self, task: TaskIndex) -> bool {
        self.plan.taking_part.contains(task.0) && !self.awaited.contains(task.0)
    }

    /// Takes over what a task that takes part says of its part (rules P6 and P35).
    pub(super) fn note(&mut self, task: TaskIndex, report: TaskReport) {
        for (is_so, set) in [
            (report.was_deployed_finished, &mut self.plan.finished),
            (report.is_finished, &mut self.reported_finished),
            (report.has_union_state, &mut self.with_union_state),
        ] {
            if is_so {
                set.insert(task.0);
            }
        }
    }

    /// What became of the folder that was being made.
    pub(super) const fn note_folder(&mut self, made: Folder) {
        if let Stage::Aborted { folder, .. } = &mut self.stage {
            *folder = made;
        }
    }

    /// Takes a coordinator or a hook off those that `stage` waits for. True if it was the last.
    pub(super) fn take_participant(&mut self, stage: Stage, index: u16) -> bool {
        self.stage == stage && self.participants.remove(index) && self.participants.is_empty()
    }

    /// Gives it up, unless that is too late (rule P20). Not inlined, for the sake of a firmware's size.
    #[inline(never)]
    pub(super) fn abort(&mut self, failure: Failure) {
        let folder = if self.stage == Stage::AwaitingLocation { Folder::Awaited } else { Folder::Made };
        if self.stage.can_be_aborted() {
            self.stage = Stage::Aborted { failure, folder };
        }
    }

    /// Invariant CI4.
    pub(super) fn is_awaited_right(&self) -> bool {
        (!self.stage.can_be_aborted() || !self.awaited.is_empty())
            && (!self.stage.is_finalising() || self.awaited.is_empty())
    }

    /// Whether the store decides on it.
    pub(super) fn is_offered(&self) -> bool {
        self.stage == Stage::AwaitingStore
    }

    /// Invariant CI5.
    pub(super) fn is_planned_right(&self) -> bool {
        let Plan { triggered, taking_part, .. } = &self.plan;
        self.awaited.is_subset(taking_part) && triggered.is_subset(taking_part) && !triggered.is_empty()
    }

    /// Whether it goes on although a later one has made it pointless (invariant CI7).
    pub(super) fn is_pointless(&self, latest_subsuming: Option<CheckpointId>) -> bool {
        self.stage.can_be_aborted() && self.can_be_subsumed() && Some(self.id) < latest_subsuming
    }
}

//! What a coordinator is told when it is built.

use core::fmt;

use super::action::ParticipantSet;
use super::graph::Graph;
use crate::ids::{AlignmentOptions, CheckpointId, SnapshotKind, TaskIndex};
use crate::time::Millis;

/// A pause counts as at most a year (rule T1).
const PAUSE_MAX: Millis = Millis(365 * 24 * 60 * 60 * 1_000);
/// The least interval and the least time-out (rule T5).
const SPAN_MIN: Millis = Millis(10);

/// When checkpoints start and how much may go wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CoordinatorOptions {
    /// Time between periodic checkpoints, at least 10 ms; none: manual ones only.
    pub interval: Option<Millis>,
    /// The same while a source has fallen behind: zero for no periodic checkpoints, none for no difference.
    pub interval_during_backlog: Option<Millis>,
    /// Time after which a checkpoint expires, at least 10 ms.
    pub timeout: Millis,
    /// Least time from a completion to the next periodic checkpoint; more than a year counts as a year.
    pub min_pause: Millis,
    /// How many checkpoints may be pending at once, at least 1 and below the coordinator's `PENDING`. Forced savepoints
    /// do not count.
    pub max_concurrent_checkpoints: u16,
    /// How many consecutive failures the job survives; `u32::MAX`: any number.
    pub tolerable_failed_checkpoints: u32,
    /// How barriers pass records.
    pub alignment: AlignmentOptions,
    /// Checkpoints go on when some tasks have finished. Needs a graph that knows its edges.
    pub checkpoints_after_tasks_finish: bool,
    /// What a checkpoint is if nobody says otherwise: `Checkpoint` or `FullCheckpoint`.
    pub kind: SnapshotKind,
    /// How many operators have a coordinator, at most 32.
    pub operator_coordinators: u16,
    /// How many hooks there are, at most 32.
    pub hooks: u16,
    /// Seed of the initial delay.
    pub seed: u64,
}

impl Default for CoordinatorOptions {
    fn default() -> Self {
        Self {
            interval: None,
            interval_during_backlog: None,
            timeout: Millis(10 * 60 * 1_000),
            min_pause: Millis(0),
            max_concurrent_checkpoints: 1,
            tolerable_failed_checkpoints: 0,
            alignment: AlignmentOptions::default(),
            checkpoints_after_tasks_finish: true,
            kind: SnapshotKind::Checkpoint,
            operator_coordinators: 0,
            hooks: 0,
            seed: 0,
        }
    }
}

impl CoordinatorOptions {
    /// Whether a coordinator of `slots` slots and a queue of `queue` requests can serve this job (rule T5).
    pub(super) fn validate<const TASK_WORDS: usize, G: Graph<TASK_WORDS>>(
        &self,
        (slots, queue): (usize, usize),
        graph: &G,
        next_id: CheckpointId,
    ) -> Result<(), InvalidOptions> {
        self.validate_times()?;
        self.validate_modes(slots)?;
        let participants = ParticipantSet::CAPACITY;
        let tasks = graph.tasks();
        match self.operator_coordinators.max(self.hooks) {
            count if usize::from(count) > participants => Err(InvalidOptions::TooManyParticipants(count)),
            _ if queue == 0 => Err(InvalidOptions::NoQueue),
            _ if next_id >= CheckpointId(u64::MAX) => Err(InvalidOptions::NoIdLeft),
            _ if self.checkpoints_after_tasks_finish && !G::KNOWS_EDGES => Err(InvalidOptions::EdgesUnknown),
            _ if tasks.is_empty() => Err(InvalidOptions::NoTasks),
            _ if !tasks.iter().any(|task| graph.predecessors(TaskIndex(task)).is_empty()) => {
                Err(InvalidOptions::NoSources)
            }
            _ => Ok(()),
        }
    }

    fn validate_times(&self) -> Result<(), InvalidOptions> {
        let least = self.interval.unwrap_or(Millis::MAX);
        match self.interval_during_backlog {
            _ if least < SPAN_MIN => Err(InvalidOptions::IntervalTooShort(least)),
            _ if self.timeout < SPAN_MIN => Err(InvalidOptions::TimeoutTooShort(self.timeout)),
            Some(slow) if slow > Millis(0) && slow < least => {
                Err(InvalidOptions::BacklogIntervalTooShort(slow))
            }
            _ => Ok(()),
        }
    }

    fn validate_modes(&self, slots: usize) -> Result<(), InvalidOptions> {
        let limit = slots.saturating_sub(1);
        let max_concurrent_checkpoints = self.max_concurrent_checkpoints;
        match max_concurrent_checkpoints {
            0 => Err(InvalidOptions::NoConcurrency),
            _ if usize::from(max_concurrent_checkpoints) > limit => {
                Err(InvalidOptions::TooManyConcurrent { max_concurrent_checkpoints, limit })
            }
            2.. if self.alignment.unaligned => {
                Err(InvalidOptions::UnalignedConcurrency(max_concurrent_checkpoints))
            }
            _ if self.alignment.validate().is_err() => Err(InvalidOptions::UnalignedAtLeastOnce),
            _ if self.kind.is_savepoint() => Err(InvalidOptions::SavepointsOnly),
            _ => Ok(()),
        }
    }

    /// The pause that counts (rule T1).
    pub(super) fn pause(&self) -> Millis {
        self.min_pause.min(PAUSE_MAX)
    }

    /// Time between periodic triggers, if there are any (rules T1 and T2).
    pub(super) fn base_interval(&self) -> Option<Millis> {
        self.interval.filter(|interval| *interval < Millis::MAX).map(|interval| interval.max(self.pause()))
    }

    /// The same, while a source may have fallen behind (rule T12).
    pub(super) fn current_interval(&self, is_behind: bool) -> Option<Millis> {
        let slow = self.interval_during_backlog.filter(|_| is_behind);
        slow.map_or_else(|| self.base_interval(), |slow| Some(slow).filter(|slow| *slow > Millis(0)))
    }

    /// Whether a request need not wait for other checkpoints (rule T16).
    pub(super) const fn forces(&self, kind: SnapshotKind) -> bool {
        kind.is_savepoint() && !self.alignment.unaligned
    }
}

/// Why a coordinator cannot be built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InvalidOptions {
    /// The interval is below 10 ms.
    IntervalTooShort(Millis),
    /// The interval during backlog is below the usual one.
    BacklogIntervalTooShort(Millis),
    /// The time-out is below 10 ms.
    TimeoutTooShort(Millis),
    /// No checkpoint may ever be pending.
    NoConcurrency,
    /// More checkpoints may be pending than the coordinator has room for.
    TooManyConcurrent {
        /// What was asked for.
        max_concurrent_checkpoints: u16,
        /// The most that fits: one slot is kept for a checkpoint that was given up while its folder was made.
        limit: usize,
    },
    /// Unaligned checkpoints cannot be pending at the same time.
    UnalignedConcurrency(u16),
    /// Where records may count twice, no record in flight is captured.
    UnalignedAtLeastOnce,
    /// Checkpoints of the job's own cannot be savepoints.
    SavepointsOnly,
    /// More coordinators of operators or hooks than the coordinator can tell apart.
    TooManyParticipants(u16),
    /// No request could ever wait.
    NoQueue,
    /// There is no id for the first checkpoint (rule T3).
    NoIdLeft,
    /// Tasks may finish, but nobody knows who reads from whom.
    EdgesUnknown,
    /// There is no task to wait for.
    NoTasks,
    /// There is no task to trigger.
    NoSources,
}

impl fmt::Display for InvalidOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            Self::IntervalTooShort(interval) => return write!(f, "interval {interval} is below 10 ms"),
            Self::BacklogIntervalTooShort(interval) => {
                return write!(
                    f,
                    "interval {interval} during backlog is below the usual one: 0 turns it off"
                );
            }
            Self::TimeoutTooShort(timeout) => return write!(f, "time-out {timeout} is below 10 ms"),
            Self::TooManyConcurrent { max_concurrent_checkpoints, limit } => {
                return write!(
                    f,
                    "max_concurrent_checkpoints {max_concurrent_checkpoints} is above {limit}: use a coordinator with more slots"
                );
            }
            Self::UnalignedConcurrency(max_concurrent_checkpoints) => {
                return write!(
                    f,
                    "max_concurrent_checkpoints {max_concurrent_checkpoints} with unaligned checkpoints: allow only 1"
                );
            }
            Self::TooManyParticipants(count) => {
                return write!(f, "{count} coordinators of operators or hooks: at most 32 of each");
            }
            Self::NoConcurrency => "max_concurrent_checkpoints is 0: allow at least 1 checkpoint",
            Self::UnalignedAtLeastOnce => "unaligned checkpoints need the guarantee exactly-once",
            Self::SavepointsOnly => "the configured kind is a savepoint: make it a checkpoint",
            Self::NoQueue => "a coordinator needs room for at least one request",
            Self::NoIdLeft => "no checkpoint can follow the last possible id",
            Self::EdgesUnknown => "checkpoints after tasks have finished need a graph that knows its edges",
            Self::NoTasks => "a checkpoint needs a task to wait for: the job has none",
            Self::NoSources => "a checkpoint needs a task to trigger: the job has no source",
        };
        f.write_str(text)
    }
}

impl core::error::Error for InvalidOptions {}

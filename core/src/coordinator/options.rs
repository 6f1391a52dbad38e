//! What a coordinator is told when it is built.

use core::fmt;

use super::TaskSet;
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
    /// Time after which a checkpoint expires, at least 10 ms.
    pub timeout: Millis,
    /// Least time from a completion to the next periodic checkpoint; more than a year counts as a year.
    pub min_pause: Millis,
    /// How many checkpoints may be pending at once, at least 1 and below the coordinator's `PENDING`.
    pub max_concurrent: u16,
    /// How many consecutive failures the job survives; `u32::MAX`: any number.
    pub tolerable_failures: u32,
    /// Seed of the initial delay.
    pub seed: u64,
}

impl CoordinatorOptions {
    /// Whether a coordinator of `slots` slots can serve these tasks (rule T5).
    pub(super) fn validate<const TASK_WORDS: usize>(
        &self,
        slots: usize,
        tasks: &TaskSet<TASK_WORDS>,
        sources: &TaskSet<TASK_WORDS>,
    ) -> Result<(), InvalidOptions> {
        let limit = slots.saturating_sub(1);
        let max_concurrent = self.max_concurrent;
        match self.interval {
            Some(interval) if interval < SPAN_MIN => Err(InvalidOptions::IntervalTooShort(interval)),
            _ if self.timeout < SPAN_MIN => Err(InvalidOptions::TimeoutTooShort(self.timeout)),
            _ if max_concurrent == 0 => Err(InvalidOptions::NoConcurrency),
            _ if usize::from(max_concurrent) > limit => {
                Err(InvalidOptions::TooManyConcurrent { max_concurrent, limit })
            }
            _ if tasks.is_empty() => Err(InvalidOptions::NoTasks),
            _ if sources.is_empty() => Err(InvalidOptions::NoSources),
            _ if !sources.is_subset(tasks) => Err(InvalidOptions::SourceIsNoTask),
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
}

/// Why a coordinator cannot be built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InvalidOptions {
    /// The interval is below 10 ms.
    IntervalTooShort(Millis),
    /// The time-out is below 10 ms.
    TimeoutTooShort(Millis),
    /// No checkpoint may ever be pending.
    NoConcurrency,
    /// More checkpoints may be pending than the coordinator has room for.
    TooManyConcurrent {
        /// What was asked for.
        max_concurrent: u16,
        /// The most that fits: one slot is kept for a checkpoint that was given up while its folder was made.
        limit: usize,
    },
    /// There is no task to wait for.
    NoTasks,
    /// There is no task to trigger.
    NoSources,
    /// A source is not among the tasks.
    SourceIsNoTask,
}

impl fmt::Display for InvalidOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::IntervalTooShort(interval) => write!(f, "interval {interval} is below 10 ms"),
            Self::TimeoutTooShort(timeout) => write!(f, "time-out {timeout} is below 10 ms"),
            Self::NoConcurrency => write!(f, "max_concurrent is 0: allow at least 1 checkpoint"),
            Self::TooManyConcurrent { max_concurrent, limit } => {
                write!(
                    f,
                    "max_concurrent {max_concurrent} is above {limit}: use a coordinator with more slots"
                )
            }
            Self::NoTasks => write!(f, "a checkpoint needs a task to wait for: the job has none"),
            Self::NoSources => write!(f, "a checkpoint needs a task to trigger: the job has no source"),
            Self::SourceIsNoTask => write!(f, "a source is not among the job's tasks: add it"),
        }
    }
}

impl core::error::Error for InvalidOptions {}

//! Figures of one task's part, and what many of them come to.

use crate::ids::TaskIndex;
use crate::time::Millis;

/// What a task measured of its part (rule M6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SubtaskFigures {
    /// The task.
    pub task: TaskIndex,
    /// When it acknowledged, by the wall clock.
    pub acknowledged_at: Millis,
    /// Bytes that it has written.
    pub checkpointed_size: u64,
    /// Bytes that a restore would read.
    pub state_size: u64,
    /// The part during which the task stood still.
    pub synchronous: Millis,
    /// The part during which it went on.
    pub asynchronous: Millis,
    /// Bytes that went by while it aligned.
    pub processed: u64,
    /// Bytes in flight that became part.
    pub persisted: u64,
    /// From the first barrier to the last, in whole milliseconds.
    pub alignment: Millis,
    /// From the trigger to the first barrier.
    pub start_delay: Millis,
    /// Whether barriers overtook records.
    pub is_unaligned: bool,
    /// Whether the part counts.
    pub is_complete: bool,
}

impl SubtaskFigures {
    /// What a task that had finished before the trigger would have measured (rule M7).
    #[must_use]
    pub const fn finished(task: TaskIndex, triggered_at: Millis) -> Self {
        Self {
            task,
            acknowledged_at: triggered_at,
            checkpointed_size: 0,
            state_size: 0,
            synchronous: Millis(0),
            asynchronous: Millis(0),
            processed: 0,
            persisted: 0,
            alignment: Millis(0),
            start_delay: Millis(0),
            is_unaligned: false,
            is_complete: true,
        }
    }

    /// From the trigger to the acknowledgement.
    #[must_use]
    pub const fn duration(&self, triggered_at: Millis) -> Millis {
        self.acknowledged_at.since(triggered_at)
    }
}

/// Least, greatest and mean of any number of values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figure {
    count: u64,
    sum: u64,
    min: u64,
    max: u64,
}

impl Figure {
    /// Takes a value in.
    pub fn add(&mut self, value: u64) {
        self.min = if self.count == 0 { value } else { self.min.min(value) };
        self.max = self.max.max(value);
        self.sum = self.sum.saturating_add(value);
        self.count = self.count.saturating_add(1);
    }

    /// How many values there were.
    #[must_use]
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// The least; zero of nothing.
    #[must_use]
    pub const fn min(&self) -> u64 {
        self.min
    }

    /// The greatest; zero of nothing.
    #[must_use]
    pub const fn max(&self) -> u64 {
        self.max
    }

    /// All together.
    #[must_use]
    pub const fn sum(&self) -> u64 {
        self.sum
    }

    /// The mean, rounded down; zero of nothing.
    #[must_use]
    pub fn mean(&self) -> u64 {
        self.sum.checked_div(self.count).unwrap_or(0)
    }
}

/// Figures over the subtasks of a vertex in one checkpoint (rule M8).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spread {
    /// Milliseconds from trigger to acknowledgement.
    pub duration: Figure,
    /// Bytes written.
    pub checkpointed_size: Figure,
    /// Bytes that a restore would read.
    pub state_size: Figure,
    /// Milliseconds during which the subtask stood still.
    pub synchronous: Figure,
    /// Milliseconds during which it went on.
    pub asynchronous: Figure,
    /// Bytes that went by while it aligned.
    pub processed: Figure,
    /// Bytes in flight that became part.
    pub persisted: Figure,
    /// Milliseconds from the first barrier to the last.
    pub alignment: Figure,
    /// Milliseconds from the trigger to the first barrier.
    pub start_delay: Figure,
}

impl Spread {
    /// Takes a subtask's figures in, unless its part did not count.
    pub fn add(&mut self, figures: &SubtaskFigures, triggered_at: Millis) {
        if !figures.is_complete {
            return;
        }
        self.duration.add(figures.duration(triggered_at).0);
        self.checkpointed_size.add(figures.checkpointed_size);
        self.state_size.add(figures.state_size);
        self.synchronous.add(figures.synchronous.0);
        self.asynchronous.add(figures.asynchronous.0);
        self.processed.add(figures.processed);
        self.persisted.add(figures.persisted);
        self.alignment.add(figures.alignment.0);
        self.start_delay.add(figures.start_delay.0);
    }
}

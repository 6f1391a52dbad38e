//! Which parts of the input a reader got since which checkpoint (Flink: `SplitAssignmentTracker`).
//!
//! When a reader alone starts again from a checkpoint, the parts that it was given after that checkpoint are not in
//! its state: they go back to whoever gives them out (rule C22). The work of each event is bounded by `SPLITS`.
//!
//! # Invariants
//! - RI1: a split is remembered once.
//! - RI2: a split that a checkpoint covers was covered by none that is done.

#[cfg(test)]
mod tests;

use heapless::VecView;

use super::unexpected;
use crate::ids::{CheckpointId, TaskIndex};
use crate::machine::{Admission, Orders, Rejected, first_broken};
use crate::time::{Millis, Now};

/// Names a split, chosen by the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SplitToken(pub u64);

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SplitsEvent {
    /// A reader was given a split.
    Assigned {
        /// The split.
        split: SplitToken,
        /// The reader.
        reader: TaskIndex,
    },
    /// A checkpoint has taken the state of whoever gives splits out.
    SnapshotTaken(CheckpointId),
    /// A checkpoint is complete: its readers' states hold the splits.
    CompleteNotified(CheckpointId),
    /// A reader alone starts again.
    ReaderReset {
        /// The reader.
        reader: TaskIndex,
        /// The checkpoint that it starts from; none: from the beginning.
        restored: Option<CheckpointId>,
    },
}

/// What must be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SplitsAction {
    /// Take back, one by one, what [`SplitAssignments::take_returned`] gives.
    TakeReturned(TaskIndex),
}

/// Up to `SPLITS` splits that readers got and no complete checkpoint covers.
#[derive(Clone, Debug)]
pub struct SplitAssignments<const SPLITS: usize> {
    admission: Admission,
    assigned: [Option<Assigned>; SPLITS],
    /// The newest checkpoint that is complete.
    completed: Option<CheckpointId>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Assigned {
    split: SplitToken,
    reader: TaskIndex,
    /// The first checkpoint whose snapshot came after the assignment.
    covered_by: Option<CheckpointId>,
    is_returned: bool,
}

impl<const SPLITS: usize> Default for SplitAssignments<SPLITS> {
    fn default() -> Self {
        Self { admission: Admission::default(), assigned: [None; SPLITS], completed: None }
    }
}

impl<const SPLITS: usize> SplitAssignments<SPLITS> {
    /// The most actions that one event gives.
    pub const ACTIONS_MAX: usize = 1;

    /// Takes an event and writes what must be done into `out`.
    ///
    /// # Errors
    /// [`Rejected`]; the machine is unchanged.
    pub fn on_event(
        &mut self,
        now: Now,
        event: SplitsEvent,
        out: &mut VecView<SplitsAction>,
    ) -> Result<(), Rejected> {
        self.admission.admit(now, out, Self::ACTIONS_MAX)?;
        let mut orders = Orders::new(out, Self::ACTIONS_MAX);
        self.step(event, &mut orders)?;
        self.admission.conclude(&orders, self.broken_invariant())
    }

    fn step(&mut self, event: SplitsEvent, orders: &mut Orders<'_, SplitsAction>) -> Result<(), Rejected> {
        match event {
            SplitsEvent::Assigned { split, reader } => self.on_assigned(split, reader),
            SplitsEvent::SnapshotTaken(id) if Some(id) <= self.completed => {
                unexpected("this checkpoint is complete already")
            }
            SplitsEvent::SnapshotTaken(id) => {
                let uncovered = self.assigned.iter_mut().flatten().filter(|split| split.covered_by.is_none());
                uncovered.for_each(|split| split.covered_by = Some(id));
                Ok(())
            }
            SplitsEvent::CompleteNotified(id) => {
                self.completed = self.completed.max(Some(id));
                self.drop_covered();
                Ok(())
            }
            SplitsEvent::ReaderReset { reader, restored } => {
                self.on_reset(reader, restored);
                orders.push(SplitsAction::TakeReturned(reader));
                Ok(())
            }
        }
    }

    /// Splits wait for events only, never for a time.
    #[must_use]
    pub const fn next_deadline(&self, _now: Now) -> Option<Millis> {
        None
    }

    /// A split that has to be given out again; forgets it.
    pub fn take_returned(&mut self) -> Option<SplitToken> {
        let is_returned = |slot: &&mut Option<Assigned>| slot.is_some_and(|split| split.is_returned);
        self.assigned.iter_mut().find(is_returned).and_then(Option::take).map(|split| split.split)
    }

    /// How many splits are remembered.
    #[must_use]
    pub fn count(&self) -> usize {
        self.assigned.iter().flatten().count()
    }

    /// Asserts every invariant.
    ///
    /// # Panics
    /// If one does not hold.
    pub fn check(&self) {
        assert_eq!(self.broken_invariant(), None);
    }

    fn broken_invariant(&self) -> Option<&'static str> {
        let all = || self.assigned.iter().flatten();
        let is_once = |split| all().filter(|other| other.split == split).count() == 1;
        let is_open = |split: &Assigned| {
            split.is_returned || split.covered_by.is_none_or(|id| Some(id) > self.completed)
        };
        first_broken(&[("RI1", all().all(|split| is_once(split.split))), ("RI2", all().all(is_open))])
    }

    fn on_assigned(&mut self, split: SplitToken, reader: TaskIndex) -> Result<(), Rejected> {
        if self.assigned.iter().flatten().any(|other| other.split == split) {
            return unexpected("this split was given to a reader already");
        }
        let Some(free) = self.assigned.iter_mut().find(|slot| slot.is_none()) else {
            let limit = SPLITS as u64;
            return Err(Rejected::OutOfRange {
                what: "splits without a complete checkpoint",
                value: limit,
                limit,
            });
        };
        *free = Some(Assigned { split, reader, covered_by: None, is_returned: false });
        Ok(())
    }

    fn on_reset(&mut self, reader: TaskIndex, restored: Option<CheckpointId>) {
        let is_lost = |split: &&mut Assigned| {
            split.reader == reader && split.covered_by.is_none_or(|id| Some(id) > restored)
        };
        self.assigned.iter_mut().flatten().filter(is_lost).for_each(|split| split.is_returned = true);
    }

    fn drop_covered(&mut self) {
        let completed = self.completed;
        let is_done =
            |split: &Assigned| !split.is_returned && split.covered_by.is_some_and(|id| Some(id) <= completed);
        for slot in &mut self.assigned {
            slot.take_if(|split| is_done(split));
        }
    }
}

//! What a source tells its origin about how far it has read, checkpoint by checkpoint (Flink: `KafkaSourceReader`).
//!
//! Such offsets are for people and monitoring only: a restore goes on from the checkpoint's state and never asks the
//! origin (rule C21), so a failed commit is no failure of the job. They never go backwards. The offsets stay with the
//! caller, filed by checkpoint. The work of each event is bounded by `CHECKPOINTS`.
//!
//! # Invariants
//! - OI1: checkpoints stand in ascending order, without gaps at the beginning.
//! - OI2: every checkpoint that is remembered is newer than the newest one that is done.
//! - OI3: a checkpoint waits for its turn only while another is being committed, and is the newer one.

#[cfg(test)]
mod tests;

use heapless::VecView;

use super::unexpected;
use crate::ids::CheckpointId;
use crate::machine::{Admission, Orders, Rejected, first_broken};
use crate::time::{Millis, Now};

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OffsetsEvent {
    /// A checkpoint has taken the source's offsets.
    SnapshotTaken {
        /// The checkpoint.
        id: CheckpointId,
        /// Whether no split has an offset to tell.
        is_empty: bool,
    },
    /// A checkpoint is complete.
    CompleteNotified(CheckpointId),
    /// A checkpoint is off.
    AbortNotified(CheckpointId),
    /// The origin has taken the offsets.
    OffsetsCommitted(CheckpointId),
    /// The origin has not taken the offsets.
    CommitFailed(CheckpointId),
}

/// What the source must do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OffsetsAction {
    /// Tell the origin the offsets of this checkpoint, beside everything else, then report `OffsetsCommitted` or
    /// `CommitFailed`.
    Commit(CheckpointId),
    /// Forget the offsets of this and all earlier checkpoints.
    Forget(CheckpointId),
}

/// Offsets of up to `CHECKPOINTS` checkpoints. One more pushes the oldest out: a later one says more.
#[derive(Clone, Debug)]
pub struct OffsetCommits<const CHECKPOINTS: usize> {
    admission: Admission,
    /// Whether offsets are told at all.
    is_on: bool,
    remembered: [Option<Remembered>; CHECKPOINTS],
    /// What the origin is being told.
    committing: Option<CheckpointId>,
    /// The newest complete one behind that.
    waiting: Option<CheckpointId>,
    /// The newest one that the origin has, or that had nothing to tell.
    done: Option<CheckpointId>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Remembered {
    id: CheckpointId,
    is_empty: bool,
}

impl<const CHECKPOINTS: usize> OffsetCommits<CHECKPOINTS> {
    /// The most actions that one event gives.
    pub const ACTIONS_MAX: usize = 2;

    /// Nothing is remembered; offsets are told if `is_on`.
    #[must_use]
    pub fn new(is_on: bool) -> Self {
        const { assert!(CHECKPOINTS > 0, "offsets are remembered until their checkpoint is complete") };
        Self {
            admission: Admission::default(),
            is_on,
            remembered: [None; CHECKPOINTS],
            committing: None,
            waiting: None,
            done: None,
        }
    }

    /// Takes an event and writes what must be done into `out`, in order.
    ///
    /// # Errors
    /// [`Rejected`]; the machine is unchanged.
    pub fn on_event(
        &mut self,
        now: Now,
        event: OffsetsEvent,
        out: &mut VecView<OffsetsAction>,
    ) -> Result<(), Rejected> {
        self.admission.admit(now, out, Self::ACTIONS_MAX)?;
        let mut orders = Orders::new(out, Self::ACTIONS_MAX);
        self.step(event, &mut orders)?;
        self.admission.conclude(&orders, self.broken_invariant())
    }

    fn step(&mut self, event: OffsetsEvent, orders: &mut Orders<'_, OffsetsAction>) -> Result<(), Rejected> {
        match event {
            OffsetsEvent::SnapshotTaken { .. } if !self.is_on => Ok(()),
            OffsetsEvent::SnapshotTaken { id, is_empty } => {
                self.on_snapshot(Remembered { id, is_empty }, orders)
            }
            OffsetsEvent::CompleteNotified(id) => {
                self.on_complete(id, orders);
                Ok(())
            }
            OffsetsEvent::AbortNotified(_) => Ok(()), // A later one says more.
            OffsetsEvent::OffsetsCommitted(id) | OffsetsEvent::CommitFailed(id)
                if self.committing != Some(id) =>
            {
                unexpected("the origin is not being told the offsets of this checkpoint")
            }
            OffsetsEvent::OffsetsCommitted(id) => {
                self.on_commit_ended(Some(id), orders);
                Ok(())
            }
            OffsetsEvent::CommitFailed(_) => {
                self.on_commit_ended(None, orders);
                Ok(())
            }
        }
    }

    /// Offsets wait for events only, never for a time.
    #[must_use]
    pub const fn next_deadline(&self, _now: Now) -> Option<Millis> {
        None
    }

    /// How many checkpoints' offsets are remembered.
    #[must_use]
    pub fn remembered_count(&self) -> usize {
        self.remembered.iter().flatten().count()
    }

    /// Asserts every invariant.
    ///
    /// # Panics
    /// If one does not hold.
    pub fn check(&self) {
        assert_eq!(self.broken_invariant(), None);
    }

    fn broken_invariant(&self) -> Option<&'static str> {
        let all = || self.remembered.iter().flatten();
        let is_ordered = all().is_sorted_by(|one, two| one.id < two.id)
            && self.remembered.iter().is_sorted_by_key(Option::is_none);
        first_broken(&[
            ("OI1", is_ordered),
            ("OI2", all().all(|remembered| Some(remembered.id) > self.done)),
            ("OI3", self.waiting.is_none() || self.committing.is_some() && self.waiting > self.committing),
        ])
    }

    /// Rule C19.
    fn on_snapshot(
        &mut self,
        new: Remembered,
        orders: &mut Orders<'_, OffsetsAction>,
    ) -> Result<(), Rejected> {
        let newest = self.remembered.iter().flatten().last().map(|remembered| remembered.id);
        if newest.max(self.done) >= Some(new.id) {
            return unexpected("a later checkpoint has taken offsets, or is done");
        }
        if let Some(Some(oldest)) = self.remembered.first().copied()
            && self.remembered.iter().all(Option::is_some)
        {
            orders.push(OffsetsAction::Forget(oldest.id));
            self.drop_up_to(oldest.id);
        }
        if let Some(free) = self.remembered.iter_mut().find(|slot| slot.is_none()) {
            *free = Some(new);
        }
        Ok(())
    }

    /// Rule C20. What is older than what the origin is being told does nothing, so that it never goes back.
    fn on_complete(&mut self, id: CheckpointId, orders: &mut Orders<'_, OffsetsAction>) {
        let found = self.remembered.iter().flatten().find(|remembered| remembered.id == id);
        let Some(&Remembered { is_empty, .. }) = found else { return };
        if self.committing.max(self.waiting) >= Some(id) {
            return;
        }
        if is_empty {
            self.done = Some(id);
            self.waiting = None;
            self.drop_up_to(id);
            orders.push(OffsetsAction::Forget(id));
        } else if self.committing.is_some() {
            self.waiting = Some(id);
        } else {
            self.committing = Some(id);
            orders.push(OffsetsAction::Commit(id));
        }
    }

    fn on_commit_ended(&mut self, committed: Option<CheckpointId>, orders: &mut Orders<'_, OffsetsAction>) {
        self.committing = None;
        if let Some(id) = committed.filter(|id| Some(*id) > self.done) {
            self.done = Some(id);
            self.drop_up_to(id);
            orders.push(OffsetsAction::Forget(id));
        }
        if let Some(next) = self.waiting.take() {
            self.committing = Some(next);
            orders.push(OffsetsAction::Commit(next));
        }
    }

    fn drop_up_to(&mut self, id: CheckpointId) {
        // The caller is told to forget offsets: what waits for its turn must not need them any more.
        self.waiting = self.waiting.filter(|waiting| *waiting > id);
        while self.remembered.first().copied().flatten().is_some_and(|oldest| oldest.id <= id) {
            let mut moving = None;
            self.remembered.iter_mut().rev().for_each(|slot| core::mem::swap(slot, &mut moving));
        }
    }
}

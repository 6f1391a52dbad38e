//! Committables of a sink's writers, committed when their checkpoint is complete (Flink: `CommitterOperator`,
//! `CommittableCollector`).
//!
//! A writer flushes before the barrier: first a summary that says how many committables follow, then those (rule C11).
//! They travel ahead of the barrier, so the edge from writer to committer must not let barriers overtake. The
//! committables stay with the caller, filed by checkpoint; the machine counts them, says when to commit and how
//! often to try. The work of each event is bounded by `CHECKPOINTS`.
//!
//! # Invariants
//! - TI1: checkpoints stand in ascending order, without gaps at the beginning.
//! - TI2: a checkpoint has no more summaries than writers.
//! - TI3: what is being committed is the oldest checkpoint, and is complete.
//! - TI4: no committables of a complete checkpoint wait without a commit.

#[cfg(test)]
mod tests;

use heapless::VecView;

use super::unexpected;
use crate::bit_set::BitSet;
use crate::ids::CheckpointId;
use crate::machine::{Admission, Orders, Rejected, first_broken};
use crate::time::{Millis, Now};

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommitterEvent {
    /// A restored collector lists so many committables of a checkpoint; several collectors are merged (rule C16).
    Restored {
        /// The checkpoint.
        id: CheckpointId,
        /// How many are not committed.
        committables: u32,
    },
    /// The committer opens; with the checkpoint that it was restored from, if there is one.
    Opened(Option<CheckpointId>),
    /// A writer says what it has flushed.
    SummaryArrived {
        /// The checkpoint.
        id: CheckpointId,
        /// The writer's subtask.
        writer: u16,
        /// How many subtasks the writer has.
        writers: u16,
        /// How many committables follow.
        committables: u32,
    },
    /// A committable came.
    CommittableArrived {
        /// The checkpoint.
        id: CheckpointId,
        /// The writer's subtask.
        writer: u16,
    },
    /// A checkpoint is complete.
    CompleteNotified(CheckpointId),
    /// A checkpoint is off.
    AbortNotified(CheckpointId),
    /// No record and no committable follows.
    EndOfInput,
    /// The ordered commit returned.
    CommitReturned {
        /// The checkpoint.
        id: CheckpointId,
        /// How many want to be tried again, as they were or with other data.
        retry: u32,
        /// Whether one failed in a way that nobody knows how to go on from.
        failed: bool,
    },
}

/// What the committer must do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommitterAction {
    /// Commit what is left of the checkpoint, then report `CommitReturned`.
    Commit {
        /// The checkpoint.
        id: CheckpointId,
        /// How often it has been tried.
        retries: u16,
    },
    /// Everything of the checkpoint is committed: pass it on if somebody wants it, then forget it.
    Emit(CheckpointId),
    /// The task must fail; the restore commits again.
    FailTask(CheckpointId),
}

/// How the committer behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommitterOptions {
    /// Further tries after the first one.
    pub retries_max: u16,
    /// Whether there are checkpoints to wait for. Without them the end of input commits (rule C17).
    pub has_checkpoints: bool,
}

impl Default for CommitterOptions {
    fn default() -> Self {
        Self { retries_max: 10, has_checkpoints: true }
    }
}

/// Committables of up to `CHECKPOINTS` checkpoints from up to `32 * WRITER_WORDS` writers.
#[derive(Clone, Debug)]
pub struct Committer<const WRITER_WORDS: usize, const CHECKPOINTS: usize> {
    admission: Admission,
    options: CommitterOptions,
    state: State,
    batches: [Option<Batch<WRITER_WORDS>>; CHECKPOINTS],
    last_completed: Option<CheckpointId>,
    has_ended: bool,
    /// Tries of the oldest checkpoint's commit that is under way.
    committing: Option<u16>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Restoring,
    Open,
    Failed,
}

/// Committables of one checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Batch<const WRITER_WORDS: usize> {
    /// The checkpoint.
    pub id: CheckpointId,
    /// Committables that are here and not committed.
    pub committables: u32,
    /// Announced ones that have not come.
    awaited: u32,
    /// Writers whose summary has come, and how many there are.
    summaries: BitSet<WRITER_WORDS>,
    writers: u16,
}

impl<const WRITER_WORDS: usize> Batch<WRITER_WORDS> {
    const fn new(id: CheckpointId, writers: u16) -> Self {
        Self { id, committables: 0, awaited: 0, summaries: BitSet::empty(), writers }
    }

    fn is_whole(&self) -> bool {
        self.awaited == 0 && self.summaries.len() == usize::from(self.writers)
    }
}

impl<const WRITER_WORDS: usize, const CHECKPOINTS: usize> Committer<WRITER_WORDS, CHECKPOINTS> {
    /// The most actions that one event gives.
    pub const ACTIONS_MAX: usize = 2;

    /// A committer that is not open yet.
    #[must_use]
    pub fn new(options: CommitterOptions) -> Self {
        Self {
            admission: Admission::default(),
            options,
            state: State::Restoring,
            batches: [None; CHECKPOINTS],
            last_completed: None,
            has_ended: false,
            committing: None,
        }
    }

    /// Takes an event and writes what must be done into `out`, in order.
    ///
    /// # Errors
    /// [`Rejected`]; the machine is unchanged.
    pub fn on_event(
        &mut self,
        now: Now,
        event: CommitterEvent,
        out: &mut VecView<CommitterAction>,
    ) -> Result<(), Rejected> {
        self.admission.admit(now, out, Self::ACTIONS_MAX)?;
        let mut orders = Orders::new(out, Self::ACTIONS_MAX);
        self.step(event, &mut orders)?;
        self.admission.conclude(&orders, self.broken_invariant())
    }

    fn step(
        &mut self,
        event: CommitterEvent,
        orders: &mut Orders<'_, CommitterAction>,
    ) -> Result<(), Rejected> {
        use CommitterEvent as E;
        match (self.state, event) {
            (State::Failed, _) => unexpected("a commit has failed: the task has to fail"),
            (State::Restoring, E::Restored { id, committables }) => self.restore(id, committables),
            (State::Restoring, E::Opened(restored)) => self.open(restored, orders),
            (State::Restoring, _) => unexpected("the committer is not open"),
            (State::Open, E::Restored { .. } | E::Opened(_)) => unexpected("the committer is open already"),
            (State::Open, E::SummaryArrived { id, writer, writers, committables }) => {
                self.on_summary(id, writer, writers, committables)
            }
            (State::Open, E::CommittableArrived { id, writer }) => self.on_committable(id, writer),
            (State::Open, E::CompleteNotified(id)) => {
                self.commit_up_to(self.last_completed.map_or(id, |last| last.max(id)), orders)
            }
            (State::Open, E::AbortNotified(_)) => Ok(()), // Rule C18.
            (State::Open, E::EndOfInput) => self.on_end_of_input(orders),
            (State::Open, E::CommitReturned { id, retry, failed }) => {
                self.on_commit_returned(id, retry, failed, orders)
            }
        }
    }

    /// A committer waits for events only, never for a time.
    #[must_use]
    pub const fn next_deadline(&self, _now: Now) -> Option<Millis> {
        None
    }

    /// What a checkpoint has to list: everything that is not committed, oldest first (rule C13).
    pub fn batches(&self) -> impl Iterator<Item = &Batch<WRITER_WORDS>> {
        self.batches.iter().flatten()
    }

    /// Asserts every invariant.
    ///
    /// # Panics
    /// If one does not hold.
    pub fn check(&self) {
        assert_eq!(self.broken_invariant(), None);
    }

    fn broken_invariant(&self) -> Option<&'static str> {
        let is_ordered = self.batches().is_sorted_by(|one, two| one.id < two.id)
            && self.batches.iter().is_sorted_by_key(Option::is_none);
        let is_waiting = |batch: &Batch<WRITER_WORDS>| Some(batch.id) > self.last_completed;
        let oldest_waits = self.batches().next().is_none_or(is_waiting);
        first_broken(&[
            ("TI1", is_ordered),
            ("TI2", self.batches().all(|batch| batch.summaries.len() <= usize::from(batch.writers))),
            ("TI3", self.committing.is_none() || !oldest_waits),
            ("TI4", self.state != State::Open || self.committing.is_some() || oldest_waits),
        ])
    }

    fn restore(&mut self, id: CheckpointId, committables: u32) -> Result<(), Rejected> {
        let batch = self.batch(id, 0)?;
        batch.committables = batch.committables.saturating_add(committables);
        Ok(())
    }

    /// What the restored checkpoint and earlier ones list is committed at once (rule C16).
    fn open(
        &mut self,
        restored: Option<CheckpointId>,
        orders: &mut Orders<'_, CommitterAction>,
    ) -> Result<(), Rejected> {
        if self.batches().any(|batch| Some(batch.id) > restored) {
            return unexpected("a restored committable is of a later checkpoint than the restored one");
        }
        self.state = State::Open;
        match restored {
            Some(id) => self.commit_up_to(id, orders),
            None => Ok(()),
        }
    }

    fn on_summary(
        &mut self,
        id: CheckpointId,
        writer: u16,
        writers: u16,
        committables: u32,
    ) -> Result<(), Rejected> {
        if writer >= writers || usize::from(writers) > BitSet::<WRITER_WORDS>::CAPACITY {
            let (value, limit) = (writer.into(), BitSet::<WRITER_WORDS>::CAPACITY.min(writers.into()) as u64);
            return Err(Rejected::OutOfRange { what: "writer", value, limit });
        }
        if Some(id) <= self.last_completed {
            return unexpected("the checkpoint of this summary is complete already");
        }
        let merges = self.has_ended;
        let batch = self.batch(id, writers)?;
        if batch.writers != writers {
            return unexpected("writers disagree about how many they are");
        }
        if !batch.summaries.insert(writer) && !merges {
            return unexpected("this writer has sent a summary for this checkpoint already");
        }
        batch.awaited = batch.awaited.saturating_add(committables);
        Ok(())
    }

    fn on_committable(&mut self, id: CheckpointId, writer: u16) -> Result<(), Rejected> {
        let Some(batch) = self.batches.iter_mut().flatten().find(|batch| batch.id == id) else {
            return unexpected("a committable came before the summary of its checkpoint");
        };
        if !batch.summaries.contains(writer) || batch.awaited == 0 {
            return unexpected("a committable came that no summary announced");
        }
        batch.awaited = batch.awaited.saturating_sub(1);
        batch.committables = batch.committables.saturating_add(1);
        Ok(())
    }

    /// Without checkpoints nothing else would commit what came last (rule C17). With them the final one does.
    fn on_end_of_input(&mut self, orders: &mut Orders<'_, CommitterAction>) -> Result<(), Rejected> {
        if !self.options.has_checkpoints {
            self.commit_up_to(self.last_completed.map_or(CheckpointId::FIRST, CheckpointId::next), orders)?;
        }
        self.has_ended = true;
        Ok(())
    }

    /// Rule C14. A batch that is not whole would be committed in part, so it is refused.
    fn commit_up_to(
        &mut self,
        id: CheckpointId,
        orders: &mut Orders<'_, CommitterAction>,
    ) -> Result<(), Rejected> {
        if self.batches().any(|batch| batch.id <= id && !batch.is_whole()) {
            return unexpected("a checkpoint is complete for which a writer's committables are missing");
        }
        self.last_completed = Some(id);
        if self.committing.is_none() {
            self.commit_next(orders);
        }
        Ok(())
    }

    fn commit_next(&mut self, orders: &mut Orders<'_, CommitterAction>) {
        let oldest = self.batches().next().filter(|batch| Some(batch.id) <= self.last_completed);
        if let Some(&Batch { id, .. }) = oldest {
            self.committing = Some(0);
            orders.push(CommitterAction::Commit { id, retries: 0 });
        }
    }

    /// Tries again at once while some ask for it, up to the limit (rule C15).
    fn on_commit_returned(
        &mut self,
        id: CheckpointId,
        retry: u32,
        failed: bool,
        orders: &mut Orders<'_, CommitterAction>,
    ) -> Result<(), Rejected> {
        let retries_max = self.options.retries_max;
        let (Some(retries), Some(oldest)) = (self.committing, self.batches.iter_mut().flatten().next())
        else {
            return unexpected("nothing is being committed");
        };
        if oldest.id != id || retry > oldest.committables {
            return unexpected("this is not what is being committed");
        }
        oldest.committables = retry;
        if failed || retry > 0 && retries >= retries_max {
            self.state = State::Failed;
            orders.push(CommitterAction::FailTask(id));
        } else if retry > 0 {
            let retries = retries.saturating_add(1);
            self.committing = Some(retries);
            orders.push(CommitterAction::Commit { id, retries });
        } else {
            self.committing = None;
            self.pop();
            orders.push(CommitterAction::Emit(id));
            self.commit_next(orders);
        }
        Ok(())
    }

    /// The batch of `id`, which is made if there is none.
    fn batch(&mut self, id: CheckpointId, writers: u16) -> Result<&mut Batch<WRITER_WORDS>, Rejected> {
        let is_full = self.batches.iter().all(Option::is_some);
        let place = self.batches().filter(|batch| batch.id < id).count();
        let is_there = self.batches.get(place).copied().flatten().is_some_and(|batch| batch.id == id);
        if !is_there && is_full {
            return Err(full(CHECKPOINTS));
        }
        let Some(behind) = self.batches.get_mut(place..) else { return Err(full(CHECKPOINTS)) };
        if !is_there {
            let mut moving = Some(Batch::new(id, writers));
            behind.iter_mut().for_each(|slot| core::mem::swap(slot, &mut moving));
        }
        behind.iter_mut().flatten().next().ok_or(full(CHECKPOINTS))
    }

    fn pop(&mut self) {
        let mut moving = None;
        self.batches.iter_mut().rev().for_each(|slot| core::mem::swap(slot, &mut moving));
    }
}

const fn full(checkpoints: usize) -> Rejected {
    let limit = checkpoints as u64;
    Rejected::OutOfRange { what: "checkpoints with committables", value: limit, limit }
}

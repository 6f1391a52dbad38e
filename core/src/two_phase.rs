//! What becomes of a sink's transactions (Flink: `TwoPhaseCommitSinkFunction`), and of what else is made visible only
//! when a checkpoint is complete.
//!
//! Records go into the current transaction. A checkpoint closes it: it is made so durable that its commit can no longer
//! fail for lack of anything, is listed in the checkpoint's state, and waits there until the checkpoint, or any later
//! one, is complete (rules C3 and C4). A lost notification is thus made up for by the next one or by a restore. What a
//! transaction is stays with the caller, under a token; the caller lists in each checkpoint whatever
//! [`pending`](TwoPhase::pending) gives after [`SnapshotRequested`](TwoPhaseEvent::SnapshotRequested).
//!
//! Commits are ordered one at a time, oldest first, and a transaction stays listed until its commit was reported. If
//! checkpoints fail so often that `PENDING` transactions wait, the newest of them and the one being closed are taken
//! together and wait for the newer checkpoint: nothing is lost by that, and checkpoints can go on. The work of each
//! event is bounded by `PENDING`.
//!
//! [`committer`] holds the committables of several writers, [`offsets`] what a source tells its origin, [`splits`]
//! which parts of the input a reader has to be given again.
//!
//! # Invariants
//! - FI1: pending transactions stand in the order of their checkpoints and of their tokens.
//! - FI2: the current transaction is newer than every pending one, and is not durable.
//! - FI3: what is being committed is the oldest one, is durable, and its checkpoint or a later one is complete.
//! - FI4: a transaction is recovered only before the first one is begun.

pub mod committer;
pub mod offsets;
pub mod splits;
mod steps;
#[cfg(test)]
mod tests;

use heapless::VecView;

use crate::ids::CheckpointId;
use crate::machine::{Admission, Orders, Rejected, first_broken};
use crate::time::{Millis, Now};

/// Names a transaction. Those that the machine begins are numbered from zero; those of a restored checkpoint are named by
/// the caller and meant only during the restore.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TransactionToken(pub u64);

/// Transactions that are committed together, as one: usually a single one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transactions {
    /// The oldest.
    pub first: TransactionToken,
    /// The newest.
    pub last: TransactionToken,
}

impl Transactions {
    /// This one alone.
    #[must_use]
    pub const fn only(token: TransactionToken) -> Self {
        Self { first: token, last: token }
    }

    /// Whether `token` is among them.
    #[must_use]
    pub const fn contains(&self, token: TransactionToken) -> bool {
        self.first.0 <= token.0 && token.0 <= self.last.0
    }
}

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TwoPhaseEvent {
    /// The sink opens, and no more is to be recovered (rules C1 and C6).
    Opened,
    /// A restored checkpoint lists this transaction as pending. Those of one element come in the listed order.
    PendingRestored {
        /// Its name during the restore.
        token: TransactionToken,
        /// When it was begun, by the wall clock.
        begun_at: Millis,
    },
    /// The transaction that was current when the restored checkpoint was taken: the last one of its element.
    CurrentRestored {
        /// Its name during the restore.
        token: TransactionToken,
    },
    /// What was ordered of a restored transaction is done.
    Recovered(TransactionToken),
    /// What was ordered of a restored transaction failed.
    RecoverFailed(TransactionToken),
    /// A checkpoint takes the sink's state: the current transaction is closed under it (rule C3).
    SnapshotRequested(CheckpointId),
    /// A closed transaction, and with it every earlier one, is durable: their commits can succeed whatever happens.
    PreCommitted(TransactionToken),
    /// A closed transaction could not be made durable.
    PreCommitFailed(TransactionToken),
    /// A checkpoint is complete.
    CompleteNotified(CheckpointId),
    /// A checkpoint is off.
    AbortNotified(CheckpointId),
    /// The ordered commit is done.
    Committed(Transactions),
    /// The ordered commit failed.
    CommitFailed(Transactions),
    /// No record follows.
    Finished,
    /// The sink closes.
    Closed,
}

/// What the sink must do, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TwoPhaseAction {
    /// Begin a transaction, which becomes the current one.
    Begin(TransactionToken),
    /// Flush and close the transaction, then report `PreCommitted` or `PreCommitFailed`.
    PreCommit {
        /// The transaction.
        token: TransactionToken,
        /// The checkpoint that lists it first.
        id: CheckpointId,
    },
    /// Commit them, oldest first, then report `Committed` or `CommitFailed`.
    Commit(Transactions),
    /// Commit a restored transaction, which may be committed already; then report `Recovered` or `RecoverFailed`.
    RecoverAndCommit(TransactionToken),
    /// Abort a restored transaction, which may be aborted or unknown; then report `Recovered` or `RecoverFailed`.
    RecoverAndAbort(TransactionToken),
    /// Abort whatever earlier attempts have begun and no restored checkpoint lists.
    AbortLingering,
    /// Abort the transaction.
    Abort(TransactionToken),
    /// Tell somebody that these have come close to the transaction time-out before their commit (rule C9).
    WarnOfTimeout(Transactions),
    /// Tell somebody that this restored transaction is lost: it timed out before it could be committed.
    ReportLoss(TransactionToken),
    /// The task must fail; a restore commits again what this checkpoint or a later one lists.
    FailTask(TransactionToken),
}

/// How long transactions live.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TwoPhaseOptions {
    /// Time after which the other side gives a transaction up; none: never. It has to exceed the longest time between
    /// two complete checkpoints plus the longest time that the job is down (rule C9).
    pub timeout: Option<Millis>,
    /// Percents of the time-out after which a commit is warned of; none: never.
    pub warn_percent: Option<u8>,
    /// Whether a restored transaction older than the time-out may be lost, instead of failing the task for ever
    /// (rule C7).
    pub ignores_failures_after_timeout: bool,
}

/// The transactions of one sink, of which up to `PENDING` wait for their checkpoints.
#[derive(Clone, Debug)]
pub struct TwoPhase<const PENDING: usize> {
    admission: Admission,
    options: TwoPhaseOptions,
    state: State,
    current: Option<Current>,
    /// Without gaps at its beginning, oldest first.
    pending: [Option<Pending>; PENDING],
    /// The next token.
    next: TransactionToken,
    /// The first transaction that is not durable.
    flushing: TransactionToken,
    /// The newest checkpoint known to be complete.
    completed: Option<CheckpointId>,
    is_committing: bool,
    /// The first commit that failed, until those behind it were tried, too.
    first_failed: Option<TransactionToken>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Restored transactions are dealt with, one at a time.
    Recovering {
        outstanding: Option<Recovery>,
    },
    Open,
    /// No record follows: the current transaction is the last one.
    Finished,
    Closed,
    Failed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Recovery {
    token: TransactionToken,
    /// When a transaction to be committed was begun.
    begun_at: Option<Millis>,
}

#[derive(Clone, Copy, Debug)]
struct Current {
    token: TransactionToken,
    begun_at: Millis,
}

/// Transactions that a checkpoint lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pending {
    /// The checkpoint on whose completion they wait.
    pub id: CheckpointId,
    /// The transactions.
    pub transactions: Transactions,
    /// When the oldest of them was begun, by the wall clock.
    pub begun_at: Millis,
    /// The checkpoint that closed the oldest of them.
    first_id: CheckpointId,
    /// All that checkpoints up to this one have closed is flushed.
    sealed: CheckpointId,
    /// The checkpoint that closed the newest but one, and what it closed. An earlier one that is not sealed waits for
    /// that, too.
    joint: CheckpointId,
    joint_last: TransactionToken,
}

impl<const PENDING: usize> TwoPhase<PENDING> {
    /// The most actions that one event gives.
    pub const ACTIONS_MAX: usize = 2;

    /// A sink that is not open yet.
    #[must_use]
    pub fn new(options: TwoPhaseOptions) -> Self {
        const { assert!(PENDING > 0, "a checkpoint needs room for the transaction that it closes") };
        Self {
            admission: Admission::default(),
            options,
            state: State::Recovering { outstanding: None },
            current: None,
            pending: [None; PENDING],
            next: TransactionToken(0),
            flushing: TransactionToken(0),
            completed: None,
            is_committing: false,
            first_failed: None,
        }
    }

    /// Takes an event and writes what must be done into `out`, in order.
    ///
    /// # Errors
    /// [`Rejected`]; the machine is unchanged.
    pub fn on_event(
        &mut self,
        now: Now,
        event: TwoPhaseEvent,
        out: &mut VecView<TwoPhaseAction>,
    ) -> Result<(), Rejected> {
        self.admission.admit(now, out, Self::ACTIONS_MAX)?;
        let mut orders = Orders::new(out, Self::ACTIONS_MAX);
        self.step(now, event, &mut orders)?;
        self.admission.conclude(&orders, self.broken_invariant())
    }

    fn step(
        &mut self,
        now: Now,
        event: TwoPhaseEvent,
        orders: &mut Orders<'_, TwoPhaseAction>,
    ) -> Result<(), Rejected> {
        use TwoPhaseEvent as E;
        match (self.state, event) {
            (State::Failed, _) => unexpected("a commit has failed: the task has to fail"),
            (State::Closed, _) => unexpected("the sink is closed"),
            (State::Recovering { outstanding: None }, E::Opened) => {
                self.recovering_on_opened(now, orders);
                Ok(())
            }
            (State::Recovering { outstanding: None }, E::PendingRestored { token, begun_at }) => {
                self.recover(token, Some(begun_at), orders);
                Ok(())
            }
            (State::Recovering { outstanding: None }, E::CurrentRestored { token }) => {
                self.recover(token, None, orders);
                Ok(())
            }
            (State::Recovering { outstanding: Some(recovery) }, E::Recovered(token))
                if recovery.token == token =>
            {
                self.state = State::Recovering { outstanding: None };
                Ok(())
            }
            (State::Recovering { outstanding: Some(recovery) }, E::RecoverFailed(token))
                if recovery.token == token =>
            {
                self.recovering_on_failed(now, recovery, orders);
                Ok(())
            }
            (State::Recovering { .. }, _) => unexpected("the sink recovers its transactions one by one"),
            (State::Open | State::Finished, E::SnapshotRequested(id)) => self.on_snapshot(now, id, orders),
            (State::Open | State::Finished, E::PreCommitted(token)) => self.on_pre_committed(token),
            (State::Open | State::Finished, E::PreCommitFailed(token)) => {
                self.on_pre_commit_failed(token, orders)
            }
            (State::Open | State::Finished, E::CompleteNotified(id)) => self.on_complete(now, id, orders),
            (State::Open | State::Finished, E::AbortNotified(_)) => Ok(()), // Rule C5.
            (State::Open | State::Finished, E::Committed(transactions)) => {
                self.on_commit_ended(now, transactions, false, orders)
            }
            (State::Open | State::Finished, E::CommitFailed(transactions)) => {
                self.on_commit_ended(now, transactions, true, orders)
            }
            (State::Open, E::Finished) => {
                self.state = State::Finished;
                Ok(())
            }
            (State::Open | State::Finished, E::Closed) => {
                self.on_closed(orders);
                Ok(())
            }
            (
                State::Open | State::Finished,
                E::Opened
                | E::PendingRestored { .. }
                | E::CurrentRestored { .. }
                | E::Recovered(_)
                | E::RecoverFailed(_)
                | E::Finished,
            ) => unexpected("the sink is open already, or has finished"),
        }
    }

    /// Transactions wait for events only, never for a time.
    #[must_use]
    pub const fn next_deadline(&self, _now: Now) -> Option<Millis> {
        None
    }

    /// The transaction that records go to (rule C2).
    #[must_use]
    pub fn current(&self) -> Option<TransactionToken> {
        self.current.map(|current| current.token)
    }

    /// What the next checkpoint lists besides the current transaction, oldest first (rule C3).
    pub fn pending(&self) -> impl Iterator<Item = &Pending> {
        self.pending.iter().flatten()
    }

    /// Whether everything that checkpoint `id` lists is durable. Its acknowledgement has to wait for that.
    #[must_use]
    pub fn is_durable(&self, id: CheckpointId) -> bool {
        self.pending().all(|pending| pending.is_durable(id, self.flushing))
    }

    /// Whether nothing that checkpoint `id` or an earlier one lists waits for its commit.
    #[must_use]
    pub fn is_committed(&self, id: CheckpointId) -> bool {
        self.pending().all(|pending| pending.first_id > id)
    }

    /// Whether transaction `token` is known to be durable.
    #[must_use]
    pub fn is_flushed(&self, token: TransactionToken) -> bool {
        token < self.flushing
    }

    /// Whether a checkpoint can close a transaction now. If not, commits are on their way, after which it can.
    #[must_use]
    pub fn has_room(&self) -> bool {
        self.current.is_none() || self.pending.iter().any(Option::is_none) || self.can_join_newest()
    }

    /// Asserts every invariant.
    ///
    /// # Panics
    /// If one does not hold.
    pub fn check(&self) {
        assert_eq!(self.broken_invariant(), None);
    }

    fn broken_invariant(&self) -> Option<&'static str> {
        let pairs = || self.pending().zip(self.pending().skip(1));
        let is_ordered = |(one, two): (&Pending, &Pending)| {
            one.id < two.id && one.transactions.last < two.transactions.first
        };
        let is_newer = |current: Current| {
            self.pending().all(|pending| pending.transactions.last < current.token)
                && (self.flushing..self.next).contains(&current.token)
        };
        let is_committable =
            |oldest: &Pending| self.is_flushed(oldest.transactions.last) && Some(oldest.id) <= self.completed;
        let recovers = matches!(self.state, State::Recovering { .. });
        first_broken(&[
            ("FI1", pairs().all(is_ordered) && self.pending.iter().is_sorted_by_key(Option::is_none)),
            ("FI2", self.current.is_none_or(is_newer)),
            ("FI3", !self.is_committing || self.pending().next().is_some_and(is_committable)),
            ("FI4", !recovers || self.next == TransactionToken(0)),
        ])
    }
}

const fn unexpected(what: &'static str) -> Result<(), Rejected> {
    Err(Rejected::Unexpected { what })
}

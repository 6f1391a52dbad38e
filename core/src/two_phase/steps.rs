//! What each event does to a sink's transactions, one function per edge.

use super::{
    Current, Pending, Recovery, State, TransactionToken, Transactions, TwoPhase, TwoPhaseAction, unexpected,
};
use crate::ids::CheckpointId;
use crate::machine::{Orders, Rejected};
use crate::time::{Millis, Now};

impl<const PENDING: usize> TwoPhase<PENDING> {
    /// What no checkpoint lists is aborted before the first transaction begins (rules C1 and C6).
    pub(super) fn recovering_on_opened(&mut self, now: Now, orders: &mut Orders<'_, TwoPhaseAction>) {
        self.state = State::Open;
        orders.push(TwoPhaseAction::AbortLingering);
        self.begin(now, orders);
    }

    /// Commits what the restored checkpoint lists as pending, aborts what was current (rule C6).
    pub(super) fn recover(
        &mut self,
        token: TransactionToken,
        begun_at: Option<Millis>,
        orders: &mut Orders<'_, TwoPhaseAction>,
    ) {
        self.state = State::Recovering { outstanding: Some(Recovery { token, begun_at }) };
        orders.push(match begun_at {
            Some(_) => TwoPhaseAction::RecoverAndCommit(token),
            None => TwoPhaseAction::RecoverAndAbort(token),
        });
    }

    /// A failure restarts the job, unless the transaction cannot be there any more and may be lost (rule C7).
    pub(super) fn recovering_on_failed(
        &mut self,
        now: Now,
        recovery: Recovery,
        orders: &mut Orders<'_, TwoPhaseAction>,
    ) {
        let is_over =
            |begun_at| self.options.timeout.is_some_and(|timeout| now.wall.since(begun_at) > timeout);
        if self.options.ignores_failures_after_timeout && recovery.begun_at.is_some_and(is_over) {
            self.state = State::Recovering { outstanding: None };
            orders.push(TwoPhaseAction::ReportLoss(recovery.token));
        } else {
            self.fail(recovery.token, orders);
        }
    }

    /// Closes the current transaction under the checkpoint and begins the next one (rule C3).
    pub(super) fn on_snapshot(
        &mut self,
        now: Now,
        id: CheckpointId,
        orders: &mut Orders<'_, TwoPhaseAction>,
    ) -> Result<(), Rejected> {
        if self.pending().last().is_some_and(|newest| newest.id >= id) || self.completed >= Some(id) {
            return unexpected("a later checkpoint has closed a transaction, or is complete");
        }
        let Some(current) = self.current else { return Ok(()) };
        if !self.has_room() {
            return unexpected("as many transactions as fit are being committed: decline the checkpoint");
        }
        self.append(id, current);
        self.current = None;
        orders.push(TwoPhaseAction::PreCommit { token: current.token, id });
        if self.state == State::Open {
            self.begin(now, orders);
        }
        Ok(())
    }

    pub(super) fn on_pre_committed(&mut self, token: TransactionToken) -> Result<(), Rejected> {
        self.is_being_flushed(token)?;
        self.flushing = TransactionToken(token.0.saturating_add(1));
        Ok(())
    }

    /// The records in it would be missing for ever, so the task fails and no checkpoint that lists it is acknowledged.
    pub(super) fn on_pre_commit_failed(
        &mut self,
        token: TransactionToken,
        orders: &mut Orders<'_, TwoPhaseAction>,
    ) -> Result<(), Rejected> {
        self.is_being_flushed(token)?;
        self.fail(token, orders);
        Ok(())
    }

    /// Everything up to the checkpoint is committed, whether its own notification came or not (rule C4).
    pub(super) fn on_complete(
        &mut self,
        now: Now,
        id: CheckpointId,
        orders: &mut Orders<'_, TwoPhaseAction>,
    ) -> Result<(), Rejected> {
        if !self.is_durable(id) {
            return unexpected("a checkpoint is complete whose transactions are not durable");
        }
        self.completed = self.completed.max(Some(id));
        if !self.is_committing {
            self.commit_next(now, orders);
        }
        Ok(())
    }

    /// Also a failed one is taken out: the restore commits it again. The task fails when all were tried (rule C4).
    pub(super) fn on_commit_ended(
        &mut self,
        now: Now,
        transactions: Transactions,
        failed: bool,
        orders: &mut Orders<'_, TwoPhaseAction>,
    ) -> Result<(), Rejected> {
        let is_it = |oldest: &Pending| oldest.transactions == transactions;
        if !self.is_committing || !self.pending().next().is_some_and(is_it) {
            return unexpected("these transactions are not being committed");
        }
        self.is_committing = false;
        self.pop();
        if failed {
            self.first_failed.get_or_insert(transactions.first);
        }
        self.commit_next(now, orders);
        match self.first_failed {
            Some(token) if !self.is_committing => self.fail(token, orders),
            _ => {}
        }
        Ok(())
    }

    /// Pending ones are left for the restore (rule C8).
    pub(super) fn on_closed(&mut self, orders: &mut Orders<'_, TwoPhaseAction>) {
        self.state = State::Closed;
        self.is_committing = false;
        if let Some(current) = self.current.take() {
            orders.push(TwoPhaseAction::Abort(current.token));
        }
    }

    /// Whether the newest pending transaction may wait for a later checkpoint together with the current one.
    pub(super) fn can_join_newest(&self) -> bool {
        self.pending().last().is_some_and(|newest| Some(newest.id) > self.completed)
    }

    fn begin(&mut self, now: Now, orders: &mut Orders<'_, TwoPhaseAction>) {
        let token = self.next;
        self.next = TransactionToken(token.0.saturating_add(1));
        self.current = Some(Current { token, begun_at: now.wall });
        orders.push(TwoPhaseAction::Begin(token));
    }

    fn append(&mut self, id: CheckpointId, current: Current) {
        if let Some(free) = self.pending.iter_mut().find(|slot| slot.is_none()) {
            *free = Some(Pending::new(id, current));
        } else if let Some(Some(newest)) = self.pending.last_mut() {
            newest.join(id, current.token, self.flushing);
        }
    }

    fn is_being_flushed(&self, token: TransactionToken) -> Result<(), Rejected> {
        let is_closed = self.pending().any(|pending| pending.transactions.contains(token));
        if !is_closed || self.is_flushed(token) {
            return unexpected("this transaction is not being flushed");
        }
        Ok(())
    }

    fn commit_next(&mut self, now: Now, orders: &mut Orders<'_, TwoPhaseAction>) {
        let Some(oldest) = self.pending().next().copied() else { return };
        if Some(oldest.id) > self.completed {
            return;
        }
        self.is_committing = true;
        if self.is_near_timeout(now, oldest.begun_at) {
            orders.push(TwoPhaseAction::WarnOfTimeout(oldest.transactions));
        }
        orders.push(TwoPhaseAction::Commit(oldest.transactions));
    }

    fn is_near_timeout(&self, now: Now, begun_at: Millis) -> bool {
        let Some((timeout, percent)) = self.options.timeout.zip(self.options.warn_percent) else {
            return false;
        };
        let limit = u128::from(timeout.0).saturating_mul(percent.into());
        u128::from(now.wall.since(begun_at).0).saturating_mul(100) > limit
    }

    fn pop(&mut self) {
        let mut moving = None;
        self.pending.iter_mut().rev().for_each(|slot| core::mem::swap(slot, &mut moving));
    }

    fn fail(&mut self, token: TransactionToken, orders: &mut Orders<'_, TwoPhaseAction>) {
        self.state = State::Failed;
        orders.push(TwoPhaseAction::FailTask(token));
    }
}

impl Pending {
    pub(super) const fn new(id: CheckpointId, Current { token, begun_at }: Current) -> Self {
        let before = CheckpointId(id.0.saturating_sub(1));
        Self {
            id,
            transactions: Transactions::only(token),
            begun_at,
            first_id: id,
            sealed: before,
            joint: before,
            joint_last: token,
        }
    }

    /// Takes in what a later checkpoint closes. Everything before `flushing` is flushed: what an earlier checkpoint lists
    /// is durable from then on, whatever joins.
    fn join(&mut self, id: CheckpointId, token: TransactionToken, flushing: TransactionToken) {
        for (closed_by, last) in [(self.joint, self.joint_last), (self.id, self.transactions.last)] {
            if last < flushing {
                self.sealed = self.sealed.max(closed_by);
            }
        }
        (self.joint, self.joint_last) = (self.id, self.transactions.last);
        (self.id, self.transactions.last) = (id, token);
    }

    /// Whether what checkpoint `id` lists of these is flushed.
    pub(super) fn is_durable(&self, id: CheckpointId, flushing: TransactionToken) -> bool {
        let last = if id <= self.joint { self.joint_last } else { self.transactions.last };
        id <= self.sealed || last < flushing
    }
}

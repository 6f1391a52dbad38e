//! A sink with two-phase commit: its machine, and the transactions that the machine orders.

use std::collections::BTreeSet;

use slackwater_core::ids::CheckpointId;
use slackwater_core::two_phase::{
    TransactionToken, Transactions, TwoPhase, TwoPhaseAction, TwoPhaseEvent, TwoPhaseOptions,
};

use crate::plan::Mutant;
use crate::record::Row;
use crate::storage::{SinkState, TransactionName};
use crate::task::{Cx, Effect};

/// Few, so that some have to wait together.
type Machine = TwoPhase<2>;

#[derive(Debug)]
pub(crate) struct Sink {
    machine: Machine,
    run: u32,
    task: u16,
    /// Checkpoints whose transactions are being flushed.
    flushing: BTreeSet<CheckpointId>,
}

impl Sink {
    /// Opens with what a restored checkpoint lists.
    pub(crate) fn open(
        (run, task): (u32, u16),
        states: &[SinkState],
        cx: &mut Cx<'_>,
    ) -> Result<Self, String> {
        let machine = Machine::new(TwoPhaseOptions::default());
        let mut sink = Self { machine, run, task, flushing: BTreeSet::new() };
        for state in states {
            for (at, (name, begun_at)) in (0..).zip(&state.pending) {
                let token = TransactionToken(at);
                sink.tell(TwoPhaseEvent::PendingRestored { token, begun_at: *begun_at }, cx)?;
                if !cx.plan.has(Mutant::RecoveredIgnored) {
                    cx.ledger.commit(*name)?;
                    cx.coverage.note("recovered transactions");
                }
                sink.tell(TwoPhaseEvent::Recovered(token), cx)?;
            }
            if let Some(name) = state.current {
                let token = TransactionToken(u64::MAX);
                sink.tell(TwoPhaseEvent::CurrentRestored { token }, cx)?;
                cx.ledger.abort(name);
                sink.tell(TwoPhaseEvent::Recovered(token), cx)?;
            }
        }
        sink.tell(TwoPhaseEvent::Opened, cx)?;
        Ok(sink)
    }

    pub(crate) fn add(&self, row: Row, cx: &mut Cx<'_>) -> Result<(), String> {
        let current = self.machine.current().ok_or("a record came to a sink without a transaction")?;
        cx.ledger.add(self.name(current), row);
        Ok(())
    }

    pub(crate) fn has_room(&self) -> bool {
        self.machine.has_room()
    }

    /// Closes the current transaction and gives what the checkpoint lists.
    pub(crate) fn snapshot(&mut self, id: CheckpointId, cx: &mut Cx<'_>) -> Result<SinkState, String> {
        self.tell(TwoPhaseEvent::SnapshotRequested(id), cx)?;
        let mut state = SinkState::default();
        for pending in self.machine.pending() {
            let Transactions { first, last } = pending.transactions;
            if first != last {
                cx.coverage.note("joined transactions");
            }
            let names = (first.0..=last.0).map(|number| self.name(TransactionToken(number)));
            state.pending.extend(names.map(|name| (name, pending.begun_at)));
        }
        state.current = self.machine.current().map(|token| self.name(token));
        Ok(state)
    }

    /// The checkpoint's transactions have to be durable from now on.
    pub(crate) fn await_flush(&mut self, id: CheckpointId) {
        self.flushing.insert(id);
    }

    pub(crate) fn forget(&mut self, id: CheckpointId) {
        self.flushing.remove(&id);
    }

    /// A checkpoint whose transactions have all become durable.
    pub(crate) fn take_flushed(&mut self) -> Option<CheckpointId> {
        let flushed = self.flushing.iter().copied().find(|id| self.machine.is_durable(*id))?;
        self.flushing.remove(&flushed);
        Some(flushed)
    }

    pub(crate) fn on_flushed(&mut self, token: TransactionToken, cx: &mut Cx<'_>) -> Result<(), String> {
        // One that was flushed later may stand for it already.
        if self.machine.is_flushed(token) {
            return Ok(());
        }
        self.tell(TwoPhaseEvent::PreCommitted(token), cx)
    }

    pub(crate) fn on_committed(&mut self, done: Transactions, cx: &mut Cx<'_>) -> Result<(), String> {
        self.tell(TwoPhaseEvent::Committed(done), cx)
    }

    pub(crate) fn on_complete(&mut self, id: CheckpointId, cx: &mut Cx<'_>) -> Result<(), String> {
        self.tell(TwoPhaseEvent::CompleteNotified(id), cx)
    }

    pub(crate) fn on_abort(&mut self, id: CheckpointId, cx: &mut Cx<'_>) -> Result<(), String> {
        self.tell(TwoPhaseEvent::AbortNotified(id), cx)
    }

    pub(crate) fn on_end(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        self.tell(TwoPhaseEvent::Finished, cx)
    }

    pub(crate) fn on_close(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        self.tell(TwoPhaseEvent::Closed, cx)
    }

    pub(crate) fn is_committed(&self) -> bool {
        self.machine.pending().next().is_none()
    }

    const fn name(&self, token: TransactionToken) -> TransactionName {
        TransactionName { run: self.run, task: self.task, number: token.0 }
    }

    fn tell(&mut self, event: TwoPhaseEvent, cx: &mut Cx<'_>) -> Result<(), String> {
        let mut actions = heapless::Vec::<_, { Machine::ACTIONS_MAX }>::new();
        let told = self.machine.on_event(cx.now, event, &mut actions);
        told.map_err(|rejected| format!("sink {}: {event:?}: {rejected}", self.task))?;
        self.machine.check();
        for action in actions {
            match action {
                TwoPhaseAction::Begin(token) => cx.ledger.begin(self.name(token)),
                TwoPhaseAction::PreCommit { token, id } => {
                    cx.ledger.close(self.name(token), id);
                    cx.effects.push(Effect::Flush(self.name(token)));
                }
                TwoPhaseAction::Commit(transactions) => {
                    let name = self.name(transactions.first);
                    cx.effects.push(Effect::Commit { name, transactions });
                }
                TwoPhaseAction::Abort(token) => cx.ledger.abort(self.name(token)),
                // What lingers was aborted for all sinks when the job was restored.
                TwoPhaseAction::AbortLingering
                | TwoPhaseAction::RecoverAndCommit(_)
                | TwoPhaseAction::RecoverAndAbort(_) => {}
                TwoPhaseAction::FailTask(_)
                | TwoPhaseAction::WarnOfTimeout(_)
                | TwoPhaseAction::ReportLoss(_) => return Err(format!("sink {}: {action:?}", self.task)),
            }
        }
        Ok(())
    }
}

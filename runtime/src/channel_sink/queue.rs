//! The channel between sinks and their consumer: transactions, and what has been handed over.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use slackwater_core::ids::CheckpointId;

use super::{ChannelOutput, Transaction};
use crate::actor::lock;
use crate::operator::OperatorError;

/// A channel for at most `bound` transactions, at least one, that the consumer has not taken.
///
/// Its life is that of the process: give the same output to every start of the job in it.
#[must_use]
pub fn channel(bound: usize) -> (ChannelOutput, ChannelRecords) {
    let shared = Arc::new(Shared { state: Mutex::default(), changed: Condvar::new(), bound: bound.max(1) });
    let consumer = ChannelRecords { shared: Arc::clone(&shared) };
    (ChannelOutput { queue: Queue(Arc::new(Producers(shared))) }, consumer)
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    bound: usize,
}

#[derive(Debug, Default)]
struct State {
    waiting: VecDeque<Transaction>,
    /// Up to which checkpoint transactions have been handed over, of each attempt and subtask.
    handed_over: BTreeMap<(u64, u16), CheckpointId>,
    /// The newest checkpoint of all that.
    newest: Option<CheckpointId>,
    /// The sinks' tasks, by subtask.
    tasks: BTreeMap<u16, Waker>,
    /// The operator whose sinks they are.
    operator: Option<String>,
    consumer: Option<Waker>,
    consumer_is_gone: bool,
    producers_are_gone: bool,
}

/// The sinks' end.
#[derive(Clone, Debug)]
pub(super) struct Queue(Arc<Producers>);

/// Dropped with the last of the sinks.
#[derive(Debug)]
struct Producers(Arc<Shared>);

impl Queue {
    fn shared(&self) -> &Shared {
        &self.0.0
    }

    /// The first operator that takes the channel has it to itself.
    pub(super) fn claim(&self, operator: &str) {
        lock(&self.shared().state).operator.get_or_insert_with(|| operator.to_owned());
    }

    pub(super) fn set_waker(&self, subtask: u16, waker: Waker) {
        lock(&self.shared().state).tasks.insert(subtask, waker);
    }

    /// Hands a transaction over; gives it back if there is no room.
    pub(super) fn push(&self, transaction: Transaction) -> Result<(), Transaction> {
        let shared = self.shared();
        let mut state = lock(&shared.state);
        if state.waiting.len() >= shared.bound {
            return Err(transaction);
        }
        state.hand_over(transaction);
        self.0.0.wake_consumer(state);
        Ok(())
    }

    /// Hands over what a restored checkpoint lists, but for what the consumer has had. There is always room for it.
    pub(super) fn recover(
        &self,
        operator: &str,
        restored: Option<CheckpointId>,
        pending: Vec<Transaction>,
    ) -> Result<(), OperatorError> {
        let mut state = lock(&self.shared().state);
        if let Some(owner) = state.operator.as_deref().filter(|owner| *owner != operator) {
            return Err(OperatorError::beyond_restart(format!(
                "its channel is that of {owner}: make another for {operator}"
            )));
        }
        if let Some(newest) = state.newest.filter(|newest| Some(*newest) > restored) {
            return Err(OperatorError::beyond_restart(format!(
                "the consumer of {operator} has had records of checkpoint {newest} already, which this start does not \
                 go on from: start a new process with a new consumer, which gets them again"
            )));
        }
        // What is on no list any more does not come again.
        let is_listed = |at: &(u64, u16)| {
            pending.iter().any(|transaction| (transaction.id().attempt, transaction.id().subtask) == *at)
        };
        state.handed_over.retain(|at, _| is_listed(at));
        pending.into_iter().for_each(|transaction| state.hand_over(transaction));
        self.0.0.wake_consumer(state);
        Ok(())
    }

    /// An error if nobody will ever take anything: a restart finds the same channel.
    pub(super) fn expect_consumer(&self, operator: &str) -> Result<(), OperatorError> {
        if lock(&self.shared().state).consumer_is_gone {
            return Err(OperatorError::beyond_restart(format!(
                "the consumer of {operator} is gone: keep the channel's other end as long as the job"
            )));
        }
        Ok(())
    }
}

impl State {
    fn hand_over(&mut self, transaction: Transaction) {
        let id = transaction.id();
        let mark = self.handed_over.entry((id.attempt, id.subtask)).or_insert(CheckpointId(0));
        if id.checkpoint > *mark {
            *mark = id.checkpoint;
            self.newest = self.newest.max(Some(id.checkpoint));
            self.waiting.push_back(transaction);
        }
    }
}

impl Shared {
    /// No lock is held while wakers run: they may do as they like.
    fn wake_consumer(&self, mut state: MutexGuard<'_, State>) {
        let waker = state.consumer.take();
        drop(state);
        self.changed.notify_all();
        waker.into_iter().for_each(Waker::wake);
    }

    fn wake_tasks(state: MutexGuard<'_, State>) {
        let wakers: Vec<Waker> = state.tasks.values().cloned().collect();
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
    }
}

impl Drop for Producers {
    fn drop(&mut self) {
        let mut state = lock(&self.0.state);
        state.producers_are_gone = true;
        self.0.wake_consumer(state);
    }
}

/// The consumer's end of a channel. The channel has ended when every sink and every [`ChannelOutput`] is gone.
#[derive(Debug)]
pub struct ChannelRecords {
    shared: Arc<Shared>,
}

impl ChannelRecords {
    /// The next transaction if there is one now.
    #[must_use]
    pub fn try_next(&self) -> Option<Transaction> {
        self.take(lock(&self.shared.state)).ok()
    }

    /// Waits for the next transaction; none when the channel has ended. Blocks the thread: not for the thread that
    /// drives the job.
    #[must_use]
    pub fn next(&self) -> Option<Transaction> {
        let mut state = lock(&self.shared.state);
        loop {
            state = match self.take(state) {
                Ok(transaction) => return Some(transaction),
                Err(state) if state.producers_are_gone => return None,
                Err(state) => self.shared.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }

    /// The next transaction, for a future; none when the channel has ended.
    pub fn poll_next(&self, context: &mut Context<'_>) -> Poll<Option<Transaction>> {
        match self.take(lock(&self.shared.state)) {
            Ok(transaction) => Poll::Ready(Some(transaction)),
            Err(state) if state.producers_are_gone => Poll::Ready(None),
            Err(mut state) => {
                state.consumer = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }

    /// Takes a transaction and lets the sinks know that there is room; or gives the lock back.
    fn take<'s>(&self, mut state: MutexGuard<'s, State>) -> Result<Transaction, MutexGuard<'s, State>> {
        match state.waiting.pop_front() {
            None => Err(state),
            Some(transaction) => {
                Shared::wake_tasks(state);
                Ok(transaction)
            }
        }
    }
}

impl Drop for ChannelRecords {
    fn drop(&mut self) {
        let mut state = lock(&self.shared.state);
        state.consumer_is_gone = true;
        Shared::wake_tasks(state);
    }
}

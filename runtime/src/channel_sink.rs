//! A sink that hands records to the program: a bounded channel of transactions.
//!
//! Records are held back until a checkpoint that covers them is complete, and come then, together, as a
//! [`Transaction`]. Those of one subtask come in the order of its records.
//!
//! **What is promised.** A consumer that lives as long as the process sees each record exactly once, however often the job
//! is restarted in it with the same [`ChannelOutput`]. After a restart of the process, transactions that the last complete
//! checkpoint lists come again, under the same [`TransactionId`]: a consumer that keeps the ids of what it has dealt with,
//! in the same place and at the same time as what it made of it, drops the repeats and stays exact. If an older
//! checkpoint is restored than the consumer has records of, in the same process, the job ends with an error: those records would
//! come again in other transactions.
//!
//! What waits for its checkpoint lies in memory and in the checkpoint itself, so this sink is for outputs of some
//! MiB per checkpoint; [`FileSink`](crate::file_sink::FileSink) takes any amount. A consumer that does not keep up
//! makes the job wait, never the consumer lose: records wait first, and when so many checkpoints have completed meanwhile that no
//! further one fits, those that follow are declined until it has caught up. A consumer that is gone ends the job.
//!
//! ```
//! use slackwater::channel_sink::channel;
//!
//! // At most four transactions wait for the consumer.
//! let (output, records) = channel(4);
//! // job.source(...).sink("out", move |info| output.sink(info));
//! # drop(output);
//! while let Some(transaction) = records.next() {
//!     for record in transaction.records() {
//!         println!("{}: {}", transaction.id(), String::from_utf8_lossy(record));
//!     }
//! }
//! ```

use std::collections::VecDeque;
use std::fmt;
use std::task::Waker;

use heapless::Vec as FixedVec;
use slackwater_core::ids::CheckpointId;
use slackwater_core::machine::Rejected;
use slackwater_core::time::Now;
use slackwater_core::two_phase::{
    TransactionToken, Transactions, TwoPhase, TwoPhaseAction, TwoPhaseEvent, TwoPhaseOptions,
};

mod queue;
#[cfg(test)]
mod tests;
mod transaction;

use self::queue::Queue;
pub use self::queue::{ChannelRecords, channel};
pub use self::transaction::{Transaction, TransactionId};
use crate::files::{BlockingFiles, FileEvent, Files};
use crate::operator::{OperatorError, Sink, SubtaskInfo};
use crate::record::{Batch, PackedBytes};

/// The sinks' end of a channel: makes the sink of each subtask of one operator, in each restart.
#[derive(Clone, Debug)]
pub struct ChannelOutput {
    queue: Queue,
}

impl ChannelOutput {
    /// The sink of one subtask.
    #[must_use]
    pub fn sink(&self, info: &SubtaskInfo) -> ChannelSink {
        self.queue.claim(&info.operator);
        let mut sink = ChannelSink {
            operator: info.operator.clone(),
            subtask: info.index,
            attempt: info.attempt,
            queue: self.queue.clone(),
            current: PackedBytes::default(),
            pending: VecDeque::new(),
            transactions: Machine::new(TwoPhaseOptions::default()),
            committing: None,
        };
        let opened = sink.tell(TwoPhaseEvent::Opened);
        debug_assert_eq!(opened, Ok(()), "a new sink opens");
        sink
    }
}

/// Transactions that may wait for their checkpoints or for the consumer; further ones wait together, or are declined.
const TRANSACTIONS: usize = 64;

type Machine = TwoPhase<TRANSACTIONS>;

/// Holds records back until their checkpoint is complete; one instance per subtask.
#[derive(Debug)]
pub struct ChannelSink {
    operator: String,
    subtask: u16,
    attempt: u64,
    queue: Queue,
    current: PackedBytes,
    /// What checkpoints list and the consumer has not been handed, in the order of their checkpoints.
    pending: VecDeque<(TransactionToken, Transaction)>,
    transactions: Machine,
    /// What is being committed: handed over as far as the channel has room.
    committing: Option<Transactions>,
}

impl ChannelSink {
    /// Tells the machine what happened and does what it orders.
    fn tell(&mut self, event: TwoPhaseEvent) -> Result<(), OperatorError> {
        let mut actions = FixedVec::<_, { Machine::ACTIONS_MAX }>::new();
        // Transactions of a channel do not time out, so it does not matter when.
        self.transactions.on_event(Now::default(), event, &mut actions).map_err(refused)?;
        for action in actions {
            match action {
                // Nothing of earlier attempts is left but what the checkpoint lists.
                TwoPhaseAction::Begin(_) | TwoPhaseAction::AbortLingering => {}
                TwoPhaseAction::PreCommit { token, id } => {
                    self.close(token, id);
                    // It lies in the checkpoint, with which it becomes durable.
                    self.tell(TwoPhaseEvent::PreCommitted(token))?;
                }
                TwoPhaseAction::Commit(transactions) => self.committing = Some(transactions),
                TwoPhaseAction::RecoverAndCommit(_)
                | TwoPhaseAction::RecoverAndAbort(_)
                | TwoPhaseAction::Abort(_)
                | TwoPhaseAction::WarnOfTimeout(_)
                | TwoPhaseAction::ReportLoss(_)
                | TwoPhaseAction::FailTask(_) => {
                    let what = "an order that follows from nothing a channel tells";
                    return Err(refused(Rejected::Unexpected { what }));
                }
            }
        }
        Ok(())
    }

    /// An empty transaction is nothing to hand over.
    fn close(&mut self, token: TransactionToken, checkpoint: CheckpointId) {
        if !self.current.is_empty() {
            let id = TransactionId { attempt: self.attempt, subtask: self.subtask, checkpoint };
            self.pending.push_back((token, Transaction::new(id, std::mem::take(&mut self.current))));
        }
    }

    /// Hands over what is being committed, as far as the channel has room.
    fn hand_over(&mut self) -> Result<(), OperatorError> {
        while let Some(transactions) = self.committing {
            match self.pending.pop_front_if(|(token, _)| transactions.contains(*token)) {
                Some((token, transaction)) => {
                    if let Err(transaction) = self.queue.push(transaction) {
                        self.pending.push_front((token, transaction));
                        break;
                    }
                }
                None => {
                    self.committing = None;
                    self.tell(TwoPhaseEvent::Committed(transactions))?;
                }
            }
        }
        self.queue.expect_consumer(&self.operator)
    }
}

fn refused(rejected: Rejected) -> OperatorError {
    OperatorError::new(format!("output transactions: {rejected}; start again"))
}

impl Sink for ChannelSink {
    type In = [u8];

    fn set_waker(&mut self, waker: Waker) {
        self.queue.set_waker(self.subtask, waker);
    }

    fn poll(&mut self, _files: &mut Files) -> Result<(), OperatorError> {
        self.hand_over()
    }

    fn recover(
        &mut self,
        restored: Option<CheckpointId>,
        pending: &[Vec<u8>],
        _files: &mut dyn BlockingFiles,
    ) -> Result<Vec<String>, OperatorError> {
        let decoded: Option<Vec<_>> = pending.iter().map(|bytes| Transaction::decode(bytes)).collect();
        let damaged = "a pending transaction in the checkpoint is damaged: restore an older checkpoint";
        let mut pending = decoded.ok_or_else(|| OperatorError::beyond_restart(damaged))?;
        pending.sort_by_key(Transaction::id);
        self.queue.recover(&self.operator, restored, pending)?;
        Ok(Vec::new())
    }

    fn write(&mut self, record: &[u8], _files: &mut Files) -> Result<(), OperatorError> {
        self.current.push(record);
        Ok(())
    }

    /// Not while the consumer is behind.
    fn has_room(&self, _files: &Files) -> bool {
        self.committing.is_none()
    }

    fn pre_commit(
        &mut self,
        checkpoint: CheckpointId,
        _files: &mut Files,
    ) -> Result<Vec<Vec<u8>>, OperatorError> {
        if !self.transactions.has_room() {
            return Err(OperatorError::decline(format!(
                "checkpoint {checkpoint} is declined while the consumer of {} is behind: take transactions faster, or \
                 checkpoints less often",
                self.operator
            )));
        }
        self.tell(TwoPhaseEvent::SnapshotRequested(checkpoint))?;
        Ok(self.pending.iter().map(|(_, transaction)| transaction.encode()).collect())
    }

    fn is_sealed(&self, checkpoint: CheckpointId) -> bool {
        self.transactions.is_durable(checkpoint)
    }

    fn commit(&mut self, checkpoint: CheckpointId, _files: &mut Files) -> Result<(), OperatorError> {
        self.tell(TwoPhaseEvent::CompleteNotified(checkpoint))?;
        self.hand_over()
    }

    fn is_committed(&self, checkpoint: CheckpointId) -> bool {
        self.transactions.is_committed(checkpoint)
    }

    fn on_file(&mut self, _event: FileEvent, _files: &mut Files) -> Result<(), OperatorError> {
        Ok(())
    }
}

impl fmt::Display for TransactionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}-{}", self.attempt, self.subtask, self.checkpoint)
    }
}

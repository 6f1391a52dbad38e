//! A sink of lines in files that shows exactly what completed checkpoints cover.
//!
//! Lines go into *parts* under hidden names. A checkpoint makes its parts durable and lists them (rule C3);
//! when it completes they get names that carry its id (rule C4). What is visible under such a name is
//! committed, and a restore to an older checkpoint can tell what it has to move aside. A transaction is the parts
//! between two checkpoints; which of them are committed when is `core::two_phase`'s to say.

mod name;
mod part;
mod recover;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use heapless::Vec as FixedVec;
use slackwater_core::ids::CheckpointId;
use slackwater_core::machine::Rejected;
use slackwater_core::time::Now;
use slackwater_core::two_phase::{
    TransactionToken, Transactions, TwoPhase, TwoPhaseAction, TwoPhaseEvent, TwoPhaseOptions,
};

pub use self::name::SET_ASIDE;
use self::name::{FinalName, HiddenName};
pub use self::part::{PendingPart, SinkError};
use crate::files::{BlockingFiles, FileEvent, FileTicket, Files};
use crate::operator::{OperatorError, Sink, SubtaskInfo};

/// How parts are written.
#[derive(Clone, Copy, Debug)]
pub struct FileSinkOptions {
    /// Bytes collected before they are handed to the disk.
    pub block_len: usize,
    /// Bytes of a part after which the next one begins; a single longer line has a part of its own.
    pub part_len_max: usize,
}

impl Default for FileSinkOptions {
    fn default() -> Self {
        Self { block_len: 512 * 1024, part_len_max: 16 << 20 }
    }
}

/// Writes each record and a newline into part files of a folder; one instance per subtask.
#[derive(Debug)]
pub struct FileSink {
    folder: String,
    subtask: u16,
    attempt: u64,
    options: FileSinkOptions,
    /// Number of the next part to begin.
    next_number: u64,
    open: OpenPart,
    /// Full parts of the transaction in work.
    closed: Vec<ClosedPart>,
    /// What checkpoints list and no commit has finished, in the order of their checkpoints.
    pending: VecDeque<Pending>,
    transactions: Machine,
    /// What is being committed.
    committing: Option<Transactions>,
}

/// Transactions that may wait for their checkpoints; further ones wait together.
const TRANSACTIONS: usize = 64;

type Machine = TwoPhase<TRANSACTIONS>;

/// The part that lines go to. It has no file before its first block is full.
#[derive(Debug, Default)]
struct OpenPart {
    file: Option<(FileTicket, HiddenName)>,
    /// Bytes handed to the disk.
    len: usize,
    buffer: Vec<u8>,
}

#[derive(Debug)]
struct ClosedPart {
    ticket: FileTicket,
    hidden: HiddenName,
    len: u64,
    is_sealed: bool,
}

#[derive(Debug)]
struct Pending {
    part: PendingPart,
    transaction: TransactionToken,
    seal: FileTicket,
    is_sealed: bool,
    /// The rename on its way.
    publish: Option<FileTicket>,
}

impl FileSink {
    /// The sink of one subtask into `folder`, a path of the job's disk.
    #[must_use]
    pub fn new(folder: impl Into<String>, info: &SubtaskInfo, options: FileSinkOptions) -> Self {
        let mut sink = Self {
            folder: folder.into(),
            subtask: info.index,
            attempt: info.attempt,
            options,
            next_number: 0,
            open: OpenPart::default(),
            closed: Vec::new(),
            pending: VecDeque::new(),
            transactions: Machine::new(TwoPhaseOptions::default()),
            committing: None,
        };
        let opened = sink.tell(TwoPhaseEvent::Opened, &mut Files::default());
        debug_assert_eq!(opened, Ok(()), "a new sink opens");
        sink
    }

    fn path(&self, name: &str) -> String {
        if self.folder.is_empty() { name.to_owned() } else { format!("{}/{name}", self.folder) }
    }

    /// Hands the collected bytes to the disk, as the beginning of a new file if there is none.
    fn flush(&mut self, len_max: usize, files: &mut Files) -> (FileTicket, HiddenName) {
        let (ticket, hidden) = self.open.file.take().unwrap_or_else(|| {
            let hidden =
                HiddenName { subtask: self.subtask, attempt: self.attempt, number: self.next_number };
            self.next_number += 1;
            let len_max = len_max.max(self.open.buffer.len()) as u64;
            (files.create(self.path(&hidden.to_string()), len_max), hidden)
        });
        if !self.open.buffer.is_empty() {
            let bytes = std::mem::take(&mut self.open.buffer);
            self.open.len += bytes.len();
            files.append(ticket, bytes);
        }
        (ticket, hidden)
    }

    /// Ends the open part if anything is in it: an empty part leaves no file.
    fn close_part(&mut self, files: &mut Files) {
        if self.open.file.is_none() && self.open.buffer.is_empty() {
            return;
        }
        // A part that has no file yet is complete: its room is its length.
        let (ticket, hidden) = self.flush(0, files);
        files.seal(ticket);
        let len = std::mem::take(&mut self.open.len) as u64;
        self.closed.push(ClosedPart { ticket, hidden, len, is_sealed: false });
    }

    /// Tells the machine what happened and does what it orders.
    fn tell(&mut self, event: TwoPhaseEvent, files: &mut Files) -> Result<(), SinkError> {
        let mut actions = FixedVec::<_, { Machine::ACTIONS_MAX }>::new();
        // Transactions of files do not time out, so it does not matter when.
        self.transactions.on_event(Now::default(), event, &mut actions).map_err(SinkError::Refused)?;
        for action in actions {
            match action {
                // It begins with its first line; what earlier attempts left was removed by `recover`.
                TwoPhaseAction::Begin(_) | TwoPhaseAction::AbortLingering => {}
                TwoPhaseAction::PreCommit { token, id } => self.close_transaction(token, id),
                TwoPhaseAction::Commit(transactions) => self.publish(transactions, files),
                TwoPhaseAction::RecoverAndCommit(_)
                | TwoPhaseAction::RecoverAndAbort(_)
                | TwoPhaseAction::Abort(_)
                | TwoPhaseAction::WarnOfTimeout(_)
                | TwoPhaseAction::ReportLoss(_)
                | TwoPhaseAction::FailTask(_) => {
                    let what = "an order that follows from nothing a sink of files tells";
                    return Err(SinkError::Refused(Rejected::Unexpected { what }));
                }
            }
        }
        Ok(())
    }

    /// Lists the closed parts under the checkpoint.
    fn close_transaction(&mut self, transaction: TransactionToken, checkpoint: CheckpointId) {
        for closed in self.closed.drain(..) {
            let hidden = closed.hidden;
            let visible = FinalName { subtask: hidden.subtask, number: hidden.number, checkpoint };
            let part = PendingPart {
                checkpoint,
                len: closed.len,
                hidden_name: hidden.to_string(),
                final_name: visible.to_string(),
            };
            self.pending.push_back(Pending {
                part,
                transaction,
                seal: closed.ticket,
                is_sealed: closed.is_sealed,
                publish: None,
            });
        }
    }

    fn publish(&mut self, transactions: Transactions, files: &mut Files) {
        self.committing = Some(transactions);
        for index in 0..self.pending.len() {
            let Pending { part, transaction, .. } = &self.pending[index];
            if transactions.contains(*transaction) {
                let (from, to) = (self.path(&part.hidden_name), self.path(&part.final_name));
                self.pending[index].publish = Some(files.publish(from, to));
            }
        }
    }

    /// Tells the machine which transactions have become durable or committed; one without a part is both at once.
    fn settle(&mut self, files: &mut Files) -> Result<(), SinkError> {
        let unsealed =
            self.pending.iter().find(|pending| !pending.is_sealed).map(|pending| pending.transaction);
        let closed = self.transactions.pending().map(|pending| pending.transactions.last);
        let durable = closed.filter(|last| unsealed.is_none_or(|unsealed| *last < unsealed)).last();
        if let Some(token) = durable.filter(|token| !self.transactions.is_flushed(*token)) {
            self.tell(TwoPhaseEvent::PreCommitted(token), files)?;
        }
        while let Some(transactions) = self.committing
            && !self.pending.iter().any(|pending| transactions.contains(pending.transaction))
        {
            self.committing = None;
            self.tell(TwoPhaseEvent::Committed(transactions), files)?;
        }
        Ok(())
    }
}

impl Sink for FileSink {
    type In = [u8];

    fn recover(
        &mut self,
        restored: Option<CheckpointId>,
        pending: &[Vec<u8>],
        files: &mut dyn BlockingFiles,
    ) -> Result<Vec<String>, OperatorError> {
        Ok(recover::recover(&self.folder, self.attempt, restored, pending, files)?)
    }

    fn write(&mut self, record: &[u8], files: &mut Files) -> Result<(), OperatorError> {
        let part_len = self.open.len + self.open.buffer.len();
        if part_len > 0 && part_len + record.len() + 1 > self.options.part_len_max {
            self.close_part(files);
        }
        self.open.buffer.extend_from_slice(record);
        self.open.buffer.push(b'\n');
        if self.open.buffer.len() >= self.options.block_len {
            let file = self.flush(self.options.part_len_max, files);
            self.open.file = Some(file);
            self.open.buffer.reserve(self.options.block_len + self.options.block_len / 8);
        }
        Ok(())
    }

    fn pre_commit(
        &mut self,
        checkpoint: CheckpointId,
        files: &mut Files,
    ) -> Result<Vec<Vec<u8>>, OperatorError> {
        if !self.transactions.has_room() {
            return Err(SinkError::Behind { checkpoint }.into());
        }
        self.close_part(files);
        self.tell(TwoPhaseEvent::SnapshotRequested(checkpoint), files)?;
        self.settle(files)?;
        Ok(self.pending.iter().map(|pending| pending.part.encode()).collect())
    }

    fn is_sealed(&self, checkpoint: CheckpointId) -> bool {
        self.transactions.is_durable(checkpoint)
    }

    fn commit(&mut self, checkpoint: CheckpointId, files: &mut Files) -> Result<(), OperatorError> {
        if !self.is_sealed(checkpoint) {
            return Err(SinkError::CommitBeforeSeal { checkpoint }.into());
        }
        self.tell(TwoPhaseEvent::CompleteNotified(checkpoint), files)?;
        Ok(self.settle(files)?)
    }

    fn is_committed(&self, checkpoint: CheckpointId) -> bool {
        self.pending.iter().all(|pending| pending.part.checkpoint > checkpoint)
    }

    fn on_file(&mut self, event: FileEvent, files: &mut Files) -> Result<(), OperatorError> {
        match event {
            FileEvent::Sealed(ticket) => {
                let closed = self.closed.iter_mut().filter(|closed| closed.ticket == ticket);
                closed.for_each(|closed| closed.is_sealed = true);
                let pending = self.pending.iter_mut().filter(|pending| pending.seal == ticket);
                pending.for_each(|pending| pending.is_sealed = true);
            }
            FileEvent::Published(ticket) => self.pending.retain(|pending| pending.publish != Some(ticket)),
            FileEvent::Removed(_) => {}
        }
        Ok(self.settle(files)?)
    }
}

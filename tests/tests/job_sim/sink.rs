//! Sinks: one into the ledger, and a layer that lets any sink fail.

use slackwater::files::{BlockingFiles, FileEvent, FileTicket, Files};
use slackwater::operator::{OperatorError, Sink, SubtaskInfo};
use slackwater_core::ids::CheckpointId;

use crate::hooks::{Hooks, Place};
use crate::ledger::{Ledger, Name};
use crate::plan::Mutant;

/// Writes records to the ledger. A file for each transaction stands for what it takes to flush one.
pub(crate) struct LedgerSink {
    ledger: Ledger,
    hooks: Hooks,
    /// The transaction in work.
    name: Name,
    buffer: Vec<Vec<u8>>,
    buffer_max: usize,
    /// Something of the transaction in work is in the ledger.
    is_begun: bool,
    pending: Vec<Pending>,
}

struct Pending {
    name: Name,
    checkpoint: CheckpointId,
    seal: FileTicket,
    is_sealed: bool,
    /// It is committed; its file is on its way out.
    removal: Option<FileTicket>,
}

impl LedgerSink {
    pub(crate) fn new(
        ledger: Ledger,
        hooks: Hooks,
        sink: u16,
        buffer_max: usize,
        info: &SubtaskInfo,
    ) -> Self {
        Self {
            ledger,
            hooks,
            name: Name { sink, attempt: info.attempt, subtask: info.index, number: 0 },
            buffer: Vec::new(),
            buffer_max,
            is_begun: false,
            pending: Vec::new(),
        }
    }

    fn flush_buffer(&mut self) {
        if !self.buffer.is_empty() {
            self.ledger.add(self.name, std::mem::take(&mut self.buffer));
            self.is_begun = true;
        }
    }
}

/// The folder of a ledger sink's files.
pub(crate) fn folder_of_sink(sink: u16) -> String {
    format!("ledger-{sink}")
}

fn file_of(name: Name) -> String {
    let Name { sink, attempt, subtask, number } = name;
    format!("{}/{attempt}-{subtask}-{number}", folder_of_sink(sink))
}

impl Name {
    fn encode(self) -> Vec<u8> {
        let mut bytes = self.sink.to_le_bytes().to_vec();
        bytes.extend(self.subtask.to_le_bytes());
        bytes.extend(self.attempt.to_le_bytes());
        bytes.extend(self.number.to_le_bytes());
        bytes
    }

    fn decode(bytes: &[u8]) -> Self {
        let short = |at: usize| u16::from_le_bytes(bytes[at..at + 2].try_into().expect("two bytes"));
        let long = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
        Self { sink: short(0), subtask: short(2), attempt: long(4), number: long(12) }
    }
}

impl Sink for LedgerSink {
    type In = [u8];

    fn recover(
        &mut self,
        restored: Option<CheckpointId>,
        pending: &[Vec<u8>],
        files: &mut dyn BlockingFiles,
    ) -> Result<Vec<String>, OperatorError> {
        let folder = folder_of_sink(self.name.sink);
        files.create_folder(&folder)?;
        files.sync_folder("")?;
        if !self.hooks.has(Mutant::RecoveredIgnored) {
            let listed: Vec<_> = pending.iter().map(|bytes| Name::decode(bytes)).collect();
            self.ledger.recover(self.name.sink, restored.unwrap_or(CheckpointId(0)), &listed);
        }
        for entry in files.list(&folder)? {
            files.remove(&format!("{folder}/{}", entry.name))?;
        }
        files.sync_folder(&folder)?;
        Ok(Vec::new())
    }

    fn write(&mut self, record: &[u8], _files: &mut Files) -> Result<(), OperatorError> {
        self.buffer.push(record.to_vec());
        if self.buffer.len() > self.buffer_max {
            self.flush_buffer();
        }
        Ok(())
    }

    fn pre_commit(
        &mut self,
        checkpoint: CheckpointId,
        files: &mut Files,
    ) -> Result<Vec<Vec<u8>>, OperatorError> {
        if !self.hooks.has(Mutant::NoFlushBeforePreCommit) {
            self.flush_buffer();
        }
        if std::mem::take(&mut self.is_begun) {
            let name = self.name;
            self.name.number += 1;
            self.ledger.close(name, checkpoint);
            let file = files.create(file_of(name), 1);
            files.append(file, vec![b'!']);
            files.seal(file);
            self.pending.push(Pending { name, checkpoint, seal: file, is_sealed: false, removal: None });
        }
        Ok(self.pending.iter().map(|pending| pending.name.encode()).collect())
    }

    fn is_sealed(&self, checkpoint: CheckpointId) -> bool {
        self.pending.iter().all(|pending| pending.is_sealed || pending.checkpoint > checkpoint)
    }

    fn commit(&mut self, checkpoint: CheckpointId, files: &mut Files) -> Result<(), OperatorError> {
        let is_due = |pending: &&mut Pending| pending.checkpoint <= checkpoint && pending.removal.is_none();
        for pending in self.pending.iter_mut().filter(is_due) {
            self.ledger.commit(pending.name, checkpoint);
            pending.removal = Some(files.remove(file_of(pending.name)));
        }
        Ok(())
    }

    fn is_committed(&self, checkpoint: CheckpointId) -> bool {
        self.pending.iter().all(|pending| pending.checkpoint > checkpoint)
    }

    fn on_file(&mut self, event: FileEvent, _files: &mut Files) -> Result<(), OperatorError> {
        match event {
            FileEvent::Sealed(ticket) => {
                for pending in self.pending.iter_mut().filter(|pending| pending.seal == ticket) {
                    pending.is_sealed = true;
                    self.ledger.flush(pending.name);
                    if self.hooks.has(Mutant::CommitBeforeComplete) {
                        self.ledger.commit(pending.name, pending.checkpoint);
                    }
                }
            }
            FileEvent::Removed(ticket) => self.pending.retain(|pending| pending.removal != Some(ticket)),
            FileEvent::Published(_) => {}
        }
        Ok(())
    }
}

/// A sink that fails when that is planned.
pub(crate) struct Failing<S> {
    pub(crate) sink: S,
    pub(crate) hooks: Hooks,
}

impl<S: Sink> Sink for Failing<S> {
    type In = S::In;

    fn recover(
        &mut self,
        restored: Option<CheckpointId>,
        pending: &[Vec<u8>],
        files: &mut dyn BlockingFiles,
    ) -> Result<Vec<String>, OperatorError> {
        let said = self.sink.recover(restored, pending, files)?;
        self.hooks.at(Place::Recover)?;
        Ok(said)
    }

    fn write(&mut self, record: &S::In, files: &mut Files) -> Result<(), OperatorError> {
        self.hooks.at(Place::Write)?;
        self.sink.write(record, files)
    }

    fn has_room(&self, files: &Files) -> bool {
        self.sink.has_room(files)
    }

    fn pre_commit(
        &mut self,
        checkpoint: CheckpointId,
        files: &mut Files,
    ) -> Result<Vec<Vec<u8>>, OperatorError> {
        self.hooks.at(Place::PreCommit)?;
        self.sink.pre_commit(checkpoint, files)
    }

    fn is_sealed(&self, checkpoint: CheckpointId) -> bool {
        self.sink.is_sealed(checkpoint)
    }

    fn commit(&mut self, checkpoint: CheckpointId, files: &mut Files) -> Result<(), OperatorError> {
        self.hooks.at(Place::Commit)?;
        self.hooks.note_commit();
        self.sink.commit(checkpoint, files)
    }

    fn is_committed(&self, checkpoint: CheckpointId) -> bool {
        self.sink.is_committed(checkpoint)
    }

    fn abort(&mut self, checkpoint: CheckpointId) {
        self.hooks.note("aborted checkpoints, in sinks");
        self.sink.abort(checkpoint);
    }

    fn on_file(&mut self, event: FileEvent, files: &mut Files) -> Result<(), OperatorError> {
        self.sink.on_file(event, files)
    }
}

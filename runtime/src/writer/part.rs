//! A file that a sink appends to.

use std::collections::VecDeque;

use slackwater_core::durable::{Completion, Disk, Failure, FileWriter, Names, Tokens, Work};

/// A file that grows by what a sink appends, until it is sealed.
#[derive(Debug)]
pub(super) struct PartFile<D: Disk> {
    file: FileWriter<D, String>,
    appended: VecDeque<Vec<u8>>,
    /// Bytes of the first piece that are with the disk.
    sent: usize,
    is_sealed: bool,
    /// Bytes that went to the disk since last asked.
    written: usize,
}

impl<D: Disk> PartFile<D> {
    pub(super) fn new(path: String, len_max: u64) -> Self {
        let file = FileWriter::new(Names::Final { path }, len_max);
        Self { file, appended: VecDeque::new(), sent: 0, is_sealed: false, written: 0 }
    }

    pub(super) fn append(&mut self, bytes: Vec<u8>) {
        self.appended.push_back(bytes);
    }

    pub(super) const fn seal(&mut self) {
        self.is_sealed = true;
    }

    /// Bytes that went to the disk since the last call.
    pub(super) fn take_written(&mut self) -> Option<usize> {
        Some(std::mem::take(&mut self.written)).filter(|bytes| *bytes > 0)
    }

    pub(super) fn path(&self) -> &str {
        self.file.names().path()
    }

    pub(super) fn result(&self) -> Result<(), Failure> {
        self.file.result().map_or(Ok(()), |result| result.map(|_| ()))
    }
}

impl<D: Disk> Work<D> for PartFile<D> {
    fn advance(&mut self, disk: &mut D, tokens: &mut Tokens) {
        while let Some(piece) = self.appended.front() {
            let rest = piece.get(self.sent..).unwrap_or_default();
            let taken = self.file.append(rest, disk, tokens);
            self.sent += taken;
            self.written += taken;
            if taken < rest.len() {
                break;
            }
            self.sent = 0;
            self.appended.pop_front();
        }
        if self.is_sealed && self.appended.is_empty() {
            self.file.seal();
        }
        self.file.advance(disk, tokens);
    }

    fn on_completion(&mut self, completion: Completion<D::Block>, disk: &mut D) {
        self.file.on_completion(completion, disk);
    }

    fn is_done(&self) -> bool {
        self.file.is_done()
    }
}

//! A file that a sink appends to.

use std::collections::VecDeque;

use slackwater_core::durable::{Completion, Disk, Failure, FileWriter, Names, Tokens, Work};

/// A file that grows by what a sink appends, until it is sealed.
///
/// It takes a block of the disk only for as many bytes as fill one, or for the last: a file that waits for
/// its sink must not keep a block from those that could go on.
#[derive(Debug)]
pub(super) struct PartFile<D: Disk> {
    file: FileWriter<D, String>,
    appended: VecDeque<Vec<u8>>,
    /// Bytes of the first piece that are with the disk.
    sent: usize,
    /// Bytes that are not with the disk.
    waiting: usize,
    /// Size of the disk's blocks, once it has lent one.
    block_len: Option<usize>,
    is_sealed: bool,
    /// Bytes that went to the disk since last asked.
    written: usize,
}

impl<D: Disk> PartFile<D> {
    pub(super) fn new(path: String, len_max: u64) -> Self {
        let file = FileWriter::new(Names::Final { path }, len_max);
        Self {
            file,
            appended: VecDeque::new(),
            sent: 0,
            waiting: 0,
            block_len: None,
            is_sealed: false,
            written: 0,
        }
    }

    pub(super) fn append(&mut self, bytes: Vec<u8>) {
        self.waiting += bytes.len();
        self.appended.push_back(bytes);
    }

    pub(super) const fn seal(&mut self) {
        self.is_sealed = true;
    }

    /// Removes the file unless it is to become durable.
    pub(super) fn abandon_unsealed(&mut self) {
        if !self.is_sealed {
            self.file.abandon();
        }
    }

    /// Bytes that went to the disk since the last call.
    pub(super) fn take_written(&mut self) -> Option<usize> {
        Some(std::mem::take(&mut self.written)).filter(|bytes| *bytes > 0)
    }

    /// Hands over whole blocks, and the rest once sealed.
    fn send(&mut self, disk: &mut D, tokens: &mut Tokens) {
        let Some(block_len) = self.block_len(disk) else { return };
        let mut left = if self.is_sealed { self.waiting } else { self.waiting - self.waiting % block_len };
        while left > 0
            && let Some(piece) = self.appended.front()
        {
            let rest = piece.get(self.sent..).unwrap_or_default();
            let now = rest.get(..left.min(rest.len())).unwrap_or_default();
            let taken = self.file.append(now, disk, tokens);
            self.sent += taken;
            self.written += taken;
            self.waiting -= taken;
            left -= taken;
            if self.sent == piece.len() {
                self.sent = 0;
                self.appended.pop_front();
            } else if taken < now.len() {
                break;
            }
        }
    }

    fn block_len(&mut self, disk: &mut D) -> Option<usize> {
        if self.block_len.is_none() {
            let block = disk.block()?;
            self.block_len = Some(block.as_ref().len().max(1));
            disk.recycle(block);
        }
        self.block_len
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
        self.send(disk, tokens);
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

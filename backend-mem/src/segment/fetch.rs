//! A key group on its way from the disk, whose owner does not wait, to the heap, whose owner has no disk.

use core::ops::Range;
use std::string::String;
use std::vec;
use std::vec::Vec;

use slackwater_core::durable::{
    Completion, Disk, DiskError, FileId, Operation, OperationKind, Outcome, Token, Tokens, Work,
};
use slackwater_core::format::segment::KeyGroupRow;
use slackwater_core::key_group::KeyGroup;

use super::error::{RestoreCause, RestoreError};
use super::read::{ReadAt, TakePiece, cut};

/// What a segment has of a key group, as it lies there: nothing of it has been checked.
#[derive(Debug)]
pub struct KeyGroupBytes {
    path: String,
    group: KeyGroup,
    /// Its index and its frames, and where they begin in the file.
    parts: [(u64, Vec<u8>); 2],
}

/// Reads a key group: work for the owner of a disk.
#[derive(Debug)]
pub struct KeyGroupReader {
    bytes: KeyGroupBytes,
    step: Step,
    /// What is left to be asked for of each part.
    left: [Range<u64>; 2],
    /// Reads in flight: the part, and the offset in the file.
    reads: Vec<(Token, usize, u64)>,
    error: Option<DiskError>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    New,
    Opening,
    Reading(FileId),
    Closing,
    Done,
}

/// Reads in flight at a time, at most.
const READS_MAX: usize = 4;

impl KeyGroupBytes {
    /// The segment's file.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The key group.
    #[must_use]
    pub const fn group(&self) -> KeyGroup {
        self.group
    }
}

impl ReadAt for &KeyGroupBytes {
    fn read_pieces(
        &mut self,
        offset: u64,
        len: u64,
        _unit: usize,
        each: &mut TakePiece<'_>,
    ) -> Result<(), RestoreCause> {
        let of_part = |(from, bytes): &'_ (u64, Vec<u8>)| {
            let start = usize::try_from(offset.checked_sub(*from)?).ok()?;
            let end = start.checked_add(usize::try_from(len).ok()?)?;
            (end <= bytes.len()).then_some(start..end)
        };
        let part = self.parts.iter().find_map(|part| part.1.get(of_part(part)?));
        each(offset, part.ok_or_else(cut)?)
    }
}

impl KeyGroupReader {
    /// Of the key group that the footer's `row` speaks of, which has been checked.
    pub(super) fn new(path: String, row: &KeyGroupRow) -> Self {
        let parts = [
            (row.index_offset.get(), u64::from(row.index_len.get())),
            (row.data_offset.get(), row.data_len.get()),
        ];
        let memory = |(from, len)| (from, vec![0; usize::try_from(len).unwrap_or(0)]);
        Self {
            bytes: KeyGroupBytes { path, group: KeyGroup(row.key_group.get()), parts: parts.map(memory) },
            step: Step::New,
            left: parts.map(|(from, len)| from..from.saturating_add(len)),
            reads: Vec::new(),
            error: None,
        }
    }

    /// The segment's file.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.bytes.path
    }

    /// What was read, once it is done.
    ///
    /// # Errors
    /// What the disk said.
    pub fn into_result(self) -> Result<KeyGroupBytes, RestoreError> {
        match self.error {
            None => Ok(self.bytes),
            Some(error) => Err(RestoreError { path: self.bytes.path, cause: error.into() }),
        }
    }

    fn fail(&mut self, errno: i32) {
        self.error.get_or_insert(DiskError { operation: OperationKind::Read, errno });
    }

    fn open<D: Disk>(&mut self, disk: &mut D, tokens: &mut Tokens) {
        if disk.submit(tokens.draw(), Operation::OpenFile { path: &self.bytes.path }).is_ok() {
            self.step = Step::Opening;
        }
    }

    /// Starts reads as long as there is something to read and the disk lends blocks for it; closes the file behind the
    /// last.
    fn read<D: Disk>(&mut self, file: FileId, disk: &mut D, tokens: &mut Tokens) {
        while self.error.is_none() && self.reads.len() < READS_MAX {
            let Some(part) = self.left.iter().position(|left| !left.is_empty()) else { break };
            if !self.read_next(file, part, disk, tokens) {
                return;
            }
        }
        if self.reads.is_empty() && disk.submit(tokens.draw(), Operation::CloseFile { file }).is_ok() {
            self.step = Step::Closing;
        }
    }

    /// Starts the next read of a part; false if the disk takes none now.
    fn read_next<D: Disk>(&mut self, file: FileId, part: usize, disk: &mut D, tokens: &mut Tokens) -> bool {
        let (Some(left), Some(block)) = (self.left.get_mut(part), disk.block()) else { return false };
        let alignment = D::ALIGNMENT as u64;
        let offset = left.start - left.start % alignment;
        let end = left.end.min(offset.saturating_add(block.as_ref().len() as u64));
        let len = usize::try_from((end - offset).next_multiple_of(alignment)).unwrap_or(0);
        let token = tokens.draw();
        match disk.submit(token, Operation::Read { file, offset, block, len }) {
            Ok(()) => {
                left.start = end;
                self.reads.push((token, part, offset));
                true
            }
            Err(Operation::Read { block, .. }) => {
                disk.recycle(block);
                false
            }
            Err(_) => false,
        }
    }

    /// Copies what a read has brought to its place. Its end may lie behind that of the part, its start before.
    fn put(&mut self, part: usize, offset: u64, read: &[u8]) {
        let Some((from, bytes)) = self.bytes.parts.get_mut(part) else { return };
        let skip = usize::try_from(from.saturating_sub(offset)).unwrap_or(usize::MAX);
        let at = usize::try_from(offset.saturating_sub(*from)).unwrap_or(usize::MAX);
        let (to, read) = (bytes.get_mut(at..).unwrap_or_default(), read.get(skip..).unwrap_or_default());
        to.iter_mut().zip(read).for_each(|(to, read)| *to = *read);
    }
}

impl<D: Disk> Work<D> for KeyGroupReader {
    fn advance(&mut self, disk: &mut D, tokens: &mut Tokens) {
        match self.step {
            Step::New => self.open(disk, tokens),
            Step::Reading(file) => self.read(file, disk, tokens),
            Step::Opening | Step::Closing | Step::Done => {}
        }
    }

    fn on_completion(&mut self, completion: Completion<D::Block>, disk: &mut D) {
        let read = self.reads.iter().position(|(token, ..)| *token == completion.token);
        let read = read.map(|at| self.reads.swap_remove(at));
        match (completion.outcome, read) {
            (Outcome::Opened { file, .. }, _) => self.step = Step::Reading(file),
            (Outcome::Read { block, len }, read) => {
                if let Some((_, part, offset)) = read {
                    let end = self.bytes.parts.get(part).map_or(0, |(from, part)| from + part.len() as u64);
                    let wanted = block.as_ref().len().min(usize::try_from(end - offset).unwrap_or(0));
                    match block.as_ref().get(..len.min(wanted)) {
                        Some(read) if len >= wanted => self.put(part, offset, read),
                        Some(_) | None => self.fail(DiskError::IO),
                    }
                }
                disk.recycle(block);
            }
            (Outcome::Done, _) => self.step = Step::Done,
            (Outcome::Failed(error), _) => {
                self.error.get_or_insert(error);
                if matches!(self.step, Step::Opening | Step::Closing) {
                    self.step = Step::Done;
                }
            }
        }
    }

    fn is_done(&self) -> bool {
        self.step == Step::Done
    }
}

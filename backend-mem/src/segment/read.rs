//! Reading files, waiting for the disk.

use std::string::String;
use std::vec;
use std::vec::Vec;

use heapless::Vec as FixedVec;
use slackwater_core::durable::{
    Completion, Disk, DiskError, FileId, Operation, OperationKind, Outcome, Token, Tokens, Wait,
};

use super::error::{RestoreCause, RestoreError};

/// An open file of a disk that nobody else uses meanwhile. Closes it when dropped.
#[derive(Debug)]
pub(super) struct FileReader<'d, D: Disk> {
    disk: &'d mut D,
    tokens: Tokens,
    file: FileId,
    len: u64,
}

/// Reads in flight at a time.
const READS_MAX: usize = 4;

/// Reads a whole file of at most `len_max` bytes: a manifest, say. Waits for the disk.
///
/// # Errors
/// The disk says no, or the file is longer. No more memory than `len_max` is used.
pub fn read_file<D: Disk>(disk: &mut D, path: &str, len_max: u64) -> Result<Vec<u8>, RestoreError> {
    let mut read = || {
        let mut file = FileReader::open(disk, path)?;
        let len = file.len();
        if len > len_max {
            return Err(RestoreCause::TooLong { len, len_max });
        }
        file.read(0, len)
    };
    read().map_err(|cause| RestoreError { path: String::from(path), cause })
}

impl<'d, D: Disk> FileReader<'d, D> {
    pub(super) fn open(disk: &'d mut D, path: &str) -> Result<Self, RestoreCause> {
        if disk.in_flight() > 0 {
            return Err(RestoreCause::DiskBusy);
        }
        let mut tokens = Tokens::new(u32::MAX);
        submit(disk, tokens.draw(), Operation::OpenFile { path })?;
        match reap_one(disk)?.outcome {
            Outcome::Opened { file, len } => Ok(Self { disk, tokens, file, len }),
            outcome @ (Outcome::Done | Outcome::Read { .. } | Outcome::Failed(_)) => {
                Err(unexpected(disk, outcome, OperationKind::OpenFile))
            }
        }
    }

    /// Length of the file in bytes.
    pub(super) const fn len(&self) -> u64 {
        self.len
    }

    /// Reads `len` bytes at `offset`. Both must lie within the file: its length bounds the memory.
    pub(super) fn read(&mut self, offset: u64, len: u64) -> Result<Vec<u8>, RestoreCause> {
        let cut = RestoreCause::Disk(DiskError { operation: OperationKind::Read, errno: DiskError::INVALID });
        let end = offset.checked_add(len).filter(|end| *end <= self.len).ok_or(cut)?;
        let mut bytes = vec![0; usize::try_from(len).map_err(|_| cut)?];
        let alignment = D::ALIGNMENT as u64;
        let mut next = offset - offset % alignment;
        let mut pieces: FixedVec<Piece, READS_MAX> = FixedVec::new();
        let mut outcome = Ok(());
        // After a failure nothing new is started, but what is in flight is waited for.
        while (outcome.is_ok() && next < end) || !pieces.is_empty() {
            while outcome.is_ok() && next < end && !pieces.is_full() {
                match self.submit_piece(next, end) {
                    Ok(Some(piece)) => {
                        next = piece.to;
                        let pushed = pieces.push(piece);
                        debug_assert!(pushed.is_ok(), "the loop saw room");
                    }
                    Ok(None) => break,
                    Err(cause) => outcome = Err(cause),
                }
            }
            if outcome.is_ok() && pieces.is_empty() {
                return Err(RestoreCause::DiskBusy);
            }
            if pieces.is_empty() {
                break;
            }
            let completion = reap_one(self.disk)?;
            let piece = pieces.iter().position(|piece| piece.token == completion.token);
            let Some(piece) = piece.map(|at| pieces.swap_remove(at)) else { continue };
            let taken = self.take(completion.outcome, &piece, offset, &mut bytes);
            outcome = outcome.and(taken);
        }
        outcome.map(|()| bytes)
    }

    /// Starts a read at `from`, of a whole block or up to `end`; none while the disk lends no block.
    fn submit_piece(&mut self, from: u64, end: u64) -> Result<Option<Piece>, RestoreCause> {
        let Some(block) = self.disk.block() else { return Ok(None) };
        let room = block.as_ref().len();
        let wanted = usize::try_from(end - from).unwrap_or(room).min(room);
        let len = wanted.next_multiple_of(D::ALIGNMENT);
        let token = self.tokens.draw();
        submit(self.disk, token, Operation::Read { file: self.file, offset: from, block, len })?;
        Ok(Some(Piece { token, from, to: from + wanted as u64 }))
    }

    /// Copies what a read brought to its place in `bytes`, which begin at `offset` of the file.
    fn take(
        &mut self,
        outcome: Outcome<D::Block>,
        piece: &Piece,
        offset: u64,
        bytes: &mut [u8],
    ) -> Result<(), RestoreCause> {
        let Outcome::Read { block, len } = outcome else {
            return Err(unexpected(self.disk, outcome, OperationKind::Read));
        };
        let is_short = (len as u64) < piece.to - piece.from;
        let skip = usize::try_from(offset.saturating_sub(piece.from)).unwrap_or(usize::MAX);
        let to = usize::try_from(piece.from.saturating_sub(offset)).unwrap_or(usize::MAX);
        let source = block.as_ref().get(skip..).unwrap_or_default();
        let target = bytes.get_mut(to..).unwrap_or_default();
        let count = source.len().min(target.len());
        target[..count].copy_from_slice(&source[..count]);
        self.disk.recycle(block);
        if is_short {
            return Err(DiskError { operation: OperationKind::Read, errno: DiskError::IO }.into());
        }
        Ok(())
    }
}

/// A read in flight: bytes `from..to` of the file, and perhaps some behind them.
#[derive(Debug)]
struct Piece {
    token: Token,
    from: u64,
    to: u64,
}

impl<D: Disk> Drop for FileReader<'_, D> {
    fn drop(&mut self) {
        let token = self.tokens.draw();
        if submit(self.disk, token, Operation::CloseFile { file: self.file }).is_ok() {
            // Whether a file that was only read closes well changes nothing.
            drop(reap_one(self.disk));
        }
    }
}

fn submit<D: Disk>(
    disk: &mut D,
    token: Token,
    operation: Operation<'_, D::Block, D::Frozen>,
) -> Result<(), RestoreCause> {
    match disk.submit(token, operation) {
        Ok(()) => Ok(()),
        Err(Operation::Read { block, .. }) => {
            disk.recycle(block);
            Err(RestoreCause::DiskBusy)
        }
        Err(_) => Err(RestoreCause::DiskBusy),
    }
}

fn reap_one<D: Disk>(disk: &mut D) -> Result<Completion<D::Block>, RestoreCause> {
    let mut ended = FixedVec::<Completion<D::Block>, 1>::new();
    while ended.is_empty() && disk.in_flight() > 0 {
        disk.reap(Wait::ForOne, &mut ended);
    }
    ended.pop().ok_or(RestoreCause::DiskBusy)
}

fn unexpected<D: Disk>(disk: &mut D, outcome: Outcome<D::Block>, operation: OperationKind) -> RestoreCause {
    match outcome {
        Outcome::Failed(error) => error.into(),
        Outcome::Read { block, .. } => {
            disk.recycle(block);
            DiskError { operation, errno: DiskError::IO }.into()
        }
        Outcome::Done | Outcome::Opened { .. } => DiskError { operation, errno: DiskError::IO }.into(),
    }
}

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
        self.check_range(offset, len)?;
        let mut bytes = vec![0; usize::try_from(len).map_err(|_| cut())?];
        self.read_to(offset, &mut bytes)?;
        Ok(bytes)
    }

    /// The same, to memory that is there; its length becomes `len`.
    pub(super) fn read_into(
        &mut self,
        offset: u64,
        len: u64,
        bytes: &mut Vec<u8>,
    ) -> Result<(), RestoreCause> {
        self.check_range(offset, len)?;
        bytes.resize(usize::try_from(len).map_err(|_| cut())?, 0);
        self.read_to(offset, bytes)
    }

    fn read_to(&mut self, offset: u64, bytes: &mut [u8]) -> Result<(), RestoreCause> {
        self.read_pieces(offset, bytes.len() as u64, 1, &mut |at, piece| {
            let at = usize::try_from(at - offset).map_err(|_| cut())?;
            bytes.get_mut(at..at + piece.len()).ok_or_else(cut)?.copy_from_slice(piece);
            Ok(())
        })
    }

    /// Reads `len` bytes at `offset`, and gives each piece of them with its offset as soon as it is there, in any
    /// order. A piece is a multiple of `unit` bytes, which are at most 16 KiB.
    pub(super) fn read_pieces(
        &mut self,
        offset: u64,
        len: u64,
        unit: usize,
        each: &mut TakePiece<'_>,
    ) -> Result<(), RestoreCause> {
        let end = self.check_range(offset, len)?;
        let mut next = offset;
        let mut pieces: FixedVec<Piece, READS_MAX> = FixedVec::new();
        let mut outcome = Ok(());
        // After a failure nothing new is started, but what is in flight is waited for.
        while (outcome.is_ok() && next < end) || !pieces.is_empty() {
            while outcome.is_ok() && next < end && !pieces.is_full() {
                match self.submit_piece(next, end, unit) {
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
            let taken = self.take(completion.outcome, &piece, outcome.is_ok().then_some(&mut *each));
            outcome = outcome.and(taken);
        }
        outcome
    }

    /// The end of a range that lies within the file.
    fn check_range(&self, offset: u64, len: u64) -> Result<u64, RestoreCause> {
        offset.checked_add(len).filter(|end| *end <= self.len).ok_or_else(cut)
    }

    /// Starts a read from `from` on, of as many units as a block has room for, or up to `end`; none while the disk
    /// lends no block.
    fn submit_piece(&mut self, from: u64, end: u64, unit: usize) -> Result<Option<Piece>, RestoreCause> {
        let Some(block) = self.disk.block() else { return Ok(None) };
        let skip = usize::try_from(from % D::ALIGNMENT as u64).unwrap_or(0);
        let room = block.as_ref().len().saturating_sub(skip);
        let room = room - room % unit;
        let wanted = usize::try_from(end - from).unwrap_or(room).min(room);
        let len = (skip + wanted).next_multiple_of(D::ALIGNMENT);
        let token = self.tokens.draw();
        let offset = from - skip as u64;
        submit(self.disk, token, Operation::Read { file: self.file, offset, block, len })?;
        Ok(Some(Piece { token, skip, from, to: from + wanted as u64 }))
    }

    /// Gives away what a read brought, if it is wanted still.
    fn take(
        &mut self,
        outcome: Outcome<D::Block>,
        piece: &Piece,
        each: Option<&mut TakePiece<'_>>,
    ) -> Result<(), RestoreCause> {
        let Outcome::Read { block, len } = outcome else {
            return Err(unexpected(self.disk, outcome, OperationKind::Read));
        };
        let wanted = usize::try_from(piece.to - piece.from).unwrap_or(usize::MAX);
        let read = block.as_ref().get(..len).and_then(|read| read.get(piece.skip..)?.get(..wanted));
        let short = RestoreCause::Disk(DiskError { operation: OperationKind::Read, errno: DiskError::IO });
        let taken = match (read, each) {
            (None, _) => Err(short),
            (Some(read), Some(each)) => each(piece.from, read),
            (Some(_), None) => Ok(()),
        };
        self.disk.recycle(block);
        taken
    }
}

/// Takes a piece of a file that lies at this offset.
pub(super) type TakePiece<'t> = dyn FnMut(u64, &[u8]) -> Result<(), RestoreCause> + 't;

/// The answer to a range that ends behind the file.
const fn cut() -> RestoreCause {
    RestoreCause::Disk(DiskError { operation: OperationKind::Read, errno: DiskError::INVALID })
}

/// A read in flight: `skip` bytes, then bytes `from..to` of the file, and perhaps some behind them.
#[derive(Debug)]
struct Piece {
    token: Token,
    skip: usize,
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

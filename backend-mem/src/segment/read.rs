//! Reading files, waiting for the disk.

use core::ops::Range;
use std::string::String;
use std::vec::Vec;

use heapless::{Deque, Vec as FixedVec};
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

/// A file to read from, or what was read of it.
pub(super) trait ReadAt {
    /// Reads `len` bytes at `offset`, and gives them piece by piece, in order. A piece is a multiple of `unit` bytes,
    /// which are at most 16 KiB.
    fn read_pieces(
        &mut self,
        offset: u64,
        len: u64,
        unit: usize,
        each: &mut TakePiece<'_>,
    ) -> Result<(), RestoreCause>;

    /// Reads `len` bytes at `offset`.
    fn read(&mut self, offset: u64, len: u64) -> Result<Vec<u8>, RestoreCause> {
        let mut bytes = Vec::new();
        self.read_pieces(offset, len, 1, &mut |_, piece| {
            bytes.extend_from_slice(piece);
            Ok(())
        })?;
        Ok(bytes)
    }
}

/// Reads in flight at a time, those included that wait to be taken.
const READS_MAX: usize = 8;

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

impl<D: Disk> ReadAt for FileReader<'_, D> {
    /// Reads are in flight while a piece is taken. The range must lie within the file, whose length bounds what is made
    /// of it.
    fn read_pieces(
        &mut self,
        offset: u64,
        len: u64,
        unit: usize,
        each: &mut TakePiece<'_>,
    ) -> Result<(), RestoreCause> {
        let end = self.check_range(offset, len)?;
        let mut ahead = Ahead { next: offset, end, unit, pieces: Deque::new() };
        let taken = self.take_pieces(&mut ahead, each);
        // After a failure what is in flight is waited for.
        let settled = self.settle(ahead);
        taken.and(settled)
    }
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

    fn take_pieces(
        &mut self,
        ahead: &mut Ahead<D::Block>,
        each: &mut TakePiece<'_>,
    ) -> Result<(), RestoreCause> {
        loop {
            self.read_ahead(ahead)?;
            let Some(piece) = ahead.pieces.front_mut() else {
                return if ahead.next < ahead.end { Err(RestoreCause::DiskBusy) } else { Ok(()) };
            };
            match piece.ended.take() {
                Some(outcome) => {
                    let (skip, from, to) = (piece.skip, piece.from, piece.to);
                    ahead.pieces.pop_front();
                    self.take(outcome, skip, from..to, each)?;
                }
                None => self.reap(Wait::ForOne, ahead)?,
            }
        }
    }

    /// Starts a read, and more until the first piece is there: a disk that reads at once would only fill the cache
    /// with what is not wanted yet.
    fn read_ahead(&mut self, ahead: &mut Ahead<D::Block>) -> Result<(), RestoreCause> {
        let mut may_start = true;
        while may_start && ahead.next < ahead.end && !ahead.pieces.is_full() {
            let Some(piece) = self.submit_piece(ahead) else { break };
            ahead.next = piece.to;
            let pushed = ahead.pieces.push_back(piece);
            debug_assert!(pushed.is_ok(), "the loop saw room");
            self.reap(Wait::No, ahead)?;
            may_start = ahead.pieces.front().is_some_and(|piece| piece.ended.is_none());
        }
        Ok(())
    }

    /// Waits for all that is in flight, and gives its memory back.
    fn settle(&mut self, mut ahead: Ahead<D::Block>) -> Result<(), RestoreCause> {
        while let Some(piece) = ahead.pieces.front_mut() {
            match piece.ended.take() {
                Some(Outcome::Read { block, .. }) => {
                    self.disk.recycle(block);
                    ahead.pieces.pop_front();
                }
                Some(_) => drop(ahead.pieces.pop_front()),
                None => self.reap(Wait::ForOne, &mut ahead)?,
            }
        }
        Ok(())
    }

    /// Notes at its piece what each read that has ended brought.
    fn reap(&mut self, wait: Wait, ahead: &mut Ahead<D::Block>) -> Result<(), RestoreCause> {
        let mut ended = FixedVec::<Completion<D::Block>, READS_MAX>::new();
        while self.disk.reap(wait, &mut ended) == 0 && wait == Wait::ForOne {
            if self.disk.in_flight() == 0 {
                return Err(RestoreCause::DiskBusy);
            }
        }
        for completion in ended {
            let piece = ahead.pieces.iter_mut().find(|piece| piece.token == completion.token);
            match (piece, completion.outcome) {
                (Some(piece), outcome) => piece.ended = Some(outcome),
                (None, Outcome::Read { block, .. }) => self.disk.recycle(block),
                (None, Outcome::Done | Outcome::Opened { .. } | Outcome::Failed(_)) => {}
            }
        }
        Ok(())
    }

    /// The end of a range that lies within the file.
    fn check_range(&self, offset: u64, len: u64) -> Result<u64, RestoreCause> {
        offset.checked_add(len).filter(|end| *end <= self.len).ok_or_else(cut)
    }

    /// Starts the next read, of as many units as a block has room for; none while the disk lends no block, or takes
    /// nothing more.
    fn submit_piece(&mut self, ahead: &Ahead<D::Block>) -> Option<Piece<D::Block>> {
        let block = self.disk.block()?;
        let (from, token) = (ahead.next, self.tokens.draw());
        let skip = usize::try_from(from % D::ALIGNMENT as u64).unwrap_or(0);
        let room = block.as_ref().len().saturating_sub(skip);
        let room = room - room % ahead.unit;
        let wanted = usize::try_from(ahead.end - from).unwrap_or(room).min(room);
        let len = (skip + wanted).next_multiple_of(D::ALIGNMENT);
        let offset = from - skip as u64;
        submit(self.disk, token, Operation::Read { file: self.file, offset, block, len }).ok()?;
        Some(Piece { token, skip, from, to: from + wanted as u64, ended: None })
    }

    /// Gives away bytes `range` of the file: what a read brought, without the first `skip` bytes.
    fn take(
        &mut self,
        outcome: Outcome<D::Block>,
        skip: usize,
        range: Range<u64>,
        each: &mut TakePiece<'_>,
    ) -> Result<(), RestoreCause> {
        let Outcome::Read { block, len } = outcome else {
            return Err(unexpected(self.disk, outcome, OperationKind::Read));
        };
        let wanted = usize::try_from(range.end - range.start).unwrap_or(usize::MAX);
        let read = block.as_ref().get(..len).and_then(|read| read.get(skip..)?.get(..wanted));
        let short = RestoreCause::Disk(DiskError { operation: OperationKind::Read, errno: DiskError::IO });
        let taken = read.ok_or(short).and_then(|read| each(range.start, read));
        self.disk.recycle(block);
        taken
    }
}

/// Takes a piece of a file that lies at this offset.
pub(super) type TakePiece<'t> = dyn FnMut(u64, &[u8]) -> Result<(), RestoreCause> + 't;

/// The answer to a range that ends behind the file.
pub(super) const fn cut() -> RestoreCause {
    RestoreCause::Disk(DiskError { operation: OperationKind::Read, errno: DiskError::INVALID })
}

/// Reads of a range that are in flight, or whose bytes have not been taken.
#[derive(Debug)]
struct Ahead<B> {
    /// Where the next one begins.
    next: u64,
    end: u64,
    unit: usize,
    /// In the order of the file.
    pieces: Deque<Piece<B>, READS_MAX>,
}

/// A read of `skip` bytes, then bytes `from..to` of the file, and perhaps some behind them.
#[derive(Debug)]
struct Piece<B> {
    token: Token,
    skip: usize,
    from: u64,
    to: u64,
    /// How it ended.
    ended: Option<Outcome<B>>,
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

//! Checkpoint storage that does each operation when it is submitted: in memory, and in mapped files.

use core::fmt;
use core::marker::PhantomData;
use std::collections::VecDeque;

use heapless::VecView;
use slackwater_core::durable::{
    Completion, Data, Disk, DiskError, Entry, FileId, Frozen, Operation, OperationKind, Outcome, Token, Wait,
    is_valid_path,
};

mod block;
mod mem;
mod mmap;

pub use block::Block;
use block::Pool;
pub use mem::{MemDisk, MemFiles};
pub use mmap::{MappedFiles, MmapDisk};

/// An error number of the system.
pub type Errno = i32;

/// Files whose operations end before they return. Paths are valid; offsets and lengths are aligned.
///
/// The meaning of each operation is that of [`Operation`].
pub trait Files {
    /// See [`Operation::CreateFolder`].
    ///
    /// # Errors
    /// What the system said.
    fn create_folder(&mut self, path: &str) -> Result<(), Errno>;
    /// See [`Operation::CreateFile`]; `len` is aligned.
    ///
    /// # Errors
    /// What the system said.
    fn create_file(&mut self, path: &str, len: u64) -> Result<FileId, Errno>;
    /// See [`Operation::OpenFile`].
    ///
    /// # Errors
    /// What the system said.
    fn open_file(&mut self, path: &str) -> Result<(FileId, u64), Errno>;
    /// See [`Operation::Write`]. All bytes or an error.
    ///
    /// # Errors
    /// What the system said; `INVALID` beyond the end of the file.
    fn write(&mut self, file: FileId, offset: u64, bytes: &[u8]) -> Result<(), Errno>;
    /// See [`Operation::Read`]. Fewer bytes than asked for only at the end of the file.
    ///
    /// # Errors
    /// What the system said.
    fn read(&mut self, file: FileId, offset: u64, bytes: &mut [u8]) -> Result<usize, Errno>;
    /// See [`Operation::SetLength`].
    ///
    /// # Errors
    /// What the system said.
    fn set_length(&mut self, file: FileId, len: u64) -> Result<(), Errno>;
    /// See [`Operation::SyncFile`].
    ///
    /// # Errors
    /// What the system said.
    fn sync_file(&mut self, file: FileId) -> Result<(), Errno>;
    /// See [`Operation::CloseFile`].
    ///
    /// # Errors
    /// `INVALID` if it is not open.
    fn close_file(&mut self, file: FileId) -> Result<(), Errno>;
    /// See [`Operation::SyncFolder`].
    ///
    /// # Errors
    /// What the system said.
    fn sync_folder(&mut self, path: &str) -> Result<(), Errno>;
    /// See [`Operation::Rename`].
    ///
    /// # Errors
    /// What the system said.
    fn rename(&mut self, from: &str, to: &str) -> Result<(), Errno>;
    /// See [`Operation::Remove`].
    ///
    /// # Errors
    /// What the system said.
    fn remove(&mut self, path: &str) -> Result<(), Errno>;
    /// See [`Disk::list`].
    ///
    /// # Errors
    /// What the system said.
    fn list(&mut self, folder: &str, each: &mut dyn FnMut(Entry<'_>)) -> Result<(), Errno>;
}

/// A [`Disk`] over [`Files`]: operations are carried out by `submit`, their ends wait for `reap`.
///
/// A block or a guard of frozen frames is let go as soon as its bytes have been copied.
pub struct ImmediateDisk<S, F> {
    files: S,
    pool: Pool,
    ended: VecDeque<Completion<Block>>,
    frozen: PhantomData<fn(F)>,
}

impl<S: Files, F: Frozen> ImmediateDisk<S, F> {
    /// Ends that may wait to be reaped.
    const ENDED_MAX: usize = 64;

    pub(crate) fn over(files: S) -> Self {
        Self { files, pool: Pool::new(), ended: VecDeque::new(), frozen: PhantomData }
    }

    fn perform(&mut self, operation: Operation<'_, Block, F>) -> Outcome<Block> {
        let kind = operation.kind();
        self.try_perform(operation)
            .unwrap_or_else(|errno| Outcome::Failed(DiskError { operation: kind, errno }))
    }

    fn try_perform(&mut self, operation: Operation<'_, Block, F>) -> Result<Outcome<Block>, Errno> {
        match operation {
            Operation::CreateFolder { path } => self.files.create_folder(valid(path)?)?,
            Operation::CreateFile { path, len_max } => return self.create_file(path, len_max),
            Operation::OpenFile { path } => {
                let (file, len) = self.files.open_file(valid(path)?)?;
                return Ok(Outcome::Opened { file, len });
            }
            Operation::Write { file, offset, data } => self.write(file, offset, data)?,
            Operation::Read { file, offset, block, len } => return self.read(file, offset, block, len),
            Operation::SetLength { file, len } => self.files.set_length(file, len)?,
            Operation::SyncFile { file } => self.files.sync_file(file)?,
            Operation::CloseFile { file } => self.files.close_file(file)?,
            Operation::SyncFolder { path } => self.files.sync_folder(valid(path)?)?,
            Operation::Rename { from, to } => self.files.rename(valid(from)?, valid(to)?)?,
            Operation::Remove { path } => self.files.remove(valid(path)?)?,
        }
        Ok(Outcome::Done)
    }

    fn create_file(&mut self, path: &str, len_max: u64) -> Result<Outcome<Block>, Errno> {
        let len = len_max.checked_next_multiple_of(ALIGNMENT).ok_or(DiskError::NO_SPACE)?;
        let file = self.files.create_file(valid(path)?, len)?;
        Ok(Outcome::Opened { file, len })
    }

    fn write(&mut self, file: FileId, offset: u64, data: Data<Block, F>) -> Result<(), Errno> {
        match data {
            Data::Block { block, len } => {
                let written = match block.as_ref().get(..len) {
                    Some(bytes) if is_aligned(offset, len) => self.files.write(file, offset, bytes),
                    Some(_) | None => Err(DiskError::INVALID),
                };
                self.pool.take_back(block);
                written
            }
            Data::Frozen(run) if is_aligned(offset, run.bytes().len()) => {
                self.files.write(file, offset, run.bytes())
            }
            Data::Frozen(_) => Err(DiskError::INVALID),
        }
    }

    fn read(
        &mut self,
        file: FileId,
        offset: u64,
        mut block: Block,
        len: usize,
    ) -> Result<Outcome<Block>, Errno> {
        let read = match block.as_mut().get_mut(..len) {
            Some(bytes) if is_aligned(offset, len) => self.files.read(file, offset, bytes),
            Some(_) | None => Err(DiskError::INVALID),
        };
        match read {
            Ok(len) => Ok(Outcome::Read { block, len }),
            Err(errno) => {
                self.pool.take_back(block);
                Err(errno)
            }
        }
    }
}

impl<S: Files, F: Frozen> Disk for ImmediateDisk<S, F> {
    type Block = Block;
    type Frozen = F;

    fn block(&mut self) -> Option<Block> {
        self.pool.lend()
    }

    fn recycle(&mut self, block: Block) {
        self.pool.take_back(block);
    }

    fn submit<'p>(
        &mut self,
        token: Token,
        operation: Operation<'p, Block, F>,
    ) -> Result<(), Operation<'p, Block, F>> {
        if self.ended.len() >= Self::ENDED_MAX {
            return Err(operation);
        }
        let outcome = self.perform(operation);
        self.ended.push_back(Completion { token, outcome });
        Ok(())
    }

    fn reap(&mut self, _wait: Wait, out: &mut VecView<Completion<Block>>) -> usize {
        let room = out.capacity().saturating_sub(out.len());
        let count = room.min(self.ended.len());
        out.extend(self.ended.drain(..count));
        count
    }

    fn in_flight(&self) -> usize {
        self.ended.len()
    }

    fn list(&mut self, folder: &str, each: &mut dyn FnMut(Entry<'_>)) -> Result<(), DiskError> {
        valid(folder)
            .and_then(|folder| self.files.list(folder, each))
            .map_err(|errno| DiskError { operation: OperationKind::List, errno })
    }
}

impl<S: fmt::Debug, F> fmt::Debug for ImmediateDisk<S, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ImmediateDisk")
            .field("files", &self.files)
            .field("in_flight", &self.ended.len())
            .finish_non_exhaustive()
    }
}

/// [`Disk::ALIGNMENT`] in a type without a disk.
const ALIGNMENT: u64 = 4096;

fn is_aligned(offset: u64, len: usize) -> bool {
    offset.is_multiple_of(ALIGNMENT) && u64::try_from(len).is_ok_and(|len| len.is_multiple_of(ALIGNMENT))
}

fn valid(path: &str) -> Result<&str, Errno> {
    if is_valid_path(path) { Ok(path) } else { Err(DiskError::INVALID) }
}

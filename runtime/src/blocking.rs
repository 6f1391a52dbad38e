//! A disk that is waited for: before the job starts, and in tools.

use heapless::Vec as FixedVec;
use slackwater_core::durable::{
    Completion, Disk, DiskError, Entry, FileId, Operation, OperationKind, Outcome, Token, Wait,
};

use crate::files::{BlockingFiles, FileEntry};

/// Carries out one operation after the other on a disk that nobody else uses.
#[derive(Debug)]
pub struct Blocking<'d, D> {
    disk: &'d mut D,
}

impl<'d, D: Disk> Blocking<'d, D> {
    /// On this disk, which must have no operations in flight.
    pub const fn new(disk: &'d mut D) -> Self {
        Self { disk }
    }

    /// The disk.
    pub const fn disk(&mut self) -> &mut D {
        self.disk
    }

    /// The whole content of a file.
    ///
    /// # Errors
    /// What the disk said, or `NO_SPACE` for a file of more than `len_max` bytes.
    pub fn read(&mut self, path: &str, len_max: u64) -> Result<Vec<u8>, DiskError> {
        let error = |errno| DiskError { operation: OperationKind::OpenFile, errno };
        let Outcome::Opened { file, len } = self.run(Operation::OpenFile { path })? else {
            return Err(error(DiskError::INVALID));
        };
        let read = if len > len_max { Err(error(DiskError::NO_SPACE)) } else { self.read_open(file, len) };
        self.run(Operation::CloseFile { file })?;
        read
    }

    fn read_open(&mut self, file: FileId, len: u64) -> Result<Vec<u8>, DiskError> {
        let mut bytes = Vec::with_capacity(usize::try_from(len).unwrap_or(0));
        while (bytes.len() as u64) < len {
            let error = |errno| DiskError { operation: OperationKind::Read, errno };
            let mut block = self.disk.block().ok_or_else(|| error(DiskError::INVALID))?;
            let room = block.as_mut().len();
            let read = Operation::Read { file, offset: bytes.len() as u64, block, len: room };
            let Outcome::Read { block, len: got } = self.run(read)? else {
                return Err(error(DiskError::INVALID));
            };
            bytes.extend_from_slice(block.as_ref().get(..got).unwrap_or(&[]));
            self.disk.recycle(block);
            if got == 0 {
                break;
            }
        }
        Ok(bytes)
    }

    fn run(&mut self, operation: Operation<'_, D::Block, D::Frozen>) -> Result<Outcome<D::Block>, DiskError> {
        let busy = DiskError { operation: OperationKind::List, errno: DiskError::INVALID };
        self.disk.submit(Token(u64::MAX), operation).map_err(|_| busy)?;
        let mut ended = FixedVec::<Completion<D::Block>, 1>::new();
        while self.disk.reap(Wait::ForOne, &mut ended) == 0 {}
        match ended.pop().map(|completion| completion.outcome) {
            Some(Outcome::Failed(error)) => Err(error),
            Some(outcome) => Ok(outcome),
            None => Err(busy),
        }
    }

    fn done(&mut self, operation: Operation<'_, D::Block, D::Frozen>) -> Result<(), DiskError> {
        self.run(operation).map(|_| ())
    }
}

impl<D: Disk> BlockingFiles for Blocking<'_, D> {
    fn list(&mut self, folder: &str) -> Result<Vec<FileEntry>, DiskError> {
        let mut entries = Vec::new();
        let listed = self.disk.list(folder, &mut |Entry { name, is_folder, len }| {
            entries.push(FileEntry { name: name.to_owned(), is_folder, len });
        });
        match listed {
            Err(error) if error.errno != DiskError::NOT_FOUND => return Err(error),
            Ok(()) | Err(_) => entries.sort(),
        }
        Ok(entries)
    }

    fn is_same(&mut self, one: &str, other: &str) -> Result<bool, DiskError> {
        Ok(self.read(one, u64::MAX)? == self.read(other, u64::MAX)?)
    }

    fn create_folder(&mut self, folder: &str) -> Result<(), DiskError> {
        self.done(Operation::CreateFolder { path: folder })
    }

    fn rename(&mut self, from: &str, to: &str) -> Result<(), DiskError> {
        self.done(Operation::Rename { from, to })
    }

    fn remove(&mut self, path: &str) -> Result<(), DiskError> {
        self.done(Operation::Remove { path })
    }

    fn sync_folder(&mut self, folder: &str) -> Result<(), DiskError> {
        self.done(Operation::SyncFolder { path: folder })
    }
}

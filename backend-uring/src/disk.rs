//! [`UringDisk`]: the operations of a [`Disk`] by ring and by system call.

use std::collections::VecDeque;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use heapless::VecView;
use slackwater_core::durable::{
    Completion, Data, Disk, DiskError, Entry, FileId, Frozen, Operation, OperationKind, Outcome, Token, Wait,
    is_valid_path,
};

use crate::block::{Block, Pool};
use crate::files::{Errno, Fallback, Files, OpenFile};
use crate::ring::{Buffer, Ended, Ring, Transfer};
use crate::unavailable::UringUnavailable;

/// How a [`UringDisk`] works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UringOptions {
    /// Reads and writes that may be in flight.
    pub transfers_max: u32,
    /// Bytes of a block, at least 64 KiB.
    pub block_size: usize,
    /// Blocks that may exist.
    pub blocks_max: usize,
    /// Whether to go around the page cache where the file system takes it.
    pub direct: bool,
}

impl Default for UringOptions {
    /// 32 transfers, and 4 blocks of 2 MiB, which are huge pages where there are any: more would not stay in the
    /// processor's caches between being filled and being written.
    fn default() -> Self {
        Self { transfers_max: 32, block_size: 2 << 20, blocks_max: 4, direct: true }
    }
}

/// Checkpoint storage below a folder, through one io_uring. One disk serves a whole process.
///
/// Dropping it waits for the transfers in flight.
pub struct UringDisk<F: Frozen> {
    ring: Ring<F>,
    files: Files,
    pool: Pool,
    /// Ends of plain system calls.
    ended: VecDeque<Completion<Block>>,
}

impl<F: Frozen> UringDisk<F> {
    /// Ends of plain system calls that may wait to be reaped.
    const ENDED_MAX: usize = 64;

    /// Storage below `root`, which is made if it is not there.
    ///
    /// # Errors
    /// Why there is no ring, or what is wrong with the folder.
    pub fn new(root: &Path, options: UringOptions) -> Result<Self, UringUnavailable> {
        Ok(Self {
            ring: Ring::new(options.transfers_max)?,
            files: Files::new(root, options.direct).map_err(|error| UringUnavailable::from_root(&error))?,
            pool: Pool::new(options.block_size, options.blocks_max),
            ended: VecDeque::new(),
        })
    }

    /// What this disk does less well than it could, each once; found out as files are opened and written.
    #[must_use]
    pub fn fallbacks(&self) -> &[Fallback] {
        self.files.fallbacks()
    }

    fn finish(&mut self, token: Token, operation: OperationKind, result: Result<Outcome<Block>, Errno>) {
        let outcome = result.unwrap_or_else(|errno| Outcome::Failed(DiskError { operation, errno }));
        self.ended.push_back(Completion { token, outcome });
    }

    fn call(&mut self, operation: &Operation<'_, Block, F>) -> Result<Outcome<Block>, Errno> {
        let files = &mut self.files;
        match operation {
            Operation::CreateFolder { path } => files.create_folder(valid(path)?)?,
            Operation::CreateFile { path, len_max } => {
                let len = len_max.checked_next_multiple_of(ALIGNMENT).ok_or(DiskError::NO_SPACE)?;
                let file = files.create_file(valid(path)?, len)?;
                return Ok(Outcome::Opened { file, len });
            }
            Operation::OpenFile { path } => {
                let (file, len) = files.open_file(valid(path)?)?;
                return Ok(Outcome::Opened { file, len });
            }
            Operation::SetLength { file, len } => files.set_length(*file, *len)?,
            Operation::SyncFile { file } => files.sync_file(*file)?,
            Operation::CloseFile { file } => files.close_file(*file)?,
            Operation::SyncFolder { path } => files.sync_folder(valid(path)?)?,
            Operation::Rename { from, to } => files.rename(valid(from)?, valid(to)?)?,
            Operation::Remove { path } => files.remove(valid(path)?)?,
            Operation::Write { .. } | Operation::Read { .. } => return Err(DiskError::INVALID),
        }
        Ok(Outcome::Done)
    }

    fn write(&mut self, token: Token, file: FileId, offset: u64, data: Data<Block, F>) {
        let (len, fits) = match &data {
            Data::Block { block, len } => (*len, *len <= block.as_ref().len()),
            Data::Frozen(run) => (run.bytes().len(), true),
        };
        match self.writable(file, offset, len) {
            Ok((file, alignment)) if fits => match self.buffer(data, alignment) {
                Ok(buffer) => self.start(token, file, offset, len, alignment, buffer),
                Err(errno) => self.finish(token, OperationKind::Write, Err(errno)),
            },
            refused => {
                if let Data::Block { block, .. } = data {
                    self.pool.take_back(block);
                }
                let errno = refused.err().unwrap_or(DiskError::INVALID);
                self.finish(token, OperationKind::Write, Err(errno));
            }
        }
    }

    fn writable(&self, file: FileId, offset: u64, len: usize) -> Result<(Arc<std::fs::File>, u32), Errno> {
        let open = self.files.get(file)?;
        if let Some(errno) = open.sync_error {
            return Err(errno);
        }
        let ends_inside = offset.checked_add(len as u64).is_some_and(|end| end <= open.len);
        if is_aligned(offset, len) && ends_inside {
            Ok((Arc::clone(&open.file), open.address_alignment))
        } else {
            Err(DiskError::INVALID)
        }
    }

    /// The bytes where they lie, or a copy of frames at an address the device does not take.
    fn buffer(&mut self, data: Data<Block, F>, alignment: u32) -> Result<Buffer<F>, Errno> {
        Ok(match data {
            Data::Block { block, .. } => Buffer::Write(block),
            Data::Frozen(run) if run.bytes().as_ptr().addr().is_multiple_of(alignment as usize) => {
                Buffer::Frozen(run)
            }
            Data::Frozen(run) => {
                self.files.note(Fallback::Copied { needed: alignment });
                let copy = Block::copy_of(run.bytes());
                Buffer::Write(copy.map_err(|error| error.raw_os_error().unwrap_or(libc::ENOMEM))?)
            }
        })
    }

    fn read(&mut self, token: Token, file: FileId, offset: u64, block: Block, len: usize) {
        match self.files.get(file) {
            Ok(OpenFile { file, address_alignment, .. })
                if is_aligned(offset, len) && len <= block.as_ref().len() =>
            {
                let (file, alignment) = (Arc::clone(file), *address_alignment);
                self.start(token, file, offset, len, alignment, Buffer::Read(block));
            }
            refused => {
                let errno = refused.err().unwrap_or(DiskError::INVALID);
                self.pool.take_back(block);
                self.finish(token, OperationKind::Read, Err(errno));
            }
        }
    }

    fn start(
        &mut self,
        token: Token,
        file: Arc<std::fs::File>,
        offset: u64,
        len: usize,
        alignment: u32,
        buffer: Buffer<F>,
    ) {
        // Offsets of direct I/O keep to the format's own step, which every device takes (see `Files`).
        let step = if alignment > 1 { 4096 } else { 1 };
        self.ring.start(Transfer { token, file, offset, len, done: 0, step, stalls: 0, buffer });
    }

    fn completion(&mut self, ended: Ended<F>) -> Completion<Block> {
        let Ended { token, result, buffer } = ended;
        let failed = |operation, errno| Outcome::Failed(DiskError { operation, errno });
        let outcome = match (buffer, result) {
            (Some(Buffer::Read(block)), Ok(len)) => Outcome::Read { block, len },
            (Some(Buffer::Read(block)), Err(errno)) => {
                self.pool.take_back(block);
                failed(OperationKind::Read, errno)
            }
            (Some(Buffer::Write(block)), result) => {
                self.pool.take_back(block);
                result.map_or_else(|errno| failed(OperationKind::Write, errno), |_len| Outcome::Done)
            }
            (Some(Buffer::Frozen(_)) | None, Ok(_)) => Outcome::Done,
            (Some(Buffer::Frozen(_)) | None, Err(errno)) => failed(OperationKind::Write, errno),
        };
        Completion { token, outcome }
    }

    fn next_completion(&mut self) -> Option<Completion<Block>> {
        if let Some(completion) = self.ended.pop_front() {
            return Some(completion);
        }
        let ended = self.ring.pop_ended()?;
        Some(self.completion(ended))
    }
}

impl<F: Frozen> Disk for UringDisk<F> {
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
        let has_room = self.ended.len() + self.ring.ended_len() < Self::ENDED_MAX && self.ring.has_room();
        if !has_room {
            return Err(operation);
        }
        match operation {
            Operation::Write { file, offset, data } => self.write(token, file, offset, data),
            Operation::Read { file, offset, block, len } => self.read(token, file, offset, block, len),
            operation @ (Operation::CreateFolder { .. }
            | Operation::CreateFile { .. }
            | Operation::OpenFile { .. }
            | Operation::SetLength { .. }
            | Operation::SyncFile { .. }
            | Operation::CloseFile { .. }
            | Operation::SyncFolder { .. }
            | Operation::Rename { .. }
            | Operation::Remove { .. }) => {
                let result = self.call(&operation);
                self.finish(token, operation.kind(), result);
            }
        }
        Ok(())
    }

    fn reap(&mut self, wait: Wait, out: &mut VecView<Completion<Block>>) -> usize {
        let before = out.len();
        self.ring.reap(false);
        while wait == Wait::ForOne
            && self.ended.is_empty()
            && self.ring.ended_len() == 0
            && self.ring.in_flight() > 0
        {
            self.ring.reap(true);
        }
        while !out.is_full()
            && let Some(completion) = self.next_completion()
        {
            out.extend([completion]);
        }
        out.len() - before
    }

    fn in_flight(&self) -> usize {
        self.ring.in_flight() + self.ring.ended_len() + self.ended.len()
    }

    fn list(&mut self, folder: &str, each: &mut dyn FnMut(Entry<'_>)) -> Result<(), DiskError> {
        valid(folder)
            .and_then(|folder| self.files.list(folder, each))
            .map_err(|errno| DiskError { operation: OperationKind::List, errno })
    }
}

impl<F: Frozen> fmt::Debug for UringDisk<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UringDisk")
            .field("files", &self.files)
            .field("in_flight", &self.in_flight())
            .finish_non_exhaustive()
    }
}

/// [`Disk::ALIGNMENT`] in a type without a disk.
const ALIGNMENT: u64 = 4096;

const fn is_aligned(offset: u64, len: usize) -> bool {
    offset.is_multiple_of(ALIGNMENT) && (len as u64).is_multiple_of(ALIGNMENT)
}

fn valid(path: &str) -> Result<&str, Errno> {
    if is_valid_path(path) { Ok(path) } else { Err(DiskError::INVALID) }
}

//! What a disk must offer, and the order of operations that makes a file durable.
//!
//! A [`Disk`] is submit and reap: operations carry tokens, completions carry them back in any order. The
//! disk owns every buffer of an operation from its submission until its completion has been reaped,
//! whatever becomes of the job that asked for it.

use core::fmt;

use heapless::VecView;

mod file_writer;
mod layer;
mod order;
mod path;
mod work;

pub use file_writer::{FileWriter, Names, WriteFile};
pub use layer::{Layer, Layered};
pub use order::{Birth, Failure, FileAction, FileEvent, FileOrder, Step};
pub use path::{folder_of, is_valid_path};
pub use work::{RunError, Tokens, Work, run_to_end};

/// Names an operation; chosen by the caller, carried back by the completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token(pub u64);

impl Token {
    /// The job that drew it (see [`Tokens`]): a writer of many jobs routes completions by it.
    #[must_use]
    pub const fn job(self) -> u32 {
        (self.0 >> 32) as u32
    }
}

/// An open file of a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileId(pub u32);

/// Bytes that stay where and what they are for as long as the value lives, even if the value is moved.
///
/// # Safety
/// `bytes` must return the same address, length and content each time until the value is dropped, and the
/// bytes must not be written by anyone in that time: a kernel reads them through a raw address.
#[expect(
    unsafe_code,
    reason = "the contract that lets a kernel read frozen frames; implemented by the frame store"
)]
pub unsafe trait Frozen: Send + fmt::Debug + 'static {
    /// The frozen bytes.
    fn bytes(&self) -> &[u8];
}

// SAFETY: shared bytes that live for ever have one address and nobody may write them.
#[expect(unsafe_code, reason = "constant bytes are frozen")]
unsafe impl Frozen for &'static [u8] {
    fn bytes(&self) -> &[u8] {
        self
    }
}

/// The bytes of a write.
#[derive(Debug)]
pub enum Data<B, F> {
    /// The first `len` bytes of a block of the disk's own.
    Block {
        /// The block.
        block: B,
        /// How many of its bytes.
        len: usize,
    },
    /// A run of frozen frames, kept frozen by its own guard.
    Frozen(F),
}

/// An operation.
///
/// Paths are relative to the disk's root, their parts separated by `/`; the empty path is the root itself. A
/// path that is absolute or has an empty, `.` or `..` part fails with [`DiskError::INVALID`].
#[derive(Debug)]
pub enum Operation<'p, B, F> {
    /// Makes a folder; its parent must exist. Already there is not an error. Like every name, it is durable only
    /// after the sync of the folder that holds it.
    CreateFolder {
        /// Where.
        path: &'p str,
    },
    /// Makes a file that must not exist yet, open for writing, with room for `len_max` bytes set aside.
    /// Completes with [`Outcome::Opened`]. A disk without so much room fails here; a failure leaves no file
    /// behind, and [`DiskError::EXISTS`] leaves the file that was there alone.
    CreateFile {
        /// Where.
        path: &'p str,
        /// The most bytes it will have; cut back with `SetLength`.
        len_max: u64,
    },
    /// Opens a file for reading. Completes with [`Outcome::Opened`].
    OpenFile {
        /// Where.
        path: &'p str,
    },
    /// Writes at a position. Offset and length are multiples of [`Disk::ALIGNMENT`].
    Write {
        /// The file.
        file: FileId,
        /// Position in bytes.
        offset: u64,
        /// The bytes.
        data: Data<B, F>,
    },
    /// Reads up to `len` bytes into the block; fewer only at the end of the file. Completes with [`Outcome::Read`].
    Read {
        /// The file.
        file: FileId,
        /// Position in bytes, a multiple of [`Disk::ALIGNMENT`].
        offset: u64,
        /// Where the bytes go.
        block: B,
        /// How many, a multiple of [`Disk::ALIGNMENT`].
        len: usize,
    },
    /// Cuts or extends a file to exactly this length.
    SetLength {
        /// The file.
        file: FileId,
        /// Its new length in bytes.
        len: u64,
    },
    /// Makes the file's bytes and length durable (fdatasync). Covers writes whose completion was reaped before.
    /// Once it has failed, every later write or sync of the file fails: what the system kept is unknown.
    SyncFile {
        /// The file.
        file: FileId,
    },
    /// Forgets the file.
    CloseFile {
        /// The file.
        file: FileId,
    },
    /// Makes the names in a folder durable (fsync of the folder).
    SyncFolder {
        /// The folder.
        path: &'p str,
    },
    /// Gives a file, or a folder with all in it, another name that must not exist yet.
    Rename {
        /// The old name.
        from: &'p str,
        /// The new name.
        to: &'p str,
    },
    /// Removes a file, or an empty folder. Not durable before the folder's sync.
    Remove {
        /// Where.
        path: &'p str,
    },
}

/// Which operation an error belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OperationKind {
    /// [`Operation::CreateFolder`]
    CreateFolder,
    /// [`Operation::CreateFile`]
    CreateFile,
    /// [`Operation::OpenFile`]
    OpenFile,
    /// [`Operation::Write`]
    Write,
    /// [`Operation::Read`]
    Read,
    /// [`Operation::SetLength`]
    SetLength,
    /// [`Operation::SyncFile`]
    SyncFile,
    /// [`Operation::CloseFile`]
    CloseFile,
    /// [`Operation::SyncFolder`]
    SyncFolder,
    /// [`Operation::Rename`]
    Rename,
    /// [`Operation::Remove`]
    Remove,
    /// [`Disk::list`]
    List,
}

impl<B, F> Operation<'_, B, F> {
    /// Which operation it is.
    #[must_use]
    pub const fn kind(&self) -> OperationKind {
        match self {
            Self::CreateFolder { .. } => OperationKind::CreateFolder,
            Self::CreateFile { .. } => OperationKind::CreateFile,
            Self::OpenFile { .. } => OperationKind::OpenFile,
            Self::Write { .. } => OperationKind::Write,
            Self::Read { .. } => OperationKind::Read,
            Self::SetLength { .. } => OperationKind::SetLength,
            Self::SyncFile { .. } => OperationKind::SyncFile,
            Self::CloseFile { .. } => OperationKind::CloseFile,
            Self::SyncFolder { .. } => OperationKind::SyncFolder,
            Self::Rename { .. } => OperationKind::Rename,
            Self::Remove { .. } => OperationKind::Remove,
        }
    }
}

/// What a disk said no to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskError {
    /// What was tried.
    pub operation: OperationKind,
    /// The system's error number.
    pub errno: i32,
}

impl DiskError {
    /// The thing is not there (ENOENT).
    pub const NOT_FOUND: i32 = 2;
    /// The disk failed (EIO).
    pub const IO: i32 = 5;
    /// Not permitted (EACCES).
    pub const ACCESS: i32 = 13;
    /// The thing is there already (EEXIST).
    pub const EXISTS: i32 = 17;
    /// The call was wrong (EINVAL).
    pub const INVALID: i32 = 22;
    /// The disk is full (ENOSPC).
    pub const NO_SPACE: i32 = 28;
    /// The file system is read-only (EROFS).
    pub const READ_ONLY: i32 = 30;
}

impl fmt::Display for DiskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.errno {
            Self::NOT_FOUND => "not found",
            Self::IO => "input/output error",
            Self::ACCESS => "permission denied",
            Self::EXISTS => "exists already",
            Self::NO_SPACE => "no space left on the disk",
            Self::READ_ONLY => "file system is read-only",
            _ => return write!(f, "{:?} failed with error {}", self.operation, self.errno),
        };
        write!(f, "{:?} failed: {what}", self.operation)
    }
}

impl core::error::Error for DiskError {}

/// How an operation ended.
#[derive(Debug)]
pub enum Outcome<B> {
    /// It is done; a block that was written has gone back to the disk.
    Done,
    /// The file is open.
    Opened {
        /// Its number.
        file: FileId,
        /// Its length in bytes.
        len: u64,
    },
    /// The block holds `len` bytes.
    Read {
        /// The block; give it back with [`Disk::recycle`].
        block: B,
        /// How many bytes were read.
        len: usize,
    },
    /// It failed; partial writes are possible, and after a failed sync the file is dead.
    Failed(DiskError),
}

/// The end of an operation.
#[derive(Debug)]
pub struct Completion<B> {
    /// What the caller named it.
    pub token: Token,
    /// How it ended.
    pub outcome: Outcome<B>,
}

/// Whether [`Disk::reap`] may wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// Take what is there.
    No,
    /// Wait until at least one operation has ended, if any is in flight.
    ForOne,
}

/// An entry of a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'n> {
    /// Its name, without the folder. Names that are not UTF-8 are left out.
    pub name: &'n str,
    /// Whether it is a folder.
    pub is_folder: bool,
    /// Length in bytes of a file.
    pub len: u64,
}

/// Checkpoint storage.
pub trait Disk {
    /// A block of memory that the disk lends out; it goes back with a write or with [`Disk::recycle`].
    type Block: AsRef<[u8]> + AsMut<[u8]> + Send + fmt::Debug;
    /// The guard of a run of frozen frames.
    type Frozen: Frozen;

    /// Offsets and lengths of reads and writes are multiples of this.
    const ALIGNMENT: usize = 4096;

    /// A block of at least 64 KiB and a multiple of [`Disk::ALIGNMENT`], or none while all are in use.
    fn block(&mut self) -> Option<Self::Block>;

    /// Takes back a block that was not written.
    fn recycle(&mut self, block: Self::Block);

    /// Starts an operation.
    ///
    /// # Errors
    /// Gives the operation back when the table of operations in flight is full: reap, then try again.
    fn submit<'p>(
        &mut self,
        token: Token,
        operation: Operation<'p, Self::Block, Self::Frozen>,
    ) -> Result<(), Operation<'p, Self::Block, Self::Frozen>>;

    /// Appends ended operations to `out` as far as it has room, and says how many.
    fn reap(&mut self, wait: Wait, out: &mut VecView<Completion<Self::Block>>) -> usize;

    /// Operations submitted and not yet reaped.
    fn in_flight(&self) -> usize;

    /// Calls `each` for every entry of a folder, in no particular order. Waits for the disk.
    ///
    /// # Errors
    /// `NOT_FOUND` if there is no such folder, or what the system said.
    fn list(&mut self, folder: &str, each: &mut dyn FnMut(Entry<'_>)) -> Result<(), DiskError>;
}

//! Opens a folder for a job: which disk, and that no other process works on it.

mod memory;

use std::fmt;
use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use slackwater_core::time::Now;
use slackwater_mem::{FrozenRun, MemDisk, MmapDisk};
use slackwater_uring::{UringDisk, UringOptions, UringUnavailable};

use crate::blocking::Blocking;
use crate::error::JobError;
use crate::graph::JobBuilder;
use crate::job::{AssembledJob, Job, JobOptions};
use crate::paths;

pub use self::memory::Memory;

/// The file whose lock says that a process works on the folder.
const LOCK: &str = ".lock";

/// How checkpoints reach the disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StorageKind {
    /// io_uring where it is available, mapped files elsewhere.
    #[default]
    Auto,
    /// io_uring, or an error.
    Uring,
    /// Mapped files.
    Mmap,
    /// Memory: nothing survives the process.
    Mem,
}

/// A folder that this process alone works on, with its disk.
///
/// The disk's root is the root of the file system, so that a sink may write anywhere; see [`disk_path`].
#[derive(Debug)]
pub struct Storage {
    name: &'static str,
    /// Opened and not used yet; always there in memory.
    disk: Option<OpenDisk>,
    folder: String,
    _lock: FolderLock,
    notes: Vec<String>,
}

enum OpenDisk {
    Uring(Box<UringDisk<FrozenRun>>),
    Mmap(MmapDisk<FrozenRun>),
    Mem(MemDisk<FrozenRun>),
}

/// Keeps other processes out of a folder until it is dropped; the system drops it with the process, however
/// that ends.
#[derive(Debug)]
pub struct FolderLock {
    _file: Option<File>,
}

impl Storage {
    /// Opens `folder`, which is made if it is not there.
    ///
    /// # Errors
    /// [`JobError::FolderInUse`] if another process works on it, [`JobError::Storage`] if it cannot be used.
    pub fn open(folder: &Path, kind: StorageKind) -> Result<Self, JobError> {
        if kind == StorageKind::Mem {
            let disk = OpenDisk::Mem(MemDisk::new());
            return Ok(Self::new(disk, String::new(), FolderLock { _file: None }, Vec::new()));
        }
        make_folder(folder)?;
        let lock = FolderLock::take(folder)?;
        let path = disk_path(folder)?;
        let mut notes = Vec::new();
        let disk = match kind {
            StorageKind::Uring => uring(&path, &mut notes).map_err(|reason| storage_error(folder, reason))?,
            StorageKind::Mmap | StorageKind::Mem => mmap().map_err(|error| storage_error(folder, error))?,
            StorageKind::Auto => match uring(&path, &mut notes) {
                Ok(disk) => disk,
                Err(reason) => {
                    notes.push(format!("{reason}; using mapped files"));
                    mmap().map_err(|error| storage_error(folder, error))?
                }
            },
        };
        Ok(Self::new(disk, path, lock, notes))
    }

    const fn new(disk: OpenDisk, folder: String, lock: FolderLock, notes: Vec<String>) -> Self {
        let name = match disk {
            OpenDisk::Uring(_) => "uring",
            OpenDisk::Mmap(_) => "mmap",
            OpenDisk::Mem(_) => "mem",
        };
        Self { name, disk: Some(disk), folder, _lock: lock, notes }
    }

    /// Which disk it is: `uring`, `mmap` or `mem`.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// The files of a job on [`StorageKind::Mem`], to take its output from when it has ended.
    #[must_use]
    pub fn memory(&self) -> Option<Memory> {
        match &self.disk {
            Some(OpenDisk::Mem(disk)) => Some(Memory { disk: disk.clone() }),
            Some(OpenDisk::Uring(_) | OpenDisk::Mmap(_)) | None => None,
        }
    }

    /// What the user should know: which disk was taken instead of a better one, and why.
    #[must_use]
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Puts a job together on this disk, in this folder; again and again, each time when the job before has ended. Keep
    /// the storage as long as the job: it keeps others out.
    ///
    /// # Errors
    /// As [`Job::assemble`], or [`JobError::Storage`]: the disk could not be opened once more.
    pub fn assemble(
        &mut self,
        builder: JobBuilder,
        now: Now,
        options: &JobOptions,
    ) -> Result<AssembledJob, JobError> {
        let options = JobOptions { folder: self.folder.clone(), ..options.clone() };
        match self.take_disk()? {
            OpenDisk::Uring(disk) => Job::assemble(builder, *disk, now, &options),
            OpenDisk::Mmap(disk) => Job::assemble(builder, disk, now, &options),
            OpenDisk::Mem(disk) => Job::assemble(builder, disk, now, &options),
        }
    }

    /// The disk of the next job.
    fn take_disk(&mut self) -> Result<OpenDisk, JobError> {
        let error = |error: &dyn fmt::Display| JobError::Storage {
            folder: format!("/{}", self.folder),
            message: error.to_string(),
        };
        match self.disk.take() {
            Some(OpenDisk::Mem(disk)) => {
                self.disk = Some(OpenDisk::Mem(disk.clone()));
                Ok(OpenDisk::Mem(disk))
            }
            Some(disk) => Ok(disk),
            None if self.name == "uring" => uring(&self.folder, &mut Vec::new()).map_err(|e| error(&e)),
            None => mmap().map_err(|e| error(&e)),
        }
    }
}

impl FolderLock {
    /// Takes the lock of an existing folder.
    ///
    /// # Errors
    /// [`JobError::FolderInUse`] if another process has it, [`JobError::Storage`] if there can be no lock.
    pub fn take(folder: &Path) -> Result<Self, JobError> {
        let path: PathBuf = folder.join(LOCK);
        let file = File::options().create(true).truncate(false).write(true).open(&path);
        let file = file.map_err(|error| storage_error(folder, error))?;
        match file.try_lock() {
            Ok(()) => Ok(Self { _file: Some(file) }),
            Err(TryLockError::WouldBlock) => {
                Err(JobError::FolderInUse { folder: folder.display().to_string() })
            }
            Err(TryLockError::Error(error)) => Err(storage_error(folder, error)),
        }
    }
}

/// Makes a folder, and those it lies in, that are still there after a loss of power.
///
/// # Errors
/// [`JobError::Storage`] with what the system said.
pub fn make_folder(folder: &Path) -> Result<(), JobError> {
    make_durably(folder).map_err(|error| storage_error(folder, error))
}

fn make_durably(folder: &Path) -> io::Result<()> {
    let parent = match folder.parent() {
        Some(parent) if parent.as_os_str().is_empty() => Path::new("."),
        Some(parent) => parent,
        None => return Ok(()),
    };
    if folder.is_dir() {
        return Ok(());
    }
    make_durably(parent)?;
    match fs::create_dir(folder) {
        // Somebody else was faster.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && folder.is_dir() => {}
        made => made?,
    }
    File::open(parent)?.sync_all()
}

/// The path by which a job's disk knows an existing file or folder: from the root of the file system, without
/// the leading slash.
///
/// # Errors
/// [`JobError::Storage`] if there is no such thing, or if its path is not UTF-8.
pub fn disk_path(path: &Path) -> Result<String, JobError> {
    let whole = path.canonicalize().map_err(|error| storage_error(path, error))?;
    let text =
        whole.to_str().ok_or_else(|| storage_error(path, "its path is not UTF-8: use another folder"))?;
    Ok(text.trim_start_matches('/').to_owned())
}

/// Opens a ring, and with it the file of the lock: what it has to do without shows only at a file.
fn uring(folder: &str, notes: &mut Vec<String>) -> Result<OpenDisk, UringUnavailable> {
    let mut disk = UringDisk::new(Path::new("/"), UringOptions::default())?;
    if Blocking::new(&mut disk).read(&paths::join(folder, LOCK), 0).is_ok() {
        notes.extend(disk.fallbacks().iter().map(|fallback| format!("io_uring with {fallback}")));
    }
    Ok(OpenDisk::Uring(Box::new(disk)))
}

fn mmap() -> io::Result<OpenDisk> {
    MmapDisk::new(Path::new("/")).map(OpenDisk::Mmap)
}

fn storage_error(folder: &Path, message: impl fmt::Display) -> JobError {
    JobError::Storage { folder: folder.display().to_string(), message: message.to_string() }
}

impl fmt::Debug for OpenDisk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Uring(_) => "Uring",
            Self::Mmap(_) => "Mmap",
            Self::Mem(_) => "Mem",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{Storage, StorageKind};
    use crate::error::JobError;

    #[test]
    fn a_folder_belongs_to_one_user_at_a_time() {
        let folder = tempfile::tempdir().unwrap();
        let first = Storage::open(folder.path(), StorageKind::Mmap).unwrap();
        let second = Storage::open(folder.path(), StorageKind::Mmap);
        assert!(matches!(second, Err(JobError::FolderInUse { .. })), "{second:?}");
        drop(first);
        assert!(Storage::open(folder.path(), StorageKind::Auto).is_ok());
    }

    #[test]
    fn a_disk_is_there_for_each_job_of_a_folder() {
        let folder = tempfile::tempdir().unwrap();
        for kind in [StorageKind::Auto, StorageKind::Mmap, StorageKind::Mem] {
            let mut storage = Storage::open(folder.path(), kind).unwrap();
            let first = format!("{:?}", storage.take_disk().unwrap());
            assert_eq!(format!("{:?}", storage.take_disk().unwrap()), first);
            assert_eq!(first.to_lowercase(), storage.name());
            assert_eq!(storage.memory().is_some(), kind == StorageKind::Mem);
        }
    }

    #[test]
    fn s26_checkpoints_in_memory_leave_nothing_behind() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("job");
        for _again in 0..2 {
            let storage = Storage::open(&folder, StorageKind::Mem).unwrap();
            assert!(storage.memory().is_some() && storage.name() == "mem");
        }
        assert!(!folder.exists());
        assert!(Storage::open(&folder, StorageKind::Mmap).unwrap().memory().is_none());
    }

    #[test]
    fn a_folder_is_made_with_those_it_lies_in() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("one/two/three");
        for _again in 0..2 {
            super::make_folder(&folder).unwrap();
            assert!(folder.is_dir());
        }
        assert!(Storage::open(&root.path().join("four/five"), StorageKind::Mmap).is_ok());
    }

    #[test]
    fn a_file_in_the_way_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, "").unwrap();
        let error = Storage::open(&path, StorageKind::Auto).unwrap_err();
        assert!(error.to_string().contains("file"), "{error}");
    }
}

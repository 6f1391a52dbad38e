//! Open files, and the operations that are plain system calls.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{AtFlags, CWD, FallocateFlags, OFlags, RenameFlags, StatxFlags};
use slackwater_core::durable::{DiskError, Entry, FileId};

/// An error number of the system.
pub(crate) type Errno = i32;

/// What the disk does less well than it could, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fallback {
    /// Reads and writes go through the page cache: the file system does not take `O_DIRECT`.
    Buffered {
        /// The system's error number.
        errno: i32,
    },
    /// Reads and writes go through the page cache: the device wants larger steps than the format has.
    BufferedForAlignment {
        /// The multiple that offsets would have to be of.
        needed: u32,
    },
    /// Files are not allocated ahead: a full disk shows only at a write.
    NotAllocated,
    /// Frozen frames are copied before they are written: they lie at addresses the device does not take.
    Copied {
        /// The multiple that addresses would have to be of.
        needed: u32,
    },
}

impl fmt::Display for Fallback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Buffered { errno } => {
                let error = io::Error::from_raw_os_error(*errno);
                write!(f, "buffered writes: the file system does not take O_DIRECT ({error})")
            }
            Self::BufferedForAlignment { needed } => {
                write!(f, "buffered writes: O_DIRECT needs multiples of {needed} bytes here")
            }
            Self::NotAllocated => f.write_str("files are not allocated ahead: the file system cannot"),
            Self::Copied { needed } => {
                write!(f, "frozen frames are copied: O_DIRECT needs addresses that are multiples of {needed}")
            }
        }
    }
}

/// A file that is open.
#[derive(Debug)]
pub(crate) struct OpenFile {
    /// Operations in flight hold it too: its descriptor stays theirs after a close.
    pub(crate) file: Arc<File>,
    /// What buffer addresses must be multiples of; 1 if the file is buffered.
    pub(crate) address_alignment: u32,
    /// Bytes that may be written.
    pub(crate) len: u64,
    /// The first failed sync; it is never tried again.
    pub(crate) sync_error: Option<Errno>,
}

/// The files below a root folder.
#[derive(Debug)]
pub(crate) struct Files {
    root: PathBuf,
    direct: bool,
    open: BTreeMap<FileId, OpenFile>,
    opened: u32,
    fallbacks: Vec<Fallback>,
}

impl Files {
    pub(crate) fn new(root: &Path, direct: bool) -> io::Result<Self> {
        make_root(root)?;
        let root = root.to_path_buf();
        Ok(Self { root, direct, open: BTreeMap::new(), opened: 0, fallbacks: Vec::new() })
    }

    pub(crate) fn fallbacks(&self) -> &[Fallback] {
        &self.fallbacks
    }

    pub(crate) fn note(&mut self, fallback: Fallback) {
        if !self.fallbacks.contains(&fallback) {
            self.fallbacks.push(fallback);
        }
    }

    pub(crate) fn get(&self, file: FileId) -> Result<&OpenFile, Errno> {
        self.open.get(&file).ok_or(DiskError::INVALID)
    }

    fn at(&self, path: &str) -> PathBuf {
        if path.is_empty() { self.root.clone() } else { self.root.join(path) }
    }

    pub(crate) fn create_folder(&self, path: &str) -> Result<(), Errno> {
        let path = self.at(path);
        match fs::create_dir(&path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
            made => made.map_err(errno),
        }
    }

    pub(crate) fn create_file(&mut self, path: &str, len: u64) -> Result<FileId, Errno> {
        let path = self.at(path);
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(&path).map_err(errno)?;
        match self.allocate(&file, 0, len).and_then(|()| self.open(file, len)) {
            Ok(id) => Ok(id),
            Err(error) => {
                // The file is ours and empty; that it could not be removed would hide the reason.
                drop(fs::remove_file(&path));
                Err(errno(error))
            }
        }
    }

    pub(crate) fn open_file(&mut self, path: &str) -> Result<(FileId, u64), Errno> {
        let file = File::open(self.at(path)).map_err(errno)?;
        let about = file.metadata().map_err(errno)?;
        if about.is_dir() {
            return Err(libc::EISDIR);
        }
        Ok((self.open(file, about.len()).map_err(errno)?, about.len()))
    }

    fn open(&mut self, file: File, len: u64) -> io::Result<FileId> {
        let address_alignment = if self.direct { self.make_direct(&file)? } else { 1 };
        let id = FileId(self.opened);
        self.opened = self.opened.wrapping_add(1);
        self.open.insert(id, OpenFile { file: Arc::new(file), address_alignment, len, sync_error: None });
        Ok(id)
    }

    /// Takes the file around the page cache if it can be, and says what addresses must then be multiples of.
    ///
    /// Not with the open: a file system that does not take `O_DIRECT` may refuse a file it has just created.
    fn make_direct(&mut self, file: &File) -> io::Result<u32> {
        let flags = rustix::fs::fcntl_getfl(file)?;
        let (address, offset) = direct_alignment(file);
        if offset > 4096 {
            self.note(Fallback::BufferedForAlignment { needed: offset });
            return Ok(1);
        }
        match rustix::fs::fcntl_setfl(file, flags | OFlags::DIRECT) {
            Ok(()) => Ok(address),
            Err(error) => {
                self.note(Fallback::Buffered { errno: error.raw_os_error() });
                Ok(1)
            }
        }
    }

    fn allocate(&mut self, file: &File, offset: u64, len: u64) -> io::Result<()> {
        if len == 0 {
            return Ok(());
        }
        match rustix::fs::fallocate(file, FallocateFlags::empty(), offset, len) {
            Err(rustix::io::Errno::OPNOTSUPP) => {
                self.note(Fallback::NotAllocated);
                file.set_len(offset + len)
            }
            Err(rustix::io::Errno::INTR) => self.allocate(file, offset, len),
            allocated => Ok(allocated?),
        }
    }

    pub(crate) fn set_length(&mut self, id: FileId, len: u64) -> Result<(), Errno> {
        let file = Arc::clone(&self.get(id)?.file);
        let before = file.metadata().map_err(errno)?.len();
        if len > before {
            self.allocate(&file, before, len - before).map_err(errno)?;
        } else {
            file.set_len(len).map_err(errno)?;
        }
        if let Some(open) = self.open.get_mut(&id) {
            open.len = len;
        }
        Ok(())
    }

    pub(crate) fn sync_file(&mut self, file: FileId) -> Result<(), Errno> {
        let open = self.open.get_mut(&file).ok_or(DiskError::INVALID)?;
        if open.sync_error.is_none() {
            open.sync_error = open.file.sync_data().err().map(errno);
        }
        open.sync_error.map_or(Ok(()), Err)
    }

    pub(crate) fn close_file(&mut self, file: FileId) -> Result<(), Errno> {
        self.open.remove(&file).map(drop).ok_or(DiskError::INVALID)
    }

    pub(crate) fn sync_folder(&self, path: &str) -> Result<(), Errno> {
        File::open(self.at(path)).and_then(|folder| folder.sync_all()).map_err(errno)
    }

    pub(crate) fn rename(&self, from: &str, to: &str) -> Result<(), Errno> {
        rustix::fs::renameat_with(CWD, self.at(from), CWD, self.at(to), RenameFlags::NOREPLACE)
            .map_err(rustix::io::Errno::raw_os_error)
    }

    pub(crate) fn remove(&self, path: &str) -> Result<(), Errno> {
        let path = self.at(path);
        match fs::remove_file(&path) {
            Err(error) if error.kind() == io::ErrorKind::IsADirectory => fs::remove_dir(&path),
            removed => removed,
        }
        .map_err(errno)
    }

    pub(crate) fn list(&self, folder: &str, each: &mut dyn FnMut(Entry<'_>)) -> Result<(), Errno> {
        for entry in fs::read_dir(self.at(folder)).map_err(errno)? {
            let entry = entry.map_err(errno)?;
            let about = match entry.metadata() {
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                about => about.map_err(errno)?,
            };
            if let Some(name) = entry.file_name().to_str() {
                each(Entry { name, is_folder: about.is_dir(), len: about.len() });
            }
        }
        Ok(())
    }
}

fn errno(error: io::Error) -> Errno {
    error.raw_os_error().unwrap_or(DiskError::IO)
}

/// What addresses and offsets must be multiples of for direct I/O. Where the kernel does not say, 4096.
fn direct_alignment(file: &File) -> (u32, u32) {
    match rustix::fs::statx(file, "", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN) {
        Ok(about) if about.stx_dio_mem_align > 0 => (about.stx_dio_mem_align, about.stx_dio_offset_align),
        Ok(_) | Err(_) => (4096, 4096),
    }
}

/// Makes a folder whose name will be there after a loss of power.
fn make_root(root: &Path) -> io::Result<()> {
    let parent =
        root.parent().map(|parent| if parent.as_os_str().is_empty() { Path::new(".") } else { parent });
    match (root.is_dir(), parent) {
        (true, _) | (_, None) => Ok(()),
        (false, Some(parent)) => {
            make_root(parent)?;
            fs::create_dir(root)?;
            File::open(parent)?.sync_all()
        }
    }
}

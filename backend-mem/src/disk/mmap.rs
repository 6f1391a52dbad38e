//! Files written through a shared mapping.
#![expect(unsafe_code, reason = "mapping a file: its bytes change when someone else writes or cuts it")]

use core::num::NonZeroU64;
use core::ops::Range;
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use memmap2::{MmapMut, MmapOptions};
use rustix::fs::{Advice, CWD, FallocateFlags, RenameFlags};
use slackwater_core::durable::{DiskError, Entry, FileId, Frozen};

use super::{Errno, Files, ImmediateDisk};

/// Checkpoint storage below a folder. Writes go through a shared mapping of a file whose blocks are all
/// allocated when it is created, so that a full disk is an error there and not a signal later; the system is
/// asked to begin with what has been written while more is; a sync is an msync and an fdatasync. Reads are plain reads.
///
/// No other process may write or cut the files while they are open for writing.
pub type MmapDisk<F> = ImmediateDisk<MappedFiles, F>;

impl<F: Frozen> MmapDisk<F> {
    /// Storage below `root`, which is made if it is not there.
    ///
    /// # Errors
    /// What the system said about that folder.
    pub fn new(root: &Path) -> io::Result<Self> {
        make_root(root)?;
        Ok(Self::over(MappedFiles { root: root.to_path_buf(), open: BTreeMap::new(), opened: 0 }))
    }
}

#[derive(Debug)]
struct OpenFile {
    file: File,
    /// Of a file that is being written and not empty.
    map: Option<MmapMut>,
    /// The newest bytes written, which the system has not been asked to begin with.
    fresh: Range<u64>,
    /// The first failed sync; it is never tried again.
    sync_error: Option<Errno>,
}

/// Fresh bytes of a file that make it worth to ask the system.
const FRESH_LEN: u64 = 8 << 20;

impl OpenFile {
    /// Has the system begin with what was written, every so many bytes: the device works while more is copied, and the
    /// sync has less to wait for. Only advice: what a sync must do it does all the same.
    fn wrote(&mut self, offset: u64, len: u64) {
        let start = if offset == self.fresh.end { self.fresh.start } else { offset };
        self.fresh = start..offset + len;
        if let Some(len) = NonZeroU64::new(self.fresh.end - start).filter(|len| len.get() >= FRESH_LEN) {
            // Pages that are dirty or mapped are not dropped for this, but written.
            let _refused = rustix::fs::fadvise(&self.file, start, Some(len), Advice::DontNeed);
            self.fresh.start = self.fresh.end;
        }
    }

    fn sync(&self) -> io::Result<()> {
        if let Some(map) = &self.map {
            map.flush()?;
        }
        self.file.sync_data()
    }
}

/// The files of a [`MmapDisk`].
#[derive(Debug)]
pub struct MappedFiles {
    root: PathBuf,
    open: BTreeMap<FileId, OpenFile>,
    opened: u32,
}

impl MappedFiles {
    fn at(&self, path: &str) -> PathBuf {
        if path.is_empty() { self.root.clone() } else { self.root.join(path) }
    }

    fn open(&mut self, file: File, map: Option<MmapMut>) -> FileId {
        let id = FileId(self.opened);
        self.opened = self.opened.wrapping_add(1);
        self.open.insert(id, OpenFile { file, map, fresh: 0..0, sync_error: None });
        id
    }

    fn opened(&mut self, file: FileId) -> Result<&mut OpenFile, Errno> {
        self.open.get_mut(&file).ok_or(DiskError::INVALID)
    }
}

impl Files for MappedFiles {
    fn create_folder(&mut self, path: &str) -> Result<(), Errno> {
        let path = self.at(path);
        match fs::create_dir(&path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
            made => made.map_err(errno),
        }
    }

    fn create_file(&mut self, path: &str, len: u64) -> Result<FileId, Errno> {
        let path = self.at(path);
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(&path).map_err(errno)?;
        match allocate(&file, 0, len).and_then(|()| map(&file, len)) {
            Ok(map) => Ok(self.open(file, map)),
            Err(error) => {
                // The file is ours and empty; that it could not be removed would hide the reason.
                drop(fs::remove_file(&path));
                Err(errno(error))
            }
        }
    }

    fn open_file(&mut self, path: &str) -> Result<(FileId, u64), Errno> {
        let file = File::open(self.at(path)).map_err(errno)?;
        let about = file.metadata().map_err(errno)?;
        if about.is_dir() {
            return Err(IS_FOLDER);
        }
        Ok((self.open(file, None), about.len()))
    }

    fn write(&mut self, file: FileId, offset: u64, from: &[u8]) -> Result<(), Errno> {
        let open = self.opened(file)?;
        if let Some(errno) = open.sync_error {
            return Err(errno);
        }
        let mapped = open.map.as_deref_mut().unwrap_or_default();
        let to = usize::try_from(offset)
            .ok()
            .and_then(|start| mapped.get_mut(start..start.checked_add(from.len())?))
            .ok_or(DiskError::INVALID)?;
        to.copy_from_slice(from);
        open.wrote(offset, from.len() as u64);
        Ok(())
    }

    fn read(&mut self, file: FileId, offset: u64, to: &mut [u8]) -> Result<usize, Errno> {
        let open = self.opened(file)?;
        let mut len = 0;
        while len < to.len() {
            let position = offset.checked_add(len as u64).ok_or(DiskError::INVALID)?;
            match open.file.read_at(&mut to[len..], position) {
                Ok(0) => break,
                Ok(count) => len += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(errno(error)),
            }
        }
        Ok(len)
    }

    fn set_length(&mut self, file: FileId, len: u64) -> Result<(), Errno> {
        let open = self.opened(file)?;
        let before = open.file.metadata().map_err(errno)?.len();
        // Unmapped first: no mapped page may lie behind the end. What was written stays in the page cache.
        open.map = None;
        if len > before {
            allocate(&open.file, before, len - before).map_err(errno)?;
        } else {
            open.file.set_len(len).map_err(errno)?;
        }
        open.map = map(&open.file, len).map_err(errno)?;
        Ok(())
    }

    fn sync_file(&mut self, file: FileId) -> Result<(), Errno> {
        let open = self.opened(file)?;
        if open.sync_error.is_none() {
            open.sync_error = open.sync().err().map(errno);
        }
        open.sync_error.map_or(Ok(()), Err)
    }

    fn close_file(&mut self, file: FileId) -> Result<(), Errno> {
        self.open.remove(&file).map(drop).ok_or(DiskError::INVALID)
    }

    fn sync_folder(&mut self, path: &str) -> Result<(), Errno> {
        File::open(self.at(path)).and_then(|folder| folder.sync_all()).map_err(errno)
    }

    fn rename(&mut self, from: &str, to: &str) -> Result<(), Errno> {
        let (from, to) = (self.at(from), self.at(to));
        rustix::fs::renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE)
            .map_err(rustix::io::Errno::raw_os_error)
    }

    fn remove(&mut self, path: &str) -> Result<(), Errno> {
        let path = self.at(path);
        match fs::remove_file(&path) {
            Err(error) if error.kind() == io::ErrorKind::IsADirectory => fs::remove_dir(&path),
            removed => removed,
        }
        .map_err(errno)
    }

    fn list(&mut self, folder: &str, each: &mut dyn FnMut(Entry<'_>)) -> Result<(), Errno> {
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

/// EISDIR of Linux.
const IS_FOLDER: Errno = 21;

fn errno(error: io::Error) -> Errno {
    error.raw_os_error().unwrap_or(DiskError::IO)
}

/// Gives the file blocks for all of these bytes, or says that it cannot.
fn allocate(file: &File, offset: u64, len: u64) -> io::Result<()> {
    if len == 0 {
        return Ok(());
    }
    match rustix::fs::fallocate(file, FallocateFlags::empty(), offset, len) {
        Err(rustix::io::Errno::OPNOTSUPP) => write_zeros(file, offset, len),
        Err(rustix::io::Errno::INTR) => allocate(file, offset, len),
        allocated => Ok(allocated?),
    }
}

/// For a file system that cannot allocate ahead.
fn write_zeros(file: &File, offset: u64, len: u64) -> io::Result<()> {
    static ZEROS: [u8; 64 << 10] = [0; 64 << 10];
    let end = offset + len;
    let mut position = offset;
    while position < end {
        let count = (end - position).min(ZEROS.len() as u64);
        file.write_all_at(&ZEROS[..usize::try_from(count).unwrap_or(ZEROS.len())], position)?;
        position += count;
    }
    Ok(())
}

fn map(file: &File, len: u64) -> io::Result<Option<MmapMut>> {
    let Ok(len) = usize::try_from(len) else { return Err(io::ErrorKind::OutOfMemory.into()) };
    if len == 0 {
        return Ok(None);
    }
    // SAFETY: the file is at least `len` bytes long and all allocated. It was created by this disk, which cuts
    // it only while it is not mapped; that no other process writes or cuts it is required of the caller.
    let map = unsafe { MmapOptions::new().len(len).map_mut(file) }?;
    Ok(Some(map))
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

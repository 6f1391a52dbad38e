//! The least that storage costs: large direct writes and reads through io_uring, and nothing else.

#![expect(unsafe_code, reason = "the kernel reads and writes memory through raw addresses")]

use std::fs::{File, OpenOptions};
use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use io_uring::{IoUring, opcode, squeue, types};
use rustix::fs::{FallocateFlags, OFlags};

use crate::Failed;
use crate::mappings::map;

/// Bytes of a transfer.
const TRANSFER_LEN: usize = 1 << 20;
/// Transfers in flight.
const DEPTH: u32 = 8;
/// What direct transfers take everywhere.
const ALIGNMENT: usize = 4096;

/// Reads and writes whole files of a folder, from and to one piece of memory.
pub struct RawDisk {
    ring: IoUring,
    folder: PathBuf,
    /// Never given back: nothing the kernel still does with it can do harm.
    memory: &'static mut [u8],
}

/// Which way bytes go.
#[derive(Clone, Copy)]
enum Way {
    ToDisk,
    FromDisk,
}

impl RawDisk {
    /// With memory for files of `len` bytes, which lives as long as the program.
    ///
    /// # Errors
    /// There is no io_uring, or not so much memory.
    pub fn new(folder: &Path, len: u64, huge_pages: bool) -> Result<Self, Failed> {
        let ring = IoUring::new(DEPTH).map_err(|error| format!("io_uring is not available: {error}"))?;
        let memory = map(usize::try_from(len)?.next_multiple_of(ALIGNMENT), huge_pages)?;
        let memory = Box::leak(Box::new(memory));
        memory.fill(0);
        Ok(Self { ring, folder: folder.to_path_buf(), memory })
    }

    /// Writes all of the memory to a new file, whose blocks are allocated first, and makes it and its name durable.
    ///
    /// # Errors
    /// What the system said.
    pub fn write(&mut self, name: &str) -> io::Result<()> {
        let file = OpenOptions::new().write(true).create_new(true).open(self.folder.join(name))?;
        make_direct(&file)?;
        rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, self.memory.len() as u64)?;
        self.transfer(&file, Way::ToDisk)?;
        file.sync_data()?;
        drop(file);
        File::open(&self.folder)?.sync_all()
    }

    /// Reads a file into the memory, which has its length.
    ///
    /// # Errors
    /// What the system said, or another length.
    pub fn read(&mut self, name: &str) -> io::Result<()> {
        let file = File::open(self.folder.join(name))?;
        make_direct(&file)?;
        self.transfer(&file, Way::FromDisk)
    }

    /// Removes a file.
    ///
    /// # Errors
    /// What the system said.
    pub fn remove(&self, name: &str) -> io::Result<()> {
        std::fs::remove_file(self.folder.join(name))
    }

    fn transfer(&mut self, file: &File, way: Way) -> io::Result<()> {
        let len = self.memory.len();
        let mut starts = (0..len).step_by(TRANSFER_LEN);
        let (mut in_flight, mut result) = (0, Ok(()));
        loop {
            while in_flight < DEPTH
                && result.is_ok()
                && let Some(start) = starts.next()
            {
                self.push(file, start..len.min(start + TRANSFER_LEN), way)?;
                in_flight += 1;
            }
            if in_flight == 0 {
                return result;
            }
            self.ring.submit_and_wait(1)?;
            for ended in self.ring.completion() {
                in_flight -= 1;
                if let Err(error) = whole(ended.user_data(), ended.result()) {
                    result = result.and(Err(error));
                }
            }
        }
    }

    fn push(&mut self, file: &File, range: Range<usize>, way: Way) -> io::Result<()> {
        let (offset, piece) = (range.start as u64, &mut self.memory[range]);
        let (file, len) = (types::Fd(file.as_raw_fd()), u32::try_from(piece.len()).unwrap_or(u32::MAX));
        let entry: squeue::Entry = match way {
            Way::ToDisk => opcode::Write::new(file, piece.as_ptr(), len).offset(offset).build(),
            Way::FromDisk => opcode::Read::new(file, piece.as_mut_ptr(), len).offset(offset).build(),
        };
        // SAFETY: the memory is never given back, and touched by nobody else while the disk is borrowed; should this
        // program stop waiting, its only user is the one that failed.
        let pushed = unsafe { self.ring.submission().push(&entry.user_data(len.into())) };
        pushed.map_err(io::Error::other)
    }
}

/// Takes the file around the page cache. Where that cannot be, what the page cache can do is the limit.
fn make_direct(file: &File) -> io::Result<()> {
    let flags = rustix::fs::fcntl_getfl(file)?;
    match rustix::fs::fcntl_setfl(file, flags | OFlags::DIRECT) {
        Err(rustix::io::Errno::INVAL) => Ok(()),
        set => Ok(set?),
    }
}

/// A transfer that moved all of its bytes.
fn whole(expected: u64, result: i32) -> io::Result<()> {
    match u64::try_from(result) {
        Ok(moved) if moved == expected => Ok(()),
        Ok(_) => Err(io::ErrorKind::UnexpectedEof.into()),
        Err(_) => Err(io::Error::from_raw_os_error(-result)),
    }
}

impl std::fmt::Debug for RawDisk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RawDisk").field("folder", &self.folder).finish_non_exhaustive()
    }
}

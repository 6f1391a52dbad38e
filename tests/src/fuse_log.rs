//! The image of a block device that remembers every write and flush: power loss on real file systems.
//!
//! A small FUSE file system, spoken straight to the kernel, holds two files. `image` lies in the memory of
//! the process that serves it; a loop device over it carries the file system under test. Its page cache is off,
//! so each request of the loop device is logged before it is answered, and a request to flush comes after the
//! answers to the writes that it covers. What is written to `marks` goes into the same log, in order.
//!
//! The server is a process of its own that never touches what is mounted on it: were it a thread of the tests,
//! a kill would leave its siblings waiting for ever for the device that it no longer answers for. It dies with
//! whoever started it, and then the kernel fails what waits for it.

mod image;
mod log;
mod protocol;
mod server;

use std::env;
use std::ffi::CString;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

pub use self::image::Image;
pub use self::log::{Cut, Entry, Log};
use self::server::Server;
use crate::apart::die_with_parent;

/// What a server is to do: `image log`.
const ORDERS: &str = "SLACKWATER_IMAGE_SERVER";

/// A served image; gone when dropped.
#[derive(Debug)]
pub struct LoggedImage {
    at: PathBuf,
    log: PathBuf,
    marks: Option<File>,
    server: Child,
}

impl LoggedImage {
    /// Serves the bytes of the file `image` below the existing folder `at`, and logs to `log`. `program` is a
    /// copy of this one that does nothing but call [`serve_if_ordered`].
    ///
    /// # Errors
    /// What the system said to `/dev/fuse`, the mount or the program.
    pub fn new(image: &Path, at: &Path, log: &Path, mut program: Command) -> io::Result<Self> {
        let device = File::options().read(true).write(true).open("/dev/fuse")?;
        let options = format!("fd={},rootmode=40000,user_id=0,group_id=0", device.as_raw_fd());
        let (flags, options) = (MountFlags::NOSUID | MountFlags::NODEV, CString::new(options)?);
        mount("power-loss", at, "fuse", flags, &*options)?;
        let orders = format!("{} {}", image.display(), log.display());
        let server = program.env(ORDERS, orders).stdin(device).stdout(Stdio::null()).spawn();
        // The device now belongs to the server alone: when it dies, what waits for it fails.
        drop(program);
        let server = server.inspect_err(|_| detach(at))?;
        let mut served = Self { at: at.to_owned(), log: log.to_owned(), marks: None, server };
        served.marks = Some(File::options().write(true).open(at.join("marks"))?);
        Ok(served)
    }

    /// The image's path.
    #[must_use]
    pub fn image(&self) -> PathBuf {
        self.at.join("image")
    }

    /// Puts a mark into the log, behind all that has happened.
    ///
    /// # Errors
    /// The server has gone.
    pub fn mark(&self, mark: u64) -> io::Result<()> {
        let marks = self.marks.as_ref().ok_or(io::ErrorKind::NotConnected)?;
        marks.write_all_at(&mark.to_le_bytes(), 0)
    }

    /// Waits until nothing uses the image any more, and reads the log.
    ///
    /// # Errors
    /// What the system said.
    pub fn end(mut self) -> io::Result<Log> {
        drop(self.marks.take());
        // At once or, should somebody still look at the loop device, when that has ended; the server with it.
        unmount(&self.at, UnmountFlags::DETACH)?;
        let status = self.server.wait()?;
        if !status.success() {
            return Err(io::Error::other(format!("the image's server ended with {status}")));
        }
        Log::read(&self.log)
    }
}

impl Drop for LoggedImage {
    fn drop(&mut self) {
        drop(self.marks.take());
        // After an end in order there is nothing left of either.
        detach(&self.at);
        self.server.kill().ok();
        self.server.wait().ok();
    }
}

fn detach(at: &Path) {
    unmount(at, UnmountFlags::DETACH).ok();
}

/// Serves an image if this process was started to do so; false if it was not.
///
/// # Errors
/// What the system said.
pub fn serve_if_ordered() -> io::Result<bool> {
    let Ok(orders) = env::var(ORDERS) else { return Ok(false) };
    die_with_parent()?;
    let (image, log) = orders.split_once(' ').ok_or(io::ErrorKind::InvalidInput)?;
    let device = File::from(io::stdin().as_fd().try_clone_to_owned()?);
    Server::new(fs::read(image)?, File::create(log)?)?.serve(device)?;
    Ok(true)
}

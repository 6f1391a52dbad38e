//! Which disk a measurement writes to.

use std::fmt;
use std::io::{self, Write};
use std::path::Path;

use clap::ValueEnum;
use slackwater_core::durable::Disk;
use slackwater_mem::{FrozenRun, MemDisk, MmapDisk};
use slackwater_uring::{UringDisk, UringOptions, UringUnavailable};

use crate::Failed;

/// What files are written through.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Storage {
    /// io_uring where it is available, mapped files elsewhere
    Auto,
    /// io_uring
    Uring,
    /// Mapped files
    Mmap,
    /// Memory: nothing is durable
    Mem,
}

/// What is done with a disk of whatever kind.
pub trait OnDisk {
    /// What comes of it.
    type Output;

    /// Does it.
    ///
    /// # Errors
    /// Whatever goes wrong.
    fn run<D: Disk<Frozen = FrozenRun> + Send + 'static>(self, disk: D) -> Result<Self::Output, Failed>;
}

impl Storage {
    /// What `Auto` comes down to here, and why it is not io_uring if it is not.
    #[must_use]
    pub fn resolved(self, root: &Path) -> (Self, Option<UringUnavailable>) {
        if self != Self::Auto {
            return (self, None);
        }
        match uring(root) {
            Ok(_) => (Self::Uring, None),
            Err(reason) => (Self::Mmap, Some(reason)),
        }
    }

    /// Opens the disk with the root `root` and does `what` with it.
    ///
    /// # Errors
    /// The disk cannot be had, or what `what` says.
    pub fn with_disk<W: OnDisk>(self, root: &Path, what: W) -> Result<W::Output, Failed> {
        match self.resolved(root).0 {
            Self::Uring => what.run(uring(root)?),
            Self::Mem => what.run(MemDisk::new()),
            Self::Mmap | Self::Auto => what.run(MmapDisk::new(root)?),
        }
    }
}

impl Storage {
    /// The same for a bench or a test. Without io_uring it is left out, with a word on standard error; the variable
    /// `REQUIRE_URING` makes that an error.
    ///
    /// # Errors
    /// As [`Storage::with_disk`].
    pub fn with_disk_if_any<W: OnDisk>(self, root: &Path, what: W) -> Result<Option<W::Output>, Failed> {
        if self == Self::Uring
            && std::env::var_os("REQUIRE_URING").is_none()
            && let Err(reason) = uring(root)
        {
            writeln!(io::stderr(), "{self} is left out: {reason}")?;
            return Ok(None);
        }
        self.with_disk(root, what).map(Some)
    }
}

impl fmt::Display for Storage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Auto => "auto",
            Self::Uring => "uring",
            Self::Mmap => "mmap",
            Self::Mem => "mem",
        })
    }
}

fn uring(root: &Path) -> Result<UringDisk<FrozenRun>, UringUnavailable> {
    UringDisk::new(root, UringOptions::default())
}

//! File systems in image files, on loop devices that go with their mounts.

use std::fs::{self, File};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};

use crate::apart::skip;

/// Which file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileSystem {
    /// As Debian makes it, but for a small journal.
    Ext4,
    /// At least 300 MiB.
    Xfs,
    /// At least 48 MiB, data and metadata in the same chunks.
    Btrfs,
}

impl FileSystem {
    /// Bytes of an image for small things.
    #[must_use]
    pub const fn small_len(self) -> u64 {
        match self {
            Self::Ext4 | Self::Btrfs => 64 << 20,
            Self::Xfs => 300 << 20,
        }
    }

    /// Makes one of `len` bytes in a new file.
    ///
    /// # Errors
    /// What the program said.
    pub fn make(self, image: &Path, len: u64) -> Result<(), String> {
        let (program, arguments): (&str, &[&str]) = match self {
            Self::Ext4 => {
                let at_once = "lazy_itable_init=0,lazy_journal_init=0,nodiscard";
                ("mkfs.ext4", &["-q", "-F", "-b", "4096", "-m", "0", "-J", "size=4", "-E", at_once])
            }
            Self::Xfs => ("mkfs.xfs", &["-q", "-K"]),
            Self::Btrfs => ("mkfs.btrfs", &["-q", "-M", "-K"]),
        };
        let made = File::create(image).and_then(|file| file.set_len(len));
        made.map_err(|error| format!("{}: {error}", image.display()))?;
        run(Command::new(program).args(arguments).arg(image))
    }

    /// Whether it can be made and mounted here, tried in an existing folder. If not, the test is to be skipped; says
    /// so.
    ///
    /// # Panics
    /// If `REQUIRE_MOUNT` is set and it cannot.
    #[must_use]
    pub fn is_possible(self, place: &Path) -> bool {
        let (image, at) = (place.join("tried"), place.join("tried-mount"));
        let tried = self.make(&image, self.small_len()).and_then(|()| self.mount(&image, &at, "").map(drop));
        fs::remove_file(&image).ok();
        tried.inspect_err(|reason| skip("REQUIRE_MOUNT", reason)).is_ok()
    }

    /// What it counts on to be written as a whole or not at all, or else it cannot be mounted any more, whatever
    /// its files are: a superblock under a checksum.
    #[must_use]
    pub const fn never_torn(self) -> Range<u64> {
        match self {
            Self::Ext4 => 1024..2048,
            Self::Xfs => 0..512,
            Self::Btrfs => 64 << 10..68 << 10,
        }
    }

    /// How many that are copies of each other can be mounted at the same time.
    #[must_use]
    pub const fn copies_max(self) -> usize {
        match self {
            Self::Ext4 | Self::Xfs => 2,
            Self::Btrfs => 1,
        }
    }

    /// Mounts an image on a folder, which is made.
    ///
    /// # Errors
    /// What the program said.
    pub fn mount(self, image: &Path, at: &Path, options: &str) -> Result<Mounted, String> {
        let loops = match self {
            Self::Ext4 | Self::Btrfs => "loop",
            Self::Xfs => "loop,nouuid",
        };
        let options = [loops, options].join(",");
        fs::create_dir_all(at).map_err(|error| format!("{}: {error}", at.display()))?;
        run(Command::new("mount").arg("-o").arg(options.trim_end_matches(',')).arg(image).arg(at))?;
        Ok(Mounted(at.to_owned()))
    }
}

/// Unmounted when dropped.
#[derive(Debug)]
pub struct Mounted(PathBuf);

impl Drop for Mounted {
    fn drop(&mut self) {
        let unmounted = run(Command::new("umount").arg(&self.0));
        if unmounted.is_err() {
            run(Command::new("umount").arg("--lazy").arg(&self.0)).ok();
        }
    }
}

/// Runs a command. A child that is being started holds a copy of every open file until it runs its program, and
/// would keep another thread's file system busy: so one at a time, and whoever unmounts is one of them.
fn run(command: &mut Command) -> Result<(), String> {
    static STARTING: Mutex<()> = Mutex::new(());
    let starting = STARTING.lock().unwrap_or_else(PoisonError::into_inner);
    let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn();
    drop(starting);
    let output = child.and_then(Child::wait_with_output).map_err(|error| format!("{command:?}: {error}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    if output.status.success() { Ok(()) } else { Err(format!("{command:?}: {}", said.trim())) }
}

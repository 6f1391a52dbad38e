//! Takes the output of a job out of memory.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

use slackwater_mem::{FrozenRun, MemDisk};

use super::{disk_path, storage_error};
use crate::blocking::Blocking;
use crate::error::JobError;
use crate::files::BlockingFiles;
use crate::paths;

/// The files of a job whose storage is memory.
pub struct Memory {
    pub(super) disk: MemDisk<FrozenRun>,
}

impl Memory {
    /// Writes the visible files that the job left in `folder`, a folder that it knows by [`disk_path`], to the
    /// folder of that name in the file system, durably. Hidden files are unfinished and stay behind; files of
    /// the same names are replaced.
    ///
    /// # Errors
    /// [`JobError::Storage`] with what the system said.
    pub fn copy_out(mut self, folder: &Path) -> Result<(), JobError> {
        let from = disk_path(folder)?;
        let error = |error: &dyn fmt::Display| storage_error(folder, error);
        let mut files = Blocking::new(&mut self.disk);
        let entries = files.list(&from).map_err(|e| error(&e))?;
        let visible = entries.iter().filter(|entry| !entry.is_folder && !entry.name.starts_with('.'));
        for entry in visible {
            let bytes = files.read(&paths::join(&from, &entry.name), entry.len).map_err(|e| error(&e))?;
            write(folder, &entry.name, &bytes).map_err(|e| error(&e))?;
        }
        File::open(folder).and_then(|folder| folder.sync_all()).map_err(|e| error(&e))
    }
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Memory").finish_non_exhaustive()
    }
}

/// Under a hidden name first, so that no half-written file is ever visible.
fn write(folder: &Path, name: &str, bytes: &[u8]) -> io::Result<()> {
    let (hidden, visible) = (folder.join(format!(".{name}.tmp")), folder.join(name));
    let mut file = File::create(&hidden)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&hidden, &visible)
}

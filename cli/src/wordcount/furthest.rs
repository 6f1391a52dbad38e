//! Remembers how far a run had read when it was killed, so that the next one can say what it reads again.
//!
//! A figure for the report, nothing depends on it: kept in a file that is written in place and never synced,
//! exact to the last look at the progress.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// The furthest position in the input, in bytes over all files.
#[derive(Debug)]
pub(crate) struct Furthest {
    file: Option<File>,
    before: u64,
}

impl Furthest {
    /// Opens the note of earlier runs below `folder`; without a folder nothing is remembered.
    pub(crate) fn open(folder: Option<&Path>) -> Self {
        let open = |path| File::options().create(true).truncate(false).read(true).write(true).open(path).ok();
        let file = folder.and_then(|folder| open(folder.join(".furthest")));
        let mut bytes = [0; 8];
        let is_whole = file.as_ref().is_some_and(|file| file.read_exact_at(&mut bytes, 0).is_ok());
        Self { file, before: if is_whole { u64::from_le_bytes(bytes) } else { 0 } }
    }

    /// Notes that everything before `position` has been read.
    pub(crate) fn note(&self, position: u64) {
        if let Some(file) = &self.file {
            // Without the note the next run reports less; it counts the same.
            drop(file.write_all_at(&position.to_le_bytes(), 0));
        }
    }

    /// Bytes that earlier runs had read and a run that goes on at `position` reads again.
    pub(crate) const fn replayed(&self, position: u64) -> u64 {
        self.before.saturating_sub(position)
    }
}

#[cfg(test)]
mod tests {
    use super::Furthest;

    #[test]
    fn what_lies_between_the_checkpoint_and_the_kill_is_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let first = Furthest::open(Some(folder.path()));
        assert_eq!(first.replayed(0), 0);
        first.note(700);
        first.note(1000);
        drop(first);
        let second = Furthest::open(Some(folder.path()));
        assert_eq!(second.replayed(600), 400);
        assert_eq!(second.replayed(1000), 0);
    }
}

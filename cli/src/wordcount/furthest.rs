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
    furthest: u64,
    replayed: u64,
}

impl Furthest {
    /// Opens the note of earlier runs below `folder`; without a folder nothing is remembered.
    pub(crate) fn open(folder: Option<&Path>) -> Self {
        let open = |path| File::options().create(true).truncate(false).read(true).write(true).open(path).ok();
        let file = folder.and_then(|folder| open(folder.join(".furthest")));
        let mut bytes = [0; 8];
        let is_whole = file.as_ref().is_some_and(|file| file.read_exact_at(&mut bytes, 0).is_ok());
        Self { file, furthest: if is_whole { u64::from_le_bytes(bytes) } else { 0 }, replayed: 0 }
    }

    /// An attempt begins at `position`: what had been read behind it is read again.
    pub(crate) const fn start_at(&mut self, position: u64) {
        self.replayed += self.furthest.saturating_sub(position);
        self.furthest = position;
    }

    /// Notes that everything before `position` has been read.
    pub(crate) fn note(&mut self, position: u64) {
        self.furthest = position;
        if let Some(file) = &self.file {
            // Without the note the next run reports less; it counts the same.
            drop(file.write_all_at(&position.to_le_bytes(), 0));
        }
    }

    /// Bytes that had been read when an attempt began, and that it had to read again.
    pub(crate) const fn replayed(&self) -> u64 {
        self.replayed
    }
}

#[cfg(test)]
mod tests {
    use super::Furthest;

    #[test]
    fn what_lies_between_the_checkpoint_and_the_kill_is_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let mut first = Furthest::open(Some(folder.path()));
        first.start_at(0);
        first.note(700);
        first.note(1000);
        assert_eq!(first.replayed(), 0);
        drop(first);
        let mut second = Furthest::open(Some(folder.path()));
        second.start_at(600);
        assert_eq!(second.replayed(), 400);
    }

    #[test]
    fn each_attempt_of_a_run_adds_what_it_reads_again() {
        let mut furthest = Furthest::open(None);
        for (start, end) in [(0, 500), (400, 900), (900, 950), (0, 100)] {
            furthest.start_at(start);
            furthest.note(end);
        }
        assert_eq!(furthest.replayed(), 100 + 950);
    }
}

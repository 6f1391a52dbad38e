//! The disk and the writer that a sink in the kit sees.

use std::collections::{BTreeMap, BTreeSet};

use slackwater_core::durable::{DiskError, OperationKind};

use crate::files::{BlockingFiles, FileEntry, FileEvent, FileRequest, FileTicket};

/// Files in memory, and a fuse: when it has burnt down the process is dead, and nothing more is carried out.
#[derive(Clone, Debug, Default)]
pub struct KitDisk {
    files: BTreeMap<String, Vec<u8>>,
    folders: BTreeSet<String>,
    /// What sinks are writing: subtask and ticket, path, room.
    open: BTreeMap<(u16, FileTicket), (String, u64)>,
    /// Operations until the process dies; none: it does not.
    fuse: Option<usize>,
    /// Renames that fail from now on.
    failing: u32,
    operations: usize,
}

impl KitDisk {
    /// The content of a file.
    #[must_use]
    pub fn file(&self, path: &str) -> Option<&[u8]> {
        self.files.get(path).map(Vec::as_slice)
    }

    /// All files by path.
    pub fn files(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.files.iter().map(|(path, bytes)| (path.as_str(), bytes.as_slice()))
    }

    pub(super) const fn light(&mut self, fuse: Option<usize>) {
        self.fuse = fuse;
        self.operations = 0;
    }

    /// Operations since the fuse was lit.
    pub(super) const fn operations(&self) -> usize {
        self.operations
    }

    pub(super) fn is_dead(&self) -> bool {
        self.fuse == Some(0)
    }

    /// Files that were being written stay as they are.
    pub(super) fn forget_open(&mut self) {
        self.open.clear();
    }

    pub(super) const fn fail_renames(&mut self, times: u32) {
        self.failing = times;
    }

    /// Counts an operation; false if the process is dead.
    pub(super) fn spend(&mut self) -> bool {
        if self.is_dead() {
            return false;
        }
        self.operations += 1;
        self.fuse = self.fuse.map(|left| left - 1);
        true
    }

    /// Carries out a request of a sink, and says what the writer would answer.
    pub(super) fn serve(
        &mut self,
        subtask: u16,
        ticket: FileTicket,
        request: FileRequest,
    ) -> Result<Option<FileEvent>, DiskError> {
        match request {
            FileRequest::Create { path, len_max } => {
                if self.files.insert(path.clone(), Vec::new()).is_some() {
                    return Err(error(OperationKind::CreateFile, DiskError::EXISTS));
                }
                self.open.insert((subtask, ticket), (path, len_max));
                Ok(None)
            }
            FileRequest::Append { bytes } => {
                let missing = || error(OperationKind::Write, DiskError::NOT_FOUND);
                let (path, len_max) = self.open.get(&(subtask, ticket)).ok_or_else(missing)?;
                let file = self.files.get_mut(path).ok_or_else(missing)?;
                file.extend_from_slice(&bytes);
                if file.len() as u64 > *len_max {
                    return Err(error(OperationKind::Write, DiskError::NO_SPACE));
                }
                Ok(None)
            }
            FileRequest::Seal => {
                self.open.remove(&(subtask, ticket));
                Ok(Some(FileEvent::Sealed(ticket)))
            }
            FileRequest::Publish { from, to } => {
                self.move_file(&from, &to).map(|()| Some(FileEvent::Published(ticket)))
            }
            FileRequest::Remove { path } => {
                self.files.remove(&path);
                Ok(Some(FileEvent::Removed(ticket)))
            }
        }
    }

    fn move_file(&mut self, from: &str, to: &str) -> Result<(), DiskError> {
        if self.failing > 0 {
            self.failing -= 1;
            return Err(error(OperationKind::Rename, DiskError::IO));
        }
        if self.files.contains_key(to) {
            return Err(error(OperationKind::Rename, DiskError::EXISTS));
        }
        let file =
            self.files.remove(from).ok_or_else(|| error(OperationKind::Rename, DiskError::NOT_FOUND))?;
        self.files.insert(to.to_owned(), file);
        Ok(())
    }

    /// Carries out a call of a recovery, unless the process is dead.
    fn call<T>(
        &mut self,
        operation: OperationKind,
        call: impl FnOnce(&mut Self) -> Result<T, DiskError>,
    ) -> Result<T, DiskError> {
        if self.spend() { call(self) } else { Err(error(operation, DiskError::IO)) }
    }
}

const fn error(operation: OperationKind, errno: i32) -> DiskError {
    DiskError { operation, errno }
}

impl BlockingFiles for KitDisk {
    fn list(&mut self, folder: &str) -> Result<Vec<FileEntry>, DiskError> {
        let prefix = if folder.is_empty() { String::new() } else { format!("{folder}/") };
        let names = self.files.iter().filter_map(|(path, bytes)| Some((path.strip_prefix(&prefix)?, bytes)));
        let here = names.filter(|(name, _)| !name.contains('/'));
        let entry = |(name, bytes): (&str, &Vec<u8>)| FileEntry {
            name: name.to_owned(),
            is_folder: false,
            len: bytes.len() as u64,
        };
        Ok(here.map(entry).collect())
    }

    fn is_same(&mut self, one: &str, other: &str) -> Result<bool, DiskError> {
        self.call(OperationKind::Read, |disk| Ok(disk.files.get(one) == disk.files.get(other)))
    }

    fn create_folder(&mut self, folder: &str) -> Result<(), DiskError> {
        self.call(OperationKind::CreateFolder, |disk| {
            let parent = folder.rsplit_once('/').map_or("", |(parent, _)| parent);
            if !parent.is_empty() && !disk.folders.contains(parent) {
                return Err(error(OperationKind::CreateFolder, DiskError::NOT_FOUND));
            }
            disk.folders.insert(folder.to_owned());
            Ok(())
        })
    }

    fn rename(&mut self, from: &str, to: &str) -> Result<(), DiskError> {
        self.call(OperationKind::Rename, |disk| disk.move_file(from, to))
    }

    fn remove(&mut self, path: &str) -> Result<(), DiskError> {
        self.call(OperationKind::Remove, |disk| {
            let removed = disk.files.remove(path).map(drop);
            removed.ok_or_else(|| error(OperationKind::Remove, DiskError::NOT_FOUND))
        })
    }

    fn sync_folder(&mut self, _folder: &str) -> Result<(), DiskError> {
        self.call(OperationKind::SyncFolder, |_| Ok(()))
    }
}

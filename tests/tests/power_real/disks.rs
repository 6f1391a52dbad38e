//! The real disks, with one kind of sync left out if asked.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use slackwater::Progress;
use slackwater_core::durable::{Completion, Disk, FileId, Operation, Outcome, Token, folder_of};
use slackwater_mem::MmapDisk;
use slackwater_tests::leaving_out::{Choice, leaving_out};
use slackwater_tests::sim_job::{OUTPUT, Run, SimJob};
use slackwater_uring::{UringDisk, UringOptions};

/// Which disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Backend {
    Mmap,
    Uring,
    /// As where there is no `O_DIRECT`.
    UringBuffered,
}

/// A kind of sync in the life of a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sync {
    /// Of a segment.
    Segment,
    /// Of a manifest, before it gets its name.
    Manifest,
    /// Of a sealed part of the output.
    Part,
    /// Of a checkpoint's folder when a segment is complete.
    SegmentFolder,
    /// Of a checkpoint's folder when its manifest has its name.
    ManifestFolder,
    /// Of a checkpoint's folder when its manifest was deleted.
    DeletionFolder,
    /// Of the job's folder.
    JobFolder,
    /// Of the output's folder.
    OutputFolder,
}

impl Backend {
    /// Drives the job on a disk at `root`, to its end or until `stop` says so.
    pub(crate) fn run(
        self,
        root: &Path,
        missing: Option<Sync>,
        job: &mut SimJob,
        stop: &mut dyn FnMut(Progress) -> bool,
    ) -> Result<Run, String> {
        let ring = |direct| {
            let options = UringOptions { direct, ..UringOptions::default() };
            UringDisk::new(root, options).map_err(|error| error.to_string())
        };
        match self {
            Self::Mmap => {
                let disk = MmapDisk::new(root).map_err(|error| error.to_string())?;
                job.run_on(leaving_out(disk, Missing::new(missing)), stop)
            }
            Self::Uring => job.run_on(leaving_out(ring(true)?, Missing::new(missing)), stop),
            Self::UringBuffered => job.run_on(leaving_out(ring(false)?, Missing::new(missing)), stop),
        }
    }
}

/// One kind of sync, or none.
struct Missing {
    sync: Option<Sync>,
    /// Files that are being created, and those that are open for writing.
    creating: BTreeMap<Token, Sync>,
    open: BTreeMap<FileId, Sync>,
    /// Folders in which a manifest has its name.
    complete: BTreeSet<String>,
    /// Folders from which a manifest was removed.
    deleted: BTreeSet<String>,
}

impl Missing {
    const fn new(sync: Option<Sync>) -> Self {
        Self {
            sync,
            creating: BTreeMap::new(),
            open: BTreeMap::new(),
            complete: BTreeSet::new(),
            deleted: BTreeSet::new(),
        }
    }

    /// Takes note of an operation, and says which sync it is.
    fn note<B, F>(&mut self, token: Token, operation: &Operation<'_, B, F>) -> Option<Sync> {
        match *operation {
            Operation::CreateFile { path, .. } => {
                self.creating.insert(token, file_of(path));
                None
            }
            Operation::Rename { to, .. } => {
                self.complete.insert(folder_of(to).to_owned());
                None
            }
            Operation::Remove { path } => {
                self.deleted.insert(folder_of(path).to_owned());
                None
            }
            Operation::SyncFile { file } => self.open.get(&file).copied(),
            Operation::SyncFolder { path } => Some(self.folder_sync(path)),
            Operation::CreateFolder { .. }
            | Operation::OpenFile { .. }
            | Operation::Write { .. }
            | Operation::Read { .. }
            | Operation::SetLength { .. }
            | Operation::CloseFile { .. } => None,
        }
    }

    fn folder_sync(&self, path: &str) -> Sync {
        match path {
            OUTPUT => Sync::OutputFolder,
            path if !path.contains("chk-") => Sync::JobFolder,
            path if self.deleted.contains(path) => Sync::DeletionFolder,
            path if self.complete.contains(path) => Sync::ManifestFolder,
            _ => Sync::SegmentFolder,
        }
    }
}

fn file_of(path: &str) -> Sync {
    match path {
        path if path.ends_with(".seg") => Sync::Segment,
        path if path.contains("chk-") => Sync::Manifest,
        _ => Sync::Part,
    }
}

impl<D: Disk> Choice<D> for Missing {
    fn is_left_out(&mut self, token: Token, operation: &Operation<'_, D::Block, D::Frozen>) -> bool {
        let sync = self.note(token, operation);
        sync.is_some() && sync == self.sync
    }

    /// Takes note of which file is which.
    fn note_ended(&mut self, completion: &Completion<D::Block>) {
        let kind = self.creating.remove(&completion.token);
        if let (Some(kind), Outcome::Opened { file, .. }) = (kind, &completion.outcome) {
            self.open.insert(*file, kind);
        }
    }
}

//! Finds the checkpoints that a folder on the command line stands for.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use slackwater::checkpoint::Manifest;
use slackwater::ids::CheckpointId;
use slackwater::mem::{FrozenRun, MmapDisk};
use slackwater::recovery::{Defect, read_manifest, verify_files};

use crate::failure::Failure;

/// Name of the file that makes a checkpoint complete.
pub(crate) const MANIFEST: &str = "_metadata";

/// A checkpoint's folder.
#[derive(Debug)]
pub(crate) struct Checkpoint {
    /// The folder of its job.
    job: PathBuf,
    pub(crate) id: CheckpointId,
    pub(crate) state: State,
    /// Wall-clock milliseconds at which its manifest was written.
    pub(crate) completed_at: Option<u64>,
}

/// What its manifest says.
#[derive(Debug)]
pub(crate) enum State {
    /// There is none: never completed.
    Incomplete,
    /// It cannot be read.
    Unreadable(Defect),
    /// It can.
    Complete(Box<Manifest>),
}

impl Checkpoint {
    /// Its folder, for people.
    pub(crate) fn path(&self) -> PathBuf {
        self.job.join(format!("chk-{}", self.id))
    }

    /// The name of its job's folder.
    pub(crate) fn job(&self) -> String {
        self.job.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// Bytes of its segments and its manifest.
    pub(crate) fn size_bytes(&self) -> u64 {
        let entries = fs::read_dir(self.path()).into_iter().flatten().filter_map(Result::ok);
        entries.filter_map(|entry| entry.metadata().ok()).map(|meta| meta.len()).sum()
    }

    /// Reads every byte; what is wrong.
    pub(crate) fn verify(&self) -> Result<Vec<Defect>, Failure> {
        match &self.state {
            State::Incomplete => Ok(Vec::new()),
            State::Unreadable(defect) => Ok(vec![defect.clone()]),
            State::Complete(manifest) => Ok(verify_files(&mut disk(&self.job)?, "", manifest)),
        }
    }
}

/// Every checkpoint below a folder, oldest first: it may be a checkpoint, the folder of a job, or one that
/// holds folders of jobs.
pub(crate) fn checkpoints(folder: &Path) -> Result<Vec<Checkpoint>, Failure> {
    let folder = folder.canonicalize().map_err(|error| Failure::reading(folder, &error))?;
    if let (Some(id), Some(job)) = (checkpoint_id(&folder), folder.parent()) {
        return Ok(vec![read(job, id)?]);
    }
    let mut found = checkpoints_of_job(&folder)?;
    if found.is_empty() {
        for job in folders(&folder)? {
            found.extend(checkpoints_of_job(&job)?);
        }
    }
    Ok(found)
}

fn checkpoints_of_job(job: &Path) -> Result<Vec<Checkpoint>, Failure> {
    let mut ids: Vec<_> = folders(job)?.iter().filter_map(|folder| checkpoint_id(folder)).collect();
    ids.sort_unstable();
    ids.into_iter().map(|id| read(job, id)).collect()
}

fn read(job: &Path, id: CheckpointId) -> Result<Checkpoint, Failure> {
    let mut disk = disk(job)?;
    let manifest = read_manifest(&mut disk, "", id)
        .map_err(|error| Failure::environment(format!("checkpoint {id} in {}: {error}", job.display())))?;
    let state = match manifest {
        None => State::Incomplete,
        Some(Err(defect)) => State::Unreadable(defect),
        Some(Ok(manifest)) => State::Complete(Box::new(manifest)),
    };
    let written =
        fs::metadata(job.join(format!("chk-{id}")).join(MANIFEST)).and_then(|meta| meta.modified()).ok();
    let completed_at = written.and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    let completed_at = completed_at.and_then(|since| u64::try_from(since.as_millis()).ok());
    Ok(Checkpoint { job: job.to_owned(), id, state, completed_at })
}

fn disk(job: &Path) -> Result<MmapDisk<FrozenRun>, Failure> {
    MmapDisk::new(job).map_err(|error| Failure::reading(job, &error))
}

/// The folders in a folder, in the order of their names.
pub(crate) fn folders(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let entries = fs::read_dir(folder).map_err(|error| Failure::reading(folder, &error))?;
    let mut folders = Vec::new();
    for entry in entries {
        let path = entry.map_err(|error| Failure::reading(folder, &error))?.path();
        if path.is_dir() {
            folders.push(path);
        }
    }
    folders.sort();
    Ok(folders)
}

/// The checkpoint whose folder has this name.
pub(crate) fn checkpoint_id(folder: &Path) -> Option<CheckpointId> {
    let name = folder.file_name()?.to_str()?;
    name.strip_prefix("chk-")?.parse().ok().map(CheckpointId)
}

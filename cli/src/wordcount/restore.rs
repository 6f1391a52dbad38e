//! What a word count goes on from.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use slackwater::savepoint::{RestoreFrom, RestoreMode};
use slackwater::storage::disk_path;

use super::{JOB_NAME, failure, folders};
use crate::args::WordcountArgs;
use crate::failure::Failure;
use crate::folder;
use crate::output;

/// Savepoints that go nowhere else lie in the job's folder under such names.
const SAVEPOINT: &str = "savepoint-";
/// A job that starts anew leaves what was there under such names.
const SET_ASIDE: &str = "before-";

/// The savepoint to start from: the one on the command line, or the newest in the job's own folder. Whether it is newer than
/// the job's checkpoints is for the job to see.
pub(super) fn restore_from(args: &WordcountArgs) -> Result<Option<RestoreFrom>, Failure> {
    let folder = match args.restore.to_str() {
        Some("none") => None,
        Some("latest") => newest_savepoint(&args.dir.join(JOB_NAME))?,
        _ => Some(args.restore.clone()),
    };
    let mode = if args.claim { RestoreMode::Claim } else { RestoreMode::NoClaim };
    let from = |folder: PathBuf| Ok(RestoreFrom { folder: disk_path(&folder)?, mode });
    folder.map(from).transpose().map_err(|error| failure(&error))
}

fn newest_savepoint(job: &Path) -> Result<Option<PathBuf>, Failure> {
    if !job.is_dir() {
        return Ok(None);
    }
    let mut newest = None;
    for folder in folder::folders(job)?.into_iter().filter(|folder| starts_with(folder, SAVEPOINT)) {
        let checkpoints = folder.join(JOB_NAME);
        let inside = if checkpoints.is_dir() { folder::folders(&checkpoints)? } else { Vec::new() };
        let complete = inside.iter().filter(|folder| folder.join(folder::MANIFEST).exists());
        let id = complete.filter_map(|folder| folder::checkpoint_id(folder)).max();
        newest = newest.max(id.map(|id| (id, folder)));
    }
    Ok(newest.map(|(_, folder)| folder))
}

/// Moves the checkpoints of earlier runs out of the way of a job that is to start anew. The folder must be locked.
pub(super) fn set_aside(args: &WordcountArgs) -> Result<(), Failure> {
    let job = args.dir.join(JOB_NAME);
    if args.restore.to_str() != Some("none") || !job.is_dir() || !folders::has_checkpoints(&job)? {
        return Ok(());
    }
    let name = |number: u32| args.dir.join(format!("{SET_ASIDE}{number}-{JOB_NAME}"));
    let aside = (1..).map(name).find(|path| !path.exists()).unwrap_or_else(|| name(0));
    let moved = fs::rename(&job, &aside).and_then(|()| File::open(&args.dir)?.sync_all());
    moved.map_err(|error| Failure::environment(format!("{} cannot be moved: {error}", job.display())))?;
    output::note(&format!(
        "starting anew; the checkpoints of earlier runs were moved to {}",
        aside.display()
    ));
    Ok(())
}

/// Whether a folder holds what was moved out of the way.
pub(super) fn is_set_aside(folder: &Path) -> bool {
    starts_with(folder, SET_ASIDE)
}

fn starts_with(path: &Path, beginning: &str) -> bool {
    path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(beginning))
}

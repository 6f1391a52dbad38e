//! Whose the folders on the command line are: refuses those of another job, and ties the output to the
//! checkpoints, for a job that went on into another output would leave wrong counts in both.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

use super::{JOB_NAME, restore};
use crate::args::EmitArg;
use crate::failure::Failure;
use crate::folder::{MANIFEST, checkpoint_id, folders};
use crate::parts;

/// The file that lies in both folders of a job: a number that both share, and what the job emits.
const TIE: &str = ".wordcount";

/// Refuses a checkpoint folder that is the folder of a job itself, or that holds only other jobs.
pub(super) fn refuse_other_job(dir: &Path) -> Result<(), Failure> {
    if !dir.is_dir() {
        return Ok(());
    }
    let inside = folders(dir)?;
    if inside.iter().any(|folder| checkpoint_id(folder).is_some()) {
        let dir = dir.display();
        return Err(Failure::usage(format!("{dir} is the folder of one job: give the folder that holds it")));
    }
    if inside.contains(&dir.join(JOB_NAME)) {
        return Ok(());
    }
    for job in inside.into_iter().filter(|job| !restore::is_set_aside(job)) {
        if has_checkpoints(&job)? {
            let (dir, name) = (dir.display(), job.file_name().unwrap_or_default().to_string_lossy());
            return Err(Failure::usage(format!(
                "{dir} holds the checkpoints of another job, {name}: use another folder"
            )));
        }
    }
    Ok(())
}

/// Ties the folders of a job that starts; refuses what a job that goes on was not started with. Both folders
/// must be locked.
pub(super) fn tie(dir: &Path, parts: &Path, emit: EmitArg, new: u64) -> Result<(), Failure> {
    let (dir_shown, parts_shown) = (dir.display(), parts.display());
    let job = dir.join(JOB_NAME);
    let goes_on = job.is_dir() && has_checkpoints(&job)?;
    let Some(tie) = read(dir).filter(|_| goes_on) else {
        // The checkpoints' side first: alone and without checkpoints it is replaced by the next start.
        let tie = format!("{new} {}", emit.name());
        return [dir, parts].into_iter().try_for_each(|folder| write(folder, &tie));
    };
    let started_with = tie.split_once(' ').map_or("", |(_, emit)| emit);
    if started_with != emit.name() {
        return Err(Failure::usage(format!(
            "the job in {dir_shown} was started with --emit {started_with}: go on with that, or use another --dir"
        )));
    }
    if read(parts).as_ref() != Some(&tie) {
        return Err(Failure::usage(format!(
            "{parts_shown} is not the output of the job in {dir_shown}: give the --output that it was started \
             with, or use another --dir"
        )));
    }
    Ok(())
}

/// Refuses an output folder with parts: a job in memory cannot know whose they are.
pub(super) fn refuse_parts(folder: &Path) -> Result<(), Failure> {
    if parts::list(folder)?.is_empty() {
        return Ok(());
    }
    let folder = folder.display();
    Err(Failure::usage(format!("{folder} holds the output of another run: use an empty folder")))
}

pub(super) fn has_checkpoints(job: &Path) -> Result<bool, Failure> {
    let is_complete = |folder: &Path| checkpoint_id(folder).is_some() && folder.join(MANIFEST).exists();
    Ok(folders(job)?.iter().any(|folder| is_complete(folder)))
}

fn read(folder: &Path) -> Option<String> {
    fs::read_to_string(folder.join(TIE)).ok()
}

fn write(folder: &Path, tie: &str) -> Result<(), Failure> {
    let temporary = folder.join(format!("{TIE}.inprogress"));
    let write = || -> io::Result<()> {
        let mut file = File::create(&temporary)?;
        file.write_all(tie.as_bytes())?;
        file.sync_all()?;
        fs::rename(&temporary, folder.join(TIE))?;
        File::open(folder)?.sync_all()
    };
    write().map_err(|error| Failure::environment(format!("{} cannot be used: {error}", folder.display())))
}

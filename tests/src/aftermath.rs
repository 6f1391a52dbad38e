//! What must hold of what a crash has left, on any disk, before and after the job has started again.

use std::fmt;

use slackwater::blocking::Blocking;
use slackwater::files::BlockingFiles;
use slackwater::recovery::{checkpoint_ids, read_manifest, verify_files};
use slackwater_core::durable::Disk;
use slackwater_core::ids::CheckpointId;
use slackwater_mem::FrozenRun;

use crate::sim_job::{CHECKPOINTS, FINISHED, OUTPUT, RETAINED, Run, RunEnd, SimJob};

/// What somebody relied on when the crash came.
#[derive(Clone, Debug, Default)]
pub struct Promise {
    /// The newest checkpoint that was announced, [`FINISHED`] if the job had got through its input.
    pub number: Option<u64>,
    /// Every checkpoint that was complete at some time, ascending.
    pub history: Vec<CheckpointId>,
}

impl Promise {
    /// The newest checkpoint that must still be there.
    #[must_use]
    pub fn newest(&self) -> Option<CheckpointId> {
        self.retained().last().copied()
    }

    /// Those that are retained: nothing may take one of them away.
    fn retained(&self) -> &[CheckpointId] {
        let known = self.history.partition_point(|id| Some(id.0) <= self.number);
        &self.history[known.saturating_sub(RETAINED)..known]
    }
}

/// The checkpoints that verify, ascending, whatever else lies there.
///
/// # Errors
/// What the disk said.
pub fn sound<D>(disk: &mut D) -> Result<Vec<CheckpointId>, String>
where
    D: Disk<Frozen = FrozenRun>,
{
    let mut sound = Vec::new();
    for id in checkpoint_ids(&mut Blocking::new(disk), CHECKPOINTS).map_err(text)? {
        if let Some(Ok(manifest)) = read_manifest(disk, CHECKPOINTS, id).map_err(text)?
            && verify_files(disk, CHECKPOINTS, &manifest).is_empty()
        {
            sound.push(id);
        }
    }
    Ok(sound)
}

/// Looks at what is there before anything is started: every checkpoint that has a manifest is whole, those that are
/// retained are there, and no output is visible that no complete checkpoint covers. Gives the complete ones.
///
/// # Errors
/// What does not hold.
pub fn inspect<D>(disk: &mut D, promise: &Promise) -> Result<Vec<CheckpointId>, String>
where
    D: Disk<Frozen = FrozenRun>,
{
    let mut complete = Vec::new();
    for id in checkpoint_ids(&mut Blocking::new(disk), CHECKPOINTS).map_err(text)? {
        let Some(manifest) = read_manifest(disk, CHECKPOINTS, id).map_err(text)? else { continue };
        let manifest = manifest.map_err(|reason| format!("checkpoint {id} has a manifest, but {reason}"))?;
        if let Some(damage) = verify_files(disk, CHECKPOINTS, &manifest).first() {
            return Err(format!("checkpoint {id} has a manifest, but {damage}"));
        }
        complete.push(id);
    }
    if let Some(gone) = promise.retained().iter().find(|id| !complete.contains(id)) {
        return Err(format!("checkpoint {gone} was announced and is retained, but gone"));
    }
    for entry in Blocking::new(disk).list(OUTPUT).map_err(text)? {
        let covered_by = checkpoint_of_part(&entry.name);
        if covered_by > complete.last().copied() {
            return Err(format!("{} is visible, the newest checkpoint is {:?}", entry.name, complete.last()));
        }
    }
    Ok(complete)
}

/// Checks how the job started again: from the newest checkpoint announced or a newer one, passing none over, and
/// that it got through its input with the right output.
///
/// # Errors
/// What does not hold.
pub fn expect_exact<D: Disk>(run: &Run, promise: &Promise, job: &SimJob, disk: &mut D) -> Result<(), String> {
    if run.resumed_from < promise.newest() {
        return Err(format!("{:?} was announced, the next run: {run:?}", promise.newest()));
    }
    if let Some(passed_over) = run.passed_over.first() {
        return Err(format!("checkpoint {} is passed over: {}", passed_over.id, passed_over.reason));
    }
    if promise.number == Some(FINISHED) && !run.completed.is_empty() {
        return Err(format!("the job had finished and goes on: {run:?}"));
    }
    expect_finished(run, job, disk)
}

/// Checks that the job got through its input with the right output, whatever it had to pass over.
///
/// # Errors
/// What does not hold.
pub fn expect_finished<D: Disk>(run: &Run, job: &SimJob, disk: &mut D) -> Result<(), String> {
    if let RunEnd::Failed(failure) = &run.end {
        return Err(format!("the job cannot finish: {failure}"));
    }
    job.check_output(disk)
}

/// The checkpoint that a visible part of the output belongs to.
fn checkpoint_of_part(name: &str) -> Option<CheckpointId> {
    let (_, id) = name.strip_prefix("part-")?.split_once("-chk-")?;
    id.parse().ok().map(CheckpointId)
}

fn text(error: impl fmt::Display) -> String {
    error.to_string()
}

//! What a loss of power left is mounted, and the job goes on from it.

use std::fs;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use slackwater::recovery;
use slackwater_core::ids::CheckpointId;
use slackwater_mem::{FrozenRun, MmapDisk};
use slackwater_tests::fuse_log::Cut;
use slackwater_tests::sim_job::{OUTPUT, RunEnd, SimJob};

use crate::Setting;
use crate::recording::Recording;

/// The job's folder on the disk.
const JOB: &str = "wordcount";
/// How many checkpoints the job keeps.
const RETAINED: usize = 3;

/// Images of a recording, to be tried.
pub(crate) struct Trials<'a> {
    pub(crate) recording: &'a Recording,
    pub(crate) setting: Setting,
    pub(crate) place: &'a Path,
}

impl Trials<'_> {
    /// Tries all of these, some at a time, until one fails. The one that failed, and why.
    pub(crate) fn run(&self, cuts: &[Cut]) -> Option<(Cut, String)> {
        let (next, failure) = (AtomicUsize::new(0), Mutex::new(None));
        let job = self.recording.job_after();
        thread::scope(|scope| {
            for worker in 0..self.setting.file_system.copies_max() {
                let (next, failure, job) = (&next, &failure, &job);
                scope.spawn(move || {
                    while let Some(cut) = cuts.get(next.fetch_add(1, Ordering::Relaxed)) {
                        if let Err(why) = self.try_one(*cut, worker, job.clone()) {
                            failure.lock().unwrap().get_or_insert((*cut, why));
                            next.store(cuts.len(), Ordering::Relaxed);
                        }
                    }
                });
            }
        });
        failure.into_inner().unwrap()
    }

    fn try_one(&self, cut: Cut, worker: usize, mut job: SimJob) -> Result<(), String> {
        let (image, marks) = self.recording.log.cut(cut);
        let announced = marks.into_iter().map(CheckpointId).collect::<Vec<_>>();
        let (file, root) =
            (self.place.join(format!("image{worker}")), self.place.join(format!("root{worker}")));
        fs::remove_file(&file).ok();
        image.write_to(&file).unwrap();
        let _mounted = self.setting.file_system.mount(&file, &root, "")?;
        check_recovery(&root, &announced)?;
        let run = self.setting.backend.run(&root, None, &mut job, &mut |_| false)?;
        if run.resumed_from < announced.last().copied() {
            return Err(format!("{announced:?} were announced, the next run: {run:?}"));
        }
        if !matches!(run.end, RunEnd::Finished) {
            return Err(format!("the job cannot finish: {run:?}"));
        }
        job.check_folder(&root.join(OUTPUT))
    }
}

/// What recovery finds after these checkpoints were announced.
fn check_recovery(root: &Path, announced: &[CheckpointId]) -> Result<(), String> {
    let mut disk = MmapDisk::<FrozenRun>::new(root).map_err(|error| error.to_string())?;
    let found = recovery::find(&mut disk, JOB).map_err(|error| error.to_string())?;
    let newest = found.newest.as_ref().map(|manifest| manifest.id);
    if newest < announced.last().copied() {
        return Err(format!("{announced:?} were announced, recovery finds {found:?}"));
    }
    // A manifest gets its name when all that it covers is durable, and loses it before anything of that goes.
    if !found.passed_over.is_empty() {
        return Err(format!("a checkpoint is not whole: {:?}", found.passed_over));
    }
    announced.iter().rev().take(RETAINED).try_for_each(|id| {
        let retained = recovery::read_manifest(&mut disk, JOB, *id).map_err(|error| error.to_string())?;
        let Some(Ok(manifest)) = retained else {
            return Err(format!("{id:?} is not retained: {retained:?}"));
        };
        let damage = recovery::verify_files(&mut disk, JOB, &manifest);
        if damage.is_empty() { Ok(()) } else { Err(format!("{id:?} is retained and damaged: {damage:?}")) }
    })
}

//! A job on a file system of which every write and flush is logged.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use slackwater::word_count::Emit;
use slackwater_core::time::Millis;
use slackwater_tests::fuse_log::{Cut, Entry, Log, LoggedImage};
use slackwater_tests::rng::Rng;
use slackwater_tests::sim_job::{RunEnd, SimJob};

use crate::Setting;
use crate::disks::Sync;

/// Enough for more checkpoints than the runs take that are killed.
const TEXT_LEN_MIN: usize = 6_000;
const TEXT_LEN_PER_RUN: usize = 6_000;
/// Checkpoints after which the first two runs are killed, in the middle of the next.
const CHECKPOINTS: u64 = 3;
const STEPS_MORE_MAX: u64 = 120;
/// Runs of the job until it is through.
pub(crate) const RUNS: usize = 3;

/// What happened to a file system's image while the job ran on it.
pub(crate) struct Recording {
    pub(crate) log: Log,
    /// Where the log lies.
    path: PathBuf,
    runs: usize,
}

impl Recording {
    /// Runs the job so many times, with one kind of sync left out if asked; each completion that is announced is a
    /// mark.
    pub(crate) fn make(place: &Path, setting: Setting, missing: Option<Sync>, runs: usize) -> Self {
        let file_system = setting.file_system;
        let [image, served, mounted, log] = ["base", "served", "mounted", "log"].map(|name| place.join(name));
        file_system.make(&image, file_system.small_len()).unwrap();
        fs::create_dir_all(&served).unwrap();
        let mut program = Command::new(env::current_exe().unwrap());
        program.args(["--exact", "the_image_server"]);
        let logged = LoggedImage::new(&image, &served, &log, program).unwrap();
        let mount = file_system.mount(&logged.image(), &mounted, "").unwrap();
        let mut job = job(runs);
        (1..=runs).for_each(|number| run(number, &mut job, &mounted, &logged, setting, missing));
        drop(mount);
        Self { log: logged.end().unwrap().never_torn(file_system.never_torn()), path: log, runs }
    }

    /// A recording of all runs that was kept.
    pub(crate) fn read(log: &Path, setting: Setting) -> Self {
        let (path, whole) = (log.to_owned(), setting.file_system.never_torn());
        Self { log: Log::read(log).unwrap().never_torn(whole), path, runs: RUNS }
    }

    /// Copies the log to where it outlives the test.
    pub(crate) fn keep(&self, name: &str) -> PathBuf {
        let kept = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.log"));
        if self.path != kept {
            fs::copy(&self.path, &kept).unwrap();
        }
        kept
    }

    /// All flushes, with so many samples where something was written until the next.
    pub(crate) fn cuts(&self, samples: u64) -> Vec<Cut> {
        let cuts = |flush| {
            let samples = if self.log.after(flush).iter().any(Entry::is_write) { samples.max(1) } else { 1 };
            (0..samples).map(move |sample| Cut { flush, sample })
        };
        (0..self.log.flushes()).flat_map(cuts).collect()
    }

    /// Those flushes after which a completion was announced before the next: what is announced too early shows there.
    pub(crate) fn cuts_at_announcements(&self) -> Vec<Cut> {
        let is_one =
            |flush: &usize| self.log.after(*flush).iter().any(|entry| matches!(entry, Entry::Mark(_)));
        (0..self.log.flushes()).filter(is_one).map(|flush| Cut { flush, sample: 0 }).collect()
    }

    /// The job that was recorded, for a start that is none of those recorded. It takes a last checkpoint, and hardly
    /// another before.
    pub(crate) fn job_after(&self) -> SimJob {
        let mut job = job(self.runs).every(Millis(500));
        job.skip_starts(self.runs as u64);
        job
    }

    /// How many completions were announced.
    pub(crate) fn announced(&self) -> usize {
        let end = Cut { flush: self.log.flushes().saturating_sub(1), sample: 0 };
        self.log.cut(end).1.len()
    }
}

fn job(runs: usize) -> SimJob {
    SimJob::new(seed(), Emit::Updates).over(TEXT_LEN_MIN + runs * TEXT_LEN_PER_RUN)
}

/// Seed of the job and of the moments at which it is killed; what the kernel does in between differs each time.
pub(crate) fn seed() -> u64 {
    crate::number("SLACKWATER_POWER_SEED").unwrap_or(1)
}

fn run(
    number: usize,
    job: &mut SimJob,
    root: &Path,
    logged: &LoggedImage,
    setting: Setting,
    missing: Option<Sync>,
) {
    let mut steps_more = 1 + Rng::new(seed() ^ ((number as u64) << 32)).below(STEPS_MORE_MAX);
    let mut announced = None;
    let run = setting.backend.run(root, missing, job, &mut |progress| {
        if progress.last_checkpoint > announced {
            announced = progress.last_checkpoint;
            logged.mark(announced.map_or(0, |id| id.0)).unwrap();
        }
        let is_due = number < RUNS && progress.checkpoints_completed >= CHECKPOINTS;
        steps_more -= u64::from(is_due);
        steps_more == 0
    });
    let run = run.unwrap();
    let is_as_planned = match run.end {
        RunEnd::Finished => number == RUNS,
        RunEnd::Stopped => number < RUNS,
        RunEnd::Failed(_) => false,
    };
    assert!(is_as_planned, "run {number}: {run:?}");
}

//! A job recorded once, a crash at any moment of it, and what comes after.

use std::collections::BTreeSet;

use slackwater_core::durable::Disk;
use slackwater_core::ids::CheckpointId;
use slackwater_mem::FrozenRun;
use slackwater_mem::sim::{Crash, FailedImage, Image, Log, PowerCuts, SimDisk, SimOptions, Submitted, Tally};

use crate::aftermath::{Promise, expect_exact, expect_finished, inspect, sound};
use crate::rng::Rng;
use crate::sim_job::{CHECKPOINTS, FINISHED, Run, RunEnd, SimJob};

/// The simulated disk of a job.
pub type Sim = SimDisk<FrozenRun>;

/// Kinds of operations that change files, and with it what a loss of power can leave.
pub const CHANGES: [&str; 8] =
    ["CreateFolder", "CreateFile", "Write", "SetLength", "SyncFile", "Rename", "SyncFolder", "Remove"];

/// Room for the numbers of the images of one log.
const NUMBERS: u64 = 1 << 20;

/// A job that has run, and everything that a crash could have left of it.
#[derive(Debug)]
pub struct Recorded {
    /// As it is after that run.
    pub job: SimJob,
    /// What happened on its disk.
    pub log: Log,
    /// How the run went.
    pub run: Run,
    /// Every checkpoint that was complete at some time.
    pub history: Vec<CheckpointId>,
    /// Only what happened before its first step counts.
    is_recovery: bool,
}

impl Recorded {
    /// Runs a new job on an empty disk.
    #[must_use]
    pub fn new(job: SimJob) -> Self {
        Self::new_on(job, &Sim::new(SimOptions::default()), |disk| disk)
    }

    /// Runs a new job on an empty disk with a layer over it, to its good end.
    ///
    /// # Panics
    /// The job does not get through its input.
    pub fn new_on<D>(mut job: SimJob, disk: &Sim, layer: impl FnOnce(Sim) -> D) -> Self
    where
        D: Disk<Frozen = FrozenRun> + Send + 'static,
    {
        let recorded = Self::on(&mut job, disk, layer, &Promise::default());
        let recorded = recorded.unwrap_or_else(|error| panic!("uninterrupted: {error}"));
        assert!(matches!(recorded.run.end, RunEnd::Finished), "uninterrupted: {:?}", recorded.run);
        recorded
    }

    /// Runs a job on what a crash has left.
    ///
    /// # Errors
    /// The job hangs.
    pub fn on<D>(
        job: &mut SimJob,
        disk: &Sim,
        layer: impl FnOnce(Sim) -> D,
        promise: &Promise,
    ) -> Result<Self, String>
    where
        D: Disk<Frozen = FrozenRun> + Send + 'static,
    {
        let log = disk.log();
        promise.number.into_iter().for_each(|number| log.promise(number));
        let run = job.run(layer(disk.clone()), Some(&log))?;
        let mut history = promise.history.clone();
        history.extend(&run.completed);
        Ok(Self { job: job.clone(), log, run, history, is_recovery: false })
    }

    /// Where the power can go.
    #[must_use]
    pub fn cuts(&self) -> PowerCuts {
        let cuts = PowerCuts::of(&self.log);
        if self.is_recovery { cuts.operations(1..self.run.assembled as u64 + 1) } else { cuts }
    }

    /// The power went: what is left is whole, and the job goes on. In some cases, of a hundred, it goes again.
    ///
    /// # Errors
    /// What does not hold.
    pub fn crash(&self, image: &Image, percent_again: u64) -> Result<(), String> {
        let mut rng = Rng::new(image.number() ^ 0x00c0_ffee);
        let promise = self.promise(image);
        let complete = inspect(&mut disk_of(image), &promise)?;
        if promise.number == Some(FINISHED) {
            self.job.check_output(&mut disk_of(image))?;
        }
        let mut job = self.job.clone();
        job = if rng.chance(25) { job } else { job.only_last() };
        let mut disk = disk_of(image);
        let next = Self::on(&mut job, &disk, |disk| disk, &Promise { history: complete, ..promise.clone() })?;
        expect_exact(&next.run, &promise, &job, &mut disk)?;
        next.expect_kept(&disk, &mut rng).map_err(|error| format!("after the end: {error}"))?;
        if !rng.chance(percent_again) {
            return Ok(());
        }
        let cuts = PowerCuts::of(&next.log).seed(image.number());
        let Some(second) = cuts.image(rng.below(cuts.len())) else { return Ok(()) };
        next.crash(&second, percent_again / 2).map_err(|error| format!("{second}, after that: {error}"))
    }

    /// What the job has done to its end survives.
    fn expect_kept(&self, disk: &Sim, rng: &mut Rng) -> Result<(), String> {
        let mut left = disk.image_after_power_cut(rng.any());
        self.job.check_output(&mut left)?;
        if rng.chance(20) {
            inspect(&mut left, &Promise { number: Some(FINISHED), history: self.history.clone() })?;
        }
        Ok(())
    }

    /// Something on the disk may be damaged: the job goes on from the newest checkpoint that is not, or from the start,
    /// and ends with the right output. Whether it had to pass one over.
    ///
    /// # Errors
    /// What does not hold.
    pub fn start_on_damage(&self, disk: &Sim) -> Result<bool, String> {
        let mut disk = disk.clone();
        let newest = sound(&mut disk)?.last().copied();
        let mut job = self.job.clone().only_last();
        let run = job.run(disk.clone(), None)?;
        if run.resumed_from != newest {
            return Err(format!("the newest sound checkpoint is {newest:?}, the next run: {run:?}"));
        }
        expect_finished(&run, &job, &mut disk)?;
        Ok(!run.passed_over.is_empty())
    }

    /// The runs that follow crashes all over the log, each kind of recovery once: as many operations of each kind.
    #[must_use]
    pub fn recoveries(&self, crash: Crash) -> Vec<Self> {
        let cuts = PowerCuts::of(&self.log).crash(crash);
        let images = (0..cuts.places()).step_by(3).filter_map(|number| cuts.image(number));
        let mut kinds = BTreeSet::new();
        images
            .map(|image| self.recovery(&image, |disk| disk))
            .filter(|next| kinds.insert(next.shape()))
            .collect()
    }

    /// The run that follows a crash, with a layer over its disk.
    ///
    /// # Panics
    /// What the crash has left is not whole, or the job hangs.
    pub fn recovery<D>(&self, image: &Image, layer: impl FnOnce(Sim) -> D) -> Self
    where
        D: Disk<Frozen = FrozenRun> + Send + 'static,
    {
        let promise = self.promise(image);
        let complete = inspect(&mut disk_of(image), &promise);
        let complete = complete.unwrap_or_else(|error| panic!("{image}: {error}"));
        let again = Promise { history: complete, ..promise };
        let next = Self::on(&mut self.job.clone(), &disk_of(image), layer, &again);
        Self { is_recovery: true, ..next.unwrap_or_else(|error| panic!("{image}: {error}")) }
    }

    fn promise(&self, image: &Image) -> Promise {
        Promise { number: image.promised(), history: self.history.clone() }
    }

    /// How often the recovery changes something, by kind.
    fn shape(&self) -> [usize; CHANGES.len()] {
        let history = self.log.history();
        let of_recovery = &history[..self.run.assembled];
        let is_kind = |submitted: &Submitted, kind| format!("{:?}", submitted.kind) == kind;
        CHANGES.map(|kind| of_recovery.iter().filter(|submitted| is_kind(submitted, kind)).count())
    }
}

/// A disk with an image.
#[must_use]
pub fn disk_of(image: &Image) -> Sim {
    image.disk(SimOptions { seed: image.number(), ..SimOptions::default() })
}

/// Whether an operation is about a file of a checkpoint.
#[must_use]
pub fn is_of_checkpoint(submitted: &Submitted) -> bool {
    submitted.path.starts_with(CHECKPOINTS)
}

/// What one test tries.
#[derive(Clone, Copy, Debug)]
pub struct Suite {
    /// Its file and its name.
    pub test: (&'static str, &'static str),
    /// Images of all tests together, and how many of a hundred are this one's.
    pub images: u64,
    /// The share.
    pub percent: u64,
}

impl Suite {
    /// Tries the test's share of images, evenly over all logs. None if only one image was asked for.
    ///
    /// # Panics
    /// With the command that repeats it, if a check fails.
    pub fn power_cuts(
        &self,
        recorded: &[Recorded],
        check: impl Fn(&Recorded, &Image) -> Result<(), String> + Sync,
    ) -> Option<Tally> {
        let (mut tally, mut is_all) = (Tally::default(), true);
        for (index, one) in (0..).zip(recorded) {
            let cuts = one.cuts().images(self.images).first_number(index * NUMBERS).from_env();
            is_all &= !cuts.is_one();
            let images = cuts.len() * self.percent / 100 / recorded.len() as u64;
            let tried = cuts.images(images).check(|image| check(one, image));
            tally += tried.unwrap_or_else(|failure| panic!("{}", self.rerun(&failure)));
        }
        is_all.then_some(tally)
    }

    /// What failed, and how to try it alone.
    fn rerun(&self, failure: &FailedImage) -> String {
        let FailedImage { number, place, message } = failure;
        let ((file, name), variable) = (self.test, PowerCuts::ONLY_VARIABLE);
        format!(
            "{place}: {message}\nrerun with: {variable}={number} cargo test -p slackwater-tests --test {file} {name}"
        )
    }
}

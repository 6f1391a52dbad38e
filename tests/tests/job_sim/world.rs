//! One seed: starts the job of a plan again and again, on what its troubles leave, until it has come to its end.

use std::collections::VecDeque;

use slackwater::actor::Actor;
use slackwater::mutants::with_bug;
use slackwater::savepoint::{RestoreFrom, RestoreMode};
use slackwater::{AssembledJob, CheckpointingMode, Compression, Job, JobError, JobOptions};
use slackwater_core::durable::Disk;
use slackwater_core::ids::CheckpointId;
use slackwater_core::time::{Millis, Now};
use slackwater_mem::sim::SimOptions;
use slackwater_tests::crash::Sim;
use slackwater_tests::driver::{Driver, End};
use slackwater_tests::rng::Rng;
use slackwater_tests::sim_job::CHECKPOINTS;

use crate::actors::{Dallying, Slow, Weather};
use crate::coverage::Coverage;
use crate::cut::Cut;
use crate::disk::{Disks, OverDisk};
use crate::graph::{Shared, build};
use crate::hooks::Hooks;
use crate::ledger::Ledger;
use crate::oracle::Shown;
use crate::plan::{Mode, Moment, Mutant, Plan, Trouble};
use crate::process::Process;
use crate::run::Run;
use crate::tamper::capture_one_short;

/// Nothing goes wrong any more, and nobody dallies, from this start on.
const CALM_START: u64 = 12;
/// More starts than troubles can explain.
const STARTS_MAX: u64 = 40;
/// Far more than any run here takes.
const STEPS_MAX: u64 = 60_000;

/// What must hold, or why it does not.
pub(crate) type Verdict = Result<(), String>;

pub(crate) struct World {
    pub(crate) plan: Plan,
    pub(crate) rng: Rng,
    pub(crate) hooks: Hooks,
    pub(crate) ledger: Ledger,
    pub(crate) cut: Cut,
    pub(crate) weather: Weather,
    pub(crate) disk: Sim,
    pub(crate) coverage: Coverage,
    pub(crate) starts: u64,
    /// In which the job runs, if it has been started there.
    pub(crate) process: Option<Process>,
    pub(crate) parallelism: Vec<u16>,
    pub(crate) troubles: VecDeque<(Moment, Trouble)>,
    /// The disk has said no, or may have: then so may the job.
    pub(crate) had_disk_trouble: bool,
    pub(crate) had_damage: bool,
    /// The folder with the job's own folder of checkpoints.
    pub(crate) folder: String,
    pub(crate) restore_from: Option<RestoreFrom>,
    /// How often the job was told to stop.
    pub(crate) stops: u64,
    /// How many savepoints have been asked for.
    pub(crate) savepoints: u64,
    /// The newest savepoint of the last run, if nothing has been restored since then.
    pub(crate) savepoint: Option<(String, CheckpointId)>,
    /// The newest checkpoint in the job's folder that was said to be complete.
    pub(crate) announced: Option<CheckpointId>,
    pub(crate) shown: Shown,
}

/// What came of a start.
enum Start {
    Ready(Box<AssembledJob>),
    /// It was planned to fail, or the disk said no.
    Failed,
    /// The job had finished before.
    AlreadyFinished,
}

impl World {
    pub(crate) fn new(plan: Plan) -> Self {
        let hooks = Hooks::new(plan.mutant, plan.mode != Mode::AtLeastOnce);
        let mut world = Self {
            rng: Rng::new(plan.seed ^ 0x0005_EA5C_A1E5),
            ledger: Ledger::new(hooks.clone()),
            cut: Cut::new(hooks.clone()),
            hooks,
            weather: Weather::default(),
            disk: Sim::new(SimOptions { seed: plan.seed, ..SimOptions::default() }),
            coverage: Coverage::default(),
            starts: 0,
            process: None,
            parallelism: Vec::new(),
            troubles: plan.troubles.iter().copied().collect(),
            had_disk_trouble: false,
            had_damage: false,
            folder: String::new(),
            restore_from: None,
            stops: 0,
            savepoints: 0,
            savepoint: None,
            announced: None,
            shown: Shown::new(&plan),
            plan,
        };
        world.rescale();
        world
    }

    /// Runs the job to its end and compares what is committed.
    pub(crate) fn run(&mut self) -> Verdict {
        while self.starts < STARTS_MAX {
            match self.start()? {
                Start::Failed => self.coverage.note("starts that failed"),
                Start::AlreadyFinished => return self.end(),
                Start::Ready(job) => {
                    if self.drive(*job)? {
                        return self.end();
                    }
                }
            }
            self.hooks.verdict()?;
        }
        Err("the job does not end, however often it is started".to_owned())
    }

    pub(crate) fn is_calm(&self) -> bool {
        self.starts >= CALM_START
    }

    pub(crate) fn trace(&self, what: impl FnOnce() -> String) {
        if self.plan.is_traced {
            eprintln!("{}", what());
        }
    }

    pub(crate) fn note_power_cut(&mut self) {
        self.coverage.note("power cuts");
        self.shown.on_power_cut(self.announced);
        self.coverage.add("power cuts of jobs with hooks", u64::from(self.plan.hooks > 0));
        self.coverage.add("power cuts of jobs with coordinators", u64::from(self.plan.has_coordinators()));
    }

    /// Gives every vertex another parallelism.
    pub(crate) fn rescale(&mut self) {
        if self.plan.mode == Mode::Mixed && self.starts > 0 {
            self.hooks.expect_no_order();
        }
        let count: usize = self.plan.pipelines.iter().map(crate::plan::Pipeline::vertices).sum();
        let most = self.plan.key_groups.min(4).into();
        let parallelism = (0..count).map(|_| 1 + u16::try_from(self.rng.below(most)).expect("few"));
        self.parallelism = parallelism.collect();
    }

    /// A folder for another savepoint.
    pub(crate) fn new_savepoint(&mut self) -> String {
        self.savepoints += 1;
        format!("savepoint-{}", self.savepoints)
    }

    /// The next start is from a savepoint, with the job's folder or in a new one.
    pub(crate) fn start_from(&mut self, (folder, id): (String, CheckpointId), claims: bool) {
        let mode = if claims { RestoreMode::Claim } else { RestoreMode::NoClaim };
        self.coverage.note(if claims { "claimed savepoints" } else { "savepoints that stay their owner's" });
        self.trace(|| format!("  starts from savepoint {id} in {folder}"));
        if self.rng.chance(60) {
            self.folder = format!("from-{folder}");
        }
        self.announced = Some(id);
        self.process = None;
        self.shown.on_other_start();
        self.restore_from = Some(RestoreFrom { folder, mode });
    }

    fn start(&mut self) -> Result<Start, String> {
        self.starts += 1;
        self.savepoint = None;
        if self.is_calm() {
            self.troubles.clear();
            self.hooks.forget_plan();
        }
        let options = self.options();
        self.trace(|| format!("start {}, parallelism {:?}, {options:?}", self.starts, self.parallelism));
        let shared = Shared {
            hooks: self.hooks.clone(),
            ledger: self.ledger.clone(),
            cut: self.cut.clone(),
            seed: self.rng.any(),
        };
        self.cut.on_start(self.is_calm());
        let builder = build(&self.plan, &self.parallelism, &shared);
        self.ledger.expect_complete(self.completeness());
        if self.plan.mutant == Some(Mutant::CaptureOneShort)
            && let Some(manifest) = self.newest_manifest()
        {
            capture_one_short(&self.disk, &manifest);
        }
        let disks =
            Disks { disk: self.disk.clone(), weather: self.weather.clone(), mutant: self.plan.mutant };
        let process = match self.process.take() {
            Some(process) => process,
            None => Process::new(&options)?,
        };
        process.expect_attempt(options.attempt)?;
        let now = process.now;
        self.process = Some(process);
        match disks.over(Assemble { builder, now, options: &options, mutant: self.plan.mutant }) {
            Ok(job) => {
                self.on_started(&job, &options)?;
                Ok(Start::Ready(Box::new(job)))
            }
            Err(error @ JobError::AlreadyFinished { .. }) => {
                let process = self.process.take();
                process.map_or(Ok(()), |process| process.on_already_finished(error))?;
                Ok(Start::AlreadyFinished)
            }
            Err(error) => {
                self.explain(&error)?;
                self.on_failed(&error, None)?;
                Ok(Start::Failed)
            }
        }
    }

    fn on_started(&mut self, job: &AssembledJob, options: &JobOptions) -> Verdict {
        self.trace(|| format!("  from {:?}, passed over {:?}", job.resumed_from, job.passed_over));
        if let Some(passed_over) = job.passed_over.first() {
            self.coverage.note("checkpoints passed over");
            if !self.had_damage && !self.had_disk_trouble {
                return Err(format!("checkpoint {} is passed over: {}", passed_over.id, passed_over.reason));
            }
            self.announced = None;
        }
        if job.resumed_from < self.announced {
            return Err(format!("{:?} was announced, restored is {:?}", self.announced, job.resumed_from));
        }
        self.shown.on_start(job.resumed_from.filter(|_| options.lazy_restore));
        if self.newest_has_in_flight() {
            self.coverage.note("restores of records in flight");
        }
        self.coverage.note(if job.resumed_from.is_some() { "restores" } else { "starts from nothing" });
        if options.lazy_restore && job.resumed_from.is_some() {
            self.coverage.note("lazy restores");
        }
        if options.restore_from.is_some() {
            self.coverage.note("starts with a savepoint");
        }
        self.expect_same_cut(job.resumed_from)?;
        self.process.as_mut().map_or(Ok(()), |process| process.on_started(job))
    }

    /// How the next run is set up.
    fn options(&mut self) -> JobOptions {
        let subtasks = self.parallelism.iter().copied().map(u64::from).sum::<u64>();
        let mode = self.plan.mode;
        let rng = &mut self.rng;
        let unaligned = mode == Mode::Mixed && rng.chance(75);
        let is_calm = self.starts >= CALM_START;
        let compressions = [Compression::None, Compression::None, Compression::Lz4, Compression::Zstd];
        let frame_size = if rng.chance(80) { self.plan.frame_size } else { 1024 };
        let timeout = if rng.chance(10) { 10 + rng.below(100) } else { 300 + rng.below(20) * rng.below(100) };
        JobOptions {
            folder: self.folder.clone(),
            hash_seed: self.plan.seed,
            interval: (rng.chance(90) || is_calm).then(|| Millis(10 + rng.below(30))),
            timeout: Millis(if is_calm { 100_000 } else { timeout }),
            min_pause: Millis(rng.below(2) * rng.below(15)),
            max_concurrent_checkpoints: if unaligned {
                1
            } else {
                1 + u16::try_from(rng.below(3)).expect("few")
            },
            mode: if mode == Mode::AtLeastOnce {
                CheckpointingMode::AtLeastOnce
            } else {
                CheckpointingMode::ExactlyOnce
            },
            unaligned,
            aligned_checkpoint_timeout: Millis(rng.below(2) * rng.below(30)),
            tolerable_failed_checkpoints: if is_calm { 1000 } else { self.plan.tolerable_failed_checkpoints },
            num_retained: self.plan.num_retained,
            memory_limit_bytes: self.plan.memory_limit_bytes * subtasks,
            frame_size,
            restart: self.plan.restart,
            restore_from: self.restore_from.clone(),
            lazy_restore: rng.chance(35),
            compression: compressions[rng.index(compressions.len())],
            ..JobOptions::new(self.starts)
        }
    }

    /// Drives the job until it ends or is stopped. True if it has come to its good end.
    fn drive(&mut self, mut job: AssembledJob) -> Result<bool, String> {
        let actors = self.dally(&mut job);
        let now = self.process.as_ref().map(|process| process.now).unwrap_or_default();
        let mut driver = Driver::new(self.rng.any(), STEPS_MAX, actors).starting_at(now);
        let mut run = Run::new(&job);
        let end = driver.run(&mut || run.on_step(self));
        self.trace(|| format!("  after {} steps: {end:?}", driver.steps()));
        self.coverage.add("steps", driver.steps());
        self.weather.set_slow(false);
        if let Some(process) = &mut self.process {
            // A step takes less than a millisecond.
            process.now = Now { monotonic: driver.now().monotonic.max(now.monotonic), ..driver.now() };
        }
        match end {
            End::Finished => match job.report() {
                Ok(report) => {
                    self.trace(|| format!("  {report:?}"));
                    self.expect_at_rest()?;
                    self.cut.expect_closed(&self.plan.meters())?;
                    let process = self.process.take();
                    process.map_or(Ok(()), |mut process| process.on_finished(&job, &report))?;
                    self.hooks.verdict()?;
                    self.shown.note_end(&report);
                    return run.finish(&report, self);
                }
                Err(error) => {
                    self.explain(&error)?;
                    self.cut.expect_closed(&self.plan.meters())?;
                    self.on_failed(&error, Some(&job))?;
                    drop(driver);
                    self.expect_at_rest()?;
                    run.strike_pending(self)?;
                }
            },
            End::Stopped => {
                self.process = None;
                run.strike(self)?;
            }
            End::Stuck(_) | End::OutOfSteps(_) => return Err(format!("the job hangs: {end:?}")),
        }
        self.disk.set_capacity(SimOptions::default().capacity);
        Ok(false)
    }

    /// The actors, some of which dally.
    fn dally(&mut self, job: &mut AssembledJob) -> Vec<Box<dyn Actor>> {
        let (observer, is_calm) = (job.observer(), self.is_calm());
        let dallies = self.plan.dallies.iter().copied().cycle();
        let wrap = |(actor, percent): (Box<dyn Actor>, u64)| -> Box<dyn Actor> {
            let rng = Rng::new(self.rng.any());
            let percent = if is_calm { 0 } else { percent };
            Box::new(Dallying { actor, observer: observer.clone(), rng, percent })
        };
        job.take_actors().into_iter().zip(dallies).map(wrap).collect()
    }

    /// A job that has ended has left nothing with the disk; a bug over the disk may have.
    fn expect_at_rest(&self) -> Verdict {
        match self.disk.in_flight() {
            0 => Ok(()),
            _ if self.plan.mutant.is_some() => Ok(()),
            count => Err(format!("the job has ended with {count} operations in flight")),
        }
    }

    /// Whether a failure of the job is one of those that were planned.
    fn explain(&mut self, error: &JobError) -> Verdict {
        self.trace(|| format!("  failed: {error}"));
        let was_planned = self.hooks.take_failed();
        let is_explained = match error {
            // What a planned panic carries is no text; any other panic is a bug.
            JobError::Panicked { message, .. } => was_planned && message == "no message",
            JobError::Operator { message, .. } => {
                was_planned
                    || self.had_disk_trouble
                    || (self.stops > 0 && message.contains("stop with savepoint"))
            }
            JobError::Disk { .. } | JobError::Output { .. } | JobError::NoSavepoint { .. } => {
                self.had_disk_trouble
            }
            JobError::Checkpoint { reason, .. } => {
                self.coverage.note("jobs that failed with a checkpoint");
                self.had_disk_trouble
                    || self.hooks.has_refused()
                    || *reason == slackwater_core::reason::FailureReason::CheckpointExpired
            }
            JobError::LateDamage { .. } => {
                self.coverage.note("damage that was found late");
                self.had_damage || self.had_disk_trouble
            }
            JobError::InvalidJob { .. }
            | JobError::CapacityExceeded { .. }
            | JobError::ParallelismAboveMaximum { .. }
            | JobError::OtherJob { .. }
            | JobError::NonRestoredState { .. }
            | JobError::OtherMaxParallelism { .. }
            | JobError::AlreadyFinished { .. }
            | JobError::FolderInUse { .. }
            | JobError::Storage { .. }
            | JobError::Unsupported { .. }
            | JobError::Restore { .. }
            | JobError::Refused { .. }
            | JobError::NoThread { .. }
            | JobError::GivenUp { .. }
            | JobError::Stopped
            | JobError::Machine { .. } => false,
        };
        if is_explained { Ok(()) } else { Err(format!("the job failed: {error} ({error:?})")) }
    }

    /// The folder of the job's checkpoints.
    pub(crate) fn checkpoints(&self) -> String {
        if self.folder.is_empty() { CHECKPOINTS.to_owned() } else { format!("{}/{CHECKPOINTS}", self.folder) }
    }
}

/// Puts a job together on whatever disk.
struct Assemble<'a> {
    builder: slackwater::JobBuilder,
    now: Now,
    options: &'a JobOptions,
    mutant: Option<Mutant>,
}

impl OverDisk for Assemble<'_> {
    type Output = Result<AssembledJob, JobError>;

    fn on<D>(self, disk: Slow<D>) -> Self::Output
    where
        D: Disk<Frozen = slackwater_mem::FrozenRun, Block: Send> + Send + 'static,
    {
        let assemble = || Job::assemble(self.builder, disk, self.now, self.options);
        match self.mutant.and_then(Mutant::of_runtime) {
            Some(bug) => with_bug(bug, assemble),
            None => assemble(),
        }
    }
}

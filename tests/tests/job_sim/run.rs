//! A run, from one step to the next: what happens to it, and when.

use slackwater::savepoint::{Controller, Savepoint};
use slackwater::stop::{Stop, StopMode};
use slackwater::{AssembledJob, Observer, Report};
use slackwater_core::durable::DiskError;
use slackwater_mem::sim::{Fault, SimOptions};

use crate::plan::{Moment, Trouble};
use crate::world::{Verdict, World};

/// A run that takes longer is given up, and the next ones are calm.
const PATIENCE: u64 = 5_000;
/// A moment that does not come in so many steps has come.
const MOMENT_STEPS_MAX: u64 = 1_500;

pub(crate) struct Run {
    observer: Observer,
    controller: Controller,
    steps: u64,
    /// When the last trouble came.
    last: u64,
    commits: u64,
    operations: u64,
    full_until: Option<u64>,
    slow_until: Option<u64>,
    saving: Option<(String, Savepoint)>,
    stopping: Option<Stopping>,
    /// What the run was stopped for.
    stopped_for: Option<Trouble>,
}

/// A stop that was asked for.
struct Stopping {
    folder: String,
    stop: Stop,
    drains: bool,
    claims: bool,
}

impl Run {
    pub(crate) fn new(job: &AssembledJob) -> Self {
        Self {
            observer: job.observer(),
            controller: job.controller(),
            steps: 0,
            last: 0,
            commits: 0,
            operations: 0,
            full_until: None,
            slow_until: None,
            saving: None,
            stopping: None,
            stopped_for: None,
        }
    }

    /// After a step. True to stop the run.
    pub(crate) fn on_step(&mut self, world: &mut World) -> bool {
        if self.steps == 0 {
            (self.commits, self.operations) = (world.hooks.commits(), world.disk.operations());
        }
        self.steps += 1;
        world.cut.answer(&mut world.rng);
        self.clear_up(world);
        self.note_progress(world);
        if self.steps > PATIENCE && !world.is_calm() {
            world.coverage.note("runs that were given up");
            world.starts = world.starts.max(20);
            self.stopped_for = Some(Trouble::Kill { rescales: false });
            return true;
        }
        let is_due = |(moment, trouble): &(Moment, Trouble)| {
            self.has_come(*moment, world) && !self.awaits_savepoint(*trouble, world)
        };
        let is_due = world.troubles.front().is_some_and(is_due);
        if !is_due || self.observer.is_over() {
            return false;
        }
        let Some((moment, trouble)) = world.troubles.pop_front() else { return false };
        world.trace(|| format!("  step {}, {moment:?}: {trouble:?}", self.steps));
        self.last = self.steps;
        (self.commits, self.operations) = (world.hooks.commits(), world.disk.operations());
        self.begin(trouble, world)
    }

    fn has_come(&self, moment: Moment, world: &World) -> bool {
        let passed = self.steps - self.last;
        match moment {
            Moment::Steps(steps) => passed >= steps,
            Moment::Commit => world.hooks.commits() > self.commits || passed > MOMENT_STEPS_MAX,
            Moment::Manifest => {
                let is_manifest = |operation: u64| {
                    let submitted = world.disk.submitted(operation);
                    submitted.is_some_and(|submitted| submitted.path.contains("/_metadata"))
                };
                let now = world.disk.operations();
                (now > self.operations && is_manifest(now)) || passed > MOMENT_STEPS_MAX
            }
        }
    }

    /// A start from a savepoint waits until there is one.
    fn awaits_savepoint(&self, trouble: Trouble, world: &World) -> bool {
        let is_start = matches!(trouble, Trouble::StartFromSavepoint { .. });
        is_start
            && world.savepoint.is_none()
            && self.saving.is_some()
            && self.steps < self.last + MOMENT_STEPS_MAX
    }

    /// Ends what does not last.
    fn clear_up(&mut self, world: &World) {
        if self.full_until.take_if(|until| *until <= self.steps).is_some() {
            world.disk.set_capacity(SimOptions::default().capacity);
        }
        if self.slow_until.take_if(|until| *until <= self.steps).is_some() {
            world.weather.set_slow(false);
        }
    }

    fn note_progress(&mut self, world: &mut World) {
        let newest = self.observer.progress().last_checkpoint;
        if newest > world.announced {
            world.announced = newest;
            world.coverage.note("complete checkpoints");
        }
        let saved =
            self.saving.as_ref().and_then(|(folder, saving)| Some((folder.clone(), saving.result()?)));
        if let Some((folder, result)) = saved {
            self.saving = None;
            world.trace(|| format!("  step {}, savepoint in {folder}: {result:?}", self.steps));
            if let Ok(id) = result {
                world.coverage.note("savepoints");
                world.savepoint = Some((folder, id));
            }
        }
    }

    /// Lets it happen. True if the run stops for it.
    fn begin(&mut self, trouble: Trouble, world: &mut World) -> bool {
        match trouble {
            Trouble::Kill { .. } | Trouble::PowerCut { .. } | Trouble::Damage => {
                self.stopped_for = Some(trouble);
                return true;
            }
            Trouble::StartFromSavepoint { .. } => {
                self.stopped_for = world.savepoint.is_some().then_some(trouble);
                return self.stopped_for.is_some();
            }
            Trouble::UserCode(place, failure) => world.hooks.plan(place, failure),
            Trouble::DiskFull { steps } => {
                world.had_disk_trouble = true;
                world.coverage.note("full disks");
                world.disk.set_capacity(0);
                self.full_until = Some(self.steps + steps);
            }
            Trouble::DiskSlow { steps } => {
                world.coverage.note("slow disks");
                world.weather.set_slow(true);
                self.slow_until = Some(self.steps + steps);
            }
            Trouble::DiskError { within } => {
                world.had_disk_trouble = true;
                world.coverage.note("failed operations of the disk");
                let errno = if world.rng.chance(50) { DiskError::IO } else { DiskError::NO_SPACE };
                world.disk.inject(world.disk.operations() + within, Fault::Error(errno));
            }
            Trouble::Stop { drains, claims } if self.stopping.is_none() => {
                let folder = world.new_savepoint();
                world.stops += 1;
                let mode = if drains { StopMode::Drain } else { StopMode::Suspend };
                self.stopping =
                    Some(Stopping { stop: self.controller.stop(&folder, mode), folder, drains, claims });
            }
            Trouble::Stop { .. } => {}
            Trouble::Savepoint => {
                let folder = world.new_savepoint();
                self.saving = Some((folder.clone(), self.controller.savepoint(&folder)));
            }
        }
        false
    }

    /// The run has ended well. True if that is the end of the job, too, and not a stop.
    pub(crate) fn finish(&mut self, report: &Report, world: &mut World) -> Result<bool, String> {
        let Some(id) = report.stopped_with else { return Ok(true) };
        let Some(Stopping { folder, stop, drains, claims }) = self.stopping.take() else {
            return Err(format!("the job has stopped with savepoint {id}, for which nobody has asked"));
        };
        if stop.result() != Some(Ok(id)) {
            return Err(format!(
                "the job has stopped with savepoint {id}, the answer is {:?}",
                stop.result()
            ));
        }
        world.coverage.note(if drains { "drained jobs" } else { "suspended jobs" });
        world.expect_shown_is_covered()?;
        if drains {
            world.end_input(&folder, id)?;
        }
        world.start_from((folder, id), claims);
        rescale(world.rng.chance(50), world);
        Ok(false)
    }

    /// The run was stopped: what is left of it.
    pub(crate) fn strike(&mut self, world: &mut World) -> Verdict {
        let Some(trouble) = self.stopped_for.take() else { return Ok(()) };
        match trouble {
            Trouble::Kill { rescales } => {
                world.coverage.note("kills");
                world.disk = world.disk.image_after_kill(world.rng.any());
                rescale(rescales, world);
            }
            Trouble::PowerCut { rescales } => {
                world.note_power_cut();
                world.disk = world.disk.image_after_power_cut(world.rng.any());
                rescale(rescales, world);
            }
            Trouble::Damage => {
                world.disk = world.disk.image_after_kill(world.rng.any());
                damage(world);
            }
            Trouble::StartFromSavepoint { claims } => {
                world.disk = world.disk.image_after_kill(world.rng.any());
                world.expect_shown_is_covered()?;
                world.shown.on_older_start();
                if let Some(savepoint) = world.savepoint.take() {
                    world.start_from(savepoint, claims);
                }
                rescale(world.rng.chance(50), world);
            }
            Trouble::UserCode(..)
            | Trouble::DiskFull { .. }
            | Trouble::DiskSlow { .. }
            | Trouble::DiskError { .. }
            | Trouble::Stop { .. }
            | Trouble::Savepoint => {}
        }
        self.go_on_from_stop(world)?;
        world.expect_shown_is_covered()
    }

    /// A job that was to stop has got as far as its savepoint: what that covers may be committed, so the next start is
    /// from there.
    fn go_on_from_stop(&mut self, world: &mut World) -> Verdict {
        let Some(Stopping { folder, drains, claims, .. }) = self.stopping.take() else { return Ok(()) };
        if let Some(id) = world.savepoint_in(&folder) {
            world.coverage.note("stops that ended half way");
            world.expect_shown_is_covered()?;
            if drains {
                world.end_input(&folder, id)?;
            }
            world.start_from((folder, id), claims);
        }
        Ok(())
    }

    /// The run has failed by itself; what stopped it in the same step happens, too.
    pub(crate) fn strike_pending(&mut self, world: &mut World) -> Verdict {
        self.strike(world)?;
        self.go_on_from_stop(world)?;
        rescale(world.rng.chance(20), world);
        world.expect_shown_is_covered()
    }
}

fn rescale(rescales: bool, world: &mut World) {
    if rescales {
        world.coverage.note("rescales");
        world.rescale();
    }
}

/// One bit of one file of the newest checkpoint is the other one.
fn damage(world: &mut World) {
    let folder = world.checkpoints();
    let number = |name: &String| name.strip_prefix("chk-").and_then(|id| id.parse::<u64>().ok());
    let complete =
        |id: &u64| world.disk.names(&format!("{folder}/chk-{id}")).contains(&"_metadata".to_owned());
    let mut complete: Vec<_> = world.disk.names(&folder).iter().filter_map(number).filter(complete).collect();
    complete.sort_unstable();
    let Some(newest) = complete.pop() else { return };
    if complete.is_empty() && world.restore_from.is_some() {
        // It may be the savepoint itself, and nothing to go on from would be left.
        return;
    }
    let checkpoint = format!("{folder}/chk-{newest}");
    let files = world.disk.names(&checkpoint);
    let path = format!("{checkpoint}/{}", files[world.rng.index(files.len())]);
    let bits = world.disk.read_file(&path).map_or(0, |bytes| bytes.len() * 8);
    let bit = world.rng.index(bits);
    if bits > 0 && world.disk.flip_bit(&path, bit).is_ok() {
        world.trace(|| format!("  bit {bit} of {path} turned over"));
        world.had_damage = true;
        world.coverage.note("damaged checkpoints");
    }
}

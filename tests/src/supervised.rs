//! A job that starts again when it fails, on a virtual clock.

use slackwater::job::AssembledJob;
use slackwater::supervisor::{Restart, Supervisor, Verdict};
use slackwater::{JobError, Report};
use slackwater_core::time::Now;

use crate::driver::{Driver, End};

/// Runs jobs under a supervisor, each attempt in an order of its own.
#[derive(Debug)]
pub struct Supervised {
    seed: u64,
    /// Steps that each attempt may take.
    steps_max: u64,
    now: Now,
    /// Every restart, in order.
    pub restarts: Vec<Restart>,
}

impl Supervised {
    /// Orders follow from the seed; `steps_max` is what tells a slow attempt from one that never ends.
    #[must_use]
    pub fn new(seed: u64, steps_max: u64) -> Self {
        let now = Driver::new(seed, 0, Vec::new()).now();
        Self { seed, steps_max, now, restarts: Vec::new() }
    }

    /// What the virtual clocks say.
    #[must_use]
    pub const fn now(&self) -> Now {
        self.now
    }

    /// Runs a job until it is through or fails for good. `assemble` puts it together under the number of the attempt.
    /// `observe` is asked after every step and ends all of it by saying so, as a kill would.
    ///
    /// # Errors
    /// What the job failed with, or that it hangs.
    pub fn run(
        &mut self,
        mut supervisor: Supervisor,
        assemble: &mut dyn FnMut(u64, Now) -> Result<AssembledJob, JobError>,
        observe: &mut dyn FnMut(&AssembledJob) -> bool,
    ) -> Result<Report, Stopped> {
        loop {
            let verdict = match assemble(supervisor.attempt(), self.now) {
                Err(error) => supervisor.on_not_started(self.now, error),
                Ok(mut job) => {
                    supervisor.on_started(self.now, &job).map_err(Stopped::Failed)?;
                    self.drive(&mut job, supervisor.attempt(), observe)?;
                    supervisor.on_ended(self.now, &job)
                }
            };
            match verdict {
                Verdict::Finished(report) => return Ok(*report),
                Verdict::Failed(error) => return Err(Stopped::Failed(error)),
                Verdict::Restart(restart) => {
                    let waits = restart.at.since(self.now.monotonic);
                    self.now = Now { monotonic: restart.at, wall: self.now.wall.after(waits) };
                    self.restarts.push(restart);
                }
            }
        }
    }

    fn drive(
        &mut self,
        job: &mut AssembledJob,
        attempt: u64,
        observe: &mut dyn FnMut(&AssembledJob) -> bool,
    ) -> Result<(), Stopped> {
        let actors = job.take_actors();
        let mut driver =
            Driver::new(self.seed.wrapping_add(attempt), self.steps_max, actors).starting_at(self.now);
        let end = driver.run(&mut || observe(job));
        // A step takes less than a millisecond, so the clock may stand where it stood.
        self.now = Now { monotonic: driver.now().monotonic.max(self.now.monotonic), ..driver.now() };
        match end {
            End::Finished => Ok(()),
            End::Stopped => Err(Stopped::Here),
            End::Stuck(_) | End::OutOfSteps(_) => Err(Stopped::Hangs(end)),
        }
    }
}

/// Why a supervised job has not come to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stopped {
    /// Whoever observed it said so.
    Here,
    /// It failed for good.
    Failed(JobError),
    /// Nobody can go on, or the steps are used up.
    Hangs(End),
}

impl Stopped {
    /// What it failed with.
    ///
    /// # Panics
    /// If that is not why.
    #[must_use]
    pub fn failure(self) -> JobError {
        match self {
            Self::Failed(error) => error,
            Self::Here | Self::Hangs(_) => panic!("the job did not fail: {self:?}"),
        }
    }
}

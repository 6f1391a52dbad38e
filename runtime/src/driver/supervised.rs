//! Supervised jobs on threads.

use std::ops::ControlFlow;
use std::time::Duration;

use slackwater_core::time::Now;

use super::Clock;
use super::threads::rest_until;
use crate::error::JobError;
use crate::job::{AssembledJob, Report};
use crate::supervisor::{Restart, Supervisor, Verdict};

/// What whoever runs a supervised job is told.
#[derive(Debug)]
pub enum Moment<'a> {
    /// An attempt begins.
    Started(&'a AssembledJob),
    /// An attempt goes on; every tick.
    Running(&'a AssembledJob),
    /// An attempt has ended, well or not: its last numbers.
    Ended(&'a AssembledJob),
    /// The job has failed, and will start again.
    Restarting(&'a Restart),
    /// It waits for that; every tick.
    Waiting,
}

impl Supervisor {
    /// Runs a job until it is through or fails for good, with a thread for each actor. `assemble` puts it together, under
    /// the number of the attempt that it is given. `observe` is called at every [`Moment`]; when it breaks off, the job
    /// ends soon, without a checkpoint. No thread is left when this returns.
    ///
    /// # Errors
    /// [`JobError::GivenUp`] if the strategy allows no further restart, [`JobError::Stopped`] if `observe` broke off, or
    /// what no restart can help against; the last completed checkpoint stands.
    pub fn run(
        mut self,
        clock: Clock,
        tick: Duration,
        assemble: &mut dyn FnMut(u64, Now) -> Result<AssembledJob, JobError>,
        observe: &mut dyn FnMut(Moment<'_>) -> ControlFlow<()>,
    ) -> Result<Report, JobError> {
        loop {
            let verdict = match assemble(self.attempt(), clock.now()) {
                Err(error) => self.on_not_started(clock.now(), error),
                Ok(job) => self.attend(job, clock, tick, observe)?,
            };
            let restart = match verdict {
                Verdict::Finished(report) => return Ok(*report),
                Verdict::Failed(error) => return Err(error),
                Verdict::Restart(restart) => restart,
            };
            if wait(&restart, clock, tick, observe).is_break() {
                return Err(JobError::Stopped);
            }
        }
    }

    /// Runs one attempt.
    fn attend(
        &mut self,
        mut job: AssembledJob,
        clock: Clock,
        tick: Duration,
        observe: &mut dyn FnMut(Moment<'_>) -> ControlFlow<()>,
    ) -> Result<Verdict, JobError> {
        self.on_started(clock.now(), &job)?;
        let stop_if = |it: ControlFlow<()>, job: &AssembledJob| {
            if it.is_break() {
                job.observer().stop();
            }
        };
        stop_if(observe(Moment::Started(&job)), &job);
        job.drive(clock, tick, &mut |job| stop_if(observe(Moment::Running(job)), job));
        stop_if(observe(Moment::Ended(&job)), &job);
        Ok(self.on_ended(clock.now(), &job))
    }
}

fn wait(
    restart: &Restart,
    clock: Clock,
    tick: Duration,
    observe: &mut dyn FnMut(Moment<'_>) -> ControlFlow<()>,
) -> ControlFlow<()> {
    observe(Moment::Restarting(restart))?;
    rest_until(restart.at, clock, tick, &mut || observe(Moment::Waiting))
}

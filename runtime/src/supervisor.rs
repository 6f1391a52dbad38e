//! Starts a job again when it fails, in the same process, from its newest checkpoint.
//!
//! The whole job is put together anew each time: nothing of a failed attempt is used again but what it has made durable.
//! A [`Supervisor`] only decides and adds up. [`Supervisor::run`] drives it with threads; a loop of your own does with the
//! job that it has put together what it does with any, and tells the supervisor how each attempt has ended.
//!
//! User code that never returns cannot be stopped: the job waits for it.

mod account;

use std::fmt;

use heapless::Vec as FixedVec;
use slackwater_core::restart::{RestartAction, RestartEvent, RestartStrategy, Restarts};
use slackwater_core::time::{Millis, Now};

use self::account::Account;
pub use self::account::Cause;
use crate::error::{JobError, Remedy};
use crate::job::{AssembledJob, JobOptions, Report};
use crate::statistics::Figures;
use crate::telemetry;

/// Decides whether a job that has ended starts again, and adds up its reports.
#[derive(Debug)]
pub struct Supervisor {
    machine: Restarts,
    first_attempt: u64,
    account: Account,
    has_run: bool,
    /// The job's name, once it has been put together.
    job: String,
    /// What the next attempt goes on with.
    figures: Option<Figures>,
}

/// What follows from the end of an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The job is through; what all attempts came to.
    Finished(Box<Report>),
    /// It is to be put together again, under the number that [`Supervisor::attempt`] gives now.
    Restart(Restart),
    /// It has ended for good.
    Failed(JobError),
}

/// A restart that is due.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Restart {
    /// Why.
    pub cause: JobError,
    /// Not before this time of the monotonic clock.
    pub at: Millis,
    /// How long that is from the failure.
    pub delay: Millis,
    /// The how manieth start it will be; the first restart is the second.
    pub start: u64,
}

impl Supervisor {
    /// Of a job with these options.
    ///
    /// # Errors
    /// [`JobError::InvalidJob`]: the restart strategy makes no sense.
    pub fn new(options: &JobOptions) -> Result<Self, JobError> {
        let strategy =
            options.restart.unwrap_or_else(|| RestartStrategy::for_job(options.interval.is_some()));
        let machine = Restarts::new(strategy, options.attempt);
        Ok(Self {
            machine: machine.map_err(|error| JobError::InvalidJob { what: error.to_string() })?,
            first_attempt: options.attempt,
            account: Account::default(),
            has_run: false,
            job: String::new(),
            figures: None,
        })
    }

    /// What [`JobOptions::attempt`] must be the next time the job is put together: as many more as it was started again.
    #[must_use]
    pub const fn attempt(&self) -> u64 {
        self.first_attempt.wrapping_add(self.machine.restarts())
    }

    /// The job has been put together and runs. It goes on with the [figures](crate::statistics) of the attempt before.
    ///
    /// # Errors
    /// It was not due.
    pub fn on_started(&mut self, now: Now, job: &AssembledJob) -> Result<(), JobError> {
        self.has_run = true;
        self.job.clone_from(&job.name);
        self.figures.take().into_iter().for_each(|figures| job.shared.statistics().go_on_from(figures));
        self.tell(now, RestartEvent::JobStarted).map(drop)
    }

    /// The job could not be put together.
    pub fn on_not_started(&mut self, now: Now, error: JobError) -> Verdict {
        // It had failed behind its last checkpoint, and what the sinks had yet to commit is committed now.
        if self.has_run && matches!(error, JobError::AlreadyFinished { .. }) {
            return Verdict::Finished(Box::new(self.report()));
        }
        self.on_failed(now, error)
    }

    /// All actors of the job have finished, or have been dropped.
    pub fn on_ended(&mut self, now: Now, job: &AssembledJob) -> Verdict {
        self.account.add(job.tally());
        let Some(error) = job.failure() else { return Verdict::Finished(Box::new(self.report())) };
        match job.shared.statistics().interrupted(now) {
            Ok(figures) => self.figures = Some(figures),
            Err(rejected) => return Verdict::Failed(JobError::machine("statistics", rejected)),
        }
        self.on_failed(now, error)
    }

    /// What all attempts so far came to.
    #[must_use]
    pub fn report(&self) -> Report {
        self.account.report(self.machine.restarts())
    }

    fn on_failed(&mut self, now: Now, error: JobError) -> Verdict {
        let is_worth_it = match error.remedy() {
            Remedy::Restart => true,
            Remedy::Environment => self.has_run,
            Remedy::Person => false,
        };
        if !is_worth_it {
            return Verdict::Failed(error);
        }
        match self.tell(now, RestartEvent::JobFailed) {
            Ok(Some(RestartAction::Restart { at, restarts })) => {
                self.account.restarting(&error);
                let (delay, start) = (at.since(now.monotonic), restarts + 1);
                let restart = Restart { cause: error, at, delay, start };
                telemetry::restarting(&self.job, &restart);
                Verdict::Restart(restart)
            }
            Ok(Some(RestartAction::GiveUp)) => {
                let (restarts, cause) = (self.machine.restarts(), Box::new(error));
                Verdict::Failed(JobError::GivenUp { restarts, cause })
            }
            Ok(None) => Verdict::Failed(error),
            Err(rejected) => Verdict::Failed(rejected),
        }
    }

    fn tell(&mut self, now: Now, event: RestartEvent) -> Result<Option<RestartAction>, JobError> {
        let mut actions = FixedVec::<_, { Restarts::ACTIONS_MAX }>::new();
        let told = self.machine.on_event(now, event, &mut actions);
        told.map_err(|rejected| JobError::machine("restarts", rejected)).map(|()| actions.pop())
    }
}

impl fmt::Display for Restart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; restarting in ", self.cause)?;
        match self.delay.0 {
            millis if millis.is_multiple_of(1000) => write!(f, "{} s", millis / 1000)?,
            millis @ ..1000 => write!(f, "{millis} ms")?,
            millis => write!(f, "{}.{} s", millis / 1000, millis % 1000 / 100)?,
        }
        write!(f, ", attempt {}", self.start)
    }
}

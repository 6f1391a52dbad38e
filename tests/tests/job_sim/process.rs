//! A process, in which a supervisor starts the job again when it fails.

use slackwater::error::Remedy;
use slackwater::restart::RestartStrategy;
use slackwater::supervisor::{Restart, Supervisor, Verdict as Decision};
use slackwater::{AssembledJob, JobError, JobOptions, Report};
use slackwater_core::time::{Millis, Now};
use slackwater_tests::driver::Driver;
use slackwater_tests::rng::Rng;

use crate::world::{Verdict, World};

pub(crate) struct Process {
    supervisor: Supervisor,
    strategy: RestartStrategy,
    /// The clocks.
    pub(crate) now: Now,
    failures: u64,
    has_run: bool,
    completed: u64,
}

impl Process {
    pub(crate) fn new(options: &JobOptions) -> Result<Self, String> {
        let strategy =
            options.restart.unwrap_or_else(|| RestartStrategy::for_job(options.interval.is_some()));
        Ok(Self {
            supervisor: Supervisor::new(options).map_err(|error| error.to_string())?,
            strategy,
            now: Driver::new(0, 0, Vec::new()).now(),
            failures: 0,
            has_run: false,
            completed: 0,
        })
    }

    /// The next start is the supervisor's next.
    pub(crate) fn expect_attempt(&self, attempt: u64) -> Verdict {
        match self.supervisor.attempt() {
            supervised if supervised == attempt => Ok(()),
            supervised => Err(format!("attempt {supervised} is due, and not {attempt}")),
        }
    }

    pub(crate) fn on_started(&mut self, job: &AssembledJob) -> Verdict {
        self.has_run = true;
        self.supervisor.on_started(self.now, job).map_err(|error| error.to_string())
    }

    /// The job has ended by itself, and well: what all its attempts came to.
    pub(crate) fn on_finished(&mut self, job: &AssembledJob, report: &Report) -> Verdict {
        self.completed += report.checkpoints_completed;
        let (restarts, completed) = (self.failures, self.completed);
        let decision = self.supervisor.on_ended(self.now, job);
        let counts = job.observer().checkpoints().counts;
        // Savepoints are among those.
        if counts.completed < completed
            || counts.completed + counts.failed + counts.in_progress != counts.total
        {
            return Err(format!("{completed} checkpoints have completed in all attempts: {counts:?}"));
        }
        if let Decision::Finished(sum) = &decision
            && (sum.restarts, sum.checkpoints_completed) == (restarts, completed)
        {
            return Ok(());
        }
        Err(format!("{restarts} restarts, {completed} checkpoints in all: {decision:?}"))
    }

    /// The job had come to its end before this start.
    pub(crate) fn on_already_finished(mut self, error: JobError) -> Verdict {
        let has_run = self.has_run;
        match self.supervisor.on_not_started(self.now, error) {
            Decision::Finished(sum) if has_run && sum.restarts == self.failures => Ok(()),
            Decision::Failed(JobError::AlreadyFinished { .. }) if !has_run => Ok(()),
            decision @ (Decision::Finished(_) | Decision::Restart(_) | Decision::Failed(_)) => {
                Err(format!("a job that had finished, has run: {has_run}: {decision:?}"))
            }
        }
    }

    /// Whether the job starts again in this process, and whether that was right.
    fn check(&mut self, error: &JobError, decision: &Decision) -> Result<bool, String> {
        self.failures += 1;
        let is_worth_it = match error.remedy() {
            Remedy::Restart => true,
            Remedy::Environment => self.has_run,
            Remedy::Person => false,
        };
        let is_right = match decision {
            Decision::Finished(_) => false,
            Decision::Restart(restart) => is_worth_it && restart.cause == *error && self.is_in_time(restart),
            Decision::Failed(JobError::GivenUp { restarts, cause }) => {
                is_worth_it
                    && **cause == *error
                    && self.allows() == Some(*restarts)
                    && *restarts + 1 == self.failures
            }
            Decision::Failed(same) => !is_worth_it && same == error,
        };
        if !is_right {
            let (strategy, failures) = (self.strategy, self.failures);
            return Err(format!("{strategy:?}, failure {failures}, {error}: {decision:?}"));
        }
        let Decision::Restart(restart) = decision else { return Ok(false) };
        self.now = Now { monotonic: restart.at, wall: self.now.wall.after(restart.delay) };
        Ok(true)
    }

    /// How many restarts there may be, if there is a limit.
    const fn allows(&self) -> Option<u64> {
        match self.strategy {
            RestartStrategy::None => Some(0),
            RestartStrategy::FixedDelay { attempts, .. } => Some(attempts as u64),
            RestartStrategy::ExponentialDelay(_) | RestartStrategy::FailureRate { .. } => None,
        }
    }

    fn is_in_time(&self, restart: &Restart) -> bool {
        let is_delay = match self.strategy {
            RestartStrategy::None | RestartStrategy::FailureRate { .. } => false,
            RestartStrategy::FixedDelay { delay, .. } => restart.delay == delay,
            RestartStrategy::ExponentialDelay(delays) => {
                (delays.initial..=delays.max).contains(&restart.delay)
            }
        };
        is_delay
            && restart.at == self.now.monotonic.after(restart.delay)
            && restart.start == self.failures + 1
            && self.allows().is_none_or(|allows| self.failures <= allows)
    }
}

impl World {
    /// The job has failed, or could not be put together: the supervisor decides whether this process goes on.
    pub(crate) fn on_failed(&mut self, error: &JobError, job: Option<&AssembledJob>) -> Verdict {
        let Some(process) = &mut self.process else { return Ok(()) };
        let decision = match job {
            Some(job) => {
                process.completed += job.observer().progress().checkpoints_completed;
                process.supervisor.on_ended(process.now, job)
            }
            None => process.supervisor.on_not_started(process.now, error.clone()),
        };
        if process.check(error, &decision)? {
            self.coverage.note("restarts by the supervisor");
        } else {
            let is_given_up = matches!(decision, Decision::Failed(JobError::GivenUp { .. }));
            let what = if is_given_up { "jobs that were given up" } else { "failures that no restart helps" };
            self.coverage.note(what);
            self.process = None;
        }
        Ok(())
    }
}

/// A strategy that says how many restarts there are.
pub(crate) fn strategy(rng: &mut Rng) -> Option<RestartStrategy> {
    match rng.below(5) {
        0 => Some(RestartStrategy::None),
        1 | 2 => {
            let attempts = 1 + u32::try_from(rng.below(3)).expect("few");
            Some(RestartStrategy::FixedDelay { attempts, delay: Millis(rng.below(200)) })
        }
        _ => None,
    }
}

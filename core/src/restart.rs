//! Whether a job that has failed starts again, and when (rule L1; Flink: `RestartBackoffTimeStrategy`).
//!
//! The whole job starts again, from its newest checkpoint; the machine only counts and waits. A strategy never says more
//! than "at this time" or "no more", so whoever starts the job decides what is worth a restart at all. The work of each
//! event is bounded by [`FAILURES_MAX`].
//!
//! # Invariants
//! - JI1: the next delay of an exponential strategy lies between its first and its longest.
//! - JI2: no more failures are remembered than the strategy looks at.

mod strategy;
#[cfg(test)]
mod tests;

use heapless::{Deque, VecView};

pub use self::strategy::{ExponentialDelay, FAILURES_MAX, InvalidStrategy, RestartStrategy};
use crate::draw::Draws;
use crate::machine::{Admission, Orders, Rejected, first_broken};
use crate::time::{Millis, Now};

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RestartEvent {
    /// The job has started: all its state is restored and its tasks run.
    JobStarted,
    /// It has failed, or could not be started.
    JobFailed,
}

/// What must be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RestartAction {
    /// Start the job again, not before this time.
    Restart {
        /// By the monotonic clock.
        at: Millis,
        /// How many restarts there have been with this one.
        restarts: u64,
    },
    /// Leave it.
    GiveUp,
}

/// Restarts of one job.
#[derive(Clone, Debug)]
pub struct Restarts {
    admission: Admission,
    strategy: RestartStrategy,
    state: State,
    restarts: u64,
    /// Restarts that count against the attempts allowed.
    attempts: u64,
    /// The next delay of an exponential strategy, before jitter.
    delay: Millis,
    draws: Draws,
    /// The newest failures, oldest first, of a failure rate.
    failures: Deque<Millis, { FAILURES_MAX as usize }>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Due to be started at this time.
    Due(Millis),
    Running {
        since: Millis,
    },
    Over,
}

impl Restarts {
    /// The most actions that one event gives.
    pub const ACTIONS_MAX: usize = 1;

    /// A job that has not been started. `seed` is of the jitter: jobs that have failed together shall not all come back
    /// together.
    ///
    /// # Errors
    /// What makes no sense in the strategy.
    pub fn new(strategy: RestartStrategy, seed: u64) -> Result<Self, InvalidStrategy> {
        strategy.validate()?;
        let delay = match strategy {
            RestartStrategy::ExponentialDelay(delays) => delays.initial,
            RestartStrategy::None
            | RestartStrategy::FixedDelay { .. }
            | RestartStrategy::FailureRate { .. } => Millis(0),
        };
        Ok(Self {
            admission: Admission::default(),
            strategy,
            state: State::Due(Millis(0)),
            restarts: 0,
            attempts: 0,
            delay,
            draws: Draws::new(seed),
            failures: Deque::new(),
        })
    }

    /// Takes an event and writes what must be done into `out`.
    ///
    /// # Errors
    /// [`Rejected`]; the machine is unchanged.
    pub fn on_event(
        &mut self,
        now: Now,
        event: RestartEvent,
        out: &mut VecView<RestartAction>,
    ) -> Result<(), Rejected> {
        self.admission.admit(now, out, Self::ACTIONS_MAX)?;
        let mut orders = Orders::new(out, Self::ACTIONS_MAX);
        match (self.state, event) {
            (State::Over, _) => return unexpected("the job was left"),
            (State::Due(at), _) if now.monotonic < at => return unexpected("the job is not due yet"),
            (State::Due(_), RestartEvent::JobStarted) => self.state = State::Running { since: now.monotonic },
            (State::Running { .. }, RestartEvent::JobStarted) => return unexpected("the job runs"),
            (State::Due(_), RestartEvent::JobFailed) => self.on_failed(now, Millis(0), &mut orders),
            (State::Running { since }, RestartEvent::JobFailed) => {
                self.on_failed(now, now.monotonic.since(since), &mut orders);
            }
        }
        self.admission.conclude(&orders, self.broken_invariant())
    }

    fn on_failed(&mut self, now: Now, ran_for: Millis, orders: &mut Orders<'_, RestartAction>) {
        let Some(delay) = self.delay(now, ran_for) else {
            self.state = State::Over;
            return orders.push(RestartAction::GiveUp);
        };
        let at = now.monotonic.after(delay);
        self.restarts = self.restarts.saturating_add(1);
        self.state = State::Due(at);
        orders.push(RestartAction::Restart { at, restarts: self.restarts });
    }

    /// How long a job has to wait that has failed now, having run for a while; nothing if it is to be left.
    fn delay(&mut self, now: Now, ran_for: Millis) -> Option<Millis> {
        match self.strategy {
            RestartStrategy::None => None,
            RestartStrategy::FixedDelay { attempts, delay } => self.attempt(attempts).then_some(delay),
            RestartStrategy::ExponentialDelay(delays) => {
                if ran_for >= delays.reset_after {
                    (self.delay, self.attempts) = (delays.initial, 0);
                }
                let delay = delays.with_jitter(self.delay, &mut self.draws);
                self.delay = delays.longer(self.delay);
                self.attempt(delays.attempts).then_some(delay)
            }
            RestartStrategy::FailureRate { failures_max, interval, delay } => {
                self.is_within_rate(now, failures_max, interval).then_some(delay)
            }
        }
    }

    /// Counts one more, if it is allowed.
    fn attempt(&mut self, allowed: u32) -> bool {
        let is_allowed = allowed == u32::MAX || self.attempts < u64::from(allowed);
        self.attempts = self.attempts.saturating_add(u64::from(is_allowed));
        is_allowed
    }

    /// Remembers a failure; false if there have been more than `failures_max` of them within the interval.
    fn is_within_rate(&mut self, now: Now, failures_max: u16, interval: Millis) -> bool {
        if self.failures.len() < usize::from(failures_max) {
            // There is room for as many as a strategy may allow.
            self.failures.push_back(now.monotonic).unwrap_or_default();
            return true;
        }
        let oldest = self.failures.pop_front();
        self.failures.push_back(now.monotonic).unwrap_or_default();
        oldest.is_some_and(|oldest| now.monotonic.since(oldest) > interval)
    }

    /// When a job that has failed is due.
    #[must_use]
    pub const fn next_deadline(&self, _now: Now) -> Option<Millis> {
        match self.state {
            State::Due(at) => Some(at),
            State::Running { .. } | State::Over => None,
        }
    }

    /// Restarts ordered so far.
    #[must_use]
    pub const fn restarts(&self) -> u64 {
        self.restarts
    }

    /// Asserts every invariant.
    ///
    /// # Panics
    /// If one does not hold.
    pub fn check(&self) {
        assert_eq!(self.broken_invariant(), None);
    }

    fn broken_invariant(&self) -> Option<&'static str> {
        let (delays_fit, remembered_max) = match self.strategy {
            RestartStrategy::ExponentialDelay(delays) => {
                ((delays.initial..=delays.max).contains(&self.delay), 0)
            }
            RestartStrategy::FailureRate { failures_max, .. } => (true, usize::from(failures_max)),
            RestartStrategy::None | RestartStrategy::FixedDelay { .. } => (true, 0),
        };
        first_broken(&[("JI1", delays_fit), ("JI2", self.failures.len() <= remembered_max)])
    }
}

const fn unexpected(what: &'static str) -> Result<(), Rejected> {
    Err(Rejected::Unexpected { what })
}

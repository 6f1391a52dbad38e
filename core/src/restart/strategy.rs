//! How often a failed job starts again, and after what delay.

use core::fmt;

use crate::draw::Draws;
use crate::time::Millis;

/// The most failures that a failure rate can allow.
pub const FAILURES_MAX: u16 = 32;

/// How often a failed job starts again, and after what delay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RestartStrategy {
    /// Never.
    None,
    /// Always after the same delay.
    FixedDelay {
        /// How often, over the whole life of the job; `u32::MAX`: any number.
        attempts: u32,
        /// Time from the failure to the restart.
        delay: Millis,
    },
    /// After a delay that grows while it keeps failing.
    ExponentialDelay(ExponentialDelay),
    /// Always after the same delay, as long as failures are few.
    FailureRate {
        /// So many failures within any `interval` are survived, 1 to [`FAILURES_MAX`].
        failures_max: u16,
        /// The span that they are counted over.
        interval: Millis,
        /// Time from the failure to the restart.
        delay: Millis,
    },
}

/// Delays that grow from one failure to the next. The defaults are Flink's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExponentialDelay {
    /// The first, at least 1 ms.
    pub initial: Millis,
    /// The longest.
    pub max: Millis,
    /// Each is so many percent of the one before, more than 100.
    pub multiplier_percent: u32,
    /// A job that has run for so long begins with the first again.
    pub reset_after: Millis,
    /// By so many percent each is longer or shorter, at random, within the first and the longest; at most 100.
    pub jitter_percent: u32,
    /// How often in a row; `u32::MAX`: any number.
    pub attempts: u32,
}

impl Default for ExponentialDelay {
    fn default() -> Self {
        Self {
            initial: Millis(1_000),
            max: Millis(60_000),
            multiplier_percent: 150,
            reset_after: Millis(60 * 60 * 1_000),
            jitter_percent: 10,
            attempts: u32::MAX,
        }
    }
}

impl RestartStrategy {
    /// What holds where nobody has said otherwise: with periodic checkpoints without limit (rule L1), without them none.
    #[must_use]
    pub fn for_job(has_checkpoints: bool) -> Self {
        if has_checkpoints { Self::ExponentialDelay(ExponentialDelay::default()) } else { Self::None }
    }

    pub(super) fn validate(&self) -> Result<(), InvalidStrategy> {
        match *self {
            Self::None | Self::FixedDelay { .. } => Ok(()),
            Self::ExponentialDelay(delays) => delays.validate(),
            Self::FailureRate { failures_max, .. } if (1..=FAILURES_MAX).contains(&failures_max) => Ok(()),
            Self::FailureRate { failures_max, .. } => Err(InvalidStrategy::Failures(failures_max)),
        }
    }
}

impl ExponentialDelay {
    const fn validate(&self) -> Result<(), InvalidStrategy> {
        if self.initial.0 == 0 || self.initial.0 > self.max.0 {
            return Err(InvalidStrategy::Delays { initial: self.initial, max: self.max });
        }
        match (self.multiplier_percent, self.jitter_percent) {
            (multiplier @ ..=100, _) => Err(InvalidStrategy::Multiplier(multiplier)),
            (_, jitter @ 101..) => Err(InvalidStrategy::Jitter(jitter)),
            _ => Ok(()),
        }
    }

    /// The delay after this one. It does grow, however short it is.
    pub(super) fn longer(&self, delay: Millis) -> Millis {
        Millis(percent(delay.0, self.multiplier_percent).max(delay.0.saturating_add(1)).min(self.max.0))
    }

    pub(super) fn with_jitter(&self, delay: Millis, draws: &mut Draws) -> Millis {
        let by = Millis(percent(delay.0, self.jitter_percent));
        let drawn = draws.within(Millis(delay.since(by).0), delay.after(by));
        drawn.max(self.initial).min(self.max)
    }
}

/// So many percent of a number, as far as they fit.
fn percent(number: u64, percent: u32) -> u64 {
    let product = u128::from(number).saturating_mul(u128::from(percent));
    u64::try_from(product / 100).unwrap_or(u64::MAX)
}

/// What makes no sense in a strategy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InvalidStrategy {
    /// The first delay is zero, or above the longest.
    Delays {
        /// The first.
        initial: Millis,
        /// The longest.
        max: Millis,
    },
    /// Delays would not grow.
    Multiplier(u32),
    /// A delay would be shortened by more than it is.
    Jitter(u32),
    /// No failure, or more than [`FAILURES_MAX`], may happen within the interval.
    Failures(u16),
}

impl fmt::Display for InvalidStrategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("restart strategy: ")?;
        match self {
            Self::Delays { initial, max } => {
                write!(f, "delays from {initial} to {max}: begin with at least 1 ms and at most the longest")
            }
            Self::Multiplier(percent) => {
                write!(f, "delays grow by a factor of {percent} %: take more than 100")
            }
            Self::Jitter(percent) => write!(f, "a jitter of {percent} %: take at most 100"),
            Self::Failures(failures) => {
                write!(f, "{failures} failures within the interval: allow 1 to {FAILURES_MAX}")
            }
        }
    }
}

impl core::error::Error for InvalidStrategy {}

//! The only place that reads the machine's clocks.
#![expect(clippy::disallowed_methods, reason = "everything else takes the time as an argument")]

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use slackwater_core::time::{Millis, Now};

/// Reads the machine's clocks.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    start: Instant,
}

impl Clock {
    /// A clock whose monotonic side starts at zero now.
    #[must_use]
    pub fn start() -> Self {
        Self { start: Instant::now() }
    }

    /// What the clocks say.
    #[must_use]
    pub fn now(&self) -> Now {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Now { monotonic: millis(self.start.elapsed()), wall: millis(wall) }
    }

    /// How long until a moment of the monotonic side; zero if it has passed.
    #[must_use]
    pub fn until(&self, deadline: Millis) -> Duration {
        Duration::from_millis(deadline.0).saturating_sub(self.start.elapsed())
    }
}

fn millis(span: Duration) -> Millis {
    Millis(u64::try_from(span.as_millis()).unwrap_or(u64::MAX))
}

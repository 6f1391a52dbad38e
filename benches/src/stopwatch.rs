//! The only place of this crate that reads a clock.
#![expect(clippy::disallowed_methods, reason = "measuring is what this crate is for")]

use std::time::{Duration, Instant};

/// Measures how long something takes.
#[derive(Clone, Copy, Debug)]
pub struct Stopwatch {
    start: Instant,
}

impl Stopwatch {
    /// Starts to measure.
    #[must_use]
    pub fn start() -> Self {
        Self { start: Instant::now() }
    }

    /// The time since the start or the last lap, and starts again.
    pub fn lap(&mut self) -> Duration {
        let now = Instant::now();
        let lap = now.duration_since(self.start);
        self.start = now;
        lap
    }

    /// The time since the start or the last lap.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.start.elapsed()
    }
}

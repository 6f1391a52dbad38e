//! The only place of this crate that reads clocks.
#![expect(clippy::disallowed_methods, reason = "measuring is what this crate is for")]

use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

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

/// Processor time that all threads of this process have used, the kernel's part included.
#[must_use]
pub fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
    Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or_default())
}

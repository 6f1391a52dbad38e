//! When half-filled batches leave a task that does not rest.

use slackwater_core::time::Millis;

/// Keeps in mind when everything was last sent. A task that rests has sent everything, so a record waits for its batch no
/// longer than the time-out and one step.
#[derive(Debug)]
pub(super) struct Flushing {
    timeout: Millis,
    last: Millis,
}

impl Flushing {
    pub(super) const fn new(timeout: Millis) -> Self {
        Self { timeout, last: Millis(0) }
    }

    pub(super) const fn is_due(&self, now: Millis) -> bool {
        now.since(self.last).0 >= self.timeout.0
    }

    pub(super) const fn flushed(&mut self, now: Millis) {
        self.last = now;
    }
}

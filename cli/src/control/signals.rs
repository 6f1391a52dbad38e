//! SIGTERM and SIGINT: the first asks the job to stop, a second one ends the process as it would without us.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

/// Whether a signal has come.
pub(crate) struct Signals {
    has_come: Arc<AtomicBool>,
}

impl Signals {
    pub(crate) fn register() -> io::Result<Self> {
        let has_come = Arc::new(AtomicBool::new(false));
        for signal in [SIGTERM, SIGINT] {
            // In this order: the first one finds the flag down.
            flag::register_conditional_default(signal, Arc::clone(&has_come))?;
            flag::register(signal, Arc::clone(&has_come))?;
        }
        Ok(Self { has_come })
    }

    pub(crate) fn is_set(&self) -> bool {
        self.has_come.load(Ordering::Acquire)
    }

    /// The job could not be stopped and goes on: the next signal asks again.
    pub(crate) fn rearm(&self) {
        self.has_come.store(false, Ordering::Release);
    }
}

//! An actor whose panic is an error of its job, whoever drives it.

use std::task::Waker;

use slackwater_core::time::Now;

use super::{Actor, Step};
use crate::error::JobError;
use crate::panics;
use crate::shared::Shared;

/// Ends the job when `actor` panics, and never steps it again.
pub(crate) struct Guarded<A> {
    actor: A,
    shared: Shared,
    has_panicked: bool,
}

impl<A: Actor> Guarded<A> {
    pub(crate) const fn new(actor: A, shared: Shared) -> Self {
        Self { actor, shared, has_panicked: false }
    }
}

impl<A: Actor> Actor for Guarded<A> {
    fn step(&mut self, now: Now) -> Step {
        if self.has_panicked {
            return Step::Finished;
        }
        panics::catch(|| self.actor.step(now)).unwrap_or_else(|message| {
            self.has_panicked = true;
            self.shared.fail(JobError::Panicked { task: self.actor.name().to_owned(), message });
            Step::Finished
        })
    }

    fn set_waker(&mut self, waker: Waker) {
        self.actor.set_waker(waker);
    }

    fn name(&self) -> &str {
        self.actor.name()
    }

    fn wait_for_disk(&mut self) {
        self.actor.wait_for_disk();
    }
}

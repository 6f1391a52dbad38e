//! Layers over the actors and the disk of a job: some dally, and the disk is slow at times.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Waker;

use heapless::VecView;
use slackwater::Observer;
use slackwater::actor::{Actor, Step};
use slackwater_core::durable::{Completion, Disk, Layer, Layered, Wait};
use slackwater_core::time::Now;
use slackwater_tests::rng::Rng;

/// Does nothing in some of its steps.
pub(crate) struct Dallying {
    pub(crate) actor: Box<dyn Actor>,
    pub(crate) observer: Observer,
    pub(crate) rng: Rng,
    pub(crate) percent: u64,
}

impl Actor for Dallying {
    fn step(&mut self, now: Now) -> Step {
        if self.rng.chance(self.percent) && !self.observer.is_over() {
            return Step::Progress;
        }
        self.actor.step(now)
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

/// Whether the disk is slow now; clones are the same.
#[derive(Clone, Debug, Default)]
pub(crate) struct Weather(Arc<AtomicBool>);

impl Weather {
    pub(crate) fn set_slow(&self, is_slow: bool) {
        self.0.store(is_slow, Ordering::Relaxed);
    }

    fn is_slow(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// A disk that is slow in such weather.
pub(crate) type Slow<D> = Layered<D, Weather>;

/// The disk tells of nothing while it is slow, unless it is waited for.
impl<D: Disk> Layer<D> for Weather {
    fn reap(&mut self, disk: &mut D, wait: Wait, out: &mut VecView<Completion<D::Block>>) -> usize {
        if wait == Wait::No && self.is_slow() { 0 } else { disk.reap(wait, out) }
    }
}

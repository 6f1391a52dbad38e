//! Runs actors one step at a time, in an order that a seed chooses, on a virtual clock: no thread, no waiting.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Wake, Waker};

use slackwater::actor::{Actor, Parked, ParkedOn, Step};
use slackwater_core::time::{Millis, Now};

use crate::rng::Rng;

/// The clocks' start; they differ so that nobody mixes them up.
const MONOTONIC_START_MS: u64 = 5_000;
const WALL_START_MS: u64 = 1_700_000_000_000;
/// A step takes up to this long by the virtual clock.
const STEP_MICROS_MAX: u64 = 1000;
/// A long step: a small job comes to several checkpoints.
const LONG_STEP_MICROS_MAX: u64 = 3000;

/// Actors and the virtual clock they live by.
pub struct Driver {
    slots: Vec<Slot>,
    rng: Rng,
    micros: u64,
    steps: u64,
    steps_max: u64,
    step_micros_max: u64,
    waits_for_disk: bool,
}

struct Slot {
    actor: Box<dyn Actor>,
    woken: Arc<Flag>,
    rest: Rest,
}

#[derive(Clone, Copy, Debug)]
enum Rest {
    Ready,
    Parked(Parked),
    Finished,
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// Every actor has finished.
    Finished,
    /// The caller said stop.
    Stopped,
    /// Nobody can go on: each unfinished actor and what it waits for.
    Stuck(Vec<(String, ParkedOn)>),
    /// The step budget is used up: each unfinished actor's name.
    OutOfSteps(Vec<String>),
}

struct Flag(AtomicBool);

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Driver {
    /// A driver of these actors; `steps_max` is what tells a slow run from one that never ends.
    #[must_use]
    pub fn new(seed: u64, steps_max: u64, actors: Vec<Box<dyn Actor>>) -> Self {
        let slots = actors.into_iter().map(Slot::new).collect();
        Self {
            slots,
            rng: Rng::new(seed),
            micros: 0,
            steps: 0,
            steps_max,
            step_micros_max: STEP_MICROS_MAX,
            waits_for_disk: false,
        }
    }

    /// With clocks that go on from where another driver's stand.
    #[must_use]
    pub fn starting_at(self, now: Now) -> Self {
        Self { micros: now.monotonic.since(Millis(MONOTONIC_START_MS)).0 * 1000, ..self }
    }

    /// With steps that take longer by the virtual clock.
    #[must_use]
    pub fn with_long_steps(self) -> Self {
        Self { step_micros_max: LONG_STEP_MICROS_MAX, ..self }
    }

    /// On a real disk: an actor that has nothing but the disk to wait for does, in no virtual time, instead of
    /// being asked again and again.
    #[must_use]
    pub fn waiting_for_disk(self) -> Self {
        Self { waits_for_disk: true, ..self }
    }

    /// What the virtual clocks say.
    #[must_use]
    pub const fn now(&self) -> Now {
        let ms = self.micros / 1000;
        Now { monotonic: Millis(MONOTONIC_START_MS + ms), wall: Millis(WALL_START_MS + ms) }
    }

    /// Steps taken so far.
    #[must_use]
    pub const fn steps(&self) -> u64 {
        self.steps
    }

    /// Runs until all have finished, or until `stop`, asked after every step, says so.
    pub fn run(&mut self, stop: &mut dyn FnMut() -> bool) -> End {
        while self.slots.iter().any(|slot| !matches!(slot.rest, Rest::Finished)) {
            if self.steps == self.steps_max {
                return End::OutOfSteps(self.unfinished().into_iter().map(|(name, _)| name).collect());
            }
            let Some(index) = self.choose() else { return End::Stuck(self.unfinished()) };
            self.step(index);
            if stop() {
                return End::Stopped;
            }
        }
        End::Finished
    }

    fn step(&mut self, index: usize) {
        self.steps += 1;
        self.micros += self.rng.below(self.step_micros_max);
        let now = self.now();
        let slot = &mut self.slots[index];
        slot.woken.0.store(false, Ordering::Relaxed);
        slot.rest = match slot.actor.step(now) {
            Step::Progress => Rest::Ready,
            Step::Parked(parked) => {
                if self.waits_for_disk && parked.on == ParkedOn::Disk {
                    slot.actor.wait_for_disk();
                }
                Rest::Parked(parked)
            }
            Step::Finished => Rest::Finished,
        };
    }

    /// One of those that can go on; if there is none, the clock goes to the nearest deadline first.
    fn choose(&mut self) -> Option<usize> {
        let now = self.now().monotonic;
        let mut ready: Vec<usize> = self.indices(|slot| slot.is_ready(now));
        if ready.is_empty() {
            let deadline = self.slots.iter().filter_map(Slot::deadline).min()?;
            self.micros = deadline.since(Millis(MONOTONIC_START_MS)).0 * 1000;
            ready = self.indices(|slot| slot.is_ready(deadline));
        }
        Some(ready[self.rng.index(ready.len())])
    }

    fn indices(&self, is_one: impl Fn(&Slot) -> bool) -> Vec<usize> {
        self.slots.iter().enumerate().filter(|(_, slot)| is_one(slot)).map(|(index, _)| index).collect()
    }

    fn unfinished(&self) -> Vec<(String, ParkedOn)> {
        let waits_for = |slot: &Slot| match slot.rest {
            Rest::Parked(parked) => Some((slot.actor.name().to_owned(), parked.on)),
            Rest::Ready => Some((slot.actor.name().to_owned(), ParkedOn::Mail)),
            Rest::Finished => None,
        };
        self.slots.iter().filter_map(waits_for).collect()
    }
}

impl Slot {
    fn new(mut actor: Box<dyn Actor>) -> Self {
        let woken = Arc::new(Flag(AtomicBool::new(false)));
        actor.set_waker(Waker::from(Arc::clone(&woken)));
        Self { actor, woken, rest: Rest::Ready }
    }

    /// A simulated disk always has something for whoever waits for it, and so has one that was waited for.
    fn is_ready(&self, now: Millis) -> bool {
        match self.rest {
            Rest::Ready => true,
            Rest::Finished => false,
            Rest::Parked(parked) => {
                parked.on == ParkedOn::Disk
                    || parked.deadline.is_some_and(|deadline| deadline <= now)
                    || self.woken.0.load(Ordering::Relaxed)
            }
        }
    }

    fn deadline(&self) -> Option<Millis> {
        match self.rest {
            Rest::Parked(parked) => parked.deadline,
            Rest::Ready | Rest::Finished => None,
        }
    }
}

impl fmt::Debug for Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Driver");
        shown.field("steps", &self.steps).field("micros", &self.micros).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::{Actor, Driver, End, Millis, Now, Parked, ParkedOn, Step, Waker};

    /// Passes a ball between two: each waits until it is woken by the other.
    struct Player {
        ball: Arc<Mutex<u32>>,
        mine: u32,
        other: Arc<Mutex<Option<Waker>>>,
        own: Arc<Mutex<Option<Waker>>>,
    }

    impl Actor for Player {
        fn step(&mut self, _: Now) -> Step {
            let mut ball = self.ball.lock().unwrap();
            if *ball >= 10 {
                return Step::Finished;
            }
            if *ball % 2 == self.mine {
                *ball += 1;
                if let Some(waker) = &*self.other.lock().unwrap() {
                    waker.wake_by_ref();
                }
                return Step::Progress;
            }
            Step::parked(ParkedOn::Mail)
        }

        fn set_waker(&mut self, waker: Waker) {
            *self.own.lock().unwrap() = Some(waker);
        }

        fn name(&self) -> &'static str {
            "player"
        }
    }

    fn players(seed: u64, steps_max: u64, wakes: bool) -> Driver {
        let ball = Arc::new(Mutex::new(0));
        let wakers = [Arc::new(Mutex::new(None)), Arc::new(Mutex::new(None))];
        let player = |mine: u32, own: usize, other: usize| -> Box<dyn Actor> {
            let other = if wakes { Arc::clone(&wakers[other]) } else { Arc::default() };
            Box::new(Player { ball: Arc::clone(&ball), mine, other, own: Arc::clone(&wakers[own]) })
        };
        Driver::new(seed, steps_max, vec![player(0, 0, 1), player(1, 1, 0)])
    }

    #[test]
    fn actors_that_wake_each_other_finish() {
        for seed in 0..20 {
            assert_eq!(players(seed, 1000, true).run(&mut || false), End::Finished, "seed {seed}");
        }
    }

    #[test]
    fn a_lost_wake_up_and_an_endless_run_are_told_apart() {
        assert!((0..20).any(|seed| matches!(players(seed, 1000, false).run(&mut || false), End::Stuck(_))));
        assert!(matches!(players(1, 5, true).run(&mut || false), End::OutOfSteps(_)));
        assert_eq!(players(1, 5, true).run(&mut || true), End::Stopped);
    }

    struct Sleeper(Vec<Millis>);

    impl Actor for Sleeper {
        fn step(&mut self, now: Now) -> Step {
            self.0.push(now.monotonic);
            let deadline = Some(now.monotonic.after(Millis(1000)));
            if self.0.len() > 3 {
                Step::Finished
            } else {
                Step::Parked(Parked { deadline, on: ParkedOn::Mail })
            }
        }

        fn set_waker(&mut self, _: Waker) {}

        fn name(&self) -> &'static str {
            "sleeper"
        }
    }

    #[test]
    fn the_clock_jumps_to_the_nearest_deadline() {
        let mut driver = Driver::new(0, 100, vec![Box::new(Sleeper(Vec::new()))]);
        let start = driver.now().monotonic;
        assert_eq!(driver.run(&mut || false), End::Finished);
        let passed = driver.now().monotonic.since(start).0;
        assert!((3000..3010).contains(&passed), "{passed} ms for three naps of a second");
    }
}

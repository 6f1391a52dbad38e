//! One thread per actor, parked while its actor has nothing to do.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::task::{Wake, Waker};
use std::thread::{self, Scope, ScopedJoinHandle, Thread};
use std::time::Duration;

use slackwater_core::time::Millis;

use crate::actor::{Actor, Parked, ParkedOn, Step};
use crate::driver::Clock;
use crate::error::JobError;
use crate::panics;

/// Runs actors until all have finished, each on a thread of its own, and calls `observe` every `tick`
/// on the calling thread meanwhile. No thread is left when it returns, and all actors have been dropped.
///
/// # Errors
/// [`JobError::Panicked`] or [`JobError::NoThread`] of the first actor that panicked, when it was stepped or dropped, or
/// whose thread could not be started. All others were stopped where they stood. A job's own actors do not let their
/// panics out when they are stepped: the job fails with them.
pub fn run_on_threads(
    actors: Vec<Box<dyn Actor>>,
    clock: Clock,
    tick: Duration,
    observe: &mut dyn FnMut(),
) -> Result<(), JobError> {
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let (sender, ended) = channel();
        let mut threads = Vec::new();
        for actor in actors {
            match spawn(scope, actor, clock, &stop, sender.clone()) {
                Ok(thread) => threads.push(thread),
                Err(failure) => {
                    stop_all(&stop, &threads);
                    return Err(failure);
                }
            }
        }
        wait_for_all(&ended, &threads, &stop, tick, observe)
    })
}

/// Waits until a moment, and calls `observe` every `tick` meanwhile, which may say that it is enough.
pub(super) fn rest_until(
    at: Millis,
    clock: Clock,
    tick: Duration,
    observe: &mut dyn FnMut() -> ControlFlow<()>,
) -> ControlFlow<()> {
    while !clock.until(at).is_zero() {
        thread::park_timeout(clock.until(at).min(tick));
        observe()?;
    }
    ControlFlow::Continue(())
}

type Ended = Result<(), JobError>;

fn spawn<'scope>(
    scope: &'scope Scope<'scope, '_>,
    mut actor: Box<dyn Actor>,
    clock: Clock,
    stop: &'scope AtomicBool,
    ended: Sender<Ended>,
) -> Result<ScopedJoinHandle<'scope, ()>, JobError> {
    let name = actor.name().to_owned();
    let task = name.clone();
    let body = move || {
        let driven = panics::catch(|| drive(&mut *actor, clock, stop));
        // What user code holds may panic as it goes; then, too, the others are to be heard.
        let dropped = panics::catch(|| drop(actor));
        let end = driven.and(dropped).map_err(|message| JobError::Panicked { task, message });
        let unheard = ended.send(end);
        debug_assert!(unheard.is_ok(), "the calling thread listens until every thread has ended");
    };
    let spawned = thread::Builder::new().name(name.clone()).spawn_scoped(scope, body);
    spawned.map_err(|error| JobError::NoThread { task: name, message: error.to_string() })
}

fn wait_for_all(
    ended: &Receiver<Ended>,
    threads: &[ScopedJoinHandle<'_, ()>],
    stop: &AtomicBool,
    tick: Duration,
    observe: &mut dyn FnMut(),
) -> Ended {
    let mut result = Ok(());
    let mut running = threads.len();
    while running > 0 {
        match ended.recv_timeout(tick) {
            Ok(end) => {
                running -= 1;
                if result.is_ok() && end.is_err() {
                    result = end;
                    stop_all(stop, threads);
                }
            }
            Err(RecvTimeoutError::Timeout) => observe(),
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    result
}

fn stop_all(stop: &AtomicBool, threads: &[ScopedJoinHandle<'_, ()>]) {
    stop.store(true, Ordering::Release);
    threads.iter().for_each(|thread| thread.thread().unpark());
}

fn drive(actor: &mut dyn Actor, clock: Clock, stop: &AtomicBool) {
    actor.set_waker(Waker::from(Arc::new(Unpark(thread::current()))));
    while !stop.load(Ordering::Acquire) {
        match actor.step(clock.now()) {
            Step::Progress => {}
            Step::Finished => return,
            Step::Parked(Parked { on: ParkedOn::Disk, .. }) => actor.wait_for_disk(),
            Step::Parked(Parked { deadline, .. }) => park(clock, deadline),
        }
    }
}

fn park(clock: Clock, deadline: Option<Millis>) {
    match deadline {
        Some(deadline) => thread::park_timeout(clock.until(deadline)),
        None => thread::park(),
    }
}

/// A wake-up before the actor parks is not lost: the thread's token makes the park return at once.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.unpark();
    }
}

#[cfg(test)]
mod tests {
    use super::run_on_threads;
    use crate::actor::{Actor, Mailbox, ParkedOn, Signal, Step};
    use crate::driver::Clock;
    use slackwater_core::time::Now;
    use std::task::Waker;
    use std::time::Duration;

    /// Passes a number down until it is zero.
    struct Player {
        name: &'static str,
        inbox: Mailbox<u32>,
        signal: Signal,
        other: Mailbox<u32>,
        panics_at: Option<u32>,
    }

    impl Actor for Player {
        fn step(&mut self, _now: Now) -> Step {
            let Some(ball) = self.inbox.receive() else { return Step::parked(ParkedOn::Mail) };
            assert_ne!(Some(ball), self.panics_at, "dropped the ball");
            self.other.send(ball.saturating_sub(1));
            if ball == 0 { Step::Finished } else { Step::Progress }
        }

        fn set_waker(&mut self, waker: Waker) {
            self.signal.set(waker);
        }

        fn name(&self) -> &str {
            self.name
        }
    }

    fn game(panics_at: Option<u32>) -> Vec<Box<dyn Actor>> {
        let (left, right) = (Signal::default(), Signal::default());
        let (to_left, to_right) = (Mailbox::new(left.clone()), Mailbox::new(right.clone()));
        to_left.send(1000);
        vec![
            Box::new(Player {
                name: "left",
                inbox: to_left.clone(),
                signal: left,
                other: to_right.clone(),
                panics_at: None,
            }),
            Box::new(Player { name: "right", inbox: to_right, signal: right, other: to_left, panics_at }),
        ]
    }

    #[test]
    fn wake_ups_are_never_lost() {
        assert_eq!(run_on_threads(game(None), Clock::start(), Duration::from_secs(9), &mut || {}), Ok(()));
    }

    #[test]
    fn a_panic_stops_the_others_and_is_named() {
        let end = run_on_threads(game(Some(501)), Clock::start(), Duration::from_secs(9), &mut || {});
        let failure = end.unwrap_err();
        assert!(failure.to_string().starts_with("right panicked: "), "{failure}");
        assert!(failure.to_string().contains("dropped the ball"), "{failure}");
    }

    /// Panics as it goes.
    struct Clingy(Player);

    impl Actor for Clingy {
        fn step(&mut self, now: Now) -> Step {
            self.0.step(now)
        }

        fn set_waker(&mut self, waker: Waker) {
            self.0.set_waker(waker);
        }

        fn name(&self) -> &str {
            "clingy"
        }
    }

    impl Drop for Clingy {
        fn drop(&mut self) {
            panic!("not yet");
        }
    }

    #[test]
    fn a_panic_while_an_actor_is_dropped_is_an_error_like_any_other() {
        let signal = Signal::default();
        let inbox = Mailbox::new(signal.clone());
        inbox.send(0);
        let player = Player { name: "", inbox: inbox.clone(), signal, other: inbox, panics_at: None };
        let end = run_on_threads(
            vec![Box::new(Clingy(player))],
            Clock::start(),
            Duration::from_secs(9),
            &mut || {},
        );
        assert_eq!(end.unwrap_err().to_string(), "clingy panicked: not yet");
    }
}

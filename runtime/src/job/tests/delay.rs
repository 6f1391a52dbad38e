//! How long records wait on their way: for a batch to fill up, for a source to be asked.

use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Wake, Waker};

use super::*;
use crate::keyed::Rest;
use crate::transform::Transform;

/// Busy at any time, with one record per read: how many there were before it.
struct Trickle {
    emitted: u64,
}

impl Source for Trickle {
    type Out = u64;

    fn restore(&mut self, _splits: Vec<Vec<u8>>) -> Result<(), OperatorError> {
        Ok(())
    }

    fn read(&mut self, out: &mut Output<'_, u64>) -> Result<SourceStatus, OperatorError> {
        out.emit(&self.emitted);
        self.emitted += 1;
        Ok(if self.emitted < 3000 { SourceStatus::More } else { SourceStatus::Ended })
    }

    fn snapshot(&mut self) -> Vec<Vec<u8>> {
        Vec::new()
    }
}

/// Notes how long after its read a record arrives, where a read takes a millisecond.
struct Delay {
    longest: Arc<Mutex<u64>>,
}

impl Transform for Delay {
    type In = u64;
    type Out = u64;

    fn on_record(
        &mut self,
        read_at: &u64,
        now: Now,
        _out: &mut Output<'_, u64>,
    ) -> Result<(), OperatorError> {
        let mut longest = lock(&self.longest);
        *longest = (now.monotonic.0 - read_at).max(*longest);
        Ok(())
    }

    fn before_barrier(&mut self, _out: &mut Output<'_, u64>) -> Result<Rest, OperatorError> {
        Ok(Rest::Done)
    }
}

/// Milliseconds of the longest delay behind a source that is busy at any time, with one step a millisecond.
fn longest_delay(buffer_timeout: u64) -> u64 {
    let (longest, committed) = (Arc::new(Mutex::new(0)), Committed::default());
    let noted = Arc::clone(&longest);
    let mut builder = JobBuilder::new("trickle", 128);
    builder
        .source("source", 1, |_| Trickle { emitted: 0 })
        .rebalance("spread", 2)
        .transform("delay", move |_| Delay { longest: Arc::clone(&noted) })
        .sink("collect", move |_| Collect {
            committed: Arc::clone(&committed),
            current: Vec::new(),
            pending: Vec::new(),
        });
    let options = JobOptions { interval: None, buffer_timeout: Millis(buffer_timeout), ..JobOptions::new(1) };
    let report = run(Job::assemble(builder, Disk::new(), Now::default(), &options).unwrap()).unwrap();
    assert_eq!(report.records, 3000);
    *lock(&longest)
}

#[test]
fn a_busy_task_keeps_no_record_longer_than_the_buffer_timeout() {
    // The first step of a source is one of its own, and so is that in which a batch is taken.
    let of_steps = 2;
    for timeout in [0, 1, 10, 100] {
        let delay = longest_delay(timeout);
        assert!((timeout..=timeout + of_steps).contains(&delay), "{delay} ms of {timeout} ms");
    }
    assert!(longest_delay(u64::MAX) > 2000, "nothing else sends what is not full");
}

/// Has nothing to read, and gives its waker away.
struct Asleep {
    waker: Arc<Mutex<Option<Waker>>>,
}

impl Source for Asleep {
    type Out = u64;

    fn set_waker(&mut self, waker: Waker) {
        *lock(&self.waker) = Some(waker);
    }

    fn restore(&mut self, _splits: Vec<Vec<u8>>) -> Result<(), OperatorError> {
        Ok(())
    }

    fn read(&mut self, _out: &mut Output<'_, u64>) -> Result<SourceStatus, OperatorError> {
        Ok(SourceStatus::Idle)
    }

    fn snapshot(&mut self) -> Vec<Vec<u8>> {
        Vec::new()
    }
}

#[derive(Default)]
struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn an_idle_source_rests_until_it_wakes_its_own_task() {
    let (waker, committed) = (Arc::new(Mutex::new(None)), Committed::default());
    let given = Arc::clone(&waker);
    let mut builder = JobBuilder::new("asleep", 128);
    builder.source("source", 1, move |_| Asleep { waker: Arc::clone(&given) }).rebalance("spread", 2).sink(
        "collect",
        move |_| Collect { committed: Arc::clone(&committed), current: Vec::new(), pending: Vec::new() },
    );
    let options = JobOptions { interval: None, ..JobOptions::new(1) };
    let mut job = Job::assemble(builder, Disk::new(), Now::default(), &options).unwrap();
    let mut actors = job.take_actors();
    let woken: Vec<Arc<Woken>> = actors.iter().map(|_| Arc::default()).collect();
    for (actor, woken) in actors.iter_mut().zip(&woken) {
        actor.set_waker(Waker::from(Arc::clone(woken)));
    }
    let mut rounds = 0;
    drive(&mut actors, || {
        rounds += 1;
        rounds == 10
    });
    woken.iter().for_each(|woken| woken.0.store(false, Ordering::Relaxed));
    assert!(matches!(actors[0].step(Now::default()), Step::Parked(_)));
    lock(&waker).as_ref().unwrap().wake_by_ref();
    let woken: Vec<bool> = woken.iter().map(|woken| woken.0.load(Ordering::Relaxed)).collect();
    assert_eq!(woken, [true, false, false, false, false]);
}

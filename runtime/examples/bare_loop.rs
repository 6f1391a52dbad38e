//! Drives a job from one thread without help: steps every actor in turn, and rests when none has anything to do.
//!
//! `cargo run -p slackwater --example bare_loop`

#![expect(clippy::print_stdout, reason = "that is what it is for")]

use std::error::Error;
use std::sync::Arc;
use std::task::{Wake, Waker};
use std::thread::{self, Thread};

use slackwater::actor::{Actor, Parked, ParkedOn, Step};
use slackwater::driver::Clock;
use slackwater::file_sink::{FileSink, FileSinkOptions};
use slackwater::mem::MemDisk;
use slackwater::time::Millis;
use slackwater::{Job, JobBuilder, JobError, JobOptions, Report};

#[path = "common/numbers.rs"]
mod numbers;

pub(crate) use numbers::END;
use numbers::Numbers;

pub(crate) fn main() -> Result<(), Box<dyn Error>> {
    let report = run()?;
    let (records, checkpoints) = (report.source_records, report.checkpoints_completed);
    println!("{records} of {END} numbers, {checkpoints} checkpoints, one thread");
    Ok(())
}

pub(crate) fn run() -> Result<Report, JobError> {
    let mut job = JobBuilder::new("numbers", 128);
    job.source("numbers", 1, |_| Numbers::default())
        .rebalance("spread", 4)
        .sink("files", |info| FileSink::new("output", info, FileSinkOptions::default()));
    let clock = Clock::start();
    let options = JobOptions { interval: Some(Millis(10)), ..JobOptions::new(clock.now().wall.0) };
    let mut job = Job::assemble(job, MemDisk::new(), clock.now(), &options)?;
    drive(job.take_actors(), clock);
    job.report()
}

/// Steps the actors until all have finished.
fn drive(mut actors: Vec<Box<dyn Actor>>, clock: Clock) {
    // An actor is woken by another one, from this thread, or by a thread of its sink or disk. Either ends a rest.
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    actors.iter_mut().for_each(|actor| actor.set_waker(waker.clone()));
    while !actors.is_empty() {
        let (mut may_rest, mut deadline) = (true, None);
        actors.retain_mut(|actor| match actor.step(clock.now()) {
            Step::Finished => false,
            Step::Progress => {
                may_rest = false;
                true
            }
            Step::Parked(Parked { on: ParkedOn::Disk, .. }) => {
                // Nobody else has anything to do for this thread: it may as well wait here.
                actor.wait_for_disk();
                may_rest = false;
                true
            }
            Step::Parked(parked) => {
                deadline = deadline.into_iter().chain(parked.deadline).min();
                true
            }
        });
        match deadline {
            _ if !may_rest => {}
            Some(deadline) => thread::park_timeout(clock.until(deadline)),
            None if actors.is_empty() => {}
            None => thread::park(),
        }
    }
}

/// A wake-up before the rest is not lost: the thread's token ends the rest at once.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

//! Drives a job with tokio: each actor is a task, which its waker wakes, and waits for the disk on a thread that may block.
//! What the job commits comes to an async consumer.
//!
//! `cargo run -p slackwater --example tokio_tasks`

#![expect(clippy::print_stdout, reason = "that is what it is for")]

use std::error::Error;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Wake, Waker};

use slackwater::actor::{Actor, Parked, ParkedOn, Step};
use slackwater::channel_sink::channel;
use slackwater::driver::Clock;
use slackwater::mem::MemDisk;
use slackwater::time::Millis;
use slackwater::{Job, JobBuilder, JobOptions, Report};
use tokio::sync::Notify;
use tokio::task::{JoinError, JoinSet, spawn_blocking, yield_now};
use tokio::time::timeout;

#[path = "common/numbers.rs"]
mod numbers;

pub(crate) use numbers::END;
use numbers::Numbers;

pub(crate) fn main() -> Result<(), Box<dyn Error>> {
    let (report, records) = run()?;
    println!("{records} of {END} numbers in {} checkpoints", report.checkpoints_completed);
    Ok(())
}

/// The report, and how many records the consumer had.
pub(crate) fn run() -> Result<(Report, u64), Box<dyn Error>> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_time().build()?;
    let (output, records) = channel(4);
    let mut job = JobBuilder::new("numbers", 128);
    job.source("numbers", 1, |_| Numbers::default())
        .rebalance("spread", 4)
        .sink("out", move |info| output.sink(info));
    let clock = Clock::start();
    let options = JobOptions { interval: Some(Millis(10)), ..JobOptions::new(clock.now().wall.0) };
    let mut job = Job::assemble(job, MemDisk::new(), clock.now(), &options)?;
    let actors = job.take_actors();
    let received = runtime.block_on(async {
        let mut driving = JoinSet::new();
        actors.into_iter().for_each(|actor| drop(driving.spawn(drive(actor, clock))));
        let mut received = 0;
        while let Some(transaction) = poll_fn(|context| records.poll_next(context)).await {
            received += transaction.records().count() as u64;
        }
        while let Some(driven) = driving.join_next().await {
            driven??;
        }
        Ok::<_, JoinError>(received)
    })?;
    Ok((job.report()?, received))
}

/// Steps an actor until it has finished.
async fn drive(mut actor: Box<dyn Actor>, clock: Clock) -> Result<(), JoinError> {
    let wakeups = Arc::new(Wakeups::default());
    actor.set_waker(Waker::from(Arc::clone(&wakeups)));
    loop {
        match actor.step(clock.now()) {
            Step::Finished => return Ok(()),
            Step::Progress => yield_now().await,
            Step::Parked(Parked { on: ParkedOn::Disk, .. }) => {
                let waiting = spawn_blocking(move || {
                    actor.wait_for_disk();
                    actor
                });
                actor = waiting.await?;
            }
            Step::Parked(Parked { deadline: Some(deadline), .. }) => {
                // Woken or too late: the next step finds out.
                let _woken = timeout(clock.until(deadline), wakeups.0.notified()).await;
            }
            Step::Parked(_) => wakeups.0.notified().await,
        }
    }
}

/// A wake-up before the actor rests is not lost: the next rest ends at once.
#[derive(Default)]
struct Wakeups(Notify);

impl Wake for Wakeups {
    fn wake(self: Arc<Self>) {
        self.0.notify_one();
    }
}

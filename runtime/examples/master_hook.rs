//! A hook that has another system take part in every checkpoint: here a ledger with a thread of its own, which takes its
//! time. The job dies in the middle and goes on; the ledger goes back to where it was at the checkpoint.
//!
//! ```text
//! cargo run --example master_hook
//! ```
#![expect(clippy::print_stdout, reason = "an example shows what happens")]

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use slackwater::actor::Step;
use slackwater::file_sink::{FileSink, FileSinkOptions};
use slackwater::hook::{HookAnswer, MasterHook};
use slackwater::ids::CheckpointId;
use slackwater::mem::MemDisk;
use slackwater::operator::{OperatorError, Source, SourceStatus};
use slackwater::output::Output;
use slackwater::time::{Millis, Now};
use slackwater::{AssembledJob, Job, JobBuilder, JobError, JobOptions};

/// The other system: it counts up, and may be told where to go on.
type Ledger = Arc<Mutex<u64>>;

/// Lets the ledger's thread take the snapshots, so that nothing waits for it but the checkpoint.
struct LedgerHook {
    ledger: Ledger,
    orders: Sender<HookAnswer>,
}

impl LedgerHook {
    fn new(ledger: Ledger) -> Self {
        let (orders, received) = channel();
        let on_thread = Arc::clone(&ledger);
        thread::spawn(move || serve(&on_thread, &received));
        Self { ledger, orders }
    }
}

/// Ends when the hook does.
fn serve(ledger: &Ledger, orders: &Receiver<HookAnswer>) {
    for answer in orders {
        let mut entries = ledger.lock().unwrap_or_else(PoisonError::into_inner);
        *entries += 10;
        answer.give(Ok(Some(entries.to_le_bytes().to_vec())));
    }
}

impl MasterHook for LedgerHook {
    fn trigger(&mut self, _checkpoint: CheckpointId, _triggered_at: Millis, answer: HookAnswer) {
        // If the thread is gone, the answer is dropped with the order, and the checkpoint fails.
        drop(self.orders.send(answer));
    }

    fn restore(&mut self, checkpoint: CheckpointId, state: Option<&[u8]>) -> Result<(), OperatorError> {
        let entries =
            state.unwrap_or(&[0; 8]).try_into().map_err(|_| OperatorError::new("not a ledger's"))?;
        let mut ledger = self.ledger.lock().unwrap_or_else(PoisonError::into_inner);
        let entries = u64::from_le_bytes(entries);
        println!("checkpoint {checkpoint}: the ledger goes from {ledger} back to {entries} entries");
        *ledger = entries;
        Ok(())
    }
}

/// Counts to a number.
struct Numbers(u64);

const END: u64 = 200_000;

impl Source for Numbers {
    type Out = u64;

    fn restore(&mut self, splits: Vec<Vec<u8>>) -> Result<(), OperatorError> {
        let split = splits.first().and_then(|split| split.as_slice().try_into().ok());
        self.0 = split.map(u64::from_le_bytes).ok_or_else(|| OperatorError::new("no position"))?;
        Ok(())
    }

    fn read(&mut self, out: &mut Output<'_, u64>) -> Result<SourceStatus, OperatorError> {
        for _ in 0..100 {
            out.emit(&self.0);
            self.0 += 1;
        }
        Ok(if self.0 < END { SourceStatus::More } else { SourceStatus::Ended })
    }

    fn snapshot(&mut self) -> Vec<Vec<u8>> {
        vec![self.0.to_le_bytes().to_vec()]
    }
}

fn assemble(
    disk: &MemDisk<slackwater::mem::FrozenRun>,
    ledger: &Ledger,
    attempt: u64,
) -> Result<AssembledJob, JobError> {
    let mut job = JobBuilder::new("hooked", 128);
    job.hook("ledger", LedgerHook::new(Arc::clone(ledger)));
    job.source("numbers", 1, |_| Numbers(0))
        .flat_map("text", |number: &u64, out: &mut Output<'_, [u8]>| out.emit(number.to_string().as_bytes()))
        .sink("files", |info| FileSink::new("output", info, FileSinkOptions::default()));
    let options = JobOptions { interval: Some(Millis(10)), ..JobOptions::new(attempt) };
    Job::assemble(job, disk.clone(), Now::default(), &options)
}

/// Runs the job twice and gives how many entries the ledger had at the end of the first run, and what the second one began
/// with.
///
/// # Errors
/// What the job says.
pub(crate) fn run() -> Result<(u64, u64), JobError> {
    let (disk, ledger) = (MemDisk::new(), Ledger::default());
    let entries = || *ledger.lock().unwrap_or_else(PoisonError::into_inner);
    let mut job = assemble(&disk, &ledger, 1)?;
    let (observer, mut actors) = (job.observer(), job.take_actors());
    let mut now = Now::default();
    // A loop of its own, which stops behind the third checkpoint: the process has died.
    while observer.progress().checkpoints_completed < 3 {
        now.monotonic = now.monotonic.after(Millis(1));
        let steps = actors.iter_mut().map(|actor| actor.step(now));
        if steps.filter(|step| *step == Step::Finished).count() > 0 {
            break;
        }
        thread::yield_now();
    }
    drop((job, actors));
    // Entries that no checkpoint has seen.
    *ledger.lock().unwrap_or_else(PoisonError::into_inner) += 1000;
    let before = entries();
    let job = assemble(&disk, &ledger, 2)?;
    let after = entries();
    let report = job.run(std::time::Duration::from_millis(50), &mut || {})?;
    println!("{} checkpoints later the job has ended", report.checkpoints_completed);
    Ok((before, after))
}

fn main() -> Result<(), JobError> {
    run().map(|_| ())
}

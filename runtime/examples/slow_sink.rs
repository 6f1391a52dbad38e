//! How long checkpoints take with a sink a hundred times slower than the source: aligned ones wait until the sink has
//! worked off everything in the queues, unaligned ones complete in the time of their writes.
//!
//! ```text
//! cargo run --release --example slow_sink
//! ```
//!
//! The job runs on virtual time: each turn of the loop in [`run`] is a millisecond.

#![expect(clippy::print_stdout, reason = "an example shows what it found")]

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use slackwater::files::{BlockingFiles, FileEvent, Files};
use slackwater::ids::CheckpointId;
use slackwater::mem::{FrozenRun, MemDisk};
use slackwater::operator::{OperatorError, Sink, Source, SourceStatus};
use slackwater::output::Output;
use slackwater::recovery::read_manifest;
use slackwater::time::{Millis, Now};
use slackwater::{Job, JobBuilder, JobOptions};

/// Records that the source emits in a millisecond. The sink takes one.
const RECORDS_PER_MS: u64 = 100;

/// Emits as fast as it can.
struct Fast(u64);

impl Source for Fast {
    type Out = [u8];

    fn restore(&mut self, splits: Vec<Vec<u8>>) -> Result<(), OperatorError> {
        let split = splits.first().and_then(|split| split.as_slice().try_into().ok());
        self.0 = split.map(u64::from_le_bytes).ok_or_else(|| OperatorError::new("no position"))?;
        Ok(())
    }

    fn read(&mut self, out: &mut Output<'_, [u8]>) -> Result<SourceStatus, OperatorError> {
        for _ in 0..RECORDS_PER_MS {
            self.0 += 1;
            out.emit(format!("record {:057}", self.0).as_bytes());
        }
        Ok(SourceStatus::More)
    }

    fn snapshot(&mut self) -> Vec<Vec<u8>> {
        vec![self.0.to_le_bytes().to_vec()]
    }
}

/// Takes a record in a millisecond, and forgets it.
struct Slow {
    taken: u64,
    clock_ms: Arc<AtomicU64>,
}

impl Sink for Slow {
    type In = [u8];

    fn recover(
        &mut self,
        _restored: Option<CheckpointId>,
        _pending: &[Vec<u8>],
        _files: &mut dyn BlockingFiles,
    ) -> Result<Vec<String>, OperatorError> {
        Ok(Vec::new())
    }

    fn write(&mut self, _record: &[u8], _files: &mut Files) -> Result<(), OperatorError> {
        self.taken += 1;
        Ok(())
    }

    fn has_room(&self, _files: &Files) -> bool {
        self.taken < self.clock_ms.load(Ordering::Relaxed)
    }

    fn pre_commit(&mut self, _id: CheckpointId, _files: &mut Files) -> Result<Vec<Vec<u8>>, OperatorError> {
        Ok(Vec::new())
    }

    fn is_sealed(&self, _checkpoint: CheckpointId) -> bool {
        true
    }

    fn commit(&mut self, _checkpoint: CheckpointId, _files: &mut Files) -> Result<(), OperatorError> {
        Ok(())
    }

    fn is_committed(&self, _checkpoint: CheckpointId) -> bool {
        true
    }

    fn on_file(&mut self, _event: FileEvent, _files: &mut Files) -> Result<(), OperatorError> {
        Ok(())
    }
}

/// What a checkpoint took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taken {
    /// From its trigger to its completion.
    pub duration_ms: u64,
    /// Bytes of records in flight that are part of it.
    pub captured_bytes: u64,
}

/// Runs the job until it has completed so many checkpoints.
///
/// # Errors
/// The job failed.
pub fn run(unaligned: bool, checkpoints: usize) -> Result<Vec<Taken>, Box<dyn Error>> {
    let clock_ms = Arc::new(AtomicU64::new(0));
    let mut job = JobBuilder::new("slow", 128);
    let clock = Arc::clone(&clock_ms);
    job.source("fast", 1, |_| Fast(0))
        .rebalance("spread", 1)
        .sink("slow", move |_| Slow { taken: 0, clock_ms: Arc::clone(&clock) });
    let options = JobOptions { unaligned, interval: Some(Millis(500)), ..JobOptions::new(1) };
    let mut disk = MemDisk::<FrozenRun>::new();
    let mut job = Job::assemble(job, disk.clone(), Now::default(), &options)?;
    let (mut actors, observer) = (job.take_actors(), job.observer());
    let (mut taken, mut last) = (Vec::new(), None);
    while taken.len() < checkpoints {
        let ms = Millis(clock_ms.fetch_add(1, Ordering::Relaxed));
        for actor in &mut actors {
            actor.step(Now { monotonic: ms, wall: ms });
        }
        if observer.is_over() {
            job.report()?;
        }
        let newest = observer.progress().last_checkpoint;
        if newest > last {
            last = newest;
            taken.extend(newest.map(|id| taken_by(&mut disk, id, ms)).transpose()?);
        }
    }
    Ok(taken)
}

fn taken_by(
    disk: &mut MemDisk<FrozenRun>,
    id: CheckpointId,
    completed: Millis,
) -> Result<Taken, Box<dyn Error>> {
    let manifest = read_manifest(disk, "slow", id)?
        .ok_or("there is no manifest")?
        .map_err(|defect| defect.to_string())?;
    let subtasks = manifest.vertices.iter().flat_map(|vertex| &vertex.subtasks);
    let captured_bytes = subtasks.filter_map(|subtask| Some(subtask.in_flight.as_ref()?.len())).sum();
    Ok(Taken { duration_ms: completed.since(manifest.triggered_at).0, captured_bytes })
}

/// Prints three checkpoints of each kind.
///
/// # Errors
/// The job failed.
pub fn main() -> Result<(), Box<dyn Error>> {
    println!("checkpoint   duration   records in flight");
    for (name, unaligned) in [("aligned", false), ("unaligned", true)] {
        for Taken { duration_ms, captured_bytes } in run(unaligned, 3)? {
            println!("{name:<10} {duration_ms:>7} ms {captured_bytes:>13} bytes");
        }
    }
    Ok(())
}

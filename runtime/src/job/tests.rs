//! Small jobs in memory, driven by a bare loop or by threads.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use slackwater_core::durable::DiskError;
use slackwater_core::ids::CheckpointId;
use slackwater_core::time::{Millis, Now};
use slackwater_mem::FrozenRun;
use slackwater_mem::disk::MemDisk;

use super::{AssembledJob, Job, JobOptions, Report};
use crate::actor::{Actor, Step, lock};
use crate::error::JobError;
use crate::files::{BlockingFiles, FileEvent, Files};
use crate::graph::JobBuilder;
use crate::operator::{OperatorError, Sink, Source, SourceStatus, SubtaskInfo};
use crate::output::Output;

mod bounded;
mod bundling;
mod cases;
mod delay;
mod eager;
mod graph;
mod hooks;
mod in_flight;
mod keyed;
mod lists;
mod loading;
mod memory;
mod modes;
mod operator_state;
mod options;
mod restarts;
mod savepoint;
mod sinks;
mod statistics;
mod stop;
mod wide;

/// Counts from 0 to `end`, some numbers per read.
struct Numbers {
    next: u64,
    end: u64,
    step: u64,
}

impl Source for Numbers {
    type Out = u64;

    fn restore(&mut self, splits: Vec<Vec<u8>>) -> Result<(), OperatorError> {
        // Another parallelism may leave this subtask without a split.
        let split = splits.first().map_or([u8::MAX; 8], |split| split[..].try_into().unwrap());
        self.next = u64::from_le_bytes(split).min(self.end);
        Ok(())
    }

    fn read(&mut self, out: &mut Output<'_, u64>) -> Result<SourceStatus, OperatorError> {
        for _ in 0..100 {
            if self.next >= self.end {
                return Ok(SourceStatus::Ended);
            }
            out.emit(&self.next);
            self.next += self.step;
        }
        Ok(SourceStatus::More)
    }

    fn snapshot(&mut self) -> Vec<Vec<u8>> {
        vec![self.next.to_le_bytes().to_vec()]
    }
}

/// What sinks have committed, in the order of commits.
type Committed = Arc<Mutex<Vec<u64>>>;

/// A sink whose transactions are lists in memory that outlive it.
struct Collect {
    committed: Committed,
    current: Vec<u64>,
    pending: Vec<(CheckpointId, Vec<u64>)>,
}

impl Sink for Collect {
    type In = u64;

    fn recover(
        &mut self,
        _restored: Option<CheckpointId>,
        pending: &[Vec<u8>],
        _files: &mut dyn BlockingFiles,
    ) -> Result<Vec<String>, OperatorError> {
        let mut committed = lock(&self.committed);
        let known: BTreeSet<u64> = committed.iter().copied().collect();
        for bytes in pending {
            let numbers = bytes.chunks_exact(8).map(|n| u64::from_le_bytes(n.try_into().unwrap()));
            committed.extend(numbers.filter(|n| !known.contains(n)));
        }
        Ok(Vec::new())
    }

    fn write(&mut self, record: &u64, _files: &mut Files) -> Result<(), OperatorError> {
        self.current.push(*record);
        Ok(())
    }

    fn pre_commit(&mut self, id: CheckpointId, _files: &mut Files) -> Result<Vec<Vec<u8>>, OperatorError> {
        self.pending.push((id, std::mem::take(&mut self.current)));
        let bytes = |numbers: &Vec<u64>| numbers.iter().flat_map(|n| n.to_le_bytes()).collect();
        Ok(self.pending.iter().map(|(_, numbers)| bytes(numbers)).collect())
    }

    fn is_sealed(&self, _checkpoint: CheckpointId) -> bool {
        true
    }

    fn commit(&mut self, checkpoint: CheckpointId, _files: &mut Files) -> Result<(), OperatorError> {
        for (_, numbers) in self.pending.extract_if(.., |(id, _)| *id <= checkpoint) {
            lock(&self.committed).extend(numbers);
        }
        Ok(())
    }

    fn is_committed(&self, checkpoint: CheckpointId) -> bool {
        self.pending.iter().all(|(id, _)| *id > checkpoint)
    }

    fn on_file(&mut self, _event: FileEvent, _files: &mut Files) -> Result<(), OperatorError> {
        Ok(())
    }
}

const END: u64 = 20_000;

/// Numbers, each doubled, spread over other subtasks, collected.
fn job(committed: &Committed, parallelism: u16) -> JobBuilder {
    let committed = Arc::clone(committed);
    let mut job = JobBuilder::new("numbers", 128);
    job.source("source", parallelism, |info| Numbers {
        next: info.index.into(),
        end: END,
        step: info.parallelism.into(),
    })
    .flat_map("double", |number: &u64, out: &mut Output<'_, u64>| out.emit(&(number * 2)))
    .rebalance("spread", 2)
    .sink("collect", move |_| Collect {
        committed: Arc::clone(&committed),
        current: Vec::new(),
        pending: Vec::new(),
    });
    job
}

fn options(attempt: u64) -> JobOptions {
    JobOptions { interval: Some(Millis(10)), min_pause: Millis(1), ..JobOptions::new(attempt) }
}

type Disk = MemDisk<FrozenRun>;

fn assemble(disk: &Disk, committed: &Committed, attempt: u64) -> Result<AssembledJob, JobError> {
    Job::assemble(job(committed, 2), disk.clone(), Now::default(), &options(attempt))
}

/// Steps all actors in turn, a millisecond per round, until all have finished or `stop` says so.
fn drive(actors: &mut [Box<dyn Actor>], mut stop: impl FnMut() -> bool) {
    let mut finished = vec![false; actors.len()];
    for round in 0..1_000_000 {
        let now = Now { monotonic: Millis(round), wall: Millis(1_000_000 + round) };
        for (actor, finished) in actors.iter_mut().zip(&mut finished) {
            *finished = *finished || actor.step(now) == Step::Finished;
        }
        if stop() || finished.iter().all(|finished| *finished) {
            return;
        }
    }
    panic!("the job does not end");
}

fn run(mut job: AssembledJob) -> Result<Report, JobError> {
    drive(&mut job.take_actors(), || false);
    job.report()
}

fn assert_exact(committed: &Committed) {
    let mut numbers = lock(committed).clone();
    numbers.sort_unstable();
    let expected: Vec<u64> = (0..END).map(|n| n * 2).collect();
    assert_eq!(numbers.len(), expected.len());
    assert!(numbers == expected);
}

#[test]
fn a_job_commits_everything_once_and_takes_checkpoints() {
    let (disk, committed) = (Disk::new(), Committed::default());
    let report = run(assemble(&disk, &committed, 1).unwrap()).unwrap();
    assert_exact(&committed);
    assert!(report.checkpoints_completed > 2, "{report:?}");
    assert_eq!((report.source_records, report.records), (END, END));
    assert_eq!(report.resumed_from, None);
}

#[test]
fn a_finished_job_says_so_and_does_nothing() {
    let (disk, committed) = (Disk::new(), Committed::default());
    let report = run(assemble(&disk, &committed, 1).unwrap()).unwrap();
    let again = assemble(&disk, &committed, 2).unwrap_err();
    assert_eq!(again, JobError::AlreadyFinished { checkpoint: report.last_checkpoint.unwrap() });
    assert_exact(&committed);
}

#[test]
fn a_job_dropped_anywhere_resumes_and_is_exact() {
    for cut in [1, 7, 23, 40, 41, 42, 43, 44, 57, 100] {
        let (disk, committed) = (Disk::new(), Committed::default());
        let mut resumed = 0;
        for attempt in 1.. {
            let mut job = match assemble(&disk, &committed, attempt) {
                Err(JobError::AlreadyFinished { .. }) => break,
                job => job.unwrap(),
            };
            resumed += u64::from(job.resumed_from.is_some());
            let mut left = cut + attempt * 5;
            let stop = || {
                left -= 1;
                left == 0
            };
            drive(&mut job.take_actors(), stop);
        }
        assert!(resumed > 0 || cut == 100, "cut after {cut} rounds");
        assert_exact(&committed);
    }
}

#[test]
fn a_job_resumes_with_threads_too() {
    let (disk, committed) = (Disk::new(), Committed::default());
    let mut left = 50;
    let mut job = assemble(&disk, &committed, 1).unwrap();
    drive(&mut job.take_actors(), || {
        left -= 1;
        left == 0
    });
    let report = assemble(&disk, &committed, 2).unwrap().run(Duration::from_secs(5), &mut || {}).unwrap();
    assert!(report.resumed_from.is_some());
    assert_exact(&committed);
}

#[test]
fn only_the_newest_checkpoints_are_kept() {
    let (mut disk, committed) = (Disk::new(), Committed::default());
    let report = run(assemble(&disk, &committed, 1).unwrap()).unwrap();
    assert!(report.checkpoints_completed > 4);
    // One that had just begun when the job ended may lie there too, without a manifest.
    let found = crate::recovery::find(&mut disk, "numbers").unwrap();
    let last = report.last_checkpoint.unwrap().0;
    assert_eq!(found.retained, [last - 2, last - 1, last].map(CheckpointId), "{found:?}");
    assert!(found.incomplete.iter().all(|id| id.0 > last), "{found:?}");
}

#[test]
fn a_checkpoint_of_another_job_is_refused() {
    let (disk, committed) = (Disk::new(), Committed::default());
    run(assemble(&disk, &committed, 1).unwrap()).unwrap();
    let mut other = JobBuilder::new("numbers", 128);
    other.source("elsewhere", 1, |_| Numbers { next: 0, end: 1, step: 1 }).sink("collect", move |_| {
        Collect { committed: Arc::default(), current: Vec::new(), pending: Vec::new() }
    });
    let refused = Job::assemble(other, disk, Now::default(), &options(3)).unwrap_err();
    assert!(matches!(refused, JobError::NonRestoredState { .. }), "{refused}");
}

#[test]
fn graphs_that_make_no_sense_are_refused() {
    let committed = Committed::default();
    let refuse =
        |builder| Job::assemble(builder, Disk::new(), Now::default(), &options(1)).unwrap_err().to_string();
    assert!(refuse(JobBuilder::new("empty", 128)).contains("no sink"));
    assert!(refuse(JobBuilder::new("a/b", 128)).contains("name a job"));
    assert!(refuse(job(&committed, 0)).contains("zero"));
    assert!(refuse(job(&committed, 129)).contains("above the job's maximum of 128"));
    let mut twice = job(&committed, 1);
    twice.vertices.extend(job(&committed, 1).vertices);
    assert!(refuse(twice).contains("two operators"));
}

/// A source that fails.
struct Broken;

impl Source for Broken {
    type Out = u64;

    fn restore(&mut self, _splits: Vec<Vec<u8>>) -> Result<(), OperatorError> {
        Ok(())
    }

    fn read(&mut self, _out: &mut Output<'_, u64>) -> Result<SourceStatus, OperatorError> {
        Err(DiskError { operation: slackwater_core::durable::OperationKind::Read, errno: DiskError::IO }
            .into())
    }

    fn snapshot(&mut self) -> Vec<Vec<u8>> {
        Vec::new()
    }
}

#[test]
fn a_failing_operator_ends_the_job_and_is_named() {
    let mut builder = JobBuilder::new("broken", 128);
    let committed = Committed::default();
    builder.source("source", 2, |_| Broken).sink("collect", move |_| Collect {
        committed: Arc::clone(&committed),
        current: Vec::new(),
        pending: Vec::new(),
    });
    let job = Job::assemble(builder, Disk::new(), Now::default(), &options(1)).unwrap();
    let failure = job.run(Duration::from_secs(5), &mut || {}).unwrap_err();
    assert!(failure.to_string().starts_with("source ("), "{failure}");
    assert!(failure.to_string().contains("input/output error"), "{failure}");
}

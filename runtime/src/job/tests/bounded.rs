//! Sources of different length: some end while others go on, and checkpoints do, too.

use super::keyed::{Tally, assert_tallied, drive_rounds, pair};
use super::*;
use crate::recovery::find;
use slackwater_mem::Plain;

/// The first of three subtasks reads nearly nothing, the last most.
fn uneven(info: &SubtaskInfo) -> Uneven {
    let bounds = [0, 50, END / 4, END];
    let index = usize::from(info.index);
    let ranges = if index < 3 { vec![(bounds[index], bounds[index + 1])] } else { Vec::new() };
    Uneven { ranges, emitted: Arc::default() }
}

/// Reads ranges of numbers, each a split.
struct Uneven {
    ranges: Vec<(u64, u64)>,
    emitted: Arc<Mutex<Vec<u64>>>,
}

impl Source for Uneven {
    type Out = u64;

    fn restore(&mut self, splits: Vec<Vec<u8>>) -> Result<(), OperatorError> {
        let number = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().unwrap());
        self.ranges = splits.iter().map(|split| (number(&split[..8]), number(&split[8..]))).collect();
        Ok(())
    }

    fn read(&mut self, out: &mut Output<'_, u64>) -> Result<SourceStatus, OperatorError> {
        let Some((next, end)) = self.ranges.iter_mut().find(|(next, end)| next < end) else {
            return Ok(SourceStatus::Ended);
        };
        for number in *next..(*next + 100).min(*end) {
            lock(&self.emitted).push(number);
            out.emit(&number);
        }
        *next = (*next + 100).min(*end);
        Ok(SourceStatus::More)
    }

    fn snapshot(&mut self) -> Vec<Vec<u8>> {
        let bytes = |(next, end): &(u64, u64)| [next.to_le_bytes(), end.to_le_bytes()].concat();
        self.ranges.iter().map(bytes).collect()
    }
}

fn uneven_job(committed: &Committed, parallelism: u16, emitted: &Arc<Mutex<Vec<u64>>>) -> JobBuilder {
    let (committed, emitted) = (Arc::clone(committed), Arc::clone(emitted));
    let mut job = JobBuilder::new("tally", 128);
    job.source("source", parallelism, move |info| Uneven { emitted: Arc::clone(&emitted), ..uneven(info) })
        .flat_map("pair", pair)
        .key_by::<Plain<i64>, _>(|pair: &(i64, u64)| &pair.0)
        .process("tally", 2, |_| Tally { seen: None })
        .sink("collect", move |_| Collect {
            committed: Arc::clone(&committed),
            current: Vec::new(),
            pending: Vec::new(),
        });
    job
}

fn start(
    disk: &Disk,
    committed: &Committed,
    attempt: u64,
    parallelism: u16,
) -> (AssembledJob, Arc<Mutex<Vec<u64>>>) {
    let options = JobOptions { memory_limit_bytes: 64 << 20, ..options(attempt) };
    let emitted = Arc::default();
    let builder = uneven_job(committed, parallelism, &emitted);
    (Job::assemble(builder, disk.clone(), Now::default(), &options).unwrap(), emitted)
}

#[test]
fn h05_t33_checkpoints_go_on_when_some_sources_have_ended_and_the_last_commits_everything() {
    let (mut disk, committed) = (Disk::new(), Committed::default());
    let (mut job, _) = start(&disk, &committed, 1, 3);
    let observer = job.observer();
    let mut with_ended = BTreeSet::new();
    drive(&mut job.take_actors(), || {
        let newest = find(&mut disk, "tally").unwrap().newest;
        let ended = newest.as_ref().map(|newest| {
            let sources = &newest.vertices[0].subtasks;
            sources.iter().filter(|source| source.is_drained).count()
        });
        with_ended.extend(ended.map(|ended| (ended, newest.unwrap().is_finished)));
        false
    });
    assert_eq!(observer.progress().checkpoints_failed, 0);
    assert_eq!(with_ended.last(), Some(&(3, true)), "the last one covers the end of all");
    assert!([(1, false), (2, false)].iter().all(|some| with_ended.contains(some)), "{with_ended:?}");
    assert_tallied(&committed);
    assert!(job.report().unwrap().checkpoints_completed > 4);
}

#[test]
fn p37_what_has_ended_does_not_emit_again_after_a_restore_at_any_parallelism() {
    for parallelisms in [[3, 3, 3], [3, 1, 4], [3, 4, 2]] {
        let (disk, committed) = (Disk::new(), Committed::default());
        for (attempt, parallelism) in (1..).zip(parallelisms) {
            let (mut job, emitted) = start(&disk, &committed, attempt, parallelism);
            assert_eq!(job.resumed_from.is_some(), attempt > 1);
            drive_rounds(&mut job, 45);
            let of_the_first = lock(&emitted).iter().filter(|number| **number < 50).count();
            assert_eq!(of_the_first, if attempt > 1 { 0 } else { 50 }, "it had ended");
        }
        run(start(&disk, &committed, 9, 2).0).unwrap();
        assert_tallied(&committed);
    }
}

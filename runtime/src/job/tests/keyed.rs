//! Jobs with keyed state: other parallelism, damage, a full disk.

use heapless::VecView;
use slackwater_core::durable::{Completion, DiskError, Entry, Operation, OperationKind, Token, Wait};
use slackwater_core::key_group::MaxParallelism;
use slackwater_mem::{Plain, ValueState};

use super::*;
use crate::keyed::{Context, KeyedProcess, Setup};

const KEYS: i64 = 300;

/// For each record, emits `key * 1_000_000 + n` where the record is the n-th of its key.
pub(super) struct Tally {
    pub(super) seen: Option<ValueState<Plain<i64>, Plain<u64>>>,
}

impl KeyedProcess for Tally {
    type Key = Plain<i64>;
    type In = (i64, u64);
    type Out = u64;

    fn open(&mut self, setup: &mut Setup<'_>) -> Result<(), OperatorError> {
        let max = MaxParallelism::new(setup.info.max_parallelism.into()).unwrap();
        let seen = ValueState::register(setup.heap, &setup.info.operator, "seen", max);
        self.seen = Some(seen.map_err(|error| OperatorError::new(error.to_string()))?);
        Ok(())
    }

    fn process(
        &mut self,
        key: &i64,
        _record: &(i64, u64),
        context: &mut Context<'_, u64>,
    ) -> Result<(), OperatorError> {
        let mut now = 0;
        let updated = self.seen.unwrap().update(context.heap_mut(), key, |before| {
            now = before.unwrap_or(0) + 1;
            now
        });
        updated.map_err(|error| OperatorError::new(error.to_string()))?;
        context.emit(&(key.cast_unsigned() * 1_000_000 + now));
        Ok(())
    }
}

/// A number with its key.
pub(super) fn pair(number: &u64, out: &mut Output<'_, (i64, u64)>) {
    out.emit(&(number.cast_signed() % KEYS, *number));
}

pub(super) fn keyed_job(committed: &Committed, parallelism: u16) -> JobBuilder {
    let committed = Arc::clone(committed);
    let mut job = JobBuilder::new("tally", 128);
    job.source("source", 2, |info| Numbers { next: info.index.into(), end: END, step: 2 })
        .flat_map("pair", pair)
        .key_by::<Plain<i64>, _>(|pair: &(i64, u64)| &pair.0)
        .process("tally", parallelism, |_| Tally { seen: None })
        .sink("collect", move |_| Collect {
            committed: Arc::clone(&committed),
            current: Vec::new(),
            pending: Vec::new(),
        });
    job
}

pub(super) fn assert_tallied(committed: &Committed) {
    let mut numbers = lock(committed).clone();
    numbers.sort_unstable();
    let mut expected = Vec::new();
    for key in 0..KEYS.cast_unsigned() {
        let count = (END - key).div_ceil(KEYS.cast_unsigned());
        expected.extend((1..=count).map(|n| key * 1_000_000 + n));
    }
    assert_eq!(numbers.len(), expected.len());
    assert!(numbers == expected);
}

fn assemble_keyed(
    disk: &Disk,
    committed: &Committed,
    attempt: u64,
    parallelism: u16,
) -> Result<AssembledJob, JobError> {
    let options = JobOptions { memory_limit_bytes: 64 << 20, ..options(attempt) };
    Job::assemble(keyed_job(committed, parallelism), disk.clone(), Now::default(), &options)
}

pub(super) fn drive_rounds(job: &mut AssembledJob, rounds: u64) {
    let mut left = rounds;
    drive(&mut job.take_actors(), || {
        left -= 1;
        left == 0
    });
}

#[test]
fn d03_keyed_state_survives_at_any_parallelism() {
    let (disk, committed) = (Disk::new(), Committed::default());
    for (attempt, parallelism) in (1..).zip([2, 3, 1, 5]) {
        let mut job = assemble_keyed(&disk, &committed, attempt, parallelism).unwrap();
        assert_eq!(job.resumed_from.is_some(), attempt > 1);
        drive_rounds(&mut job, 45);
    }
    let job = assemble_keyed(&disk, &committed, 9, 4).unwrap();
    run(job).unwrap();
    assert_tallied(&committed);
}

/// The same job with another number of key groups.
fn with_maximum(job: JobBuilder, max_parallelism: u32) -> JobBuilder {
    let mut other = JobBuilder::new(job.name, max_parallelism);
    other.vertices = job.vertices;
    other
}

#[test]
fn d04_keyed_state_is_not_restored_under_another_maximum() {
    let (disk, committed) = (Disk::new(), Committed::default());
    drive_rounds(&mut assemble_keyed(&disk, &committed, 1, 2).unwrap(), 80);
    for wanted in [64, 256] {
        let job = with_maximum(keyed_job(&committed, 2), wanted);
        let refused = Job::assemble(job, disk.clone(), Now::default(), &options(2)).unwrap_err();
        assert!(matches!(refused, JobError::OtherMaxParallelism { recorded: 128, .. }), "{refused}");
        assert!(refused.to_string().contains("128") && refused.to_string().contains(&wanted.to_string()));
    }
    assert!(assemble_keyed(&disk, &committed, 2, 2).unwrap().resumed_from.is_some());
}

#[test]
fn d04_state_without_keys_is_restored_under_any_maximum() {
    let (disk, committed) = (Disk::new(), Committed::default());
    drive_rounds(&mut assemble(&disk, &committed, 1).unwrap(), 80);
    let job = with_maximum(job(&committed, 2), 256);
    let job = Job::assemble(job, disk, Now::default(), &options(2)).unwrap();
    assert!(job.resumed_from.is_some());
    run(job).unwrap();
    assert_exact(&committed);
}

/// The bytes of a file, and the same file with one of them changed.
pub(super) fn flip(disk: &mut Disk, path: &str, offset: usize) {
    let mut files = crate::blocking::Blocking::new(disk);
    let mut bytes = files.read(path, u64::MAX).unwrap();
    bytes[offset] ^= 1;
    files.remove(path).unwrap();
    let names = slackwater_core::durable::Names::Final { path };
    let mut file = slackwater_core::durable::WriteFile::new(names, bytes);
    slackwater_core::durable::run_to_end(disk, &mut file).unwrap();
}

#[test]
fn a_damaged_newest_checkpoint_is_passed_over_said_so_and_left() {
    for what in ["manifest", "segment"] {
        let (mut disk, committed) = (Disk::new(), Committed::default());
        drive_rounds(&mut assemble_keyed(&disk, &committed, 1, 2).unwrap(), 80);
        let found = crate::recovery::find(&mut disk, "tally").unwrap();
        let newest = found.newest.unwrap();
        let segment = newest.vertices[1].subtasks[0].segment.clone().unwrap().file_name;
        match what {
            "manifest" => flip(&mut disk, &format!("tally/chk-{}/_metadata", newest.id), 100),
            _ => flip(&mut disk, &format!("tally/{segment}"), 5000),
        }
        let job = assemble_keyed(&disk, &committed, 2, 2).unwrap();
        assert_eq!(job.resumed_from, Some(CheckpointId(newest.id.0 - 1)), "{what}");
        assert_eq!(job.passed_over.len(), 1);
        assert_eq!(job.passed_over[0].id, newest.id);
        assert!(job.passed_over[0].reason.contains("damaged"), "{:?}", job.passed_over);
        let report = run(job).unwrap();
        assert!(report.last_checkpoint > Some(newest.id), "numbers are never used again");
        let ids = crate::recovery::checkpoint_ids(&mut crate::blocking::Blocking::new(&mut disk), "tally");
        assert!(ids.unwrap().contains(&newest.id), "left in place");
    }
}

/// Its sinks have taken back what the checkpoint covers by then.
#[test]
fn a_checkpoint_that_was_passed_over_is_not_gone_on_from_when_it_reads_well_again() {
    let (mut disk, committed) = (Disk::new(), Committed::default());
    drive_rounds(&mut assemble_keyed(&disk, &committed, 1, 2).unwrap(), 80);
    let newest = crate::recovery::find(&mut disk, "tally").unwrap().newest.unwrap();
    let path = format!("tally/{}", newest.vertices[1].subtasks[0].segment.clone().unwrap().file_name);
    flip(&mut disk, &path, 5000);
    let older = assemble_keyed(&disk, &committed, 2, 2).unwrap().resumed_from;
    flip(&mut disk, &path, 5000);
    for attempt in 3..5 {
        let job = assemble_keyed(&disk, &committed, attempt, 2).unwrap();
        assert_eq!(job.resumed_from, older);
        assert!(job.passed_over[0].reason.contains("_passed_over"), "{:?}", job.passed_over);
    }
}

#[test]
fn a_job_without_a_sound_checkpoint_starts_afresh_and_says_so() {
    let (mut disk, committed) = (Disk::new(), Committed::default());
    drive_rounds(&mut assemble_keyed(&disk, &committed, 1, 2).unwrap(), 25);
    let ids = crate::recovery::find(&mut disk, "tally").unwrap().retained;
    for id in &ids {
        flip(&mut disk, &format!("tally/chk-{id}/_metadata"), 40);
    }
    let job = assemble_keyed(&disk, &Committed::default(), 2, 2).unwrap();
    assert_eq!((job.resumed_from, job.passed_over.len()), (None, ids.len()));
}

/// A disk that refuses one kind of operation from a moment on.
#[derive(Debug)]
struct Refusing {
    disk: Disk,
    error: DiskError,
    /// So many are carried out before.
    left: u32,
    refused: Vec<Token>,
}

impl slackwater_core::durable::Disk for Refusing {
    type Block = <Disk as slackwater_core::durable::Disk>::Block;
    type Frozen = FrozenRun;

    fn block(&mut self) -> Option<Self::Block> {
        self.disk.block()
    }

    fn recycle(&mut self, block: Self::Block) {
        self.disk.recycle(block);
    }

    fn submit<'p>(
        &mut self,
        token: Token,
        operation: Operation<'p, Self::Block, FrozenRun>,
    ) -> Result<(), Operation<'p, Self::Block, FrozenRun>> {
        if operation.kind() == self.error.operation {
            if self.left == 0 {
                self.refused.push(token);
                return Ok(());
            }
            self.left -= 1;
        }
        self.disk.submit(token, operation)
    }

    fn reap(&mut self, wait: Wait, out: &mut VecView<Completion<Self::Block>>) -> usize {
        let mut count = self.disk.reap(wait, out);
        while let Some(token) = self.refused.pop() {
            let outcome = slackwater_core::durable::Outcome::Failed(self.error);
            out.push(Completion { token, outcome }).unwrap();
            count += 1;
        }
        count
    }

    fn in_flight(&self) -> usize {
        self.disk.in_flight() + self.refused.len()
    }

    fn list(&mut self, folder: &str, each: &mut dyn FnMut(Entry<'_>)) -> Result<(), DiskError> {
        self.disk.list(folder, each)
    }
}

#[test]
fn a_full_disk_ends_the_job_in_one_clear_line_and_nothing_is_lost() {
    let (disk, committed) = (Disk::new(), Committed::default());
    for left in 0..6 {
        let error = DiskError { operation: OperationKind::CreateFile, errno: DiskError::NO_SPACE };
        let full = Refusing { disk: disk.clone(), error, left, refused: Vec::new() };
        let options = JobOptions { memory_limit_bytes: 64 << 20, ..options(u64::from(left) + 1) };
        let job = Job::assemble(keyed_job(&committed, 2), full, Now::default(), &options);
        let failure = match job {
            Ok(job) => run(job).unwrap_err(),
            Err(error) => error,
        };
        assert!(failure.to_string().contains("no space left on the disk"), "{failure}");
        assert!(matches!(failure, JobError::Checkpoint { checkpoint: Some(_), .. }), "{failure}");
    }
    run(assemble_keyed(&disk, &committed, 99, 2).unwrap()).unwrap();
    assert_tallied(&committed);
}

#[test]
fn a_checkpoint_that_cannot_be_looked_at_for_now_is_not_passed_over() {
    let (mut disk, committed) = (Disk::new(), Committed::default());
    drive_rounds(&mut assemble_keyed(&disk, &committed, 1, 2).unwrap(), 80);
    let sound = crate::recovery::find(&mut disk, "tally").unwrap();
    let newest = sound.newest.unwrap().id;
    let without_manifest = sound.incomplete.iter().filter(|id| **id > newest).count();
    let left = u32::try_from(without_manifest).unwrap() + 1;
    for (errno, is_damage) in [(DiskError::ACCESS, false), (24, false), (DiskError::IO, true)] {
        // The newest manifest can be read, its segments cannot.
        let error = DiskError { operation: OperationKind::OpenFile, errno };
        let mut refusing = Refusing { disk: disk.clone(), error, left, refused: Vec::new() };
        let found = crate::recovery::find(&mut refusing, "tally");
        match found {
            Err(JobError::Disk { path, error: told }) if !is_damage => {
                assert_eq!(told, error);
                assert!(path.ends_with(".seg"), "{path}");
            }
            Ok(found) if is_damage => assert!(found.newest.is_none() && !found.passed_over.is_empty()),
            other => panic!("{other:?}"),
        }
    }
}

/// Steps actors in a random order, so that the disk and some subtasks fall far behind, until all have
/// finished or after `steps`.
fn drive_unfairly(actors: &mut [Box<dyn Actor>], seed: u64, steps: u64) {
    let mut random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut finished = vec![false; actors.len()];
    let mut slow = 0;
    for step in 0..steps {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        if step.is_multiple_of(64) {
            slow = usize::try_from(random >> 32).unwrap() % actors.len();
        }
        let index = usize::try_from(random >> 33).unwrap() % actors.len();
        let now = Now { monotonic: Millis(step / 8), wall: Millis(step / 8) };
        // The slow one of the moment gets an eighth of its turns.
        if !finished[index] && (index != slow || random.is_multiple_of(8)) {
            finished[index] = actors[index].step(now) == Step::Finished;
        }
        if finished.iter().all(|finished| *finished) {
            return;
        }
    }
}

#[test]
fn overlapping_late_and_aborted_checkpoints_leave_a_job_exact() {
    for seed in 1..=6 {
        let (disk, committed) = (Disk::new(), Committed::default());
        let mut failed = 0;
        for attempt in 1.. {
            let options = JobOptions {
                max_concurrent_checkpoints: 3,
                timeout: Millis(10 + seed * 2),
                tolerable_failed_checkpoints: 1000,
                memory_limit_bytes: 64 << 20,
                ..options(attempt)
            };
            let builder = keyed_job(&committed, 1 + u16::try_from(seed + attempt).unwrap() % 3);
            let mut job = match Job::assemble(builder, disk.clone(), Now::default(), &options) {
                Err(JobError::AlreadyFinished { .. }) => break,
                job => job.unwrap(),
            };
            let steps = if attempt < 4 { 400 + seed * 50 * attempt } else { 1_000_000 };
            drive_unfairly(&mut job.take_actors(), seed * 100 + attempt, steps);
            failed += job.report().unwrap().checkpoints_failed;
        }
        assert!(failed > 0 || seed > 3, "seed {seed}: nothing was aborted");
        assert_tallied(&committed);
    }
}

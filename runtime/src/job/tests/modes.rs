//! Barriers that overtake, barriers that do after a while, and channels that never wait, over a slow sink.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::CheckpointingMode;
use slackwater_core::key_group::MaxParallelism;
use slackwater_mem::{Decode, Plain, ScanCursor, Value, ValueState};

use super::*;
use crate::channel::BOUND;
use crate::checkpoint::Manifest;
use crate::keyed::{Context, KeyedProcess, Rest, Setup};
use crate::recovery::{find, read_in_flight};
use crate::savepoint::Savepoint;

const KEYS: u64 = 50;
const RECORDS: u64 = 12_000;

/// A key and a number, and some more, so that few fill a batch.
type Wide = (u64, u64, u128, u128, u128, u128);
/// How it is written into checkpoints.
type WideCodec = (Plain<u64>, Plain<u64>, Plain<u128>, Plain<u128>, Plain<u128>, Plain<u128>);

/// Sums up by key; emits the sums at the end, and every record at once.
#[derive(Default)]
struct Sum {
    sums: Option<ValueState<Plain<u64>, Plain<u64>>>,
    cursor: ScanCursor,
}

fn error(error: impl std::fmt::Display) -> OperatorError {
    OperatorError::new(error.to_string())
}

/// What stands for the sum of a key in the output.
const fn sum_record(key: u64, sum: u64) -> u64 {
    1 << 60 | key << 40 | sum
}

impl KeyedProcess for Sum {
    type Key = Plain<u64>;
    type In = Wide;
    type Out = Wide;

    fn open(&mut self, setup: &mut Setup<'_>) -> Result<(), OperatorError> {
        let max = MaxParallelism::new(setup.info.max_parallelism.into()).map_err(error)?;
        let sums = ValueState::register(setup.heap, &setup.info.operator, "sums", max);
        self.sums = Some(sums.map_err(error)?);
        Ok(())
    }

    fn process(
        &mut self,
        key: &u64,
        record: &Wide,
        context: &mut Context<'_, Wide>,
    ) -> Result<(), OperatorError> {
        let sums = self.sums.unwrap();
        sums.update(context.heap_mut(), key, |before| before.unwrap_or(0) + record.1).map_err(error)?;
        context.emit(record);
        Ok(())
    }

    fn on_end_of_data(&mut self, context: &mut Context<'_, Wide>) -> Result<Rest, OperatorError> {
        let mut sums = Vec::new();
        let mut add = |key: Value<'_>, sum: Value<'_>| {
            sums.push((Plain::<u64>::decode(&key).unwrap(), Plain::<u64>::decode(&sum).unwrap()));
        };
        let more = context.heap().scan(self.sums.unwrap().id(), &mut self.cursor, &mut add).map_err(error)?;
        sums.into_iter().for_each(|(key, sum)| context.emit(&(key, sum_record(key, sum), 0, 0, 0, 0)));
        Ok(if more { Rest::More } else { Rest::Done })
    }
}

/// What sinks have committed: each transaction, named by start, subtask and checkpoint, once.
type Ledger = Arc<Mutex<BTreeMap<[u64; 3], Vec<u64>>>>;

/// A sink that takes no more records than it is allowed to.
struct Slow {
    ledger: Ledger,
    /// The start and the subtask.
    name: [u64; 2],
    current: Vec<u64>,
    pending: BTreeMap<[u64; 3], Vec<u64>>,
    taken: u64,
    allowed: Arc<AtomicU64>,
}

impl Sink for Slow {
    type In = Wide;

    fn recover(
        &mut self,
        _restored: Option<CheckpointId>,
        pending: &[Vec<u8>],
        _files: &mut dyn BlockingFiles,
    ) -> Result<Vec<String>, OperatorError> {
        for transaction in pending {
            let numbers = transaction.chunks_exact(8).map(|n| u64::from_le_bytes(n.try_into().unwrap()));
            let numbers: Vec<u64> = numbers.collect();
            lock(&self.ledger).insert(numbers[..3].try_into().unwrap(), numbers[3..].to_vec());
        }
        Ok(Vec::new())
    }

    fn write(&mut self, record: &Wide, _files: &mut Files) -> Result<(), OperatorError> {
        self.taken += 1;
        self.current.push(record.1);
        Ok(())
    }

    fn has_room(&self, _files: &Files) -> bool {
        self.taken < self.allowed.load(Ordering::Relaxed)
    }

    fn pre_commit(&mut self, id: CheckpointId, _files: &mut Files) -> Result<Vec<Vec<u8>>, OperatorError> {
        let name = [self.name[0], self.name[1], id.0];
        self.pending.insert(name, std::mem::take(&mut self.current));
        let bytes = |(name, numbers): (&[u64; 3], &Vec<u64>)| {
            name.iter().chain(numbers).flat_map(|number| number.to_le_bytes()).collect()
        };
        Ok(self.pending.iter().map(bytes).collect())
    }

    fn is_sealed(&self, _checkpoint: CheckpointId) -> bool {
        true
    }

    fn commit(&mut self, checkpoint: CheckpointId, _files: &mut Files) -> Result<(), OperatorError> {
        let due = self.pending.extract_if(.., |[_, _, id], _| *id <= checkpoint.0);
        lock(&self.ledger).extend(due);
        Ok(())
    }

    fn is_committed(&self, checkpoint: CheckpointId) -> bool {
        self.pending.keys().all(|[_, _, id]| *id > checkpoint.0)
    }

    fn on_file(&mut self, _event: FileEvent, _files: &mut Files) -> Result<(), OperatorError> {
        Ok(())
    }
}

/// A job on a disk that is started again and again.
struct Again {
    disk: Disk,
    ledger: Ledger,
    options: JobOptions,
    /// Whether its streams say how their records are written.
    has_codecs: bool,
    /// Records that each sink takes in a round.
    pace: u64,
    allowed: Arc<AtomicU64>,
    attempts: u64,
}

impl Again {
    fn new(options: JobOptions) -> Self {
        Self {
            disk: Disk::new(),
            ledger: Ledger::default(),
            options: JobOptions { memory_limit_bytes: 64 << 20, ..options },
            has_codecs: true,
            pace: 40,
            allowed: Arc::default(),
            attempts: 0,
        }
    }

    fn builder(&self, parallelism: [u16; 3]) -> JobBuilder {
        let (ledger, allowed) = (Arc::clone(&self.ledger), Arc::clone(&self.allowed));
        let [sources, sums_parallelism, sinks] = parallelism;
        let mut job = JobBuilder::new("modes", 128);
        let pairs = job.source("source", sources, |info| Splits::new(info.index, info.parallelism)).flat_map(
            "pair",
            |number: &u64, out: &mut Output<'_, Wide>| {
                out.emit(&(number % KEYS, *number, 0, 0, 0, 0));
            },
        );
        let pairs = if self.has_codecs { pairs.codec::<WideCodec>() } else { pairs };
        let sums = pairs.key_by::<Plain<u64>, _>(|pair: &Wide| &pair.0);
        let sums = sums.process("sum", sums_parallelism, |_| Sum::default());
        let sums = if self.has_codecs { sums.codec::<WideCodec>() } else { sums };
        sums.rebalance("spread", sinks).sink("collect", move |info| Slow {
            ledger: Arc::clone(&ledger),
            name: [info.attempt, info.index.into()],
            current: Vec::new(),
            pending: BTreeMap::new(),
            taken: 0,
            allowed: Arc::clone(&allowed),
        });
        job
    }

    fn assemble(&mut self, parallelism: [u16; 3]) -> Result<AssembledJob, JobError> {
        self.attempts += 1;
        self.allowed.store(0, Ordering::Relaxed);
        let options = JobOptions { attempt: self.attempts, hash_seed: 7, ..self.options.clone() };
        Job::assemble(self.builder(parallelism), self.disk.clone(), Now::default(), &options)
    }

    /// Drives the job for some rounds, then drops it. True if it came to its end.
    fn rounds(&mut self, parallelism: [u16; 3], rounds: u64) -> bool {
        let mut job = match self.assemble(parallelism) {
            Err(JobError::AlreadyFinished { .. }) => return true,
            job => job.unwrap(),
        };
        let mut left = rounds;
        drive_unfairly(&mut job.take_actors(), || {
            left -= 1;
            self.allowed.fetch_add(self.pace, Ordering::Relaxed);
            left == 0
        });
        job.report().unwrap();
        left > 0
    }

    /// The newest checkpoint, and how many batches it holds of records in flight.
    fn newest(&mut self) -> Option<(CheckpointId, usize)> {
        let manifest = find(&mut self.disk, "modes").unwrap().newest?;
        Some((manifest.id, in_flight_of(&mut self.disk, "modes", &manifest)))
    }

    fn in_flight(&mut self) -> usize {
        self.newest().expect("there is a checkpoint").1
    }

    fn assert_exact(&self) {
        assert_eq!(self.doubled(), 0);
    }

    /// Asserts that nothing is lost; says how many records are there more often than once, or are sums that are too large.
    fn doubled(&self) -> usize {
        let mut numbers: Vec<u64> = lock(&self.ledger).values().flatten().copied().collect();
        numbers.sort_unstable();
        let mut missing: BTreeSet<u64> = (0..RECORDS).collect();
        let mut sums = vec![None; usize::try_from(KEYS).unwrap()];
        let mut doubled = 0;
        for number in numbers {
            if number < RECORDS {
                doubled += usize::from(!missing.remove(&number));
            } else {
                let (key, sum) = (number >> 40 & 0xff, number & ((1 << 40) - 1));
                let expected = (0..RECORDS).filter(|number| number % KEYS == key).sum::<u64>();
                assert!(sum >= expected, "the sum of {key}");
                let is_first = sums[usize::try_from(key).unwrap()].replace(sum).is_none();
                doubled += usize::from(!is_first || sum > expected);
            }
        }
        assert!(missing.is_empty(), "{} are missing, {:?} the first", missing.len(), missing.first());
        assert!(sums.iter().all(Option::is_some));
        doubled
    }
}

/// As [`drive`], but some actors step only in every second or third round.
fn drive_unfairly(actors: &mut [Box<dyn Actor>], mut stop: impl FnMut() -> bool) {
    let mut finished = vec![false; actors.len()];
    for round in 0..1_000_000 {
        let now = Now { monotonic: Millis(round), wall: Millis(1_000_000 + round) };
        for (index, (actor, finished)) in (0..).zip(actors.iter_mut().zip(&mut finished)) {
            let is_due = round % (1 + index % 3) == 0;
            *finished = *finished || is_due && actor.step(now) == Step::Finished;
        }
        if stop() || finished.iter().all(|finished| *finished) {
            return;
        }
    }
    panic!("the job does not end");
}

/// Numbers in eight splits, one after the other.
struct Splits(Vec<(u64, u64)>);

impl Splits {
    const COUNT: u64 = 8;

    fn new(index: u16, parallelism: u16) -> Self {
        let mine = (0..Self::COUNT).skip(index.into()).step_by(parallelism.into());
        // Of different length, so that some subtasks end before others.
        let bound = |split: u64| split * split * RECORDS / (Self::COUNT * Self::COUNT);
        Self(mine.map(|split| (bound(split), bound(split + 1))).collect())
    }
}

impl Source for Splits {
    type Out = u64;

    fn restore(&mut self, splits: Vec<Vec<u8>>) -> Result<(), OperatorError> {
        let number = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().unwrap());
        self.0 = splits.iter().map(|split| (number(&split[..8]), number(&split[8..]))).collect();
        Ok(())
    }

    fn read(&mut self, out: &mut Output<'_, u64>) -> Result<SourceStatus, OperatorError> {
        let Some((next, end)) = self.0.iter_mut().find(|(next, end)| next < end) else {
            return Ok(SourceStatus::Ended);
        };
        for number in *next..(*next + 200).min(*end) {
            out.emit(&number);
        }
        *next = (*next + 200).min(*end);
        Ok(SourceStatus::More)
    }

    fn snapshot(&mut self) -> Vec<Vec<u8>> {
        self.0.iter().map(|(next, end)| [next.to_le_bytes(), end.to_le_bytes()].concat()).collect()
    }
}

fn unaligned() -> JobOptions {
    JobOptions { unaligned: true, ..options(0) }
}

fn turning_unaligned(timeout: u64) -> JobOptions {
    JobOptions { aligned_checkpoint_timeout: Millis(timeout), ..unaligned() }
}

fn at_least_once() -> JobOptions {
    JobOptions { mode: CheckpointingMode::AtLeastOnce, ..options(0) }
}

/// Drops the job again and again, with another parallelism each time. Says of how many checkpoints with records in flight
/// it went on.
fn to_the_end(again: &mut Again, first: u64) -> usize {
    let mut restored_in_flight = 0;
    for turn in 0..200 {
        let parallelism = [[2, 2, 2], [1, 3, 2], [3, 2, 1], [2, 2, 2], [4, 1, 4]][turn % 5];
        restored_in_flight += usize::from(again.newest().is_some_and(|(_, in_flight)| in_flight > 0));
        if again.rounds(parallelism, first + 7 * turn as u64) {
            return restored_in_flight;
        }
    }
    panic!("the job does not get to its end");
}

/// Batches that a checkpoint in a folder holds of records in flight.
fn in_flight_of(disk: &mut Disk, folder: &str, manifest: &Manifest) -> usize {
    let captured = read_in_flight(disk, folder, manifest).unwrap();
    let channels = captured.iter().flatten().flat_map(|subtask| &subtask.channels);
    channels.map(|channel| channel.batches.len()).sum()
}

#[test]
fn u14_an_unaligned_job_dropped_anywhere_is_exact_at_any_parallelism() {
    let mut restored_in_flight = 0;
    for first in [13, 20, 29, 41] {
        let mut again = Again::new(unaligned());
        restored_in_flight += to_the_end(&mut again, first);
        again.assert_exact();
    }
    assert!(restored_in_flight > 20, "{restored_in_flight}");
}

#[test]
fn b18_a_job_that_turns_unaligned_is_exact_at_any_parallelism() {
    for timeout in [1, 5, 20] {
        let mut again = Again::new(turning_unaligned(timeout));
        assert!(to_the_end(&mut again, 31) > 0, "after {timeout} ms");
        again.assert_exact();
    }
}

#[test]
fn q14_what_aligns_in_time_captures_nothing() {
    let mut again = Again::new(turning_unaligned(60_000));
    again.pace = 100_000;
    again.rounds([2, 2, 2], 60);
    assert_eq!(again.in_flight(), 0);
}

#[test]
fn bug_b03_streams_without_codecs_stay_aligned_and_are_exact() {
    let mut again = Again::new(unaligned());
    again.has_codecs = false;
    assert_eq!(to_the_end(&mut again, 60), 0);
    again.assert_exact();
}

/// Rounds until the first checkpoint is complete while the sinks take one record in a round.
fn rounds_to_a_checkpoint(options: JobOptions) -> u64 {
    let mut again = Again::new(options);
    let mut job = again.assemble([2, 2, 2]).unwrap();
    let (observer, mut rounds) = (job.observer(), 0);
    drive(&mut job.take_actors(), || {
        rounds += 1;
        again.allowed.fetch_add(1, Ordering::Relaxed);
        observer.progress().checkpoints_completed > 0
    });
    rounds
}

#[test]
fn b24_an_unaligned_checkpoint_does_not_wait_for_a_slow_sink() {
    let (aligned, unaligned) = (rounds_to_a_checkpoint(options(0)), rounds_to_a_checkpoint(unaligned()));
    assert!(unaligned < 30 && aligned > 20 * unaligned, "aligned {aligned}, unaligned {unaligned}");
    // The time-out counts from the trigger.
    let turned = rounds_to_a_checkpoint(turning_unaligned(100));
    assert!((100..140).contains(&turned), "{turned}");
}

#[test]
fn u5_a_savepoint_waits_for_what_is_in_flight() {
    let mut again = Again::new(JobOptions { interval: None, min_pause: Millis(0), ..unaligned() });
    let mut job = again.assemble([2, 2, 2]).unwrap();
    let (controller, mut asked): (_, Option<Savepoint>) = (job.controller(), None);
    let mut rounds = 0;
    drive(&mut job.take_actors(), || {
        rounds += 1;
        again.allowed.fetch_add(20, Ordering::Relaxed);
        if rounds == 50 {
            asked = Some(controller.savepoint("saved"));
        }
        asked.as_ref().is_some_and(|asked| asked.result().is_some())
    });
    asked.unwrap().result().unwrap().unwrap();
    let saved = find(&mut again.disk, "saved/modes").unwrap().newest.unwrap();
    assert_eq!(in_flight_of(&mut again.disk, "saved/modes", &saved), 0);
    assert!(rounds > 100, "{rounds}");
}

#[test]
fn u17_what_is_replayed_can_be_captured_again() {
    let mut again = Again::new(unaligned());
    // Nothing is taken by the sink: whatever is in flight stays so, and fills the queues.
    again.pace = 0;
    again.rounds([1, 1, 1], 60);
    for turn in 0..4 {
        let (before, captured_before) = again.newest().unwrap();
        again.rounds([1, 1, 1], 60);
        let (after, captured_after) = again.newest().unwrap();
        assert!(after > before && captured_before > 0 && captured_after > 0, "{turn}");
        // Of each of the two channels: the batch in work, and one beyond the bound.
        assert!(captured_after <= 2 * (BOUND + 2), "{turn}");
    }
    again.pace = 400;
    to_the_end(&mut again, 100);
    again.assert_exact();
}

#[test]
fn records_in_flight_survive_a_change_to_other_modes() {
    let mut again = Again::new(unaligned());
    again.rounds([2, 2, 2], 120);
    assert!(again.in_flight() > 0);
    again.options = JobOptions { memory_limit_bytes: 64 << 20, ..options(0) };
    to_the_end(&mut again, 400);
    again.assert_exact();
    // But not to streams that cannot read them.
    let mut again = Again::new(unaligned());
    again.rounds([2, 2, 2], 120);
    again.has_codecs = false;
    let refused = again.assemble([2, 2, 2]).unwrap_err().to_string();
    assert!(refused.contains("in flight") && refused.contains("codec"), "{refused}");
}

#[test]
fn g3_at_least_once_loses_nothing_and_holds_no_channel_back() {
    let mut doubled = 0;
    for first in [13, 29, 41] {
        let mut again = Again::new(at_least_once());
        again.pace = 1000;
        assert_eq!(to_the_end(&mut again, first), 0);
        doubled += again.doubled();
    }
    assert!(doubled > 0, "nobody would notice channels that wait");
}

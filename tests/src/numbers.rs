//! A job that counts until it is told to end, whose output says whether any number is missing or there twice.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use std::{panic, thread};

use slackwater::blocking::Blocking;
use slackwater::file_sink::{FileSink, FileSinkOptions};
use slackwater::files::{BlockingFiles, FileEvent, Files};
use slackwater::key_group::MaxParallelism;
use slackwater::keyed::{Context, KeyedProcess, Setup};
use slackwater::operator::{OperatorError, Sink, Source, SourceStatus};
use slackwater::output::Output;
use slackwater::{JobBuilder, JobOptions};
use slackwater_core::durable::Disk;
use slackwater_core::ids::CheckpointId;
use slackwater_core::time::Millis;
use slackwater_mem::{Bytes, Plain, ValueState};

/// Folder of the checkpoints, in the job's own folder.
pub const CHECKPOINTS: &str = "numbers";
/// The folder of the output, if it goes to files.
pub const OUTPUT: &str = "out";

/// The message of panics that were asked for.
const AS_TOLD: &str = "as it was told to";

/// Has panics that were asked for print nothing: so many messages would be memory, too.
pub fn silence_expected_panics() {
    let print = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        if info.payload_as_str().is_none_or(|message| message != AS_TOLD) {
            print(info);
        }
    }));
}

/// Different keys: a number's is its last digits.
const KEYS: u64 = 1_000;
/// How long a source rests that has emitted all it may.
const REST: Duration = Duration::from_millis(1);

/// What the operators of all attempts share with the test.
#[derive(Clone, Debug, Default)]
pub struct Numbers(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    is_over: AtomicBool,
    /// Numbers emitted, each once.
    emitted: AtomicU64,
    /// Numbers that may be emitted.
    allowed: AtomicU64,
    /// Numbers that the source emits at a time.
    at_once: AtomicU64,
    /// Sinks in memory throw away what they are given.
    forgets_output: AtomicBool,
    committed: Mutex<Vec<Vec<u8>>>,
    /// Records until one panics; none if zero.
    until_panic: AtomicU64,
    /// The source panics when it is next asked for its state.
    panics_at_snapshot: AtomicBool,
}

impl Default for Shared {
    fn default() -> Self {
        Self {
            is_over: AtomicBool::default(),
            emitted: AtomicU64::default(),
            allowed: AtomicU64::new(u64::MAX),
            at_once: AtomicU64::new(1),
            forgets_output: AtomicBool::default(),
            committed: Mutex::default(),
            until_panic: AtomicU64::default(),
            panics_at_snapshot: AtomicBool::default(),
        }
    }
}

impl Numbers {
    /// With a source that emits so many numbers at a time.
    #[must_use]
    pub fn many_at_once(numbers: u64) -> Self {
        Self(Arc::new(Shared { at_once: AtomicU64::new(numbers), ..Shared::default() }))
    }

    /// With sinks in memory that throw away what they are given.
    #[must_use]
    pub fn without_output() -> Self {
        Self(Arc::new(Shared { forgets_output: AtomicBool::new(true), ..Shared::default() }))
    }

    /// No number follows those that have been emitted.
    pub fn end(&self) {
        self.0.is_over.store(true, Ordering::Relaxed);
    }

    /// After so many records a task panics.
    pub fn panic_after(&self, records: u64) {
        self.0.until_panic.store(records, Ordering::Relaxed);
    }

    /// The next checkpoint makes a task panic.
    pub fn panic_at_snapshot(&self) {
        self.0.panics_at_snapshot.store(true, Ordering::Relaxed);
    }

    /// Numbers emitted so far.
    #[must_use]
    pub fn emitted(&self) -> u64 {
        self.0.emitted.load(Ordering::Relaxed)
    }

    /// Lets so many numbers be emitted; then the source rests, on a real clock.
    pub fn allow(&self, numbers: u64) {
        self.0.allowed.store(numbers, Ordering::Relaxed);
    }

    /// Emits numbers from one source, counts them by their last digit, and gives them to a sink in memory, or in files.
    #[must_use]
    pub fn job(&self, to_files: bool) -> JobBuilder {
        let mut job = JobBuilder::new(CHECKPOINTS, 8);
        let (at_source, at_count, at_sink) = (self.clone(), self.clone(), self.clone());
        let counted = job
            .source("count", 1, move |_| Counting { next: 0, shared: at_source.clone() })
            .key_by::<Bytes, _>(|number: &[u8]| &number[number.len() - 3..])
            .process("tally", 2, move |_| Tally { seen: None, shared: at_count.clone() });
        if to_files {
            counted.sink("files", |info| FileSink::new(OUTPUT, info, FileSinkOptions::default()));
        } else {
            counted.sink("memory", move |_| InMemory {
                shared: at_sink.clone(),
                current: Vec::new(),
                pending: Vec::new(),
            });
        }
        job
    }

    /// Checkpoints as fast as they go.
    #[must_use]
    pub fn options(attempt: u64) -> JobOptions {
        JobOptions {
            interval: Some(Millis(10)),
            memory_limit_bytes: 4 << 20,
            frame_size: 1024,
            ..JobOptions::new(attempt)
        }
    }

    /// Compares what the sinks in memory have committed with what was emitted.
    ///
    /// # Errors
    /// What is missing or there twice.
    pub fn check(&self) -> Result<(), String> {
        let mut seen = Seen::new(self.emitted());
        lock(&self.0.committed).iter().try_for_each(|line| seen.add(line))?;
        seen.check()
    }

    /// Compares what is visible of the output on a disk with what was emitted.
    ///
    /// # Errors
    /// What is missing or there twice, or cannot be read.
    pub fn check_files<D: Disk>(&self, disk: &mut D) -> Result<(), String> {
        let (mut files, mut seen) = (Blocking::new(disk), Seen::new(self.emitted()));
        for entry in files.list(OUTPUT).map_err(|error| error.to_string())? {
            if !entry.is_folder && !entry.name.starts_with('.') {
                let path = format!("{OUTPUT}/{}", entry.name);
                let bytes = files.read(&path, entry.len).map_err(|error| format!("{path}: {error}"))?;
                let mut lines = bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
                lines.try_for_each(|line| seen.add(line))?;
            }
        }
        seen.check()
    }
}

/// Which numbers are in the output.
struct Seen(Vec<bool>);

impl Seen {
    fn new(emitted: u64) -> Self {
        Self(vec![false; usize::try_from(emitted).unwrap_or(usize::MAX)])
    }

    fn add(&mut self, line: &[u8]) -> Result<(), String> {
        let text = String::from_utf8_lossy(line);
        let number = text.parse::<usize>().map_err(|_| format!("{text} is no number"))?;
        match self.0.get_mut(number).map(|is_seen| std::mem::replace(is_seen, true)) {
            Some(false) => Ok(()),
            Some(true) => Err(format!("{number} is there twice")),
            None => Err(format!("{number} was never emitted")),
        }
    }

    fn check(&self) -> Result<(), String> {
        match self.0.iter().position(|is_seen| !is_seen) {
            Some(missing) => Err(format!("{missing} of {} is missing", self.0.len())),
            None => Ok(()),
        }
    }
}

/// Emits numbers.
struct Counting {
    next: u64,
    shared: Numbers,
}

impl Source for Counting {
    type Out = [u8];

    fn restore(&mut self, splits: Vec<Vec<u8>>) -> Result<(), OperatorError> {
        let split = splits.first().and_then(|split| split.as_slice().try_into().ok());
        self.next = split.map(u64::from_le_bytes).ok_or_else(|| OperatorError::new("no position"))?;
        Ok(())
    }

    fn read(&mut self, out: &mut Output<'_, [u8]>) -> Result<SourceStatus, OperatorError> {
        // What was emitted once is emitted again after a restart, whoever wants to end.
        let shared = &self.shared.0;
        for _ in 0..shared.at_once.load(Ordering::Relaxed) {
            let is_again = self.next < self.shared.emitted();
            if shared.is_over.load(Ordering::Relaxed) && !is_again {
                return Ok(SourceStatus::Ended);
            }
            if self.next >= shared.allowed.load(Ordering::Relaxed) {
                thread::park_timeout(REST);
                break;
            }
            out.emit(format!("{:012}", self.next).as_bytes());
            self.next += 1;
            shared.emitted.fetch_max(self.next, Ordering::Relaxed);
        }
        Ok(SourceStatus::More)
    }

    fn snapshot(&mut self) -> Vec<Vec<u8>> {
        assert!(!self.shared.0.panics_at_snapshot.swap(false, Ordering::Relaxed), "{AS_TOLD}");
        vec![self.next.to_le_bytes().to_vec()]
    }
}

/// Passes numbers on, and counts them in its state.
struct Tally {
    seen: Option<ValueState<Bytes, Plain<u64>>>,
    shared: Numbers,
}

impl KeyedProcess for Tally {
    type Key = Bytes;
    type In = [u8];
    type Out = [u8];

    fn open(&mut self, setup: &mut Setup<'_>) -> Result<(), OperatorError> {
        let max = MaxParallelism::new(setup.info.max_parallelism.into()).map_err(refused)?;
        let seen = ValueState::register(setup.heap, &setup.info.operator, "seen", max);
        self.seen = Some(seen.map_err(refused)?);
        Ok(())
    }

    fn process(
        &mut self,
        key: &[u8],
        record: &[u8],
        context: &mut Context<'_, [u8]>,
    ) -> Result<(), OperatorError> {
        let until_panic = &self.shared.0.until_panic;
        if until_panic.load(Ordering::Relaxed) > 0 {
            assert!(until_panic.fetch_sub(1, Ordering::Relaxed) > 1, "{AS_TOLD}");
        }
        let (seen, mut before) = (self.seen.ok_or_else(|| OperatorError::new("not open"))?, 0);
        let updated = seen.update(context.heap_mut(), key, |count| {
            before = count.unwrap_or(0);
            before + 1
        });
        updated.map_err(refused)?;
        // The source emits numbers in order, so those of a key are known beforehand.
        let (number, key) = (String::from_utf8_lossy(record), String::from_utf8_lossy(key));
        let expected = key.parse::<u64>().ok().map(|key| before * KEYS + key);
        if number.parse().ok() != expected {
            return Err(OperatorError::beyond_restart(format!("{before} of its key came before {number}")));
        }
        context.emit(record);
        Ok(())
    }
}

fn refused(error: impl std::fmt::Display) -> OperatorError {
    OperatorError::new(error.to_string())
}

/// A sink whose transactions need no disk.
struct InMemory {
    shared: Numbers,
    current: Vec<Vec<u8>>,
    pending: Vec<(CheckpointId, Vec<Vec<u8>>)>,
}

impl Sink for InMemory {
    type In = [u8];

    fn recover(
        &mut self,
        _restored: Option<CheckpointId>,
        pending: &[Vec<u8>],
        _files: &mut dyn BlockingFiles,
    ) -> Result<Vec<String>, OperatorError> {
        let mut committed = lock(&self.shared.0.committed);
        let known: BTreeSet<Vec<u8>> = committed.iter().cloned().collect();
        let listed = pending.iter().flat_map(|lines| lines.split(|byte| *byte == b'\n'));
        let new = listed.filter(|line| !line.is_empty() && !known.contains(*line)).map(<[u8]>::to_vec);
        committed.extend(new.collect::<Vec<_>>());
        Ok(Vec::new())
    }

    fn write(&mut self, record: &[u8], _files: &mut Files) -> Result<(), OperatorError> {
        if !self.shared.0.forgets_output.load(Ordering::Relaxed) {
            self.current.push(record.to_vec());
        }
        Ok(())
    }

    fn pre_commit(&mut self, id: CheckpointId, _files: &mut Files) -> Result<Vec<Vec<u8>>, OperatorError> {
        self.pending.push((id, std::mem::take(&mut self.current)));
        Ok(self.pending.iter().map(|(_, lines)| lines.join(&b'\n')).collect())
    }

    fn is_sealed(&self, _checkpoint: CheckpointId) -> bool {
        true
    }

    fn commit(&mut self, checkpoint: CheckpointId, _files: &mut Files) -> Result<(), OperatorError> {
        for (_, lines) in self.pending.extract_if(.., |(id, _)| *id <= checkpoint) {
            lock(&self.shared.0.committed).extend(lines);
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

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

//! A sink that keeps every promise, the same with one mistake each, and the sinks of this crate.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use slackwater_core::ids::CheckpointId;

use super::{Broken, Exercised, KitDisk, Promise, Subject, try_sink};
use crate::actor::lock;
use crate::channel_sink::{ChannelOutput, ChannelRecords, ChannelSink, channel};
use crate::file_sink::{FileSink, FileSinkOptions};
use crate::files::{BlockingFiles, FileEvent, Files};
use crate::operator::{Guarantee, OperatorError, Sink, SubtaskInfo};
use crate::write_sink::{LineOutput, WriteSink};

/// A mistake that a sink may make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mistake {
    None,
    ShowsWhatIsPreCommitted,
    ShowsWhatIsWritten,
    CommitsLaterOnes,
    CommitsOnlyTheNotified,
    DropsAborted,
    ListsOnlyTheNewest,
    RecoversNothing,
    RecoversOnlyItsOwn,
    CommitsAgain,
    KeepsLaterOnes,
    NeverSealsAnEmptyOne,
    NeverCommitsAnEmptyOne,
    RefusesASecondRecovery,
}

/// Checkpoint, attempt and subtask of a transaction.
type Name = (CheckpointId, u64, u16);

/// A store that shows what transactions it was given; it lives as long as the test.
#[derive(Debug, Default)]
struct Store {
    transactions: BTreeMap<Name, Vec<u64>>,
    /// Given without a name: what is given twice is there twice.
    loose: Vec<u64>,
    failing: u32,
    recovered: bool,
}

/// A sink into the store.
struct Ledger {
    mistake: Mistake,
    store: Arc<Mutex<Store>>,
    name: (u64, u16),
    current: Vec<u64>,
    pending: Vec<(Name, Vec<u64>)>,
}

impl Ledger {
    /// A commit may be done and reported as failed all the same.
    fn show(&self, name: Name, numbers: &[u64]) -> Result<(), OperatorError> {
        let mut store = lock(&self.store);
        if self.mistake == Mistake::CommitsAgain {
            store.loose.extend(numbers);
        } else {
            store.transactions.insert(name, numbers.to_vec());
        }
        let fails = store.failing > 0;
        store.failing = store.failing.saturating_sub(1);
        if fails { Err(OperatorError::new("the store is away")) } else { Ok(()) }
    }

    fn has_empty(&self, checkpoint: CheckpointId) -> bool {
        self.pending.iter().any(|((id, ..), numbers)| *id <= checkpoint && numbers.is_empty())
    }
}

fn encode(((checkpoint, attempt, subtask), numbers): &(Name, Vec<u64>)) -> Vec<u8> {
    let words = [checkpoint.0, *attempt, u64::from(*subtask)].into_iter().chain(numbers.iter().copied());
    words.flat_map(u64::to_le_bytes).collect()
}

fn decode(bytes: &[u8]) -> (Name, Vec<u64>) {
    let mut words = bytes.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().unwrap()));
    let mut next = || words.next().unwrap();
    let name = (CheckpointId(next()), next(), u16::try_from(next()).unwrap());
    (name, words.collect())
}

impl Sink for Ledger {
    type In = u64;

    fn recover(
        &mut self,
        restored: Option<CheckpointId>,
        pending: &[Vec<u8>],
        _files: &mut dyn BlockingFiles,
    ) -> Result<Vec<String>, OperatorError> {
        let again = std::mem::replace(&mut lock(&self.store).recovered, restored.is_some());
        if self.mistake == Mistake::RefusesASecondRecovery && again && !pending.is_empty() {
            return Err(OperatorError::new("it has recovered before"));
        }
        if self.mistake != Mistake::KeepsLaterOnes {
            lock(&self.store).transactions.retain(|(id, ..), _| Some(*id) <= restored);
        }
        for (name, numbers) in pending.iter().map(|bytes| decode(bytes)) {
            let is_forgotten = self.mistake == Mistake::RecoversNothing
                || (self.mistake == Mistake::RecoversOnlyItsOwn && name.2 != self.name.1);
            if !is_forgotten {
                self.show(name, &numbers)?;
            }
        }
        Ok(Vec::new())
    }

    fn write(&mut self, number: &u64, _files: &mut Files) -> Result<(), OperatorError> {
        if self.mistake == Mistake::ShowsWhatIsWritten {
            return self.show((CheckpointId(*number), self.name.0, self.name.1), &[*number]);
        }
        self.current.push(*number);
        Ok(())
    }

    fn pre_commit(&mut self, id: CheckpointId, _files: &mut Files) -> Result<Vec<Vec<u8>>, OperatorError> {
        let closed = ((id, self.name.0, self.name.1), std::mem::take(&mut self.current));
        if self.mistake == Mistake::ShowsWhatIsPreCommitted {
            self.show(closed.0, &closed.1)?;
        }
        self.pending.push(closed);
        let newest = self.pending.len() - 1;
        let from = if self.mistake == Mistake::ListsOnlyTheNewest { newest } else { 0 };
        Ok(self.pending[from..].iter().map(encode).collect())
    }

    fn is_sealed(&self, checkpoint: CheckpointId) -> bool {
        self.mistake != Mistake::NeverSealsAnEmptyOne || !self.has_empty(checkpoint)
    }

    fn commit(&mut self, checkpoint: CheckpointId, _files: &mut Files) -> Result<(), OperatorError> {
        let mistake = self.mistake;
        let is_due = |(id, ..): &Name| {
            *id == checkpoint
                || mistake == Mistake::CommitsLaterOnes
                || (*id < checkpoint && mistake != Mistake::CommitsOnlyTheNotified)
        };
        let is_empty_one = |numbers: &[u64]| mistake == Mistake::NeverCommitsAnEmptyOne && numbers.is_empty();
        let due: Vec<_> =
            self.pending.extract_if(.., |(name, numbers)| is_due(name) && !is_empty_one(numbers)).collect();
        if mistake == Mistake::CommitsOnlyTheNotified {
            self.pending.retain(|((id, ..), _)| *id > checkpoint);
        }
        due.iter().try_for_each(|(name, numbers)| self.show(*name, numbers))
    }

    fn is_committed(&self, checkpoint: CheckpointId) -> bool {
        self.pending.iter().all(|((id, ..), _)| *id > checkpoint)
    }

    fn abort(&mut self, checkpoint: CheckpointId) {
        if self.mistake == Mistake::DropsAborted {
            self.pending.retain(|((id, ..), _)| *id != checkpoint);
        }
    }

    fn on_file(&mut self, _event: FileEvent, _files: &mut Files) -> Result<(), OperatorError> {
        Ok(())
    }
}

struct WithStore {
    mistake: Mistake,
    store: Arc<Mutex<Store>>,
}

impl Subject for WithStore {
    type Sink = Ledger;

    fn sink(&mut self, info: &SubtaskInfo) -> Ledger {
        Ledger {
            mistake: self.mistake,
            store: Arc::clone(&self.store),
            name: (info.attempt, info.index),
            current: Vec::new(),
            pending: Vec::new(),
        }
    }

    fn write(&mut self, sink: &mut Ledger, number: u64, files: &mut Files) -> Result<(), OperatorError> {
        sink.write(&number, files)
    }

    fn shown(&mut self, _disk: &KitDisk) -> Vec<u64> {
        let store = lock(&self.store);
        store.transactions.values().flatten().chain(&store.loose).copied().collect()
    }

    fn fail_commits(&mut self, times: u32) {
        lock(&self.store).failing = times;
    }
}

fn try_ledger(mistake: Mistake) -> Result<Exercised, Broken> {
    try_sink(|| WithStore { mistake, store: Arc::default() })
}

#[test]
fn a_sink_that_keeps_every_promise_passes_and_everything_was_tried() {
    let exercised = try_ledger(Mistake::None).unwrap_or_else(|broken| panic!("{broken}"));
    println!("{exercised}");
    let Exercised {
        runs,
        kills,
        recoveries_cut_short,
        recoveries_repeated,
        notifications_lost,
        aborted,
        empty_transactions,
        commits_failed,
        taken_back,
        refused,
    } = exercised;
    let often = [runs, kills, recoveries_repeated, notifications_lost, aborted, empty_transactions];
    assert!(often.iter().all(|count| *count > 500), "{exercised}");
    assert!(recoveries_cut_short > 100 && commits_failed > 100 && taken_back > 50, "{exercised}");
    assert_eq!(refused, 0);
}

#[test]
fn each_mistake_breaks_the_promise_that_it_is_against() {
    for (mistake, promise) in [
        (Mistake::ShowsWhatIsWritten, Promise::HoldsBack),
        (Mistake::ShowsWhatIsPreCommitted, Promise::HoldsBack),
        (Mistake::CommitsLaterOnes, Promise::HoldsBack),
        (Mistake::CommitsOnlyTheNotified, Promise::Commits),
        (Mistake::DropsAborted, Promise::Commits),
        (Mistake::ListsOnlyTheNewest, Promise::Recovers),
        (Mistake::RecoversNothing, Promise::Recovers),
        (Mistake::RecoversOnlyItsOwn, Promise::Recovers),
        (Mistake::CommitsAgain, Promise::ShowsOnce),
        (Mistake::KeepsLaterOnes, Promise::TakesBack),
        (Mistake::NeverSealsAnEmptyOne, Promise::GoesOn),
        (Mistake::NeverCommitsAnEmptyOne, Promise::GoesOn),
        (Mistake::RefusesASecondRecovery, Promise::GoesOn),
    ] {
        let broken = try_ledger(mistake).expect_err(&format!("{mistake:?} is not found"));
        assert_eq!(broken.promise, promise, "{mistake:?}: {broken}");
    }
}

/// Sinks of bytes write numbers as text.
fn write<S: Sink<In = [u8]>>(sink: &mut S, number: u64, files: &mut Files) -> Result<(), OperatorError> {
    sink.write(number.to_string().as_bytes(), files)
}

fn numbers(text: &[u8]) -> impl Iterator<Item = u64> {
    std::str::from_utf8(text).unwrap().lines().map(|line| line.parse().unwrap())
}

/// A folder of parts.
struct Parts;

impl Subject for Parts {
    type Sink = FileSink;

    fn sink(&mut self, info: &SubtaskInfo) -> FileSink {
        // Blocks and parts so short that a transaction has several.
        FileSink::new("out", info, FileSinkOptions { block_len: 2, part_len_max: 4 })
    }

    fn write(&mut self, sink: &mut FileSink, number: u64, files: &mut Files) -> Result<(), OperatorError> {
        write(sink, number, files)
    }

    fn shown(&mut self, disk: &KitDisk) -> Vec<u64> {
        let visible = disk.files().filter(|(path, _)| path.starts_with("out/part-"));
        visible.flat_map(|(_, text)| numbers(text)).collect()
    }
}

#[test]
fn the_file_sink_keeps_every_promise() {
    let exercised = try_sink(|| Parts).unwrap_or_else(|broken| panic!("{broken}"));
    println!("{exercised}");
    assert!(exercised.commits_failed > 100 && exercised.taken_back > 50 && exercised.refused == 0);
}

/// A consumer of a channel that keeps what it gets, and takes it when it is looked at.
struct Consumer {
    output: ChannelOutput,
    records: ChannelRecords,
    taken: Vec<u64>,
}

impl Consumer {
    fn new() -> Self {
        let (output, records) = channel(1);
        Self { output, records, taken: Vec::new() }
    }
}

impl Subject for Consumer {
    type Sink = ChannelSink;

    fn sink(&mut self, info: &SubtaskInfo) -> ChannelSink {
        self.output.sink(info)
    }

    fn write(&mut self, sink: &mut ChannelSink, number: u64, files: &mut Files) -> Result<(), OperatorError> {
        write(sink, number, files)
    }

    fn shown(&mut self, _disk: &KitDisk) -> Vec<u64> {
        self.work();
        self.taken.clone()
    }

    fn work(&mut self) {
        while let Some(transaction) = self.records.try_next() {
            self.taken.extend(transaction.records().flat_map(numbers));
        }
    }
}

#[test]
fn the_channel_sink_keeps_every_promise_and_refuses_what_it_cannot_take_back() {
    let exercised = try_sink(Consumer::new).unwrap_or_else(|broken| panic!("{broken}"));
    println!("{exercised}");
    assert!(exercised.refused > 20, "{exercised}");
}

/// An output that everybody can look at.
#[derive(Clone, Debug, Default)]
struct Screen(Arc<Mutex<Vec<u8>>>);

impl Write for Screen {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        lock(&self.0).extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

struct Terminal {
    screen: Screen,
    output: LineOutput,
}

impl Terminal {
    fn new() -> Self {
        let screen = Screen::default();
        let output = LineOutput::new("the screen", screen.clone()).unwrap();
        Self { screen, output }
    }
}

impl Subject for Terminal {
    type Sink = WriteSink;

    fn sink(&mut self, _info: &SubtaskInfo) -> WriteSink {
        self.output.sink()
    }

    fn write(&mut self, sink: &mut WriteSink, number: u64, files: &mut Files) -> Result<(), OperatorError> {
        write(sink, number, files)
    }

    fn shown(&mut self, _disk: &KitDisk) -> Vec<u64> {
        numbers(&lock(&self.screen.0)).collect()
    }

    fn work(&mut self) {
        std::thread::yield_now();
    }
}

#[test]
fn the_sink_of_lines_keeps_what_it_promises_which_is_less() {
    assert_eq!(WriteSink::GUARANTEE, Guarantee::AtLeastOnce);
    try_sink(Terminal::new).unwrap_or_else(|broken| panic!("{broken}"));
}

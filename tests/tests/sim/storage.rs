//! What survives a crash: the files of checkpoints and the transactions of sinks.

use std::collections::{BTreeMap, BTreeSet};

use slackwater_core::ids::CheckpointId;
use slackwater_core::retained::Verdict;
use slackwater_core::subtask::Part;
use slackwater_core::time::Millis;

use crate::oracle::Output;
use crate::record::{KeyState, Record, Row, Split};

/// One part of a subtask's snapshot. Every run of the tasks has a number of its own, so no name is used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct FileName {
    pub(crate) id: CheckpointId,
    pub(crate) run: u32,
    pub(crate) task: u16,
    part: u8,
}

impl FileName {
    pub(crate) const fn new(id: CheckpointId, run: u32, task: u16, part: Part) -> Self {
        Self { id, run, task, part: part as u8 }
    }
}

/// Records in flight, by channel: the edge, the sender, and batches.
pub(crate) type InFlight = BTreeMap<(usize, u16), Vec<Vec<Record>>>;

#[derive(Clone, Debug)]
pub(crate) enum Content {
    Splits(Vec<Split>),
    Keyed(BTreeMap<u32, KeyState>),
    Sink(SinkState),
    Input(InFlight),
}

/// What a checkpoint lists of a sink's transactions.
#[derive(Clone, Debug, Default)]
pub(crate) struct SinkState {
    pub(crate) pending: Vec<(TransactionName, Millis)>,
    pub(crate) current: Option<TransactionName>,
}

/// The run of the tasks, the task, and its number there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct TransactionName {
    pub(crate) run: u32,
    pub(crate) task: u16,
    pub(crate) number: u64,
}

#[derive(Clone, Debug)]
pub(crate) struct File {
    content: Content,
    is_durable: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Manifest {
    pub(crate) parallelism: Vec<u16>,
    /// The files of each task; tasks that had finished have none.
    pub(crate) parts: BTreeMap<u16, Vec<FileName>>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Storage {
    pub(crate) folders: BTreeSet<CheckpointId>,
    files: BTreeMap<FileName, File>,
    manifests: BTreeMap<CheckpointId, Manifest>,
    /// Checkpoints that somebody has damaged when they were complete.
    pub(crate) damaged: BTreeSet<CheckpointId>,
    unreadable: BTreeSet<CheckpointId>,
}

impl Storage {
    pub(crate) fn write(&mut self, name: FileName, content: Content) {
        self.files.insert(name, File { content, is_durable: false });
    }

    pub(crate) fn sync(&mut self, name: FileName) {
        if let Some(file) = self.files.get_mut(&name) {
            file.is_durable = true;
        }
    }

    pub(crate) fn write_manifest(&mut self, id: CheckpointId, manifest: Manifest) {
        self.manifests.insert(id, manifest);
    }

    pub(crate) fn remove(&mut self, name: FileName) {
        self.files.remove(&name);
    }

    /// The manifest goes first.
    pub(crate) fn remove_checkpoint(&mut self, id: CheckpointId) {
        self.manifests.remove(&id);
        self.files.retain(|name, _| name.id != id);
        self.folders.remove(&id);
        self.damaged.remove(&id);
        self.unreadable.remove(&id);
    }

    pub(crate) fn remove_incomplete_below(&mut self, below: CheckpointId) {
        let is_remains = |id: &CheckpointId| *id < below && !self.manifests.contains_key(id);
        let remains: Vec<_> = self.folders.iter().copied().filter(is_remains).collect();
        remains.into_iter().for_each(|id| self.remove_checkpoint(id));
    }

    /// What is not durable is lost.
    pub(crate) fn lose_power(&mut self) {
        self.files.retain(|_, file| file.is_durable);
    }

    /// Makes a complete checkpoint unfit to be restored.
    pub(crate) fn damage(&mut self, id: CheckpointId, is_unreadable: bool) {
        self.damaged.insert(id);
        let listed = self.manifests.get(&id).and_then(|manifest| manifest.parts.values().flatten().next());
        match listed.copied() {
            Some(name) if !is_unreadable => self.remove(name),
            Some(_) | None => {
                self.unreadable.insert(id);
            }
        }
    }

    /// Complete checkpoints, newest first.
    pub(crate) fn complete(&self) -> impl Iterator<Item = CheckpointId> + '_ {
        self.manifests.keys().rev().copied()
    }

    /// The newest complete checkpoint that nobody has damaged.
    pub(crate) fn newest_whole(&self) -> Option<CheckpointId> {
        self.complete().find(|id| !self.damaged.contains(id))
    }

    pub(crate) fn verdict(&self, id: CheckpointId, is_thorough: bool) -> Verdict {
        let Some(manifest) = self.manifests.get(&id) else { return Verdict::Incomplete };
        let is_there = |name: &FileName| self.files.contains_key(name);
        match manifest.parts.values().flatten().all(is_there) {
            _ if self.unreadable.contains(&id) => Verdict::Unreadable,
            false if is_thorough => Verdict::Damaged,
            true | false => Verdict::Sound,
        }
    }

    /// A manifest, and what its files hold, task by task.
    pub(crate) fn read(&self, id: CheckpointId) -> Result<Checkpoint, String> {
        let manifest = self.manifests.get(&id).ok_or_else(|| format!("checkpoint {id} has no manifest"))?;
        let mut parts = BTreeMap::<u16, Vec<Content>>::new();
        for (task, names) in &manifest.parts {
            let contents = parts.entry(*task).or_default();
            for name in names {
                let file = self.files.get(name).ok_or_else(|| format!("checkpoint {id} lacks {name:?}"))?;
                contents.push(file.content.clone());
            }
        }
        Ok(Checkpoint { parallelism: manifest.parallelism.clone(), parts })
    }
}

/// A checkpoint as it was read.
#[derive(Clone, Debug)]
pub(crate) struct Checkpoint {
    pub(crate) parallelism: Vec<u16>,
    pub(crate) parts: BTreeMap<u16, Vec<Content>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Open,
    Flushed,
    Committed,
}

#[derive(Clone, Debug)]
struct Transaction {
    rows: Vec<Row>,
    state: State,
    /// The checkpoint that closed it.
    closed_by: Option<CheckpointId>,
}

/// The other side of the sinks: keeps transactions and shows those that are committed.
#[derive(Clone, Debug)]
pub(crate) struct Ledger {
    transactions: BTreeMap<TransactionName, Transaction>,
    pub(crate) output: Output,
    expected: Output,
    is_exact: bool,
}

impl Ledger {
    pub(crate) fn new(expected: Output, is_exact: bool) -> Self {
        Self { transactions: BTreeMap::new(), output: Output::default(), expected, is_exact }
    }

    pub(crate) fn begin(&mut self, name: TransactionName) {
        let new = Transaction { rows: Vec::new(), state: State::Open, closed_by: None };
        self.transactions.insert(name, new);
    }

    pub(crate) fn add(&mut self, name: TransactionName, row: Row) {
        if let Some(transaction) = self.transactions.get_mut(&name) {
            transaction.rows.push(row);
        }
    }

    pub(crate) fn close(&mut self, name: TransactionName, id: CheckpointId) {
        if let Some(transaction) = self.transactions.get_mut(&name) {
            transaction.closed_by = Some(id);
        }
    }

    pub(crate) fn flush(&mut self, name: TransactionName) {
        if let Some(transaction) = self.transactions.get_mut(&name)
            && transaction.state == State::Open
        {
            transaction.state = State::Flushed;
        }
    }

    /// Shows a transaction's rows; again if it is committed already, which changes nothing (rule C7).
    pub(crate) fn commit(&mut self, name: TransactionName) -> Result<(), String> {
        let found = self.transactions.get_mut(&name).filter(|found| found.state != State::Open);
        let transaction = found.ok_or_else(|| format!("{name:?} cannot be committed: it was not flushed"))?;
        if transaction.state == State::Committed {
            return Ok(());
        }
        transaction.state = State::Committed;
        transaction.rows.iter().for_each(|row| self.output.add(*row));
        if self.is_exact { self.output.check_within(&self.expected) } else { Ok(()) }
    }

    /// What is not flushed does not survive the death of its task.
    pub(crate) fn lose_open(&mut self) {
        self.transactions.retain(|_, transaction| transaction.state != State::Open);
    }

    /// Aborts all that no restored checkpoint lists (rule C6). What is committed is not touched.
    pub(crate) fn abort_all_but(&mut self, listed: &BTreeSet<TransactionName>) {
        self.transactions.retain(|name, found| found.state == State::Committed || listed.contains(name));
    }

    /// A committed transaction cannot be aborted any more.
    pub(crate) fn abort(&mut self, name: TransactionName) {
        self.transactions.retain(|other, found| *other != name || found.state == State::Committed);
    }

    /// Takes back what was committed with checkpoints that are passed over because they are damaged, up to `newest`:
    /// somebody restores an older one and moves the output of newer ones aside.
    pub(crate) fn take_back(&mut self, restored: Option<CheckpointId>, newest: CheckpointId) {
        let is_taken_back = |transaction: &Transaction| {
            transaction.closed_by.is_some_and(|id| Some(id) > restored && id <= newest)
        };
        for transaction in self.transactions.values().filter(|transaction| is_taken_back(transaction)) {
            if transaction.state == State::Committed {
                transaction.rows.iter().for_each(|row| self.output.remove(*row));
            }
        }
        self.transactions.retain(|_, transaction| !is_taken_back(transaction));
    }

    pub(crate) fn check_end(&self) -> Result<(), String> {
        if self.is_exact {
            self.output.check_equals(&self.expected)
        } else {
            self.output.check_covers(&self.expected)
        }
    }
}

//! What survives a crash: the files of checkpoints and the transactions of sinks.

use std::collections::{BTreeMap, BTreeSet};

use slackwater_core::durable::{Names, Operation};
use slackwater_core::ids::CheckpointId;
use slackwater_core::retained::Verdict;
use slackwater_core::subtask::Part;
use slackwater_core::time::Millis;

use crate::files::{Files, Role};
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

    fn path_in(self, folder: &str) -> String {
        let Self { run, task, part, .. } = self;
        format!("{folder}/{run}-{task}-{part}")
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
pub(crate) struct Manifest {
    pub(crate) parallelism: Vec<u16>,
    /// The files of each task; tasks that had finished have none.
    pub(crate) parts: BTreeMap<u16, Vec<FileName>>,
}

const MANIFEST: &str = "manifest";

/// What was to be stored, and the disk that says what is there of it.
#[derive(Debug)]
pub(crate) struct Storage {
    pub(crate) files: Files,
    contents: BTreeMap<FileName, Content>,
    manifests: BTreeMap<CheckpointId, Manifest>,
    /// Checkpoints that must not be lost: their manifests are durable, and nobody has removed them.
    durable: BTreeSet<CheckpointId>,
    /// Checkpoints that somebody has damaged when they were complete.
    pub(crate) damaged: BTreeSet<CheckpointId>,
    unreadable: BTreeSet<CheckpointId>,
    /// The number of each savepoint's folder.
    savepoints: BTreeMap<CheckpointId, u32>,
    savepoint_count: u32,
}

impl Storage {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            files: Files::new(seed),
            contents: BTreeMap::new(),
            manifests: BTreeMap::new(),
            durable: BTreeSet::new(),
            damaged: BTreeSet::new(),
            unreadable: BTreeSet::new(),
            savepoints: BTreeMap::new(),
            savepoint_count: 0,
        }
    }

    fn folder_of(&self, id: CheckpointId) -> String {
        match self.savepoints.get(&id) {
            Some(number) => format!("savepoint-{number}"),
            None => format!("chk-{}", id.0),
        }
    }

    fn manifest_of(&self, id: CheckpointId) -> String {
        format!("{}/{MANIFEST}", self.folder_of(id))
    }

    fn path_of(&self, name: FileName) -> String {
        name.path_in(&self.folder_of(name.id))
    }

    /// Makes the folder of a checkpoint; whether it is there for good.
    pub(crate) fn make_folder(&mut self, id: CheckpointId, is_savepoint: bool) -> bool {
        // A new coordinator may use the number of a savepoint again.
        self.savepoints.remove(&id);
        if is_savepoint {
            self.savepoint_count += 1;
            self.savepoints.insert(id, self.savepoint_count);
        }
        self.files.make_folder(&self.folder_of(id)).is_ok()
    }

    pub(crate) fn is_savepoint(&self, id: CheckpointId) -> bool {
        self.savepoints.contains_key(&id)
    }

    pub(crate) fn write(&mut self, name: FileName, part: Part, content: Content) {
        let names = Names::Final { path: self.path_of(name) };
        self.files.write(Role::Part(name, part), names, bytes_of(&content));
        self.contents.insert(name, content);
    }

    pub(crate) fn write_manifest(&mut self, id: CheckpointId, manifest: Manifest) {
        let path = self.manifest_of(id);
        let names = Names::Renamed { temporary: format!("{path}.tmp"), path };
        self.files.write(Role::Manifest(id), names, bytes_of(&manifest));
        self.manifests.insert(id, manifest);
    }

    /// A manifest's disk has said that it is durable. Savepoints are the user's, who never loses one here.
    pub(crate) fn announce(&mut self, id: CheckpointId) {
        if !self.is_savepoint(id) {
            self.durable.insert(id);
        }
    }

    /// A start makes what it goes on from durable: a process that was killed may not have come so far.
    pub(crate) fn keep(&mut self, id: CheckpointId) -> Result<(), String> {
        let sync = self.files.call(Operation::SyncFolder { path: &self.folder_of(id) });
        sync.map_err(|error| error.to_string())
    }

    pub(crate) fn remove(&mut self, name: FileName) {
        // One that stays is removed with its folder.
        let _left = self.files.call(Operation::Remove { path: &self.path_of(name) });
    }

    /// The manifest goes first. Whether it is gone.
    pub(crate) fn remove_checkpoint(&mut self, id: CheckpointId) -> bool {
        self.durable.remove(&id);
        let is_gone = self.files.remove_folder(&self.folder_of(id), MANIFEST);
        if is_gone {
            self.contents.retain(|name, _| name.id != id);
        }
        is_gone
    }

    pub(crate) fn remove_incomplete_below(&mut self, below: CheckpointId) {
        for id in self.folders().into_iter().filter(|id| *id < below) {
            if self.files.read(&self.manifest_of(id)).is_none() {
                self.remove_checkpoint(id);
            }
        }
    }

    /// Makes a complete checkpoint unfit to be restored, for good.
    pub(crate) fn damage(&mut self, id: CheckpointId, is_unreadable: bool) -> Result<(), String> {
        self.damaged.insert(id);
        let listed = self.manifests.get(&id).and_then(|manifest| manifest.parts.values().flatten().next());
        match listed.copied() {
            Some(name) if !is_unreadable => {
                self.remove(name);
                self.keep(id)
            }
            Some(_) | None => {
                self.unreadable.insert(id);
                Ok(())
            }
        }
    }

    /// Checkpoints that have a folder, oldest first.
    pub(crate) fn folders(&self) -> Vec<CheckpointId> {
        let names = self.files.folders();
        let ids =
            names.iter().filter_map(|name| Some(CheckpointId(name.strip_prefix("chk-")?.parse().ok()?)));
        let mut ids: Vec<_> = ids.collect();
        ids.sort_unstable();
        ids
    }

    /// The newest checkpoint that must be there, damaged or not.
    pub(crate) fn newest(&self) -> Option<CheckpointId> {
        self.durable.last().copied()
    }

    /// The newest checkpoint that must be there and that nobody has damaged.
    pub(crate) fn newest_whole(&self) -> Option<CheckpointId> {
        self.durable.iter().rev().find(|id| !self.damaged.contains(id)).copied()
    }

    fn is_whole(&self, name: &FileName) -> bool {
        let content = self.contents.get(name).map(bytes_of);
        content.is_some() && self.files.read(&self.path_of(*name)) == content
    }

    pub(crate) fn verdict(&self, id: CheckpointId, is_thorough: bool) -> Result<Verdict, String> {
        let Some(bytes) = self.files.read(&self.manifest_of(id)) else { return Ok(Verdict::Incomplete) };
        let manifest = self.manifests.get(&id).filter(|manifest| bytes_of(*manifest) == bytes);
        let manifest =
            manifest.ok_or_else(|| format!("a part of checkpoint {id}'s manifest has its name"))?;
        Ok(match manifest.parts.values().flatten().all(|name| self.is_whole(name)) {
            _ if self.unreadable.contains(&id) => Verdict::Unreadable,
            false if is_thorough => Verdict::Damaged,
            true | false => Verdict::Sound,
        })
    }

    /// A manifest, and what its files hold, task by task.
    pub(crate) fn read(&self, id: CheckpointId) -> Result<Checkpoint, String> {
        let manifest = self.manifests.get(&id).ok_or_else(|| format!("checkpoint {id} has no manifest"))?;
        let mut parts = BTreeMap::<u16, Vec<Content>>::new();
        for (task, names) in &manifest.parts {
            let contents = parts.entry(*task).or_default();
            for name in names {
                let content = self.contents.get(name).filter(|_| self.is_whole(name));
                contents.push(content.ok_or_else(|| format!("checkpoint {id} lacks {name:?}"))?.clone());
            }
        }
        Ok(Checkpoint { parallelism: manifest.parallelism.clone(), parts })
    }
}

/// A text that stands for it: no two things have the same.
fn bytes_of(what: &impl std::fmt::Debug) -> Vec<u8> {
    format!("{what:?}").into_bytes()
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

//! An external system with transactions, which no crash of the job touches: what lies in it, and what must not happen
//! to it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use slackwater_core::ids::CheckpointId;

use crate::hooks::Hooks;

/// Names a transaction: nobody ever begins it twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Name {
    pub(crate) sink: u16,
    pub(crate) attempt: u64,
    pub(crate) subtask: u16,
    pub(crate) number: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Open,
    Committed,
    Aborted,
}

#[derive(Debug)]
struct Transaction {
    records: Vec<Vec<u8>>,
    /// The checkpoint under which it was closed.
    checkpoint: Option<CheckpointId>,
    is_flushed: bool,
    fate: Fate,
}

/// Says whether a checkpoint, or a newer one, is complete.
type IsComplete = dyn Fn(CheckpointId) -> bool + Send + Sync;

/// The system; clones are the same.
#[derive(Clone)]
pub(crate) struct Ledger {
    hooks: Hooks,
    inner: Arc<Mutex<Inner>>,
}

#[derive(Default)]
struct Inner {
    transactions: BTreeMap<Name, Transaction>,
    is_complete: Option<Box<IsComplete>>,
    /// Committed transactions that a recovery has taken back.
    taken_back: u64,
}

impl Ledger {
    pub(crate) fn new(hooks: Hooks) -> Self {
        Self { hooks, inner: Arc::default() }
    }

    /// From now on a commit has to be for a checkpoint of which this says that it is complete.
    pub(crate) fn expect_complete(&self, is_complete: Box<IsComplete>) {
        self.lock().is_complete = Some(is_complete);
    }

    /// Adds records to a transaction, as its first ones if need be.
    pub(crate) fn add(&self, name: Name, records: Vec<Vec<u8>>) {
        let mut inner = self.lock();
        let transaction = inner.transactions.entry(name).or_insert_with(|| Transaction {
            records: Vec::new(),
            checkpoint: None,
            is_flushed: false,
            fate: Fate::Open,
        });
        if transaction.checkpoint.is_some() || transaction.fate != Fate::Open {
            self.hooks.violate(format!("{name:?} gets records, but is closed"));
        }
        transaction.records.extend(records);
    }

    /// No records follow.
    pub(crate) fn close(&self, name: Name, checkpoint: CheckpointId) {
        self.with(name, |transaction| transaction.checkpoint = Some(checkpoint));
    }

    /// What is in it is safe.
    pub(crate) fn flush(&self, name: Name) {
        self.with(name, |transaction| transaction.is_flushed = true);
    }

    /// The checkpoint is complete: what was closed by then shows.
    pub(crate) fn commit(&self, name: Name, completed: CheckpointId) {
        let is_complete = self.lock().is_complete.as_ref().is_none_or(|is_complete| is_complete(completed));
        if !is_complete {
            self.hooks.violate(format!("{name:?} is committed, but checkpoint {completed} is not complete"));
        }
        self.show(name);
    }

    fn show(&self, name: Name) {
        self.with(name, |transaction| match transaction.fate {
            Fate::Open if transaction.is_flushed => transaction.fate = Fate::Committed,
            Fate::Open => self.hooks.violate(format!("{name:?} is committed, but was not flushed")),
            Fate::Committed => self.hooks.note("commits that were done already"),
            Fate::Aborted => self.hooks.violate(format!("{name:?} is committed, but was aborted")),
        });
    }

    /// A sink begins again: commits what its checkpoint lists, aborts what is open beside, and takes back what later
    /// checkpoints had committed.
    pub(crate) fn recover(&self, sink: u16, restored: CheckpointId, listed: &[Name]) {
        for name in listed {
            self.hooks.note("recovered transactions");
            self.show(*name);
        }
        let mut inner = self.lock();
        let mut taken_back = 0;
        for (name, transaction) in inner.transactions.iter_mut().filter(|(name, _)| name.sink == sink) {
            let is_later = transaction.checkpoint > Some(restored);
            match transaction.fate {
                Fate::Open if !listed.contains(name) => transaction.fate = Fate::Aborted,
                Fate::Committed if is_later => {
                    transaction.fate = Fate::Aborted;
                    taken_back += 1;
                }
                Fate::Open | Fate::Committed | Fate::Aborted => {}
            }
        }
        inner.taken_back += taken_back;
    }

    /// How many committed transactions were taken back since this was last asked.
    pub(crate) fn take_taken_back(&self) -> u64 {
        std::mem::take(&mut self.lock().taken_back)
    }

    /// The committed records of a sink, in order.
    pub(crate) fn committed(&self, sink: u16) -> Vec<Vec<u8>> {
        let inner = self.lock();
        let shown = inner.transactions.iter();
        let shown =
            shown.filter(|(name, transaction)| name.sink == sink && transaction.fate == Fate::Committed);
        let mut records: Vec<_> = shown.flat_map(|(_, transaction)| transaction.records.clone()).collect();
        records.sort();
        records
    }

    fn with(&self, name: Name, change: impl FnOnce(&mut Transaction)) {
        match self.lock().transactions.get_mut(&name) {
            Some(transaction) => change(transaction),
            None => self.hooks.violate(format!("{name:?} is not in the ledger")),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

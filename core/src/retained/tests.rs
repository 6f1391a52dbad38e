//! Rules of the store and of shared files, on a disk that notices when something goes too early.

mod bugs;
mod model;
mod recovery;
mod restore;
mod rules;
mod sequences;

use std::collections::{BTreeMap, BTreeSet};
use std::vec;
use std::vec::Vec;

use super::*;
use crate::ids::{SavepointFormat, SnapshotKind};

const NEVER: CheckpointKind = CheckpointKind::Checkpoint(RetentionPolicy::NeverRetain);
const ON_FAILURE: CheckpointKind = CheckpointKind::Checkpoint(RetentionPolicy::RetainOnFailure);
const ON_CANCELLATION: CheckpointKind = CheckpointKind::Checkpoint(RetentionPolicy::RetainOnCancellation);

/// Savepoints of every kind.
const SAVEPOINTS: [SnapshotKind; 4] = [
    SnapshotKind::Savepoint(SavepointFormat::Canonical),
    SnapshotKind::Savepoint(SavepointFormat::Native),
    SnapshotKind::Suspend(SavepointFormat::Native),
    SnapshotKind::Drain(SavepointFormat::Canonical),
];

type Store = Retained<8, 32>;

/// A store and what lies on the disk.
struct World {
    store: Store,
    at: u64,
    /// Shared files that were written and not deleted.
    files: BTreeSet<u64>,
    /// Which files each manifest on the disk lists.
    manifests: BTreeMap<u64, BTreeSet<u64>>,
    /// Which files the checkpoints that are under way use, as the store said.
    parts: BTreeMap<u64, BTreeSet<u64>>,
    /// What each file that was referred to is called, and the first and the last checkpoint that did.
    uses: BTreeMap<u64, (u64, u64, u64)>,
    /// Files that lie in the folder of a checkpoint, and of which.
    inside: BTreeMap<u64, u64>,
    /// In order.
    deleted: Vec<u64>,
    /// Whether discards are reported only by hand.
    is_slow: bool,
}

fn id(number: u64) -> CheckpointId {
    CheckpointId(number)
}

fn discard(number: u64) -> RetainedAction {
    RetainedAction::DiscardCheckpoint(id(number))
}

fn delete(file: u64) -> RetainedAction {
    RetainedAction::DeleteFile(FileToken(file))
}

fn subsumed(number: u64) -> RetainedAction {
    RetainedAction::NotifySubsumed(id(number))
}

fn remains(below: u64) -> RetainedAction {
    RetainedAction::DiscardRemains { below: id(below) }
}

impl World {
    fn new(num_retained: usize) -> Self {
        Self::with(Store::new(num_retained).unwrap())
    }

    fn with(store: Store) -> Self {
        let (files, manifests, parts) = (BTreeSet::new(), BTreeMap::new(), BTreeMap::new());
        let (uses, inside, deleted) = (BTreeMap::new(), BTreeMap::new(), Vec::new());
        Self { store, at: 0, files, manifests, parts, uses, inside, deleted, is_slow: false }
    }

    fn now(&self) -> Now {
        Now { monotonic: Millis(self.at), wall: Millis(self.at) }
    }

    fn try_send(&mut self, event: RetainedEvent) -> Result<Vec<RetainedAction>, Rejected> {
        let mut out = heapless::Vec::<_, { Store::ACTIONS_MAX }>::new();
        self.store.on_event(self.now(), event, &mut out)?;
        self.store.check();
        Ok(out.into_iter().collect())
    }

    /// Sends an event, does what is ordered and reports it, until nothing is left to do. All that was ordered.
    fn send(&mut self, event: RetainedEvent) -> Vec<RetainedAction> {
        let mut all = self.try_send(event).unwrap();
        let mut done = 0;
        while done < all.len() || self.store.next_deadline(self.now()).is_some() {
            let Some(action) = all.get(done).copied() else {
                all.extend(self.try_send(RetainedEvent::DeadlineReached).unwrap());
                continue;
            };
            done += 1;
            all.extend(self.carry_out(action));
        }
        all
    }

    fn carry_out(&mut self, action: RetainedAction) -> Vec<RetainedAction> {
        match action {
            RetainedAction::DiscardCheckpoint(_) if self.is_slow => Vec::new(),
            RetainedAction::DiscardCheckpoint(id) => self.discarded(id.0),
            RetainedAction::DeleteFile(FileToken(file)) => {
                assert!(!self.inside.contains_key(&file), "{file} goes with its folder");
                self.remove(file);
                self.deleted.push(file);
                Vec::new()
            }
            RetainedAction::UseFile { .. }
            | RetainedAction::NotifySubsumed(_)
            | RetainedAction::DiscardRemains { .. } => Vec::new(),
        }
    }

    fn remove(&mut self, file: u64) {
        let listing = self.manifests.iter().find(|(_, files)| files.contains(&file));
        assert_eq!(listing, None, "{file} is deleted while it is listed");
        let using = self.parts.iter().find(|(_, files)| files.contains(&file));
        assert_eq!(using, None, "{file} is deleted while it is used");
        assert!(self.files.remove(&file), "{file} is not there, or was deleted twice");
    }

    /// The manifest of a checkpoint is gone, and its folder.
    fn discarded(&mut self, number: u64) -> Vec<RetainedAction> {
        self.manifests.remove(&number);
        let inside: Vec<_> =
            self.inside.iter().filter(|(_, of)| **of == number).map(|(file, _)| *file).collect();
        for file in inside {
            self.remove(file);
            self.inside.remove(&file);
        }
        self.try_send(RetainedEvent::DiscardEnded { id: id(number), manifest_gone: true }).unwrap()
    }

    /// A task's acknowledgement names a shared file. The file that the checkpoint uses.
    fn reference(
        &mut self,
        number: u64,
        key: u64,
        file: Option<u64>,
        ownership: Ownership,
    ) -> Result<u64, Rejected> {
        let event = RetainedEvent::FileReferenced {
            checkpoint: id(number),
            key: FileKey(key),
            file: file.map(FileToken),
            ownership,
        };
        let actions = self.try_send(event)?;
        let used = actions.iter().find_map(|action| {
            let RetainedAction::UseFile { checkpoint, key: of, file } = action else { return None };
            assert_eq!((*checkpoint, *of), (id(number), FileKey(key)));
            Some(file.0)
        });
        self.files.extend(file);
        if let Some(file) = file.filter(|_| ownership == Ownership::InsideCheckpoint) {
            self.inside.entry(file).or_insert(number);
        }
        self.parts.entry(number).or_default().extend(used);
        if let Some(file) = used {
            let (_, first, last) = self.uses.entry(file).or_insert((key, number, number));
            (*first, *last) = (number.min(*first), number.max(*last));
        }
        for action in actions {
            self.carry_out(action);
        }
        Ok(used.expect("every reference is answered"))
    }

    /// A file that is new, under a key of the same number.
    fn upload(&mut self, number: u64, file: u64) {
        assert_eq!(self.reference(number, file, Some(file), Ownership::Own), Ok(file));
    }

    /// A placeholder for what the key of this number stands for.
    fn reuse(&mut self, number: u64, key: u64) -> u64 {
        self.reference(number, key, None, Ownership::Own).unwrap()
    }

    fn add(&mut self, number: u64, kind: CheckpointKind) -> Vec<RetainedAction> {
        self.send(RetainedEvent::AllAcknowledged(id(number)));
        self.commit(number);
        self.send(RetainedEvent::CheckpointCompleted { id: id(number), kind })
    }

    /// The manifest of a checkpoint is durable.
    fn commit(&mut self, number: u64) {
        let files = self.parts.remove(&number).unwrap_or_default();
        self.manifests.insert(number, files);
    }

    /// Nobody will complete this checkpoint.
    fn abort(&mut self, number: u64) {
        self.parts.remove(&number);
    }

    fn recover(&mut self, number: u64, kind: CheckpointKind) {
        self.commit(number);
        assert_eq!(self.send(RetainedEvent::CheckpointRecovered { id: id(number), kind }), []);
    }

    fn start_from(&mut self, number: u64, kind: CheckpointKind) -> Vec<RetainedAction> {
        self.commit(number);
        self.send(RetainedEvent::SnapshotRestored { id: id(number), kind })
    }

    fn retained(&self) -> Vec<u64> {
        self.store.retained().map(|(id, _)| id.0).collect()
    }

    fn on_disk(&self) -> Vec<u64> {
        self.manifests.keys().copied().collect()
    }

    fn files(&self) -> Vec<u64> {
        self.files.iter().copied().collect()
    }
}

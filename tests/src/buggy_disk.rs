//! A layer over a disk that makes one mistake of those that lose data: a test of durability has to find each.
//!
//! To the job it looks as if the mistake were in the machinery that orders the operations: what it thinks is done is
//! not done, or not yet.

use std::collections::{BTreeMap, VecDeque};

use heapless::VecView;
use slackwater_core::durable::{
    Completion, Disk, FileId, Layer, Layered, Operation, OperationKind, Outcome, Token, Wait, folder_of,
};

use crate::sim_job::{CHECKPOINTS, OUTPUT};

/// A mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// None: with it the tests have to pass.
    None,
    /// The bytes of segments are not synced.
    SegmentNotSynced,
    /// The names of segments are not synced.
    SegmentNameNotSynced,
    /// The bytes of manifests are not synced.
    ManifestNotSynced,
    /// The final names of manifests are not synced.
    ManifestNameNotSynced,
    /// The folders of checkpoints are made, but their names are not synced.
    CheckpointFolderNotSynced,
    /// The topmost folders are made, but their names are not synced.
    TopFolderNotSynced,
    /// The bytes of a sink's parts are not synced.
    PartNotSynced,
    /// The names of a sink's parts are not synced, neither the hidden nor the visible ones.
    PartNameNotSynced,
    /// The visible names of a sink's parts are not synced.
    CommitNotSynced,
    /// That a manifest was removed is not synced before what it lists is removed.
    DiscardNotSynced,
    /// The sync of a segment is said to be done before it is.
    AcknowledgedBeforeSync,
    /// A checkpoint is said to be complete before its manifest has its name.
    CommittedBeforeComplete,
    /// The files of a checkpoint are removed before its manifest is.
    DeletedBeforeDiscardRecorded,
    /// A sync that has failed is tried again.
    SyncTriedAgain,
    /// A start does not sync what it goes on from.
    ResumedUnsynced,
}

impl Bug {
    /// Every mistake.
    pub const ALL: [Self; 15] = [
        Self::SegmentNotSynced,
        Self::SegmentNameNotSynced,
        Self::ManifestNotSynced,
        Self::ManifestNameNotSynced,
        Self::CheckpointFolderNotSynced,
        Self::TopFolderNotSynced,
        Self::PartNotSynced,
        Self::PartNameNotSynced,
        Self::CommitNotSynced,
        Self::DiscardNotSynced,
        Self::AcknowledgedBeforeSync,
        Self::CommittedBeforeComplete,
        Self::DeletedBeforeDiscardRecorded,
        Self::SyncTriedAgain,
        Self::ResumedUnsynced,
    ];
}

/// Operations that are held back go to the disk after so many others.
const HELD_FOR: u64 = 12;
/// Names those of our own.
const OURS: Token = Token(u64::MAX - 1);

/// An operation that is held back.
#[derive(Clone, Debug)]
enum Held {
    SyncFile(FileId),
    CloseFile(FileId),
    SyncFolder(String),
    Rename { from: String, to: String },
    Remove(String),
}

/// What becomes of an operation that is said to be done at once.
#[derive(Debug)]
enum Mistake {
    /// Nothing.
    LeaveOut,
    /// It is done when so many have been submitted.
    Hold(u64, Held),
}

/// The disk.
pub type BuggyDisk<D> = Layered<D, BuggyLayer<<D as Disk>::Block>>;

/// A disk with a mistake.
pub const fn buggy<D: Disk>(disk: D, bug: Bug) -> BuggyDisk<D> {
    Layered { disk, layer: BuggyLayer::new(bug) }
}

/// The layer.
#[derive(Debug)]
pub struct BuggyLayer<B> {
    bug: Bug,
    /// The path of each file that was created, and of those that are being created.
    paths: BTreeMap<FileId, String>,
    creating: BTreeMap<Token, String>,
    /// The last change of names in each folder.
    changed: BTreeMap<String, OperationKind>,
    syncing: BTreeMap<Token, FileId>,
    held: VecDeque<(u64, Held)>,
    is_ours_in_flight: bool,
    submitted: u64,
    /// Operations whose end was not told yet.
    owed: usize,
    ended: VecDeque<Completion<B>>,
}

impl<B> BuggyLayer<B> {
    const fn new(bug: Bug) -> Self {
        Self {
            bug,
            paths: BTreeMap::new(),
            creating: BTreeMap::new(),
            changed: BTreeMap::new(),
            syncing: BTreeMap::new(),
            held: VecDeque::new(),
            is_ours_in_flight: false,
            submitted: 0,
            owed: 0,
            ended: VecDeque::new(),
        }
    }

    fn mistake<F>(&self, operation: &Operation<'_, B, F>) -> Option<Mistake> {
        let later = |held| Some(Mistake::Hold(self.submitted + HELD_FOR, held));
        match (self.bug, operation) {
            (Bug::AcknowledgedBeforeSync, Operation::SyncFile { file }) if self.is_segment(*file) => {
                later(Held::SyncFile(*file))
            }
            (Bug::AcknowledgedBeforeSync, Operation::CloseFile { file }) if self.is_segment(*file) => {
                later(Held::CloseFile(*file))
            }
            (Bug::CommittedBeforeComplete, Operation::Rename { from, to }) if is_manifest(to) => {
                later(Held::Rename { from: (*from).to_owned(), to: (*to).to_owned() })
            }
            (Bug::CommittedBeforeComplete, Operation::SyncFolder { path }) if self.is_renamed(path) => {
                later(Held::SyncFolder((*path).to_owned()))
            }
            (Bug::DeletedBeforeDiscardRecorded, Operation::Remove { path }) if is_manifest(path) => {
                Some(Mistake::Hold(u64::MAX, Held::Remove((*path).to_owned())))
            }
            (Bug::DeletedBeforeDiscardRecorded, Operation::Remove { path }) if self.is_awaited(path) => {
                Some(Mistake::Hold(0, Held::Remove((*path).to_owned())))
            }
            (_, Operation::SyncFile { file }) if self.leaves_out_sync(*file) => Some(Mistake::LeaveOut),
            (_, Operation::SyncFolder { path }) if self.leaves_out_sync_of_folder(path) => {
                Some(Mistake::LeaveOut)
            }
            _ => None,
        }
    }

    fn leaves_out_sync(&self, file: FileId) -> bool {
        let path = self.paths.get(&file).map_or("", String::as_str);
        let is_manifest = path.starts_with(CHECKPOINTS) && !self.is_segment(file);
        self.has(Bug::SegmentNotSynced) && self.is_segment(file)
            || self.has(Bug::ManifestNotSynced) && is_manifest
            || self.has(Bug::PartNotSynced) && path.starts_with(OUTPUT)
    }

    fn leaves_out_sync_of_folder(&self, path: &str) -> bool {
        let is_of_checkpoint = folder_of(path) == CHECKPOINTS;
        let last_was = |kind| self.changed.get(path) == Some(&kind);
        self.has(Bug::SegmentNameNotSynced) && is_of_checkpoint && last_was(OperationKind::CreateFile)
            || self.has(Bug::ManifestNameNotSynced) && self.is_renamed(path)
            || self.has(Bug::DiscardNotSynced) && is_of_checkpoint && last_was(OperationKind::Remove)
            || self.has(Bug::ResumedUnsynced) && is_of_checkpoint && !self.changed.contains_key(path)
            || self.has(Bug::CheckpointFolderNotSynced) && path == CHECKPOINTS
            || self.has(Bug::TopFolderNotSynced) && path.is_empty()
            || self.has(Bug::PartNameNotSynced) && path == OUTPUT
            || self.has(Bug::CommitNotSynced) && path == OUTPUT && last_was(OperationKind::Rename)
    }

    fn has(&self, bug: Bug) -> bool {
        self.bug == bug
    }

    fn is_segment(&self, file: FileId) -> bool {
        self.paths.get(&file).is_some_and(|path| path.ends_with(".seg"))
    }

    fn is_renamed(&self, folder: &str) -> bool {
        folder_of(folder) == CHECKPOINTS && self.changed.get(folder) == Some(&OperationKind::Rename)
    }

    /// Whether something is held back until this folder goes.
    fn is_awaited(&self, folder: &str) -> bool {
        let is_in = |held: &Held| matches!(held, Held::Remove(path) if folder_of(path) == folder);
        self.held.iter().any(|(_, held)| is_in(held))
    }

    fn note<F>(&mut self, token: Token, operation: &Operation<'_, B, F>) {
        if let Operation::CreateFile { path, .. } = operation {
            self.creating.insert(token, (*path).to_owned());
        }
        if let Operation::SyncFile { file } = operation {
            self.syncing.insert(token, *file);
        }
        if let Operation::CreateFile { path, .. }
        | Operation::Rename { to: path, .. }
        | Operation::Remove { path } = operation
        {
            self.changed.insert(folder_of(path).to_owned(), operation.kind());
        }
    }

    /// Holds an operation back; one that nothing may precede lets those before it go.
    fn hold(&mut self, due: u64, held: Held) {
        if due == 0 {
            self.held.iter_mut().for_each(|(due, _)| *due = 0);
        }
        self.held.push_back((due, held));
    }

    /// Lets the next one go that was held back long enough, one at a time.
    fn let_go<D: Disk<Block = B>>(&mut self, disk: &mut D) {
        let Some((due, held)) = self.held.front().filter(|_| !self.is_ours_in_flight) else { return };
        if *due > self.submitted {
            return;
        }
        let operation = match held {
            Held::SyncFile(file) => Operation::SyncFile { file: *file },
            Held::CloseFile(file) => Operation::CloseFile { file: *file },
            Held::SyncFolder(path) => Operation::SyncFolder { path },
            Held::Rename { from, to } => Operation::Rename { from, to },
            Held::Remove(path) => Operation::Remove { path },
        };
        if disk.submit(OURS, operation).is_ok() {
            self.is_ours_in_flight = true;
            self.held.pop_front();
        }
    }

    /// Takes what the disk has ended; what is ours, or is tried again, nobody hears of.
    fn collect<D: Disk<Block = B>>(&mut self, disk: &mut D, wait: Wait) {
        let mut ended = heapless::Vec::<_, 8>::new();
        disk.reap(wait, &mut ended);
        for completion in ended {
            let Completion { token, outcome } = &completion;
            if let (Some(path), Outcome::Opened { file, .. }) = (self.creating.remove(token), outcome) {
                self.paths.insert(*file, path);
            }
            let synced = self.syncing.remove(token);
            if *token == OURS {
                self.is_ours_in_flight = false;
            } else if let (Bug::SyncTriedAgain, Some(file), Outcome::Failed(_)) = (self.bug, synced, outcome)
            {
                let again = disk.submit(*token, Operation::SyncFile { file });
                assert!(again.is_ok(), "one operation has just ended");
            } else {
                self.ended.push_back(completion);
            }
        }
    }
}

fn is_manifest(path: &str) -> bool {
    path.ends_with("/_metadata")
}

impl<D: Disk> Layer<D> for BuggyLayer<D::Block> {
    fn submit<'p>(
        &mut self,
        disk: &mut D,
        token: Token,
        operation: Operation<'p, D::Block, D::Frozen>,
    ) -> Result<(), Operation<'p, D::Block, D::Frozen>> {
        let mistake = self.mistake(&operation);
        self.note(token, &operation);
        if let Some(mistake) = mistake {
            if let Mistake::Hold(due, held) = mistake {
                self.hold(due, held);
            }
            self.ended.push_back(Completion { token, outcome: Outcome::Done });
        } else {
            disk.submit(token, operation)?;
        }
        self.submitted += 1;
        self.owed += 1;
        self.let_go(disk);
        Ok(())
    }

    fn reap(&mut self, disk: &mut D, wait: Wait, out: &mut VecView<Completion<D::Block>>) -> usize {
        self.let_go(disk);
        self.collect(disk, Wait::No);
        while wait == Wait::ForOne && self.ended.is_empty() && self.owed > 0 {
            self.collect(disk, wait);
        }
        let told = self.ended.len().min(out.capacity() - out.len());
        out.extend(self.ended.drain(..told));
        self.owed -= told;
        told
    }

    fn in_flight(&self, _disk: &D) -> usize {
        self.owed
    }
}

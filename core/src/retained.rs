//! Which completed checkpoints and shared files are kept, and which to delete (Flink: `DefaultCompletedCheckpointStore`,
//! `SharedStateRegistryImpl`, `CheckpointsCleaner`).
//!
//! Checkpoints that are no longer retained are discarded, and files that several of them share are deleted when no
//! checkpoint can use them any more. A file's deletion is ordered only when every checkpoint that may list it has been
//! reported as discarded: whatever moment the power fails, no manifest lists what is gone. What is in doubt (a manifest
//! that could not be removed, one that cannot be read) is left in place.
//!
//! If one event makes more deletions due than its actions can order, the rest is ordered at the next events, and
//! `next_deadline` asks for one immediately. The work of each event is bounded by the product of `CHECKPOINTS` and
//! `FILES` and the square of `CHECKPOINTS`; a file is found by bisection.
//!
//! # Invariants
//! - RI1: each checkpoint is known once.
//! - RI2: the newest checkpoint that is not a savepoint is retained, as long as it was not subsumed by a savepoint with
//!   which the job stopped.
//! - RI3: files are in the order of their keys, and a key stands for at most one.
//! - RI4: no file is used by a later checkpoint before an earlier one.
//! - RI5: a file that is due to go is nobody else's, and no retained checkpoint may use it.

mod base;
mod cleaning;
mod files;
mod policy;
mod recovery;
mod restore;
mod steps;
#[cfg(test)]
mod tests;

use heapless::{Vec, VecView};

pub use base::IncrementalBase;
pub use policy::{CheckpointKind, ClaimMode, ExternalizedRetention, JobStatus, RetentionPolicy};
pub use recovery::{Recovery, RecoveryAction, RecoveryEvent, Verdict};
pub use restore::{CoordinatorRestore, RestoreEntry, RestorePlan};

use files::{Files, Reference};

use crate::ids::CheckpointId;
use crate::machine::{Admission, Orders, Rejected, first_broken};
use crate::time::{Millis, Now};

/// What a file is called by those who share it. Same key, same content: a key names the attempt that wrote the file
/// (rule S15).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileKey(pub u64);

/// A file on the disk, named by the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileToken(pub u64);

/// Whose a shared file is. If references differ, the one that protects most counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Ownership {
    /// The job's: deleted when no checkpoint uses it.
    Own,
    /// It lies in the folder of the checkpoint that brought it along and goes with it; that is not discarded before the
    /// file is unused (rule S20): a claimed savepoint's.
    InsideCheckpoint,
    /// Somebody else's, or of a checkpoint that is left in place: never deleted.
    Foreign,
}

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetainedEvent {
    /// A checkpoint refers to a shared file: in a task's acknowledgement, whatever becomes of that (rule P9), or in the
    /// manifest of one that is about to be recovered or was passed over.
    FileReferenced {
        /// The checkpoint.
        checkpoint: CheckpointId,
        /// The file's key.
        key: FileKey,
        /// The file; none if it is known already: a placeholder.
        file: Option<FileToken>,
        /// Whose it is.
        ownership: Ownership,
    },
    /// Every task has acknowledged this checkpoint, which is no savepoint; its manifest is next.
    AllAcknowledged(CheckpointId),
    /// Its manifest did not become durable.
    ManifestFailed {
        /// The checkpoint.
        id: CheckpointId,
        /// Whether it may nevertheless be there, now or after a loss of power. If so, what it lists stays.
        may_exist: bool,
    },
    /// Its manifest is durable.
    CheckpointCompleted {
        /// The checkpoint.
        id: CheckpointId,
        /// What it is: not a savepoint, those belong to whoever asked (rule V1).
        kind: CheckpointKind,
    },
    /// A checkpoint of this job was there at the start and is sound. Oldest first.
    CheckpointRecovered {
        /// The checkpoint.
        id: CheckpointId,
        /// What it is.
        kind: CheckpointKind,
    },
    /// The job is started from this snapshot. Its files have been referenced before.
    SnapshotRestored {
        /// The number it was stored with.
        id: CheckpointId,
        /// What it is to the job, by [`ClaimMode::kind_of_restored`].
        kind: CheckpointKind,
    },
    /// There is a manifest that cannot be read: nobody knows what it refers to, so nothing is deleted from now on.
    UnreadableManifestFound,
    /// A discard that was ordered has ended.
    DiscardEnded {
        /// The checkpoint.
        id: CheckpointId,
        /// Whether its manifest is gone for good. If not, what it lists stays.
        manifest_gone: bool,
    },
    /// The job has ended so; nothing is added any more.
    ShutDown(JobStatus),
    /// Time has passed; send it when `next_deadline` is reached.
    DeadlineReached,
}

/// What the program must do, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetainedAction {
    /// In this checkpoint the key stands for this file, whatever the reference named.
    UseFile {
        /// The checkpoint.
        checkpoint: CheckpointId,
        /// The key.
        key: FileKey,
        /// The file.
        file: FileToken,
    },
    /// Tell the tasks that this checkpoint and those before it are no longer retained (rule P18).
    NotifySubsumed(CheckpointId),
    /// Remove the checkpoint's manifest, durably; then all else in its folder, and the folder. Report `DiscardEnded`.
    DiscardCheckpoint(CheckpointId),
    /// Delete a file; no report is expected.
    DeleteFile(FileToken),
    /// Delete the folders of checkpoints below this one that never completed. No task writes to them any more.
    DiscardRemains {
        /// The first checkpoint to be left alone.
        below: CheckpointId,
    },
}

/// Completed checkpoints, up to `CHECKPOINTS` of them with those being discarded, and up to `FILES` shared files.
#[derive(Clone, Debug)]
pub struct Retained<const CHECKPOINTS: usize, const FILES: usize> {
    admission: Admission,
    num_retained: usize,
    /// In order of their coming, but for completions out of order (rules S4 and S5).
    checkpoints: Vec<Checkpoint, CHECKPOINTS>,
    files: Files<FILES>,
    /// The newest that is not a savepoint (rule S6).
    newest: Option<CheckpointId>,
    newest_seen: Option<CheckpointId>,
    is_deleting: bool,
    is_shut_down: bool,
}

#[derive(Clone, Copy, Debug)]
struct Checkpoint {
    id: CheckpointId,
    kind: CheckpointKind,
    stage: Stage,
    /// A manifest that could not be removed may list a file inside its folder.
    is_left_in_place: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Its manifest is being written.
    Completing,
    /// A job can be restored from it.
    Retained,
    /// Newer ones have taken its place; a file inside it may be in use (rule S8).
    Subsumed,
    /// To be discarded; the order has yet to be given.
    Condemned,
    /// Being discarded.
    Cleaning,
    /// Nothing to us any more.
    Dropped,
}

impl<const CHECKPOINTS: usize, const FILES: usize> Retained<CHECKPOINTS, FILES> {
    /// The most actions that one event gives.
    pub const ACTIONS_MAX: usize = 8;

    /// An empty store that keeps `num_retained` checkpoints.
    ///
    /// # Errors
    /// [`Rejected::OutOfRange`] unless it is within 1 and `CHECKPOINTS - 1` (rule S4).
    pub fn new(num_retained: usize) -> Result<Self, Rejected> {
        if num_retained == 0 || num_retained >= CHECKPOINTS {
            let (value, limit) = (num_retained as u64, CHECKPOINTS as u64);
            return Err(Rejected::OutOfRange {
                what: "number of checkpoints to retain, at least 1,",
                value,
                limit,
            });
        }
        Ok(Self {
            admission: Admission::default(),
            num_retained,
            checkpoints: Vec::new(),
            files: Files::new(),
            newest: None,
            newest_seen: None,
            is_deleting: true,
            is_shut_down: false,
        })
    }

    /// Takes an event and writes what must be done into `out`, in order.
    ///
    /// # Errors
    /// [`Rejected`]; the store is unchanged. `OutOfRange` when it is full: report discards that have ended, and then
    /// try again; a file that does not fit declines its checkpoint.
    pub fn on_event(
        &mut self,
        now: Now,
        event: RetainedEvent,
        out: &mut VecView<RetainedAction>,
    ) -> Result<(), Rejected> {
        self.admission.admit(now, out, Self::ACTIONS_MAX)?;
        self.validate(event)?;
        let mut orders = Orders::new(out, Self::ACTIONS_MAX);
        self.step(event, &mut orders);
        self.clean(&mut orders);
        self.admission.conclude(&orders, self.broken_invariant())
    }

    fn step(&mut self, event: RetainedEvent, orders: &mut Orders<'_, RetainedAction>) {
        use RetainedEvent as E;
        match event {
            E::FileReferenced { checkpoint, key, file, ownership } => {
                self.on_file_referenced(&Reference { checkpoint, key, file, ownership }, orders);
            }
            E::AllAcknowledged(id) => self.on_all_acknowledged(id),
            E::ManifestFailed { id, may_exist } => self.end(id, Stage::Completing, may_exist),
            E::CheckpointCompleted { id, kind } => self.on_completed(id, kind, orders),
            E::CheckpointRecovered { id, kind } => self.on_recovered(id, kind),
            E::SnapshotRestored { id, kind } => self.on_snapshot_restored(id, kind),
            E::UnreadableManifestFound => self.is_deleting = false,
            E::DiscardEnded { id, manifest_gone } => self.end(id, Stage::Cleaning, !manifest_gone),
            E::ShutDown(status) if status.is_terminal() => self.on_job_ended(status),
            E::ShutDown(_) => self.on_suspended(),
            E::DeadlineReached => {}
        }
    }

    /// `now` if the last event made more deletions due than its actions could order.
    #[must_use]
    pub fn next_deadline(&self, now: Now) -> Option<Millis> {
        self.has_work().then_some(now.monotonic)
    }

    /// The checkpoints that a job can be restored from, in order of their coming.
    pub fn retained(&self) -> impl Iterator<Item = (CheckpointId, CheckpointKind)> + '_ {
        self.of_stage(Stage::Retained).map(|checkpoint| (checkpoint.id, checkpoint.kind))
    }

    /// The one to restore: the last that came (rule S4).
    #[must_use]
    pub fn latest(&self) -> Option<(CheckpointId, CheckpointKind)> {
        self.retained().last()
    }

    /// How many checkpoints are being discarded (rule S9). While they are more than may be pending, no checkpoint is
    /// triggered (rule T20).
    #[must_use]
    pub fn cleaning_count(&self) -> usize {
        self.of_stage(Stage::Condemned).chain(self.of_stage(Stage::Cleaning)).count()
    }

    /// Whether one more completed checkpoint fits.
    #[must_use]
    pub fn has_room(&self) -> bool {
        !self.checkpoints.is_full()
    }

    /// The id for the next checkpoint, above all that were named here (rules S34 and V9).
    #[must_use]
    pub fn next_id(&self) -> CheckpointId {
        self.newest_seen.map_or(CheckpointId::FIRST, CheckpointId::next)
    }

    /// Whether the next checkpoint must not build on earlier ones, as the job is started from a snapshot that it does
    /// not own and has none of its own yet (rules S33, P15 and V8).
    #[must_use]
    pub fn forces_full(&self) -> bool {
        self.latest().is_some_and(|(_, kind)| kind == CheckpointKind::Unclaimed)
    }

    /// Asserts every invariant.
    ///
    /// # Panics
    /// If one does not hold.
    pub fn check(&self) {
        assert_eq!(self.broken_invariant(), None);
    }

    fn of_stage(&self, stage: Stage) -> impl DoubleEndedIterator<Item = &Checkpoint> {
        self.checkpoints.iter().filter(move |checkpoint| checkpoint.stage == stage)
    }

    fn broken_invariant(&self) -> Option<&'static str> {
        let is_once = |id| self.checkpoints.iter().filter(|other| other.id == id).count() == 1;
        let is_retained = |newest| self.retained().any(|(id, _)| id == newest);
        let is_used = |file: &files::Entry| {
            self.retained().any(|(id, kind)| !kind.is_savepoint() && file.may_be_used_by(id))
        };
        let condemned = || self.files.iter().filter(|file| file.is_condemned());
        first_broken(&[
            ("RI1", self.checkpoints.iter().all(|checkpoint| is_once(checkpoint.id))),
            ("RI2", self.is_shut_down || self.newest.is_none_or(is_retained)),
            ("RI3", self.files.is_in_order()),
            ("RI4", self.files.iter().all(|file| file.created_by <= file.last_used)),
            ("RI5", condemned().all(|file| file.ownership != Ownership::Foreign && !is_used(file))),
        ])
    }
}

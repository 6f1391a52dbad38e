//! Finds the checkpoint to go on from: the newest that verifies, whatever lies above it.
//!
//! # Invariants
//! - VI1: the checkpoint to restore is at or above every one that is retained.
//! - VI2: a folder is examined only after all newer ones were.

use heapless::VecView;

use crate::ids::CheckpointId;
use crate::machine::{Admission, Orders, Rejected, first_broken};
use crate::time::Now;

/// What was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecoveryEvent {
    /// A checkpoint has a folder. Newest first, by number.
    FolderFound(CheckpointId),
    /// What the last one was ordered to be looked at has shown.
    Examined(Verdict),
}

/// What a checkpoint is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// As it was written, as far as it was looked at.
    Sound,
    /// There is no manifest: it never completed.
    Incomplete,
    /// There is a manifest, and it cannot be read.
    Unreadable,
    /// Its manifest can be read, and a file that it lists is not as it was written.
    Damaged,
}

/// What to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecoveryAction {
    /// Read every byte of it, then report `Examined`.
    Verify(CheckpointId),
    /// Read its manifest alone, then report `Examined`.
    ReadManifest(CheckpointId),
    /// Restore this one.
    Restore(CheckpointId),
    /// An older one that counts as retained.
    Retain(CheckpointId),
    /// Say that it is passed over and why, and leave it where it is.
    PassOver(CheckpointId, Verdict),
    /// A folder that may go in time.
    NoteRemains(CheckpointId),
    /// There is a manifest that nobody can read: nothing may be deleted.
    StopDeleting,
}

/// Looks through the folders of a job's checkpoints.
#[derive(Clone, Debug, Default)]
pub struct Recovery {
    admission: Admission,
    newest_folder: Option<CheckpointId>,
    last_folder: Option<CheckpointId>,
    is_examining: bool,
    chosen: Option<CheckpointId>,
    oldest_retained: Option<CheckpointId>,
    has_unreadable: bool,
}

impl Recovery {
    /// The most actions that one event gives.
    pub const ACTIONS_MAX: usize = 2;

    /// Nothing was found yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes an event and writes what must be done into `out`, in order.
    ///
    /// # Errors
    /// [`Rejected`], the state is unchanged: a folder before the last one was examined, or out of order; a verdict
    /// without a folder.
    pub fn on_event(
        &mut self,
        now: Now,
        event: RecoveryEvent,
        out: &mut VecView<RecoveryAction>,
    ) -> Result<(), Rejected> {
        self.admission.admit(now, out, Self::ACTIONS_MAX)?;
        self.validate(event)?;
        let mut orders = Orders::new(out, Self::ACTIONS_MAX);
        match (event, self.last_folder) {
            (RecoveryEvent::FolderFound(id), _) => self.on_folder(id, &mut orders),
            (RecoveryEvent::Examined(verdict), Some(id)) => self.on_examined(id, verdict, &mut orders),
            (RecoveryEvent::Examined(_), None) => {}
        }
        self.admission.conclude(&orders, self.broken_invariant())
    }

    /// The checkpoint to restore.
    #[must_use]
    pub const fn chosen(&self) -> Option<CheckpointId> {
        self.chosen
    }

    /// The id for the next checkpoint: above every folder there is, whatever is in it.
    #[must_use]
    pub fn next_id(&self) -> CheckpointId {
        self.newest_folder.map_or(CheckpointId::FIRST, CheckpointId::next)
    }

    /// Whether anything may be deleted.
    #[must_use]
    pub const fn may_delete(&self) -> bool {
        !self.has_unreadable
    }

    /// Asserts every invariant.
    ///
    /// # Panics
    /// If one does not hold.
    pub fn check(&self) {
        assert_eq!(self.broken_invariant(), None);
    }

    fn validate(&self, event: RecoveryEvent) -> Result<(), Rejected> {
        let unexpected = |what| Err(Rejected::Unexpected { what });
        match event {
            RecoveryEvent::FolderFound(_) if self.is_examining => {
                unexpected("the last folder has not been examined")
            }
            RecoveryEvent::FolderFound(id) if self.last_folder.is_some_and(|last| last <= id) => {
                unexpected("folders must come by number, newest first")
            }
            RecoveryEvent::Examined(_) if !self.is_examining => unexpected("no folder is being examined"),
            RecoveryEvent::FolderFound(_) | RecoveryEvent::Examined(_) => Ok(()),
        }
    }

    fn on_folder(&mut self, id: CheckpointId, orders: &mut Orders<'_, RecoveryAction>) {
        self.newest_folder = self.newest_folder.or(Some(id));
        self.last_folder = Some(id);
        self.is_examining = true;
        orders.push(match self.chosen {
            None => RecoveryAction::Verify(id),
            Some(_) => RecoveryAction::ReadManifest(id),
        });
    }

    fn on_examined(&mut self, id: CheckpointId, verdict: Verdict, orders: &mut Orders<'_, RecoveryAction>) {
        self.is_examining = false;
        match (verdict, self.chosen) {
            (Verdict::Incomplete, _) => orders.push(RecoveryAction::NoteRemains(id)),
            (Verdict::Sound, None) => {
                self.chosen = Some(id);
                orders.push(RecoveryAction::Restore(id));
            }
            (Verdict::Unreadable | Verdict::Damaged, None) => {
                orders.push(RecoveryAction::PassOver(id, verdict));
            }
            // Nobody looked at all of it, and nobody needs it now.
            (Verdict::Sound | Verdict::Damaged, Some(_)) => {
                self.oldest_retained = Some(id);
                orders.push(RecoveryAction::Retain(id));
            }
            (Verdict::Unreadable, Some(_)) => {}
        }
        if verdict == Verdict::Unreadable {
            self.has_unreadable = true;
            orders.push(RecoveryAction::StopDeleting);
        }
    }

    fn broken_invariant(&self) -> Option<&'static str> {
        first_broken(&[
            ("VI1", self.oldest_retained.is_none_or(|oldest| Some(oldest) < self.chosen)),
            ("VI2", self.last_folder <= self.newest_folder),
        ])
    }
}

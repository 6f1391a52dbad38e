//! The order of operations that makes one file durable, as a machine.
//!
//! A file is born either under its final name (a segment, a part of a sink's output) or under a temporary
//! one that a rename replaces (a manifest, whose appearance is the commit):
//!
//! ```text
//! final name:  create -> writes -> [set length] -> sync file -> close ->           sync folder -> durable
//! temporary:   create -> writes -> [set length] -> sync file -> close -> rename -> sync folder -> durable
//! ```
//!
//! The machine decides only the order. Which file, which names and which bytes stays with its caller, who
//! reports each write and carries out each [`Step`], one at a time. The first failure is final, a sync is
//! never tried again (a kernel drops what it could not write and reports it once); what is left is closed and
//! removed, as long as nothing may refer to it.
//!
//! # Invariants
//! - D1: the file is synced only when it is sealed and no write is in flight.
//! - D2: the rename follows a good sync of the file.
//! - D3: durable means: every step of the plan went well, the folder's sync last.
//! - D4: no write is in flight when a file is closed, removed or has failed.
//! - D5: a file that has failed has a reason and is not durable.

use core::fmt;

use heapless::VecView;

use super::DiskError;
use crate::machine::{Admission, Orders, Rejected, first_broken};
use crate::time::{Millis, Now};

#[cfg(test)]
mod tests;

/// Under which name a file is born.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Birth {
    /// Its final one: nothing looks for it before somebody refers to it.
    FinalName,
    /// A temporary one; the final name appears when all its bytes are durable.
    TemporaryName,
}

/// An operation that the machine orders; the file and the names are its caller's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Create the file under the name of its birth; that name must be free.
    Create,
    /// Set the exact length.
    SetLength,
    /// Sync the file.
    SyncFile,
    /// Close the file.
    Close,
    /// Rename it to its final name, which must be free.
    Rename,
    /// Sync the folder that holds the name.
    SyncFolder,
    /// Remove the name of its birth.
    Remove,
}

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileEvent {
    /// The work begins.
    Started,
    /// A write went to the disk.
    WriteSubmitted,
    /// A write was reaped, all its bytes written.
    WriteDone,
    /// A write was reaped with an error.
    WriteFailed(DiskError),
    /// All writes have been submitted.
    Sealed {
        /// Whether the length has yet to be set.
        set_length: bool,
    },
    /// The ordered step went well.
    StepDone(Step),
    /// The ordered step failed.
    StepFailed(Step, DiskError),
    /// Nobody wants the file any more.
    Abandoned,
}

/// What to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileAction {
    /// Carry out this step and report its end. Before that, no other step is ordered.
    Perform(Step),
    /// The file is durable under its final name.
    Durable,
    /// The file has failed and all that could be cleaned up is.
    Failed(Failure),
}

/// Why a file did not become durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// It was abandoned.
    Abandoned,
    /// The disk said no.
    Disk {
        /// To what, and why.
        error: DiskError,
        /// Whether the final name may nevertheless exist, now or after a loss of power. What the file refers
        /// to must then be kept.
        name_may_exist: bool,
    },
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Abandoned => f.write_str("the file was abandoned"),
            Self::Disk { error, name_may_exist: false } => write!(f, "{error}"),
            Self::Disk { error, name_may_exist: true } => {
                write!(f, "{error}; the file may still appear under its name")
            }
        }
    }
}

impl core::error::Error for Failure {}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    New,
    /// A step of the plan has been ordered.
    Awaiting(Step),
    Writing,
    Durable,
    /// Failed; waits for the writes in flight.
    Draining,
    /// Failed; a step of the clean-up has been ordered.
    Cleaning(Step),
    Failed,
}

/// The order of operations of one file: see the module's description.
#[derive(Clone, Debug)]
pub struct FileOrder {
    birth: Birth,
    state: State,
    writes_in_flight: u32,
    /// Whether the length is to be set; known from the seal on.
    sealed: Option<bool>,
    is_created: bool,
    is_open: bool,
    is_synced: bool,
    is_renamed: bool,
    failure: Option<Failure>,
    admission: Admission,
}

impl FileOrder {
    /// The most actions one event can give.
    pub const ACTIONS_MAX: usize = 1;

    /// A file that does not exist yet.
    #[must_use]
    pub fn new(birth: Birth) -> Self {
        Self {
            birth,
            state: State::New,
            writes_in_flight: 0,
            sealed: None,
            is_created: false,
            is_open: false,
            is_synced: false,
            is_renamed: false,
            failure: None,
            admission: Admission::default(),
        }
    }

    /// Whether the file is open, unsealed and sound: a write may be submitted.
    #[must_use]
    pub fn takes_writes(&self) -> bool {
        self.state == State::Writing && self.sealed.is_none()
    }

    /// Why it failed, or is about to.
    #[must_use]
    pub const fn failure(&self) -> Option<Failure> {
        self.failure
    }

    /// Takes an event; constant work.
    ///
    /// # Errors
    /// [`Rejected`] when the event cannot happen now or `out` lacks room for [`Self::ACTIONS_MAX`] actions.
    pub fn on_event(
        &mut self,
        now: Now,
        event: FileEvent,
        out: &mut VecView<FileAction>,
    ) -> Result<(), Rejected> {
        self.admission.admit(now, out, Self::ACTIONS_MAX)?;
        let mut orders = Orders::new(out, Self::ACTIONS_MAX);
        if let Some(action) = self.take(event)? {
            orders.push(action);
        }
        self.admission.conclude(&orders, self.broken_invariant())
    }

    /// The machine has no deadlines: a disk answers when it answers.
    #[must_use]
    pub const fn next_deadline(&self, _now: Now) -> Option<Millis> {
        None
    }

    /// Asserts every invariant.
    pub fn check(&self) {
        debug_assert!(self.broken_invariant().is_none(), "invariant {:?} is broken", self.broken_invariant());
    }

    fn take(&mut self, event: FileEvent) -> Result<Option<FileAction>, Rejected> {
        match (self.state, event) {
            (State::New, FileEvent::Started) => Ok(self.order(Step::Create)),
            (State::New, FileEvent::Abandoned) => Ok(self.fail(Failure::Abandoned)),
            (State::Writing, FileEvent::WriteSubmitted) => self.write_submitted(),
            (State::Writing | State::Draining, FileEvent::WriteDone) => self.write_ended(None),
            (State::Writing | State::Draining, FileEvent::WriteFailed(error)) => {
                self.write_ended(Some(error))
            }
            (State::Writing, FileEvent::Sealed { set_length }) => self.seal(set_length),
            (State::Writing, FileEvent::Abandoned) => Ok(self.fail(Failure::Abandoned)),
            (State::Awaiting(step), FileEvent::Abandoned) => self.abandon_during(step),
            (State::Awaiting(step), FileEvent::StepDone(ended)) if step == ended => Ok(self.step_done(step)),
            (State::Awaiting(step), FileEvent::StepFailed(ended, error)) if step == ended => {
                Ok(self.step_failed(step, error))
            }
            (State::Cleaning(step), FileEvent::StepDone(ended) | FileEvent::StepFailed(ended, _))
                if step == ended =>
            {
                Ok(self.cleaned(step))
            }
            (State::Draining | State::Cleaning(_), FileEvent::Abandoned) => Ok(None),
            (State::Failed, _) => Err(Rejected::Unexpected { what: "the file has failed" }),
            (State::Durable, _) => Err(Rejected::Unexpected { what: "the file is durable" }),
            (_, _) => Err(Rejected::Unexpected { what: "not the end of what was ordered" }),
        }
    }

    fn write_submitted(&mut self) -> Result<Option<FileAction>, Rejected> {
        if self.sealed.is_some() {
            return Err(Rejected::Unexpected { what: "a write after the seal" });
        }
        self.writes_in_flight = self.writes_in_flight.saturating_add(1);
        Ok(None)
    }

    fn write_ended(&mut self, error: Option<DiskError>) -> Result<Option<FileAction>, Rejected> {
        let Some(left) = self.writes_in_flight.checked_sub(1) else {
            return Err(Rejected::Unexpected { what: "the end of a write that was not submitted" });
        };
        self.writes_in_flight = left;
        Ok(match error {
            Some(error) => self.fail(Failure::Disk { error, name_may_exist: false }),
            None if self.failure.is_some() => self.clean_up(),
            None => self.after_writes(),
        })
    }

    fn seal(&mut self, set_length: bool) -> Result<Option<FileAction>, Rejected> {
        if self.sealed.is_some() {
            return Err(Rejected::Unexpected { what: "a second seal" });
        }
        self.sealed = Some(set_length);
        Ok(self.after_writes())
    }

    /// The first step behind the writes, once they are all reaped (D1).
    fn after_writes(&mut self) -> Option<FileAction> {
        match self.sealed {
            Some(set_length) if self.writes_in_flight == 0 => {
                self.order(if set_length { Step::SetLength } else { Step::SyncFile })
            }
            Some(_) | None => None,
        }
    }

    fn step_done(&mut self, step: Step) -> Option<FileAction> {
        match step {
            Step::Create => (self.is_created, self.is_open) = (true, true),
            Step::SyncFile => self.is_synced = true,
            Step::Close => self.is_open = false,
            Step::Rename => self.is_renamed = true,
            Step::SetLength | Step::SyncFolder | Step::Remove => {}
        }
        if self.failure.is_some() {
            return self.clean_up();
        }
        match step {
            Step::Create => self.start_writing(),
            Step::SetLength => self.order(Step::SyncFile),
            Step::SyncFile => self.order(Step::Close),
            Step::Close if self.birth == Birth::TemporaryName => self.order(Step::Rename),
            Step::Close | Step::Rename => self.order(Step::SyncFolder),
            Step::SyncFolder | Step::Remove => self.finish(),
        }
    }

    fn step_failed(&mut self, step: Step, error: DiskError) -> Option<FileAction> {
        match step {
            // The bytes were synced before, and the number is gone whatever a close says.
            Step::Close => return self.step_done(step),
            // A rename that found the name taken did nothing. After any other answer nobody knows.
            Step::Rename => return self.fail_named(error, error.errno != DiskError::EXISTS),
            Step::SyncFolder => return self.fail_named(error, self.is_renamed),
            Step::Create | Step::SetLength | Step::SyncFile | Step::Remove => {}
        }
        self.fail_named(error, false)
    }

    fn fail_named(&mut self, error: DiskError, name_may_exist: bool) -> Option<FileAction> {
        self.fail(Failure::Disk { error, name_may_exist })
    }

    /// Keeps the first failure and begins to clean up.
    fn fail(&mut self, failure: Failure) -> Option<FileAction> {
        self.failure.get_or_insert(failure);
        self.clean_up()
    }

    /// The step in flight decides nothing any more; its end starts the clean-up.
    fn abandon_during(&mut self, step: Step) -> Result<Option<FileAction>, Rejected> {
        if self.is_renamed || step == Step::Rename {
            return Err(Rejected::Unexpected { what: "too late to abandon: the name may be there" });
        }
        self.failure.get_or_insert(Failure::Abandoned);
        Ok(None)
    }

    /// Close, then remove what nobody can refer to, then the end.
    fn clean_up(&mut self) -> Option<FileAction> {
        let step = if self.writes_in_flight > 0 {
            self.state = State::Draining;
            return None;
        } else if self.is_open {
            Step::Close
        } else if self.is_created && !self.is_renamed {
            Step::Remove
        } else {
            self.state = State::Failed;
            return self.failure.map(FileAction::Failed);
        };
        self.state = State::Cleaning(step);
        Some(FileAction::Perform(step))
    }

    /// A step of the clean-up has ended, well or not: there is nothing better to try.
    fn cleaned(&mut self, step: Step) -> Option<FileAction> {
        if step == Step::Close {
            self.is_open = false;
        } else {
            self.is_created = false;
        }
        self.clean_up()
    }

    fn order(&mut self, step: Step) -> Option<FileAction> {
        self.state = State::Awaiting(step);
        Some(FileAction::Perform(step))
    }

    fn start_writing(&mut self) -> Option<FileAction> {
        self.state = State::Writing;
        None
    }

    fn finish(&mut self) -> Option<FileAction> {
        self.state = State::Durable;
        Some(FileAction::Durable)
    }

    fn broken_invariant(&self) -> Option<&'static str> {
        let idle = self.writes_in_flight == 0;
        let syncs = self.state == State::Awaiting(Step::SyncFile) || self.is_synced;
        let renames = self.state == State::Awaiting(Step::Rename) || self.is_renamed;
        let is_durable = self.state == State::Durable;
        let needs_rename = self.birth == Birth::TemporaryName;
        let ends = matches!(self.state, State::Cleaning(_) | State::Failed);
        first_broken(&[
            ("D1", !syncs || (self.sealed.is_some() && idle)),
            ("D2", !renames || self.is_synced),
            ("D3", !is_durable || (self.is_synced && self.is_renamed == needs_rename)),
            ("D4", idle || !ends),
            ("D5", self.failure.is_some() || !(ends || self.state == State::Draining)),
            ("D5", self.failure.is_none() || !is_durable),
        ])
    }
}

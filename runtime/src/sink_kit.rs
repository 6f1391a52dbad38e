//! Tries whether a sink keeps what [`Sink`] promises.
//!
//! A sink that loses or repeats something does so only when a process dies at the wrong moment, or a message of the
//! coordinator does not come. The kit plays the job around a sink of yours: it writes numbers, takes checkpoints, completes,
//! aborts and forgets them, kills the process at every step, recovers with the same and with other numbers of subtasks, again
//! and again, and compares what the sink shows with what complete checkpoints cover.
//!
//! What happens to a sink here, each in every combination with the others:
//! - a kill before each call and before each request to the disk, also in the middle of a recovery, and then another one;
//! - checkpoints that are complete, with a notification that comes at once, or after the next checkpoint has begun, or
//!   never (a later one makes up for it); that are aborted, or declined by some subtasks;
//! - transactions without a record;
//! - commits that fail twice, in the job and in the recovery, and then work;
//! - a restore of an older checkpoint, after which the sink takes back what is too much, or refuses.
//!
//! A kill is one of the process: what was handed to the disk or to others stays. For sinks that keep files of their own, without
//! [`Files`], `slackwater_mem::sim` cuts the power as well.
//!
//! # Example
//!
//! A sink of numbers that it appends to a shared list when their checkpoint is complete. What it has pre-committed is listed
//! in the checkpoint, and a recovery commits it again; but this one does not ask whether it had done so before.
//!
//! ```
//! use std::sync::{Arc, Mutex};
//!
//! use slackwater::files::{BlockingFiles, FileEvent, Files};
//! use slackwater::ids::CheckpointId;
//! use slackwater::operator::{OperatorError, Sink, SubtaskInfo};
//! use slackwater::sink_kit::{KitDisk, Promise, Subject, try_sink};
//!
//! #[derive(Default)]
//! struct Append {
//!     list: Arc<Mutex<Vec<u64>>>,
//!     current: Vec<u8>,
//!     pending: Vec<(CheckpointId, Vec<u8>)>,
//! }
//!
//! impl Append {
//!     fn show(&self, bytes: &[u8]) {
//!         self.list.lock().unwrap().extend(bytes.iter().map(|byte| u64::from(*byte)));
//!     }
//! }
//!
//! impl Sink for Append {
//!     type In = u64;
//!
//!     fn recover(
//!         &mut self,
//!         _restored: Option<CheckpointId>,
//!         pending: &[Vec<u8>],
//!         _files: &mut dyn BlockingFiles,
//!     ) -> Result<Vec<String>, OperatorError> {
//!         pending.iter().for_each(|bytes| self.show(bytes));
//!         Ok(Vec::new())
//!     }
//!
//!     fn write(&mut self, number: &u64, _files: &mut Files) -> Result<(), OperatorError> {
//!         self.current.push(*number as u8);
//!         Ok(())
//!     }
//!
//!     fn pre_commit(&mut self, id: CheckpointId, _files: &mut Files) -> Result<Vec<Vec<u8>>, OperatorError> {
//!         self.pending.push((id, std::mem::take(&mut self.current)));
//!         Ok(self.pending.iter().map(|(_, bytes)| bytes.clone()).collect())
//!     }
//!
//!     fn is_sealed(&self, _id: CheckpointId) -> bool {
//!         true
//!     }
//!
//!     fn commit(&mut self, id: CheckpointId, _files: &mut Files) -> Result<(), OperatorError> {
//!         let due: Vec<_> = self.pending.extract_if(.., |(pending, _)| *pending <= id).collect();
//!         due.iter().for_each(|(_, bytes)| self.show(bytes));
//!         Ok(())
//!     }
//!
//!     fn is_committed(&self, id: CheckpointId) -> bool {
//!         self.pending.iter().all(|(pending, _)| *pending > id)
//!     }
//!
//!     fn on_file(&mut self, _event: FileEvent, _files: &mut Files) -> Result<(), OperatorError> {
//!         Ok(())
//!     }
//! }
//!
//! /// What stays when a process dies.
//! #[derive(Default)]
//! struct Outside(Arc<Mutex<Vec<u64>>>);
//!
//! impl Subject for Outside {
//!     type Sink = Append;
//!
//!     fn sink(&mut self, _info: &SubtaskInfo) -> Append {
//!         Append { list: Arc::clone(&self.0), ..Append::default() }
//!     }
//!
//!     fn write(&mut self, sink: &mut Append, number: u64, files: &mut Files) -> Result<(), OperatorError> {
//!         sink.write(&number, files)
//!     }
//!
//!     fn shown(&mut self, _disk: &KitDisk) -> Vec<u64> {
//!         self.0.lock().unwrap().clone()
//!     }
//! }
//!
//! let broken = try_sink(Outside::default).unwrap_err();
//! assert_eq!(broken.promise, Promise::ShowsOnce);
//! assert!(broken.to_string().starts_with("the sink shows something twice: number "));
//! ```

use std::fmt;

use crate::files::Files;
use crate::operator::{OperatorError, Sink, SubtaskInfo};

mod bench;
mod disk;
mod script;
#[cfg(test)]
mod tests;

pub use disk::KitDisk;
use script::{Runner, Script};

/// What the kit has to know of the sink that it tries: the world around it, which outlives it.
pub trait Subject {
    /// The sink.
    type Sink: Sink;

    /// A new sink of one subtask, of a new attempt. Earlier ones have been dropped, as if their process had been killed.
    fn sink(&mut self, info: &SubtaskInfo) -> Self::Sink;

    /// Writes a number to a sink, as a record.
    ///
    /// # Errors
    /// What the sink says.
    fn write(&mut self, sink: &mut Self::Sink, number: u64, files: &mut Files) -> Result<(), OperatorError>;

    /// The numbers that can be seen from outside now, in any order, each as often as it is there.
    fn shown(&mut self, disk: &KitDisk) -> Vec<u64>;

    /// Lets threads or consumers of the sink do something, if it has some. Called as long as the sink has no room, does
    /// not seal or does not commit.
    fn work(&mut self) {}

    /// Lets so many of the next commits fail, wherever they come from. Those of files fail without this.
    fn fail_commits(&mut self, times: u32) {
        let _none_but_files = times;
    }
}

/// Tries a sink in every way that the kit knows; `make` makes a world in which nothing has happened yet. Takes seconds.
///
/// # Errors
/// The first promise that is broken, with what was done to the sink.
pub fn try_sink<S: Subject>(mut make: impl FnMut() -> S) -> Result<Exercised, Broken> {
    let mut exercised = Exercised::default();
    for script in Script::all() {
        Runner { script, exercised: &mut exercised }.run_all(&mut make)?;
    }
    Ok(exercised)
}

/// What a sink promises.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Promise {
    /// It shows nothing that no complete checkpoint covers (rule C4).
    HoldsBack,
    /// It shows all that a checkpoint covers when it says that it has committed it, whether or not notifications of
    /// earlier ones came (rules C4 and C5).
    Commits,
    /// After a recovery it shows all that the restored checkpoint covers (rules C3 and C6).
    Recovers,
    /// It shows nothing twice, however often it commits and recovers (rule C7).
    ShowsOnce,
    /// After a restore of an older checkpoint it shows no more than that covers, or refuses.
    TakesBack,
    /// It fails for no reason of its own, takes records, seals and commits.
    GoesOn,
}

impl Promise {
    const fn how_broken(self) -> &'static str {
        match self {
            Self::HoldsBack => "shows something too early",
            Self::Commits => "has lost something that it says is committed",
            Self::Recovers => "has lost something in a recovery",
            Self::ShowsOnce => "shows something twice",
            Self::TakesBack => "does not take back what an older checkpoint does not cover",
            Self::GoesOn => "does not go on",
        }
    }
}

/// A promise that is broken, and how that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    /// The promise.
    pub promise: Promise,
    /// What is wrong.
    pub what: String,
    /// What was done to the sink until then.
    pub story: String,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the sink {}: {}. It happened after: {}", self.promise.how_broken(), self.what, self.story)
    }
}

impl std::error::Error for Broken {}

/// What was done to a sink that keeps its promises: how often.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Exercised {
    /// Jobs run from their beginning to their end.
    pub runs: u64,
    /// Kills while the job ran.
    pub kills: u64,
    /// Recoveries that were cut short, and done again.
    pub recoveries_cut_short: u64,
    /// Recoveries done again although they had been done to the end.
    pub recoveries_repeated: u64,
    /// Complete checkpoints of which the sink was never told.
    pub notifications_lost: u64,
    /// Checkpoints that were aborted after a pre-commit.
    pub aborted: u64,
    /// Pre-commits without a record.
    pub empty_transactions: u64,
    /// Commits that failed, in the job or a recovery.
    pub commits_failed: u64,
    /// Restores of a checkpoint that is not the newest, after which the sink went on.
    pub taken_back: u64,
    /// Those that it refused.
    pub refused: u64,
}

impl fmt::Display for Exercised {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} runs, {} kills, {} recoveries cut short, {} repeated, {} notifications lost, {} checkpoints aborted, \
             {} empty transactions, {} commits failed, {} older checkpoints restored, {} refused",
            self.runs,
            self.kills,
            self.recoveries_cut_short,
            self.recoveries_repeated,
            self.notifications_lost,
            self.aborted,
            self.empty_transactions,
            self.commits_failed,
            self.taken_back,
            self.refused,
        )
    }
}

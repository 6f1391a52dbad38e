//! Brings an output folder to what the restored checkpoint covers (rules C6, C7).

use std::collections::{BTreeMap, BTreeSet};

use heapless::Vec as FixedVec;
use slackwater_core::durable::DiskError;
use slackwater_core::ids::CheckpointId;
use slackwater_core::time::{Millis, Now};
use slackwater_core::two_phase::{
    TransactionToken, TwoPhase, TwoPhaseAction, TwoPhaseEvent, TwoPhaseOptions,
};

use super::name::{FinalName, HiddenName, SET_ASIDE};
use super::part::{PendingPart, SinkError};
use crate::files::BlockingFiles;

/// Commits what `pending` lists, removes hidden parts that it does not list, moves parts of checkpoints later
/// than the restored one aside. May be repeated, and interrupted anywhere. Returns sentences for the user.
///
/// What is done with which transaction, and when the rest is cleared away, is `core::two_phase`'s to say. A part is a
/// transaction of its own here.
pub(super) fn recover(
    folder: &str,
    attempt: u64,
    restored: Option<CheckpointId>,
    pending: &[Vec<u8>],
    files: &mut dyn BlockingFiles,
) -> Result<Vec<String>, SinkError> {
    let pending: Result<Vec<PendingPart>, SinkError> =
        pending.iter().map(|bytes| PendingPart::decode(bytes)).collect();
    let pending = pending?;
    let mut folder = Folder::open(folder, files)?;
    // Every check comes before the first change.
    let commits = folder.plan_commits(&pending)?;
    let (mut machine, mut said) = (Machine::new(TwoPhaseOptions::default()), Vec::new());
    for (token, part) in (0..).map(TransactionToken).zip(&pending) {
        let restored = TwoPhaseEvent::PendingRestored { token, begun_at: Millis(0) };
        if tell(&mut machine, restored)?.contains(&TwoPhaseAction::RecoverAndCommit(token)) {
            if commits.contains(part.hidden_name.as_str()) {
                folder.rename(&part.hidden_name, &part.final_name)?;
            }
            tell(&mut machine, TwoPhaseEvent::Recovered(token))?;
        }
    }
    if tell(&mut machine, TwoPhaseEvent::Opened)?.contains(&TwoPhaseAction::AbortLingering) {
        said = folder.set_aside(restored.unwrap_or(CheckpointId(0)), attempt)?;
        folder.remove_hidden_but(&commits)?;
    }
    folder.sync("")?;
    Ok(said)
}

/// Recovers one transaction at a time.
type Machine = TwoPhase<1>;
type Actions = FixedVec<TwoPhaseAction, { Machine::ACTIONS_MAX }>;

fn tell(machine: &mut Machine, event: TwoPhaseEvent) -> Result<Actions, SinkError> {
    let mut actions = Actions::new();
    // Transactions of files do not time out, so it does not matter when.
    machine.on_event(Now::default(), event, &mut actions).map_err(SinkError::Refused)?;
    Ok(actions)
}

struct Folder<'a> {
    path: &'a str,
    files: &'a mut dyn BlockingFiles,
    /// Length of each file.
    entries: BTreeMap<String, u64>,
}

impl<'a> Folder<'a> {
    fn open(path: &'a str, files: &'a mut dyn BlockingFiles) -> Result<Self, SinkError> {
        create_folders(path, files).map_err(|error| SinkError::Disk { path: path.to_owned(), error })?;
        let entries = files.list(path).map_err(|error| SinkError::Disk { path: path.to_owned(), error })?;
        let entries = entries.into_iter().filter(|entry| !entry.is_folder);
        let entries = entries.map(|entry| (entry.name, entry.len)).collect();
        Ok(Self { path, files, entries })
    }

    fn join(&self, name: &str) -> String {
        match (self.path, name) {
            ("", name) => name.to_owned(),
            (path, "") => path.to_owned(),
            (path, name) => format!("{path}/{name}"),
        }
    }

    /// The hidden names of parts that are not committed yet; an error if any part is not what the checkpoint lists.
    fn plan_commits<'p>(&mut self, pending: &'p [PendingPart]) -> Result<BTreeSet<&'p str>, SinkError> {
        let mut commits = BTreeSet::new();
        for part in pending {
            let hidden = self.entries.get(&part.hidden_name).copied();
            let visible = self.entries.get(&part.final_name).copied();
            let (folder, part_there) = (self.path.to_owned(), part.clone());
            let found = match (hidden, visible) {
                (None, None) => return Err(SinkError::LostPart { folder, part: part_there }),
                // A loss of power can leave both names of a rename.
                (Some(_), Some(len)) if self.is_same(part)? => len,
                (Some(_), Some(_)) => return Err(SinkError::NameTaken { folder, part: part_there }),
                (None, Some(len)) => len,
                (Some(len), None) => {
                    commits.insert(part.hidden_name.as_str());
                    len
                }
            };
            if found != part.len {
                return Err(SinkError::DamagedPart { folder, part: part_there, found });
            }
        }
        Ok(commits)
    }

    fn set_aside(&mut self, restored: CheckpointId, attempt: u64) -> Result<Vec<String>, SinkError> {
        let is_later = |name: &&String| FinalName::parse(name).is_some_and(|name| name.checkpoint > restored);
        let later: Vec<String> = self.entries.keys().filter(is_later).cloned().collect();
        if later.is_empty() {
            return Ok(Vec::new());
        }
        let aside = self.join(SET_ASIDE);
        self.call(&aside, |files, path| files.create_folder(path))?;
        for name in &later {
            self.rename(name, &format!("{SET_ASIDE}/{name}-{attempt}"))?;
        }
        self.sync(SET_ASIDE)?;
        let count = later.len();
        let why = match restored {
            CheckpointId(0) => "this run starts without a checkpoint".to_owned(),
            id => format!("they belong to checkpoints after {id}, which this run goes on from"),
        };
        Ok(vec![format!("moved {count} output part(s) aside to `{aside}`: {why}")])
    }

    /// Whether a part has the same bytes under both of its names.
    fn is_same(&mut self, part: &PendingPart) -> Result<bool, SinkError> {
        let (hidden, visible) = (self.join(&part.hidden_name), self.join(&part.final_name));
        self.call(&visible, |files, visible| files.is_same(&hidden, visible))
    }

    /// Removes every hidden part that was there but for those that have just been committed.
    fn remove_hidden_but(&mut self, committed: &BTreeSet<&str>) -> Result<(), SinkError> {
        let is_left =
            |name: &&String| HiddenName::parse(name).is_some() && !committed.contains(name.as_str());
        let left: Vec<String> = self.entries.keys().filter(is_left).cloned().collect();
        for name in left {
            let path = self.join(&name);
            self.call(&path, |files, path| files.remove(path))?;
        }
        Ok(())
    }

    fn rename(&mut self, from: &str, to: &str) -> Result<(), SinkError> {
        let (from, to) = (self.join(from), self.join(to));
        self.call(&from, |files, from| files.rename(from, &to))
    }

    fn sync(&mut self, name: &str) -> Result<(), SinkError> {
        let path = self.join(name);
        self.call(&path, |files, path| files.sync_folder(path))
    }

    fn call<T>(
        &mut self,
        path: &str,
        call: impl FnOnce(&mut dyn BlockingFiles, &str) -> Result<T, DiskError>,
    ) -> Result<T, SinkError> {
        call(self.files, path).map_err(|error| SinkError::Disk { path: path.to_owned(), error })
    }
}

/// Makes the folder and those it lies in, durably.
fn create_folders(path: &str, files: &mut dyn BlockingFiles) -> Result<(), DiskError> {
    if path.is_empty() {
        return Ok(());
    }
    let parent = match path.rsplit_once('/') {
        None => "",
        Some(("", _)) => "/",
        Some((parent, _)) => parent,
    };
    match files.create_folder(path) {
        Err(error) if error.errno == DiskError::NOT_FOUND && !parent.is_empty() && parent != "/" => {
            create_folders(parent, files)?;
            files.create_folder(path)?;
        }
        done => done?,
    }
    files.sync_folder(parent)
}

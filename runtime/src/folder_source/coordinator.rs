//! Hands out the files of a folder.

use std::collections::{BTreeSet, VecDeque};

use slackwater_core::ids::CheckpointId;
use slackwater_core::time::{Millis, Now};

use super::Folder;
use super::encoding::{Event, push_name, take_name};
use crate::operator::OperatorError;
use crate::operator_coordinator::{OperatorCoordinator, Subtasks};

/// Lists a folder and hands its files out to the subtasks that ask, in the order of their names; those that appear later
/// behind those that were there.
#[derive(Debug)]
pub struct FolderCoordinator<F> {
    folder: F,
    /// From one listing to the next; none: the folder is listed once, and the source ends with its files.
    period: Option<Millis>,
    /// The next listing.
    list_at: Option<Millis>,
    /// Every file that was ever handed out.
    handed_out: BTreeSet<String>,
    /// Listed and not handed out.
    waiting: VecDeque<String>,
    /// The same, for looking up.
    known: BTreeSet<String>,
    /// Subtasks that have asked and got nothing.
    asking: VecDeque<u16>,
}

impl<F: Folder> FolderCoordinator<F> {
    /// Lists the folder every `period`; or once, and then the source ends with the files that were there.
    pub const fn new(folder: F, period: Option<Millis>) -> Self {
        Self {
            folder,
            period,
            list_at: Some(Millis(0)),
            handed_out: BTreeSet::new(),
            waiting: VecDeque::new(),
            known: BTreeSet::new(),
            asking: VecDeque::new(),
        }
    }

    fn list(&mut self, now: Now) -> Result<(), OperatorError> {
        let mut names = self.folder.list()?;
        names.sort();
        for name in names {
            if !self.handed_out.contains(&name) && self.known.insert(name.clone()) {
                self.waiting.push_back(name);
            }
        }
        self.list_at = self.period.map(|period| now.monotonic.after(period));
        Ok(())
    }

    /// Gives files to those that have asked.
    fn hand_out(&mut self, subtasks: &mut Subtasks<'_>) {
        while let Some(subtask) = self.asking.pop_front() {
            let event = match self.waiting.pop_front() {
                Some(name) => {
                    self.known.remove(&name);
                    self.handed_out.insert(name.clone());
                    Event::Read(name)
                }
                None if self.list_at.is_none() => Event::NoMore,
                None => return self.asking.push_front(subtask),
            };
            subtasks.send(subtask, event.encode());
        }
    }
}

impl<F: Folder> OperatorCoordinator for FolderCoordinator<F> {
    fn restore(&mut self, state: Option<&[u8]>) -> Result<(), OperatorError> {
        let mut state = state.unwrap_or_default();
        while !state.is_empty() {
            self.handed_out.insert(take_name(&mut state)?.to_owned());
        }
        Ok(())
    }

    fn on_request(
        &mut self,
        subtask: u16,
        _request: &[u8],
        subtasks: &mut Subtasks<'_>,
    ) -> Result<(), OperatorError> {
        if !self.asking.contains(&subtask) {
            self.asking.push_back(subtask);
        }
        self.hand_out(subtasks);
        Ok(())
    }

    fn snapshot(&mut self, _checkpoint: CheckpointId) -> Result<Option<Vec<u8>>, OperatorError> {
        let mut state = Vec::new();
        self.handed_out.iter().for_each(|name| push_name(&mut state, name));
        Ok(Some(state))
    }

    fn next_deadline(&self) -> Option<Millis> {
        self.list_at
    }

    fn on_deadline(&mut self, now: Now, subtasks: &mut Subtasks<'_>) -> Result<(), OperatorError> {
        self.list(now)?;
        self.hand_out(subtasks);
        Ok(())
    }
}

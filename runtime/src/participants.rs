//! Those who take part in checkpoints beside the tasks, as the coordinator of the job knows them.

use std::collections::BTreeMap;
use std::fmt;

use slackwater_core::coordinator::{Notification, Participant, ParticipantSet};
use slackwater_core::ids::CheckpointId;
use slackwater_core::time::Millis;

use crate::actor::Mailbox;
use crate::checkpoint::{ParticipantKind, ParticipantPart};
use crate::error::JobError;
use crate::hook::{HookAnswer, NamedHook};
use crate::mail::{CoordinatorMail, OperatorCoordinatorMail};
use crate::panics;

/// Coordinators of operators and hooks, each known by its index, and what they have given.
#[derive(Default)]
pub(crate) struct Participants {
    hooks: Vec<NamedHook>,
    /// The operators with a coordinator.
    coordinators: Vec<(String, Mailbox<OperatorCoordinatorMail>)>,
    given: BTreeMap<CheckpointId, BTreeMap<Place, Vec<u8>>>,
    /// Somebody has failed since the last complete checkpoint, and the user will hear of it.
    is_noted: bool,
    is_closed: bool,
}

/// Where a state stands in the manifest: coordinators first.
type Place = (bool, u16);

impl Participants {
    pub(crate) fn new(
        hooks: Vec<NamedHook>,
        coordinators: Vec<(String, Mailbox<OperatorCoordinatorMail>)>,
    ) -> Self {
        Self { hooks, coordinators, ..Self::default() }
    }

    /// How many coordinators of operators there are, and how many hooks.
    pub(crate) fn counts(&self) -> (u16, u16) {
        let count = |len| u16::try_from(len).unwrap_or(u16::MAX);
        (count(self.coordinators.len()), count(self.hooks.len()))
    }

    /// Asks coordinators for their state (rule P27).
    pub(crate) fn ask_coordinators(&self, id: CheckpointId, coordinators: &ParticipantSet) {
        let asked = coordinators.iter().filter_map(|index| self.coordinators.get(usize::from(index)));
        asked.for_each(|(_, mail)| mail.send(OperatorCoordinatorMail::Snapshot(id)));
    }

    /// Calls hooks; each answers to the coordinator (rule P32).
    ///
    /// # Errors
    /// One has panicked.
    pub(crate) fn trigger_hooks(
        &mut self,
        (id, triggered_at): (CheckpointId, Millis),
        hooks: &ParticipantSet,
        coordinator: &Mailbox<CoordinatorMail>,
    ) -> Result<(), JobError> {
        for index in hooks.iter() {
            let Some(NamedHook { name, hook }) = self.hooks.get_mut(usize::from(index)) else { continue };
            let answer = HookAnswer::new(id, index, coordinator.clone());
            panics::catch(|| hook.trigger(id, triggered_at, answer))
                .map_err(|message| JobError::Panicked { task: format!("{name} hook"), message })?;
        }
        Ok(())
    }

    /// Tells the coordinators what became of a checkpoint.
    pub(crate) fn notify(&mut self, notification: Notification) {
        if let Notification::Abort { id, .. } = notification {
            self.forget(id);
        }
        for (_, mail) in &self.coordinators {
            mail.send(OperatorCoordinatorMail::Notify(notification));
        }
    }

    /// Keeps what somebody has given for a checkpoint under way.
    pub(crate) fn keep(&mut self, id: CheckpointId, by: Participant, state: Option<Vec<u8>>) {
        let place = match by {
            Participant::OperatorCoordinator(index) => (false, index),
            Participant::Hook(index) => (true, index),
            Participant::Task(_) => return,
        };
        if let Some(state) = state {
            self.given.entry(id).or_default().insert(place, state);
        }
    }

    /// Nobody wants what was given for the checkpoint.
    pub(crate) fn forget(&mut self, id: CheckpointId) {
        self.given.remove(&id);
    }

    /// What goes into the manifest.
    pub(crate) fn take(&mut self, id: CheckpointId) -> Vec<ParticipantPart> {
        let given = self.given.remove(&id).unwrap_or_default();
        let part = |((is_hook, index), state): (Place, Vec<u8>)| {
            let index = usize::from(index);
            let (kind, name) = if is_hook {
                (ParticipantKind::Hook, self.hooks.get(index).map(|named| &named.name))
            } else {
                (ParticipantKind::OperatorCoordinator, self.coordinators.get(index).map(|(name, _)| name))
            };
            Some(ParticipantPart { kind, name: name?.clone(), state })
        };
        given.into_iter().filter_map(part).collect()
    }

    /// A sentence about a failure, but one for any number of them in a row.
    pub(crate) fn failed(
        &mut self,
        id: CheckpointId,
        by: Participant,
        why: &dyn fmt::Display,
    ) -> Option<String> {
        if std::mem::replace(&mut self.is_noted, true) {
            return None;
        }
        let who = match by {
            Participant::Hook(index) => {
                format!("hook {}", self.hooks.get(usize::from(index)).map_or("", |named| &named.name))
            }
            Participant::OperatorCoordinator(index) => {
                let name = self.coordinators.get(usize::from(index)).map_or("", |(name, _)| name);
                format!("the coordinator of {name}")
            }
            Participant::Task(_) => String::from("a task"),
        };
        Some(format!("checkpoint {id} failed: {who}: {why}; the job went on"))
    }

    /// A checkpoint is complete.
    pub(crate) const fn completed(&mut self) {
        self.is_noted = false;
    }

    /// The job has ended: no hook is called again (rule T14). Each is closed, whatever happens to others; sentences about
    /// those that have panicked.
    pub(crate) fn close(&mut self) -> Vec<String> {
        if std::mem::replace(&mut self.is_closed, true) {
            return Vec::new();
        }
        let close = |NamedHook { name, hook }: &mut NamedHook| {
            let panicked = panics::catch(|| hook.close()).err()?;
            Some(format!("hook {name} panicked when it was closed: {panicked}"))
        };
        self.hooks.iter_mut().filter_map(close).collect()
    }
}

//! Which events a subtask refuses.

use super::snapshot::{Input, Part, Snapshot};
use super::{State, Subtask, SubtaskEvent};
use crate::ids::CheckpointId;
use crate::machine::Rejected;

impl<const PENDING: usize> Subtask<PENDING> {
    /// Refuses what cannot happen now.
    pub(super) fn validate(&self, event: SubtaskEvent) -> Result<(), Rejected> {
        use SubtaskEvent as E;
        match event {
            E::Started => {
                refuse_if(!matches!(self.state, State::AwaitingStart), "the subtask has started already")
            }
            E::TriggerReceived(_) | E::CheckpointTriggered { .. } => self.may_take(),
            E::CheckpointInduced(_) => {
                self.may_take()?;
                refuse_if(!self.options.induces_checkpoints, "this subtask does not start checkpoints itself")
            }
            E::DataEnded { .. } => {
                self.may_take()?;
                refuse_if(self.ending.data_ended.is_some(), "the data has ended already")
            }
            E::SnapshotTaken { id, parts, .. } => {
                self.is_being_taken(id)?;
                refuse_if(parts.contains(Part::Input), "captured records are no part that an operator has")
            }
            E::SnapshotFailed(id) => self.is_being_taken(id),
            E::PartPersisted { id, part, .. } => {
                self.has_come(id)?;
                refuse_if(self.is_being_taken(id).is_ok(), "its synchronous part is not done yet")?;
                refuse_if(!self.awaits(id, part), "this part is durable already, or is none of it")
            }
            E::PersistFailed { id, .. } => self.has_come(id),
            E::InputCaptured { id, .. } => {
                self.has_come(id)?;
                let is_captured = self.find(id).is_some_and(|snapshot| snapshot.input != Input::Capturing);
                refuse_if(is_captured, "no records are being captured for this checkpoint")
            }
            E::InputsFinished
            | E::OutputsConsumed
            | E::Stopped
            | E::AlignmentAborted { .. }
            | E::AbortNotified { .. }
            | E::CompleteNotified(_)
            | E::SubsumeNotified(_)
            | E::NotificationFailed(_)
            | E::DeadlineReached => Ok(()),
        }
    }

    const fn may_take(&self) -> Result<(), Rejected> {
        let is_snapshotting = matches!(self.state, State::Snapshotting { .. });
        refuse_if(is_snapshotting, "nothing may be taken from the inputs during the synchronous part")
    }

    fn is_being_taken(&self, id: CheckpointId) -> Result<(), Rejected> {
        let is_it = matches!(self.state, State::Snapshotting { snapshot, .. } if snapshot.id == id);
        refuse_if(!is_it, "no snapshot of this checkpoint is being taken")
    }

    fn has_come(&self, id: CheckpointId) -> Result<(), Rejected> {
        refuse_if(self.last < Some(id), "this checkpoint has not been taken yet")
    }

    /// Whether a part may be reported: one of a checkpoint that was given up may always.
    fn awaits(&self, id: CheckpointId, part: Part) -> bool {
        self.find(id).is_none_or(|snapshot| {
            snapshot.awaited.contains(part) && (part != Part::Input || snapshot.input == Input::Captured)
        })
    }

    pub(super) fn find(&self, id: CheckpointId) -> Option<&Snapshot> {
        self.alive().find(|snapshot| snapshot.id == id)
    }
}

const fn refuse_if(is_refused: bool, what: &'static str) -> Result<(), Rejected> {
    if is_refused { Err(Rejected::Unexpected { what }) } else { Ok(()) }
}

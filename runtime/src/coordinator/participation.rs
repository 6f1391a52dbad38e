//! Answers of those who take part in checkpoints beside the tasks.

use slackwater_core::coordinator::{CoordinatorEvent, Participant, TriggerError};
use slackwater_core::ids::CheckpointId;
use slackwater_core::time::Now;

use super::CoordinatorActor;
use crate::error::JobError;
use crate::operator::OperatorError;

impl CoordinatorActor {
    /// Somebody has done his part, or has failed, and the checkpoint with him (rules P30 and P32).
    pub(super) fn on_participant(
        &mut self,
        now: Now,
        id: CheckpointId,
        by: Participant,
        answer: Result<Option<Vec<u8>>, OperatorError>,
    ) -> Result<(), JobError> {
        let is_under_way = self.pending.contains_key(&id);
        let is_good = answer.is_ok();
        match answer {
            Ok(state) if is_under_way => self.participants.keep(id, by, state),
            Err(error) if is_under_way => {
                self.participants.failed(id, by, &error).into_iter().for_each(|note| self.shared.note(note));
            }
            Ok(_) | Err(_) => {}
        }
        let error = TriggerError::Other;
        let event = match by {
            Participant::Task(_) => return Ok(()),
            Participant::OperatorCoordinator(coordinator) if is_good => {
                CoordinatorEvent::OperatorCoordinatorAcknowledged { id, coordinator }
            }
            Participant::OperatorCoordinator(coordinator) => {
                CoordinatorEvent::OperatorCoordinatorFailed { id, coordinator, error }
            }
            Participant::Hook(hook) if is_good => CoordinatorEvent::HookAcknowledged { id, hook },
            Participant::Hook(hook) => CoordinatorEvent::HookFailed { id, hook, error },
        };
        self.tell_machine(now, event)
    }
}

//! What a subtask and the coordinator of its operator tell each other.

use slackwater_core::coordinator::gateways::DeliveryTicket;
use slackwater_core::ids::CheckpointId;

use super::Task;
use crate::error::JobError;
use crate::mail::OperatorCoordinatorMail;

impl Task {
    /// An event of the coordinator: the source has it when the coordinator hears that it has arrived (rule P28).
    pub(super) fn on_operator_event(&mut self, ticket: DeliveryTicket, event: &[u8]) -> Result<(), JobError> {
        self.head.on_event(event, &mut self.cx);
        self.check_failure()?;
        self.tell_operator_coordinator(|_| OperatorCoordinatorMail::Delivered(ticket));
        Ok(())
    }

    /// The snapshot is taken: what the coordinator has sent since its own may come (rule P29).
    pub(super) fn reopen_gateways(&self, id: CheckpointId) {
        self.tell_operator_coordinator(|subtask| OperatorCoordinatorMail::Snapshotted { id, subtask });
    }

    /// Hands what the source asks for to the coordinator.
    pub(super) fn pass_operator_requests(&mut self) {
        while let Some(request) = self.head.take_request() {
            self.tell_operator_coordinator(|subtask| OperatorCoordinatorMail::Request { subtask, request });
        }
    }

    fn tell_operator_coordinator(&self, mail: impl FnOnce(u16) -> OperatorCoordinatorMail) {
        if let Some(to) = &self.operator_coordinator {
            to.mail.send(mail(to.subtask));
        }
    }
}

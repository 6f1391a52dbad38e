//! What comes in beside records and barriers: messages.

use heapless::Vec;
use slackwater_core::coordinator::Notification;
use slackwater_core::ids::Barrier;
use slackwater_core::subtask::{Part, SubtaskAction, SubtaskEvent};

use super::{MAIL_PER_STEP, Machine, Order, Task};
use crate::error::JobError;
use crate::mail::{TaskMail, WriterMail};

impl Task {
    pub(super) fn take_mail(&mut self) -> Result<bool, JobError> {
        let mut taken = false;
        for _ in 0..MAIL_PER_STEP {
            let Some(mail) = self.mail.receive() else { break };
            taken = true;
            self.on_mail(mail)?;
        }
        Ok(taken)
    }

    fn on_mail(&mut self, mail: TaskMail) -> Result<(), JobError> {
        match mail {
            TaskMail::Trigger(barrier) => {
                self.triggers.push_back(barrier);
                Ok(())
            }
            TaskMail::Notify(Notification::Complete { id, last_subsumed }) => {
                last_subsumed.map_or(Ok(()), |id| self.tell_machine(SubtaskEvent::SubsumeNotified(id)))?;
                self.tell_machine(SubtaskEvent::CompleteNotified(id))
            }
            TaskMail::Notify(Notification::Abort { id, latest_completed }) => {
                self.tell_machine(SubtaskEvent::AbortNotified { id, latest_completed })
            }
            TaskMail::Persisted(id, Ok(entry)) => {
                self.parts.segment_written(id, entry);
                Ok(())
            }
            TaskMail::InFlightPersisted(id, Ok(stored)) => {
                let sizes = self.parts.in_flight_stored(id, stored);
                self.tell_machine(SubtaskEvent::PartPersisted { id, part: Part::Input, sizes })
            }
            TaskMail::Persisted(id, Err(cause)) | TaskMail::InFlightPersisted(id, Err(cause)) => {
                self.parts.segment_failed(id, cause);
                self.tell_machine(SubtaskEvent::PersistFailed { id, reason: None })
            }
            TaskMail::Written(bytes) => {
                self.head.chain().written(bytes);
                Ok(())
            }
            TaskMail::File(event) => {
                self.head.chain().on_file(event, &mut self.cx);
                self.check_failure()
            }
            TaskMail::FileFailed(path, error) => {
                Err(JobError::Output { task: self.name.clone(), path, error })
            }
            TaskMail::OperatorEvent { ticket, event } => self.on_operator_event(ticket, &event),
            TaskMail::KeyGroup(read) => self.on_key_group(read),
            TaskMail::SinkRecovered(sink) => {
                self.head.chain().release(sink, &mut self.cx);
                self.check_failure()
            }
        }
    }

    /// Begins what the coordinator has triggered, one after the other, each when the one before has been taken.
    /// Not while the rest is being emitted: the barrier must not cut it in two.
    pub(super) fn begin_triggered(&mut self) -> Result<bool, JobError> {
        let mut began = false;
        while self.orders.is_empty()
            && !self.is_emitting_rest()
            && let Some(barrier) = self.triggers.pop_front()
        {
            began = true;
            self.tell_machine(SubtaskEvent::TriggerReceived(barrier))?;
            self.do_orders()?;
        }
        Ok(began)
    }

    /// Tells the machine what happened and queues what it orders.
    pub(super) fn tell_machine(&mut self, event: SubtaskEvent) -> Result<(), JobError> {
        let mut actions = Vec::<_, { Machine::ACTIONS_MAX }>::new();
        let told = self.machine.on_event(self.cx.now, event, &mut actions);
        told.map_err(|rejected| JobError::machine(&self.name, rejected))?;
        for action in actions {
            if let SubtaskAction::OvertakeOutputs(barrier) = action {
                self.overtake(barrier);
            } else if let SubtaskAction::DropCapture(id) = action {
                // Nothing must come between the order to drop and the machine that captures.
                self.drop_capture(id)?;
            } else if let SubtaskAction::FailTask { id, failure } = action {
                // What else was ordered is of no use to anybody, and the machine would refuse what comes of it.
                return Err(self.failed(format!("checkpoint {id} ended the task: {failure}")));
            } else {
                self.orders.push_back(Order::Machine(action));
            }
        }
        Ok(())
    }

    /// Nor need a barrier that waits for room wait any longer.
    fn overtake(&mut self, barrier: Barrier) {
        self.head.chain().overtake(barrier);
        for order in &mut self.orders {
            if let Order::Machine(SubtaskAction::BroadcastBarrier(waiting)) = order
                && waiting.id == barrier.id
            {
                *waiting = barrier;
            }
        }
    }

    /// Hands the sink's requests to the writer, and the source's to the coordinator of its operator.
    pub(super) fn pass_requests(&mut self) -> Result<(), JobError> {
        self.pass_operator_requests();
        while let Some((ticket, request)) = self.head.chain().take_request() {
            self.writer.send(WriterMail::File { task: self.index, ticket, request });
        }
        Ok(())
    }
}

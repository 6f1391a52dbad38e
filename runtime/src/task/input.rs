//! What comes in beside records: messages, barriers, cancel markers.

use heapless::Vec;
use slackwater_core::coordinator::Notification;
use slackwater_core::gate::{Gate, GateAction, GateEvent};
use slackwater_core::ids::{Barrier, ChannelIndex, CheckpointId};
use slackwater_core::subtask::SubtaskEvent;

use super::{Flow, MAIL_PER_STEP, Machine, Order, Task};
use crate::error::JobError;
use crate::head::CHANNEL_WORDS;
use crate::mail::{TaskMail, WriterMail};

type GateActions = Vec<GateAction<CHANNEL_WORDS>, { Gate::<CHANNEL_WORDS>::ACTIONS_MAX }>;

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
                self.parts.in_flight_stored(id, stored);
                Ok(())
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
            && !matches!(self.flow, Flow::Ending | Flow::SendingEnd)
            && let Some(barrier) = self.triggers.pop_front()
        {
            began = true;
            self.tell_machine(SubtaskEvent::TriggerReceived(barrier))?;
            self.do_orders()?;
        }
        Ok(began)
    }

    pub(super) fn on_barrier(&mut self, channel: ChannelIndex, barrier: Barrier) -> Result<(), JobError> {
        self.tell_gate(GateEvent::BarrierArrived { channel, barrier })
    }

    pub(super) fn on_cancel(
        &mut self,
        channel: ChannelIndex,
        checkpoint: CheckpointId,
    ) -> Result<(), JobError> {
        self.tell_gate(GateEvent::CancelArrived { channel, checkpoint })
    }

    pub(super) fn tell_gate(&mut self, event: GateEvent) -> Result<(), JobError> {
        let mut actions = GateActions::new();
        let told = self.gate.on_event(self.cx.now, event, &mut actions);
        told.map_err(|rejected| JobError::machine(&self.name, rejected))?;
        for action in actions {
            match action {
                GateAction::Block(channel) => {
                    self.blocked.insert(channel.0);
                }
                // Not before the snapshot: the orders of the trigger are ahead of any record (rule B9).
                GateAction::Resume(channels) => {
                    channels.iter().for_each(|channel| {
                        self.blocked.remove(channel);
                    });
                }
                GateAction::TriggerCheckpoint { barrier, alignment } => {
                    self.tell_machine(SubtaskEvent::CheckpointTriggered { barrier, alignment })?;
                }
                GateAction::AbortCheckpoint { id, reason } => {
                    self.tell_machine(SubtaskEvent::AlignmentAborted { id, reason })?;
                }
                GateAction::AbortCheckpoints { ids, reason } => {
                    for id in ids.iter() {
                        self.tell_machine(SubtaskEvent::AlignmentAborted { id, reason })?;
                    }
                }
                // A gate that only aligns orders none of these.
                GateAction::Overtake { .. }
                | GateAction::StartCapture { .. }
                | GateAction::StopCapture { .. }
                | GateAction::DropCapture(_) => {
                    return Err(self.failed(format!("cannot be done here: {action:?}")));
                }
            }
        }
        Ok(())
    }

    /// Tells the machine what happened and queues what it orders.
    pub(super) fn tell_machine(&mut self, event: SubtaskEvent) -> Result<(), JobError> {
        let mut actions = Vec::<_, { Machine::ACTIONS_MAX }>::new();
        let told = self.machine.on_event(self.cx.now, event, &mut actions);
        told.map_err(|rejected| JobError::machine(&self.name, rejected))?;
        self.orders.extend(actions.into_iter().map(Order::Machine));
        Ok(())
    }

    /// Hands the sink's requests to the writer.
    pub(super) fn pass_requests(&mut self) -> Result<(), JobError> {
        while let Some((ticket, request)) = self.head.chain().take_request() {
            self.writer.send(WriterMail::File { task: self.index, ticket, request });
        }
        Ok(())
    }
}

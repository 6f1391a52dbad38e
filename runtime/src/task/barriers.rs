//! Barriers and cancel markers, in their places and ahead of them, and what the gate orders.

use std::collections::VecDeque;

use heapless::Vec;
use slackwater_core::channel_state::ChannelStateEvent;
use slackwater_core::gate::{Gate, GateAction, GateEvent};
use slackwater_core::ids::{Barrier, ChannelIndex, CheckpointId};
use slackwater_core::queue::{Control, Position};
use slackwater_core::subtask::SubtaskEvent;
use slackwater_core::time::Millis;

use super::{Flow, Task};
use crate::error::JobError;
use crate::head::CHANNEL_WORDS;

type GateActions = Vec<GateAction<CHANNEL_WORDS>, { Gate::<CHANNEL_WORDS>::ACTIONS_MAX }>;

impl Task {
    /// A barrier was taken from its place. One that had overtaken was reported then.
    pub(super) fn on_barrier(
        &mut self,
        channel: ChannelIndex,
        barrier: Barrier,
        at: Position,
    ) -> Result<(), JobError> {
        let id = barrier.id;
        if self.capture.as_mut().is_some_and(|capture| capture.reach(channel, id, at)) {
            return Ok(());
        }
        self.tell_capture(ChannelStateEvent::BarrierSeen { channel, id, at })?;
        self.tell_gate(GateEvent::BarrierArrived { channel, barrier })
    }

    /// Takes into account what overtakes the items of a channel.
    pub(super) fn on_control(&mut self, channel: ChannelIndex, control: Control) -> Result<(), JobError> {
        self.note_control(channel, control)?;
        self.hear()
    }

    /// Tells the capture of barriers ahead, and keeps in mind what the gate has to hear: older checkpoints first.
    pub(super) fn note_control(&mut self, channel: ChannelIndex, control: Control) -> Result<(), JobError> {
        let mut events = Vec::<(CheckpointId, GateEvent), 3>::new();
        if let Some((barrier, at)) = self.ahead(channel, control.announced) {
            let id = barrier.id;
            self.announce(channel, barrier, at);
            self.tell_capture(ChannelStateEvent::BarrierAnnounced { channel, id, at })?;
            events.extend([(id, GateEvent::BarrierAnnounced { channel, barrier })]);
        }
        if let Some((barrier, at)) = self.ahead(channel, control.overtaking) {
            self.pass(channel, barrier.id, at)?;
            events.extend([(barrier.id, GateEvent::BarrierArrived { channel, barrier })]);
        }
        if let Some(checkpoint) = control.cancelled {
            events.extend([(checkpoint, GateEvent::CancelArrived { channel, checkpoint })]);
        }
        events.sort_unstable_by_key(|(id, _)| *id);
        self.unheard.extend(events.into_iter().map(|(_, event)| event));
        Ok(())
    }

    /// A barrier whose place has not been reached. What was taken from its place meanwhile was reported then.
    fn ahead(
        &mut self,
        channel: ChannelIndex,
        published: Option<(Barrier, Position)>,
    ) -> Option<(Barrier, Position)> {
        let next = self.head.inputs()?.next_item(channel);
        published.filter(|(_, at)| !at.is_before(next))
    }

    /// Tells the gate what came ahead, one after the other, each when the snapshot that the one before has triggered is
    /// taken.
    pub(super) fn hear(&mut self) -> Result<(), JobError> {
        while self.orders.is_empty()
            && let Some(event) = self.unheard.pop_front()
        {
            self.tell_gate(event)?;
        }
        Ok(())
    }

    /// When something is due although nothing comes. Not for the gate while the rest is being emitted: a barrier must not
    /// cut that in two.
    pub(super) fn barrier_deadline(&self) -> Option<Millis> {
        let now = self.cx.now;
        let of_gate = self.gate.next_deadline(now).filter(|_| !self.is_emitting_rest());
        of_gate.into_iter().chain(self.machine.next_deadline(now)).min()
    }

    /// Tells gate and machine that their time has come; true if it had.
    pub(super) fn serve_barrier_deadline(&mut self) -> Result<bool, JobError> {
        let is_due = self.barrier_deadline().is_some_and(|at| at <= self.cx.now.monotonic);
        if is_due {
            // Whose deadline it is not takes no notice.
            self.tell_machine(SubtaskEvent::DeadlineReached)?;
            if !self.is_emitting_rest() {
                self.tell_gate(GateEvent::DeadlineReached)?;
            }
        }
        Ok(is_due)
    }

    pub(super) const fn is_emitting_rest(&self) -> bool {
        matches!(self.flow, Flow::Ending | Flow::SendingEnd)
    }

    pub(super) fn tell_gate(&mut self, event: GateEvent) -> Result<(), JobError> {
        let mut events = VecDeque::from([event]);
        while let Some(event) = events.pop_front() {
            let mut actions = GateActions::new();
            let told = self.gate.on_event(self.cx.now, event, &mut actions);
            told.map_err(|rejected| JobError::machine(&self.name, rejected))?;
            for action in actions {
                self.on_gate_action(action, &mut events)?;
            }
        }
        Ok(())
    }

    fn on_gate_action(
        &mut self,
        action: GateAction<CHANNEL_WORDS>,
        called: &mut VecDeque<GateEvent>,
    ) -> Result<(), JobError> {
        match action {
            GateAction::Block(channel) => {
                self.blocked.insert(channel.0);
                Ok(())
            }
            // Not before the snapshot: the orders of the trigger are ahead of any record (rule B9).
            GateAction::Resume(channels) => {
                channels.iter().for_each(|channel| {
                    self.blocked.remove(channel);
                });
                Ok(())
            }
            GateAction::TriggerCheckpoint { barrier, alignment } => {
                self.tell_machine(SubtaskEvent::CheckpointTriggered { barrier, alignment })
            }
            GateAction::AbortCheckpoint { id, reason } => {
                self.tell_machine(SubtaskEvent::AlignmentAborted { id, reason })
            }
            GateAction::AbortCheckpoints { ids, reason } => {
                ids.iter().try_for_each(|id| self.tell_machine(SubtaskEvent::AlignmentAborted { id, reason }))
            }
            GateAction::Overtake { id, channels } => channels.iter().try_for_each(|channel| {
                called.push_back(self.call_announced(ChannelIndex(channel), id)?);
                Ok(())
            }),
            GateAction::StartCapture { id, .. } => self.tell_capture(ChannelStateEvent::Started(id)),
            GateAction::StopCapture { id, alignment } => self.stop_capture(id, alignment),
            GateAction::DropCapture(id) => self.drop_capture(id),
        }
    }
}

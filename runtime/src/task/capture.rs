//! Records in flight that become part of a checkpoint: those that its barriers have overtaken.

use std::collections::BTreeMap;

use slackwater_core::channel_state::{ChannelState, ChannelStateAction, ChannelStateEvent, WriteFailure};
use slackwater_core::gate::{AlignmentMetrics, ChannelSet, GateEvent};
use slackwater_core::ids::{Barrier, ChannelIndex, CheckpointId};
use slackwater_core::queue::Position;
use slackwater_core::reason::FailureReason;
use slackwater_core::subtask::{SubtaskAction, SubtaskEvent};
use slackwater_mem::in_flight::{CapturedChannel, InFlight};

use super::{Order, PENDING, Task};
use crate::error::JobError;
use crate::head::CHANNEL_WORDS;

const CHANNELS: usize = ChannelSet::<CHANNEL_WORDS>::CAPACITY;

type Machine = ChannelState<CHANNELS, PENDING>;

/// What a subtask whose inputs may be overtaken keeps in mind of them.
#[derive(Debug)]
pub(super) struct Capture {
    machine: Machine,
    capturing: Option<CheckpointId>,
    captured: BTreeMap<CheckpointId, BTreeMap<ChannelIndex, Vec<Vec<u8>>>>,
    /// Measured by the gate, until everything is captured.
    alignments: BTreeMap<CheckpointId, AlignmentMetrics>,
    /// Barriers that lie further back in a channel and could overtake.
    announced: BTreeMap<ChannelIndex, (Barrier, Position)>,
    /// Barriers that have overtaken what lies before these places.
    passed: Vec<(ChannelIndex, CheckpointId, Position)>,
}

impl Capture {
    /// Of the first `channels` of at most 1024.
    pub(super) fn new(channels: u16) -> Option<Box<Self>> {
        let machine = Machine::new(channels).ok()?;
        Some(Box::new(Self {
            machine,
            capturing: None,
            captured: BTreeMap::new(),
            alignments: BTreeMap::new(),
            announced: BTreeMap::new(),
            passed: Vec::new(),
        }))
    }

    /// A barrier was taken from its place. Whether it had overtaken.
    pub(super) fn reach(&mut self, channel: ChannelIndex, id: CheckpointId, at: Position) -> bool {
        if self.announced.get(&channel).is_some_and(|(announced, _)| announced.id <= id) {
            self.announced.remove(&channel);
        }
        self.passed.contains(&(channel, id, at))
    }

    fn take(&mut self, id: CheckpointId) -> InFlight {
        let captured = self.captured.remove(&id).unwrap_or_default().into_iter();
        let channels = captured.filter(|(_, batches)| !batches.is_empty()).map(|(channel, batches)| {
            // A vertex has one input, whose channels stand in the order of those that send.
            CapturedChannel { edge: 0, sender: channel.0, batches }
        });
        InFlight { channels: channels.collect() }
    }
}

impl Task {
    pub(super) fn tell_capture(&mut self, event: ChannelStateEvent) -> Result<(), JobError> {
        let Some(capture) = &mut self.capture else { return Ok(()) };
        let mut actions = heapless::Vec::<_, { Machine::ACTIONS_MAX }>::new();
        let told = capture.machine.on_event(self.cx.now, event, &mut actions);
        told.map_err(|rejected| JobError::machine(&self.name, rejected))?;
        actions.into_iter().try_for_each(|action| self.on_capture_action(action))
    }

    fn on_capture_action(&mut self, action: ChannelStateAction) -> Result<(), JobError> {
        let Some(capture) = &mut self.capture else { return Ok(()) };
        match action {
            ChannelStateAction::ReportQueues(id) => {
                capture.capturing = Some(id);
                self.report_queues()
            }
            ChannelStateAction::Capture { id, channel, from, until } => self.copy(id, channel, (from, until)),
            ChannelStateAction::Finish(id) => {
                let alignment = capture.alignments.remove(&id).unwrap_or_default();
                self.tell_machine(SubtaskEvent::InputCaptured { id, alignment })
            }
            ChannelStateAction::Discard(id) => {
                capture.captured.remove(&id);
                capture.alignments.remove(&id);
                Ok(())
            }
            ChannelStateAction::Decline { id, reason } => {
                self.tell_machine(SubtaskEvent::AlignmentAborted { id, reason })
            }
            // What was in flight at the restored checkpoint lies in the channels again.
            ChannelStateAction::Run => Ok(()),
        }
    }

    /// The gate is in the middle of an event, so it hears of barriers that are met here after it.
    fn report_queues(&mut self) -> Result<(), JobError> {
        for channel in (0..).map(ChannelIndex).take(self.head.channels()) {
            let Some(inputs) = self.head.inputs() else { break };
            let (end, control) = inputs.look(channel);
            control.map_or(Ok(()), |control| self.note_control(channel, control))?;
            self.report_queue(channel, end)?;
        }
        Ok(())
    }

    /// What lies next in a channel is about to be taken.
    pub(super) fn report(&mut self, channel: ChannelIndex) -> Result<(), JobError> {
        let Some(inputs) = self.head.inputs() else { return Ok(()) };
        let (end, control) = inputs.look(channel);
        control.map_or(Ok(()), |control| self.on_control(channel, control))?;
        // A snapshot comes first.
        if self.orders.is_empty() { self.report_queue(channel, end) } else { Ok(()) }
    }

    fn report_queue(&mut self, channel: ChannelIndex, end: Position) -> Result<(), JobError> {
        let (Some(capture), Some(inputs)) = (&self.capture, self.head.inputs()) else { return Ok(()) };
        if !capture.machine.is_capturing(channel) {
            inputs.limit(channel, None);
            return Ok(());
        }
        let first = inputs.first(channel);
        // Not every barrier is announced.
        let lies = capture.capturing.and_then(|id| Some((id, inputs.find_barrier(channel, id, end)?)));
        if let Some((id, at)) = lies {
            self.tell_capture(ChannelStateEvent::BarrierAnnounced { channel, id, at })?;
        }
        self.tell_capture(ChannelStateEvent::QueueSeen { channel, first, end })?;
        let is_capturing = self.capture.as_ref().is_some_and(|capture| capture.machine.is_capturing(channel));
        if let Some(inputs) = self.head.inputs() {
            inputs.limit(channel, is_capturing.then_some(end));
        }
        Ok(())
    }

    /// Writes down records of some places. The checkpoint fails if one cannot be, the task does not.
    fn copy(
        &mut self,
        id: CheckpointId,
        channel: ChannelIndex,
        extent: (Position, Position),
    ) -> Result<(), JobError> {
        let (Some(capture), Some(inputs)) = (&mut self.capture, self.head.inputs()) else { return Ok(()) };
        match inputs.encode(channel, extent) {
            Ok(mut batches) => {
                let captured = capture.captured.entry(id).or_default();
                captured.entry(channel).or_default().append(&mut batches);
                Ok(())
            }
            Err(error) => {
                self.shared.note(format!("{}: checkpoint {id} failed: {error}", self.name));
                let failure = WriteFailure::Own(FailureReason::CheckpointDeclined);
                self.tell_capture(ChannelStateEvent::WriteFailed { id, failure })
            }
        }
    }

    pub(super) fn announce(&mut self, channel: ChannelIndex, barrier: Barrier, at: Position) {
        if let Some(capture) = &mut self.capture {
            capture.announced.insert(channel, (barrier, at));
        }
    }

    /// A barrier has overtaken what lies before `at`; when that place is reached there is nothing to report.
    pub(super) fn pass(
        &mut self,
        channel: ChannelIndex,
        id: CheckpointId,
        at: Position,
    ) -> Result<(), JobError> {
        let (Some(capture), Some(inputs)) = (&mut self.capture, self.head.inputs()) else { return Ok(()) };
        let next = inputs.next_item(channel);
        capture.passed.retain(|(other, _, at)| *other != channel || !at.is_before(next));
        capture.passed.push((channel, id, at));
        self.tell_capture(ChannelStateEvent::BarrierSeen { channel, id, at })
    }

    /// Takes an announced barrier out of its place; gives what the gate has to hear of it.
    pub(super) fn call_announced(
        &mut self,
        channel: ChannelIndex,
        id: CheckpointId,
    ) -> Result<GateEvent, JobError> {
        let announced = self.capture.as_mut().and_then(|capture| capture.announced.remove(&channel));
        let announced = announced.filter(|(barrier, _)| barrier.id == id);
        let called = announced.and_then(|(barrier, at)| Some((barrier.to_unaligned()?, at)));
        let Some((barrier, at)) = called else {
            return Err(self.failed(format!("the barrier of checkpoint {id} was called, but not announced")));
        };
        self.pass(channel, id, at)?;
        Ok(GateEvent::BarrierArrived { channel, barrier })
    }

    pub(super) fn stop_capture(
        &mut self,
        id: CheckpointId,
        alignment: AlignmentMetrics,
    ) -> Result<(), JobError> {
        if let Some(capture) = &mut self.capture {
            capture.alignments.insert(id, alignment);
        }
        self.tell_capture(ChannelStateEvent::Stopped(id))
    }

    /// Nobody wants what was captured. To write it may have been ordered already, behind a barrier that waits for room.
    pub(super) fn drop_capture(&mut self, id: CheckpointId) -> Result<(), JobError> {
        self.orders.retain(|order| *order != Order::Machine(SubtaskAction::PersistInput(id)));
        self.tell_capture(ChannelStateEvent::Aborted(id))
    }

    /// Everything is captured: gives it, to be made durable.
    pub(super) fn take_captured(&mut self, id: CheckpointId) -> Result<InFlight, JobError> {
        let captured = self.capture.as_mut().map(|capture| capture.take(id)).unwrap_or_default();
        self.tell_capture(ChannelStateEvent::ResultTaken(id))?;
        Ok(captured)
    }
}

//! What a task takes from its channels: records, and barriers in their place and ahead of it.

use slackwater_core::channel_state::ChannelStateEvent;
use slackwater_core::gate::{GateAction, GateEvent};
use slackwater_core::ids::{Barrier, ChannelIndex, CheckpointId};
use slackwater_core::queue::{Control, Position};
use slackwater_core::subtask::SubtaskEvent;

use crate::job::narrow;
use crate::record::Record;
use crate::task::{Cx, Item, Task, TaskGate, Verdict};

impl Task {
    pub(crate) fn on_deadlines(&mut self, cx: &mut Cx<'_>) -> Result<bool, String> {
        let mut is_busy = false;
        if self.gate.next_deadline(cx.now).is_some_and(|at| at <= cx.now.monotonic) {
            cx.coverage.note("alignments that timed out");
            self.tell_gate(GateEvent::DeadlineReached, cx)?;
            is_busy = true;
        }
        if self.machine.next_deadline(cx.now).is_some_and(|at| at <= cx.now.monotonic) {
            self.tell(SubtaskEvent::DeadlineReached, cx)?;
            is_busy = true;
        }
        Ok(is_busy)
    }

    /// Looks at the inputs in any order, until one has something.
    pub(crate) fn visit_inputs(&mut self, cx: &mut Cx<'_>) -> Result<bool, String> {
        let first = cx.rng.index(self.inputs.len());
        for index in (first..self.inputs.len()).chain(0..first) {
            if self.visit(index, cx)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn visit(&mut self, index: usize, cx: &mut Cx<'_>) -> Result<bool, String> {
        let (end, heard) = self.listen(index, cx)?;
        let channel = channel_index(index);
        if heard || !self.orders.is_empty() || self.blocked.contains(&channel.0) {
            return Ok(heard);
        }
        self.report_queue(index, end, cx)?;
        self.take(index, end, cx)
    }

    /// The end of the queue and then its control lane, so that nothing from behind a barrier is taken for earlier.
    pub(crate) fn listen(&mut self, index: usize, cx: &mut Cx<'_>) -> Result<(Position, bool), String> {
        let input = &mut self.inputs[index];
        let (end, control) = input.consumer.look();
        let earlier = input.control.take();
        let control = match (earlier, control) {
            (Some(earlier), Some(newer)) => Some(Control {
                announced: newer.announced.or(earlier.announced),
                overtaking: newer.overtaking.or(earlier.overtaking),
                cancelled: newer.cancelled.or(earlier.cancelled),
            }),
            (earlier, newer) => newer.or(earlier),
        };
        if let Some(control) = control {
            self.on_control(index, control, cx)?;
        }
        Ok((end, control.is_some()))
    }

    fn on_control(&mut self, index: usize, control: Control, cx: &mut Cx<'_>) -> Verdict {
        let channel = channel_index(index);
        let mut events = self.note_control(index, control, cx)?;
        if let Some(checkpoint) = control.cancelled {
            events.push((checkpoint, GateEvent::CancelArrived { channel, checkpoint }));
        }
        events.sort_by_key(|(id, _)| *id);
        events.into_iter().try_for_each(|(_, event)| self.tell_gate(event, cx))
    }

    /// Tells the capture of barriers ahead; gives what the gate has to hear.
    pub(crate) fn note_control(
        &mut self,
        index: usize,
        control: Control,
        cx: &mut Cx<'_>,
    ) -> Result<Vec<(CheckpointId, GateEvent)>, String> {
        let channel = channel_index(index);
        let head = self.inputs[index].consumer.position();
        let mut events = Vec::new();
        if let Some((barrier, at)) = control.announced.filter(|(_, at)| !at.is_before(head)) {
            let id = barrier.id;
            self.inputs[index].announced = Some((barrier, at));
            self.tell_capture(ChannelStateEvent::BarrierAnnounced { channel, id, at }, cx)?;
            events.push((id, GateEvent::BarrierAnnounced { channel, barrier }));
        }
        if let Some((barrier, at)) = control.overtaking.filter(|(_, at)| !at.is_before(head)) {
            if at != head {
                cx.coverage.note("overtaken records");
            }
            self.void(index, barrier.id, at, cx)?;
            events.push((barrier.id, GateEvent::BarrierArrived { channel, barrier }));
        }
        Ok(events)
    }

    /// A barrier has overtaken what lies before `at`; there is nothing to report when that place is reached.
    fn void(&mut self, index: usize, id: CheckpointId, at: Position, cx: &mut Cx<'_>) -> Verdict {
        let input = &mut self.inputs[index];
        let head = input.consumer.position();
        input.void.retain(|(_, at)| !at.is_before(head));
        input.void.push((id, at));
        let channel = channel_index(index);
        self.tell_capture(ChannelStateEvent::BarrierSeen { channel, id, at }, cx)
    }

    pub(crate) fn report_queue(&mut self, index: usize, end: Position, cx: &mut Cx<'_>) -> Verdict {
        let channel = channel_index(index);
        if !self.capture.is_capturing(channel) {
            return Ok(());
        }
        let first = self.inputs[index].consumer.position();
        if let Some((id, at)) = self.seek_barrier(index, end) {
            self.tell_capture(ChannelStateEvent::BarrierAnnounced { channel, id, at }, cx)?;
        }
        self.tell_capture(ChannelStateEvent::QueueSeen { channel, first, end }, cx)
    }

    /// Not every sender announces its barriers.
    fn seek_barrier(&mut self, index: usize, end: Position) -> Option<(CheckpointId, Position)> {
        let consumer = &mut self.inputs[index].consumer;
        let mut at = consumer.position();
        for item in consumer.pending_until(end) {
            if let Item::Barrier(barrier) = item {
                return Some((barrier.id, at));
            }
            at = at.next();
        }
        None
    }

    fn take(&mut self, index: usize, end: Position, cx: &mut Cx<'_>) -> Result<bool, String> {
        let input = &mut self.inputs[index];
        let at = input.consumer.position();
        if !at.is_before(end) {
            return Ok(false);
        }
        let Some(item) = input.consumer.peek().cloned() else { return Ok(false) };
        if let Item::Records(records) = item {
            return self.take_record(index, &records, cx);
        }
        input.consumer.pop();
        self.on_mark(index, at, &item, cx)?;
        Ok(true)
    }

    /// What the mutant `ReleaseBeforeSnapshot` does: a record from a released channel gets into the snapshot.
    pub(crate) fn take_too_early(&mut self, cx: &mut Cx<'_>) -> Verdict {
        for index in 0..self.inputs.len() {
            let Some(Item::Records(records)) = self.inputs[index].consumer.peek().cloned() else { continue };
            if self.take_record(index, &records, cx)? {
                break;
            }
        }
        Ok(())
    }

    /// One record of a batch; the rest stays in work.
    fn take_record(&mut self, index: usize, records: &[Record], cx: &mut Cx<'_>) -> Result<bool, String> {
        if !self.has_room() {
            return Ok(false);
        }
        let input = &mut self.inputs[index];
        let record = *records.get(input.processed).ok_or("a batch is over, but was not taken")?;
        input.processed += 1;
        if input.processed == records.len() {
            input.consumer.pop();
            input.processed = 0;
        }
        self.gate.count_bytes(1);
        self.process(index, record, cx)?;
        Ok(true)
    }

    fn on_mark(&mut self, index: usize, at: Position, mark: &Item, cx: &mut Cx<'_>) -> Verdict {
        let channel = channel_index(index);
        match mark {
            Item::Records(_) => Ok(()),
            Item::Barrier(barrier) => self.on_barrier(index, *barrier, at, cx),
            Item::EndOfData => {
                self.inputs[index].has_ended = true;
                if self.inputs.iter().all(|input| input.has_ended) {
                    self.end_data();
                }
                Ok(())
            }
            Item::EndOfPartition => {
                self.tell_gate(GateEvent::EndOfPartition { channel }, cx)?;
                if self.gate.is_finished() { self.tell(SubtaskEvent::InputsFinished, cx) } else { Ok(()) }
            }
        }
    }

    fn on_barrier(&mut self, index: usize, barrier: Barrier, at: Position, cx: &mut Cx<'_>) -> Verdict {
        let channel = channel_index(index);
        let input = &mut self.inputs[index];
        input.announced = input.announced.filter(|(announced, _)| announced.id > barrier.id);
        if input.void.contains(&(barrier.id, at)) {
            return Ok(());
        }
        self.tell_capture(ChannelStateEvent::BarrierSeen { channel, id: barrier.id, at }, cx)?;
        self.tell_gate(GateEvent::BarrierArrived { channel, barrier }, cx)
    }

    pub(crate) fn tell_gate(&mut self, event: GateEvent, cx: &mut Cx<'_>) -> Verdict {
        self.gate_events.push_back(event);
        if std::mem::replace(&mut self.is_in_gate, true) {
            return Ok(());
        }
        while let Some(event) = self.gate_events.pop_front() {
            let mut actions = heapless::Vec::<_, { TaskGate::ACTIONS_MAX }>::new();
            let told = self.gate.on_event(cx.now, event, &mut actions);
            told.map_err(|rejected| format!("gate of {}: {event:?}: {rejected}", self.index))?;
            self.gate.check();
            actions.into_iter().try_for_each(|action| self.on_gate_action(action, cx))?;
        }
        self.is_in_gate = false;
        Ok(())
    }

    fn on_gate_action(&mut self, action: GateAction<1>, cx: &mut Cx<'_>) -> Verdict {
        match action {
            GateAction::Block(channel) => {
                self.blocked.insert(channel.0);
                Ok(())
            }
            GateAction::Resume(channels) => {
                channels.iter().for_each(|channel| {
                    self.blocked.remove(&channel);
                });
                Ok(())
            }
            GateAction::Overtake { id, channels } => {
                channels.iter().try_for_each(|channel| self.call_announced(channel, id, cx))
            }
            GateAction::StartCapture { id, .. } => self.tell_capture(ChannelStateEvent::Started(id), cx),
            GateAction::TriggerCheckpoint { barrier, alignment } => {
                self.tell(SubtaskEvent::CheckpointTriggered { barrier, alignment }, cx)
            }
            GateAction::StopCapture { id, alignment } => {
                self.alignments.insert(id, alignment);
                self.tell_capture(ChannelStateEvent::Stopped(id), cx)
            }
            GateAction::DropCapture(id) => self.drop_capture(id, cx),
            GateAction::AbortCheckpoint { id, reason } => {
                cx.coverage.note("alignments given up");
                self.tell(SubtaskEvent::AlignmentAborted { id, reason }, cx)
            }
            GateAction::AbortCheckpoints { ids, reason } => {
                ids.iter().try_for_each(|id| self.tell(SubtaskEvent::AlignmentAborted { id, reason }, cx))
            }
        }
    }

    /// Takes an announced barrier out of its place.
    fn call_announced(&mut self, channel: u16, id: CheckpointId, cx: &mut Cx<'_>) -> Verdict {
        cx.coverage.note("announced barriers called");
        let index = usize::from(channel);
        let announced = self.inputs[index].announced.filter(|(barrier, _)| barrier.id == id);
        let (barrier, at) = announced.ok_or("the gate calls a barrier that was not announced")?;
        let barrier = barrier.to_unaligned().ok_or("the gate calls a barrier that may not overtake")?;
        self.void(index, id, at, cx)?;
        self.tell_gate(GateEvent::BarrierArrived { channel: ChannelIndex(channel), barrier }, cx)
    }
}

pub(crate) fn channel_index(index: usize) -> ChannelIndex {
    ChannelIndex(narrow(index))
}

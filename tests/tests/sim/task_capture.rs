//! Records in flight: what is captured of a task's inputs, and what is replayed after a restore.

use slackwater_core::channel_state::{ChannelStateAction, ChannelStateEvent};
use slackwater_core::ids::{ChannelIndex, CheckpointId};
use slackwater_core::queue::Position;
use slackwater_core::subtask::SubtaskEvent;

use crate::job::narrow;
use crate::plan::Mutant;
use crate::task::{Capture, Cx, Input, Item, Task, Verdict};

impl Task {
    pub(crate) fn tell_capture(&mut self, event: ChannelStateEvent, cx: &mut Cx<'_>) -> Verdict {
        let mut actions = heapless::Vec::<_, { Capture::ACTIONS_MAX }>::new();
        let told = self.capture.on_event(cx.now, event, &mut actions);
        told.map_err(|rejected| format!("capture of {}: {event:?}: {rejected}", self.index))?;
        self.capture.check();
        actions.into_iter().try_for_each(|action| self.on_capture_action(action, cx))
    }

    fn on_capture_action(&mut self, action: ChannelStateAction, cx: &mut Cx<'_>) -> Verdict {
        match action {
            ChannelStateAction::ReportQueues(_) => self.report_queues(cx),
            ChannelStateAction::Capture { id, channel, from, until } => {
                self.copy(id, usize::from(channel.0), (from, until), cx);
                Ok(())
            }
            ChannelStateAction::Finish(id) => {
                let alignment = self.alignments.remove(&id).unwrap_or_default();
                self.tell(SubtaskEvent::InputCaptured { id, alignment }, cx)
            }
            ChannelStateAction::Discard(id) => {
                self.captured.remove(&id);
                Ok(())
            }
            ChannelStateAction::Decline { id, reason } => {
                cx.coverage.note("captures declined");
                self.tell(SubtaskEvent::AlignmentAborted { id, reason }, cx)
            }
            ChannelStateAction::Run => Ok(()),
        }
    }

    /// The gate is in the middle of an event, so it hears of barriers that are met here after it.
    fn report_queues(&mut self, cx: &mut Cx<'_>) -> Verdict {
        for index in 0..self.inputs.len() {
            let (end, control) = self.inputs[index].consumer.look();
            if let Some(control) = control {
                self.note_control(index, control, cx)?;
                self.inputs[index].control = Some(control);
            }
            self.report_queue(index, end, cx)?;
        }
        Ok(())
    }

    /// Copies the records of some places; of the batch in work what is not processed (rule U8).
    fn copy(&mut self, id: CheckpointId, index: usize, (from, until): (Position, Position), cx: &mut Cx<'_>) {
        let Input { edge, sender, consumer, processed, .. } = &mut self.inputs[index];
        let head = consumer.position();
        let mut at = head;
        let mut batches = Vec::new();
        for item in consumer.pending_until(until) {
            let skipped = if at == head { *processed } else { 0 };
            if let Item::Records(records) = item
                && !at.is_before(from)
            {
                batches.push(records[skipped..].to_vec());
            }
            at = at.next();
        }
        if cx.plan.has(Mutant::CaptureOneShort)
            && let Some(last) = batches.last_mut()
        {
            last.pop();
        }
        let captured = self.captured.entry(id).or_default();
        captured.entry((*edge, *sender)).or_default().append(&mut batches);
    }

    /// Processes a record that was in flight when the checkpoint was taken (rule U17).
    pub(crate) fn replay(&mut self, cx: &mut Cx<'_>) -> Result<bool, String> {
        let is_due = |input: &Input| !input.replay.is_empty();
        let channels: Vec<_> = (0..self.inputs.len()).filter(|index| is_due(&self.inputs[*index])).collect();
        let index = channels[cx.rng.index(channels.len())];
        if cx.plan.hears_while_replaying && self.listen(index, cx)?.1 {
            return Ok(true);
        }
        if !self.has_room() {
            return Ok(false);
        }
        if cx.plan.has(Mutant::NewBeforeReplay) && cx.rng.chance(70) && self.visit_inputs(cx)? {
            return Ok(true);
        }
        let Some(part) = self.inputs[index].replay.front_mut() else { return Ok(false) };
        if let Some(record) = part.pop_front() {
            cx.coverage.note("replayed records");
            self.process(index, record, cx)?;
        } else {
            self.inputs[index].replay.pop_front();
            let channel = ChannelIndex(narrow(index));
            self.tell_capture(ChannelStateEvent::Replayed(channel), cx)?;
        }
        Ok(true)
    }
}

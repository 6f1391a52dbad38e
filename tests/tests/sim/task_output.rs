//! What a task sends: records, marks in their place, and what overtakes.

use slackwater_core::ids::{Alignment, Barrier, CheckpointId};
use slackwater_core::queue::Control;

use crate::record::Record;
use crate::task::{Cx, Item, Output, SLOTS, Task, Verdict};

impl Task {
    /// Whether the next record may start.
    pub(crate) fn has_room(&mut self) -> bool {
        self.outputs.iter_mut().all(|output| output.producer.has_room())
    }

    pub(crate) fn emit(&mut self, record: Record, cx: &mut Cx<'_>) -> Verdict {
        self.turn = self.turn.wrapping_add(1);
        for (number, edge) in cx.job.edges.iter().enumerate().filter(|(_, edge)| edge.from == self.vertex) {
            let receiver = cx.job.route(*edge, self.subtask, self.turn, record);
            let is_it = |output: &&mut Output| output.edge == number && output.receiver == receiver;
            let output = self.outputs.iter_mut().find(is_it).ok_or("a record has no way")?;
            output.batch.push(record);
            if output.batch.len() >= cx.plan.batch {
                let batch = std::mem::take(&mut output.batch);
                output.producer.push_overdraft(Item::Records(batch)).map_err(|full| full.to_string())?;
            }
        }
        Ok(())
    }

    /// Sends half-filled batches when there is nothing better to do.
    pub(crate) fn flush_some(&mut self) -> Result<bool, String> {
        let mut is_busy = false;
        for output in &mut self.outputs {
            if !output.batch.is_empty() && output.producer.has_room() {
                let batch = std::mem::take(&mut output.batch);
                output.producer.try_push(Item::Records(batch)).map_err(|full| full.to_string())?;
                is_busy = true;
            }
        }
        Ok(is_busy)
    }

    /// Sends a mark behind everything else on each output; false if one of them has no room yet.
    pub(crate) fn send_mark(&mut self, mark: &Item) -> bool {
        while let Some(output) = self.outputs.get_mut(self.sent_to) {
            if !output.flush() || output.producer.push_overdraft(mark.clone()).is_err() {
                return false;
            }
            self.sent_to += 1;
        }
        self.sent_to = 0;
        true
    }

    pub(crate) fn broadcast_barrier(&mut self, barrier: Barrier, cx: &mut Cx<'_>) -> bool {
        while let Some(output) = self.outputs.get_mut(self.sent_to) {
            let is_forced = cx.job.edges[output.edge].is_forced;
            let alignment = barrier.alignment;
            let alignment = if is_forced { alignment.without_overtaking() } else { alignment };
            if is_forced && alignment != barrier.alignment {
                cx.coverage.note("forced aligned barriers");
            }
            if !output.send_barrier(Barrier { alignment, ..barrier }, cx) {
                cx.coverage.note("barriers without room");
                return false;
            }
            self.sent_to += 1;
        }
        self.sent_to = 0;
        true
    }

    /// A barrier that lies in a channel overtakes what is before it (rule X10).
    pub(crate) fn overtake_outputs(&mut self, barrier: Barrier, cx: &mut Cx<'_>) {
        for output in &mut self.outputs {
            if let Some((sent, at)) = output.barrier
                && sent.id == barrier.id
                && sent.to_unaligned().is_some()
            {
                cx.coverage.note("overtaking in a channel");
                let overtaking = Some((barrier, at));
                output.producer.publish(Control { overtaking, ..Control::default() });
            }
        }
    }

    pub(crate) fn cancel_outputs(&mut self, id: CheckpointId, cx: &mut Cx<'_>) {
        if cx.plan.has(crate::plan::Mutant::NoCancelMarker) {
            return;
        }
        cx.coverage.note("cancel markers");
        for output in &mut self.outputs {
            output.producer.publish(Control { cancelled: Some(id), ..Control::default() });
        }
    }
}

impl Output {
    /// Sends the half-filled batch, for which a slot is reserved.
    fn flush(&mut self) -> bool {
        if self.batch.is_empty() {
            return true;
        }
        if self.producer.len() >= SLOTS {
            return false;
        }
        let batch = std::mem::take(&mut self.batch);
        self.producer.push_reserved(Item::Records(batch)).is_ok()
    }

    fn send_barrier(&mut self, barrier: Barrier, cx: &mut Cx<'_>) -> bool {
        if !self.flush() {
            return false;
        }
        if barrier.alignment.is_unaligned() {
            if !self.producer.is_empty() {
                cx.coverage.note("overtaking at the sender");
            }
            let overtaking = Some((barrier, self.producer.position()));
            self.producer.publish(Control { overtaking, ..Control::default() });
            return true;
        }
        let item = Item::Barrier(barrier);
        let pushed = if cx.plan.is_patient {
            self.producer.try_push(item)
        } else {
            self.producer.push_overdraft(item)
        };
        let Ok(at) = pushed else { return false };
        self.barrier = Some((barrier, at));
        if matches!(barrier.alignment, Alignment::AlignedFor(_)) {
            let announced = self.barrier;
            self.producer.publish(Control { announced, ..Control::default() });
        }
        true
    }
}

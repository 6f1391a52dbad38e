//! Carries out what a task's machine orders, in order. Nothing is taken from an input before all is done.

use slackwater_core::channel_state::ChannelStateEvent;
use slackwater_core::gate::GateEvent;
use slackwater_core::ids::{Barrier, CheckpointId};
use slackwater_core::subtask::{Part, PartSet, SubtaskAction, SubtaskEvent};

use crate::plan::Mutant;
use crate::storage::{Content, FileName};
use crate::task::{Cx, Effect, Flow, Item, Machine, Operator, Order, Task, Verdict};

impl Task {
    pub(crate) fn tell(&mut self, event: SubtaskEvent, cx: &mut Cx<'_>) -> Verdict {
        let mut actions = heapless::Vec::<_, { Machine::ACTIONS_MAX }>::new();
        let told = self.machine.on_event(cx.now, event, &mut actions);
        told.map_err(|rejected| format!("task {}: {event:?}: {rejected}", self.index))?;
        self.machine.check();
        for action in actions {
            if let SubtaskAction::OvertakeOutputs(barrier) = action {
                self.overtake(barrier, cx);
            } else if let SubtaskAction::DropCapture(id) = action {
                // Nothing must come between the order to drop and the machine that captures.
                self.drop_capture(id, cx)?;
            } else {
                self.orders.push_back(Order::Machine(action));
            }
        }
        Ok(())
    }

    /// A barrier that waits for room need not wait any longer.
    fn overtake(&mut self, barrier: Barrier, cx: &mut Cx<'_>) {
        self.overtake_outputs(barrier, cx);
        for order in &mut self.orders {
            if let Order::Machine(SubtaskAction::BroadcastBarrier(waiting)) = order
                && waiting.id == barrier.id
            {
                cx.coverage.note("overtaking while it waits for room");
                *waiting = barrier;
            }
        }
    }

    pub(crate) fn do_orders(&mut self, cx: &mut Cx<'_>) -> Result<bool, String> {
        let mut did_any = false;
        while let Some(order) = self.orders.front().copied() {
            let is_done = match order {
                Order::Machine(action) => self.act(action, cx)?,
                Order::EndOfData => self.send_end_of_data(cx)?,
                Order::EndOfPartition => self.send_end_of_partition(cx),
            };
            if !is_done {
                break;
            }
            self.orders.pop_front();
            did_any = true;
        }
        Ok(did_any)
    }

    fn act(&mut self, action: SubtaskAction, cx: &mut Cx<'_>) -> Result<bool, String> {
        match action {
            SubtaskAction::InjectBarrier(barrier) => {
                cx.coverage.note("injected barriers");
                self.tell_gate(GateEvent::BarrierInjected(barrier), cx)?;
            }
            SubtaskAction::PrepareOperators(_) if cx.plan.has(Mutant::BarrierBeforePrepared) => {}
            SubtaskAction::PrepareOperators(_) => return self.prepare(cx),
            SubtaskAction::BroadcastBarrier(barrier) => return Ok(self.broadcast_barrier(barrier, cx)),
            SubtaskAction::SnapshotOperators(barrier) => return self.freeze(barrier.id, cx),
            SubtaskAction::BroadcastCancel(id) => self.cancel_outputs(id, cx),
            SubtaskAction::Persist { id, parts } => self.persist(id, parts, cx)?,
            SubtaskAction::PersistInput(id) => self.persist_input(id, cx)?,
            SubtaskAction::CancelPersist(id) => self.forget(id),
            SubtaskAction::Acknowledge { id, parts, is_finished, .. } => {
                self.acknowledge(id, parts, is_finished, cx)?;
            }
            SubtaskAction::Decline { id, reason } => {
                cx.effects.push(Effect::Decline { id, reason });
            }
            SubtaskAction::NotifyComplete(id) => self.complete(id, cx)?,
            SubtaskAction::NotifyAbort(id) => {
                self.forget(id);
                if let Operator::Sink(sink) = &mut self.operator {
                    sink.on_abort(id, cx)?;
                }
            }
            SubtaskAction::Close => self.flow = Flow::Closing,
            SubtaskAction::FailTask { .. } => cx.effects.push(Effect::Fail),
            SubtaskAction::ReportIncomplete { .. }
            | SubtaskAction::NotifySubsume(_)
            | SubtaskAction::ReopenGateways(_) => {}
            SubtaskAction::EndData { .. }
            | SubtaskAction::OvertakeOutputs(_)
            | SubtaskAction::DropCapture(_)
            | SubtaskAction::StoreLocalState(_)
            | SubtaskAction::ConfirmLocalState(_)
            | SubtaskAction::DropLocalState(_) => {
                return Err(format!("task {}: {action:?} was not expected", self.index));
            }
        }
        Ok(true)
    }

    /// The synchronous part takes some time now and then.
    fn freeze(&mut self, id: CheckpointId, cx: &mut Cx<'_>) -> Result<bool, String> {
        let has_room = !matches!(&self.operator, Operator::Sink(sink) if !sink.has_room());
        if cx.rng.chance(20) || !has_room {
            return Ok(false);
        }
        if cx.plan.has(Mutant::BarrierBeforePrepared) && !self.prepare(cx)? {
            return Ok(false);
        }
        if cx.plan.has(Mutant::PositionAfterBarrier) && self.has_room() {
            self.emit_next(cx)?;
        }
        if cx.plan.has(Mutant::ReleaseBeforeSnapshot) {
            self.take_too_early(cx)?;
        }
        let frozen = self.snapshot(id, cx)?;
        let mut parts = frozen.iter().fold(PartSet::EMPTY, |parts, (part, _)| parts.with(*part));
        if matches!(self.operator, Operator::Sink(_)) {
            parts = parts.with(Part::Transactions);
        }
        self.frozen.insert(id, frozen);
        let since = cx.now.monotonic;
        self.tell(SubtaskEvent::SnapshotTaken { id, parts, since }, cx)?;
        Ok(true)
    }

    fn persist(&mut self, id: CheckpointId, parts: PartSet, cx: &mut Cx<'_>) -> Verdict {
        for (part, content) in self.frozen.remove(&id).unwrap_or_default() {
            self.write(id, part, content, cx);
        }
        if parts.contains(Part::Transactions)
            && let Operator::Sink(sink) = &mut self.operator
        {
            sink.await_flush(id);
        }
        self.report_flushed(cx)
    }

    fn persist_input(&mut self, id: CheckpointId, cx: &mut Cx<'_>) -> Verdict {
        let captured = self.captured.remove(&id).unwrap_or_default();
        self.tell_capture(ChannelStateEvent::ResultTaken(id), cx)?;
        let records: usize = captured.values().flatten().map(Vec::len).sum();
        cx.coverage.add("captured records", records as u64);
        self.write(id, Part::Input, Content::Input(captured), cx);
        Ok(())
    }

    fn write(&self, id: CheckpointId, part: Part, content: Content, cx: &mut Cx<'_>) {
        let name = FileName::new(id, self.run, self.index, part);
        cx.effects.push(Effect::Persist { name, part, content });
    }

    fn forget(&mut self, id: CheckpointId) {
        self.frozen.remove(&id);
        if let Operator::Sink(sink) = &mut self.operator {
            sink.forget(id);
        }
    }

    pub(crate) fn drop_capture(&mut self, id: CheckpointId, cx: &mut Cx<'_>) -> Verdict {
        cx.coverage.note("dropped captures");
        self.captured.remove(&id);
        self.tell_capture(ChannelStateEvent::Aborted(id), cx)
    }

    fn acknowledge(
        &mut self,
        id: CheckpointId,
        parts: PartSet,
        is_finished: bool,
        cx: &mut Cx<'_>,
    ) -> Verdict {
        let named = parts.parts().filter(|part| *part != Part::Transactions);
        let files = named.map(|part| FileName::new(id, self.run, self.index, part)).collect();
        cx.effects.push(Effect::Acknowledge { id, is_finished, files });
        if cx.plan.has(Mutant::CommitBeforeComplete) { self.complete(id, cx) } else { Ok(()) }
    }

    fn complete(&mut self, id: CheckpointId, cx: &mut Cx<'_>) -> Verdict {
        let Operator::Sink(sink) = &mut self.operator else { return Ok(()) };
        sink.on_complete(id, cx)
    }

    fn send_end_of_data(&mut self, cx: &mut Cx<'_>) -> Result<bool, String> {
        if !self.prepare(cx)? || !self.send_mark(&Item::EndOfData) {
            return Ok(false);
        }
        self.flow = Flow::Drained;
        if let Operator::Sink(sink) = &mut self.operator {
            sink.on_end(cx)?;
        }
        self.tell(SubtaskEvent::DataEnded { drained: true }, cx)?;
        Ok(true)
    }

    fn send_end_of_partition(&mut self, cx: &mut Cx<'_>) -> bool {
        if !self.send_mark(&Item::EndOfPartition) {
            return false;
        }
        self.flow = Flow::Finished;
        cx.effects.push(Effect::Finished);
        true
    }
}

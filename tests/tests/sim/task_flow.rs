//! The life of a task: records, messages, and its end.

use slackwater_core::coordinator::Notification;
use slackwater_core::ids::CheckpointId;
use slackwater_core::subtask::{Part, PartSizes, SubtaskEvent};

use crate::job::Kind;
use crate::record::{Record, Row, key_of};
use crate::storage::Content;
use crate::task::{Cx, Flow, Mail, Operator, Order, SLOTS, Task, Verdict};

impl Task {
    pub(crate) fn start(&mut self, cx: &mut Cx<'_>) -> Verdict {
        self.flow = Flow::Running;
        self.tell(SubtaskEvent::Started, cx)
    }

    /// A bounded piece of work; whether there was any.
    pub(crate) fn step(&mut self, cx: &mut Cx<'_>) -> Result<bool, String> {
        let mut is_busy = self.on_deadlines(cx)?;
        is_busy |= self.do_orders(cx)?;
        if self.flow == Flow::New || self.flow == Flow::Finished {
            return Ok(is_busy);
        }
        if self.orders.is_empty() && !self.triggers.is_empty() {
            let barrier = self.triggers.pop_front().expect("there is one");
            self.tell(SubtaskEvent::TriggerReceived(barrier), cx)?;
            self.do_orders(cx)?;
            is_busy = true;
        }
        if self.orders.is_empty() {
            is_busy |= self.flow(cx)?;
            is_busy |= self.do_orders(cx)?;
        }
        is_busy |= self.go_on_to_the_end(cx)?;
        if !is_busy {
            is_busy |= self.flush_some()?;
        }
        Ok(is_busy)
    }

    fn flow(&mut self, cx: &mut Cx<'_>) -> Result<bool, String> {
        if self.capture.is_replaying() {
            return self.replay(cx);
        }
        match self.flow {
            Flow::Running if self.inputs.is_empty() => self.read_splits(cx),
            Flow::Running | Flow::Drained => self.visit_inputs(cx),
            Flow::New | Flow::Ending | Flow::Closing | Flow::Finished => Ok(false),
        }
    }

    fn read_splits(&mut self, cx: &mut Cx<'_>) -> Result<bool, String> {
        if !self.has_room() {
            return Ok(false);
        }
        if !self.emit_next(cx)? {
            self.end_data();
        }
        Ok(true)
    }

    /// Emits a source's next record, if there is one.
    pub(crate) fn emit_next(&mut self, cx: &mut Cx<'_>) -> Result<bool, String> {
        let Operator::Source(splits) = &mut self.operator else { return Ok(false) };
        let Some(split) = splits.iter_mut().find(|split| split.next < split.end) else { return Ok(false) };
        let id = split.next;
        split.next += 1;
        self.emit(Record::from_source(id), cx)?;
        Ok(true)
    }

    pub(crate) fn end_data(&mut self) {
        self.flow = Flow::Ending;
        self.orders.push_back(Order::EndOfData);
    }

    pub(crate) fn process(&mut self, input: usize, record: Record, cx: &mut Cx<'_>) -> Verdict {
        let via = cx.job.edges[self.inputs[input].edge].from;
        match &mut self.operator {
            Operator::Source(_) => Err("a source has no input".to_owned()),
            Operator::Keyed { states, held } => {
                let key = key_of(self.vertex, record.id);
                let result = states.entry(key).or_default().add(key, record);
                let earlier = held.replace(result);
                earlier.map_or(Ok(()), |earlier| self.emit(earlier, cx))
            }
            Operator::Sink(sink) => sink.add(Row { sink: self.vertex, via, record }, cx),
        }
    }

    /// Emits what was kept back; false if there is no room.
    pub(crate) fn prepare(&mut self, cx: &mut Cx<'_>) -> Result<bool, String> {
        let Operator::Keyed { held, .. } = &mut self.operator else { return Ok(true) };
        if held.is_none() {
            return Ok(true);
        }
        if self.outputs.iter().any(|output| output.producer.len() + 1 >= SLOTS) {
            return Ok(false);
        }
        let record = held.take().expect("it was looked at");
        self.emit(record, cx)?;
        Ok(true)
    }

    pub(crate) fn snapshot(
        &mut self,
        id: CheckpointId,
        cx: &mut Cx<'_>,
    ) -> Result<Vec<(Part, Content)>, String> {
        Ok(match &mut self.operator {
            Operator::Source(splits) => vec![(Part::ManagedOperator, Content::Splits(splits.clone()))],
            Operator::Keyed { states, .. } => vec![(Part::ManagedKeyed, Content::Keyed(states.clone()))],
            Operator::Sink(sink) => {
                vec![(Part::ManagedOperator, Content::Sink(sink.snapshot(id, cx)?))]
            }
        })
    }

    pub(crate) fn receive(&mut self, mail: Mail, cx: &mut Cx<'_>) -> Verdict {
        match mail {
            Mail::Trigger(barrier) if self.flow == Flow::New => {
                cx.coverage.note("triggers before the start");
                self.tell(SubtaskEvent::TriggerReceived(barrier), cx)
            }
            Mail::Trigger(barrier) => {
                self.triggers.push_back(barrier);
                Ok(())
            }
            Mail::Notify(Notification::Complete { id, last_subsumed }) => {
                last_subsumed.map_or(Ok(()), |id| self.tell(SubtaskEvent::SubsumeNotified(id), cx))?;
                self.tell(SubtaskEvent::CompleteNotified(id), cx)
            }
            Mail::Notify(Notification::Abort { id, latest_completed }) => {
                self.tell(SubtaskEvent::AbortNotified { id, latest_completed }, cx)
            }
            Mail::Persisted { id, part, is_good: true } => {
                let sizes = PartSizes { written_bytes: 1, state_bytes: 1 };
                self.tell(SubtaskEvent::PartPersisted { id, part, sizes }, cx)
            }
            Mail::Persisted { id, .. } => self.tell(SubtaskEvent::PersistFailed { id, reason: None }, cx),
            Mail::Flushed(token) => {
                let Operator::Sink(sink) = &mut self.operator else { return Ok(()) };
                sink.on_flushed(token, cx)?;
                self.report_flushed(cx)
            }
            Mail::Committed(transactions) => {
                let Operator::Sink(sink) = &mut self.operator else { return Ok(()) };
                sink.on_committed(transactions, cx)
            }
        }
    }

    pub(crate) fn report_flushed(&mut self, cx: &mut Cx<'_>) -> Verdict {
        while let Operator::Sink(sink) = &mut self.operator
            && let Some(id) = sink.take_flushed()
        {
            let (part, sizes) = (Part::Transactions, PartSizes::default());
            self.tell(SubtaskEvent::PartPersisted { id, part, sizes }, cx)?;
        }
        Ok(())
    }

    /// What has to happen when the data is over and nothing else is left to do.
    fn go_on_to_the_end(&mut self, cx: &mut Cx<'_>) -> Result<bool, String> {
        match self.flow {
            Flow::Drained if !self.is_consumed && self.is_all_consumed() => {
                self.is_consumed = true;
                self.tell(SubtaskEvent::OutputsConsumed, cx)?;
                Ok(true)
            }
            Flow::Closing if self.orders.is_empty() && self.may_finish() => {
                if let Operator::Sink(sink) = &mut self.operator {
                    sink.on_close(cx)?;
                }
                self.tell(SubtaskEvent::Stopped, cx)?;
                self.orders.push_back(Order::EndOfPartition);
                Ok(true)
            }
            Flow::New | Flow::Running | Flow::Ending | Flow::Drained | Flow::Closing | Flow::Finished => {
                Ok(false)
            }
        }
    }

    fn is_all_consumed(&self) -> bool {
        self.outputs.iter().all(|output| output.batch.is_empty() && output.producer.is_empty())
    }

    fn may_finish(&self) -> bool {
        let is_committed = match &self.operator {
            Operator::Sink(sink) => sink.is_committed(),
            Operator::Source(_) | Operator::Keyed { .. } => true,
        };
        self.machine.is_running() && self.machine.persisting_count() == 0 && is_committed
    }

    pub(crate) const fn kind(&self) -> Kind {
        match self.operator {
            Operator::Source(_) => Kind::Source,
            Operator::Keyed { .. } => Kind::Keyed,
            Operator::Sink(_) => Kind::Sink,
        }
    }
}

//! How the flow of records ends: with the input, or for a savepoint with which the job stops (rule X27).

use slackwater_core::gate::BarrierProgress;
use slackwater_core::ids::ChannelIndex;
use slackwater_core::subtask::SubtaskEvent;

use super::{Flow, Flowed, Order, Task};
use crate::channel::Mark;
use crate::error::JobError;
use crate::mail::CoordinatorMail;

impl Task {
    /// The job stops with a savepoint: nothing more is read. To `drain`, the operators emit what they have.
    pub(super) fn end_data(&mut self, drain: bool) {
        self.is_suspended = !drain;
        self.end_of_data();
    }

    /// No records follow on a channel.
    pub(super) fn channel_ended(&mut self, channel: ChannelIndex, is_drained: bool) {
        self.ended.insert(channel.0);
        self.is_suspended |= !is_drained;
        self.ends_behind = self.ends_behind.max(self.gate.awaits_others(channel));
    }

    /// Whether the end of the data has come on all channels. Where these do not wait for each other, a barrier may have come
    /// ahead of it on one and be awaited on another: then the end waits, or the snapshot would say that the rest has been
    /// emitted although those in front would go on.
    pub(super) fn is_over(&self) -> bool {
        let channels = self.head.channels();
        let is_cut = |id| self.gate.progress(id) == Ok(BarrierProgress::Awaited);
        channels > 0 && self.ended.len() == channels && !self.ends_behind.is_some_and(is_cut)
    }

    /// No records follow.
    pub(super) fn end_of_data(&mut self) {
        let has_emitted_rest = self.flow == (Flow::Running { skips_rest: true });
        if has_emitted_rest || self.is_suspended {
            self.send_end(has_emitted_rest);
        } else {
            self.flow = Flow::Ending;
        }
    }

    pub(super) fn emit_rest(&mut self) -> Result<Flowed, JobError> {
        if !self.head.chain().has_room() {
            return Ok(Flowed::NoRoom);
        }
        let is_done = self.head.chain().end_of_data(&mut self.cx);
        self.check_failure()?;
        if is_done {
            self.send_end(true);
        }
        Ok(Flowed::On)
    }

    fn send_end(&mut self, is_drained: bool) {
        self.flow = Flow::SendingEnd;
        if !is_drained {
            self.orders.push_back(Order::Prepare);
        }
        self.orders.push_back(Order::SendEndOfData { is_drained });
    }

    /// False if there is no room. The savepoint that has waited for the end is taken now.
    pub(super) fn send_end_of_data(&mut self, is_drained: bool) -> Result<bool, JobError> {
        if !self.head.chain().send(Mark::EndOfData { is_drained }) {
            return Ok(false);
        }
        self.flow = Flow::Ended;
        if is_drained {
            self.parts.drained();
            self.coordinator.send(CoordinatorMail::Drained(self.index));
        }
        self.tell_machine(SubtaskEvent::DataEnded { drained: is_drained })?;
        Ok(true)
    }
}

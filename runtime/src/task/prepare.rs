//! Records that operators keep back: emitted before a barrier, and when their time has come.

use slackwater_core::time::Millis;

use super::Task;
use crate::error::JobError;

impl Task {
    /// Lets the operators emit a piece of what must travel ahead of a barrier (rule X9). True when all is emitted. Does not
    /// wait for room: a barrier that overtakes must not wait for records.
    pub(super) fn prepare(&mut self) -> Result<bool, JobError> {
        let is_done = self.head.chain().prepare(&mut self.cx);
        self.check_failure()?;
        Ok(is_done)
    }

    /// Lets the operators emit what they have kept for long enough. True if the time had come. Never between a barrier's
    /// records and the barrier.
    pub(super) fn serve_deadline(&mut self) -> Result<bool, JobError> {
        let is_due = self.operator_deadline().is_some_and(|at| at <= self.cx.now.monotonic);
        if is_due {
            self.head.chain().on_deadline(&mut self.cx);
            self.check_failure()?;
        }
        Ok(is_due)
    }

    /// When the operators want to be called; without room, room comes first.
    pub(super) fn operator_deadline(&mut self) -> Option<Millis> {
        let may_emit = self.orders.is_empty() && self.head.chain().has_room();
        if may_emit { self.head.chain().next_deadline() } else { None }
    }
}

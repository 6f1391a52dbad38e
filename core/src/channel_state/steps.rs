//! What each event does to the capture as a whole.

use super::channel::{Channel, Extent};
use super::{ChannelState, ChannelStateAction, WriteFailure};
use crate::ids::{ChannelIndex, CheckpointId};
use crate::machine::{Orders, Rejected};
use crate::reason::FailureReason;

impl<const CHANNELS: usize, const RESULTS: usize> ChannelState<CHANNELS, RESULTS> {
    /// All channels begin, or none does (rule U6). One that was aborted before only stays failed.
    pub(super) fn on_started(
        &mut self,
        id: CheckpointId,
        orders: &mut Orders<'_, ChannelStateAction>,
    ) -> Result<(), Rejected> {
        if self.capturing == Some(id) || self.finished.contains(&id) {
            return Err(Rejected::Unexpected { what: "this checkpoint is captured already" });
        }
        if self.aborted.contains(id) || self.aborted.has_forgotten(id) {
            return Ok(());
        }
        if let Some(reason) = self.obstacle_to(id) {
            orders.push(ChannelStateAction::Decline { id, reason });
            return Ok(());
        }
        if let Some(older) = self.capturing.replace(id) {
            orders.push(ChannelStateAction::Discard(older));
            orders.push(ChannelStateAction::Decline { id: older, reason: FailureReason::CheckpointSubsumed });
        }
        self.is_cut_short = false;
        self.channels.iter_mut().for_each(|channel| channel.start(id));
        orders.push(ChannelStateAction::ReportQueues(id));
        Ok(())
    }

    /// Why `id` cannot be captured: rules U18, U7 and U15.
    fn obstacle_to(&self, id: CheckpointId) -> Option<FailureReason> {
        if self.is_replaying() {
            return Some(FailureReason::CheckpointDeclinedTaskNotReady);
        }
        if Some(id) <= self.over || self.channels.iter().any(|channel| channel.is_past(id)) {
            return Some(FailureReason::CheckpointSubsumed);
        }
        self.finished.is_full().then_some(FailureReason::TaskCheckpointFailure)
    }

    pub(super) fn capture(
        &self,
        channel: ChannelIndex,
        extent: Option<Extent>,
        orders: &mut Orders<'_, ChannelStateAction>,
    ) {
        if let (Some(id), Some(Extent { from, until })) = (self.capturing, extent) {
            orders.push(ChannelStateAction::Capture { id, channel, from, until });
        }
    }

    /// With the last barrier everything is captured (rule U9); an older capture can no longer be completed.
    pub(super) fn on_stopped(
        &mut self,
        id: CheckpointId,
        orders: &mut Orders<'_, ChannelStateAction>,
    ) -> Result<(), Rejected> {
        if self.capturing == Some(id) {
            if self.channels.iter().any(Channel::is_unreported) {
                return Err(Rejected::Unexpected { what: "the queue of a channel was not reported" });
            }
            self.finish(id, orders);
        } else if let Some(older) = self.capturing.filter(|capturing| *capturing < id) {
            orders.push(ChannelStateAction::Discard(older));
        }
        self.stop(id);
        Ok(())
    }

    fn finish(&mut self, id: CheckpointId, orders: &mut Orders<'_, ChannelStateAction>) {
        if self.is_cut_short {
            orders.push(ChannelStateAction::Discard(id));
            orders.push(ChannelStateAction::Decline { id, reason: FailureReason::CheckpointSubsumed });
        } else if self.finished.push(id).is_ok() {
            // By FI4 there was room.
            orders.push(ChannelStateAction::Finish(id));
        }
    }

    /// Remembered if it comes before the start, so that a capture never begins that nobody would end (rule U9).
    pub(super) fn on_aborted(&mut self, id: CheckpointId, orders: &mut Orders<'_, ChannelStateAction>) {
        self.aborted.insert(id);
        self.discard(id, orders);
    }

    pub(super) fn on_write_failed(
        &mut self,
        id: CheckpointId,
        failure: WriteFailure,
        orders: &mut Orders<'_, ChannelStateAction>,
    ) {
        if self.discard(id, orders) {
            let reason = match failure {
                WriteFailure::Own(reason) => reason,
                WriteFailure::SharedFile => FailureReason::ChannelStateSharedStreamException,
            };
            orders.push(ChannelStateAction::Decline { id, reason });
        }
    }

    pub(super) fn on_result_taken(&mut self, id: CheckpointId) -> Result<(), Rejected> {
        if self.forget(id) {
            return Ok(());
        }
        Err(Rejected::Unexpected { what: "nothing captured of this checkpoint waits to be taken" })
    }

    /// The subtask runs when every channel has been replayed (rule U17).
    pub(super) fn on_replayed(
        &mut self,
        channel: ChannelIndex,
        orders: &mut Orders<'_, ChannelStateAction>,
    ) -> Result<(), Rejected> {
        if !self.channel_mut(channel)?.replayed() {
            return Err(Rejected::Unexpected { what: "nothing is replayed on this channel" });
        }
        if !self.is_replaying() {
            orders.push(ChannelStateAction::Run);
        }
        Ok(())
    }

    /// Lets go of `id`; whether it was captured or being captured.
    fn discard(&mut self, id: CheckpointId, orders: &mut Orders<'_, ChannelStateAction>) -> bool {
        let is_capturing = self.capturing == Some(id);
        if is_capturing {
            self.stop(id);
        }
        let was_live = is_capturing || self.forget(id);
        if was_live {
            orders.push(ChannelStateAction::Discard(id));
        }
        was_live
    }

    fn forget(&mut self, id: CheckpointId) -> bool {
        let found = self.finished.iter().position(|finished| *finished == id);
        found.is_some_and(|at| {
            self.finished.swap_remove(at);
            true
        })
    }

    fn stop(&mut self, id: CheckpointId) {
        self.capturing = self.capturing.filter(|capturing| *capturing > id);
        self.over = self.over.max(Some(id));
        self.channels.iter_mut().for_each(|channel| channel.stop(id));
    }
}

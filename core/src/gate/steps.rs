//! What each event does to a gate, one function per edge.

use super::{Alignment, AlignmentMetrics, ChannelSet, Gate, GateAction, GateEvent, State};
use crate::ids::{Barrier, ChannelIndex, CheckpointId};
use crate::machine::{Orders, Rejected};
use crate::reason::FailureReason;
use crate::time::Now;

impl<const CHANNEL_WORDS: usize> Gate<CHANNEL_WORDS> {
    /// Refuses events of channels that are not there, and all but cancel markers of channels that have ended: a
    /// marker may overtake and be seen late.
    pub(super) fn validate(&self, event: GateEvent) -> Result<(), Rejected> {
        let (GateEvent::BarrierArrived { channel, .. }
        | GateEvent::CancelArrived { channel, .. }
        | GateEvent::EndOfPartition { channel }) = event;
        if channel.0 >= self.channels {
            let (value, limit) = (channel.0.into(), self.channels.into());
            return Err(Rejected::OutOfRange { what: "channel", value, limit });
        }
        if matches!(event, GateEvent::CancelArrived { .. }) || self.open.contains(channel.0) {
            return Ok(());
        }
        Err(Rejected::Unexpected { what: "the channel has ended already" })
    }

    /// Whether nothing that comes for `id` matters any more (rules B3 and B6).
    pub(super) fn is_over(&self, id: CheckpointId) -> bool {
        self.current.is_some_and(|current| id < current || id == current && !self.is_aligning())
    }

    /// A barrier that comes too late only lets its channel go on (rule B6).
    pub(super) fn over_on_barrier(channel: ChannelIndex, orders: &mut Orders<'_, GateAction<CHANNEL_WORDS>>) {
        let mut channels = ChannelSet::empty();
        channels.insert(channel.0);
        orders.push(GateAction::Resume(channels));
    }

    /// The first barrier starts the alignment over the channels that are open now (rule B7).
    pub(super) fn awaiting_barrier_on_barrier(
        &mut self,
        now: Now,
        channel: ChannelIndex,
        barrier: Barrier,
        orders: &mut Orders<'_, GateAction<CHANNEL_WORDS>>,
    ) {
        self.current = Some(barrier.id);
        let alignment = Alignment {
            barrier,
            awaited: self.open,
            blocked: ChannelSet::empty(),
            started_at: now.monotonic,
            start_delay: now.wall.since(barrier.triggered_at),
        };
        self.aligning_on_barrier(now, channel, alignment, orders);
    }

    /// Each further barrier blocks its channel; one that is repeated counts once (rule B8).
    pub(super) fn aligning_on_barrier(
        &mut self,
        now: Now,
        channel: ChannelIndex,
        mut alignment: Alignment<CHANNEL_WORDS>,
        orders: &mut Orders<'_, GateAction<CHANNEL_WORDS>>,
    ) {
        alignment.awaited.remove(channel.0);
        alignment.blocked.insert(channel.0);
        orders.push(GateAction::Block(channel));
        self.go_on_aligning(now, alignment, orders);
    }

    /// A newer barrier takes the place of the checkpoint being aligned (rule B11).
    pub(super) fn aligning_on_newer_barrier(
        &mut self,
        now: Now,
        channel: ChannelIndex,
        barrier: Barrier,
        orders: &mut Orders<'_, GateAction<CHANNEL_WORDS>>,
    ) {
        if let Some(old) = self.current {
            self.abort(old, FailureReason::CheckpointDeclinedSubsumed, orders);
        }
        self.awaiting_barrier_on_barrier(now, channel, barrier, orders);
    }

    /// A channel that ends counts as aligned, or ends the alignment (rule B14).
    pub(super) fn aligning_on_end_of_partition(
        &mut self,
        now: Now,
        channel: ChannelIndex,
        mut alignment: Alignment<CHANNEL_WORDS>,
        orders: &mut Orders<'_, GateAction<CHANNEL_WORDS>>,
    ) {
        self.open.remove(channel.0);
        alignment.awaited.remove(channel.0);
        alignment.blocked.remove(channel.0);
        self.state = State::Aligning(alignment);
        if self.options.count_ended_channels {
            self.go_on_aligning(now, alignment, orders);
        } else {
            self.abort(alignment.barrier.id, FailureReason::CheckpointDeclinedInputEndOfStream, orders);
        }
    }

    /// Gives `id` up and releases what was blocked, even for an older checkpoint (rules B12 and B13).
    pub(super) fn abort(
        &mut self,
        id: CheckpointId,
        reason: FailureReason,
        orders: &mut Orders<'_, GateAction<CHANNEL_WORDS>>,
    ) {
        self.current = self.current.max(Some(id));
        orders.push(GateAction::AbortCheckpoint { id, reason });
        if let State::Aligning(alignment) = self.state {
            self.state = State::AwaitingBarrier;
            Self::release(alignment.blocked, orders);
        }
    }

    /// Triggers when no channel is awaited any more; the channels are released after that (rule B9).
    fn go_on_aligning(
        &mut self,
        now: Now,
        alignment: Alignment<CHANNEL_WORDS>,
        orders: &mut Orders<'_, GateAction<CHANNEL_WORDS>>,
    ) {
        if !alignment.awaited.is_empty() {
            self.state = State::Aligning(alignment);
            return;
        }
        self.state = State::AwaitingBarrier;
        let duration = now.monotonic.since(alignment.started_at);
        let metrics = AlignmentMetrics { duration, start_delay: alignment.start_delay };
        orders.push(GateAction::TriggerCheckpoint { barrier: alignment.barrier, alignment: metrics });
        Self::release(alignment.blocked, orders);
    }

    fn release(blocked: ChannelSet<CHANNEL_WORDS>, orders: &mut Orders<'_, GateAction<CHANNEL_WORDS>>) {
        if !blocked.is_empty() {
            orders.push(GateAction::Resume(blocked));
        }
    }
}

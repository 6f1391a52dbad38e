//! What each event does to the pending checkpoint.

use super::{Aligner, Phase};
use crate::gate::{ChannelSet, Cx, GateAction};
use crate::ids::{Barrier, ChannelIndex, CheckpointId};
use crate::reason::FailureReason;
use crate::sync::is_mutant;
use crate::time::Millis;

impl<const CHANNEL_WORDS: usize> Aligner<CHANNEL_WORDS> {
    /// A barrier that comes too late lets its channel go on. One that overtook has not stopped it (rule B6).
    pub(super) fn over_on_barrier(
        channel: ChannelIndex,
        barrier: Barrier,
        cx: &mut Cx<'_, '_, CHANNEL_WORDS>,
    ) {
        if !barrier.alignment.is_unaligned() {
            let mut channels = ChannelSet::empty();
            channels.insert(channel.0);
            cx.orders.push(GateAction::Resume(channels));
        }
    }

    /// The first sign of a newer checkpoint gives the pending one up and awaits the channels that are open now
    /// (rules B7 and B11).
    pub(super) fn begin(&mut self, barrier: Barrier, cx: &mut Cx<'_, '_, CHANNEL_WORDS>) {
        if self.current == Some(barrier.id) {
            return;
        }
        self.abort_pending(FailureReason::CheckpointDeclinedSubsumed, cx);
        self.current = Some(barrier.id);
        self.is_given_up = false;
        self.pending = Some(barrier);
        self.awaited = *cx.open;
        self.phase = Phase::Announced;
        if cx.options.unaligned {
            let age = cx.now.wall.since(barrier.triggered_at);
            let left = |timeout: Millis| cx.now.monotonic.after(timeout.since(age));
            self.deadline = barrier.alignment.timeout().map(left);
        }
    }

    pub(super) fn on_barrier(
        &mut self,
        channel: ChannelIndex,
        barrier: Barrier,
        cx: &mut Cx<'_, '_, CHANNEL_WORDS>,
    ) {
        match self.phase {
            Phase::Idle => {}
            Phase::Announced | Phase::Aligning if barrier.alignment.is_unaligned() => {
                self.turn_unaligned(cx);
                self.unaligned_on_barrier(channel, barrier, cx);
            }
            Phase::Announced | Phase::Aligning => self.aligning_on_barrier(channel, barrier, cx),
            Phase::AwaitingOvertaker | Phase::Overtaking => self.unaligned_on_barrier(channel, barrier, cx),
        }
    }

    /// A barrier in its place blocks its channel. The last one triggers; before that it may be found to have kept its
    /// place for too long (rules B17 and B18).
    fn aligning_on_barrier(
        &mut self,
        channel: ChannelIndex,
        barrier: Barrier,
        cx: &mut Cx<'_, '_, CHANNEL_WORDS>,
    ) {
        self.arrive(channel, &barrier, cx);
        self.block(channel, cx);
        self.phase = Phase::Aligning;
        if self.awaited.is_empty() {
            self.finish_aligned(cx);
        } else if cx.options.unaligned && barrier.is_timed_out(cx.now) {
            self.turn_unaligned(cx);
        }
    }

    /// The first barrier triggers, the last one ends it (rules B21 and B22).
    fn unaligned_on_barrier(
        &mut self,
        channel: ChannelIndex,
        barrier: Barrier,
        cx: &mut Cx<'_, '_, CHANNEL_WORDS>,
    ) {
        self.arrive(channel, &barrier, cx);
        if !barrier.alignment.is_unaligned() {
            self.block(channel, cx);
        }
        if self.phase == Phase::AwaitingOvertaker {
            self.start_overtaking(cx);
        }
        if self.awaited.is_empty() {
            self.finish_overtaking(cx);
        }
    }

    /// A barrier that could overtake is remembered while channels wait for each other, and called after that.
    pub(super) fn on_announcement(
        &mut self,
        channel: ChannelIndex,
        barrier: Barrier,
        cx: &mut Cx<'_, '_, CHANNEL_WORDS>,
    ) {
        let can_overtake = cx.options.unaligned && barrier.to_unaligned().is_some();
        if can_overtake && self.awaited.contains(channel.0) {
            self.announced.insert(channel.0);
            if matches!(self.phase, Phase::AwaitingOvertaker | Phase::Overtaking) {
                self.call_announced(cx);
            }
        }
    }

    /// The barrier has come on every open channel at once, from the side (rule B26).
    pub(super) fn on_injected(&mut self, barrier: Barrier, cx: &mut Cx<'_, '_, CHANNEL_WORDS>) {
        let is_plain = matches!(self.phase, Phase::Announced | Phase::Aligning);
        // As if they came one after the other: the first of several may be late, the last one of all triggers.
        let is_late = cx.options.unaligned && self.awaited.len() > 1 && barrier.is_timed_out(cx.now);
        self.announced = ChannelSet::empty();
        self.awaited = ChannelSet::empty();
        cx.measure.start(cx.now, &barrier);
        cx.measure.stop(cx.now, barrier.id);
        if is_plain && !is_late && !barrier.alignment.is_unaligned() {
            return self.finish_aligned(cx);
        }
        if self.phase != Phase::Overtaking {
            self.start_overtaking(cx);
        }
        self.finish_overtaking(cx);
    }

    /// A channel that ends counts as aligned, or ends the alignment (rule B14).
    pub(super) fn pending_on_end_of_partition(
        &mut self,
        channel: ChannelIndex,
        cx: &mut Cx<'_, '_, CHANNEL_WORDS>,
    ) {
        self.forget(channel, cx);
        self.blocked.remove(channel.0);
        match self.phase {
            _ if !cx.options.count_ended_channels => {
                self.abort_pending(FailureReason::CheckpointDeclinedInputEndOfStream, cx);
            }
            Phase::Aligning if self.awaited.is_empty() => self.finish_aligned(cx),
            Phase::Overtaking if self.awaited.is_empty() => self.finish_overtaking(cx),
            // The barrier was announced, but every channel has ended without it.
            _ if self.awaited.is_empty() => {
                self.abort_pending(FailureReason::CheckpointDeclinedInputEndOfStream, cx);
            }
            Phase::Aligning if cx.options.unaligned && self.is_timed_out(cx) => self.turn_unaligned(cx),
            Phase::Idle
            | Phase::Announced
            | Phase::Aligning
            | Phase::AwaitingOvertaker
            | Phase::Overtaking => {}
        }
    }

    /// Rule B16.
    pub(super) fn on_deadline(&mut self, cx: &mut Cx<'_, '_, CHANNEL_WORDS>) {
        if self.deadline.is_some_and(|deadline| deadline <= cx.now.monotonic) {
            self.turn_unaligned(cx);
        }
    }

    pub(super) fn abort_pending(&mut self, reason: FailureReason, cx: &mut Cx<'_, '_, CHANNEL_WORDS>) {
        if let Some(pending) = self.pending {
            self.abort(pending.id, reason, cx);
        }
    }

    /// Gives `id` up, and what is pending with it, even if that is older (rules B12, B13 and B23).
    pub(super) fn abort(
        &mut self,
        id: CheckpointId,
        reason: FailureReason,
        cx: &mut Cx<'_, '_, CHANNEL_WORDS>,
    ) {
        if let (Phase::Overtaking, Some(pending)) = (self.phase, self.pending) {
            cx.orders.push(GateAction::DropCapture(pending.id));
        }
        cx.orders.push(GateAction::AbortCheckpoint { id, reason });
        self.current = self.current.max(Some(id));
        self.is_given_up = true;
        cx.measure.reset();
        self.conclude(cx);
    }

    /// The alignment has taken too long or a barrier has overtaken: announced barriers are called, and if one has come
    /// the snapshot is taken now. Blocked channels stay blocked (rules B18 and B19).
    fn turn_unaligned(&mut self, cx: &mut Cx<'_, '_, CHANNEL_WORDS>) {
        self.deadline = None;
        self.call_announced(cx);
        if self.phase == Phase::Aligning {
            self.start_overtaking(cx);
        } else {
            self.phase = Phase::AwaitingOvertaker;
        }
    }

    fn call_announced(&mut self, cx: &mut Cx<'_, '_, CHANNEL_WORDS>) {
        let (Some(pending), false) = (self.pending, self.announced.is_empty()) else { return };
        cx.orders.push(GateAction::Overtake { id: pending.id, channels: self.announced });
        self.announced = ChannelSet::empty();
    }

    fn start_overtaking(&mut self, cx: &mut Cx<'_, '_, CHANNEL_WORDS>) {
        let Some(barrier) = self.pending.and_then(Barrier::to_unaligned) else { return };
        self.pending = Some(barrier);
        self.phase = Phase::Overtaking;
        self.deadline = None;
        let (id, channels) = (barrier.id, cx.open.difference(&self.blocked));
        cx.orders.push(GateAction::StartCapture { id, channels });
        cx.orders.push(GateAction::TriggerCheckpoint { barrier, alignment: cx.measure.of(id) });
    }

    /// Triggers, and only then releases the channels (rule B9).
    fn finish_aligned(&mut self, cx: &mut Cx<'_, '_, CHANNEL_WORDS>) {
        if let Some(barrier) = self.pending {
            let alignment = cx.measure.of(barrier.id);
            cx.orders.push(GateAction::TriggerCheckpoint { barrier, alignment });
        }
        self.conclude(cx);
    }

    /// Rule B23.
    fn finish_overtaking(&mut self, cx: &mut Cx<'_, '_, CHANNEL_WORDS>) {
        if let Some(Barrier { id, .. }) = self.pending {
            cx.orders.push(GateAction::StopCapture { id, alignment: cx.measure.of(id) });
        }
        self.conclude(cx);
    }

    /// Nothing is pending any more.
    fn conclude(&mut self, cx: &mut Cx<'_, '_, CHANNEL_WORDS>) {
        if !self.blocked.is_empty() {
            cx.orders.push(GateAction::Resume(self.blocked));
        }
        self.phase = Phase::Idle;
        self.pending = None;
        self.deadline = None;
        self.awaited = ChannelSet::empty();
        self.blocked = ChannelSet::empty();
        self.announced = ChannelSet::empty();
    }

    /// A barrier that is repeated counts once (rule B8).
    fn arrive(&mut self, channel: ChannelIndex, barrier: &Barrier, cx: &mut Cx<'_, '_, CHANNEL_WORDS>) {
        cx.measure.start(cx.now, barrier);
        self.forget(channel, cx);
    }

    fn forget(&mut self, channel: ChannelIndex, cx: &mut Cx<'_, '_, CHANNEL_WORDS>) {
        self.announced.remove(channel.0);
        self.awaited.remove(channel.0);
        if let (true, Some(current)) = (self.awaited.is_empty(), self.current) {
            cx.measure.stop(cx.now, current);
        }
    }

    fn block(&mut self, channel: ChannelIndex, cx: &mut Cx<'_, '_, CHANNEL_WORDS>) {
        self.blocked.insert(channel.0);
        if is_mutant("gate_no_block") {
            return;
        }
        cx.orders.push(GateAction::Block(channel));
    }

    fn is_timed_out(&self, cx: &Cx<'_, '_, CHANNEL_WORDS>) -> bool {
        self.pending.is_some_and(|pending| pending.is_timed_out(cx.now))
    }
}

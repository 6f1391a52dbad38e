//! Exactly-once: the aligned and the alternating handler (Flink: `SingleCheckpointBarrierHandler`).

mod steps;
#[cfg(test)]
mod tests;

use super::{BarrierProgress, ChannelSet, Cx, GateEvent, GateOptions};
use crate::ids::{Barrier, CheckpointId};
use crate::machine::{Rejected, first_broken};
use crate::reason::FailureReason;
use crate::time::Millis;

/// At most one checkpoint is pending (rules B2 and B3).
#[derive(Clone, Debug, Default)]
pub(super) struct Aligner<const CHANNEL_WORDS: usize> {
    phase: Phase,
    /// The newest checkpoint seen; unless it is pending it is over, and so are all older ones (rule B3).
    current: Option<CheckpointId>,
    /// Whether `current` was aborted.
    is_given_up: bool,
    pending: Option<Barrier>,
    /// The channels whose barrier has not come.
    awaited: ChannelSet<CHANNEL_WORDS>,
    /// The channels whose barrier has come in its place.
    blocked: ChannelSet<CHANNEL_WORDS>,
    /// The channels whose barrier is known to lie further back and could overtake.
    announced: ChannelSet<CHANNEL_WORDS>,
    deadline: Option<Millis>,
}

/// How far the pending checkpoint is. In brackets the names that PROTOCOL.md gives the states.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    /// None is pending (WF-A).
    #[default]
    Idle,
    /// Its barrier has been announced, but has come on no channel (WF-A).
    Announced,
    /// Channels wait for each other (CB-A).
    Aligning,
    /// It is unaligned before any barrier has come: the next one triggers (WF-U).
    AwaitingOvertaker,
    /// It is unaligned and triggered; records before the barriers that are awaited are being captured (CB-U).
    Overtaking,
}

impl<const CHANNEL_WORDS: usize> Aligner<CHANNEL_WORDS> {
    pub(super) fn on_event(&mut self, event: GateEvent, cx: &mut Cx<'_, '_, CHANNEL_WORDS>) {
        match (self.phase, event) {
            (_, GateEvent::BarrierArrived { channel, barrier }) if self.is_over(barrier.id) => {
                Self::over_on_barrier(channel, barrier, cx);
            }
            (_, GateEvent::BarrierAnnounced { barrier, .. } | GateEvent::BarrierInjected(barrier))
                if self.is_over(barrier.id) => {}
            (_, GateEvent::BarrierAnnounced { channel, .. }) if !cx.open.contains(channel.0) => {}
            (_, GateEvent::BarrierArrived { channel, barrier }) => {
                self.begin(barrier, cx);
                self.on_barrier(channel, barrier, cx);
            }
            (_, GateEvent::BarrierAnnounced { channel, barrier }) => {
                self.begin(barrier, cx);
                self.on_announcement(channel, barrier, cx);
            }
            (_, GateEvent::BarrierInjected(barrier)) => {
                self.begin(barrier, cx);
                self.on_injected(barrier, cx);
            }
            (_, GateEvent::CancelArrived { checkpoint, .. }) if self.is_over(checkpoint) => {}
            (_, GateEvent::CancelArrived { checkpoint, .. }) => {
                self.abort(checkpoint, FailureReason::CheckpointDeclinedOnCancellationBarrier, cx);
            }
            (Phase::Idle, GateEvent::EndOfPartition { .. } | GateEvent::StashOverflowed) => {}
            (_, GateEvent::EndOfPartition { channel }) => self.pending_on_end_of_partition(channel, cx),
            (_, GateEvent::StashOverflowed) => {
                self.abort_pending(FailureReason::CheckpointDeclinedAlignmentLimitExceeded, cx);
            }
            (_, GateEvent::DeadlineReached) => self.on_deadline(cx),
        }
    }

    pub(super) const fn deadline(&self) -> Option<Millis> {
        self.deadline
    }

    pub(super) const fn blocked(&self) -> &ChannelSet<CHANNEL_WORDS> {
        &self.blocked
    }

    pub(super) const fn current(&self) -> Option<CheckpointId> {
        self.current
    }

    pub(super) const fn is_pending(&self) -> bool {
        !matches!(self.phase, Phase::Idle)
    }

    /// Rule B15.
    pub(super) fn progress(&self, id: CheckpointId) -> Result<BarrierProgress, Rejected> {
        if self.current < Some(id) {
            return Err(Rejected::Unexpected { what: "no barrier of this checkpoint was seen" });
        }
        Ok(match self.current {
            Some(current) if id < current => BarrierProgress::Complete,
            _ if self.is_pending() => BarrierProgress::Awaited,
            _ if self.is_given_up => BarrierProgress::GivenUp,
            _ => BarrierProgress::Complete,
        })
    }

    /// Whether an unaligned barrier of `id` may come: not if one that cannot be turned has come (rule U3).
    pub(super) fn can_overtake(&self, id: CheckpointId) -> bool {
        self.pending.is_none_or(|pending| pending.id != id || pending.to_unaligned().is_some())
    }

    /// Whether nothing that comes for `id` matters any more (rules B3 and B6).
    fn is_over(&self, id: CheckpointId) -> bool {
        self.current.is_some_and(|current| id < current || id == current && !self.is_pending())
    }

    pub(super) fn broken_invariant(
        &self,
        open: &ChannelSet<CHANNEL_WORDS>,
        options: GateOptions,
    ) -> Option<&'static str> {
        let has_no_channels = self.awaited.is_empty() && self.blocked.is_empty() && self.announced.is_empty();
        let Some(pending) = self.pending else {
            let is_idle = self.phase == Phase::Idle && self.deadline.is_none();
            return first_broken(&[("GI6", is_idle && has_no_channels)]);
        };
        let (awaited, blocked) = (&self.awaited, &self.blocked);
        let is_plain = matches!(self.phase, Phase::Announced | Phase::Aligning);
        first_broken(&[
            ("GI2", awaited.is_subset(open) && blocked.is_subset(open)),
            ("GI3", awaited.is_disjoint(blocked)),
            ("GI4", !awaited.is_empty()),
            ("GI5", Some(pending.id) == self.current && self.is_pending()),
            ("GI7", !is_plain || awaited.union(blocked) == *open),
            ("GI8", self.announced.is_subset(awaited)),
            ("GI9", self.deadline.is_none() || options.unaligned && is_plain),
        ])
    }
}

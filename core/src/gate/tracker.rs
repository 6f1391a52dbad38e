//! At-least-once: barriers are counted, channels never wait (Flink: `CheckpointBarrierTracker`).

#[cfg(test)]
mod tests;

use heapless::Deque;

use super::{BarrierProgress, ChannelSet, CheckpointIds, Cx, GateAction, GateEvent};
use crate::ids::{Barrier, ChannelIndex, CheckpointId};
use crate::machine::first_broken;
use crate::reason::FailureReason;

/// Several checkpoints may be pending, oldest first (rule B27).
#[derive(Clone, Debug, Default)]
pub(super) struct Tracker<const CHANNEL_WORDS: usize, const TRACKED: usize> {
    tracked: Deque<Tracked<CHANNEL_WORDS>, TRACKED>,
    /// The newest checkpoint that was ever tracked.
    latest: Option<CheckpointId>,
}

/// A checkpoint whose barrier or cancel marker has come on some channels.
#[derive(Clone, Copy, Debug)]
struct Tracked<const CHANNEL_WORDS: usize> {
    mark: Mark,
    /// Those of the channels open at its start from which nothing has come.
    awaited: ChannelSet<CHANNEL_WORDS>,
}

#[derive(Clone, Copy, Debug)]
enum Mark {
    Pending(Barrier),
    /// It was given up and reported so; what else comes of it is swallowed.
    GivenUp(CheckpointId),
}

impl Mark {
    const fn id(&self) -> CheckpointId {
        match self {
            Self::Pending(barrier) => barrier.id,
            Self::GivenUp(id) => *id,
        }
    }
}

impl<const CHANNEL_WORDS: usize, const TRACKED: usize> Tracker<CHANNEL_WORDS, TRACKED> {
    pub(super) fn on_event(&mut self, event: GateEvent, cx: &mut Cx<'_, '_, CHANNEL_WORDS>) {
        match event {
            GateEvent::BarrierArrived { channel, barrier } => {
                let mut arrived = ChannelSet::empty();
                arrived.insert(channel.0);
                self.on_barrier(&arrived, barrier, cx);
            }
            GateEvent::BarrierInjected(barrier) => self.on_barrier(&cx.open.clone(), barrier, cx),
            GateEvent::CancelArrived { channel, checkpoint } => self.on_cancel(channel, checkpoint, cx),
            GateEvent::EndOfPartition { .. } if !cx.options.count_ended_channels => self.give_all_up(cx),
            GateEvent::EndOfPartition { channel } => self.on_end_of_partition(channel, cx),
            GateEvent::BarrierAnnounced { .. } | GateEvent::DeadlineReached | GateEvent::StashOverflowed => {}
        }
    }

    pub(super) const fn latest(&self) -> Option<CheckpointId> {
        self.latest
    }

    pub(super) fn is_pending(&self) -> bool {
        self.tracked.iter().any(|tracked| matches!(tracked.mark, Mark::Pending(_)))
    }

    pub(super) fn awaits_others(&self, channel: ChannelIndex) -> Option<CheckpointId> {
        let has_come = self.tracked.iter().rev().filter(|tracked| !tracked.awaited.contains(channel.0));
        has_come
            .filter(|tracked| matches!(tracked.mark, Mark::Pending(_)))
            .map(|tracked| tracked.mark.id())
            .next()
    }

    pub(super) fn progress(&self, id: CheckpointId) -> BarrierProgress {
        match self.tracked.iter().find(|tracked| tracked.mark.id() == id).map(|tracked| tracked.mark) {
            Some(Mark::Pending(_)) => BarrierProgress::Awaited,
            Some(Mark::GivenUp(_)) => BarrierProgress::GivenUp,
            None => BarrierProgress::Complete,
        }
    }

    pub(super) fn broken_invariant(&self, open: &ChannelSet<CHANNEL_WORDS>) -> Option<&'static str> {
        let ids = || self.tracked.iter().map(|tracked| tracked.mark.id());
        let is_sorted = ids().zip(ids().skip(1)).all(|(older, newer)| older < newer);
        let is_awaited =
            |tracked: &Tracked<CHANNEL_WORDS>| !tracked.awaited.is_empty() && tracked.awaited.is_subset(open);
        first_broken(&[
            ("GI10", is_sorted && ids().next_back() <= self.latest),
            ("GI11", self.tracked.iter().all(is_awaited)),
        ])
    }

    /// Rule B28.
    fn on_barrier(
        &mut self,
        channels: &ChannelSet<CHANNEL_WORDS>,
        barrier: Barrier,
        cx: &mut Cx<'_, '_, CHANNEL_WORDS>,
    ) {
        let is_new = Some(barrier.id) > self.latest;
        if is_new && cx.open.len() == 1 {
            return self.trigger_at_once(barrier, cx);
        }
        if is_new {
            cx.measure.start(cx.now, &barrier);
            self.track(Tracked { mark: Mark::Pending(barrier), awaited: *cx.open });
        }
        let Some(index) = self.tracked.iter().position(|tracked| tracked.mark.id() == barrier.id) else {
            return;
        };
        if self.mark(index, channels) {
            self.complete(index, cx);
        }
    }

    /// The only channel left has the last barrier of it. What was tracked is overtaken: this channel, which all of it
    /// awaits, is past it.
    fn trigger_at_once(&mut self, barrier: Barrier, cx: &mut Cx<'_, '_, CHANNEL_WORDS>) {
        self.tracked.clear();
        cx.measure.start(cx.now, &barrier);
        self.trigger(barrier, cx);
    }

    /// Rule B29.
    fn on_cancel(
        &mut self,
        channel: ChannelIndex,
        checkpoint: CheckpointId,
        cx: &mut Cx<'_, '_, CHANNEL_WORDS>,
    ) {
        let mut ids = CheckpointIds::up_to(checkpoint);
        while self.tracked.front().is_some_and(|oldest| oldest.mark.id() < checkpoint) {
            if let Some(Tracked { mark: Mark::Pending(barrier), .. }) = self.tracked.pop_front() {
                ids.insert(barrier.id);
            }
        }
        if Some(checkpoint) > self.latest {
            ids.insert(checkpoint);
            self.track_given_up(checkpoint, cx);
        } else if let Some(oldest) = self.tracked.front_mut()
            && let Mark::Pending(Barrier { id, .. }) = oldest.mark
            && id == checkpoint
        {
            ids.insert(checkpoint);
            oldest.mark = Mark::GivenUp(checkpoint);
        }
        let mut arrived = ChannelSet::empty();
        arrived.insert(channel.0);
        if self.tracked.front().is_some_and(|oldest| oldest.mark.id() == checkpoint) && self.mark(0, &arrived)
        {
            self.tracked.pop_front();
        }
        abort(ids, FailureReason::CheckpointDeclinedOnCancellationBarrier, cx);
    }

    /// Remembers that a checkpoint was given up, so that its other cancel markers are not reported again. A single
    /// channel has no others.
    fn track_given_up(&mut self, checkpoint: CheckpointId, cx: &mut Cx<'_, '_, CHANNEL_WORDS>) {
        if cx.open.len() <= 1 {
            return cx.measure.reset();
        }
        self.track(Tracked { mark: Mark::GivenUp(checkpoint), awaited: *cx.open });
    }

    /// Rule B30, where ended channels do not count.
    fn give_all_up(&mut self, cx: &mut Cx<'_, '_, CHANNEL_WORDS>) {
        let Some(newest) = self.tracked.back() else { return };
        let mut ids = CheckpointIds::up_to(newest.mark.id());
        for tracked in &self.tracked {
            if let Mark::Pending(barrier) = tracked.mark {
                ids.insert(barrier.id);
            }
        }
        self.tracked.clear();
        cx.measure.reset();
        abort(ids, FailureReason::CheckpointDeclinedInputEndOfStream, cx);
    }

    /// Rule B30: the newest checkpoint that awaited only this channel is complete.
    fn on_end_of_partition(&mut self, channel: ChannelIndex, cx: &mut Cx<'_, '_, CHANNEL_WORDS>) {
        let mut ended = ChannelSet::empty();
        ended.insert(channel.0);
        for index in (0..self.tracked.len()).rev() {
            if self.mark(index, &ended) {
                return self.complete(index, cx);
            }
        }
    }

    /// Where there is no room, the oldest one goes in silence (rule B27).
    fn track(&mut self, tracked: Tracked<CHANNEL_WORDS>) {
        if self.tracked.is_full() {
            self.tracked.pop_front();
        }
        self.latest = Some(tracked.mark.id());
        let pushed = self.tracked.push_back(tracked);
        debug_assert!(pushed.is_ok(), "a tracker has room for at least one checkpoint");
    }

    /// Takes what has come of a tracked checkpoint into account. Whether that was the last of it.
    fn mark(&mut self, index: usize, channels: &ChannelSet<CHANNEL_WORDS>) -> bool {
        self.tracked.get_mut(index).is_some_and(|tracked| {
            tracked.awaited = tracked.awaited.difference(channels);
            tracked.awaited.is_empty()
        })
    }

    /// Takes a checkpoint out, and those before it in silence: they will not be complete before it any more.
    fn complete(&mut self, index: usize, cx: &mut Cx<'_, '_, CHANNEL_WORDS>) {
        for _ in 0..index {
            self.tracked.pop_front();
        }
        if let Some(Tracked { mark: Mark::Pending(barrier), .. }) = self.tracked.pop_front() {
            self.trigger(barrier, cx);
        }
    }

    /// Only the alignment of the newest checkpoint is measured (rules B31 and B35).
    fn trigger(&mut self, barrier: Barrier, cx: &mut Cx<'_, '_, CHANNEL_WORDS>) {
        cx.measure.stop(cx.now, barrier.id);
        let alignment = cx.measure.of(barrier.id);
        cx.orders.push(GateAction::TriggerCheckpoint { barrier, alignment });
    }
}

fn abort<const CHANNEL_WORDS: usize>(
    ids: CheckpointIds,
    reason: FailureReason,
    cx: &mut Cx<'_, '_, CHANNEL_WORDS>,
) {
    if !ids.is_empty() {
        cx.orders.push(GateAction::AbortCheckpoints { ids, reason });
    }
}

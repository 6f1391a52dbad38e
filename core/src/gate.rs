//! Barriers at the inputs of one subtask (Flink: `CheckpointBarrierHandler` and its kinds).
//!
//! | options | handler | rules |
//! |---|---|---|
//! | exactly-once | aligned: channels wait for each other, the last barrier triggers the snapshot | B6 to B17 |
//! | exactly-once, unaligned | alternating: begins aligned; a barrier that overtakes, or time, turns it unaligned, and then the first barrier triggers | B18 to B24 |
//! | at-least-once | tracker: no channel waits, the last barrier triggers | B27 to B31 |
//!
//! Exactly-once holds because nothing from behind a barrier is processed before the snapshot: either its channel is
//! blocked until then, or the barrier comes ahead of records that are *captured*, which means that they become part of
//! the checkpoint and are processed after the snapshot like any other.
//!
//! Where inputs cannot be blocked, a [`Stash`] keeps what comes from blocked channels. The work of each event is
//! bounded by the capacities.
//!
//! # Invariants
//! - GI1: open channels are channels of the gate.
//! - GI2: while a checkpoint is pending, its awaited and its blocked channels are open.
//! - GI3: no channel is awaited and blocked.
//! - GI4: while a checkpoint is pending, a channel is awaited.
//! - GI5: the pending checkpoint is the newest one seen.
//! - GI6: channels are blocked, announced or awaited, and there is a deadline, only while a checkpoint is pending.
//! - GI7: during plain alignment an open channel that is not awaited is blocked.
//! - GI8: an announced channel is awaited.
//! - GI9: only a gate that may turn unaligned has a deadline, and only until it turns.
//! - GI10: tracked checkpoints are in order of their ids, and the newest one seen is not older.
//! - GI11: a tracked checkpoint awaits a channel, and only open ones.

mod aligner;
mod event;
mod metrics;
mod stash;
mod tracker;

#[cfg(test)]
mod enumeration;
#[cfg(test)]
mod tests;

use heapless::VecView;

use aligner::Aligner;
pub use event::{ChannelSet, CheckpointIds, GateAction, GateEvent};
pub use metrics::AlignmentMetrics;
use metrics::Measure;
pub use stash::{Stash, StashFull};
use tracker::Tracker;

use crate::ids::{AlignmentOptions, Barrier, ChannelIndex, CheckpointId, Guarantee};
use crate::machine::{Admission, Orders, Rejected, first_broken};
use crate::time::{Millis, Now};

/// How a gate treats its channels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GateOptions {
    /// Whether channels wait for each other at all.
    pub guarantee: Guarantee,
    /// Whether barriers may overtake records.
    pub unaligned: bool,
    /// Whether a channel that ends counts as aligned (rule B14); if not, its end gives the pending checkpoint up.
    pub count_ended_channels: bool,
}

impl GateOptions {
    /// Exactly-once by aligning alone.
    pub const ALIGNED: Self =
        Self { guarantee: Guarantee::ExactlyOnce, unaligned: false, count_ended_channels: true };
    /// Exactly-once with barriers that may overtake.
    pub const UNALIGNED: Self = Self { unaligned: true, ..Self::ALIGNED };
    /// At-least-once.
    pub const AT_LEAST_ONCE: Self = Self { guarantee: Guarantee::AtLeastOnce, ..Self::ALIGNED };
}

/// How far the barriers of a checkpoint have come (rule B15).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BarrierProgress {
    /// The barrier has not come on every channel.
    Awaited,
    /// No barrier is awaited any more.
    Complete,
    /// The checkpoint was given up.
    GivenUp,
}

/// The inputs of a subtask: up to `32 * CHANNEL_WORDS` channels and, for at-least-once, up to `TRACKED` checkpoints
/// at once. Flink tracks 50; beyond the limit the oldest one is dropped in silence (rule B27).
#[derive(Clone, Debug)]
pub struct Gate<const CHANNEL_WORDS: usize, const TRACKED: usize = 8> {
    admission: Admission,
    options: GateOptions,
    channels: u16,
    open: ChannelSet<CHANNEL_WORDS>,
    measure: Measure,
    handler: Handler<CHANNEL_WORDS, TRACKED>,
}

#[derive(Clone, Debug)]
enum Handler<const CHANNEL_WORDS: usize, const TRACKED: usize> {
    ExactlyOnce(Aligner<CHANNEL_WORDS>),
    AtLeastOnce(Tracker<CHANNEL_WORDS, TRACKED>),
}

/// What both handlers need of the gate during one event.
struct Cx<'a, 'o, const CHANNEL_WORDS: usize> {
    now: Now,
    options: GateOptions,
    open: &'a ChannelSet<CHANNEL_WORDS>,
    measure: &'a mut Measure,
    orders: &'a mut Orders<'o, GateAction<CHANNEL_WORDS>>,
}

impl<const CHANNEL_WORDS: usize, const TRACKED: usize> Gate<CHANNEL_WORDS, TRACKED> {
    /// The most actions that one event gives.
    pub const ACTIONS_MAX: usize = 6;

    /// A gate over channels 0 to `channels - 1`, all open. A source has a gate of no channels, which is finished.
    ///
    /// # Errors
    /// [`Rejected::OutOfRange`] if so many channels do not fit; [`Rejected::Unexpected`] for at-least-once with
    /// unaligned.
    pub fn new(channels: u16, options: GateOptions) -> Result<Self, Rejected> {
        const { assert!(TRACKED > 0, "at-least-once has to track a checkpoint") };
        let GateOptions { guarantee, unaligned, .. } = options;
        AlignmentOptions { guarantee, unaligned, aligned_timeout: None }.validate()?;
        if usize::from(channels) > ChannelSet::<CHANNEL_WORDS>::CAPACITY {
            let limit = (ChannelSet::<CHANNEL_WORDS>::CAPACITY as u64).saturating_add(1);
            return Err(Rejected::OutOfRange { what: "number of channels", value: channels.into(), limit });
        }
        let handler = match guarantee {
            Guarantee::ExactlyOnce => Handler::ExactlyOnce(Aligner::default()),
            Guarantee::AtLeastOnce => Handler::AtLeastOnce(Tracker::default()),
        };
        let open = ChannelSet::first(channels.into());
        Ok(Self {
            admission: Admission::default(),
            options,
            channels,
            open,
            measure: Measure::default(),
            handler,
        })
    }

    /// Takes an event and writes what must be done into `out`, in order.
    ///
    /// # Errors
    /// [`Rejected`]; the gate is unchanged.
    pub fn on_event(
        &mut self,
        now: Now,
        event: GateEvent,
        out: &mut VecView<GateAction<CHANNEL_WORDS>>,
    ) -> Result<(), Rejected> {
        self.admission.admit(now, out, Self::ACTIONS_MAX)?;
        self.validate(event)?;
        let mut orders = Orders::new(out, Self::ACTIONS_MAX);
        self.step(now, event, &mut orders);
        self.admission.conclude(&orders, self.broken_invariant())
    }

    fn step(&mut self, now: Now, event: GateEvent, orders: &mut Orders<'_, GateAction<CHANNEL_WORDS>>) {
        if let GateEvent::EndOfPartition { channel } = event {
            self.open.remove(channel.0);
        }
        let (options, open, measure) = (self.options, &self.open, &mut self.measure);
        let mut cx = Cx { now, options, open, measure, orders };
        match &mut self.handler {
            Handler::ExactlyOnce(aligner) => aligner.on_event(event, &mut cx),
            Handler::AtLeastOnce(tracker) => tracker.on_event(event, &mut cx),
        }
    }

    /// Counts bytes of records that were taken from any channel; they matter during alignment (rules B4 and B34).
    pub const fn count_bytes(&mut self, bytes: u64) {
        self.measure.count_bytes(bytes);
    }

    /// When to send [`GateEvent::DeadlineReached`]: when the pending checkpoint may turn unaligned (rule B7).
    #[must_use]
    pub const fn next_deadline(&self, _now: Now) -> Option<Millis> {
        match &self.handler {
            Handler::ExactlyOnce(aligner) => aligner.deadline(),
            Handler::AtLeastOnce(_) => None,
        }
    }

    /// Whether nothing may be taken from `channel` now.
    #[must_use]
    pub fn is_blocked(&self, channel: ChannelIndex) -> bool {
        matches!(&self.handler, Handler::ExactlyOnce(aligner) if aligner.blocked().contains(channel.0))
    }

    /// The channels that have not ended.
    #[must_use]
    pub const fn open_channels(&self) -> ChannelSet<CHANNEL_WORDS> {
        self.open
    }

    /// The newest checkpoint seen, pending or over.
    #[must_use]
    pub const fn current(&self) -> Option<CheckpointId> {
        match &self.handler {
            Handler::ExactlyOnce(aligner) => aligner.current(),
            Handler::AtLeastOnce(tracker) => tracker.latest(),
        }
    }

    /// Whether a checkpoint is pending: a barrier of it is still awaited.
    #[must_use]
    pub fn is_aligning(&self) -> bool {
        match &self.handler {
            Handler::ExactlyOnce(aligner) => aligner.is_pending(),
            Handler::AtLeastOnce(tracker) => tracker.is_pending(),
        }
    }

    /// At-least-once: the newest checkpoint whose barrier has come on this channel while those of others are awaited. What
    /// comes from the channel now is from behind that barrier and before the snapshot. Records may be; the end of the
    /// data must not change what the snapshot says before it is taken.
    #[must_use]
    pub fn awaits_others(&self, channel: ChannelIndex) -> Option<CheckpointId> {
        match &self.handler {
            Handler::ExactlyOnce(_) => None,
            Handler::AtLeastOnce(tracker) => tracker.awaits_others(channel),
        }
    }

    /// How far the barriers of `id` have come; an unaligned snapshot waits for all of them (rules B15 and U9).
    ///
    /// # Errors
    /// [`Rejected::Unexpected`] if the gate has not seen `id`.
    pub fn progress(&self, id: CheckpointId) -> Result<BarrierProgress, Rejected> {
        match &self.handler {
            _ if self.open.is_empty() => Ok(BarrierProgress::Complete),
            Handler::AtLeastOnce(tracker) => Ok(tracker.progress(id)),
            Handler::ExactlyOnce(aligner) => aligner.progress(id),
        }
    }

    /// Whether every channel has ended.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.open.is_empty()
    }

    /// Asserts every invariant.
    ///
    /// # Panics
    /// If one does not hold.
    pub fn check(&self) {
        assert_eq!(self.broken_invariant(), None);
    }

    fn broken_invariant(&self) -> Option<&'static str> {
        first_broken(&[("GI1", self.open.is_subset(&ChannelSet::first(self.channels.into())))]).or_else(
            || match &self.handler {
                Handler::ExactlyOnce(aligner) => aligner.broken_invariant(&self.open, self.options),
                Handler::AtLeastOnce(tracker) => tracker.broken_invariant(&self.open),
            },
        )
    }

    /// Refuses channels that are not there, what comes from an ended channel, and barriers that the options exclude.
    fn validate(&self, event: GateEvent) -> Result<(), Rejected> {
        if let Some(channel) = event.channel() {
            self.validate_channel(channel, event)?;
        }
        match event {
            GateEvent::BarrierInjected(_) if self.open.is_empty() => {
                Err(Rejected::Unexpected { what: "every channel has ended: take the checkpoint directly" })
            }
            GateEvent::BarrierArrived { barrier, .. }
            | GateEvent::BarrierAnnounced { barrier, .. }
            | GateEvent::BarrierInjected(barrier) => self.validate_barrier(barrier),
            GateEvent::CancelArrived { .. }
            | GateEvent::EndOfPartition { .. }
            | GateEvent::DeadlineReached
            | GateEvent::StashOverflowed => Ok(()),
        }
    }

    /// A cancel marker and an announcement may be seen after the channel's end: they do not come in order.
    fn validate_channel(&self, channel: ChannelIndex, event: GateEvent) -> Result<(), Rejected> {
        if channel.0 >= self.channels {
            let (value, limit) = (channel.0.into(), self.channels.into());
            return Err(Rejected::OutOfRange { what: "channel", value, limit });
        }
        let is_in_order =
            matches!(event, GateEvent::BarrierArrived { .. } | GateEvent::EndOfPartition { .. });
        if is_in_order && !self.open.contains(channel.0) {
            return Err(Rejected::Unexpected { what: "the channel has ended already" });
        }
        Ok(())
    }

    fn validate_barrier(&self, barrier: Barrier) -> Result<(), Rejected> {
        let what = match &self.handler {
            // Rule U5.
            _ if barrier.kind.is_savepoint() && barrier.alignment.needs_channel_state() => {
                "a savepoint's barrier never overtakes"
            }
            // Rule B17.
            _ if barrier.alignment.is_unaligned() && !self.options.unaligned => {
                "the gate was not made for barriers that overtake"
            }
            // Rule U3.
            Handler::ExactlyOnce(aligner)
                if barrier.alignment.is_unaligned() && !aligner.can_overtake(barrier.id) =>
            {
                "this checkpoint may not overtake on another channel"
            }
            Handler::ExactlyOnce(_) | Handler::AtLeastOnce(_) => return Ok(()),
        };
        Err(Rejected::Unexpected { what })
    }
}

//! Barrier alignment at the inputs of one subtask (Flink: `SingleCheckpointBarrierHandler`).
//!
//! The first barrier of a checkpoint blocks its channel, the last one triggers the snapshot, and only then are the
//! channels released: nothing from behind a barrier is processed before the snapshot (rules B6 to B9). A newer
//! barrier, a cancel marker or, as an option, the end of a channel gives the checkpoint up (rules B11 to B14). The
//! work of each event is bounded by `CHANNEL_WORDS`.
//!
//! # Invariants
//! - GI1: open channels are channels of the gate.
//! - GI2: during alignment the open channels are those awaited and those blocked.
//! - GI3: no channel is awaited and blocked.
//! - GI4: during alignment a channel is awaited.
//! - GI5: the checkpoint being aligned is the newest one seen.

#[cfg(test)]
mod enumeration;
mod steps;
#[cfg(test)]
mod tests;

use heapless::VecView;

use crate::bit_set::BitSet;
use crate::ids::{Barrier, ChannelIndex, CheckpointId};
use crate::machine::{Admission, Orders, Rejected, first_broken};
use crate::reason::FailureReason;
use crate::time::{Millis, Now};

/// The channels of a gate.
pub type ChannelSet<const CHANNEL_WORDS: usize> = BitSet<CHANNEL_WORDS>;

/// What happened at the inputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GateEvent {
    /// A barrier was taken from a channel.
    BarrierArrived {
        /// The channel.
        channel: ChannelIndex,
        /// The barrier.
        barrier: Barrier,
    },
    /// A cancel marker was taken from a channel.
    CancelArrived {
        /// The channel.
        channel: ChannelIndex,
        /// The checkpoint that was given up upstream.
        checkpoint: CheckpointId,
    },
    /// A channel has ended: nothing follows on it.
    EndOfPartition {
        /// The channel.
        channel: ChannelIndex,
    },
}

/// What the subtask must do, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GateAction<const CHANNEL_WORDS: usize> {
    /// Take nothing more from this channel; it may be blocked already.
    Block(ChannelIndex),
    /// Take from these channels again. A channel whose barrier came too late is among them even if it was not
    /// ordered to block, for callers that stop behind every barrier by themselves.
    Resume(ChannelSet<CHANNEL_WORDS>),
    /// Snapshot now, before anything else is taken from any channel.
    TriggerCheckpoint {
        /// The barrier to pass on.
        barrier: Barrier,
        /// Measured while aligning.
        alignment: AlignmentMetrics,
    },
    /// This checkpoint is over for this subtask.
    AbortCheckpoint {
        /// The checkpoint.
        id: CheckpointId,
        /// Why.
        reason: FailureReason,
    },
}

/// What alignment cost (rules B32 and B33).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AlignmentMetrics {
    /// From the first to the last barrier.
    pub duration: Millis,
    /// From the trigger to the first barrier, by the wall clock.
    pub start_delay: Millis,
}

/// How a gate treats its channels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GateOptions {
    /// Whether a channel that ends counts as aligned (rule B14); if not, its end aborts the alignment.
    pub count_ended_channels: bool,
}

/// The aligned handler over up to `32 * CHANNEL_WORDS` channels.
#[derive(Clone, Debug)]
pub struct Gate<const CHANNEL_WORDS: usize> {
    admission: Admission,
    options: GateOptions,
    channels: u16,
    open: ChannelSet<CHANNEL_WORDS>,
    /// The newest checkpoint seen; without an alignment it is over, and so are all older ones (rule B3).
    current: Option<CheckpointId>,
    state: State<CHANNEL_WORDS>,
}

#[derive(Clone, Copy, Debug)]
enum State<const CHANNEL_WORDS: usize> {
    AwaitingBarrier,
    Aligning(Alignment<CHANNEL_WORDS>),
}

/// A checkpoint whose barrier has come on some channels, but not on all.
#[derive(Clone, Copy, Debug)]
struct Alignment<const CHANNEL_WORDS: usize> {
    barrier: Barrier,
    awaited: ChannelSet<CHANNEL_WORDS>,
    blocked: ChannelSet<CHANNEL_WORDS>,
    started_at: Millis,
    start_delay: Millis,
}

impl<const CHANNEL_WORDS: usize> Gate<CHANNEL_WORDS> {
    /// The most actions that one event gives.
    pub const ACTIONS_MAX: usize = 5;

    /// A gate over channels 0 to `channels - 1`, all open.
    ///
    /// # Errors
    /// [`Rejected::OutOfRange`] if so many channels do not fit.
    pub fn new(channels: u16, options: GateOptions) -> Result<Self, Rejected> {
        if usize::from(channels) > ChannelSet::<CHANNEL_WORDS>::CAPACITY {
            let limit = (ChannelSet::<CHANNEL_WORDS>::CAPACITY as u64).saturating_add(1);
            return Err(Rejected::OutOfRange { what: "number of channels", value: channels.into(), limit });
        }
        Ok(Self {
            admission: Admission::default(),
            options,
            channels,
            open: ChannelSet::first(channels.into()),
            current: None,
            state: State::AwaitingBarrier,
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
        match (self.state, event) {
            (_, GateEvent::BarrierArrived { channel, barrier }) if self.is_over(barrier.id) => {
                Self::over_on_barrier(channel, orders);
            }
            (State::AwaitingBarrier, GateEvent::BarrierArrived { channel, barrier }) => {
                self.awaiting_barrier_on_barrier(now, channel, barrier, orders);
            }
            (State::Aligning(old), GateEvent::BarrierArrived { channel, barrier })
                if old.barrier.id < barrier.id =>
            {
                self.aligning_on_newer_barrier(now, channel, barrier, orders);
            }
            (State::Aligning(alignment), GateEvent::BarrierArrived { channel, .. }) => {
                self.aligning_on_barrier(now, channel, alignment, orders);
            }
            (_, GateEvent::CancelArrived { checkpoint, .. }) if self.is_over(checkpoint) => {}
            (_, GateEvent::CancelArrived { checkpoint, .. }) => {
                self.abort(checkpoint, FailureReason::CheckpointDeclinedOnCancellationBarrier, orders);
            }
            (State::AwaitingBarrier, GateEvent::EndOfPartition { channel }) => {
                self.open.remove(channel.0);
            }
            (State::Aligning(alignment), GateEvent::EndOfPartition { channel }) => {
                self.aligning_on_end_of_partition(now, channel, alignment, orders);
            }
        }
    }

    /// An aligned gate waits for barriers only, never for a time.
    #[must_use]
    pub const fn next_deadline(&self, _now: Now) -> Option<Millis> {
        None
    }

    /// Whether nothing may be taken from `channel` now.
    #[must_use]
    pub fn is_blocked(&self, channel: ChannelIndex) -> bool {
        matches!(self.state, State::Aligning(alignment) if alignment.blocked.contains(channel.0))
    }

    /// The channels that have not ended.
    #[must_use]
    pub const fn open_channels(&self) -> ChannelSet<CHANNEL_WORDS> {
        self.open
    }

    /// The newest checkpoint seen, pending or over.
    #[must_use]
    pub const fn current(&self) -> Option<CheckpointId> {
        self.current
    }

    /// Whether a barrier of [`current`](Self::current) is still awaited (rule B15).
    #[must_use]
    pub const fn is_aligning(&self) -> bool {
        matches!(self.state, State::Aligning(_))
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
            || {
                let State::Aligning(alignment) = self.state else { return None };
                first_broken(&[
                    ("GI2", alignment.awaited.union(&alignment.blocked) == self.open),
                    ("GI3", alignment.awaited.is_disjoint(&alignment.blocked)),
                    ("GI4", !alignment.awaited.is_empty()),
                    ("GI5", Some(alignment.barrier.id) == self.current),
                ])
            },
        )
    }
}

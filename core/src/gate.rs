//! Barrier alignment at the inputs of one subtask (Flink: `SingleCheckpointBarrierHandler`).

use heapless::VecView;

use crate::bit_set::BitSet;
use crate::ids::{Barrier, ChannelIndex, CheckpointId};
use crate::machine::{Admission, Rejected};
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
    /// Take nothing more from this channel.
    Block(ChannelIndex),
    /// Take from these channels again.
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
#[derive(Debug)]
pub struct Gate<const CHANNEL_WORDS: usize> {
    admission: Admission,
    options: GateOptions,
    channels: u16,
    open: ChannelSet<CHANNEL_WORDS>,
    current: Option<CheckpointId>,
    blocked: ChannelSet<CHANNEL_WORDS>,
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
            return Err(Rejected::OutOfRange {
                what: "number of channels",
                value: u64::from(channels),
                limit: (ChannelSet::<CHANNEL_WORDS>::CAPACITY as u64).saturating_add(1),
            });
        }
        let open = ChannelSet::first(usize::from(channels));
        let blocked = ChannelSet::empty();
        Ok(Self { admission: Admission::default(), options, channels, open, current: None, blocked })
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
        let _ = (event, self.options, self.channels);
        Ok(())
    }

    /// An aligned gate waits for barriers only, never for a time.
    #[must_use]
    pub const fn next_deadline(&self, _now: Now) -> Option<Millis> {
        None
    }

    /// Whether nothing may be taken from `channel` now.
    #[must_use]
    pub fn is_blocked(&self, channel: ChannelIndex) -> bool {
        self.blocked.contains(channel.0)
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

    /// Whether every channel has ended.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.open.is_empty()
    }

    /// Asserts every invariant.
    pub fn check(&self) {
        assert!(self.blocked.is_subset(&self.open), "GI1");
    }
}

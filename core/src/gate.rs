//! Barrier alignment at the inputs of one subtask (Flink: `SingleCheckpointBarrierHandler`).

use crate::bit_set::BitSet;
use crate::ids::{Barrier, ChannelIndex, CheckpointId};
use crate::reason::FailureReason;
use crate::time::Millis;

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

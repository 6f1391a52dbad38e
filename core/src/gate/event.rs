//! What a gate is told and what it orders.

use super::AlignmentMetrics;
use crate::bit_set::BitSet;
use crate::ids::{Barrier, ChannelIndex, CheckpointId};
use crate::reason::FailureReason;

/// The channels of a gate.
pub type ChannelSet<const CHANNEL_WORDS: usize> = BitSet<CHANNEL_WORDS>;

/// What happened at the inputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GateEvent {
    /// A barrier was taken from a channel: in its place, or, if its form is unaligned, ahead of the records that lie
    /// before it. One that overtakes must be reported before anything from behind it is taken.
    BarrierArrived {
        /// The channel.
        channel: ChannelIndex,
        /// The barrier.
        barrier: Barrier,
    },
    /// A barrier that could overtake lies further back in a channel (rule B10).
    BarrierAnnounced {
        /// The channel.
        channel: ChannelIndex,
        /// The barrier.
        barrier: Barrier,
    },
    /// The coordinator triggers a subtask whose predecessors have finished: the barrier counts as arrived on every
    /// open channel, without blocking any (rules B26 and X3).
    BarrierInjected(Barrier),
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
    /// Time has passed; send it when `next_deadline` is reached (rule B16).
    DeadlineReached,
    /// What came from blocked channels no longer fits into the stash (rule L7).
    StashOverflowed,
}

impl GateEvent {
    pub(super) const fn channel(self) -> Option<ChannelIndex> {
        match self {
            Self::BarrierArrived { channel, .. }
            | Self::BarrierAnnounced { channel, .. }
            | Self::CancelArrived { channel, .. }
            | Self::EndOfPartition { channel } => Some(channel),
            Self::BarrierInjected(_) | Self::DeadlineReached | Self::StashOverflowed => None,
        }
    }
}

/// What the subtask must do, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GateAction<const CHANNEL_WORDS: usize> {
    /// Take nothing more from this channel; it may be blocked already.
    Block(ChannelIndex),
    /// Take from these channels again. A channel whose barrier came too late is among them even if it was not
    /// ordered to block, for callers that stop behind every barrier by themselves.
    Resume(ChannelSet<CHANNEL_WORDS>),
    /// Take the announced barrier of these channels out of its place and report it as arrived, unaligned. When its
    /// place is reached later there is nothing to report.
    Overtake {
        /// The checkpoint.
        id: CheckpointId,
        /// The channels.
        channels: ChannelSet<CHANNEL_WORDS>,
    },
    /// From now on the records of these channels that lie before the barrier are part of the checkpoint, those that
    /// wait already included. They are processed as ever.
    StartCapture {
        /// The checkpoint.
        id: CheckpointId,
        /// The channels whose barrier has not come in its place.
        channels: ChannelSet<CHANNEL_WORDS>,
    },
    /// Snapshot now, before anything else is taken from any channel.
    TriggerCheckpoint {
        /// The barrier to pass on.
        barrier: Barrier,
        /// Measured so far; of an unaligned checkpoint `StopCapture` brings the rest.
        alignment: AlignmentMetrics,
    },
    /// Every barrier is in: what was captured is whole.
    StopCapture {
        /// The checkpoint.
        id: CheckpointId,
        /// Measured from the first to the last barrier.
        alignment: AlignmentMetrics,
    },
    /// Let go of what was captured: the checkpoint was triggered here, but will not be whole.
    DropCapture(CheckpointId),
    /// This checkpoint is over for this subtask.
    AbortCheckpoint {
        /// The checkpoint.
        id: CheckpointId,
        /// Why.
        reason: FailureReason,
    },
    /// Several checkpoints are over for this subtask, all for the same reason (at-least-once only).
    AbortCheckpoints {
        /// The checkpoints.
        ids: CheckpointIds,
        /// Why.
        reason: FailureReason,
    },
}

/// Some checkpoints, none of them 64 or more behind the newest.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct CheckpointIds {
    newest: CheckpointId,
    /// Bit `n` stands for the checkpoint `newest - n`.
    behind: u64,
}

impl CheckpointIds {
    /// No checkpoint; the newest one that may be added is `newest`.
    pub(super) const fn up_to(newest: CheckpointId) -> Self {
        Self { newest, behind: 0 }
    }

    /// Adds `id` unless it is too far behind the newest.
    pub(super) fn insert(&mut self, id: CheckpointId) {
        let behind = self.newest.0.checked_sub(id.0).and_then(|behind| u32::try_from(behind).ok());
        self.behind |= behind.and_then(|behind| 1u64.checked_shl(behind)).unwrap_or(0);
    }

    /// Whether there is none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.behind == 0
    }

    /// The checkpoints, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = CheckpointId> + '_ {
        (0..u64::from(u64::BITS))
            .rev()
            .filter(|behind| self.behind >> behind & 1 != 0)
            .map(|behind| CheckpointId(self.newest.0.saturating_sub(behind)))
    }
}

impl core::fmt::Debug for CheckpointIds {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

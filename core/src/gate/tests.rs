//! Rules and worked sequences of both handlers, and the public bugs that struck them.

mod aligned;
mod alternating;
mod bugs;
mod invariants;
mod metrics;
mod stash;
mod tracker;

use std::vec::Vec;

use super::{AlignmentMetrics, BarrierProgress, ChannelSet, Gate, GateAction, GateEvent, GateOptions};
use crate::ids::{Alignment, Barrier, ChannelIndex, CheckpointId, SnapshotKind};
use crate::machine::Rejected;
use crate::reason::FailureReason;
use crate::time::{Millis, Now};

use GateEvent::{
    BarrierAnnounced, BarrierArrived, BarrierInjected, CancelArrived, DeadlineReached, EndOfPartition,
    StashOverflowed,
};

const A: ChannelIndex = ChannelIndex(0);
const B: ChannelIndex = ChannelIndex(1);
const C: ChannelIndex = ChannelIndex(2);

/// Wall-clock time of every trigger; the bench starts a second later.
const TRIGGERED_AT: Millis = Millis(49_000);
/// Time-out of the barriers that have one: at 2,100 of the monotonic clock they are as old as that.
const TIMEOUT: Millis = Millis(2_100);

/// An action without what most tests do not ask about.
#[derive(Debug, PartialEq, Eq)]
enum Did {
    Block(u16),
    Resume(Vec<u16>),
    Trigger(u64),
    /// The barrier passed on is unaligned.
    TriggerUnaligned(u64),
    Abort(u64, FailureReason),
    Aborts(Vec<u64>, FailureReason),
    Overtake(u64, Vec<u16>),
    Start(u64, Vec<u16>),
    Stop(u64),
    Drop(u64),
}

use Did::{Abort, Aborts, Block, Drop, Overtake, Resume, Start, Stop, Trigger, TriggerUnaligned};
use FailureReason::{
    CheckpointDeclinedAlignmentLimitExceeded as Overflowed, CheckpointDeclinedInputEndOfStream as Ended,
    CheckpointDeclinedOnCancellationBarrier as Cancelled, CheckpointDeclinedSubsumed as Subsumed,
};

impl Did {
    fn from(action: &GateAction<1>) -> Self {
        let list = |channels: &ChannelSet<1>| channels.iter().collect();
        match action {
            GateAction::Block(channel) => Block(channel.0),
            GateAction::Resume(channels) => Resume(list(channels)),
            GateAction::TriggerCheckpoint { barrier, .. } if barrier.alignment.is_unaligned() => {
                TriggerUnaligned(barrier.id.0)
            }
            GateAction::TriggerCheckpoint { barrier, .. } => Trigger(barrier.id.0),
            GateAction::AbortCheckpoint { id, reason } => Abort(id.0, *reason),
            GateAction::AbortCheckpoints { ids, reason } => {
                Aborts(ids.iter().map(|id| id.0).collect(), *reason)
            }
            GateAction::Overtake { id, channels } => Overtake(id.0, list(channels)),
            GateAction::StartCapture { id, channels } => Start(id.0, list(channels)),
            GateAction::StopCapture { id, .. } => Stop(id.0),
            GateAction::DropCapture(id) => Drop(id.0),
        }
    }
}

struct Bench<const TRACKED: usize = 8> {
    gate: Gate<1, TRACKED>,
    now: Now,
    /// What the last trigger and the last end of a capture brought.
    measured: Option<AlignmentMetrics>,
}

impl Bench {
    /// Aligned.
    fn new(channels: u16, count_ended_channels: bool) -> Self {
        Self::with(channels, GateOptions { count_ended_channels, ..GateOptions::ALIGNED })
    }

    fn alternating(channels: u16) -> Self {
        Self::with(channels, GateOptions::UNALIGNED)
    }

    fn tracker(channels: u16) -> Self {
        Self::with(channels, GateOptions::AT_LEAST_ONCE)
    }
}

impl<const TRACKED: usize> Bench<TRACKED> {
    fn with(channels: u16, options: GateOptions) -> Self {
        let gate = Gate::new(channels, options).unwrap();
        Self { gate, now: Now { monotonic: Millis(1_000), wall: Millis(50_000) }, measured: None }
    }

    /// Sets both clocks, which go together.
    fn at(&mut self, monotonic: u64) -> &mut Self {
        self.now = Now { monotonic: Millis(monotonic), wall: Millis(49_000 + monotonic) };
        self
    }

    fn actions(&mut self, event: GateEvent) -> Result<Vec<GateAction<1>>, Rejected> {
        let mut out = heapless::Vec::<_, { Gate::<1>::ACTIONS_MAX }>::new();
        self.gate.on_event(self.now, event, &mut out)?;
        self.gate.check();
        Ok(out.into_iter().collect())
    }

    fn send(&mut self, event: GateEvent) -> Vec<Did> {
        let actions = self.actions(event).unwrap();
        for action in &actions {
            if let GateAction::TriggerCheckpoint { alignment, .. }
            | GateAction::StopCapture { alignment, .. } = action
            {
                self.measured = Some(*alignment);
            }
        }
        actions.iter().map(Did::from).collect()
    }

    /// An aligned barrier.
    fn bar(&mut self, channel: ChannelIndex, id: u64) -> Vec<Did> {
        self.send(BarrierArrived { channel, barrier: barrier(id) })
    }

    /// A barrier that may overtake after `TIMEOUT`, in its place.
    fn tbar(&mut self, channel: ChannelIndex, id: u64) -> Vec<Did> {
        self.send(BarrierArrived { channel, barrier: timed(id) })
    }

    /// A barrier that has overtaken.
    fn ubar(&mut self, channel: ChannelIndex, id: u64) -> Vec<Did> {
        self.send(BarrierArrived { channel, barrier: unaligned(id) })
    }

    /// The announcement of a barrier that may overtake after `TIMEOUT`.
    fn ann(&mut self, channel: ChannelIndex, id: u64) -> Vec<Did> {
        self.send(BarrierAnnounced { channel, barrier: timed(id) })
    }

    fn cancel(&mut self, channel: ChannelIndex, id: u64) -> Vec<Did> {
        self.send(CancelArrived { channel, checkpoint: CheckpointId(id) })
    }

    fn eop(&mut self, channel: ChannelIndex) -> Vec<Did> {
        self.send(EndOfPartition { channel })
    }

    fn progress(&self, id: u64) -> Option<BarrierProgress> {
        self.gate.progress(CheckpointId(id)).ok()
    }

    fn deadline(&self) -> Option<u64> {
        self.gate.next_deadline(self.now).map(|deadline| deadline.0)
    }
}

fn formed(id: u64, alignment: Alignment) -> Barrier {
    Barrier { id: CheckpointId(id), triggered_at: TRIGGERED_AT, kind: SnapshotKind::Checkpoint, alignment }
}

fn barrier(id: u64) -> Barrier {
    formed(id, Alignment::Aligned)
}

fn timed(id: u64) -> Barrier {
    formed(id, Alignment::AlignedFor(TIMEOUT))
}

fn unaligned(id: u64) -> Barrier {
    formed(id, Alignment::Unaligned)
}

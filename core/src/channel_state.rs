//! What is in flight at the inputs of one subtask when a barrier overtakes it, and what becomes of it (Flink:
//! `ChannelStatePersister`, `ChannelStateWriterImpl`).
//!
//! Capture happens on the receiving side only. The channel is one queue, so what a barrier has overtaken is what lies
//! between the subtask and the barrier's place in it. When the gate takes a checkpoint without having seen every
//! barrier, the capture is [`Started`](ChannelStateEvent::Started); from then on whatever is taken from a channel is
//! written first, until the channel's barrier is seen. Each item is written once: a channel remembers up to where it is
//! captured. The work of an event is bounded by `CHANNELS`.
//!
//! The machine knows places only, not items, so three things are the caller's:
//! - of the items in a place to capture it writes records and skips marks (rule U13), and of the item in work it
//!   writes what has not been processed (rule U8);
//! - while [`is_capturing`](ChannelState::is_capturing) it reports the queue before it takes anything from it;
//! - it reads the end of the queue first and the control lane then ([`Consumer::look`]), and reports barriers before
//!   the queue: otherwise it could write what lies behind a barrier that it has not noticed. A barrier in the queue
//!   that the sender does not announce it looks for itself, and reports as if it were announced.
//!
//! [`Consumer::look`]: crate::queue::Consumer::look
//!
//! # Invariants
//! - FI1: a channel is pending only for the checkpoint being captured.
//! - FI2: nothing is captured while channels are replayed.
//! - FI3: the results that wait to be taken are of different checkpoints, and none is of the one being captured.
//! - FI4: while something is captured there is room for one more result.
//! - FI5: what is captured is newer than every checkpoint that is over.

mod channel;
#[cfg(test)]
mod enumeration;
mod recovery;
mod shared_file;
mod steps;
#[cfg(test)]
mod tests;

use heapless::VecView;

use crate::ids::{ChannelIndex, CheckpointId};
use crate::machine::{Admission, Orders, Rejected, first_broken};
use crate::queue::Position;
use crate::reason::FailureReason;
use crate::recent_ids::RecentIds;
use crate::time::{Millis, Now};

use channel::Channel;
pub use channel::ChannelStatus;
pub use recovery::restores_in_flight;
pub use shared_file::SharedFile;

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChannelStateEvent {
    /// The gate takes a checkpoint now ([`GateAction::StartCapture`](crate::gate::GateAction::StartCapture)); records
    /// before barriers that are still to come belong to it.
    Started(CheckpointId),
    /// What waits in a channel.
    QueueSeen {
        /// The channel.
        channel: ChannelIndex,
        /// Place of the oldest item that is not processed, or not to its end.
        first: Position,
        /// Place behind the newest item.
        end: Position,
    },
    /// The control lane says where in a channel a barrier lies.
    BarrierAnnounced {
        /// The channel.
        channel: ChannelIndex,
        /// Its checkpoint.
        id: CheckpointId,
        /// Its place.
        at: Position,
    },
    /// A barrier was taken from a channel, or has overtaken what lies before its place.
    BarrierSeen {
        /// The channel.
        channel: ChannelIndex,
        /// Its checkpoint.
        id: CheckpointId,
        /// Its place.
        at: Position,
    },
    /// The gate has every barrier of a checkpoint ([`GateAction::StopCapture`](crate::gate::GateAction::StopCapture)).
    Stopped(CheckpointId),
    /// A checkpoint was given up by the coordinator, or by the gate
    /// ([`GateAction::DropCapture`](crate::gate::GateAction::DropCapture)).
    Aborted(CheckpointId),
    /// What was captured could not be written.
    WriteFailed {
        /// The checkpoint.
        id: CheckpointId,
        /// Whose fault it is.
        failure: WriteFailure,
    },
    /// The subtask has taken over what was captured.
    ResultTaken(CheckpointId),
    /// A part of what is replayed on a channel has been replayed to its end.
    Replayed(ChannelIndex),
}

/// Why captured records could not be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteFailure {
    /// Writing those of this subtask failed.
    Own(FailureReason),
    /// Another subtask that writes to the same file has failed, and the file with it (rule U16).
    SharedFile,
}

/// What the subtask must do, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChannelStateAction {
    /// Report the queue of every channel, before anything is taken from any.
    ReportQueues(CheckpointId),
    /// Write the records from one place, included, to another, excluded. They are still processed.
    Capture {
        /// The checkpoint that they belong to.
        id: CheckpointId,
        /// The channel.
        channel: ChannelIndex,
        /// Place of the first.
        from: Position,
        /// Place behind the last.
        until: Position,
    },
    /// Everything is captured: make it part of the checkpoint and report `ResultTaken`.
    Finish(CheckpointId),
    /// Let go of what was captured.
    Discard(CheckpointId),
    /// This subtask cannot take part in the checkpoint any more: to its own machine it is an alignment that was
    /// aborted. The gate may go on with it.
    Decline {
        /// The checkpoint.
        id: CheckpointId,
        /// Why.
        reason: FailureReason,
    },
    /// Everything is replayed: the subtask may run and read new input.
    Run,
}

/// How far the capture of a checkpoint is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CaptureOutcome {
    /// Barriers are still to come.
    Capturing,
    /// Everything is captured.
    Finished,
    /// There is nothing and never will be: it has failed, was taken already, or was never begun.
    Failed,
}

/// The records in flight of a subtask with up to `CHANNELS` inputs.
///
/// Up to `RESULTS` captures may live at a time, counted from their start until they are taken or discarded.
#[derive(Clone, Debug)]
pub struct ChannelState<const CHANNELS: usize, const RESULTS: usize> {
    admission: Admission,
    channels: heapless::Vec<Channel, CHANNELS>,
    capturing: Option<CheckpointId>,
    /// Whether a newer barrier came on a channel whose part of the capture was not whole.
    is_cut_short: bool,
    /// Captured, but not taken yet.
    finished: heapless::Vec<CheckpointId, RESULTS>,
    /// The newest checkpoint that was stopped; with it all older ones are over.
    over: Option<CheckpointId>,
    aborted: RecentIds,
}

impl<const CHANNELS: usize, const RESULTS: usize> ChannelState<CHANNELS, RESULTS> {
    /// The most actions that one event gives.
    pub const ACTIONS_MAX: usize = 3;

    /// For channels 0 to `channels - 1`, with nothing to replay.
    ///
    /// # Errors
    /// [`Rejected::OutOfRange`] if so many channels do not fit.
    pub fn new(channels: u16) -> Result<Self, Rejected> {
        Self::with((0..channels).map(|_| Channel::default()), channels.into())
    }

    /// After a restore: `parts` says for each channel how many parts are replayed on it, one for each old channel
    /// that it stands for (rules U17 and U25). If that is none at all, the subtask may run at once.
    ///
    /// # Errors
    /// [`Rejected::OutOfRange`] if so many channels do not fit.
    pub fn recovering(parts: &[u16]) -> Result<Self, Rejected> {
        Self::with(parts.iter().map(|parts| Channel::replaying(*parts)), parts.len())
    }

    fn with(channels: impl Iterator<Item = Channel>, count: usize) -> Result<Self, Rejected> {
        if count > CHANNELS {
            let (value, limit) = (count as u64, (CHANNELS as u64).saturating_add(1));
            return Err(Rejected::OutOfRange { what: "number of channels", value, limit });
        }
        Ok(Self {
            admission: Admission::default(),
            channels: channels.collect(),
            capturing: None,
            is_cut_short: false,
            finished: heapless::Vec::new(),
            over: None,
            aborted: RecentIds::default(),
        })
    }

    /// Takes an event and writes what must be done into `out`, in order.
    ///
    /// # Errors
    /// [`Rejected`]; the machine is unchanged.
    pub fn on_event(
        &mut self,
        now: Now,
        event: ChannelStateEvent,
        out: &mut VecView<ChannelStateAction>,
    ) -> Result<(), Rejected> {
        self.admission.admit(now, out, Self::ACTIONS_MAX)?;
        let mut orders = Orders::new(out, Self::ACTIONS_MAX);
        self.step(event, &mut orders)?;
        self.admission.conclude(&orders, self.broken_invariant())
    }

    fn step(
        &mut self,
        event: ChannelStateEvent,
        orders: &mut Orders<'_, ChannelStateAction>,
    ) -> Result<(), Rejected> {
        match event {
            ChannelStateEvent::Started(id) => return self.on_started(id, orders),
            ChannelStateEvent::QueueSeen { channel, first, end } => {
                let extent = self.channel_mut(channel)?.queue_seen(first, end)?;
                self.capture(channel, extent, orders);
            }
            ChannelStateEvent::BarrierAnnounced { channel, id, at } => {
                let extent = self.channel_mut(channel)?.barrier_announced(id, at)?;
                self.capture(channel, extent, orders);
            }
            ChannelStateEvent::BarrierSeen { channel, id, at } => {
                let seen = self.channel_mut(channel)?;
                let cuts = seen.wants_queue() && id > seen.last_seen();
                let extent = seen.barrier_seen(id, at)?;
                self.is_cut_short |= cuts;
                self.capture(channel, extent, orders);
            }
            ChannelStateEvent::Stopped(id) => return self.on_stopped(id, orders),
            ChannelStateEvent::Aborted(id) => self.on_aborted(id, orders),
            ChannelStateEvent::WriteFailed { id, failure } => self.on_write_failed(id, failure, orders),
            ChannelStateEvent::ResultTaken(id) => return self.on_result_taken(id),
            ChannelStateEvent::Replayed(channel) => return self.on_replayed(channel, orders),
        }
        Ok(())
    }

    /// Capture follows the gate and has no time of its own.
    #[must_use]
    pub const fn next_deadline(&self, _now: Now) -> Option<Millis> {
        None
    }

    /// Whether the queue of `channel` has to be reported before anything is taken from it.
    #[must_use]
    pub fn is_capturing(&self, channel: ChannelIndex) -> bool {
        self.channel(channel).is_some_and(Channel::wants_queue)
    }

    /// Whether new input has to wait because recovered records come first (rule U17).
    #[must_use]
    pub fn is_replaying(&self) -> bool {
        self.channels.iter().any(Channel::is_replaying)
    }

    /// What Flink would say of `channel`; none if there is no such channel.
    #[must_use]
    pub fn status(&self, channel: ChannelIndex) -> Option<ChannelStatus> {
        self.channel(channel).map(Channel::status)
    }

    /// How far the capture of `id` is. Answers at once for a checkpoint that was aborted before it began (rule U9).
    #[must_use]
    pub fn outcome(&self, id: CheckpointId) -> CaptureOutcome {
        if self.capturing == Some(id) {
            CaptureOutcome::Capturing
        } else if self.finished.contains(&id) {
            CaptureOutcome::Finished
        } else {
            CaptureOutcome::Failed
        }
    }

    /// Asserts every invariant.
    ///
    /// # Panics
    /// If one does not hold.
    pub fn check(&self) {
        assert_eq!(self.broken_invariant(), None);
    }

    fn broken_invariant(&self) -> Option<&'static str> {
        let pending = |channel: &&Channel| channel.status() == ChannelStatus::Pending;
        let of_capture = |channel: &Channel| Some(channel.last_seen()) == self.capturing;
        let times = |id| self.finished.iter().filter(|finished| **finished == id).count();
        first_broken(&[
            ("FI1", self.channels.iter().filter(pending).all(of_capture)),
            ("FI2", self.capturing.is_none() || !self.is_replaying()),
            ("FI3", self.finished.iter().all(|id| times(*id) == 1 && self.capturing != Some(*id))),
            ("FI4", self.capturing.is_none() || !self.finished.is_full()),
            ("FI5", self.capturing.is_none() || self.capturing > self.over),
        ])
    }

    fn channel(&self, channel: ChannelIndex) -> Option<&Channel> {
        self.channels.get(usize::from(channel.0))
    }

    fn channel_mut(&mut self, channel: ChannelIndex) -> Result<&mut Channel, Rejected> {
        let limit = self.channels.len() as u64;
        let found = self.channels.get_mut(usize::from(channel.0));
        found.ok_or_else(|| Rejected::OutOfRange { what: "channel", value: channel.0.into(), limit })
    }
}

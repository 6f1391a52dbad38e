use crate::ids::CheckpointId;
use crate::machine::Rejected;
use crate::queue::Position;
use crate::sync::is_mutant;

/// How a channel stands towards the newest checkpoint it knows of (rule U6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChannelStatus {
    /// Nothing of it is captured.
    Completed,
    /// What it delivers is captured until its barrier is seen.
    Pending,
    /// Its barrier was seen.
    Received,
}

/// Places from `from`, included, to `until`, excluded.
#[derive(Clone, Copy, Debug)]
pub(super) struct Extent {
    pub(super) from: Position,
    pub(super) until: Position,
}

impl Extent {
    /// None if nothing lies in it.
    fn new(from: Position, until: Position) -> Option<Self> {
        from.is_before(until).then_some(Self { from, until })
    }
}

/// One input channel. Ids of zero stand for none: the first checkpoint is 1.
#[derive(Clone, Copy, Debug)]
pub(super) struct Channel {
    last_seen: CheckpointId,
    /// The newest barrier that is known to lie in the queue, and its place; of no account once it was seen.
    announced: CheckpointId,
    announced_at: Position,
    progress: Progress,
}

#[derive(Clone, Copy, Debug)]
enum Progress {
    /// Recovered records come before anything else.
    Replaying { parts: u16 },
    /// Completed.
    Idle,
    /// Pending; the queue has not been reported since the start.
    Started,
    /// Pending; what lies before this place is captured, what follows will be.
    Capturing { captured: Position },
    /// Pending; the barrier is known to lie in the queue, and everything before it is captured.
    Covered,
    /// Received before the capture was started.
    Seen { at: Position },
    /// Received; the queue has not been reported since the start.
    SeenAndStarted { at: Position },
    /// Received; everything before the barrier is captured.
    Done,
}

impl Default for Channel {
    fn default() -> Self {
        Self::replaying(0)
    }
}

impl Channel {
    pub(super) const fn replaying(parts: u16) -> Self {
        let progress = if parts == 0 { Progress::Idle } else { Progress::Replaying { parts } };
        let none = CheckpointId(0);
        Self { last_seen: none, announced: none, announced_at: Position(0), progress }
    }

    pub(super) const fn last_seen(&self) -> CheckpointId {
        self.last_seen
    }

    pub(super) const fn is_replaying(&self) -> bool {
        matches!(self.progress, Progress::Replaying { .. })
    }

    pub(super) const fn status(&self) -> ChannelStatus {
        match self.progress {
            Progress::Replaying { .. } | Progress::Idle => ChannelStatus::Completed,
            Progress::Started | Progress::Capturing { .. } | Progress::Covered => ChannelStatus::Pending,
            Progress::Seen { .. } | Progress::SeenAndStarted { .. } | Progress::Done => {
                ChannelStatus::Received
            }
        }
    }

    pub(super) const fn wants_queue(&self) -> bool {
        self.is_unreported() || matches!(self.progress, Progress::Capturing { .. })
    }

    /// Whether the queue must be reported before the capture can be complete.
    pub(super) const fn is_unreported(&self) -> bool {
        matches!(self.progress, Progress::Started | Progress::SeenAndStarted { .. })
    }

    /// Whether `id` cannot be captured any more: a newer barrier was seen, or the place of its own is not known.
    pub(super) const fn is_past(&self, id: CheckpointId) -> bool {
        self.last_seen.0 > id.0 || self.last_seen.0 == id.0 && matches!(self.progress, Progress::Idle)
    }

    /// The caller has made sure that `id` is not past.
    pub(super) fn start(&mut self, id: CheckpointId) {
        self.progress = if let Progress::Seen { at } = self.progress
            && self.last_seen == id
        {
            Progress::SeenAndStarted { at }
        } else {
            Progress::Started
        };
        self.last_seen = id;
    }

    /// A barrier that is known to lie in the queue bounds what is captured (rule U7); an overtaking one is seen.
    pub(super) fn queue_seen(&mut self, first: Position, end: Position) -> Result<Option<Extent>, Rejected> {
        if end.is_before(first) {
            return Err(Rejected::Unexpected { what: "the end of the queue lies before its first item" });
        }
        match self.progress {
            Progress::Started if self.announced == self.last_seen && !is_mutant("capture_unbounded") => {
                self.progress = Progress::Covered;
                Ok(Extent::new(first, self.announced_at))
            }
            Progress::Started => {
                self.progress = Progress::Capturing { captured: end };
                Ok(Extent::new(first, end))
            }
            Progress::SeenAndStarted { at } => {
                self.progress = Progress::Done;
                let at = if is_mutant("capture_beyond_barrier") { end } else { at };
                Ok(Extent::new(first, at))
            }
            Progress::Capturing { captured } if captured.is_before(first) => {
                Err(Rejected::Unexpected { what: "an item was taken before it was captured" })
            }
            Progress::Capturing { captured } if captured.is_before(end) => {
                let captured = if is_mutant("capture_again") { first } else { captured };
                self.progress = Progress::Capturing { captured: end };
                Ok(Extent::new(captured, end))
            }
            Progress::Replaying { .. }
            | Progress::Idle
            | Progress::Capturing { .. }
            | Progress::Covered
            | Progress::Seen { .. }
            | Progress::Done => Ok(None),
        }
    }

    /// An announcement says how far to capture, and changes nothing else (rules U6 and U7).
    pub(super) fn barrier_announced(
        &mut self,
        id: CheckpointId,
        at: Position,
    ) -> Result<Option<Extent>, Rejected> {
        let mut extent = None;
        if let Progress::Capturing { captured } = self.progress
            && id == self.last_seen
        {
            extent = rest(captured, at)?;
            self.progress = Progress::Covered;
        }
        if id > self.announced {
            (self.announced, self.announced_at) = (id, at);
        }
        Ok(extent)
    }

    /// Ends the channel's part of the capture, or keeps in mind where the capture will have to end.
    pub(super) fn barrier_seen(
        &mut self,
        id: CheckpointId,
        at: Position,
    ) -> Result<Option<Extent>, Rejected> {
        match self.progress {
            // Nothing can be captured now, so nothing is kept in mind but the id.
            Progress::Replaying { .. } => self.last_seen = self.last_seen.max(id),
            _ if id > self.last_seen => {
                self.last_seen = id;
                self.progress = Progress::Seen { at };
            }
            _ if id < self.last_seen => {}
            Progress::Started => self.progress = Progress::SeenAndStarted { at },
            Progress::Capturing { captured } => {
                let extent = rest(captured, at)?;
                self.progress = Progress::Done;
                return Ok(extent.filter(|_| !is_mutant("capture_no_rest")));
            }
            Progress::Covered => self.progress = Progress::Done,
            Progress::Idle | Progress::Seen { .. } | Progress::SeenAndStarted { .. } | Progress::Done => {}
        }
        Ok(None)
    }

    pub(super) fn stop(&mut self, id: CheckpointId) {
        if id >= self.last_seen {
            self.last_seen = id;
            if !self.is_replaying() {
                self.progress = Progress::Idle;
            }
        }
    }

    /// One part less; whether the channel was replaying at all.
    pub(super) const fn replayed(&mut self) -> bool {
        let Progress::Replaying { parts } = self.progress else { return false };
        let parts = parts.saturating_sub(1);
        self.progress = if parts == 0 { Progress::Idle } else { Progress::Replaying { parts } };
        true
    }
}

/// What is left to capture before a barrier at `at`. Its own place may have been reported, as it holds no record.
fn rest(captured: Position, at: Position) -> Result<Option<Extent>, Rejected> {
    if at.next().is_before(captured) {
        return Err(Rejected::Unexpected {
            what: "what lies behind a barrier was captured before it was noticed",
        });
    }
    Ok(Extent::new(captured, at))
}

// What a channel costs, here and on a machine of 32 bits.
const _: () = assert!(size_of::<Channel>() <= if cfg!(target_pointer_width = "64") { 40 } else { 32 });

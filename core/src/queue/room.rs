use super::weakened_by;
use crate::sync::{AtomicUsize, Ordering, is_mutant};

/// Between a sender that rests for want of room and whoever makes room: nobody is woken who does not wait for it, and
/// nobody who does is forgotten.
///
/// One for each sender, whatever the number of its queues. `core/tests/loom.rs` explores it.
#[derive(Debug)]
pub struct RoomWanted(AtomicUsize);

const NO: usize = 0;
const YES: usize = 1;

impl RoomWanted {
    /// Nobody waits.
    #[must_use]
    #[cfg(not(slackwater_loom))]
    pub const fn new() -> Self {
        Self(AtomicUsize::new(NO))
    }

    /// Nobody waits.
    #[must_use]
    #[cfg(slackwater_loom)]
    pub fn new() -> Self {
        Self(AtomicUsize::new(NO))
    }

    /// The sender has found no room and is about to rest. True: it must look once more before it does, since who made room
    /// a moment ago has not woken it.
    #[must_use]
    pub fn want(&self) -> bool {
        self.0.swap(YES, order()) == NO && !is_mutant("room_not_looked_for_again")
    }

    /// There is more room. True: wake the sender.
    ///
    /// Of this exchange and the sender's one comes first: either this one sees that room is wanted, or the sender sees
    /// the room when it looks once more.
    #[must_use]
    pub fn made(&self) -> bool {
        self.0.swap(NO, order()) == YES
    }
}

impl Default for RoomWanted {
    fn default() -> Self {
        Self::new()
    }
}

fn order() -> Ordering {
    weakened_by("room_exchange_relaxed", Ordering::AcqRel)
}

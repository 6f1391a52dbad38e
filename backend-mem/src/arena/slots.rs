use slackwater_core::sync::{AtomicUsize, Ordering, is_mutant};

/// How many snapshots of a heap can be alive.
pub(crate) const SLOTS: usize = 4;

/// From here on a count stays as it is: that many guards can only have been forgotten, not dropped.
const STUCK: usize = usize::MAX / 2;

/// Who still reads: for each snapshot the number of its guards, itself included.
///
/// The heap opens a slot, readers on any thread join and leave it, and the heap sees that all have left. The
/// last leave publishes (Release) every read before it; the heap's look (Acquire) sees them, and only then
/// may it write to what they read.
#[derive(Debug)]
pub(crate) struct Slots([AtomicUsize; SLOTS]);

impl Slots {
    pub(crate) fn new() -> Self {
        Self(core::array::from_fn(|_| AtomicUsize::new(0)))
    }

    fn slot(&self, slot: usize) -> &AtomicUsize {
        let [a, b, c, d] = &self.0;
        match slot {
            0 => a,
            1 => b,
            2 => c,
            _ => d,
        }
    }

    /// The heap gives the free slot its first guard.
    pub(crate) fn open(&self, slot: usize) {
        // Whoever gets the guard gets it from this thread, by a hand-over that synchronises.
        self.slot(slot).store(1, Ordering::Relaxed);
    }

    /// Another guard, made by the holder of one.
    pub(crate) fn join(&self, slot: usize) {
        let count = self.slot(slot);
        if count.fetch_add(1, Ordering::Relaxed) >= STUCK {
            count.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// A guard is dropped: its holder reads nothing any more.
    pub(crate) fn leave(&self, slot: usize) {
        let order = if is_mutant("heap_release_relaxed") { Ordering::Relaxed } else { Ordering::Release };
        let count = self.slot(slot);
        if count.fetch_sub(1, order) >= STUCK {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Whether all guards are gone. To be believed by the heap alone, for a slot that it has opened.
    pub(crate) fn is_released(&self, slot: usize) -> bool {
        let order = if is_mutant("heap_collect_relaxed") { Ordering::Relaxed } else { Ordering::Acquire };
        self.slot(slot).load(order) == 0
    }
}

use slackwater_core::key_group::KeyGroup;
use slackwater_core::sync::{AtomicUsize, Ordering, is_mutant};

/// How many snapshots of a heap can be alive.
pub(crate) const SLOTS: usize = 4;

/// Counts of runs for each slot. Key groups with the same remainder share one.
const LANES: usize = if cfg!(slackwater_loom) { 2 } else { 8 };

/// From here on a count stays as it is: that many guards can only have been forgotten, not dropped.
const STUCK: usize = usize::MAX / 2;

/// Who still reads: for each snapshot the number of its guards, itself included.
///
/// The heap opens a slot, readers on any thread join and leave it, and the heap sees that all have left. The
/// last leave publishes (Release) every read before it; the heap's look (Acquire) sees them, and only then
/// may it write to what they read. In the same way the holder of a snapshot sees that the runs of a key
/// group have all been dropped.
#[derive(Debug)]
pub(crate) struct Slots([Slot; SLOTS]);

#[derive(Debug)]
struct Slot {
    guards: Count,
    runs: [Count; LANES],
    /// One more than the key group that the heap waits for; 0 if it waits for none. A wish, which orders nothing.
    wanted: AtomicUsize,
}

impl Slots {
    pub(crate) fn new() -> Self {
        let slot = |_| Slot {
            guards: Count::zero(),
            runs: core::array::from_fn(|_| Count::zero()),
            wanted: AtomicUsize::new(0),
        };
        Self(core::array::from_fn(slot))
    }

    fn slot(&self, slot: usize) -> &Slot {
        let [a, b, c, d] = &self.0;
        match slot {
            0 => a,
            1 => b,
            2 => c,
            _ => d,
        }
    }

    fn runs(&self, slot: usize, group: KeyGroup) -> Option<&Count> {
        self.slot(slot).runs.get(usize::from(group.0) % LANES)
    }

    /// The heap gives the free slot its first guard.
    pub(crate) fn open(&self, slot: usize) {
        // Whoever gets the guard gets it from this thread, by a hand-over that synchronises.
        self.slot(slot).wanted.store(0, Ordering::Relaxed);
        self.slot(slot).guards.0.store(1, Ordering::Relaxed);
    }

    /// Another guard, made by the holder of one.
    pub(crate) fn join(&self, slot: usize) {
        self.slot(slot).guards.more();
    }

    /// A guard is dropped: its holder reads nothing any more.
    pub(crate) fn leave(&self, slot: usize) {
        let order = if is_mutant("heap_release_relaxed") { Ordering::Relaxed } else { Ordering::Release };
        if is_mutant("heap_leave_all") {
            self.slot(slot).guards.0.store(0, order);
            return;
        }
        self.slot(slot).guards.less(order);
    }

    /// Whether all guards are gone. To be believed by the heap alone, for a slot that it has opened.
    pub(crate) fn is_released(&self, slot: usize) -> bool {
        let order = if is_mutant("heap_collect_relaxed") { Ordering::Relaxed } else { Ordering::Acquire };
        let left = self.slot(slot).guards.0.load(order);
        left == 0 || left == 1 && is_mutant("heap_released_early")
    }

    /// The heap asks for a key group to be given up next.
    pub(crate) fn ask_for(&self, slot: usize, group: KeyGroup) {
        self.slot(slot).wanted.store(usize::from(group.0) + 1, Ordering::Relaxed);
    }

    /// The key group that the heap asked for last.
    pub(crate) fn wanted(&self, slot: usize) -> Option<KeyGroup> {
        let wanted = self.slot(slot).wanted.load(Ordering::Relaxed).checked_sub(1)?;
        u16::try_from(wanted).ok().map(KeyGroup)
    }

    /// A run of a key group, made by the holder of the snapshot.
    pub(crate) fn join_run(&self, slot: usize, group: KeyGroup) {
        self.runs(slot, group).into_iter().for_each(Count::more);
    }

    /// A run is dropped; its guard is left behind it.
    pub(crate) fn leave_run(&self, slot: usize, group: KeyGroup) {
        let order = if is_mutant("heap_run_relaxed") { Ordering::Relaxed } else { Ordering::Release };
        self.runs(slot, group).into_iter().for_each(|count| count.less(order));
    }

    /// Whether a run of the key group may be alive. To be believed by the holder of the snapshot alone, as
    /// long as it makes no run.
    pub(crate) fn has_runs(&self, slot: usize, group: KeyGroup) -> bool {
        self.runs(slot, group).is_none_or(|count| count.0.load(Ordering::Acquire) != 0)
    }
}

#[derive(Debug)]
struct Count(AtomicUsize);

impl Count {
    fn zero() -> Self {
        Self(AtomicUsize::new(0))
    }

    fn more(&self) {
        if self.0.fetch_add(1, Ordering::Relaxed) >= STUCK {
            self.0.fetch_sub(1, Ordering::Relaxed);
        }
    }

    fn less(&self, order: Ordering) {
        if self.0.fetch_sub(1, order) >= STUCK {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
}

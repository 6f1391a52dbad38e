//! Sums over all words, exact across restarts: they start from the restored counts.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// How many words a job has counted, over all its runs. May be read while it runs.
#[derive(Clone, Debug)]
pub struct Totals {
    subtasks: Arc<[Sums]>,
}

/// The sums of one subtask, which alone writes them; on a cache line of their own.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Sums {
    words: AtomicU64,
    distinct: AtomicU64,
}

impl Totals {
    pub(super) fn new(parallelism: u16) -> Self {
        Self { subtasks: (0..parallelism).map(|_| Sums::default()).collect() }
    }

    pub(super) fn slot(&self, index: u16) -> Slot {
        Slot { subtasks: Arc::clone(&self.subtasks), index: usize::from(index), words: 0, distinct: 0 }
    }

    /// Words, each as often as it occurs.
    #[must_use]
    pub fn words(&self) -> u64 {
        self.subtasks.iter().map(|sums| sums.words.load(Ordering::Relaxed)).sum()
    }

    /// Different words.
    #[must_use]
    pub fn distinct(&self) -> u64 {
        self.subtasks.iter().map(|sums| sums.distinct.load(Ordering::Relaxed)).sum()
    }
}

/// Where one subtask adds up.
#[derive(Debug)]
pub(super) struct Slot {
    subtasks: Arc<[Sums]>,
    index: usize,
    words: u64,
    distinct: u64,
}

impl Slot {
    pub(super) fn start_from(&mut self, words: u64, distinct: u64) {
        (self.words, self.distinct) = (words, distinct);
        self.publish();
    }

    /// Counts a word that has occurred `count` times.
    #[inline]
    pub(super) fn add(&mut self, count: u64, is_new: bool) {
        self.words += count;
        self.distinct += u64::from(is_new);
        self.publish();
    }

    #[inline]
    fn publish(&self) {
        // Plain stores: nobody else writes here.
        let sums = &self.subtasks[self.index];
        sums.words.store(self.words, Ordering::Relaxed);
        sums.distinct.store(self.distinct, Ordering::Relaxed);
    }
}

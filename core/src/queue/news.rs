use super::weakened_by;
use crate::bit_set::BitSet;
use crate::sync::{AtomicUsize, Ordering};

/// On which of its queues a receiver has something to look at: so it does not look at hundreds for the one.
///
/// A bit for each of up to `32 * WORDS` queues. Whoever has put something into a queue sets its bit, always: the receiver may
/// be about to take it, and looks afterwards. `core/tests/loom.rs` explores it.
#[derive(Debug)]
pub struct News<const WORDS: usize> {
    /// Of each the lower 32 bits.
    words: [AtomicUsize; WORDS],
}

impl<const WORDS: usize> News<WORDS> {
    /// Nothing has come.
    #[must_use]
    pub fn new() -> Self {
        Self { words: core::array::from_fn(|_| AtomicUsize::new(0)) }
    }

    /// Something has come into a queue. One beyond the last is not heard of.
    pub fn tell(&self, queue: u16) {
        if let Some(word) = self.words.get(usize::from(queue / 32)) {
            word.fetch_or(1 << (queue % 32), weakened_by("news_told_relaxed", Ordering::Release));
        }
    }

    /// The queues into which something has come since they were last taken. Work: a load for each word.
    #[must_use]
    pub fn seen(&self) -> BitSet<WORDS> {
        self.words_by(|word| word.load(Ordering::Acquire))
    }

    /// Takes them: what has come before is in these queues for whoever looks now. Work: a load for each word, and an exchange
    /// for each that is not empty.
    #[must_use]
    pub fn take(&self) -> BitSet<WORDS> {
        // What is set in this moment is found the next time, and whoever sets it wakes the receiver.
        self.words_by(|word| match word.load(Ordering::Relaxed) {
            0 => 0,
            _ => word.swap(0, Ordering::Acquire),
        })
    }

    fn words_by(&self, read: impl Fn(&AtomicUsize) -> usize) -> BitSet<WORDS> {
        let words = self.words.each_ref().map(|word| u32::try_from(read(word)).unwrap_or(u32::MAX));
        BitSet::of_words(words)
    }
}

impl<const WORDS: usize> Default for News<WORDS> {
    fn default() -> Self {
        Self::new()
    }
}

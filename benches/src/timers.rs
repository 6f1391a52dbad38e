//! A heap with timers, and the heap of the standard library with as many.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use slackwater_mem::{Heap, HeapOptions, Plain, StateError, Timers};

use crate::stream::SplittableRandom;
use crate::subject::{HASH_SEED, key, max_parallelism};

/// Timers that are kept at one number: the earliest goes, another one comes.
pub trait Pending {
    /// Adds a timer.
    ///
    /// # Errors
    /// As [`Timers::add`].
    fn insert(&mut self, timestamp: i64, number: u32) -> Result<(), StateError>;

    /// Takes the earliest timer out and gives its time; none if there is no timer.
    ///
    /// # Errors
    /// As [`Timers::pop_due`].
    fn pop(&mut self) -> Result<Option<i64>, StateError>;
}

/// Timers of a heap's state, with keys of 8 bytes.
#[derive(Debug)]
pub struct InHeap {
    heap: Heap,
    timers: Timers<Plain<u64>>,
}

impl InHeap {
    /// None yet, with room for `count`.
    ///
    /// # Errors
    /// The heap's memory cannot be reserved.
    pub fn new(count: u32) -> Result<Self, StateError> {
        let groups = max_parallelism();
        let mut heap = Heap::new(HeapOptions {
            frame_size: 4096,
            memory_limit_bytes: u64::from(count) * 160 + (64 << 20),
            key_groups: groups.all_key_groups(),
            hash_seed: HASH_SEED,
        })?;
        let timers = Timers::register(&mut heap, "measured", "timers", groups)?;
        Ok(Self { heap, timers })
    }
}

impl Pending for InHeap {
    fn insert(&mut self, timestamp: i64, number: u32) -> Result<(), StateError> {
        self.timers.add(&mut self.heap, timestamp, &key(number)).map(drop)
    }

    fn pop(&mut self) -> Result<Option<i64>, StateError> {
        Ok(self.timers.pop_due(&mut self.heap, i64::MAX)?.map(|timer| timer.timestamp))
    }
}

impl Pending for BinaryHeap<Reverse<(i64, u64)>> {
    fn insert(&mut self, timestamp: i64, number: u32) -> Result<(), StateError> {
        self.push(Reverse((timestamp, key(number))));
        Ok(())
    }

    fn pop(&mut self) -> Result<Option<i64>, StateError> {
        Ok(Self::pop(self).map(|Reverse((timestamp, _))| timestamp))
    }
}

/// Timers whose times lie at random within so many units from the earliest on.
#[derive(Debug)]
pub struct Turning<P> {
    pending: P,
    random: SplittableRandom,
    span: u32,
    /// The time of the earliest timer that has gone.
    now: i64,
    /// The key of the next timer.
    number: u32,
}

impl<P: Pending> Turning<P> {
    /// Adds `count` timers.
    ///
    /// # Errors
    /// As [`Timers::add`].
    pub fn filled(pending: P, count: u32) -> Result<Self, StateError> {
        let random = SplittableRandom::new(7);
        let mut turning = Self { pending, random, span: count.saturating_mul(4), now: 0, number: 0 };
        turning.insert(count)?;
        Ok(turning)
    }

    /// Adds `count` timers.
    ///
    /// # Errors
    /// As [`Timers::add`].
    pub fn insert(&mut self, count: u32) -> Result<(), StateError> {
        for _ in 0..count {
            let timestamp = self.now + i64::from(self.random.below(self.span));
            self.pending.insert(timestamp, self.number)?;
            self.number = self.number.wrapping_add(1);
        }
        Ok(())
    }

    /// Takes the earliest `count` timers out.
    ///
    /// # Errors
    /// As [`Timers::pop_due`].
    pub fn pop(&mut self, count: u32) -> Result<(), StateError> {
        for _ in 0..count {
            self.now = self.pending.pop()?.unwrap_or(self.now);
        }
        Ok(())
    }

    /// Takes the earliest timer out and adds another one, `count` times.
    ///
    /// # Errors
    /// As the two.
    pub fn turn(&mut self, count: u32) -> Result<(), StateError> {
        (0..count).try_for_each(|_| self.pop(1).and_then(|()| self.insert(1)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timers_of_the_heap_go_in_the_order_of_the_binary_heap() {
        let mut ours = Turning::filled(InHeap::new(500).unwrap(), 500).unwrap();
        let mut theirs = Turning::filled(BinaryHeap::new(), 500).unwrap();
        for _ in 0..100 {
            ours.turn(7).unwrap();
            theirs.turn(7).unwrap();
            assert_eq!(ours.now, theirs.now);
        }
        assert!(ours.now > 0);
        ours.pop(500).unwrap();
        assert_eq!(ours.pending.pop(), Ok(None));
    }
}

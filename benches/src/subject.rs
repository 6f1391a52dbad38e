//! The state that is measured: a heap with one value for each of many keys.

use std::time::Duration;

use slackwater_core::key_group::{KeyGroup, MaxParallelism, key_group_of_hash};
use slackwater_mem::{Bytes, Codec, Decode, Heap, HeapOptions, Plain, StateError, ValueState};

use crate::stopwatch::Stopwatch;
use crate::stream::mix;

/// Seed of the heap's hash; any would do.
pub const HASH_SEED: u64 = 0x5eed;

/// How much state there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// How many keys, of 8 bytes each.
    pub keys: u32,
    /// Length of each value in bytes.
    pub value_len: usize,
}

/// Values that can be made, changed and looked at; 8 bytes are a number, all other lengths are byte strings.
pub trait SampleValue: Decode {
    /// The first value of key `number`, `len` bytes long.
    fn sample(number: u32, len: usize) -> Self::Owned;

    /// The value after one more update.
    fn bumped(old: Option<Self::Owned>) -> Self::Owned;

    /// Some of the value, so that reading it is not left out.
    fn peek(value: &Self::Owned) -> u64;
}

impl SampleValue for Plain<u64> {
    fn sample(number: u32, _len: usize) -> u64 {
        number.into()
    }

    fn bumped(old: Option<u64>) -> u64 {
        old.map_or(1, |count| count.wrapping_add(1))
    }

    fn peek(value: &u64) -> u64 {
        *value
    }
}

impl SampleValue for Bytes {
    fn sample(number: u32, len: usize) -> Vec<u8> {
        let [start, ..] = number.to_le_bytes();
        (0..=u8::MAX).cycle().take(len).map(|step| start.wrapping_add(step)).collect()
    }

    fn bumped(old: Option<Vec<u8>>) -> Vec<u8> {
        let mut value = old.unwrap_or_default();
        if let Some(first) = value.first_mut() {
            *first = first.wrapping_add(1);
        }
        value
    }

    fn peek(value: &Vec<u8>) -> u64 {
        value.first().copied().unwrap_or_default().into()
    }
}

/// A heap with one value state. Keys are called by their numbers, which [`mix`] turns into the keys themselves.
#[derive(Debug)]
pub struct Subject<V> {
    /// The heap.
    pub heap: Heap,
    /// Its state.
    pub state: ValueState<Plain<u64>, V>,
    shape: Shape,
}

impl<V: SampleValue> Subject<V> {
    /// A heap with 128 key groups that has room for `shape`, and holds nothing yet.
    ///
    /// # Errors
    /// The heap's memory cannot be reserved.
    pub fn empty(shape: Shape) -> Result<Self, StateError> {
        let groups = max_parallelism();
        let mut heap = Heap::new(HeapOptions {
            frame_size: 4096,
            memory_limit_bytes: memory_limit(shape),
            key_groups: groups.all_key_groups(),
            hash_seed: HASH_SEED,
        })?;
        let state = ValueState::register(&mut heap, "measured", "values", groups)?;
        Ok(Self { heap, state, shape })
    }

    /// The same with the first value of every key.
    ///
    /// # Errors
    /// As for [`Subject::empty`].
    pub fn filled(shape: Shape) -> Result<Self, StateError> {
        let mut subject = Self::empty(shape)?;
        for number in 0..shape.keys {
            subject.put(number)?;
        }
        Ok(subject)
    }

    /// The same, filled one key group after the other: so pages of a key group lie one behind the other in memory,
    /// as they do after a restore.
    ///
    /// # Errors
    /// As for [`Subject::empty`].
    pub fn filled_by_key_group(shape: Shape) -> Result<Self, StateError> {
        let mut subject = Self::empty(shape)?;
        let mut numbers: Vec<u32> = (0..shape.keys).collect();
        numbers.sort_by_cached_key(|number| key_group(*number).0);
        for number in numbers {
            subject.put(number)?;
        }
        Ok(subject)
    }

    /// How much state there is, or will be.
    #[must_use]
    pub const fn shape(&self) -> Shape {
        self.shape
    }

    /// Sets the first value of a key.
    ///
    /// # Errors
    /// As [`ValueState::put`].
    pub fn put(&mut self, number: u32) -> Result<(), StateError> {
        let value = V::sample(number, self.shape.value_len);
        self.state.put(&mut self.heap, &key(number), V::borrow(&value))
    }

    /// Updates the value of a key by what it was.
    ///
    /// # Errors
    /// As [`ValueState::update`].
    pub fn update(&mut self, number: u32) -> Result<(), StateError> {
        self.state.update(&mut self.heap, &key(number), V::bumped)
    }

    /// Reads the value of a key and gives some of it; 0 if there is none.
    ///
    /// # Errors
    /// As [`ValueState::get`].
    pub fn read(&self, number: u32) -> Result<u64, StateError> {
        Ok(self.state.get(&self.heap, &key(number))?.as_ref().map_or(0, V::peek))
    }
}

impl Subject<Plain<u64>> {
    /// Adds one to the number of a key.
    ///
    /// # Errors
    /// As [`ValueState::update`].
    #[inline]
    pub fn add_one(&mut self, key: u64) -> Result<(), StateError> {
        self.state.update(&mut self.heap, &key, |old| old.unwrap_or(0).wrapping_add(1))
    }

    /// Adds one to each of these right after a freeze, and says how long that took without the freeze.
    ///
    /// # Errors
    /// As [`ValueState::update`] and [`Heap::freeze`].
    pub fn touch_all(&mut self, keys: &[u64]) -> Result<Duration, StateError> {
        let snapshot = self.heap.freeze()?;
        let stopwatch = Stopwatch::start();
        keys.iter().try_for_each(|key| self.add_one(*key))?;
        let elapsed = stopwatch.elapsed();
        drop(snapshot);
        Ok(elapsed)
    }
}

/// The number of key groups; Flink's default for a parallelism of up to 85.
#[must_use]
pub fn max_parallelism() -> MaxParallelism {
    MaxParallelism::new(128).unwrap_or(MaxParallelism::MAX)
}

/// The key of a number.
#[must_use]
pub const fn key(number: u32) -> <Plain<u64> as Codec>::Item {
    mix(number as u64)
}

/// The key group of a number.
#[must_use]
pub fn key_group(number: u32) -> KeyGroup {
    key_group_of_hash(Plain::<u64>::key_group_hash(&key(number)), max_parallelism())
}

/// Room for half-full pages and for a copy of every one of them.
fn memory_limit(shape: Shape) -> u64 {
    let entry_len = (shape.value_len as u64).saturating_add(32);
    u64::from(shape.keys).saturating_mul(entry_len).saturating_mul(4).saturating_add(64 << 20)
}

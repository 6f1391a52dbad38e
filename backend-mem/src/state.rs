//! Typed handles on the states of a heap.

use core::fmt;
use core::marker::PhantomData;

use slackwater_core::key_group::{KeyGroup, MaxParallelism, key_group_of_hash};

use crate::arena::ArenaHandle;
use crate::codec::{Codec, Decode, Malformed};
use crate::heap::{Heap, HeapError, StateId};

/// One value for each key (Flink: `ValueState`). The key is an argument of each call.
pub struct ValueState<K: ?Sized, V> {
    id: StateId,
    max_parallelism: MaxParallelism,
    _codecs: PhantomData<fn(&K) -> V>,
}

/// Why a typed access failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StateError {
    /// The heap refused.
    Heap(HeapError),
    /// What the heap holds is not what the codec writes.
    Malformed(Malformed),
}

impl<K: Codec, V: Decode> ValueState<K, V> {
    /// Makes the state known to the heap, or finds it there.
    ///
    /// # Errors
    /// As [`Heap::register`].
    pub fn register<A: ArenaHandle>(
        heap: &mut Heap<A>,
        operator: &str,
        name: &str,
        max_parallelism: MaxParallelism,
    ) -> Result<Self, HeapError> {
        let id = heap.register(operator, name, K::ID, V::ID)?;
        Ok(Self { id, max_parallelism, _codecs: PhantomData })
    }

    /// The state's id in its heap.
    #[must_use]
    pub const fn id(&self) -> StateId {
        self.id
    }

    fn group(&self, key: &K::Item) -> KeyGroup {
        key_group_of_hash(K::key_group_hash(key), self.max_parallelism)
    }

    /// The value of a key.
    ///
    /// # Errors
    /// As [`Heap::get`], or bytes that are not the codec's.
    pub fn get<A: ArenaHandle>(&self, heap: &Heap<A>, key: &K::Item) -> Result<Option<V::Owned>, StateError> {
        let group = self.group(key);
        let value = K::encoded(key, |key| heap.get(self.id, group, key))?;
        value.map(|value| V::decode(&value)).transpose().map_err(StateError::Malformed)
    }

    /// Sets the value of a key.
    ///
    /// # Errors
    /// As [`Heap::put`].
    pub fn put<A: ArenaHandle>(
        &self,
        heap: &mut Heap<A>,
        key: &K::Item,
        value: &V::Item,
    ) -> Result<(), HeapError> {
        let group = self.group(key);
        K::encoded(key, |key| V::encoded(value, |value| heap.put(self.id, group, key, value)))
    }

    /// Replaces the value of a key by what `change` makes of it; it gets none for a key that is not there.
    /// One look-up if the new value has the old one's length.
    ///
    /// # Errors
    /// As [`Heap::put`], or bytes that are not the codec's; the old value stays.
    pub fn update<A: ArenaHandle>(
        &self,
        heap: &mut Heap<A>,
        key: &K::Item,
        change: impl FnOnce(Option<V::Owned>) -> V::Owned,
    ) -> Result<(), StateError> {
        let group = self.group(key);
        K::encoded(key, |key| {
            let changed = if let Some(place) = heap.get_mut(self.id, group, key)? {
                let old = V::decode(&crate::heap::Value::inline(place)).map_err(StateError::Malformed)?;
                let changed = change(Some(old));
                let done = V::encoded(V::borrow(&changed), |bytes| {
                    let fits = bytes.len() == place.len();
                    if fits {
                        place.copy_from_slice(bytes);
                    }
                    fits
                });
                if done {
                    return Ok(());
                }
                changed
            } else {
                // Not there, or too long for its page.
                let old = heap.get(self.id, group, key)?.map(|value| V::decode(&value)).transpose();
                change(old.map_err(StateError::Malformed)?)
            };
            V::encoded(V::borrow(&changed), |value| heap.put(self.id, group, key, value))
                .map_err(StateError::Heap)
        })
    }

    /// Removes the value of a key and says whether there was one.
    ///
    /// # Errors
    /// As [`Heap::remove`].
    pub fn remove<A: ArenaHandle>(&self, heap: &mut Heap<A>, key: &K::Item) -> Result<bool, HeapError> {
        let group = self.group(key);
        K::encoded(key, |key| heap.remove(self.id, group, key))
    }
}

impl<K: ?Sized, V> Clone for ValueState<K, V> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K: ?Sized, V> Copy for ValueState<K, V> {}

impl<K: ?Sized, V> fmt::Debug for ValueState<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ValueState").field("id", &self.id).finish_non_exhaustive()
    }
}

impl fmt::Display for StateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Heap(error) => error.fmt(f),
            Self::Malformed(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for StateError {}

impl From<HeapError> for StateError {
    fn from(error: HeapError) -> Self {
        Self::Heap(error)
    }
}

#[cfg(test)]
mod tests {
    use std::string::String;

    use super::*;
    use crate::codec::{Bytes, Plain, Utf8};
    use crate::heap::HeapOptions;

    fn heap(max_parallelism: MaxParallelism) -> Heap {
        let key_groups = max_parallelism.all_key_groups();
        let options = HeapOptions { frame_size: 256, memory_limit_bytes: 8 << 20, key_groups, hash_seed: 3 };
        Heap::new(options).unwrap()
    }

    #[test]
    fn a_value_is_set_changed_and_removed_by_its_key() {
        let max_parallelism = MaxParallelism::new(16).unwrap();
        let mut heap = heap(max_parallelism);
        let counts =
            ValueState::<Utf8, Plain<u64>>::register(&mut heap, "count", "words", max_parallelism).unwrap();
        for word in ["a", "b", "a", "a"] {
            counts.update(&mut heap, word, |count| count.unwrap_or(0) + 1).unwrap();
        }
        assert_eq!((counts.get(&heap, "a"), counts.get(&heap, "b")), (Ok(Some(3)), Ok(Some(1))));
        counts.put(&mut heap, "b", &9).unwrap();
        assert_eq!(counts.remove(&mut heap, "a"), Ok(true));
        assert_eq!((counts.get(&heap, "a"), counts.get(&heap, "b")), (Ok(None), Ok(Some(9))));
        assert_eq!(heap.len(counts.id()), 1);
    }

    #[test]
    fn a_value_may_change_its_length() {
        let max_parallelism = MaxParallelism::new(4).unwrap();
        let mut heap = heap(max_parallelism);
        let texts = ValueState::<Plain<i32>, Utf8>::register(&mut heap, "op", "s", max_parallelism).unwrap();
        for _ in 0..600 {
            texts.update(&mut heap, &5, |text| text.unwrap_or_default() + "x").unwrap();
        }
        assert_eq!(texts.get(&heap, &5), Ok(Some("x".repeat(600))));
        texts.update(&mut heap, &5, |_| String::new()).unwrap();
        assert_eq!(texts.get(&heap, &5), Ok(Some(String::new())));
    }

    #[test]
    fn bytes_that_the_codec_did_not_write_stay_and_are_named() {
        let max_parallelism = MaxParallelism::new(1).unwrap();
        let mut heap = heap(max_parallelism);
        let numbers =
            ValueState::<Bytes, Plain<u32>>::register(&mut heap, "op", "s", max_parallelism).unwrap();
        heap.put(numbers.id(), KeyGroup(0), b"k", &[1, 2]).unwrap();
        let malformed = Malformed { codec: Plain::<u32>::ID, len: 2 };
        let changed = numbers.update(&mut heap, b"k", |_| 7);
        assert_eq!(changed, Err(StateError::Malformed(malformed)));
        assert!(heap.get(numbers.id(), KeyGroup(0), b"k").unwrap().unwrap().is(&[1, 2]));
    }
}

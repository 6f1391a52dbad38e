use core::marker::PhantomData;

use slackwater_core::format::segment::Distribution;
use slackwater_core::key_group::KeyGroup;

use crate::arena::ArenaHandle;
use crate::codec::{Codec, Decode};
use crate::heap::{Heap, HeapError, ScanCursor, StateId};
use crate::state::{StateError, handle};

/// A map that every subtask holds alike (Flink: `BroadcastState`). That it is alike is up to the operator, which
/// must make the same changes in all subtasks: a restore gives each subtask the entries of one.
pub struct Broadcast<K: ?Sized, V> {
    id: StateId,
    _codecs: PhantomData<fn(&K) -> V>,
}

handle!([K: ?Sized, V] Broadcast[K, V] id);

impl<K: Codec + ?Sized, V: Decode> Broadcast<K, V> {
    /// Makes the map known to the heap, or finds it there.
    ///
    /// # Errors
    /// As [`Heap::register`], or `OtherDistribution` (rule O1).
    pub fn register<A: ArenaHandle>(
        heap: &mut Heap<A>,
        operator: &str,
        name: &str,
    ) -> Result<Self, HeapError> {
        let id = heap.register_distributed(Distribution::Broadcast, (operator, name), K::ID, V::ID)?;
        Ok(Self { id, _codecs: PhantomData })
    }

    /// How many entries there are.
    #[must_use]
    pub fn len<A: ArenaHandle>(&self, heap: &Heap<A>) -> u64 {
        heap.len(self.id)
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty<A: ArenaHandle>(&self, heap: &Heap<A>) -> bool {
        heap.is_empty(self.id)
    }

    /// The value of a key.
    ///
    /// # Errors
    /// As [`Heap::get`], a key that cannot be encoded, or bytes that are not the codec's.
    pub fn get<A: ArenaHandle>(&self, heap: &Heap<A>, key: &K::Item) -> Result<Option<V::Owned>, StateError> {
        let value = K::encoded(key, |key| heap.get(self.id, KeyGroup::NONE, key))??;
        Ok(value.map(|value| V::decode(&value)).transpose()?)
    }

    /// Sets the value of a key.
    ///
    /// # Errors
    /// As [`Heap::put`], or a key or value that cannot be encoded.
    pub fn put<A: ArenaHandle>(
        &self,
        heap: &mut Heap<A>,
        key: &K::Item,
        value: &V::Item,
    ) -> Result<(), StateError> {
        Ok(K::encoded(key, |key| V::encoded(value, |value| heap.put(self.id, KeyGroup::NONE, key, value)))???)
    }

    /// Removes the value of a key and says whether there was one.
    ///
    /// # Errors
    /// As [`Heap::remove`], or a key that cannot be encoded.
    pub fn remove<A: ArenaHandle>(&self, heap: &mut Heap<A>, key: &K::Item) -> Result<bool, StateError> {
        Ok(K::encoded(key, |key| heap.remove(self.id, KeyGroup::NONE, key))??)
    }
}

impl<K: Decode + ?Sized, V: Decode> Broadcast<K, V> {
    /// Visits every entry, in no order that means anything.
    ///
    /// # Errors
    /// Bytes that are not the codecs'; the visit ends there.
    pub fn for_each<A: ArenaHandle>(
        &self,
        heap: &Heap<A>,
        mut each: impl FnMut(K::Owned, V::Owned),
    ) -> Result<(), StateError> {
        let (mut cursor, mut malformed) = (ScanCursor::default(), None);
        loop {
            let more = heap.scan(self.id, &mut cursor, &mut |key, value| match (
                K::decode(&key),
                V::decode(&value),
            ) {
                _ if malformed.is_some() => {}
                (Ok(key), Ok(value)) => each(key, value),
                (Err(error), _) | (_, Err(error)) => malformed = Some(error),
            })?;
            match malformed {
                Some(error) => return Err(error.into()),
                None if !more => return Ok(()),
                None => {}
            }
        }
    }
}

use core::fmt;
use core::marker::PhantomData;

use slackwater_core::key_group::MaxParallelism;

use super::{Entries, Namespace, StateError, debug};
use crate::arena::ArenaHandle;
use crate::codec::{Codec, Decode};
use crate::heap::{Heap, HeapError, Slot, StateId, Value};

/// One value for each key (Flink: `ValueState`), and for each namespace `N` of a key.
///
/// Every method takes the key as [`Namespace::Key`]: `key` by default, `(key, namespace)` with a namespace.
pub struct ValueState<K: ?Sized, V, N = ()> {
    entries: Entries<K, N>,
    _codec: PhantomData<fn() -> V>,
}

impl<K: Codec, V: Decode, N: Namespace> ValueState<K, V, N> {
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
        let entries = Entries::register(heap, operator, name, max_parallelism, V::ID)?;
        Ok(Self { entries, _codec: PhantomData })
    }

    /// The state's id in its heap.
    #[must_use]
    pub const fn id(&self) -> StateId {
        self.entries.id
    }

    /// The value of a key.
    ///
    /// # Errors
    /// As [`Heap::get`], or bytes that are not the codec's.
    #[inline]
    pub fn get<A: ArenaHandle>(
        &self,
        heap: &Heap<A>,
        key: N::Key<'_, K>,
    ) -> Result<Option<V::Owned>, StateError> {
        let value = self.entries.get(heap, key)?;
        Ok(value.map(|value| V::decode(&value)).transpose()?)
    }

    /// Sets the value of a key.
    ///
    /// # Errors
    /// As [`Heap::put`], or a value that cannot be encoded.
    pub fn put<A: ArenaHandle>(
        &self,
        heap: &mut Heap<A>,
        key: N::Key<'_, K>,
        value: &V::Item,
    ) -> Result<(), StateError> {
        V::encoded(value, |value| self.entries.put(heap, key, value))?
    }

    /// Replaces the value of a key by what `change` makes of it; it gets none for a key that is not there.
    /// One look-up if the new value has the old one's length.
    ///
    /// # Errors
    /// As [`Self::put`], or bytes that are not the codec's; the old value stays.
    pub fn update<A: ArenaHandle>(
        &self,
        heap: &mut Heap<A>,
        key: N::Key<'_, K>,
        change: impl FnOnce(Option<V::Owned>) -> V::Owned,
    ) -> Result<(), StateError> {
        let id = self.id();
        self.entries.at(key, |group, key| {
            let changed = match heap.slot_mut(id, group, key)? {
                Slot::Here(place) => {
                    let changed = change(Some(V::decode(&Value::inline(place))?));
                    if V::encoded(V::borrow(&changed), |bytes| replace(place, bytes))? {
                        return Ok(());
                    }
                    changed
                }
                Slot::Elsewhere => {
                    change(heap.get(id, group, key)?.map(|value| V::decode(&value)).transpose()?)
                }
                Slot::Absent => change(None),
            };
            Ok(V::encoded(V::borrow(&changed), |value| heap.put(id, group, key, value))??)
        })?
    }

    /// Removes the value of a key and says whether there was one.
    ///
    /// # Errors
    /// As [`Heap::remove`].
    pub fn remove<A: ArenaHandle>(&self, heap: &mut Heap<A>, key: N::Key<'_, K>) -> Result<bool, StateError> {
        self.entries.remove(heap, key)
    }
}

/// Writes `bytes` in place of others of the same length; says whether they have it.
fn replace(place: &mut [u8], bytes: &[u8]) -> bool {
    let fits = bytes.len() == place.len();
    if fits {
        place.copy_from_slice(bytes);
    }
    fits
}

impl<K: ?Sized, V, N> Clone for ValueState<K, V, N> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K: ?Sized, V, N> Copy for ValueState<K, V, N> {}

impl<K: ?Sized, V, N> fmt::Debug for ValueState<K, V, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        debug(f, "ValueState", self.entries.id)
    }
}

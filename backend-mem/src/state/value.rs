use core::marker::PhantomData;

use slackwater_core::key_group::{KeyGroup, MaxParallelism};
use slackwater_core::time::{Millis, Now};

use super::encoding::{Bare, Stamped};
use super::expiring::{CanExpire, Expiring, Sweep};
use super::expiry::{At, Expiry, Never, TimeToLive};
use super::{Entries, Namespace, StateError};
use crate::arena::ArenaHandle;
use crate::codec::{Codec, Decode};
use crate::heap::{Direct, Heap, Located, Slot, StateId, Value};

/// How many places [`ValueState::get_many`] asks for at the same time: about as many as a core can wait for.
const BATCH: usize = 16;

/// One value for each key (Flink: `ValueState`), and for each namespace `N` of a key.
///
/// Every method takes the key as [`Namespace::Key`]: `key` by default, `(key, namespace)` with a namespace.
pub struct ValueState<K: ?Sized, V, N = (), E = Never> {
    entries: Entries<K, N>,
    expiry: E,
    _codec: PhantomData<fn() -> V>,
}

handle!([K: ?Sized, V, N, E: Copy] ValueState[K, V, N, E] entries.id());

impl<K: Codec, V: Decode, N: Namespace> ValueState<K, V, N> {
    /// Makes the state known to the heap, or finds it there. If it was restored with values of another codec, all
    /// of them are rewritten first: see [`Codec::migration`]. Restore before you register, and all of it.
    ///
    /// # Errors
    /// As [`Heap::register`]; `Refused` if a restored state has another codec that has no migration.
    pub fn register<A: ArenaHandle>(
        heap: &mut Heap<A>,
        operator: &str,
        name: &str,
        max_parallelism: MaxParallelism,
    ) -> Result<Self, StateError> {
        let entries = Entries::register::<Bare<V>, A>(heap, (operator, name), max_parallelism, Millis(0))?;
        Ok(Self::new(entries, Never))
    }

    /// The same for entries that live for a time. Restored ones that had no such limit are taken as written `now`; of
    /// those that had one it is forgotten by [`Self::register`].
    ///
    /// # Errors
    /// As [`Self::register`].
    pub fn register_expiring<A: ArenaHandle>(
        heap: &mut Heap<A>,
        operator: &str,
        name: &str,
        max_parallelism: MaxParallelism,
        ttl: TimeToLive,
        now: Now,
    ) -> Result<Expiring<Self>, StateError> {
        let entries = Entries::register::<Stamped<V>, A>(heap, (operator, name), max_parallelism, now.wall)?;
        Ok(Expiring::new(Self::new(entries, Never), ttl, now))
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
        self.read(heap, key)
    }

    /// Calls `each` with the values of several keys, in their order. Asks the memory for the places of sixteen keys
    /// before it looks at the first of them, so that they are fetched at the same time.
    ///
    /// # Errors
    /// As [`Self::get`]; `each` has then been called for some of the keys.
    pub fn get_many<A: ArenaHandle>(
        &self,
        heap: &Heap<A>,
        keys: &[N::Key<'_, K>],
        mut each: impl FnMut(Option<V::Owned>),
    ) -> Result<(), StateError> {
        let shortcut = heap.shortcut(self.entries.id());
        for keys in keys.chunks(BATCH) {
            let mut places = heapless::Vec::<Option<Located<'_>>, BATCH>::new();
            let mut are_near = true;
            for key in keys {
                let place = self.entries.at(*key, |group, key| shortcut?.locate(group, key))?;
                place.iter().for_each(|place| place.prefetch());
                are_near &= place.is_some();
                let pushed = places.push(place);
                debug_assert!(pushed.is_ok(), "a chunk has no more keys than a batch");
            }
            if !are_near {
                self.prefetch_far(heap, keys)?;
            }
            for (key, place) in keys.iter().zip(&places) {
                let found =
                    self.entries.at(*key, |_, key| place.map_or(Direct::Unknown, |place| place.find(key)))?;
                each(match found {
                    Direct::Found(value) => Some(V::decode(&Value::inline(value))?),
                    Direct::Absent => None,
                    Direct::Unknown => self.read(heap, *key)?,
                });
            }
        }
        Ok(())
    }

    /// Asks for the places of keys on the long way, which begins with that.
    #[inline(never)]
    fn prefetch_far<A: ArenaHandle>(&self, heap: &Heap<A>, keys: &[N::Key<'_, K>]) -> Result<(), StateError> {
        keys.iter().try_for_each(|key| {
            let sought = self.entries.at(*key, |group, key| heap.prefetch(self.entries.id(), group, key))?;
            Ok(sought?)
        })
    }
}

impl<K: Codec, V: Decode, N: Namespace> ValueState<K, V, N, At> {
    /// The value of a key, whose life begins anew if that is so when it is read.
    ///
    /// # Errors
    /// As [`Heap::get`], or bytes that are not the codec's; as [`Heap::put`] if its life begins anew.
    pub fn get<A: ArenaHandle>(
        &self,
        heap: &mut Heap<A>,
        key: N::Key<'_, K>,
    ) -> Result<Option<V::Owned>, StateError> {
        let renews = match self.entries.get(heap, key)? {
            Some(stored) => self.expiry.renews(stored)?,
            None => false,
        };
        let value = self.read(heap, key)?;
        if let (true, Some(value)) = (renews, &value) {
            self.put(heap, key, V::borrow(value))?;
        }
        Ok(value)
    }
}

impl<K: Codec, V: Decode, N: Namespace, E: Expiry> ValueState<K, V, N, E> {
    pub(super) const fn new(entries: Entries<K, N>, expiry: E) -> Self {
        Self { entries, expiry, _codec: PhantomData }
    }

    #[inline]
    fn decoded(&self, stored: Value<'_>) -> Result<Option<V::Owned>, StateError> {
        Ok(self.expiry.visible(stored)?.map(|item| V::decode(&item)).transpose()?)
    }

    #[inline]
    pub(super) fn read<A: ArenaHandle>(
        &self,
        heap: &Heap<A>,
        key: N::Key<'_, K>,
    ) -> Result<Option<V::Owned>, StateError> {
        if !Entries::<K, N>::has_keys_of_one_size() {
            return self.read_far(heap, key);
        }
        match self.entries.at(key, |group, key| heap.look_up(self.entries.id(), group, key))? {
            Direct::Found(value) => self.decoded(Value::inline(value)),
            Direct::Absent => Ok(None),
            Direct::Unknown => self.read_far(heap, key),
        }
    }

    /// The same by the long way.
    #[inline(never)]
    fn read_far<A: ArenaHandle>(
        &self,
        heap: &Heap<A>,
        key: N::Key<'_, K>,
    ) -> Result<Option<V::Owned>, StateError> {
        let value = self.entries.read(heap, key, |stored| self.decoded(stored))?;
        Ok(value.transpose()?.flatten())
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
        self.expiry.encoded::<V, _>(value, |value| self.entries.put(heap, key, value))?
    }

    /// Replaces the value of a key by what `change` makes of it; it gets none for a key that is not there.
    /// One look-up if the new value has the old one's length.
    ///
    /// # Errors
    /// As [`Self::put`], or bytes that are not the codec's; the old value stays.
    #[inline]
    pub fn update<A: ArenaHandle>(
        &self,
        heap: &mut Heap<A>,
        key: N::Key<'_, K>,
        change: impl FnOnce(Option<V::Owned>) -> V::Owned,
    ) -> Result<(), StateError> {
        if !Entries::<K, N>::has_keys_of_one_size() {
            return self.update_far(heap, key, change);
        }
        let place = self.entries.at(key, |group, key| heap.direct_mut(self.entries.id(), group, key))?;
        let Some(place) = place else { return self.update_moved(heap, key, change) };
        let other_len = self.change_in_place(place, change)?;
        self.put_if_any(heap, key, other_len)
    }

    /// Changes a value where it lies, or gives the new one, if it has another length.
    #[inline]
    fn change_in_place(
        &self,
        place: &mut [u8],
        change: impl FnOnce(Option<V::Owned>) -> V::Owned,
    ) -> Result<Option<V::Owned>, StateError> {
        let changed = change(self.decoded(Value::inline(place))?);
        let fits = self.expiry.encoded::<V, _>(V::borrow(&changed), |bytes| replace(place, bytes))?;
        Ok((!fits).then_some(changed))
    }

    /// The same in a page that is frozen, or by the long way.
    #[cold]
    #[inline(never)]
    fn update_moved<A: ArenaHandle>(
        &self,
        heap: &mut Heap<A>,
        key: N::Key<'_, K>,
        change: impl FnOnce(Option<V::Owned>) -> V::Owned,
    ) -> Result<(), StateError> {
        let place =
            self.entries.at(key, |group, key| heap.direct_mut_moved(self.entries.id(), group, key))?;
        let Some(place) = place else { return self.update_far(heap, key, change) };
        let other_len = self.change_in_place(place, change)?;
        self.put_if_any(heap, key, other_len)
    }

    /// The same by the long way.
    #[inline(never)]
    fn update_far<A: ArenaHandle>(
        &self,
        heap: &mut Heap<A>,
        key: N::Key<'_, K>,
        change: impl FnOnce(Option<V::Owned>) -> V::Owned,
    ) -> Result<(), StateError> {
        let id = self.entries.id();
        let changed = self.entries.at(key, |group, key| {
            let stored = match heap.slot_mut(id, group, key)? {
                Slot::Here(place) => return self.change_in_place(place, change),
                Slot::Elsewhere => heap.get(id, group, key)?,
                Slot::Absent => None,
            };
            Ok(Some(change(stored.map_or(Ok(None), |stored| self.decoded(stored))?)))
        })??;
        self.put_if_any(heap, key, changed)
    }

    #[inline]
    fn put_if_any<A: ArenaHandle>(
        &self,
        heap: &mut Heap<A>,
        key: N::Key<'_, K>,
        value: Option<V::Owned>,
    ) -> Result<(), StateError> {
        value.map_or(Ok(()), |value| self.put(heap, key, V::borrow(&value)))
    }

    /// Removes the value of a key and says whether there was one, expired or not.
    ///
    /// # Errors
    /// As [`Heap::remove`].
    pub fn remove<A: ArenaHandle>(&self, heap: &mut Heap<A>, key: N::Key<'_, K>) -> Result<bool, StateError> {
        self.entries.remove(heap, key)
    }
}

/// Writes `bytes` in place of others of the same length; says whether they have it.
#[inline]
fn replace(place: &mut [u8], bytes: &[u8]) -> bool {
    let fits = bytes.len() == place.len();
    if fits {
        place.copy_from_slice(bytes);
    }
    fits
}

impl<K: Codec, V: Decode, N: Namespace> CanExpire for ValueState<K, V, N> {
    type At = ValueState<K, V, N, At>;
    type Sweep = Self::At;

    fn at(&self, at: At) -> Self::At {
        ValueState::new(self.entries, at)
    }

    fn sweep(&self, at: At) -> Self::Sweep {
        self.at(at)
    }
}

impl<K: Codec, V: Decode, N: Namespace> Sweep for ValueState<K, V, N, At> {
    fn id(&self) -> StateId {
        self.entries.id()
    }

    fn has_expired(&self, stored: Value<'_>) -> Result<bool, StateError> {
        Ok(self.expiry.is_over(stored)?)
    }

    fn sweep<A: ArenaHandle>(
        &self,
        heap: &mut Heap<A>,
        group: KeyGroup,
        key: &[u8],
    ) -> Result<u64, StateError> {
        Ok(heap.remove(self.id(), group, key)?.into())
    }
}

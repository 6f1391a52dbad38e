use core::marker::PhantomData;

use slackwater_core::key_group::{KeyGroup, MaxParallelism};
use slackwater_core::time::Millis;

use super::encoding::{Bare, MapOf};
use super::{Entries, Namespace, StateError};
use crate::arena::ArenaHandle;
use crate::codec::{Codec, Decode, Full, Scratch, Unencodable};
use crate::heap::{self, Heap, Value, hash_key};

/// A map for each key (Flink: `MapState`), and for each namespace `N` of a key. A map without entries does not
/// exist.
///
/// Every method takes the key as [`Namespace::Key`]: `key` by default, `(key, namespace)` with a namespace. An
/// entry is stored under the hash of the stored key, the stored key, and the user's key, so that the entries of a
/// map lie side by side; within it they are in the order of the bytes of the user's keys. Without `std`, these
/// three together may have 256 bytes.
pub struct MapState<K: ?Sized, UK, UV, N = ()> {
    entries: Entries<K, N>,
    _codecs: PhantomData<fn(&UK) -> UV>,
}

handle!([K: ?Sized, UK, UV, N] MapState[K, UK, UV, N] entries.id());

impl<K: Codec, UK: Codec, UV: Decode, N: Namespace> MapState<K, UK, UV, N> {
    /// As [`ValueState::register`](super::ValueState::register).
    ///
    /// # Errors
    /// As there.
    pub fn register<A: ArenaHandle>(
        heap: &mut Heap<A>,
        operator: &str,
        name: &str,
        max_parallelism: MaxParallelism,
    ) -> Result<Self, StateError> {
        let entries = Entries::register_ordered::<MapOf<UK, Bare<UV>>, A>(
            heap,
            (operator, name),
            max_parallelism,
            Millis(0),
        )?;
        Ok(Self { entries, _codecs: PhantomData })
    }

    /// Lends the key group of a key, and what the keys of its map begin with, to `with`.
    #[inline]
    fn of<R>(
        &self,
        key: N::Key<'_, K>,
        with: impl FnOnce(KeyGroup, &mut Scratch) -> Result<R, StateError>,
    ) -> Result<R, StateError> {
        self.entries.at(key, |group, stored| {
            let mut prefix = Scratch::new();
            // The seed of the heap is not in it: what is stored must be found again under another one.
            let hash = hash_key(0, stored).swap_bytes().to_le_bytes();
            let is_framed = N::key_id::<K>().width.is_none();
            let push = |prefix: &mut Scratch| {
                prefix.push(&hash)?;
                if is_framed { prefix.push_framed(stored) } else { prefix.push(stored) }
            };
            push(&mut prefix).map_err(|_| Unencodable { codec: K::ID, what: Full::WHAT })?;
            with(group, &mut prefix)
        })?
    }

    /// Lends the key group and the bytes under which an entry is stored to `with`.
    #[inline]
    fn at<R>(
        &self,
        key: N::Key<'_, K>,
        user_key: &UK::Item,
        with: impl FnOnce(KeyGroup, &[u8]) -> Result<R, StateError>,
    ) -> Result<R, StateError> {
        self.of(key, |group, prefix| {
            let pushed = UK::encoded(user_key, |bytes| prefix.push(bytes))?;
            pushed.map_err(|_| Unencodable { codec: UK::ID, what: Full::WHAT })?;
            with(group, prefix.as_slice())
        })
    }

    /// The value of an entry.
    ///
    /// # Errors
    /// As [`Heap::ordered_get`], or bytes that are not the codec's.
    pub fn get<A: ArenaHandle>(
        &self,
        heap: &Heap<A>,
        key: N::Key<'_, K>,
        user_key: &UK::Item,
    ) -> Result<Option<UV::Owned>, StateError> {
        self.at(key, user_key, |group, bytes| {
            let value = heap.ordered_get(self.id(), group, bytes)?;
            Ok(value.map(|value| UV::decode(&value)).transpose()?)
        })
    }

    /// Whether there is such an entry.
    ///
    /// # Errors
    /// As [`Heap::ordered_get`].
    pub fn contains<A: ArenaHandle>(
        &self,
        heap: &Heap<A>,
        key: N::Key<'_, K>,
        user_key: &UK::Item,
    ) -> Result<bool, StateError> {
        self.at(key, user_key, |group, bytes| Ok(heap.ordered_get(self.id(), group, bytes)?.is_some()))
    }

    /// Sets the value of an entry and says whether the entry is new.
    ///
    /// # Errors
    /// As [`Heap::ordered_put`], or what cannot be encoded.
    pub fn put<A: ArenaHandle>(
        &self,
        heap: &mut Heap<A>,
        key: N::Key<'_, K>,
        user_key: &UK::Item,
        value: &UV::Item,
    ) -> Result<bool, StateError> {
        self.at(key, user_key, |group, bytes| {
            Ok(UV::encoded(value, |value| heap.ordered_put(self.id(), group, bytes, value))??)
        })
    }

    /// Removes an entry and says whether there was one.
    ///
    /// # Errors
    /// As [`Heap::ordered_remove`].
    pub fn remove<A: ArenaHandle>(
        &self,
        heap: &mut Heap<A>,
        key: N::Key<'_, K>,
        user_key: &UK::Item,
    ) -> Result<bool, StateError> {
        self.at(key, user_key, |group, bytes| Ok(heap.ordered_remove(self.id(), group, bytes)?))
    }

    /// Whether the map of a key has no entries.
    ///
    /// # Errors
    /// As [`Heap::ordered_within`].
    pub fn is_empty<A: ArenaHandle>(&self, heap: &Heap<A>, key: N::Key<'_, K>) -> Result<bool, StateError> {
        self.of(key, |group, prefix| {
            Ok(heap.ordered_within(self.id(), group, prefix.as_slice())?.next().is_none())
        })
    }

    /// Removes all entries of a key and says how many there were. Takes a look-up for each.
    ///
    /// # Errors
    /// As [`Heap::ordered_remove`]; some of the entries may then be gone.
    pub fn clear<A: ArenaHandle>(&self, heap: &mut Heap<A>, key: N::Key<'_, K>) -> Result<u64, StateError> {
        self.of(key, |group, prefix| {
            let mut count = 0;
            while heap.ordered_take_first(self.id(), group, prefix.as_slice(), |_, _| Some(()))?.is_some() {
                count += 1;
            }
            Ok(count)
        })
    }

    /// The entries of a key, in the order of the bytes of the user's keys.
    ///
    /// # Errors
    /// As [`Heap::ordered_within`]. Bytes that are not the codec's are an error in the place of the entry.
    pub fn iter<'h, A: ArenaHandle>(
        &self,
        heap: &'h Heap<A>,
        key: N::Key<'_, K>,
    ) -> Result<MapEntries<'h, UK, UV>, StateError> {
        self.of(key, |group, prefix| {
            let prefix = prefix.as_slice();
            let entries = heap.ordered_within(self.id(), group, prefix)?;
            Ok(MapEntries { entries, prefix_len: prefix.len(), _codecs: PhantomData })
        })
    }

    /// The values of a key, in the order of the bytes of the user's keys.
    ///
    /// # Errors
    /// As [`iter`](Self::iter).
    pub fn values<'h, A: ArenaHandle>(
        &self,
        heap: &'h Heap<A>,
        key: N::Key<'_, K>,
    ) -> Result<impl Iterator<Item = Result<UV::Owned, StateError>> + use<'h, A, K, UK, UV, N>, StateError>
    {
        let entries = self.iter(heap, key)?.entries;
        Ok(entries.map(|(_, value)| Ok(UV::decode(&value)?)))
    }
}

impl<K: Codec, UK: Decode, UV: Decode, N: Namespace> MapState<K, UK, UV, N> {
    /// The user's keys of a key, in the order of their bytes.
    ///
    /// # Errors
    /// As [`iter`](Self::iter).
    pub fn keys<'h, A: ArenaHandle>(
        &self,
        heap: &'h Heap<A>,
        key: N::Key<'_, K>,
    ) -> Result<impl Iterator<Item = Result<UK::Owned, StateError>> + use<'h, A, K, UK, UV, N>, StateError>
    {
        let MapEntries { mut entries, prefix_len, .. } = self.iter(heap, key)?;
        let decoded = |user_key: &Value<'_>, _: &Value<'_>| Ok(UK::decode(user_key)?);
        Ok(core::iter::from_fn(move || entries.next_behind(prefix_len, decoded)))
    }
}

/// Iterator over the entries of a map, the user's key first.
#[derive(Debug)]
pub struct MapEntries<'h, UK, UV> {
    entries: heap::Entries<'h>,
    /// What the keys of the map begin with, in bytes.
    prefix_len: usize,
    _codecs: PhantomData<fn() -> (UK, UV)>,
}

impl<UK: Decode, UV: Decode> Iterator for MapEntries<'_, UK, UV> {
    type Item = Result<(UK::Owned, UV::Owned), StateError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        self.entries.next_behind(self.prefix_len, decoded::<UK, UV>)
    }
}

#[inline]
fn decoded<UK: Decode, UV: Decode>(
    user_key: &Value<'_>,
    value: &Value<'_>,
) -> Result<(UK::Owned, UV::Owned), StateError> {
    Ok((UK::decode(user_key)?, UV::decode(value)?))
}

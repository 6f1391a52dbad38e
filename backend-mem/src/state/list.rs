use core::marker::PhantomData;

use slackwater_core::key_group::{KeyGroup, MaxParallelism};
use slackwater_core::time::{Millis, Now};

use super::encoding::{Bare, Encoding, ListOf, Stamped};
use super::expiring::{CanExpire, Expiring, Sweep};
use super::expiry::{At, Expiry, Never, TimeToLive, split_stamp};
use super::{Entries, Namespace, StateError};
use crate::arena::ArenaHandle;
use crate::codec::parts::take_framed;
use crate::codec::{Codec, Decode, Full, Malformed, Scratch, Unencodable};
use crate::heap::{Heap, StateId, Value};

/// A list for each key (Flink: `ListState`), and for each namespace `N` of a key. A list without elements does
/// not exist. Elements that expire do so one by one.
///
/// Every method takes the key as [`Namespace::Key`]: `key` by default, `(key, namespace)` with a namespace.
/// Without `std`, what is added at once may have 250 bytes.
pub struct ListState<K: ?Sized, V, N = (), E = Never> {
    entries: Entries<K, N>,
    expiry: E,
    _codec: PhantomData<fn() -> V>,
}

handle!([K: ?Sized, V, N, E: Copy] ListState[K, V, N, E] entries.id());

impl<K: Codec, V: Decode, N: Namespace> ListState<K, V, N> {
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
        let entries =
            Entries::register::<ListOf<Bare<V>>, A>(heap, (operator, name), max_parallelism, Millis(0))?;
        Ok(Self::new(entries, Never))
    }

    /// As [`ValueState::register_expiring`](super::ValueState::register_expiring).
    ///
    /// # Errors
    /// As there.
    pub fn register_expiring<A: ArenaHandle>(
        heap: &mut Heap<A>,
        operator: &str,
        name: &str,
        max_parallelism: MaxParallelism,
        ttl: TimeToLive,
        now: Now,
    ) -> Result<Expiring<Self>, StateError> {
        let entries =
            Entries::register::<ListOf<Stamped<V>>, A>(heap, (operator, name), max_parallelism, now.wall)?;
        Ok(Expiring::new(Self::new(entries, Never), ttl, now))
    }

    /// The elements of a key in the order in which they were added; none if there is no list.
    ///
    /// # Errors
    /// As [`Heap::get`]. Bytes that are not the codec's are an error in the place of the element.
    pub fn get<'h, A: ArenaHandle>(
        &self,
        heap: &'h Heap<A>,
        key: N::Key<'_, K>,
    ) -> Result<ListItems<'h, V>, StateError> {
        self.read(heap, key)
    }
}

impl<K: Codec, V: Decode, N: Namespace> ListState<K, V, N, At> {
    /// The elements of a key in the order in which they were added; none if there is no list. Their lives begin
    /// anew if that is so when they are read; the list is then written anew.
    ///
    /// # Errors
    /// As [`Heap::get`]; as [`Heap::put`] if lives begin anew. Bytes that are not the codec's are an error in
    /// the place of the element.
    pub fn get<'h, A: ArenaHandle>(
        &self,
        heap: &'h mut Heap<A>,
        key: N::Key<'_, K>,
    ) -> Result<ListItems<'h, V, At>, StateError> {
        let renewed = match self.entries.get(heap, key)? {
            Some(list) => self.renewed(list)?,
            None => None,
        };
        if let Some(list) = renewed {
            self.entries.put(heap, key, list.as_slice())?;
        }
        self.read(heap, key)
    }

    /// The list with lives that begin now; none if that changes nothing.
    fn renewed(&self, list: Value<'_>) -> Result<Option<Scratch>, StateError> {
        let (mut renewed, mut changes) = (Scratch::new(), false);
        for stored in Elements(list) {
            let stored = stored.map_err(malformed_list::<V, At>)?;
            let renews = self.expiry.renews(stored)?;
            changes |= renews;
            let mut element = Scratch::new();
            let (stamp, item) = split_stamp(stored)?;
            let stamp = if renews { self.expiry.stamp() } else { stamp.0.to_le_bytes() };
            element.push(&stamp).and_then(|()| push_value(&mut element, item)).map_err(too_long::<V>)?;
            renewed.push_framed(element.as_slice()).map_err(too_long::<V>)?;
        }
        Ok(changes.then_some(renewed))
    }
}

impl<K: Codec, V: Decode, N: Namespace, E: Expiry> ListState<K, V, N, E> {
    const fn new(entries: Entries<K, N>, expiry: E) -> Self {
        Self { entries, expiry, _codec: PhantomData }
    }

    fn read<'h, A: ArenaHandle>(
        &self,
        heap: &'h Heap<A>,
        key: N::Key<'_, K>,
    ) -> Result<ListItems<'h, V, E>, StateError> {
        let list = self.entries.get(heap, key)?.unwrap_or(Value::inline(&[]));
        Ok(ListItems { elements: Elements(list), expiry: self.expiry, _codec: PhantomData })
    }

    /// Adds an element at the end. Takes the same time whatever is there.
    ///
    /// # Errors
    /// As [`Heap::append`], or an element that cannot be encoded.
    pub fn add<A: ArenaHandle>(
        &self,
        heap: &mut Heap<A>,
        key: N::Key<'_, K>,
        item: &V::Item,
    ) -> Result<(), StateError> {
        self.add_all(heap, key, [item])
    }

    /// Adds elements at the end, all or none. Nothing happens for none.
    ///
    /// # Errors
    /// As [`Self::add`].
    pub fn add_all<'i, A: ArenaHandle>(
        &self,
        heap: &mut Heap<A>,
        key: N::Key<'_, K>,
        items: impl IntoIterator<Item = &'i V::Item>,
    ) -> Result<(), StateError> {
        let list = self.encoded(items)?;
        if list.as_slice().is_empty() {
            return Ok(());
        }
        let id = self.id();
        Ok(self.entries.at(key, |group, key| heap.append(id, group, key, list.as_slice()))??)
    }

    /// Replaces the list; without elements there is none.
    ///
    /// # Errors
    /// As [`Heap::put`], or an element that cannot be encoded; the old list stays.
    pub fn update<'i, A: ArenaHandle>(
        &self,
        heap: &mut Heap<A>,
        key: N::Key<'_, K>,
        items: impl IntoIterator<Item = &'i V::Item>,
    ) -> Result<(), StateError> {
        let list = self.encoded(items)?;
        if list.as_slice().is_empty() {
            return self.clear(heap, key).map(|_| ());
        }
        self.entries.put(heap, key, list.as_slice())
    }

    /// Removes the list and says whether there was one, expired or not.
    ///
    /// # Errors
    /// As [`Heap::remove`].
    pub fn clear<A: ArenaHandle>(&self, heap: &mut Heap<A>, key: N::Key<'_, K>) -> Result<bool, StateError> {
        self.entries.remove(heap, key)
    }

    fn encoded<'i>(&self, items: impl IntoIterator<Item = &'i V::Item>) -> Result<Scratch, Unencodable> {
        let mut list = Scratch::new();
        for item in items {
            let framed = self.expiry.encoded::<V, _>(item, |bytes| list.push_framed(bytes))?;
            framed.map_err(too_long::<V>)?;
        }
        Ok(list)
    }
}

fn too_long<V: Codec>(_: Full) -> Unencodable {
    Unencodable { codec: V::ID, what: Full::WHAT }
}

fn malformed_list<V: Codec, E: Expiry>(len: usize) -> Malformed {
    Malformed { codec: ListOf::<E::Stored<V>>::ID, len }
}

fn push_value(scratch: &mut Scratch, value: Value<'_>) -> Result<(), Full> {
    let mut chunks = value.chunks();
    chunks.try_for_each(|chunk| scratch.push(chunk))
}

/// What a list holds, element by element; the length of the rest where there is no element.
#[derive(Clone, Copy, Debug)]
pub(super) struct Elements<'h>(pub(super) Value<'h>);

impl<'h> Iterator for Elements<'h> {
    type Item = Result<Value<'h>, usize>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let len = self.0.len();
        Some(take_framed(&mut self.0).ok_or_else(|| {
            self.0 = Value::inline(&[]);
            len
        }))
    }
}

/// Iterator over the elements of a list.
#[derive(Clone, Debug)]
pub struct ListItems<'h, V, E = Never> {
    elements: Elements<'h>,
    expiry: E,
    _codec: PhantomData<fn() -> V>,
}

impl<V: Decode, E: Expiry> Iterator for ListItems<'_, V, E> {
    type Item = Result<V::Owned, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let visible = match self.elements.next()? {
                Ok(stored) => self.expiry.visible(stored),
                Err(len) => Err(malformed_list::<V, E>(len)),
            };
            match visible {
                Ok(Some(item)) => return Some(V::decode(&item)),
                Ok(None) => {}
                Err(malformed) => return Some(Err(malformed)),
            }
        }
    }
}

impl<K: Codec, V: Decode, N: Namespace> CanExpire for ListState<K, V, N> {
    type At = ListState<K, V, N, At>;
    type Sweep = Self::At;

    fn at(&self, at: At) -> Self::At {
        ListState::new(self.entries, at)
    }

    fn sweep(&self, at: At) -> Self::Sweep {
        self.at(at)
    }
}

impl<K: Codec, V: Decode, N: Namespace> Sweep for ListState<K, V, N, At> {
    fn id(&self) -> StateId {
        self.entries.id()
    }

    fn has_expired(&self, stored: Value<'_>) -> Result<bool, StateError> {
        for element in Elements(stored) {
            if self.expiry.is_over(element.map_err(malformed_list::<V, At>)?)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn sweep<A: ArenaHandle>(
        &self,
        heap: &mut Heap<A>,
        group: KeyGroup,
        key: &[u8],
    ) -> Result<u64, StateError> {
        let Some(list) = heap.get(self.id(), group, key)? else { return Ok(0) };
        let (mut kept, mut removed) = (Scratch::new(), 0);
        for stored in Elements(list) {
            let stored = stored.map_err(malformed_list::<V, At>)?;
            if self.expiry.is_over(stored)? {
                removed += 1;
                continue;
            }
            let mut element = Scratch::new();
            push_value(&mut element, stored).map_err(too_long::<V>)?;
            kept.push_framed(element.as_slice()).map_err(too_long::<V>)?;
        }
        if kept.as_slice().is_empty() {
            heap.remove(self.id(), group, key)?;
        } else if removed > 0 {
            heap.put(self.id(), group, key, kept.as_slice())?;
        }
        Ok(removed)
    }
}

use core::marker::PhantomData;

use slackwater_core::key_group::{KeyGroup, MaxParallelism, key_group_of_hash};
use slackwater_core::time::Millis;

use super::{Namespace, StateError};
use crate::arena::ArenaHandle;
use crate::codec::{Codec, CodecId, Unencodable};
use crate::heap::{Heap, StateId, StateKind, Value};

#[cfg(not(feature = "std"))]
use super::encoding::Encoding as TakesOver;
#[cfg(feature = "std")]
use super::migration::{TakesOver, register_or_take_over};

/// The entries of a state: which one it is and how its keys are stored.
pub(crate) struct Entries<K: ?Sized, N> {
    id: StateId,
    max_parallelism: MaxParallelism,
    _codecs: PhantomData<fn(&K, &N)>,
}

impl<K: Codec, N: Namespace> Entries<K, N> {
    /// Makes a state known whose values are stored as `T`, or takes over what was stored in another way.
    pub(super) fn register<T: TakesOver, A: ArenaHandle>(
        heap: &mut Heap<A>,
        name: (&str, &str),
        max_parallelism: MaxParallelism,
        now: Millis,
    ) -> Result<Self, StateError> {
        let id = register_or_take_over::<T, A>(heap, StateKind::Hash, name, N::key_id::<K>(), now)?;
        Ok(Self::new(id, max_parallelism))
    }

    /// The same for a state whose entries are kept in order, under keys that contain the stored key.
    pub(super) fn register_ordered<T: TakesOver, A: ArenaHandle>(
        heap: &mut Heap<A>,
        name: (&str, &str),
        max_parallelism: MaxParallelism,
        now: Millis,
    ) -> Result<Self, StateError> {
        let key = CodecId { width: None, ..N::key_id::<K>() };
        let id = register_or_take_over::<T, A>(heap, StateKind::Ordered, name, key, now)?;
        Ok(Self::new(id, max_parallelism))
    }

    pub(super) const fn new(id: StateId, max_parallelism: MaxParallelism) -> Self {
        Self { id, max_parallelism, _codecs: PhantomData }
    }

    /// Lends the key group and the stored key to `with`.
    #[inline]
    pub(crate) fn at<R>(
        &self,
        key: N::Key<'_, K>,
        with: impl FnOnce(KeyGroup, &[u8]) -> R,
    ) -> Result<R, Unencodable> {
        N::encoded::<K, R>(key, |hash, bytes| with(key_group_of_hash(hash, self.max_parallelism), bytes))
    }

    /// Whether all keys have one size, as the shortest way to an entry demands. Known when a program is compiled.
    #[inline]
    pub(super) fn has_keys_of_one_size() -> bool {
        N::key_id::<K>().width.is_some()
    }

    /// What `with` makes of the value of a key.
    #[inline]
    pub(crate) fn read<'h, A: ArenaHandle, R>(
        &self,
        heap: &'h Heap<A>,
        key: N::Key<'_, K>,
        with: impl FnOnce(Value<'h>) -> R,
    ) -> Result<Option<R>, StateError> {
        Ok(self.at(key, |group, key| heap.read(self.id, group, key, with))??)
    }

    #[inline]
    pub(crate) fn get<'h, A: ArenaHandle>(
        &self,
        heap: &'h Heap<A>,
        key: N::Key<'_, K>,
    ) -> Result<Option<Value<'h>>, StateError> {
        self.read(heap, key, |value| value)
    }

    pub(crate) fn put<A: ArenaHandle>(
        &self,
        heap: &mut Heap<A>,
        key: N::Key<'_, K>,
        value: &[u8],
    ) -> Result<(), StateError> {
        Ok(self.at(key, |group, key| heap.put(self.id, group, key, value))??)
    }

    pub(crate) fn remove<A: ArenaHandle>(
        &self,
        heap: &mut Heap<A>,
        key: N::Key<'_, K>,
    ) -> Result<bool, StateError> {
        Ok(self.at(key, |group, key| heap.remove(self.id, group, key))??)
    }
}

impl<K: ?Sized, N> Entries<K, N> {
    pub(crate) const fn id(&self) -> StateId {
        self.id
    }
}

impl<K: ?Sized, N> Clone for Entries<K, N> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K: ?Sized, N> Copy for Entries<K, N> {}

/// Nothing is restored without `std`, so there is nothing to take over.
#[cfg(not(feature = "std"))]
fn register_or_take_over<T: TakesOver, A: ArenaHandle>(
    heap: &mut Heap<A>,
    kind: StateKind,
    name: (&str, &str),
    key: CodecId<'static>,
    _now: Millis,
) -> Result<StateId, StateError> {
    use slackwater_core::format::segment::Distribution;
    Ok(heap.register_as((kind, Distribution::ByKey), name, key, T::ID)?)
}

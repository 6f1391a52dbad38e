use core::marker::PhantomData;

use slackwater_core::key_group::{KeyGroup, MaxParallelism, key_group_of_hash};

use super::{Namespace, StateError};
use crate::arena::ArenaHandle;
use crate::codec::{Codec, CodecId, Unencodable};
use crate::heap::{Heap, HeapError, StateId, Value};

/// The entries of a state: which one it is and how its keys are stored.
pub(crate) struct Entries<K: ?Sized, N> {
    id: StateId,
    max_parallelism: MaxParallelism,
    _codecs: PhantomData<fn(&K, &N)>,
}

impl<K: Codec, N: Namespace> Entries<K, N> {
    /// Makes a state known whose values are stored as `T`.
    #[cfg(not(feature = "std"))]
    pub(super) fn register<T: super::encoding::Encoding, A: ArenaHandle>(
        heap: &mut Heap<A>,
        (operator, name): (&str, &str),
        max_parallelism: MaxParallelism,
        _now: slackwater_core::time::Millis,
    ) -> Result<Self, StateError> {
        Ok(Self::new(heap.register(operator, name, N::key_id::<K>(), T::ID)?, max_parallelism))
    }

    pub(super) const fn new(id: StateId, max_parallelism: MaxParallelism) -> Self {
        Self { id, max_parallelism, _codecs: PhantomData }
    }

    /// Makes a state known whose entries are kept in order, under keys that contain the stored key.
    pub(crate) fn register_ordered<A: ArenaHandle>(
        heap: &mut Heap<A>,
        operator: &str,
        name: &str,
        max_parallelism: MaxParallelism,
        value: CodecId<'_>,
    ) -> Result<Self, HeapError> {
        let key = CodecId { width: None, ..N::key_id::<K>() };
        let id = heap.register_ordered(operator, name, key, value)?;
        Ok(Self::new(id, max_parallelism))
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

use slackwater_core::key_group::MaxParallelism;
use slackwater_core::time::{Millis, Now};

use super::encoding::{Bare, ReducingOf, Stamped};
use super::expiring::{CanExpire, Expiring};
use super::expiry::{At, Expiry, Never, TimeToLive};
use super::{Entries, Namespace, StateError, ValueState};
use crate::arena::ArenaHandle;
use crate::codec::{Codec, Decode};
use crate::heap::Heap;

/// One value for each key, into which others are folded (Flink: `ReducingState`), and for each namespace `N` of a
/// key.
///
/// Every method takes the key as [`Namespace::Key`]: `key` by default, `(key, namespace)` with a namespace.
pub struct ReducingState<K: ?Sized, V: Decode, N = (), E = Never> {
    values: ValueState<K, V, N, E>,
    reduce: fn(V::Owned, V::Owned) -> V::Owned,
}

handle!([K: ?Sized, V: Decode, N, E: Copy] ReducingState[K, V, N, E] values.id());

impl<K: Codec, V: Decode, N: Namespace> ReducingState<K, V, N> {
    /// As [`ValueState::register`]. `reduce` makes one value of the one that is there and one that is added; it
    /// must not matter in which order values are folded.
    ///
    /// # Errors
    /// As there.
    pub fn register<A: ArenaHandle>(
        heap: &mut Heap<A>,
        operator: &str,
        name: &str,
        max_parallelism: MaxParallelism,
        reduce: fn(V::Owned, V::Owned) -> V::Owned,
    ) -> Result<Self, StateError> {
        let entries =
            Entries::register::<ReducingOf<Bare<V>>, A>(heap, (operator, name), max_parallelism, Millis(0))?;
        Ok(Self { values: ValueState::new(entries, Never), reduce })
    }

    /// As [`ValueState::register_expiring`].
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
        reduce: fn(V::Owned, V::Owned) -> V::Owned,
    ) -> Result<Expiring<Self>, StateError> {
        let entries = Entries::register::<ReducingOf<Stamped<V>>, A>(
            heap,
            (operator, name),
            max_parallelism,
            now.wall,
        )?;
        Ok(Expiring::new(Self { values: ValueState::new(entries, Never), reduce }, ttl, now))
    }

    /// What was folded for a key; none if nothing was.
    ///
    /// # Errors
    /// As [`ValueState::get`].
    pub fn get<A: ArenaHandle>(
        &self,
        heap: &Heap<A>,
        key: N::Key<'_, K>,
    ) -> Result<Option<V::Owned>, StateError> {
        self.values.get(heap, key)
    }
}

impl<K: Codec, V: Decode, N: Namespace> ReducingState<K, V, N, At> {
    /// What was folded for a key; none if nothing was. Its life begins anew if that is so when it is read.
    ///
    /// # Errors
    /// As [`ValueState::get`] with a time.
    pub fn get<A: ArenaHandle>(
        &self,
        heap: &mut Heap<A>,
        key: N::Key<'_, K>,
    ) -> Result<Option<V::Owned>, StateError> {
        self.values.get(heap, key)
    }
}

impl<K: Codec, V: Decode, N: Namespace, E: Expiry> ReducingState<K, V, N, E> {
    /// Folds a value into that of a key; the first one is the value itself.
    ///
    /// # Errors
    /// As [`ValueState::update`].
    pub fn add<A: ArenaHandle>(
        &self,
        heap: &mut Heap<A>,
        key: N::Key<'_, K>,
        value: V::Owned,
    ) -> Result<(), StateError> {
        self.values.update(heap, key, |folded| match folded {
            Some(folded) => (self.reduce)(folded, value),
            None => value,
        })
    }

    /// Removes what was folded for a key and says whether there was something, expired or not.
    ///
    /// # Errors
    /// As [`ValueState::remove`].
    pub fn clear<A: ArenaHandle>(&self, heap: &mut Heap<A>, key: N::Key<'_, K>) -> Result<bool, StateError> {
        self.values.remove(heap, key)
    }
}

impl<K: Codec, V: Decode, N: Namespace> CanExpire for ReducingState<K, V, N> {
    type At = ReducingState<K, V, N, At>;
    type Sweep = ValueState<K, V, N, At>;

    fn at(&self, at: At) -> Self::At {
        ReducingState { values: self.values.at(at), reduce: self.reduce }
    }

    fn sweep(&self, at: At) -> Self::Sweep {
        self.values.at(at)
    }
}

use slackwater_core::key_group::MaxParallelism;
use slackwater_core::time::{Millis, Now};

use super::encoding::{AggregatingOf, Bare, Stamped};
use super::expiring::{CanExpire, Expiring};
use super::expiry::{At, Expiry, Never, TimeToLive};
use super::{Entries, Namespace, StateError, ValueState};
use crate::arena::ArenaHandle;
use crate::codec::{Codec, Decode};
use crate::heap::Heap;

/// How an accumulator takes in values, and what it comes to (Flink: `AggregateFunction`).
pub trait Aggregate: Copy {
    /// What is added.
    type Input: ?Sized;
    /// The codec of what is kept.
    type Accumulator: Decode;
    /// What it comes to.
    type Output;

    /// An accumulator that nothing was added to.
    fn create(&self) -> <Self::Accumulator as Decode>::Owned;

    /// The accumulator with one more value.
    fn add(
        &self,
        accumulator: <Self::Accumulator as Decode>::Owned,
        value: &Self::Input,
    ) -> <Self::Accumulator as Decode>::Owned;

    /// What the accumulator comes to.
    fn result(&self, accumulator: <Self::Accumulator as Decode>::Owned) -> Self::Output;
}

/// An accumulator for each key (Flink: `AggregatingState`), and for each namespace `N` of a key.
///
/// Every method takes the key as [`Namespace::Key`]: `key` by default, `(key, namespace)` with a namespace.
pub struct AggregatingState<K: ?Sized, F: Aggregate, N = (), E = Never> {
    accumulators: ValueState<K, F::Accumulator, N, E>,
    function: F,
}

handle!([K: ?Sized, F: Aggregate, N, E: Copy] AggregatingState[K, F, N, E] accumulators.id());

impl<K: Codec, F: Aggregate, N: Namespace> AggregatingState<K, F, N> {
    /// As [`ValueState::register`].
    ///
    /// # Errors
    /// As there.
    pub fn register<A: ArenaHandle>(
        heap: &mut Heap<A>,
        operator: &str,
        name: &str,
        max_parallelism: MaxParallelism,
        function: F,
    ) -> Result<Self, StateError> {
        let entries = Entries::register::<AggregatingOf<Bare<F::Accumulator>>, A>(
            heap,
            (operator, name),
            max_parallelism,
            Millis(0),
        )?;
        Ok(Self { accumulators: ValueState::new(entries, Never), function })
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
        function: F,
    ) -> Result<Expiring<Self>, StateError> {
        let entries = Entries::register::<AggregatingOf<Stamped<F::Accumulator>>, A>(
            heap,
            (operator, name),
            max_parallelism,
            now.wall,
        )?;
        Ok(Expiring::new(Self { accumulators: ValueState::new(entries, Never), function }, ttl, now))
    }

    /// What the values of a key come to; none if there was none.
    ///
    /// # Errors
    /// As [`ValueState::get`].
    pub fn get<A: ArenaHandle>(
        &self,
        heap: &Heap<A>,
        key: N::Key<'_, K>,
    ) -> Result<Option<F::Output>, StateError> {
        Ok(self.accumulators.get(heap, key)?.map(|accumulator| self.function.result(accumulator)))
    }
}

impl<K: Codec, F: Aggregate, N: Namespace> AggregatingState<K, F, N, At> {
    /// What the values of a key come to; none if there was none. Its life begins anew if that is so when it is
    /// read.
    ///
    /// # Errors
    /// As [`ValueState::get`] with a time.
    pub fn get<A: ArenaHandle>(
        &self,
        heap: &mut Heap<A>,
        key: N::Key<'_, K>,
    ) -> Result<Option<F::Output>, StateError> {
        Ok(self.accumulators.get(heap, key)?.map(|accumulator| self.function.result(accumulator)))
    }
}

impl<K: Codec, F: Aggregate, N: Namespace, E: Expiry> AggregatingState<K, F, N, E> {
    /// Adds a value to the accumulator of a key, a new one if it has none.
    ///
    /// # Errors
    /// As [`ValueState::update`].
    pub fn add<A: ArenaHandle>(
        &self,
        heap: &mut Heap<A>,
        key: N::Key<'_, K>,
        value: &F::Input,
    ) -> Result<(), StateError> {
        self.accumulators.update(heap, key, |accumulator| {
            let accumulator = accumulator.unwrap_or_else(|| self.function.create());
            self.function.add(accumulator, value)
        })
    }

    /// Removes the accumulator of a key and says whether there was one, expired or not.
    ///
    /// # Errors
    /// As [`ValueState::remove`].
    pub fn clear<A: ArenaHandle>(&self, heap: &mut Heap<A>, key: N::Key<'_, K>) -> Result<bool, StateError> {
        self.accumulators.remove(heap, key)
    }
}

impl<K: Codec, F: Aggregate, N: Namespace> CanExpire for AggregatingState<K, F, N> {
    type At = AggregatingState<K, F, N, At>;
    type Sweep = ValueState<K, F::Accumulator, N, At>;

    fn at(&self, at: At) -> Self::At {
        AggregatingState { accumulators: self.accumulators.at(at), function: self.function }
    }

    fn sweep(&self, at: At) -> Self::Sweep {
        self.accumulators.at(at)
    }
}

//! Restored states whose values are stored in another way than is wanted: rewritten when they are registered.

use std::boxed::Box;

use slackwater_core::key_group::MaxParallelism;
use slackwater_core::time::Millis;

use super::encoding::{AggregatingOf, Bare, Encoding, ListOf, ReducingOf, STAMP_ID, Stamped};
use super::error::RefusedCodec;
use super::expiry::split_stamp;
use super::list::Elements;
use super::{Entries, Namespace, StateError};
use crate::arena::ArenaHandle;
use crate::codec::{Codec, CodecId, Full, Malformed, Scratch, Unencodable};
use crate::heap::{Heap, HeapError, StateId, Value};
use crate::snapshot::StateView;

/// Gets what was stored and lends what takes its place.
pub(super) type Rewrite = Box<dyn Fn(Value<'_>, &mut dyn FnMut(&[u8])) -> Result<(), StateError>>;

/// A way of storing values that can take over from others.
pub(super) trait TakesOver: Encoding {
    /// How what was stored in another way is rewritten; none if that is not possible. What had no time was written
    /// `now`.
    fn rewrite(stored: CodecId<'_>, now: Millis) -> Option<Rewrite>;
}

impl<K: Codec, N: Namespace> Entries<K, N> {
    /// Makes a state known whose values are stored as `T`, after rewriting those of a restored one that are not.
    pub(super) fn register<T: TakesOver, A: ArenaHandle>(
        heap: &mut Heap<A>,
        (operator, name): (&str, &str),
        max_parallelism: MaxParallelism,
        now: Millis,
    ) -> Result<Self, StateError> {
        let id = match heap.register(operator, name, N::key_id::<K>(), T::ID) {
            Err(HeapError::OtherCodec { state, key: true }) => {
                let known = heap.state_view(state).ok_or(HeapError::UnknownState { state })?;
                return Err(StateError::Refused(refusal(&known, true, N::key_id::<K>())));
            }
            Err(HeapError::OtherCodec { state, key: false }) => {
                take_over::<T, A>(heap, state, now)?;
                state
            }
            id => id?,
        };
        Ok(Self::new(id, max_parallelism))
    }
}

fn take_over<T: TakesOver, A: ArenaHandle>(
    heap: &mut Heap<A>,
    state: StateId,
    now: Millis,
) -> Result<(), StateError> {
    let known = heap.state_view(state).ok_or(HeapError::UnknownState { state })?;
    let (refused, rewrite) = (refusal(&known, false, T::ID), T::rewrite(known.value, now));
    let Some(rewrite) = rewrite else { return Err(StateError::Refused(refused)) };
    match heap.rewrite_values(state, T::ID, &mut |old, new| rewrite(old, new)) {
        Ok(_) => Ok(()),
        Err(StateError::Heap(error)) => Err(error.into()),
        Err(cause) => Err(StateError::Refused(Box::new(RefusedCodec { cause: Some(cause), ..*refused }))),
    }
}

/// Names everything that somebody needs to know who has to decide what to do about it.
fn refusal(known: &StateView<'_>, of_keys: bool, wanted: CodecId<'static>) -> Box<RefusedCodec> {
    let stored = if of_keys { known.key } else { known.value };
    Box::new(RefusedCodec {
        operator: known.operator.into(),
        state: known.name.into(),
        of_keys,
        stored: (stored.name.into(), stored.version),
        wanted,
        cause: None,
    })
}

/// The codec within `outer(codec.version)`.
fn within<'s>(outer: &str, stored: CodecId<'s>) -> Option<CodecId<'s>> {
    let inner = stored.name.strip_prefix(outer)?.strip_prefix('(')?.strip_suffix(')')?;
    let (name, version) = inner.rsplit_once('.')?;
    (stored.version == 1).then_some(CodecId { name, version: version.parse().ok()?, width: None })
}

fn is_same(stored: CodecId<'_>, wanted: CodecId<'_>) -> bool {
    let has_width = stored.width.is_none() || stored.width == wanted.width;
    has_width && (stored.name, stored.version) == (wanted.name, wanted.version)
}

impl<V: Codec> TakesOver for Bare<V> {
    fn rewrite(stored: CodecId<'_>, _now: Millis) -> Option<Rewrite> {
        rewrite_bare::<V>(stored)
    }
}

fn rewrite_bare<V: Codec>(stored: CodecId<'_>) -> Option<Rewrite> {
    if is_same(stored, V::ID) {
        return Some(Box::new(|old, new| {
            new(&old.to_vec());
            Ok(())
        }));
    }
    if let Some(item) = within(STAMP_ID.name, stored) {
        let rewrite = rewrite_bare::<V>(item)?;
        return Some(Box::new(move |old, new| rewrite(split_stamp(old)?.1, new)));
    }
    let migration = V::migration(stored)?;
    Some(Box::new(move |old, new| migration(&old, new)))
}

impl<V: Codec> TakesOver for Stamped<V> {
    fn rewrite(stored: CodecId<'_>, now: Millis) -> Option<Rewrite> {
        let item = within(STAMP_ID.name, stored);
        let had_time = item.is_some();
        let rewrite = rewrite_bare::<V>(item.unwrap_or(stored))?;
        Some(Box::new(move |old, new| {
            let (stamp, item) = if had_time { split_stamp(old)? } else { (now, old) };
            rewrite(item, &mut |item| new(&[&stamp.0.to_le_bytes(), item].concat()))
        }))
    }
}

impl<T: TakesOver> TakesOver for ListOf<T> {
    fn rewrite(stored: CodecId<'_>, now: Millis) -> Option<Rewrite> {
        let rewrite = T::rewrite(within("list", stored)?, now)?;
        Some(Box::new(move |old, new| {
            let (mut list, mut pushed) = (Scratch::new(), Ok(()));
            for element in Elements(old) {
                let element = element.map_err(|len| Malformed { codec: Self::ID, len })?;
                rewrite(element, &mut |bytes| pushed = pushed.and_then(|()| list.push_framed(bytes)))?;
            }
            pushed.map_err(|_| Unencodable { codec: Self::ID, what: Full::WHAT })?;
            new(list.as_slice());
            Ok(())
        }))
    }
}

impl<T: TakesOver> TakesOver for ReducingOf<T> {
    fn rewrite(stored: CodecId<'_>, now: Millis) -> Option<Rewrite> {
        T::rewrite(within("reducing", stored)?, now)
    }
}

impl<T: TakesOver> TakesOver for AggregatingOf<T> {
    fn rewrite(stored: CodecId<'_>, now: Millis) -> Option<Rewrite> {
        T::rewrite(within("aggregating", stored)?, now)
    }
}

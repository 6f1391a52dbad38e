//! Restored states whose values are stored in another way than is wanted: rewritten when they are registered.

use std::boxed::Box;

use slackwater_core::format::segment::Distribution;
use slackwater_core::time::Millis;

use super::StateError;
use super::encoding::{
    AggregatingOf, Bare, Encoding, ListOf, MapOf, ReducingOf, STAMP_ID, Stamped, TimerMark,
};
use super::error::RefusedCodec;
use super::expiry::split_stamp;
use super::list::Elements;
use crate::arena::ArenaHandle;
use crate::codec::{Codec, CodecId, Full, Malformed, Scratch, Unencodable};
use crate::heap::{Heap, HeapError, StateId, StateKind, Value};
use crate::snapshot::StateView;

/// Gets what was stored and lends what takes its place.
pub(super) type Rewrite = Box<dyn Fn(Value<'_>, &mut dyn FnMut(&[u8])) -> Result<(), StateError>>;

/// A way of storing values that can take over from others.
pub(super) trait TakesOver: Encoding {
    /// How what was stored in another way is rewritten; none if that is not possible. What had no time was written
    /// `now`.
    fn rewrite(stored: CodecId<'_>, now: Millis) -> Option<Rewrite>;
}

/// Makes a state known whose values are stored as `T`, after rewriting those of a restored one that are not.
pub(super) fn register_or_take_over<T: TakesOver, A: ArenaHandle>(
    heap: &mut Heap<A>,
    kind: StateKind,
    name: (&str, &str),
    key: CodecId<'static>,
    now: Millis,
) -> Result<StateId, StateError> {
    match heap.register_as((kind, Distribution::ByKey), name, key, T::ID) {
        Err(HeapError::OtherCodec { state, key: true }) => {
            let known = heap.state_view(state).ok_or(HeapError::UnknownState { state })?;
            Err(StateError::Refused(refusal(&known, true, key)))
        }
        Err(HeapError::OtherCodec { state, key: false }) => {
            take_over::<T, A>(heap, state, now)?;
            Ok(state)
        }
        id => Ok(id?),
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
    (stored.version == 1).then_some(part(inner)?)
}

/// The codec that a part of a name stands for.
fn part(name_and_version: &str) -> Option<CodecId<'_>> {
    let (name, version) = name_and_version.rsplit_once('.')?;
    Some(CodecId { name, version: version.parse().ok()?, width: None })
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

/// Keys of a map are a part of the stored key, so they stay of their codec.
impl<UK: Codec, T: TakesOver> TakesOver for MapOf<UK, T> {
    fn rewrite(stored: CodecId<'_>, now: Millis) -> Option<Rewrite> {
        let parts = stored.name.strip_prefix("map(")?.strip_suffix(')')?;
        let (version, item) = parts.strip_prefix(UK::ID.name)?.strip_prefix('.')?.split_once(',')?;
        let is_same_key = version.parse() == Ok(UK::ID.version) && stored.version == 1;
        T::rewrite(part(item)?, now).filter(|_| is_same_key)
    }
}

impl TakesOver for TimerMark {
    fn rewrite(_stored: CodecId<'_>, _now: Millis) -> Option<Rewrite> {
        None
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

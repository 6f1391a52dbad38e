//! How the values of a state are stored: items as their codec writes them, with a time if they expire, framed in
//! a list. The registry names all of it, and a restored state is known by that name: it is of the same encoding, or
//! it is rewritten, or it is refused.

use core::marker::PhantomData;

use crate::codec::parts::total_width;
use crate::codec::{Codec, CodecId, Name};

/// Bytes of the time before an item that expires.
pub(super) const STAMP_LEN: usize = 8;
/// Names the time before an item that expires.
pub(super) const STAMP_ID: CodecId<'static> = CodecId::fixed("ttl", 1, 8);

/// A way of storing values.
#[doc(hidden)]
pub trait Encoding: 'static {
    /// Names it.
    const ID: CodecId<'static>;
}

/// Items as their codec writes them.
#[derive(Debug)]
pub struct Bare<V>(PhantomData<V>);

impl<V: Codec> Encoding for Bare<V> {
    const ID: CodecId<'static> = V::ID;
}

/// Items behind the time of their last writing.
#[derive(Debug)]
pub struct Stamped<V>(PhantomData<V>);

impl<V: Codec> Encoding for Stamped<V> {
    const ID: CodecId<'static> = CodecId {
        name: const { &Name::new(STAMP_ID.name, &[V::ID]) }.as_str(),
        version: 1,
        width: total_width(&[STAMP_ID, V::ID], 0),
    };
}

/// Items, each behind its length.
#[derive(Debug)]
pub(super) struct ListOf<T>(PhantomData<T>);

impl<T: Encoding> Encoding for ListOf<T> {
    const ID: CodecId<'static> = CodecId::variable(const { &Name::new("list", &[T::ID]) }.as_str(), 1);
}

/// Items of a map, whose keys `UK` writes.
#[derive(Debug)]
pub(super) struct MapOf<UK, T>(PhantomData<(UK, T)>);

impl<UK: Codec, T: Encoding> Encoding for MapOf<UK, T> {
    const ID: CodecId<'static> = CodecId::variable(const { &Name::new("map", &[UK::ID, T::ID]) }.as_str(), 1);
}

/// Nothing: a timer is all in its key.
#[derive(Debug)]
pub(super) struct TimerMark;

impl Encoding for TimerMark {
    const ID: CodecId<'static> = CodecId::fixed("timer", 1, 0);
}

/// An item that others are folded into. A state stays of its kind (rule H25), so it has a name of its own.
#[derive(Debug)]
pub(super) struct ReducingOf<T>(PhantomData<T>);

impl<T: Encoding> Encoding for ReducingOf<T> {
    const ID: CodecId<'static> =
        CodecId { name: const { &Name::new("reducing", &[T::ID]) }.as_str(), version: 1, width: T::ID.width };
}

/// An accumulator.
#[derive(Debug)]
pub(super) struct AggregatingOf<T>(PhantomData<T>);

impl<T: Encoding> Encoding for AggregatingOf<T> {
    const ID: CodecId<'static> = CodecId {
        name: const { &Name::new("aggregating", &[T::ID]) }.as_str(),
        version: 1,
        width: T::ID.width,
    };
}

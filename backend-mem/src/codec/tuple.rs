use core::marker::PhantomData;

use super::parts::{self, Framing, framing, total_width};
use super::{Codec, CodecId, Decode, Malformed, Name, Scratch, Unencodable};
use crate::heap::Value;

/// The codecs of a tuple's parts.
struct Parts<T>(PhantomData<T>);

macro_rules! tuples {
    ($(($($codec:ident $index:tt $part:ident),*))*) => {$(
        impl<$($codec: Decode),*> Parts<($($codec,)*)> {
            const IDS: &'static [CodecId<'static>] = &[$($codec::ID),*];
        }

        /// Several items as one; see the order of its parts in FORMAT.md.
        impl<$($codec: Decode),*> Codec for ($($codec,)*) {
            type Item = ($($codec::Owned,)*);

            const ID: CodecId<'static> = CodecId {
                name: const { &Name::new("", Parts::<Self>::IDS) }.as_str(),
                version: 1,
                width: total_width(Parts::<Self>::IDS, 0),
            };

            #[inline]
            fn encoded<R>(item: &Self::Item, with: impl FnOnce(&[u8]) -> R) -> Result<R, Unencodable> {
                let mut scratch = Scratch::new();
                $(parts::push::<$codec>(
                    &mut scratch,
                    $codec::borrow(&item.$index),
                    const { framing(Parts::<Self>::IDS, $index) },
                )?;)*
                Ok(with(scratch.as_slice()))
            }

            /// As Flink's tuples hash.
            fn key_group_hash(item: &Self::Item) -> i32 {
                let mut hash = 0_i32;
                $(hash = hash.wrapping_mul(31).wrapping_add($codec::key_group_hash($codec::borrow(&item.$index)));)*
                hash
            }
        }

        impl<$($codec: Decode),*> Decode for ($($codec,)*) {
            type Owned = Self::Item;

            #[inline]
            fn decode(value: &Value<'_>) -> Result<Self::Owned, Malformed> {
                let malformed = Malformed { codec: Self::ID, len: value.len() };
                let mut rest = *value;
                $(let $part: Value<'_> = {
                    const { framing(Parts::<Self>::IDS, $index) }.take(&mut rest).ok_or(malformed)?
                };)*
                if !rest.is_empty() {
                    return Err(malformed);
                }
                Ok(($($codec::decode(&$part)?,)*))
            }

            #[inline]
            fn borrow(owned: &Self::Owned) -> &Self::Item {
                owned
            }
        }
    )*};
}

tuples! {
    (A 0 a, B 1 b)
    (A 0 a, B 1 b, C 2 c)
    (A 0 a, B 1 b, C 2 c, D 3 d)
    (A 0 a, B 1 b, C 2 c, D 3 d, E 4 e)
    (A 0 a, B 1 b, C 2 c, D 3 d, E 4 e, F 5 f)
}

/// An item that may be missing: a byte that says whether it is there, then the item.
impl<C: Decode> Codec for Option<C> {
    type Item = Option<C::Owned>;

    const ID: CodecId<'static> = CodecId::variable(const { &Name::new("option", &[C::ID]) }.as_str(), 1);

    fn encoded<R>(item: &Self::Item, with: impl FnOnce(&[u8]) -> R) -> Result<R, Unencodable> {
        let Some(item) = item else { return Ok(with(&[0])) };
        let mut scratch = Scratch::new();
        scratch.push(&[1]).map_err(|_| Unencodable { codec: Self::ID, what: "" })?;
        parts::push::<C>(&mut scratch, C::borrow(item), Framing::Rest(0))?;
        Ok(with(scratch.as_slice()))
    }

    /// As `Objects.hashCode` in Java.
    fn key_group_hash(item: &Self::Item) -> i32 {
        item.as_ref().map_or(0, |item| C::key_group_hash(C::borrow(item)))
    }
}

impl<C: Decode> Decode for Option<C> {
    type Owned = Self::Item;

    fn decode(value: &Value<'_>) -> Result<Self::Owned, Malformed> {
        let mut present = [0];
        value.copy_to(&mut present);
        match (present, value.split_at_checked(1)) {
            ([0], Some((_, rest))) if rest.is_empty() => Ok(None),
            ([1], Some((_, rest))) => C::decode(&rest).map(Some),
            _ => Err(Malformed { codec: Self::ID, len: value.len() }),
        }
    }

    fn borrow(owned: &Self::Owned) -> &Self::Item {
        owned
    }
}

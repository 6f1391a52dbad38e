use core::marker::PhantomData;

use slackwater_core::key_group::{hash_of_bool, hash_of_bytes, hash_of_i32, hash_of_i64};
use zerocopy::little_endian::{F32, F64, I16, I32, I64, I128, U16, U32, U64, U128};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, TryFromBytes};

use super::{Codec, CodecId, Decode, Malformed, Migration, Unencodable};
use crate::heap::Value;

/// Data of a fixed size, stored as the bytes of [`PlainData::Wire`].
#[derive(Debug)]
pub struct Plain<T>(PhantomData<T>);

/// Data whose bytes are the same on every machine.
///
/// A structure of little-endian fields (`zerocopy::little_endian`) is its own wire form.
pub trait PlainData: Copy + 'static {
    /// What is stored: no padding, no native byte order.
    type Wire: FromBytes + IntoBytes + Immutable + Copy;

    /// Name of the encoding; changes when the layout does, or the version does.
    const ID: CodecId<'static>;

    /// The stored form.
    fn to_wire(self) -> Self::Wire;

    /// Back from the stored form; none if no value has it.
    fn from_wire(wire: Self::Wire) -> Option<Self>;

    /// As [`Codec::migration`].
    #[must_use]
    fn migration(stored: CodecId<'_>) -> Option<Migration> {
        let _none = stored;
        None
    }

    /// As [`Codec::key_group_hash`]; by default that of the bytes.
    fn key_group_hash(self) -> i32 {
        hash_of_bytes(self.to_wire().as_bytes())
    }
}

impl<T: PlainData> Codec for Plain<T> {
    type Item = T;

    const ID: CodecId<'static> = T::ID;

    #[inline]
    fn encoded<R>(item: &T, with: impl FnOnce(&[u8]) -> R) -> Result<R, Unencodable> {
        Ok(with(item.to_wire().as_bytes()))
    }

    #[inline]
    fn key_group_hash(item: &T) -> i32 {
        item.key_group_hash()
    }

    fn migration(stored: CodecId<'_>) -> Option<Migration> {
        T::migration(stored)
    }
}

impl<T: PlainData> Decode for Plain<T> {
    type Owned = T;

    #[inline]
    fn decode(value: &Value<'_>) -> Result<T, Malformed> {
        let wire = match value.as_slice() {
            Some(bytes) => T::Wire::read_from_bytes(bytes).ok(),
            None => gathered(value),
        };
        match wire.and_then(T::from_wire) {
            Some(item) => Ok(item),
            None => Err(malformed::<T>(value.len())),
        }
    }

    #[inline]
    fn borrow(owned: &T) -> &T {
        owned
    }
}

/// The stored form of a value that lies in several pieces.
#[cold]
fn gathered<W: FromZeros + IntoBytes + FromBytes>(value: &Value<'_>) -> Option<W> {
    let mut wire = W::new_zeroed();
    value.copy_to(wire.as_mut_bytes());
    (value.len() == size_of::<W>()).then_some(wire)
}

#[cold]
fn malformed<T: PlainData>(len: usize) -> Malformed {
    Malformed { codec: T::ID, len }
}

#[expect(clippy::cast_possible_truncation, reason = "numbers have few bytes")]
const fn width_of<W>() -> u16 {
    size_of::<W>() as u16
}

macro_rules! plain_numbers {
    ($($number:ty, $wire:ty, $name:literal, $hash:expr;)*) => {$(
        impl PlainData for $number {
            type Wire = $wire;

            const ID: CodecId<'static> = CodecId::fixed($name, 1, width_of::<$wire>());

            #[inline]
            fn to_wire(self) -> $wire {
                <$wire>::from(self)
            }

            #[inline]
            fn from_wire(wire: $wire) -> Option<Self> {
                Some(<$number>::from(wire))
            }

            #[inline]
            fn key_group_hash(self) -> i32 {
                ($hash)(self)
            }
        }
    )*};
}

// Java's Integer and Long; the unsigned ones hash as the signed ones of the same bits, the small ones as Integer.
plain_numbers! {
    i8, i8, "i8", |number| hash_of_i32(i32::from(number));
    i16, I16, "i16", |number| hash_of_i32(i32::from(number));
    i32, I32, "i32", hash_of_i32;
    i64, I64, "i64", hash_of_i64;
    u8, u8, "u8", |number| hash_of_i32(i32::from(number));
    u16, U16, "u16", |number| hash_of_i32(i32::from(number));
    u32, U32, "u32", |number: u32| hash_of_i32(number.cast_signed());
    u64, U64, "u64", |number: u64| hash_of_i64(number.cast_signed());
    i128, I128, "i128", |number: i128| hash_of_bytes(&number.to_le_bytes());
    u128, U128, "u128", |number: u128| hash_of_bytes(&number.to_le_bytes());
    f32, F32, "f32", |number: f32| hash_of_i32(number.to_bits().cast_signed());
    f64, F64, "f64", |number: f64| hash_of_i64(number.to_bits().cast_signed());
}

impl PlainData for bool {
    type Wire = u8;

    const ID: CodecId<'static> = CodecId::fixed("bool", 1, 1);

    fn to_wire(self) -> u8 {
        u8::from(self)
    }

    fn from_wire(wire: u8) -> Option<Self> {
        Self::try_read_from_bytes(&[wire]).ok()
    }

    fn key_group_hash(self) -> i32 {
        hash_of_bool(self)
    }
}

/// No value at all: a set is a state of keys alone.
impl PlainData for () {
    type Wire = [u8; 0];

    const ID: CodecId<'static> = CodecId::fixed("unit", 1, 0);

    fn to_wire(self) -> [u8; 0] {
        []
    }

    fn from_wire(_: [u8; 0]) -> Option<Self> {
        Some(())
    }
}

use core::marker::PhantomData;

use postcard::ser_flavors::Flavor;
use serde::Serialize;
use serde::de::DeserializeOwned;
use slackwater_core::key_group::hash_of_bytes;

use super::{Codec, CodecId, Decode, Full, Malformed, Migration, Scratch, Unencodable};
use crate::heap::Value;

#[cfg(test)]
mod tests;

/// Any serde type, in the encoding of postcard.
///
/// Equal items must give equal bytes: a hash map, whose order is by chance, has no place in it. Without `std`,
/// an item may have 256 bytes.
#[derive(Debug)]
pub struct Serde<T>(PhantomData<T>);

/// A type with an encoding that serde makes.
pub trait SerdeData: Serialize + DeserializeOwned + 'static {
    /// Name of the encoding.
    const NAME: &'static str;
    /// Its version: another one whenever a field or a variant is added, removed, moved or changed, since what
    /// is stored does not say what it is.
    const VERSION: u16;

    /// As [`Codec::migration`].
    #[must_use]
    fn migration(stored: CodecId<'_>) -> Option<Migration> {
        let _none = stored;
        None
    }
}

impl<T: SerdeData> Codec for Serde<T> {
    type Item = T;

    const ID: CodecId<'static> = CodecId::variable(T::NAME, T::VERSION);

    fn encoded<R>(item: &T, with: impl FnOnce(&[u8]) -> R) -> Result<R, Unencodable> {
        let mut scratch = Scratch::new();
        match postcard::serialize_with_flavor(item, Output(&mut scratch)) {
            Ok(()) => Ok(with(scratch.as_slice())),
            Err(error) => Err(Unencodable { codec: Self::ID, what: what(error) }),
        }
    }

    /// That of the bytes: such a type has none in Java.
    fn key_group_hash(item: &T) -> i32 {
        Self::encoded(item, hash_of_bytes).unwrap_or(0)
    }

    fn migration(stored: CodecId<'_>) -> Option<Migration> {
        T::migration(stored)
    }
}

impl<T: SerdeData> Decode for Serde<T> {
    type Owned = T;

    fn decode(value: &Value<'_>) -> Result<T, Malformed> {
        let malformed = Malformed { codec: Self::ID, len: value.len() };
        let mut scratch = Scratch::new();
        let bytes = match value.as_slice() {
            Some(bytes) => bytes,
            None => {
                value.chunks().try_for_each(|chunk| scratch.push(chunk)).map_err(|_| malformed)?;
                scratch.as_slice()
            }
        };
        match postcard::take_from_bytes(bytes) {
            Ok((item, [])) => Ok(item),
            Ok(_) | Err(_) => Err(malformed),
        }
    }

    fn borrow(owned: &T) -> &T {
        owned
    }
}

fn what(error: postcard::Error) -> &'static str {
    if error == postcard::Error::SerializeBufferFull {
        Full::WHAT
    } else if error == postcard::Error::SerializeSeqLengthUnknown {
        "a sequence in it does not know its length"
    } else {
        "its implementation of Serialize refuses"
    }
}

struct Output<'s>(&'s mut Scratch);

impl Flavor for Output<'_> {
    type Output = ();

    fn try_push(&mut self, byte: u8) -> postcard::Result<()> {
        self.try_extend(&[byte])
    }

    fn try_extend(&mut self, bytes: &[u8]) -> postcard::Result<()> {
        self.0.push(bytes).map_err(|_| postcard::Error::SerializeBufferFull)
    }

    fn finalize(self) -> postcard::Result<()> {
        Ok(())
    }
}

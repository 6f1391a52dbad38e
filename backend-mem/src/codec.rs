//! How typed keys and values become bytes and come back.

use core::fmt;

use crate::heap::Value;
use crate::state::StateError;

mod bytes;
mod name;
pub(crate) mod parts;
mod plain;
mod scratch;
#[cfg(feature = "serde")]
mod serialized;
#[cfg(test)]
mod tests;
mod tuple;
mod varint;

pub use bytes::{Bytes, Utf8};
pub use plain::{Plain, PlainData};
#[cfg(feature = "serde")]
pub use serialized::{Serde, SerdeData};

pub(crate) use name::Name;
pub(crate) use scratch::{Full, Scratch};

/// Names the way a state's keys or values are encoded; goes into each snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CodecId<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its version.
    pub version: u16,
    /// How many bytes every item takes, if all take the same.
    pub width: Option<u16>,
}

impl fmt::Display for CodecId<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} version {}", self.name, self.version)
    }
}

impl<'a> CodecId<'a> {
    /// A codec whose items take the same number of bytes each.
    #[must_use]
    pub const fn fixed(name: &'a str, version: u16, width: u16) -> Self {
        Self { name, version, width: Some(width) }
    }

    /// A codec whose items take as many bytes as they need.
    #[must_use]
    pub const fn variable(name: &'a str, version: u16) -> Self {
        Self { name, version, width: None }
    }
}

/// Turns items into bytes. Equal items give equal bytes.
pub trait Codec: 'static {
    /// What is encoded.
    type Item: ?Sized;

    /// Names the encoding.
    const ID: CodecId<'static>;

    /// Lends the item's bytes to `with`.
    ///
    /// # Errors
    /// The item has no encoding; `with` was not called.
    fn encoded<R>(item: &Self::Item, with: impl FnOnce(&[u8]) -> R) -> Result<R, Unencodable>;

    /// The hash that picks the item's key group: `hashCode()` of the same value in Java, where it has one.
    fn key_group_hash(item: &Self::Item) -> i32;

    /// How values of another codec, an older version of this one for example, become values of this one; none if
    /// they cannot. A restored state whose values are of another codec is rewritten by it when it is registered, all
    /// of it or not at all. `stored` has no width where it is a part of another codec's name.
    ///
    /// Only values are rewritten. Other bytes of a key would belong elsewhere, so keys stay of their codec.
    #[must_use]
    fn migration(stored: CodecId<'_>) -> Option<Migration> {
        let _none = stored;
        None
    }
}

/// Lends what takes the place of a value of another codec; [`migrate`] does it for two codecs.
pub type Migration = fn(stored: &Value<'_>, new: &mut dyn FnMut(&[u8])) -> Result<(), StateError>;

/// Decodes a value, converts it, and lends the encoding of what it became.
///
/// # Errors
/// The value is not what `Old` writes, or `New` cannot encode what it became.
pub fn migrate<Old: Decode, New: Decode>(
    stored: &Value<'_>,
    new: &mut dyn FnMut(&[u8]),
    convert: impl FnOnce(Old::Owned) -> New::Owned,
) -> Result<(), StateError> {
    let converted = convert(Old::decode(stored)?);
    Ok(New::encoded(New::borrow(&converted), new)?)
}

/// Turns bytes back into items.
pub trait Decode: Codec {
    /// The item, owned.
    type Owned;

    /// Decodes a value that the heap holds.
    ///
    /// # Errors
    /// The bytes are not what the codec writes.
    fn decode(value: &Value<'_>) -> Result<Self::Owned, Malformed>;

    /// The item, lent.
    fn borrow(owned: &Self::Owned) -> &Self::Item;
}

/// An item has no encoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unencodable {
    /// The codec.
    pub codec: CodecId<'static>,
    /// What is wrong with the item.
    pub what: &'static str,
}

impl fmt::Display for Unencodable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "codec {} cannot encode an item: {}", self.codec, self.what)
    }
}

impl core::error::Error for Unencodable {}

/// Bytes in the heap are not what the codec writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed {
    /// The codec.
    pub codec: CodecId<'static>,
    /// How many bytes there are.
    pub len: usize,
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} bytes of state are not what codec {} writes; register the codec that wrote them",
            self.len, self.codec
        )
    }
}

impl core::error::Error for Malformed {}

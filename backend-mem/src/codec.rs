//! How typed keys and values become bytes and come back.

use core::fmt;

use crate::heap::Value;

mod bytes;
mod name;
pub(crate) mod parts;
mod plain;
mod scratch;
#[cfg(test)]
mod tests;
mod tuple;
mod varint;

pub use bytes::{Bytes, Utf8};
pub use plain::{Plain, PlainData};

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
        let CodecId { name, version, .. } = self.codec;
        write!(f, "codec {name} version {version} cannot encode an item: {}", self.what)
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
        let CodecId { name, version, .. } = self.codec;
        write!(
            f,
            "{} bytes of state are not what codec {name} version {version} writes; register the codec \
            that wrote them",
            self.len
        )
    }
}

impl core::error::Error for Malformed {}

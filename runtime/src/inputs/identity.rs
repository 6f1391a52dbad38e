//! How a checkpoint recognises an input: its length and digests of its head and tail.

use super::{InputError, Reader};

/// A 64-bit digest of a window of an input (FNV-1a): finds accidents, not forgeries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Digest(pub u64);

/// What a checkpoint remembers of an input as a whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// Length in bytes.
    pub len: u64,
    /// Digest of the first [`Digest::WINDOW`] bytes, or of all if it is shorter.
    pub head: Digest,
    /// Digest of the last [`Digest::WINDOW`] bytes, or of all if it is shorter.
    pub tail: Digest,
}

impl Default for Digest {
    fn default() -> Self {
        Self::EMPTY
    }
}

impl Digest {
    /// The most bytes a digest covers.
    pub const WINDOW: u64 = 64 * 1024;
    /// The digest of no bytes.
    pub const EMPTY: Self = Self(0xcbf2_9ce4_8422_2325);

    /// The digest of these bytes.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        Self(bytes.iter().fold(Self::EMPTY.0, step))
    }

    /// The digest of the bytes from `from` to `to` of an input; work is bounded by their distance.
    ///
    /// # Errors
    /// As [`Reader::read_range`].
    pub fn of_range(reader: &Reader, from: u64, to: u64) -> Result<Self, InputError> {
        Ok(Self::of(&reader.read_range(from, to)?))
    }
}

impl Identity {
    /// The identity of the first `len` bytes of an input.
    ///
    /// # Errors
    /// As [`Digest::of_range`].
    pub fn of(reader: &Reader, len: u64) -> Result<Self, InputError> {
        let head = Digest::of_range(reader, 0, len.min(Digest::WINDOW))?;
        let tail = Digest::of_range(reader, len.saturating_sub(Digest::WINDOW), len)?;
        Ok(Self { len, head, tail })
    }
}

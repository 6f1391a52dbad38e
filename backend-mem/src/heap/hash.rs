//! The hash that places keys in pages: 64 bits, seeded, the same on every machine, frozen.
//!
//! Sixteen bytes at a time are mixed by a multiplication to 128 bits, whose halves are folded together. Both
//! factors depend on all that went before, and so on the seed: whoever does not know it cannot make one of
//! them zero, and with that the mixing linear and collisions at will. The test vectors are part of the format:
//! another implementation must give the same numbers. It is not the hash that picks a key group.

use slackwater_core::format::page::Content;

const A: u64 = 0x9e37_79b9_7f4a_7c15;
const B: u64 = 0xd1b5_4a32_d192_ed03;
const C: u64 = 0x8ebc_6af0_9c88_c6e3;

/// The hash of a key.
#[must_use]
#[inline]
pub fn hash_key(seed: u64, key: &[u8]) -> u64 {
    hash_from(start(seed, key.len()), key)
}

/// The state before the first byte of a key of that length.
#[inline]
const fn start(seed: u64, len: usize) -> u64 {
    fold(seed ^ A, len as u64 ^ B)
}

#[inline]
fn hash_from(start: u64, key: &[u8]) -> u64 {
    let (mut state, mut rest) = (start, key);
    while let Some((block, behind)) = rest.split_first_chunk::<16>() {
        if behind.is_empty() {
            break;
        }
        let (low, high) = halves(block);
        state = mix(state, low, high ^ C);
        rest = behind;
    }
    let (low, high) = key_ends(rest);
    fold(mix(state, low, high ^ B) ^ A, C)
}

/// Takes sixteen bytes into the state.
#[inline]
fn mix(state: u64, low: u64, high: u64) -> u64 {
    fold(low ^ state, high ^ state.rotate_left(23))
}

/// 0 to 16 bytes as two numbers that overlap where there are fewer than 16: with the length they say all of the bytes. Of
/// longer strings they say only the ends.
#[must_use]
#[inline]
pub fn key_ends(bytes: &[u8]) -> (u64, u64) {
    if let (Some(first), Some(last)) = (bytes.first_chunk::<8>(), bytes.last_chunk::<8>()) {
        return (u64::from_le_bytes(*first), u64::from_le_bytes(*last));
    }
    if let (Some(first), Some(last)) = (bytes.first_chunk::<4>(), bytes.last_chunk::<4>()) {
        return (u64::from(u32::from_le_bytes(*first)), u64::from(u32::from_le_bytes(*last)));
    }
    match *bytes {
        [] => (0, 0),
        [one] => (u64::from(one), 0),
        [one, two] => (u64::from(one), u64::from(two)),
        [one, two, three, ..] => (u64::from(one), u64::from(two) | u64::from(three) << 8),
    }
}

/// Whether two byte strings are equal; without a call for the short ones.
#[inline]
pub(super) fn same(one: &[u8], other: &[u8]) -> bool {
    if one.len() != other.len() {
        return false;
    }
    if let (Ok(one), Ok(other)) = (<&[u8; 8]>::try_from(one), <&[u8; 8]>::try_from(other)) {
        return one == other; // The most usual width takes one comparison.
    }
    if other.len() <= 16 { key_ends(one) == key_ends(other) } else { one == other }
}

#[inline]
fn halves(block: &[u8; 16]) -> (u64, u64) {
    let number = u128::from_le_bytes(*block);
    split(number)
}

/// Both halves of the product, and both factors so that a factor of zero does not swallow the other.
#[inline]
const fn fold(left: u64, right: u64) -> u64 {
    let (low, high) = split(left as u128 * right as u128);
    low ^ high ^ left ^ right.rotate_left(32)
}

#[inline]
#[expect(clippy::cast_possible_truncation, reason = "the lower half")]
const fn split(number: u128) -> (u64, u64) {
    (number as u64, (number >> 64) as u64)
}

/// Keys up to this length have their start at hand.
const SHORT_KEY_LEN_MAX: usize = 16;

const fn starts(seed: u64) -> [u64; SHORT_KEY_LEN_MAX + 1] {
    let mut starts = [0; SHORT_KEY_LEN_MAX + 1];
    let mut len = 0;
    while len <= SHORT_KEY_LEN_MAX {
        starts[len] = start(seed, len);
        len += 1;
    }
    starts
}

/// The hash of one heap.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hasher {
    seed: u64,
    /// The states that short keys start from, by their length.
    starts: [u64; SHORT_KEY_LEN_MAX + 1],
    /// Lets tests make hashes alike.
    #[cfg(test)]
    pub(crate) mask: u64,
}

impl Hasher {
    pub(crate) const fn new(seed: u64) -> Self {
        Self {
            seed,
            starts: starts(seed),
            #[cfg(test)]
            mask: u64::MAX,
        }
    }

    #[inline]
    pub(crate) fn of(&self, key: &[u8]) -> u64 {
        let hash = match self.starts.get(key.len()) {
            Some(start) => hash_from(*start, key),
            None => hash_key(self.seed, key),
        };
        #[cfg(test)]
        let hash = hash & self.mask;
        hash
    }

    /// The hash of a key as it stands in a record.
    #[inline]
    pub(crate) fn of_content(&self, key: &Content<'_>) -> u64 {
        match key {
            Content::Inline(bytes) => self.of(bytes),
            Content::Overflow(reference) => reference.digest.get(),
        }
    }
}

#[cfg(test)]
mod tests;

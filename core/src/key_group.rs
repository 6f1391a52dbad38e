//! Key groups: which subtask owns which keys, the same answer as Flink gives (`KeyGroupRangeAssignment`).
//!
//! A key's hash picks one of `max_parallelism` key groups for good; each subtask owns a contiguous range of
//! them. Only the ranges move when a job is restored with another parallelism.
//!
//! Every function here is total, allocates nothing and takes constant time, but for the hashes of strings
//! and bytes, which take one step per unit.

#![deny(clippy::arithmetic_side_effects)]

use core::fmt;
use core::num::{NonZeroU16, NonZeroU32};

mod jvm_hash;
#[cfg(test)]
#[expect(clippy::arithmetic_side_effects, reason = "an overflow fails the test")]
mod tests;

pub use jvm_hash::{hash_of_bool, hash_of_bytes, hash_of_i32, hash_of_i64, hash_of_str};

/// The largest number of key groups, and of subtasks of one operator (rule K9).
const PARALLELISM_MAX: u16 = 1 << 15;

/// One key group, counted from zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyGroup(pub u16);

impl KeyGroup {
    /// Not a key group: stands in the place of one for state that is not kept by key. No job has so many.
    pub const NONE: Self = Self(u16::MAX);
}

impl fmt::Display for KeyGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// The number of key groups of an operator: 1 to 32768 (rule K9). Fixed for the life of its state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MaxParallelism(NonZeroU16);

impl MaxParallelism {
    /// The largest one there is.
    pub const MAX: Self = Self(NonZeroU16::new(PARALLELISM_MAX).unwrap());

    /// Checks `value`.
    ///
    /// # Errors
    /// `value` is not within 1 and 32768.
    pub fn new(value: u32) -> Result<Self, InvalidParallelism> {
        checked(value, PARALLELISM_MAX)
            .map(Self)
            .ok_or(InvalidParallelism::MaxParallelism { max_parallelism: value })
    }

    /// The number.
    #[must_use]
    pub const fn get(self) -> u16 {
        self.0.get()
    }

    /// Every key group there is, as one range.
    #[must_use]
    pub const fn all_key_groups(self) -> KeyGroupRange {
        KeyGroupRange { first: KeyGroup(0), last: KeyGroup(self.0.get().wrapping_sub(1)) }
    }
}

impl fmt::Display for MaxParallelism {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// Contiguous key groups, both ends included. Holds nothing if `first` lies behind `last`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct KeyGroupRange {
    /// The lowest one.
    pub first: KeyGroup,
    /// The highest one.
    pub last: KeyGroup,
}

impl KeyGroupRange {
    /// Whether `group` lies in the range.
    #[must_use]
    pub const fn contains(self, group: KeyGroup) -> bool {
        self.first.0 <= group.0 && group.0 <= self.last.0
    }

    /// How many key groups there are.
    #[must_use]
    pub fn len(self) -> usize {
        usize::from(self.last.0).wrapping_add(1).saturating_sub(usize::from(self.first.0))
    }

    /// Whether there are none.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.first.0 > self.last.0
    }

    /// The key groups in ascending order.
    pub fn iter(self) -> impl DoubleEndedIterator<Item = KeyGroup> + ExactSizeIterator + Clone {
        (self.first.0..=self.last.0).map(KeyGroup)
    }

    /// What lies in both ranges; none if that is nothing.
    #[must_use]
    pub fn intersect(self, other: Self) -> Option<Self> {
        let both = Self { first: self.first.max(other.first), last: self.last.min(other.last) };
        (!both.is_empty()).then_some(both)
    }
}

impl fmt::Display for KeyGroupRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.first, self.last)
    }
}

/// The key group of a key whose JVM hash is `hash` (rule K1).
#[must_use]
#[inline]
pub fn key_group_of_hash(hash: i32, max_parallelism: MaxParallelism) -> KeyGroup {
    let groups = NonZeroU32::from(max_parallelism.0);
    // Mostly a power of two, and a division takes longer than all the rest.
    let mask = groups.get().wrapping_sub(1);
    let group = if groups.get() & mask == 0 {
        // The absolute value of the smallest number, which is taken for 0, has none of these bits.
        murmur_signed(hash).unsigned_abs() & mask
    } else {
        murmur(hash) % groups
    };
    narrow(group).map_or(KeyGroup(0), KeyGroup)
}

/// The key groups that subtask `index` of `parallelism` owns (rule K6).
///
/// # Errors
/// `parallelism` is not within 1 and `max_parallelism`, or `index` is not below `parallelism`.
pub fn range_of_subtask(
    max_parallelism: MaxParallelism,
    parallelism: u32,
    index: u32,
) -> Result<KeyGroupRange, InvalidParallelism> {
    let divisor = NonZeroU32::from(checked_parallelism(parallelism, max_parallelism)?);
    if index >= parallelism {
        return Err(InvalidParallelism::Subtask { index, parallelism });
    }
    // Both factors are at most 2^15, so nothing wraps; the quotients lie below `max_parallelism`.
    let groups = u32::from(max_parallelism.get());
    let start = index.wrapping_mul(groups).wrapping_add(parallelism.wrapping_sub(1)) / divisor;
    let end = index.wrapping_add(1).wrapping_mul(groups).wrapping_sub(1) / divisor;
    match (narrow(start), narrow(end)) {
        (Some(first), Some(last)) => Ok(KeyGroupRange { first: KeyGroup(first), last: KeyGroup(last) }),
        _ => Err(InvalidParallelism::Subtask { index, parallelism }),
    }
}

/// The subtask of `parallelism` that owns `group` (rule K7).
///
/// # Errors
/// `parallelism` is not within 1 and `max_parallelism`, or `group` is not below `max_parallelism`.
pub fn subtask_of_key_group(
    max_parallelism: MaxParallelism,
    parallelism: u32,
    group: KeyGroup,
) -> Result<u32, InvalidParallelism> {
    checked_parallelism(parallelism, max_parallelism)?;
    if group.0 >= max_parallelism.get() {
        return Err(InvalidParallelism::KeyGroup { group, max_parallelism });
    }
    Ok(u32::from(group.0).wrapping_mul(parallelism) / NonZeroU32::from(max_parallelism.0))
}

/// The maximum parallelism of an operator that names none (rule K8): half as much again, as a power of
/// two, at least 128.
///
/// # Errors
/// `parallelism` is not within 1 and 32768.
pub fn default_max_parallelism(parallelism: u32) -> Result<MaxParallelism, InvalidParallelism> {
    let parallelism = u32::from(checked_parallelism(parallelism, MaxParallelism::MAX)?.get());
    let wanted = parallelism.wrapping_add(parallelism >> 1).next_power_of_two();
    MaxParallelism::new(wanted.clamp(128, u32::from(PARALLELISM_MAX)))
}

/// A number of subtasks, of key groups, or an index below one of them is out of bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InvalidParallelism {
    /// Not within 1 and 32768.
    MaxParallelism {
        /// The value given.
        max_parallelism: u32,
    },
    /// Not within 1 and the maximum parallelism.
    Parallelism {
        /// The value given.
        parallelism: u32,
        /// The maximum parallelism.
        max_parallelism: MaxParallelism,
    },
    /// No such subtask.
    Subtask {
        /// The value given.
        index: u32,
        /// The number of subtasks.
        parallelism: u32,
    },
    /// No such key group.
    KeyGroup {
        /// The value given.
        group: KeyGroup,
        /// The number of key groups.
        max_parallelism: MaxParallelism,
    },
}

impl fmt::Display for InvalidParallelism {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MaxParallelism { max_parallelism } => {
                write!(f, "maximum parallelism {max_parallelism} is not within 1 and {PARALLELISM_MAX}")
            }
            Self::Parallelism { parallelism, max_parallelism } => {
                write!(f, "parallelism {parallelism} is not within 1 and the maximum {max_parallelism}")
            }
            Self::Subtask { index, parallelism } => {
                write!(f, "subtask {index} is not below the parallelism {parallelism}")
            }
            Self::KeyGroup { group, max_parallelism } => {
                write!(f, "key group {group} is not below the maximum parallelism {max_parallelism}")
            }
        }
    }
}

impl core::error::Error for InvalidParallelism {}

fn checked_parallelism(
    parallelism: u32,
    max_parallelism: MaxParallelism,
) -> Result<NonZeroU16, InvalidParallelism> {
    checked(parallelism, max_parallelism.get())
        .ok_or(InvalidParallelism::Parallelism { parallelism, max_parallelism })
}

fn checked(value: u32, max: u16) -> Option<NonZeroU16> {
    narrow(value).filter(|value| *value <= max).and_then(NonZeroU16::new)
}

fn narrow(value: u32) -> Option<u16> {
    u16::try_from(value).ok()
}

/// Flink's `MathUtils.murmurHash` (rule K2): `MurmurHash3` of one word, made non-negative.
#[inline]
const fn murmur(code: i32) -> u32 {
    let mixed = murmur_signed(code);
    if mixed == i32::MIN { 0 } else { mixed.unsigned_abs() }
}

#[inline]
const fn murmur_signed(code: i32) -> i32 {
    let code = code.cast_unsigned().wrapping_mul(0xcc9e_2d51).rotate_left(15).wrapping_mul(0x1b87_3593);
    let code = code.rotate_left(13).wrapping_mul(5).wrapping_add(0xe654_6b64) ^ 4;
    mix(code).cast_signed()
}

/// The finaliser of `MurmurHash3` (rule K3).
const fn mix(code: u32) -> u32 {
    let code = (code ^ (code >> 16)).wrapping_mul(0x85eb_ca6b);
    let code = (code ^ (code >> 13)).wrapping_mul(0xc2b2_ae35);
    code ^ (code >> 16)
}

//! How long entries live.

use core::fmt;

use slackwater_core::time::Millis;

use super::encoding::{Bare, Encoding, STAMP_ID, STAMP_LEN, Stamped};
use crate::codec::parts::{framing, push};
use crate::codec::{Codec, Full, Malformed, Scratch, Unencodable};
use crate::heap::Value;

/// How long an entry lives since it was last written, by the wall clock (Flink: `StateTtlConfig`).
///
/// An entry written at `t` has expired at `t + duration_ms` and later. Time counts while no program runs: what
/// expired meanwhile is not there after a restore. The clock may jump: a handle goes by the latest time it was
/// told, so a clock set back neither brings an entry back nor makes one expire early; it lives longer
/// instead, until the clock has caught up. That memory is the handle's; see [`Expiring::at`](super::Expiring::at).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeToLive {
    /// How long.
    pub duration_ms: u64,
    /// What prolongs a life.
    pub update: TtlUpdate,
    /// Whether what has expired can still be seen.
    pub visibility: TtlVisibility,
}

/// What starts the life of an entry anew.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TtlUpdate {
    /// Writing it.
    #[default]
    OnCreateAndWrite,
    /// Reading it, too. A read may fail, then, where a write may.
    OnReadAndWrite,
}

/// Whether an entry that has expired can be seen before it was cleaned up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TtlVisibility {
    /// It cannot.
    #[default]
    NeverReturnExpired,
    /// It can.
    ReturnExpiredIfNotCleanedUp,
}

impl TimeToLive {
    /// A life of so many milliseconds since the last write; what has expired is not seen.
    #[must_use]
    pub const fn new(duration_ms: u64) -> Self {
        Self {
            duration_ms,
            update: TtlUpdate::OnCreateAndWrite,
            visibility: TtlVisibility::NeverReturnExpired,
        }
    }
}

/// Whether entries expire: [`Never`], or by the time of [`At`].
pub trait Expiry: Copy + fmt::Debug {
    /// How an item is stored.
    #[doc(hidden)]
    type Stored<V: Codec>: Encoding;

    /// Lends the stored form of an item that is written now to `with`.
    #[doc(hidden)]
    fn encoded<V: Codec, R>(self, item: &V::Item, with: impl FnOnce(&[u8]) -> R) -> Result<R, Unencodable>;

    /// The item's bytes in what is stored; none if it cannot be seen any more.
    #[doc(hidden)]
    fn visible(self, stored: Value<'_>) -> Result<Option<Value<'_>>, Malformed>;
}

/// Entries live until they are removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Never;

impl Expiry for Never {
    type Stored<V: Codec> = Bare<V>;

    #[inline]
    fn encoded<V: Codec, R>(self, item: &V::Item, with: impl FnOnce(&[u8]) -> R) -> Result<R, Unencodable> {
        V::encoded(item, with)
    }

    #[inline]
    fn visible(self, stored: Value<'_>) -> Result<Option<Value<'_>>, Malformed> {
        Ok(Some(stored))
    }
}

/// Entries live as long as a [`TimeToLive`] says; this is the time. [`Expiring::at`](super::Expiring::at) makes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct At {
    pub(super) now: Millis,
    pub(super) ttl: TimeToLive,
}

impl At {
    /// The time as it stands before an item.
    pub(super) fn stamp(self) -> [u8; STAMP_LEN] {
        self.now.0.to_le_bytes()
    }

    pub(super) fn has_expired(self, stamp: Millis) -> bool {
        stamp.after(Millis(self.ttl.duration_ms)) <= self.now
    }

    /// Whether what is stored has expired, seen or not.
    pub(super) fn is_over(self, stored: Value<'_>) -> Result<bool, Malformed> {
        Ok(self.has_expired(split_stamp(stored)?.0))
    }

    /// Whether reading what is stored must write the time anew.
    pub(super) fn renews(self, stored: Value<'_>) -> Result<bool, Malformed> {
        let (stamp, _) = split_stamp(stored)?;
        Ok(self.ttl.update == TtlUpdate::OnReadAndWrite && stamp < self.now && !self.has_expired(stamp))
    }
}

/// The time before an item, and the item.
pub(super) fn split_stamp(stored: Value<'_>) -> Result<(Millis, Value<'_>), Malformed> {
    let malformed = Malformed { codec: STAMP_ID, len: stored.len() };
    let (stamp, item) = stored.split_at_checked(STAMP_LEN).ok_or(malformed)?;
    let mut bytes = [0; STAMP_LEN];
    stamp.copy_to(&mut bytes);
    Ok((Millis(u64::from_le_bytes(bytes)), item))
}

impl Expiry for At {
    type Stored<V: Codec> = Stamped<V>;

    fn encoded<V: Codec, R>(self, item: &V::Item, with: impl FnOnce(&[u8]) -> R) -> Result<R, Unencodable> {
        let mut scratch = Scratch::new();
        scratch.push(&self.stamp()).map_err(|_| Unencodable { codec: V::ID, what: Full::WHAT })?;
        push::<V>(&mut scratch, item, const { framing(&[V::ID], 0) })?;
        Ok(with(scratch.as_slice()))
    }

    fn visible(self, stored: Value<'_>) -> Result<Option<Value<'_>>, Malformed> {
        let (stamp, item) = split_stamp(stored)?;
        let seen = self.ttl.visibility == TtlVisibility::ReturnExpiredIfNotCleanedUp;
        Ok((seen || !self.has_expired(stamp)).then_some(item))
    }
}

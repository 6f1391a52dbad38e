use core::ops::Bound;

use slackwater_core::key_group::{KeyGroup, MaxParallelism};
use slackwater_core::time::Millis;

use super::encoding::{Encoding, TimerMark};
use super::{DecodeNamespace, Entries, Namespace, StateError};
use crate::arena::ArenaHandle;
use crate::codec::{Codec, Decode, Full, Malformed, Scratch, Unencodable};
use crate::heap::{Heap, HeapError, StateId, Value};

mod minima;

pub use minima::GroupMinimum;

/// Bytes of a timestamp.
const TIMESTAMP_LEN: usize = size_of::<i64>();

#[cfg(feature = "std")]
type DefaultSlots = std::vec::Vec<GroupMinimum>;
#[cfg(not(feature = "std"))]
type DefaultSlots = &'static mut [GroupMinimum];

/// Timers of keys, and of namespaces `N` of keys, in the order of their times (Flink: the queue of a timer
/// service). A timer is a time, a key and a namespace: registered again it is still one.
///
/// Every method takes the key as [`Namespace::Key`]: `key` by default, `(key, namespace)` with a namespace. Without
/// `std`, key, namespace and time together may have 256 bytes.
///
/// The handle knows the earliest timer of each key group of one heap, and finds the earliest of all in a few steps. It
/// looks through the key groups anew when the heap has not as many timers as it knows of, as after a restore: a state of
/// timers has one handle.
pub struct Timers<K: ?Sized, N = (), B = DefaultSlots> {
    entries: Entries<K, N>,
    /// The earliest of each key group.
    minima: B,
    /// The first key group of the heap.
    first_group: u16,
    /// How many timers it knows of.
    count: u64,
}

/// A timer that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timer<T> {
    /// Its time.
    pub timestamp: i64,
    /// Its key, or its key and its namespace.
    pub key: T,
}

#[cfg(feature = "std")]
impl<K: Codec, N: Namespace> Timers<K, N> {
    /// As [`ValueState::register`](super::ValueState::register). Looks through the key groups.
    ///
    /// # Errors
    /// As there.
    pub fn register<A: ArenaHandle>(
        heap: &mut Heap<A>,
        operator: &str,
        name: &str,
        max_parallelism: MaxParallelism,
    ) -> Result<Self, StateError> {
        let slots = minima::slots_for(heap.options().key_groups.len());
        let slots = std::vec![GroupMinimum::default(); slots];
        Self::register_in(heap, operator, name, max_parallelism, slots)
    }
}

impl<K: Codec, N: Namespace, B: AsRef<[GroupMinimum]> + AsMut<[GroupMinimum]>> Timers<K, N, B> {
    /// The same, with the caller's memory for the earliest timers of the key groups: a slot for each of the heap's key
    /// groups, rounded up to a power of two, and no more.
    ///
    /// # Errors
    /// As [`Heap::register_ordered`]; `InvalidOptions` for another number of slots.
    pub fn register_in<A: ArenaHandle>(
        heap: &mut Heap<A>,
        operator: &str,
        name: &str,
        max_parallelism: MaxParallelism,
        slots: B,
    ) -> Result<Self, StateError> {
        let groups = heap.options().key_groups;
        if slots.as_ref().len() != minima::slots_for(groups.len()) {
            let what = "timers need a slot for each key group, rounded up to a power of two";
            return Err(HeapError::InvalidOptions { what }.into());
        }
        let entries =
            Entries::register_ordered::<TimerMark, A>(heap, (operator, name), max_parallelism, Millis(0))?;
        let mut timers = Self { entries, minima: slots, first_group: groups.first.0, count: 0 };
        timers.look_through(heap)?;
        Ok(timers)
    }

    /// The state's id in its heap.
    pub const fn id(&self) -> StateId {
        self.entries.id()
    }

    /// Adds a timer and says whether it was not there.
    ///
    /// # Errors
    /// As [`Heap::ordered_put`], or what cannot be encoded.
    pub fn add<A: ArenaHandle>(
        &mut self,
        heap: &mut Heap<A>,
        timestamp: i64,
        key: N::Key<'_, K>,
    ) -> Result<bool, StateError> {
        self.catch_up(heap)?;
        let id = self.id();
        let (group, is_new) =
            self.at(timestamp, key, |group, bytes| Ok((group, heap.ordered_put(id, group, bytes, &[])?)))?;
        self.count += u64::from(is_new);
        let index = self.index(group);
        let minimum = minima::get(self.minima.as_ref(), index);
        if is_new && minimum.is_none_or(|minimum| timestamp < minimum) {
            minima::set(self.minima.as_mut(), index, Some(timestamp));
        }
        Ok(is_new)
    }

    /// Removes a timer and says whether it was there.
    ///
    /// # Errors
    /// As [`Heap::ordered_remove`], or what cannot be encoded.
    pub fn remove<A: ArenaHandle>(
        &mut self,
        heap: &mut Heap<A>,
        timestamp: i64,
        key: N::Key<'_, K>,
    ) -> Result<bool, StateError> {
        self.catch_up(heap)?;
        let id = self.id();
        let (group, was_there) =
            self.at(timestamp, key, |group, bytes| Ok((group, heap.ordered_remove(id, group, bytes)?)))?;
        if was_there {
            self.count -= 1;
            if minima::get(self.minima.as_ref(), self.index(group)) == Some(timestamp) {
                self.look_at(heap, group)?;
            }
        }
        Ok(was_there)
    }

    /// The time of the earliest timer.
    ///
    /// # Errors
    /// Bytes that are no timer.
    pub fn earliest<A: ArenaHandle>(&mut self, heap: &Heap<A>) -> Result<Option<i64>, StateError> {
        self.catch_up(heap)?;
        Ok(minima::earliest(self.minima.as_ref()).map(|(_, timestamp)| timestamp))
    }

    /// Takes the earliest timer out if its time is `up_to` or before. Those of one time come in no particular order. To
    /// fire all that are due, call it until there is none: what a timer adds meanwhile is among them.
    ///
    /// # Errors
    /// As [`Heap::ordered_take_first`], or bytes that are no timer; the timer stays.
    pub fn pop_due<A: ArenaHandle>(
        &mut self,
        heap: &mut Heap<A>,
        up_to: i64,
    ) -> Result<Option<Timer<N::Owned<K>>>, StateError>
    where
        K: Decode,
        N: DecodeNamespace,
    {
        self.catch_up(heap)?;
        loop {
            let earliest = minima::earliest(self.minima.as_ref()).filter(|(_, time)| *time <= up_to);
            let Some((index, _)) = earliest else { return Ok(None) };
            let group = self.group(index);
            let (mut malformed, mut next) = (None, None);
            let timer = heap.ordered_take_first_of_two(self.id(), group, &[], |key, _, behind| {
                next = behind.and_then(|key| split(&key).ok()).map(|(timestamp, _)| timestamp);
                let timer = decode::<K, N>(&key).map_err(|error| malformed = Some(error)).ok();
                timer.filter(|timer| timer.timestamp <= up_to)
            })?;
            if let Some(error) = malformed {
                return Err(error.into());
            }
            self.count -= u64::from(timer.is_some());
            match next.filter(|_| timer.is_some()) {
                Some(next) => minima::set(self.minima.as_mut(), index, Some(next)),
                None => self.look_at(heap, group)?,
            }
            // Otherwise what was known of the key group was wrong, and now is not.
            if timer.is_some() {
                return Ok(timer);
            }
        }
    }

    /// Lends the key group and the bytes of a timer to `with`.
    #[inline]
    fn at<R>(
        &self,
        timestamp: i64,
        key: N::Key<'_, K>,
        with: impl FnOnce(KeyGroup, &[u8]) -> Result<R, StateError>,
    ) -> Result<R, StateError> {
        self.entries.at(key, |group, stored| {
            let mut bytes = Scratch::new();
            let time = (timestamp ^ i64::MIN).cast_unsigned().swap_bytes().to_le_bytes();
            let pushed = bytes.push(&time).and_then(|()| bytes.push(stored));
            pushed.map_err(|_| Unencodable { codec: K::ID, what: Full::WHAT })?;
            with(group, bytes.as_slice())
        })?
    }

    fn index(&self, group: KeyGroup) -> usize {
        usize::from(group.0.wrapping_sub(self.first_group))
    }

    fn group(&self, index: usize) -> KeyGroup {
        KeyGroup(self.first_group.wrapping_add(u16::try_from(index).unwrap_or(0)))
    }

    /// Looks through the key groups if the heap's timers have changed without this handle.
    #[inline]
    fn catch_up<A: ArenaHandle>(&mut self, heap: &Heap<A>) -> Result<(), StateError> {
        if heap.len(self.id()) == self.count { Ok(()) } else { self.look_through(heap) }
    }

    fn look_through<A: ArenaHandle>(&mut self, heap: &Heap<A>) -> Result<(), StateError> {
        for group in heap.options().key_groups.iter() {
            self.look_at(heap, group)?;
        }
        self.count = heap.len(self.id());
        Ok(())
    }

    /// Takes the earliest timer of a key group from the heap; of one that a restore has yet to bring, none.
    fn look_at<A: ArenaHandle>(&mut self, heap: &Heap<A>, group: KeyGroup) -> Result<(), StateError> {
        let first = match heap.ordered_from(self.id(), group, Bound::Unbounded) {
            Err(HeapError::NotRestored { .. }) => None,
            found => found?.next(),
        };
        let minimum = first.map(|(key, _)| split(&key).map(|(timestamp, _)| timestamp)).transpose()?;
        let index = self.index(group);
        minima::set(self.minima.as_mut(), index, minimum);
        Ok(())
    }
}

/// The time of a timer, and what is stored of its key.
#[inline]
fn split<'v>(bytes: &Value<'v>) -> Result<(i64, Value<'v>), Malformed> {
    let malformed = Malformed { codec: TimerMark::ID, len: bytes.len() };
    let (_, stored) = bytes.split_at_checked(TIMESTAMP_LEN).ok_or(malformed)?;
    let mut time = [0; TIMESTAMP_LEN];
    bytes.copy_to(&mut time);
    Ok((u64::from_le_bytes(time).swap_bytes().cast_signed() ^ i64::MIN, stored))
}

fn decode<K: Decode, N: DecodeNamespace>(bytes: &Value<'_>) -> Result<Timer<N::Owned<K>>, Malformed> {
    let (timestamp, stored) = split(bytes)?;
    Ok(Timer { timestamp, key: N::decode::<K>(stored)? })
}

impl<K: ?Sized, N, B> core::fmt::Debug for Timers<K, N, B> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Timers").field("id", &self.entries.id()).finish_non_exhaustive()
    }
}

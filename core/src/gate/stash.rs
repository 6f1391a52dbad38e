//! Where what comes from blocked channels waits, if the inputs themselves cannot (Flink up to 1.10: `BarrierBuffer`).

use core::fmt;

use crate::ids::ChannelIndex;

/// Items of blocked channels in the order in which they came: at most `CAPACITY`, and of so many bytes (rule L7).
///
/// Of an input that must be read on, an item goes through [`push`](Self::push) if its channel is blocked when it
/// comes, barriers and the like included. Before anything new is read, [`pop`](Self::pop) gives what waits of channels
/// that are not blocked. If an item does not fit, [`GateEvent::StashOverflowed`] gives the alignment up, which
/// releases every channel, so that there is something to pop.
///
/// An operation looks at each item at most once.
///
/// [`GateEvent::StashOverflowed`]: super::GateEvent::StashOverflowed
pub struct Stash<T, const CAPACITY: usize> {
    slots: [Slot<T>; CAPACITY],
    /// Ends of the list of items.
    oldest: Option<u16>,
    newest: Option<u16>,
    /// The list of free slots.
    free: Option<u16>,
    len: usize,
    bytes: u64,
    bytes_max: u64,
}

struct Slot<T> {
    content: Option<Stashed<T>>,
    next: Option<u16>,
}

struct Stashed<T> {
    channel: ChannelIndex,
    bytes: u64,
    item: T,
}

impl<T, const CAPACITY: usize> Stash<T, CAPACITY> {
    /// An empty stash for items of at most `bytes_max` bytes together.
    #[must_use]
    pub fn new(bytes_max: u64) -> Self {
        const {
            assert!(CAPACITY > 0, "a stash for nothing stops no input");
            assert!(CAPACITY < u16::MAX as usize, "slots are numbered with 16 bits");
        }
        let number = |index: usize| u16::try_from(index).ok().filter(|_| index < CAPACITY);
        Self {
            slots: core::array::from_fn(|index| Slot {
                content: None,
                next: number(index.saturating_add(1)),
            }),
            oldest: None,
            newest: None,
            free: number(0),
            len: 0,
            bytes: 0,
            bytes_max,
        }
    }

    /// Keeps an item of a blocked channel.
    ///
    /// # Errors
    /// Gives the item back if there is no slot for it or its bytes are too many.
    pub fn push(&mut self, channel: ChannelIndex, bytes: u64, item: T) -> Result<(), StashFull<T>> {
        let sum = self.bytes.checked_add(bytes).filter(|sum| *sum <= self.bytes_max);
        let (Some(sum), Some(index)) = (sum, self.free) else { return Err(StashFull(item)) };
        let Some(slot) = self.slots.get_mut(usize::from(index)) else { return Err(StashFull(item)) };
        self.free = slot.next;
        *slot = Slot { content: Some(Stashed { channel, bytes, item }), next: None };
        match self.newest.and_then(|newest| self.slots.get_mut(usize::from(newest))) {
            Some(newest) => newest.next = Some(index),
            None => self.oldest = Some(index),
        }
        self.newest = Some(index);
        self.len = self.len.saturating_add(1);
        self.bytes = sum;
        Ok(())
    }

    /// Takes the oldest item whose channel is not blocked, with its bytes.
    pub fn pop(&mut self, is_blocked: impl Fn(ChannelIndex) -> bool) -> Option<(ChannelIndex, u64, T)> {
        let (mut before, mut at) = (None, self.oldest);
        for _ in 0..self.len {
            let index = at?;
            let slot = self.slots.get(usize::from(index))?;
            if slot.content.as_ref().is_some_and(|stashed| !is_blocked(stashed.channel)) {
                return self.take(before, index);
            }
            (before, at) = (at, slot.next);
        }
        None
    }

    /// Takes out the item in the slot `index`, which follows the slot `before`.
    fn take(&mut self, before: Option<u16>, index: u16) -> Option<(ChannelIndex, u64, T)> {
        let slot = self.slots.get_mut(usize::from(index))?;
        let Stashed { channel, bytes, item } = slot.content.take()?;
        let next = core::mem::replace(&mut slot.next, self.free);
        self.free = Some(index);
        match before.and_then(|before| self.slots.get_mut(usize::from(before))) {
            Some(before) => before.next = next,
            None => self.oldest = next,
        }
        if next.is_none() {
            self.newest = before;
        }
        self.len = self.len.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(bytes);
        Some((channel, bytes, item))
    }

    /// How many items wait.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether no item waits.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// How many bytes wait.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl<T, const CAPACITY: usize> fmt::Debug for Stash<T, CAPACITY> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stash").field("len", &self.len).field("bytes", &self.bytes).finish_non_exhaustive()
    }
}

/// There is no room for this item of a blocked channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StashFull<T>(pub T);

impl<T> fmt::Display for StashFull<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the stash is full: give the alignment up and take from the stash before trying again")
    }
}

impl<T: fmt::Debug> core::error::Error for StashFull<T> {}

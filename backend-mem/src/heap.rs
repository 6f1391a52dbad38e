//! The keyed state of a subtask.

use slackwater_core::key_group::{KeyGroup, KeyGroupRange};

mod error;
mod tables;
mod value;

pub use error::{HeapError, StateId};
pub use value::{Chunks, Value};

use crate::arena::{ArenaHandle, DefaultArena};
use crate::codec::CodecId;
use crate::snapshot::Snapshot;

/// What a heap is made with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeapOptions {
    /// Size of a frame in bytes: a power of two, 256 to 16384.
    pub frame_size: u32,
    /// The most memory it takes, in bytes, its own tables included.
    pub memory_limit_bytes: u64,
    /// The key groups of the subtask.
    pub key_groups: KeyGroupRange,
    /// Seed of the hash that places keys in pages; one for the whole job, kept in its manifests.
    pub hash_seed: u64,
}

/// How much of its memory a heap uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryUse {
    /// Bytes in frames of the live heap.
    pub live_bytes: u64,
    /// Bytes in frames that only snapshots need, or that wait to be used again after one was released.
    pub retired_bytes: u64,
    /// Bytes in all frames there can be.
    pub total_bytes: u64,
}

/// The keyed state of one subtask.
#[derive(Debug)]
pub struct Heap<A: ArenaHandle = DefaultArena> {
    arena: A,
}

/// Where a scan stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScanCursor {
    /// How many key groups are behind.
    groups_done: u16,
    /// Hashes of the current one below this are behind.
    position: u64,
}

#[cfg(feature = "std")]
impl Heap {
    /// A heap in memory of its own, reserved from the limit and taken from the system as it is used.
    ///
    /// # Errors
    /// `InvalidOptions`, or `Reservation` if the system refuses.
    pub fn new(options: HeapOptions) -> Result<Self, HeapError> {
        unimplemented!("{options:?}")
    }
}

impl<A: ArenaHandle> Heap<A> {
    /// A heap in the caller's arena, which must not have held one before.
    ///
    /// # Errors
    /// `InvalidOptions`, or `ArenaInUse`.
    pub fn in_arena(_arena: A, options: HeapOptions) -> Result<Self, HeapError> {
        unimplemented!("{options:?}")
    }

    /// What it was made with.
    #[must_use]
    pub fn options(&self) -> HeapOptions {
        unimplemented!()
    }

    /// Makes a state known, or finds the one of that name. Costs one or two frames; the state's entries cost
    /// nothing before they are written.
    ///
    /// # Errors
    /// `OtherCodec` if it exists with another codec; `TooManyStates`, `NameTooLong`, `MemoryLimit`.
    pub fn register(
        &mut self,
        _operator: &str,
        _state: &str,
        _key: CodecId<'_>,
        _value: CodecId<'_>,
    ) -> Result<StateId, HeapError> {
        unimplemented!()
    }

    /// The state of that name, if it is registered.
    #[must_use]
    pub fn state(&self, _operator: &str, _state: &str) -> Option<StateId> {
        unimplemented!()
    }

    /// The value of a key.
    ///
    /// # Errors
    /// `UnknownState`, `ForeignKeyGroup`.
    pub fn get(
        &self,
        _state: StateId,
        _group: KeyGroup,
        _key: &[u8],
    ) -> Result<Option<Value<'_>>, HeapError> {
        unimplemented!()
    }

    /// The value of a key, to be changed in place, if the key is there and its value lies in its page.
    ///
    /// # Errors
    /// `UnknownState`, `ForeignKeyGroup`, `MemoryLimit` if its page is frozen and cannot be copied.
    pub fn get_mut(
        &mut self,
        _state: StateId,
        _group: KeyGroup,
        _key: &[u8],
    ) -> Result<Option<&mut [u8]>, HeapError> {
        unimplemented!()
    }

    /// Sets the value of a key.
    ///
    /// # Errors
    /// `KeyTooLarge`, `ValueTooLarge`, `MemoryLimit`, `UnknownState`, `ForeignKeyGroup`; the old value stays.
    pub fn put(
        &mut self,
        _state: StateId,
        _group: KeyGroup,
        _key: &[u8],
        _value: &[u8],
    ) -> Result<(), HeapError> {
        unimplemented!()
    }

    /// Removes a key and says whether it was there.
    ///
    /// # Errors
    /// `UnknownState`, `ForeignKeyGroup`, `MemoryLimit` if its page is frozen and cannot be copied.
    pub fn remove(&mut self, _state: StateId, _group: KeyGroup, _key: &[u8]) -> Result<bool, HeapError> {
        unimplemented!()
    }

    /// How many entries a state has; 0 if it is not registered.
    #[must_use]
    pub fn len(&self, _state: StateId) -> u64 {
        unimplemented!()
    }

    /// Whether a state has no entries.
    #[must_use]
    pub fn is_empty(&self, state: StateId) -> bool {
        self.len(state) == 0
    }

    /// Visits the entries of one more page, key first, and says whether there is more. An entry that is there
    /// from the first call to the last is visited once, whatever changes in between.
    ///
    /// # Errors
    /// `UnknownState`.
    pub fn scan(
        &self,
        _state: StateId,
        _cursor: &mut ScanCursor,
        _each: &mut dyn FnMut(Value<'_>, Value<'_>),
    ) -> Result<bool, HeapError> {
        unimplemented!()
    }

    /// Takes a consistent cut of all states. Constant time, whatever they hold.
    ///
    /// # Errors
    /// `TooManySnapshots` while four are alive; `EpochsExhausted`.
    pub fn freeze(&mut self) -> Result<Snapshot<A>, HeapError> {
        unimplemented!()
    }

    /// How much memory it uses.
    #[must_use]
    pub fn memory_use(&self) -> MemoryUse {
        unimplemented!()
    }
}

//! The keyed state of a subtask.

use slackwater_core::format::page::{FRAME_SIZE_MAX, FRAME_SIZE_MIN};
use slackwater_core::format::segment::Distribution;
use slackwater_core::key_group::{KeyGroup, KeyGroupRange, MaxParallelism};

mod access;
#[cfg(feature = "std")]
pub(crate) mod adopt;
mod append;
mod awaited;
mod direct;
mod error;
mod group;
mod grow;
mod hash;
mod merge;
mod near;
mod ordered;
mod overflow;
mod page;
mod register;
#[cfg(feature = "std")]
mod rewrite;
pub(crate) mod scan;
pub(crate) mod tables;
pub(crate) mod tags;
#[cfg(test)]
mod tests;
pub(crate) mod tree;
mod value;
mod write;

pub(crate) use access::Slot;
pub(crate) use direct::{Direct, Located};
pub use error::{HeapError, StateId, StateKind};
pub(crate) use hash::Hasher;
pub use hash::{hash_key, key_ends};
use near::Near;
#[cfg(feature = "std")]
pub use rewrite::Rewriting;
pub use tree::Entries;
pub use value::{Chunks, Value};

use crate::arena::{ArenaHandle, DefaultArena, FrameId, Geometry};
use crate::codec::CodecId;
use crate::frames::FrameStore;
use crate::snapshot::Snapshot;
#[cfg(feature = "std")]
use crate::snapshot::StateView;

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
    /// Bytes in frames that were copied, since the heap was made, because a snapshot needed the old ones.
    pub copied_bytes: u64,
}

/// The keyed state of one subtask.
#[derive(Debug)]
pub struct Heap<A: ArenaHandle = DefaultArena> {
    frames: FrameStore<A>,
    root: FrameId,
    options: HeapOptions,
    hasher: Hasher,
    near: Near,
    /// See `awaited`.
    #[cfg(feature = "std")]
    awaited: std::vec::Vec<u64>,
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
        frame_size_log2(options)?;
        let bytes = options.memory_limit_bytes;
        let len = usize::try_from(bytes).map_err(|_| HeapError::Reservation { bytes, errno: 0 })?;
        let arena = crate::arena::Arena::reserve(len)
            .map_err(|error| HeapError::Reservation { bytes, errno: error.raw_os_error().unwrap_or(0) })?;
        Self::in_arena(std::sync::Arc::new(arena), options)
    }
}

impl<A: ArenaHandle> Heap<A> {
    /// A heap in the caller's arena, which must not have held one before. The arena's length is its limit.
    ///
    /// # Errors
    /// `InvalidOptions`, or `ArenaInUse`.
    pub fn in_arena(arena: A, options: HeapOptions) -> Result<Self, HeapError> {
        let frame_size_log2 = frame_size_log2(options)?;
        let too_small =
            HeapError::InvalidOptions { what: "memory_limit_bytes holds fewer than eight frames" };
        let geometry = Geometry::new(arena.arena(), frame_size_log2, options.key_groups).ok_or(too_small)?;
        let mut frames = FrameStore::new(arena, geometry)?;
        let root = frames.take_zeroed(0)?;
        Ok(Self {
            frames,
            root,
            options,
            hasher: Hasher::new(options.hash_seed),
            near: Near::NONE,
            #[cfg(feature = "std")]
            awaited: std::vec::Vec::new(),
        })
    }

    /// What it was made with.
    #[must_use]
    pub const fn options(&self) -> HeapOptions {
        self.options
    }

    /// Makes a state known whose entries are found by hash, or finds the one of that name. Looks at the name of
    /// every state. Costs a frame or two; the state's entries cost nothing before they are written.
    ///
    /// # Errors
    /// `OtherKind`, `OtherDistribution` or `OtherCodec` if it exists and is not the same; `TooManyStates`,
    /// `NameTooLong`, `MemoryLimit`, `SnapshotHolds`.
    pub fn register(
        &mut self,
        operator: &str,
        state: &str,
        key: CodecId<'_>,
        value: CodecId<'_>,
    ) -> Result<StateId, HeapError> {
        self.register_kind(StateKind::Hash, (operator, state), key, value)
    }

    pub(crate) fn register_kind(
        &mut self,
        kind: StateKind,
        name: (&str, &str),
        key: CodecId<'_>,
        value: CodecId<'_>,
    ) -> Result<StateId, HeapError> {
        self.register_as((kind, Distribution::ByKey), name, key, value)
    }

    /// The state of that name, if it is registered.
    #[must_use]
    pub fn state(&self, operator: &str, state: &str) -> Option<StateId> {
        self.walk().state_named(operator, state).map(|known| known.id)
    }

    /// A registered state as it is now.
    #[cfg(feature = "std")]
    pub(crate) fn state_view(&self, state: StateId) -> Option<StateView<'_>> {
        self.walk().row(state).ok().and_then(|_| self.walk().state(state))
    }

    /// Sets the value of a key.
    ///
    /// # Errors
    /// `KeyTooLarge`, `ValueTooLarge`, `OtherWidth`, `OtherKind`, `MemoryLimit`, `SnapshotHolds`, `UnknownState`, `ForeignKeyGroup`;
    /// the old value stays.
    pub fn put(
        &mut self,
        state: StateId,
        group: KeyGroup,
        key: &[u8],
        value: &[u8],
    ) -> Result<(), HeapError> {
        self.put_checked(state, group, key, value)
    }

    /// Removes a key and says whether it was there.
    ///
    /// # Errors
    /// `UnknownState`, `ForeignKeyGroup`, `SnapshotHolds` if its page is frozen and cannot be copied.
    pub fn remove(&mut self, state: StateId, group: KeyGroup, key: &[u8]) -> Result<bool, HeapError> {
        self.remove_checked(state, group, key)
    }

    /// How many entries a state has; 0 if it is not registered. Those of a key group that a restore has yet to bring
    /// are not counted.
    #[must_use]
    pub fn len(&self, state: StateId) -> u64 {
        self.walk().entries(state)
    }

    /// Whether a state has no entries.
    #[must_use]
    pub fn is_empty(&self, state: StateId) -> bool {
        self.len(state) == 0
    }

    /// How many entries a key group of a state has.
    ///
    /// # Errors
    /// `UnknownState`, `ForeignKeyGroup`.
    pub fn group_len(&self, state: StateId, group: KeyGroup) -> Result<u32, HeapError> {
        Ok(self.walk().head(state, group)?.entries.get())
    }

    /// Visits the entries of one more page, key first, and says whether there is more. An entry that is there
    /// from the first call to the last is visited once, whatever changes in between.
    ///
    /// # Errors
    /// `UnknownState`, `OtherKind`.
    pub fn scan(
        &self,
        state: StateId,
        cursor: &mut ScanCursor,
        each: &mut dyn FnMut(Value<'_>, Value<'_>),
    ) -> Result<bool, HeapError> {
        self.scan_groups(state, cursor, &mut |_, key, value| each(key, value))
    }

    /// The same with the key group of each entry.
    pub(crate) fn scan_groups(
        &self,
        state: StateId,
        cursor: &mut ScanCursor,
        each: &mut dyn FnMut(KeyGroup, Value<'_>, Value<'_>),
    ) -> Result<bool, HeapError> {
        scan::step(self.walk(), self.hasher, state, cursor, each)
    }

    /// Takes a consistent cut of all states. Constant time, whatever they hold.
    ///
    /// # Errors
    /// `TooManySnapshots` while four are alive; `EpochsExhausted`; `NotRestored` while a restore has yet to bring a key
    /// group.
    pub fn freeze(&mut self) -> Result<Snapshot<A>, HeapError> {
        self.check_all_are_there()?;
        let (epoch, slot) = self.frames.freeze()?;
        Ok(Snapshot::new(
            self.frames.handle().clone(),
            self.frames.geometry(),
            (epoch, slot),
            self.root,
            self.options,
        ))
    }

    /// Sees to it that so many bytes are free, in single frames. A caller that cannot stop half way asks before
    /// it begins, and waits while the answer is `SnapshotHolds`: a step for each frame that becomes free, and for
    /// each that snapshots hold when one of them has given up key groups.
    ///
    /// # Errors
    /// `SnapshotHolds` while a snapshot is alive, which is asked for a key group then; `MemoryLimit`.
    pub fn reserve(&mut self, bytes: u64) -> Result<(), HeapError> {
        self.frames.reserve(self.frames_of_bytes(bytes))
    }

    /// Takes memory for so many more bytes from the system now, as far as the limit allows. Otherwise the system gives
    /// it when it is first written to, 2 MiB at a time where it can, and whoever wants an entry written just then waits
    /// for that. What snapshots make the heap copy is memory, too: as much again as it holds is enough for one.
    pub fn populate(&mut self, bytes: u64) {
        self.frames.populate(self.frames_of_bytes(bytes));
    }

    fn frames_of_bytes(&self, bytes: u64) -> u32 {
        let log2 = self.frames.geometry().frame_size_log2;
        let frames = bytes.saturating_add((1 << log2) - 1) >> log2;
        u32::try_from(frames).unwrap_or(u32::MAX)
    }

    /// How much memory it uses.
    #[must_use]
    pub fn memory_use(&self) -> MemoryUse {
        let bytes = |frames: u32| u64::from(frames) << self.frames.geometry().frame_size_log2;
        MemoryUse {
            live_bytes: bytes(self.frames.live_frames()),
            retired_bytes: bytes(self.frames.retired_frames()),
            total_bytes: bytes(self.frames.geometry().frames),
            copied_bytes: self.frames.copied_frames() << self.frames.geometry().frame_size_log2,
        }
    }
}

/// Checks the options and gives the logarithm of the frame size.
fn frame_size_log2(options: HeapOptions) -> Result<u8, HeapError> {
    let size = options.frame_size as usize;
    if !size.is_power_of_two() || !(FRAME_SIZE_MIN..=FRAME_SIZE_MAX).contains(&size) {
        return Err(HeapError::InvalidOptions { what: "frame_size is not a power of two from 256 to 16384" });
    }
    if options.key_groups.is_empty() {
        return Err(HeapError::InvalidOptions { what: "key_groups holds none" });
    }
    if options.key_groups.last > MaxParallelism::MAX.all_key_groups().last {
        return Err(HeapError::InvalidOptions { what: "key_groups goes beyond 32767" });
    }
    u8::try_from(size.trailing_zeros()).map_err(|_| HeapError::InvalidOptions { what: "frame_size" })
}

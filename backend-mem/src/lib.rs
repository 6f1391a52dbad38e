//! The keyed state of a subtask, kept in memory as the pages that go to disk.
//!
//! A [`Heap`] holds every state of one subtask in frames of a fixed arena. [`Heap::freeze`] takes a consistent
//! cut of all of it in constant time: frames that a [`Snapshot`] can see are never written again, the heap
//! moves what it changes to other frames. The crate allocates nothing while it runs, refuses what does not
//! fit with an error, and knows nothing of threads.
#![no_std]
#![cfg_attr(not(test), forbid(clippy::std_instead_of_core))]

#[cfg(any(test, feature = "std"))]
extern crate std;

pub mod arena;
pub mod codec;
#[cfg(feature = "std")]
pub mod disk;
mod frames;
pub mod heap;
#[cfg(feature = "std")]
pub mod in_flight;
pub mod operator_state;
#[cfg(feature = "std")]
pub mod segment;
#[cfg(feature = "sim")]
pub mod sim;
pub mod snapshot;
pub mod state;

pub use arena::{Arena, ArenaHandle, DefaultArena};
pub use codec::{
    Bytes, Codec, CodecId, Decode, Malformed, Migration, Plain, PlainData, Unencodable, Utf8, migrate,
};
#[cfg(feature = "serde")]
pub use codec::{Serde, SerdeData};
#[cfg(feature = "std")]
pub use disk::{MemDisk, MmapDisk};
pub use heap::{Entries, Heap, HeapError, HeapOptions, MemoryUse, ScanCursor, StateId, StateKind, Value};
pub use operator_state::{Broadcast, RawKeyedState, RawOperatorState, SplitList, UnionList};
pub use snapshot::{FrozenRun, PageKind, PageRef, Snapshot, StateView};
pub use state::{
    Aggregate, AggregatingState, DecodeNamespace, Expiring, GroupMinimum, ListState, MapState, Namespace,
    ReducingState, StateError, TimeToLive, Timer, Timers, ValueState,
};

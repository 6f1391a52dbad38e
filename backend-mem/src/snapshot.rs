//! A frozen heap, and the guards that keep it frozen.
#![expect(unsafe_code, reason = "implements the contract of frozen bytes")]

use slackwater_core::durable::Frozen;
use slackwater_core::key_group::{KeyGroup, KeyGroupRange};

use crate::arena::{ArenaHandle, DefaultArena};
use crate::codec::CodecId;
use crate::heap::{StateId, Value};

/// All states of a heap as they were at one moment. Its frames stay as they are until the snapshot and every
/// guard made from it are dropped; any thread may do that.
#[derive(Debug)]
pub struct Snapshot<A: ArenaHandle = DefaultArena> {
    arena: A,
}

impl<A: ArenaHandle> Snapshot<A> {
    /// The epoch that it closed: 1 for the first, one more each time.
    #[must_use]
    pub fn epoch(&self) -> u32 {
        unimplemented!()
    }

    /// Size of a frame in bytes.
    #[must_use]
    pub fn frame_size(&self) -> usize {
        unimplemented!()
    }

    /// The key groups of the heap.
    #[must_use]
    pub fn key_groups(&self) -> KeyGroupRange {
        unimplemented!()
    }

    /// Seed of the hash that placed the keys.
    #[must_use]
    pub fn hash_seed(&self) -> u64 {
        unimplemented!()
    }

    /// The states in the order of their ids.
    pub fn states(&self) -> impl Iterator<Item = StateView<'_>> + Clone {
        core::iter::empty()
    }

    /// How many entries a key group of a state has.
    #[must_use]
    pub fn group_len(&self, _state: StateId, _group: KeyGroup) -> u32 {
        unimplemented!()
    }

    /// The pages of a key group of a state: hash pages by rising prefix, then what overflow chains consist of
    /// by rising lpn. None for a key group that was never written.
    pub fn pages(&self, _state: StateId, _group: KeyGroup) -> impl Iterator<Item = PageRef<'_, A>> + Clone {
        core::iter::empty()
    }

    /// Visits every entry of a state, key group by key group.
    pub fn entries(&self, _state: StateId, _each: &mut dyn FnMut(KeyGroup, Value<'_>, Value<'_>)) {
        unimplemented!()
    }
}

/// A state of a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StateView<'s> {
    /// Its id; also in the header of its pages.
    pub id: StateId,
    /// The operator.
    pub operator: &'s str,
    /// Its name.
    pub name: &'s str,
    /// The codec of its keys.
    pub key: CodecId<'s>,
    /// The codec of its values.
    pub value: CodecId<'s>,
    /// How many entries it has.
    pub entries: u64,
}

/// What a page holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageKind {
    /// Records.
    Hash,
    /// A part of a key or value too long for a record.
    Overflow,
}

/// A frozen page.
#[derive(Clone, Copy, Debug)]
pub struct PageRef<'s, A: ArenaHandle = DefaultArena> {
    snapshot: &'s Snapshot<A>,
}

impl<'s, A: ArenaHandle> PageRef<'s, A> {
    /// Its name within state and key group.
    #[must_use]
    pub fn lpn(&self) -> u32 {
        unimplemented!()
    }

    /// How many leading bits of the hash its records share; 0 for an overflow page.
    #[must_use]
    pub fn depth(&self) -> u8 {
        unimplemented!()
    }

    /// What it holds.
    #[must_use]
    pub fn kind(&self) -> PageKind {
        unimplemented!()
    }

    /// Its frame.
    #[must_use]
    pub fn bytes(&self) -> &'s [u8] {
        unimplemented!()
    }

    /// Keeps the page frozen beyond the life of the snapshot.
    #[must_use]
    pub fn guard(&self) -> FrozenRun<A> {
        unimplemented!()
    }
}

/// Frozen pages that lie one behind the other, kept frozen for as long as this lives.
#[derive(Debug)]
pub struct FrozenRun<A: ArenaHandle = DefaultArena> {
    arena: A,
}

impl<A: ArenaHandle> FrozenRun<A> {
    /// Takes the page in if it is of the same snapshot and lies right behind the run; says whether it does.
    pub fn try_extend(&mut self, _page: &PageRef<'_, A>) -> bool {
        unimplemented!()
    }
}

// SAFETY: the bytes lie in frames of a snapshot, which the heap does not write until the guard has been dropped;
// their address is that of the arena's memory, which does not move.
unsafe impl<A: ArenaHandle + 'static> Frozen for FrozenRun<A> {
    fn bytes(&self) -> &[u8] {
        unimplemented!()
    }
}

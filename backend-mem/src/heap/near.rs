//! The way to the heads of the first states, so that an access need not go there from the root.
//!
//! A copy of what root and tables say of the live heap; brought up to date whenever these change. Other states, key
//! groups behind the first few chunks, and whatever was never written take the long way.

use slackwater_core::format::segment::STATE_KIND_HASH;
use slackwater_core::key_group::KeyGroup;

use super::page::Fixed;
use super::tables::{HEAD_LEN, Head, LIST_AT};
use super::{Heap, StateId};
use crate::arena::{ArenaHandle, FrameId, FrameView};

/// How many states are kept near.
const STATES: usize = 16;
/// Of how many chunks of heads; 512 key groups with frames of 4 KiB.
const CHUNKS: usize = 8;

/// The ways to the heads of the first states.
#[derive(Clone, Copy, Debug)]
pub(super) struct Near([Way; STATES]);

/// The way to the heads of one state, in one line of the cache.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub(super) struct Way {
    /// The first key group that the state has entries in.
    first: u16,
    /// How many of them are near; 0 for a state that takes the long way.
    groups: u16,
    /// The same if all records of the state have one size, otherwise 0.
    groups_of_one_size: u16,
    /// The shape of its pages then.
    fixed: Fixed,
    /// Frame 0, which is all zero, stands for a chunk of heads of nothing.
    chunks: [FrameId; CHUNKS],
}

impl Way {
    const NONE: Self = Self {
        first: 0,
        groups: 0,
        groups_of_one_size: 0,
        fixed: Fixed::NONE,
        chunks: [FrameId::NONE; CHUNKS],
    };

    /// The shape of the state's pages, if all records have the same size.
    #[inline]
    pub(super) const fn fixed(&self) -> Option<Fixed> {
        if self.groups_of_one_size == 0 { None } else { Some(self.fixed) }
    }

    /// The same, or that of a page in which nothing is found.
    #[inline]
    pub(super) const fn shape(&self) -> &Fixed {
        &self.fixed
    }

    /// The head of a key group.
    #[inline]
    pub(super) fn head<'h>(&self, frames: FrameView<'h>, group: KeyGroup) -> Option<&'h Head> {
        self.head_within(self.groups, frames, group)
    }

    /// The head of a key group, if all records of the state have the same size.
    #[inline]
    pub(super) fn head_of_one_size<'h>(&self, frames: FrameView<'h>, group: KeyGroup) -> Option<&'h Head> {
        self.head_within(self.groups_of_one_size, frames, group)
    }

    #[inline]
    fn head_within<'h>(&self, groups: u16, frames: FrameView<'h>, group: KeyGroup) -> Option<&'h Head> {
        let index = group.0.wrapping_sub(self.first);
        if index >= groups {
            return None;
        }
        let offset = usize::from(index) * HEAD_LEN;
        let chunk = *self.chunks.get((offset >> frames.frame_size_log2()) % CHUNKS)?;
        frames.read(chunk, frames.in_frame(offset))
    }
}

impl Near {
    pub(super) const NONE: Self = Self([Way::NONE; STATES]);

    /// The way of a state, if it is one of the first.
    #[inline]
    pub(super) fn way(&self, state: StateId) -> Option<&Way> {
        self.0.get(usize::from(state.0))
    }
}

impl<A: ArenaHandle> Heap<A> {
    /// Brings the way to a state's heads up to date.
    pub(super) fn refresh_near(&mut self, state: StateId) {
        if !self.awaited().is_empty() {
            return;
        }
        let (walk, frames) = (self.walk(), self.frames.view());
        let Ok(row) = walk.row(state) else { return };
        let (fixed, table) = (row.fixed(), FrameId(row.table.get()));
        let is_near = row.kind == STATE_KIND_HASH && row.distribution == 0 && !table.is_none();
        let key_groups = self.options.key_groups;
        let heads = frames.frame_size() / HEAD_LEN;
        let chunks = (key_groups.len() * HEAD_LEN).div_ceil(frames.frame_size());
        let chunk = |index: usize| match is_near && index < chunks {
            true => FrameId(frames.u32(table, LIST_AT + index * 4)),
            false => FrameId::NONE,
        };
        let groups = if is_near { key_groups.len().min(heads * CHUNKS) } else { 0 };
        let groups = u16::try_from(groups).unwrap_or(0);
        let way = Way {
            first: key_groups.first.0,
            groups,
            groups_of_one_size: if fixed.is_some() { groups } else { 0 },
            fixed: fixed.unwrap_or(Fixed::NONE),
            chunks: core::array::from_fn(chunk),
        };
        if let Some(place) = self.near.0.get_mut(usize::from(state.0)) {
            *place = way;
        }
    }
}

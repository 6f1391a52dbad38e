//! The way to the heads of the first states, so that an access need not go there from the root.
//!
//! A copy of what root and tables say of the live heap; brought up to date whenever these change. Other states, key
//! groups behind the first few chunks, and whatever was never written take the long way.

use slackwater_core::format::segment::STATE_KIND_HASH;
use slackwater_core::key_group::KeyGroup;

use super::page::Fixed;
use super::tables::{HEAD_LEN, LIST_AT};
use super::{Heap, StateId};
use crate::arena::{ArenaHandle, FrameId, FrameView};

/// How many states are kept near.
const STATES: usize = 16;
/// Of how many chunks of heads; 320 key groups with frames of 4 KiB.
const CHUNKS: usize = 5;

/// The ways to the heads of the first states.
#[derive(Clone, Copy, Debug)]
pub(super) struct Near([Way; STATES]);

/// The way to the heads of one state.
#[derive(Clone, Copy, Debug)]
struct Way {
    /// Key groups that the state has entries in; 0 for a state that takes the long way.
    groups: u16,
    /// The first of them.
    first: u16,
    fixed: Option<Fixed>,
    chunks: [FrameId; CHUNKS],
}

impl Near {
    pub(super) const NONE: Self =
        Self([Way { groups: 0, first: 0, fixed: None, chunks: [FrameId::NONE; CHUNKS] }; STATES]);

    /// The shape of a state's pages, and chunk and offset of a key group's head.
    #[inline]
    pub(super) fn head_at(
        &self,
        frames: FrameView<'_>,
        state: StateId,
        group: KeyGroup,
    ) -> Option<(Option<Fixed>, FrameId, usize)> {
        let way = self.0.get(usize::from(state.0))?;
        let index = group.0.wrapping_sub(way.first);
        if index >= way.groups {
            return None;
        }
        let offset = usize::from(index) * HEAD_LEN;
        let chunk = *way.chunks.get(offset >> frames.frame_size_log2())?;
        (!chunk.is_none()).then_some((way.fixed, chunk, offset & (frames.frame_size() - 1)))
    }
}

impl<A: ArenaHandle> Heap<A> {
    /// Brings the way to a state's heads up to date.
    pub(super) fn refresh_near(&mut self, state: StateId) {
        let (walk, frames) = (self.walk(), self.frames.view());
        let Ok(row) = walk.row(state) else { return };
        let (fixed, table) = (row.fixed(), FrameId(row.table.get()));
        let is_near = row.kind == STATE_KIND_HASH && row.distribution == 0 && !table.is_none();
        let groups = self.options.key_groups;
        let chunks = (groups.len() * HEAD_LEN).div_ceil(frames.frame_size());
        let chunk = |index: usize| match is_near && index < chunks {
            true => FrameId(frames.u32(table, LIST_AT + index * 4)),
            false => FrameId::NONE,
        };
        let way = Way {
            groups: if is_near { u16::try_from(groups.len()).unwrap_or(0) } else { 0 },
            first: groups.first.0,
            fixed,
            chunks: core::array::from_fn(chunk),
        };
        if let Some(place) = self.near.0.get_mut(usize::from(state.0)) {
            *place = way;
        }
    }
}

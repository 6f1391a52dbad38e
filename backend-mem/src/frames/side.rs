#![expect(unsafe_code, reason = "reads and writes the numbers that the arena keeps for each frame")]

use slackwater_core::key_group::KeyGroup;

use crate::arena::{ArenaHandle, FrameId, Geometry};

/// What a frame is to the allocator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mark {
    /// Within a run, or never used.
    None,
    /// The first of a free run of `2^order` frames.
    Free(u8),
    /// The first of a run of `2^order` frames in use, or retired.
    Used(u8),
    /// The first of a retired run of `2^order` frames of one key group.
    Retired(u8),
}

/// Three numbers for each frame; the heap's alone.
#[derive(Debug)]
pub(crate) struct Side<A> {
    arena: A,
    geometry: Geometry,
}

impl<A: ArenaHandle> Side<A> {
    /// The caller has claimed the arena, for a heap that lies in it as `geometry` says.
    pub(super) const fn new(arena: A, geometry: Geometry) -> Self {
        Self { arena, geometry }
    }

    pub(crate) const fn handle(&self) -> &A {
        &self.arena
    }

    pub(crate) const fn geometry(&self) -> Geometry {
        self.geometry
    }

    #[inline]
    pub(crate) const fn has(&self, frame: FrameId) -> bool {
        frame.0 < self.geometry.frames
    }

    /// The epoch in which a live frame was written last; 0 for all but the first frame of a run.
    #[inline]
    pub(crate) fn born(&self, frame: FrameId) -> u32 {
        self.number(0, frame)
    }

    pub(super) fn set_born(&mut self, frame: FrameId, epoch: u32) {
        self.set_number(0, frame, epoch);
    }

    /// The run is retired; its key group takes the place of its epoch.
    pub(super) fn set_retired(&mut self, run: FrameId, order: u8, group: KeyGroup) {
        self.set_mark(run, Mark::Retired(order));
        self.set_born(run, group.0.into());
    }

    /// The key group of a retired run.
    pub(super) fn key_group(&self, retired: FrameId) -> KeyGroup {
        KeyGroup(u16::try_from(self.born(retired)).unwrap_or(u16::MAX))
    }

    /// The next of the list that the frame is in.
    pub(super) fn link(&self, frame: FrameId) -> FrameId {
        FrameId(self.number(1, frame))
    }

    pub(super) fn set_link(&mut self, frame: FrameId, next: FrameId) {
        self.set_number(1, frame, next.0);
    }

    pub(crate) fn mark(&self, frame: FrameId) -> Mark {
        if !self.has(frame) {
            return Mark::None;
        }
        let at = self.arena.arena().at(self.mark_at(frame));
        // SAFETY: a byte of the table of marks, within the arena; only the heap, which owns `self`, writes it.
        match unsafe { at.read() } {
            0 => Mark::None,
            free @ 1..=64 => Mark::Free(free - 1),
            used @ 65..=128 => Mark::Used(used - 65),
            retired => Mark::Retired((retired - 129) & 63),
        }
    }

    pub(super) fn set_mark(&mut self, frame: FrameId, mark: Mark) {
        if !self.has(frame) {
            return;
        }
        let mark = match mark {
            Mark::None => 0,
            Mark::Free(order) => order + 1,
            Mark::Used(order) => order + 65,
            Mark::Retired(order) => order + 129,
        };
        let at = self.arena.arena().at(self.mark_at(frame));
        // SAFETY: a byte of the table of marks, within the arena; only the heap, which owns `self`, touches it.
        unsafe { at.write(mark) };
    }

    const fn mark_at(&self, frame: FrameId) -> usize {
        self.geometry.born_at + 8 * self.geometry.frames as usize + frame.0 as usize
    }

    fn number_at(&self, table: usize, frame: FrameId) -> *mut u32 {
        let index = table * self.geometry.frames as usize + frame.0 as usize;
        self.arena.arena().at(self.geometry.born_at + 4 * index).cast()
    }

    #[inline]
    fn number(&self, table: usize, frame: FrameId) -> u32 {
        if !self.has(frame) {
            return 0;
        }
        let at = self.number_at(table, frame);
        // SAFETY: an aligned number of the first two tables, within the arena; only the heap writes it.
        unsafe { at.read() }
    }

    #[inline]
    fn set_number(&mut self, table: usize, frame: FrameId, number: u32) {
        if !self.has(frame) {
            return;
        }
        let at = self.number_at(table, frame);
        // SAFETY: an aligned number of the first two tables, within the arena; only the heap touches it.
        unsafe { at.write(number) };
    }
}

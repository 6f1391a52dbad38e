//! Which frames may be written, which are frozen, and which are free.
//!
//! Time is cut into epochs by `freeze`. A frame is born in the epoch that wrote it last; a snapshot sees the
//! frames born in its epoch or before that were live when it was taken, and a frame that any snapshot sees is
//! never written. Whoever wants to write such a frame gets a copy; the old one is retired.
//!
//! # Invariants
//! - E1: a frame is lent for writing only if it was born in the current epoch.
//! - E2: a frame becomes born in the current epoch only when it is taken from the free ones, or when every
//!   snapshot of its epoch or later has been seen released or done with the frame's key group. The scratch
//!   frame always may: no root leads to it.
//! - E3: a retired frame becomes free only when the snapshot that was the newest when it was retired, and every
//!   older one, have been seen released; or at once under the terms of E2.
//! - E4: a frame is of a key group only if a snapshot reaches it through that key group's head alone.

#![expect(
    unsafe_code,
    reason = "lends frames of the arena: the live ones for writing, the frozen ones for reading"
)]

use slackwater_core::key_group::KeyGroup;
use slackwater_core::sync::is_mutant;

use crate::arena::{ArenaHandle, DoneGroups, FrameId, FrameView, Geometry, SLOTS};
use crate::heap::HeapError;

mod free;
mod pressure;
mod side;
#[cfg(test)]
mod tests;

use free::FreeLists;
use side::{Mark, Side};

/// Retired runs that an allocation makes free at most for each frame it needs, before it takes fresh frames.
const DRAIN_STEPS: u32 = 64;

/// The frames of a heap.
#[derive(Debug)]
pub(crate) struct FrameStore<A: ArenaHandle> {
    side: Side<A>,
    free: FreeLists,
    epoch: u32,
    /// Snapshots not seen released yet, from the oldest to the newest.
    snapshots: heapless::Vec<Alive, SLOTS>,
    /// Retired runs that no snapshot needs.
    waiting: List,
    scratch: FrameId,
    live_frames: u32,
    retired_frames: u32,
    copied_frames: u64,
    /// How many key groups the snapshots had given up when retired runs were last looked through.
    swept: u32,
}

#[derive(Clone, Copy, Debug)]
struct Alive {
    epoch: u32,
    slot: usize,
    /// Runs retired while this was the newest snapshot.
    retired: List,
}

/// Runs linked through their first frames. Empty if `head` is none.
#[derive(Clone, Copy, Debug)]
struct List {
    head: FrameId,
    tail: FrameId,
}

impl List {
    const EMPTY: Self = Self { head: FrameId::NONE, tail: FrameId::NONE };
}

impl<A: ArenaHandle> FrameStore<A> {
    /// Takes the arena for good.
    pub(crate) fn new(arena: A, geometry: Geometry) -> Result<Self, HeapError> {
        if !arena.arena().claim() {
            return Err(HeapError::ArenaInUse);
        }
        let mut store = Self {
            side: Side::new(arena, geometry),
            free: FreeLists::new(),
            epoch: 1,
            snapshots: heapless::Vec::new(),
            waiting: List::EMPTY,
            scratch: FrameId::NONE,
            live_frames: 0,
            retired_frames: 0,
            copied_frames: 0,
            swept: 0,
        };
        store.side.set_mark(FrameId::NONE, Mark::Used(0));
        store.scratch = store.take(0)?;
        Ok(store)
    }

    pub(crate) const fn handle(&self) -> &A {
        self.side.handle()
    }

    pub(crate) const fn geometry(&self) -> Geometry {
        self.side.geometry()
    }

    pub(crate) const fn epoch(&self) -> u32 {
        self.epoch
    }

    pub(crate) const fn live_frames(&self) -> u32 {
        self.live_frames
    }

    pub(crate) const fn retired_frames(&self) -> u32 {
        self.retired_frames
    }

    /// Frames that were copied because a snapshot needed them, since the start.
    pub(crate) const fn copied_frames(&self) -> u64 {
        self.copied_frames
    }

    /// Reads any frame.
    #[inline]
    pub(crate) fn view(&self) -> FrameView<'_> {
        // SAFETY: only this store writes frames, and it needs `&mut self` for that.
        unsafe { FrameView::new(self.side.handle().arena(), self.side.geometry()) }
    }

    /// Whether the run may be written (E1).
    #[inline]
    pub(crate) fn is_writable(&self, run: FrameId) -> bool {
        self.side.born(run) == self.epoch
    }

    /// Lends a run for writing; none if it may not be written.
    #[inline]
    pub(crate) fn write(&mut self, run: FrameId) -> Option<&mut [u8]> {
        let len = self.writable_len(run)?;
        let offset = self.side.geometry().offset(run);
        // SAFETY: `writable_len` has checked that the run lies within the frames and was born in this epoch, so
        // no snapshot sees it (E1, E2); the store is borrowed for as long as the slice lives.
        Some(unsafe { self.side.handle().arena().bytes_mut(offset, len) })
    }

    /// Lends the first frame of a run for writing; none if it may not be written.
    #[inline]
    pub(crate) fn write_frame(&mut self, frame: FrameId) -> Option<&mut [u8]> {
        if !self.is_writable(frame) {
            return None;
        }
        let geometry = self.side.geometry();
        // SAFETY: a frame born in this epoch is the first of a run in use, within the frames; no snapshot sees it (E1,
        // E2); the store is borrowed for as long as the slice lives.
        Some(unsafe { self.side.handle().arena().bytes_mut(geometry.offset(frame), geometry.frame_size()) })
    }

    /// Lends one run for reading and another for writing.
    pub(crate) fn read_and_write(&mut self, from: FrameId, to: FrameId) -> Option<(&[u8], &mut [u8])> {
        let Mark::Used(order) = self.side.mark(from) else { return None };
        let (from_len, to_len) = (self.side.geometry().frame_size() << order, self.writable_len(to)?);
        if from == to {
            return None;
        }
        let (from_at, to_at) = (self.side.geometry().offset(from), self.side.geometry().offset(to));
        let arena = self.side.handle().arena();
        // SAFETY: a used run within the frames; runs do not overlap, so it is not written through the other slice.
        let read = unsafe { arena.bytes(from_at, from_len) };
        // SAFETY: as in `write`; runs do not overlap, so it is not read through the other slice.
        let written = unsafe { arena.bytes_mut(to_at, to_len) };
        Some((read, written))
    }

    /// Copies a frame to the scratch frame.
    pub(crate) fn save(&mut self, frame: FrameId) -> Option<()> {
        let scratch = self.scratch;
        self.side.set_born(scratch, self.epoch);
        let (from, to) = self.read_and_write(frame, scratch)?;
        to.copy_from_slice(from.get(..to.len())?);
        Some(())
    }

    /// The scratch frame, as it was saved.
    pub(crate) fn saved(&self) -> &[u8] {
        self.view().frame(self.scratch)
    }

    /// Lends the scratch frame, as it was saved, and a frame for writing.
    pub(crate) fn saved_and_write(&mut self, frame: FrameId) -> Option<(&[u8], &mut [u8])> {
        self.read_and_write(self.scratch, frame)
    }

    fn writable_len(&self, run: FrameId) -> Option<usize> {
        match self.side.mark(run) {
            Mark::Used(order) if self.is_writable(run) => Some(self.side.geometry().frame_size() << order),
            Mark::Used(_) | Mark::Retired(_) | Mark::Free(_) | Mark::None => None,
        }
    }

    /// Takes `2^order` frames, writable, with any content.
    pub(crate) fn take(&mut self, order: u8) -> Result<FrameId, HeapError> {
        let Some(run) = self.find(order) else { return Err(self.out_of_frames()) };
        for inner in 1..1_u32 << order {
            self.side.set_born(FrameId(run.0 + inner), 0);
        }
        self.side.set_mark(run, Mark::Used(order));
        self.side.set_born(run, self.epoch);
        self.live_frames += 1 << order;
        Ok(run)
    }

    /// Takes `2^order` frames, writable, all zero.
    pub(crate) fn take_zeroed(&mut self, order: u8) -> Result<FrameId, HeapError> {
        let run = self.take(order)?;
        if let Some(bytes) = self.write(run) {
            bytes.fill(0);
        }
        Ok(run)
    }

    /// Writes to frames that were never used, so that the system gives memory for them.
    pub(crate) fn populate(&mut self, frames: u32) {
        let (first, count) = self.free.fresh(&self.side, frames);
        let geometry = self.side.geometry();
        let (at, len) = (geometry.offset(first), (count as usize) << geometry.frame_size_log2);
        // SAFETY: these frames lie within the arena, no run has ever led to them, and the store is borrowed.
        unsafe { self.side.handle().arena().bytes_mut(at, len) }.fill(0);
    }

    /// A run that was just taken counts as written in the epoch before: whoever changes it opens it first.
    #[cfg(feature = "std")]
    pub(crate) fn settle(&mut self, run: FrameId) {
        if self.is_writable(run) {
            self.side.set_born(run, self.epoch - 1);
        }
    }

    /// Goes to an epoch above `epoch`, if it is not there already.
    #[cfg(feature = "std")]
    pub(crate) fn rise_above(&mut self, epoch: u32) -> Result<(), HeapError> {
        let above = epoch.checked_add(1).ok_or(HeapError::EpochsExhausted)?;
        self.epoch = self.epoch.max(above);
        Ok(())
    }

    fn find(&mut self, order: u8) -> Option<FrameId> {
        for _ in 0..DRAIN_STEPS << order {
            if let Some(run) = self.free.take(&mut self.side, order) {
                return Some(run);
            }
            if !self.drain_one() {
                break;
            }
        }
        if let Some(run) = self.free.take_fresh(&mut self.side, order) {
            return Some(run);
        }
        self.collect();
        loop {
            if let Some(run) = self.free.take(&mut self.side, order) {
                return Some(run);
            }
            if !self.drain_one() && !self.sweep() {
                return None;
            }
        }
    }

    /// The live run is not used any more: free if no snapshot sees it, otherwise retired (E3).
    pub(crate) fn retire(&mut self, run: FrameId) {
        self.retire_from(None, run);
    }

    /// The same for a run of this key group alone (E4).
    pub(crate) fn retire_of(&mut self, group: KeyGroup, run: FrameId) {
        self.retire_from(Some(group), run);
    }

    fn retire_from(&mut self, group: Option<KeyGroup>, run: FrameId) {
        let Mark::Used(order) = self.side.mark(run) else { return };
        self.live_frames -= 1 << order;
        if !self.is_frozen(run, group) || is_mutant("heap_retired_is_free") {
            self.free.give(&mut self.side, run, order);
            return;
        }
        self.retired_frames += 1 << order;
        if let Some(group) = group {
            self.side.set_retired(run, order, group);
        }
        let alone = List { head: run, tail: run };
        if let Some(newest) = self.snapshots.last_mut() {
            newest.retired = join(&mut self.side, alone, newest.retired);
        }
    }

    /// Whether a snapshot that is neither seen released nor done with the key group may see the live run.
    fn is_frozen(&self, run: FrameId, group: Option<KeyGroup>) -> bool {
        if is_mutant("heap_no_copy") || group.is_none() && is_mutant("heap_tables_in_place") {
            return false;
        }
        let born = self.side.born(run);
        let mut seen_by = self.snapshots.iter().rev().take_while(|alive| born <= alive.epoch);
        seen_by.any(|alive| group.is_none_or(|group| !self.done_groups(alive.slot).has(group)))
    }

    fn done_groups(&self, slot: usize) -> DoneGroups<'_> {
        // SAFETY: this store has claimed the arena, and with this geometry.
        unsafe { DoneGroups::new(self.side.handle().arena(), self.side.geometry(), slot) }
    }

    /// Makes a live run writable: as it is if no snapshot sees it any more, otherwise as a copy in another
    /// place, which the caller must put in its stead.
    pub(crate) fn make_writable(&mut self, run: FrameId) -> Result<FrameId, HeapError> {
        self.make_writable_from(None, run)
    }

    /// The same for a run of this key group alone (E4), which a snapshot that is done with it does not see.
    pub(crate) fn make_writable_of(&mut self, group: KeyGroup, run: FrameId) -> Result<FrameId, HeapError> {
        self.make_writable_from(Some(group), run)
    }

    fn make_writable_from(&mut self, group: Option<KeyGroup>, run: FrameId) -> Result<FrameId, HeapError> {
        if self.is_writable(run) {
            return Ok(run);
        }
        self.collect();
        if !self.is_frozen(run, group) {
            self.side.set_born(run, self.epoch);
            return Ok(run);
        }
        let Mark::Used(order) = self.side.mark(run) else {
            return Err(HeapError::Broken { what: "a live run is not in use" });
        };
        let copy = self.take(order).inspect_err(|_| self.ask_for(group))?;
        match self.read_and_write(run, copy) {
            Some((from, to)) if from.len() == to.len() => to.copy_from_slice(from),
            _ => return Err(HeapError::Broken { what: "a copy has not the length of its run" }),
        }
        self.copied_frames += 1 << order;
        self.retire_from(group, run);
        Ok(copy)
    }

    /// Ends the epoch: every live frame is frozen. Gives the epoch and the slot of its snapshot, with one guard.
    pub(crate) fn freeze(&mut self) -> Result<(u32, usize), HeapError> {
        self.collect();
        let next = self.epoch.checked_add(1).ok_or(HeapError::EpochsExhausted)?;
        let is_taken = |slot: &usize| self.snapshots.iter().any(|alive| alive.slot == *slot);
        let slot = (0..SLOTS).find(|slot| !is_taken(slot)).ok_or(HeapError::TooManySnapshots)?;
        let alive = Alive { epoch: self.epoch, slot, retired: List::EMPTY };
        self.snapshots.push(alive).map_err(|_| HeapError::TooManySnapshots)?;
        self.swept = 0;
        self.done_groups(slot).clear();
        self.side.handle().arena().slots().open(slot);
        self.epoch = next;
        Ok((alive.epoch, slot))
    }

    /// Looks for released snapshots. What was retired under one is now retired under the one before it, or
    /// waits to become free. Constant time.
    pub(crate) fn collect(&mut self) {
        for alive in core::mem::take(&mut self.snapshots) {
            let released = self.side.handle().arena().slots().is_released(alive.slot);
            if released || is_mutant("heap_early_release") {
                let heir = self.snapshots.last_mut().map_or(&mut self.waiting, |before| &mut before.retired);
                *heir = join(&mut self.side, alive.retired, *heir);
                self.swept = 0;
            } else if self.snapshots.push(alive).is_err() {
                debug_assert!(false, "no more are kept than there were");
            }
        }
    }

    /// Makes one waiting run free; says whether there was one.
    fn drain_one(&mut self) -> bool {
        let Some(run) = pop(&self.side, &mut self.waiting) else { return false };
        let (Mark::Used(order) | Mark::Retired(order)) = self.side.mark(run) else { return false };
        self.retired_frames -= 1 << order;
        self.free.give(&mut self.side, run, order);
        true
    }
}

/// A heap gives back no memory when it goes: snapshots may read it. The fault is to do so.
#[cfg(slackwater_loom)]
impl<A: ArenaHandle> Drop for FrameStore<A> {
    fn drop(&mut self) {
        if !is_mutant("heap_drop_frees") {
            return;
        }
        for run in (1..self.side.geometry().frames).map(FrameId) {
            self.side.set_born(run, self.epoch);
            self.write(run).into_iter().for_each(|bytes| bytes.fill(0));
        }
    }
}

/// Takes the first run off a list.
fn pop<A: ArenaHandle>(side: &Side<A>, list: &mut List) -> Option<FrameId> {
    let run = Some(list.head).filter(|run| !run.is_none())?;
    *list = if run == list.tail { List::EMPTY } else { List { head: side.link(run), tail: list.tail } };
    Some(run)
}

/// One list behind the other.
fn join<A: ArenaHandle>(side: &mut Side<A>, first: List, second: List) -> List {
    if first.head.is_none() {
        return second;
    }
    if second.head.is_none() {
        return first;
    }
    side.set_link(first.tail, second.head);
    List { head: first.head, tail: second.tail }
}

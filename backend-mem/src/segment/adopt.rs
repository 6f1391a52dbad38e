//! Key groups on their way from the frames of a segment into those of a heap.

use std::vec::Vec;

use slackwater_core::format::segment::{IndexRow, IndexView, KeyGroupRow, Section};
use slackwater_core::key_group::KeyGroup;

use super::error::RestoreCause;
use super::page::{PageChecker, PageName};
use super::read::ReadAt;
use super::restore::{RestoreStats, StateMap};
use super::source::SegmentSource;
use crate::arena::{ArenaHandle, FrameId};
use crate::heap::Heap;
use crate::heap::adopt::PageTaken;
use crate::heap::adopt::check::{CheckedPage, SectionPages, is_dense};

/// A key group and its index.
#[derive(Clone, Copy, Debug)]
pub(super) struct IndexedGroup<'i> {
    pub(super) row: &'i KeyGroupRow,
    pub(super) index: IndexView<'i>,
}

impl IndexedGroup<'_> {
    /// The number of the frame behind its last one.
    fn end(&self) -> u64 {
        u64::from(self.row.first_frame.get()) + u64::from(self.row.frame_count.get())
    }
}

/// Key groups that lie one behind the other. Frames that no head leads to when it is dropped go back to the heap.
#[derive(Debug)]
struct Adoption<'h, A: ArenaHandle> {
    heap: &'h mut Heap<A>,
    states: &'h StateMap,
    checker: PageChecker<'h>,
    first_frame: u32,
    /// By frame, from the first on.
    slots: Vec<Slot>,
}

/// A page and where in the heap it is, once it has come.
#[derive(Debug)]
struct Slot {
    name: PageName,
    frame: FrameId,
    has_chains: bool,
}

impl<'h, A: ArenaHandle> Adoption<'h, A> {
    fn new(
        heap: &'h mut Heap<A>,
        states: &'h StateMap,
        checker: PageChecker<'h>,
        groups: &[IndexedGroup<'_>],
    ) -> Result<Self, RestoreCause> {
        let first_frame = groups.first().map_or(0, |group| group.row.first_frame.get());
        let mut slots = Vec::new();
        for group in groups {
            let pages = checker.pages(group.row, &group.index)?;
            slots.extend(pages.into_iter().map(|name| Slot {
                name,
                frame: FrameId::NONE,
                has_chains: false,
            }));
        }
        Ok(Self { heap, states, checker, first_frame, slots })
    }

    /// Checks whole frames of the file, each alone, and takes them over. Gives the number of the one behind.
    fn take(&mut self, first: u64, bytes: &[u8]) -> Result<u64, RestoreCause> {
        let frame_size = usize::try_from(self.checker.header.frame_size()).unwrap_or(usize::MAX);
        let at = first.checked_sub(self.first_frame.into()).and_then(|at| usize::try_from(at).ok());
        let at = at.unwrap_or(usize::MAX);
        let slots = self.slots.get_mut(at..).unwrap_or_default();
        for (slot, frame) in slots.iter_mut().zip(bytes.chunks_exact(frame_size)) {
            slot.has_chains = self.checker.check(&slot.name, frame)?;
            slot.frame = self.heap.take_page(self.states.get(slot.name.state)?, frame)?;
        }
        Ok(first + (bytes.len() / frame_size) as u64)
    }

    /// Checks the pages of a key group together, and makes them the heap's. All have come.
    fn adopt(&mut self, group: &IndexedGroup<'_>, stats: &mut RestoreStats) -> Result<(), RestoreCause> {
        for section in group.index.sections() {
            let mut pages = SectionPages::new(section.head, section.rows, |row| self.page(row));
            pages.check(self.checker.hasher).map_err(|defect| {
                let state = section.head.state_id.get();
                self.checker.cause_of(group.row.key_group.get(), state, defect)
            })?;
        }
        for section in group.index.sections() {
            self.adopt_section(group.row, &section)?;
            stats.entries += section.head.entry_count.get();
        }
        stats.key_groups += 1;
        stats.key_groups_adopted += 1;
        stats.frames_len += u64::from(group.row.frame_count.get()) * self.checker.header.frame_size();
        Ok(())
    }

    fn adopt_section(&mut self, group: &KeyGroupRow, section: &Section<'_>) -> Result<(), RestoreCause> {
        let slots = section.rows.iter().map(|row| (row.lpn.get(), self.slot_of(row)));
        let pages: Vec<PageTaken> = slots
            .map(|(lpn, at)| (lpn, self.slots.get(at).map_or(FrameId::NONE, |slot| slot.frame)))
            .collect();
        let place = (self.states.get(section.head.state_id.get())?, KeyGroup(group.key_group.get()));
        let head = section.head;
        self.heap.adopt(place, &pages, (head.entry_count.get(), head.root_lpn.get()))?;
        for row in section.rows {
            let at = self.slot_of(row);
            if let Some(slot) = self.slots.get_mut(at) {
                slot.frame = FrameId::NONE;
            }
        }
        Ok(())
    }

    fn slot_of(&self, row: &IndexRow) -> usize {
        row.frame_no.get().saturating_sub(self.first_frame) as usize
    }

    fn page(&self, row: &IndexRow) -> CheckedPage<'_> {
        match self.slots.get(self.slot_of(row)) {
            Some(slot) => {
                CheckedPage { bytes: self.heap.page_taken(slot.frame), has_chains: slot.has_chains }
            }
            None => CheckedPage { bytes: &[], has_chains: false },
        }
    }
}

impl<A: ArenaHandle> Drop for Adoption<'_, A> {
    fn drop(&mut self) {
        for slot in self.slots.iter().filter(|slot| !slot.frame.is_none()) {
            self.heap.drop_page(slot.frame);
        }
    }
}

/// Takes over the pages of key groups that lie one behind the other, each as soon as all of it is there.
pub(super) fn adopt_groups<R: ReadAt, A: ArenaHandle>(
    source: &mut SegmentSource<R>,
    groups: &[IndexedGroup<'_>],
    heap: &mut Heap<A>,
    (states, checker): (&StateMap, PageChecker<'_>),
    stats: &mut RestoreStats,
) -> Result<(), RestoreCause> {
    let rows: Vec<KeyGroupRow> = groups.iter().map(|group| *group.row).collect();
    let mut adoption = Adoption::new(heap, states, checker, groups)?;
    let mut waiting = groups.iter().peekable();
    source.read_frames(&rows, &mut |first, frames| {
        let end = adoption.take(first, frames)?;
        while let Some(group) = waiting.next_if(|group| group.end() <= end) {
            adoption.adopt(group, stats)?;
        }
        Ok(())
    })
}

/// Whether the heap can take over a key group's pages: it has nothing there yet, and the tables for them are in
/// proportion.
pub(super) fn is_adoptable<A: ArenaHandle>(
    heap: &Heap<A>,
    states: &StateMap,
    group: &IndexedGroup<'_>,
) -> Result<bool, RestoreCause> {
    let key_group = KeyGroup(group.row.key_group.get());
    for section in group.index.sections() {
        let state = states.get(section.head.state_id.get())?;
        if !heap.is_group_empty(state, key_group)? || !is_dense(section.rows) {
            return Ok(false);
        }
    }
    Ok(true)
}

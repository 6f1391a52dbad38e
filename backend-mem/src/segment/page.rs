//! Pages where the index of a key group says they are.

use std::vec;
use std::vec::Vec;

use slackwater_core::format::FormatError;
use slackwater_core::format::checksum::PART_FRAME;
use slackwater_core::format::page::{PageHeader, PageView};
use slackwater_core::format::segment::{
    Compression, FooterView, IndexRow, IndexView, KeyGroupRow, SegmentHeader, StateEntry,
};
use slackwater_core::key_group::KeyGroup;

use super::error::RestoreCause;
use crate::heap::adopt::check::{Defect, Fixed, check_entries, check_records};
use crate::heap::{Hasher, StateKind};

/// A page as the index has it.
#[derive(Clone, Copy, Debug)]
pub(super) struct PageName {
    pub(super) key_group: u16,
    /// As the file numbers it.
    pub(super) state: u16,
    pub(super) row: IndexRow,
}

/// What pages of a file are checked with.
#[derive(Clone, Copy, Debug)]
pub(super) struct PageChecker<'s> {
    pub(super) header: SegmentHeader,
    pub(super) hasher: Hasher,
    pub(super) shapes: &'s Shapes,
}

/// The kind of each state and the shape of its pages, by its number in the file, ascending.
#[derive(Debug)]
pub(super) struct Shapes(Vec<(u16, StateKind, Option<Fixed>)>);

impl Shapes {
    pub(super) fn of(header: &SegmentHeader, footer: &FooterView<'_>) -> Self {
        let frame_size = usize::try_from(header.frame_size()).unwrap_or(0);
        let shape = |state: StateEntry<'_>| {
            let kind = StateKind::of_number(state.kind);
            (state.state_id, kind, Fixed::of_widths(frame_size, state.key_width, state.value_width))
        };
        Self(footer.states().map(shape).collect())
    }

    fn get(&self, state: u16) -> (StateKind, Option<Fixed>) {
        let at = self.0.binary_search_by_key(&state, |(state, ..)| *state);
        let shape = at.ok().and_then(|at| self.0.get(at));
        shape.map_or((StateKind::Hash, None), |(_, kind, fixed)| (*kind, *fixed))
    }
}

impl PageChecker<'_> {
    /// Checks all that can be told from the page alone: checksum, name, records. Says whether any record of it
    /// refers to a chain.
    pub(super) fn check(&self, name: &PageName, frame: &[u8]) -> Result<bool, RestoreCause> {
        self.check_page(name, frame).map_err(|error| self.cause(name, error))
    }

    fn check_page(&self, name: &PageName, frame: &[u8]) -> Result<bool, FormatError> {
        let PageName { key_group, state, row } = name;
        let identity = self.header.identity(PART_FRAME).of_key_group(*key_group);
        let sum = identity.of_page(*state, row.lpn.get()).checksum(frame);
        expect("checksum of a frame", row.checksum.get().into(), sum.into())?;
        let view = PageView::parse(frame)?;
        let header: &PageHeader = view.header();
        expect("state of a page", (*state).into(), header.state_id.get().into())?;
        expect("key group of a page", (*key_group).into(), header.key_group.get().into())?;
        expect("lpn of a page", row.lpn.get().into(), header.lpn.get().into())?;
        expect("type of a page", row.kind.into(), header.page_type.get().into())?;
        expect("local depth of a page", row.depth.into(), header.local_depth.into())?;
        let epoch = u64::from(header.epoch.get());
        expect("epoch of a page", self.header.epoch.min(epoch), epoch)?;
        view.check()?;
        match (view, self.shapes.get(*state)) {
            (PageView::Hash(_), (StateKind::Hash, fixed)) => check_records(frame, self.hasher, fixed),
            (PageView::Tree(page), (StateKind::Ordered, _)) => check_entries(&page),
            (PageView::Overflow(_), _) => Ok(false),
            (PageView::Hash(_) | PageView::Tree(_), (kind, _)) => {
                Err(corrupt("kind of a page's state", kind.number().into(), header.page_type.get().into()))
            }
        }
    }

    /// The pages that an index names, in the order of their frames. Each frame has one.
    pub(super) fn pages(
        &self,
        row: &KeyGroupRow,
        index: &IndexView<'_>,
    ) -> Result<Vec<PageName>, RestoreCause> {
        let key_group = row.key_group.get();
        let mut pages: Vec<Option<PageName>> = vec![None; row.frame_count.get() as usize];
        for section in index.sections() {
            for page in section.rows {
                let name = PageName { key_group, state: section.head.state_id.get(), row: *page };
                let at = page.frame_no.get().saturating_sub(row.first_frame.get()) as usize;
                match pages.get_mut(at) {
                    Some(place @ None) => *place = Some(name),
                    Some(Some(_)) | None => {
                        return Err(self.cause(&name, corrupt("frame of two pages", 0, 1)));
                    }
                }
            }
        }
        // An index has as many rows as frames.
        Ok(pages.into_iter().flatten().collect())
    }

    pub(super) fn cause_of(&self, key_group: u16, state: u16, defect: Defect) -> RestoreCause {
        self.cause(&PageName { key_group, state, row: defect.row }, defect.error)
    }

    fn cause(&self, name: &PageName, error: FormatError) -> RestoreCause {
        let offset = match self.header.compression {
            Compression::None => self.header.offset_of_frame(name.row.frame_no.get().into()),
            Compression::Lz4 | Compression::Zstd => 0,
        };
        RestoreCause::Page {
            key_group: KeyGroup(name.key_group),
            state: name.state,
            lpn: name.row.lpn.get(),
            error: error.within(offset),
        }
    }
}

fn expect(what: &'static str, expected: u64, found: u64) -> Result<(), FormatError> {
    if expected == found { Ok(()) } else { Err(corrupt(what, expected, found)) }
}

const fn corrupt(what: &'static str, expected: u64, found: u64) -> FormatError {
    FormatError::Corrupt { what, offset: 0, expected, found }
}

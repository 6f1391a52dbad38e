//! The pages of one key group, read and checked, and the entries in them.

use std::vec::Vec;

use slackwater_core::format::page::PageView;
use slackwater_core::format::segment::{IndexRow, IndexView, KeyGroupRow, Section};

use super::error::RestoreCause;
use super::page::PageChecker;
use crate::heap::adopt::check::{CheckedPage, SectionPages};

/// An entry is visited with the state's number in the file, its key and its value.
pub(super) type Visit<'v> = dyn FnMut(u16, &[u8], &[u8]) -> Result<(), RestoreCause> + 'v;

/// Index and frames of one key group, sound all together.
#[derive(Debug)]
pub(super) struct KeyGroupPages<'s> {
    checker: PageChecker<'s>,
    row: KeyGroupRow,
    index: Vec<u8>,
    frames: Vec<u8>,
    /// For each frame, whether it refers to chains.
    has_chains: Vec<bool>,
}

impl<'s> KeyGroupPages<'s> {
    pub(super) fn check(
        checker: PageChecker<'s>,
        row: KeyGroupRow,
        index: Vec<u8>,
        frames: Vec<u8>,
    ) -> Result<Self, RestoreCause> {
        let view = IndexView::parse(&index, &checker.header, &row)?;
        let pages = checker.pages(&row, &view)?;
        let frame_size = usize::try_from(checker.header.frame_size()).unwrap_or(usize::MAX);
        let named = pages.iter().zip(frames.chunks_exact(frame_size));
        let has_chains = named.map(|(name, frame)| checker.check(name, frame)).collect::<Result<_, _>>()?;
        let pages = Self { checker, row, index, frames, has_chains };
        for section in pages.index()?.sections() {
            pages.section(&section).check(checker.hasher).map_err(|defect| {
                checker.cause_of(row.key_group.get(), section.head.state_id.get(), defect)
            })?;
        }
        Ok(pages)
    }

    pub(super) fn index(&self) -> Result<IndexView<'_>, RestoreCause> {
        Ok(IndexView::parse(&self.index, &self.checker.header, &self.row)?)
    }

    fn section<'p>(
        &'p self,
        section: &Section<'p>,
    ) -> SectionPages<'p, impl Fn(&IndexRow) -> CheckedPage<'p>> {
        SectionPages::new(section.head, section.rows, |row| self.page(row))
    }

    /// Its frames, whose memory may be used for the next.
    pub(super) fn into_frames(self) -> Vec<u8> {
        self.frames
    }

    /// Bytes in its frames.
    pub(super) const fn frames_len(&self) -> u64 {
        self.frames.len() as u64
    }

    fn page(&self, page: &IndexRow) -> CheckedPage<'_> {
        let size = usize::try_from(self.checker.header.frame_size()).unwrap_or(0);
        let at = page.frame_no.get().saturating_sub(self.row.first_frame.get()) as usize;
        let bytes = self.frames.get(at * size..).and_then(|frames| frames.get(..size)).unwrap_or_default();
        CheckedPage { bytes, has_chains: self.has_chains.get(at).copied().unwrap_or(false) }
    }

    /// Visits every entry. Memory: the longest key and the longest value that lie in chains.
    ///
    /// # Errors
    /// What `visit` says.
    pub(super) fn entries(&self, visit: &mut Visit<'_>) -> Result<u64, RestoreCause> {
        let (mut key_buf, mut value_buf) = (Vec::new(), Vec::new());
        let mut count = 0;
        for section in self.index()?.sections() {
            let pages = self.section(&section);
            for row in section.rows {
                match PageView::parse(self.page(row).bytes)? {
                    PageView::Hash(page) => {
                        for record in page.records() {
                            let record = record?;
                            let key = pages.bytes(record.key, &mut key_buf);
                            let value = pages.bytes(record.value, &mut value_buf);
                            visit(section.head.state_id.get(), key, value)?;
                            count += 1;
                        }
                    }
                    PageView::Tree(page) if !page.is_inner() => {
                        for entry in page.entries() {
                            pages.tree_key(&entry.key, &mut key_buf);
                            let value = pages.bytes(entry.value, &mut value_buf);
                            visit(section.head.state_id.get(), &key_buf, value)?;
                            count += 1;
                        }
                    }
                    PageView::Tree(_) | PageView::Overflow(_) => {}
                }
            }
        }
        Ok(count)
    }
}

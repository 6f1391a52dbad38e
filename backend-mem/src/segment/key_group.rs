//! The pages of one key group, read and checked, and the entries in them.

use std::vec::Vec;

use slackwater_core::format::page::PageView;
use slackwater_core::format::segment::{IndexRow, IndexView, KeyGroupRow, Section};
use zerocopy::FromZeros;

use super::error::RestoreCause;
use super::page::{PageChecker, PageName};
use crate::heap::adopt::check::{CheckedPage, SectionPages};

/// An entry is visited with the state's number in the file, its key and its value.
pub(super) type Visit<'v> = dyn FnMut(u16, &[u8], &[u8]) -> Result<(), RestoreCause> + 'v;

/// Index and frames of one key group, sound all together once they have been checked so.
#[derive(Debug)]
pub(super) struct KeyGroupPages<'s> {
    checker: PageChecker<'s>,
    row: KeyGroupRow,
    index: Vec<u8>,
    /// The pages that the index names, by frame.
    names: Vec<PageName>,
    /// Those that have come.
    frames: Vec<u8>,
    /// For each of these, whether it refers to chains.
    has_chains: Vec<bool>,
}

impl<'s> KeyGroupPages<'s> {
    /// Of no key group yet.
    pub(super) fn new(checker: PageChecker<'s>) -> Self {
        let (row, index, names) = (KeyGroupRow::new_zeroed(), Vec::new(), Vec::new());
        Self { checker, row, index, names, frames: Vec::new(), has_chains: Vec::new() }
    }

    /// Begins another key group, in the memory of the one before.
    pub(super) fn begin(&mut self, row: &KeyGroupRow, index: &[u8]) -> Result<(), RestoreCause> {
        self.index.clear();
        self.index.extend_from_slice(index);
        self.row = *row;
        self.names = self.checker.pages(row, &self.index()?)?;
        self.frames.clear();
        self.has_chains.clear();
        Ok(())
    }

    /// Checks whole frames, each alone, and takes them in as far as they are of this key group. Gives the others.
    pub(super) fn take<'f>(&mut self, frames: &'f [u8]) -> Result<&'f [u8], RestoreCause> {
        let frame_size = usize::try_from(self.checker.header.frame_size()).unwrap_or(usize::MAX);
        let names = self.names.iter().skip(self.has_chains.len());
        for (name, frame) in names.zip(frames.chunks_exact(frame_size)) {
            self.has_chains.push(self.checker.check(name, frame)?);
        }
        let end = self.has_chains.len() * frame_size - self.frames.len();
        let (own, others) = frames.split_at_checked(end).unwrap_or((frames, &[]));
        self.frames.extend_from_slice(own);
        Ok(others)
    }

    /// Whether all of its frames have come.
    pub(super) const fn is_whole(&self) -> bool {
        self.has_chains.len() >= self.names.len()
    }

    /// Checks the pages together. All have come.
    pub(super) fn check_together(&self) -> Result<(), RestoreCause> {
        for section in self.index()?.sections() {
            self.section(&section).check(self.checker.hasher).map_err(|defect| {
                self.checker.cause_of(self.row.key_group.get(), section.head.state_id.get(), defect)
            })?;
        }
        Ok(())
    }

    pub(super) const fn row(&self) -> &KeyGroupRow {
        &self.row
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

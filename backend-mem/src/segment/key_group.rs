//! The pages of one key group, read and checked, and the entries in them.

use std::vec;
use std::vec::Vec;

use slackwater_core::format::FormatError;
use slackwater_core::format::checksum::PART_FRAME;
use slackwater_core::format::page::{Content, OverflowRef, PageHeader, PageView};
use slackwater_core::format::segment::{IndexRow, IndexView, KeyGroupRow, Section, SegmentHeader};

/// An entry is visited with the state's number in the file, its key and its value.
pub(super) type Visit<'v, E> = dyn FnMut(u16, &[u8], &[u8]) -> Result<(), E> + 'v;

/// Index and frames of one key group: every frame has one row, the right checksum and the right name.
#[derive(Debug)]
pub(super) struct KeyGroupPages {
    header: SegmentHeader,
    row: KeyGroupRow,
    index: Vec<u8>,
    frames: Vec<u8>,
}

impl KeyGroupPages {
    pub(super) fn check(
        header: SegmentHeader,
        row: KeyGroupRow,
        index: Vec<u8>,
        frames: Vec<u8>,
    ) -> Result<Self, FormatError> {
        let pages = Self { header, row, index, frames };
        let mut seen = vec![false; row.frame_count.get() as usize];
        for section in pages.index()?.sections() {
            for page in section.rows {
                let at = (page.frame_no.get() - row.first_frame.get()) as usize;
                match seen.get_mut(at) {
                    Some(seen) if !*seen => *seen = true,
                    Some(_) | None => return Err(pages.corrupt("frame of two pages", page, 0, 1)),
                }
                pages.check_page(section.head.state_id.get(), page)?;
            }
        }
        Ok(pages)
    }

    fn index(&self) -> Result<IndexView<'_>, FormatError> {
        IndexView::parse(&self.index, &self.header, &self.row)
    }

    /// Bytes in its frames.
    pub(super) const fn frames_len(&self) -> u64 {
        self.frames.len() as u64
    }

    fn frame(&self, page: &IndexRow) -> &[u8] {
        let size = usize::try_from(self.header.frame_size()).unwrap_or(0);
        let at = page.frame_no.get().saturating_sub(self.row.first_frame.get()) as usize;
        self.frames.get(at * size..).and_then(|frames| frames.get(..size)).unwrap_or_default()
    }

    /// The page is what its row says it is.
    fn check_page(&self, state: u16, page: &IndexRow) -> Result<(), FormatError> {
        let frame = self.frame(page);
        let (group, lpn) = (self.row.key_group.get(), page.lpn.get());
        let sum = self.header.identity(PART_FRAME).of_key_group(group).of_page(state, lpn).checksum(frame);
        self.expect("checksum of a frame", page, page.checksum.get().into(), sum.into())?;
        let view = self.view(page)?;
        let header: &PageHeader = view.header();
        self.expect("state of a page", page, state.into(), header.state_id.get().into())?;
        self.expect("key group of a page", page, group.into(), header.key_group.get().into())?;
        self.expect("lpn of a page", page, lpn.into(), header.lpn.get().into())?;
        self.expect("type of a page", page, page.kind.into(), header.page_type.get().into())?;
        self.expect("local depth of a page", page, page.depth.into(), header.local_depth.into())?;
        view.check().map_err(|error| error.within(self.offset_of(page)))
    }

    fn view(&self, page: &IndexRow) -> Result<PageView<'_>, FormatError> {
        PageView::parse(self.frame(page)).map_err(|error| error.within(self.offset_of(page)))
    }

    /// Visits every entry. Memory: the longest key and the longest value that lie in chains.
    ///
    /// # Errors
    /// What is wrong with a chain or a count, or what `visit` says.
    pub(super) fn entries<E: From<FormatError>>(&self, visit: &mut Visit<'_, E>) -> Result<u64, E> {
        let (mut key_buf, mut value_buf) = (Vec::new(), Vec::new());
        let mut total = 0;
        for section in self.index()?.sections() {
            let mut chains = Chains { pages: self, section, seen: vec![false; section.rows.len()] };
            let mut count = 0;
            for page in section.rows {
                let PageView::Hash(hash_page) = self.view(page)? else { continue };
                for record in hash_page.records() {
                    let record = record?;
                    let key = chains.content(record.key, &mut key_buf)?;
                    let value = chains.content(record.value, &mut value_buf)?;
                    visit(section.head.state_id.get(), key, value)?;
                    count += 1;
                }
            }
            chains.check_all_seen()?;
            let Some(page) = section.rows.first() else { continue };
            self.expect("entries of a state", page, section.head.entry_count.get(), count)?;
            total += count;
        }
        Ok(total)
    }

    fn expect(
        &self,
        what: &'static str,
        page: &IndexRow,
        expected: u64,
        found: u64,
    ) -> Result<(), FormatError> {
        if expected == found { Ok(()) } else { Err(self.corrupt(what, page, expected, found)) }
    }

    fn corrupt(&self, what: &'static str, page: &IndexRow, expected: u64, found: u64) -> FormatError {
        FormatError::Corrupt { what, offset: self.offset_of(page), expected, found }
    }

    fn offset_of(&self, page: &IndexRow) -> u64 {
        self.header.offset_of_frame(page.frame_no.get().into())
    }
}

/// The overflow chains of a state in a key group. Each page belongs to just one, so that all chains together
/// are no longer than the frames.
struct Chains<'p> {
    pages: &'p KeyGroupPages,
    section: Section<'p>,
    seen: Vec<bool>,
}

impl<'p> Chains<'p> {
    fn content<'b>(&mut self, content: Content<'b>, buf: &'b mut Vec<u8>) -> Result<&'b [u8], FormatError> {
        match content {
            Content::Inline(bytes) => Ok(bytes),
            Content::Overflow(reference) => {
                buf.clear();
                self.read(reference, buf)?;
                Ok(buf)
            }
        }
    }

    fn read(&mut self, reference: OverflowRef, buf: &mut Vec<u8>) -> Result<(), FormatError> {
        let len = reference.len.get() as usize;
        let mut next = Some(reference.first_lpn.get());
        while let Some(lpn) = next {
            let Ok(at) = self.section.rows.binary_search_by_key(&lpn, |row| row.lpn.get()) else {
                return Err(self.broken("page of a chain", u64::MAX, lpn.into()));
            };
            let (Some(row), Some(seen)) = (self.section.rows.get(at), self.seen.get_mut(at)) else { break };
            if core::mem::replace(seen, true) {
                return Err(self.pages.corrupt("page of two chains", row, 0, 1));
            }
            let PageView::Overflow(page) = self.pages.view(row)? else {
                return Err(self.pages.corrupt("type of a page of a chain", row, 5, row.kind.into()));
            };
            buf.extend_from_slice(page.bytes());
            next = page.next_lpn();
        }
        if buf.len() == len {
            return Ok(());
        }
        Err(self.broken("length of a chain", len as u64, buf.len() as u64))
    }

    /// A page that no chain leads to could hide anything.
    fn check_all_seen(&self) -> Result<(), FormatError> {
        for (row, seen) in self.section.rows.iter().zip(&self.seen) {
            if !seen && matches!(self.pages.view(row)?, PageView::Overflow(_)) {
                return Err(self.pages.corrupt("page of no chain", row, 1, 0));
            }
        }
        Ok(())
    }

    fn broken(&self, what: &'static str, expected: u64, found: u64) -> FormatError {
        let offset = self.pages.row.index_offset.get();
        FormatError::Corrupt { what, offset, expected, found }
    }
}

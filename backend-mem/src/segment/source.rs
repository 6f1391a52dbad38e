//! A segment that is open for reading: all but its key groups is read and checked.

use std::string::String;
use std::vec::Vec;

use slackwater_core::durable::Disk;
use slackwater_core::format::FormatError;
use slackwater_core::format::segment::{
    BLOCK_SIZE_MAX, FooterView, KeyGroupRow, SegmentHeader, SegmentTrailer, SegmentTrailerLayout,
};
use slackwater_core::key_group::KeyGroupRange;

use super::SegmentRef;
use super::error::{RestoreCause, RestoreError};
use super::key_group::KeyGroupPages;
use super::read::FileReader;

/// An open segment.
#[derive(Debug)]
pub(super) struct SegmentSource<'d, D: Disk> {
    file: FileReader<'d, D>,
    header: SegmentHeader,
    trailer: SegmentTrailer,
    footer: Vec<u8>,
}

impl<'d, D: Disk> SegmentSource<'d, D> {
    /// Opens the segment that a manifest lists as `expected`, and reads header, trailer, footer and what
    /// lies between these two.
    pub(super) fn open(disk: &'d mut D, path: &str, expected: &SegmentRef) -> Result<Self, RestoreError> {
        Self::open_inner(disk, path, expected)
            .map_err(|cause| RestoreError { path: String::from(path), cause })
    }

    fn open_inner(disk: &'d mut D, path: &str, expected: &SegmentRef) -> Result<Self, RestoreCause> {
        let mut file = FileReader::open(disk, path)?;
        let len = file.len();
        same("length", expected.len, len)?;

        let header = SegmentHeader::parse(&file.read(0, len.min(BLOCK_SIZE_MAX as u64))?)?;
        same("file id", expected.file_id, header.file_id)?;
        same("first key group", expected.key_groups.first.0, header.key_groups.first.0)?;
        same("last key group", expected.key_groups.last.0, header.key_groups.last.0)?;

        let trailer_len = len.min(SegmentTrailerLayout::LEN as u64);
        let trailer = SegmentTrailer::parse(&file.read(len - trailer_len, trailer_len)?, len)?;
        same("checksum of the footer", expected.footer_checksum, trailer.footer_checksum)?;

        let mut footer = file.read(trailer.footer_offset, len - trailer_len - trailer.footer_offset)?;
        let padding = usize::try_from(trailer.footer_len).unwrap_or(usize::MAX).min(footer.len());
        check_padding(&footer, padding, trailer.footer_offset)?;
        footer.truncate(padding);
        FooterView::parse(&footer, &header, &trailer)?;
        Ok(Self { file, header, trailer, footer })
    }

    pub(super) const fn header(&self) -> &SegmentHeader {
        &self.header
    }

    /// The footer, which was checked when the segment was opened.
    pub(super) fn footer(&self) -> Result<FooterView<'_>, RestoreCause> {
        Ok(FooterView::parse(&self.footer, &self.header, &self.trailer)?)
    }

    /// The key groups of the segment that lie in `range` and have pages.
    pub(super) fn key_groups(&self, range: KeyGroupRange) -> Result<Vec<KeyGroupRow>, RestoreCause> {
        let wanted = |row: &&KeyGroupRow| (range.first.0..=range.last.0).contains(&row.key_group.get());
        Ok(self.footer()?.key_groups().iter().filter(wanted).copied().collect())
    }

    /// Reads a key group and checks its index and frames.
    pub(super) fn read_key_group(&mut self, row: &KeyGroupRow) -> Result<KeyGroupPages, RestoreCause> {
        let index = self.file.read(row.index_offset.get(), row.index_len.get().into())?;
        let from = self.header.offset_of_frame(row.first_frame.get().into());
        let frames = self.file.read(from, u64::from(row.frame_count.get()) * self.header.frame_size())?;
        Ok(KeyGroupPages::check(self.header, *row, index, frames)?)
    }
}

/// Whether the file is the one that is wanted.
fn same<T: Into<u128> + PartialEq>(what: &'static str, expected: T, found: T) -> Result<(), RestoreCause> {
    if expected == found {
        return Ok(());
    }
    Err(RestoreCause::Foreign { what, expected: expected.into(), found: found.into() })
}

fn check_padding(bytes: &[u8], from: usize, base: u64) -> Result<(), FormatError> {
    let padding = bytes.iter().enumerate().skip(from);
    match padding.into_iter().find(|(_, byte)| **byte != 0) {
        None => Ok(()),
        Some((at, byte)) => Err(FormatError::Corrupt {
            what: "padding behind the footer",
            offset: base + at as u64,
            expected: 0,
            found: u64::from(*byte),
        }),
    }
}

//! A segment being read: first all but its key groups, then these.

use std::collections::BTreeSet;
use std::vec::Vec;

use slackwater_core::durable::Disk;
use slackwater_core::format::FormatError;
use slackwater_core::format::segment::{
    BLOCK_SIZE_MAX, Compression, FooterView, KeyGroupRow, SegmentHeader, SegmentTrailer, SegmentTrailerLayout,
};
use slackwater_core::key_group::{KeyGroup, KeyGroupRange};

use super::SegmentRef;
use super::compression::{Decompressor, TakeFrames, check_compression};
use super::error::RestoreCause;
use super::key_group::KeyGroupPages;
use super::page::PageChecker;
use super::read::FileReader;

/// What a segment says of itself, read and checked.
#[derive(Debug)]
pub(super) struct SegmentMeta {
    pub(super) header: SegmentHeader,
    trailer: SegmentTrailer,
    footer: Vec<u8>,
}

impl SegmentMeta {
    /// Reads header, trailer, footer and what lies between these two of the segment that a manifest lists as
    /// `expected`.
    pub(super) fn read<D: Disk>(
        disk: &mut D,
        path: &str,
        expected: &SegmentRef,
    ) -> Result<Self, RestoreCause> {
        let mut file = FileReader::open(disk, path)?;
        let len = file.len();
        same("length", expected.len, len)?;

        let header = SegmentHeader::parse(&file.read(0, len.min(BLOCK_SIZE_MAX as u64))?)?;
        check_compression(header.compression)?;
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
        let meta = Self { header, trailer, footer };
        meta.check_names()?;
        Ok(meta)
    }

    /// No two states have one name.
    fn check_names(&self) -> Result<(), RestoreCause> {
        let mut names = BTreeSet::new();
        for state in self.footer()?.states() {
            if !names.insert((state.operator, state.state)) {
                let (what, found) = ("states of one name", state.state_id.into());
                return Err(FormatError::Corrupt { what, offset: 0, expected: 0, found }.into());
            }
        }
        Ok(())
    }

    /// The footer, which was checked when it was read.
    pub(super) fn footer(&self) -> Result<FooterView<'_>, RestoreCause> {
        Ok(FooterView::parse(&self.footer, &self.header, &self.trailer)?)
    }

    /// The key groups of the segment that lie in `range` and have pages.
    pub(super) fn key_groups(&self, range: KeyGroupRange) -> Result<Vec<KeyGroupRow>, RestoreCause> {
        let wanted = |row: &&KeyGroupRow| (range.first.0..=range.last.0).contains(&row.key_group.get());
        Ok(self.footer()?.key_groups().iter().filter(wanted).copied().collect())
    }

    /// Where the states lie that are not kept by key, if they have entries.
    pub(super) fn row_without_key(&self) -> Result<Option<KeyGroupRow>, RestoreCause> {
        let last = self.footer()?.key_groups().last().copied();
        Ok(last.filter(|row| row.key_group.get() == KeyGroup::NONE.0))
    }
}

/// A segment that is open for reading.
#[derive(Debug)]
pub(super) struct SegmentSource<'d, D: Disk> {
    file: FileReader<'d, D>,
    header: SegmentHeader,
    decompressor: Decompressor,
    /// Memory for the frames of the next key group.
    spare: Vec<u8>,
    /// What is stored of compressed key groups.
    data: Vec<u8>,
}

impl<'d, D: Disk> SegmentSource<'d, D> {
    pub(super) fn open(disk: &'d mut D, path: &str, meta: &SegmentMeta) -> Result<Self, RestoreCause> {
        let header = meta.header;
        let decompressor = Decompressor::new(header.compression)?;
        let file = FileReader::open(disk, path)?;
        Ok(Self { file, header, decompressor, spare: Vec::new(), data: Vec::new() })
    }

    /// Reads a key group and checks its index and frames.
    pub(super) fn read_key_group<'s>(
        &mut self,
        row: &KeyGroupRow,
        checker: PageChecker<'s>,
    ) -> Result<KeyGroupPages<'s>, RestoreCause> {
        let index = self.file.read(row.index_offset.get(), row.index_len.get().into())?;
        let (from, len) = (row.data_offset.get(), row.data_len.get());
        let mut frames = core::mem::take(&mut self.spare);
        match self.header.compression {
            Compression::None => self.file.read_into(from, len, &mut frames)?,
            Compression::Lz4 | Compression::Zstd => {
                self.file.read_into(from, len, &mut self.data)?;
                frames.clear();
                self.decompressor.append_frames(&self.data, &self.header, row, &mut frames)?;
            }
        }
        KeyGroupPages::check(checker, *row, index, frames)
    }

    /// Takes back the memory of frames.
    pub(super) fn reuse(&mut self, frames: Vec<u8>) {
        self.spare = frames;
    }

    /// Reads the indexes of key groups that lie one behind the other.
    pub(super) fn read_indexes(&mut self, rows: &[KeyGroupRow]) -> Result<Vec<u8>, RestoreCause> {
        let from = rows.first().map_or(0, |row| row.index_offset.get());
        self.file.read(from, rows.iter().map(|row| u64::from(row.index_len.get())).sum())
    }

    /// Reads the frames of key groups that lie one behind the other, and gives whole ones with the number of the
    /// first of them, in any order.
    pub(super) fn read_frames(
        &mut self,
        rows: &[KeyGroupRow],
        each: &mut TakeFrames<'_>,
    ) -> Result<(), RestoreCause> {
        let from = rows.first().map_or(0, |row| row.data_offset.get());
        let len = rows.iter().map(|row| row.data_len.get()).sum();
        let header = &self.header;
        if header.compression != Compression::None {
            self.file.read_into(from, len, &mut self.data)?;
            return self.decompress(rows, each);
        }
        let frame_size = usize::try_from(header.frame_size()).unwrap_or(usize::MAX);
        self.file.read_pieces(from, len, frame_size, &mut |offset, frames| {
            each((offset - header.block_size()) / header.frame_size(), frames)
        })
    }

    /// The same for those whose chunks have been read.
    fn decompress(&mut self, rows: &[KeyGroupRow], each: &mut TakeFrames<'_>) -> Result<(), RestoreCause> {
        let mut rest = self.data.as_slice();
        for row in rows {
            let len = usize::try_from(row.data_len.get()).unwrap_or(usize::MAX);
            let (data, behind) = rest.split_at_checked(len).unwrap_or((rest, &[]));
            self.decompressor.each_chunk(data, &self.header, row, &mut self.spare, each)?;
            rest = behind;
        }
        Ok(())
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

//! A segment being read: first all but its key groups, then these.

use std::collections::BTreeSet;
use std::vec::Vec;

use slackwater_core::durable::Disk;
use slackwater_core::format::FormatError;
use slackwater_core::format::segment::{
    Compression, FooterView, KeyGroupRow, SegmentHeader, SegmentTrailer, SegmentTrailerLayout,
};
use slackwater_core::key_group::{KeyGroup, KeyGroupRange};

use super::SegmentRef;
use super::compression::{Decompressor, TakeFrames, check_compression};
use super::error::RestoreCause;
use super::key_group::KeyGroupPages;
use super::page::PageChecker;
use super::read::{FileReader, ReadAt};

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

        let header = read_header(&mut file)?;
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
pub(super) struct SegmentSource<R> {
    file: R,
    header: SegmentHeader,
    decompressor: Decompressor,
    /// What is stored of compressed key groups, as far as it has come.
    data: Vec<u8>,
    /// Memory for the frames of a chunk.
    chunk: Vec<u8>,
}

/// Takes a key group whose pages are sound.
pub(super) type TakeKeyGroup<'t, 's> = dyn FnMut(&KeyGroupPages<'s>) -> Result<(), RestoreCause> + 't;

impl<'d, D: Disk> SegmentSource<FileReader<'d, D>> {
    pub(super) fn open(disk: &'d mut D, path: &str, meta: &SegmentMeta) -> Result<Self, RestoreCause> {
        Self::new(FileReader::open(disk, path)?, meta)
    }
}

impl<R: ReadAt> SegmentSource<R> {
    pub(super) fn new(file: R, meta: &SegmentMeta) -> Result<Self, RestoreCause> {
        let header = meta.header;
        let decompressor = Decompressor::new(header.compression)?;
        Ok(Self { file, header, decompressor, data: Vec::new(), chunk: Vec::new() })
    }

    /// Reads key groups that lie one behind the other, checks index and frames of each, and gives one after the
    /// other. Memory: all indexes, the frames of one key group.
    pub(super) fn read_key_groups<'s>(
        &mut self,
        rows: &[KeyGroupRow],
        checker: PageChecker<'s>,
        each: &mut TakeKeyGroup<'_, 's>,
    ) -> Result<(), RestoreCause> {
        let indexes = self.read_indexes(rows)?;
        let mut groups = split_indexes(rows, &indexes);
        let mut pages = KeyGroupPages::new(checker);
        let mut begin = |pages: &mut KeyGroupPages<'s>| {
            groups.next().map_or(Ok(()), |(row, index)| pages.begin(row, index))
        };
        begin(&mut pages)?;
        self.read_frames(rows, &mut |_, frames| {
            let mut rest = frames;
            while !rest.is_empty() {
                rest = pages.take(rest)?;
                if pages.is_whole() {
                    pages.check_together()?;
                    each(&pages)?;
                    begin(&mut pages)?;
                }
            }
            Ok(())
        })
    }

    /// Reads the indexes of key groups that lie one behind the other.
    pub(super) fn read_indexes(&mut self, rows: &[KeyGroupRow]) -> Result<Vec<u8>, RestoreCause> {
        let from = rows.first().map_or(0, |row| row.index_offset.get());
        self.file.read(from, rows.iter().map(|row| u64::from(row.index_len.get())).sum())
    }

    /// Reads the frames of key groups that lie one behind the other, and gives whole ones, in order, with the number
    /// of the first of them.
    pub(super) fn read_frames(
        &mut self,
        rows: &[KeyGroupRow],
        each: &mut TakeFrames<'_>,
    ) -> Result<(), RestoreCause> {
        let from = rows.first().map_or(0, |row| row.data_offset.get());
        let len = rows.iter().map(|row| row.data_len.get()).sum();
        let header = self.header;
        if header.compression != Compression::None {
            return self.read_chunks(rows, (from, len), each);
        }
        let frame_size = usize::try_from(header.frame_size()).unwrap_or(usize::MAX);
        self.file.read_pieces(from, len, frame_size, &mut |offset, frames| {
            each((offset - header.block_size()) / header.frame_size(), frames)
        })
    }

    /// The same for compressed ones: a key group is decompressed as soon as all of it is there.
    fn read_chunks(
        &mut self,
        rows: &[KeyGroupRow],
        (from, len): (u64, u64),
        each: &mut TakeFrames<'_>,
    ) -> Result<(), RestoreCause> {
        let Self { file, header, decompressor, data, chunk } = self;
        let mut rows = rows.iter().peekable();
        data.clear();
        let read = file.read_pieces(from, len, 1, &mut |_, piece| {
            data.extend_from_slice(piece);
            let mut rest = data.as_slice();
            while let Some((stored, behind)) = rows.peek().and_then(|row| split_data(rest, row)) {
                if let Some(row) = rows.next() {
                    decompressor.each_chunk(stored, header, row, chunk, each)?;
                }
                rest = behind;
            }
            let done = data.len() - rest.len();
            data.drain(..done);
            Ok(())
        });
        read?;
        // Those of which nothing is stored, which is damage.
        rows.try_for_each(|row| decompressor.each_chunk(&[], header, row, chunk, each))
    }
}

/// Each key group with its index, of key groups whose indexes lie one behind the other.
pub(super) fn split_indexes<'i>(
    rows: &'i [KeyGroupRow],
    indexes: &'i [u8],
) -> impl Iterator<Item = (&'i KeyGroupRow, &'i [u8])> {
    let mut rest = indexes;
    rows.iter().map(move |row| {
        let (index, behind) = rest.split_at_checked(row.index_len.get() as usize).unwrap_or((rest, &[]));
        rest = behind;
        (row, index)
    })
}

/// What is stored of a key group, if all of it is there, and what lies behind.
fn split_data<'b>(bytes: &'b [u8], row: &KeyGroupRow) -> Option<(&'b [u8], &'b [u8])> {
    bytes.split_at_checked(usize::try_from(row.data_len.get()).ok()?)
}

/// Frames whose indexes are in memory at a time, in bytes, where nothing waits for the next: the fewer, the more often
/// the disk has nothing to do.
pub(super) const BATCH_LEN: u64 = 256 << 20;

/// Key groups in batches.
pub(super) fn batches<'r>(
    rows: &'r [KeyGroupRow],
    header: &SegmentHeader,
) -> impl Iterator<Item = &'r [KeyGroupRow]> {
    let mut rest = rows;
    core::iter::from_fn(move || {
        let (batch, behind) = rest.split_at_checked(batch_of(rest, header, BATCH_LEN))?;
        rest = behind;
        (!batch.is_empty()).then_some(batch)
    })
}

/// How many of these key groups, the first one in any case, have no more than `len_max` bytes of frames together.
pub(super) fn batch_of(rows: &[KeyGroupRow], header: &SegmentHeader, len_max: u64) -> usize {
    let mut len = 0;
    let fits = |row: &&KeyGroupRow| {
        len += u64::from(row.frame_count.get()) * header.frame_size();
        len <= len_max
    };
    rows.iter().take_while(fits).count().max(1).min(rows.len())
}

/// Reads and checks the header and all of its block, which is mostly of the first size that is read.
fn read_header<D: Disk>(file: &mut FileReader<'_, D>) -> Result<SegmentHeader, RestoreCause> {
    let header = SegmentHeader::parse(&file.read(0, file.len().min(4096))?)?;
    let block_len = file.len().min(header.block_size());
    if block_len <= 4096 { Ok(header) } else { Ok(SegmentHeader::parse(&file.read(0, block_len)?)?) }
}

/// Whether the file is the one that is wanted.
pub(crate) fn same<T: Into<u128> + PartialEq>(
    what: &'static str,
    expected: T,
    found: T,
) -> Result<(), RestoreCause> {
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

use std::vec;
use std::vec::Vec;

use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, IntoBytes};

use super::*;
use crate::format::FormatError;
use crate::format::checksum::{PART_FOOTER, PART_FRAME, PART_INDEX};
use crate::key_group::{KeyGroup, KeyGroupRange};

const HEADER: SegmentHeader = SegmentHeader {
    block_size_log2: 9,
    frame_size_log2: 8,
    compression: Compression::None,
    file_id: 11,
    job_id: 12,
    checkpoint: 3,
    epoch: 40,
    attempt: 1,
    hash_seed: 5,
    subtask: 2,
    max_parallelism: 16,
    key_groups: KeyGroupRange { first: KeyGroup(4), last: KeyGroup(7) },
};

fn row(lpn: u32, frame_no: u32) -> IndexRow {
    let checksum = HEADER.identity(PART_FRAME).of_key_group(5).of_page(1, lpn).checksum(&[0; 256]);
    IndexRow {
        lpn: U32::new(lpn),
        depth: 0,
        kind: 2,
        flags: U16::new(0),
        file_no: U32::new(0),
        frame_no: U32::new(frame_no),
        checksum: U32::new(checksum),
    }
}

fn head(state: u16) -> SectionHead {
    SectionHead {
        state_id: U16::new(state),
        depth: 1,
        reserved: 0,
        row_count: U32::new(0),
        entry_count: U64::new(2),
        next_lpn: U32::new(9),
        root_lpn: U32::new(0),
    }
}

fn empty_row(key_group: u16) -> KeyGroupRow {
    KeyGroupRow {
        key_group: U16::new(key_group),
        section_count: U16::new(0),
        index_len: U32::new(0),
        index_offset: U64::new(512 + 512),
        data_offset: U64::new(512),
        data_len: U64::new(512),
        first_frame: U32::new(0),
        frame_count: U32::new(2),
        index_checksum: U32::new(0),
        delta_count: U32::new(0),
    }
}

fn index() -> (Vec<u8>, KeyGroupRow) {
    let (mut bytes, mut group) = (Vec::new(), empty_row(5));
    let mut index = IndexEncoder::new(&mut bytes, &HEADER, 5);
    index.section(head(1), &[row(0, 1), row(8, 0)]).unwrap();
    index.finish(&mut group).unwrap();
    (bytes, group)
}

fn state() -> StateEntry<'static> {
    StateEntry {
        state_id: 1,
        kind: STATE_KIND_HASH,
        distribution: Distribution::ByKey,
        operator: "count",
        state: "totals",
        key_codec: "utf8",
        key_codec_version: 1,
        value_codec: "u64",
        value_codec_version: 2,
        key_width: None,
        value_width: Some(8),
        entry_count: 2,
    }
}

/// Two frames of zeros in one key group.
fn file() -> Vec<u8> {
    let mut bytes = HEADER.encode().as_bytes().to_vec();
    bytes.resize(1024, 0);
    let (index, group) = index();
    bytes.extend(&index);
    let totals = FooterTotals {
        key_group_count: 1,
        state_count: 1,
        frame_count: 2,
        data_len: 512,
        index_len: index.len() as u64,
        entry_count: 2,
    };
    let footer_offset = bytes.len() as u64;
    let mut footer = FooterEncoder::new(&mut bytes, &HEADER, &totals).unwrap();
    footer.key_group(&group).unwrap();
    footer.state(&state()).unwrap();
    let footer = footer.finish().unwrap();
    let file_len = SegmentTrailer::file_len(footer_offset, footer.len, &HEADER);
    let trailer = SegmentTrailer {
        footer_checksum: footer.checksum,
        footer_offset,
        footer_len: footer.len,
        file_len,
        file_id: HEADER.file_id,
    };
    bytes.resize(usize::try_from(file_len).unwrap() - 64, 0);
    bytes.extend(trailer.encode().as_bytes());
    bytes
}

fn footer_of(bytes: &[u8]) -> Result<(FooterView<'_>, SegmentTrailer), FormatError> {
    let header = SegmentHeader::parse(bytes)?;
    let trailer = SegmentTrailer::parse(bytes, bytes.len() as u64)?;
    let from = usize::try_from(trailer.footer_offset).unwrap();
    let len = usize::try_from(trailer.footer_len).unwrap();
    Ok((FooterView::parse(&bytes[from..from + len], &header, &trailer)?, trailer))
}

#[test]
fn header_footer_and_index_are_read_back() {
    let bytes = file();
    assert_eq!(bytes.len() % 512, 0);
    assert_eq!(SegmentHeader::parse(&bytes).unwrap(), HEADER);
    let (footer, _) = footer_of(&bytes).unwrap();
    assert_eq!(footer.states().collect::<Vec<_>>(), [state()]);
    let [group] = footer.key_groups() else { panic!("one key group") };
    let from = usize::try_from(group.index_offset.get()).unwrap();
    let len = usize::try_from(group.index_len.get()).unwrap();
    let index = IndexView::parse(&bytes[from..from + len], &HEADER, group).unwrap();
    let sections: Vec<_> = index.sections().collect();
    assert_eq!((sections.len(), sections[0].head.state_id.get()), (1, 1));
    assert_eq!(sections[0].rows, [row(0, 1), row(8, 0)]);
}

#[test]
fn every_change_of_header_footer_and_trailer_is_found() {
    let bytes = file();
    let (_, trailer) = footer_of(&bytes).unwrap();
    let footer_from = usize::try_from(trailer.footer_offset).unwrap();
    let footer_to = footer_from + usize::try_from(trailer.footer_len).unwrap();
    for at in (0..512).chain(footer_from..footer_to).chain(bytes.len() - 64..bytes.len()) {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x10;
        assert!(footer_of(&damaged).is_err(), "byte {at}");
    }
}

#[test]
fn every_change_of_an_index_is_found() {
    let (bytes, group) = index();
    for at in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x10;
        assert!(IndexView::parse(&damaged, &HEADER, &group).is_err(), "byte {at}");
    }
}

const COMPRESSED: SegmentHeader = SegmentHeader { compression: Compression::Lz4, ..HEADER };

/// Chunks with these numbers of frames, stored in these numbers of bytes.
fn chunks(parts: &[(u32, usize)]) -> (Vec<u8>, KeyGroupRow) {
    let mut bytes = Vec::new();
    let mut frames = 0;
    for ((count, stored_len), number) in parts.iter().zip(0..) {
        let stored = vec![7; *stored_len];
        let head = ChunkHead::new(&COMPRESSED, 5, number, count * 256, &stored);
        bytes.extend(head.as_bytes());
        bytes.extend(&stored);
        frames += count;
    }
    let (data_len, frame_count) = (U64::new(bytes.len() as u64), U32::new(frames));
    (bytes, KeyGroupRow { data_len, frame_count, ..empty_row(5) })
}

fn read(bytes: &[u8], row: &KeyGroupRow) -> Result<Vec<(usize, usize, bool)>, FormatError> {
    let read = Chunks::new(bytes, &COMPRESSED, row);
    read.map(|chunk| chunk.map(|chunk| (chunk.raw_len, chunk.stored.len(), chunk.is_plain()))).collect()
}

#[test]
fn chunks_are_read_back() {
    let (bytes, row) = chunks(&[(3, 100), (256, 1), (1, 256)]);
    assert_eq!(read(&bytes, &row), Ok(vec![(768, 100, false), (65536, 1, false), (256, 256, true)]));
    let offsets: Vec<_> = Chunks::new(&bytes, &COMPRESSED, &row).map(|chunk| chunk.unwrap().offset).collect();
    assert_eq!(offsets, [512 + 12, 512 + 12 + 100 + 12, 512 + 12 + 100 + 12 + 1 + 12]);
}

#[test]
fn every_flipped_bit_and_every_truncation_of_chunks_is_found() {
    let (bytes, row) = chunks(&[(2, 9), (1, 3)]);
    for at in 0..bytes.len() * 8 {
        let mut damaged = bytes.clone();
        damaged[at / 8] ^= 1 << (at % 8);
        assert!(read(&damaged, &row).is_err(), "bit {at}");
    }
    for len in 0..bytes.len() {
        assert!(read(&bytes[..len], &row).is_err(), "{len} bytes");
    }
}

#[test]
fn chunks_with_lengths_that_lie_are_refused_whatever_their_checksum() {
    let what = |parts: &[(u32, usize)], change: &dyn Fn(&mut [u8], &mut KeyGroupRow)| {
        let (mut bytes, mut row) = chunks(parts);
        change(&mut bytes, &mut row);
        let (head, stored) = ChunkHead::mut_from_prefix(&mut bytes).unwrap();
        let stored_len = stored.len().min(head.stored_len.get() as usize);
        head.checksum = U32::new(head.sum(&COMPRESSED, 5, 0, &stored[..stored_len]));
        let error = read(&bytes, &row).unwrap_err();
        let FormatError::Corrupt { what, offset, .. } = error else { panic!("{error}") };
        assert!(offset >= 512, "offsets are those in the file");
        what
    };
    let raw_len = |len: u32| {
        move |bytes: &mut [u8], _: &mut KeyGroupRow| bytes[..4].copy_from_slice(&len.to_le_bytes())
    };
    let stored_len = |len: u32| {
        move |bytes: &mut [u8], _: &mut KeyGroupRow| bytes[4..8].copy_from_slice(&len.to_le_bytes())
    };
    for wrong in [0, 255, 1024 + 256, 65536 + 256, u32::MAX] {
        assert_eq!(what(&[(4, 9)], &raw_len(wrong)), "length of a chunk's frames", "{wrong}");
    }
    assert_eq!(what(&[(300, 9)], &|_, _| {}), "length of a chunk's frames");
    assert_eq!(what(&[(4, 9)], &raw_len(257)), "bytes of a chunk behind its last frame");
    for wrong in [0, 10, 1025, u32::MAX] {
        assert_eq!(what(&[(4, 9)], &stored_len(wrong)), "length of a chunk's stored bytes", "{wrong}");
    }
    assert_eq!(what(&[(1, 257)], &|_, _| {}), "length of a chunk's stored bytes");
    let more = |_: &mut [u8], row: &mut KeyGroupRow| row.frame_count = U32::new(5);
    assert_eq!(what(&[(4, 9)], &more), "length of a chunk");
    let fewer = |_: &mut [u8], row: &mut KeyGroupRow| row.frame_count = U32::new(4);
    assert_eq!(what(&[(4, 9), (1, 9)], &fewer), "bytes behind the chunks");
}

#[test]
fn a_chunk_is_not_taken_for_another() {
    let (bytes, row) = chunks(&[(1, 9), (1, 9)]);
    let swapped = [&bytes[21..], &bytes[..21]].concat();
    assert!(read(&swapped, &row).is_err());
    assert!(read(&bytes, &KeyGroupRow { key_group: U16::new(6), ..row }).is_err());
}

#[test]
fn the_frames_of_a_key_group_take_their_own_length_unless_they_are_compressed() {
    let len_at = FooterHead::LEN + core::mem::offset_of!(KeyGroupRow, data_len);
    let change = |footer: &mut [u8]| footer[len_at] = 1;
    let FormatError::Corrupt { what, .. } = changed_footer(change).unwrap_err() else { panic!("corrupt") };
    assert_eq!(what, "bytes of a key group's frames");
    let offset_at = FooterHead::LEN + core::mem::offset_of!(KeyGroupRow, data_offset);
    let change = |footer: &mut [u8]| footer[offset_at] = 1;
    let FormatError::Corrupt { what, .. } = changed_footer(change).unwrap_err() else { panic!("corrupt") };
    assert_eq!(what, "place of a key group");
}

/// An index that is wrong in what it says, under a right checksum.
fn refused(damage: impl Fn(&mut [u8])) -> FormatError {
    let (mut bytes, mut group) = index();
    damage(&mut bytes);
    let sum = HEADER.identity(PART_INDEX).of_key_group(5).checksum(&bytes);
    group.index_checksum = U32::new(sum);
    IndexView::parse(&bytes, &HEADER, &group).unwrap_err()
}

#[test]
fn an_index_out_of_order_or_out_of_range_is_corrupt() {
    let what = |error| match error {
        FormatError::Corrupt { what, .. } | FormatError::Unsupported { what, .. } => what,
    };
    assert_eq!(what(refused(|bytes| bytes[24] = 8)), "lpn in an index");
    assert_eq!(what(refused(|bytes| bytes[24 + 12] = 2)), "frame of a page");
    assert_eq!(what(refused(|bytes| bytes[24 + 8] = 1)), "file reference");
    assert_eq!(what(refused(|bytes| bytes[24 + 4] = 2)), "local depth in an index");
    assert_eq!(what(refused(|bytes| bytes[24 + 5] = 6)), "kind of page");
    assert_eq!(what(refused(|bytes| bytes[4] = 0xff)), "length of a section");
    assert_eq!(what(refused(|bytes| bytes[4] = 1)), "length of a section");
}

#[test]
fn a_key_groups_index_is_not_taken_for_anothers() {
    let (bytes, mut group) = index();
    group.key_group = U16::new(6);
    assert!(IndexView::parse(&bytes, &HEADER, &group).is_err());
    let other = SegmentHeader { file_id: 99, ..HEADER };
    group.key_group = U16::new(5);
    assert!(IndexView::parse(&bytes, &other, &group).is_err());
}

#[test]
fn what_is_not_built_in_is_unsupported() {
    let mut header = HEADER.encode();
    header.version = U16::new(2);
    let rotten = SegmentHeader::parse(header.as_bytes()).unwrap_err();
    assert!(matches!(rotten, FormatError::Corrupt { what: "version of a segment", .. }), "{rotten}");
    header.checksum = U32::new(HEADER.identity(1).checksum(&header.as_bytes()[..124]));
    let refused = SegmentHeader::parse(header.as_bytes()).unwrap_err();
    assert_eq!(refused, FormatError::Unsupported { what: "version of a segment", value: 2 });
    let compressed = |mut header: SegmentHeaderLayout| {
        header.compression = 3;
        let sum = HEADER.identity(1).checksum(&header.as_bytes()[..124]);
        header.checksum = U32::new(sum);
        header
    };
    let refused = SegmentHeader::parse(compressed(HEADER.encode()).as_bytes()).unwrap_err();
    assert_eq!(refused, FormatError::Unsupported { what: "compression", value: 3 });
}

/// What a reader makes of a footer that was changed before its checksum was taken.
fn changed_footer(change: impl Fn(&mut [u8])) -> Result<(), FormatError> {
    let mut bytes = file();
    let trailer = footer_of(&bytes)?.1;
    let from = usize::try_from(trailer.footer_offset).unwrap();
    let footer = &mut bytes[from..from + usize::try_from(trailer.footer_len).unwrap()];
    change(footer);
    let footer_checksum = HEADER.identity(PART_FOOTER).checksum(footer);
    FooterView::parse(footer, &HEADER, &SegmentTrailer { footer_checksum, ..trailer }).map(|_| ())
}

#[test]
fn kinds_and_distributions_of_states_that_are_not_known_are_unsupported() {
    let state_at = FooterHead::LEN + KeyGroupRow::LEN;
    for number in 0..=3 {
        assert_eq!(Distribution::from_number(number).map(Distribution::number), Some(number));
        changed_footer(|footer| footer[state_at + 3] = number).unwrap();
    }
    let unknown = FormatError::Unsupported { what: "distribution of a state", value: 4 };
    assert_eq!(changed_footer(|footer| footer[state_at + 3] = 4), Err(unknown));
    let ordered = |footer: &mut [u8], distribution: u8| {
        (footer[state_at + 2], footer[state_at + 3]) = (STATE_KIND_ORDERED, distribution);
    };
    changed_footer(|footer| ordered(footer, 0)).unwrap();
    let unknown = FormatError::Unsupported { what: "kind of a state that is not kept by key", value: 1 };
    assert_eq!(changed_footer(|footer| ordered(footer, 1)), Err(unknown));
    let unknown = FormatError::Unsupported { what: "kind of state", value: 9 };
    assert_eq!(changed_footer(|footer| footer[state_at + 2] = 9), Err(unknown));
}

#[test]
fn the_place_of_states_without_keys_stands_behind_all_key_groups() {
    let group_at = FooterHead::LEN;
    let name = |group: u16| {
        move |footer: &mut [u8]| footer[group_at..group_at + 2].copy_from_slice(&group.to_le_bytes())
    };
    changed_footer(name(KeyGroup::NONE.0)).unwrap();
    assert!(changed_footer(name(HEADER.key_groups.last.0 + 1)).is_err());
    assert!(changed_footer(name(KeyGroup::NONE.0 - 1)).is_err());

    let totals = FooterTotals { key_group_count: 2, ..FooterTotals::default() };
    let mut bytes = vec![];
    let mut footer = FooterEncoder::new(&mut bytes, &HEADER, &totals).unwrap();
    footer.key_group(&empty_row(KeyGroup::NONE.0)).unwrap();
    assert!(footer.key_group(&empty_row(5)).is_err());
}

#[test]
fn encoders_refuse_a_wrong_order() {
    let mut bytes = Vec::new();
    let mut index = IndexEncoder::new(&mut bytes, &HEADER, 5);
    assert!(index.section(head(1), &[row(8, 0), row(0, 1)]).is_err());
    assert!(index.section(head(1), &[]).is_err());
    index.section(head(1), &[row(0, 0)]).unwrap();
    assert!(index.section(head(1), &[row(0, 0)]).is_err());

    let totals = FooterTotals { key_group_count: 2, state_count: 1, ..FooterTotals::default() };
    let mut bytes = vec![];
    let mut footer = FooterEncoder::new(&mut bytes, &HEADER, &totals).unwrap();
    assert!(footer.state(&state()).is_err());
    footer.key_group(&empty_row(5)).unwrap();
    assert!(footer.key_group(&empty_row(5)).is_err());
    footer.key_group(&empty_row(6)).unwrap();
    assert!(footer.key_group(&empty_row(7)).is_err());
    footer.state(&state()).unwrap();
    assert!(footer.state(&state()).is_err());
    footer.finish().unwrap();
}

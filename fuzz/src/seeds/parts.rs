//! Parts of segments, as the targets of single decoders take them.

use slackwater_core::format::page::{
    PAGE_TYPE_HASH, PAGE_TYPE_HASH_FIXED, PAGE_TYPE_INNER, PAGE_TYPE_LEAF, PAGE_TYPE_OVERFLOW,
};
use slackwater_core::format::segment::{ChunkHead, FooterView, KeyGroupRow, SegmentHeader, SegmentTrailer};
use slackwater_mem::segment::Compression;
use zerocopy::IntoBytes;

use super::Seed;
use super::segment::Made;

fn part(bytes: &[u8], from: u64, len: u64) -> &[u8] {
    let from = usize::try_from(from).expect("small");
    &bytes[from..from + usize::try_from(len).expect("small")]
}

pub(super) fn split(bytes: &[u8]) -> (SegmentHeader, SegmentTrailer, &[u8]) {
    let header = SegmentHeader::parse(bytes).expect("sound");
    let trailer = SegmentTrailer::parse(bytes, bytes.len() as u64).expect("sound");
    (header, trailer, part(bytes, trailer.footer_offset, trailer.footer_len))
}

pub(super) fn footer(made: &Made) -> Vec<u8> {
    let (header, _, footer) = split(&made.bytes);
    [header.encode().as_bytes(), footer].concat()
}

fn first_group(bytes: &[u8]) -> (SegmentHeader, KeyGroupRow) {
    let (header, trailer, footer) = split(bytes);
    let footer = FooterView::parse(footer, &header, &trailer).expect("sound");
    (header, footer.key_groups()[0])
}

pub(super) fn index(made: &Made) -> Vec<u8> {
    let (header, group) = first_group(&made.bytes);
    let index = part(&made.bytes, group.index_offset.get(), group.index_len.get().into());
    [header.encode().as_bytes(), group.as_bytes(), index].concat()
}

/// The chunks of a key group of a compressed segment; its frames as the only chunk where it is none.
pub(super) fn chunks(made: &Made) -> Vec<u8> {
    let (header, group) = first_group(&made.bytes);
    let data = part(&made.bytes, group.data_offset.get(), group.data_len.get());
    // Checksums are put right before anybody looks at them.
    let mut seed = vec![header.compression.number(), header.frame_size_log2 - 8];
    if header.compression == Compression::None {
        let raw_len = u32::try_from(data.len()).expect("small");
        seed.extend_from_slice(ChunkHead::new(&header, 1, 0, raw_len, data).as_bytes());
    }
    seed.extend_from_slice(data);
    seed
}

/// A page of each type.
pub(super) fn pages(made: &Made) -> Vec<Seed> {
    let types = [
        ("records-of-one-size", PAGE_TYPE_HASH_FIXED),
        ("records-of-any-size", PAGE_TYPE_HASH),
        ("leaf", PAGE_TYPE_LEAF),
        ("inner", PAGE_TYPE_INNER),
        ("overflow", PAGE_TYPE_OVERFLOW),
    ];
    types.into_iter().map(|(name, wanted)| (name, page(made, wanted))).collect()
}

pub(super) fn pages_with_hints(made: &Made) -> Vec<Seed> {
    vec![("leaf-with-hints", page(made, PAGE_TYPE_LEAF)), ("inner-with-hints", page(made, PAGE_TYPE_INNER))]
}

/// The page of this type that has the most slots.
fn page(made: &Made, wanted: u16) -> Vec<u8> {
    let header = SegmentHeader::parse(&made.bytes).expect("sound");
    let size = usize::try_from(header.frame_size()).expect("small");
    let frames = made.bytes[usize::try_from(header.block_size()).expect("small")..].chunks_exact(size);
    let of_type =
        frames.filter(|frame| frame[..4] == [wanted.to_le_bytes()[0], 0, 1, header.frame_size_log2]);
    let most = of_type.max_by_key(|frame| frame[4]);
    most.expect("every kind is there").to_vec()
}

//! Bodies of the fuzz targets: one for each decoder, and one for the heap. Any bytes must give a value or an
//! error; to the heap they are a list of operations.
//!
//! A decoder's body first repairs the checksums, as far as the bytes have the shape for it: nearly all that lies
//! behind a checksum would never be reached otherwise. What a decoder accepts must encode to the same bytes.
//!
//! An allocator that counts holds the decoders to the memory that FORMAT.md states. CONTRIBUTING.md says how to run the
//! targets, and how a finding becomes an entry of the corpus.

use slackwater_core::format::page::PageView;
use slackwater_core::format::segment::{
    FooterEncoder, FooterHead, FooterView, IndexEncoder, IndexView, KeyGroupRow, SegmentHeader,
    SegmentHeaderLayout, SegmentTrailer,
};
use zerocopy::{FromBytes, IntoBytes};

mod archive;
mod captured;
mod chunks;
pub mod corpus;
mod folders;
mod heaps;
mod manifests;
mod memory;
mod payloads;
mod repair;
mod seeds;
mod segments;
mod usage;

pub use captured::in_flight;
pub use chunks::chunk;
pub use folders::folder;
pub use heaps::heap;
pub use manifests::manifest;
pub use payloads::payload;
pub use segments::{operator_state, range, segment, verify};

/// A target's body.
pub type Body = fn(&[u8]);

/// Every target by name.
pub const TARGETS: &[(&str, Body)] = &[
    ("chunk", chunk),
    ("folder", folder),
    ("footer", footer),
    ("header", header),
    ("heap", heap),
    ("in_flight", in_flight),
    ("index", index),
    ("manifest", manifest),
    ("operator_state", operator_state),
    ("page", page),
    ("payload", payload),
    ("range", range),
    ("segment", segment),
];

/// The start of a segment, from its first byte on.
pub fn header(data: &[u8]) {
    let mut data = data.to_vec();
    repair::header(&mut data);
    if let Ok(header) = memory::within("a header", 0, || SegmentHeader::parse(&data)) {
        assert_eq!(Some(header.encode().as_bytes()), data.get(..SegmentHeaderLayout::LEN));
    }
}

/// A header, and behind it a footer, placed where it belongs.
pub fn footer(data: &[u8]) {
    let mut data = data.to_vec();
    repair::header(&mut data);
    let Some((header, footer)) = data.split_at_mut_checked(SegmentHeaderLayout::LEN) else { return };
    let Ok(header) = SegmentHeader::parse(header) else { return };
    repair::footer(footer, &header);
    let Some(trailer) = trailer_of(footer, &header) else { return };
    if let Ok(view) = memory::within("a footer", 0, || FooterView::parse(footer, &header, &trailer)) {
        let mut again = Vec::new();
        let mut encoder = FooterEncoder::new(&mut again, &header, &view.totals()).expect("as it was");
        view.key_groups().iter().for_each(|row| encoder.key_group(row).expect("as it was"));
        view.states().for_each(|state| encoder.state(&state).expect("as it was"));
        assert_eq!(encoder.finish().expect("as it was").checksum, trailer.footer_checksum);
        assert_eq!(again, footer);
    }
}

/// The trailer of a segment that has this footer.
fn trailer_of(footer: &[u8], header: &SegmentHeader) -> Option<SegmentTrailer> {
    let (head, _) = FooterHead::ref_from_prefix(footer).ok()?;
    let data_end = header.block_size().checked_add(head.data_len.get())?;
    let footer_offset = data_end.checked_add(head.index_len.get())?;
    let footer_len = footer.len() as u64;
    Some(SegmentTrailer {
        footer_checksum: repair::footer_checksum(footer, header),
        footer_offset,
        footer_len,
        file_len: SegmentTrailer::file_len(footer_offset, footer_len, header),
        file_id: header.file_id,
    })
}

/// A header, a key group's row of the footer, and its index.
pub fn index(data: &[u8]) {
    let mut data = data.to_vec();
    repair::header(&mut data);
    let Some((header, rest)) = data.split_at_mut_checked(SegmentHeaderLayout::LEN) else { return };
    let Ok(header) = SegmentHeader::parse(header) else { return };
    let Ok((row, index)) = KeyGroupRow::mut_from_prefix(rest) else { return };
    repair::index_row(row, index, &header);
    if let Ok(view) = memory::within("an index", 0, || IndexView::parse(index, &header, row)) {
        let (mut again, mut row_again) = (Vec::new(), *row);
        let mut encoder = IndexEncoder::new(&mut again, &header, row.key_group.get());
        for section in view.sections() {
            encoder.section(*section.head, section.rows).expect("as it was");
        }
        encoder.finish(&mut row_again).expect("as it was");
        assert_eq!(again, index);
        assert_eq!(row_again, *row);
    }
}

/// A page. Its frame size is set to the length of the bytes.
pub fn page(data: &[u8]) {
    let mut data = data.to_vec();
    let log2 = u8::try_from(data.len().trailing_zeros()).unwrap_or(0);
    data.iter_mut().skip(3).take(1).for_each(|field| *field = log2);
    let Ok(view) = memory::within("a page", 0, || PageView::parse(&data)) else { return };
    let is_sound = memory::within("a page", 0, || view.check()).is_ok();
    match view {
        PageView::Hash(page) => {
            let (mut count, mut len) = (0, 0);
            for record in page.records() {
                assert!(record.is_ok() || !is_sound, "a sound page has sound records");
                count += 1;
                len += record.map_or(0, |record| record.len_in_page());
            }
            assert_eq!(count, page.header().n_used.get());
            assert!(len <= data.len() || !is_sound, "records take no more than the page");
        }
        PageView::Tree(page) => {
            let len: usize = page.entries().map(|entry| entry.record_len()).sum();
            assert!(
                !is_sound || page.entries().count() == page.slots().len(),
                "a sound page has all entries"
            );
            assert!(len <= data.len() || !is_sound, "records take no more than the page");
        }
        PageView::Overflow(page) => assert!(page.bytes().len() < data.len()),
    }
}

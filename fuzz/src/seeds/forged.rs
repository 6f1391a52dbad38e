//! Segments that no heap has written, with all checksums right.

use slackwater_core::format::page::{PageHeader, PageView};
use slackwater_core::format::segment::{
    FooterEncoder, FooterTotals, FooterView, IndexEncoder, IndexRow, KeyGroupRow, SectionHead, SegmentTrailer,
};
use zerocopy::{FromBytes, IntoBytes};

use super::parts::split;
use super::segment::{Content, of};
use crate::repair;

/// Chains lead from each page to the page itself: a reader that believed their lengths and links would go round and fill
/// its memory.
pub(super) fn circle() -> Vec<u8> {
    let mut bytes = of(Content::EveryKind).bytes;
    for frame in bytes.chunks_mut(256) {
        if matches!(PageView::parse(frame), Ok(PageView::Overflow(_))) {
            frame.copy_within(24..28, 64);
        }
    }
    repair::segment(&mut bytes).expect("it has the shape of a segment");
    bytes
}

/// Where the lpns of linked pages begin.
const LPN_LINKED: u32 = 1 << 31;

/// The same page again and again, each linked to the next, with as many records as it can have: what a reader must
/// remember of each is many times what the record takes in the file.
pub(super) fn tiny_records(linked: u32) -> Vec<u8> {
    let made = of(Content::Tiny).bytes;
    let (header, trailer, footer) = split(&made);
    let footer = FooterView::parse(footer, &header, &trailer).expect("sound");
    let (block, frame) = made.split_at(usize::try_from(header.block_size()).expect("small"));
    let frame = &frame[..usize::try_from(header.frame_size()).expect("small")];
    let (mut bytes, mut rows) = (block.to_vec(), Vec::new());
    for number in 0..linked {
        let mut page = frame.to_vec();
        let (head, _) = PageHeader::mut_from_prefix(&mut page).expect("a page");
        let lpn = if number == 0 { head.lpn.get() } else { LPN_LINKED + number };
        head.lpn = lpn.into();
        head.right_lpn = if number + 1 == linked { 0 } else { LPN_LINKED + number + 1 }.into();
        rows.push(index_row(head, number));
        bytes.extend(page);
    }
    let mut state = footer.states().next().expect("the only one");
    state.entry_count *= u64::from(linked);
    let mut row = footer.key_groups()[0];
    let mut index = Vec::new();
    let mut encoder = IndexEncoder::new(&mut index, &header, 0);
    encoder.section(section(linked, state.entry_count), &rows).expect("in order");
    encoder.finish(&mut row).expect("short");
    place(&mut row, linked, &bytes, block.len());
    let totals = FooterTotals {
        frame_count: linked.into(),
        data_len: row.data_len.get(),
        index_len: index.len() as u64,
        entry_count: state.entry_count,
        ..footer.totals()
    };
    bytes.extend(&index);
    let (footer_offset, mut footer) = (bytes.len() as u64, Vec::new());
    let mut encoder = FooterEncoder::new(&mut footer, &header, &totals).expect("in order");
    encoder.key_group(&row).expect("the only one");
    encoder.state(&state).expect("the only one");
    let footer_checksum = encoder.finish().expect("all of it").checksum;
    let footer_len = footer.len() as u64;
    let file_len = SegmentTrailer::file_len(footer_offset, footer_len, &header);
    let file_id = header.file_id;
    let trailer = SegmentTrailer { footer_checksum, footer_offset, footer_len, file_len, file_id }.encode();
    bytes.extend(footer);
    bytes.resize(usize::try_from(file_len).expect("small") - trailer.as_bytes().len(), 0);
    bytes.extend(trailer.as_bytes());
    repair::segment(&mut bytes).expect("it has the shape of a segment");
    bytes
}

fn index_row(head: &PageHeader, number: u32) -> IndexRow {
    let [kind, _] = head.page_type.to_bytes();
    IndexRow {
        lpn: head.lpn,
        depth: head.local_depth,
        kind,
        flags: 0.into(),
        file_no: 0.into(),
        frame_no: number.into(),
        checksum: 0.into(),
    }
}

fn section(linked: u32, entry_count: u64) -> SectionHead {
    SectionHead {
        state_id: 0.into(),
        depth: 0,
        reserved: 0,
        row_count: linked.into(),
        entry_count: entry_count.into(),
        next_lpn: (LPN_LINKED + linked).into(),
        root_lpn: 0.into(),
    }
}

fn place(row: &mut KeyGroupRow, linked: u32, bytes: &[u8], block_len: usize) {
    row.frame_count = linked.into();
    row.data_len = ((bytes.len() - block_len) as u64).into();
    row.index_offset = (bytes.len() as u64).into();
}

#[cfg(test)]
mod tests {
    use slackwater_mem::segment::{MEMORY_FIXED, MEMORY_PER_BYTE};

    use crate::memory::measured;

    #[test]
    fn the_worst_segment_that_is_known_takes_no_more_memory_than_stated_and_not_much_less() {
        let bytes = super::tiny_records(6000);
        let mut file = crate::segments::File::new(&bytes);
        let (verified, peak) = measured(|| file.verify_as_it_is());
        let error = verified.expect_err("each key is in every page").to_string();
        assert!(error.contains("records of one key"), "{error}");
        assert!(peak <= bytes.len() * MEMORY_PER_BYTE + MEMORY_FIXED, "{peak} for {}", bytes.len());
        assert!(peak >= bytes.len() * MEMORY_PER_BYTE / 3, "{peak} for {}", bytes.len());
    }
}

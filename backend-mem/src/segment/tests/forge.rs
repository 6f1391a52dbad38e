//! Segments changed by hand, with all checksums right again.

use slackwater_core::format::checksum::{PART_FOOTER, PART_FRAME, PART_INDEX};
use slackwater_core::format::page::PageHeader;
use slackwater_core::format::segment::{
    FooterHead, IndexRow, KeyGroupRow, SectionHead, SegmentHeader, SegmentTrailer, SegmentTrailerLayout,
};
use zerocopy::{FromBytes, IntoBytes};

use super::SegmentRef;

fn parts(bytes: &[u8]) -> (SegmentHeader, SegmentTrailer) {
    let header = SegmentHeader::parse(bytes).unwrap();
    (header, SegmentTrailer::parse(bytes, bytes.len() as u64).unwrap())
}

fn size_of(number: u64) -> usize {
    usize::try_from(number).unwrap()
}

/// Changes frames and sections, then computes every checksum anew, the innermost first.
pub(super) fn forge(
    bytes: &mut [u8],
    mut on_frame: impl FnMut(&mut [u8]),
    mut on_section: impl FnMut(&mut SectionHead, &mut [IndexRow]),
) -> SegmentRef {
    let (header, mut trailer) = parts(bytes);
    let size = size_of(header.frame_size());
    let from = size_of(trailer.footer_offset);
    let mut footer = bytes[from..from + size_of(trailer.footer_len)].to_vec();
    let (head, rest) = FooterHead::mut_from_prefix(&mut footer).unwrap();
    let first = size_of(header.block_size());
    let frames = size_of(head.frame_count.get()) * size;
    bytes[first..first + frames].chunks_mut(size).for_each(&mut on_frame);
    let count = head.key_group_count.get() as usize;
    let (groups, _) = <[KeyGroupRow]>::mut_from_prefix_with_elems(rest, count).unwrap();
    for group in groups {
        let from = size_of(group.index_offset.get());
        let mut index = bytes[from..from + group.index_len.get() as usize].to_vec();
        let mut rest = index.as_mut_slice();
        while let Ok((section, behind)) = SectionHead::mut_from_prefix(rest) {
            let count = section.row_count.get() as usize;
            let (rows, behind) = <[IndexRow]>::mut_from_prefix_with_elems(behind, count).unwrap();
            on_section(section, rows);
            for row in rows {
                let at = size_of(header.offset_of_frame(row.frame_no.get().into()));
                let frame = &bytes[at..at + size];
                let page = PageHeader::ref_from_prefix(frame).unwrap().0;
                (row.depth, row.kind) = (page.local_depth, page.page_type.to_bytes()[0]);
                let identity = header.identity(PART_FRAME).of_key_group(group.key_group.get());
                let identity = identity.of_page(section.state_id.get(), row.lpn.get());
                row.checksum = identity.checksum(frame).into();
            }
            rest = behind;
        }
        let identity = header.identity(PART_INDEX).of_key_group(group.key_group.get());
        group.index_checksum = identity.checksum(&index).into();
        bytes[from..from + index.len()].copy_from_slice(&index);
    }
    bytes[from..from + footer.len()].copy_from_slice(&footer);
    trailer.footer_checksum = header.identity(PART_FOOTER).checksum(&footer);
    let at = bytes.len() - SegmentTrailerLayout::LEN;
    bytes[at..].copy_from_slice(trailer.encode().as_bytes());
    SegmentRef {
        file_name: "s.seg".into(),
        file_id: header.file_id,
        len: bytes.len() as u64,
        used_len: bytes.len() as u64,
        footer_checksum: trailer.footer_checksum,
        key_groups: header.key_groups,
    }
}

//! Puts right the checksums, and the numbers that repeat what is known.

use slackwater_core::format::checksum::{
    Checksum, Identity, PART_FOOTER, PART_FRAME, PART_INDEX, PART_MANIFEST,
};
use slackwater_core::format::manifest::{ElementHead, ManifestHeaderLayout, ManifestTail};
use slackwater_core::format::segment::{
    ChunkHead, Compression, FooterHead, IndexRow, KeyGroupRow, SectionHead, SegmentHeader,
    SegmentHeaderLayout, SegmentTrailer, SegmentTrailerLayout,
};
use slackwater_mem::segment::decompress_key_group;
use zerocopy::{FromBytes, IntoBytes};

mod folder;
mod in_flight;

pub(crate) use folder::{LINKS, MANIFESTS, SEGMENTS, folder};
pub(crate) use in_flight::in_flight;

/// The segment header at the start of `bytes`.
pub(crate) fn header(bytes: &mut [u8]) {
    let Some(covered) = bytes.get(..SegmentHeaderLayout::LEN - 4).map(<[u8]>::to_vec) else { return };
    let Ok((raw, _)) = SegmentHeaderLayout::mut_from_prefix(bytes) else { return };
    let identity = Identity::new(1, u128::from_le_bytes(raw.file_id), raw.epoch.get());
    raw.checksum = identity.checksum(&covered).into();
}

/// What the footer says of the header.
pub(crate) fn footer(bytes: &mut [u8], header: &SegmentHeader) {
    if let Ok((head, _)) = FooterHead::mut_from_prefix(bytes) {
        head.header_checksum = header.encode().checksum;
    }
}

pub(crate) fn footer_checksum(bytes: &[u8], header: &SegmentHeader) -> u32 {
    header.identity(PART_FOOTER).checksum(bytes)
}

/// What the row says of the index.
pub(crate) fn index_row(row: &mut KeyGroupRow, index: &[u8], header: &SegmentHeader) {
    row.index_len = u32::try_from(index.len()).unwrap_or(u32::MAX).into();
    let identity = header.identity(PART_INDEX).of_key_group(row.key_group.get());
    row.index_checksum = identity.checksum(index).into();
}

/// Calls `each` for every element of a manifest, with its tag and its bytes.
fn elements(manifest: &mut [u8], mut each: impl FnMut(u8, &mut [u8])) -> Option<()> {
    let (header, rest) = ManifestHeaderLayout::mut_from_prefix(manifest).ok()?;
    let mut rest = rest.get_mut(usize::from(header.job_name_len.get())..)?;
    loop {
        let (head, behind) = ElementHead::mut_from_prefix(rest).ok()?;
        let (body, behind) = behind.split_at_mut_checked(usize::try_from(head.len.get()).ok()?)?;
        if head.tag == 0 {
            return Some(());
        }
        each(head.tag, body);
        rest = behind;
    }
}

/// Records in flight within a manifest, then length and checksum in its tail.
pub(crate) fn manifest(bytes: &mut [u8]) {
    let len = bytes.len() as u64;
    // Both end where something has not the shape that it should have.
    let _all = elements(bytes, |tag, body| {
        let _is_repaired = (tag == 6).then(|| in_flight(body));
    });
    let Ok((raw, _)) = ManifestHeaderLayout::ref_from_prefix(bytes) else { return };
    let identity = Identity::new(PART_MANIFEST, u128::from_le_bytes(raw.job_id), raw.checkpoint.get());
    let Ok((before, tail)) = ManifestTail::mut_from_suffix(bytes) else { return };
    tail.len = len.into();
    let mut checksum = Checksum::new(&identity);
    checksum.update(before);
    checksum.update(tail.len.as_bytes());
    tail.checksum = checksum.get().into();
    tail.magic = *b"SLKM";
}

/// The checksum of every chunk of a key group, as far as they lie one behind the other. Gives the number of frames
/// that they say they have.
pub(crate) fn chunks(data: &mut [u8], header: &SegmentHeader, key_group: u16) -> u32 {
    let (mut rest, mut frames) = (data, 0_u32);
    for number in 0.. {
        let Ok((head, behind)) = ChunkHead::mut_from_prefix(rest) else { break };
        let stored_len = usize::try_from(head.stored_len.get()).unwrap_or(usize::MAX);
        let Some((stored, behind)) = behind.split_at_mut_checked(stored_len) else { break };
        head.checksum = head.sum(header, key_group, number, stored).into();
        let of_chunk = u64::from(head.raw_len.get()) / header.frame_size();
        frames = frames.saturating_add(u32::try_from(of_chunk).unwrap_or(u32::MAX));
        rest = behind;
    }
    frames
}

/// The frames of a key group, the checksums of its chunks put right first; none where that is not possible.
fn frames_of(bytes: &mut [u8], group: &KeyGroupRow, header: &SegmentHeader) -> Vec<u8> {
    let Ok(from) = usize::try_from(group.data_offset.get()) else { return Vec::new() };
    let Ok(len) = usize::try_from(group.data_len.get()) else { return Vec::new() };
    let Some(data) = bytes.get_mut(from..).and_then(|data| data.get_mut(..len)) else { return Vec::new() };
    if header.compression == Compression::None {
        return data.to_vec();
    }
    chunks(data, header, group.key_group.get());
    decompress_key_group(header, group, data).unwrap_or_default()
}

/// Every checksum of a segment that can be found, the innermost first.
pub(crate) fn segment(bytes: &mut [u8]) -> Option<()> {
    header(bytes);
    let header = SegmentHeader::parse(bytes).ok()?;
    let len = bytes.len() as u64;
    let (_, trailer) = SegmentTrailerLayout::read_from_suffix(bytes).ok()?;
    let from = usize::try_from(trailer.footer_offset.get()).ok()?;
    let to = from.checked_add(usize::try_from(trailer.footer_len.get()).ok()?)?;

    let mut footer_bytes = bytes.get(from..to)?.to_vec();
    footer(&mut footer_bytes, &header);
    let (head, rest) = FooterHead::mut_from_prefix(&mut footer_bytes).ok()?;
    let count = usize::try_from(head.key_group_count.get()).ok()?;
    if let Ok((rows, _)) = <[KeyGroupRow]>::mut_from_prefix_with_elems(rest, count) {
        for row in rows {
            // One that points nowhere stays as it is.
            key_group(bytes, row, &header);
        }
    }
    bytes.get_mut(from..to)?.copy_from_slice(&footer_bytes);

    let trailer = SegmentTrailer {
        footer_checksum: footer_checksum(&footer_bytes, &header),
        footer_offset: trailer.footer_offset.get(),
        footer_len: trailer.footer_len.get(),
        file_len: len,
        file_id: header.file_id,
    };
    let at = bytes.len().checked_sub(SegmentTrailerLayout::LEN)?;
    bytes.get_mut(at..)?.copy_from_slice(trailer.encode().as_bytes());
    Some(())
}

fn key_group(bytes: &mut [u8], group: &mut KeyGroupRow, header: &SegmentHeader) -> Option<()> {
    let from = usize::try_from(group.index_offset.get()).ok()?;
    let to = from.checked_add(usize::try_from(group.index_len.get()).ok()?)?;
    let frames = frames_of(bytes, group, header);
    let mut index = bytes.get(from..to)?.to_vec();
    let mut rest = index.as_mut_slice();
    while let Ok((section, behind)) = SectionHead::mut_from_prefix(rest) {
        let count = usize::try_from(section.row_count.get()).ok()?;
        let Ok((rows, behind)) = <[IndexRow]>::mut_from_prefix_with_elems(behind, count) else { break };
        for row in rows {
            let size = usize::try_from(header.frame_size()).ok()?;
            let number = row.frame_no.get().wrapping_sub(group.first_frame.get());
            if let Some(frame) = frames.chunks_exact(size).nth(usize::try_from(number).ok()?) {
                let identity = header.identity(PART_FRAME).of_key_group(group.key_group.get());
                let identity = identity.of_page(section.state_id.get(), row.lpn.get());
                row.checksum = identity.checksum(frame).into();
            }
        }
        rest = behind;
    }
    index_row(group, &index, header);
    bytes.get_mut(from..to)?.copy_from_slice(&index);
    Some(())
}

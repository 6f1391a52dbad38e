//! Files that were written once and must stay readable: a change of the format renews them, and CHANGELOG.md says so.

use std::fs;
use std::path::PathBuf;

use super::*;

fn path(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("golden").join(std::format!("{name}.seg"))
}

/// A golden file, and what a manifest would say of it.
pub(super) fn read(name: &str) -> (Vec<u8>, SegmentRef) {
    let bytes = fs::read(path(name)).unwrap();
    let segment = listed(&bytes);
    (bytes, segment)
}

fn listed(bytes: &[u8]) -> SegmentRef {
    use slackwater_core::format::segment::{SegmentHeader, SegmentTrailer};
    let len = bytes.len() as u64;
    let header = SegmentHeader::parse(bytes).unwrap();
    SegmentRef {
        file_name: "s.seg".into(),
        file_id: header.file_id,
        len,
        used_len: len,
        footer_checksum: SegmentTrailer::parse(bytes, len).unwrap().footer_checksum,
        key_groups: header.key_groups,
    }
}

/// The state that is in all of them.
fn state() -> Snapshot {
    let mut heap = filled(1024, 0..=2, 60);
    fill_ordered(&mut heap, 90);
    heap.freeze().unwrap()
}

/// With `SLACKWATER_WRITE_GOLDEN` set, those that can be written are written anew first.
#[test]
fn golden_files_hold_what_they_held() {
    let expected = entries_of(&state());
    for compression in compressions() {
        let mut disk = TestDisk::new();
        let written = write_with(compression, &mut disk, state(), "s.seg");
        let now = read_back(&mut disk, "s.seg");
        assert_eq!(listed(&now), written);
        if std::env::var_os("SLACKWATER_WRITE_GOLDEN").is_some() {
            fs::write(path(compression.name()), &now).unwrap();
        }
        let (bytes, segment) = read(compression.name());
        // What a compressor makes of the same bytes may change.
        assert!(compression != Compression::None || bytes == now, "the writer writes the same file");
        let mut disk = disk_with("s.seg", &bytes);
        let verified = verify_segment(&mut disk, "s.seg", &segment).unwrap();
        assert_eq!(verified.entries, expected.len() as u64);
        let mut restored = heap(1024, 0..=2);
        restore_segment(&mut disk, "s.seg", &segment, range(0..=2), &mut restored).unwrap();
        assert!(entries_of(&restored.freeze().unwrap()) == expected, "{compression}");
    }
}

fn number(bytes: &[u8], at: usize, len: usize) -> usize {
    bytes[at..at + len].iter().rev().fold(0, |number, byte| number << 8 | usize::from(*byte))
}

/// An LZ4 block, as its specification has it.
fn lz4_block(mut block: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    loop {
        let token = usize::from(block[0]);
        block = &block[1..];
        let len = length(token >> 4, &mut block);
        out.extend_from_slice(&block[..len]);
        block = &block[len..];
        if block.is_empty() {
            return out;
        }
        let from = out.len() - number(block, 0, 2);
        block = &block[2..];
        (0..length(token & 15, &mut block) + 4).for_each(|at| out.push(out[from + at]));
    }
}

fn length(mut len: usize, block: &mut &[u8]) -> usize {
    let mut goes_on = len == 15;
    while goes_on {
        len += usize::from(block[0]);
        goes_on = block[0] == 255;
        *block = &block[1..];
    }
    len
}

/// A reader that follows FORMAT.md by hand.
#[test]
fn chunks_lie_where_the_page_about_the_format_says() {
    let (bytes, _) = read("lz4");
    let (plain, _) = read("none");
    assert_eq!((bytes[12], bytes[13], bytes[14], plain[14]), (12, 10, 1, 0));
    let footer = &bytes[number(&bytes, bytes.len() - 64 + 16, 8)..];
    let mut frames = Vec::new();
    for row in footer[48..].chunks(48).take(number(footer, 4, 4)) {
        let mut data = &bytes[number(row, 16, 8)..][..number(row, 24, 8)];
        while !data.is_empty() {
            let (raw_len, stored_len) = (number(data, 0, 4), number(data, 4, 4));
            let (stored, rest) = data[12..].split_at(stored_len);
            let raw = if stored_len == raw_len { stored.to_vec() } else { lz4_block(stored) };
            assert_eq!(raw.len(), raw_len);
            frames.extend(raw);
            data = rest;
        }
        assert_eq!(frames.len(), (number(row, 32, 4) + number(row, 36, 4)) * 1024);
    }
    assert!(frames.len() > 50 * 1024 && frames == plain[4096..4096 + frames.len()]);
}

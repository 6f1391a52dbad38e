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

use slackwater_core::durable::{Names, WriteFile, run_to_end};
use slackwater_core::format::segment::{SegmentHeader, SegmentTrailer};
use slackwater_core::key_group::{KeyGroup, KeyGroupRange};
use slackwater_mem::segment::{
    RestoreCause, RestoreError, SegmentRef, VerifyStats, restore_segment, verify_segment,
};
use slackwater_mem::{FrozenRun, Heap, HeapOptions, MemDisk};

use crate::repair;

/// A whole segment: verified, then restored into a heap.
pub fn segment(data: &[u8]) {
    let mut data = data.to_vec();
    // Without the shape of a segment it is tried as it is.
    let _is_repaired = repair::segment(&mut data).is_some();
    let expected = listed(&data);
    let mut disk = disk_with(&data);
    let verified = verify_segment(&mut disk, "s", &expected);

    let range = KeyGroupRange { first: KeyGroup(0), last: KeyGroup(u16::MAX >> 1) };
    let options =
        HeapOptions { frame_size: 1024, memory_limit_bytes: 8 << 20, key_groups: range, hash_seed: 1 };
    let mut heap = Heap::new(options).expect("sound options");
    let restored = restore_segment(&mut disk, "s", &expected, range, &mut heap);
    match (verified, restored) {
        (Ok(verified), Ok(restored)) => assert_eq!(verified.entries, restored.entries),
        (Ok(_), Err(error)) => assert!(matches!(error.cause, RestoreCause::Heap(_)), "{error}"),
        // A restore does not count all entries of a state: it may see only some of its key groups.
        (Err(_), Ok(_) | Err(_)) => {}
    }
}

/// Verifies a segment as it is.
///
/// # Errors
/// What is wrong with it.
pub fn verify(data: &[u8]) -> Result<VerifyStats, RestoreError> {
    verify_segment(&mut disk_with(data), "s", &listed(data))
}

/// What a manifest would say of the file, were it sound.
fn listed(data: &[u8]) -> SegmentRef {
    let len = data.len() as u64;
    let header = SegmentHeader::parse(data).ok();
    let trailer = SegmentTrailer::parse(data, len).ok();
    let none = KeyGroupRange { first: KeyGroup(0), last: KeyGroup(0) };
    SegmentRef {
        file_name: String::from("s"),
        file_id: header.map_or(0, |header| header.file_id),
        len,
        used_len: len,
        footer_checksum: trailer.map_or(0, |trailer| trailer.footer_checksum),
        key_groups: header.map_or(none, |header| header.key_groups),
    }
}

/// A disk with the file `s`.
fn disk_with(data: &[u8]) -> MemDisk<FrozenRun> {
    let mut disk = MemDisk::new();
    let mut file = WriteFile::<MemDisk<FrozenRun>, _, _>::new(Names::Final { path: "s" }, data);
    run_to_end(&mut disk, &mut file).expect("a disk of its own");
    disk
}

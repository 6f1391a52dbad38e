//! One account of what a disk does, run on every real disk.
#![expect(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a test fails by panicking and says what it skips"
)]

use slackwater_core::durable::{Data, Disk, Operation, Token};
use slackwater_mem::sim::{SimDisk, SimOptions};
use slackwater_mem::{MemDisk, MmapDisk};
use slackwater_uring::{Fallback, UringDisk, UringOptions};

#[path = "disk_conformance/mounts.rs"]
mod mounts;
#[path = "disk_conformance/suite.rs"]
mod suite;

use suite::{Bytes, TWOS, conform, conform_in_right_use, create, names, read, write};

/// A disk on io_uring; without one the test says so and passes, unless `REQUIRE_URING` is set.
fn uring(root: &std::path::Path, options: UringOptions) -> Option<UringDisk<Bytes>> {
    UringDisk::new(root, options)
        .inspect_err(|reason| {
            assert!(std::env::var_os("REQUIRE_URING").is_none(), "{reason}");
            eprintln!("skipped: {reason}");
        })
        .ok()
}

#[test]
fn memory_is_a_disk() {
    let mut disk = MemDisk::new();
    conform(&mut disk);
    let mut clone = disk.clone();
    assert_eq!(names(&mut clone, ""), names(&mut disk, ""), "clones share the files");
}

#[test]
fn a_simulated_disk_is_a_disk() {
    conform_in_right_use(&mut SimDisk::new(SimOptions::default()));
}

#[test]
fn mapped_files_are_a_disk() {
    let root = tempfile::tempdir().unwrap();
    conform(&mut MmapDisk::new(&root.path().join("made")).unwrap());
}

#[test]
fn a_disk_may_go_to_another_thread() {
    const fn is_send<T: Send>() {}
    is_send::<MemDisk<Bytes>>();
    is_send::<MmapDisk<Bytes>>();
    is_send::<UringDisk<Bytes>>();
}

#[test]
fn a_root_that_cannot_be_made_is_said_so() {
    let root = tempfile::tempdir().unwrap();
    let file = root.path().join("file");
    std::fs::write(&file, b"").unwrap();
    assert!(MmapDisk::<Bytes>::new(&file).is_err());
    let refused = UringDisk::<Bytes>::new(&file.join("deeper"), UringOptions::default());
    assert!(refused.is_err());
}

#[test]
fn a_ring_is_a_disk() {
    let root = tempfile::tempdir().unwrap();
    for direct in [true, false] {
        for transfers_max in [9, 32] {
            let options = UringOptions { direct, transfers_max, ..UringOptions::default() };
            let folder = root.path().join(format!("{direct}-{transfers_max}"));
            let Some(mut disk) = uring(&folder, options) else { return };
            conform(&mut disk);
        }
    }
}

#[test]
fn frames_that_are_not_aligned_are_copied() {
    static FRAMES: [u8; 3 * 4096] = [9; 3 * 4096];
    let root = tempfile::tempdir().unwrap();
    let Some(mut disk) = uring(root.path(), UringOptions::default()) else { return };
    let (file, _len) = create(&mut disk, "f", 8192).unwrap();
    let start = FRAMES.as_ptr().align_offset(4096) + 256;
    assert_eq!(write(&mut disk, file, 0, &FRAMES[start % 4096..][..8192]), 0);
    assert_eq!(read(&mut disk, file, 0, 8192), Ok(vec![9; 8192]));
    assert!(matches!(disk.fallbacks(), [Fallback::Copied { .. }] | [Fallback::Buffered { .. }]));
}

#[test]
fn dropping_a_ring_waits_for_its_writes() {
    let root = tempfile::tempdir().unwrap();
    let Some(mut disk) = uring(root.path(), UringOptions::default()) else { return };
    let (file, _len) = create(&mut disk, "f", 16 * 8192).unwrap();
    for index in 0..16 {
        disk.submit(Token(index), Operation::Write { file, offset: index * 8192, data: Data::Frozen(&TWOS) })
            .unwrap();
    }
    drop(disk);
    assert!(std::fs::read(root.path().join("f")).unwrap().iter().all(|byte| *byte == 2));
}

//! On xfs and on btrfs: killed, verified, resumed, exact.

use std::cell::RefCell;

use crate::full_disk::Mount;
use crate::support::{has_uring, slackwater, until_killed};

const XFS: (&[&str], u64) = (&["mkfs.xfs", "-q"], 300 << 20);
const BTRFS: (&[&str], u64) = (&["mkfs.btrfs", "-q"], 128 << 20);

fn exact_after_a_kill((make, len): (&[&str], u64), storage: &str) {
    let args = ["--storage", storage, "--emit", "updates"];
    let mounted = RefCell::new(None);
    let place = until_killed(768 << 10, |place| {
        let mount = Mount::made(place, make, len, &place.dir(), "loop");
        let is_kept = mount.is_none() || place.killed(2, &args);
        *mounted.borrow_mut() = mount.filter(|_| is_kept);
        is_kept
    });
    // From here on, so that it goes before the place.
    let Some(_mounted) = mounted.take() else { return };
    slackwater(["verify", place.dir().to_str().unwrap()]).fine();
    let report = place.wordcount(&args).fine().json();
    assert!(report["resumed_from"].is_u64(), "{report}");
    assert!(report["notes"].as_array().unwrap().is_empty(), "{report}");
    place.assert_exact("updates");
    slackwater(["verify", place.dir().to_str().unwrap()]).fine();
}

#[test]
fn xfs_with_mapped_files() {
    exact_after_a_kill(XFS, "mmap");
}

#[test]
fn btrfs_with_mapped_files() {
    exact_after_a_kill(BTRFS, "mmap");
}

#[test]
fn xfs_with_io_uring() {
    if has_uring() {
        exact_after_a_kill(XFS, "uring");
    }
}

#[test]
fn btrfs_with_io_uring() {
    if has_uring() {
        exact_after_a_kill(BTRFS, "uring");
    }
}

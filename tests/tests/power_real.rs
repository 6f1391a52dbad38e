//! The power goes while a word count runs on the real disks, on real file systems: what is left of the block
//! device at every flush, and samples of what was written since, is mounted and the job goes on from it.
//!
//! The job runs three times over one file system, killed twice, so its log holds checkpoints, deletions and
//! recoveries. On each image the newest checkpoint that was announced, or a newer one, must be found; all
//! that is retained must be whole; and the job that goes on must end with the exact output.
//!
//! `SLACKWATER_POWER_SAMPLES=20` tries more images for each flush, `SLACKWATER_POWER_SEED=7` another job, killed at
//! other moments. A failure keeps the log and prints how to try its one image again.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::env;
use std::fs::File;
use std::path::Path;

use slackwater_mem::FrozenRun;
use slackwater_tests::apart::{say, skip, with_mounts};
use slackwater_tests::file_system::FileSystem;
use slackwater_tests::fuse_log::{Cut, serve_if_ordered};
use slackwater_uring::{UringDisk, UringOptions};

#[path = "power_real/disks.rs"]
mod disks;
#[path = "power_real/recording.rs"]
mod recording;
#[path = "power_real/trial.rs"]
mod trial;

use disks::{Backend, Sync};
use recording::{RUNS, Recording, seed};
use trial::Trials;

/// Images for each flush after which something was written, unless the environment says otherwise.
const SAMPLES: u64 = 2;

/// A disk, and the file system that it is on.
#[derive(Clone, Copy, Debug)]
struct Setting {
    backend: Backend,
    file_system: FileSystem,
}

const MAPPED_ON_EXT4: Setting = Setting { backend: Backend::Mmap, file_system: FileSystem::Ext4 };
const RING_ON_EXT4: Setting = Setting { backend: Backend::Uring, file_system: FileSystem::Ext4 };
const BUFFERED_RING_ON_EXT4: Setting =
    Setting { backend: Backend::UringBuffered, file_system: FileSystem::Ext4 };
const RING_ON_BTRFS: Setting = Setting { backend: Backend::Uring, file_system: FileSystem::Btrfs };

/// The image's server; see `fuse_log`.
#[test]
fn the_image_server() {
    serve_if_ordered().unwrap();
}

impl Setting {
    /// Whether what it takes is there.
    fn is_possible(self, place: &Path) -> bool {
        let device = File::open("/dev/fuse");
        let ring = UringDisk::<FrozenRun>::new(place, UringOptions::default());
        match (self.backend, device, ring) {
            (_, Err(error), _) => skip("REQUIRE_FUSE", &format!("/dev/fuse: {error}")),
            (Backend::Uring | Backend::UringBuffered, _, Err(error)) => {
                skip("REQUIRE_URING", &error.to_string());
            }
            (Backend::Mmap, ..) | (.., Ok(_)) => return self.file_system.is_possible(place),
        }
        false
    }
}

fn number(variable: &str) -> Option<u64> {
    env::var(variable).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{variable} is not a number")))
}

/// The images to try: many of a recording, or the one that the environment names.
fn cuts(recording: &Recording) -> Vec<Cut> {
    let samples = number("SLACKWATER_POWER_SAMPLES").unwrap_or(SAMPLES);
    number("SLACKWATER_POWER_FLUSH").map_or_else(
        || recording.cuts(samples),
        |flush| {
            let sample = number("SLACKWATER_POWER_SAMPLE").unwrap_or(0);
            vec![Cut { flush: flush.try_into().unwrap(), sample }]
        },
    )
}

/// Tries the images of a whole recording, and says how many.
fn survives(test: &str, setting: Setting) {
    with_mounts(test, |place| {
        if !setting.is_possible(place) {
            return;
        }
        let recording = env::var_os("SLACKWATER_POWER_LOG").map_or_else(
            || Recording::make(place, setting, None, RUNS),
            |log| Recording::read(Path::new(&log), setting),
        );
        let cuts = cuts(&recording);
        let (flushes, announced) = (recording.log.flushes(), recording.announced());
        let Setting { backend, file_system } = setting;
        say(&format!(
            "# {backend:?} on {file_system:?}: {} images, {flushes} flushes, {announced} checkpoints",
            cuts.len()
        ));
        if let Some((Cut { flush, sample }, why)) =
            (Trials { recording: &recording, setting, place }).run(&cuts)
        {
            let log = recording.keep(test);
            panic!(
                "{why}\nafter flush {flush}, sample {sample}; try it again with: SLACKWATER_POWER_LOG={} \
                 SLACKWATER_POWER_SEED={} SLACKWATER_POWER_FLUSH={flush} SLACKWATER_POWER_SAMPLE={sample} \
                 cargo test -p slackwater-tests --test power_real {test}",
                log.display(),
                seed(),
            );
        }
    });
}

#[test]
fn mapped_files_on_ext4_survive_at_every_flush() {
    survives("mapped_files_on_ext4_survive_at_every_flush", MAPPED_ON_EXT4);
}

#[test]
fn a_ring_on_ext4_survives_at_every_flush() {
    survives("a_ring_on_ext4_survives_at_every_flush", RING_ON_EXT4);
}

#[test]
fn a_ring_on_btrfs_survives_at_every_flush() {
    survives("a_ring_on_btrfs_survives_at_every_flush", RING_ON_BTRFS);
}

/// What goes wrong on a disk that leaves out one kind of sync, if anything does.
fn found_out(place: &Path, setting: Setting, missing: Sync) -> Option<String> {
    let recording = Recording::make(place, setting, Some(missing), 1);
    let found = Trials { recording: &recording, setting, place }.run(&recording.cuts_at_announcements());
    found.map(|(_, why)| why)
}

/// Each file's sync, and that of the folder in which a manifest gets its name. A ring's direct writes are tried on
/// btrfs: see the next test.
#[test]
fn a_disk_that_leaves_out_one_sync_is_found_out() {
    with_mounts("a_disk_that_leaves_out_one_sync_is_found_out", |place| {
        for missing in [Sync::Segment, Sync::Manifest, Sync::Part, Sync::ManifestFolder] {
            for setting in [MAPPED_ON_EXT4, BUFFERED_RING_ON_EXT4, RING_ON_BTRFS] {
                if setting.is_possible(place) {
                    let why = found_out(place, setting, missing);
                    assert!(why.is_some(), "{setting:?} without a sync of {missing:?} passes");
                }
            }
        }
    });
}

/// Why the order of system calls is tested too (`strace_order`), and in simulation (`power_cut`).
///
/// ext4 has one journal for all: its next commit makes durable whatever was done before, and flushes the device
/// first. Direct writes lie on the device when the manifest is named, so the sync of the folder that follows covers
/// them; a file's name and its content's place are in the same transaction, so a later sync of the file covers the
/// name. Only the last sync before the announcement, and what is still in the page cache, has nobody to cover it.
/// btrfs logs each file by itself, but a new file with its name.
#[test]
fn what_ext4_makes_up_for() {
    with_mounts("what_ext4_makes_up_for", |place| {
        let direct_writes = [Sync::Segment, Sync::Manifest, Sync::Part].map(|sync| (RING_ON_EXT4, sync));
        let names = [Sync::SegmentFolder, Sync::JobFolder].map(|sync| (MAPPED_ON_EXT4, sync));
        for (setting, missing) in direct_writes.into_iter().chain(names) {
            if setting.is_possible(place) {
                let why = found_out(place, setting, missing);
                assert_eq!(why, None, "{setting:?} without a sync of {missing:?}");
            }
        }
    });
}

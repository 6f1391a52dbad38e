//! A disk that fills up under a running job, and one that cannot be written at all.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs::{self, File};
use std::io::Write;
use std::ops::Range;
use std::path::{Path, PathBuf};

use slackwater::word_count::Emit;
use slackwater::{JobError, Progress, recovery};
use slackwater_core::durable::DiskError;
use slackwater_mem::{FrozenRun, MmapDisk};
use slackwater_tests::apart::{say, skip, with_mounts};
use slackwater_tests::file_system::{FileSystem, Mounted};
use slackwater_tests::sim_job::{OUTPUT, Run, RunEnd, SimJob};
use slackwater_uring::{UringDisk, UringOptions};

/// Where the small file system is, on the disk and below its root.
const FULL: &str = "full";
/// Room that is left when the disk is full: from none to a block too little for a checkpoint, block by block.
const ROOMS: Range<u64> = 0..9 * BLOCK;
const BLOCK: u64 = 4096;
/// Enough for all that is to happen.
const TEXT_LEN: usize = 200_000;
/// Checkpoints that complete before the disk fills up, and that fail before there is room again.
const FINE: u64 = 2;
const FAILING: u64 = 3;

/// What is done with the disk while the job runs.
struct Filler {
    folder: PathBuf,
    room: u64,
    is_full: bool,
    /// Completed, or failed, checkpoints at which it goes on.
    next: u64,
}

impl Filler {
    const fn new(folder: PathBuf) -> Self {
        Self { folder, room: ROOMS.start, is_full: false, next: FINE }
    }

    /// Fills the disk after some checkpoints, keeps it so, and makes room after some have failed.
    fn observe(&mut self, progress: Progress) {
        if self.is_full && progress.checkpoints_failed >= self.next {
            fs::remove_file(self.folder.join("filler")).unwrap();
            File::open(&self.folder).unwrap().sync_all().unwrap();
            (self.is_full, self.next) = (false, progress.checkpoints_completed + FINE);
            self.room += BLOCK;
        } else if !self.is_full && !self.is_done() && progress.checkpoints_completed >= self.next {
            (self.is_full, self.next) = (true, progress.checkpoints_failed + FAILING);
        }
        if self.is_full {
            fill(&self.folder, self.room);
        }
    }

    fn is_done(&self) -> bool {
        !ROOMS.contains(&self.room)
    }
}

/// Fills a disk but for some room; what deletions have freed since the last time too.
fn fill(folder: &Path, room: u64) {
    let free = || {
        let about = rustix::fs::statvfs(folder).unwrap();
        about.f_bavail * about.f_frsize
    };
    if free() <= room {
        return;
    }
    let mut file = File::options().create(true).append(true).open(folder.join("filler")).unwrap();
    while free() > room && file.write_all(&[1; 4096]).is_ok() {}
    file.sync_all().unwrap();
}

/// 16 MiB of ext4 below `root`.
fn small_ext4(place: &Path, root: &Path, options: &str) -> Mounted {
    let image = place.join("image");
    if !image.exists() {
        FileSystem::Ext4.make(&image, 16 << 20).unwrap();
    }
    FileSystem::Ext4.mount(&image, &root.join(FULL), options).unwrap()
}

type Drive = fn(&Path, &mut SimJob, &mut dyn FnMut(Progress) -> bool) -> Result<Run, String>;

fn mapped(root: &Path, job: &mut SimJob, stop: &mut dyn FnMut(Progress) -> bool) -> Result<Run, String> {
    job.run_on(MmapDisk::new(root).unwrap(), stop)
}

fn ring(root: &Path, job: &mut SimJob, stop: &mut dyn FnMut(Progress) -> bool) -> Result<Run, String> {
    job.run_on(UringDisk::new(root, UringOptions::default()).unwrap(), stop)
}

fn has_ring(place: &Path) -> bool {
    let ring = UringDisk::<FrozenRun>::new(place, UringOptions::default());
    ring.inspect_err(|reason| skip("REQUIRE_URING", &reason.to_string())).is_ok()
}

/// The output lies elsewhere: a sink that cannot write has nothing to go on with.
fn a_full_disk_fails_checkpoints_and_not_the_job(place: &Path, drive: Drive) {
    let root = place.join("root");
    let _mounted = small_ext4(place, &root, "");
    let mut job = SimJob::new(7, Emit::Updates).over(TEXT_LEN).in_folder(FULL).tolerating(u32::MAX);
    let (mut filler, mut last) = (Filler::new(root.join(FULL)), Progress::default());
    let run = drive(&root, &mut job, &mut |progress| {
        filler.observe(progress);
        last = progress;
        false
    });
    let run = run.unwrap();
    assert!(matches!(run.end, RunEnd::Finished), "{run:?}");
    assert!(filler.is_done(), "not all rooms were tried: {last:?}, {:?}", run.notes);
    let times = (ROOMS.end - ROOMS.start) / BLOCK;
    assert!(last.checkpoints_failed >= times * FAILING, "{last:?}");
    assert!(last.checkpoints_completed > times * FINE, "{last:?}");
    let lines = run.notes.iter().filter(|note| note.contains("no space left on the disk")).count();
    assert!(lines == run.notes.len() && lines as u64 == times, "one line each time: {:?}", run.notes);
    say(&format!(
        "# {} checkpoints failed, {} completed",
        last.checkpoints_failed, last.checkpoints_completed
    ));
    job.check_folder(&root.join(OUTPUT)).unwrap();
    everything_verifies(&root);
}

/// Each checkpoint with a manifest is whole.
fn everything_verifies(root: &Path) {
    let mut disk = MmapDisk::<FrozenRun>::new(root).unwrap();
    let folder = format!("{FULL}/wordcount");
    let found = recovery::find(&mut disk, &folder).unwrap();
    assert!(found.passed_over.is_empty() && !found.has_unreadable && found.retained.len() >= 3, "{found:?}");
    for id in found.retained {
        let manifest = recovery::read_manifest(&mut disk, &folder, id).unwrap().unwrap().unwrap();
        assert_eq!(recovery::verify_files(&mut disk, &folder, &manifest), Vec::new());
    }
}

#[test]
fn a_job_on_mapped_files_outlives_a_full_disk() {
    with_mounts("a_job_on_mapped_files_outlives_a_full_disk", |place| {
        if FileSystem::Ext4.is_possible(place) {
            a_full_disk_fails_checkpoints_and_not_the_job(place, mapped);
        }
    });
}

#[test]
fn a_job_on_a_ring_outlives_a_full_disk() {
    with_mounts("a_job_on_a_ring_outlives_a_full_disk", |place| {
        if has_ring(place) && FileSystem::Ext4.is_possible(place) {
            a_full_disk_fails_checkpoints_and_not_the_job(place, ring);
        }
    });
}

#[test]
fn a_job_ends_at_its_first_checkpoint_where_nothing_can_be_written() {
    with_mounts("a_job_ends_at_its_first_checkpoint_where_nothing_can_be_written", |place| {
        if !FileSystem::Ext4.is_possible(place) {
            return;
        }
        let root = place.join("root");
        let mut job = SimJob::new(8, Emit::Updates).in_folder(FULL);
        let mounted = small_ext4(place, &root, "");
        let run = mapped(&root, &mut job, &mut |progress| progress.checkpoints_completed == 2).unwrap();
        assert!(matches!(run.end, RunEnd::Stopped), "{run:?}");
        drop(mounted);

        let mounted = small_ext4(place, &root, "ro");
        let drives: &[Drive] = if has_ring(place) { &[mapped, ring] } else { &[mapped] };
        for drive in drives {
            let run = drive(&root, &mut job, &mut |_| false).unwrap();
            let RunEnd::Failed(error) = run.end else { panic!("{run:?}") };
            let JobError::Checkpoint { cause: Some(cause), .. } = &error else { panic!("{error:?}") };
            assert_eq!(cause.errno, DiskError::READ_ONLY);
            assert!(error.to_string().contains("file system is read-only"), "{error}");
        }
        drop(mounted);

        let _mounted = small_ext4(place, &root, "");
        let run = mapped(&root, &mut job, &mut |_| false).unwrap();
        assert!(matches!(run.end, RunEnd::Finished) && run.resumed_from.is_some(), "{run:?}");
        job.check_folder(&root.join(OUTPUT)).unwrap();
    });
}

//! What users of other engines have met with in files of checkpoints: left-overs, numbers that repeat, files cut off
//! under a reader, the last block (cases G and I).
#![expect(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a test fails by panicking and says what it skips"
)]

use std::fs::File;

use slackwater::blocking::Blocking;
use slackwater::recovery::{find, read_manifest};
use slackwater::word_count::Emit;
use slackwater_core::durable::{
    Completion, Disk, Names, Operation, Outcome, Token, Wait, WriteFile, run_to_end,
};
use slackwater_core::ids::CheckpointId;
use slackwater_mem::sim::{PowerCuts, SimDisk, SimOptions, When};
use slackwater_mem::{FrozenRun, MemDisk, MmapDisk};
use slackwater_tests::crash::{Recorded, Sim, disk_of};
use slackwater_tests::sim_job::{CHECKPOINTS, RunEnd, SimJob};
use slackwater_uring::{UringDisk, UringOptions};

/// Carries out one operation.
fn run<D: Disk>(disk: &mut D, operation: Operation<'_, D::Block, D::Frozen>) -> Outcome<D::Block> {
    assert!(disk.submit(Token(0), operation).is_ok(), "nothing else is in flight");
    let mut ended = heapless::Vec::<Completion<D::Block>, 1>::new();
    assert_eq!(disk.reap(Wait::ForOne, &mut ended), 1);
    ended.pop().unwrap().outcome
}

fn make_folder<D: Disk>(disk: &mut D, path: &str) {
    assert!(matches!(run(disk, Operation::CreateFolder { path }), Outcome::Done));
}

fn make_file<D: Disk>(disk: &mut D, path: &str, bytes: &[u8]) {
    let mut file = WriteFile::new(Names::Final { path }, bytes);
    run_to_end(disk, &mut file).unwrap();
    assert_eq!(file.result(), Some(Ok(bytes.len() as u64)));
}

/// A job's disk when the first checkpoint has just been announced, and the job to go on with.
fn after_first_checkpoint() -> (Sim, SimJob) {
    let recorded = Recorded::new(SimJob::small(1, Emit::Updates));
    let cuts = PowerCuts::of(&recorded.log);
    let mut images = (0..cuts.places()).filter_map(|number| cuts.image(number));
    let image = images.find(|image| image.promised() == Some(1)).unwrap();
    (disk_of(&image), recorded.job)
}

fn folders(disk: &Sim) -> Vec<String> {
    disk.names(CHECKPOINTS)
}

#[test]
fn i05_what_a_crash_left_under_temporary_names_is_never_taken_and_goes() {
    let (mut disk, mut job) = after_first_checkpoint();
    make_file(&mut disk, "wordcount/chk-1/_metadata.inprogress", &[7; 100]);
    make_folder(&mut disk, "wordcount/chk-2");
    make_file(&mut disk, "wordcount/chk-2/_metadata.inprogress", &[7; 100_000]);
    make_file(&mut disk, "out/.part-0-7-9.tmp", &[7; 10]);
    assert_eq!(find(&mut disk.clone(), CHECKPOINTS).unwrap().newest.unwrap().id, CheckpointId(1));
    let run = job.run(disk.clone(), None).unwrap();
    assert!(matches!(run.end, RunEnd::Finished), "{run:?}");
    assert_eq!(run.resumed_from, Some(CheckpointId(1)));
    assert!(run.passed_over.is_empty() && run.completed.len() > 2, "{run:?}");
    job.check_output(&mut disk.clone()).unwrap();
    assert!(!folders(&disk).iter().any(|name| name == "chk-1" || name == "chk-2"), "{:?}", folders(&disk));
    assert!(!disk.names("out").iter().any(|name| name.starts_with(".part")), "{:?}", disk.names("out"));
    for id in run.completed.iter().rev().take(2) {
        let names = disk.names(&format!("wordcount/chk-{id}"));
        assert!(!names.iter().any(|name| name.ends_with("inprogress")), "{names:?}");
    }
}

#[test]
fn g03_an_attempt_that_failed_takes_its_number_and_its_files_with_it() {
    let (mut disk, mut job) = after_first_checkpoint();
    make_folder(&mut disk, "wordcount/chk-8");
    for subtask in 0..7 {
        make_file(&mut disk, &format!("wordcount/chk-8/{subtask}-9.seg"), &[1; 5000]);
    }
    make_folder(&mut disk, "wordcount/chk-9");
    let run = job.run(disk.clone(), None).unwrap();
    assert_eq!(run.resumed_from, Some(CheckpointId(1)));
    assert_eq!(run.completed.first(), Some(&CheckpointId(10)));
    assert!(run.completed.is_sorted_by(|one, next| one < next), "numbers go up");
    let newest = *run.completed.last().unwrap();
    let manifest = read_manifest(&mut disk.clone(), CHECKPOINTS, newest).unwrap().unwrap().unwrap();
    let subtasks = manifest.vertices.iter().flat_map(|vertex| &vertex.subtasks);
    let segments = subtasks.filter(|subtask| subtask.segment.is_some()).count();
    let files = disk.names(&format!("wordcount/chk-{newest}"));
    assert_eq!(files.len(), segments + 1, "no file but the manifest and what it lists: {files:?}");
    job.check_output(&mut disk.clone()).unwrap();
}

#[test]
fn g04_a_first_checkpoint_that_did_not_come_to_its_manifest_is_none() {
    let recorded = Recorded::new(SimJob::small(1, Emit::Updates));
    let cuts = PowerCuts::of(&recorded.log);
    let images: Vec<_> = (0..cuts.places()).filter_map(|number| cuts.image(number)).collect();
    // All segments are there and durable, the manifest has not got its name; and the first segment alone.
    let is_rename = |image: &&slackwater_mem::sim::Image| {
        image.when() == When::Before && image.submitted().path.ends_with("_metadata.inprogress")
    };
    let all_but_manifest =
        images.iter().rfind(|image| is_rename(image) && image.promised().is_none()).unwrap();
    let mut first_alone = SimDisk::<FrozenRun>::new(SimOptions::default());
    make_folder(&mut first_alone, CHECKPOINTS);
    make_folder(&mut first_alone, "wordcount/chk-1");
    make_file(&mut first_alone, "wordcount/chk-1/2-1.seg", &[1; 8192]);
    for disk in [disk_of(all_but_manifest), first_alone] {
        assert!(folders(&disk).contains(&"chk-1".to_owned()));
        let found = find(&mut disk.clone(), CHECKPOINTS).unwrap();
        assert!(found.newest.is_none() && found.passed_over.is_empty(), "{found:?}");
        assert_eq!(found.incomplete, [CheckpointId(1)]);
        let mut job = recorded.job.clone();
        let run = job.run(disk.clone(), None).unwrap();
        assert_eq!((run.resumed_from, run.completed.first()), (None, Some(&CheckpointId(2))));
        job.check_output(&mut disk.clone()).unwrap();
        assert!(!folders(&disk).contains(&"chk-1".to_owned()), "it can be removed");
    }
}

/// Checkpoints 9, 10 and 100, the last one of a job that still goes on.
fn nine_ten_and_a_hundred() -> SimDisk<FrozenRun> {
    let mut disk = SimDisk::<FrozenRun>::new(SimOptions::default());
    let mut job = SimJob::new(1, Emit::Updates);
    make_folder(&mut disk, CHECKPOINTS);
    for (gap, until) in [(8, 10), (99, 100)] {
        make_folder(&mut disk, &format!("wordcount/chk-{gap}"));
        let mut is_there =
            |progress: slackwater::Progress| progress.last_checkpoint == Some(CheckpointId(until));
        let run = job.run_on(disk.clone(), &mut is_there).unwrap();
        assert!(matches!(run.end, RunEnd::Stopped), "{run:?}");
        while run_is_busy(&mut disk) {}
    }
    disk
}

/// Takes what a driver that has stopped has left in flight.
fn run_is_busy(disk: &mut SimDisk<FrozenRun>) -> bool {
    let mut ended = heapless::Vec::<_, 8>::new();
    disk.reap(Wait::ForOne, &mut ended);
    disk.in_flight() > 0
}

#[test]
fn g01_the_newest_by_number_is_taken_and_damaged_ones_are_passed_over_and_kept() {
    let whole = nine_ten_and_a_hundred();
    let found = find(&mut whole.clone(), CHECKPOINTS).unwrap();
    assert_eq!(found.newest.unwrap().id, CheckpointId(100));
    assert_eq!(found.retained, [9, 10, 100].map(CheckpointId));
    let segment = |id: u64| {
        let names = whole.names(&format!("wordcount/chk-{id}"));
        let name = names.into_iter().find(|name| name.ends_with(".seg")).unwrap();
        format!("wordcount/chk-{id}/{name}")
    };
    let expect = |disk: &SimDisk<FrozenRun>, newest: u64, passed_over: &[u64]| {
        let found = find(&mut disk.clone(), CHECKPOINTS).unwrap();
        assert_eq!(found.newest.unwrap().id, CheckpointId(newest));
        let named: Vec<_> = found.passed_over.iter().map(|passed_over| passed_over.id.0).collect();
        assert_eq!(named, passed_over);
        assert!(found.passed_over.iter().all(|passed_over| !passed_over.reason.is_empty()));
        for id in [9, 10, 100] {
            assert_eq!(
                disk.names(&format!("wordcount/chk-{id}")),
                whole.names(&format!("wordcount/chk-{id}"))
            );
        }
    };
    let disk = whole.image_after_kill(1);
    disk.flip_bit("wordcount/chk-100/_metadata", 300).unwrap();
    expect(&disk, 10, &[100]);
    let disk = whole.image_after_kill(2);
    let bytes = disk.read_file(&segment(100)).unwrap();
    disk.overwrite(&segment(100), &bytes[..bytes.len() / 2]).unwrap();
    expect(&disk, 10, &[100]);
    disk.flip_bit(&segment(10), 8 * 4096).unwrap();
    expect(&disk, 9, &[100, 10]);
}

/// A ring, if there is one.
fn uring(root: &std::path::Path, direct: bool) -> Option<UringDisk<FrozenRun>> {
    UringDisk::new(root, UringOptions { direct, ..UringOptions::default() })
        .inspect_err(|reason| {
            assert!(std::env::var_os("REQUIRE_URING").is_none(), "{reason}");
            eprintln!("skipped: {reason}");
        })
        .ok()
}

fn lengths_come_back<D: Disk>(disk: &mut D) {
    for len in [0_usize, 1, 511, 512, 4095, 4096, 4097, 12_289, 65_536, 65_537, 200_000] {
        let bytes: Vec<u8> = (0..=250).cycle().take(len).collect();
        let path = format!("f{len}");
        make_file(disk, &path, &bytes);
        let mut listed = None;
        disk.list("", &mut |entry| listed = listed.or_else(|| (entry.name == path).then_some(entry.len)))
            .unwrap();
        assert_eq!(listed, Some(len as u64), "no padding is left");
        assert_eq!(Blocking::new(disk).read(&path, u64::MAX).unwrap(), bytes, "{len} bytes");
    }
}

#[test]
fn i07_the_last_block_is_neither_padded_nor_lost_on_any_disk() {
    let root = tempfile::tempdir().unwrap();
    lengths_come_back(&mut MemDisk::<FrozenRun>::new());
    lengths_come_back(&mut SimDisk::<FrozenRun>::new(SimOptions::default()));
    lengths_come_back(&mut MmapDisk::<FrozenRun>::new(&root.path().join("mmap")).unwrap());
    for direct in [true, false] {
        if let Some(mut disk) = uring(&root.path().join(format!("uring-{direct}")), direct) {
            lengths_come_back(&mut disk);
        }
    }
}

/// Reads a file that loses its end while it is open: reads are plain ones, never through a mapping.
fn a_file_may_lose_its_end<D: Disk>(disk: &mut D, root: &std::path::Path) {
    for len in [4097, 4096, 1, 0] {
        let path = format!("f{len}");
        make_file(disk, &path, &[5; 40 << 10]);
        let Outcome::Opened { file, .. } = run(disk, Operation::OpenFile { path: &path }) else {
            panic!("the file is there")
        };
        File::options().write(true).open(root.join(&path)).unwrap().set_len(len).unwrap();
        let block = disk.block().unwrap();
        let block_len = block.as_ref().len();
        let Outcome::Read { block, len: read } =
            run(disk, Operation::Read { file, offset: 0, block, len: block_len })
        else {
            panic!("it can be read")
        };
        assert_eq!(read as u64, len);
        disk.recycle(block);
        let block = disk.block().unwrap();
        let Outcome::Read { block, len: read } =
            run(disk, Operation::Read { file, offset: 8192, block, len: 8192 })
        else {
            panic!("it can be read")
        };
        assert_eq!(read, 0, "behind the end there is nothing");
        disk.recycle(block);
        assert!(matches!(run(disk, Operation::CloseFile { file }), Outcome::Done));
    }
}

#[test]
fn i06_a_file_that_is_shorter_than_it_claims_is_an_error_and_no_signal() {
    let root = tempfile::tempdir().unwrap();
    let mapped = root.path().join("mmap");
    a_file_may_lose_its_end(&mut MmapDisk::<FrozenRun>::new(&mapped).unwrap(), &mapped);
    let ring = root.path().join("uring");
    if let Some(mut disk) = uring(&ring, true) {
        a_file_may_lose_its_end(&mut disk, &ring);
    }
    // A whole checkpoint, one segment of which is cut off.
    let job = root.path().join("job");
    let run = SimJob::small(1, Emit::Updates).run(MmapDisk::new(&job).unwrap(), None).unwrap();
    let [.., older, newest] = run.completed[..] else { panic!("{run:?}") };
    let folder = job.join(format!("wordcount/chk-{newest}"));
    let entries = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
    let segment = entries.into_iter().find(|path| path.extension().is_some_and(|e| e == "seg")).unwrap();
    let whole = std::fs::read(&segment).unwrap();
    for len in [4097, 4096, 0] {
        File::options().write(true).open(&segment).unwrap().set_len(len).unwrap();
        let found = find(&mut MmapDisk::<FrozenRun>::new(&job).unwrap(), CHECKPOINTS).unwrap();
        assert_eq!(found.newest.unwrap().id, older, "cut to {len}");
        assert_eq!(found.passed_over[0].id, newest);
        std::fs::write(&segment, &whole).unwrap();
    }
}

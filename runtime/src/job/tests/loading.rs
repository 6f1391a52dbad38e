//! Keyed state on its way back: read once before a job begins, or while it works already.

use std::sync::atomic::{AtomicUsize, Ordering};

use heapless::VecView;
use slackwater_core::durable::Disk as Storage;
use slackwater_core::durable::{
    Completion, DiskError, Entry, Operation, OperationKind, Outcome, Token, Wait,
};

use super::keyed::{assert_tallied, drive_rounds, flip, keyed_job};
use super::*;

fn lazily(attempt: u64) -> JobOptions {
    JobOptions { lazy_restore: true, memory_limit_bytes: 64 << 20, ..options(attempt) }
}

/// A disk that counts how often a segment is opened and what is read, and can fail to open it or to make a file.
#[derive(Debug)]
struct Watched {
    disk: Disk,
    opened: Arc<AtomicUsize>,
    read_len: Arc<AtomicUsize>,
    fails: Option<(OperationKind, usize, i32)>,
    failed: Vec<(Token, DiskError)>,
}

impl Watched {
    fn new(disk: &Disk) -> Self {
        let (opened, read_len) = (Arc::default(), Arc::default());
        Self { disk: disk.clone(), opened, read_len, fails: None, failed: Vec::new() }
    }

    fn fails_at(&self, operation: &Operation<'_, <Disk as Storage>::Block, FrozenRun>) -> Option<DiskError> {
        let kind = operation.kind();
        let before = if let Operation::OpenFile { path } = operation
            && path.ends_with(".seg")
        {
            self.opened.fetch_add(1, Ordering::Relaxed)
        } else if operation.kind() == OperationKind::CreateFile {
            usize::MAX
        } else {
            return None;
        };
        let (fails, after, errno) = self.fails?;
        (fails == kind && before >= after).then_some(DiskError { operation: kind, errno })
    }
}

impl Storage for Watched {
    type Block = <Disk as Storage>::Block;
    type Frozen = FrozenRun;

    fn block(&mut self) -> Option<Self::Block> {
        self.disk.block()
    }

    fn recycle(&mut self, block: Self::Block) {
        self.disk.recycle(block);
    }

    fn submit<'p>(
        &mut self,
        token: Token,
        operation: Operation<'p, Self::Block, FrozenRun>,
    ) -> Result<(), Operation<'p, Self::Block, FrozenRun>> {
        match self.fails_at(&operation) {
            Some(error) => self.failed.push((token, error)),
            None => self.disk.submit(token, operation)?,
        }
        Ok(())
    }

    fn reap(&mut self, wait: Wait, out: &mut VecView<Completion<Self::Block>>) -> usize {
        let before = out.len();
        self.disk.reap(wait, out);
        for completion in out.iter().skip(before) {
            if let Outcome::Read { len, .. } = &completion.outcome {
                self.read_len.fetch_add(*len, Ordering::Relaxed);
            }
        }
        while !out.is_full()
            && let Some((token, error)) = self.failed.pop()
        {
            out.push(Completion { token, outcome: Outcome::Failed(error) }).unwrap();
        }
        out.len() - before
    }

    fn in_flight(&self) -> usize {
        self.disk.in_flight() + self.failed.len()
    }

    fn list(&mut self, folder: &str, each: &mut dyn FnMut(Entry<'_>)) -> Result<(), DiskError> {
        self.disk.list(folder, each)
    }
}

/// What a job that was dropped has left, with its newest checkpoint.
fn left_behind() -> (Disk, Committed, crate::checkpoint::Manifest) {
    let (mut disk, committed) = (Disk::new(), Committed::default());
    let job = Job::assemble(keyed_job(&committed, 2), disk.clone(), Now::default(), &lazily(1));
    drive_rounds(&mut job.unwrap(), 80);
    let newest = crate::recovery::find(&mut disk, "tally").unwrap().newest.unwrap();
    (disk, committed, newest)
}

#[test]
fn every_byte_is_read_once_at_any_parallelism() {
    let (disk, committed, newest) = left_behind();
    let len: u64 = crate::recovery::segments(&newest).map(|segment| segment.len).sum();
    let len = usize::try_from(len).unwrap();
    for parallelism in [1, 2, 3, 5] {
        let watched = Watched::new(&disk);
        let (opened, read_len) = (Arc::clone(&watched.opened), Arc::clone(&watched.read_len));
        let eager = JobOptions { lazy_restore: false, ..lazily(2) };
        let job = Job::assemble(keyed_job(&committed, parallelism), watched, Now::default(), &eager).unwrap();
        assert_eq!(job.resumed_from, Some(newest.id));
        // Header, index and footer again for each subtask that has a part, and a few blocks of manifests.
        let others = (opened.load(Ordering::Relaxed) + 3) * 16_384;
        let read = read_len.load(Ordering::Relaxed);
        assert!(
            read <= len + others && len > others,
            "parallelism {parallelism}: {read} of {len} and {others}"
        );
    }
}

#[test]
fn a_job_that_begins_before_its_state_is_there_is_exact_at_any_parallelism() {
    let (disk, committed) = (Disk::new(), Committed::default());
    for (attempt, parallelism) in (1..).zip([2, 3, 1, 5]) {
        let builder = keyed_job(&committed, parallelism);
        let mut job = Job::assemble(builder, disk.clone(), Now::default(), &lazily(attempt)).unwrap();
        assert_eq!(job.resumed_from.is_some(), attempt > 1);
        // Some of them are dropped while their state still comes.
        drive_rounds(&mut job, 40 + attempt * 5);
    }
    let job = Job::assemble(keyed_job(&committed, 4), disk.clone(), Now::default(), &lazily(9)).unwrap();
    job.run(Duration::from_secs(5), &mut || {}).unwrap();
    assert_tallied(&committed);
    let again = Job::assemble(keyed_job(&committed, 4), disk, Now::default(), &lazily(10)).unwrap_err();
    assert!(matches!(again, JobError::AlreadyFinished { .. }), "{again}");
}

#[test]
fn records_flow_before_all_state_is_there_and_nothing_is_committed_before_it_has_verified() {
    let (disk, committed, newest) = left_behind();
    let watched = Watched::new(&disk);
    let opened = Arc::clone(&watched.opened);
    let job = Job::assemble(keyed_job(&committed, 2), watched, Now::default(), &lazily(2));
    let mut job = job.unwrap();
    assert_eq!(job.resumed_from, Some(newest.id));
    let (opened_before, committed_before) = (opened.load(Ordering::Relaxed), lock(&committed).len());
    let key_groups = 128; // Each of 300 keys' key groups that has a key is opened once.
    let (observer, mut flowed_early) = (job.observer(), false);
    let mut checkpoints_early = 0;
    drive(&mut job.take_actors(), || {
        let loaded = opened.load(Ordering::Relaxed) - opened_before;
        let progress = observer.progress();
        if loaded < key_groups * 3 / 4 {
            flowed_early |= progress.records > 0;
            checkpoints_early += progress.checkpoints_completed;
            assert_eq!(lock(&committed).len(), committed_before);
        }
        false
    });
    assert!(flowed_early && checkpoints_early == 0);
    assert!(job.report().unwrap().checkpoints_completed > 0);
    assert_tallied(&committed);
}

/// Damages a frame of the last key group of the newest checkpoint's last segment.
fn damage_last_key_group(disk: &mut Disk, newest: &crate::checkpoint::Manifest) {
    let segment = newest.vertices[1].subtasks[1].segment.clone().unwrap();
    let path = format!("tally/{}", segment.file_name);
    let bytes = crate::blocking::Blocking::new(disk).read(&path, u64::MAX).unwrap();
    // The footer begins where the trailer says; before it lie the indexes, and before these the last frame.
    let number = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
    let footer = usize::try_from(number(bytes.len() - 48)).unwrap();
    let data_len = usize::try_from(number(footer + 40)).unwrap();
    flip(disk, &path, 4096 + data_len - 4000);
}

#[test]
fn damage_in_the_last_key_group_ends_the_job_uncommitted_and_its_next_start_passes_over() {
    let (mut disk, committed, newest) = left_behind();
    damage_last_key_group(&mut disk, &newest);
    let before = lock(&committed).clone();
    let start =
        |attempt| Job::assemble(keyed_job(&committed, 2), disk.clone(), Now::default(), &lazily(attempt));
    let job = start(2).unwrap();
    assert_eq!(job.resumed_from, Some(newest.id), "what is not read yet is not known to be damaged");
    let failure = run(job).unwrap_err();
    let JobError::LateDamage { checkpoint, unnoted: None, .. } = &failure else { panic!("{failure}") };
    assert_eq!(*checkpoint, newest.id);
    assert!(failure.to_string().contains("checksum of a frame"), "{failure}");
    assert_eq!(*lock(&committed), before);

    let job = start(3).unwrap();
    assert_eq!(job.resumed_from, Some(CheckpointId(newest.id.0 - 1)));
    assert_eq!(job.passed_over[0].id, newest.id);
    assert!(job.passed_over[0].reason.contains("checksum of a frame"), "{:?}", job.passed_over);
    run(job).unwrap();
}

#[test]
fn damage_that_cannot_be_noted_is_said_so_and_found_by_a_start_that_reads_all() {
    let (mut disk, committed, newest) = left_behind();
    damage_last_key_group(&mut disk, &newest);
    let mut full = Watched::new(&disk);
    full.fails = Some((OperationKind::CreateFile, 0, DiskError::NO_SPACE));
    let job = Job::assemble(keyed_job(&committed, 2), full, Now::default(), &lazily(2)).unwrap();
    let failure = run(job).unwrap_err();
    assert!(matches!(failure, JobError::LateDamage { unnoted: Some(_), .. }), "{failure}");
    assert!(failure.to_string().contains("without lazy restore"), "{failure}");
    let eager = JobOptions { lazy_restore: false, ..lazily(3) };
    let job = Job::assemble(keyed_job(&committed, 2), disk, Now::default(), &eager).unwrap();
    assert_eq!(job.passed_over[0].id, newest.id);
}

#[test]
fn a_note_of_damage_is_not_believed_but_looked_into() {
    let (mut disk, committed, newest) = left_behind();
    let path = format!("tally/chk-{}/{}", newest.id, crate::paths::DISTRUSTED);
    let names = slackwater_core::durable::Names::Final { path };
    let mut file = slackwater_core::durable::WriteFile::new(names, b"it looked damaged".to_vec());
    slackwater_core::durable::run_to_end(&mut disk, &mut file).unwrap();
    let job = Job::assemble(keyed_job(&committed, 2), disk, Now::default(), &lazily(2)).unwrap();
    assert_eq!((job.resumed_from, job.passed_over.len()), (Some(newest.id), 0));
    run(job).unwrap();
    assert_tallied(&committed);
}

#[test]
fn state_that_cannot_be_read_for_now_ends_the_job_and_is_not_taken_for_damaged() {
    let (disk, committed, newest) = left_behind();
    for after in [4, 30] {
        let mut busy = Watched::new(&disk);
        busy.fails = Some((OperationKind::OpenFile, after, 24));
        let failure = match Job::assemble(keyed_job(&committed, 2), busy, Now::default(), &lazily(2)) {
            Ok(job) => run(job).unwrap_err(),
            Err(error) => error,
        };
        assert!(matches!(failure, JobError::Disk { error: DiskError { errno: 24, .. }, .. }), "{failure}");
    }
    let job = Job::assemble(keyed_job(&committed, 2), disk, Now::default(), &lazily(3)).unwrap();
    assert_eq!((job.resumed_from, job.passed_over.len()), (Some(newest.id), 0));
    run(job).unwrap();
    assert_tallied(&committed);
}

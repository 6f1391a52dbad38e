//! The folder of a job: several checkpoints, each a manifest and segments, some of them incomplete, and the output.

use slackwater::blocking::Blocking;
use slackwater::checkpoint::{MEMORY_PER_BYTE as MANIFEST_MEMORY_PER_BYTE, Manifest};
use slackwater::ids::CheckpointId;
use slackwater::inputs::Inputs;
use slackwater::recovery::{Found, PassedOver, checkpoint_ids, find, read_manifest, verify_files};
use slackwater::time::{Millis, Now};
use slackwater::word_count::{Emit, WordCountOptions, word_count};
use slackwater::{AssembledJob, Compression, Job, JobError, JobOptions};
use slackwater_core::format::segment::IndexRow;
use slackwater_mem::segment::{MEMORY_FIXED, MEMORY_PER_BYTE};
use slackwater_mem::{FrozenRun, MemDisk};

use crate::archive::{disk_with, unpack};
use crate::{memory, repair};

/// The job's name, and that of its folder.
const JOB: &str = "wordcount";
const OUTPUT: &str = "out";
/// Inputs, of which a source reads one in each round, and what is in each.
const INPUTS: u8 = 30;
const TEXT: &str = "ebb flood slack ebb ebb\nneap spring a-word-that-is-longer-than-the-quarter-of-a-frame-and-so-lies-\
                    elsewhere ebb\nslack flood\n";
/// From one checkpoint to the next.
const INTERVAL_MS: u64 = 10;
/// Rounds of all actors that a restored job is let run for.
const ROUNDS: u64 = 24;

type Disk = MemDisk<FrozenRun>;

/// What a job's folder and its output hold, behind a byte that says what is repaired first and how the job is started:
/// recovered, verified as the command does, and a word count is restored from it and goes on.
pub fn folder(data: &[u8]) {
    let Some((order, data)) = data.split_first() else { return };
    let mut files = unpack(data);
    repair::folder(&mut files, *order);
    let len = files.iter().map(|(path, content)| path.len() + content.len()).sum::<usize>();
    let mut disk = disk_with(&files);
    // A path or two for each checkpoint and part, and the reasons why some are passed over.
    let memory_max = memory_max(len) + 4096 * (files.len() + 1);
    let start = Start::of(*order);
    match memory::within("a recovery", memory_max, || find(&mut disk, JOB)) {
        Ok(found) => {
            verify(&mut disk, &found, memory_max);
            restore(disk, &found, start);
        }
        Err(error) => {
            assert!(matches!(error, JobError::Unsupported { .. }), "{error}");
            assert!(start.assemble(disk, 9, Compression::None).is_err(), "it is not passed over: {error}");
        }
    }
}

/// How a job is started.
#[derive(Clone, Copy)]
pub(crate) struct Start {
    pub(crate) parallelism: u16,
    pub(crate) emit: Emit,
    pub(crate) is_lazy: bool,
}

impl Start {
    /// As the upper bits of a byte say.
    const fn of(order: u8) -> Self {
        let emit = if order >> 6 & 1 == 1 { Emit::Updates } else { Emit::Final };
        let parallelism = if order >> 5 & 1 == 1 { 3 } else { 1 + (order >> 4 & 1) as u16 };
        Self { parallelism, emit, is_lazy: order >> 7 == 1 }
    }

    /// The word count on a disk.
    pub(crate) fn assemble(
        self,
        disk: Disk,
        attempt: u64,
        compression: Compression,
    ) -> Result<AssembledJob, JobError> {
        let texts = (0..INPUTS).map(|number| (number.to_string(), TEXT.as_bytes()));
        let inputs = Inputs::in_memory(texts).expect("it is in memory");
        let Self { parallelism, emit, is_lazy } = self;
        let options = WordCountOptions {
            parallelism,
            max_parallelism: 4,
            emit,
            pre_aggregate: 16,
            ..WordCountOptions::new(OUTPUT)
        };
        let (builder, _) = word_count(inputs, &options);
        let options = JobOptions {
            interval: Some(Millis(INTERVAL_MS)),
            num_retained: 2,
            memory_limit_bytes: 2 << 20,
            frame_size: 256,
            compression,
            lazy_restore: is_lazy,
            ..JobOptions::new(attempt)
        };
        Job::assemble(builder, disk, Now::default(), &options)
    }
}

fn memory_max(len: usize) -> usize {
    let frames = len / IndexRow::LEN * slackwater_core::format::page::FRAME_SIZE_MAX;
    len * MEMORY_PER_BYTE.max(MANIFEST_MEMORY_PER_BYTE) + frames + 2 * MEMORY_FIXED
}

/// Every checkpoint, whatever recovery made of it.
fn verify(disk: &mut Disk, found: &Found, memory_max: usize) {
    let ids = checkpoint_ids(&mut Blocking::new(disk), JOB).expect("a disk in memory");
    for id in ids {
        let manifest = read_manifest(disk, JOB, id).expect("a disk in memory");
        let complaints = match &manifest {
            None => vec![String::from("it is incomplete")],
            Some(Err(reason)) => vec![reason.to_string()],
            Some(Ok(manifest)) => {
                encode_again(manifest);
                let verify = || verify_files(disk, JOB, manifest);
                let complaints = memory::within("a verification", memory_max, verify);
                complaints.iter().map(ToString::to_string).collect()
            }
        };
        let is_newest = found.newest.as_ref().is_some_and(|newest| newest.id == id);
        assert!(!is_newest || complaints.is_empty(), "checkpoint {id} was taken: {complaints:?}");
        let is_passed_over = found.passed_over.iter().any(|passed| passed.id == id);
        assert!(!is_passed_over || !complaints.is_empty(), "checkpoint {id} was passed over: {found:?}");
        assert!(complaints.iter().all(|complaint| !complaint.is_empty()));
    }
}

pub(crate) fn encode_again(manifest: &Manifest) {
    let bytes = manifest.encode().expect("as it was");
    assert_eq!(Manifest::decode(&bytes).as_ref(), Ok(manifest));
}

fn restore(disk: Disk, found: &Found, start: Start) {
    match start.assemble(disk, 9, Compression::None) {
        Ok(mut job) => {
            let newest = found.newest.as_ref().map(|manifest| manifest.id);
            // What is damaged in the newest is found while a lazy job runs.
            if !start.is_lazy {
                // The reasons may be others: a job looks at all files of a checkpoint before it reads one.
                let ids = |passed_over: &[PassedOver]| passed_over.iter().map(|it| it.id).collect::<Vec<_>>();
                let in_job = (job.resumed_from, ids(&job.passed_over));
                assert_eq!(in_job, (newest, ids(&found.passed_over)));
            }
            drive(&mut job, ROUNDS, |_| false);
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

/// Lets a job run for so many rounds, or until it has ended or `stop` says so of its newest checkpoint.
pub(crate) fn drive(job: &mut AssembledJob, rounds: u64, stop: impl Fn(Option<CheckpointId>) -> bool) {
    use slackwater::actor::Step;
    let observer = job.observer();
    let mut actors = job.take_actors();
    let mut finished = vec![false; actors.len()];
    for round in 0..rounds {
        let ms = round * INTERVAL_MS / 2;
        let now = Now { monotonic: Millis(ms), wall: Millis(1_700_000_000_000 + ms) };
        for (actor, finished) in actors.iter_mut().zip(&mut finished) {
            *finished = *finished || actor.step(now) == Step::Finished;
        }
        if finished.iter().all(|finished| *finished) || stop(observer.progress().last_checkpoint) {
            return;
        }
    }
}

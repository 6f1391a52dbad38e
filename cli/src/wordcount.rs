//! `wordcount`: the job itself, with its bar and its report.

mod folders;
mod furthest;
mod input;
mod progress;
mod report;
mod restore;
mod watch;

use std::cell::RefCell;
use std::hash::{BuildHasher, RandomState};
use std::io::{self, IsTerminal};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::Duration;

use slackwater::Compression;
use slackwater::driver::{Clock, Moment};
use slackwater::error::JobError;
use slackwater::job::{JobOptions, OnCancellation};
use slackwater::storage::{FolderLock, Storage, StorageKind, disk_path, make_folder};
use slackwater::supervisor::Supervisor;
use slackwater::time::{Millis, Now};
use slackwater::word_count::{Emit, Totals, WordCountOptions};

use crate::args::{CompressionArg, EmitArg, OnCancelArg, StorageArg, WordcountArgs};
use crate::control::Desk;
use crate::failure::Failure;
use crate::log;
use crate::output;
use furthest::Furthest;
use input::Input;
use progress::Bar;
use report::Outcome;
use watch::Watch;

/// The job's name, which is the name of its folder.
pub(crate) const JOB_NAME: &str = "wordcount";

/// How often progress is looked at.
const TICK: Duration = Duration::from_millis(5);

/// Counts the words. Never false: a count is right, or there is an error.
pub(crate) fn run(args: &WordcountArgs) -> Result<bool, Failure> {
    let clock = Clock::start();
    args.modes.check()?;
    log::start(args.log)?;
    // Closed after the locks of the folders.
    let mut desk = Desk::default();
    folders::refuse_other_job(&args.dir)?;
    let input = Input::open(args)?;
    let parts = parts_folder(args)?;
    input.refuse_own_output(&parts)?;
    let _parts_lock = FolderLock::take(&parts).map_err(|error| failure(&error))?;
    let mut storage = Storage::open(&args.dir, kind(args.storage)).map_err(|error| failure(&error))?;
    storage.notes().iter().for_each(|note| output::note(note));
    let storage_name = storage.name();
    let memory = storage.memory();
    if memory.is_some() {
        folders::refuse_parts(&parts)?;
    } else {
        restore::set_aside(args)?;
        folders::tie(&args.dir, &parts, args.emit, attempt(&clock))?;
    }
    let (word_options, job_options) = (options(args, &parts)?, job_options(args, &clock)?);
    let supervisor = Supervisor::new(&job_options).map_err(|error| failure(&error))?;
    let is_shown = !args.json && !args.events && io::stderr().is_terminal();
    // Where a folder is watched nobody knows how much there is, nor how much of it is done.
    let furthest =
        input.total_bytes().map(|_| Furthest::open(memory.is_none().then_some(args.dir.as_path())));
    let mut watch = Watch::new(args, Bar::new(input.total_bytes(), is_shown), furthest);
    let is_in_memory = memory.is_some();
    // What is counted is the newest attempt's.
    let counted = RefCell::new(None);
    let mut assemble = |attempt, now: Now| {
        let (builder, totals) = input.job(&word_options);
        let job = storage.assemble(builder, now, &JobOptions { attempt, ..job_options.clone() })?;
        counted.replace(Some(totals));
        Ok(job)
    };
    let ended = supervisor.run(clock, TICK, &mut assemble, &mut |moment| {
        watch.on(&moment, counted.borrow().as_ref().map_or(0, Totals::words));
        match &moment {
            Moment::Started(job) if !is_in_memory => desk.attend(&args.dir, JOB_NAME, job.controller()),
            Moment::Running(_) => desk.tick(clock.now()),
            Moment::Waiting => return desk.wait(clock.now()),
            Moment::Started(_) | Moment::Ended(_) | Moment::Restarting(_) => {}
        }
        ControlFlow::Continue(())
    });
    desk.settle(clock.now());
    let bytes_replayed = watch.end();
    let report = match ended {
        Ok(report) => report,
        Err(JobError::AlreadyFinished { checkpoint }) => {
            report::finished_before(args, &parts, checkpoint);
            return Ok(true);
        }
        Err(error) => return Err(failure(&error)),
    };
    memory.map_or(Ok(()), |memory| memory.copy_out(&parts)).map_err(|error| failure(&error))?;
    let counted = counted.into_inner();
    let outcome = Outcome {
        report,
        words: counted.as_ref().map_or(0, Totals::words),
        distinct: counted.as_ref().map_or(0, Totals::distinct),
        elapsed: Duration::from_millis(clock.now().monotonic.0),
        bytes_replayed,
        storage: storage_name,
        parts,
        stopped_in: desk.stopped_in().map(Path::to_owned),
    };
    outcome.tell(args)?;
    Ok(true)
}

/// The folder of the parts, made if it is not there.
fn parts_folder(args: &WordcountArgs) -> Result<PathBuf, Failure> {
    let folder = args.output.clone().unwrap_or_else(|| args.dir.join("output"));
    make_folder(&folder).map_err(|error| failure(&error))?;
    let parts = folder
        .canonicalize()
        .map_err(|error| Failure::environment(format!("{} cannot be used: {error}", folder.display())))?;
    if args.dir.canonicalize().is_ok_and(|dir| dir == parts) {
        return Err(Failure::usage("--output and --dir must be two folders"));
    }
    Ok(parts)
}

fn options(args: &WordcountArgs, parts: &Path) -> Result<WordCountOptions, Failure> {
    let parts = disk_path(parts).map_err(|error| failure(&error))?;
    Ok(WordCountOptions {
        parallelism: args.parallelism,
        max_parallelism: u32::from(args.max_parallelism),
        emit: match args.emit {
            EmitArg::Final => Emit::Final,
            EmitArg::Updates => Emit::Updates,
        },
        pre_aggregate: args.bundle,
        ..WordCountOptions::new(parts)
    })
}

/// Two starts within a millisecond are two processes, and the lock lets only one of them go on.
fn attempt(clock: &Clock) -> u64 {
    clock.now().wall.0 << 20 | u64::from(std::process::id())
}

fn job_options(args: &WordcountArgs, clock: &Clock) -> Result<JobOptions, Failure> {
    let attempt = attempt(clock);
    let options = JobOptions {
        // Keyed by the system's random numbers.
        hash_seed: RandomState::new().hash_one(attempt),
        interval: Some(Millis(u64::try_from(args.interval.as_millis()).unwrap_or(u64::MAX))),
        tolerable_failed_checkpoints: args.tolerable_failed_checkpoints,
        restart: Some(args.restart),
        num_retained: usize::from(args.retain),
        on_cancellation: match args.on_cancel {
            OnCancelArg::Keep => OnCancellation::Keep,
            OnCancelArg::Delete => OnCancellation::Delete,
        },
        restore_from: restore::restore_from(args)?,
        allow_non_restored_state: args.allow_non_restored_state,
        memory_limit_bytes: args.memory_limit_mib << 20,
        compression: match args.compression {
            CompressionArg::None => Compression::None,
            CompressionArg::Lz4 => Compression::Lz4,
            CompressionArg::Zstd => Compression::Zstd,
        },
        ..JobOptions::new(attempt)
    };
    Ok(args.modes.applied_to(options))
}

const fn kind(storage: StorageArg) -> StorageKind {
    match storage {
        StorageArg::Auto => StorageKind::Auto,
        StorageArg::Uring => StorageKind::Uring,
        StorageArg::Mmap => StorageKind::Mmap,
        StorageArg::Mem => StorageKind::Mem,
    }
}

/// Who must act decides the exit code.
pub(crate) fn failure(error: &JobError) -> Failure {
    let message = error.to_string();
    let last = if let JobError::GivenUp { cause, .. } = error { cause } else { error };
    match last {
        JobError::InvalidJob { .. }
        | JobError::CapacityExceeded { .. }
        | JobError::ParallelismAboveMaximum { .. }
        | JobError::OtherJob { .. }
        | JobError::NonRestoredState { .. }
        | JobError::OtherMaxParallelism { .. }
        | JobError::AlreadyFinished { .. } => Failure::usage(message),
        JobError::Restore { .. } | JobError::NoSavepoint { .. } | JobError::LateDamage { .. } => {
            Failure::answer(message)
        }
        JobError::FolderInUse { .. }
        | JobError::Storage { .. }
        | JobError::Unsupported { .. }
        | JobError::Disk { .. }
        | JobError::Operator { .. }
        | JobError::Refused { .. }
        | JobError::NoThread { .. }
        | JobError::Output { .. }
        | JobError::Checkpoint { .. }
        | JobError::Panicked { .. }
        | JobError::Machine { .. }
        | JobError::Stopped
        | JobError::GivenUp { .. } => Failure::environment(message),
    }
}

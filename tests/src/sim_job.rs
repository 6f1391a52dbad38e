//! The word count job on a virtual clock and any disk: runs, and whether its output is right.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::{fs, io};

use slackwater::blocking::Blocking;
use slackwater::files::{BlockingFiles, FileEntry};
use slackwater::inputs::Inputs;
use slackwater::line_source::LineOptions;
use slackwater::recovery::PassedOver;
use slackwater::savepoint::{RestoreFrom, RestoreMode};
use slackwater::stop::StopMode;
use slackwater::word_count::plain::plain_count;
use slackwater::word_count::{Emit, WordCountOptions, word_count};
use slackwater::{CheckpointingMode, Compression, Job, JobError, JobOptions, Progress};
use slackwater_core::durable::Disk;
use slackwater_core::ids::CheckpointId;
use slackwater_core::time::{Millis, Now};
use slackwater_mem::FrozenRun;
use slackwater_mem::sim::Log;

use crate::driver::{Driver, End};
use crate::rng::Rng;

/// Far more than any run here takes.
const STEPS_MAX: u64 = 200_000;
/// Enough for more than three checkpoints.
const TEXT_LEN: usize = 14_000;
/// A small job's, with as many checkpoints.
const SMALL_TEXT_LEN: usize = 9_000;
/// As many are far from the end of any job here.
const RECORDS_BEFORE_SAVEPOINT: u64 = 40;
/// The folder of the checkpoints, in the job's own folder.
pub const CHECKPOINTS: &str = "wordcount";
/// The folder of the output.
pub const OUTPUT: &str = "out";
/// Completed checkpoints that a small job keeps.
pub const RETAINED: usize = 2;
/// What is promised when a run has finished: the output, complete and for ever.
pub const FINISHED: u64 = u64::MAX;

/// A word count that can be run again and again on one disk after another; a copy goes its own way from there.
#[derive(Clone, Debug)]
pub struct SimJob {
    text: Arc<Vec<u8>>,
    emit: Emit,
    seed: u64,
    /// Few records, small pages, long steps: one run costs little.
    is_small: bool,
    /// Restored state comes while records flow already.
    is_lazy: bool,
    compression: Compression,
    modes: Modes,
    /// Every start has a number of its own, over all disks that follow from each other.
    starts: u64,
    folder: String,
    /// None for the last checkpoint alone.
    interval: Option<Millis>,
    tolerable_failed_checkpoints: u32,
    savepoint: Option<Saving>,
    restore_from: Option<RestoreFrom>,
}

/// How barriers pass records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Modes {
    /// What the output promises.
    pub mode: CheckpointingMode,
    /// Whether barriers may overtake.
    pub unaligned: bool,
    /// If so, when.
    pub aligned_checkpoint_timeout: Millis,
}

/// A savepoint that a run takes.
#[derive(Clone, Debug)]
struct Saving {
    folder: String,
    then: Then,
}

/// What becomes of a run with its savepoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Then {
    GoesOn,
    /// It stops there, as a kill would.
    Stops,
    /// The job ends with it.
    Ends(StopMode),
}

/// How one run went.
#[derive(Debug, Default)]
pub struct Run {
    /// The newest checkpoint that the job said was complete.
    pub announced: Option<CheckpointId>,
    /// All that it said were complete, in order.
    pub completed: Vec<CheckpointId>,
    /// How many failed.
    pub failed: u64,
    /// The checkpoint it had gone on from.
    pub resumed_from: Option<CheckpointId>,
    /// The savepoint that was taken, and how many operations were in the log when it was there.
    pub saved: Option<(CheckpointId, u64)>,
    /// Newer ones that did not verify.
    pub passed_over: Vec<PassedOver>,
    /// Operations in the log before its first step.
    pub assembled: usize,
    /// How it ended.
    pub end: RunEnd,
    /// What the job has to say to its user.
    pub notes: Vec<String>,
}

/// How a run ended.
#[derive(Debug, Default)]
pub enum RunEnd {
    /// The job is through its input.
    #[default]
    Finished,
    /// Whoever drove it stopped, as a kill would.
    Stopped,
    /// The job gave up.
    Failed(JobError),
}

impl SimJob {
    /// A job over a text that the seed makes.
    #[must_use]
    pub fn new(seed: u64, emit: Emit) -> Self {
        Self {
            text: Arc::new(text(&mut Rng::new(seed), TEXT_LEN, "")),
            emit,
            seed,
            is_small: false,
            is_lazy: false,
            compression: Compression::None,
            modes: Modes::default(),
            starts: 0,
            folder: String::new(),
            interval: Some(Millis(10)),
            tolerable_failed_checkpoints: 0,
            savepoint: None,
            restore_from: None,
        }
    }

    /// A job that runs thousands of times in a minute: a few long words, and yet several checkpoints.
    #[must_use]
    pub fn small(seed: u64, emit: Emit) -> Self {
        Self { is_small: true, ..Self::new(seed, emit) }.over(SMALL_TEXT_LEN)
    }

    /// With a text of another length.
    #[must_use]
    pub fn over(self, text_len: usize) -> Self {
        let padding = if self.is_small { "0000000000000000000" } else { "" };
        Self { text: Arc::new(text(&mut Rng::new(self.seed), text_len, padding)), ..self }
    }

    /// Keeps its checkpoints in this folder of the disk, apart from its output.
    #[must_use]
    pub fn in_folder(self, folder: &str) -> Self {
        Self { folder: folder.to_owned(), ..self }
    }

    /// Begins before all its state has been read back.
    #[must_use]
    pub fn restoring_lazily(self) -> Self {
        Self { is_lazy: true, ..self }
    }

    /// With another time from one checkpoint to the next.
    #[must_use]
    pub fn every(self, interval: Millis) -> Self {
        Self { interval: Some(interval), ..self }
    }

    /// With only the last checkpoint.
    #[must_use]
    pub fn only_last(self) -> Self {
        Self { interval: None, ..self }
    }

    /// Stores its segments so.
    #[must_use]
    pub fn compressed(self, compression: Compression) -> Self {
        Self { compression, ..self }
    }

    /// With barriers that pass records so.
    #[must_use]
    pub fn in_modes(self, modes: Modes) -> Self {
        Self { modes, ..self }
    }

    /// Goes on after so many failed checkpoints in a row.
    #[must_use]
    pub fn tolerating(self, failures: u32) -> Self {
        Self { tolerable_failed_checkpoints: failures, ..self }
    }

    /// Takes a savepoint in this folder of the disk when some records have come through.
    #[must_use]
    pub fn saving_in(self, folder: &str) -> Self {
        self.saving(folder, Then::GoesOn)
    }

    /// The same, and stops there as a kill would.
    #[must_use]
    pub fn saving_at_last_in(self, folder: &str) -> Self {
        self.saving(folder, Then::Stops)
    }

    /// Ends with a savepoint in this folder of the disk when some records have come through.
    #[must_use]
    pub fn stopping_in(self, folder: &str, mode: StopMode) -> Self {
        self.saving(folder, Then::Ends(mode))
    }

    /// Takes no savepoint.
    #[must_use]
    pub fn without_savepoint(self) -> Self {
        Self { savepoint: None, ..self }
    }

    fn saving(self, folder: &str, then: Then) -> Self {
        Self { savepoint: Some(Saving { folder: folder.to_owned(), then }), ..self }
    }

    /// Starts from a savepoint in this folder, unless there is a checkpoint; takes none.
    #[must_use]
    pub fn starting_from(self, folder: &str, mode: RestoreMode) -> Self {
        Self { savepoint: None, restore_from: Some(RestoreFrom { folder: folder.to_owned(), mode }), ..self }
    }

    /// Goes on from a disk on which others have started it so often.
    pub const fn skip_starts(&mut self, starts: u64) {
        self.starts += starts;
    }

    /// Starts the job on a simulated disk, on which it may have run before, and drives it to its end. What somebody
    /// relies on from some moment on goes into the log: the number of a checkpoint, or [`FINISHED`].
    ///
    /// # Errors
    /// A run that hangs: nobody can go on, or the step budget is used up.
    pub fn run<D>(&mut self, disk: D, log: Option<&Log>) -> Result<Run, String>
    where
        D: Disk<Frozen = FrozenRun> + Send + 'static,
    {
        let run = self.drive(disk, log, |driver| driver, &mut |_| false)?;
        let ends_early = matches!(self.savepoint, Some(Saving { then: Then::Ends(_), .. }));
        if matches!(run.end, RunEnd::Finished) && !ends_early {
            log.into_iter().for_each(|log| log.promise(FINISHED));
        }
        Ok(run)
    }

    /// Starts the job on a real disk and drives it to its end, or until `stop`, which sees its progress after every
    /// step, says so.
    ///
    /// # Errors
    /// A run that hangs: nobody can go on, or the step budget is used up.
    pub fn run_on<D>(&mut self, disk: D, stop: &mut dyn FnMut(Progress) -> bool) -> Result<Run, String>
    where
        D: Disk<Frozen = FrozenRun> + Send + 'static,
    {
        self.drive(disk, None, Driver::waiting_for_disk, stop)
    }

    fn drive<D>(
        &mut self,
        disk: D,
        log: Option<&Log>,
        adapt: impl FnOnce(Driver) -> Driver,
        stop: &mut dyn FnMut(Progress) -> bool,
    ) -> Result<Run, String>
    where
        D: Disk<Frozen = FrozenRun> + Send + 'static,
    {
        self.starts += 1;
        let promise = |id: CheckpointId| log.into_iter().for_each(|log| log.promise(id.0));
        let mut run = Run::default();
        let (builder, _) = word_count(self.inputs(), &self.options());
        let now = Now { monotonic: Millis(0), wall: Millis(self.starts * 1_000_000) };
        let mut job = match Job::assemble(builder, disk, now, &self.job_options()) {
            Ok(job) => job,
            Err(JobError::AlreadyFinished { checkpoint }) => {
                run.resumed_from = Some(checkpoint);
                return Ok(run);
            }
            Err(error) => {
                run.end = RunEnd::Failed(error);
                return Ok(run);
            }
        };
        run.resumed_from = job.resumed_from;
        run.passed_over.clone_from(&job.passed_over);
        run.assembled = log.map_or(0, Log::len);
        run.resumed_from.into_iter().for_each(promise);
        let (observer, controller) = (job.observer(), job.controller());
        let (saving, mut savepoint, mut stopped) = (self.savepoint.clone(), None, None);
        let driver = Driver::new(self.seed.wrapping_add(self.starts), STEPS_MAX, job.take_actors());
        let driver = if self.is_small { driver.with_long_steps() } else { driver };
        let mut driver = adapt(driver);
        let end = driver.run(&mut || {
            let progress = observer.progress();
            if progress.last_checkpoint > run.completed.last().copied() {
                run.completed.extend(progress.last_checkpoint);
                progress.last_checkpoint.into_iter().for_each(promise);
            }
            let due = saving
                .as_ref()
                .filter(|_| progress.records > RECORDS_BEFORE_SAVEPOINT && run.saved.is_none());
            if let Some(Saving { folder, then: Then::Ends(mode) }) = due {
                stopped.get_or_insert_with(|| controller.stop(folder, *mode));
            } else if let Some(Saving { folder, .. }) = due {
                let asked = savepoint.get_or_insert_with(|| controller.savepoint(folder));
                let at = log.map_or(0, Log::len) as u64;
                run.saved = asked.result().and_then(Result::ok).map(|id| (id, at));
            }
            let stops = saving.as_ref().is_some_and(|saving| saving.then == Then::Stops);
            stop(progress) || (run.saved.is_some() && stops)
        });
        if let Some(Ok(id)) = stopped.and_then(|stop| stop.result()) {
            run.saved = Some((id, log.map_or(0, Log::len) as u64));
        }
        run.announced = run.completed.last().copied();
        run.failed = observer.progress().checkpoints_failed;
        run.end = match end {
            End::Finished => job.report().map_or_else(RunEnd::Failed, |report| {
                run.notes = report.notes;
                RunEnd::Finished
            }),
            End::Stopped => RunEnd::Stopped,
            End::Stuck(_) | End::OutOfSteps(_) => return Err(format!("the job hangs: {end:?}")),
        };
        Ok(run)
    }

    /// Compares the committed output on a disk with a plain count of the text.
    ///
    /// # Errors
    /// What is missing, there twice or wrong.
    pub fn check_output<D: Disk>(&self, disk: &mut D) -> Result<(), String> {
        let mut files = Blocking::new(disk);
        let entries = files.list(OUTPUT).map_err(|error| error.to_string())?;
        let visible = entries.into_iter().filter(|entry| !entry.is_folder && !entry.name.starts_with('.'));
        let read = |entry: FileEntry| {
            let path = format!("{OUTPUT}/{}", entry.name);
            let bytes = files.read(&path, entry.len).map_err(|error| format!("{path}: {error}"))?;
            Ok((entry.name, bytes))
        };
        self.check_parts(visible.map(read).collect::<Result<Vec<_>, String>>()?)
    }

    /// As [`Self::check_output`], on a real disk: `output` is the folder of the output.
    ///
    /// # Errors
    /// What is missing, there twice or wrong, or cannot be read.
    pub fn check_folder(&self, output: &Path) -> Result<(), String> {
        let read = |entry: io::Result<fs::DirEntry>| {
            let entry = entry?;
            let bytes = if entry.file_type()?.is_dir() { Vec::new() } else { fs::read(entry.path())? };
            Ok((entry.file_name().to_string_lossy().into_owned(), bytes))
        };
        let parts =
            fs::read_dir(output).and_then(|entries| entries.map(read).collect::<io::Result<Vec<_>>>());
        self.check_parts(parts.map_err(|error| format!("{}: {error}", output.display()))?)
    }

    fn check_parts(&self, parts: impl IntoIterator<Item = (String, Vec<u8>)>) -> Result<(), String> {
        let mut counts: BTreeMap<Vec<u8>, Vec<u64>> = BTreeMap::new();
        for (name, bytes) in parts.into_iter().filter(|(name, _)| !name.starts_with('.')) {
            for line in bytes.split_inclusive(|byte| *byte == b'\n') {
                let (word, count) = parse(line).ok_or_else(|| format!("{name} holds the line {line:?}"))?;
                counts.entry(word).or_default().push(count);
            }
        }
        self.check_counts(counts)
    }

    fn check_counts(&self, mut counts: BTreeMap<Vec<u8>, Vec<u64>>) -> Result<(), String> {
        counts.values_mut().for_each(|list| list.sort_unstable());
        let expected = plain_count(&self.text).into_iter().map(|(word, count)| (word, self.lines_of(count)));
        for (word, want) in expected {
            let got = counts.remove(&word).unwrap_or_default();
            if !self.is_expected(&got, &want) {
                return Err(format!(
                    "{}: counts {got:?} instead of {want:?}",
                    String::from_utf8_lossy(&word)
                ));
            }
        }
        match counts.into_iter().next() {
            Some((word, _)) => Err(format!("{} is not in the text", String::from_utf8_lossy(&word))),
            None => Ok(()),
        }
    }

    /// At least once: each count is there, or a higher one for it.
    fn is_expected(&self, got: &[u64], want: &[u64]) -> bool {
        match self.modes.mode {
            CheckpointingMode::ExactlyOnce => got == want,
            CheckpointingMode::AtLeastOnce => {
                got.len() >= want.len()
                    && got.iter().rev().zip(want.iter().rev()).all(|(got, want)| got >= want)
            }
        }
    }

    /// The counts that a word has in the output.
    fn lines_of(&self, count: u64) -> Vec<u64> {
        match self.emit {
            Emit::Final => vec![count],
            Emit::Updates => (1..=count).collect(),
        }
    }

    fn inputs(&self) -> Inputs {
        Inputs::in_memory([("text", self.text.to_vec())]).expect("memory can be read")
    }

    fn options(&self) -> WordCountOptions {
        WordCountOptions {
            max_parallelism: 4,
            emit: self.emit,
            lines: LineOptions {
                chunk_len: if self.is_small { 32 } else { 64 },
                split_len_min: 1024,
                ..LineOptions::default()
            },
            pre_aggregate: 16,
            ..WordCountOptions::new(OUTPUT)
        }
    }

    fn job_options(&self) -> JobOptions {
        let default = JobOptions::new(self.seed.wrapping_mul(1000) + self.starts);
        let small = JobOptions {
            memory_limit_bytes: 4 << 20,
            frame_size: 1024,
            num_retained: RETAINED,
            ..default.clone()
        };
        JobOptions {
            interval: self.interval,
            folder: self.folder.clone(),
            tolerable_failed_checkpoints: self.tolerable_failed_checkpoints,
            compression: self.compression,
            mode: self.modes.mode,
            unaligned: self.modes.unaligned,
            aligned_checkpoint_timeout: self.modes.aligned_checkpoint_timeout,
            lazy_restore: self.is_lazy,
            restore_from: self.restore_from.clone(),
            ..if self.is_small { small } else { JobOptions { memory_limit_bytes: 8 << 20, ..default } }
        }
    }
}

fn text(rng: &mut Rng, len: usize, padding: &str) -> Vec<u8> {
    let mut text = Vec::new();
    while text.len() < len {
        let word = rng.below(60) * rng.below(60) / 60;
        text.extend_from_slice(format!("w{padding}{word}").as_bytes());
        text.push(if rng.chance(12) { b'\n' } else { b' ' });
    }
    text
}

fn parse(line: &[u8]) -> Option<(Vec<u8>, u64)> {
    let line = line.strip_suffix(b"\n")?;
    let tab = line.iter().position(|byte| *byte == b'\t')?;
    let count = std::str::from_utf8(&line[tab + 1..]).ok()?.parse().ok()?;
    Some((line[..tab].to_vec(), count))
}

//! The word count job on a simulated disk and a virtual clock: runs, and what it left behind.

use std::collections::BTreeMap;
use std::path::Path;
use std::{fs, io};

use slackwater::inputs::Inputs;
use slackwater::line_source::LineOptions;
use slackwater::word_count::plain::plain_count;
use slackwater::word_count::{Emit, WordCountOptions, word_count};
use slackwater::{Job, JobError, JobOptions, Progress};
use slackwater_core::durable::Disk;
use slackwater_core::ids::CheckpointId;
use slackwater_core::time::{Millis, Now};
use slackwater_mem::FrozenRun;

use crate::driver::{Driver, End};
use crate::rng::Rng;
use crate::sim_disk::SimDisk;

/// Far more than any run here takes.
const STEPS_MAX: u64 = 200_000;
/// Enough for more than three checkpoints.
const TEXT_LEN: usize = 14_000;
/// The folder of the output.
pub const OUTPUT: &str = "out";

/// A word count that can be run again and again on one disk after another.
#[derive(Clone, Debug)]
pub struct SimJob {
    text: Vec<u8>,
    emit: Emit,
    seed: u64,
    /// Every start has a number of its own, over all disks that follow from each other.
    starts: u64,
    folder: String,
    interval: Millis,
    tolerable_failures: u32,
}

/// How one run went.
#[derive(Debug, Default)]
pub struct Run {
    /// The newest checkpoint that the job said was complete while the power was on.
    pub announced: Option<CheckpointId>,
    /// The checkpoint it had gone on from.
    pub resumed_from: Option<CheckpointId>,
    /// Operations of the disk when each of its checkpoints was announced.
    pub operations: Vec<u64>,
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
    /// The power went.
    PowerCut,
    /// Whoever drove it stopped, as a kill would.
    Stopped,
    /// The job gave up.
    Failed(JobError),
}

impl SimJob {
    /// A job over a text that the seed makes.
    #[must_use]
    pub fn new(seed: u64, emit: Emit) -> Self {
        let text = text(&mut Rng::new(seed), TEXT_LEN);
        let (folder, interval) = (String::new(), Millis(10));
        Self { text, emit, seed, starts: 0, folder, interval, tolerable_failures: 0 }
    }

    /// With a text of another length.
    #[must_use]
    pub fn over(self, text_len: usize) -> Self {
        Self { text: text(&mut Rng::new(self.seed), text_len), ..self }
    }

    /// Keeps its checkpoints in this folder of the disk, apart from its output.
    #[must_use]
    pub fn in_folder(self, folder: &str) -> Self {
        Self { folder: folder.to_owned(), ..self }
    }

    /// With another time from one checkpoint to the next.
    #[must_use]
    pub fn every(self, interval: Millis) -> Self {
        Self { interval, ..self }
    }

    /// Goes on after so many failed checkpoints in a row.
    #[must_use]
    pub fn tolerating(self, failures: u32) -> Self {
        Self { tolerable_failures: failures, ..self }
    }

    /// Goes on from a disk on which others have started it so often.
    pub const fn skip_starts(&mut self, starts: u64) {
        self.starts += starts;
    }

    /// Starts the job on a disk, on which it may have run before, and drives it to its end.
    ///
    /// # Errors
    /// A run that hangs: nobody can go on, or the step budget is used up.
    pub fn run(&mut self, disk: &SimDisk<FrozenRun>) -> Result<Run, String> {
        let (mut announced, mut operations) = (None, Vec::new());
        let mut run = self.drive(disk.clone(), |driver| driver, &mut |progress| {
            // What is said after the power has gone nobody hears.
            if !disk.is_off() && progress.last_checkpoint > announced {
                announced = progress.last_checkpoint;
                operations.push(disk.operations());
            }
            disk.is_off()
        })?;
        if disk.is_off() && matches!(run.end, RunEnd::Stopped | RunEnd::Failed(_)) {
            run.end = RunEnd::PowerCut;
        }
        Ok(Run { announced, operations, ..run })
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
        self.drive(disk, Driver::waiting_for_disk, stop)
    }

    fn drive<D>(
        &mut self,
        disk: D,
        adapt: impl FnOnce(Driver) -> Driver,
        stop: &mut dyn FnMut(Progress) -> bool,
    ) -> Result<Run, String>
    where
        D: Disk<Frozen = FrozenRun> + Send + 'static,
    {
        self.starts += 1;
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
        let observer = job.observer();
        let driver = Driver::new(self.seed.wrapping_add(self.starts), STEPS_MAX, job.take_actors());
        let mut driver = adapt(driver);
        let end = driver.run(&mut || stop(observer.progress()));
        run.announced = observer.progress().last_checkpoint;
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
    pub fn check_output(&self, disk: &SimDisk<FrozenRun>) -> Result<(), String> {
        let parts = disk.names(OUTPUT).into_iter().map(|name| {
            let bytes = disk.read_file(&format!("{OUTPUT}/{name}")).unwrap_or_default();
            (name, bytes)
        });
        self.check_parts(parts)
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
            if got != want {
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

    /// The counts that a word has in the output.
    fn lines_of(&self, count: u64) -> Vec<u64> {
        match self.emit {
            Emit::Final => vec![count],
            Emit::Updates => (1..=count).collect(),
        }
    }

    fn inputs(&self) -> Inputs {
        Inputs::in_memory([("text", self.text.clone())]).expect("memory can be read")
    }

    fn options(&self) -> WordCountOptions {
        WordCountOptions {
            max_parallelism: 4,
            emit: self.emit,
            lines: LineOptions { chunk_len: 64, split_len_min: 1024, ..LineOptions::default() },
            ..WordCountOptions::new(OUTPUT)
        }
    }

    fn job_options(&self) -> JobOptions {
        JobOptions {
            interval: Some(self.interval),
            memory_limit_bytes: 8 << 20,
            folder: self.folder.clone(),
            tolerable_failures: self.tolerable_failures,
            ..JobOptions::new(self.seed.wrapping_mul(1000) + self.starts)
        }
    }
}

fn text(rng: &mut Rng, len: usize) -> Vec<u8> {
    let mut text = Vec::new();
    while text.len() < len {
        let word = rng.below(60) * rng.below(60) / 60;
        text.extend_from_slice(format!("w{word}").as_bytes());
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

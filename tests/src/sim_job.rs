//! The word count job on a simulated disk and a virtual clock: runs, and what it left behind.

use std::collections::BTreeMap;

use slackwater::inputs::Inputs;
use slackwater::line_source::LineOptions;
use slackwater::word_count::plain::plain_count;
use slackwater::word_count::{Emit, WordCountOptions, word_count};
use slackwater::{Job, JobError, JobOptions};
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
const OUTPUT: &str = "out";

/// A word count that can be run again and again on one disk after another.
#[derive(Clone, Debug)]
pub struct SimJob {
    text: Vec<u8>,
    emit: Emit,
    seed: u64,
    /// Every start has a number of its own, over all disks that follow from each other.
    starts: u64,
}

/// How one run went.
#[derive(Debug)]
pub struct Run {
    /// The newest checkpoint that the job said was complete while the power was on.
    pub announced: Option<CheckpointId>,
    /// The checkpoint it had gone on from.
    pub resumed_from: Option<CheckpointId>,
    /// Operations of the disk when each of its checkpoints was announced.
    pub operations: Vec<u64>,
    /// How it ended.
    pub end: RunEnd,
}

/// How a run ended.
#[derive(Debug)]
pub enum RunEnd {
    /// The job is through its input.
    Finished,
    /// The power went.
    PowerCut,
    /// The job gave up.
    Failed(JobError),
}

impl SimJob {
    /// A job over a text that the seed makes.
    #[must_use]
    pub fn new(seed: u64, emit: Emit) -> Self {
        Self { text: text(&mut Rng::new(seed)), emit, seed, starts: 0 }
    }

    /// Starts the job on a disk, on which it may have run before, and drives it to its end.
    ///
    /// # Errors
    /// A run that hangs: nobody can go on, or the step budget is used up.
    pub fn run(&mut self, disk: &SimDisk<FrozenRun>) -> Result<Run, String> {
        self.starts += 1;
        let mut run =
            Run { announced: None, resumed_from: None, operations: Vec::new(), end: RunEnd::Finished };
        let (builder, _) = word_count(self.inputs(), &self.options());
        let now = Now { monotonic: Millis(0), wall: Millis(self.starts * 1_000_000) };
        let assembled = Job::assemble(builder, disk.clone(), now, &self.job_options());
        let mut job = match assembled {
            Ok(job) => job,
            Err(JobError::AlreadyFinished { checkpoint }) => {
                run.resumed_from = Some(checkpoint);
                return Ok(run);
            }
            Err(_) if disk.is_off() => {
                run.end = RunEnd::PowerCut;
                return Ok(run);
            }
            Err(error) => {
                run.end = RunEnd::Failed(error);
                return Ok(run);
            }
        };
        run.resumed_from = job.resumed_from;
        let observer = job.observer();
        let mut driver = Driver::new(self.seed.wrapping_add(self.starts), STEPS_MAX, job.take_actors());
        let end = driver.run(&mut || {
            let progress = observer.progress();
            // What is said after the power has gone nobody hears.
            if !disk.is_off() && progress.last_checkpoint > run.announced {
                run.announced = progress.last_checkpoint;
                run.operations.push(disk.operations());
            }
            disk.is_off()
        });
        run.end = match end {
            End::Finished => job.report().map_or_else(RunEnd::Failed, |_| RunEnd::Finished),
            End::Stopped => RunEnd::PowerCut,
            End::Stuck(_) | End::OutOfSteps(_) => return Err(format!("the job hangs: {end:?}")),
        };
        Ok(run)
    }

    /// Compares the committed output on a disk with a plain count of the text.
    ///
    /// # Errors
    /// What is missing, there twice or wrong.
    pub fn check_output(&self, disk: &SimDisk<FrozenRun>) -> Result<(), String> {
        let mut counts: BTreeMap<Vec<u8>, Vec<u64>> = BTreeMap::new();
        for name in disk.names(OUTPUT).iter().filter(|name| !name.starts_with('.')) {
            let bytes =
                disk.read_file(&format!("{OUTPUT}/{name}")).ok_or_else(|| format!("{name} is a folder"))?;
            for line in bytes.split_inclusive(|byte| *byte == b'\n') {
                let (word, count) = parse(line).ok_or_else(|| format!("{name} holds the line {line:?}"))?;
                counts.entry(word).or_default().push(count);
            }
        }
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
            interval: Some(Millis(10)),
            memory_limit_bytes: 8 << 20,
            ..JobOptions::new(self.seed.wrapping_mul(1000) + self.starts)
        }
    }
}

fn text(rng: &mut Rng) -> Vec<u8> {
    let mut text = Vec::new();
    while text.len() < TEXT_LEN {
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

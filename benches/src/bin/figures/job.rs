//! The word count as a job, as the harness for Flink's local cluster runs it.

use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use slackwater::blocking::Blocking;
use slackwater::driver::Clock;
use slackwater::files::BlockingFiles;
use slackwater::inputs::Inputs;
use slackwater::word_count::{PRE_AGGREGATE, WordCountOptions, word_count};
use slackwater::{Job, JobOptions};
use slackwater_benches::Failed;
use slackwater_benches::stopwatch::Stopwatch;
use slackwater_benches::storage::OnDisk;
use slackwater_core::durable::Disk;
use slackwater_core::time::Millis;
use slackwater_mem::FrozenRun;

use crate::Target;
use crate::lines::{Lines, float};

/// What is counted, and how.
#[derive(Clone, Debug, Args)]
pub(crate) struct Arguments {
    /// The text whose words are counted
    #[arg(long, value_name = "FILE")]
    input: PathBuf,
    /// Milliseconds from one checkpoint to the next; 0: only the last one is taken
    #[arg(long, default_value_t = 1000)]
    interval_ms: u64,
    /// Subtasks that read, and subtasks that count
    #[arg(long, default_value_t = 2)]
    parallelism: u16,
    /// Words that each reading subtask counts before they travel; 0: none
    #[arg(long, value_name = "WORDS", default_value_t = PRE_AGGREGATE)]
    bundle: usize,
    #[command(flatten)]
    target: Target,
}

/// Prints every figure of the job.
pub(crate) fn print<W: Write>(arguments: &Arguments, lines: &mut Lines<W>) -> Result<(), Failed> {
    let folder = arguments.target.folder()?;
    let storage = arguments.target.storage(folder.path())?;
    let counted = storage.with_disk(folder.path(), WordCount { arguments })?;
    let seconds = counted.span.as_secs_f64();
    lines.print("wordcount_ms", seconds * 1e3, "ms")?;
    lines.print("words_per_second", float(counted.words) / seconds, "words/s")?;
    Ok(lines.print("checkpoints_completed", float(counted.checkpoints), "checkpoints")?)
}

struct WordCount<'a> {
    arguments: &'a Arguments,
}

/// What one run came to.
struct Counted {
    words: u64,
    checkpoints: u64,
    span: Duration,
}

/// Folder of the parts that the job writes.
const OUTPUT: &str = "output";

impl OnDisk for WordCount<'_> {
    type Output = Counted;

    /// The time is all that a user waits for: from the inputs being looked at to the output being committed.
    fn run<D: Disk<Frozen = FrozenRun> + Send + 'static>(self, mut disk: D) -> Result<Counted, Failed> {
        let Arguments { input, interval_ms, parallelism, bundle, .. } = self.arguments;
        Blocking::new(&mut disk).create_folder(OUTPUT)?;
        let options = WordCountOptions {
            parallelism: *parallelism,
            pre_aggregate: *bundle,
            ..WordCountOptions::new(OUTPUT)
        };
        let interval = Some(Millis(*interval_ms)).filter(|interval| interval.0 > 0);
        let (clock, stopwatch) = (Clock::start(), Stopwatch::start());
        let (builder, totals) = word_count(Inputs::files([input.clone()])?, &options);
        let job = Job::assemble(builder, disk, clock.now(), &JobOptions { interval, ..JobOptions::new(1) })?;
        let report = job.run(Duration::from_secs(1), &mut || {})?;
        let span = stopwatch.elapsed();
        Ok(Counted { words: totals.words(), checkpoints: report.checkpoints_completed, span })
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use slackwater_benches::storage::Storage;

    use super::{Arguments, PRE_AGGREGATE, WordCount, print};
    use crate::Target;
    use crate::lines::Lines;

    fn arguments(input: &std::path::Path, storage: Storage) -> Arguments {
        let target = Target { storage, dir: None };
        let (input, bundle) = (input.to_owned(), PRE_AGGREGATE);
        Arguments { input, interval_ms: 0, parallelism: 2, bundle, target }
    }

    fn text() -> tempfile::NamedTempFile {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all("to be or not to be\n".repeat(500).as_bytes()).unwrap();
        file
    }

    #[test]
    fn a_job_counts_every_word_and_ends_with_a_checkpoint() {
        let (text, folder) = (text(), tempfile::tempdir().unwrap());
        let arguments = arguments(text.path(), Storage::Mmap);
        let run = Storage::Mmap.with_disk(folder.path(), WordCount { arguments: &arguments }).unwrap();
        assert_eq!(run.words, 3_000);
        assert!(run.checkpoints >= 1);
    }

    #[test]
    fn the_figure_of_a_job_has_the_name_of_the_flink_harness() {
        let (text, mut out) = (text(), Vec::new());
        print(&arguments(text.path(), Storage::Mem), &mut Lines::new(&mut out)).unwrap();
        let out = String::from_utf8(out).unwrap();
        let names = ["wordcount_ms", "words_per_second", "checkpoints_completed"];
        assert_eq!(out.lines().count(), names.len());
        for (line, name) in out.lines().zip(names) {
            let line: serde_json::Value = serde_json::from_str(line).unwrap();
            assert_eq!(line["name"], name);
        }
    }
}

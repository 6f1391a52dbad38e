//! The word count, with and without checkpoints.

use std::io::Write;
use std::path::Path;
use std::time::Duration;

use slackwater::blocking::Blocking;
use slackwater::driver::Clock;
use slackwater::files::BlockingFiles;
use slackwater::inputs::Inputs;
use slackwater::word_count::{WordCountOptions, word_count};
use slackwater::{Job, JobOptions};
use slackwater_benches::Failed;
use slackwater_benches::paired::{Paired, Quartiles};
use slackwater_benches::stopwatch::Stopwatch;
use slackwater_benches::storage::OnDisk;
use slackwater_core::durable::Disk;
use slackwater_core::time::Millis;
use slackwater_mem::FrozenRun;

use super::{Arguments, Place};
use crate::lines::float;
use crate::table::{Goal, Table};

const ROWS: [&str; 4] =
    ["wordcount_ms", "wordcount_ms/by_flink", "words_per_second", "checkpoints_completed"];

/// Runs with and without checkpoints take turns.
pub(super) fn print<W: Write>(
    arguments: &Arguments,
    input: &Path,
    place: Place<'_>,
    table: &mut Table<W>,
) -> Result<(), Failed> {
    if !table.wants_any(&ROWS) {
        return Ok(());
    }
    let mut last = None;
    let run = |interval_ms| {
        let folder = place.folder()?;
        place.storage.with_disk(folder.path(), WordCount { arguments, input, interval_ms })
    };
    let mut with_checkpoints = || {
        let counted = run(arguments.interval_ms)?;
        last = Some(counted);
        Ok(counted.millis())
    };
    let times = if arguments.interval_ms == 0 {
        let times = (0..3).map(|_| with_checkpoints()).collect::<Result<Vec<_>, Failed>>()?;
        let times = Quartiles::of(times);
        table.alone(ROWS[0], "ms", times.median, Goal::None)?;
        times
    } else {
        let rounds = if arguments.quick { 1 } else { 3 };
        let paired = Paired::measure(rounds, with_checkpoints, || Ok::<_, Failed>(run(0)?.millis()))?;
        table.paired(ROWS[0], "ms", ("no checkpoints", &paired), Goal::Times(1.05))?;
        paired.ours()
    };
    let counted = last.ok_or("nothing was measured")?;
    table.against_flink(ROWS[1], ("ms", times), ("wordcount_ms", 10.0))?;
    table.alone(ROWS[2], "1/s", float(counted.words) / times.median * 1e3, Goal::None)?;
    Ok(table.alone(ROWS[3], "", float(counted.checkpoints), Goal::None)?)
}

pub(super) struct WordCount<'a> {
    pub(super) arguments: &'a Arguments,
    pub(super) input: &'a Path,
    pub(super) interval_ms: u64,
}

/// What one run came to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Counted {
    pub(super) words: u64,
    pub(super) checkpoints: u64,
    span: Duration,
}

impl Counted {
    fn millis(&self) -> f64 {
        self.span.as_secs_f64() * 1e3
    }
}

/// Folder of the parts that the job writes.
const OUTPUT: &str = "output";

impl OnDisk for WordCount<'_> {
    type Output = Counted;

    /// The time is all that a user waits for: from the inputs being looked at to the output being committed.
    fn run<D: Disk<Frozen = FrozenRun> + Send + 'static>(self, mut disk: D) -> Result<Counted, Failed> {
        let Arguments { parallelism, bundle, .. } = self.arguments;
        Blocking::new(&mut disk).create_folder(OUTPUT)?;
        let options = WordCountOptions {
            parallelism: *parallelism,
            pre_aggregate: *bundle,
            ..WordCountOptions::new(OUTPUT)
        };
        let interval = Some(Millis(self.interval_ms)).filter(|interval| interval.0 > 0);
        let (clock, stopwatch) = (Clock::start(), Stopwatch::start());
        let (builder, totals) = word_count(Inputs::files([self.input.to_owned()])?, &options);
        let job = Job::assemble(builder, disk, clock.now(), &JobOptions { interval, ..JobOptions::new(1) })?;
        let report = job.run(Duration::from_secs(1), &mut || {})?;
        let span = stopwatch.elapsed();
        Ok(Counted { words: totals.words(), checkpoints: report.checkpoints_completed, span })
    }
}

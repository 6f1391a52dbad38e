//! A job of a thousand subtasks in one process.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use clap::Args;
use serde_json::Value;
use slackwater::stop::StopMode;
use slackwater_benches::Failed;
use slackwater_benches::delays::job::Seen;
use slackwater_benches::delays::{Load, Plan, Subtasks, job};
use slackwater_benches::resident::resident_bytes_max;
use slackwater_benches::stopwatch::Stopwatch;
use slackwater_benches::storage::{OnDisk, Storage};
use slackwater_core::durable::Disk;
use slackwater_core::time::Millis;
use slackwater_mem::FrozenRun;

use super::Place;
use crate::lines::{Lines, float};
use crate::table::{Goal, Table};

/// The rows, their units and goals, in the order of what a job goes through.
const ROWS: [(&str, &str, Goal); 6] = [
    ("wide/start", "ms", Goal::None),
    ("wide/checkpoint/median", "ms", Goal::None),
    ("wide/checkpoint/max", "ms", Goal::None),
    ("wide/stop", "ms", Goal::None),
    ("wide/rate", "1/s", Goal::None),
    ("wide/memory", "MiB", Goal::AtMost(1024.0)),
];

/// A thousand subtasks.
const SUBTASKS: Subtasks = Subtasks { sources: 334, counts: 333, sinks: 333 };
/// Records in a second: thirty of each source, each on its way to another subtask than the one before.
const RATE: u64 = 10_000;
/// Checkpoints before the job is stopped.
const CHECKPOINTS: u64 = 5;

/// One run in a process of its own; for the program itself.
#[derive(Clone, Debug, Args)]
pub(crate) struct Arguments {
    /// Folder that stays
    #[arg(long)]
    folder: PathBuf,
    #[arg(long, value_enum)]
    storage: Storage,
    /// Records in a second
    #[arg(long, default_value_t = RATE)]
    rate: u64,
}

/// Has another process run the job, so that its memory is known.
pub(super) fn print<W: Write>(quick: bool, place: Place<'_>, table: &mut Table<W>) -> Result<(), Failed> {
    let names = ROWS.map(|(name, ..)| name);
    if quick || !table.wants_any(&names) {
        return Ok(());
    }
    let folder = place.folder()?;
    let run = Command::new(std::env::current_exe()?)
        .args(["wide", "--storage", &place.storage.to_string(), "--folder"])
        .arg(folder.path())
        .stderr(io::stderr())
        .output()?;
    if !run.status.success() {
        return Err(format!("the process with a thousand subtasks ended with {}", run.status).into());
    }
    let figures = parse(&String::from_utf8_lossy(&run.stdout));
    for (name, unit, goal) in ROWS {
        let value = figures.get(name).ok_or_else(|| format!("the process did not say {name}"))?;
        table.alone(name, unit, *value, goal)?;
    }
    Ok(())
}

fn parse(lines: &str) -> BTreeMap<String, f64> {
    let figure = |line| {
        let line: Value = serde_json::from_str(line).ok()?;
        Some((line.get("name")?.as_str()?.to_owned(), line.get("value")?.as_f64()?))
    };
    lines.lines().filter_map(figure).collect()
}

/// Runs the job and prints what it took.
pub(crate) fn run<W: Write>(arguments: &Arguments, lines: &mut Lines<W>) -> Result<(), Failed> {
    let load = Load::PerSecond(arguments.rate);
    let values = arguments.storage.with_disk(&arguments.folder, Wide { load, subtasks: SUBTASKS })?;
    for ((name, unit, _), value) in ROWS.iter().zip(values) {
        lines.print(name, value, unit)?;
    }
    Ok(())
}

pub(super) struct Wide {
    pub(super) load: Load,
    pub(super) subtasks: Subtasks,
}

impl OnDisk for Wide {
    /// In the order of the rows.
    type Output = [f64; 6];

    fn run<D: Disk<Frozen = FrozenRun> + Send + 'static>(self, disk: D) -> Result<[f64; 6], Failed> {
        let Self { load, subtasks } = self;
        let (span, warm_up) = (Duration::from_secs(600), Duration::ZERO);
        let plan = Plan { load, subtasks, span, warm_up, interval: Millis(200), buffer_timeout: Millis(100) };
        let clock = Stopwatch::start();
        let (mut started, mut stopping, mut checkpoints) = (None, None, None);
        let all = u32::from(subtasks.sources) + u32::from(subtasks.sinks);
        let ran = job::run(&plan, disk, &mut |seen: &Seen<'_>| {
            if started.is_none() && seen.begun == all {
                started = Some(clock.elapsed());
            }
            if stopping.is_none() && seen.observer.progress().checkpoints_completed >= CHECKPOINTS {
                checkpoints = Some(seen.observer.checkpoints().summary.duration);
                stopping = Some((clock.elapsed(), seen.controller.stop("savepoint", StopMode::Suspend)));
            }
        })?;
        let ended = clock.elapsed();
        let (Some(started), Some((asked, stop)), Some(checkpoints)) = (started, stopping, checkpoints) else {
            return Err("the job ended before it was stopped".into());
        };
        stop.result().ok_or("the job did not say how it stopped")??;
        let millis = |span: Duration| span.as_secs_f64() * 1e3;
        Ok([
            millis(started),
            float(checkpoints.p50),
            float(checkpoints.max),
            millis(ended - asked),
            float(ran.report.source_records) / ended.as_secs_f64(),
            float(resident_bytes_max()?) / f64::from(1 << 20),
        ])
    }
}

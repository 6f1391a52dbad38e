//! How late records are at half of the load that the job can take.

use std::io::Write;
use std::time::Duration;

use slackwater_benches::Failed;
use slackwater_benches::delays::job::Ran;
use slackwater_benches::delays::{Delays, Load, Plan, Subtasks, channels, job};
use slackwater_benches::storage::OnDisk;
use slackwater_core::durable::Disk;
use slackwater_core::time::Millis;
use slackwater_mem::FrozenRun;

use super::Place;
use crate::lines::float;
use crate::table::{Goal, Table};

/// What stands beside the job.
const CHANNELS: &str = "mpsc channels";
/// All but so many of a million records arrive within the delay of a row, and its goal in microseconds.
const DELAYS: [(&str, u64, Goal); 4] = [
    ("delay/half_load/p50", 500_000, Goal::None),
    ("delay/half_load/p99", 10_000, Goal::AtMost(1_000.0)),
    ("delay/half_load/p99.9", 1_000, Goal::None),
    ("delay/half_load/max", 0, Goal::None),
];
const FULL_LOAD: &str = "delay/full_load";
const HALF_LOAD: &str = "delay/half_load/rate";

/// First finds out the load of each side at full speed, then makes half as many records and looks how late they are.
pub(super) fn print<W: Write>(quick: bool, place: Place<'_>, table: &mut Table<W>) -> Result<(), Failed> {
    let names: Vec<&str> = DELAYS.iter().map(|(name, ..)| *name).chain([FULL_LOAD, HALF_LOAD]).collect();
    if !table.wants_any(&names) {
        return Ok(());
    }
    let plan = |load, seconds: u64| Plan {
        load,
        subtasks: Subtasks { sources: 2, counts: 2, sinks: 2 },
        span: Duration::from_millis(seconds * if quick { 100 } else { 1000 }),
        warm_up: Duration::from_millis(if quick { 100 } else { 1000 }),
        interval: Millis(1000),
        buffer_timeout: Millis(100),
    };
    let as_job = |plan: Plan| {
        let folder = place.folder()?;
        let ran = place.storage.with_disk(folder.path(), AsJob(plan))?;
        Ok::<_, Failed>(ran.delays)
    };
    let full = (as_job(plan(Load::Full, 5))?, channels::run(&plan(Load::Full, 5))?);
    let half = (as_job(plan(half_of(&full.0), 11))?, channels::run(&plan(half_of(&full.1), 11))?);
    table.once(FULL_LOAD, "1/s", (CHANNELS, (full.0.rate, full.1.rate)), Goal::None)?;
    table.once(HALF_LOAD, "1/s", (CHANNELS, (half.0.rate, half.1.rate)), Goal::None)?;
    for (name, but, goal) in DELAYS {
        let micros = |delays: &Delays| float(delays.histogram.nanos_of_all_but(but)) / 1e3;
        table.once(name, "us", (CHANNELS, (micros(&half.0), micros(&half.1))), goal)?;
    }
    Ok(())
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a rate is small and not negative"
)]
fn half_of(full: &Delays) -> Load {
    Load::PerSecond((full.rate / 2.0) as u64)
}

struct AsJob(Plan);

impl OnDisk for AsJob {
    type Output = Ran;

    fn run<D: Disk<Frozen = FrozenRun> + Send + 'static>(self, disk: D) -> Result<Ran, Failed> {
        job::run(&self.0, disk, &mut |_| {})
    }
}

//! From a durable file to a heap with all of it verified, beside a hash map filled from memory.

use std::hint::black_box;
use std::io::Write;

use slackwater_benches::Failed;
use slackwater_benches::hash_map;
use slackwater_benches::paired::{Paired, Quartiles};
use slackwater_benches::segments::Segments;
use slackwater_benches::stopwatch::Stopwatch;
use slackwater_benches::subject::key;
use slackwater_core::durable::Disk;
use slackwater_mem::{FrozenRun, Plain};

use super::{Counts, Plan};
use crate::table::{Goal, HASH_MAP, Table};

const FIRST_LOOKUP: &str = "restore/first_lookup";
const ALL: &str = "restore/all";

pub(super) fn rows<W: Write, D: Disk<Frozen = FrozenRun> + Send>(
    plan: &Plan,
    table: &mut Table<W>,
    disk: D,
) -> Result<(), Failed> {
    if !table.wants_any(&[ALL, FIRST_LOOKUP]) {
        return Ok(());
    }
    let mut segments = Segments::new(disk);
    let segment = segments.write(Counts::filled(plan.shape())?.heap.freeze()?)?;
    let mut first_lookups = Vec::new();
    let paired = Paired::measure(
        plan.rounds_of_long,
        || {
            let (first_lookup, all) =
                segments.restore_and_look_up::<Plain<u64>>(&segment, plan.shape(), 1)?;
            first_lookups.push(first_lookup.as_secs_f64() * 1e3);
            Ok::<_, Failed>(all.as_secs_f64() * 1e3)
        },
        || Ok(fill_map(plan)),
    )?;
    segments.remove(&segment)?;
    table.alone(FIRST_LOOKUP, "ms", Quartiles::of(first_lookups).median, Goal::None)?;
    Ok(table.paired(ALL, "ms", (HASH_MAP, &paired), Goal::None)?)
}

/// Milliseconds for inserting everything into a map that has the room from the start.
fn fill_map(plan: &Plan) -> f64 {
    let stopwatch = Stopwatch::start();
    let mut map = hash_map::empty(plan.huge_pages);
    map.reserve(plan.keys as usize);
    map.extend((0..plan.keys).map(|number| (key(number), u64::from(number))));
    black_box(map.len());
    stopwatch.elapsed().as_secs_f64() * 1e3
}

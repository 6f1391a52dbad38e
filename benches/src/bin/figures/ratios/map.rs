//! Entries of map states, beside values of as many keys.

use std::hint::black_box;
use std::io::Write;

use slackwater_benches::Failed;
use slackwater_benches::maps::{MapShape, Maps};
use slackwater_benches::paired::{Paired, Quartiles};
use slackwater_benches::stopwatch::Stopwatch;
use slackwater_benches::stream::SplittableRandom;
use slackwater_benches::subject::Shape;
use slackwater_mem::StateError;

use super::{Counts, Plan};
use crate::lines::nanos_each;
use crate::table::{Goal, Table};

const NANOS_OF_ENTRY_MAX: f64 = 15.0;

/// Entries of a map.
const ENTRIES: [u32; 2] = [10, 10_000];

pub(super) fn rows<W: Write>(plan: &Plan, table: &mut Table<W>) -> Result<(), Failed> {
    for entries in ENTRIES.map(|entries| entries.min(plan.keys)) {
        let (get, iterate) = (format!("map/get/{entries}_entries"), format!("map/iterate/{entries}_entries"));
        if !table.wants_any(&[&get, &iterate]) {
            continue;
        }
        let shape = MapShape { maps: plan.keys / entries, entries };
        let maps = Maps::filled(shape)?;
        if table.wants(&get) {
            table.paired(&get, "ns", (HASH_STATE, &reads(plan, &maps, shape)?), Goal::Times(4.0))?;
        }
        if table.wants(&iterate) {
            let nanos = iterations(plan, &maps, shape)?.median;
            table.alone(&iterate, "ns", nanos, Goal::AtMost(NANOS_OF_ENTRY_MAX))?;
        }
    }
    Ok(())
}

/// What a read of an entry is compared with: a read of a value state with as many keys.
const HASH_STATE: &str = "value state";

/// No read waits for the one before.
fn reads(plan: &Plan, maps: &Maps, shape: MapShape) -> Result<Paired, Failed> {
    let keys = shape.maps * shape.entries;
    let counts = Counts::filled(Shape { keys, value_len: 8 })?;
    let (mut ours, mut theirs) = (SplittableRandom::new(7), SplittableRandom::new(7));
    let times = plan.block / 4;
    let paired = Paired::measure(
        plan.rounds,
        || timed(times, || maps.read(ours.below(keys))),
        || timed(times, || counts.read(theirs.below(keys))),
    )?;
    Ok(paired)
}

/// Nanoseconds of an entry, when all of random maps are gone over.
fn iterations(plan: &Plan, maps: &Maps, shape: MapShape) -> Result<Quartiles, StateError> {
    let mut random = SplittableRandom::new(7);
    let times = (plan.block / shape.entries as usize).max(1);
    let each = |_| {
        let nanos = timed(times, || maps.sum(random.below(shape.maps)))?;
        Ok(nanos / f64::from(shape.entries))
    };
    Ok(Quartiles::of((0..plan.rounds).map(each).collect::<Result<_, StateError>>()?))
}

/// Nanoseconds of one of `times` reads.
pub(super) fn timed(
    times: usize,
    mut read: impl FnMut() -> Result<u64, StateError>,
) -> Result<f64, StateError> {
    let stopwatch = Stopwatch::start();
    let mut sum = 0_u64;
    for _ in 0..times {
        sum = sum.wrapping_add(read()?);
    }
    black_box(sum);
    Ok(nanos_each(stopwatch.elapsed(), times as u64))
}

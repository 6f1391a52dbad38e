//! Updates and reads of keys that are there, beside the hash map.

use std::hint::black_box;
use std::io::Write;

use slackwater_benches::Failed;
use slackwater_benches::hash_map::{self, HashMap};
use slackwater_benches::paired::Paired;
use slackwater_benches::stopwatch::Stopwatch;
use slackwater_benches::stream::KeyStream;
use slackwater_mem::StateError;

use super::{Counts, Plan};
use crate::lines::nanos_of_slice;
use crate::table::{Goal, HASH_MAP, Table};

const UPDATE: &str = "update/independent";
const READ: &str = "read/independent";
const READ_DEPENDENT: &str = "read/dependent";
const READ_BATCH: &str = "read/batch_16";
/// Keys that are read by one call.
const BATCH: usize = 16;
/// Dependent reads in a block for each other operation: they take longer.
const DEPENDENT_SHARE: usize = 4;

pub(super) fn rows<W: Write>(plan: &Plan, table: &mut Table<W>) -> Result<(), Failed> {
    if !table.wants_any(&[UPDATE, READ, READ_DEPENDENT, READ_BATCH]) {
        return Ok(());
    }
    let mut sides = Sides::new(plan)?;
    if table.wants(UPDATE) {
        table.paired(UPDATE, "ns", (HASH_MAP, &sides.updates(plan)?), Goal::Times(1.10))?;
    }
    if table.wants(READ) {
        table.paired(READ, "ns", (HASH_MAP, &sides.reads(plan)?), Goal::Times(1.25))?;
    }
    if table.wants(READ_DEPENDENT) {
        let paired = sides.dependent_reads(plan)?;
        table.paired(READ_DEPENDENT, "ns", (HASH_MAP, &paired), Goal::Times(0.85))?;
    }
    if table.wants(READ_BATCH) {
        table.paired(READ_BATCH, "ns", (HASH_MAP, &sides.batch_reads(plan)?), Goal::Times(0.9))?;
    }
    Ok(())
}

/// The heap and the map with the same keys and values, each with a stream of the same keys.
struct Sides {
    counts: Counts,
    map: HashMap,
    ours: KeyStream,
    theirs: KeyStream,
}

impl Sides {
    fn new(plan: &Plan) -> Result<Self, Failed> {
        let stream = KeyStream::new(plan.keys, plan.drawn);
        let (counts, map) = (Counts::filled(plan.shape())?, hash_map::filled(plan.keys, plan.huge_pages));
        Ok(Self { counts, map, ours: stream.clone(), theirs: stream })
    }

    fn updates(&mut self, plan: &Plan) -> Result<Paired, StateError> {
        let Self { counts, map, ours, theirs } = self;
        Paired::measure(
            plan.rounds,
            || timed(ours.block(plan.block), |keys| keys.iter().try_for_each(|key| counts.add_one(*key))),
            || {
                timed(theirs.block(plan.block), |keys| {
                    for key in keys {
                        let value = map.entry(*key).or_insert(0);
                        *value = value.wrapping_add(1);
                    }
                    Ok(())
                })
            },
        )
    }

    /// No read waits for the one before.
    fn reads(&mut self, plan: &Plan) -> Result<Paired, StateError> {
        let Self { counts, map, ours, theirs } = self;
        Paired::measure(
            plan.rounds,
            || timed(ours.block(plan.block), |keys| read(keys, |key| counts.state.get(&counts.heap, &key))),
            || timed(theirs.block(plan.block), |keys| read(keys, |key| Ok(map.get(&key).copied()))),
        )
    }

    /// Ours by sixteen keys a call; theirs one by one, as the map has no other way.
    fn batch_reads(&mut self, plan: &Plan) -> Result<Paired, StateError> {
        let Self { counts, map, ours, theirs } = self;
        Paired::measure(
            plan.rounds,
            || timed(ours.block(plan.block), |keys| read_batches(counts, keys)),
            || timed(theirs.block(plan.block), |keys| read(keys, |key| Ok(map.get(&key).copied()))),
        )
    }

    /// Which key is read depends on the value that was read before.
    fn dependent_reads(&mut self, plan: &Plan) -> Result<Paired, StateError> {
        let Self { counts, map, ours, theirs } = self;
        let block = plan.block / DEPENDENT_SHARE;
        Paired::measure(
            plan.rounds,
            || {
                timed(ours.block(block), |keys| {
                    read_dependent(keys, |key| counts.state.get(&counts.heap, &key))
                })
            },
            || timed(theirs.block(block), |keys| read_dependent(keys, |key| Ok(map.get(&key).copied()))),
        )
    }
}

/// Nanoseconds of each key in what is done with all of them.
fn timed(keys: &[u64], with: impl FnOnce(&[u64]) -> Result<(), StateError>) -> Result<f64, StateError> {
    let stopwatch = Stopwatch::start();
    with(keys)?;
    Ok(nanos_of_slice(stopwatch.elapsed(), keys))
}

fn read(keys: &[u64], get: impl Fn(u64) -> Result<Option<u64>, StateError>) -> Result<(), StateError> {
    let mut sum = 0_u64;
    for key in keys {
        sum = sum.wrapping_add(get(*key)?.unwrap_or(0));
    }
    black_box(sum);
    Ok(())
}

fn read_batches(counts: &Counts, keys: &[u64]) -> Result<(), StateError> {
    let mut sum = 0_u64;
    for batch in keys.as_chunks::<BATCH>().0 {
        let add = |value: Option<u64>| sum = sum.wrapping_add(value.unwrap_or(0));
        counts.state.get_many(&counts.heap, &batch.each_ref(), add)?;
    }
    black_box(sum);
    Ok(())
}

fn read_dependent(
    keys: &[u64],
    get: impl Fn(u64) -> Result<Option<u64>, StateError>,
) -> Result<(), StateError> {
    let mut last = 0_u64;
    for key in keys {
        // Counts are small, so this is the key; but only who has read the value knows.
        last = get(*key ^ (last >> 48))?.unwrap_or(0);
    }
    black_box(last);
    Ok(())
}

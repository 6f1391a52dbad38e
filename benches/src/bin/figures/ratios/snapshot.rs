//! Updates while a snapshot is written, beside those of the hash map, which has none.

use std::io::Write;

use slackwater_benches::Failed;
use slackwater_benches::hash_map::{self, HashMap};
use slackwater_benches::paired::Paired;
use slackwater_benches::segments::Segments;
use slackwater_benches::stream::SplittableRandom;
use slackwater_benches::subject::key;
use slackwater_core::durable::Disk;
use slackwater_mem::FrozenRun;

use super::{Counts, Plan};
use crate::busy::{self, Busy};
use crate::table::{Goal, HASH_MAP, Table};

const MEAN: &str = "update/while_a_snapshot_is_written";
const MEAN_BY_FLINK: &str = "update/while_a_snapshot_is_written/by_flink";
const WORST: &str = "update/worst_256_after_freeze";
const UPDATE_BY_FLINK: &str = "update/by_flink";

/// Gives the disk back.
pub(super) fn rows<W: Write, D: Disk<Frozen = FrozenRun> + Send>(
    plan: &Plan,
    table: &mut Table<W>,
    disk: D,
) -> Result<D, Failed> {
    let segments = Segments::new(disk);
    if !table.wants_any(&[MEAN, MEAN_BY_FLINK, WORST, UPDATE_BY_FLINK]) {
        return Ok(segments.into_disk());
    }
    let mut sides = Sides::new(plan, segments)?;
    if table.wants(UPDATE_BY_FLINK) {
        let paired = sides.alone(plan)?;
        table.against_flink(UPDATE_BY_FLINK, ("ns", paired.ours()), ("update_ns_per_op", 10.0))?;
    }
    if table.wants_any(&[MEAN, MEAN_BY_FLINK]) {
        let paired = sides.measure(plan, Busy::nanos_each)?;
        table.paired(MEAN, "ns", (HASH_MAP, &paired), Goal::None)?;
        table.against_flink(
            MEAN_BY_FLINK,
            ("ns", paired.ours()),
            ("update_during_snapshot_ns_per_op", 12.0),
        )?;
    }
    if table.wants(WORST) {
        let paired = sides.measure(plan, |busy| busy.worst.as_secs_f64() * 1e6)?;
        table.paired(WORST, "us", (HASH_MAP, &paired), Goal::AtMost(300.0))?;
    }
    Ok(sides.segments.into_disk())
}

struct Sides<D> {
    counts: Counts,
    map: HashMap,
    segments: Segments<D>,
    random: SplittableRandom,
}

impl<D: Disk<Frozen = FrozenRun> + Send> Sides<D> {
    fn new(plan: &Plan, segments: Segments<D>) -> Result<Self, Failed> {
        let (mut counts, map) = (Counts::filled(plan.shape())?, hash_map::filled(plan.keys, plan.huge_pages));
        // The map has all of its memory, too.
        counts.heap.populate(counts.heap.memory_use().live_bytes);
        Ok(Self { counts, map, segments, random: SplittableRandom::new(7) })
    }

    /// Updates of the heap while a snapshot is written, in turn with updates of the map while nothing is.
    fn measure(&mut self, plan: &Plan, figure: impl Fn(&Busy) -> f64) -> Result<Paired, Failed> {
        let Self { counts, map, segments, random } = self;
        let mut other = random.clone();
        Paired::measure(
            plan.rounds_of_long,
            || {
                let snapshot = counts.heap.freeze()?;
                let (segment, _, busy) = busy::write(segments, snapshot, counts, Some(&mut *random))?;
                segments.remove(&segment)?;
                Ok(busy.as_ref().map_or(0.0, &figure))
            },
            || Ok(figure(&updates_of_map(plan, map, &mut other)?)),
        )
    }

    /// The same without snapshots.
    fn alone(&mut self, plan: &Plan) -> Result<Paired, Failed> {
        let Self { counts, map, random, .. } = self;
        let mut other = random.clone();
        let enough = plan.block as u64;
        Paired::measure(
            plan.rounds,
            || {
                let update = |number| counts.update(number);
                Ok(Busy::until(plan.keys, random, update, |updates| updates >= enough)?.nanos_each())
            },
            || Ok(updates_of_map(plan, map, &mut other)?.nanos_each()),
        )
    }
}

fn updates_of_map(plan: &Plan, map: &mut HashMap, random: &mut SplittableRandom) -> Result<Busy, Failed> {
    let update = |number| {
        let value = map.entry(key(number)).or_insert(0);
        *value = value.wrapping_add(1);
        Ok(())
    };
    Busy::until(plan.keys, random, update, |updates| updates >= plan.block as u64)
}

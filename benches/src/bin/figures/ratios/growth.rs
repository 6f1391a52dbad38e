//! Single inserts into what grows from nothing, beside the hash map, which moves all it holds at times.

use std::io::Write;

use slackwater_benches::Failed;
use slackwater_benches::hash_map;
use slackwater_benches::histogram::Histogram;
use slackwater_benches::stopwatch::Stopwatch;
use slackwater_benches::subject::key;

use super::{Counts, Plan};
use crate::lines::float;
use crate::table::{Goal, HASH_MAP, Table};

const MOST: &str = "insert/growing_p99.99";
const WORST: &str = "insert/growing_worst";

pub(super) fn rows<W: Write>(plan: &Plan, table: &mut Table<W>) -> Result<(), Failed> {
    if !table.wants_any(&[MOST, WORST]) {
        return Ok(());
    }
    let mut counts = Counts::empty(plan.shape())?;
    let ours = inserts(plan.keys, |number| Ok(counts.put(number)?))?;
    drop(counts);
    let mut map = hash_map::empty(plan.huge_pages);
    let theirs = inserts(plan.keys, |number| {
        map.insert(key(number), number.into());
        Ok(())
    })?;
    let most = |inserts: &Histogram| float(inserts.nanos_of_all_but(100)) / 1e3;
    let worst = |inserts: &Histogram| float(inserts.nanos_max()) / 1e3;
    table.once(MOST, "us", (HASH_MAP, (most(&ours), most(&theirs))), Goal::AtMost(20.0))?;
    Ok(table.once(WORST, "us", (HASH_MAP, (worst(&ours), worst(&theirs))), Goal::None)?)
}

fn inserts(keys: u32, mut insert: impl FnMut(u32) -> Result<(), Failed>) -> Result<Histogram, Failed> {
    let mut histogram = Histogram::new();
    let mut stopwatch = Stopwatch::start();
    for number in 0..keys {
        insert(number)?;
        histogram.record(stopwatch.lap());
    }
    Ok(histogram)
}

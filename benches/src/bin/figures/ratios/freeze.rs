//! How long everything stands still for a snapshot.

use std::io::Write;

use slackwater_benches::Failed;
use slackwater_benches::freezing::{Freezing, Layout};
use slackwater_benches::histogram::Histogram;
use slackwater_core::key_group::MaxParallelism;

use super::Plan;
use crate::lines::{count_name, float};
use crate::table::{Goal, Table};

const P50_US_MAX: f64 = 20.0;
const P99_US_MAX: f64 = 100.0;

/// States and key groups of each.
const SHAPES: [(u16, u32); 3] = [SHAPE_OF_SLOPE, (16, 128), (1, 32_768)];
/// The one whose pauses are compared from size to size.
const SHAPE_OF_SLOPE: (u16, u32) = (1, 128);

pub(super) fn rows<W: Write>(plan: &Plan, table: &mut Table<W>) -> Result<(), Failed> {
    let (mut smallest, mut largest) = (None, None);
    for keys in sizes(plan.keys) {
        for (states, key_groups) in SHAPES {
            let name = format!("freeze/{}/{states}x{key_groups}", count_name(keys));
            let relocated = format!("{name}/relocated");
            if !table.wants_any(&[&name, &relocated]) {
                continue;
            }
            let max_parallelism = MaxParallelism::new(key_groups)?;
            let mut freezing = Freezing::filled(Layout { keys, states, max_parallelism })?;
            if table.wants(&name) {
                let pauses = freezing.freeze_often(plan.freezes)?;
                print(table, &name, &pauses)?;
                if (states, key_groups) == SHAPE_OF_SLOPE {
                    largest = Some(pauses.clone());
                    smallest = smallest.or(Some(pauses));
                }
            }
            if table.wants(&relocated) {
                print(table, &relocated, &freezing.freeze_relocated(plan.freezes_relocated)?)?;
            }
        }
    }
    slope(table, smallest, largest)
}

/// The least and the most keys in the same run: a pause that does not depend on them stays what it is.
fn slope<W: Write>(
    table: &mut Table<W>,
    smallest: Option<Histogram>,
    largest: Option<Histogram>,
) -> Result<(), Failed> {
    let (Some(smallest), Some(largest)) = (smallest, largest) else { return Ok(()) };
    let p50 = |pauses: &Histogram| float(pauses.nanos_of_all_but(500_000));
    let ratio = p50(&largest) / p50(&smallest).max(1.0);
    Ok(table.alone("freeze/p50_of_most_keys_by_fewest", "ratio", ratio, Goal::None)?)
}

fn print<W: Write>(table: &mut Table<W>, name: &str, pauses: &Histogram) -> Result<(), Failed> {
    let micros = |per_million| float(pauses.nanos_of_all_but(per_million)) / 1e3;
    table.alone(&format!("{name}/p50"), "us", micros(500_000), Goal::AtMost(P50_US_MAX))?;
    Ok(table.alone(&format!("{name}/p99"), "us", micros(10_000), Goal::AtMost(P99_US_MAX))?)
}

/// Ten thousand, a million, and the most.
fn sizes(keys: u32) -> Vec<u32> {
    let mut sizes: Vec<u32> = [10_000, 1_000_000, keys].into_iter().filter(|size| *size <= keys).collect();
    sizes.dedup();
    sizes
}

//! Updates that have to move their page, beside copies of as many frames.

use std::io::Write;

use slackwater_benches::Failed;
use slackwater_benches::copies::Copies;
use slackwater_benches::freezing::one_key_of_each_page;
use slackwater_benches::paired::Paired;
use slackwater_benches::stopwatch::Stopwatch;
use slackwater_mem::StateError;

use super::{Counts, Plan};
use crate::lines::nanos_of_slice;
use crate::table::{Goal, Table};

const FIRST_TOUCH: &str = "update/first_of_a_page_after_freeze";

pub(super) fn rows<W: Write>(plan: &Plan, table: &mut Table<W>) -> Result<(), Failed> {
    if !table.wants(FIRST_TOUCH) {
        return Ok(());
    }
    let mut counts = Counts::filled(plan.shape())?;
    let id = counts.state.id();
    let touched = one_key_of_each_page(&counts.heap.freeze()?, id)?;
    let mut copies = Copies::new(touched.len(), plan.huge_pages)?;
    let paired = Paired::measure(
        plan.rounds,
        || Ok::<_, StateError>(nanos_of_slice(counts.touch_all(&touched)?, &touched)),
        || {
            let stopwatch = Stopwatch::start();
            copies.copy_all();
            Ok(nanos_of_slice(stopwatch.elapsed(), &touched))
        },
    )?;
    Ok(table.paired(FIRST_TOUCH, "ns", ("copy of 4 KiB", &paired), Goal::Times(1.5))?)
}

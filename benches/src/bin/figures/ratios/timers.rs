//! Timers, beside the heap of the standard library.

use std::collections::BinaryHeap;
use std::io::Write;

use slackwater_benches::Failed;
use slackwater_benches::paired::Paired;
use slackwater_benches::stopwatch::Stopwatch;
use slackwater_benches::timers::{InHeap, Pending, Turning};
use slackwater_mem::StateError;

use super::Plan;
use crate::lines::nanos_each;
use crate::table::{Goal, Table};

const INSERT: &str = "timer/insert";
const POP: &str = "timer/pop";
const POP_AND_INSERT: &str = "timer/pop_and_insert";
/// The number of timers that is spoken of.
const TIMERS_MAX: u32 = 1_000_000;
/// Times as long as the other side.
const GOAL: Goal = Goal::Times(2.0);

pub(super) fn rows<W: Write>(plan: &Plan, table: &mut Table<W>) -> Result<(), Failed> {
    if !table.wants_any(&[INSERT, POP, POP_AND_INSERT]) {
        return Ok(());
    }
    let count = plan.keys.min(TIMERS_MAX);
    let times = u32::try_from(plan.block / 16)?.min(count);
    let mut ours = Turning::filled(InHeap::new(count + times)?, count)?;
    let mut theirs = Turning::filled(BinaryHeap::new(), count)?;
    let mut row = |name, block: Block, ours: &mut _, theirs: &mut _| {
        if !table.wants(name) {
            return Ok(());
        }
        let paired =
            Paired::measure(plan.rounds, || block.nanos(ours, times), || block.nanos(theirs, times))?;
        Ok::<(), Failed>(table.paired(name, "ns", (BINARY_HEAP, &paired), GOAL)?)
    };
    row(INSERT, Block::Insert, &mut ours, &mut theirs)?;
    row(POP, Block::Pop, &mut ours, &mut theirs)?;
    row(POP_AND_INSERT, Block::PopAndInsert, &mut ours, &mut theirs)
}

const BINARY_HEAP: &str = "BinaryHeap";

/// What is measured. Each leaves as many timers as it finds.
#[derive(Clone, Copy)]
enum Block {
    Insert,
    Pop,
    PopAndInsert,
}

impl Block {
    /// Nanoseconds of each.
    fn nanos<P: Pending>(self, timers: &mut Turning<P>, times: u32) -> Result<f64, StateError> {
        if matches!(self, Self::Pop) {
            timers.insert(times)?;
        }
        let stopwatch = Stopwatch::start();
        match self {
            Self::Insert => timers.insert(times)?,
            Self::Pop => timers.pop(times)?,
            Self::PopAndInsert => timers.turn(times)?,
        }
        let elapsed = stopwatch.elapsed();
        if matches!(self, Self::Insert) {
            timers.pop(times)?;
        }
        Ok(nanos_each(elapsed, times.into()))
    }
}

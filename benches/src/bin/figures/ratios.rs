//! Every goal of the heap in one run: what it measures, what stands beside it, and where the goal lies.

use std::io::Write;

use clap::Args;
use slackwater_benches::Failed;
use slackwater_benches::resident::heap_has_huge_pages;
use slackwater_benches::storage::OnDisk;
use slackwater_benches::subject::{Shape, Subject};
use slackwater_core::durable::Disk;
use slackwater_mem::{FrozenRun, Plain};

use crate::Target;

mod access;
mod first_touch;
mod freeze;
mod growth;
mod map;
mod memory;
mod restore;
mod snapshot;
#[cfg(test)]
mod tests;
mod timers;

use crate::beside::Beside;
use crate::table::{Format, Table};

/// A heap of numbers.
type Counts = Subject<Plain<u64>>;

/// What is measured, and how thoroughly.
#[derive(Clone, Debug, Args)]
pub(crate) struct Arguments {
    /// The most keys that a heap is filled with, 8 bytes each with a value of 8
    #[arg(long, default_value_t = 10_000_000, value_parser = clap::value_parser!(u32).range(1_000..1 << 30))]
    keys: u32,
    /// Fewer and shorter blocks: where things stand, not a result
    #[arg(long)]
    quick: bool,
    /// Only the rows whose names contain one of these, separated by commas
    #[arg(long, value_delimiter = ',')]
    rows: Vec<String>,
    /// Figures of the harness for Flink, taken on this machine: its lines, in a file
    #[arg(long, value_name = "FILE")]
    beside: Option<std::path::PathBuf>,
    #[command(flatten)]
    target: Target,
}

/// How much is measured.
#[derive(Clone, Copy, Debug)]
struct Plan {
    keys: u32,
    /// Rounds of blocks, each both ways round.
    rounds: u32,
    /// Rounds of what takes seconds.
    rounds_of_long: u32,
    /// Operations in a block.
    block: usize,
    /// Keys drawn beforehand.
    drawn: usize,
    /// Freezes of one layout.
    freezes: u32,
    /// Freezes of one layout after each of which all pages move.
    freezes_relocated: u32,
    /// Whether the heap lies in huge pages; what it is compared with then does too.
    huge_pages: bool,
}

impl Plan {
    const fn full(keys: u32) -> Self {
        Self {
            keys,
            rounds: 15,
            rounds_of_long: 5,
            block: 1 << 20,
            drawn: 1 << 22,
            freezes: 10_000,
            freezes_relocated: 200,
            huge_pages: false,
        }
    }

    const fn quick(keys: u32) -> Self {
        let full = Self::full(keys);
        Self { rounds: 4, rounds_of_long: 1, block: 1 << 18, freezes: 1_000, freezes_relocated: 20, ..full }
    }

    const fn shape(&self) -> Shape {
        Shape { keys: self.keys, value_len: 8 }
    }
}

/// Prints the rows that were asked for.
pub(crate) fn print<W: Write>(arguments: &Arguments, out: W) -> Result<(), Failed> {
    let plan = if arguments.quick { Plan::quick(arguments.keys) } else { Plan::full(arguments.keys) };
    let beside = arguments.beside.as_deref().map(Beside::read).transpose()?.unwrap_or_default();
    let mut table = Table::new(out, Format::Text, arguments.rows.clone(), beside);
    let folder = arguments.target.folder()?;
    let storage = arguments.target.storage(folder.path())?;
    let plan = Plan { huge_pages: heap_has_huge_pages()?, ..plan };
    storage.with_disk(folder.path(), Ratios { plan, table: &mut table })
}

struct Ratios<'a, W> {
    plan: Plan,
    table: &'a mut Table<W>,
}

impl<W: Write> OnDisk for Ratios<'_, W> {
    type Output = ();

    fn run<D: Disk<Frozen = FrozenRun> + Send + 'static>(self, disk: D) -> Result<(), Failed> {
        let Self { plan, table } = self;
        let pages = if plan.huge_pages { "huge pages" } else { "pages of 4 KiB" };
        table
            .heading(&format!("{} keys; the heap, the hash map and the copies lie in {pages}", plan.keys))?;
        freeze::rows(&plan, table)?;
        access::rows(&plan, table)?;
        let disk = snapshot::rows(&plan, table, disk)?;
        first_touch::rows(&plan, table)?;
        map::rows(&plan, table)?;
        timers::rows(&plan, table)?;
        memory::rows(&plan, table)?;
        growth::rows(&plan, table)?;
        restore::rows(&plan, table, disk)
    }
}

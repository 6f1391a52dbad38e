//! How fast snapshots are written, read and checked, each beside the limit that the machine sets in the same run.

use std::io::Write;
use std::path::Path;

use clap::Args;
use slackwater_benches::Failed;
use slackwater_benches::raw_disk::RawDisk;
use slackwater_benches::resident::heap_has_huge_pages;
use slackwater_benches::segments::Segments;
use slackwater_benches::storage::{OnDisk, Storage};
use slackwater_benches::subject::{SampleValue, Shape, Subject};
use slackwater_core::durable::Disk;
use slackwater_mem::segment::SegmentRef;
use slackwater_mem::{Bytes, FrozenRun, Plain};

use crate::Target;
use crate::table::{Shown, Table};

mod compressed;
mod full;
mod read;
#[cfg(test)]
mod tests;
mod updates;

/// How much state, and how it is measured.
#[derive(Clone, Debug, Args)]
pub(crate) struct Arguments {
    /// How many keys, of 8 bytes each
    #[arg(long, default_value_t = 10_000_000, value_parser = clap::value_parser!(u32).range(1..1 << 30))]
    keys: u32,
    /// Length of each value; 8 is a number, all others are byte strings
    #[arg(long, default_value_t = 8)]
    value_bytes: usize,
    /// Fewer and shorter blocks: where things stand, not a result
    #[arg(long)]
    quick: bool,
    #[command(flatten)]
    shown: Shown,
    #[command(flatten)]
    target: Target,
}

/// How much is measured.
#[derive(Clone, Copy, Debug)]
struct Plan {
    shape: Shape,
    /// Rounds of blocks, each both ways round.
    rounds: u32,
    /// Checkpoints in a block of updates, one a second.
    checkpoints: u32,
    /// Whether the heap lies in huge pages; the memory of raw transfers then does too.
    huge_pages: bool,
}

/// Prints the rows that were asked for.
pub(crate) fn print<W: Write>(arguments: &Arguments, out: W) -> Result<(), Failed> {
    let shape = Shape { keys: arguments.keys, value_len: arguments.value_bytes };
    let (rounds, checkpoints) = if arguments.quick { (1, 2) } else { (5, 4) };
    let plan = Plan { shape, rounds, checkpoints, huge_pages: heap_has_huge_pages()? };
    let mut table = arguments.shown.table(out)?;
    let folder = arguments.target.folder()?;
    let storage = arguments.target.storage(folder.path())?;
    if storage == Storage::Mem {
        return Err("memory is no disk to compare with: choose another --storage".into());
    }
    let figures = Figures { plan, folder: folder.path(), table: &mut table };
    storage.with_disk(folder.path(), figures)
}

struct Figures<'a, W> {
    plan: Plan,
    folder: &'a Path,
    table: &'a mut Table<W>,
}

impl<W: Write> OnDisk for Figures<'_, W> {
    type Output = ();

    fn run<D: Disk<Frozen = FrozenRun> + Send + 'static>(self, disk: D) -> Result<(), Failed> {
        let Self { plan, folder, table } = self;
        let Shape { keys, value_len } = plan.shape;
        let pages = if plan.huge_pages { "huge pages" } else { "pages of 4 KiB" };
        table.heading(&format!(
            "{keys} keys of 8 bytes with values of {value_len}; the heap lies in {pages}"
        ))?;
        let run = Run { plan, folder, table, segments: Segments::new(disk) };
        if value_len == size_of::<u64>() { run.all::<Plain<u64>>() } else { run.all::<Bytes>() }
    }
}

/// A measurement under way.
struct Run<'a, W, D> {
    plan: Plan,
    folder: &'a Path,
    table: &'a mut Table<W>,
    segments: Segments<D>,
}

impl<W: Write, D: Disk<Frozen = FrozenRun> + Send> Run<'_, W, D> {
    fn all<V: SampleValue>(mut self) -> Result<(), Failed> {
        let mut subject = Subject::<V>::filled(self.plan.shape)?;
        let segment = self.segments.write(subject.heap.freeze()?)?;
        self.full(full::SCATTERED, &segment, &mut subject)?;
        self.compressed(&segment, &mut subject)?;
        self.updates(&mut subject)?;
        drop(subject);
        self.full_by_key_group::<V>()?;
        self.read::<V>(&segment)
    }

    fn full_by_key_group<V: SampleValue>(&mut self) -> Result<(), Failed> {
        if !self.table.wants_any(&full::CONTIGUOUS.names()) {
            return Ok(());
        }
        let mut subject = Subject::<V>::filled_by_key_group(self.plan.shape)?;
        let segment = self.segments.write(subject.heap.freeze()?)?;
        self.full(full::CONTIGUOUS, &segment, &mut subject)?;
        self.segments.remove(&segment)
    }

    /// Memory for raw transfers, with the bytes of the segment in it.
    fn raw_disk(&self, segment: &SegmentRef) -> Result<RawDisk, Failed> {
        let mut raw = RawDisk::new(self.folder, segment.len, self.plan.huge_pages)?;
        raw.read(&segment.file_name)?;
        Ok(raw)
    }
}

/// Gigabytes per second: `bytes` in some milliseconds.
fn gigabytes_per_second(bytes: u64) -> impl Fn(f64) -> f64 {
    move |ms| crate::lines::float(bytes) / ms / 1e6
}

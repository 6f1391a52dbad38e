//! The state heap on its own, step by step as the harness for Flink's heap backend does it.

use std::hint::black_box;
use std::io::Write;

use clap::Args;
use slackwater_benches::Failed;
use slackwater_benches::segments::Segments;
use slackwater_benches::stopwatch::Stopwatch;
use slackwater_benches::storage::OnDisk;
use slackwater_benches::stream::SplittableRandom;
use slackwater_benches::subject::{SampleValue, Shape, Subject};
use slackwater_core::durable::Disk;
use slackwater_mem::segment::SegmentRef;
use slackwater_mem::{Bytes, FrozenRun, Plain, StateError};

use crate::Target;
use crate::busy;
use crate::lines::{Lines, float, nanos_each};

/// How much state, and how much is done with it.
#[derive(Clone, Debug, Args)]
pub(crate) struct Arguments {
    /// How many keys, of 8 bytes each
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u32).range(1..1 << 31))]
    keys: u32,
    /// Length of each value; 8 is a number, all others are byte strings
    #[arg(long, default_value_t = 8)]
    value_bytes: usize,
    /// How many updates and how many reads make one figure
    #[arg(long, default_value_t = 1_000_000)]
    updates: u32,
    #[command(flatten)]
    target: Target,
}

/// Prints every figure of the heap.
pub(crate) fn print<W: Write>(arguments: &Arguments, lines: &mut Lines<W>) -> Result<(), Failed> {
    let folder = arguments.target.folder()?;
    let storage = arguments.target.storage(folder.path())?;
    storage.with_disk(folder.path(), Figures { arguments, lines })
}

struct Figures<'a, W> {
    arguments: &'a Arguments,
    lines: &'a mut Lines<W>,
}

impl<W: Write> OnDisk for Figures<'_, W> {
    type Output = ();

    fn run<D: Disk<Frozen = FrozenRun> + Send + 'static>(self, disk: D) -> Result<(), Failed> {
        let Arguments { keys, value_bytes: value_len, updates, .. } = *self.arguments;
        let (shape, segments) = (Shape { keys, value_len }, Segments::new(disk));
        if value_len == size_of::<u64>() {
            Run::<Plain<u64>, D, W>::new(shape, segments, self.lines)?.all(updates)
        } else {
            Run::<Bytes, D, W>::new(shape, segments, self.lines)?.all(updates)
        }
    }
}

/// A measurement under way.
struct Run<'a, V, D, W> {
    shape: Shape,
    subject: Subject<V>,
    random: SplittableRandom,
    segments: Segments<D>,
    lines: &'a mut Lines<W>,
}

const MICROS: f64 = 1e6;
const MILLIS: f64 = 1e3;

impl<'a, V: SampleValue, D: Disk<Frozen = FrozenRun> + Send, W: Write> Run<'a, V, D, W> {
    fn new(shape: Shape, segments: Segments<D>, lines: &'a mut Lines<W>) -> Result<Self, Failed> {
        Ok(Self { shape, subject: Subject::empty(shape)?, random: SplittableRandom::new(7), segments, lines })
    }

    fn all(mut self, updates: u32) -> Result<(), Failed> {
        self.populate()?;
        for _ in 0..3 {
            self.update_and_read(updates)?;
        }
        // Memory for what snapshots make the heap copy: the other side begins with all of its memory, too.
        self.subject.heap.populate(self.subject.heap.memory_use().live_bytes);
        let mut newest = None;
        for is_idle in [true, false, true, false] {
            let segment = self.snapshot(is_idle)?;
            if let Some(older) = newest.replace(segment) {
                self.segments.remove(&older)?;
            }
        }
        self.memory()?;
        let Self { shape, subject, mut segments, lines, .. } = self;
        drop(subject);
        newest.map_or(Ok(()), |segment| restore::<V, D, W>(&mut segments, &segment, shape, lines))
    }

    fn populate(&mut self) -> Result<(), Failed> {
        let stopwatch = Stopwatch::start();
        for number in 0..self.shape.keys {
            self.subject.put(number)?;
        }
        let each = nanos_each(stopwatch.elapsed(), self.shape.keys.into());
        Ok(self.lines.print("populate_ns_per_op", each, "ns")?)
    }

    fn update_and_read(&mut self, count: u32) -> Result<(), Failed> {
        let mut stopwatch = Stopwatch::start();
        self.update(count)?;
        let updating = stopwatch.lap();
        let mut seen = 0u64;
        for _ in 0..count {
            seen = seen.wrapping_add(self.subject.read(self.random.below(self.shape.keys))?);
        }
        let reading = stopwatch.lap();
        black_box(seen);
        self.lines.print("update_ns_per_op", nanos_each(updating, count.into()), "ns")?;
        Ok(self.lines.print("read_ns_per_op", nanos_each(reading, count.into()), "ns")?)
    }

    fn update(&mut self, count: u32) -> Result<(), StateError> {
        (0..count).try_for_each(|_| self.subject.update(self.random.below(self.shape.keys)))
    }

    /// Takes a snapshot. Updates go on while it is written, unless the heap is to be idle.
    fn snapshot(&mut self, is_idle: bool) -> Result<SegmentRef, Failed> {
        let Self { subject, random, segments, lines, .. } = self;
        let stopwatch = Stopwatch::start();
        let snapshot = subject.heap.freeze()?;
        lines.print("snapshot_sync_us", stopwatch.elapsed().as_secs_f64() * MICROS, "us")?;
        let random = (!is_idle).then_some(random);
        let (segment, span, busy) = busy::write(segments, snapshot, subject, random)?;
        if let Some(busy) = busy {
            lines.print("update_during_snapshot_ns_per_op", busy.nanos_each(), "ns")?;
            lines.print("worst_256_updates_during_snapshot_us", busy.worst.as_secs_f64() * MICROS, "us")?;
        }
        let name = if is_idle { "snapshot_async_ms_idle" } else { "snapshot_async_ms_with_updates" };
        lines.print(name, span.as_secs_f64() * MILLIS, "ms")?;
        lines.print("snapshot_bytes", float(segment.len), "bytes")?;
        lines.print("snapshot_MBps", float(segment.len) / 1e6 / span.as_secs_f64(), "MB/s")?;
        Ok(segment)
    }

    fn memory(&mut self) -> Result<(), Failed> {
        let memory = self.subject.heap.memory_use();
        let keys = float(self.shape.keys.into());
        self.lines.print("heap_bytes_per_key", float(memory.live_bytes) / keys, "bytes")?;
        Ok(self.lines.print("retired_bytes_per_key", float(memory.retired_bytes) / keys, "bytes")?)
    }
}

/// From a segment to the first value read, and to all of it loaded and verified, twice.
fn restore<V: SampleValue, D: Disk<Frozen = FrozenRun>, W: Write>(
    segments: &mut Segments<D>,
    segment: &SegmentRef,
    shape: Shape,
    lines: &mut Lines<W>,
) -> Result<(), Failed> {
    for _ in 0..2 {
        let (first_lookup, all) = segments.restore_and_look_up::<V>(segment, shape, 1)?;
        lines.print("restore_first_lookup_ms", first_lookup.as_secs_f64() * MILLIS, "ms")?;
        lines.print("restore_ms", all.as_secs_f64() * MILLIS, "ms")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;

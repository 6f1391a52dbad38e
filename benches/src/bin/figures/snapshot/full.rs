//! A snapshot of all state, nothing else going on, beside a raw write of the same bytes.

use std::io::Write;

use slackwater_benches::Failed;
use slackwater_benches::paired::{Paired, Quartiles};
use slackwater_benches::raw_disk::RawDisk;
use slackwater_benches::stopwatch::{Stopwatch, processor_time};
use slackwater_benches::subject::{SampleValue, Subject};
use slackwater_core::durable::Disk;
use slackwater_mem::FrozenRun;
use slackwater_mem::segment::SegmentRef;

use super::{Run, gigabytes_per_second};
use crate::lines::float;
use crate::table::Goal;

/// The rows of one way in which pages may lie in memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Names {
    speed: &'static str,
    span: &'static str,
    by_flink: Option<&'static str>,
    processor: &'static str,
    /// Milliseconds of the processor that a gigabyte may take.
    processor_goal: f64,
}

impl Names {
    pub(super) fn names(&self) -> Vec<&'static str> {
        [self.speed, self.span, self.processor].into_iter().chain(self.by_flink).collect()
    }
}

/// Keys came at random: hardly two pages of a key group lie side by side, so all are gathered in blocks.
pub(super) const SCATTERED: Names = Names {
    speed: "full/scattered",
    span: "full/scattered/ms",
    by_flink: Some("full/scattered/by_flink"),
    processor: "full/scattered/processor",
    processor_goal: 250.0,
};

/// Key groups came one after the other: their pages go out where they lie.
pub(super) const CONTIGUOUS: Names = Names {
    speed: "full/contiguous",
    span: "full/contiguous/ms",
    by_flink: None,
    processor: "full/contiguous/processor",
    processor_goal: 120.0,
};

const RAW: &str = "raw.bin";

/// Two measures of the same blocks.
struct Blocks {
    /// Milliseconds.
    span: Paired,
    /// Milliseconds of the processor for a gigabyte, of ours and of theirs.
    processor: [Vec<f64>; 2],
}

impl<W: Write, D: Disk<Frozen = FrozenRun> + Send> Run<'_, W, D> {
    /// Prints what writing `subject` takes, whose `segment` has been written before.
    pub(super) fn full<V: SampleValue>(
        &mut self,
        names: Names,
        segment: &SegmentRef,
        subject: &mut Subject<V>,
    ) -> Result<(), Failed> {
        if !self.table.wants_any(&names.names()) {
            return Ok(());
        }
        let mut raw = self.raw_disk(segment)?;
        let Blocks { span, processor: [ours, theirs] } = self.blocks(segment.len, subject, &mut raw)?;
        let speed = span.map(gigabytes_per_second(segment.len));
        self.table.paired(names.speed, "GB/s", ("raw write", &speed), Goal::AtLeast(0.80))?;
        self.table.paired(names.span, "ms", ("raw write", &span), Goal::None)?;
        if let Some(name) = names.by_flink {
            self.table.against_flink(name, ("ms", span.ours()), ("snapshot_async_ms_idle", 8.0))?;
        }
        let values = (Quartiles::of(ours).median, Quartiles::of(theirs).median);
        let goal = Goal::AtMost(names.processor_goal);
        Ok(self.table.once(names.processor, "ms/GB", ("raw write", values), goal)?)
    }

    fn blocks<V: SampleValue>(
        &mut self,
        len: u64,
        subject: &mut Subject<V>,
        raw: &mut RawDisk,
    ) -> Result<Blocks, Failed> {
        let mut processor = [Vec::new(), Vec::new()];
        let [ours, theirs] = &mut processor;
        let segments = &mut self.segments;
        let span = Paired::measure(
            self.plan.rounds,
            || {
                let snapshot = subject.heap.freeze()?;
                let (segment, ms) = timed(len, ours, || segments.write(snapshot))?;
                segments.remove(&segment)?;
                Ok::<_, Failed>(ms)
            },
            || {
                let ((), ms) = timed(len, theirs, || Ok(raw.write(RAW)?))?;
                raw.remove(RAW)?;
                Ok(ms)
            },
        )?;
        Ok(Blocks { span, processor })
    }
}

/// Does `what`, says how many milliseconds it took and notes those of the processor for each gigabyte of `len` bytes.
fn timed<T>(
    len: u64,
    processor: &mut Vec<f64>,
    what: impl FnOnce() -> Result<T, Failed>,
) -> Result<(T, f64), Failed> {
    let (before, stopwatch) = (processor_time(), Stopwatch::start());
    let done = what()?;
    let (span, used) = (stopwatch.elapsed(), processor_time().saturating_sub(before));
    processor.push(used.as_secs_f64() * 1e3 / (float(len) / 1e9));
    Ok((done, span.as_secs_f64() * 1e3))
}

//! A compressed snapshot, beside the compressor alone.

use std::io::Write;

use slackwater_benches::paired::Paired;
use slackwater_benches::stopwatch::Stopwatch;
use slackwater_benches::subject::{SampleValue, Subject};
use slackwater_benches::{Failed, lz4};
use slackwater_core::durable::Disk;
use slackwater_mem::FrozenRun;
use slackwater_mem::segment::{Compression, SegmentRef};

use super::{Run, gigabytes_per_second};
use crate::table::Goal;

const LZ4: &str = "compressed/lz4";

impl<W: Write, D: Disk<Frozen = FrozenRun> + Send> Run<'_, W, D> {
    /// Prints how fast `subject` is written with LZ4, in bytes of its plain `segment`.
    pub(super) fn compressed<V: SampleValue>(
        &mut self,
        segment: &SegmentRef,
        subject: &mut Subject<V>,
    ) -> Result<(), Failed> {
        if !self.table.wants(LZ4) {
            return Ok(());
        }
        let bytes = std::fs::read(self.folder.join(&segment.file_name))?;
        let segments = &mut self.segments;
        let span = Paired::measure(
            self.plan.rounds,
            || {
                let snapshot = subject.heap.freeze()?;
                let stopwatch = Stopwatch::start();
                let segment = segments.write_with(snapshot, Compression::Lz4)?;
                let elapsed = stopwatch.elapsed();
                segments.remove(&segment)?;
                Ok::<_, Failed>(elapsed.as_secs_f64() * 1e3)
            },
            || {
                let stopwatch = Stopwatch::start();
                std::hint::black_box(lz4::compress(&bytes)?);
                Ok(stopwatch.elapsed().as_secs_f64() * 1e3)
            },
        )?;
        let speed = span.map(gigabytes_per_second(segment.len));
        Ok(self.table.paired(LZ4, "GB/s", ("lz4_flex alone", &speed), Goal::AtLeast(0.85))?)
    }
}

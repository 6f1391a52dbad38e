//! From a durable segment to a value, to all state loaded and verified, and to a verdict.

use std::fs::File;
use std::hint::black_box;
use std::io::{Read, Write};
use std::path::Path;

use slackwater_benches::Failed;
use slackwater_benches::paired::{Paired, Quartiles};
use slackwater_benches::stopwatch::Stopwatch;
use slackwater_benches::subject::SampleValue;
use slackwater_core::durable::Disk;
use slackwater_core::format::checksum::{Checksum, Identity, PART_FRAME};
use slackwater_mem::FrozenRun;
use slackwater_mem::segment::SegmentRef;

use super::{Run, gigabytes_per_second};
use crate::table::Goal;

const FIRST_LOOKUP: &str = "restore/first_lookup";
const ALL: &str = "restore/all";
const VERIFY: &str = "verify";

/// Small enough for the processor's caches.
const PIECE_LEN: usize = 128 << 10;

impl<W: Write, D: Disk<Frozen = FrozenRun> + Send> Run<'_, W, D> {
    /// Prints how fast a segment comes back.
    pub(super) fn read<V: SampleValue>(&mut self, segment: &SegmentRef) -> Result<(), Failed> {
        let path = self.folder.join(&segment.file_name);
        checksum_of(&path)?;
        if self.table.wants_any(&[FIRST_LOOKUP, ALL]) {
            self.restore::<V>(segment)?;
        }
        if self.table.wants(VERIFY) {
            self.verify(segment, &path)?;
        }
        Ok(())
    }

    fn restore<V: SampleValue>(&mut self, segment: &SegmentRef) -> Result<(), Failed> {
        let mut raw = self.raw_disk(segment)?;
        let (segments, shape, mut first_lookups) = (&mut self.segments, self.plan.shape, Vec::new());
        let span = Paired::measure(
            self.plan.rounds,
            || {
                let (first_lookup, all) = segments.restore_and_look_up::<V>(segment, shape, 1)?;
                first_lookups.push(first_lookup.as_secs_f64() * 1e3);
                Ok::<_, Failed>(all.as_secs_f64() * 1e3)
            },
            || {
                let stopwatch = Stopwatch::start();
                raw.read(&segment.file_name)?;
                Ok(stopwatch.elapsed().as_secs_f64() * 1e3)
            },
        )?;
        self.table.alone(FIRST_LOOKUP, "ms", Quartiles::of(first_lookups).median, Goal::AtMost(5.0))?;
        let speed = span.map(gigabytes_per_second(segment.len));
        Ok(self.table.paired(ALL, "GB/s", ("raw read", &speed), Goal::AtLeast(0.80))?)
    }

    fn verify(&mut self, segment: &SegmentRef, path: &Path) -> Result<(), Failed> {
        let segments = &mut self.segments;
        let span = Paired::measure(
            self.plan.rounds,
            || {
                let stopwatch = Stopwatch::start();
                segments.verify(segment)?;
                Ok::<_, Failed>(stopwatch.elapsed().as_secs_f64() * 1e3)
            },
            || {
                let stopwatch = Stopwatch::start();
                black_box(checksum_of(path)?);
                Ok(stopwatch.elapsed().as_secs_f64() * 1e3)
            },
        )?;
        let speed = span.map(gigabytes_per_second(segment.len));
        Ok(self.table.paired(VERIFY, "GB/s", ("CRC of cache", &speed), Goal::AtLeast(0.80))?)
    }
}

/// The checksum of a whole file through the page cache, in which it lies from then on.
fn checksum_of(path: &Path) -> Result<u32, Failed> {
    let (mut file, mut piece) = (File::open(path)?, vec![0; PIECE_LEN]);
    let mut checksum = Checksum::new(&Identity::new(PART_FRAME, 0, 0));
    loop {
        let count = file.read(&mut piece)?;
        if count == 0 {
            return Ok(checksum.get());
        }
        checksum.update(&piece[..count]);
    }
}

//! Updates that go on while a snapshot is written.

use std::thread::{self, ScopedJoinHandle};
use std::time::Duration;

use slackwater_benches::Failed;
use slackwater_benches::segments::Segments;
use slackwater_benches::stopwatch::Stopwatch;
use slackwater_benches::stream::SplittableRandom;
use slackwater_benches::subject::{SampleValue, Subject};
use slackwater_core::durable::Disk;
use slackwater_mem::segment::SegmentRef;
use slackwater_mem::{FrozenRun, Snapshot, StateError};

use crate::lines::nanos_each;

/// Updates between two looks at the clock.
const BATCH: u32 = 256;

/// Updates that were made side by side with something else.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Busy {
    updates: u64,
    span: Duration,
    /// How long the slowest 256 in a row took.
    pub(crate) worst: Duration,
}

impl Busy {
    /// Nanoseconds of one update, in the mean.
    pub(crate) fn nanos_each(&self) -> f64 {
        nanos_each(self.span, self.updates)
    }

    /// Updates of random ones of `keys` keys, until `is_over`, which is asked after every 256.
    pub(crate) fn until<E>(
        keys: u32,
        random: &mut SplittableRandom,
        mut update: impl FnMut(u32) -> Result<(), E>,
        mut is_over: impl FnMut(u64) -> bool,
    ) -> Result<Self, E> {
        let mut busy = Self { updates: 0, span: Duration::ZERO, worst: Duration::ZERO };
        let mut stopwatch = Stopwatch::start();
        loop {
            (0..BATCH).try_for_each(|_| update(random.below(keys)))?;
            let lap = stopwatch.lap();
            busy.updates += u64::from(BATCH);
            busy.span += lap;
            busy.worst = busy.worst.max(lap);
            if is_over(busy.updates) {
                return Ok(busy);
            }
        }
    }
}

/// A segment that was written, and how long that took.
type Written = Result<(SegmentRef, Duration), Failed>;

/// Writes a snapshot on another thread, and meanwhile updates the subject, unless it is to be idle.
pub(crate) fn write<V: SampleValue, D: Disk<Frozen = FrozenRun> + Send>(
    segments: &mut Segments<D>,
    snapshot: Snapshot,
    subject: &mut Subject<V>,
    random: Option<&mut SplittableRandom>,
) -> Result<(SegmentRef, Duration, Option<Busy>), Failed> {
    let stopwatch = Stopwatch::start();
    let (written, busy) = thread::scope(|scope| {
        let writer = scope.spawn(move || {
            let segment = segments.write(snapshot)?;
            Ok((segment, stopwatch.elapsed()))
        });
        let busy = random.map(|random| update_until_end(&writer, subject, random));
        (joined(writer), busy.transpose())
    });
    let (segment, span) = written?;
    Ok((segment, span, busy?))
}

fn update_until_end<V: SampleValue>(
    writer: &ScopedJoinHandle<'_, Written>,
    subject: &mut Subject<V>,
    random: &mut SplittableRandom,
) -> Result<Busy, StateError> {
    let keys = subject.shape().keys;
    Busy::until(keys, random, |number| subject.update(number), |_| writer.is_finished())
}

fn joined(writer: ScopedJoinHandle<'_, Written>) -> Written {
    writer.join().map_err(|_| "the thread that writes the snapshot panicked")?
}

//! Updates while a checkpoint is taken every second, beside updates without any.

use std::cell::RefCell;
use std::io::Write;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use slackwater_benches::Failed;
use slackwater_benches::paired::Paired;
use slackwater_benches::segments::Segments;
use slackwater_benches::stopwatch::Stopwatch;
use slackwater_benches::stream::SplittableRandom;
use slackwater_benches::subject::{SampleValue, Subject};
use slackwater_core::durable::Disk;
use slackwater_mem::{FrozenRun, Snapshot};

use super::Run;
use crate::lines::float;
use crate::table::Goal;

const UPDATES: &str = "update/checkpoint_every_second";
/// Updates between two looks at the clock.
const BATCH: u32 = 256;
const INTERVAL: Duration = Duration::from_secs(1);

impl<W: Write, D: Disk<Frozen = FrozenRun> + Send> Run<'_, W, D> {
    /// Prints how many updates of `subject` are made in a second.
    pub(super) fn updates<V: SampleValue>(&mut self, subject: &mut Subject<V>) -> Result<(), Failed> {
        if !self.table.wants(UPDATES) {
            return Ok(());
        }
        // Memory for what snapshots make the heap copy.
        subject.heap.populate(subject.heap.memory_use().live_bytes);
        let span = INTERVAL * self.plan.checkpoints;
        let updates = RefCell::new(Updates { subject, random: SplittableRandom::new(7) });
        let segments = &mut self.segments;
        let paired = Paired::measure(
            self.plan.rounds,
            || updates.borrow_mut().with_checkpoints(span, segments),
            || updates.borrow_mut().until(span, |_, _| Ok(())),
        )?;
        Ok(self.table.paired(UPDATES, "M/s", ("no checkpoints", &paired), Goal::AtLeast(0.90))?)
    }
}

/// Updates of random keys.
struct Updates<'a, V> {
    subject: &'a mut Subject<V>,
    random: SplittableRandom,
}

impl<V: SampleValue> Updates<'_, V> {
    /// A checkpoint at the start of each second; the writer has a thread of its own.
    fn with_checkpoints<D: Disk<Frozen = FrozenRun> + Send>(
        &mut self,
        span: Duration,
        segments: &mut Segments<D>,
    ) -> Result<f64, Failed> {
        let (sender, receiver) = channel();
        thread::scope(|scope| {
            let writer = scope.spawn(move || write_all(receiver, segments));
            let mut due = Duration::ZERO;
            let millions = self.until(span, |subject, now| {
                if now >= due {
                    due += INTERVAL;
                    // A writer that has failed says so itself.
                    drop(sender.send(subject.heap.freeze()?));
                }
                Ok(())
            });
            drop(sender);
            writer.join().map_err(|_| "the thread that writes snapshots panicked")??;
            millions
        })
    }

    /// Millions of updates in a second, over a time; `meanwhile` is called every few updates.
    fn until(
        &mut self,
        span: Duration,
        mut meanwhile: impl FnMut(&mut Subject<V>, Duration) -> Result<(), Failed>,
    ) -> Result<f64, Failed> {
        let keys = self.subject.shape().keys;
        let (stopwatch, mut updates, mut now) = (Stopwatch::start(), 0, Duration::ZERO);
        while now < span {
            meanwhile(self.subject, now)?;
            (0..BATCH).try_for_each(|_| self.subject.update(self.random.below(keys)))?;
            updates += u64::from(BATCH);
            now = stopwatch.elapsed();
        }
        Ok(float(updates) / 1e6 / now.as_secs_f64())
    }
}

/// Writes what comes; of the segments only the newest stays until the next one is there.
fn write_all<D: Disk<Frozen = FrozenRun>>(
    snapshots: Receiver<Snapshot>,
    segments: &mut Segments<D>,
) -> Result<(), Failed> {
    let mut newest = None;
    for snapshot in snapshots {
        let segment = segments.write(snapshot)?;
        newest.replace(segment).map_or(Ok(()), |older| segments.remove(&older))?;
    }
    newest.map_or(Ok(()), |segment| segments.remove(&segment))
}

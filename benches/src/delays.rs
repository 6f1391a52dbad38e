//! How long a record takes through three operators on subtasks of their own, two of each: one that makes records at a given rate,
//! one that counts them by their keys, and one that takes the time. Once as a job, once through channels of the standard library.
//!
//! A record carries the time at which it was due, and its delay counts from then. So a source that is held up makes all
//! records late that it should have made meanwhile.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use slackwater_core::time::Millis;

use crate::histogram::Histogram;
use crate::stopwatch::Stopwatch;
use crate::stream::{SplittableRandom, mix};

pub mod channels;
pub mod job;

/// Different keys of the records.
const KEYS: u32 = 100_000;
/// Records that a source makes before it looks at the clock again: as many as fill two batches of a job.
const LOOK: u64 = 4096;
/// How long a source rests that has no record due: less than anybody measures here, and much more than a system call.
const REST: Duration = Duration::from_micros(200);

/// Subtasks of each operator, and what they do.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// How many records there are.
    pub load: Load,
    /// Subtasks of each operator.
    pub subtasks: Subtasks,
    /// How long records are made.
    pub span: Duration,
    /// Records that are due earlier do not count.
    pub warm_up: Duration,
    /// From one checkpoint to the next, of a job.
    pub interval: Millis,
    /// How long a record of a job may wait for its batch to fill up while its task is busy.
    pub buffer_timeout: Millis,
}

/// How many subtasks each operator has.
#[derive(Clone, Copy, Debug)]
pub struct Subtasks {
    /// Of the source.
    pub sources: u16,
    /// Of the counts.
    pub counts: u16,
    /// Of the sink.
    pub sinks: u16,
}

/// How many records are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Load {
    /// As many as find room.
    Full,
    /// So many in a second, at even distances, whatever finds room.
    PerSecond(u64),
}

/// What travels.
#[derive(Clone, Copy, Debug)]
pub struct Event {
    key: u64,
    /// Nanoseconds of the common clock.
    due: u64,
}

/// Records by how late they were at the end.
#[derive(Clone, Debug, Default)]
pub struct Delays {
    /// Each record's time from when it was due until it was through.
    pub histogram: Histogram,
    /// Records in a second.
    pub rate: f64,
}

impl Plan {
    /// What a measurement of this plan came to.
    fn delays(&self, total: &Total) -> Delays {
        let histogram = std::mem::take(&mut *total.lock().unwrap_or_else(PoisonError::into_inner));
        let seconds = self.span.saturating_sub(self.warm_up).as_secs_f64();
        #[expect(clippy::cast_precision_loss, reason = "a rate of three decimals")]
        let rate = histogram.count() as f64 / seconds;
        Delays { histogram, rate }
    }
}

/// What of a source's records is due.
#[derive(Clone, Debug)]
struct Pace {
    plan: Plan,
    clock: Stopwatch,
    keys: SplittableRandom,
    /// When it was first looked at.
    began: Option<Duration>,
    /// Records made.
    made: u64,
    /// How many have to be made by now, or may be made until the next look.
    due: u64,
    /// What the clock said at the last look.
    now: Duration,
}

impl Pace {
    fn new(plan: Plan, clock: Stopwatch, index: u16) -> Self {
        let keys = SplittableRandom::new(index.into());
        Self { plan, clock, keys, began: None, made: 0, due: 0, now: Duration::ZERO }
    }

    /// Looks at the clock. False when no more records come.
    fn look(&mut self) -> bool {
        self.now = self.clock.elapsed();
        let began = *self.began.get_or_insert(self.now);
        let may_be_made = self.made + LOOK;
        self.due = match self.plan.load {
            Load::Full => may_be_made,
            Load::PerSecond(rate) => {
                let due = (self.now - began).as_nanos() * u128::from(rate) / self.nanos_by_rate();
                u64::try_from(due).unwrap_or(u64::MAX).min(may_be_made)
            }
        };
        self.now < self.plan.span
    }

    /// A record that is due.
    fn next(&mut self) -> Option<Event> {
        if self.made >= self.due {
            return None;
        }
        self.made += 1;
        let due = match self.plan.load {
            Load::Full => self.now.as_nanos(),
            Load::PerSecond(rate) => {
                let began = self.began.unwrap_or_default().as_nanos();
                began + u128::from(self.made) * self.nanos_by_rate() / u128::from(rate.max(1))
            }
        };
        let due = u64::try_from(due).unwrap_or(u64::MAX);
        Some(Event { key: mix(self.keys.below(KEYS).into()), due })
    }

    /// Whether there is nothing to do before some time has passed.
    const fn rests(&self) -> bool {
        self.made >= self.due && matches!(self.plan.load, Load::PerSecond(_))
    }

    /// Nanoseconds from one record to the next, times the rate of all sources.
    fn nanos_by_rate(&self) -> u128 {
        u128::from(self.plan.subtasks.sources) * 1_000_000_000
    }
}

type Total = Arc<Mutex<Histogram>>;

/// What arrives at one subtask of the sink; added to the total when that is dropped.
struct Arrivals {
    clock: Stopwatch,
    /// Nanoseconds before which nothing counts.
    from: u64,
    histogram: Histogram,
    total: Total,
}

impl Arrivals {
    fn new(plan: &Plan, clock: Stopwatch, total: &Total) -> Self {
        let from = u64::try_from(plan.warm_up.as_nanos()).unwrap_or(u64::MAX);
        Self { clock, from, histogram: Histogram::new(), total: Arc::clone(total) }
    }

    #[inline]
    fn arrived(&mut self, event: &Event) {
        if event.due >= self.from {
            let due = Duration::from_nanos(event.due);
            self.histogram.record(self.clock.elapsed().saturating_sub(due));
        }
    }
}

impl Drop for Arrivals {
    fn drop(&mut self) {
        self.total.lock().unwrap_or_else(PoisonError::into_inner).add(&self.histogram);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn plan(load: Load) -> Plan {
        Plan {
            load,
            subtasks: Subtasks { sources: 2, counts: 2, sinks: 2 },
            span: Duration::from_millis(200),
            warm_up: Duration::from_millis(20),
            interval: Millis(50),
            buffer_timeout: Millis(100),
        }
    }

    #[test]
    fn records_are_due_at_even_distances_however_late_they_are_made() {
        let mut pace = Pace::new(plan(Load::PerSecond(2000)), Stopwatch::start(), 0);
        pace.began = Some(Duration::ZERO);
        pace.due = 5;
        let due: Vec<u64> = std::iter::from_fn(|| pace.next()).map(|event| event.due).collect();
        assert_eq!(
            due,
            [1, 2, 3, 4, 5].map(|millis| millis * 1_000_000),
            "each of two sources makes 1000 a second"
        );
        assert!(pace.rests());
    }

    #[test]
    fn what_is_due_early_does_not_count() {
        let (plan, total) = (plan(Load::Full), Total::default());
        let mut arrivals = Arrivals::new(&plan, Stopwatch::start(), &total);
        arrivals.arrived(&Event { key: 1, due: 19_999_999 });
        arrivals.arrived(&Event { key: 1, due: 20_000_000 });
        drop(arrivals);
        assert_eq!(total.lock().unwrap().count(), 1);
    }
}

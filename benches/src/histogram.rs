//! Durations by how often they occurred.

use std::time::Duration;

/// Logarithm of the number of buckets between a power of two and the next: a bucket is 1/32 of its value wide.
const STEPS_LOG2: u32 = 5;
/// Buckets for all numbers of 64 bits.
const BUCKETS: usize = (65 - STEPS_LOG2 as usize) << STEPS_LOG2;

/// How often which duration occurred, to within a thirty-second of it.
#[derive(Clone, Debug)]
pub struct Histogram {
    counts: Box<[u32]>,
    count: u64,
    nanos_max: u64,
}

impl Histogram {
    /// None yet.
    #[must_use]
    pub fn new() -> Self {
        Self { counts: vec![0; BUCKETS].into_boxed_slice(), count: 0, nanos_max: 0 }
    }

    /// Adds one.
    #[inline]
    pub fn record(&mut self, duration: Duration) {
        let nanos = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        if let Some(count) = self.counts.get_mut(bucket_of(nanos)) {
            *count += 1;
        }
        self.count += 1;
        self.nanos_max = self.nanos_max.max(nanos);
    }

    /// Adds all of another one.
    pub fn add(&mut self, other: &Self) {
        self.counts.iter_mut().zip(&other.counts).for_each(|(count, more)| *count += more);
        self.count += other.count;
        self.nanos_max = self.nanos_max.max(other.nanos_max);
    }

    /// How many durations there are.
    #[must_use]
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// The nanoseconds that all but `per_million` of a million durations stay within; 0 if there are none.
    #[must_use]
    pub fn nanos_of_all_but(&self, per_million: u64) -> u64 {
        let beyond = self.count * per_million / 1_000_000;
        let mut within = self.count - beyond;
        for (bucket, count) in self.counts.iter().enumerate() {
            within = within.saturating_sub((*count).into());
            if within == 0 {
                return end_of(bucket).min(self.nanos_max);
            }
        }
        self.nanos_max
    }

    /// The nanoseconds of the longest one.
    #[must_use]
    pub const fn nanos_max(&self) -> u64 {
        self.nanos_max
    }
}

impl Default for Histogram {
    fn default() -> Self {
        Self::new()
    }
}

#[inline]
fn bucket_of(nanos: u64) -> usize {
    let scale = nanos.max(1).ilog2().saturating_sub(STEPS_LOG2);
    let steps = usize::try_from(nanos >> scale).unwrap_or(usize::MAX);
    ((scale as usize) << STEPS_LOG2) + steps
}

/// The last number of a bucket.
fn end_of(bucket: usize) -> u64 {
    let scale = (bucket >> STEPS_LOG2).saturating_sub(1);
    let steps = (bucket - (scale << STEPS_LOG2)) as u64;
    (((u128::from(steps) + 1) << scale) - 1).try_into().unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_holds_what_is_within_a_thirty_second() {
        for nanos in [0, 1, 31, 32, 33, 63, 64, 65, 1_000, 123_456_789, u64::MAX - 1, u64::MAX] {
            let end = end_of(bucket_of(nanos));
            assert!(end >= nanos && end - nanos <= nanos / 32, "{nanos} ends at {end}");
            assert!(bucket_of(nanos) < BUCKETS);
        }
    }

    #[test]
    fn percentiles_are_those_of_the_durations() {
        let mut histogram = Histogram::new();
        (1..=1_000).for_each(|nanos| histogram.record(Duration::from_nanos(nanos)));
        assert!((500..=516).contains(&histogram.nanos_of_all_but(500_000)));
        assert!((990..=1_000).contains(&histogram.nanos_of_all_but(10_000)));
        assert_eq!(histogram.nanos_of_all_but(0), 1_000);
        assert_eq!(histogram.nanos_max(), 1_000);
        assert_eq!(Histogram::new().nanos_of_all_but(10_000), 0);
        let mut both = histogram.clone();
        both.add(&histogram);
        assert_eq!((both.count(), both.nanos_max()), (2_000, 1_000));
        assert_eq!(both.nanos_of_all_but(500_000), histogram.nanos_of_all_but(500_000));
    }
}

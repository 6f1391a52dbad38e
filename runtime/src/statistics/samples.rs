//! Values of which the newest are kept, and what they come to.

use std::collections::VecDeque;

use super::{CheckpointFigures, Figure, Summary};

/// So many of the newest values are what quantiles are of (as in Flink).
const WINDOW: usize = 10_000;

/// Any number of values: least, greatest and sum of all, and the newest ones themselves.
#[derive(Clone, Debug, Default)]
pub(super) struct Samples {
    all: Figure,
    newest: VecDeque<u64>,
}

impl Samples {
    pub(super) fn add(&mut self, value: u64) {
        self.all.add(value);
        if self.newest.len() == WINDOW {
            self.newest.pop_front();
        }
        self.newest.push_back(value);
    }

    pub(super) fn distribution(&self) -> Distribution {
        let mut sorted: Vec<u64> = self.newest.iter().copied().collect();
        sorted.sort_unstable();
        let at = |permille| quantile(&sorted, permille);
        let (count, min, max, mean) = (self.all.count(), self.all.min(), self.all.max(), self.all.mean());
        Distribution {
            count,
            min,
            max,
            mean,
            p50: at(500),
            p90: at(900),
            p95: at(950),
            p99: at(990),
            p999: at(999),
        }
    }
}

/// The figures of all completed checkpoints.
#[derive(Clone, Debug, Default)]
pub(super) struct SummarySamples {
    duration: Samples,
    state_size: Samples,
    checkpointed_size: Samples,
    processed: Samples,
    persisted: Samples,
}

impl SummarySamples {
    pub(super) fn add(&mut self, checkpoint: &CheckpointFigures) {
        self.duration.add(checkpoint.duration().0);
        self.state_size.add(checkpoint.state_size);
        self.checkpointed_size.add(checkpoint.checkpointed_size);
        self.processed.add(checkpoint.processed);
        self.persisted.add(checkpoint.persisted);
    }

    pub(super) fn summary(&self) -> Summary {
        Summary {
            duration: self.duration.distribution(),
            state_size: self.state_size.distribution(),
            checkpointed_size: self.checkpointed_size.distribution(),
            processed: self.processed.distribution(),
            persisted: self.persisted.distribution(),
        }
    }
}

/// How values are spread. Quantiles are of the newest 10,000 and lie between two values where they must, as Flink's do:
/// at place `p (n + 1)` of `n` sorted values, counted from one. All are rounded down, and zero of nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Distribution {
    /// How many values there were.
    pub count: u64,
    /// The least.
    pub min: u64,
    /// The greatest.
    pub max: u64,
    /// The mean.
    pub mean: u64,
    /// Half of the values are below.
    pub p50: u64,
    /// 90 % of the values are below.
    pub p90: u64,
    /// 95 % of the values are below.
    pub p95: u64,
    /// 99 % of the values are below.
    pub p99: u64,
    /// 99.9 % of the values are below.
    pub p999: u64,
}

fn quantile(sorted: &[u64], permille: usize) -> u64 {
    let (Some(first), Some(last)) = (sorted.first(), sorted.last()) else { return 0 };
    let place = permille * (sorted.len() + 1);
    let (whole, part) = (place / 1000, place % 1000);
    if whole == 0 {
        return *first;
    }
    let (Some(below), Some(above)) = (sorted.get(whole - 1), sorted.get(whole)) else { return *last };
    let more = u128::from(above - below) * part as u128 / 1000;
    below + u64::try_from(more).unwrap_or(u64::MAX)
}

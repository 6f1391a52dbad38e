//! Timers.

use std::collections::BinaryHeap;

use criterion::{BenchmarkId, Criterion, Throughput};
use slackwater_benches::timers::{InHeap, Turning};

use crate::sizes;

/// One iteration takes the earliest of so many timers out and adds another one.
pub(crate) fn bench(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("timer_pop_and_insert");
    group.throughput(Throughput::Elements(1));
    for (name, count) in sizes() {
        group.bench_function(BenchmarkId::new("heap", name), |bencher| {
            let mut timers = Turning::filled(InHeap::new(count).unwrap(), count).unwrap();
            bencher.iter(|| timers.turn(1).unwrap());
        });
        group.bench_function(BenchmarkId::new("binary_heap", name), |bencher| {
            let mut timers = Turning::filled(BinaryHeap::new(), count).unwrap();
            bencher.iter(|| timers.turn(1).unwrap());
        });
    }
    group.finish();
}

//! New keys.

use criterion::{BatchSize, BenchmarkId, Criterion, Throughput};
use slackwater_benches::hash_map;
use slackwater_benches::subject::key;

use crate::{Counts, HUGE_PAGES, shape, sizes};

/// One iteration puts all keys into what is empty and has no room prepared.
pub(crate) fn bench(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("grow");
    group.sample_size(10);
    for (name, keys) in sizes() {
        group.throughput(Throughput::Elements(keys.into()));
        group.bench_function(BenchmarkId::new("heap", name), |bencher| {
            let empty = || Counts::empty(shape(keys)).unwrap();
            bencher.iter_batched_ref(empty, |counts| fill(counts, keys), BatchSize::PerIteration);
        });
        group.bench_function(BenchmarkId::new("hash_map", name), |bencher| {
            let fill = |map: &mut hash_map::HashMap| {
                map.extend((0..keys).map(|number| (key(number), u64::from(number))));
            };
            bencher.iter_batched_ref(|| hash_map::empty(*HUGE_PAGES), fill, BatchSize::PerIteration);
        });
    }
    group.finish();
}

fn fill(counts: &mut Counts, keys: u32) {
    (0..keys).for_each(|number| counts.put(number).unwrap());
}

//! What updates cost right after a freeze, while pages have to move.

use std::time::Duration;

use criterion::{BenchmarkId, Criterion, Throughput};
use slackwater_benches::copies::Copies;
use slackwater_benches::freezing::one_key_of_each_page;
use slackwater_benches::scale::sized;
use slackwater_benches::stopwatch::Stopwatch;
use slackwater_benches::stream::KeyStream;

use crate::{Counts, HUGE_PAGES, counts, key_stream, sizes};

pub(crate) fn bench(criterion: &mut Criterion) {
    first_touch(criterion);
    worst_256(criterion);
}

/// One iteration updates one key in every page of a frozen heap, so that each update has to move its page. Beside
/// it the least that can cost: as many frames copied in random order.
fn first_touch(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("first_touch");
    for (name, keys) in sizes() {
        let mut counts = counts(keys);
        let touched = one_key_of_each_page(&counts.heap.freeze().unwrap(), counts.state.id()).unwrap();
        group.throughput(Throughput::Elements(touched.len() as u64));
        group.bench_function(BenchmarkId::new("heap", name), |bencher| {
            bencher.iter_custom(|times| (0..times).map(|_| counts.touch_all(&touched).unwrap()).sum());
        });
        group.bench_function(BenchmarkId::new("copy_of_frames", name), |bencher| {
            let mut copies = Copies::new(touched.len(), *HUGE_PAGES).unwrap();
            bencher.iter(|| copies.copy_all());
        });
    }
    group.finish();
}

/// One iteration is the slowest 256 updates in a row out of many after a freeze, while the snapshot is kept.
fn worst_256(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("worst_256_after_freeze");
    for (name, keys) in sizes() {
        group.bench_function(name, |bencher| {
            let (mut counts, mut stream) = (counts(keys), key_stream(keys));
            bencher.iter_custom(|times| (0..times).map(|_| worst(&mut counts, &mut stream)).sum());
        });
    }
    group.finish();
}

fn worst(counts: &mut Counts, stream: &mut KeyStream) -> Duration {
    let snapshot = counts.heap.freeze().unwrap();
    let mut stopwatch = Stopwatch::start();
    let batches = (0..sized(400, 2)).map(|_| {
        stream.by_ref().take(256).for_each(|key| counts.add_one(key).unwrap());
        stopwatch.lap()
    });
    let worst = batches.max().unwrap();
    drop(snapshot);
    worst
}

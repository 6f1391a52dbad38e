//! Entries of map states.

use criterion::{Criterion, Throughput};
use slackwater_benches::maps::{MapShape, Maps};
use slackwater_benches::scale::sized;
use slackwater_benches::stream::SplittableRandom;

pub(crate) fn bench(criterion: &mut Criterion) {
    let shapes = [("10_entries", 10), ("1000_entries", sized(1_000, 50))].map(|(name, entries)| {
        let shape = MapShape { maps: sized(100_000, 1_000) / entries, entries };
        (name, shape, Maps::filled(shape).unwrap())
    });
    get(criterion, &shapes);
    iterate(criterion, &shapes);
}

type Shapes = [(&'static str, MapShape, Maps); 2];

/// One iteration reads one entry; the next does not wait for it.
fn get(criterion: &mut Criterion, shapes: &Shapes) {
    let mut group = criterion.benchmark_group("map_get");
    group.throughput(Throughput::Elements(1));
    for (name, shape, maps) in shapes {
        let mut random = SplittableRandom::new(7);
        group.bench_function(*name, |bencher| {
            bencher.iter(|| maps.read(random.below(shape.maps * shape.entries)).unwrap());
        });
    }
    group.finish();
}

/// One iteration goes over all entries of one map.
fn iterate(criterion: &mut Criterion, shapes: &Shapes) {
    let mut group = criterion.benchmark_group("map_iterate");
    for (name, shape, maps) in shapes {
        let mut random = SplittableRandom::new(7);
        group.throughput(Throughput::Elements(shape.entries.into()));
        group.bench_function(*name, |bencher| {
            bencher.iter(|| maps.sum(random.below(shape.maps)).unwrap());
        });
    }
    group.finish();
}

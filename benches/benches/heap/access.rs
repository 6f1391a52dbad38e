//! Reads and updates of keys that are there.

use criterion::{BenchmarkId, Criterion, Throughput};

use crate::{counts, key_stream, map, sizes};

pub(crate) fn bench(criterion: &mut Criterion) {
    get(criterion);
    get_dependent(criterion);
    get_many(criterion);
    update(criterion);
}

/// One iteration reads one key; the next does not wait for it.
fn get(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("get");
    group.throughput(Throughput::Elements(1));
    for (name, keys) in sizes() {
        group.bench_function(BenchmarkId::new("heap", name), |bencher| {
            let (counts, mut stream) = (counts(keys), key_stream(keys));
            bencher.iter(|| counts.state.get(&counts.heap, &stream.next().unwrap()).unwrap());
        });
        group.bench_function(BenchmarkId::new("hash_map", name), |bencher| {
            let (counts, mut stream) = (map(keys), key_stream(keys));
            bencher.iter(|| counts.get(&stream.next().unwrap()).copied());
        });
    }
    group.finish();
}

/// One iteration reads one key, and which one depends on what the one before has read: counts stay below 2^48, but only
/// who has read them knows.
fn get_dependent(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("get_dependent");
    group.throughput(Throughput::Elements(1));
    for (name, keys) in sizes() {
        group.bench_function(BenchmarkId::new("heap", name), |bencher| {
            let (counts, mut stream, mut last) = (counts(keys), key_stream(keys), 0);
            bencher.iter(|| {
                let key = stream.next().unwrap() ^ (last >> 48);
                last = counts.state.get(&counts.heap, &key).unwrap().unwrap();
            });
        });
        group.bench_function(BenchmarkId::new("hash_map", name), |bencher| {
            let (counts, mut stream, mut last) = (map(keys), key_stream(keys), 0);
            bencher.iter(|| last = *counts.get(&(stream.next().unwrap() ^ (last >> 48))).unwrap());
        });
    }
    group.finish();
}

/// One iteration reads sixteen keys by one call.
fn get_many(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("get_many");
    group.throughput(Throughput::Elements(16));
    for (name, keys) in sizes() {
        group.bench_function(BenchmarkId::new("heap", name), |bencher| {
            let (counts, mut stream) = (counts(keys), key_stream(keys));
            bencher.iter(|| {
                let (keys, mut sum) = (stream.block(16).first_chunk::<16>().unwrap(), 0_u64);
                let add = |value: Option<u64>| sum = sum.wrapping_add(value.unwrap());
                counts.state.get_many(&counts.heap, &keys.each_ref(), add).unwrap();
                sum
            });
        });
    }
    group.finish();
}

/// One iteration adds one to one key; the next does not wait for it.
fn update(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("update");
    group.throughput(Throughput::Elements(1));
    for (name, keys) in sizes() {
        group.bench_function(BenchmarkId::new("heap", name), |bencher| {
            let (mut counts, mut stream) = (counts(keys), key_stream(keys));
            bencher.iter(|| counts.add_one(stream.next().unwrap()).unwrap());
        });
        group.bench_function(BenchmarkId::new("hash_map", name), |bencher| {
            let (mut counts, mut stream) = (map(keys), key_stream(keys));
            bencher.iter(|| *counts.entry(stream.next().unwrap()).or_insert(0) += 1);
        });
    }
    group.finish();
}

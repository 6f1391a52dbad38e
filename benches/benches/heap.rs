//! What the state heap costs per key, per freeze, and per page that is touched first after one.

#![expect(clippy::unwrap_used, reason = "a bench that cannot go on fails, as a test does")]

use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher};
use std::hint::black_box;
use std::time::Duration;

use criterion::{BenchmarkId, Criterion, Throughput};
use slackwater_benches::scale::sized;
use slackwater_benches::stopwatch::Stopwatch;
use slackwater_benches::stream::SplittableRandom;
use slackwater_benches::subject::{HASH_SEED, Shape, Subject, key};
use slackwater_core::format::page::{Content, PageView};
use slackwater_mem::heap::hash_key;
use slackwater_mem::{Plain, Snapshot};

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    get(&mut criterion);
    update(&mut criterion);
    freeze(&mut criterion);
    first_touch(&mut criterion);
    criterion.final_summary();
}

type Counts = Subject<Plain<u64>>;

/// Numbers of keys, with the names that stay the same however small the input is.
fn sizes() -> [(&'static str, u32); 2] {
    [("10k_keys", sized(10_000, 200)), ("1M_keys", sized(1_000_000, 2_000))]
}

fn counts(keys: u32) -> Counts {
    Subject::filled(Shape { keys, value_len: 8 }).unwrap()
}

/// Random keys of those there are, drawn beforehand, one after the other without end.
fn key_numbers(keys: u32) -> impl FnMut() -> u32 {
    let mut random = SplittableRandom::new(7);
    let numbers: Vec<u32> = (0..sized(1 << 20, 64)).map(|_| random.below(keys)).collect();
    let mut endless = numbers.into_iter().cycle();
    move || endless.next().unwrap()
}

/// One iteration reads one key; the next does not wait for it.
fn get(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("get");
    group.throughput(Throughput::Elements(1));
    for (name, keys) in sizes() {
        group.bench_function(BenchmarkId::new("heap", name), |bencher| {
            let (counts, mut next) = (counts(keys), key_numbers(keys));
            bencher.iter(|| counts.state.get(&counts.heap, &key(next())).unwrap());
        });
        group.bench_function(BenchmarkId::new("hash_map", name), |bencher| {
            let (counts, mut next) = (map(keys), key_numbers(keys));
            bencher.iter(|| counts.get(&key(next())).copied());
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
            let (mut counts, mut next) = (counts(keys), key_numbers(keys));
            bencher.iter(|| counts.update(next()).unwrap());
        });
        group.bench_function(BenchmarkId::new("hash_map", name), |bencher| {
            let (mut counts, mut next) = (map(keys), key_numbers(keys));
            bencher.iter(|| *counts.entry(key(next())).or_insert(0) += 1);
        });
    }
    group.finish();
}

/// Updates before each freeze, so that it finds pages to leave behind.
const UPDATES_BEFORE_FREEZE: u32 = 64;

/// One iteration is one freeze; updates before it and the snapshot's release after it are not measured.
fn freeze(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("freeze");
    for (name, keys) in sizes() {
        group.bench_function(name, |bencher| {
            let (mut counts, mut next) = (counts(keys), key_numbers(keys));
            bencher.iter_custom(|times| (0..times).map(|_| freeze_once(&mut counts, &mut next)).sum());
        });
    }
    group.finish();
}

fn freeze_once(counts: &mut Counts, next: &mut impl FnMut() -> u32) -> Duration {
    for _ in 0..UPDATES_BEFORE_FREEZE {
        counts.update(next()).unwrap();
    }
    let stopwatch = Stopwatch::start();
    let snapshot = counts.heap.freeze().unwrap();
    let elapsed = stopwatch.elapsed();
    drop(snapshot);
    elapsed
}

/// One iteration updates one key in every page of a frozen heap, so that each update has to move its page. Beside
/// it the least that can cost: as many frames copied in random order.
fn first_touch(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("first_touch");
    for (name, keys) in sizes() {
        let mut counts = counts(keys);
        let touched = one_key_of_each_page(&counts.heap.freeze().unwrap());
        group.throughput(Throughput::Elements(touched.len() as u64));
        group.bench_function(BenchmarkId::new("heap", name), |bencher| {
            bencher.iter_custom(|times| (0..times).map(|_| touch_all(&mut counts, &touched)).sum());
        });
        group.bench_function(BenchmarkId::new("copy_of_frames", name), |bencher| {
            let mut frames = Frames::new(touched.len());
            bencher.iter(|| frames.copy_all());
        });
    }
    group.finish();
}

fn touch_all(counts: &mut Counts, keys: &[u64]) -> Duration {
    let snapshot = counts.heap.freeze().unwrap();
    let stopwatch = Stopwatch::start();
    for key in keys {
        counts.state.update(&mut counts.heap, key, |old| old.unwrap_or(0).wrapping_add(1)).unwrap();
    }
    let elapsed = stopwatch.elapsed();
    drop(snapshot);
    elapsed
}

/// The keys in random order.
fn one_key_of_each_page(snapshot: &Snapshot) -> Vec<u64> {
    let state = snapshot.states().next().unwrap();
    let pages = snapshot.key_groups().iter().flat_map(|group| snapshot.pages(state.id, group));
    let mut keys: Vec<u64> = pages.filter_map(|page| first_key(page.bytes())).collect();
    shuffle(&mut keys);
    keys
}

fn first_key(frame: &[u8]) -> Option<u64> {
    let PageView::Hash(page) = PageView::parse(frame).unwrap() else { return None };
    let record = page.records().next()?.unwrap();
    let Content::Inline(key) = record.key else { return None };
    Some(u64::from_le_bytes(key.try_into().unwrap()))
}

fn shuffle<T>(items: &mut [T]) {
    let mut random = SplittableRandom::new(11);
    for last in (1..items.len()).rev() {
        let other = random.below(u32::try_from(last + 1).unwrap());
        items.swap(last, usize::try_from(other).unwrap());
    }
}

/// Aligned as the heap's own: a copy that crosses pages is several times slower.
#[derive(Clone)]
#[repr(align(4096))]
struct Frame([u8; 4096]);

/// Frames that are copied to other frames.
struct Frames {
    from: Vec<Frame>,
    to: Vec<Frame>,
    order: Vec<usize>,
}

impl Frames {
    fn new(count: usize) -> Self {
        let mut order: Vec<usize> = (0..count).collect();
        shuffle(&mut order);
        Self { from: vec![Frame([1; 4096]); count], to: vec![Frame([0; 4096]); count], order }
    }

    fn copy_all(&mut self) {
        for (to, from) in self.to.iter_mut().zip(&self.order) {
            to.0.copy_from_slice(&self.from[*from].0);
        }
        black_box(&self.to);
    }
}

/// The map of the standard library, which is hashbrown's, with the hash of the heap.
fn map(keys: u32) -> HashMap<u64, u64, HeapHash> {
    let mut map = HashMap::with_hasher(HeapHash::default());
    map.extend((0..keys).map(|number| (key(number), u64::from(number))));
    map
}

/// The heap's hash of the one number it is given.
#[derive(Clone, Copy, Default)]
struct HeapHash(u64);

impl BuildHasher for HeapHash {
    type Hasher = Self;

    fn build_hasher(&self) -> Self {
        Self(HASH_SEED)
    }
}

impl Hasher for HeapHash {
    fn write(&mut self, bytes: &[u8]) {
        self.0 = hash_key(self.0, bytes);
    }

    fn write_u64(&mut self, number: u64) {
        self.write(&number.to_le_bytes());
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

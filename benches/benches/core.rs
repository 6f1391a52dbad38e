//! What the machines, the queue and the key groups cost per event, item and key.
#![expect(clippy::unwrap_used, reason = "a bench that cannot go on fails, as a test does")]

use std::hint::black_box;
use std::thread;
use std::time::Duration;

use criterion::{BatchSize, Bencher, Criterion, Throughput};
use slackwater_benches::scale::sized;
use slackwater_benches::stopwatch::Stopwatch;
use slackwater_benches::stream::mix;
use slackwater_core::bit_set::BitSet;
use slackwater_core::coordinator::{
    Attempt, Coordinator, CoordinatorAction, CoordinatorEvent, CoordinatorOptions, RequestKind, RequestToken,
    Sources, TaskReport, TaskState,
};
use slackwater_core::ids::{CheckpointId, TaskIndex};
use slackwater_core::key_group::{MaxParallelism, hash_of_bytes, key_group_of_hash};
use slackwater_core::queue::{Consumer, Full, Producer, Queue};
use slackwater_core::time::{Millis, Now};

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    coordinator(&mut criterion);
    queue(&mut criterion);
    key_group(&mut criterion);
    criterion.final_summary();
}

const NOW: Now = Now { monotonic: Millis(1_000), wall: Millis(50_000) };

const TASKS: u16 = 64;
type Tasks64 = Coordinator<2, 2>;
type Actions = heapless::Vec<CoordinatorAction<2>, { Tasks64::ACTIONS_MAX }>;

/// One iteration is all 64 acknowledgements of a checkpoint, the last of which orders the manifest.
fn coordinator(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("coordinator");
    group.throughput(Throughput::Elements(TASKS.into()));
    group.bench_function("acknowledge_64_tasks", |bencher| {
        bencher.iter_batched_ref(triggered, acknowledge_all, BatchSize::SmallInput);
    });
    group.finish();
}

/// A coordinator whose first checkpoint waits for its tasks.
fn triggered() -> Tasks64 {
    let options =
        CoordinatorOptions { checkpoints_after_tasks_finish: false, ..CoordinatorOptions::default() };
    let graph = Sources { tasks: BitSet::first(TASKS.into()), sources: BitSet::first(8) };
    let mut coordinator = Tasks64::new(options, graph, CheckpointId::FIRST).unwrap();
    let attempts = (0..TASKS).map(TaskIndex).map(Attempt::first);
    let running =
        attempts.map(|attempt| CoordinatorEvent::TaskChanged { attempt, state: TaskState::Running });
    for event in running.chain([
        CoordinatorEvent::JobStarted,
        CoordinatorEvent::CheckpointRequested { request: RequestToken(0), kind: RequestKind::Configured },
        CoordinatorEvent::LocationPrepared(CheckpointId::FIRST),
    ]) {
        coordinator.on_event(NOW, event, &mut Actions::new()).unwrap();
    }
    coordinator
}

fn acknowledge_all(coordinator: &mut Tasks64) {
    let id = CheckpointId::FIRST;
    let mut actions = Actions::new();
    let report = TaskReport { has_state: true, ..TaskReport::default() };
    for by in (0..TASKS).map(TaskIndex).map(Attempt::first) {
        actions.clear();
        coordinator.on_event(NOW, CoordinatorEvent::Acknowledged { id, by, report }, &mut actions).unwrap();
    }
    let finished = BitSet::empty();
    assert!(actions.contains(&CoordinatorAction::PersistManifest { id, finished }), "{actions:?}");
}

const SLOTS: usize = 64;
const BOUND: usize = 48;

/// One iteration is one item.
fn queue(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("queue");
    group.throughput(Throughput::Elements(1));
    group.bench_function("push_pop_same_thread", push_pop);
    group.bench_function("push_pop_two_threads", |bencher| bencher.iter_custom(pass_to_thread));
    group.finish();
}

fn push_pop(bencher: &mut Bencher<'_>) {
    let queue = Queue::<u64, SLOTS>::with_bound(BOUND).unwrap();
    let (mut producer, mut consumer) = (Producer::claim(&queue).unwrap(), Consumer::claim(&queue).unwrap());
    let mut item = 0u64;
    bencher.iter(|| {
        item += 1;
        producer.try_push(black_box(item)).unwrap();
        consumer.pop().unwrap()
    });
}

/// Sends `count` items to another thread and waits until it has them all.
fn pass_to_thread(count: u64) -> Duration {
    let queue = Queue::<u64, SLOTS>::with_bound(BOUND).unwrap();
    let mut producer = Producer::claim(&queue).unwrap();
    let mut consumer = Consumer::claim(&queue).unwrap();
    thread::scope(|scope| {
        let receiver =
            scope.spawn(move || (0..count).fold(0, |sum: u64, _| sum.wrapping_add(taken(&mut consumer))));
        let stopwatch = Stopwatch::start();
        for item in 0..count {
            let mut refused = producer.try_push(item);
            while let Err(Full(item)) = refused {
                thread::yield_now();
                refused = producer.try_push(item);
            }
        }
        let sum = receiver.join().unwrap();
        let elapsed = stopwatch.elapsed();
        assert_eq!(sum, (0..count).fold(0, u64::wrapping_add));
        elapsed
    })
}

fn taken(consumer: &mut Consumer<&Queue<u64, SLOTS>>) -> u64 {
    loop {
        if let Some(item) = consumer.pop() {
            return item;
        }
        thread::yield_now();
    }
}

/// One iteration is a block of keys, so that no key is known when the code is compiled.
fn key_group(criterion: &mut Criterion) {
    let count = sized(1024u32, 16);
    let groups = MaxParallelism::new(128).unwrap();
    let hashes: Vec<i32> = (0..count).map(u32::cast_signed).collect();
    let words: Vec<[u8; 12]> = (0..u64::from(count)).map(word).collect();
    let mut group = criterion.benchmark_group("key_group");
    group.throughput(Throughput::Elements(count.into()));
    group.bench_function("of_hash", |bencher| {
        bencher.iter(|| sum_of(&hashes, |hash| key_group_of_hash(*hash, groups).0));
    });
    group.bench_function("of_12_byte_word", |bencher| {
        bencher.iter(|| sum_of(&words, |word| key_group_of_hash(hash_of_bytes(word), groups).0));
    });
    group.finish();
}

fn sum_of<K>(keys: &[K], group_of: impl Fn(&K) -> u16) -> u32 {
    black_box(keys).iter().map(|key| u32::from(group_of(key))).sum()
}

/// Twelve small letters.
fn word(number: u64) -> [u8; 12] {
    let mut left = mix(number);
    std::array::from_fn(|_| {
        let letter = b"abcdefghijklmnopqrstuvwxyz"[usize::try_from(left % 26).unwrap()];
        left /= 26;
        letter
    })
}

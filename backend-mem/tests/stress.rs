//! A heap and the reader of its snapshots on two threads at full speed. `.ci/thread-sanitizer` watches it.
//!
//! What the threads share is of this workspace alone, and never freed: the standard library's own parts are
//! built without the sanitizer, which would not see how they synchronise.

#![cfg(not(slackwater_loom))]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::thread;

use slackwater_core::durable::Frozen;
use slackwater_core::key_group::{KeyGroup, KeyGroupRange};
use slackwater_core::queue::{Consumer, Producer, Queue};
use slackwater_mem::{Arena, CodecId, Heap, HeapError, HeapOptions, Snapshot, StateId, Value};

const GROUPS: u16 = 16;
const KEYS: u64 = 1_000;
const STATE: StateId = StateId(0);

type Memory = &'static Arena<'static>;
/// A snapshot and the value of every key at that moment; none at the end.
type Item = Option<(Snapshot<Memory>, BTreeMap<u64, u64>)>;
type Snapshots = &'static Queue<Item, 4>;

struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}

fn group_of(key: u64) -> KeyGroup {
    KeyGroup(u16::try_from(key % u64::from(GROUPS)).unwrap())
}

fn leaked_heap(frame_size: u32, bytes: usize) -> Heap<Memory> {
    let arena: Memory = Box::leak(Box::new(Arena::new(vec![0; bytes].leak())));
    let key_groups = KeyGroupRange { first: KeyGroup(0), last: KeyGroup(GROUPS - 1) };
    let options = HeapOptions { frame_size, memory_limit_bytes: 0, key_groups, hash_seed: 3 };
    let mut heap = Heap::in_arena(arena, options).unwrap();
    let bytes = CodecId::variable("bytes", 1);
    assert_eq!(heap.register("o", "s", bytes, bytes), Ok(STATE));
    heap
}

/// Changes the heap and freezes it now and then, beside a map.
fn write(heap: &mut Heap<Memory>, snapshots: &mut Producer<Snapshots>, seed: u64, steps: u32) {
    let (mut random, mut truth) = (Random(seed), BTreeMap::new());
    for _ in 0..steps {
        let (key, value) = (random.below(KEYS), random.below(u64::MAX));
        let done = match random.below(4) {
            0 => heap.remove(STATE, group_of(key), &key.to_le_bytes()).map(|_| _ = truth.remove(&key)),
            _ => heap
                .put(STATE, group_of(key), &key.to_le_bytes(), &value.to_le_bytes())
                .map(|()| _ = truth.insert(key, value)),
        };
        assert!(matches!(done, Ok(()) | Err(HeapError::SnapshotHolds { .. })), "{done:?}");
        if random.below(200) == 0
            && let Ok(snapshot) = heap.freeze()
        {
            // Without room the snapshot is released at once, which is good too.
            drop(snapshots.try_push(Some((snapshot, truth.clone()))));
        }
    }
    let mut end = None;
    while let Err(full) = snapshots.try_push(end) {
        end = full.0;
        thread::yield_now();
    }
    let last = heap.freeze().map(|snapshot| entries_of(&snapshot));
    assert!(last.is_ok_and(|last| last == truth) || heap.freeze().is_err());
}

/// Compares snapshots with their maps, then reads their pages and gives up their key groups one by one.
fn read(snapshots: &mut Consumer<Snapshots>, seed: u64) -> u32 {
    let (mut random, mut count) = (Random(seed), 0);
    loop {
        let Some(item) = snapshots.pop() else {
            thread::yield_now();
            continue;
        };
        let Some((mut snapshot, expected)) = item else { return count };
        count += 1;
        if random.below(2) == 0 {
            assert!(entries_of(&snapshot) == expected, "seed {seed}");
        }
        let first = random.below(u64::from(GROUPS));
        // Not all: some are held until the snapshot goes.
        for index in 0..random.below(u64::from(GROUPS) + 1) {
            let group = group_of(first + index);
            let runs: Vec<_> = snapshot.pages(STATE, group).map(|page| page.guard()).collect();
            assert!(runs.is_empty() || !snapshot.key_group_done(group));
            let sums: Vec<u64> = runs.iter().map(sum).collect();
            assert_eq!(sums, runs.iter().map(sum).collect::<Vec<_>>());
            drop(runs);
            assert!(snapshot.key_group_done(group));
        }
    }
}

fn sum(run: &slackwater_mem::FrozenRun<Memory>) -> u64 {
    run.bytes().iter().map(|byte| u64::from(*byte)).sum()
}

fn entries_of(snapshot: &Snapshot<Memory>) -> BTreeMap<u64, u64> {
    let number = |value: Value<'_>| u64::from_le_bytes(value.as_slice().unwrap().try_into().unwrap());
    let mut entries = BTreeMap::new();
    snapshot.entries(STATE, &mut |_, key, value| {
        entries.insert(number(key), number(value));
    });
    entries
}

#[test]
fn snapshots_read_by_another_thread_are_what_they_were() {
    // With room, and at the limit of the memory.
    for (seed, frame_size, bytes) in [(1, 256, 1 << 20), (2, 256, 100 << 10), (3, 1024, 1 << 20)] {
        let queue: Snapshots = Box::leak(Box::new(Queue::with_bound(2).unwrap()));
        let mut producer = Producer::claim(queue).unwrap();
        let mut consumer = Consumer::claim(queue).unwrap();
        let reader = thread::spawn(move || read(&mut consumer, seed * 77));
        let mut heap = leaked_heap(frame_size, bytes);
        write(&mut heap, &mut producer, seed * 1_000_003, 15_000);
        assert!(reader.join().unwrap() > 10, "seed {seed}: snapshots were read");
    }
}

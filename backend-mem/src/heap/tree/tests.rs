//! Random work on an ordered state against a map, with every snapshot compared to the map as it was.

#![expect(clippy::cast_possible_truncation, reason = "small numbers, or their lowest bits")]

use core::ops::Bound;
use std::collections::BTreeMap;
use std::vec;
use std::vec::Vec;

use slackwater_core::format::page::{PageView, tree_key_len_max};
use slackwater_core::key_group::{KeyGroup, KeyGroupRange};

use crate::codec::CodecId;
use crate::heap::{Heap, HeapError, HeapOptions, ScanCursor, StateId, StateKind, Value};
use crate::snapshot::{PageKind, Snapshot};

const BYTES: CodecId<'static> = CodecId::variable("bytes", 1);
const GROUP: KeyGroup = KeyGroup(0);

type Content = BTreeMap<(u16, Vec<u8>), Vec<u8>>;

fn heap_of(frame_size: u32, memory_limit_bytes: u64, groups: u16) -> (Heap, StateId) {
    let key_groups = KeyGroupRange { first: KeyGroup(0), last: KeyGroup(groups - 1) };
    let options = HeapOptions { frame_size, memory_limit_bytes, key_groups, hash_seed: 42 };
    let mut heap = Heap::new(options).unwrap();
    let state = heap.register_ordered("operator", "state", BYTES, BYTES).unwrap();
    (heap, state)
}

fn owned(value: &Value<'_>) -> Vec<u8> {
    value.chunks().collect::<Vec<_>>().concat()
}

/// The entries of a snapshot, which come in order.
fn content_of(snapshot: &Snapshot, state: StateId) -> Content {
    let mut content = Content::new();
    snapshot.entries(state, &mut |group, key, value| {
        let key = (group.0, owned(&key));
        assert!(content.last_key_value().is_none_or(|(last, _)| *last < key), "entries come in order");
        content.insert(key, owned(&value));
    });
    content
}

/// Checks every page as a reader of the file would, and that the counts agree.
fn check_pages(snapshot: &Snapshot, state: StateId) {
    for group in snapshot.key_groups().iter() {
        let (mut entries, mut children, mut pages) = (0, 0, 0);
        for page in snapshot.pages(state, group) {
            let view = PageView::parse(page.bytes()).unwrap();
            view.check().unwrap();
            assert_eq!((view.header().state_id.get(), view.header().key_group.get()), (state.0, group.0));
            if let PageView::Tree(tree) = view {
                pages += 1;
                match page.kind() {
                    PageKind::Leaf => entries += tree.slots().len(),
                    PageKind::Hash | PageKind::Inner | PageKind::Overflow => {
                        children += tree.slots().len() + 1;
                    }
                }
            }
        }
        assert_eq!(entries, snapshot.group_len(state, group) as usize);
        assert_eq!(children, usize::max(pages, 1) - 1, "each page but the root has one parent");
    }
}

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }
}

/// Keys that share long beginnings, some of them longer than a page, some a beginning of others.
fn key(random: &mut Random, keys: u64, frame_size: u32) -> Vec<u8> {
    let number = random.below(keys);
    let mut key = match number % 4 {
        0 => vec![],
        1 => b"a shared front".to_vec(),
        2 => b"a shared front\0".to_vec(),
        _ => vec![0xff; 9],
    };
    match number % 13 {
        0 => key.resize(tree_key_len_max(frame_size as usize) + (number % 3) as usize, 7),
        1 => key.resize(frame_size as usize * 2, 7),
        2 => key.truncate((number % 7) as usize),
        _ => {}
    }
    key.extend_from_slice(&(number as u32).swap_bytes().to_le_bytes()[2..]);
    key
}

fn value(random: &mut Random, frame_size: u32) -> Vec<u8> {
    let len = match random.below(20) {
        0 => random.below(u64::from(frame_size) * 3),
        1..=3 => random.below(u64::from(frame_size) / 2),
        _ => random.below(24),
    };
    let seed = random.next();
    (0..len).map(|i| (seed.rotate_left(i as u32) & 0xff) as u8).collect()
}

/// Compares some of the ways to read with the map.
fn check_reads(heap: &Heap, state: StateId, truth: &Content, group: u16, key: &[u8]) {
    let got = heap.ordered_get(state, KeyGroup(group), key).unwrap().map(|value| owned(&value));
    assert_eq!(got.as_ref(), truth.get(&(group, key.to_vec())));
    for bound in [Bound::Included(key), Bound::Excluded(key)] {
        let from = bound.map(|key| (group, key.to_vec()));
        let expected = truth.range((from, Bound::Excluded((group + 1, vec![])))).take(5);
        let got = heap.ordered_from(state, KeyGroup(group), bound).unwrap().take(5);
        assert!(got.map(|(key, _)| owned(&key)).eq(expected.map(|((_, key), _)| key.clone())));
    }
    let prefix = &key[..key.len().div_ceil(2)];
    let expected = truth.iter().filter(|((of, key), _)| *of == group && key.starts_with(prefix));
    let got = heap.ordered_within(state, KeyGroup(group), prefix).unwrap();
    assert!(got.map(|(key, _)| owned(&key)).eq(expected.map(|((_, key), _)| key.clone())));
}

fn run(seed: u64, frame_size: u32, steps: u32, keys: u64) {
    let mut random = Random(seed);
    let (mut heap, state) = heap_of(frame_size, 256 << 20, 3);
    let mut truth = Content::new();
    let mut alive: Vec<(Snapshot, Content)> = Vec::new();
    for step in 0..steps {
        let group = random.below(3) as u16;
        let key = key(&mut random, keys, frame_size);
        // Growing and shrinking in turn.
        let puts = if (step / 700) % 2 == 0 { 60 } else { 25 };
        match random.below(100) {
            roll if roll < puts => {
                let value = value(&mut random, frame_size);
                let is_new = heap.ordered_put(state, KeyGroup(group), &key, &value).unwrap();
                assert_eq!(is_new, truth.insert((group, key), value).is_none(), "seed {seed} step {step}");
            }
            roll if roll < 80 => {
                let removed = heap.ordered_remove(state, KeyGroup(group), &key).unwrap();
                assert_eq!(removed, truth.remove(&(group, key)).is_some(), "seed {seed} step {step}");
            }
            80..=86 => {
                let prefix = &key[..key.len() / 3];
                let taken = heap.ordered_take_first(state, KeyGroup(group), prefix, |key, value| {
                    Some((owned(&key), owned(&value)))
                });
                let first = truth.iter().find(|((of, key), _)| *of == group && key.starts_with(prefix));
                let first = first.map(|((_, key), value)| (key.clone(), value.clone()));
                assert_eq!(taken.unwrap(), first, "seed {seed} step {step}");
                first.map(|(key, _)| truth.remove(&(group, key)));
            }
            87..=89 if !alive.is_empty() => {
                let chosen = random.below(alive.len() as u64) as usize;
                let (snapshot, expected) = alive.swap_remove(chosen);
                assert_eq!(content_of(&snapshot, state), expected, "seed {seed} step {step}");
                check_pages(&snapshot, state);
            }
            90..=92 => match heap.freeze() {
                Ok(snapshot) => alive.push((snapshot, truth.clone())),
                Err(error) => assert_eq!((error, alive.len()), (HeapError::TooManySnapshots, 4)),
            },
            _ => check_reads(&heap, state, &truth, group, &key),
        }
        assert_eq!(heap.len(state), truth.len() as u64);
    }
    for (snapshot, expected) in alive {
        assert_eq!(content_of(&snapshot, state), expected, "seed {seed}");
    }
    for (group, key) in truth.keys() {
        assert!(heap.ordered_remove(state, KeyGroup(*group), key).unwrap());
    }
    drop(heap.freeze().unwrap());
    heap.ordered_put(state, GROUP, b"last", b"one").unwrap();
    assert!(heap.memory_use().live_bytes <= 12 * u64::from(frame_size), "{:?}", heap.memory_use());
}

#[test]
fn every_snapshot_of_small_frames_equals_its_moment() {
    (1..=3).for_each(|seed| run(seed * 7919, 256, 2_500, 300));
}

#[test]
fn every_snapshot_of_frames_with_hints_equals_its_moment() {
    run(7919, 1024, 2_500, 900);
    run(104_729, 4096, 2_500, 3_000);
}

/// A key as timers have it: eight bytes of time, the highest first, then eight of the key.
fn timer(time: u64, key: u64) -> Vec<u8> {
    [(time ^ 1 << 63).swap_bytes().to_le_bytes(), key.to_le_bytes()].concat()
}

fn pages_of(heap: &mut Heap, state: StateId) -> (usize, u8) {
    let snapshot = heap.freeze().unwrap();
    check_pages(&snapshot, state);
    let pages = snapshot.pages(state, GROUP);
    (pages.clone().count(), pages.map(|page| page.depth()).max().unwrap_or(0))
}

#[test]
fn keys_in_order_fill_their_pages() {
    for frame_size in [1024, 4096] {
        let room = frame_size as usize - 128;
        for step in [1_i64, -1] {
            let (mut heap, state) = heap_of(frame_size, 64 << 20, 1);
            let mut time = 1_700_000_000_000_i64;
            for number in 0..20_000 {
                time += step * (number % 5);
                let key = timer(time.cast_unsigned(), number.cast_unsigned().wrapping_mul(77));
                heap.ordered_put(state, GROUP, &key, &[]).unwrap();
            }
            let (pages, levels) = pages_of(&mut heap, state);
            // A slot, a length, a key of which four bytes and more are the page's.
            let full = 20_000 * (8 + 2 + 16 - 4) / room;
            assert!(pages * 10 <= full * 11, "{pages} pages of {frame_size}, {full} would be full");
            assert!(levels >= 1);
        }
    }
}

#[test]
fn keys_alike_for_longer_than_a_page_stay_apart() {
    for frame_size in [256_u32, 4096] {
        let (mut heap, state) = heap_of(frame_size, 64 << 20, 1);
        let mut truth = Content::new();
        let mut random = Random(5);
        for number in 0..400_u64 {
            let mut key = vec![b'k'; frame_size as usize + 100];
            key.extend_from_slice(&random.below(300).to_le_bytes());
            key.truncate(key.len() - (number % 9) as usize);
            heap.ordered_put(state, GROUP, &key, &number.to_le_bytes()).unwrap();
            truth.insert((0, key), number.to_le_bytes().to_vec());
            if number % 40 == 0 {
                let (_, last) = truth.keys().nth(truth.len() / 2).unwrap();
                check_reads(&heap, state, &truth, 0, last);
            }
        }
        let snapshot = heap.freeze().unwrap();
        check_pages(&snapshot, state);
        assert_eq!(content_of(&snapshot, state), truth);
        // Separators have chains of their own here: with the last entry the last of them must be gone.
        for (_, key) in truth.keys() {
            assert!(heap.ordered_remove(state, GROUP, key).unwrap());
        }
        drop(snapshot);
        drop(heap.freeze().unwrap());
        heap.ordered_put(state, GROUP, b"k", b"v").unwrap();
        assert!(heap.memory_use().live_bytes <= 12 * u64::from(frame_size), "{:?}", heap.memory_use());
    }
}

#[test]
fn pages_that_become_empty_are_given_back() {
    for frame_size in [256, 4096] {
        let (mut heap, state) = heap_of(frame_size, 64 << 20, 1);
        for number in 0..30_000_u64 {
            heap.ordered_put(state, GROUP, &timer(number, number % 7), &[]).unwrap();
        }
        let (pages, levels) = pages_of(&mut heap, state);
        assert!(levels >= 2, "{levels} levels of frames of {frame_size}");
        for number in 0..29_900_u64 {
            let taken = heap.ordered_take_first(state, GROUP, &[], |key, _| Some(owned(&key))).unwrap();
            assert_eq!(taken, Some(timer(number, number % 7)));
        }
        let (left, levels) = pages_of(&mut heap, state);
        assert!(left <= 3 + pages / 100, "{left} pages of {pages}");
        assert!(frame_size == 256 || levels == 0, "{levels} levels for a hundred entries");
    }
}

#[test]
fn the_memory_limit_is_an_error_that_changes_nothing() {
    for frame_size in [256_u32, 4096] {
        let (mut heap, state) = heap_of(frame_size, u64::from(frame_size) * 160, 2);
        let mut truth = Content::new();
        let mut snapshots = Vec::new();
        let mut refused = 0;
        let mut random = Random(99);
        for number in 0..12_000_u32 {
            let group = (number % 2) as u16;
            let key = key(&mut random, 4_000, frame_size);
            let value = vec![number as u8; if number % 17 == 0 { frame_size as usize * 3 } else { 9 }];
            let done = match number % 5 {
                4 => heap.ordered_remove(state, KeyGroup(group), &key).map(|removed| {
                    assert_eq!(removed, truth.remove(&(group, key)).is_some());
                }),
                _ => heap.ordered_put(state, KeyGroup(group), &key, &value).map(|is_new| {
                    assert_eq!(is_new, truth.insert((group, key), value).is_none());
                }),
            };
            match done {
                Ok(()) => {}
                Err(HeapError::MemoryLimit { .. } | HeapError::SnapshotHolds { .. }) => refused += 1,
                Err(error) => panic!("{error}"),
            }
            if number % 1_500 == 0 {
                snapshots.extend(heap.freeze().ok().map(|snapshot| (snapshot, truth.clone())));
            }
            if number % 2_100 == 2_099 {
                let (snapshot, expected) = snapshots.remove(0);
                assert_eq!(content_of(&snapshot, state), expected);
            }
        }
        assert!(refused > 100, "the limit was reached: {refused}");
        snapshots.clear();
        let snapshot = heap.freeze().unwrap();
        check_pages(&snapshot, state);
        assert_eq!(content_of(&snapshot, state), truth);
        drop(snapshot);
        for (group, key) in truth.keys() {
            assert!(heap.ordered_remove(state, KeyGroup(*group), key).unwrap());
        }
        assert!(heap.memory_use().live_bytes <= 12 * u64::from(frame_size), "{:?}", heap.memory_use());
    }
}

#[test]
fn a_state_is_used_as_it_was_registered() {
    let (mut heap, ordered) = heap_of(256, 1 << 20, 1);
    let hashed = heap.register("operator", "hashed", BYTES, BYTES).unwrap();
    let is_ordered = HeapError::OtherKind { state: ordered, kind: StateKind::Ordered };
    let is_hashed = HeapError::OtherKind { state: hashed, kind: StateKind::Hash };
    assert_eq!(heap.register("operator", "state", BYTES, BYTES), Err(is_ordered));
    assert_eq!(heap.register_ordered("operator", "hashed", BYTES, BYTES), Err(is_hashed));
    assert_eq!(heap.put(ordered, GROUP, b"k", b"v"), Err(is_ordered));
    assert_eq!(heap.scan(ordered, &mut ScanCursor::default(), &mut |_, _| {}), Err(is_ordered));
    assert_eq!(heap.ordered_put(hashed, GROUP, b"k", b"v"), Err(is_hashed));
    assert_eq!(heap.ordered_get(hashed, GROUP, b"k").err(), Some(is_hashed));
    heap.ordered_put(ordered, GROUP, b"k", b"v").unwrap();
    assert!(heap.get(ordered, GROUP, b"k").unwrap().is_none());
    assert_eq!(heap.remove(ordered, GROUP, b"k"), Ok(false));
    assert!(heap.get_mut(ordered, GROUP, b"k").unwrap().is_none());
    assert_eq!(heap.freeze().unwrap().states().next().unwrap().kind, StateKind::Ordered);
}

#[test]
fn parts_of_a_key_are_one_value() {
    let (mut heap, state) = heap_of(256, 1 << 20, 1);
    let front = b"twenty bytes in front";
    for number in 0..5_u32 {
        let key = [front.as_slice(), &vec![number as u8; number as usize * 40]].concat();
        heap.ordered_put(state, GROUP, &key, &[]).unwrap();
    }
    for (number, (key, _)) in heap.ordered_within(state, GROUP, front).unwrap().enumerate() {
        let bytes = owned(&key);
        assert_eq!((bytes.len(), key.len()), (front.len() + number * 40, bytes.len()));
        for at in 0..=bytes.len() {
            let (front, back) = key.split_at_checked(at).unwrap();
            assert_eq!((owned(&front), front.len()), (bytes[..at].to_vec(), at));
            assert_eq!((owned(&back), back.len()), (bytes[at..].to_vec(), bytes.len() - at));
            assert!(key.begins_with(&bytes[..at]));
            assert!(at == 0 || !key.begins_with(&[&bytes[..at - 1], b"!"].concat()));
        }
        assert!(key.is(&bytes) && key.split_at_checked(bytes.len() + 1).is_none());
        assert!(!key.begins_with(&[bytes.as_slice(), b"!"].concat()));
    }
}

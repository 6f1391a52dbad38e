use std::collections::BTreeMap;
use std::string::ToString;
use std::vec;
use std::vec::Vec;

use slackwater_core::format::page::VALUE_LEN_MAX;
use slackwater_core::key_group::{KeyGroup, KeyGroupRange};

use crate::codec::CodecId;
use crate::heap::{Heap, HeapError, HeapOptions, StateId, Value};
use crate::snapshot::Snapshot;

const BYTES: CodecId<'static> = CodecId::variable("bytes", 1);
const GROUP: KeyGroup = KeyGroup(0);

type Content = BTreeMap<Vec<u8>, Vec<u8>>;

fn heap(frame_size: u32, memory_limit_bytes: u64) -> (Heap, StateId) {
    let key_groups = KeyGroupRange { first: GROUP, last: GROUP };
    let mut heap =
        Heap::new(HeapOptions { frame_size, memory_limit_bytes, key_groups, hash_seed: 5 }).unwrap();
    let state = heap.register("op", "s", BYTES, BYTES).unwrap();
    (heap, state)
}

fn owned(value: Value<'_>) -> Vec<u8> {
    value.chunks().collect::<Vec<_>>().concat()
}

fn content_of(snapshot: &Snapshot, state: StateId) -> Content {
    let mut content = Content::new();
    snapshot.entries(state, &mut |_, key, value| {
        assert_eq!(content.insert(owned(key), owned(value)), None);
    });
    content
}

#[test]
fn bytes_are_appended_whatever_the_length_before() {
    for frame_size in [256, 1024, 4096, 16384] {
        let (mut heap, state) = heap(frame_size, 8 << 20);
        for step in [1, 7, 64, 1000, 9000] {
            let key = step.to_string().into_bytes();
            let mut expected = Vec::new();
            for round in 0..200_u8 {
                let more: Vec<u8> = vec![round; step];
                if expected.len() + step > 3 * frame_size as usize + 9000 {
                    break;
                }
                heap.append(state, GROUP, &key, &more).unwrap();
                expected.extend_from_slice(&more);
                assert!(
                    heap.get(state, GROUP, &key).unwrap().unwrap().is(&expected),
                    "{frame_size} {step} {round}"
                );
            }
            heap.remove(state, GROUP, &key).unwrap();
        }
        assert!(heap.is_empty(state));
    }
}

fn xorshift(random: &mut u64) -> u64 {
    *random ^= *random << 13;
    *random ^= *random >> 7;
    *random ^= *random << 17;
    *random
}

/// Random work with appends against a map; every snapshot is compared to the map as it was. Where memory is short,
/// what fails changes nothing.
fn run(seed: u64, frame_size: u32, memory_limit_bytes: u64) -> usize {
    let (mut heap, state) = heap(frame_size, memory_limit_bytes);
    let (mut random, mut truth, mut failures) = (seed, Content::new(), 0);
    let mut alive: Vec<(Snapshot, Content)> = Vec::new();
    for step in 0..4_000_u32 {
        let number = xorshift(&mut random) % 24;
        let mut key = number.to_le_bytes().to_vec();
        // Keys that lie inline, those that do only beside a reference, and those in chains.
        key.resize(
            [8, frame_size as usize / 4 - 20, frame_size as usize / 4 - 9, 700][number as usize % 4],
            7,
        );
        let len = match xorshift(&mut random) % 8 {
            0 => xorshift(&mut random) % (3 * u64::from(frame_size)),
            1 => xorshift(&mut random) % u64::from(frame_size / 4),
            _ => xorshift(&mut random) % 24,
        };
        let bytes: Vec<u8> = (0..len).map(|at| (at + u64::from(step)).to_le_bytes()[0]).collect();
        let done = match xorshift(&mut random) % 100 {
            0..=69 => heap.append(state, GROUP, &key, &bytes).map(|()| {
                truth.entry(key.clone()).or_default().extend_from_slice(&bytes);
            }),
            70..=79 => heap.put(state, GROUP, &key, &bytes).map(|()| {
                truth.insert(key.clone(), bytes);
            }),
            80..=89 => heap.remove(state, GROUP, &key).map(|removed| {
                assert_eq!(removed, truth.remove(&key).is_some());
            }),
            90..=93 => {
                if let Ok(snapshot) = heap.freeze() {
                    alive.push((snapshot, truth.clone()));
                }
                Ok(())
            }
            _ => {
                if !alive.is_empty() {
                    let (snapshot, expected) = alive.remove(0);
                    assert!(content_of(&snapshot, state) == expected, "seed {seed} step {step}");
                }
                Ok(())
            }
        };
        if let Err(error) = done {
            let short = matches!(error, HeapError::MemoryLimit { .. } | HeapError::SnapshotHolds { .. });
            assert!(short, "{error}");
            failures += 1;
            alive.clear();
        }
        let value = heap.get(state, GROUP, &key).unwrap().map(owned);
        assert!(value.as_ref() == truth.get(&key), "seed {seed} step {step}");
    }
    alive.push((heap.freeze().unwrap(), truth.clone()));
    assert!(alive.iter().all(|(snapshot, expected)| content_of(snapshot, state) == *expected), "seed {seed}");
    alive.clear();
    for key in truth.keys() {
        heap.remove(state, GROUP, key).unwrap();
    }
    drop(heap.freeze().unwrap());
    heap.put(state, GROUP, b"last", b"one").unwrap();
    assert!(heap.memory_use().live_bytes <= 12 * u64::from(frame_size), "{:?}", heap.memory_use());
    failures
}

#[test]
fn appends_agree_with_a_map_and_leave_snapshots_alone() {
    for (seed, frame_size) in [(11, 256), (12, 256), (13, 1024), (14, 4096)] {
        assert_eq!(run(seed, frame_size, 64 << 20), 0);
    }
}

#[test]
fn an_append_that_finds_no_memory_changes_nothing() {
    let failures =
        [(21, 256, 28 << 10), (22, 1024, 90 << 10)].map(|(seed, size, limit)| run(seed, size, limit));
    assert!(failures.iter().all(|failures| *failures > 20), "{failures:?}");
}

#[test]
fn appending_to_a_long_value_touches_two_pages() {
    let (mut heap, state) = heap(4096, 64 << 20);
    heap.put(state, GROUP, b"k", &vec![1; 20 << 20]).unwrap();
    heap.append(state, GROUP, b"k", &[2; 10]).unwrap();
    let before = heap.memory_use();
    let snapshot = heap.freeze().unwrap();
    for _ in 0..1_000 {
        heap.append(state, GROUP, b"k", &[3; 2]).unwrap();
    }
    // The record's page, the last page, the overflow table, and the tables that lead there.
    let copied = heap.memory_use().retired_bytes - before.retired_bytes;
    assert!(copied <= 14 * 4096, "{copied}");
    assert_eq!(heap.get(state, GROUP, b"k").unwrap().unwrap().len(), (20 << 20) + 2_010);
    drop(snapshot);
}

#[test]
fn a_value_grows_to_the_longest_possible_and_no_further() {
    let (mut heap, state) = heap(16384, 160 << 20);
    heap.put(state, GROUP, b"k", &vec![1; VALUE_LEN_MAX - 5]).unwrap();
    let refused = heap.append(state, GROUP, b"k", &[2; 6]);
    assert_eq!(refused, Err(HeapError::ValueTooLarge { len: VALUE_LEN_MAX + 1, len_max: VALUE_LEN_MAX }));
    heap.append(state, GROUP, b"k", &[2; 5]).unwrap();
    assert_eq!(heap.get(state, GROUP, b"k").unwrap().unwrap().len(), VALUE_LEN_MAX);
}

#[test]
fn values_of_one_width_do_not_grow() {
    let (mut heap, _) = heap(256, 1 << 20);
    let number = CodecId::fixed("u32", 1, 4);
    let state = heap.register("op", "fixed", number, number).unwrap();
    heap.append(state, GROUP, &[1; 4], &[2; 4]).unwrap();
    let refused = heap.append(state, GROUP, &[1; 4], &[2; 4]);
    assert_eq!(refused, Err(HeapError::OtherWidth { state, width: (4, 4), len: (4, 8) }));
    assert!(heap.get(state, GROUP, &[1; 4]).unwrap().unwrap().is(&[2; 4]));
}

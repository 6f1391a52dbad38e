//! Cases E-03 and E-04 of users' reports: iterating while the state changes, keys that collide.

use super::*;

fn put(heap: &mut Heap, state: StateId, number: u32) {
    heap.put(state, KeyGroup(0), &number.to_le_bytes(), &number.to_le_bytes()).unwrap();
}

/// Scans the state and calls `change` after each page; how often each key was met.
fn scan(heap: &mut Heap, state: StateId, change: &mut dyn FnMut(&mut Heap, &[u32])) -> BTreeMap<u32, u32> {
    let (mut cursor, mut met) = (ScanCursor::default(), BTreeMap::new());
    let mut more = true;
    while more {
        let mut page = Vec::new();
        more = heap
            .scan(state, &mut cursor, &mut |key, value| {
                assert_eq!(owned(&key), owned(&value));
                page.push(u32::from_le_bytes(owned(&key).try_into().unwrap()));
            })
            .unwrap();
        page.iter().for_each(|key| *met.entry(*key).or_insert(0) += 1);
        change(heap, &page);
    }
    met
}

#[test]
fn e03_a_scan_of_a_growing_state_meets_every_old_key_once() {
    for with_snapshot in [false, true] {
        for mask in [u64::MAX, 0xff << 56] {
            let (mut heap, state) = heap(256, 1);
            heap.hasher.mask = mask;
            (0..1_000).for_each(|number| put(&mut heap, state, number));
            let snapshot = with_snapshot.then(|| heap.freeze().unwrap());
            let (mut since, mut fresh) = (0, 1_000_000);
            let met = scan(&mut heap, state, &mut |heap, page| {
                since += page.len();
                while since >= 10 {
                    (fresh..fresh + 30).for_each(|number| put(heap, state, number));
                    (since, fresh) = (since - 10, fresh + 30);
                }
            });
            assert!(fresh > 1_002_000, "the state has grown to three times its size");
            assert!((0..1_000).all(|number| met.get(&number) == Some(&1)));
            assert!(met.values().all(|times| *times == 1));
            if let Some(snapshot) = snapshot {
                assert_eq!(content_of(&snapshot, state).len(), 1_000);
            }
        }
    }
}

#[test]
fn e03_keys_removed_during_a_scan_stay_removed() {
    for with_snapshot in [false, true] {
        let (mut heap, state) = heap(256, 1);
        (0..1_000).for_each(|number| put(&mut heap, state, number));
        let snapshot = with_snapshot.then(|| heap.freeze().unwrap());
        let mut fresh = 1_000_001;
        let met = scan(&mut heap, state, &mut |heap, page| {
            for even in page.iter().filter(|key| **key % 2 == 0) {
                assert!(heap.remove(state, KeyGroup(0), &even.to_le_bytes()).unwrap());
            }
            for _ in 0..20 {
                put(heap, state, fresh);
                fresh += 2;
            }
        });
        assert!((0..1_000).all(|number| met.get(&number) == Some(&1)));
        let left = content_of(&heap.freeze().unwrap(), state);
        let old: Vec<u32> =
            left.keys().map(|(_, key)| u32::from_le_bytes(key[..].try_into().unwrap())).collect();
        assert!(old.iter().all(|key| key % 2 == 1), "no removed key has come back");
        assert_eq!(old.iter().filter(|key| **key < 1_000).count(), 500);
        drop(snapshot);
    }
}

#[test]
fn e03_keys_of_one_bucket_are_met_once_while_more_join_them() {
    for mask in [0, 3 << 62] {
        let (mut heap, state) = heap(256, 1);
        heap.hasher.mask = mask;
        (0..7).for_each(|number| put(&mut heap, state, number));
        let mut joined = false;
        let met = scan(&mut heap, state, &mut |heap, _| {
            if !core::mem::replace(&mut joined, true) {
                (100..140).for_each(|number| put(heap, state, number));
            }
        });
        assert!((0..7).all(|number| met.get(&number) == Some(&1)));
        assert!(met.values().all(|times| *times == 1));
    }
}

/// How many pages a state has, and how many of them hang behind others.
fn pages(heap: &mut Heap, state: StateId) -> (usize, usize) {
    let snapshot = heap.freeze().unwrap();
    let linked = snapshot.pages(state, KeyGroup(0)).filter(|page| page.lpn() >> 31 != 0).count();
    (snapshot.pages(state, KeyGroup(0)).count(), linked)
}

#[test]
fn e04_strings_that_collide_in_java_cost_what_others_do() {
    let colliding = |number: u32| -> Vec<u8> {
        (0..14).flat_map(|bit| if number >> bit & 1 == 0 { *b"Aa" } else { *b"BB" }).collect()
    };
    let others = |number: u32| -> Vec<u8> {
        let mut key = u64::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes().repeat(4);
        key.truncate(28);
        key
    };
    let shape = |key: &dyn Fn(u32) -> Vec<u8>| {
        let (mut heap, state) = heap(4096, 1);
        for number in 0..16_384 {
            heap.put(state, KeyGroup(0), &key(number), &number.to_le_bytes()).unwrap();
        }
        for number in 0..16_384 {
            let value = heap.get(state, KeyGroup(0), &key(number)).unwrap();
            assert!(value.is_some_and(|value| value.is(&number.to_le_bytes())));
        }
        let shape = pages(&mut heap, state);
        for number in 0..16_384 {
            assert!(heap.remove(state, KeyGroup(0), &key(number)).unwrap());
        }
        shape
    };
    let (all, linked) = shape(&colliding);
    let (all_others, _) = shape(&others);
    assert_eq!(linked, 0, "pages behind others are looked through one after the other");
    assert!(all <= all_others * 3 / 2, "{all} pages, {all_others} for other keys");
}

#[test]
fn e04_keys_of_one_chain_are_the_latest_live_and_the_first_in_the_snapshot() {
    for frame_size in [256, 4096] {
        for before in [0, 40] {
            let (mut heap, state) = heap(frame_size, 1);
            heap.hasher.mask = 0;
            let set = |heap: &mut Heap, key: &[u8], value: u32| {
                heap.put(state, KeyGroup(0), key, &value.to_le_bytes()).unwrap();
            };
            // Enough others that the three lie in different pages of the chain.
            (0..before).for_each(|number: u32| set(&mut heap, &number.to_le_bytes(), number));
            let [k1, k2, k3] = [b"k1", b"k2", b"k3"];
            for (key, value) in [(k1, 1), (k2, 2), (k3, 3)] {
                set(&mut heap, key, value);
                (0..before).for_each(|number| set(&mut heap, &(value << 16 | number).to_le_bytes(), number));
            }
            let snapshot = heap.freeze().unwrap();
            let expected = content_of(&snapshot, state);
            for (key, value) in [(k3, 30), (k2, 20), (k1, 10), (k2, 21)] {
                set(&mut heap, key, value);
            }
            assert!(heap.remove(state, KeyGroup(0), k3).unwrap());
            set(&mut heap, k3, 31);
            for (key, value) in [(k1, 10_u32), (k2, 21), (k3, 31)] {
                assert!(heap.get(state, KeyGroup(0), key).unwrap().unwrap().is(&value.to_le_bytes()));
            }
            assert_eq!(content_of(&snapshot, state), expected);
            for (key, value) in [(k1, 1_u32), (k2, 2), (k3, 3)] {
                assert_eq!(expected.get(&(0, key.to_vec())).unwrap()[..], value.to_le_bytes());
            }
        }
    }
}

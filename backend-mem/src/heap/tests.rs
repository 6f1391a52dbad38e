#![expect(clippy::cast_possible_truncation, reason = "small numbers, or their lowest bits")]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::vec;
use std::vec::Vec;

use slackwater_core::format::page::PageView;
use slackwater_core::key_group::{KeyGroup, KeyGroupRange};

use super::*;
use crate::arena::Arena;
use crate::snapshot::{FrozenRun, Snapshot};

mod cases;
mod early_release;
mod limits;
mod memory;
mod model;
mod pressure;

const BYTES: CodecId<'static> = CodecId::variable("bytes", 1);

fn options(frame_size: u32, memory_limit_bytes: u64, groups: u16) -> HeapOptions {
    let key_groups = KeyGroupRange { first: KeyGroup(0), last: KeyGroup(groups - 1) };
    HeapOptions { frame_size, memory_limit_bytes, key_groups, hash_seed: 42 }
}

fn heap(frame_size: u32, groups: u16) -> (Heap, StateId) {
    let mut heap = Heap::new(options(frame_size, 256 << 20, groups)).unwrap();
    let state = heap.register("operator", "state", BYTES, BYTES).unwrap();
    (heap, state)
}

fn owned(value: &Value<'_>) -> Vec<u8> {
    value.chunks().collect::<Vec<_>>().concat()
}

type Content = BTreeMap<(u16, Vec<u8>), Vec<u8>>;

fn content_of<A: ArenaHandle>(snapshot: &Snapshot<A>, state: StateId) -> Content {
    let mut content = Content::new();
    snapshot.entries(state, &mut |group, key, value| {
        let before = content.insert((group.0, owned(&key)), owned(&value));
        assert!(before.is_none(), "an entry is visited once");
    });
    content
}

/// Checks every page as a reader of the file would, and that the counts agree.
fn check_pages<A: ArenaHandle>(snapshot: &Snapshot<A>, state: StateId) {
    let mut total = 0;
    for group in snapshot.key_groups().iter() {
        let mut records = 0;
        let mut lpns = BTreeMap::new();
        for page in snapshot.pages(state, group) {
            let view = PageView::parse(page.bytes()).unwrap();
            view.check().unwrap();
            assert!(lpns.insert(page.lpn(), page.kind()).is_none(), "an lpn names one page");
            assert_eq!((view.header().state_id.get(), view.header().key_group.get()), (state.0, group.0));
            match view {
                PageView::Hash(page) => records += page.records().count(),
                PageView::Tree(page) if !page.is_inner() => records += page.entries().count(),
                PageView::Tree(_) | PageView::Overflow(_) => {}
            }
        }
        assert_eq!(records, snapshot.group_len(state, group) as usize);
        total += records as u64;
    }
    assert_eq!(total, snapshot.states().nth(usize::from(state.0)).unwrap().entries);
}

#[test]
fn what_is_put_is_found_until_it_is_removed() {
    for frame_size in [256, 4096, 16384] {
        let (mut heap, state) = heap(frame_size, 4);
        for number in 0..5_000_u32 {
            let group = KeyGroup((number % 4) as u16);
            heap.put(state, group, &number.to_le_bytes(), &(u64::from(number) * 3).to_le_bytes()).unwrap();
        }
        assert_eq!(heap.len(state), 5_000);
        for number in 0..5_000_u32 {
            let group = KeyGroup((number % 4) as u16);
            let value = heap.get(state, group, &number.to_le_bytes()).unwrap().unwrap();
            assert!(value.is(&(u64::from(number) * 3).to_le_bytes()));
        }
        assert!(heap.get(state, KeyGroup(1), &4_u32.to_le_bytes()).unwrap().is_none());
        let snapshot = heap.freeze().unwrap();
        check_pages(&snapshot, state);
        for number in 0..5_000_u32 {
            assert!(heap.remove(state, KeyGroup((number % 4) as u16), &number.to_le_bytes()).unwrap());
        }
        assert!(!heap.remove(state, KeyGroup(0), &0_u32.to_le_bytes()).unwrap());
        assert_eq!((heap.len(state), content_of(&snapshot, state).len()), (0, 5_000));
    }
}

#[test]
fn keys_and_values_of_any_length_come_back() {
    for frame_size in [256_u32, 4096] {
        let (mut heap, state) = heap(frame_size, 1);
        let quarter = frame_size as usize / 4;
        let lens = [0, 1, quarter - 17, quarter - 16, quarter - 1, quarter, quarter + 1, 5_000, 100_000];
        let bytes = |len: usize, salt: usize| (0..len).map(|i| (i * 7 + salt) as u8).collect::<Vec<_>>();
        for round in 0..3 {
            for key_len in lens {
                for value_len in lens {
                    let key = [bytes(key_len, 1), (value_len as u32).to_le_bytes().to_vec()].concat();
                    let value = bytes(value_len + round * 3, round);
                    heap.put(state, KeyGroup(0), &key, &value).unwrap();
                    assert!(heap.get(state, KeyGroup(0), &key).unwrap().unwrap().is(&value));
                }
            }
            check_pages(&heap.freeze().unwrap(), state);
        }
        assert_eq!(heap.len(state), (lens.len() * lens.len()) as u64);
        for key_len in lens {
            for value_len in lens {
                let key = [bytes(key_len, 1), (value_len as u32).to_le_bytes().to_vec()].concat();
                assert!(heap.get(state, KeyGroup(0), &key).unwrap().unwrap().is(&bytes(value_len + 6, 2)));
                assert!(heap.remove(state, KeyGroup(0), &key).unwrap());
            }
        }
        assert_eq!(heap.len(state), 0);
    }
}

#[test]
fn keys_with_equal_hashes_are_told_apart() {
    for mask in [0, 3 << 62, 0xffff_ffff] {
        let (mut heap, state) = heap(256, 1);
        heap.hasher.mask = mask;
        for number in 0..600_u32 {
            heap.put(state, KeyGroup(0), &number.to_le_bytes(), &[1, 2]).unwrap();
        }
        let long = vec![9; 900];
        heap.put(state, KeyGroup(0), &long, &long).unwrap();
        let snapshot = heap.freeze().unwrap();
        check_pages(&snapshot, state);
        for number in 0..600_u32 {
            heap.put(state, KeyGroup(0), &number.to_le_bytes(), &[3; 20]).unwrap();
            assert!(heap.get(state, KeyGroup(0), &number.to_le_bytes()).unwrap().unwrap().is(&[3; 20]));
        }
        assert!(heap.get(state, KeyGroup(0), &long).unwrap().unwrap().is(&long));
        assert!(heap.get(state, KeyGroup(0), &[8; 900]).unwrap().is_none());
        assert_eq!(heap.len(state), 601);
        assert_eq!(content_of(&snapshot, state).len(), 601);
        check_pages(&heap.freeze().unwrap(), state);
        for number in 0..600_u32 {
            assert!(heap.remove(state, KeyGroup(0), &number.to_le_bytes()).unwrap());
        }
        assert_eq!(heap.len(state), 1);
    }
}

#[test]
fn a_scan_meets_every_lasting_entry_once_whatever_changes() {
    let (mut heap, state) = heap(256, 3);
    let put = |heap: &mut Heap, number: u32| {
        heap.put(state, KeyGroup((number % 3) as u16), &number.to_le_bytes(), &[0; 8]).unwrap();
    };
    (0..2_000).for_each(|number| put(&mut heap, number));
    let mut cursor = ScanCursor::default();
    let mut seen = BTreeMap::new();
    let mut fresh = 10_000;
    let mut more = true;
    while more {
        more = heap
            .scan(state, &mut cursor, &mut |key, _| {
                *seen.entry(u32::from_le_bytes(owned(&key).try_into().unwrap())).or_insert(0) += 1;
            })
            .unwrap();
        for number in fresh..fresh + 40 {
            put(&mut heap, number);
        }
        for number in fresh.saturating_sub(40).max(10_000)..fresh {
            heap.remove(state, KeyGroup((number % 3) as u16), &number.to_le_bytes()).unwrap();
        }
        fresh += 40;
    }
    assert!((0..2_000).all(|number| seen.get(&number) == Some(&1)));
    assert!(seen.values().all(|times| *times == 1));
}

#[test]
fn states_keep_their_names_and_codecs() {
    let mut heap = Heap::new(options(256, 1 << 20, 1)).unwrap();
    let long = "x".repeat(1_000);
    let first = heap.register("op", "a", BYTES, BYTES).unwrap();
    let second = heap.register("op", &long, BYTES, CodecId::variable("i64", 7)).unwrap();
    assert_eq!(heap.register("op", "a", BYTES, BYTES), Ok(first));
    assert_eq!(heap.state("op", &long), Some(second));
    assert_eq!(heap.state("other", "a"), None);
    let other = CodecId::variable("bytes", 2);
    assert_eq!(
        heap.register("op", "a", BYTES, other),
        Err(HeapError::OtherCodec { state: first, key: false })
    );
    assert_eq!(
        heap.register("op", "a", other, BYTES),
        Err(HeapError::OtherCodec { state: first, key: true })
    );
    let snapshot = heap.freeze().unwrap();
    heap.register("op", "b", BYTES, BYTES).unwrap();
    let states: Vec<_> = snapshot.states().collect();
    assert_eq!(states.len(), 2);
    assert_eq!((states[1].name, states[1].value), (&*long, CodecId::variable("i64", 7)));
    assert_eq!(
        heap.get(StateId(9), KeyGroup(0), &[]).err(),
        Some(HeapError::UnknownState { state: StateId(9) })
    );
    assert!(matches!(heap.get(first, KeyGroup(1), &[]), Err(HeapError::ForeignKeyGroup { .. })));
}

#[test]
fn a_heap_lives_in_memory_of_the_caller() {
    let mut memory = vec![0xa5_u8; 64 * 1024];
    let arena = Arena::new(&mut memory[3..]);
    let mut heap = Heap::in_arena(&arena, options(256, 0, 2)).unwrap();
    assert_eq!(Heap::in_arena(&arena, options(256, 0, 2)).err(), Some(HeapError::ArenaInUse));
    let state = heap.register("op", "s", BYTES, BYTES).unwrap();
    for number in 0..300_u32 {
        heap.put(state, KeyGroup(1), &number.to_le_bytes(), &number.to_le_bytes()).unwrap();
    }
    let snapshot = heap.freeze().unwrap();
    heap.put(state, KeyGroup(1), &7_u32.to_le_bytes(), &[1]).unwrap();
    drop(heap);
    check_pages(&snapshot, state);
    assert_eq!(content_of(&snapshot, state).len(), 300);
}

#[test]
fn a_snapshot_outlives_its_heap_and_guards_outlive_the_snapshot() {
    use slackwater_core::durable::Frozen;
    let (mut heap, state) = heap(4096, 1);
    for number in 0..3_000_u32 {
        heap.put(state, KeyGroup(0), &number.to_le_bytes(), &[7; 8]).unwrap();
    }
    let snapshot = heap.freeze().unwrap();
    let pages: Vec<_> = snapshot.pages(state, KeyGroup(0)).map(|page| page.bytes().to_vec()).collect();
    let mut runs: Vec<FrozenRun> = Vec::new();
    for page in snapshot.pages(state, KeyGroup(0)) {
        if !runs.last_mut().is_some_and(|run| run.try_extend(&page)) {
            runs.push(page.guard());
        }
    }
    drop(snapshot);
    for number in 0..3_000_u32 {
        heap.put(state, KeyGroup(0), &number.to_le_bytes(), &[8; 8]).unwrap();
    }
    let of_runs: Vec<u8> = runs.iter().flat_map(|run| run.bytes().to_vec()).collect();
    assert_eq!(of_runs, pages.concat());
    let before = heap.memory_use();
    assert!(before.retired_bytes > 0);
    drop(runs);
    let last = heap.freeze().unwrap();
    drop(heap);
    assert_eq!(content_of(&last, state).len(), 3_000);
}

#[test]
fn a_snapshot_goes_to_another_thread_while_the_heap_goes_on() {
    let (mut heap, state) = heap(256, 2);
    let mut truth = Content::new();
    for round in 0..20_u32 {
        for number in 0..400_u32 {
            let (group, key) = ((number % 2) as u16, number.to_le_bytes().to_vec());
            let value = (number * round).to_le_bytes().to_vec();
            heap.put(state, KeyGroup(group), &key, &value).unwrap();
            truth.insert((group, key), value);
        }
        let snapshot = heap.freeze().unwrap();
        let (expected, reader) = (truth.clone(), std::thread::spawn(move || content_of(&snapshot, state)));
        for number in 0..400_u32 {
            heap.put(state, KeyGroup((number % 2) as u16), &number.to_le_bytes(), &[0xff; 30]).unwrap();
        }
        assert_eq!(reader.join().unwrap(), expected);
    }
    let handle: &Arc<Arena<'static>> = heap.frames.handle();
    assert_eq!(Arc::strong_count(handle), 1);
}

#[test]
fn keys_in_the_order_of_their_hashes_make_no_chains_of_pages() {
    // The order in which a restore brings them.
    let mut keys: Vec<[u8; 8]> = (0..20_000_u64).map(u64::to_le_bytes).collect();
    keys.sort_by_key(|key| hash_key(42, key));
    let (mut heap, state) = heap(4096, 1);
    for key in &keys {
        heap.put(state, KeyGroup(0), key, key).unwrap();
    }
    let snapshot = heap.freeze().unwrap();
    let linked = snapshot.pages(state, KeyGroup(0)).filter(|page| page.lpn() >> 31 != 0).count();
    assert_eq!(linked, 0, "pages behind others are looked through one after the other");
}

use std::collections::BTreeMap;
use std::io::{BufWriter, Write};
use std::string::{String, ToString};
use std::vec;
use std::vec::Vec;

use slackwater_core::format::segment::Distribution;
use slackwater_core::key_group::{KeyGroup, KeyGroupRange};

use super::*;
use crate::codec::{Bytes, Codec, Malformed, Plain, Utf8};
use crate::heap::{Heap, HeapError, HeapOptions, StateId, Value};
use crate::snapshot::Snapshot;
use crate::state::StateError;

fn heap(frame_size: u32) -> Heap {
    let key_groups = KeyGroupRange { first: KeyGroup(5), last: KeyGroup(9) };
    Heap::new(HeapOptions { frame_size, memory_limit_bytes: 8 << 20, key_groups, hash_seed: 3 }).unwrap()
}

fn texts(list: SplitList<Utf8>, heap: &Heap) -> Vec<String> {
    list.iter(heap).map(Result::unwrap).collect()
}

fn bytes_of(value: Value<'_>) -> Vec<u8> {
    value.chunks().collect::<Vec<_>>().concat()
}

fn frozen(snapshot: &Snapshot, state: StateId) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let mut entries = BTreeMap::new();
    snapshot.entries(state, &mut |group, key, value| {
        assert_eq!(group, KeyGroup::NONE);
        assert!(entries.insert(bytes_of(key), bytes_of(value)).is_none());
    });
    entries
}

#[test]
fn o6_a_list_keeps_the_order_of_its_elements() {
    let mut heap = heap(256);
    let list = SplitList::<Utf8>::register(&mut heap, "source", "splits").unwrap();
    let expected: Vec<_> =
        (0..500).map(|number: u32| number.to_string().repeat(1 + number as usize % 90)).collect();
    for text in &expected {
        list.push(&mut heap, text).unwrap();
    }
    assert_eq!(list.len(&heap), 500);
    assert_eq!(texts(list, &heap), expected);
    assert_eq!(list.get(&heap, 7), Ok(Some(expected[7].clone())));
    assert_eq!(list.get(&heap, 500), Ok(None));
}

#[test]
fn a_list_is_changed_cut_and_replaced() {
    let mut heap = heap(256);
    let list = SplitList::<Utf8>::register(&mut heap, "source", "splits").unwrap();
    assert!(list.is_empty(&heap));
    list.update(&mut heap, ["a", "b", "c"]).unwrap();
    assert_eq!(list.set(&mut heap, 1, "a longer one"), Ok(true));
    assert_eq!(list.set(&mut heap, 3, "d"), Ok(false));
    assert_eq!(texts(list, &heap), ["a", "a longer one", "c"]);
    list.truncate(&mut heap, 2).unwrap();
    assert_eq!(texts(list, &heap), ["a", "a longer one"]);
    list.update(&mut heap, ["x"]).unwrap();
    assert_eq!(texts(list, &heap), ["x"]);
    list.clear(&mut heap).unwrap();
    assert_eq!(texts(list, &heap), Vec::<String>::new());
}

#[test]
fn o5_a_broadcast_map_holds_one_value_for_each_key() {
    let mut heap = heap(256);
    let rules = Broadcast::<Utf8, Plain<u32>>::register(&mut heap, "filter", "rules").unwrap();
    let expected: BTreeMap<_, _> = (0..300_u32).map(|number| (number.to_string(), number * 3)).collect();
    for (rule, value) in &expected {
        rules.put(&mut heap, rule, &0).unwrap();
        rules.put(&mut heap, rule, value).unwrap();
    }
    assert_eq!((rules.get(&heap, "7"), rules.get(&heap, "none")), (Ok(Some(21)), Ok(None)));
    let mut found = BTreeMap::new();
    rules.for_each(&heap, |rule, value| assert!(found.insert(rule, value).is_none())).unwrap();
    assert_eq!(found, expected);
    assert_eq!((rules.remove(&mut heap, "7"), rules.remove(&mut heap, "7")), (Ok(true), Ok(false)));
    assert_eq!(rules.len(&heap), 299);
}

#[test]
fn o2_a_freeze_keeps_operator_state_as_it_was() {
    let mut heap = heap(256);
    let list = UnionList::<Plain<u64>>::register(&mut heap, "op", "list").unwrap();
    let map = Broadcast::<Plain<u8>, Plain<u64>>::register(&mut heap, "op", "map").unwrap();
    for number in 0..100 {
        list.push(&mut heap, &number).unwrap();
        map.put(&mut heap, &7, &number).unwrap();
    }
    let snapshot = heap.freeze().unwrap();
    let before = (frozen(&snapshot, list.id()), frozen(&snapshot, map.id()));
    assert_eq!((before.0.len(), before.1.len()), (100, 1));
    list.update(&mut heap, &[1, 2]).unwrap();
    map.put(&mut heap, &7, &0).unwrap();
    assert_eq!((frozen(&snapshot, list.id()), frozen(&snapshot, map.id())), before);
    assert_eq!(before.0[&99_u64.to_le_bytes().to_vec()], 99_u64.to_le_bytes());
}

#[test]
fn o1_a_name_has_one_distribution_and_one_codec() {
    let mut heap = heap(256);
    let list = SplitList::<Utf8>::register(&mut heap, "op", "s").unwrap();
    assert_eq!(SplitList::<Utf8>::register(&mut heap, "op", "s").unwrap().id(), list.id());
    let other = HeapError::OtherDistribution { state: list.id() };
    assert_eq!(UnionList::<Utf8>::register(&mut heap, "op", "s").err(), Some(other));
    assert_eq!(Broadcast::<Utf8, Utf8>::register(&mut heap, "op", "s").err(), Some(other));
    assert_eq!(heap.register("op", "s", Bytes::ID, Bytes::ID).err(), Some(other));
    let other = HeapError::OtherCodec { state: list.id(), key: false };
    assert_eq!(RawOperatorState::register(&mut heap, "op", "s").err(), Some(other));
    UnionList::<Utf8>::register(&mut heap, "other op", "s").unwrap();
}

#[test]
fn what_is_kept_by_key_and_what_is_not_do_not_mix() {
    let mut heap = heap(256);
    let keyed = heap.register("op", "keyed", Bytes::ID, Bytes::ID).unwrap();
    let listed = RawOperatorState::register(&mut heap, "op", "listed").unwrap().id();
    for (state, group) in
        [(keyed, KeyGroup::NONE), (listed, KeyGroup(5)), (listed, KeyGroup(9)), (keyed, KeyGroup(10))]
    {
        let refused = heap.put(state, group, &[0; 8], b"x").unwrap_err();
        assert!(
            matches!(refused, HeapError::ForeignKeyGroup { key_group, .. } if key_group == group),
            "{refused}"
        );
        assert!(heap.get(state, group, &[0; 8]).is_err());
    }
    heap.put(keyed, KeyGroup(9), &[0; 8], b"x").unwrap();
    heap.put(listed, KeyGroup::NONE, &[0; 8], b"y").unwrap();
    assert_eq!((heap.len(keyed), heap.len(listed)), (1, 1));
    let snapshot = heap.freeze().unwrap();
    let distributions: Vec<_> = snapshot.states().map(|state| state.distribution).collect();
    assert_eq!(distributions, [Distribution::ByKey, Distribution::Split]);
}

#[test]
fn a_heap_has_no_key_group_where_state_without_keys_lies() {
    let options = |last| HeapOptions {
        key_groups: KeyGroupRange { first: KeyGroup(0), last: KeyGroup(last) },
        ..heap(256).options()
    };
    assert!(Heap::new(options(32767)).is_ok());
    assert!(matches!(Heap::new(options(32768)), Err(HeapError::InvalidOptions { .. })));
}

#[test]
fn o7_raw_keyed_bytes_come_back_by_key_group() {
    let mut heap = heap(256);
    let raw = RawKeyedState::register(&mut heap, "custom", "raw").unwrap();
    for group in [5, 9] {
        let mut stream = BufWriter::with_capacity(100, raw.writer(&mut heap, KeyGroup(group)));
        for number in 0..1000_u16 {
            stream.write_all(&[number.to_le_bytes(), group.to_le_bytes()].concat()).unwrap();
        }
        stream.flush().unwrap();
    }
    raw.write(&mut heap, KeyGroup(6), &vec![1; 100_000]).unwrap();
    let snapshot = heap.freeze().unwrap();
    raw.clear(&mut heap, KeyGroup(5)).unwrap();

    let read = |heap: &Heap, group| {
        raw.read(heap, KeyGroup(group)).unwrap().map(bytes_of).collect::<Vec<_>>().concat()
    };
    assert_eq!(read(&heap, 5), []);
    assert_eq!(read(&heap, 7), []);
    assert_eq!(read(&heap, 6), vec![1; 100_000]);
    let nine: Vec<u8> = (0..1000_u16).flat_map(|number| [number.to_le_bytes(), [9, 0]].concat()).collect();
    assert_eq!(read(&heap, 9), nine);
    assert_eq!(snapshot.group_len(raw.id(), KeyGroup(5)), 40, "parts of 100 bytes");
    let foreign = raw.write(&mut heap, KeyGroup(4), b"x").unwrap_err();
    assert!(matches!(foreign, HeapError::ForeignKeyGroup { .. }));
}

#[test]
fn the_memory_limit_counts_operator_state_and_leaves_lists_whole() {
    let mut heap = Heap::new(HeapOptions { memory_limit_bytes: 64 << 10, ..heap(256).options() }).unwrap();
    let list = RawOperatorState::register(&mut heap, "op", "list").unwrap();
    let error = (0..10_000).find_map(|_| list.push(&mut heap, &[7; 100]).err()).unwrap();
    assert!(matches!(error, StateError::Heap(HeapError::MemoryLimit { .. })));
    let len = list.len(&heap);
    assert!(len > 100);
    assert!((0..len).all(|index| list.value(&heap, index).unwrap().unwrap().is(&[7; 100])));
    list.clear(&mut heap).unwrap();
    list.push(&mut heap, &[8; 100]).unwrap();
}

#[test]
fn bytes_that_the_codec_did_not_write_are_named() {
    let mut heap = heap(256);
    let list = SplitList::<Utf8>::register(&mut heap, "op", "list").unwrap();
    let map = Broadcast::<Utf8, Plain<u16>>::register(&mut heap, "op", "map").unwrap();
    heap.put(list.id(), KeyGroup::NONE, &0_u64.to_le_bytes(), &[0xff]).unwrap();
    heap.put(map.id(), KeyGroup::NONE, &[0xfe], &[0, 1]).unwrap();
    let malformed = StateError::Malformed(Malformed { codec: Utf8::ID, len: 1 });
    assert_eq!(list.iter(&heap).collect::<Vec<_>>(), [Err(malformed.clone())]);
    assert_eq!(map.for_each(&heap, |_, _| panic!("none is whole")), Err(malformed));
}

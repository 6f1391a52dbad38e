use std::collections::BTreeMap;
use std::string::{String, ToString};
use std::vec;
use std::vec::Vec;

use slackwater_core::key_group::{KeyGroup, MaxParallelism, key_group_of_hash};

use super::*;
use crate::codec::{Bytes, Codec, CodecId, Decode, Malformed, Plain, Utf8};
use crate::heap::{Heap, HeapOptions};

mod expiring;
mod folding;
mod list;
mod map;
mod migration;
mod timers;

fn groups() -> MaxParallelism {
    MaxParallelism::new(8).unwrap()
}

fn heap(max_parallelism: MaxParallelism) -> Heap {
    let key_groups = max_parallelism.all_key_groups();
    let options = HeapOptions { frame_size: 256, memory_limit_bytes: 8 << 20, key_groups, hash_seed: 3 };
    Heap::new(options).unwrap()
}

#[test]
fn a_value_is_set_changed_and_removed_by_its_key() {
    let max_parallelism = MaxParallelism::new(16).unwrap();
    let mut heap = heap(max_parallelism);
    let counts =
        ValueState::<Utf8, Plain<u64>>::register(&mut heap, "count", "words", max_parallelism).unwrap();
    for word in ["a", "b", "a", "a"] {
        counts.update(&mut heap, word, |count| count.unwrap_or(0) + 1).unwrap();
    }
    assert_eq!((counts.get(&heap, "a"), counts.get(&heap, "b")), (Ok(Some(3)), Ok(Some(1))));
    counts.put(&mut heap, "b", &9).unwrap();
    assert_eq!(counts.remove(&mut heap, "a"), Ok(true));
    assert_eq!((counts.get(&heap, "a"), counts.get(&heap, "b")), (Ok(None), Ok(Some(9))));
    assert_eq!(heap.len(counts.id()), 1);
}

#[test]
fn many_values_come_in_the_order_of_their_keys() {
    let max_parallelism = MaxParallelism::new(16).unwrap();
    let mut heap = heap(max_parallelism);
    let numbers =
        ValueState::<Plain<u64>, Plain<u64>>::register(&mut heap, "op", "s", max_parallelism).unwrap();
    let names = ValueState::<Utf8, Utf8>::register(&mut heap, "op", "t", max_parallelism).unwrap();
    let keys: Vec<u64> = (0..300).map(|key| key * 7 % 311).collect();
    for key in keys.iter().filter(|key| *key % 3 > 0) {
        numbers.put(&mut heap, key, &(key + 1)).unwrap();
        names.put(&mut heap, &key.to_string(), &"n".repeat((*key % 50).try_into().unwrap())).unwrap();
    }
    let mut expected = keys.iter().map(|key| (key % 3 > 0).then_some(key + 1));
    let references: Vec<&u64> = keys.iter().collect();
    numbers.get_many(&heap, &references, |value| assert_eq!(Some(value), expected.next())).unwrap();
    assert_eq!(expected.next(), None);
    let texts: Vec<String> = keys.iter().map(u64::to_string).collect();
    let references: Vec<&str> = texts.iter().map(String::as_str).collect();
    let mut expected = keys.iter().map(|key| (key % 3 > 0).then_some(usize::try_from(key % 50).unwrap()));
    names
        .get_many(&heap, &references, |value| assert_eq!(Some(value.map(|v| v.len())), expected.next()))
        .unwrap();
    assert_eq!(expected.next(), None);
}

#[test]
fn a_value_may_change_its_length() {
    let max_parallelism = MaxParallelism::new(4).unwrap();
    let mut heap = heap(max_parallelism);
    let texts = ValueState::<Plain<i32>, Utf8>::register(&mut heap, "op", "s", max_parallelism).unwrap();
    for _ in 0..600 {
        texts.update(&mut heap, &5, |text| text.unwrap_or_default() + "x").unwrap();
    }
    assert_eq!(texts.get(&heap, &5), Ok(Some("x".repeat(600))));
    texts.update(&mut heap, &5, |_| String::new()).unwrap();
    assert_eq!(texts.get(&heap, &5), Ok(Some(String::new())));
}

#[test]
fn bytes_that_the_codec_did_not_write_stay_and_are_named() {
    let max_parallelism = MaxParallelism::new(1).unwrap();
    let mut heap = heap(max_parallelism);
    let numbers = ValueState::<Bytes, Plain<u32>>::register(&mut heap, "op", "s", max_parallelism).unwrap();
    heap.put(numbers.id(), KeyGroup(0), b"k", &[1, 2]).unwrap();
    let malformed = Malformed { codec: Plain::<u32>::ID, len: 2 };
    let changed = numbers.update(&mut heap, b"k", |_| 7);
    assert_eq!(changed, Err(StateError::Malformed(malformed)));
    assert!(heap.get(numbers.id(), KeyGroup(0), b"k").unwrap().unwrap().is(&[1, 2]));
}

#[test]
fn namespaces_of_a_key_do_not_see_each_other() {
    type Scoped = ValueState<Utf8, Plain<u64>, Utf8>;
    let groups = MaxParallelism::new(8).unwrap();
    let mut heap = heap(groups);
    let scoped = Scoped::register(&mut heap, "op", "scoped", groups).unwrap();
    let plain = ValueState::<Utf8, Plain<u64>>::register(&mut heap, "op", "plain", groups).unwrap();
    let texts = ["", "a", "ab", "b", "\u{1}", "\u{1}a", "\u{2}ab"];
    let mut truth = BTreeMap::new();
    let mut random = 88_172_645_463_325_252_u64;
    for step in 0..2_000 {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let (key, namespace) = (texts[(random % 7) as usize], texts[(random / 7 % 7) as usize]);
        match random / 49 % 4 {
            0 => {
                scoped.put(&mut heap, (key, namespace), &step).unwrap();
                truth.insert((key, namespace), step);
            }
            1 => {
                scoped.update(&mut heap, (key, namespace), |old| old.unwrap_or(step) + 1).unwrap();
                *truth.entry((key, namespace)).or_insert(step) += 1;
            }
            2 => {
                let removed = scoped.remove(&mut heap, (key, namespace)).unwrap();
                assert_eq!(removed, truth.remove(&(key, namespace)).is_some());
            }
            _ => plain.put(&mut heap, key, &step).unwrap(),
        }
        for (key, namespace) in texts.iter().flat_map(|key| texts.iter().map(move |name| (*key, *name))) {
            assert_eq!(
                scoped.get(&heap, (key, namespace)),
                Ok(truth.get(&(key, namespace)).copied()),
                "step {step}"
            );
        }
    }
    assert_eq!(heap.len(scoped.id()), truth.len() as u64);
}

#[test]
fn a_namespace_does_not_change_the_key_group() {
    let groups = MaxParallelism::new(128).unwrap();
    let mut heap = heap(groups);
    let state = ValueState::<Utf8, Plain<()>, Plain<i64>>::register(&mut heap, "op", "s", groups).unwrap();
    for window in 0..50 {
        state.put(&mut heap, ("hello", &window), &()).unwrap();
    }
    let snapshot = heap.freeze().unwrap();
    let mut found = Vec::new();
    snapshot.entries(state.id(), &mut |group, _, _| found.push(group));
    assert_eq!(found, [key_group_of_hash(Utf8::key_group_hash("hello"), groups); 50]);
    assert_eq!(snapshot.states().next().unwrap().key, CodecId::variable("(utf8.1,i64.1)", 1));
}

#[test]
fn parts_of_values_in_chains_come_back() {
    type Parts = (Bytes, Plain<u64>, Bytes, Utf8);
    let groups = MaxParallelism::new(1).unwrap();
    let mut heap = heap(groups);
    let state = ValueState::<Plain<u32>, Parts>::register(&mut heap, "op", "s", groups).unwrap();
    for len in 0..400_u32 {
        let bytes =
            |seed: u32| (0..len + seed % 3).map(|i| (i * 7 + seed).to_le_bytes()[0]).collect::<Vec<_>>();
        let value = (bytes(1), 1 << 40, bytes(2), "w".repeat(len as usize % 71));
        state.put(&mut heap, &len, &value).unwrap();
        assert_eq!(state.get(&heap, &len), Ok(Some(value)), "{len}");
    }
}

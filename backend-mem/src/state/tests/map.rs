use super::*;
use crate::heap::StateKind;

type Counts = MapState<Utf8, Bytes, Plain<u32>>;

/// The entries of a key, decoded.
fn content<K: Codec, N: Namespace>(
    map: &MapState<K, Bytes, Plain<u32>, N>,
    heap: &Heap,
    key: N::Key<'_, K>,
) -> Vec<(Vec<u8>, u32)> {
    map.iter(heap, key).unwrap().map(Result::unwrap).collect()
}

#[test]
fn entries_are_set_found_and_removed_by_both_keys() {
    let mut heap = heap(groups());
    let map = Counts::register(&mut heap, "op", "counts", groups()).unwrap();
    assert_eq!(map.put(&mut heap, "fruit", b"pear", &1), Ok(true));
    assert_eq!(map.put(&mut heap, "fruit", b"apple", &2), Ok(true));
    assert_eq!(map.put(&mut heap, "fruit", b"pear", &3), Ok(false));
    assert_eq!(map.put(&mut heap, "fruits", b"apple", &9), Ok(true));
    assert_eq!(map.get(&heap, "fruit", b"pear"), Ok(Some(3)));
    assert_eq!(map.get(&heap, "frui", b"tpear"), Ok(None));
    assert_eq!(map.contains(&heap, "fruits", b"apple"), Ok(true));
    assert_eq!(map.contains(&heap, "fruits", b"pear"), Ok(false));
    assert_eq!(content(&map, &heap, "fruit"), [(b"apple".to_vec(), 2), (b"pear".to_vec(), 3)]);
    let keys: Vec<_> = map.keys(&heap, "fruit").unwrap().map(Result::unwrap).collect();
    let values: Vec<_> = map.values(&heap, "fruit").unwrap().map(Result::unwrap).collect();
    assert_eq!((keys, values), (vec![b"apple".to_vec(), b"pear".to_vec()], vec![2, 3]));
    assert_eq!(map.remove(&mut heap, "fruit", b"pear"), Ok(true));
    assert_eq!(map.remove(&mut heap, "fruit", b"pear"), Ok(false));
    assert_eq!((map.is_empty(&heap, "fruit"), map.is_empty(&heap, "nuts")), (Ok(false), Ok(true)));
    assert_eq!(map.clear(&mut heap, "fruit"), Ok(1));
    assert_eq!((map.is_empty(&heap, "fruit"), map.clear(&mut heap, "fruit")), (Ok(true), Ok(0)));
    assert_eq!(content(&map, &heap, "fruits"), [(b"apple".to_vec(), 9)]);
}

#[test]
fn maps_are_what_a_map_of_maps_is() {
    let mut heap = heap(groups());
    let map = Counts::register(&mut heap, "op", "counts", groups()).unwrap();
    let mut truth = BTreeMap::<String, BTreeMap<Vec<u8>, u32>>::new();
    let mut snapshots = Vec::new();
    for number in 0..6_000_u32 {
        let random = number.wrapping_mul(0x9e37_79b9) >> 8;
        let key = ["a", "b", "ab", "", &"long ".repeat(80)][random as usize % 5].to_string();
        let [_, low, ..] = random.to_le_bytes();
        let mut user_key = vec![low % 90];
        user_key.resize(1 + (random as usize >> 12) % 3 * 60, 7);
        match number % 9 {
            0..=5 => {
                map.put(&mut heap, &key, &user_key, &number).unwrap();
                truth.entry(key).or_default().insert(user_key, number);
            }
            6..=7 => {
                let removed = map.remove(&mut heap, &key, &user_key).unwrap();
                assert_eq!(removed, truth.entry(key).or_default().remove(&user_key).is_some());
            }
            _ if number % 900 == 8 => {
                let count = map.clear(&mut heap, &key).unwrap();
                assert_eq!(count, truth.remove(&key).unwrap_or_default().len() as u64);
                snapshots.extend(heap.freeze().ok());
            }
            _ => {
                let expected = truth.get(&key).into_iter().flatten();
                let expected: Vec<_> = expected.map(|(key, value)| (key.clone(), *value)).collect();
                assert_eq!(content(&map, &heap, &key), expected);
                assert_eq!(map.is_empty(&heap, &key), Ok(expected.is_empty()));
            }
        }
    }
    let entries: usize = truth.values().map(BTreeMap::len).sum();
    assert_eq!(heap.len(map.id()), entries as u64);
}

#[test]
fn a_map_is_one_for_each_namespace_of_a_key() {
    let mut heap = heap(groups());
    let map =
        MapState::<Plain<u64>, Bytes, Plain<u32>, Utf8>::register(&mut heap, "op", "m", groups()).unwrap();
    for (window, value) in [("morning", 1), ("evening", 2)] {
        map.put(&mut heap, (&7, window), b"k", &value).unwrap();
        map.put(&mut heap, (&7, window), window.as_bytes(), &value).unwrap();
    }
    assert_eq!(map.get(&heap, (&7, "morning"), b"k"), Ok(Some(1)));
    assert_eq!(content(&map, &heap, (&7, "evening")), [(b"evening".to_vec(), 2), (b"k".to_vec(), 2)]);
    assert_eq!(map.clear(&mut heap, (&7, "morning")), Ok(2));
    assert_eq!((map.is_empty(&heap, (&7, "morning")), heap.len(map.id())), (Ok(true), 2));
}

#[test]
fn a_map_is_found_in_a_heap_with_another_seed() {
    let max_parallelism = groups();
    let mut heap = heap(max_parallelism);
    let map = Counts::register(&mut heap, "op", "counts", max_parallelism).unwrap();
    map.put(&mut heap, "key", b"k", &1).unwrap();
    let mut other = Heap::new(HeapOptions { hash_seed: 99, ..heap.options() }).unwrap();
    let same = Counts::register(&mut other, "op", "counts", max_parallelism).unwrap();
    heap.freeze().unwrap().entries(map.id(), &mut |group, key, value| {
        let [key, value] = [key, value].map(|bytes| bytes.chunks().collect::<Vec<_>>().concat());
        other.ordered_put(same.id(), group, &key, &value).unwrap();
    });
    assert_eq!(content(&same, &other, "key"), [(b"k".to_vec(), 1)]);
}

#[test]
fn a_map_names_its_codecs() {
    let mut heap = heap(groups());
    Counts::register(&mut heap, "op", "counts", groups()).unwrap();
    let snapshot = heap.freeze().unwrap();
    let state = snapshot.states().next().unwrap();
    assert_eq!((state.kind, state.key), (StateKind::Ordered, CodecId::variable("utf8", 1)));
    assert_eq!(state.value, CodecId::variable("map(bytes.1,u32.1)", 1));
    let other = MapState::<Utf8, Bytes, Plain<u64>>::register(&mut heap, "op", "counts", groups());
    assert!(matches!(other, Err(StateError::Refused(refused)) if refused.stored.0 == "map(bytes.1,u32.1)"));
}

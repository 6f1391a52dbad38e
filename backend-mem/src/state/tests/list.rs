use super::*;

type Texts = ListState<Utf8, Utf8>;

fn texts(heap: &mut Heap) -> Texts {
    Texts::register(heap, "op", "list", groups()).unwrap()
}

fn all<V: Decode, E: Expiry>(items: ListItems<'_, V, E>) -> Vec<V::Owned> {
    items.map(Result::unwrap).collect()
}

#[test]
fn a_list_never_written_is_empty() {
    let mut heap = heap(groups());
    let list = texts(&mut heap);
    assert_eq!(all(list.get(&heap, "k").unwrap()), Vec::<String>::new());
    assert_eq!(list.clear(&mut heap, "k"), Ok(false));
}

#[test]
fn elements_come_in_the_order_in_which_they_were_added() {
    let mut heap = heap(groups());
    let list = texts(&mut heap);
    list.add(&mut heap, "k", "a").unwrap();
    list.add_all(&mut heap, "k", ["", "bb"]).unwrap();
    list.add(&mut heap, "other", "x").unwrap();
    list.add(&mut heap, "k", "a").unwrap();
    assert_eq!(all(list.get(&heap, "k").unwrap()), ["a", "", "bb", "a"]);
    assert_eq!(all(list.get(&heap, "other").unwrap()), ["x"]);
}

#[test]
fn adding_no_elements_makes_no_list() {
    let mut heap = heap(groups());
    let list = texts(&mut heap);
    list.add_all(&mut heap, "k", []).unwrap();
    assert!(heap.is_empty(list.id()));
}

#[test]
fn an_update_replaces_the_list_and_one_without_elements_clears_it() {
    let mut heap = heap(groups());
    let list = texts(&mut heap);
    list.add_all(&mut heap, "k", ["a", "b"]).unwrap();
    list.update(&mut heap, "k", ["c"]).unwrap();
    assert_eq!(all(list.get(&heap, "k").unwrap()), ["c"]);
    list.update(&mut heap, "k", []).unwrap();
    assert!(heap.is_empty(list.id()));
    assert_eq!(all(list.get(&heap, "k").unwrap()), Vec::<String>::new());
}

#[test]
fn elements_without_bytes_are_counted() {
    let mut heap = heap(groups());
    let list = ListState::<Utf8, Plain<()>>::register(&mut heap, "op", "units", groups()).unwrap();
    list.add_all(&mut heap, "k", [&(), &(), &()]).unwrap();
    assert_eq!(all(list.get(&heap, "k").unwrap()), [(); 3]);
}

#[test]
fn bytes_that_are_no_list_are_an_error_in_the_place_of_the_element() {
    let mut heap = heap(groups());
    let list = ListState::<Utf8, Plain<u16>>::register(&mut heap, "op", "list", groups()).unwrap();
    list.add(&mut heap, "k", &7).unwrap();
    let group = key_group_of_hash(Utf8::key_group_hash("k"), groups());
    heap.append(list.id(), group, b"k", &[1, 9, 5, 1]).unwrap();
    let found: Vec<_> = list.get(&heap, "k").unwrap().collect();
    let list_id = CodecId::variable("list(u16.1)", 1);
    assert_eq!(
        found,
        [
            Ok(7),
            Err(Malformed { codec: Plain::<u16>::ID, len: 1 }),
            Err(Malformed { codec: list_id, len: 2 })
        ]
    );
    assert_eq!(heap.freeze().unwrap().states().next().unwrap().value, list_id);
}

#[test]
fn lists_agree_with_a_model_across_namespaces_and_snapshots() {
    let mut heap = heap(groups());
    let list = ListState::<Plain<u8>, Bytes, Plain<u8>>::register(&mut heap, "op", "s", groups()).unwrap();
    let (mut random, mut truth) = (77_u64, BTreeMap::<(u8, u8), Vec<Vec<u8>>>::new());
    for step in 0..3_000_u32 {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let [_, _, _, _, a, b, c, d] = random.to_le_bytes();
        let (key, namespace) = (a % 4, b % 4);
        let item = vec![d; [0, 3, 40, 300][usize::from(c) % 4]];
        let items = truth.entry((key, namespace)).or_default();
        match c / 4 {
            0..=1 => {
                list.clear(&mut heap, (&key, &namespace)).unwrap();
                items.clear();
            }
            2..=3 => {
                list.update(&mut heap, (&key, &namespace), [&*item, &*item]).unwrap();
                *items = vec![item.clone(), item];
            }
            _ => {
                list.add(&mut heap, (&key, &namespace), &item).unwrap();
                items.push(item);
            }
        }
        if step % 50 == 0 {
            drop(heap.freeze().unwrap());
            for (key, namespace) in (0..4).flat_map(|key| (0..4).map(move |namespace| (key, namespace))) {
                let found = all(list.get(&heap, (&key, &namespace)).unwrap());
                assert!(found == truth.get(&(key, namespace)).cloned().unwrap_or_default(), "step {step}");
            }
        }
    }
}

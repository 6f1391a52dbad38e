use std::vec;
use std::vec::Vec;

use slackwater_core::key_group::{KeyGroup, KeyGroupRange};

use crate::codec::CodecId;
use crate::heap::{Heap, HeapError, HeapOptions, StateId, Value};

fn heap(memory_limit_bytes: u64) -> Heap {
    let key_groups = KeyGroupRange { first: KeyGroup(5), last: KeyGroup(8) };
    Heap::new(HeapOptions { frame_size: 256, memory_limit_bytes, key_groups, hash_seed: 5 }).unwrap()
}

/// Values of any codec become values of any other, their last byte so often.
fn rewrite_to(heap: &mut Heap, state: StateId, len: u16, codec: CodecId<'_>) -> Result<u64, HeapError> {
    heap.rewrite_values(state, codec, &mut |old: Value<'_>, new: &mut dyn FnMut(&[u8])| {
        new(&vec![old.to_vec().last().copied().unwrap_or(0); len.into()]);
        Ok(())
    })
}

const WIDTHS: [Option<u16>; 5] = [Some(4), Some(8), None, Some(0), Some(90)];

#[test]
fn values_take_any_width_after_any_other() {
    for (from, to) in WIDTHS.iter().flat_map(|from| WIDTHS.map(move |to| (*from, to))) {
        let mut heap = heap(8 << 20);
        let key = CodecId::fixed("u16", 1, 2);
        let codec = |name, width| CodecId { name, version: 1, width };
        let states = ["a", "b"].map(|name| heap.register("op", name, key, codec("old", from)).unwrap());
        let number = |width: Option<u16>, number: u16| vec![3; width.unwrap_or(number % 700).into()];
        for at in 0..600 {
            let group = KeyGroup(5 + at % 3);
            states.iter().for_each(|state| {
                heap.put(*state, group, &at.to_le_bytes(), &number(from, at)).unwrap();
            });
        }
        let snapshot = heap.freeze().unwrap();
        let len = to.unwrap_or(300);
        assert_eq!(rewrite_to(&mut heap, states[0], len, codec("new", to)), Ok(600));
        assert_eq!((heap.len(states[0]), heap.len(states[1])), (600, 600));
        for at in 0..600_u16 {
            let group = KeyGroup(5 + at % 3);
            let last = if number(from, at).is_empty() { 0 } else { 3 };
            let value = heap.get(states[0], group, &at.to_le_bytes()).unwrap().unwrap();
            assert!(value.is(&vec![last; len.into()]), "{from:?} {to:?} {at}");
            assert!(heap.get(states[1], group, &at.to_le_bytes()).unwrap().unwrap().is(&number(from, at)));
        }
        let known: Vec<_> = snapshot.states().map(|state| state.value).collect();
        assert_eq!(known, [codec("old", from); 2], "what is frozen stays");
        assert_eq!(heap.register("op", "a", key, codec("new", to)), Ok(states[0]));
    }
}

#[test]
fn ordered_states_are_rewritten_too() {
    let mut heap = heap(8 << 20);
    let (key, old, new) =
        (CodecId::fixed("u16", 1, 2), CodecId::variable("old", 1), CodecId::variable("new", 1));
    let state = heap.register_ordered("op", "s", key, old).unwrap();
    for at in 0..500_u16 {
        heap.ordered_put(state, KeyGroup(6), &at.to_le_bytes(), &[7; 3]).unwrap();
    }
    assert_eq!(rewrite_to(&mut heap, state, 20, new), Ok(500));
    for at in 0..500_u16 {
        assert!(heap.ordered_get(state, KeyGroup(6), &at.to_le_bytes()).unwrap().unwrap().is(&[7; 20]));
    }
    assert_eq!(heap.register_ordered("op", "s", key, new), Ok(state));
}

#[test]
fn a_state_half_rewritten_is_known_as_that() {
    let mut heap = heap(64 << 10);
    let codec = CodecId::variable("bytes", 1);
    let state = heap.register("op", "s", codec, codec).unwrap();
    for at in 0..200_u16 {
        heap.put(state, KeyGroup(5 + at % 4), &at.to_le_bytes(), &[1; 20]).unwrap();
    }
    let error = rewrite_to(&mut heap, state, 700, CodecId::variable("new", 1)).unwrap_err();
    assert!(matches!(error, HeapError::MemoryLimit { .. }), "{error}");
    let refused = HeapError::OtherCodec { state, key: false };
    assert_eq!(heap.register("op", "s", codec, codec), Err(refused));
    assert_eq!(heap.register("op", "s", codec, CodecId::variable("new", 1)), Err(refused));
}

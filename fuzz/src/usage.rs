//! Puts a restored heap to use.

use slackwater_core::key_group::KeyGroup;
use slackwater_mem::{Heap, HeapError, StateId, StateKind, Value};

/// Finds, changes and removes every entry.
pub(crate) fn use_up(heap: &mut Heap) {
    let snapshot = heap.freeze().expect("the first");
    let mut entries = Vec::new();
    for state in snapshot.states() {
        snapshot.entries(state.id, &mut |group, key, _value| {
            entries.push(((state.kind, state.id), group, key.chunks().collect::<Vec<_>>().concat()));
        });
    }
    drop(snapshot);
    for (state, group, key) in &entries {
        change(heap, *state, *group, key);
    }
    for (state, group, key) in &entries {
        assert_eq!(remove(heap, *state, *group, key), Ok(true), "an entry is there once");
    }
    assert!(entries.iter().all(|((_, state), ..)| heap.is_empty(*state)));
}

type State = (StateKind, StateId);

fn change(heap: &mut Heap, state: State, group: KeyGroup, key: &[u8]) {
    let found = get(heap, state, group, key).expect("its key group").map(|value| value.len());
    let len = found.expect("an entry is found by its key");
    for value in [[1; 100].as_slice(), &[2; 3], &vec![3; len]] {
        match put(heap, state, group, key, value) {
            Ok(()) | Err(HeapError::MemoryLimit { .. }) => {}
            Err(HeapError::OtherWidth { .. }) if value.len() != len => {}
            Err(error) => panic!("an entry of {len} bytes cannot be changed: {error}"),
        }
    }
}

fn get<'h>(
    heap: &'h Heap,
    (kind, state): State,
    group: KeyGroup,
    key: &[u8],
) -> Result<Option<Value<'h>>, HeapError> {
    match kind {
        StateKind::Hash => heap.get(state, group, key),
        StateKind::Ordered => heap.ordered_get(state, group, key),
    }
}

fn put(
    heap: &mut Heap,
    (kind, state): State,
    group: KeyGroup,
    key: &[u8],
    value: &[u8],
) -> Result<(), HeapError> {
    match kind {
        StateKind::Hash => heap.put(state, group, key, value),
        StateKind::Ordered => heap.ordered_put(state, group, key, value).map(|is_new| assert!(!is_new)),
    }
}

fn remove(heap: &mut Heap, (kind, state): State, group: KeyGroup, key: &[u8]) -> Result<bool, HeapError> {
    match kind {
        StateKind::Hash => heap.remove(state, group, key),
        StateKind::Ordered => heap.ordered_remove(state, group, key),
    }
}

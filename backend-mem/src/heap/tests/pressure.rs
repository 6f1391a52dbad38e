//! No frame is free while snapshots are alive: the caller is told, the snapshot is asked, and a later try works.

use super::*;

const GROUPS: u16 = 8;

fn update(heap: &mut Heap, state: StateId, number: u32, value: u8) -> Result<(), HeapError> {
    heap.put(state, KeyGroup(number as u16 % GROUPS), &number.to_le_bytes(), &[value; 100])
}

/// A heap with more pages than frames left for copies of them.
fn nearly_full() -> (Heap, StateId) {
    let mut heap = Heap::new(options(256, 600 << 8, GROUPS)).unwrap();
    let state = heap.register("o", "s", BYTES, BYTES).unwrap();
    let is_open = |heap: &Heap| heap.memory_use().live_bytes * 10 < heap.memory_use().total_bytes * 6;
    for number in 0.. {
        if !is_open(&heap) {
            break;
        }
        update(&mut heap, state, number, 1).unwrap();
    }
    (heap, state)
}

/// Updates every entry until one is refused; gives its number and why.
fn update_all(heap: &mut Heap, state: StateId, value: u8) -> Option<(u32, HeapError)> {
    let count = heap.len(state) as u32;
    (0..count).find_map(|number| Some(number).zip(update(heap, state, number, value).err()))
}

#[test]
fn a_call_that_snapshots_stand_in_the_way_of_works_once_they_give_up_what_it_needs() {
    let (mut heap, state) = nearly_full();
    let mut snapshot = heap.freeze().unwrap();
    assert_eq!(snapshot.wanted_key_group(), None);
    let (number, error) = update_all(&mut heap, state, 2).expect("the memory is short");
    let HeapError::SnapshotHolds { held_bytes, .. } = error else { panic!("{error}") };
    assert_eq!(held_bytes, heap.memory_use().retired_bytes);
    let key = number.to_le_bytes();
    let group = KeyGroup(number as u16 % GROUPS);
    assert!(heap.get(state, group, &key).unwrap().unwrap().is(&[1; 100]), "nothing has changed");
    // What was retired of the key group that is asked for comes back, and the rest is written in place.
    let wanted = snapshot.wanted_key_group().unwrap();
    assert!(snapshot.key_group_done(wanted));
    assert_eq!(snapshot.wanted_key_group(), None);
    update(&mut heap, state, number, 2).unwrap();
    assert!(heap.memory_use().retired_bytes < held_bytes);
    let mut asked = 1;
    while update_all(&mut heap, state, 3).is_some() {
        let wanted = snapshot.wanted_key_group().expect("something is asked for");
        assert!(snapshot.key_group_done(wanted));
        asked += 1;
    }
    assert!((2..u32::from(GROUPS)).contains(&asked), "not all are needed: {asked}");
    drop(snapshot);
    assert_eq!(update_all(&mut heap, state, 4), None);
}

#[test]
fn without_snapshots_it_is_the_memory_limit() {
    let (mut heap, state) = nearly_full();
    let error = (1_000..).find_map(|number| update(&mut heap, state, number, 1).err()).unwrap();
    assert!(matches!(error, HeapError::MemoryLimit { .. }), "{error}");
    assert!(matches!(heap.reserve(1 << 20), Err(HeapError::MemoryLimit { .. })));
}

#[test]
fn what_is_reserved_is_there() {
    let (mut heap, state) = nearly_full();
    let snapshot = heap.freeze().unwrap();
    let is_reserved = heap.reserve(256 * 40).is_ok();
    assert!(is_reserved);
    // Root, table, two chunks; then each update takes a page at most.
    (0..36).for_each(|number| update(&mut heap, state, number, 2).unwrap());
    assert!(matches!(heap.reserve(256 * 400), Err(HeapError::SnapshotHolds { .. })));
    assert!(snapshot.wanted_key_group().is_some(), "the snapshot is asked for something");
    drop(snapshot);
    assert_eq!(heap.reserve(256 * 200), Ok(()));
}

#[test]
fn a_retired_page_is_freed_when_every_snapshot_has_given_it_up() {
    let (mut heap, state) = nearly_full();
    let mut snapshots = [heap.freeze().unwrap(), heap.freeze().unwrap()];
    update_all(&mut heap, state, 2).expect("the memory is short");
    let held = heap.memory_use().retired_bytes;
    let all_frames = |heap: &mut Heap| heap.reserve(1 << 30).is_ok();
    for (index, snapshot) in snapshots.iter_mut().enumerate() {
        (0..GROUPS).for_each(|group| assert!(snapshot.key_group_done(KeyGroup(group))));
        assert!(!all_frames(&mut heap), "there are not so many");
        assert_eq!(heap.memory_use().retired_bytes < held / 4, index == 1);
    }
}

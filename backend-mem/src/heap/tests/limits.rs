use super::*;

#[test]
fn the_memory_limit_is_an_error_that_changes_nothing() {
    for frame_size in [256_u32, 4096] {
        let mut heap = Heap::new(options(frame_size, u64::from(frame_size) * 160, 3)).unwrap();
        let state = heap.register("op", "s", BYTES, BYTES).unwrap();
        let mut truth = Content::new();
        let mut snapshots = Vec::new();
        let mut refused = 0;
        for number in 0..20_000_u32 {
            let (group, key) = ((number % 3) as u16, (number % 6_000).to_le_bytes().to_vec());
            let value = vec![number as u8; if number % 17 == 0 { frame_size as usize * 3 } else { 9 }];
            match heap.put(state, KeyGroup(group), &key, &value) {
                Ok(()) => drop(truth.insert((group, key), value)),
                Err(HeapError::MemoryLimit { .. } | HeapError::SnapshotHolds { .. }) => refused += 1,
                Err(error) => panic!("{error}"),
            }
            if number % 2_500 == 0 {
                snapshots.extend(heap.freeze().ok().map(|snapshot| (snapshot, truth.clone())));
            }
            if number % 3_500 == 3_499 {
                let (snapshot, expected) = snapshots.remove(0);
                assert_eq!(content_of(&snapshot, state), expected);
            }
        }
        assert!(refused > 100, "the limit was reached: {refused}");
        snapshots.clear();
        let snapshot = heap.freeze().unwrap();
        check_pages(&snapshot, state);
        assert_eq!(content_of(&snapshot, state), truth);
        drop(snapshot);
        for (group, key) in truth.keys() {
            assert!(heap.remove(state, KeyGroup(*group), key).unwrap());
        }
        for number in 0..200_u32 {
            heap.put(state, KeyGroup(0), &number.to_le_bytes(), &[1]).unwrap();
        }
    }
}

#[test]
fn a_refused_value_leaves_nothing_in_an_empty_key_group() {
    let mut heap = Heap::new(options(256, 256 * 300, 2)).unwrap();
    let state = heap.register("op", "s", BYTES, BYTES).unwrap();
    heap.put(state, KeyGroup(0), b"k", b"v").unwrap();
    let before = heap.memory_use();
    for (key, value) in
        [(vec![1; 9], vec![2; 1 << 20]), (vec![1; 1 << 20], vec![]), (vec![1; 900], vec![2; 1 << 20])]
    {
        let refused = heap.put(state, KeyGroup(1), &key, &value);
        assert!(matches!(refused, Err(HeapError::MemoryLimit { .. })), "{refused:?}");
        assert_eq!(heap.memory_use(), before);
    }
}

#[test]
fn the_table_of_long_values_shrinks_when_they_are_gone() {
    for frame_size in [256_u32, 4096] {
        let (mut heap, state) = heap(frame_size, 1);
        let part = vec![7; frame_size as usize];
        heap.put(state, KeyGroup(0), b"first", &part).unwrap();
        let before = heap.memory_use().live_bytes;
        let large = vec![1; frame_size as usize * 3_000];
        let mut truth = Content::from([((0, b"first".to_vec()), part.clone())]);
        for round in 0..6_u8 {
            heap.put(state, KeyGroup(0), b"large", &large).unwrap();
            let last = [round; 3].to_vec();
            heap.put(state, KeyGroup(0), &last, &part).unwrap();
            truth.insert((0, last), part.clone());
            let snapshot = heap.freeze().ok().filter(|_| round % 2 == 0);
            assert!(heap.remove(state, KeyGroup(0), b"large").unwrap());
            for small in 0..40_u8 {
                heap.put(state, KeyGroup(0), &[small; 2], &part).unwrap();
            }
            for small in 0..40_u8 {
                assert!(heap.remove(state, KeyGroup(0), &[small; 2]).unwrap());
            }
            drop(snapshot);
            let snapshot = heap.freeze().unwrap();
            check_pages(&snapshot, state);
            assert_eq!(content_of(&snapshot, state), truth);
        }
        let table = (2 * 3_000_u64 * 4).next_power_of_two();
        let after = heap.memory_use().live_bytes;
        // The last of the lasting values may have the last entries of the table.
        assert!(
            after < before + 6 * 4 * u64::from(frame_size) + table,
            "{before} bytes before, {after} after"
        );
        for round in 0..6_u8 {
            assert!(heap.remove(state, KeyGroup(0), &[round; 3]).unwrap());
        }
        assert_eq!(heap.memory_use().live_bytes, before);
    }
}

#[test]
fn what_was_never_written_costs_nothing() {
    let mut heap = Heap::new(options(4096, 64 << 20, 32_768)).unwrap();
    let empty = heap.memory_use().live_bytes;
    let states: Vec<_> =
        (0..100).map(|index| heap.register("op", &std::format!("s{index}"), BYTES, BYTES).unwrap()).collect();
    assert_eq!(heap.memory_use().live_bytes, empty + 100 * 4096);
    let registered = heap.memory_use().live_bytes;
    heap.put(states[5], KeyGroup(32_767), b"k", b"v").unwrap();
    // A table, a chunk, a page.
    assert_eq!(heap.memory_use().live_bytes, registered + 3 * 4096);
    let snapshot = heap.freeze().unwrap();
    heap.put(states[5], KeyGroup(32_767), b"k", b"w").unwrap();
    // And the root.
    assert_eq!(heap.memory_use().retired_bytes, 4 * 4096);
    assert_eq!(content_of(&snapshot, states[5]).len(), 1);
}

#[test]
fn thousands_of_states_fit_with_any_frame_size() {
    const STATES: u16 = 2_500;
    for frame_size in [256_u32, 4096] {
        let mut heap = Heap::new(options(frame_size, 64 << 20, 2)).unwrap();
        let before = heap.memory_use().live_bytes;
        let name = |number: u16| std::format!("state-{number}");
        for number in 0..STATES {
            // Registering looks at all names: enough to do it for the last ones.
            let added = if number < STATES - 200 {
                heap.add_state((StateKind::Hash, Distribution::ByKey), ("op", &name(number)), BYTES, BYTES)
            } else {
                heap.register("op", &name(number), BYTES, BYTES)
            };
            assert_eq!(added, Ok(StateId(number)));
            let number = number.to_le_bytes();
            if number[0] % 64 == 0 {
                let state = StateId(u16::from_le_bytes(number));
                heap.put(state, KeyGroup(1), b"key", &number).unwrap();
            }
        }
        let snapshot = heap.freeze().unwrap();
        assert_eq!(heap.register("op", "one more", BYTES, BYTES), Ok(StateId(STATES)));
        assert_eq!(heap.register("op", &name(7), BYTES, BYTES), Ok(StateId(7)), "known by its name");
        assert_eq!(heap.put(StateId(STATES), KeyGroup(0), b"key", b"late"), Ok(()));
        assert_eq!(snapshot.states().count(), usize::from(STATES));
        for (view, number) in snapshot.states().zip(0..STATES) {
            assert_eq!((view.id, view.name), (StateId(number), &*name(number)));
            let written = usize::from(number.to_le_bytes()[0] % 64 == 0);
            assert_eq!(content_of(&snapshot, view.id).len(), written, "state {number}");
        }
        drop(snapshot);
        let root = u64::from(16 + 16 * u32::from(STATES)).div_ceil(u64::from(frame_size)).next_power_of_two();
        let written =
            u64::from((0..STATES).filter(|number| number.to_le_bytes()[0] % 64 == 0).count() as u32);
        // A description for each state; for those written a table, a chunk and a page each.
        let frames = root - 1 + u64::from(STATES) + 1 + 3 * (written + 1);
        assert_eq!(heap.memory_use().live_bytes, before + frames * u64::from(frame_size));
    }
}

#[test]
fn there_are_as_many_states_as_ids() {
    let mut heap = Heap::new(options(256, 64 << 20, 1)).unwrap();
    for number in 0..=u16::MAX {
        assert_eq!(
            heap.add_state((StateKind::Hash, Distribution::ByKey), ("", ""), BYTES, BYTES),
            Ok(StateId(number))
        );
    }
    let refused = HeapError::TooManyStates { count_max: 65_536 };
    assert_eq!(heap.add_state((StateKind::Hash, Distribution::ByKey), ("", ""), BYTES, BYTES), Err(refused));
    heap.put(StateId(u16::MAX), KeyGroup(0), b"k", b"v").unwrap();
    assert_eq!(content_of(&heap.freeze().unwrap(), StateId(u16::MAX)).len(), 1);
}

#[test]
fn a_state_that_finds_no_memory_leaves_no_trace() {
    let mut heap = Heap::new(options(256, 256 * 300, 1)).unwrap();
    let state = heap.register("op", "s", BYTES, BYTES).unwrap();
    heap.put(state, KeyGroup(0), b"k", b"v").unwrap();
    let long = "n".repeat(900);
    let mut names = 0;
    while heap.register("op", &std::format!("{long}{names}"), BYTES, BYTES).is_ok() {
        names += 1;
    }
    let before = heap.memory_use().live_bytes;
    for _ in 0..5 {
        let refused = heap.register("op", &long, BYTES, BYTES);
        assert!(matches!(refused, Err(HeapError::MemoryLimit { .. })));
    }
    assert_eq!(heap.memory_use().live_bytes, before);
    assert_eq!((heap.state("op", &long), heap.state("op", "s")), (None, Some(state)));
    assert_eq!(heap.freeze().unwrap().states().count(), names + 1);
    heap.remove(state, KeyGroup(0), b"k").unwrap();
    heap.put(state, KeyGroup(0), b"k", b"w").unwrap();
}

#[test]
fn frames_come_back_when_everything_is_dropped() {
    let (mut heap, state) = heap(256, 2);
    for number in 0..2_000_u32 {
        heap.put(state, KeyGroup(0), &number.to_le_bytes(), &[1; 30]).unwrap();
    }
    let full = heap.memory_use().live_bytes;
    let four: Vec<_> = (0..4).map(|_| heap.freeze().unwrap()).collect();
    assert_eq!(heap.freeze().err(), Some(HeapError::TooManySnapshots));
    drop(four);
    for round in 0..20_u8 {
        let snapshot = heap.freeze().unwrap();
        for number in 0..2_000_u32 {
            heap.put(state, KeyGroup(0), &number.to_le_bytes(), &[round; 30]).unwrap();
        }
        drop(snapshot);
    }
    let used = heap.memory_use();
    assert_eq!(used.live_bytes, full);
    assert!(used.retired_bytes <= full + 4096, "{used:?}");
}

#[test]
fn too_long_keys_and_values_are_refused() {
    let (mut heap, state) = heap(4096, 1);
    let long = vec![0_u8; (64 << 20) + 1];
    let refused = heap.put(state, KeyGroup(0), &[], &long);
    assert_eq!(refused, Err(HeapError::ValueTooLarge { len: (64 << 20) + 1, len_max: 64 << 20 }));
    let refused = heap.put(state, KeyGroup(0), &long[..(16 << 20) + 1], &[]);
    assert_eq!(refused, Err(HeapError::KeyTooLarge { len: (16 << 20) + 1, len_max: 16 << 20 }));
    heap.put(state, KeyGroup(0), &long[..1 << 20], &long[..3 << 20]).unwrap();
    assert_eq!(heap.get(state, KeyGroup(0), &long[..1 << 20]).unwrap().unwrap().len(), 3 << 20);
}

#[test]
fn a_thousand_heaps_share_a_process() {
    let heaps: Vec<_> = (0..1_000).map(|_| Heap::new(options(4096, 1 << 30, 128)).unwrap()).collect();
    assert!(heaps.iter().all(|heap| heap.memory_use().live_bytes <= 3 * 4096));
}

#[test]
fn options_that_make_no_heap_are_refused() {
    for (frame_size, limit) in [(128, 1 << 20), (300, 1 << 20), (32_768, 1 << 20), (4096, 4096)] {
        assert!(matches!(Heap::new(options(frame_size, limit, 1)), Err(HeapError::InvalidOptions { .. })));
    }
}

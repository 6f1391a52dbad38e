//! Key groups that a snapshot is done with are written without copies, and nothing else is.

use super::model::Random;
use super::*;

const GROUPS: u16 = 8;

/// Entries of so many frames in each key group.
fn filled() -> (Heap, StateId) {
    let (mut heap, state) = heap(256, GROUPS);
    for number in 0..2_000_u32 {
        put(&mut heap, state, number, 0);
    }
    (heap, state)
}

fn put(heap: &mut Heap, state: StateId, number: u32, value: u8) {
    heap.put(state, KeyGroup(number as u16 % GROUPS), &number.to_le_bytes(), &[value; 8]).unwrap();
}

/// Changes every entry of a key group and says how many frames were copied for that.
fn copies_of_updating(heap: &mut Heap, state: StateId, group: u16, value: u8) -> u64 {
    let before = heap.memory_use().copied_bytes;
    (0..2_000).filter(|number| *number as u16 % GROUPS == group).for_each(|n| put(heap, state, n, value));
    (heap.memory_use().copied_bytes - before) / 256
}

#[test]
fn pages_of_a_key_group_that_is_done_are_written_where_they_lie() {
    let (mut heap, state) = filled();
    let mut snapshot = heap.freeze().unwrap();
    // Root, table, and the chunks of four heads each.
    (0..GROUPS).for_each(|group| {
        heap.put(state, KeyGroup(group), b"new", b"").unwrap();
    });
    let pages = snapshot.pages(state, KeyGroup(5)).count() as u64;
    assert!(pages > 10);
    assert!(snapshot.key_group_done(KeyGroup(5)));
    let retired = heap.memory_use().retired_bytes;
    assert_eq!(copies_of_updating(&mut heap, state, 5, 1), 0);
    assert_eq!(heap.memory_use().retired_bytes, retired);
    assert!(copies_of_updating(&mut heap, state, 4, 1) >= pages / 2, "the others are copied as before");
    // What is removed is free at once.
    let retired = heap.memory_use().retired_bytes;
    for number in (5..2_000).step_by(usize::from(GROUPS)) {
        assert!(heap.remove(state, KeyGroup(5), &u32::to_le_bytes(number)).unwrap());
    }
    heap.remove(state, KeyGroup(5), b"new").unwrap();
    assert_eq!(heap.memory_use().retired_bytes, retired);
}

#[test]
fn half_of_the_key_groups_done_saves_half_of_the_copies() {
    let copies = |done: u16| {
        let (mut heap, state) = filled();
        let mut snapshot = heap.freeze().unwrap();
        (0..done).for_each(|group| assert!(snapshot.key_group_done(KeyGroup(group))));
        (0..GROUPS).map(|group| copies_of_updating(&mut heap, state, group, 1)).sum::<u64>()
    };
    let (none, half, all) = (copies(0), copies(GROUPS / 2), copies(GROUPS));
    assert!(half * 100 <= none * 55, "{half} of {none}");
    assert!(all <= 4, "only the root, the table and two chunks: {all}");
}

#[test]
fn a_run_keeps_its_key_group_until_it_is_dropped() {
    let (mut heap, state) = filled();
    let mut snapshot = heap.freeze().unwrap();
    let run = snapshot.pages(state, KeyGroup(3)).next().unwrap().guard();
    let bytes = run_bytes(&run);
    assert!(!snapshot.key_group_done(KeyGroup(3)));
    assert!(!snapshot.is_key_group_done(KeyGroup(3)));
    assert!(snapshot.key_group_done(KeyGroup(4)), "another one may be done");
    let pages = snapshot.pages(state, KeyGroup(3)).count();
    assert!(copies_of_updating(&mut heap, state, 3, 1) >= pages as u64);
    assert!(run_bytes(&run) == bytes);
    drop(run);
    assert!(snapshot.key_group_done(KeyGroup(3)));
    assert_eq!(snapshot.pages(state, KeyGroup(3)).count(), 0, "it is not read again");
}

fn run_bytes(run: &FrozenRun) -> Vec<u8> {
    slackwater_core::durable::Frozen::bytes(run).to_vec()
}

#[test]
fn a_run_takes_in_no_page_of_another_key_group() {
    let (mut heap, state) = heap(256, 2);
    for group in 0..2 {
        heap.put(state, KeyGroup(group), b"k", b"v").unwrap();
    }
    let snapshot = heap.freeze().unwrap();
    let pages: Vec<_> = (0..2).map(|group| snapshot.pages(state, KeyGroup(group)).next().unwrap()).collect();
    assert_eq!(pages[1].bytes().as_ptr().addr(), pages[0].bytes().as_ptr().addr() + 256, "side by side");
    assert!(!pages[0].guard().try_extend(&pages[1]));
}

#[test]
fn a_key_group_is_done_in_one_snapshot_and_not_in_another() {
    for newer_is_done in [true, false] {
        let (mut heap, state) = filled();
        let mut snapshots = [heap.freeze().unwrap(), heap.freeze().unwrap()];
        assert!(snapshots[usize::from(newer_is_done)].key_group_done(KeyGroup(1)));
        let expected = content_of(&snapshots[usize::from(!newer_is_done)], state);
        assert!(copies_of_updating(&mut heap, state, 1, 9) > 10);
        assert_eq!(content_of(&snapshots[usize::from(!newer_is_done)], state), expected);
        // A slot that is used again knows nothing of the snapshot before.
        drop(snapshots);
        let next = heap.freeze().unwrap();
        assert!((0..GROUPS).all(|group| !next.is_key_group_done(KeyGroup(group))));
    }
}

#[test]
fn an_arena_too_small_for_the_books_copies_as_before() {
    let mut memory = vec![0; 12 << 10];
    let arena = Arena::new(&mut memory);
    let mut heap = Heap::in_arena(&arena, options(256, 0, 2_000)).unwrap();
    let state = heap.register("o", "s", BYTES, BYTES).unwrap();
    heap.put(state, KeyGroup(3), b"k", b"1").unwrap();
    let mut snapshot = heap.freeze().unwrap();
    assert!(snapshot.key_group_done(KeyGroup(3)));
    assert!(!snapshot.is_key_group_done(KeyGroup(3)));
    heap.put(state, KeyGroup(3), b"k", b"2").unwrap();
    assert_eq!(content_of(&snapshot, state)[&(3, b"k".to_vec())], b"1");
}

/// Several snapshots at a time, each done with its key groups in an order of its own.
fn run(seed: u64, frame_size: u32, steps: u32, memory_bytes: u64) {
    let mut random = Random(seed);
    let mut heap = Heap::new(options(frame_size, memory_bytes, GROUPS)).unwrap();
    let state = heap.register("o", "s", BYTES, BYTES).unwrap();
    let mut refused = 0;
    let mut truth = Content::new();
    let mut alive: Vec<(Snapshot, Content)> = Vec::new();
    let mut runs: Vec<(FrozenRun, Vec<u8>)> = Vec::new();
    for step in 0..steps {
        let group = random.below(GROUPS.into()) as u16;
        let number = random.below(300) as u32;
        let mut key = number.to_le_bytes().to_vec();
        key.resize(if number.is_multiple_of(11) { frame_size as usize / 3 } else { 4 }, 5);
        let chosen = random.below(alive.len().max(1) as u64) as usize;
        match random.below(100) {
            0..=59 => {
                let long = random.below(20) == 0;
                let len = random.below(if long { u64::from(frame_size) * 3 } else { 30 });
                let value = vec![step as u8; len as usize];
                match heap.put(state, KeyGroup(group), &key, &value) {
                    Ok(()) => drop(truth.insert((group, key), value)),
                    Err(error) => {
                        let held = !alive.is_empty() || !runs.is_empty();
                        assert_eq!(matches!(error, HeapError::SnapshotHolds { .. }), held, "{error}");
                        refused += 1;
                    }
                }
            }
            60..=79 => match heap.remove(state, KeyGroup(group), &key) {
                Ok(removed) => assert_eq!(removed, truth.remove(&(group, key)).is_some()),
                Err(error) => assert!(matches!(error, HeapError::SnapshotHolds { .. })),
            },
            80..=89 if !alive.is_empty() => {
                let (snapshot, expected) = &mut alive[chosen];
                if snapshot.key_group_done(KeyGroup(group)) {
                    expected.retain(|(of, _), _| *of != group);
                }
            }
            90..=92 if !alive.is_empty() => {
                let page = alive[chosen].0.pages(state, KeyGroup(group)).last();
                runs.extend(page.map(|page| (page.guard(), page.bytes().to_vec())));
            }
            93..=94 if !runs.is_empty() => {
                let (run, bytes) = runs.swap_remove(random.below(runs.len() as u64) as usize);
                assert!(run_bytes(&run) == bytes, "seed {seed} step {step}");
            }
            95..=96 if !alive.is_empty() => {
                let (snapshot, expected) = alive.swap_remove(chosen);
                assert_eq!(content_of(&snapshot, state), expected, "seed {seed} step {step}");
            }
            97..=99 => alive.extend(heap.freeze().ok().map(|snapshot| (snapshot, truth.clone()))),
            _ => {
                let got = heap.get(state, KeyGroup(group), &key).unwrap().map(|value| owned(&value));
                assert_eq!(got.as_ref(), truth.get(&(group, key)), "seed {seed} step {step}");
            }
        }
    }
    for (snapshot, expected) in alive {
        assert_eq!(content_of(&snapshot, state), expected, "seed {seed}");
    }
    runs.into_iter().for_each(|(run, bytes)| assert!(run_bytes(&run) == bytes, "seed {seed}"));
    let last = heap.freeze().unwrap();
    check_pages(&last, state);
    assert_eq!(content_of(&last, state), truth);
    assert!(refused > 100 || memory_bytes > 1 << 20, "the limit was reached: {refused}");
}

#[test]
fn overlapping_snapshots_equal_their_moments_but_for_what_they_are_done_with() {
    (1..=4).for_each(|seed| run(seed * 7_907, 256, 3_000, 64 << 20));
    run(31, 4096, 3_000, 64 << 20);
}

#[test]
fn overlapping_snapshots_are_right_at_the_memory_limit_too() {
    (1..=4).for_each(|seed| run(seed * 104_729, 256, 3_000, 300 << 8));
}

//! How much memory entries take, and what comes back of it when they go.

use super::*;

const U64: CodecId<'static> = CodecId::fixed("u64", 1, 8);

/// A state of eight-byte keys and values, or one of values from 8 to 23 bytes.
fn sized(frame_size: u32, is_fixed: bool) -> (Heap, StateId) {
    let mut heap = Heap::new(options(frame_size, 256 << 20, 4)).unwrap();
    let codec = if is_fixed { U64 } else { BYTES };
    let state = heap.register("op", "s", codec, codec).unwrap();
    (heap, state)
}

fn place(number: u64) -> (KeyGroup, [u8; 8]) {
    (KeyGroup((number % 4) as u16), number.to_le_bytes())
}

fn put(heap: &mut Heap, state: StateId, is_fixed: bool, number: u64) {
    let (group, key) = place(number);
    let value = vec![1; if is_fixed { 8 } else { 8 + (number % 16) as usize }];
    heap.put(state, group, &key, &value).unwrap();
}

fn remove(heap: &mut Heap, state: StateId, number: u64) {
    let (group, key) = place(number);
    assert!(heap.remove(state, group, &key).unwrap());
}

fn live(heap: &Heap) -> f64 {
    heap.memory_use().live_bytes as f64
}

/// Frame sizes, whether records are of one size, entries.
const SHAPES: [(u32, bool, u64); 4] =
    [(256, true, 4_000), (256, false, 4_000), (4096, true, 20_000), (4096, false, 20_000)];

#[test]
fn eight_byte_keys_and_values_take_thirty_bytes_on_average() {
    let (mut heap, state) = sized(4096, true);
    let (mut sum, mut most) = (0.0, 0.0_f64);
    // Ten levels between one number and its double: pages split almost together.
    for count in [40_000, 42_871, 45_948, 49_246, 52_780, 56_569, 60_629, 64_980, 69_644, 74_643_u64] {
        (heap.len(state)..count).for_each(|number| put(&mut heap, state, true, number));
        let per_key = live(&heap) / count as f64;
        (sum, most) = (sum + per_key, most.max(per_key));
    }
    assert!(sum / 10.0 <= 30.0, "{} bytes a key on average", sum / 10.0);
    assert!(most <= 38.0, "{most} bytes a key at most");
}

#[test]
fn filling_again_what_was_half_emptied_takes_no_more_memory() {
    for (frame_size, is_fixed, count) in SHAPES {
        let (mut heap, state) = sized(frame_size, is_fixed);
        (0..count).for_each(|number| put(&mut heap, state, is_fixed, number));
        let full = live(&heap);
        for round in 0..2 {
            (0..count)
                .filter(|number| (number / 4 + round) % 2 == 0)
                .for_each(|number| remove(&mut heap, state, number));
            (0..count).for_each(|number| put(&mut heap, state, is_fixed, number));
        }
        assert!(live(&heap) <= full * 1.15, "{full} bytes before, {} after", live(&heap));
    }
}

#[test]
fn keys_that_come_and_go_take_no_more_memory_over_time() {
    for (frame_size, is_fixed, count) in SHAPES {
        let (mut heap, state) = sized(frame_size, is_fixed);
        (0..count).for_each(|number| put(&mut heap, state, is_fixed, number));
        let full = live(&heap);
        let mut oldest = 0;
        for round in 0..8 {
            // Every other round under a snapshot.
            let snapshot = (round % 2 == 0).then(|| heap.freeze().unwrap());
            (oldest..oldest + count / 2).for_each(|number| remove(&mut heap, state, number));
            (oldest + count..oldest + count + count / 2)
                .for_each(|number| put(&mut heap, state, is_fixed, number));
            oldest += count / 2;
            drop(snapshot);
            // Pages that were filled at once are fuller than those that come and go.
            assert!(live(&heap) <= full * 1.4, "{full} bytes before, {} in round {round}", live(&heap));
        }
        check_pages(&heap.freeze().unwrap(), state);
    }
}

#[test]
fn a_state_that_shrinks_gives_its_memory_back() {
    for (frame_size, is_fixed, count) in SHAPES {
        for with_snapshots in [false, true] {
            let (mut heap, state) = sized(frame_size, is_fixed);
            (0..count).for_each(|number| put(&mut heap, state, is_fixed, number));
            let full = live(&heap);
            // Nine of ten go, in an order that has nothing to do with pages, a few in each epoch.
            for number in (0..count).filter(|number| number % 10 != 0) {
                remove(&mut heap, state, number);
                if with_snapshots && number % 100 == 1 {
                    drop(heap.freeze().unwrap());
                }
            }
            let left = live(&heap);
            assert!(left <= full * 0.4, "{full} bytes before, {left} after, frames of {frame_size}");
            let snapshot = heap.freeze().unwrap();
            check_pages(&snapshot, state);
            assert_eq!(content_of(&snapshot, state).len() as u64, count / 10);
            for number in 0..count {
                let (group, key) = place(number);
                assert_eq!(heap.get(state, group, &key).unwrap().is_some(), number % 10 == 0);
            }
        }
    }
}

#[test]
fn a_directory_shrinks_with_its_pages() {
    for frame_size in [256, 4096] {
        let (mut heap, state) = sized(frame_size, true);
        let count = if frame_size == 256 { 8_000 } else { 60_000 };
        (0..count).for_each(|number| put(&mut heap, state, true, number));
        let depth = |heap: &mut Heap| heap.freeze().unwrap().group_depth(state, KeyGroup(0));
        let deep = depth(&mut heap);
        (20..count).for_each(|number| remove(&mut heap, state, number));
        let shallow = depth(&mut heap);
        assert!(deep >= 7 && shallow <= 3, "{deep} bits before, {shallow} after");
        (20..count).for_each(|number| put(&mut heap, state, true, number));
        let snapshot = heap.freeze().unwrap();
        check_pages(&snapshot, state);
        assert_eq!(content_of(&snapshot, state).len() as u64, count);
    }
}

#[test]
fn pages_of_keys_that_collide_go_with_their_keys() {
    for mask in [0, 0xff] {
        let (mut heap, state) = sized(256, true);
        heap.hasher.mask = mask;
        put(&mut heap, state, true, 0);
        let before = live(&heap);
        for round in 0..3 {
            (1..400).for_each(|number| put(&mut heap, state, true, number * 4));
            let snapshot = (round == 1).then(|| heap.freeze().unwrap());
            (1..400).for_each(|number| remove(&mut heap, state, number * 4));
            let left = live(&heap);
            // The pages of the directory stay as long as more hang behind them.
            assert!(left <= before + 4.0 * 256.0, "{before} bytes before, {left} after");
            drop(snapshot);
            check_pages(&heap.freeze().unwrap(), state);
        }
        assert_eq!(heap.len(state), 1);
    }
}

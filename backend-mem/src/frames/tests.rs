use std::vec;
use std::vec::Vec;

use slackwater_core::key_group::KeyGroupRange;

use super::*;
use crate::arena::Arena;

fn store<'a>(arena: &'a Arena<'a>) -> FrameStore<&'a Arena<'a>> {
    let key_groups = KeyGroupRange { first: KeyGroup(10), last: KeyGroup(12) };
    FrameStore::new(arena, Geometry::new(arena, 8, key_groups).unwrap()).unwrap()
}

/// Takes all there is, one by one.
fn exhaust<'a>(store: &mut FrameStore<&'a Arena<'a>>) -> Vec<FrameId> {
    core::iter::from_fn(|| store.take(0).ok()).collect()
}

#[test]
fn memory_that_is_populated_is_not_taken() {
    let mut memory = vec![0; 300 * 265];
    let arena = Arena::new(&mut memory);
    let mut store = store(&arena);
    let run = store.take(2).unwrap();
    store.write(run).unwrap().fill(7);
    for frames in [0, 1, 100, u32::MAX] {
        store.populate(frames);
        assert!(store.write(run).unwrap().iter().all(|byte| *byte == 7));
    }
    let taken = exhaust(&mut store).len();
    assert_eq!(taken + 4, store.geometry().frames as usize - 2, "all but none and the scratch frame");
    store.populate(u32::MAX);
    assert!(store.write(run).unwrap().iter().all(|byte| *byte == 7), "nothing is left to populate");
}

#[test]
fn runs_do_not_overlap_and_join_again_when_they_are_free() {
    let mut memory = vec![0; 300 * 265];
    let arena = Arena::new(&mut memory);
    let mut store = store(&arena);
    let orders = [0, 3, 1, 0, 4, 2, 0, 5];
    let runs: Vec<_> = orders.iter().map(|order| (store.take(*order).unwrap(), *order)).collect();
    let mut taken: Vec<u32> = runs.iter().flat_map(|(run, order)| run.0..run.0 + (1 << order)).collect();
    assert!(runs.iter().all(|(run, order)| run.0.is_multiple_of(1 << order)), "a run lies at a multiple");
    let singles = exhaust(&mut store);
    taken.extend(singles.iter().map(|frame| frame.0));
    taken.sort_unstable();
    // All frames but the one that stands for none and the scratch frame.
    let frames = store.geometry().frames;
    assert_eq!(taken, (2..frames).collect::<Vec<_>>());
    assert!(matches!(store.take(0), Err(HeapError::MemoryLimit { .. })));
    for (run, _) in runs {
        store.retire_of(KeyGroup(10), run);
    }
    for frame in singles {
        store.retire_of(KeyGroup(10), frame);
    }
    assert_eq!(store.live_frames(), 1);
    assert!(store.take(7).is_ok(), "what was given back frame by frame is one run again");
}

#[test]
fn frozen_and_free_frames_are_not_lent_for_writing() {
    let mut memory = vec![0; 100 * 265];
    let arena = Arena::new(&mut memory);
    let mut store = store(&arena);
    let (frame, run) = (store.take(0).unwrap(), store.take(2).unwrap());
    assert_eq!(
        (store.write(frame).map(|bytes| bytes.len()), store.write(run).unwrap().len()),
        (Some(256), 1024)
    );
    assert!(store.write(FrameId(run.0 + 1)).is_none(), "the inside of a run");
    assert!(store.write(FrameId(u32::MAX)).is_none());
    assert!(store.write(FrameId::NONE).is_none());
    assert!(store.read_and_write(frame, frame).is_none());
    let (_, slot) = store.freeze().unwrap();
    assert!(store.write(frame).is_none());
    let copy = store.make_writable(frame).unwrap();
    assert_ne!(copy, frame);
    assert!(store.write(copy).is_some());
    arena.slots().leave(slot);
    assert_eq!(store.make_writable(run), Ok(run), "nobody reads it any more");
    store.retire_of(KeyGroup(10), run);
    assert!(store.write(run).is_none());
}

#[test]
fn retired_frames_wait_for_every_snapshot_that_may_see_them() {
    let mut memory = vec![0; 40 * 265];
    let arena = Arena::new(&mut memory);
    let mut store = store(&arena);
    let frame = store.take(0).unwrap();
    let slots: Vec<_> = (0..4).map(|_| store.freeze().unwrap().1).collect();
    assert_eq!(store.freeze(), Err(HeapError::TooManySnapshots));
    store.retire_of(KeyGroup(10), frame);
    for (released, slot) in [2, 0, 3, 1].map(|index| slots[index]).into_iter().enumerate() {
        let again: Vec<_> = exhaust(&mut store);
        assert!(!again.contains(&frame), "{released} of four are released");
        again.into_iter().for_each(|frame| store.retire_of(KeyGroup(10), frame));
        arena.slots().leave(slot);
    }
    assert!(exhaust(&mut store).contains(&frame));
    assert_eq!(store.retired_frames(), 0);
}

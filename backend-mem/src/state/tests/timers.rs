use std::collections::BTreeSet;

use super::*;
use crate::heap::HeapError;

type WordTimers = Timers<Utf8>;

fn timers(heap: &mut Heap) -> WordTimers {
    WordTimers::register(heap, "op", "timers", groups()).unwrap()
}

/// Takes all timers that are due.
fn pop_all(timers: &mut WordTimers, heap: &mut Heap, up_to: i64) -> Vec<(i64, String)> {
    core::iter::from_fn(|| timers.pop_due(heap, up_to).unwrap())
        .map(|timer| (timer.timestamp, timer.key))
        .collect()
}

#[test]
fn timers_come_in_the_order_of_their_times_when_they_are_due() {
    let mut heap = heap(groups());
    let mut timers = timers(&mut heap);
    assert_eq!((timers.earliest(&heap), timers.pop_due(&mut heap, i64::MAX)), (Ok(None), Ok(None)));
    let times = [5, i64::MAX, -3, 0, i64::MIN, 256, 255, 1 << 40, -(1 << 40)];
    for (time, key) in times.into_iter().zip(["a", "b", "c"].into_iter().cycle()) {
        assert_eq!(timers.add(&mut heap, time, key), Ok(true));
    }
    assert_eq!(timers.earliest(&heap), Ok(Some(i64::MIN)));
    let due: Vec<_> = pop_all(&mut timers, &mut heap, 255).into_iter().map(|(time, _)| time).collect();
    assert_eq!(due, [i64::MIN, -(1 << 40), -3, 0, 5, 255]);
    assert_eq!(timers.earliest(&heap), Ok(Some(256)));
    let due: Vec<_> = pop_all(&mut timers, &mut heap, i64::MAX).into_iter().map(|(time, _)| time).collect();
    assert_eq!((due, heap.len(timers.id())), (vec![256, 1 << 40, i64::MAX], 0));
}

#[test]
fn a_timer_added_twice_is_one_and_a_removed_one_does_not_fire() {
    let mut heap = heap(groups());
    let mut timers = timers(&mut heap);
    assert_eq!(timers.add(&mut heap, 7, "key"), Ok(true));
    assert_eq!(timers.add(&mut heap, 7, "key"), Ok(false));
    assert_eq!(timers.add(&mut heap, 7, "other"), Ok(true));
    assert_eq!(timers.add(&mut heap, 8, "key"), Ok(true));
    assert_eq!(timers.remove(&mut heap, 7, "key"), Ok(true));
    assert_eq!(timers.remove(&mut heap, 7, "key"), Ok(false));
    let due = pop_all(&mut timers, &mut heap, 100);
    assert_eq!(due, [(7, "other".to_string()), (8, "key".to_string())]);
}

#[test]
fn what_a_timer_adds_fires_in_its_turn() {
    let mut heap = heap(groups());
    let mut timers = timers(&mut heap);
    timers.add(&mut heap, 1, "a").unwrap();
    let mut fired = Vec::new();
    while let Some(timer) = timers.pop_due(&mut heap, 10).unwrap() {
        fired.push(timer.timestamp);
        timers.add(&mut heap, timer.timestamp + 4, "a").unwrap();
        timers.add(&mut heap, timer.timestamp + 5, "b").unwrap();
    }
    assert_eq!(fired, [1, 5, 6, 9, 10, 10]);
}

#[test]
fn timers_are_what_an_ordered_set_is() {
    for frame_size in [256, 4096] {
        let key_groups = groups().all_key_groups();
        let options = HeapOptions { frame_size, memory_limit_bytes: 32 << 20, key_groups, hash_seed: 3 };
        let mut heap = Heap::new(options).unwrap();
        let mut timers = timers(&mut heap);
        let mut truth = BTreeSet::new();
        let mut now = 0;
        for number in 0..8_000_i64 {
            let random = number.wrapping_mul(0x9e37_79b9_7f4a_7c15_u64.cast_signed()).rotate_left(20);
            let (time, key) = (now + random.rem_euclid(900), std::format!("k{}", random.rem_euclid(37)));
            match number % 8 {
                0..=4 => {
                    assert_eq!(timers.add(&mut heap, time, &key), Ok(truth.insert((time, key.clone()))));
                }
                5 => assert_eq!(timers.remove(&mut heap, time, &key), Ok(truth.remove(&(time, key.clone())))),
                _ => {
                    now += random.rem_euclid(3);
                    for (time, key) in pop_all(&mut timers, &mut heap, now) {
                        let (first, _) = truth.first().unwrap();
                        assert_eq!(*first, time, "the earliest comes first");
                        assert!(truth.remove(&(time, key)));
                    }
                    assert!(truth.first().is_none_or(|(time, _)| *time > now));
                }
            }
            assert_eq!(timers.earliest(&heap), Ok(truth.first().map(|(time, _)| *time)));
            if number % 1_000 == 0 {
                drop(heap.freeze().unwrap());
            }
        }
        assert!(truth.len() > 100);
        assert_eq!(heap.len(timers.id()), truth.len() as u64);
    }
}

#[test]
fn a_handle_sees_timers_that_were_there_or_came_without_it() {
    let mut heap = heap(groups());
    let mut first = timers(&mut heap);
    first.add(&mut heap, 9, "a").unwrap();
    let mut second = timers(&mut heap);
    assert_eq!(second.earliest(&heap), Ok(Some(9)));
    // As a restore does.
    let mut stored = (-5_i64 ^ i64::MIN).cast_unsigned().swap_bytes().to_le_bytes().to_vec();
    stored.extend_from_slice(b"b");
    let group = key_group_of_hash(Utf8::key_group_hash("b"), groups());
    heap.ordered_put(second.id(), group, &stored, &[]).unwrap();
    assert_eq!(second.pop_due(&mut heap, 0).unwrap().map(|timer| timer.key), Some("b".to_string()));
    assert_eq!(second.earliest(&heap), Ok(Some(9)));
}

#[test]
fn a_timer_is_of_a_key_and_a_namespace() {
    let mut heap = heap(groups());
    let mut timers = Timers::<Utf8, Plain<u32>>::register(&mut heap, "op", "t", groups()).unwrap();
    for window in [2_u32, 1] {
        assert_eq!(timers.add(&mut heap, 10, ("key", &window)), Ok(true));
    }
    let mut due = Vec::new();
    while let Some(timer) = timers.pop_due(&mut heap, 10).unwrap() {
        due.push(timer.key);
    }
    due.sort();
    assert_eq!(due, [("key".to_string(), 1), ("key".to_string(), 2)]);
}

#[test]
fn bytes_that_are_no_timer_stay_and_are_named() {
    let mut heap = heap(MaxParallelism::new(1).unwrap());
    let one = MaxParallelism::new(1).unwrap();
    let mut timers = Timers::<Plain<u32>>::register(&mut heap, "op", "t", one).unwrap();
    heap.ordered_put(timers.id(), KeyGroup(0), &[0x80, 0, 0, 0, 0, 0, 0, 0, 1], &[]).unwrap();
    let malformed = Malformed { codec: Plain::<u32>::ID, len: 1 };
    assert_eq!(timers.pop_due(&mut heap, 5), Err(StateError::Malformed(malformed)));
    assert_eq!(heap.len(timers.id()), 1);
    heap.ordered_put(timers.id(), KeyGroup(0), &[1], &[]).unwrap();
    assert!(matches!(timers.earliest(&heap), Err(StateError::Malformed(Malformed { len: 1, .. }))));
}

#[test]
fn the_callers_memory_must_have_a_slot_for_each_key_group() {
    let mut heap = heap(groups());
    let slots = [GroupMinimum::default(); 8];
    let mut timers = Timers::<Plain<u32>, (), _>::register_in(&mut heap, "op", "t", groups(), slots).unwrap();
    timers.add(&mut heap, 3, &1).unwrap();
    assert_eq!(timers.earliest(&heap), Ok(Some(3)));
    let mut few = [GroupMinimum::default(); 4];
    let refused =
        Timers::<Plain<u32>, (), _>::register_in(&mut heap, "op", "t", groups(), few.as_mut_slice()).err();
    assert!(matches!(refused, Some(StateError::Heap(HeapError::InvalidOptions { .. }))));
}

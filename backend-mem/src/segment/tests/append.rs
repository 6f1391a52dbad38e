//! Values that have grown at their end.

use super::*;

/// Adds to some values of the first state, a little and much, with snapshots in between.
fn grow(heap: &mut Heap, seed: u64, truth: &mut Entries) {
    let state = heap.register("op", "grown", BYTES, BYTES).unwrap();
    let mut random = seed;
    for step in 0..1_500_u32 {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let [_, _, _, group, number, kind, much, byte] = random.to_le_bytes();
        let (group, key) = (u16::from(group % 3), vec![number % 16; 5 + usize::from(number % 16) * 30]);
        let len = if kind < 10 { usize::from(much) * 40 } else { usize::from(much) % 30 };
        let more = vec![byte; len];
        if kind == 200 {
            assert_eq!(
                heap.remove(state, KeyGroup(group), &key).unwrap(),
                truth.remove(&("grown".into(), group, key)).is_some()
            );
        } else {
            heap.append(state, KeyGroup(group), &key, &more).unwrap();
            truth.entry(("grown".into(), group, key)).or_default().extend(more);
        }
        if step % 100 == 0 {
            drop(heap.freeze().unwrap());
        }
    }
}

#[test]
fn grown_values_are_verified_taken_over_and_grow_on() {
    for frame_size in [256, 1024, 4096] {
        let (mut truth, mut heap) = (Entries::new(), heap(frame_size, 0..=2));
        for round in 1..=3 {
            grow(&mut heap, round * 7_919, &mut truth);
            let mut disk = TestDisk::new();
            let segment = write(&mut disk, heap.freeze().unwrap(), "s.seg");
            let verified = verify_segment(&mut disk, "s.seg", &segment).unwrap();
            assert_eq!(verified.entries, truth.len() as u64);
            heap = self::heap(frame_size, 0..=2);
            let stats = restore_segment(&mut disk, "s.seg", &segment, range(0..=2), &mut heap).unwrap();
            assert_eq!(stats.key_groups_adopted, 3);
            assert!(entries_of(&heap.freeze().unwrap()) == truth, "frame size {frame_size} round {round}");
        }
    }
}

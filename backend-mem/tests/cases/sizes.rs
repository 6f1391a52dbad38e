use slackwater_core::format::page::{KEY_LEN_MAX, VALUE_LEN_MAX};
use slackwater_mem::HeapError;
use slackwater_mem::segment::{restore_segment, verify_segment};

use super::*;

fn large(frame_size: u32) -> Heap {
    let memory_limit_bytes = 600 << 20;
    Heap::new(HeapOptions { frame_size, memory_limit_bytes, key_groups: groups(0, 0), hash_seed: 3 }).unwrap()
}

fn bytes(len: usize, salt: u8) -> Vec<u8> {
    let mut bytes = vec![salt; len];
    // Places that differ, so that pieces in a wrong order are noticed.
    for (at, byte) in bytes.iter_mut().step_by(97).zip((0..=250).cycle()) {
        *at = byte ^ salt;
    }
    bytes
}

#[test]
fn the_longest_keys_and_values_come_back_from_heap_snapshot_and_segment() {
    let mut heap = large(4096);
    let state = heap.register("op", "s", BYTES, BYTES).unwrap();
    let (key, value) = (bytes(KEY_LEN_MAX, 1), bytes(VALUE_LEN_MAX, 2));
    heap.put(state, KeyGroup(0), &key, &value).unwrap();
    heap.put(state, KeyGroup(0), &[], &value[..1 << 20]).unwrap();
    heap.put(state, KeyGroup(0), &key[1..], &[]).unwrap();
    let full = heap.memory_use().live_bytes;
    assert!(full < 100 << 20, "{full} bytes hold 97 MiB of keys and values");
    let snapshot = heap.freeze().unwrap();
    // A shorter value takes the long one's place; the key stays where it is.
    heap.put(state, KeyGroup(0), &key, b"short").unwrap();
    assert!(heap.get(state, KeyGroup(0), &key).unwrap().unwrap().is(b"short"));

    let mut disk = TestDisk::new();
    let segment = write(&mut disk, snapshot, "s");
    assert_eq!(verify_segment(&mut disk, "s", &segment).unwrap().entries, 3);
    let mut restored = large(4096);
    restore_segment(&mut disk, "s", &segment, groups(0, 0), &mut restored).unwrap();
    for (key, expected) in [(&key[..], &value[..]), (&[], &value[..1 << 20]), (&key[1..], &[])] {
        assert!(restored.get(state, KeyGroup(0), key).unwrap().unwrap().is(expected));
        assert!(restored.remove(state, KeyGroup(0), key).unwrap());
    }
    assert!(restored.memory_use().live_bytes <= 8 * 4096, "all of it has come back");
    let long = vec![0; VALUE_LEN_MAX + 1];
    for (key, value) in [(&long[..=KEY_LEN_MAX], &[][..]), (&[], &long)] {
        let refused = heap.put(state, KeyGroup(0), key, value);
        assert!(matches!(refused, Err(HeapError::KeyTooLarge { .. } | HeapError::ValueTooLarge { .. })));
    }
}

#[test]
fn the_smallest_frames_hold_long_keys_and_values_too() {
    for frame_size in [256, 16_384] {
        let mut heap = large(frame_size);
        let state = heap.register("op", "s", BYTES, BYTES).unwrap();
        let (key, value) = (bytes(1 << 20, 3), bytes(8 << 20, 4));
        for round in 0..2 {
            heap.put(state, KeyGroup(0), &key, &value[round..]).unwrap();
            heap.put(state, KeyGroup(0), b"k", &value[round * 2..]).unwrap();
            let snapshot = heap.freeze().unwrap();
            let found = entries_of(&snapshot);
            assert!(found[&("s".to_string(), 0, key.clone())] == value[round..]);
            assert!(found[&("s".to_string(), 0, b"k".to_vec())] == value[round * 2..]);
        }
    }
}

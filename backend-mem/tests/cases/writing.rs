use std::cell::RefCell;

use slackwater_core::durable::{Disk, Tokens, Wait};
use slackwater_core::key_group::key_group_of_hash;
use slackwater_mem::segment::{read_file, restore_segment};
use slackwater_mem::{Codec, Decode, ValueState};

use super::*;

/// A heap with state A of 10,000 keys.
fn filled() -> Heap {
    let mut heap = heap(groups(0, 3));
    let a = heap.register("op", "a", BYTES, BYTES).unwrap();
    for number in 0..10_000_u32 {
        let value = vec![1; if number % 1_000 == 0 { 2_000 } else { 8 }];
        heap.put(a, group_of(number), &number.to_le_bytes(), &value).unwrap();
    }
    heap
}

fn group_of(number: u32) -> KeyGroup {
    KeyGroup(u16::try_from(number % 4).unwrap())
}

/// One of the things that may happen to a heap while its snapshot is written.
fn go_on(heap: &mut Heap, step: u32) {
    let a = heap.state("op", "a").unwrap();
    let put = |heap: &mut Heap, state, number: u32, value: &[u8]| {
        heap.put(state, group_of(number), &number.to_le_bytes(), value).unwrap();
    };
    match step {
        0 => {
            let b = heap.register("op", "b", BYTES, BYTES).unwrap();
            (0..1_000).for_each(|number| put(heap, b, number, b"of b"));
        }
        1 => (10_000..15_000).for_each(|number| put(heap, a, number, b"new")),
        2 => (0..10_000).for_each(|number| put(heap, a, number, &[2; 30])),
        3 => (0..100).for_each(|number| {
            assert!(heap.remove(a, group_of(number), &number.to_le_bytes()).unwrap());
        }),
        4 => (0..15_000_u32).for_each(|number| {
            heap.remove(a, group_of(number), &number.to_le_bytes()).unwrap();
        }),
        _ => {}
    }
}

#[test]
fn e01_a_state_registered_while_a_snapshot_is_written_is_not_in_it() {
    let mut undisturbed = filled();
    let mut disk = TestDisk::new();
    write(&mut disk, undisturbed.freeze().unwrap(), "undisturbed");
    let expected = read_file(&mut disk, "undisturbed", 64 << 20).unwrap();
    for steps_before in [0, 3, 6] {
        let mut heap = filled();
        let snapshot = heap.freeze().unwrap();
        (0..steps_before).for_each(|step| go_on(&mut heap, step));
        let mut disk = TestDisk::new();
        let mut writer = writer(snapshot, "s");
        let (mut tokens, mut step) = (Tokens::new(0), steps_before);
        while !writer.is_done() {
            writer.advance(&mut disk, &mut tokens);
            go_on(&mut heap, step);
            step += 1;
            let mut ended = heapless::Vec::<_, 4>::new();
            disk.reap(Wait::ForOne, &mut ended);
            ended.into_iter().for_each(|completion| writer.on_completion(completion, &mut disk));
        }
        (step..5).for_each(|step| go_on(&mut heap, step));
        assert!(read_file(&mut disk, "s", 64 << 20).unwrap() == expected, "the bytes are the same");
        let segment = writer.result().unwrap().clone().unwrap();
        let mut restored = self::heap(groups(0, 3));
        restore_segment(&mut disk, "s", &segment, groups(0, 3), &mut restored).unwrap();
        assert_eq!(
            (restored.len(restored.state("op", "a").unwrap()), restored.state("op", "b")),
            (10_000, None)
        );
        let [a, b] = ["a", "b"].map(|name| heap.state("op", name).unwrap());
        assert_eq!((heap.len(a), heap.len(b)), (0, 1_000), "the heap is what was done to it");
    }
}

thread_local! {
    static SCRATCH: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// A codec that builds each item in a buffer of its own. A codec has no value that two threads could share: a
/// buffer behind it must be the thread's, or a static that is `Sync`.
struct Scratched;

impl Codec for Scratched {
    type Item = u32;
    const ID: CodecId<'static> = CodecId::variable("scratched", 1);

    fn encoded<R>(
        item: &u32,
        with: impl FnOnce(&[u8]) -> R,
    ) -> Result<R, slackwater_mem::codec::Unencodable> {
        SCRATCH.with_borrow_mut(|scratch| {
            scratch.clear();
            for _ in 0..item % 50 {
                scratch.extend_from_slice(&item.to_le_bytes());
            }
            Ok(with(scratch))
        })
    }

    fn key_group_hash(item: &u32) -> i32 {
        item.cast_signed()
    }
}

impl Decode for Scratched {
    type Owned = u32;

    fn decode(value: &Value<'_>) -> Result<u32, slackwater_mem::codec::Malformed> {
        SCRATCH.with_borrow_mut(|scratch| {
            scratch.clear();
            value.chunks().for_each(|chunk| scratch.extend_from_slice(chunk));
            let number = scratch.first_chunk::<4>().map_or(0, |number| u32::from_le_bytes(*number));
            assert!(scratch.chunks(4).all(|part| part == number.to_le_bytes()), "the bytes are of one item");
            Ok(number)
        })
    }

    fn borrow(owned: &u32) -> &u32 {
        owned
    }
}

#[test]
fn e02_a_codec_with_a_buffer_of_its_own_serves_two_threads_at_once() {
    let max = MaxParallelism::new(4).unwrap();
    let mut heap = heap(max.all_key_groups());
    let state =
        ValueState::<slackwater_mem::Plain<u32>, Scratched>::register(&mut heap, "op", "s", max).unwrap();
    let value = |number: u32| number.wrapping_mul(0x9e37_79b9) | 1;
    for number in 0..1_000_u32 {
        state.put(&mut heap, &number, &value(number)).unwrap();
    }
    for round in 1..=50_u32 {
        let snapshot = heap.freeze().unwrap();
        let expected = entries_of(&snapshot);
        let reader = std::thread::spawn(move || {
            let mut read = Entries::new();
            snapshot.entries(state.id(), &mut |group, key, value| {
                Scratched::decode(&value).unwrap();
                read.insert(("s".into(), group.0, bytes_of(key)), bytes_of(value));
            });
            read
        });
        for number in 0..1_000_u32 {
            state.update(&mut heap, &number, |old| old.unwrap().wrapping_add(round)).unwrap();
        }
        assert!(reader.join().unwrap() == expected, "round {round}");
    }
    let group = key_group_of_hash(7, max);
    assert!(heap.get(state.id(), group, &7_u32.to_le_bytes()).unwrap().is_some());
}

//! From three subtasks to other numbers of them, through segments.

use std::collections::BTreeMap;
use std::string::String;
use std::vec::Vec;
use std::{format, vec};

use slackwater_core::assign::Rescaling;
use slackwater_core::durable::run_to_end;
use slackwater_core::ids::CheckpointId;
use slackwater_core::key_group::{KeyGroup, MaxParallelism, key_group_of_hash, range_of_subtask};

use crate::codec::{Codec, Plain, Utf8};
use crate::disk::MemDisk;
use crate::heap::{Heap, HeapOptions, Value};
use crate::operator_state::{Broadcast, RawKeyedState, RawOperatorState, SplitList, UnionList};
use crate::segment::{
    Compression, OldSegment, SegmentRef, SegmentSpec, SegmentWriter, restore_operator_state, restore_segment,
    verify_segment,
};
use crate::snapshot::FrozenRun;
use crate::state::ValueState;

type Disk = MemDisk<FrozenRun>;

const KEY_GROUPS: u32 = 20;
const OLD: u32 = 3;

/// Every state of a subtask. Two operators, so that names may be the same.
struct States {
    splits: SplitList<Utf8>,
    small: SplitList<Plain<u32>>,
    offsets: UnionList<Plain<u64>>,
    rules: Broadcast<Utf8, Plain<u64>>,
    keyed_bytes: RawKeyedState,
    partitions: RawOperatorState,
    counts: ValueState<Plain<u32>, Plain<u64>>,
}

impl States {
    fn register(heap: &mut Heap) -> Self {
        Self {
            splits: SplitList::register(heap, "source", "splits").unwrap(),
            small: SplitList::register(heap, "source", "small").unwrap(),
            offsets: UnionList::register(heap, "source", "offsets").unwrap(),
            rules: Broadcast::register(heap, "filter", "rules").unwrap(),
            keyed_bytes: RawKeyedState::register(heap, "custom", "keyed bytes").unwrap(),
            partitions: RawOperatorState::register(heap, "custom", "partitions").unwrap(),
            counts: ValueState::register(heap, "count", "counts", max_parallelism()).unwrap(),
        }
    }
}

fn max_parallelism() -> MaxParallelism {
    MaxParallelism::new(KEY_GROUPS).unwrap()
}

fn heap(parallelism: u32, index: u32) -> Heap {
    let key_groups = range_of_subtask(max_parallelism(), parallelism, index).unwrap();
    Heap::new(HeapOptions { frame_size: 512, memory_limit_bytes: 4 << 20, key_groups, hash_seed: 5 }).unwrap()
}

fn split(subtask: u32, number: u32) -> String {
    format!("split {subtask}/{number} {}", "x".repeat(number as usize * 40))
}

/// How many splits, offsets and partitions each old subtask has.
const COUNTS: [(u32, u64, usize); OLD as usize] = [(4, 2, 3), (0, 0, 0), (7, 5, 1)];

fn group_of(key: u32) -> KeyGroup {
    key_group_of_hash(Plain::<u32>::key_group_hash(&key), max_parallelism())
}

fn raw_of(group: KeyGroup) -> Vec<u8> {
    (0..u32::from(group.0) * 150).flat_map(u32::to_le_bytes).collect()
}

fn partition(subtask: u32, number: usize) -> Vec<u8> {
    vec![u8::try_from(subtask).unwrap(); number * 1000]
}

fn filled(subtask: u32) -> Heap {
    let mut heap = heap(OLD, subtask);
    let states = States::register(&mut heap);
    let (splits, offsets, partitions) = COUNTS[subtask as usize];
    for number in 0..splits {
        states.splits.push(&mut heap, &split(subtask, number)).unwrap();
    }
    if subtask == 1 {
        states.small.push(&mut heap, &77).unwrap();
    }
    for offset in 0..offsets {
        states.offsets.push(&mut heap, &(u64::from(subtask) * 100 + offset)).unwrap();
    }
    for rule in 0..30_u64 {
        states.rules.put(&mut heap, &format!("rule {rule}"), &(rule * rule)).unwrap();
    }
    for number in 0..partitions {
        states.partitions.push(&mut heap, &partition(subtask, number)).unwrap();
    }
    for group in heap.options().key_groups.iter() {
        for part in raw_of(group).chunks(400) {
            states.keyed_bytes.write(&mut heap, group, part).unwrap();
        }
    }
    let keys = (0..500_u32).filter(|key| heap.options().key_groups.contains(group_of(*key)));
    for key in keys.collect::<Vec<_>>() {
        states.counts.put(&mut heap, &key, &u64::from(key)).unwrap();
    }
    heap
}

/// Writes the heaps as the segments of as many subtasks, each under its number.
fn write(disk: &mut Disk, heaps: &mut [Heap], checkpoint: u64) -> Vec<(String, SegmentRef)> {
    write_as(Compression::None, disk, heaps, checkpoint)
}

fn write_as(
    compression: Compression,
    disk: &mut Disk,
    heaps: &mut [Heap],
    checkpoint: u64,
) -> Vec<(String, SegmentRef)> {
    let mut segments = Vec::new();
    for (subtask, heap) in (0..).zip(heaps) {
        let path = format!("{checkpoint}-{subtask}.seg");
        let spec = SegmentSpec {
            folder: String::new(),
            file_name: path.clone(),
            file_id: u128::from(checkpoint << 32 | u64::from(subtask)),
            job_id: 1,
            checkpoint: CheckpointId(checkpoint),
            subtask,
            attempt: 0,
            max_parallelism: max_parallelism(),
            compression,
        };
        let mut writer = SegmentWriter::<Disk>::new(heap.freeze().unwrap(), spec);
        run_to_end(disk, &mut writer).unwrap();
        let segment = writer.result().unwrap().clone().unwrap();
        verify_segment(disk, &path, &segment).unwrap();
        segments.push((path, segment));
    }
    segments
}

fn restore(disk: &mut Disk, segments: &[(String, SegmentRef)], new: u32) -> Vec<Heap> {
    let old: Vec<_> = segments.iter().map(|(path, segment)| Some(OldSegment { path, segment })).collect();
    let rescaling = Rescaling::new(max_parallelism(), u32::try_from(old.len()).unwrap(), new).unwrap();
    let subtask = |index| {
        let mut heap = heap(new, index);
        for part in rescaling.keyed_parts(index).unwrap() {
            let (path, segment) = &segments[part.subtask as usize];
            restore_segment(disk, path, segment, part.key_groups, &mut heap).unwrap();
        }
        restore_operator_state(disk, &old, rescaling, index, &mut heap).unwrap();
        heap
    };
    (0..new).map(subtask).collect()
}

fn bytes_of(value: Value<'_>) -> Vec<u8> {
    value.chunks().collect::<Vec<_>>().concat()
}

/// What the heaps of all new subtasks must hold.
fn check(heaps: &mut [Heap]) {
    let (mut splits, mut small, mut partitions, mut counts) =
        (Vec::new(), Vec::new(), Vec::new(), BTreeMap::new());
    let mut sizes = Vec::new();
    for heap in heaps {
        let states = States::register(heap);
        splits.extend(states.splits.iter(heap).map(Result::unwrap));
        small.extend(states.small.iter(heap).map(Result::unwrap));
        sizes.push(states.splits.len(heap));
        let held = 0..states.partitions.len(heap);
        partitions.extend(held.map(|at| bytes_of(states.partitions.value(heap, at).unwrap().unwrap())));

        let offsets: Vec<_> = states.offsets.iter(heap).map(Result::unwrap).collect();
        assert_eq!(offsets, [0, 1, 200, 201, 202, 203, 204], "every subtask has all of a union, in order");
        let mut rules = BTreeMap::new();
        states.rules.for_each(heap, |rule, value| assert!(rules.insert(rule, value).is_none())).unwrap();
        let expected: BTreeMap<_, _> = (0..30).map(|rule| (format!("rule {rule}"), rule * rule)).collect();
        assert_eq!(rules, expected, "every subtask has the same broadcast");

        for group in heap.options().key_groups.iter() {
            let bytes: Vec<u8> = states.keyed_bytes.read(heap, group).unwrap().flat_map(bytes_of).collect();
            assert!(bytes == raw_of(group), "raw bytes of key group {group}");
        }
        for key in 0..500 {
            if heap.options().key_groups.contains(group_of(key)) {
                let count = states.counts.get(heap, &key).unwrap().unwrap();
                assert!(counts.insert(key, count).is_none(), "a key is in one subtask");
            }
        }
    }
    splits.sort();
    let all = (0..OLD).flat_map(|subtask| (0..COUNTS[subtask as usize].0).map(move |at| split(subtask, at)));
    assert_eq!(splits, all.collect::<Vec<_>>(), "each split is in one subtask");
    assert_eq!(small, [77]);
    partitions.sort();
    let mut all: Vec<_> = (0..OLD)
        .flat_map(|subtask| (0..COUNTS[subtask as usize].2).map(move |at| partition(subtask, at)))
        .collect();
    all.sort();
    assert!(partitions == all, "each raw partition is in one subtask");
    assert_eq!(counts.len(), 500);
    assert!(counts.iter().all(|(key, count)| u64::from(*key) == *count));
    if sizes.len() != OLD as usize {
        let (least, most) = (sizes.iter().min().unwrap(), sizes.iter().max().unwrap());
        assert!(most - least <= 1, "{sizes:?}");
    }
}

#[test]
fn r12_three_subtasks_become_two_five_or_one_and_nothing_is_lost_or_doubled() {
    for new in [2, 5, 1, 3] {
        let mut disk = Disk::new();
        let mut old: Vec<_> = (0..OLD).map(filled).collect();
        let segments = write(&mut disk, &mut old, 1);
        let mut restored = restore(&mut disk, &segments, new);
        check(&mut restored);
        // And on from there, to a third number. Of a union each subtask keeps what is its own.
        for heap in restored.iter_mut().skip(1) {
            let offsets = States::register(heap).offsets;
            offsets.clear(heap).unwrap();
        }
        let segments = write(&mut disk, &mut restored, 2);
        check(&mut restore(&mut disk, &segments, 4));
    }
}

#[test]
fn r11_with_the_same_parallelism_a_split_list_stays_with_its_subtask() {
    let mut disk = Disk::new();
    let mut old: Vec<_> = (0..OLD).map(filled).collect();
    let segments = write(&mut disk, &mut old, 1);
    for (subtask, mut heap) in (0..).zip(restore(&mut disk, &segments, OLD)) {
        let list = States::register(&mut heap).splits;
        let splits: Vec<_> = list.iter(&heap).map(Result::unwrap).collect();
        let expected: Vec<_> = (0..COUNTS[subtask as usize].0).map(|number| split(subtask, number)).collect();
        assert_eq!(splits, expected);
    }
}

#[test]
fn r12_small_lists_do_not_all_go_to_the_first_subtask() {
    let mut disk = Disk::new();
    let mut old = vec![heap(1, 0)];
    for name in ["a", "b", "c", "d"] {
        SplitList::<Utf8>::register(&mut old[0], "op", name).unwrap().push(&mut old[0], name).unwrap();
    }
    // Another operator starts from the first subtask again.
    SplitList::<Utf8>::register(&mut old[0], "op 2", "a").unwrap().push(&mut old[0], "a").unwrap();
    let segments = write(&mut disk, &mut old, 1);
    let taken = restore(&mut disk, &segments, 3).into_iter().map(|mut heap| {
        [("op", "a"), ("op", "b"), ("op", "c"), ("op", "d"), ("op 2", "a")].map(|(operator, name)| {
            SplitList::<Utf8>::register(&mut heap, operator, name).unwrap().len(&heap)
        })
    });
    assert_eq!(taken.collect::<Vec<_>>(), [[1, 0, 0, 1, 1], [0, 1, 0, 0, 0], [0, 0, 1, 0, 0]]);
}

#[test]
fn r11_a_subtask_that_had_finished_takes_the_broadcast_of_another() {
    let mut disk = Disk::new();
    let mut old: Vec<_> = (0..OLD).map(filled).collect();
    let segments = write(&mut disk, &mut old, 1);
    let mut old: Vec<_> = segments.iter().map(|(path, segment)| Some(OldSegment { path, segment })).collect();
    old[0] = None;
    let rescaling = Rescaling::new(max_parallelism(), OLD, OLD).unwrap();
    let mut heap = heap(OLD, 0);
    restore_operator_state(&mut disk, &old, rescaling, 0, &mut heap).unwrap();
    let states = States::register(&mut heap);
    assert_eq!(states.rules.get(&heap, "rule 9"), Ok(Some(81)));
    assert_eq!((states.splits.len(&heap), states.offsets.len(&heap)), (0, 5));
}

#[test]
fn o3_o4_a_list_is_carried_on_although_it_is_empty_or_nobody_asks_for_it() {
    let mut disk = Disk::new();
    let mut old = vec![heap(1, 0)];
    SplitList::<Utf8>::register(&mut old[0], "op", "empty").unwrap();
    UnionList::<Utf8>::register(&mut old[0], "op", "full").unwrap().push(&mut old[0], "x").unwrap();
    let segments = write(&mut disk, &mut old, 1);
    let mut between = restore(&mut disk, &segments, 2);
    let segments = write(&mut disk, &mut between, 2);
    let mut heap = restore(&mut disk, &segments, 1).remove(0);
    assert!(heap.state("op", "empty").is_some());
    let full = UnionList::<Utf8>::register(&mut heap, "op", "full").unwrap();
    assert_eq!(full.len(&heap), 2, "a union grows with every restore unless the operator replaces it");
}

/// The elements of a list by name, in whatever order the states are registered.
fn named_list(heap: &mut Heap, name: &str) -> Vec<String> {
    let list = SplitList::<Utf8>::register(heap, "op", name).unwrap();
    list.iter(heap).map(Result::unwrap).collect()
}

/// Case G-05: several named lists in one file, some empty, compressed or not, restored in another order and by
/// another number of subtasks.
#[test]
fn g05_named_lists_come_back_by_their_names_in_any_order_and_number() {
    let built_in = |compression: &Compression| crate::segment::check_compression(*compression).is_ok();
    let compressions = [Compression::None, Compression::Lz4, Compression::Zstd];
    for (compression, len) in compressions.into_iter().filter(built_in).flat_map(|c| [(c, 6), (c, 0)]) {
        let elements = |name: &str| (0..len).map(|number| format!("{name} {number}")).collect::<Vec<_>>();
        let mut old = vec![heap(1, 0)];
        SplitList::<Utf8>::register(&mut old[0], "op", "a").unwrap();
        for name in ["b", "c"] {
            let list = SplitList::<Utf8>::register(&mut old[0], "op", name).unwrap();
            elements(name).iter().for_each(|element| list.push(&mut old[0], element).unwrap());
        }
        let rules = Broadcast::<Utf8, Plain<u64>>::register(&mut old[0], "op", "d").unwrap();
        (0..len.min(5)).for_each(|key| rules.put(&mut old[0], &format!("{key}"), &(key * key)).unwrap());
        let mut disk = Disk::new();
        let segments = write_as(compression, &mut disk, &mut old, 1);
        for parallelism in [1, 3] {
            let (mut b, mut c) = (Vec::new(), Vec::new());
            for mut heap in restore(&mut disk, &segments, parallelism) {
                let rules = Broadcast::<Utf8, Plain<u64>>::register(&mut heap, "op", "d").unwrap();
                (0..len.min(5))
                    .for_each(|key| assert_eq!(rules.get(&heap, &format!("{key}")), Ok(Some(key * key))));
                c.extend(named_list(&mut heap, "c"));
                assert!(named_list(&mut heap, "a").is_empty());
                b.extend(named_list(&mut heap, "b"));
            }
            b.sort();
            c.sort();
            assert_eq!((b, c), (elements("b"), elements("c")), "{compression:?}, {parallelism} subtasks");
        }
    }
}

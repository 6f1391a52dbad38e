use slackwater_core::assign::{OperatorAssigner, Rescaling};
use slackwater_core::format::manifest::StateMode;
use slackwater_core::key_group::range_of_subtask;
use slackwater_mem::segment::{restore_segment, verify_segment};
use slackwater_mem::{Plain, Utf8, ValueState};

use super::*;

#[test]
fn d02_key_groups_that_were_never_written_come_back_empty() {
    for written in [&[0, 3][..], &[7], &[], &[0, 1, 2, 3, 4, 5, 6, 7]] {
        let mut before = heap(groups(0, 7));
        let state = before.register("op", "state", BYTES, BYTES).unwrap();
        for group in written {
            for key in 0..100_u32 {
                let value = [key.to_le_bytes(), u32::from(*group).to_le_bytes()].concat();
                before.put(state, KeyGroup(*group), &key.to_le_bytes(), &value).unwrap();
            }
        }
        let snapshot = before.freeze().unwrap();
        let expected = entries_of(&snapshot);
        let mut disk = TestDisk::new();
        let segment = write(&mut disk, snapshot, "s");
        let stats = verify_segment(&mut disk, "s", &segment).unwrap();
        assert_eq!(stats.key_groups as usize, written.len());

        let mut after = heap(groups(0, 7));
        let stats = restore_segment(&mut disk, "s", &segment, groups(0, 7), &mut after).unwrap();
        assert_eq!((stats.key_groups as usize, stats.entries), (written.len(), 100 * written.len() as u64));
        let snapshot = after.freeze().unwrap();
        assert_eq!(entries_of(&snapshot), expected);
        for group in 0..8 {
            let len = if written.contains(&group) { 100 } else { 0 };
            assert_eq!(snapshot.group_len(state, KeyGroup(group)), len);
        }
        // One group at a time, in the other order.
        for group in (0..8).rev() {
            let mut one = heap(groups(group, group));
            restore_segment(&mut disk, "s", &segment, groups(group, group), &mut one).unwrap();
            assert_eq!(one.len(state), if written.contains(&group) { 100 } else { 0 }, "group {group}");
        }
    }
}

/// Restores into `new` subtasks what `old` ones had.
fn rescale(mut old: Vec<Heap>, new: u32, groups: MaxParallelism) -> Vec<Heap> {
    let mut disk = TestDisk::new();
    let names: Vec<String> = (0..old.len()).map(|index| format!("s{index}")).collect();
    let segments: Vec<SegmentRef> = old
        .iter_mut()
        .zip(&names)
        .map(|(heap, name)| write(&mut disk, heap.freeze().unwrap(), name))
        .collect();
    let rescaling = Rescaling::new(groups, u32::try_from(old.len()).unwrap(), new).unwrap();
    let restored = |index: u32| {
        let mut heap = heap(range_of_subtask(groups, new, index).unwrap());
        for part in rescaling.keyed_parts(index).unwrap() {
            let at = part.subtask as usize;
            restore_segment(&mut disk, &names[at], &segments[at], part.key_groups, &mut heap).unwrap();
        }
        heap
    };
    (0..new).map(restored).collect()
}

#[test]
fn d03_rescaling_gives_every_key_to_just_the_subtask_that_owns_it() {
    let max = MaxParallelism::new(128).unwrap();
    let mut first = heap(max.all_key_groups());
    let counts = ValueState::<Utf8, Plain<u64>>::register(&mut first, "op", "counts", max).unwrap();
    let longs = ValueState::<Plain<u64>, Plain<u64>>::register(&mut first, "op", "longs", max).unwrap();
    for number in 0..5_000_u64 {
        counts.put(&mut first, &format!("key-{number}"), &number).unwrap();
        longs.put(&mut first, &number, &(number * 3)).unwrap();
    }
    let expected = entries_of(&first.freeze().unwrap());
    assert_eq!(expected.len(), 10_000);
    let mut subtasks = vec![first];
    for parallelism in [1, 2, 2, 4, 3, 128, 1] {
        subtasks = rescale(subtasks, parallelism, max);
        let mut union = Entries::new();
        for (heap, index) in subtasks.iter_mut().zip(0..) {
            let owned = range_of_subtask(max, parallelism, index).unwrap();
            let entries = entries_of(&heap.freeze().unwrap());
            assert!(entries.keys().all(|(_, group, _)| owned.contains(KeyGroup(*group))));
            let before = union.len();
            union.extend(entries.clone());
            assert_eq!(union.len(), before + entries.len(), "no key is at two subtasks");
        }
        assert!(union == expected, "{parallelism} subtasks");
    }
    assert_eq!(counts.get(&subtasks[0], "key-77"), Ok(Some(77)));
}

#[test]
fn d03_a_split_list_stays_where_it_is_while_the_parallelism_does() {
    let max = MaxParallelism::new(128).unwrap();
    let counts = [Some(0), Some(2)];
    let mut assigner = OperatorAssigner::new(Rescaling::new(max, 2, 2).unwrap());
    let state = assigner.next_state(StateMode::Split, &counts).unwrap();
    assert_eq!(state.parts(0).unwrap().next(), None);
    let kept = state.parts(1).unwrap().next().unwrap();
    assert_eq!((kept.subtask, kept.partitions), (1, 0..2));
}

#[test]
fn d03_key_groups_of_another_subtask_are_not_taken_in() {
    let mut before = heap(groups(0, 7));
    let state = before.register("op", "state", BYTES, BYTES).unwrap();
    for group in 0..8 {
        before.put(state, KeyGroup(group), b"key", &group.to_le_bytes()).unwrap();
    }
    let mut disk = TestDisk::new();
    let segment = write(&mut disk, before.freeze().unwrap(), "s");
    // A range wider than what the heap owns: the file's other key groups are refused, not lost.
    let mut part = heap(groups(2, 5));
    let refused = restore_segment(&mut disk, "s", &segment, groups(0, 7), &mut part);
    assert!(refused.unwrap_err().to_string().contains("key group 0 is not among those"));
    // A range wider than what the file has is the file's.
    let mut all = heap(groups(0, 20));
    assert_eq!(restore_segment(&mut disk, "s", &segment, groups(0, 20), &mut all).unwrap().entries, 8);
}

//! Every row of the tables that Flink itself produced, and what holds for any numbers.

use std::format;
use std::string::{String, ToString};
use std::vec;
use std::vec::Vec;

use super::*;
use crate::format::manifest::StateMode;
use crate::key_group::{KeyGroup, subtask_of_key_group};

fn rows(table: &'static str, columns: usize) -> impl Iterator<Item = Vec<&'static str>> {
    table.lines().skip(1).map(move |line| {
        let row: Vec<_> = line.split('\t').collect();
        assert_eq!(row.len(), columns, "{line}");
        row
    })
}

fn number<N: core::str::FromStr<Err: fmt::Debug>>(text: &str) -> N {
    text.parse().unwrap()
}

fn rescaling(groups: u32, old: u32, new: u32) -> Rescaling {
    Rescaling::new(MaxParallelism::new(groups).unwrap(), old, new).unwrap()
}

fn joined(items: impl Iterator<Item = String>) -> String {
    items.collect::<Vec<_>>().join(",")
}

fn mode(name: &str) -> StateMode {
    match name {
        "split" => StateMode::Split,
        "union" => StateMode::Union,
        "broadcast" => StateMode::Broadcast,
        _ => panic!("unknown mode {name}"),
    }
}

fn counts(text: &str) -> Vec<Option<u64>> {
    text.split(',').map(|count| (count != "-").then(|| number(count))).collect()
}

#[test]
fn r8_r9_keyed_parts_equal_flinks() {
    let mut seen = 0;
    for row in rows(include_str!("../../golden/keyed_sources.tsv"), 5) {
        let rescaling = rescaling(number(row[0]), number(row[1]), number(row[2]));
        let parts = rescaling.keyed_parts(number(row[3])).unwrap();
        assert_eq!(
            joined(parts.map(|part| format!("{}:{}", part.subtask, part.key_groups))),
            row[4],
            "{row:?}"
        );
        seen += 1;
    }
    assert_eq!(seen, 219);
}

#[test]
fn r10_every_key_group_goes_to_one_new_subtask_from_its_old_one() {
    for (groups, old, new) in [(1, 1, 1), (128, 3, 5), (128, 128, 1), (1000, 7, 999), (32768, 300, 301)] {
        let rescaling = rescaling(groups, old, new);
        let mut next = 0;
        for index in 0..new {
            for part in rescaling.keyed_parts(index).unwrap() {
                let max_parallelism = rescaling.max_parallelism;
                assert_eq!(part.key_groups.first, KeyGroup(next), "none is left out, none comes twice");
                let owned = range_of_subtask(max_parallelism, old, part.subtask).unwrap();
                assert_eq!(owned.intersect(part.key_groups), Some(part.key_groups));
                next = part.key_groups.last.0 + 1;
            }
        }
        assert_eq!(u32::from(next), groups);
    }
}

#[test]
fn r11_r12_r14_operator_state_is_given_out_as_flink_does() {
    let mut seen = 0;
    let mut run = (String::new(), OperatorAssigner::new(rescaling(128, 1, 1)));
    for row in rows(include_str!("../../golden/operator_state.tsv"), 7) {
        if run.0 != row[0] {
            let rescaling = rescaling(128, number(row[1]), number(row[2]));
            run = (row[0].to_string(), OperatorAssigner::new(rescaling));
        }
        let counts = counts(row[5]);
        let state = run.1.next_state(mode(row[3]), &counts).unwrap();
        for (index, want) in (0..).zip(row[6].split(';')) {
            let parts: Vec<_> = state.parts(index).unwrap().collect();
            let found =
                joined(parts.iter().map(|part| {
                    format!("{}:{}-{}", part.subtask, part.partitions.start, part.partitions.end)
                }));
            // Flink lists empty parts too, and leaves a subtask its own copy beside the one it is given.
            let mut wants = want.split(',').filter(|part| !part.ends_with(":0-0"));
            if mode(row[3]) == StateMode::Broadcast {
                assert!(wants.any(|want| want == found), "{index} of {row:?}: {found}");
            } else {
                assert_eq!(found, joined(wants.map(ToString::to_string)), "{index} of {row:?}");
            }
            let count: u64 = parts.iter().map(|part| part.partitions.end - part.partitions.start).sum();
            assert_eq!(state.len(index), Ok(count));
        }
        seen += 1;
    }
    assert_eq!(seen, 450);
}

#[test]
fn r12_partitions_keep_their_order_and_none_is_lost() {
    let counts = [Some(3), None, Some(0), Some(5), Some(1)];
    for new in [1, 2, 3, 4, 6, 9, 20] {
        let state =
            OperatorAssigner::new(rescaling(128, 5, new)).next_state(StateMode::Split, &counts).unwrap();
        let mut dealt = Vec::new();
        for index in 0..new {
            let mut at = 0;
            for part in state.parts(index).unwrap() {
                assert_eq!(part.at, at);
                at += part.partitions.end - part.partitions.start;
                dealt.extend(part.partitions.map(|partition| (part.subtask, partition)));
            }
        }
        let all = [(0, 3), (3, 5), (4, 1)];
        let all: Vec<_> =
            all.into_iter().flat_map(|(old, count)| (0..count).map(move |at| (old, at))).collect();
        assert_eq!(dealt, all, "to {new}");
    }
}

#[test]
fn r12_small_states_spread_over_different_subtasks() {
    let mut assigner = OperatorAssigner::new(rescaling(128, 1, 4));
    let takers = |assigner: &mut OperatorAssigner| -> Vec<u32> {
        let state = assigner.next_state(StateMode::Split, &[Some(3)]).unwrap();
        (0..4).filter(|index| state.len(*index) == Ok(1)).collect()
    };
    assert_eq!(takers(&mut assigner), [0, 1, 2]);
    assert_eq!(takers(&mut assigner), [0, 1, 3]);
    assert_eq!(takers(&mut assigner), [0, 2, 3]);
}

#[test]
fn r11_a_finished_subtask_takes_the_broadcast_copy_of_another() {
    let counts = [Some(7), None, Some(7)];
    let state = OperatorAssigner::new(rescaling(8, 3, 3)).next_state(StateMode::Broadcast, &counts).unwrap();
    let sources: Vec<_> = (0..3).map(|index| state.parts(index).unwrap().next().unwrap().subtask).collect();
    assert_eq!(sources, [0, 2, 2]);
    let gone = [None, None, None];
    let state = OperatorAssigner::new(rescaling(8, 3, 3)).next_state(StateMode::Broadcast, &gone).unwrap();
    assert_eq!(state.parts(1).unwrap().next(), None);
}

#[test]
fn u21_u22_records_in_flight_are_read_as_flink_maps_them() {
    let mut seen = 0;
    for row in rows(include_str!("../../golden/subtask_mapping.tsv"), 5) {
        let mapping = match row[0] {
            "arbitrary" => ChannelMapping::Arbitrary,
            "round_robin" => ChannelMapping::RoundRobin,
            "first" => ChannelMapping::First,
            "full" => ChannelMapping::Full,
            "range" => ChannelMapping::Range,
            "unsupported" => ChannelMapping::Unsupported,
            other => panic!("unknown mapping {other}"),
        };
        let (old, new) = (number(row[1]), number(row[2]));
        let found = rescaling(128, old, new).channel_parts(mapping, number(row[3]));
        let found =
            found.map_or_else(|_| "unsupported".into(), |parts| joined(parts.map(|old| old.to_string())));
        assert_eq!(found, row[4], "{row:?}");
        let same = rescaling(128, old, old).channel_parts(mapping, old - 1).unwrap();
        assert_eq!(same.collect::<Vec<_>>(), vec![old - 1]);
        seen += 1;
    }
    assert_eq!(seen, 246);
}

fn parts(rescaling: Rescaling, mapping: ChannelMapping, index: u32) -> Vec<u32> {
    rescaling.channel_parts(mapping, index).unwrap().collect()
}

#[test]
fn u20_records_in_flight_belong_to_the_head_of_a_chain() {
    for chain in [vec![], vec![true], vec![false, false], vec![true, false]] {
        assert_eq!(check_in_flight_owners(chain), Ok(()));
    }
    let error = check_in_flight_owners([true, false, true]).unwrap_err();
    assert_eq!(error, AssignError::InFlightBehindHead { position: 2 });
    assert!(error.to_string().contains("operator 2 of a chain"), "{error}");
}

#[test]
fn u22_range_reads_every_old_subtask_that_shares_a_key_group() {
    // Numbers of key groups that do not divide 32768, and subtasks so many that 32768 are too coarse.
    let mut missed_by_flink = 0;
    for (groups, old, new) in [(196, 196, 187), (1000, 999, 998), (31_473, 24_371, 7_955), (128, 127, 126)] {
        let rescaling = rescaling(groups, old, new);
        for index in 0..new {
            let read = rescaling.channel_parts(ChannelMapping::Range, index).unwrap();
            let sharing: Vec<_> = rescaling.keyed_parts(index).unwrap().map(|part| part.subtask).collect();
            let read: Vec<_> = read.collect();
            assert!(sharing.iter().all(|old| read.contains(old)), "{groups}: {old} to {new}, {index}");
            let (first, last) = rescaling.sharing_with(MaxParallelism::MAX, index).unwrap();
            missed_by_flink += usize::from(!sharing.iter().all(|old| (first..=last).contains(old)));
        }
    }
    assert_ne!(missed_by_flink, 0, "the numbers were chosen so that it makes a difference");
}

#[test]
fn u24_of_the_replicas_of_a_record_exactly_one_is_kept() {
    for (old, new) in [(1, 3), (3, 2), (3, 5), (5, 4), (128, 127), (4, 4)] {
        let rescaling = rescaling(128, old, new);
        let groups = rescaling.max_parallelism.all_key_groups();
        let owner =
            |parallelism, group| subtask_of_key_group(rescaling.max_parallelism, parallelism, group).unwrap();
        for group in groups.iter() {
            for mapping in [ChannelMapping::Range, ChannelMapping::Full] {
                let reads = |index: &u32| parts(rescaling, mapping, *index).contains(&owner(old, group));
                let keeps = |index: &u32| rescaling.keeps_replayed(mapping, *index, owner(new, group));
                let kept: Vec<_> = (0..new).filter(reads).filter(keeps).collect();
                assert_eq!(kept, [owner(new, group)], "{group} by {mapping:?} from {old} to {new}");
            }
        }
        // Elsewhere any subtask may process a record, and each is read by one.
        for mapping in [ChannelMapping::RoundRobin, ChannelMapping::Arbitrary, ChannelMapping::First] {
            assert!(!mapping.is_ambiguous() && rescaling.keeps_replayed(mapping, 0, new - 1));
            let mut read: Vec<_> = (0..new).flat_map(|index| parts(rescaling, mapping, index)).collect();
            read.sort_unstable();
            assert_eq!(read, (0..old).collect::<Vec<_>>());
        }
    }
    // Who reads what was their own all along asks nobody.
    assert!(rescaling(128, 4, 4).keeps_replayed(ChannelMapping::Range, 0, 3));
    assert!(!rescaling(128, 4, 5).keeps_replayed(ChannelMapping::Range, 0, 3));
}

#[test]
fn u26_inputs_of_one_operator_must_agree() {
    use ChannelMapping::{Arbitrary, First, Full, Range, RoundRobin, Unsupported};
    let changed = rescaling(128, 3, 2);
    assert_eq!(changed.common_mapping(&[]), Ok(None));
    assert_eq!(changed.common_mapping(&[Range, Range]), Ok(Some(Range)));
    assert_eq!(changed.common_mapping(&[RoundRobin, Arbitrary]), Ok(Some(RoundRobin)), "they are the same");
    let error = changed.common_mapping(&[Range, Range, RoundRobin]).unwrap_err();
    assert_eq!(error, AssignError::ConflictingMappings { one: Range, other: RoundRobin });
    assert!(error.to_string().contains("(Range, RoundRobin)"), "{error}");
    for mappings in [[Unsupported, Range], [Range, Unsupported]] {
        assert!(matches!(changed.common_mapping(&mappings), Err(AssignError::NotRescalable { .. })));
    }
    assert!(matches!(changed.common_mapping(&[Unsupported]), Err(AssignError::NotRescalable { .. })));
    // To one subtask all of them lead, and without a change of their number each reads its own.
    assert_eq!(rescaling(128, 3, 1).common_mapping(&[Range, Full, First, RoundRobin]), Ok(Some(Range)));
    assert_eq!(rescaling(128, 3, 3).common_mapping(&[Unsupported, Range]), Ok(Some(Unsupported)));
}

#[test]
fn u21_old_channels_lie_between_the_old_subtasks_of_both_ends() {
    let (senders, receivers) = (rescaling(128, 3, 2), rescaling(128, 2, 3));
    let mut channels = Vec::new();
    for (sender, receiver) in (0..2).flat_map(|sender| (0..3).map(move |receiver| (sender, receiver))) {
        let senders = senders.channel_parts(ChannelMapping::Arbitrary, sender).unwrap();
        let receivers = receivers.channel_parts(ChannelMapping::RoundRobin, receiver).unwrap();
        channels.extend(old_channels(senders, receivers));
    }
    assert_eq!(channels[..4], [(0, 0), (2, 0), (0, 1), (2, 1)]);
    channels.sort_unstable();
    let all: Vec<_> = (0..3).flat_map(|sender| (0..2).map(move |receiver| (sender, receiver))).collect();
    assert_eq!(channels, all, "each is replayed once");
}

#[test]
fn r2_r6_the_stored_number_of_key_groups_stays() {
    assert_eq!(restored_max_parallelism(groups(128), None), Ok(groups(128)));
    assert_eq!(restored_max_parallelism(groups(128), Some(groups(128))), Ok(groups(128)));
    let differs = AssignError::MaxParallelismDiffers { stored: groups(128), wanted: groups(256) };
    assert_eq!(restored_max_parallelism(groups(128), Some(groups(256))), Err(differs));
}

#[test]
fn r6_r14_numbers_out_of_bounds_are_refused() {
    let groups = MaxParallelism::new(4).unwrap();
    for (old, new, parallelism) in [(0, 1, 0), (1, 0, 0), (5, 1, 5), (1, 5, 5)] {
        let error = InvalidParallelism::Parallelism { parallelism, max_parallelism: groups };
        assert_eq!(Rescaling::new(groups, old, new), Err(AssignError::Parallelism(error)));
    }
    let rescaling = rescaling(4, 2, 3);
    let error = AssignError::Parallelism(InvalidParallelism::Subtask { index: 3, parallelism: 3 });
    assert_eq!(rescaling.keyed_parts(3).err(), Some(error));
    assert_eq!(rescaling.channel_parts(ChannelMapping::Full, 3).err(), Some(error));
    let mut assigner = OperatorAssigner::new(rescaling);
    assert_eq!(assigner.next_state(StateMode::Union, &[None, None]).unwrap().parts(3).err(), Some(error));
}

#[test]
fn r12_a_state_that_does_not_add_up_is_refused() {
    let mut assigner = OperatorAssigner::new(rescaling(4, 2, 3));
    let error = AssignError::WrongSubtaskCount { given: 1, old_parallelism: 2 };
    assert_eq!(assigner.next_state(StateMode::Split, &[Some(1)]).err(), Some(error));
    let counts = [Some(u64::MAX), Some(1)];
    assert_eq!(assigner.next_state(StateMode::Split, &counts).err(), Some(AssignError::TooManyPartitions));
    let error = assigner.next_state(StateMode::Plain, &[Some(1), None]).unwrap_err();
    assert!(error.to_string().contains("from 2 subtasks to 3"), "{error}");
    let mut unchanged = OperatorAssigner::new(rescaling(4, 2, 2));
    assert_eq!(unchanged.next_state(StateMode::Plain, &[Some(1), None]).unwrap().len(0), Ok(1));
}

fn groups(count: u32) -> MaxParallelism {
    MaxParallelism::new(count).unwrap()
}

fn stored(id: &str, max_parallelism: u32, is_keyed: bool) -> StoredOperator<&str> {
    StoredOperator { id, parallelism: 2, max_parallelism: groups(max_parallelism), has_state: true, is_keyed }
}

fn operator(id: &str, max_parallelism: Option<u32>) -> JobOperator<&str> {
    JobOperator { id, other_id: None, parallelism: 3, max_parallelism: max_parallelism.map(groups) }
}

#[test]
fn r1_state_finds_its_operator_by_either_name() {
    let renamed = JobOperator { other_id: Some("old"), ..operator("new", None) };
    let job = [operator("source", None), renamed, operator("both", None)];
    let find = |id| operator_of(&stored(id, 128, true), &job, NonRestored::Refused);
    assert_eq!(find("source"), Ok(Some(&job[0])));
    assert_eq!(find("old"), Ok(Some(&job[1])));
    assert_eq!(find("new"), Ok(Some(&job[1])));
    let job = [renamed, operator("old", None)];
    let found = operator_of(&stored("old", 128, true), &job, NonRestored::Refused);
    assert_eq!(found, Ok(Some(&job[1])), "its own name counts more");
}

#[test]
fn r3_r5_state_without_an_operator_is_refused_or_dropped() {
    let job = [operator("source", None)];
    let empty = StoredOperator { has_state: false, ..stored("gone", 128, false) };
    let full = stored("gone", 128, false);
    let error = MatchError::NoOperator { operator: "gone" };
    let refused = Err(error);
    for (stored, non_restored, expected) in [
        (full, NonRestored::Dropped, Ok(None)),
        (full, NonRestored::RefusedIfAny, refused),
        (full, NonRestored::Refused, refused),
        (empty, NonRestored::Dropped, Ok(None)),
        (empty, NonRestored::RefusedIfAny, Ok(None)),
        (empty, NonRestored::Refused, refused),
    ] {
        assert_eq!(operator_of(&stored, &job, non_restored), expected, "{stored:?}, {non_restored:?}");
    }
    assert!(error.to_string().contains("operator gone, which is not in the job"));
}

#[test]
fn r2_r6_a_chain_goes_on_with_the_stored_key_groups() {
    let go_on = |wanted, count| {
        restore_chain(&[operator("count", wanted)], &[stored("count", count, true)], groups(64))
            .map(|chain| chain.max_parallelism)
    };
    assert_eq!(go_on(None, 128), Ok(groups(128)));
    assert_eq!(go_on(Some(128), 128), Ok(groups(128)));
    let error = AssignError::MaxParallelismDiffers { stored: groups(128), wanted: groups(256) };
    assert_eq!(go_on(Some(256), 128), Err(MatchError::Assign { operator: "count", error }));
    let too_small = InvalidParallelism::Parallelism { parallelism: 3, max_parallelism: groups(2) };
    let error = AssignError::Parallelism(too_small);
    assert_eq!(go_on(None, 2), Err(MatchError::Assign { operator: "count", error }));
}

#[test]
fn r7_a_chain_is_restored_as_one_and_operators_without_state_start_with_nothing() {
    let chain = [operator("map", None), operator("count", None), operator("new", None)];
    let restored = restore_chain(&chain, &[stored("count", 128, true)], groups(64)).unwrap();
    assert_eq!(restored.max_parallelism, groups(128));
    assert_eq!(restored.rescaling, Some(rescaling(128, 2, 3)));
    let others =
        [stored("other", 128, true), StoredOperator { has_state: false, ..stored("map", 128, true) }];
    let nothing = restore_chain(&chain, &others, groups(64)).unwrap();
    assert_eq!(nothing, ChainRestore { max_parallelism: groups(64), rescaling: None });
}

/// Operators of one chain were stored with different numbers of key groups; the job insists on another number; nothing
/// is kept by key.
#[test]
fn d04_disagreeing_key_groups_are_refused_by_name() {
    let chain = [operator("x", None), operator("y", None)];
    let error = restore_chain(&chain, &[stored("x", 128, true), stored("y", 256, true)], groups(64));
    let error = error.unwrap_err().to_string();
    assert!(["x", "y", "128", "256"].iter().all(|part| error.contains(part)), "{error}");
    let error = restore_chain(&[operator("x", Some(256))], &[stored("x", 128, true)], groups(64));
    let error = error.unwrap_err().to_string();
    assert!(["x", "128", "256"].iter().all(|part| error.contains(part)), "{error}");
    for wanted in [3, 128, 4096] {
        let job = [operator("x", Some(wanted))];
        let restored = restore_chain(&job, &[stored("x", 128, false)], groups(64)).unwrap();
        assert_eq!(restored.max_parallelism, groups(wanted), "without keys nothing depends on it");
    }
}

#[test]
fn r13_states_that_lie_in_one_segment_are_given_out_each_by_itself() {
    // Two lists and a broadcast map of two old subtasks, each with one segment.
    let states = [
        (StateMode::Split, [Some(2), Some(1)]),
        (StateMode::Union, [Some(1), Some(1)]),
        (StateMode::Broadcast, [Some(1), Some(1)]),
    ];
    let mut assigner = OperatorAssigner::new(rescaling(128, 2, 1));
    let mut parts = Vec::new();
    for (mode, counts) in &states {
        let state = assigner.next_state(*mode, counts).unwrap();
        parts.push(state.parts(0).unwrap().map(|part| (part.subtask, part.partitions)).collect::<Vec<_>>());
    }
    assert_eq!(parts, [vec![(0, 0..2), (1, 0..1)], vec![(0, 0..1), (1, 0..1)], vec![(0, 0..1)]]);
}

#[test]
fn v12_a_new_subtask_reads_only_its_key_groups_of_what_old_ones_have() {
    let part = |subtask, first, last| KeyedPart {
        subtask,
        key_groups: crate::key_group::KeyGroupRange { first: KeyGroup(first), last: KeyGroup(last) },
    };
    let parts = |index| rescaling(128, 2, 3).keyed_parts(index).unwrap().collect::<Vec<_>>();
    assert_eq!(parts(0), [part(0, 0, 42)]);
    assert_eq!(parts(1), [part(0, 43, 63), part(1, 64, 85)]);
    assert_eq!(parts(2), [part(1, 86, 127)]);
}

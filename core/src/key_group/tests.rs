//! Every row of the tables that Flink itself produced, and routing against ownership for every hash.

use std::string::String;
use std::vec::Vec;

use super::*;

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

fn max(value: u32) -> MaxParallelism {
    MaxParallelism::new(value).unwrap()
}

fn unhex(text: &str) -> Vec<u8> {
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
}

fn hash_of(kind: &str, key: &str) -> i32 {
    match kind {
        "bool" => hash_of_bool(number(key)),
        "int" => hash_of_i32(number(key)),
        "long" => hash_of_i64(number(key)),
        "string" => hash_of_str(&String::from_utf8(unhex(key)).unwrap()),
        "bytes" => hash_of_bytes(&unhex(key)),
        _ => panic!("unknown type {kind}"),
    }
}

#[test]
fn k1_k4_key_hashes_and_groups_equal_flinks() {
    let mut seen = 0;
    for row in rows(include_str!("../../golden/key_groups.tsv"), 10) {
        let hash = hash_of(row[0], row[1]);
        assert_eq!(hash, number::<i32>(row[2]), "hash of {row:?}");
        for (groups, want) in [1, 2, 7, 128, 1000, 4096, 32768].into_iter().zip(&row[3..]) {
            assert_eq!(key_group_of_hash(hash, max(groups)), KeyGroup(number(want)), "{groups} of {row:?}");
        }
        seen += 1;
    }
    assert_eq!(seen, 725);
}

#[test]
fn k2_k3_murmur_equals_flinks() {
    let mut seen = 0;
    for row in rows(include_str!("../../golden/murmur.tsv"), 2) {
        assert_eq!(murmur(number(row[0])), number::<u32>(row[1]), "{row:?}");
        seen += 1;
    }
    assert_eq!(seen, 1006);
}

#[test]
fn k6_ranges_equal_flinks() {
    let mut seen = 0;
    for row in rows(include_str!("../../golden/ranges.tsv"), 5) {
        let range = range_of_subtask(max(number(row[0])), number(row[1]), number(row[2])).unwrap();
        assert_eq!(range.first, KeyGroup(number(row[3])), "{row:?}");
        assert_eq!(range.last, KeyGroup(number(row[4])), "{row:?}");
        seen += 1;
    }
    assert_eq!(seen, 1917);
}

#[test]
fn k7_owners_equal_flinks() {
    let mut seen = 0;
    for row in rows(include_str!("../../golden/operator_index.tsv"), 4) {
        let owner = subtask_of_key_group(max(number(row[0])), number(row[1]), KeyGroup(number(row[2])));
        assert_eq!(owner, Ok(number(row[3])), "{row:?}");
        seen += 1;
    }
    assert_eq!(seen, 3079);
}

#[test]
fn k8_default_max_parallelism_equals_flinks() {
    let mut seen = 0;
    for row in rows(include_str!("../../golden/max_parallelism.tsv"), 2) {
        let found = default_max_parallelism(number(row[0]));
        assert_eq!(found.map(|found| u32::from(found.get())), Ok(number(row[1])), "{row:?}");
        seen += 1;
    }
    assert_eq!(seen, 23);
}

/// Computed independently of the tables, and of the code.
#[test]
fn k5_known_hashes_have_the_documented_groups() {
    for (hash, mixed, group) in [
        (0, 593_689_054, 94),
        (1, 68_075_478, 86),
        (2, 1_085_422_463, 127),
        (3, 847_579_505, 113),
        (42, 1_134_849_565, 29),
        (-1, 1_982_413_648, 80),
        (127, 1_931_274_395, 27),
        (i32::MAX, 1_653_689_534, 62),
        (i32::MIN, 1_718_298_732, 108),
    ] {
        assert_eq!((murmur(hash), key_group_of_hash(hash, max(128))), (mixed, KeyGroup(group)), "{hash}");
    }
    for (key, hash, group) in
        [("", 0, 94), ("a", 97, 81), ("b", 98, 22), ("hello", 99_162_322, 35), ("key-1", 101_943_363, 54)]
    {
        assert_eq!(hash_of_str(key), hash);
        assert_eq!(key_group_of_hash(hash, max(128)), KeyGroup(group), "{key}");
    }
    assert_eq!(key_group_of_hash(hash_of_str("key-2"), max(128)), KeyGroup(126));
    assert_eq!((hash_of_i64(-1), hash_of_i64(1 << 40)), (0, 256));
    assert_eq!(key_group_of_hash(256, max(128)), KeyGroup(54));
    assert_eq!(hash_of_str("\u{1f600}"), 0xd83d * 31 + 0xde00, "a surrogate pair counts as two units");
}

#[test]
fn k4_numbers_and_truths_hash_as_in_the_jvm() {
    assert_eq!((hash_of_bool(true), hash_of_bool(false)), (1231, 1237));
    assert_eq!((hash_of_i32(-7), hash_of_i64(i64::MIN), hash_of_i64(7)), (-7, i32::MIN, 7));
    assert_eq!((hash_of_bytes(&[]), hash_of_bytes(&[0xff])), (1, 30));
}

#[test]
fn k8_default_max_parallelism_is_half_as_much_again_as_a_power_of_two() {
    for (parallelism, groups) in [
        (1, 128),
        (85, 128),
        (86, 256),
        (128, 256),
        (171, 256),
        (200, 512),
        (1000, 2048),
        (10_922, 16_384),
        (21_846, 32_768),
        (32_768, 32_768),
    ] {
        assert_eq!(default_max_parallelism(parallelism), Ok(max(groups)), "{parallelism}");
    }
}

#[test]
fn k6_k7_documented_ranges() {
    for (groups, ends) in
        [(128, [42, 85, 127].as_slice()), (10, &[2, 4, 7, 9]), (128, &[18, 36, 54, 73, 91, 109, 127])]
    {
        let parallelism = u32::try_from(ends.len()).unwrap();
        let mut first = 0;
        for (index, last) in (0..).zip(ends) {
            let range = KeyGroupRange { first: KeyGroup(first), last: KeyGroup(*last) };
            assert_eq!(range_of_subtask(max(groups), parallelism, index), Ok(range));
            for group in [range.first, range.last] {
                assert_eq!(subtask_of_key_group(max(groups), parallelism, group), Ok(index));
            }
            first = last + 1;
        }
    }
}

/// The router and the state backend must agree on the owner of every key group.
#[test]
fn d01_routing_and_ownership_are_the_same_function() {
    for groups in [1, 2, 3, 7, 10, 127, 128, 32767, 32768] {
        for parallelism in (1..=groups.min(200)).chain([groups]) {
            assert_ranges_partition(max(groups), parallelism);
        }
    }
}

fn assert_ranges_partition(groups: MaxParallelism, parallelism: u32) {
    let (mut next, mut shortest, mut longest) = (0, usize::MAX, 0);
    for index in 0..parallelism {
        let range = range_of_subtask(groups, parallelism, index).unwrap();
        assert_eq!(range.first.0, next, "a gap or an overlap at {index} of {parallelism}, {groups} groups");
        for group in range.iter() {
            assert_eq!(subtask_of_key_group(groups, parallelism, group), Ok(index));
        }
        next = range.last.0 + 1;
        (shortest, longest) = (shortest.min(range.len()), longest.max(range.len()));
    }
    assert_eq!(next, groups.get(), "{parallelism} subtasks do not cover {groups} groups");
    assert!(longest - shortest <= 1, "{parallelism} subtasks share {groups} groups unevenly");
}

#[test]
fn d01_ranges_are_those_that_flink_documents() {
    for (groups, ranges) in [
        (10, &[(0, 3), (4, 6), (7, 9)][..]),
        (128, &[(0, 42), (43, 85), (86, 127)]),
        (7, &[(0, 1), (2, 2), (3, 4), (5, 5), (6, 6)]),
    ] {
        let parallelism = u32::try_from(ranges.len()).unwrap();
        for (index, (first, last)) in (0..).zip(ranges) {
            let range = range_of_subtask(max(groups), parallelism, index).unwrap();
            assert_eq!(
                (range.first.0, range.last.0),
                (*first, *last),
                "{index} of {parallelism}, {groups} groups"
            );
        }
    }
}

/// No hash, the most negative one included, leaves the groups.
#[test]
fn d01_every_hash_has_a_group() {
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let random = core::iter::repeat_with(|| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        hash_of_i64(state.cast_signed())
    });
    for hash in [i32::MIN, -1, 0, 1, i32::MAX, i32::MIN + 1].into_iter().chain(random.take(10_000)) {
        for groups in [1, 2, 3, 7, 10, 127, 128, 32767, 32768] {
            assert!(key_group_of_hash(hash, max(groups)).0 < max(groups).get(), "{hash} of {groups}");
        }
    }
}

#[test]
fn k9_numbers_out_of_bounds_are_refused() {
    for max_parallelism in [0, 32769, u32::MAX] {
        assert_eq!(
            MaxParallelism::new(max_parallelism),
            Err(InvalidParallelism::MaxParallelism { max_parallelism })
        );
    }
    for parallelism in [0, 11, u32::MAX] {
        let refused = InvalidParallelism::Parallelism { parallelism, max_parallelism: max(10) };
        assert_eq!(range_of_subtask(max(10), parallelism, 0), Err(refused));
        assert_eq!(subtask_of_key_group(max(10), parallelism, KeyGroup(0)), Err(refused));
    }
    assert!(default_max_parallelism(0).is_err() && default_max_parallelism(32769).is_err());
    assert!(range_of_subtask(max(10), 3, 3).is_err());
    assert!(subtask_of_key_group(max(10), 3, KeyGroup(10)).is_err());
}

#[test]
fn ranges_know_what_they_hold() {
    let range = |first, last| KeyGroupRange { first: KeyGroup(first), last: KeyGroup(last) };
    assert_eq!(range(3, 6).iter().map(|group| group.0).collect::<Vec<_>>(), [3, 4, 5, 6]);
    assert!(range(3, 6).contains(KeyGroup(6)) && !range(3, 6).contains(KeyGroup(7)));
    assert_eq!(range(3, 6).intersect(range(5, 9)), Some(range(5, 6)));
    assert_eq!(range(3, 6).intersect(range(7, 9)), None);
    let nothing = range(6, 3);
    assert!(nothing.is_empty() && nothing.iter().next().is_none());
    assert_eq!(nothing.len(), 0);
    assert_eq!(MaxParallelism::MAX.all_key_groups().len(), 32768);
}

use std::format;

use slackwater_core::durable::run_to_end;
use slackwater_core::ids::CheckpointId;
use slackwater_core::key_group::{KeyGroup, key_group_of_hash};
use slackwater_core::time::{Millis, Now};

use super::*;
use crate::codec::{Migration, PlainData, migrate};
use crate::disk::MemDisk;
use crate::segment::{Compression, SegmentRef, SegmentRestore, SegmentSpec, SegmentWriter, restore_segment};
use crate::snapshot::FrozenRun;

type TestDisk = MemDisk<FrozenRun>;

/// A number that was a `u32` in version 1, a text after that, and is a `u64` now. 13 cannot be had any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Count(u64);

impl PlainData for Count {
    type Wire = zerocopy::little_endian::U64;

    const ID: CodecId<'static> = CodecId::fixed("count", 3, 8);

    fn to_wire(self) -> Self::Wire {
        self.0.into()
    }

    fn from_wire(wire: Self::Wire) -> Option<Self> {
        Some(Self(wire.get()))
    }

    fn migration(stored: CodecId<'_>) -> Option<Migration> {
        match (stored.name, stored.version) {
            ("u32", 1) => Some(|old, new| {
                if old.as_slice() == Some(&[13, 0, 0, 0]) {
                    return Err(Malformed { codec: Plain::<u32>::ID, len: old.len() }.into());
                }
                migrate::<Plain<u32>, Plain<Self>>(old, new, |old| Self(old.into()))
            }),
            ("utf8", 1) => {
                Some(|old, new| migrate::<Utf8, Plain<Self>>(old, new, |old| Self(old.parse().unwrap_or(0))))
            }
            _ => None,
        }
    }
}

fn at(wall_ms: u64) -> Now {
    Now { monotonic: Millis(0), wall: Millis(wall_ms) }
}

/// What a program of old left behind.
struct Left {
    disk: TestDisk,
    segment: SegmentRef,
}

impl Left {
    fn by(write: impl FnOnce(&mut Heap)) -> Self {
        let mut heap = heap(groups());
        write(&mut heap);
        let spec = SegmentSpec {
            folder: String::new(),
            file_name: "s".into(),
            file_id: 1,
            job_id: 2,
            checkpoint: CheckpointId(3),
            subtask: 0,
            attempt: 0,
            max_parallelism: groups(),
            compression: Compression::None,
        };
        let mut disk = TestDisk::new();
        let mut writer = SegmentWriter::<TestDisk>::new(heap.freeze().unwrap(), spec);
        run_to_end(&mut disk, &mut writer).unwrap();
        let segment = writer.result().unwrap().clone().unwrap();
        Self { disk, segment }
    }

    fn restored(&mut self) -> Heap {
        let mut heap = heap(groups());
        restore_segment(&mut self.disk, "s", &self.segment, groups().all_key_groups(), &mut heap).unwrap();
        heap
    }
}

fn register<V: Decode>(heap: &mut Heap) -> Result<ValueState<Utf8, V>, StateError> {
    ValueState::register(heap, "op", "counts", groups())
}

fn left_values<V: Decode>(value: fn(u32) -> V::Owned) -> Left {
    Left::by(|heap| {
        let counts = register::<V>(heap).unwrap();
        for number in 100..900 {
            counts.put(heap, &number.to_string(), V::borrow(&value(number))).unwrap();
        }
    })
}

#[test]
fn values_of_the_same_codec_are_used_as_they_are() {
    let mut heap = left_values::<Plain<u32>>(|number| number).restored();
    let counts = register::<Plain<u32>>(&mut heap).unwrap();
    assert_eq!((counts.get(&heap, "500"), heap.len(counts.id())), (Ok(Some(500)), 800));
}

#[test]
fn values_of_an_older_codec_are_rewritten_all_of_them() {
    let left: [Left; 2] =
        [left_values::<Plain<u32>>(|number| number), left_values::<Utf8>(|number| number.to_string())];
    for mut left in left {
        let mut heap = left.restored();
        let counts = register::<Plain<Count>>(&mut heap).unwrap();
        for number in 100..900 {
            assert_eq!(counts.get(&heap, &number.to_string()), Ok(Some(Count(number))));
        }
        counts.update(&mut heap, "500", |old| Count(old.unwrap().0 + 1)).unwrap();
        assert_eq!(heap.len(counts.id()), 800);
        let snapshot = heap.freeze().unwrap();
        assert_eq!(snapshot.states().next().unwrap().value, Plain::<Count>::ID);
        snapshot.entries(counts.id(), &mut |_, _, value| assert_eq!(value.len(), 8));
    }
}

#[test]
fn g02_what_was_rewritten_is_restored_as_it_is() {
    let mut heap = left_values::<Plain<u32>>(|number| number).restored();
    register::<Plain<Count>>(&mut heap).unwrap();
    let mut left = Left::by(|empty| *empty = heap);
    let mut heap = left.restored();
    let counts = register::<Plain<Count>>(&mut heap).unwrap();
    assert_eq!(counts.get(&heap, "899"), Ok(Some(Count(899))));
    assert_eq!(heap.len(counts.id()), 800);
    let refused = register::<Plain<u32>>(&mut left.restored()).unwrap_err();
    assert!(refused.to_string().contains("count version 3"), "the codec of old does not read it: {refused}");
}

#[test]
fn a_codec_without_a_migration_is_refused_by_name_and_nothing_changes() {
    let mut heap = left_values::<Plain<i64>>(i64::from).restored();
    let refused = register::<Plain<Count>>(&mut heap).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "state counts of operator op has values of codec i64 version 1, and count version 3 has no migration \
        for it; give it one, or register the codec of old"
    );
    let counts = register::<Plain<i64>>(&mut heap).unwrap();
    assert_eq!(counts.get(&heap, "100"), Ok(Some(100)));
}

#[test]
fn keys_of_another_codec_are_refused() {
    let mut heap = left_values::<Plain<u32>>(|number| number).restored();
    let refused = ValueState::<Bytes, Plain<u32>>::register(&mut heap, "op", "counts", groups()).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "state counts of operator op has keys of codec utf8 version 1, and bytes version 1 is wanted; keys stay of \
        their codec: register that, or another state"
    );
    let scoped = ValueState::<Utf8, Plain<u32>, Plain<u8>>::register(&mut heap, "op", "counts", groups());
    assert!(matches!(scoped.unwrap_err(), StateError::Refused(refused) if refused.of_keys));
}

#[test]
fn a_value_that_cannot_be_rewritten_leaves_a_state_that_nobody_can_use() {
    let mut heap = left_values::<Plain<u32>>(|number| if number == 777 { 13 } else { number }).restored();
    let refused = register::<Plain<Count>>(&mut heap).unwrap_err().to_string();
    assert_eq!(
        refused,
        "state counts of operator op has values of codec u32 version 1, which could not be rewritten to count \
        version 3: 4 bytes of state are not what codec u32 version 1 writes; register the codec that wrote them"
    );
    for again in
        [register::<Plain<Count>>(&mut heap).unwrap_err(), register::<Plain<u32>>(&mut heap).unwrap_err()]
    {
        assert!(again.to_string().contains("values of codec half rewritten version 0"), "{again}");
    }
}

#[test]
fn a_state_without_entries_is_held_to_the_same_rules() {
    let mut heap = heap(groups());
    register::<Plain<u32>>(&mut heap).unwrap();
    register::<Plain<Count>>(&mut heap).unwrap();
    assert!(matches!(register::<Plain<u8>>(&mut heap), Err(StateError::Refused(_))));
}

#[test]
fn a_list_is_rewritten_element_by_element() {
    let mut left = Left::by(|heap| {
        let list = ListState::<Utf8, Plain<u32>>::register(heap, "op", "list", groups()).unwrap();
        list.add_all(heap, "long", &[7; 500]).unwrap();
        list.add_all(heap, "short", [&1, &2]).unwrap();
    });
    let mut heap = left.restored();
    let list = ListState::<Utf8, Plain<Count>>::register(&mut heap, "op", "list", groups()).unwrap();
    let all = |key: &str| list.get(&heap, key).unwrap().map(Result::unwrap).collect::<Vec<_>>();
    assert_eq!((all("long"), all("short")), (vec![Count(7); 500], vec![Count(1), Count(2)]));
}

#[test]
fn folded_values_are_rewritten_within_their_kind() {
    let mut left = Left::by(|heap| {
        let sums = ReducingState::<Utf8, Plain<u32>>::register(heap, "op", "sums", groups(), |a, b| a + b);
        sums.unwrap().add(heap, "k", 7).unwrap();
    });
    let mut heap = left.restored();
    let add = |a: Count, b: Count| Count(a.0 + b.0);
    let sums = ReducingState::<Utf8, Plain<Count>>::register(&mut heap, "op", "sums", groups(), add).unwrap();
    sums.add(&mut heap, "k", Count(1)).unwrap();
    assert_eq!(sums.get(&heap, "k"), Ok(Some(Count(8))));
}

#[test]
fn entries_get_a_time_when_they_begin_to_expire_and_lose_it_when_they_do_not() {
    let ttl = TimeToLive::new(100);
    let mut heap = left_values::<Plain<u32>>(|number| number).restored();
    let mut expiring = ValueState::<Utf8, Plain<Count>>::register_expiring(
        &mut heap,
        "op",
        "counts",
        groups(),
        ttl,
        at(1_000),
    )
    .unwrap();
    assert_eq!(expiring.at(at(1_099)).get(&mut heap, "500"), Ok(Some(Count(500))));
    assert_eq!(expiring.at(at(1_100)).get(&mut heap, "500"), Ok(None));
    let counts = register::<Plain<Count>>(&mut heap).unwrap();
    assert_eq!(counts.get(&heap, "500"), Ok(Some(Count(500))));
}

#[test]
fn a_time_survives_the_rewriting_of_what_it_stands_before() {
    let ttl = TimeToLive::new(100);
    let mut left = Left::by(|heap| {
        let list = ListState::<Utf8, Plain<u32>>::register_expiring(heap, "op", "list", groups(), ttl, at(0));
        let mut list = list.unwrap();
        list.at(at(10)).add(heap, "k", &1).unwrap();
        list.at(at(60)).add(heap, "k", &2).unwrap();
    });
    let mut heap = left.restored();
    let list =
        ListState::<Utf8, Plain<Count>>::register_expiring(&mut heap, "op", "list", groups(), ttl, at(70));
    let state = list.unwrap().at(at(110));
    let seen: Vec<_> = state.get(&mut heap, "k").unwrap().map(Result::unwrap).collect();
    assert_eq!(seen, [Count(2)]);
}

#[test]
fn values_are_not_rewritten_before_all_of_them_are_restored() {
    let mut left = left_values::<Plain<u32>>(|number| number);
    let mut heap = heap(groups());
    let (disk, range) = (&mut left.disk, groups().all_key_groups());
    let mut restore = SegmentRestore::open(disk, "s", &left.segment, range, &mut heap).unwrap();
    restore.key_group_now(disk, &mut heap, KeyGroup(3)).unwrap();
    let refused = register::<Plain<Count>>(&mut heap).unwrap_err();
    assert_eq!(format!("{refused}"), "restore key group 0 before it is used");
    restore.finish(disk, &mut heap).unwrap();
    let counts = register::<Plain<Count>>(&mut heap).unwrap();
    assert_eq!(counts.get(&heap, "500"), Ok(Some(Count(500))));
}

#[test]
fn timers_are_added_and_fire_while_others_are_still_to_be_restored() {
    let mut left = Left::by(|heap| {
        let mut timers = Timers::<Utf8>::register(heap, "op", "timers", groups()).unwrap();
        (100..400).for_each(|time| assert_eq!(timers.add(heap, time, &time.to_string()), Ok(true)));
    });
    let mut heap = heap(groups());
    let (disk, range) = (&mut left.disk, groups().all_key_groups());
    let mut restore = SegmentRestore::open(disk, "s", &left.segment, range, &mut heap).unwrap();
    let mut timers = Timers::<Utf8>::register(&mut heap, "op", "timers", groups()).unwrap();
    assert_eq!(timers.earliest(&heap), Ok(None));
    restore.key_group_now(disk, &mut heap, key_group_of_hash(Utf8::key_group_hash("300"), groups())).unwrap();
    assert_eq!(timers.add(&mut heap, 299, "300"), Ok(true));
    assert_eq!(
        timers.pop_due(&mut heap, 299).map(|due| due.map(|timer| timer.timestamp < 300)),
        Ok(Some(true))
    );
    restore.finish(disk, &mut heap).unwrap();
    let due = core::iter::from_fn(|| timers.pop_due(&mut heap, i64::MAX).unwrap());
    assert_eq!(due.count(), 300);
}

#[test]
fn values_of_a_map_are_rewritten_and_its_keys_stay_of_their_codec() {
    let mut left = Left::by(|heap| {
        let map = MapState::<Utf8, Utf8, Plain<u32>>::register(heap, "op", "map", groups()).unwrap();
        for number in 100..400 {
            map.put(heap, "k", &number.to_string(), &number).unwrap();
        }
    });
    let mut heap = left.restored();
    let refused =
        MapState::<Utf8, Bytes, Plain<u32>>::register(&mut heap, "op", "map", groups()).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "state map of operator op has values of codec map(utf8.1,u32.1) version 1, and map(bytes.1,u32.1) version 1 \
        has no migration for it; give it one, or register the codec of old"
    );
    let map = MapState::<Utf8, Utf8, Plain<Count>>::register(&mut heap, "op", "map", groups()).unwrap();
    for number in 100..400 {
        assert_eq!(map.get(&heap, "k", &number.to_string()), Ok(Some(Count(number))));
    }
}

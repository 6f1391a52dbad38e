use core::ops::RangeInclusive;
use std::collections::BTreeMap;
use std::vec;
use std::vec::Vec;
use std::{format, string::ToString};

use slackwater_core::durable::{
    Completion, Data, Disk, DiskError, Failure, Frozen, Layer, Layered, Names, Operation, Outcome, Token,
    Tokens, Wait, Work, WriteFile, run_to_end,
};
use slackwater_core::format::FormatError;
use slackwater_core::key_group::KeyGroup;

use super::*;
use crate::codec::CodecId;
use crate::disk::MemDisk;
use crate::heap::{Heap, HeapError, HeapOptions, StateId, Value};
use crate::snapshot::{FrozenRun, Snapshot};

mod adopt;
mod append;
mod compression;
mod forge;
mod golden;
mod ranges;

type TestDisk = MemDisk<FrozenRun>;
/// Entries by state's name, key group and key.
type Entries = BTreeMap<(String, u16, Vec<u8>), Vec<u8>>;

const BYTES: CodecId<'static> = CodecId::variable("bytes", 1);

fn range(groups: RangeInclusive<u16>) -> KeyGroupRange {
    KeyGroupRange { first: KeyGroup(*groups.start()), last: KeyGroup(*groups.end()) }
}

fn heap(frame_size: u32, groups: RangeInclusive<u16>) -> Heap {
    let key_groups = range(groups);
    Heap::new(HeapOptions { frame_size, memory_limit_bytes: 32 << 20, key_groups, hash_seed: 7 }).unwrap()
}

fn spec(file_name: &str) -> SegmentSpec {
    SegmentSpec {
        folder: String::new(),
        file_name: file_name.to_string(),
        file_id: 0xf11e,
        job_id: 0x0b,
        checkpoint: CheckpointId(3),
        subtask: 1,
        attempt: 0,
        max_parallelism: MaxParallelism::new(32768).unwrap(),
        compression: Compression::None,
    }
}

fn bytes_of(value: Value<'_>) -> Vec<u8> {
    value.chunks().collect::<Vec<_>>().concat()
}

fn entries_of(snapshot: &Snapshot) -> Entries {
    let mut entries = Entries::new();
    for state in snapshot.states() {
        snapshot.entries(state.id, &mut |group, key, value| {
            let before = entries.insert((state.name.to_string(), group.0, bytes_of(key)), bytes_of(value));
            assert!(before.is_none(), "a key occurs once");
        });
    }
    entries
}

/// Two states with keys and values of many lengths, some of them in chains, and one that was never written.
fn filled(frame_size: u32, groups: RangeInclusive<u16>, count: u32) -> Heap {
    let mut heap = heap(frame_size, groups.clone());
    let states = ["small", "large", "never"].map(|name| heap.register("op", name, BYTES, BYTES).unwrap());
    for (number, group) in (0..count).zip(groups.cycle()) {
        let group = KeyGroup(group);
        let [low, ..] = number.to_le_bytes();
        let key = format!("key-{number}");
        heap.put(states[0], group, key.as_bytes(), &number.to_le_bytes()).unwrap();
        if number % 8 == 0 {
            let key = vec![low; (number % 700) as usize + 4];
            let key = [&number.to_le_bytes(), key.as_slice()].concat();
            let value = vec![!low; (number as usize * 37) % 9000];
            heap.put(states[1], group, &key, &value).unwrap();
        }
    }
    heap
}

fn write(disk: &mut TestDisk, snapshot: Snapshot, file_name: &str) -> SegmentRef {
    write_with(Compression::None, disk, snapshot, file_name)
}

/// The compressions that are built in.
fn compressions() -> impl Iterator<Item = Compression> {
    Compression::ALL.into_iter().filter(|compression| check_compression(*compression).is_ok())
}

fn write_with(
    compression: Compression,
    disk: &mut TestDisk,
    snapshot: Snapshot,
    file_name: &str,
) -> SegmentRef {
    let spec = SegmentSpec { compression, ..spec(file_name) };
    let mut writer = SegmentWriter::<TestDisk>::new(snapshot, spec);
    run_to_end(disk, &mut writer).unwrap();
    writer.result().unwrap().clone().unwrap()
}

#[test]
fn a_segment_restores_every_entry() {
    for (frame_size, count) in [(256, 600), (1024, 800), (4096, 3000), (16384, 2000)] {
        let mut heap = filled(frame_size, 0..=7, count);
        let snapshot = heap.freeze().unwrap();
        let expected = entries_of(&snapshot);
        let mut disk = TestDisk::new();
        let segment = write(&mut disk, snapshot, "s.seg");
        assert_eq!(segment.len % 4096, 0);

        let stats = verify_segment(&mut disk, "s.seg", &segment).unwrap();
        assert_eq!((stats.entries, stats.states, stats.key_groups), (expected.len() as u64, 3, 8));
        let mut restored = self::heap(frame_size, 0..=7);
        let stats = restore_segment(&mut disk, "s.seg", &segment, range(0..=7), &mut restored).unwrap();
        assert_eq!((stats.entries, stats.key_groups), (expected.len() as u64, 8));
        assert!(entries_of(&restored.freeze().unwrap()) == expected, "frame size {frame_size}");
    }
}

#[test]
fn a_segment_restores_into_other_frames_and_other_ranges() {
    let mut heap = filled(256, 4..=19, 500);
    let snapshot = heap.freeze().unwrap();
    let expected = entries_of(&snapshot);
    let mut disk = TestDisk::new();
    let segment = write(&mut disk, snapshot, "s.seg");
    let mut restored = Entries::new();
    for groups in [0..=9, 10..=15, 16..=40] {
        let mut part = self::heap(4096, groups.clone());
        restore_segment(&mut disk, "s.seg", &segment, range(groups.clone()), &mut part).unwrap();
        let part = entries_of(&part.freeze().unwrap());
        assert!(part.keys().all(|(_, group, _)| groups.contains(group)));
        restored.extend(part);
    }
    assert!(restored == expected);
}

#[test]
fn what_changes_while_a_segment_is_written_is_not_in_it() {
    let mut heap = filled(4096, 0..=3, 6000);
    let snapshot = heap.freeze().unwrap();
    let expected = entries_of(&snapshot);
    let mut disk = TestDisk::new();
    let mut writer = SegmentWriter::<TestDisk>::new(snapshot, spec("s.seg"));
    let (mut tokens, mut number) = (Tokens::new(1), 0_u32);
    while writer.result().is_none() {
        writer.advance(&mut disk, &mut tokens);
        let mut ended = heapless::Vec::<_, 2>::new();
        disk.reap(Wait::No, &mut ended);
        for completion in ended {
            writer.on_completion(completion, &mut disk);
        }
        for _ in 0..500 {
            let key = format!("key-{}", number % 6000);
            let group = KeyGroup((number % 4) as u16);
            heap.put(StateId(0), group, key.as_bytes(), b"changed").unwrap();
            number += 1;
        }
    }
    let segment = writer.result().unwrap().clone().unwrap();
    let mut restored = self::heap(4096, 0..=3);
    restore_segment(&mut disk, "s.seg", &segment, range(0..=3), &mut restored).unwrap();
    assert!(entries_of(&restored.freeze().unwrap()) == expected);
}

/// Counts the bytes of frames that are written where they lie, and those that are read.
#[derive(Default)]
struct Counts {
    frozen_len: u64,
    read_len: u64,
}

type Counting = Layered<TestDisk, Counts>;

fn counting(disk: TestDisk) -> Counting {
    Layered { disk, layer: Counts::default() }
}

impl Layer<TestDisk> for Counts {
    fn submit<'p>(
        &mut self,
        disk: &mut TestDisk,
        token: Token,
        operation: Operation<'p, <TestDisk as Disk>::Block, FrozenRun>,
    ) -> Result<(), Operation<'p, <TestDisk as Disk>::Block, FrozenRun>> {
        if let Operation::Write { data: Data::Frozen(run), .. } = &operation {
            self.frozen_len += run.bytes().len() as u64;
        }
        if let Operation::Read { len, .. } = &operation {
            self.read_len += *len as u64;
        }
        disk.submit(token, operation)
    }
}

#[test]
fn long_runs_go_out_where_they_lie() {
    let mut heap = filled(4096, 0..=0, 12_000);
    let snapshot = heap.freeze().unwrap();
    let expected = entries_of(&snapshot);
    let mut counting = counting(TestDisk::new());
    let mut writer = SegmentWriter::<Counting>::new(snapshot, spec("s.seg"));
    run_to_end(&mut counting, &mut writer).unwrap();
    let segment = writer.result().unwrap().clone().unwrap();
    let percent = counting.layer.frozen_len * 100 / segment.len;
    assert!(percent >= 80, "{percent} % of {} bytes", segment.len);
    let mut restored = self::heap(4096, 0..=0);
    restore_segment(&mut counting.disk, "s.seg", &segment, range(0..=0), &mut restored).unwrap();
    assert!(entries_of(&restored.freeze().unwrap()) == expected);
}

/// An ordered state with keys that share beginnings, some of them and of the values in chains.
fn fill_ordered(heap: &mut Heap, count: u32) -> StateId {
    let state = heap.register_ordered("op", "ordered", BYTES, BYTES).unwrap();
    let groups = heap.options().key_groups;
    for (number, group) in (0..count).zip(groups.iter().cycle()) {
        let mut key = b"a shared front ".to_vec();
        key.resize(if number % 40 == 0 { 9000 } else { 15 + (number % 3) as usize }, b'.');
        key.extend_from_slice(&number.wrapping_mul(0x9e37_79b9).to_le_bytes());
        let value = vec![7; if number % 50 == 0 { 5000 } else { (number % 20) as usize }];
        heap.ordered_put(state, group, &key, &value).unwrap();
    }
    state
}

#[test]
fn trees_are_taken_over_and_go_on() {
    for (frame_size, count) in [(256, 700), (1024, 3_000), (4096, 8_000)] {
        let mut heap = filled(frame_size, 0..=3, 100);
        fill_ordered(&mut heap, count);
        let snapshot = heap.freeze().unwrap();
        let expected = entries_of(&snapshot);
        let mut disk = TestDisk::new();
        let segment = write(&mut disk, snapshot, "s.seg");
        let verified = verify_segment(&mut disk, "s.seg", &segment).unwrap();
        assert_eq!((verified.entries, verified.states), (expected.len() as u64, 4));

        let mut restored = self::heap(frame_size, 0..=3);
        let stats = restore_segment(&mut disk, "s.seg", &segment, range(0..=3), &mut restored).unwrap();
        assert_eq!((stats.entries, stats.key_groups_adopted), (expected.len() as u64, 4));
        let first = restored.freeze().unwrap();
        assert!(entries_of(&first) == expected, "frame size {frame_size}");
        // What was taken over can be changed, and a snapshot of it stays as it was.
        let state = restored.state("op", "ordered").unwrap();
        let mut changed = expected.clone();
        changed.retain(|(name, group, key), _| {
            let goes = name == "ordered" && key.last().is_some_and(|byte| byte % 3 == 0);
            if goes {
                assert!(restored.ordered_remove(state, KeyGroup(*group), key).unwrap());
            }
            !goes
        });
        for number in 0..500_u32 {
            let key = [b"a shared ", number.wrapping_mul(0x9e37_79b9).to_le_bytes().as_slice()].concat();
            restored.ordered_put(state, KeyGroup(1), &key, b"new").unwrap();
            changed.insert(("ordered".to_string(), 1, key), b"new".to_vec());
        }
        assert!(entries_of(&first) == expected, "frame size {frame_size}");
        assert!(entries_of(&restored.freeze().unwrap()) == changed, "frame size {frame_size}");

        let mut other = self::heap(if frame_size == 4096 { 512 } else { 4096 }, 0..=3);
        let stats = restore_segment(&mut disk, "s.seg", &segment, range(0..=3), &mut other).unwrap();
        assert_eq!((stats.entries, stats.key_groups_adopted), (expected.len() as u64, 0));
        assert!(entries_of(&other.freeze().unwrap()) == expected, "frame size {frame_size}");
    }
}

#[test]
fn a_state_of_another_kind_is_refused() {
    let mut heap = heap(256, 0..=3);
    fill_ordered(&mut heap, 10);
    let mut disk = TestDisk::new();
    let segment = write(&mut disk, heap.freeze().unwrap(), "s.seg");
    let mut other = self::heap(256, 0..=3);
    other.register("op", "ordered", BYTES, BYTES).unwrap();
    let error = restore_segment(&mut disk, "s.seg", &segment, range(0..=3), &mut other).unwrap_err();
    assert!(matches!(error.cause, RestoreCause::Heap(HeapError::OtherKind { .. })), "{error}");
}

#[test]
fn a_new_heap_costs_one_block_and_many_small_key_groups_little() {
    let mut disk = TestDisk::new();
    let mut empty = heap(4096, 0..=32767);
    let segment = write(&mut disk, empty.freeze().unwrap(), "empty.seg");
    assert_eq!(segment.len, 8192);
    verify_segment(&mut disk, "empty.seg", &segment).unwrap();

    let mut sparse = heap(256, 0..=32767);
    let state = sparse.register("op", "state", BYTES, BYTES).unwrap();
    for group in (0..32768).step_by(100) {
        sparse.put(state, KeyGroup(group), b"key", b"value").unwrap();
    }
    let segment = write(&mut disk, sparse.freeze().unwrap(), "sparse.seg");
    // 328 key groups: a frame, 44 bytes of index and 48 of footer each.
    assert_eq!(segment.len, (4096 + 328 * (256 + 44 + 48_u64)).next_multiple_of(4096));
    assert_eq!(verify_segment(&mut disk, "sparse.seg", &segment).unwrap().key_groups, 328);
}

#[test]
fn a_segment_holds_a_thousand_states_in_32768_key_groups() {
    let mut many =
        Heap::new(HeapOptions { memory_limit_bytes: 64 << 20, ..heap(256, 0..=32767).options() }).unwrap();
    let states: Vec<_> =
        (0..1000).map(|number| many.register("op", &format!("s{number}"), BYTES, BYTES).unwrap()).collect();
    for (number, group) in (0..20).zip((0..32768).step_by(1700)) {
        many.put(states[number * 50], KeyGroup(group), b"key", &group.to_le_bytes()).unwrap();
    }
    let snapshot = many.freeze().unwrap();
    let expected = entries_of(&snapshot);
    let mut disk = TestDisk::new();
    let segment = write(&mut disk, snapshot, "s.seg");
    assert_eq!(verify_segment(&mut disk, "s.seg", &segment).unwrap().states, 1000);
    let mut restored = heap(4096, 0..=32767);
    restore_segment(&mut disk, "s.seg", &segment, range(0..=32767), &mut restored).unwrap();
    assert!(entries_of(&restored.freeze().unwrap()) == expected);
}

fn read_back(disk: &mut TestDisk, path: &str) -> Vec<u8> {
    read_file(disk, path, 1 << 30).unwrap()
}

/// A disk with just this file.
fn disk_with(path: &str, bytes: &[u8]) -> TestDisk {
    let mut disk = TestDisk::new();
    let mut file = WriteFile::<TestDisk, _, _>::new(Names::Final { path }, bytes);
    run_to_end(&mut disk, &mut file).unwrap();
    file.result().unwrap().unwrap();
    disk
}

fn small_segment() -> (Vec<u8>, SegmentRef) {
    small_segment_with(Compression::None)
}

fn small_segment_with(compression: Compression) -> (Vec<u8>, SegmentRef) {
    let mut heap = heap(256, 0..=3);
    let state = heap.register("op", "state", BYTES, BYTES).unwrap();
    for number in 0..20_u8 {
        heap.put(state, KeyGroup(u16::from(number % 3)), &[number], &[number; 10]).unwrap();
    }
    heap.put(state, KeyGroup(1), &[7; 100], &[8; 300]).unwrap();
    let mut disk = TestDisk::new();
    let segment = write_with(compression, &mut disk, heap.freeze().unwrap(), "s.seg");
    (read_back(&mut disk, "s.seg"), segment)
}

#[test]
fn every_change_of_a_byte_is_found() {
    let (bytes, segment) = small_segment();
    verify_segment(&mut disk_with("s.seg", &bytes), "s.seg", &segment).unwrap();
    for at in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1 << (at % 8);
        let mut disk = disk_with("s.seg", &damaged);
        let verified = verify_segment(&mut disk, "s.seg", &segment);
        assert!(verified.is_err(), "byte {at} of {}", bytes.len());
        assert_eq!(disk.in_flight(), 0);
    }
}

#[test]
fn every_truncation_is_found() {
    let (bytes, segment) = small_segment();
    let mut disk = disk_with("s.seg", &bytes);
    for len in (0..segment.len).rev() {
        cut(&mut disk, "s.seg", len);
        assert!(verify_segment(&mut disk, "s.seg", &segment).is_err(), "cut to {len}");
        // Even if whoever cut it had changed the manifest as well.
        let believed = SegmentRef { len, ..segment.clone() };
        assert!(verify_segment(&mut disk, "s.seg", &believed).is_err(), "cut to {len}");
    }
}

fn cut(disk: &mut TestDisk, path: &str, len: u64) {
    let mut ended = heapless::Vec::<_, 1>::new();
    disk.submit(Token(0), Operation::OpenFile { path }).unwrap();
    disk.reap(Wait::ForOne, &mut ended);
    let Some(Completion { outcome: Outcome::Opened { file, .. }, .. }) = ended.pop() else {
        panic!("the file is there")
    };
    for operation in [Operation::SetLength { file, len }, Operation::CloseFile { file }] {
        disk.submit(Token(0), operation).unwrap();
        disk.reap(Wait::ForOne, &mut ended);
        assert!(matches!(ended.pop().unwrap().outcome, Outcome::Done));
    }
}

#[test]
fn another_file_is_not_taken_for_the_one_listed() {
    let (bytes, segment) = small_segment();
    let mut disk = disk_with("s.seg", &bytes);
    let others = [
        ("length", SegmentRef { len: segment.len + 4096, ..segment.clone() }),
        ("file id", SegmentRef { file_id: 1, ..segment.clone() }),
        ("checksum of the footer", SegmentRef { footer_checksum: 1, ..segment.clone() }),
        ("last key group", SegmentRef { key_groups: range(0..=9), ..segment.clone() }),
    ];
    for (differs, other) in others {
        let error = verify_segment(&mut disk, "s.seg", &other).unwrap_err();
        assert!(matches!(error.cause, RestoreCause::Foreign { what, .. } if what == differs), "{error}");
    }
    let error = verify_segment(&mut disk, "t.seg", &segment).unwrap_err();
    assert!(matches!(error.cause, RestoreCause::Disk(DiskError { errno: DiskError::NOT_FOUND, .. })));
}

#[test]
fn a_state_of_another_codec_is_refused() {
    let (bytes, segment) = small_segment();
    let mut disk = disk_with("s.seg", &bytes);
    let mut heap = heap(256, 0..=3);
    heap.register("op", "state", BYTES, CodecId::variable("bytes", 2)).unwrap();
    let error = restore_segment(&mut disk, "s.seg", &segment, range(0..=3), &mut heap).unwrap_err();
    assert!(matches!(error.cause, RestoreCause::Heap(HeapError::OtherCodec { .. })), "{error}");
}

#[test]
fn states_are_found_by_name_not_by_number() {
    let (bytes, segment) = small_segment();
    let mut disk = disk_with("s.seg", &bytes);
    let mut heap = heap(256, 0..=3);
    heap.register("op", "other", BYTES, BYTES).unwrap();
    restore_segment(&mut disk, "s.seg", &segment, range(0..=3), &mut heap).unwrap();
    let state = heap.state("op", "state").unwrap();
    assert_eq!((state, heap.len(state), heap.len(StateId(0))), (StateId(1), 21, 0));
}

#[test]
fn a_file_that_exists_is_not_written_over() {
    let mut disk = disk_with("s.seg", b"precious");
    let mut heap = filled(4096, 0..=3, 10);
    let mut writer = SegmentWriter::<TestDisk>::new(heap.freeze().unwrap(), spec("s.seg"));
    run_to_end(&mut disk, &mut writer).unwrap();
    let refused = writer.result().unwrap().clone().unwrap_err();
    let WriteError::File(Failure::Disk { error, .. }) = refused else { panic!("{refused}") };
    assert_eq!(error.errno, DiskError::EXISTS);
    assert_eq!(read_back(&mut disk, "s.seg"), b"precious");
}

#[test]
fn an_abandoned_segment_lets_its_snapshot_go_and_leaves_no_file() {
    let mut heap = filled(4096, 0..=3, 10);
    for round in 0..6 {
        let mut disk = TestDisk::new();
        let mut writer = SegmentWriter::<TestDisk>::new(heap.freeze().unwrap(), spec("s.seg"));
        for _ in 0..round {
            let mut ended = heapless::Vec::<_, 1>::new();
            writer.advance(&mut disk, &mut Tokens::new(0));
            disk.reap(Wait::No, &mut ended);
            ended.into_iter().for_each(|completion| writer.on_completion(completion, &mut disk));
        }
        writer.abandon();
        run_to_end_of(&mut disk, &mut writer);
        if writer.result().unwrap().is_err() {
            let error = read_file(&mut disk, "s.seg", 1 << 20).unwrap_err();
            assert!(matches!(error.cause, RestoreCause::Disk(_)), "{error}");
        }
    }
}

/// As `run_to_end`, for a work that has operations in flight.
fn run_to_end_of(disk: &mut TestDisk, writer: &mut SegmentWriter<TestDisk>) {
    let mut tokens = Tokens::new(9);
    while !writer.is_done() {
        writer.advance(disk, &mut tokens);
        let mut ended = heapless::Vec::<_, 8>::new();
        disk.reap(Wait::ForOne, &mut ended);
        ended.into_iter().for_each(|completion| writer.on_completion(completion, disk));
    }
}

#[test]
fn a_file_above_the_limit_is_not_read() {
    let mut disk = disk_with("big", &[1; 5000]);
    assert_eq!(read_file(&mut disk, "big", 5000).unwrap(), [1; 5000]);
    let error = read_file(&mut disk, "big", 4999).unwrap_err();
    assert_eq!(error.cause, RestoreCause::TooLong { len: 5000, len_max: 4999 });
}

#[test]
fn a_busy_disk_is_said_so() {
    let mut disk = disk_with("f", b"x");
    let mut tokens = Tokens::new(0);
    disk.submit(tokens.draw(), Operation::OpenFile { path: "f" }).unwrap();
    assert_eq!(read_file(&mut disk, "f", 10).unwrap_err().cause, RestoreCause::DiskBusy);
    let mut ended = heapless::Vec::<_, 1>::new();
    disk.reap(Wait::ForOne, &mut ended);
    assert!(matches!(ended[0].outcome, Outcome::Opened { len: 1, .. }));
}

#[test]
fn errors_name_the_file_and_what_is_wrong() {
    let (mut bytes, segment) = small_segment();
    bytes[5000] ^= 1;
    let error = verify_segment(&mut disk_with("s.seg", &bytes), "s.seg", &segment);
    let error = error.unwrap_err();
    assert!(matches!(error.cause, RestoreCause::Page { error: FormatError::Corrupt { .. }, .. }));
    let text = error.to_string();
    assert!(text.starts_with("s.seg: page ") && text.contains("damaged at byte "), "{text}");
    assert!(text.contains("checksum"), "{text}");
}

use std::collections::BTreeMap;
use std::vec::Vec;

use slackwater_core::durable::{Data, FileId, Layer, Layered, Operation, Token, Wait};
use slackwater_core::ids::CheckpointId;
use slackwater_core::key_group::{KeyGroupRange, MaxParallelism};

use super::*;
use crate::codec::CodecId;
use crate::disk::MemDisk;
use crate::heap::{Heap, HeapOptions, StateId, Value};
use crate::segment::{Compression, check_compression};

type Inner = MemDisk<FrozenRun>;
type Write = (Token, FileId, u64, Data<<Inner as Disk>::Block, FrozenRun>);

/// Takes one write at a time, and has its bytes read only when the disk is reaped.
#[derive(Default)]
struct Waiting(Option<Write>);

type Slow = Layered<Inner, Waiting>;

fn slow() -> Slow {
    Layered { disk: Inner::new(), layer: Waiting::default() }
}

impl Waiting {
    fn reads_frames(&self) -> bool {
        matches!(self.0, Some((.., Data::Frozen(_))))
    }
}

impl Layer<Inner> for Waiting {
    fn submit<'p>(
        &mut self,
        disk: &mut Inner,
        token: Token,
        operation: Operation<'p, <Inner as Disk>::Block, FrozenRun>,
    ) -> Result<(), Operation<'p, <Inner as Disk>::Block, FrozenRun>> {
        let Operation::Write { file, offset, data } = operation else {
            return disk.submit(token, operation);
        };
        if self.0.is_some() {
            return Err(Operation::Write { file, offset, data });
        }
        self.0 = Some((token, file, offset, data));
        Ok(())
    }

    fn reap(
        &mut self,
        disk: &mut Inner,
        wait: Wait,
        out: &mut heapless::VecView<Completion<<Inner as Disk>::Block>>,
    ) -> usize {
        if let Some((token, file, offset, data)) = self.0.take() {
            assert!(disk.submit(token, Operation::Write { file, offset, data }).is_ok());
        }
        disk.reap(wait, out)
    }

    fn in_flight(&self, disk: &Inner) -> usize {
        disk.in_flight() + usize::from(self.0.is_some())
    }
}

const GROUPS: u16 = 3;

/// Key groups of about 400 KiB each, in runs long enough to go out where they lie.
fn filled() -> (Heap, StateId) {
    let key_groups = KeyGroupRange { first: KeyGroup(0), last: KeyGroup(GROUPS - 1) };
    let options = HeapOptions { frame_size: 4096, memory_limit_bytes: 64 << 20, key_groups, hash_seed: 7 };
    let mut heap = Heap::new(options).unwrap();
    let codec = CodecId::variable("bytes", 1);
    let state = heap.register("op", "state", codec, codec).unwrap();
    for group in 0..GROUPS {
        update(&mut heap, state, group, 1);
    }
    (heap, state)
}

fn update(heap: &mut Heap, state: StateId, group: u16, value: u8) {
    for number in 0..4_000_u32 {
        heap.put(state, KeyGroup(group), &number.to_le_bytes(), &[value; 60]).unwrap();
    }
}

fn copied_frames_of(heap: &mut Heap, state: StateId, group: u16) -> u64 {
    let before = heap.memory_use().copied_bytes;
    update(heap, state, group, 2);
    (heap.memory_use().copied_bytes - before) / 4096
}

fn spec(compression: Compression) -> SegmentSpec {
    SegmentSpec {
        folder: String::new(),
        file_name: "s.seg".into(),
        file_id: 1,
        job_id: 2,
        checkpoint: CheckpointId(3),
        subtask: 0,
        attempt: 0,
        max_parallelism: MaxParallelism::new(GROUPS.into()).unwrap(),
        compression,
    }
}

/// One round of the writer with its disk.
fn round(writer: &mut SegmentWriter<Slow>, disk: &mut Slow, tokens: &mut Tokens) {
    writer.advance(disk, tokens);
    reap(writer, disk);
}

fn reap(writer: &mut SegmentWriter<Slow>, disk: &mut Slow) {
    let mut ended = heapless::Vec::<_, 4>::new();
    disk.reap(Wait::ForOne, &mut ended);
    ended.into_iter().for_each(|completion| writer.on_completion(completion, disk));
}

#[test]
fn a_key_group_is_given_up_when_the_disk_has_read_it_and_not_before() {
    let (mut heap, state) = filled();
    let snapshot = heap.freeze().unwrap();
    // The way to the heads is copied by what comes first, so that pages alone are counted below.
    heap.put(state, KeyGroup(2), b"new", b"").unwrap();
    let expected: Vec<Vec<u8>> = (0..GROUPS)
        .flat_map(|group| snapshot.pages(state, KeyGroup(group)).map(|page| page.bytes().to_vec()))
        .collect();
    let mut disk = slow();
    let mut writer = SegmentWriter::<Slow>::new(snapshot, spec(Compression::None));
    let mut tokens = Tokens::new(1);
    loop {
        writer.advance(&mut disk, &mut tokens);
        if disk.layer.reads_frames() {
            break;
        }
        reap(&mut writer, &mut disk);
    }
    assert!(copied_frames_of(&mut heap, state, 0) > 50, "the disk has not read them yet");
    // Until the third key group is lined up and the second is through.
    while writer.next_group.is_some_and(|group| group < KeyGroup(3)) || !writer.sent.is_empty() {
        assert!(!writer.is_done());
        round(&mut writer, &mut disk, &mut tokens);
    }
    assert_eq!(copied_frames_of(&mut heap, state, 1), 0);
    assert!(copied_frames_of(&mut heap, state, 2) > 50);
    while !writer.is_done() {
        round(&mut writer, &mut disk, &mut tokens);
    }
    writer.result().unwrap().as_ref().unwrap();
    let file = crate::segment::read_file(&mut disk.disk, "s.seg", 64 << 20).unwrap();
    for page in expected {
        assert!(file[4096..].chunks(4096).any(|frame| frame == page), "every page is written as it was");
    }
}

#[test]
fn a_key_group_that_the_heap_has_no_memory_for_is_copied_out_of_turn() {
    let built_in = Compression::ALL.into_iter().filter(|compression| check_compression(*compression).is_ok());
    built_in.for_each(copied_out_of_turn);
}

fn copied_out_of_turn(compression: Compression) {
    let (mut heap, state) = filled();
    // Fewer frames are left than a copy of one key group needs.
    for number in 0_u16.. {
        if heap.reserve(50 << 12).is_err() {
            break;
        }
        heap.put(state, KeyGroup(0), &number.to_le_bytes(), &[7; 100_000]).unwrap();
    }
    let snapshot = heap.freeze().unwrap();
    let expected = entries_of(&snapshot, state);
    let mut disk = slow();
    let mut writer = SegmentWriter::<Slow>::new(snapshot, spec(compression));
    let mut tokens = Tokens::new(1);
    // The disk has the header and takes no more.
    writer.advance(&mut disk, &mut tokens);
    let update = |heap: &mut Heap| {
        (0..4_000_u32).find_map(|number| heap.put(state, KeyGroup(2), &number.to_le_bytes(), &[3; 60]).err())
    };
    let error = update(&mut heap).expect("the memory is short");
    assert!(matches!(error, crate::HeapError::SnapshotHolds { .. }), "{error}");
    assert!(!writer.take_relief());
    writer.advance(&mut disk, &mut tokens);
    assert!(writer.take_relief());
    assert_eq!(update(&mut heap), None);
    while !writer.is_done() {
        round(&mut writer, &mut disk, &mut tokens);
    }
    let segment = writer.result().unwrap().clone().unwrap();
    let mut restored = Heap::new(heap.options()).unwrap();
    let range = heap.options().key_groups;
    crate::segment::restore_segment(&mut disk.disk, "s.seg", &segment, range, &mut restored).unwrap();
    let state = restored.state("op", "state").unwrap();
    assert!(entries_of(&restored.freeze().unwrap(), state) == expected);
}

fn entries_of(snapshot: &Snapshot, state: StateId) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let owned = |value: Value<'_>| value.chunks().collect::<Vec<_>>().concat();
    let mut entries = BTreeMap::new();
    snapshot.entries(state, &mut |group, key, value| {
        entries.insert([&group.0.to_le_bytes(), &owned(key)[..]].concat(), owned(value));
    });
    entries
}

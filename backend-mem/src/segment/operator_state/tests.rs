use std::string::ToString;

use slackwater_core::durable::{Names, WriteFile, run_to_end};
use slackwater_core::format::FormatError;
use slackwater_core::format::checksum::PART_FOOTER;
use slackwater_core::format::segment::{
    FooterHead, KeyGroupRow, SegmentHeader, SegmentTrailer, SegmentTrailerLayout,
};
use slackwater_core::ids::CheckpointId;
use slackwater_core::key_group::{KeyGroupRange, MaxParallelism};
use zerocopy::IntoBytes;

use super::super::{Compression, SegmentSpec, SegmentWriter, read_file, restore_segment, verify_segment};
use super::*;
use crate::codec::{Bytes, Codec, Plain};
use crate::disk::MemDisk;
use crate::heap::{HeapError, HeapOptions};
use crate::operator_state::{SplitList, UnionList};
use crate::snapshot::FrozenRun;

mod rescaling;

type Disk = MemDisk<FrozenRun>;
type List = SplitList<Bytes>;

fn groups() -> MaxParallelism {
    MaxParallelism::new(4).unwrap()
}

fn heap() -> Heap {
    let key_groups: KeyGroupRange = groups().all_key_groups();
    Heap::new(HeapOptions { frame_size: 256, memory_limit_bytes: 1 << 20, key_groups, hash_seed: 1 }).unwrap()
}

fn write(disk: &mut Disk, heap: &mut Heap, name: &str) -> SegmentRef {
    let spec = SegmentSpec {
        folder: String::new(),
        file_name: name.to_string(),
        file_id: 1,
        job_id: 2,
        checkpoint: CheckpointId(3),
        subtask: 0,
        attempt: 0,
        max_parallelism: groups(),
        compression: Compression::None,
    };
    let mut writer = SegmentWriter::<Disk>::new(heap.freeze().unwrap(), spec);
    run_to_end(disk, &mut writer).unwrap();
    writer.result().unwrap().clone().unwrap()
}

fn restore(disk: &mut Disk, path: &str, segment: &SegmentRef, heap: &mut Heap) -> Result<u64, RestoreError> {
    let rescaling = Rescaling::new(groups(), 1, 1).unwrap();
    restore_operator_state(disk, &[Some(OldSegment { path, segment })], rescaling, 0, heap)
}

fn corrupt_what(error: &RestoreError) -> &'static str {
    let RestoreCause::Format(FormatError::Corrupt { what, .. }) = error.cause else { panic!("{error}") };
    what
}

/// What verification and restore say of a segment whose list has entries under these keys.
fn refused(keys: &[&[u8]]) -> [&'static str; 2] {
    let (mut disk, mut source) = (Disk::new(), heap());
    let id = source.register_distributed(Distribution::Split, ("op", "list"), Bytes::ID, Bytes::ID).unwrap();
    for key in keys {
        source.put(id, KeyGroup::NONE, key, b"x").unwrap();
    }
    let segment = write(&mut disk, &mut source, "s");
    let errors = [
        verify_segment(&mut disk, "s", &segment).unwrap_err(),
        restore(&mut disk, "s", &segment, &mut heap()).unwrap_err(),
    ];
    errors.map(|error| corrupt_what(&error))
}

#[test]
fn a_list_whose_places_are_not_0_to_n_is_damaged() {
    let place = |place: u64| place.to_le_bytes();
    assert_eq!(refused(&[&place(0), &place(2)]), ["place in a list"; 2]);
    assert_eq!(refused(&[&place(u64::MAX)]), ["place in a list"; 2]);
    assert_eq!(refused(&[&place(0), b"short"]), ["length of a place in a list"; 2]);
}

#[test]
fn a_restore_by_key_leaves_out_what_is_not_kept_by_key() {
    let (mut disk, mut source) = (Disk::new(), heap());
    let list = List::register(&mut source, "op", "list").unwrap();
    list.push(&mut source, b"element").unwrap();
    let keyed = source.register("op", "keyed", Bytes::ID, Bytes::ID).unwrap();
    source.put(keyed, KeyGroup(3), b"k", b"v").unwrap();
    let segment = write(&mut disk, &mut source, "s");

    let stats = verify_segment(&mut disk, "s", &segment).unwrap();
    assert_eq!((stats.entries, stats.states, stats.key_groups), (2, 2, 1));
    let mut by_key = heap();
    let all = KeyGroupRange { first: KeyGroup(0), last: KeyGroup(u16::MAX) };
    let range = all.intersect(groups().all_key_groups()).unwrap();
    assert_eq!(restore_segment(&mut disk, "s", &segment, range, &mut by_key).unwrap().entries, 1);
    assert!(List::register(&mut by_key, "op", "list").unwrap().is_empty(&by_key));
    assert_eq!(restore(&mut disk, "s", &segment, &mut by_key), Ok(1));
    assert!(
        List::register(&mut by_key, "op", "list").unwrap().value(&by_key, 0).unwrap().unwrap().is(b"element")
    );
}

/// A segment with an entry by key in key group 3, and the same with another distribution in its registry.
fn redistributed(disk: &mut Disk, distribution: Distribution) -> SegmentRef {
    let mut source = heap();
    let keyed = source.register("op", "keyed", Bytes::ID, Bytes::ID).unwrap();
    source.put(keyed, KeyGroup(3), &[0; 8], b"v").unwrap();
    let segment = write(disk, &mut source, "s");
    let mut bytes = read_file(disk, "s", 1 << 20).unwrap();
    let header = SegmentHeader::parse(&bytes).unwrap();
    let trailer = SegmentTrailer::parse(&bytes, bytes.len() as u64).unwrap();
    let from = usize::try_from(trailer.footer_offset).unwrap();
    let footer = &mut bytes[from..from + usize::try_from(trailer.footer_len).unwrap()];
    footer[FooterHead::LEN + KeyGroupRow::LEN + 3] = distribution.number();
    let footer_checksum = header.identity(PART_FOOTER).checksum(footer);
    let trailer_at = bytes.len() - SegmentTrailerLayout::LEN;
    bytes[trailer_at..].copy_from_slice(SegmentTrailer { footer_checksum, ..trailer }.encode().as_bytes());
    let mut file = WriteFile::<Disk, _, _>::new(Names::Final { path: "changed" }, bytes.as_slice());
    run_to_end(disk, &mut file).unwrap();
    SegmentRef { footer_checksum, ..segment }
}

#[test]
fn pages_of_a_state_where_it_cannot_have_any_are_damage() {
    let mut disk = Disk::new();
    let unchanged = redistributed(&mut disk, Distribution::ByKey);
    verify_segment(&mut disk, "changed", &unchanged).unwrap();
    let range = groups().all_key_groups();
    for distribution in [Distribution::Split, Distribution::Union, Distribution::Broadcast] {
        let mut disk = Disk::new();
        let segment = redistributed(&mut disk, distribution);
        let errors = [
            verify_segment(&mut disk, "changed", &segment).unwrap_err(),
            restore_segment(&mut disk, "changed", &segment, range, &mut heap()).unwrap_err(),
            restore(&mut disk, "changed", &segment, &mut heap()).unwrap_err(),
        ];
        let found = errors.map(|error| corrupt_what(&error));
        assert_eq!(found, ["key group of a state", "state of a page", "entries of a state"]);
    }
}

#[test]
fn o1_a_state_of_another_distribution_or_codec_is_refused_by_name() {
    let (mut disk, mut source) = (Disk::new(), heap());
    List::register(&mut source, "op", "list").unwrap().push(&mut source, b"x").unwrap();
    let segment = write(&mut disk, &mut source, "s");

    let mut other = heap();
    let state = UnionList::<Bytes>::register(&mut other, "op", "list").unwrap().id();
    let error = restore(&mut disk, "s", &segment, &mut other).unwrap_err();
    assert_eq!(error.cause, RestoreCause::Heap(HeapError::OtherDistribution { state }));
    let mut other = heap();
    let state = SplitList::<Plain<u8>>::register(&mut other, "op", "list").unwrap().id();
    let error = restore(&mut disk, "s", &segment, &mut other).unwrap_err();
    assert_eq!(error.cause, RestoreCause::Heap(HeapError::OtherCodec { state, key: false }));
    let mut other = heap();
    let list = List::register(&mut other, "op", "list").unwrap();
    list.push(&mut other, b"y").unwrap();
    let error = restore(&mut disk, "s", &segment, &mut other).unwrap_err();
    assert_eq!(error.cause, RestoreCause::StateInUse { state: list.id() });
    assert!(error.to_string().starts_with("s: state 0 has entries"), "{error}");
}

#[test]
fn what_segments_say_of_themselves_is_read_once_and_a_subtask_without_a_part_reads_nothing_more() {
    let (mut disk, mut source) = (Disk::new(), heap());
    List::register(&mut source, "op", "list").unwrap().push(&mut source, b"x").unwrap();
    let segment = write(&mut disk, &mut source, "s");
    let old = OldSegments::read(&mut disk, &[Some(OldSegment { path: "s", segment: &segment })]).unwrap();
    let rescaling = Rescaling::new(groups(), 1, 4).unwrap();
    let restore = |disk: &mut Disk| {
        let restored = |index| old.restore(disk, rescaling, index, Renamed::NONE, &mut heap());
        (0..4).map(restored).collect::<Vec<_>>()
    };
    let restored: Vec<_> = restore(&mut disk).into_iter().map(Result::unwrap).collect();
    assert_eq!(restored.iter().sum::<u64>(), 1);
    for (with, without) in restored.iter().zip(restore(&mut Disk::new())) {
        assert_eq!(*with == 0, without == Ok(0), "{without:?}");
    }
}

#[test]
fn numbers_of_subtasks_that_do_not_fit_are_refused_by_name() {
    let (mut disk, mut source) = (Disk::new(), heap());
    List::register(&mut source, "op", "list").unwrap().push(&mut source, b"x").unwrap();
    let segment = write(&mut disk, &mut source, "s");
    let old = [Some(OldSegment { path: "s", segment: &segment }), None];
    let rescaling = Rescaling::new(groups(), 1, 2).unwrap();
    let error = restore_operator_state(&mut disk, &old, rescaling, 0, &mut heap()).unwrap_err();
    let count = AssignError::WrongSubtaskCount { given: 2, old_parallelism: 1 };
    assert_eq!(error.cause, RestoreCause::Assign(count));
    let error = restore_operator_state(&mut disk, &old[..1], rescaling, 2, &mut heap()).unwrap_err();
    assert!(matches!(error.cause, RestoreCause::Assign(AssignError::Parallelism(_))), "{error}");
}

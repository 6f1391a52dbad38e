use slackwater_core::assign::Rescaling;
use slackwater_core::durable::{Names, WriteFile, run_to_end};
use slackwater_core::format::segment::{SegmentHeader, SegmentTrailer};
use slackwater_core::key_group::{KeyGroup, KeyGroupRange, MaxParallelism};
use slackwater_mem::segment::{
    OldSegment, RestoreCause, RestoreError, SegmentRef, VerifyStats, restore_operator_state, restore_segment,
    verify_segment,
};
use slackwater_mem::{FrozenRun, Heap, HeapError, HeapOptions, MemDisk, StateId, StateKind, Value};

use crate::repair;

/// A whole segment: verified, then restored into a heap that puts its entries one by one, and into one that
/// takes over its pages, which is then used.
pub fn segment(data: &[u8]) {
    let mut data = data.to_vec();
    // Without the shape of a segment it is tried as it is.
    let _is_repaired = repair::segment(&mut data).is_some();
    let expected = listed(&data);
    let mut disk = disk_with(&data);
    let verified = verify_segment(&mut disk, "s", &expected);

    let header = SegmentHeader::parse(&data).ok();
    let own_size = header.map_or(1024, |header| 1 << header.frame_size_log2);
    let hash_seed = header.map_or(1, |header| header.hash_seed);
    for frame_size in [own_size, if own_size == 1024 { 2048 } else { 1024 }] {
        let options =
            HeapOptions { frame_size, memory_limit_bytes: 8 << 20, key_groups: ALL_KEY_GROUPS, hash_seed };
        let mut heap = Heap::new(options).expect("sound options");
        let restored = restore(&mut disk, &expected, &mut heap);
        match (&verified, &restored) {
            (Ok(verified), Ok(restored)) => assert_eq!(verified.entries, *restored),
            (Ok(_), Err(error)) => assert!(matches!(error.cause, RestoreCause::Heap(_)), "{error}"),
            // A restore does not count all entries of a state: it may see only some of its key groups.
            (Err(_), Ok(_) | Err(_)) => {}
        }
        if restored.is_ok() {
            use_up(&mut heap);
        }
    }
}

/// Puts all of a segment into a heap, and says how many entries that is.
fn restore(
    disk: &mut MemDisk<FrozenRun>,
    segment: &SegmentRef,
    heap: &mut Heap,
) -> Result<u64, RestoreError> {
    let stats = restore_segment(disk, "s", segment, ALL_KEY_GROUPS, heap)?;
    let rescaling = Rescaling::new(MaxParallelism::MAX, 1, 1).expect("one is not too many");
    let old = [Some(OldSegment { path: "s", segment })];
    Ok(stats.entries + restore_operator_state(disk, &old, rescaling, 0, heap)?)
}

const ALL_KEY_GROUPS: KeyGroupRange = KeyGroupRange { first: KeyGroup(0), last: KeyGroup(u16::MAX >> 1) };

/// Finds, changes and removes every entry.
fn use_up(heap: &mut Heap) {
    let snapshot = heap.freeze().expect("the first");
    let mut entries = Vec::new();
    for state in snapshot.states() {
        snapshot.entries(state.id, &mut |group, key, _value| {
            entries.push(((state.kind, state.id), group, key.chunks().collect::<Vec<_>>().concat()));
        });
    }
    drop(snapshot);
    for (state, group, key) in &entries {
        let found = get(heap, *state, *group, key).expect("its key group").map(|value| value.len());
        let len = found.expect("an entry is found by its key");
        for value in [[1; 100].as_slice(), &[2; 3], &vec![3; len]] {
            match put(heap, *state, *group, key, value) {
                Ok(()) | Err(HeapError::MemoryLimit { .. }) => {}
                Err(HeapError::OtherWidth { .. }) if value.len() != len => {}
                Err(error) => panic!("an entry of {len} bytes cannot be changed: {error}"),
            }
        }
    }
    for (state, group, key) in &entries {
        assert_eq!(remove(heap, *state, *group, key), Ok(true), "an entry is there once");
    }
    assert!(entries.iter().all(|((_, state), ..)| heap.is_empty(*state)));
}

type State = (StateKind, StateId);

fn get<'h>(
    heap: &'h Heap,
    (kind, state): State,
    group: KeyGroup,
    key: &[u8],
) -> Result<Option<Value<'h>>, HeapError> {
    match kind {
        StateKind::Hash => heap.get(state, group, key),
        StateKind::Ordered => heap.ordered_get(state, group, key),
    }
}

fn put(
    heap: &mut Heap,
    (kind, state): State,
    group: KeyGroup,
    key: &[u8],
    value: &[u8],
) -> Result<(), HeapError> {
    match kind {
        StateKind::Hash => heap.put(state, group, key, value),
        StateKind::Ordered => heap.ordered_put(state, group, key, value).map(|is_new| assert!(!is_new)),
    }
}

fn remove(heap: &mut Heap, (kind, state): State, group: KeyGroup, key: &[u8]) -> Result<bool, HeapError> {
    match kind {
        StateKind::Hash => heap.remove(state, group, key),
        StateKind::Ordered => heap.ordered_remove(state, group, key),
    }
}

/// Verifies a segment as it is.
///
/// # Errors
/// What is wrong with it.
pub fn verify(data: &[u8]) -> Result<VerifyStats, RestoreError> {
    verify_segment(&mut disk_with(data), "s", &listed(data))
}

/// What a manifest would say of the file, were it sound.
fn listed(data: &[u8]) -> SegmentRef {
    let len = data.len() as u64;
    let header = SegmentHeader::parse(data).ok();
    let trailer = SegmentTrailer::parse(data, len).ok();
    let none = KeyGroupRange { first: KeyGroup(0), last: KeyGroup(0) };
    SegmentRef {
        file_name: String::from("s"),
        file_id: header.map_or(0, |header| header.file_id),
        len,
        used_len: len,
        footer_checksum: trailer.map_or(0, |trailer| trailer.footer_checksum),
        key_groups: header.map_or(none, |header| header.key_groups),
    }
}

/// A disk with the file `s`.
fn disk_with(data: &[u8]) -> MemDisk<FrozenRun> {
    let mut disk = MemDisk::new();
    let mut file = WriteFile::<MemDisk<FrozenRun>, _, _>::new(Names::Final { path: "s" }, data);
    run_to_end(&mut disk, &mut file).expect("a disk of its own");
    disk
}

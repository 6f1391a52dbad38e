use std::string::String;
use std::vec::Vec;

use slackwater_core::durable::Disk;
use slackwater_core::format::FormatError;
use slackwater_core::format::segment::StateEntry;
use slackwater_core::key_group::{KeyGroup, KeyGroupRange};

use super::SegmentRef;
use super::error::{RestoreCause, RestoreError};
use super::source::SegmentSource;
use crate::arena::ArenaHandle;
use crate::codec::CodecId;
use crate::heap::{Heap, StateId};

/// What a restore did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RestoreStats {
    /// Key groups that had entries.
    pub key_groups: u32,
    /// Entries put into the heap.
    pub entries: u64,
    /// Bytes of frames read.
    pub frames_len: u64,
}

/// What a verification read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VerifyStats {
    /// Key groups that have entries.
    pub key_groups: u32,
    /// States in the registry.
    pub states: u32,
    /// Entries of all states.
    pub entries: u64,
    /// Bytes read: the whole file.
    pub len: u64,
}

/// Puts the entries of a segment whose key groups lie in `range` into `heap`. States are found by operator and
/// name; one that the heap does not know yet is registered as the segment has it.
///
/// Reads and checks header, registry and every frame of those key groups, nothing of the others. Waits for
/// the disk. Memory, the heap's own apart: the footer, and frames and index of one key group at a time.
///
/// # Errors
/// The file is damaged, is not the one that `expected` speaks of, or does not fit the heap. The heap then
/// holds a part of it and must be thrown away.
pub fn restore_segment<D: Disk, A: ArenaHandle>(
    disk: &mut D,
    path: &str,
    expected: &SegmentRef,
    range: KeyGroupRange,
    heap: &mut Heap<A>,
) -> Result<RestoreStats, RestoreError> {
    let mut source = SegmentSource::open(disk, path, expected)?;
    restore(&mut source, range, heap).map_err(|cause| RestoreError { path: String::from(path), cause })
}

fn restore<D: Disk, A: ArenaHandle>(
    source: &mut SegmentSource<'_, D>,
    range: KeyGroupRange,
    heap: &mut Heap<A>,
) -> Result<RestoreStats, RestoreCause> {
    let states = register_states(source, heap)?;
    let mut stats = RestoreStats::default();
    for row in source.key_groups(range)? {
        let pages = source.read_key_group(&row)?;
        let group = KeyGroup(row.key_group.get());
        stats.entries += pages.entries(&mut |state, key, value| -> Result<(), RestoreCause> {
            let state = find(&states, state)?;
            Ok(heap.put(state, group, key, value)?)
        })?;
        stats.key_groups += 1;
        stats.frames_len += pages.frames_len();
    }
    Ok(stats)
}

/// Numbers of states in the file, ascending, and in the heap.
type StateMap = Vec<(u16, StateId)>;

fn register_states<D: Disk, A: ArenaHandle>(
    source: &SegmentSource<'_, D>,
    heap: &mut Heap<A>,
) -> Result<StateMap, RestoreCause> {
    let register = |state: StateEntry<'_>| {
        let (name, version, width) = (state.key_codec, state.key_codec_version, state.key_width);
        let key = CodecId { name, version, width };
        let (name, version, width) = (state.value_codec, state.value_codec_version, state.value_width);
        let value = CodecId { name, version, width };
        Ok((state.state_id, heap.register(state.operator, state.state, key, value)?))
    };
    source.footer()?.states().map(register).collect()
}

fn find<T: Copy>(states: &[(u16, T)], id: u16) -> Result<T, FormatError> {
    match states.binary_search_by_key(&id, |(id, _)| *id).map(|at| states.get(at)) {
        Ok(Some((_, state))) => Ok(*state),
        Ok(None) | Err(_) => Err(FormatError::Corrupt {
            what: "state of a page",
            offset: 0,
            expected: states.len() as u64,
            found: id.into(),
        }),
    }
}

/// Reads a segment from the first byte to the last and checks all of it: every checksum, every page, every
/// entry's place, every count, and that all padding is zero. Waits for the disk; memory as for a restore.
///
/// # Errors
/// The first thing that is wrong.
pub fn verify_segment<D: Disk>(
    disk: &mut D,
    path: &str,
    expected: &SegmentRef,
) -> Result<VerifyStats, RestoreError> {
    let mut source = SegmentSource::open(disk, path, expected)?;
    verify(&mut source, expected.len).map_err(|cause| RestoreError { path: String::from(path), cause })
}

fn verify<D: Disk>(source: &mut SegmentSource<'_, D>, len: u64) -> Result<VerifyStats, RestoreCause> {
    let mut counts: Vec<(u16, u64)> = source.footer()?.states().map(|state| (state.state_id, 0)).collect();
    let mut stats =
        VerifyStats { len, states: source.footer()?.totals().state_count, ..VerifyStats::default() };
    for row in source.key_groups(source.header().key_groups)? {
        let pages = source.read_key_group(&row)?;
        stats.key_groups += 1;
        stats.entries += pages.entries(&mut |state, _key, _value| -> Result<(), RestoreCause> {
            find(&counts, state)?;
            counts.iter_mut().filter(|(id, _)| *id == state).for_each(|(_, count)| *count += 1);
            Ok(())
        })?;
    }
    for (state, (_, found)) in source.footer()?.states().zip(counts) {
        if state.entry_count != found {
            let what = "entries of a state";
            let error = FormatError::Corrupt { what, offset: 0, expected: state.entry_count, found };
            return Err(error.into());
        }
    }
    Ok(stats)
}

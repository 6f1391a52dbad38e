//! What is not kept by key, on its way from the segments of all old subtasks into the heap of a new one.

use std::borrow::ToOwned;
use std::collections::BTreeMap;
use std::string::String;
use std::vec;
use std::vec::Vec;

use slackwater_core::assign::{AssignError, OperatorAssigner, OperatorPart, Rescaling};
use slackwater_core::durable::Disk;
use slackwater_core::format::segment::{Distribution, StateEntry};
use slackwater_core::key_group::KeyGroup;

use super::SegmentRef;
use super::error::{RestoreCause, RestoreError};
use super::page::{PageChecker, Shapes};
use super::restore::{Renamed, register};
use super::source::{SegmentMeta, SegmentSource};
use super::tally::{Tally, expect, place_in_list};
use crate::arena::ArenaHandle;
use crate::heap::{Hasher, Heap, StateId};

#[cfg(test)]
mod tests;

/// The segment of a subtask of the job that is restored.
#[derive(Clone, Copy, Debug)]
pub struct OldSegment<'a> {
    /// Where it lies on the disk.
    pub path: &'a str,
    /// What the manifest says of it.
    pub segment: &'a SegmentRef,
}

/// What the segments of an operator's old subtasks say of themselves, read and checked once for all its new subtasks.
#[derive(Debug)]
pub struct OldSegments<'a> {
    /// One for each old subtask, in order: none for one that left no segment.
    subtasks: Vec<Option<(OldSegment<'a>, SegmentMeta)>>,
}

impl<'a> OldSegments<'a> {
    /// Reads the footer of every segment. `old` has an entry for each old subtask, in order: none for one that left no
    /// segment. Waits for the disk. Memory: the footers.
    ///
    /// # Errors
    /// A file is damaged or not the one it should be.
    pub fn read<D: Disk>(disk: &mut D, old: &[Option<OldSegment<'a>>]) -> Result<Self, RestoreError> {
        let mut read = |segment: &OldSegment<'a>| {
            let meta = SegmentMeta::read(disk, segment.path, segment.segment);
            meta.map(|meta| (*segment, meta)).map_err(|cause| segment.error(cause))
        };
        let subtasks = old.iter().map(|segment| segment.as_ref().map(&mut read).transpose());
        Ok(Self { subtasks: subtasks.collect::<Result<_, _>>()? })
    }

    /// Puts into `heap` what new subtask `index` gets of the states that are not kept by key (rules R11 to R14), and says
    /// how many entries that is. Every such state is registered, whether the operator asks for it again or not (rule O4).
    ///
    /// Reads what is not kept by key of those segments that hold a part for the subtask. Waits for the disk. Memory, the
    /// heap's own apart: a few words for each state of each segment, and what is not kept by key of one segment at a time.
    ///
    /// # Errors
    /// A file is damaged, states do not agree among each other or with those of the heap, or have entries there already,
    /// or `rescaling` does not fit. The heap then holds a part and must be thrown away.
    pub fn restore<D: Disk, A: ArenaHandle>(
        &self,
        disk: &mut D,
        rescaling: Rescaling,
        index: u32,
        renamed: Renamed<'_>,
        heap: &mut Heap<A>,
    ) -> Result<u64, RestoreError> {
        let mut states = OldStates::new();
        for (subtask, segment, meta) in self.segments() {
            look_through((meta, renamed), subtask, heap, &mut states)
                .map_err(|cause| segment.error(cause))?;
        }
        let parts =
            assign(&states, self.subtasks.len(), rescaling, index).map_err(|error| self.error(error))?;
        let mut total = 0;
        for (subtask, segment, meta) in self.segments() {
            let parts = parts.get(subtask).filter(|parts| !parts.is_empty());
            if let Some(parts) = parts {
                total += take(disk, (segment, meta), parts, heap).map_err(|cause| segment.error(cause))?;
            }
        }
        Ok(total)
    }

    fn segments(&self) -> impl Iterator<Item = (usize, OldSegment<'a>, &SegmentMeta)> {
        let segments = self.subtasks.iter().enumerate();
        segments.filter_map(|(subtask, segment)| {
            segment.as_ref().map(|(segment, meta)| (subtask, *segment, meta))
        })
    }

    fn error(&self, error: AssignError) -> RestoreError {
        let path = self.segments().next().map_or_else(String::new, |(_, segment, _)| segment.path.to_owned());
        RestoreError { path, cause: error.into() }
    }
}

/// Gives new subtask `index` its part of the states that are not kept by key, for a caller that has one such subtask:
/// [`OldSegments`] reads and restores.
///
/// # Errors
/// As [`OldSegments::read`] and [`OldSegments::restore`].
pub fn restore_operator_state<D: Disk, A: ArenaHandle>(
    disk: &mut D,
    old: &[Option<OldSegment<'_>>],
    rescaling: Rescaling,
    index: u32,
    heap: &mut Heap<A>,
) -> Result<u64, RestoreError> {
    OldSegments::read(disk, old)?.restore(disk, rescaling, index, Renamed::NONE, heap)
}

impl OldSegment<'_> {
    fn error(&self, cause: RestoreCause) -> RestoreError {
        RestoreError { path: self.path.to_owned(), cause }
    }
}

/// By operator and name.
type OldStates = BTreeMap<(String, String), OldState>;

/// A state as the old subtasks have it.
struct OldState {
    id: StateId,
    distribution: Distribution,
    /// Of each old subtask that has it, the number in its file and the entries.
    subtasks: BTreeMap<usize, (u16, u64)>,
}

/// Registers the states of a segment that are not kept by key.
fn look_through<A: ArenaHandle>(
    (meta, renamed): (&SegmentMeta, Renamed<'_>),
    subtask: usize,
    heap: &mut Heap<A>,
    states: &mut OldStates,
) -> Result<(), RestoreCause> {
    for state in meta.footer()?.states().filter(|state| state.distribution != Distribution::ByKey) {
        let state = StateEntry { operator: renamed.name_of(state.operator), ..state };
        let id = register(&state, heap)?;
        if !heap.is_empty(id) {
            return Err(RestoreCause::StateInUse { state: id });
        }
        let name = (state.operator.to_owned(), state.state.to_owned());
        let distribution = state.distribution;
        let known = states.entry(name).or_insert(OldState { id, distribution, subtasks: BTreeMap::new() });
        known.subtasks.insert(subtask, (state.state_id, state.entry_count));
    }
    Ok(())
}

/// What is taken of one old subtask, by the state's number in its file.
type Parts = BTreeMap<u16, Part>;

#[derive(Clone, Debug)]
struct Part {
    state: StateId,
    is_list: bool,
    /// Entries in the file.
    count: u64,
    part: OperatorPart,
}

/// What the new subtask gets of each old one.
fn assign(
    states: &OldStates,
    old_parallelism: usize,
    rescaling: Rescaling,
    index: u32,
) -> Result<Vec<Parts>, AssignError> {
    let mut parts = vec![Parts::new(); old_parallelism];
    let mut assigner = (OperatorAssigner::new(rescaling), "");
    for ((operator, _), old) in states {
        if assigner.1 != operator {
            assigner = (OperatorAssigner::new(rescaling), operator);
        }
        let Some(mode) = old.distribution.mode() else { continue };
        let counts: Vec<Option<u64>> =
            (0..old_parallelism).map(|subtask| old.subtasks.get(&subtask).map(|(_, count)| *count)).collect();
        for part in assigner.0.next_state(mode, &counts)?.parts(index)? {
            let subtask = part.subtask as usize;
            if let (Some(parts), Some((number, count))) = (parts.get_mut(subtask), old.subtasks.get(&subtask))
            {
                let is_list = old.distribution.is_list();
                parts.insert(*number, Part { state: old.id, is_list, count: *count, part });
            }
        }
    }
    Ok(parts)
}

/// Puts the parts of one segment into the heap.
fn take<D: Disk, A: ArenaHandle>(
    disk: &mut D,
    (segment, meta): (OldSegment<'_>, &SegmentMeta),
    parts: &Parts,
    heap: &mut Heap<A>,
) -> Result<u64, RestoreCause> {
    if let Some(row) = meta.row_without_key()? {
        let shapes = Shapes::of(&meta.header, &meta.footer()?);
        let hasher = Hasher::new(meta.header.hash_seed);
        let checker = PageChecker { header: meta.header, hasher, shapes: &shapes };
        let mut source = SegmentSource::open(disk, segment.path, meta)?;
        let mut tally = Tally::of(&meta.footer()?);
        source.read_key_groups(&[row], checker, &mut |pages| {
            pages.entries(&mut |number, key, value| {
                tally.add(KeyGroup::NONE, number, key)?;
                parts.get(&number).map_or(Ok(()), |part| part.put(key, value, heap))
            })?;
            Ok(())
        })?;
    }
    let mut total = 0;
    for Part { state, part, .. } in parts.values() {
        let count = part.partitions.end - part.partitions.start;
        // The index may have fewer than the footer says.
        expect("entries of a state", part.at + count, heap.len(*state))?;
        total += count;
    }
    Ok(total)
}

impl Part {
    fn put<A: ArenaHandle>(&self, key: &[u8], value: &[u8], heap: &mut Heap<A>) -> Result<(), RestoreCause> {
        if !self.is_list {
            return Ok(heap.put(self.state, KeyGroup::NONE, key, value)?);
        }
        let place = place_in_list(key, self.count)?;
        if self.part.partitions.contains(&place) {
            let place = self.part.at + (place - self.part.partitions.start);
            heap.put(self.state, KeyGroup::NONE, &place.to_le_bytes(), value)?;
        }
        Ok(())
    }
}

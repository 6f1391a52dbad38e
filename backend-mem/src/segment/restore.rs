use core::ops::Range;
use std::string::String;
use std::vec;
use std::vec::Vec;

use slackwater_core::durable::Disk;
use slackwater_core::format::FormatError;
use slackwater_core::format::segment::{Distribution, IndexView, KeyGroupRow, StateEntry};
use slackwater_core::key_group::{KeyGroup, KeyGroupRange};

use super::SegmentRef;
use super::adopt::{IndexedGroup, adopt_groups, is_adoptable};
use super::error::{RestoreCause, RestoreError};
use super::fetch::{KeyGroupBytes, KeyGroupReader};
use super::page::{PageChecker, Shapes};
use super::read::{FileReader, ReadAt};
use super::source::{BATCH_LEN, SegmentMeta, SegmentSource, batch_of, split_indexes};
use crate::arena::ArenaHandle;
use crate::codec::CodecId;
use crate::heap::{Hasher, Heap, HeapError, HeapOptions, StateId, StateKind};

/// What a restore did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RestoreStats {
    /// Key groups that had entries.
    pub key_groups: u32,
    /// Those of them whose pages became the heap's as they are; the entries of the others were put one by one.
    pub key_groups_adopted: u32,
    /// Entries put into the heap.
    pub entries: u64,
    /// Bytes of frames read.
    pub frames_len: u64,
}

/// Puts the entries of a segment whose key groups lie in `range` into `heap`; nothing of what is not kept by key. States are found by operator and
/// name; one that the heap does not know yet is registered as the segment has it.
///
/// Reads and checks header, registry and every frame of those key groups, nothing of the others. Waits for
/// the disk. Work: each frame is copied once; entries are put one by one only where the heap cannot take over the
/// pages, because its frames have another size, its hash another seed, or its key group has entries already.
/// Memory, the heap's own apart: the footer, and index and a few bytes for each frame of 256 MiB of them; of a
/// key group whose entries are put one by one, all of its frames.
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
    let mut restore = SegmentRestore::open(disk, path, expected, range, heap)?;
    restore.finish(disk, heap)?;
    Ok(restore.stats())
}

/// A restore of key groups of one segment, step by step: those that are wanted now first, the others when there
/// is time.
///
/// As long as a key group is not restored the heap refuses to look into it, and to be frozen, with
/// [`HeapError::NotRestored`]; [`Self::key_group_now`] brings it. Nothing may be acknowledged before
/// [`Self::is_done`]: only then is it known that every byte is sound.
#[derive(Debug)]
pub struct SegmentRestore {
    path: String,
    meta: SegmentMeta,
    states: StateMap,
    shapes: Shapes,
    /// The hash that placed its keys.
    hasher: Hasher,
    /// Whether its pages can be the heap's.
    adopts: bool,
    /// Those that are wanted, ascending.
    rows: Vec<KeyGroupRow>,
    /// Which of them are restored.
    is_restored: Vec<bool>,
    /// All before this one are.
    next: usize,
    stats: RestoreStats,
}

/// An operator that has another name than when its states were stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Renamed<'n> {
    /// Its name in the segment.
    pub from: &'n str,
    /// Its name in the heap.
    pub to: &'n str,
}

impl Renamed<'_> {
    /// Every operator keeps its name.
    pub const NONE: Self = Self { from: "", to: "" };
}

impl<'n> Renamed<'n> {
    pub(super) fn name_of(self, stored: &'n str) -> &'n str {
        if stored == self.from { self.to } else { stored }
    }
}

/// Frames that a step reads, in bytes.
const STEP_LEN: u64 = 16 << 20;
/// Pages of this epoch or later are not taken over: epochs that are nearly used up begin anew with the entries.
const EPOCH_END: u32 = 1 << 31;

impl SegmentRestore {
    /// Reads and checks header and registry of a segment, and makes its states known to `heap`.
    ///
    /// # Errors
    /// As [`restore_segment`].
    pub fn open<D: Disk, A: ArenaHandle>(
        disk: &mut D,
        path: &str,
        expected: &SegmentRef,
        range: KeyGroupRange,
        heap: &mut Heap<A>,
    ) -> Result<Self, RestoreError> {
        Self::open_renamed(disk, path, expected, range, Renamed::NONE, heap)
    }

    /// The same for states whose operator has another name now.
    ///
    /// # Errors
    /// As [`restore_segment`].
    pub fn open_renamed<D: Disk, A: ArenaHandle>(
        disk: &mut D,
        path: &str,
        expected: &SegmentRef,
        range: KeyGroupRange,
        renamed: Renamed<'_>,
        heap: &mut Heap<A>,
    ) -> Result<Self, RestoreError> {
        Self::open_inner(disk, path, expected, range, renamed, heap)
            .map_err(|cause| RestoreError { path: String::from(path), cause })
    }

    fn open_inner<D: Disk, A: ArenaHandle>(
        disk: &mut D,
        path: &str,
        expected: &SegmentRef,
        range: KeyGroupRange,
        renamed: Renamed<'_>,
        heap: &mut Heap<A>,
    ) -> Result<Self, RestoreCause> {
        let meta = SegmentMeta::read(disk, path, expected)?;
        let states = StateMap::register(&meta, renamed, heap)?;
        let shapes = Shapes::of(&meta.header, &meta.footer()?);
        let HeapOptions { frame_size, hash_seed, .. } = heap.options();
        let is_alike =
            meta.header.frame_size() == u64::from(frame_size) && meta.header.hash_seed == hash_seed;
        let epoch = u32::try_from(meta.header.epoch).ok().filter(|epoch| is_alike && *epoch < EPOCH_END);
        if let Some(epoch) = epoch {
            heap.rise_above(epoch)?;
        }
        let same_hash = meta.header.hash_seed == hash_seed;
        let hasher = if same_hash { heap.hasher() } else { Hasher::new(meta.header.hash_seed) };
        let rows = meta.key_groups(range)?;
        rows.iter().for_each(|row| heap.await_group(KeyGroup(row.key_group.get())));
        let is_restored = vec![false; rows.len()];
        let (path, adopts) = (String::from(path), epoch.is_some());
        let stats = RestoreStats::default();
        Ok(Self { path, meta, states, shapes, hasher, adopts, rows, is_restored, next: 0, stats })
    }

    /// What has been done so far.
    #[must_use]
    pub const fn stats(&self) -> RestoreStats {
        self.stats
    }

    /// Whether all key groups are restored.
    #[must_use]
    pub const fn is_done(&self) -> bool {
        self.next >= self.rows.len()
    }

    /// Restores a key group if it is wanted and not restored yet. Waits for the disk.
    ///
    /// # Errors
    /// As [`restore_segment`].
    pub fn key_group_now<D: Disk, A: ArenaHandle>(
        &mut self,
        disk: &mut D,
        heap: &mut Heap<A>,
        group: KeyGroup,
    ) -> Result<(), RestoreError> {
        match self.awaited_at(group) {
            Some(at) => self.restore(disk, heap, at..at + 1),
            None => Ok(()),
        }
    }

    /// Where a key group is that is wanted and not restored yet.
    fn awaited_at(&self, group: KeyGroup) -> Option<usize> {
        let at = self.rows.binary_search_by_key(&group.0, |row| row.key_group.get()).ok()?;
        self.is_restored.get(at).is_some_and(|is_restored| !is_restored).then_some(at)
    }

    /// The key groups that are wanted and not restored yet, ascending.
    pub fn awaited(&self) -> impl Iterator<Item = KeyGroup> {
        let rows = self.rows.iter().zip(&self.is_restored).skip(self.next);
        rows.filter(|(_, is_restored)| !**is_restored).map(|(row, _)| KeyGroup(row.key_group.get()))
    }

    /// The reading of a key group that is wanted and not restored yet, for whoever owns the disk.
    #[must_use]
    pub fn reader(&self, group: KeyGroup) -> Option<KeyGroupReader> {
        let row = self.rows.get(self.awaited_at(group)?)?;
        Some(KeyGroupReader::new(self.path.clone(), row))
    }

    /// Restores a key group from what its [reader](Self::reader) has read, if it is not restored yet.
    ///
    /// # Errors
    /// As [`restore_segment`].
    pub fn take<A: ArenaHandle>(
        &mut self,
        read: &KeyGroupBytes,
        heap: &mut Heap<A>,
    ) -> Result<(), RestoreError> {
        match self.awaited_at(read.group()) {
            Some(at) => self.restore_from(read, heap, at..at + 1),
            None => Ok(()),
        }
    }

    /// Restores the next key groups, up to 16 MiB of frames or a single one. Waits for the disk.
    ///
    /// # Errors
    /// As [`restore_segment`].
    pub fn step<D: Disk, A: ArenaHandle>(
        &mut self,
        disk: &mut D,
        heap: &mut Heap<A>,
    ) -> Result<(), RestoreError> {
        self.restore_next(disk, heap, STEP_LEN)
    }

    /// Restores all key groups that are left, without a pause. Waits for the disk.
    ///
    /// # Errors
    /// As [`restore_segment`].
    pub fn finish<D: Disk, A: ArenaHandle>(
        &mut self,
        disk: &mut D,
        heap: &mut Heap<A>,
    ) -> Result<(), RestoreError> {
        while !self.is_done() {
            self.restore_next(disk, heap, BATCH_LEN)?;
        }
        Ok(())
    }

    fn restore_next<D: Disk, A: ArenaHandle>(
        &mut self,
        disk: &mut D,
        heap: &mut Heap<A>,
        len_max: u64,
    ) -> Result<(), RestoreError> {
        let behind = self.is_restored.iter().skip(self.next);
        let waiting = behind.take_while(|is_restored| !**is_restored).count();
        let rows = self.rows.get(self.next..self.next + waiting).unwrap_or_default();
        let count = batch_of(rows, &self.meta.header, len_max);
        self.restore(disk, heap, self.next..self.next + count)
    }

    fn restore<D: Disk, A: ArenaHandle>(
        &mut self,
        disk: &mut D,
        heap: &mut Heap<A>,
        batch: Range<usize>,
    ) -> Result<(), RestoreError> {
        let path = self.path.clone();
        let file = FileReader::open(disk, &path).map_err(|cause| RestoreError { path, cause })?;
        self.restore_from(file, heap, batch)
    }

    fn restore_from<R: ReadAt, A: ArenaHandle>(
        &mut self,
        file: R,
        heap: &mut Heap<A>,
        batch: Range<usize>,
    ) -> Result<(), RestoreError> {
        let restored = self.restore_batch(file, heap, batch.clone());
        let rows = self.rows.get(batch.clone()).unwrap_or_default();
        restored.map_err(|cause| {
            rows.iter().for_each(|row| heap.await_group(KeyGroup(row.key_group.get())));
            RestoreError { path: self.path.clone(), cause }
        })?;
        self.is_restored.get_mut(batch).unwrap_or_default().fill(true);
        let behind = self.is_restored.iter().skip(self.next);
        self.next += behind.take_while(|is_restored| **is_restored).count();
        Ok(())
    }

    /// Restores key groups that lie one behind the other.
    fn restore_batch<R: ReadAt, A: ArenaHandle>(
        &mut self,
        file: R,
        heap: &mut Heap<A>,
        batch: Range<usize>,
    ) -> Result<(), RestoreCause> {
        let rows = self.rows.get(batch).unwrap_or_default();
        rows.iter().for_each(|row| heap.arrived(KeyGroup(row.key_group.get())));
        let mut source = SegmentSource::new(file, &self.meta)?;
        let checker = PageChecker { header: self.meta.header, hasher: self.hasher, shapes: &self.shapes };
        let indexes = source.read_indexes(rows)?;
        let mut groups = Vec::with_capacity(rows.len());
        for (row, index) in split_indexes(rows, &indexes) {
            let group = IndexedGroup { row, index: IndexView::parse(index, &checker.header, row)? };
            groups.push((self.adopts && is_adoptable(heap, &self.states, &group)?, group));
        }
        for alike in groups.chunk_by(|(a, _), (b, _)| a == b) {
            let adopts = alike.first().is_some_and(|(adopts, _)| *adopts);
            if adopts {
                let groups: Vec<IndexedGroup<'_>> = alike.iter().map(|(_, group)| *group).collect();
                adopt_groups(&mut source, &groups, heap, (&self.states, checker), &mut self.stats)?;
            } else {
                let rows: Vec<KeyGroupRow> = alike.iter().map(|(_, group)| *group.row).collect();
                put_entries(&mut source, &rows, heap, (&self.states, checker), &mut self.stats)?;
            }
        }
        Ok(())
    }
}

/// Puts the entries of key groups that lie one behind the other one by one.
fn put_entries<R: ReadAt, A: ArenaHandle>(
    source: &mut SegmentSource<R>,
    rows: &[KeyGroupRow],
    heap: &mut Heap<A>,
    (states, checker): (&StateMap, PageChecker<'_>),
    stats: &mut RestoreStats,
) -> Result<(), RestoreCause> {
    source.read_key_groups(rows, checker, &mut |pages| {
        let group = KeyGroup(pages.row().key_group.get());
        stats.entries += pages.entries(&mut |state, key, value| {
            heap.put_any(states.get(state)?, group, key, value)?;
            Ok(())
        })?;
        stats.key_groups += 1;
        stats.frames_len += pages.frames_len();
        Ok(())
    })
}

/// Numbers of states in the file, ascending, and in the heap.
#[derive(Debug)]
pub(super) struct StateMap(Vec<(u16, StateId)>);

impl StateMap {
    fn register<A: ArenaHandle>(
        meta: &SegmentMeta,
        renamed: Renamed<'_>,
        heap: &mut Heap<A>,
    ) -> Result<Self, RestoreCause> {
        let by_key = meta.footer()?.states().filter(|state| state.distribution == Distribution::ByKey);
        let register = |state: StateEntry<'_>| {
            let operator = renamed.name_of(state.operator);
            Ok((state.state_id, register(&StateEntry { operator, ..state }, heap)?))
        };
        by_key.map(register).collect::<Result<_, RestoreCause>>().map(Self)
    }

    /// The state that the file numbers so.
    pub(super) fn get(&self, id: u16) -> Result<StateId, FormatError> {
        find(&self.0, id)
    }
}

/// Makes a state of the registry known to the heap.
pub(super) fn register<A: ArenaHandle>(
    state: &StateEntry<'_>,
    heap: &mut Heap<A>,
) -> Result<StateId, HeapError> {
    let (name, version, width) = (state.key_codec, state.key_codec_version, state.key_width);
    let key = CodecId { name, version, width };
    let (name, version, width) = (state.value_codec, state.value_codec_version, state.value_width);
    let value = CodecId { name, version, width };
    let kind = (StateKind::of_number(state.kind), state.distribution);
    heap.register_as(kind, (state.operator, state.state), key, value)
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

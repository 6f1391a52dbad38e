//! Brings a job's state back from a checkpoint.

use std::collections::BTreeSet;

use slackwater_core::durable::Disk;
use slackwater_core::ids::TaskIndex;
use slackwater_core::key_group::{KeyGroupRange, MaxParallelism, range_of_subtask};
use slackwater_mem::segment::{Renamed, RestoreError, SegmentRestore, verify_all_but_key_groups};
use slackwater_mem::{Heap, HeapOptions};

mod operator_state;

use super::JobOptions;
use super::assemble::Ready;
use crate::chain::{Cx, HeldSinks};
use crate::checkpoint::{Captured, Manifest, RestoredStates};
use crate::error::JobError;
use crate::files::BlockingFiles;
use crate::graph::{JobBuilder, Vertex};
use crate::head::Head;
use crate::operator::{OperatorError, SubtaskInfo};
use crate::panics::call_operator;
use crate::paths;
use crate::recovery::{damage_of, read_in_flight, segments};
use crate::task::Loading;

/// The heads of each vertex.
pub(super) type Heads = Vec<Vec<(SubtaskInfo, Box<dyn Head>)>>;

/// Lets the sinks wait until all keyed state has been verified. Gives those that will recover then.
pub(super) fn hold_sinks(heads: &mut Heads, states: &RestoredStates<'_>) -> HeldSinks {
    let heads = heads.iter_mut().flatten();
    let held = (0u16..).zip(heads).filter_map(|(index, (info, head))| {
        let sink = head.chain().hold(states, info.index == 0)?;
        Some((TaskIndex(index), sink))
    });
    held.collect()
}

/// Lets each sink commit, discard and move aside before any record: once per vertex.
///
/// # Errors
/// What a sink said.
pub(super) fn recover_sinks(
    heads: &mut Heads,
    states: &RestoredStates<'_>,
    files: &mut dyn BlockingFiles,
) -> Result<Vec<String>, JobError> {
    let mut notes = Vec::new();
    for (info, head) in heads.iter_mut().filter_map(|vertex| vertex.first_mut()) {
        notes.extend(call(info, || head.chain().recover(states, files))?);
    }
    Ok(notes)
}

/// Whether the sources' inputs are those of the checkpoint, for a job that has nothing else to restore.
///
/// # Errors
/// What a source said.
pub(super) fn check_sources(heads: &mut Heads, states: &RestoredStates<'_>) -> Result<(), JobError> {
    let mut heads = heads.iter_mut().flatten();
    heads.try_for_each(|(info, head)| call(info, || head.restore(states, info)))
}

/// The keyed state of each subtask that has some, in the order of the graph, and what has yet to come of it.
pub(super) type Heaps = Vec<(Heap, Vec<SegmentRestore>)>;

/// What was loaded of a checkpoint, or is there at the start without one.
pub(super) struct Loaded {
    pub(super) heaps: Heaps,
    pub(super) captured: Captured,
}

/// Where the keyed state of a job comes from, and what it becomes.
pub(super) struct KeyedState<'a> {
    pub(super) folder: &'a str,
    pub(super) builder: &'a JobBuilder,
    pub(super) max_parallelism: MaxParallelism,
    pub(super) options: &'a JobOptions,
}

impl KeyedState<'_> {
    /// Keyed state of nothing.
    ///
    /// # Errors
    /// Memory is short.
    pub(super) fn empty(&self, hash_seed: u64) -> Result<Loaded, JobError> {
        let empty = |heap| (heap, Vec::new());
        let heaps = self.subtasks().map(|(vertex, _, range)| self.heap(vertex, range, hash_seed).map(empty));
        Ok(Loaded { heaps: heaps.collect::<Result<_, _>>()?, captured: Captured::new() })
    }

    /// The keyed state of a checkpoint and what was in flight, every byte of which is read once; or what is wrong with
    /// it. If it `is_lazy`, key groups have yet to be read.
    ///
    /// # Errors
    /// It cannot be read, for reasons that lie elsewhere.
    pub(super) fn checkpoint<D: Disk>(
        &self,
        disk: &mut D,
        manifest: &Manifest,
        is_lazy: bool,
    ) -> Result<Result<Loaded, String>, JobError> {
        let captured = match read_in_flight(disk, self.folder, manifest) {
            Ok(captured) => captured,
            Err(error) => return damage_of(manifest.id, error).map(Err),
        };
        match self.load(disk, manifest, is_lazy)? {
            Ok(heaps) => Ok(Ok(Loaded { heaps, captured })),
            Err(error) => damage_of(manifest.id, error).map(Err),
        }
    }

    /// All but frames of key groups is checked first, for whole files; then each key group goes to the subtask that
    /// has it now, and each subtask gets its part of what is not kept by key.
    fn load<D: Disk>(
        &self,
        disk: &mut D,
        manifest: &Manifest,
        is_lazy: bool,
    ) -> Result<Result<Heaps, RestoreError>, JobError> {
        let mut with_operator_state = BTreeSet::new();
        for segment in segments(manifest) {
            let path = paths::join(self.folder, &segment.file_name);
            match verify_all_but_key_groups(disk, &path, segment) {
                Ok(true) => with_operator_state.insert(&segment.file_name),
                Ok(false) => false,
                Err(error) => return Ok(Err(error)),
            };
        }
        let states = RestoredStates::new(Some(manifest), &[]).with_previous(&self.builder.previous);
        let mut heaps = Heaps::new();
        for (vertex, _, key_groups) in self.subtasks() {
            let mut heap = self.heap(vertex, key_groups, manifest.hash_seed)?;
            match self.key_groups(disk, &states, vertex, is_lazy, &mut heap) {
                Ok(rest) => heaps.push((heap, rest)),
                Err(error) => return Ok(Err(error)),
            }
        }
        let mut rest = heaps.as_mut_slice();
        for vertex in self.keyed_vertices() {
            let (heaps, behind) = rest.split_at_mut(vertex.signals.len());
            rest = behind;
            let mut segments = states.segments(&vertex.name);
            if segments.any(|segment| with_operator_state.contains(&segment.file_name))
                && let Err(error) = self.operator_state(disk, &states, vertex, heaps)
            {
                return Ok(Err(error));
            }
        }
        Ok(Ok(heaps))
    }

    /// Reads the key groups of a heap from the segments of a vertex; if it `is_lazy`, gives what has yet to be read.
    fn key_groups<D: Disk>(
        &self,
        disk: &mut D,
        states: &RestoredStates<'_>,
        vertex: &Vertex,
        is_lazy: bool,
        heap: &mut Heap,
    ) -> Result<Vec<SegmentRestore>, RestoreError> {
        let (key_groups, mut rest) = (heap.options().key_groups, Vec::new());
        let renamed = Renamed { from: states.stored_name(&vertex.name), to: &vertex.name };
        for segment in states.segments(&vertex.name) {
            let Some(range) = segment.key_groups.intersect(key_groups) else { continue };
            let path = paths::join(self.folder, &segment.file_name);
            let mut restore = SegmentRestore::open_renamed(disk, &path, segment, range, renamed, heap)?;
            if !is_lazy {
                restore.finish(disk, heap)?;
            }
            rest.push(restore);
        }
        Ok(rest)
    }

    fn keyed_vertices(&self) -> impl Iterator<Item = &Vertex> {
        self.builder.vertices.iter().filter(|vertex| vertex.is_keyed)
    }

    /// The subtasks with keyed state, each by its vertex and index, and their key groups.
    fn subtasks(&self) -> impl Iterator<Item = (&Vertex, u32, KeyGroupRange)> {
        self.keyed_vertices().flat_map(move |vertex| {
            let parallelism = u32::try_from(vertex.signals.len()).expect("the job has been validated");
            (0..parallelism).map(move |index| {
                let range = range_of_subtask(self.max_parallelism, parallelism, index);
                (vertex, index, range.expect("the job has been validated"))
            })
        })
    }

    fn heap(&self, vertex: &Vertex, key_groups: KeyGroupRange, hash_seed: u64) -> Result<Heap, JobError> {
        let heaps = self.subtasks().count().max(1) as u64;
        let heap = Heap::new(HeapOptions {
            frame_size: self.options.frame_size,
            memory_limit_bytes: self.options.memory_limit_bytes / heaps,
            key_groups,
            hash_seed,
        });
        heap.map_err(|error| JobError::Operator {
            task: vertex.name.clone(),
            operator: vertex.name.clone(),
            message: error.to_string(),
        })
    }
}

/// Restores and opens every subtask: its source, and its operators around their keyed state.
///
/// # Errors
/// A source refuses its input, an operator its state.
pub(super) fn subtasks(
    builder: &JobBuilder,
    heads: Heads,
    heaps: Heaps,
    states: &RestoredStates<'_>,
) -> Result<Vec<Ready>, JobError> {
    let (mut heaps, mut ready) = (heaps.into_iter(), Vec::new());
    for (vertex, heads) in builder.vertices.iter().zip(heads) {
        for (info, mut head) in heads {
            let (heap, rest) = if vertex.is_keyed { heaps.next() } else { None }.unzip();
            let loading = states.checkpoint().zip(rest).and_then(|(id, rest)| Loading::new(id, rest));
            let mut cx = Cx::new(heap, loading.is_some());
            call(&info, || {
                head.restore(states, &info)?;
                check_in_flight(&vertex.name, &*head, states)?;
                head.chain().replay(states, &info)?;
                head.chain().open(states, &info, &mut cx)?;
                if loading.is_none() { head.chain().on_restored(&mut cx) } else { Ok(()) }
            })?;
            let is_drained = states.is_drained(&vertex.operators).unwrap_or(false);
            ready.push(Ready::new(&info, head, cx, is_drained, loading));
        }
    }
    Ok(ready)
}

/// Records in flight to an operator that has become a source would be lost.
fn check_in_flight(vertex: &str, head: &dyn Head, states: &RestoredStates<'_>) -> Result<(), OperatorError> {
    let had_any = states.in_flight(vertex).iter().any(|in_flight| !in_flight.is_empty());
    if head.channels() == 0 && had_any {
        return Err(OperatorError::beyond_restart(
            "the checkpoint holds records in flight to it, but it is a source now",
        ));
    }
    Ok(())
}

/// Calls the operators of a subtask.
fn call<T>(info: &SubtaskInfo, operators: impl FnOnce() -> Result<T, OperatorError>) -> Result<T, JobError> {
    call_operator(&info.task_name(), &info.operator, operators)
}

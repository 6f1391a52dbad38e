//! Brings a job's state back from a checkpoint that has verified.

use slackwater_core::durable::Disk;
use slackwater_core::key_group::{KeyGroupRange, MaxParallelism, range_of_subtask};
use slackwater_core::time::Now;
use slackwater_mem::segment::restore_segment;
use slackwater_mem::{Heap, HeapOptions};

use super::JobOptions;
use super::assemble::Ready;
use crate::chain::Cx;
use crate::checkpoint::{Manifest, RestoredStates};
use crate::error::JobError;
use crate::files::BlockingFiles;
use crate::graph::{JobBuilder, Vertex};
use crate::head::Head;
use crate::operator::{OperatorError, SubtaskInfo};
use crate::paths;

type Heads = Vec<Vec<(SubtaskInfo, Box<dyn Head>)>>;

/// Whether a checkpoint is one of this job.
///
/// # Errors
/// The first thing that does not match.
pub(super) fn check(
    manifest: &Manifest,
    builder: &JobBuilder,
    max_parallelism: MaxParallelism,
) -> Result<(), JobError> {
    let checkpoint = manifest.id;
    let other = |what| Err(JobError::OtherJob { checkpoint, what });
    if manifest.job_name != builder.name {
        return other(format!("it is of {}, this is {}", manifest.job_name, builder.name));
    }
    let (recorded, wanted) = (manifest.max_parallelism, max_parallelism.get());
    // Without keyed state nothing depends on the number.
    let is_keyed =
        manifest.vertices.iter().flat_map(|vertex| &vertex.subtasks).any(|subtask| subtask.segment.is_some());
    if is_keyed && recorded != wanted {
        return Err(JobError::OtherMaxParallelism { checkpoint, recorded, wanted });
    }
    for stored in &manifest.vertices {
        // State without an operator would be lost silently (rule R3).
        let Some(vertex) = builder.vertices.iter().find(|vertex| vertex.name == stored.name) else {
            return other(format!("operator {} is missing here", stored.name));
        };
        let states = stored.subtasks.iter().flat_map(|subtask| &subtask.inline);
        for state in states {
            if !vertex.operators.contains(&state.operator) {
                return other(format!("operator {} is missing here", state.operator));
            }
        }
    }
    for vertex in &builder.vertices {
        if !manifest.vertices.iter().any(|stored| stored.name == vertex.name) {
            return other(format!("operator {} is not in it", vertex.name));
        }
    }
    Ok(())
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
        let recovered = head.chain().recover(states, files);
        notes.extend(recovered.map_err(|error| failed(info, &error))?);
    }
    Ok(notes)
}

/// Whether the sources' inputs are those of the checkpoint, for a job that has nothing else to restore.
///
/// # Errors
/// What a source said.
pub(super) fn check_sources(heads: &mut Heads, states: &RestoredStates<'_>) -> Result<(), JobError> {
    let mut heads = heads.iter_mut().flatten();
    heads.try_for_each(|(info, head)| head.restore(states, info).map_err(|error| failed(info, &error)))
}

/// What subtasks are restored from.
pub(super) struct Restore<'a> {
    pub(super) folder: &'a str,
    pub(super) template: &'a Manifest,
    pub(super) states: RestoredStates<'a>,
    pub(super) max_parallelism: MaxParallelism,
    pub(super) options: &'a JobOptions,
}

impl Restore<'_> {
    /// Restores and opens every subtask.
    ///
    /// # Errors
    /// A source refuses its input, state cannot be read, memory is short.
    pub(super) fn subtasks<D: Disk>(
        &self,
        builder: &JobBuilder,
        heads: Heads,
        disk: &mut D,
    ) -> Result<Vec<Ready>, JobError> {
        let keyed = builder.vertices.iter().filter(|vertex| vertex.is_keyed);
        let heaps = keyed.map(|vertex| vertex.signals.len()).sum::<usize>().max(1) as u64;
        let mut ready = Vec::new();
        for (vertex, heads) in builder.vertices.iter().zip(heads) {
            for (info, mut head) in heads {
                let heap = vertex.is_keyed.then(|| self.heap(vertex, &info, heaps, disk)).transpose()?;
                let mut cx = Cx { now: Now::default(), heap, failure: None };
                head.restore(&self.states, &info).map_err(|error| failed(&info, &error))?;
                head.chain().open(&info, &mut cx).map_err(|error| failed(&info, &error))?;
                ready.push(Ready::new(&info, head, cx, self.states.is_drained(&vertex.name)));
            }
        }
        Ok(ready)
    }

    /// The keyed state of one subtask: every key group of its range, whoever had it.
    fn heap<D: Disk>(
        &self,
        vertex: &Vertex,
        info: &SubtaskInfo,
        heaps: u64,
        disk: &mut D,
    ) -> Result<Heap, JobError> {
        let key_groups = self.range(info);
        let heap_options = HeapOptions {
            frame_size: self.options.frame_size,
            memory_limit_bytes: self.options.memory_limit_bytes / heaps,
            key_groups,
            hash_seed: self.template.hash_seed,
        };
        let mut heap =
            Heap::new(heap_options).map_err(|error| failed(info, &OperatorError::new(error.to_string())))?;
        for segment in self.states.segments(&vertex.name) {
            if let (Some(range), Some(checkpoint)) =
                (segment.key_groups.intersect(key_groups), self.states.checkpoint())
            {
                let path = paths::join(self.folder, &segment.file_name);
                let restored = restore_segment(disk, &path, segment, range, &mut heap);
                restored.map_err(|error| JobError::Restore { checkpoint, message: error.to_string() })?;
            }
        }
        Ok(heap)
    }

    fn range(&self, info: &SubtaskInfo) -> KeyGroupRange {
        range_of_subtask(self.max_parallelism, info.parallelism.into(), info.index.into())
            .expect("the job has been validated")
    }
}

fn failed(info: &SubtaskInfo, error: &OperatorError) -> JobError {
    JobError::Operator {
        task: format!("{} ({}/{})", info.operator, info.index + 1, info.parallelism),
        operator: info.operator.clone(),
        message: error.to_string(),
    }
}

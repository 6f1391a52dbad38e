//! State that is not kept by key, on its way to the subtasks of now.

use slackwater_core::assign::Rescaling;
use slackwater_core::durable::Disk;
use slackwater_mem::Heap;
use slackwater_mem::segment::{OldSegment, OldSegments, Renamed, RestoreError, SegmentRef, SegmentRestore};

use super::KeyedState;
use crate::checkpoint::RestoredStates;
use crate::graph::Vertex;
use crate::paths;

impl KeyedState<'_> {
    /// Gives each subtask of a vertex, whose heaps these are, its part of all lists, broadcast maps and raw bytes (rules R11
    /// to R14). Reads the footer of each segment of the vertex once.
    pub(super) fn operator_state<D: Disk>(
        &self,
        disk: &mut D,
        states: &RestoredStates<'_>,
        vertex: &Vertex,
        heaps: &mut [(Heap, Vec<SegmentRestore>)],
    ) -> Result<(), RestoreError> {
        let stored: Vec<Option<&SegmentRef>> = states.segments_by_subtask(&vertex.name).collect();
        let path = |segment: &Option<&SegmentRef>| {
            segment.map_or_else(String::new, |segment| paths::join(self.folder, &segment.file_name))
        };
        let paths: Vec<String> = stored.iter().map(path).collect();
        let old: Vec<Option<OldSegment<'_>>> = stored
            .iter()
            .zip(&paths)
            .map(|(segment, path)| segment.map(|segment| OldSegment { path, segment }))
            .collect();
        let count = |len: usize| u32::try_from(len).unwrap_or(u32::MAX);
        let rescaling =
            Rescaling::new(self.max_parallelism, count(old.len()), count(vertex.signals.len()))
                .map_err(|error| RestoreError { path: self.folder.to_owned(), cause: error.into() })?;
        let renamed = Renamed { from: states.stored_name(&vertex.name), to: &vertex.name };
        let old = OldSegments::read(disk, &old)?;
        let mut subtasks = (0..).zip(heaps);
        subtasks
            .try_for_each(|(index, (heap, _))| old.restore(disk, rescaling, index, renamed, heap).map(drop))
    }
}

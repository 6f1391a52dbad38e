//! State that is not kept by key, on its way to the subtasks of now.

use slackwater_core::assign::Rescaling;
use slackwater_core::durable::Disk;
use slackwater_mem::Heap;
use slackwater_mem::segment::{
    OldSegment, Renamed, RestoreError, SegmentRef, restore_renamed_operator_state,
};

use super::KeyedState;
use crate::checkpoint::RestoredStates;
use crate::graph::Vertex;
use crate::paths;

impl KeyedState<'_> {
    /// Gives subtask `index` of a vertex its part of all lists, broadcast maps and raw bytes (rules R11 to R14). Reads the
    /// footers of all segments of the vertex.
    pub(super) fn operator_state<D: Disk>(
        &self,
        disk: &mut D,
        states: &RestoredStates<'_>,
        (vertex, index): (&Vertex, u32),
        heap: &mut Heap,
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
        let rescaling = Rescaling::new(self.max_parallelism, count(old.len()), count(vertex.signals.len()));
        match rescaling {
            Ok(rescaling) => {
                let renamed = Renamed { from: states.stored_name(&vertex.name), to: &vertex.name };
                restore_renamed_operator_state(disk, &old, rescaling, index, renamed, heap).map(drop)
            }
            Err(error) => Err(RestoreError { path: self.folder.to_owned(), cause: error.into() }),
        }
    }
}

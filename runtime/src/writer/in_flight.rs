//! Records in flight, on their way into a checkpoint.

use slackwater_core::durable::{Disk, DiskError};
use slackwater_core::ids::{CheckpointId, TaskIndex};
use slackwater_mem::FrozenRun;
use slackwater_mem::in_flight::{
    INLINE_LEN_MAX, InFlight, InFlightHeader, InFlightRef, InFlightSpec, InFlightWriter, StoredInFlight,
};
use slackwater_mem::segment::WriteError;

use super::{Running, SegmentIdentity, Writer, segment};
use crate::mail::TaskMail;
use crate::paths;

#[cfg(test)]
mod tests;

impl<D: Disk<Frozen = FrozenRun>> Writer<D> {
    /// Makes them durable: few become part of the manifest, more a file beside it.
    pub(super) fn persist_in_flight(&mut self, id: CheckpointId, task: TaskIndex, captured: InFlight) {
        if captured.is_empty() {
            return self.tell(task, TaskMail::InFlightPersisted(id, Ok(None)));
        }
        let spec = self.segments.in_flight(self.base(id), id, task);
        if captured.encoded_len() > INLINE_LEN_MAX {
            let work = InFlightWriter::new(captured, spec);
            self.start(Running::InFlight(id, task, Box::new(work)));
            return;
        }
        let encoded = captured.encode(&spec.header).map(|bytes| Some(StoredInFlight::Inline(bytes)));
        let result = encoded.map_err(segment::write_error);
        self.tell(task, TaskMail::InFlightPersisted(id, result));
    }
}

impl SegmentIdentity {
    /// The file of one subtask in one checkpoint, in the job's `folder`.
    fn in_flight(&self, folder: &str, checkpoint: CheckpointId, task: TaskIndex) -> InFlightSpec {
        let name = format!("{}-{}.inflight", task.0, self.attempt);
        InFlightSpec {
            folder: folder.to_owned(),
            file_name: paths::join(&paths::checkpoint_name(checkpoint), &name),
            header: InFlightHeader {
                subtask: task.0.into(),
                // A segment of the same subtask has the same number; what a checksum is of tells the two apart.
                file_id: self.file_id(checkpoint, task),
                job_id: self.job_id,
                checkpoint: checkpoint.0,
                attempt: self.attempt,
            },
        }
    }
}

/// How writing a file of them ended.
pub(super) fn result(
    result: Option<&Result<InFlightRef, WriteError>>,
) -> Result<Option<StoredInFlight>, DiskError> {
    segment::result(result).map(|file| Some(StoredInFlight::File(file)))
}

//! What a segment of keyed state is to be called and who it belongs to.

use slackwater_core::durable::DiskError;
use slackwater_core::durable::OperationKind;
use slackwater_core::ids::{CheckpointId, TaskIndex};
use slackwater_core::key_group::MaxParallelism;
use slackwater_mem::segment::{Compression, SegmentRef, SegmentSpec, WriteError};

use super::disk_error;
use crate::paths;

/// What tells the segments of a run from all others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SegmentIdentity {
    pub(crate) job_id: u128,
    /// Unique per start of the job.
    pub(crate) attempt: u64,
    pub(crate) max_parallelism: MaxParallelism,
    pub(crate) compression: Compression,
}

impl SegmentIdentity {
    /// The segment of one subtask in one checkpoint, in the job's `folder`.
    pub(super) fn spec(&self, folder: &str, checkpoint: CheckpointId, task: TaskIndex) -> SegmentSpec {
        let name = format!("{}-{}.seg", task.0, self.attempt);
        // No two files of a job agree in attempt, checkpoint and task.
        let file_id = (u128::from(self.attempt) << 64)
            | (u128::from(checkpoint.0 & 0xffff_ffff_ffff) << 16)
            | u128::from(task.0);
        SegmentSpec {
            folder: folder.to_owned(),
            file_name: paths::join(&paths::checkpoint_name(checkpoint), &name),
            file_id,
            job_id: self.job_id,
            checkpoint,
            subtask: task.0.into(),
            attempt: self.attempt,
            max_parallelism: self.max_parallelism,
            compression: self.compression,
        }
    }
}

/// How writing a segment ended.
pub(super) fn result(result: Option<&Result<SegmentRef, WriteError>>) -> Result<SegmentRef, DiskError> {
    match result {
        Some(Ok(segment)) => Ok(segment.clone()),
        Some(Err(WriteError::File(failure))) => Err(disk_error(*failure)),
        Some(Err(WriteError::TooLarge { .. } | WriteError::Unsupported(_))) | None => {
            Err(DiskError { operation: OperationKind::Write, errno: DiskError::INVALID })
        }
    }
}

//! What a segment of keyed state is to be called and who it belongs to.

use slackwater_core::durable::{DiskError, Failure, OperationKind};
use slackwater_core::ids::{CheckpointId, TaskIndex};
use slackwater_core::key_group::MaxParallelism;
use slackwater_mem::segment::{Compression, SegmentSpec, WriteError};

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
        SegmentSpec {
            folder: folder.to_owned(),
            file_name: paths::join(&paths::checkpoint_name(checkpoint), &name),
            file_id: self.file_id(checkpoint, task),
            job_id: self.job_id,
            checkpoint,
            subtask: task.0.into(),
            attempt: self.attempt,
            max_parallelism: self.max_parallelism,
            compression: self.compression,
        }
    }

    /// No two segments of a job agree in attempt, checkpoint and task.
    pub(super) fn file_id(&self, checkpoint: CheckpointId, task: TaskIndex) -> u128 {
        (u128::from(self.attempt) << 64)
            | (u128::from(checkpoint.0 & 0xffff_ffff_ffff) << 16)
            | u128::from(task.0)
    }
}

/// How writing a file ended.
pub(super) fn result<T: Clone>(result: Option<&Result<T, WriteError>>) -> Result<T, DiskError> {
    result.cloned().unwrap_or(Err(WriteError::File(Failure::Abandoned))).map_err(write_error)
}

/// The disk's word for it.
pub(super) const fn write_error(error: WriteError) -> DiskError {
    match error {
        WriteError::File(failure) => disk_error(failure),
        WriteError::TooLarge { .. } | WriteError::Unsupported(_) => {
            DiskError { operation: OperationKind::Write, errno: DiskError::INVALID }
        }
    }
}

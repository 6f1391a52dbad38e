//! Segments: a snapshot to a file, and back into a heap.
//!
//! [`SegmentWriter`] is the work of writing one; [`restore_segment`] puts key groups of one into a heap,
//! [`restore_operator_state`] what is not kept by key of all, and [`verify_segment`] checks every byte of one. These wait for the disk, and take whatever bytes they
//! find: damage is an error, never a panic, and what they need of memory, the heap's own apart, is at most [`MEMORY_FIXED`]
//! and [`MEMORY_PER_BYTE`] times the length of the file. Of a compressed segment it is that and the frames of a key group
//! besides: as many as its index has rows, which have 20 bytes each and have been checked by then.

use std::string::String;

use slackwater_core::format::manifest;
use slackwater_core::ids::CheckpointId;
use slackwater_core::key_group::{KeyGroupRange, MaxParallelism};

mod adopt;
mod compression;
mod error;
mod fetch;
mod key_group;
mod operator_state;
mod page;
mod read;
mod restore;
mod source;
mod tally;
#[cfg(test)]
mod tests;
mod verify;
mod write;

pub use slackwater_core::format::segment::Compression;

pub use compression::{Unsupported, check_compression, decompress_key_group};
pub use error::{RestoreCause, RestoreError, WriteError};
pub use fetch::{KeyGroupBytes, KeyGroupReader};
pub use operator_state::{OldSegment, OldSegments, restore_operator_state};
pub use read::read_file;
pub use restore::{Renamed, RestoreStats, SegmentRestore, restore_segment};
pub(crate) use source::same;
pub use verify::{VerifyStats, verify_all_but_key_groups, verify_segment};
pub use write::SegmentWriter;

/// Bytes of memory that a reader of a segment may take for each byte of it: what it must remember of each record of pages
/// that are linked, of which three bytes may be one.
pub const MEMORY_PER_BYTE: usize = 32;
/// Bytes of memory that a reader of a segment may take whatever its length: blocks of the disk, a chunk, the first block
/// of the file.
pub const MEMORY_FIXED: usize = 2 << 20;

/// What a segment is to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentSpec {
    /// The job's folder on the disk; empty for the disk's root.
    pub folder: String,
    /// The file's path in it; its folder must exist, the file must not.
    pub file_name: String,
    /// The file's own id, never used before.
    pub file_id: u128,
    /// The job.
    pub job_id: u128,
    /// The checkpoint.
    pub checkpoint: CheckpointId,
    /// The subtask's index within its operators.
    pub subtask: u32,
    /// The attempt of the subtask.
    pub attempt: u64,
    /// The number of key groups of the job.
    pub max_parallelism: MaxParallelism,
    /// How frames are stored; one that [is built in](check_compression).
    pub compression: Compression,
}

/// A segment that is durable, as a manifest remembers it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentRef {
    /// Its path, relative to the job's folder.
    pub file_name: String,
    /// Its id.
    pub file_id: u128,
    /// Its length in bytes.
    pub len: u64,
    /// The bytes of it that the checkpoint needs.
    pub used_len: u64,
    /// Checksum of its footer, which stands for the whole file.
    pub footer_checksum: u32,
    /// The key groups it may hold.
    pub key_groups: KeyGroupRange,
}

impl SegmentRef {
    /// The same for a manifest's encoder.
    #[must_use]
    pub fn as_manifest(&self) -> manifest::SegmentRef<'_> {
        manifest::SegmentRef {
            file_name: &self.file_name,
            file_id: self.file_id,
            len: self.len,
            used_len: self.used_len,
            footer_checksum: self.footer_checksum,
            key_groups: self.key_groups,
        }
    }
}

impl From<manifest::SegmentRef<'_>> for SegmentRef {
    fn from(segment: manifest::SegmentRef<'_>) -> Self {
        Self {
            file_name: segment.file_name.into(),
            file_id: segment.file_id,
            len: segment.len,
            used_len: segment.used_len,
            footer_checksum: segment.footer_checksum,
            key_groups: segment.key_groups,
        }
    }
}

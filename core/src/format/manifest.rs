//! The manifest of a checkpoint: the file whose appearance commits it.
//!
//! A header, then elements one behind the other, each with a tag and a length, then zeros up to the last
//! 16 bytes of a block, then the tail. Elements nest by their order: a vertex, its subtasks, and of each
//! subtask its segments, what was in flight to it, then its states, and of each state its partitions.

use core::str;

use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, IntoBytes};

use super::checksum::{Identity, PART_MANIFEST};
use super::error::{FormatError, corrupt, expect_eq, expect_magic, expect_within, expect_zero};
use super::in_flight::InFlightView;
use super::layout::layout;
use super::{VERSION, VERSION_MIN};
use crate::key_group::{KeyGroup, KeyGroupRange};

mod encode;
mod layouts;
#[cfg(test)]
mod tests;
mod views;
mod walk;

pub use encode::{ManifestEncoder, StateEncoder, SubtaskEncoder, VertexEncoder};
pub use layouts::{
    ElementHead, InFlightElement, ManifestHeaderLayout, ManifestTail, ParticipantElement, SegmentElement,
    StateElement, SubtaskElement, VertexElement,
};
pub use views::{
    Participants, Partitions, Segments, StateView, States, SubtaskView, Subtasks, VertexView, Vertices,
};

/// First bytes of a manifest.
pub const MANIFEST_MAGIC: [u8; 8] = *b"SLKWMAN\0";
/// Last bytes of a manifest.
pub const MANIFEST_TAIL_MAGIC: [u8; 4] = *b"SLKM";
/// A manifest's length is a multiple of this.
pub const MANIFEST_BLOCK_SIZE: usize = 4096;
/// The most key groups, and subtasks of a vertex.
pub const PARALLELISM_MAX: u32 = 1 << 15;

/// Bit of the manifest's flags: the job has finished, there is nothing to go on with.
pub const FLAG_FINISHED: u16 = 1;
/// Bit of a subtask's flags: it had finished before the checkpoint.
pub const SUBTASK_FLAG_FINISHED: u16 = 1;

/// What a manifest says of the whole checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ManifestHeader<'a> {
    /// Whether the job has finished.
    pub is_finished: bool,
    /// The checkpoint's number.
    pub checkpoint: u64,
    /// The job.
    pub job_id: u128,
    /// The job's name.
    pub job_name: &'a str,
    /// When it was triggered, in milliseconds since the Unix epoch.
    pub wall_time_ms: u64,
    /// The number of key groups, 1 to 32768.
    pub max_parallelism: u32,
    /// Seed of the hash that places keys in pages.
    pub hash_seed: u64,
}

/// What somebody has given for the checkpoint who takes part beside the subtasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Participant<'a> {
    /// What it is.
    pub kind: ParticipantKind,
    /// Its lasting name: a coordinator's is that of its operator.
    pub name: &'a str,
    /// Its state.
    pub state: &'a [u8],
}

/// Who takes part in a checkpoint beside the subtasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParticipantKind {
    /// The coordinator of an operator.
    OperatorCoordinator,
    /// A hook.
    Hook,
}

impl ParticipantKind {
    /// Its number on disk.
    #[must_use]
    pub const fn number(self) -> u8 {
        match self {
            Self::OperatorCoordinator => 1,
            Self::Hook => 2,
        }
    }

    const fn from_number(number: u8) -> Option<Self> {
        match number {
            1 => Some(Self::OperatorCoordinator),
            2 => Some(Self::Hook),
            _ => None,
        }
    }
}

/// A vertex: operators that run together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Vertex<'a> {
    /// Its lasting name.
    pub uid: &'a str,
    /// Its subtasks in the job that made the checkpoint, 1 to 32768.
    pub parallelism: u32,
}

/// A subtask of a vertex.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subtask {
    /// Its index: they count from 0 to the parallelism.
    pub index: u32,
    /// Whether it had finished before the checkpoint.
    pub is_finished: bool,
}

/// A file that a subtask's state lies in. The first of a subtask is its own segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentRef<'a> {
    /// Its path, relative to the job's folder.
    pub file_name: &'a str,
    /// Its id.
    pub file_id: u128,
    /// Its length in bytes.
    pub len: u64,
    /// The bytes of it that the checkpoint needs.
    pub used_len: u64,
    /// Checksum of its footer.
    pub footer_checksum: u32,
    /// The key groups it may hold.
    pub key_groups: KeyGroupRange,
}

/// What an unaligned checkpoint has captured of the channels into a subtask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InFlight<'a> {
    /// It lies in the manifest: the bytes of an [`InFlightView`].
    Inline(&'a [u8]),
    /// It is a file.
    File(InFlightRef<'a>),
}

/// A file of captured records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InFlightRef<'a> {
    /// Its path, relative to the job's folder.
    pub file_name: &'a str,
    /// Its id.
    pub file_id: u128,
    /// Its length in bytes.
    pub len: u64,
    /// The checksum of all of it.
    pub checksum: u32,
}

/// How the partitions of a state are given out when a job is restored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StateMode {
    /// Partitions of all subtasks are dealt out.
    Split,
    /// Every subtask gets the partitions of all.
    Union,
    /// Every subtask holds the same and gets it again.
    Broadcast,
    /// The subtask's own, not to be given to another.
    Plain,
}

impl StateMode {
    /// Its number on disk.
    #[must_use]
    pub const fn number(self) -> u8 {
        match self {
            Self::Split => 1,
            Self::Union => 2,
            Self::Broadcast => 3,
            Self::Plain => 4,
        }
    }

    const fn from_number(number: u8) -> Option<Self> {
        match number {
            1 => Some(Self::Split),
            2 => Some(Self::Union),
            3 => Some(Self::Broadcast),
            4 => Some(Self::Plain),
            _ => None,
        }
    }
}

/// A state that lies in the manifest itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InlineState<'a> {
    /// The operator's lasting name.
    pub operator: &'a str,
    /// The state's name.
    pub name: &'a str,
    /// How its partitions are given out.
    pub mode: StateMode,
}

/// A manifest, all of it checked.
#[derive(Clone, Copy, Debug)]
pub struct ManifestView<'a> {
    header: ManifestHeader<'a>,
    elements: &'a [u8],
}

impl<'a> ManifestView<'a> {
    /// Checks a whole manifest: checksum, length, every element, every zero. What the view then gives is sound.
    ///
    /// # Errors
    /// `Corrupt`, or `Unsupported` for a newer version or a kind of element or state this build does not know.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, FormatError> {
        let Ok((raw, rest)) = ManifestHeaderLayout::ref_from_prefix(bytes) else {
            let len_min = MANIFEST_BLOCK_SIZE as u64;
            return Err(corrupt("length of the manifest", 0, len_min, bytes.len() as u64));
        };
        raw.check_kind(|as_of_ours| check_tail(bytes, as_of_ours).is_ok())?;
        check_tail(bytes, raw)?;
        let (job_name, elements) = raw.check_and_split(rest)?;
        let elements_at = ManifestHeaderLayout::LEN.saturating_add(job_name.len());
        walk::check(elements, elements_at, raw.max_parallelism.get())?;
        Ok(Self { header: raw.header(job_name), elements })
    }

    /// What it says of the whole checkpoint.
    #[must_use]
    pub const fn header(&self) -> &ManifestHeader<'a> {
        &self.header
    }

    /// What those gave that take part beside the subtasks.
    #[must_use]
    pub const fn participants(&self) -> Participants<'a> {
        Participants::new(self.elements)
    }

    /// The vertices.
    #[must_use]
    pub const fn vertices(&self) -> Vertices<'a> {
        Vertices::new(self.elements)
    }
}

/// Checks the end of a manifest of which `raw` is the header.
fn check_tail(bytes: &[u8], raw: &ManifestHeaderLayout) -> Result<(), FormatError> {
    let len = bytes.len() as u64;
    let at = bytes.len().saturating_sub(ManifestTail::LEN);
    let Ok((before, tail)) = ManifestTail::ref_from_suffix(bytes) else {
        return Err(corrupt("length of the manifest", 0, MANIFEST_BLOCK_SIZE as u64, len));
    };
    let magics = (u32::from_le_bytes(MANIFEST_TAIL_MAGIC), u32::from_le_bytes(tail.magic));
    expect_eq("end of the manifest", at.saturating_add(12), magics.0.into(), magics.1.into())?;
    expect_eq("length of the manifest", at, len, tail.len.get())?;
    let blocks = len.checked_next_multiple_of(MANIFEST_BLOCK_SIZE as u64).unwrap_or(u64::MAX);
    expect_eq("length of the manifest", at, blocks, len)?;

    let identity = raw.identity();
    let mut checksum = super::checksum::Checksum::new(&identity);
    checksum.update(raw.as_bytes());
    checksum.update(before.get(ManifestHeaderLayout::LEN..).unwrap_or(&[]));
    checksum.update(tail.len.as_bytes());
    let at = at.saturating_add(8);
    expect_eq("checksum of the manifest", at, u64::from(checksum.get()), tail.checksum.get().into())
}

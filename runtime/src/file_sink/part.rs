//! A pending part as it lies in a checkpoint, and what can be wrong with one.

use std::fmt;

use slackwater_core::durable::DiskError;
use slackwater_core::ids::CheckpointId;
use slackwater_core::machine::Rejected;

use crate::operator::OperatorError;

/// A part that a checkpoint covers and that is to be committed when that checkpoint completes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingPart {
    /// The checkpoint under which it was closed.
    pub checkpoint: CheckpointId,
    /// Its length in bytes.
    pub len: u64,
    /// Its name before the commit.
    pub hidden_name: String,
    /// Its name after the commit.
    pub final_name: String,
}

/// Why the sink cannot go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SinkError {
    /// A part that the checkpoint lists is there under neither name.
    LostPart {
        /// The folder.
        folder: String,
        /// The part.
        part: PendingPart,
    },
    /// A part that the checkpoint lists has another length.
    DamagedPart {
        /// The folder.
        folder: String,
        /// The part.
        part: PendingPart,
        /// Its length now.
        found: u64,
    },
    /// A part is there under both names: its final name is taken by another file.
    NameTaken {
        /// The folder.
        folder: String,
        /// The part.
        part: PendingPart,
    },
    /// A list of pending parts does not decode.
    BadPending,
    /// A checkpoint completed before the sink said that its parts are durable; a defect of the runtime.
    CommitBeforeSeal {
        /// The checkpoint.
        checkpoint: CheckpointId,
    },
    /// So many commits are on their way to the disk that no further one can wait.
    Behind {
        /// The checkpoint that has to wait for them.
        checkpoint: CheckpointId,
    },
    /// The sink was told something that cannot be; a defect of the runtime.
    Refused(Rejected),
    /// The disk refused.
    Disk {
        /// What for.
        path: String,
        /// What it said.
        error: DiskError,
    },
}

impl fmt::Display for SinkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LostPart { folder, part } => write!(
                f,
                "output part `{folder}/{}` of checkpoint {} is lost, hidden `{}` too: bring it back, or \
                 restore another checkpoint",
                part.final_name, part.checkpoint, part.hidden_name
            ),
            Self::DamagedPart { folder, part, found } => write!(
                f,
                "output part `{folder}/{}` of checkpoint {} has {found} bytes instead of {}: bring the \
                 original back, or restore another checkpoint",
                part.final_name, part.checkpoint, part.len
            ),
            Self::NameTaken { folder, part } => write!(
                f,
                "output part `{folder}/{}` cannot be committed because another file has that name: move it \
                 away, then start again",
                part.final_name
            ),
            Self::BadPending => {
                f.write_str("a pending output part in the checkpoint is damaged: restore an older checkpoint")
            }
            Self::CommitBeforeSeal { checkpoint } => {
                write!(f, "checkpoint {checkpoint} completed before its output was durable; start again")
            }
            Self::Behind { checkpoint } => write!(
                f,
                "checkpoint {checkpoint} is declined while the disk is behind with the commits of earlier ones: \
                 take checkpoints less often"
            ),
            Self::Refused(rejected) => write!(f, "output transactions: {rejected}; start again"),
            Self::Disk { path, error } => write!(f, "output `{path}`: {error}"),
        }
    }
}

impl std::error::Error for SinkError {}

impl From<SinkError> for OperatorError {
    fn from(error: SinkError) -> Self {
        let message = error.to_string();
        match error {
            SinkError::LostPart { .. }
            | SinkError::DamagedPart { .. }
            | SinkError::NameTaken { .. }
            | SinkError::BadPending => Self::beyond_restart(message),
            SinkError::Behind { .. } => Self::decline(message),
            SinkError::CommitBeforeSeal { .. } | SinkError::Refused(_) | SinkError::Disk { .. } => {
                Self::new(message)
            }
        }
    }
}

const VERSION: u8 = 1;

impl PendingPart {
    /// Its bytes: version (one byte), checkpoint, length (8 bytes each, little-endian), then the hidden name,
    /// a slash, the final name.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![VERSION];
        bytes.extend(self.checkpoint.0.to_le_bytes());
        bytes.extend(self.len.to_le_bytes());
        bytes.extend(self.hidden_name.as_bytes());
        bytes.push(b'/');
        bytes.extend(self.final_name.as_bytes());
        bytes
    }

    /// Reads what [`PendingPart::encode`] wrote.
    ///
    /// # Errors
    /// [`SinkError::BadPending`] for any other bytes.
    pub fn decode(bytes: &[u8]) -> Result<Self, SinkError> {
        Self::parse(bytes).ok_or(SinkError::BadPending)
    }

    fn parse(bytes: &[u8]) -> Option<Self> {
        let (&[VERSION], rest) = bytes.split_first_chunk::<1>()? else { return None };
        let (checkpoint, rest) = rest.split_first_chunk::<8>()?;
        let (len, names) = rest.split_first_chunk::<8>()?;
        let (hidden, visible) = std::str::from_utf8(names).ok()?.split_once('/')?;
        let checkpoint = CheckpointId(u64::from_le_bytes(*checkpoint));
        // Nothing but names of our own is ever renamed.
        super::HiddenName::parse(hidden)?;
        super::FinalName::parse(visible).filter(|name| name.checkpoint == checkpoint)?;
        Some(Self {
            checkpoint,
            len: u64::from_le_bytes(*len),
            hidden_name: hidden.to_owned(),
            final_name: visible.to_owned(),
        })
    }
}

use core::fmt;
use std::string::String;

use slackwater_core::assign::AssignError;
use slackwater_core::durable::{DiskError, Failure};
use slackwater_core::format::FormatError;
use slackwater_core::key_group::KeyGroup;

use super::compression::Unsupported;
use crate::heap::{HeapError, StateId};

/// Why a file could not be read, or not be believed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RestoreError {
    /// The file.
    pub path: String,
    /// What is wrong.
    pub cause: RestoreCause,
}

/// What is wrong with a file, or with what it is wanted for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RestoreCause {
    /// The disk said no.
    Disk(DiskError),
    /// The disk has operations of somebody else in flight, or lends no block.
    DiskBusy,
    /// The bytes are damaged, or of a version that this build cannot read.
    Format(FormatError),
    /// It is compressed in a way that is not built in.
    Unsupported(Unsupported),
    /// A page is damaged, or is none that a heap wrote.
    Page {
        /// Its key group.
        key_group: KeyGroup,
        /// Its state, as the file numbers it.
        state: u16,
        /// Its name within these.
        lpn: u32,
        /// What is wrong; offsets are those in the file, or in the page where the segment is compressed.
        error: FormatError,
    },
    /// It is not the file that is wanted.
    Foreign {
        /// What differs.
        what: &'static str,
        /// As it should be.
        expected: u128,
        /// As it is.
        found: u128,
    },
    /// It is longer than it may be.
    TooLong {
        /// Its length in bytes.
        len: u64,
        /// The longest possible.
        len_max: u64,
    },
    /// The heap does not take what is in it.
    Heap(HeapError),
    /// A state that shall get entries of it has some already.
    StateInUse {
        /// The state.
        state: StateId,
    },
    /// What is in it cannot be given to these subtasks.
    Assign(AssignError),
}

impl fmt::Display for RestoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.path)?;
        match &self.cause {
            RestoreCause::Disk(error) => error.fmt(f),
            RestoreCause::DiskBusy => f.write_str("the disk is in use by other work: reap that first"),
            RestoreCause::Format(error) => error.fmt(f),
            RestoreCause::Unsupported(error) => error.fmt(f),
            RestoreCause::Page { key_group, state, lpn, error } => {
                write!(f, "page {lpn:#x} of state {state} in key group {}: {error}", key_group.0)
            }
            RestoreCause::Foreign { what, expected, found } => {
                write!(f, "not the file the checkpoint lists: {what} is {found:#x}, expected {expected:#x}")
            }
            RestoreCause::TooLong { len, len_max } => {
                write!(f, "{len} bytes are too many: at most {len_max} are read")
            }
            RestoreCause::Heap(error) => error.fmt(f),
            RestoreCause::StateInUse { state } => {
                write!(f, "state {} has entries already: restore into a new heap", state.0)
            }
            RestoreCause::Assign(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for RestoreError {}

impl From<DiskError> for RestoreCause {
    fn from(error: DiskError) -> Self {
        Self::Disk(error)
    }
}

impl From<FormatError> for RestoreCause {
    fn from(error: FormatError) -> Self {
        Self::Format(error)
    }
}

impl From<Unsupported> for RestoreCause {
    fn from(error: Unsupported) -> Self {
        Self::Unsupported(error)
    }
}

impl From<AssignError> for RestoreCause {
    fn from(error: AssignError) -> Self {
        Self::Assign(error)
    }
}

impl From<HeapError> for RestoreCause {
    fn from(error: HeapError) -> Self {
        Self::Heap(error)
    }
}

/// Why a file was not written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteError {
    /// The file did not become durable.
    File(Failure),
    /// The compression is not built in.
    Unsupported(Unsupported),
    /// The state does not fit the format.
    TooLarge {
        /// Which part of it.
        what: &'static str,
    },
}

impl fmt::Display for WriteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(failure) => failure.fmt(f),
            Self::Unsupported(error) => error.fmt(f),
            Self::TooLarge { what } => {
                write!(f, "the state does not fit into one file ({what}): raise the parallelism")
            }
        }
    }
}

impl core::error::Error for WriteError {}

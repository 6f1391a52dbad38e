//! Why an input cannot be read, or cannot be read on.

use std::fmt;
use std::io;

use crate::operator::OperatorError;

/// Why an input cannot be read, or cannot be read on from a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InputError {
    /// It is missing, not a regular file, not permitted, or the disk failed.
    Unreadable {
        /// The input.
        name: String,
        /// What the system said.
        cause: String,
    },
    /// It is shorter than when the checkpoint was taken, or became so while it was read.
    Shrunk {
        /// The input.
        name: String,
        /// Its length in bytes then.
        recorded: u64,
        /// Its length in bytes now.
        found: u64,
    },
    /// Bytes that the checkpoint relies on are no longer what they were.
    Changed {
        /// The input.
        name: String,
        /// First byte of the part that differs.
        from: u64,
        /// End of the part that differs.
        to: u64,
    },
    /// Its last line had no end and was already read as a whole line; now that same line goes on.
    LastLineGrew {
        /// The input.
        name: String,
        /// Where the line goes on.
        offset: u64,
    },
    /// The checkpoint was taken over another number of inputs.
    OtherInputs {
        /// How many then.
        recorded: u64,
        /// How many now.
        found: u64,
    },
    /// A line, or with cutting a run of bytes without a place to cut, is longer than allowed.
    TooLong {
        /// The input.
        name: String,
        /// Where it starts.
        offset: u64,
        /// The most bytes allowed.
        len_max: u64,
    },
    /// A recorded position does not decode: written by another version, or damaged.
    BadPosition {
        /// What is wrong with it.
        what: &'static str,
    },
}

impl InputError {
    pub(super) fn unreadable(name: &str, error: &io::Error) -> Self {
        Self::Unreadable { name: name.to_owned(), cause: error.to_string() }
    }
}

impl fmt::Display for InputError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable { name, cause } => write!(f, "cannot read input `{name}`: {cause}"),
            Self::Shrunk { name, recorded, found } => write!(
                f,
                "input `{name}` has shrunk from {recorded} to {found} bytes since it was read: bring the \
                 original back, or start over without the checkpoint"
            ),
            Self::Changed { name, from, to } => write!(
                f,
                "input `{name}` has changed since the checkpoint, in bytes {from} to {to}: bring the original \
                 back, or start over without the checkpoint"
            ),
            Self::LastLineGrew { name, offset } => write!(
                f,
                "input `{name}` has grown in the middle of its last line, at byte {offset}, which was read \
                 already as a whole line: append whole lines only, or start over without the checkpoint"
            ),
            Self::OtherInputs { recorded, found } => write!(
                f,
                "the checkpoint was taken over {recorded} input(s), now {found} are given: give the same \
                 inputs in the same order, or start over without the checkpoint"
            ),
            Self::TooLong { name, offset, len_max } => write!(
                f,
                "input `{name}` has more than {len_max} bytes without a break from byte {offset} on: split \
                 it there, or leave that input out"
            ),
            Self::BadPosition { what } => {
                write!(
                    f,
                    "a source position in the checkpoint is damaged: {what}; restore an older checkpoint"
                )
            }
        }
    }
}

impl std::error::Error for InputError {}

impl From<InputError> for OperatorError {
    fn from(error: InputError) -> Self {
        let message = error.to_string();
        match error {
            InputError::Unreadable { .. } => Self::new(message),
            InputError::Shrunk { .. }
            | InputError::Changed { .. }
            | InputError::LastLineGrew { .. }
            | InputError::OtherInputs { .. }
            | InputError::TooLong { .. }
            | InputError::BadPosition { .. } => Self::beyond_restart(message),
        }
    }
}

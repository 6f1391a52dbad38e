//! What the coordinator and its subtasks tell each other, and what lies in checkpoints: names with a length of four bytes
//! in little-endian order.

use crate::operator::OperatorError;

/// What the coordinator tells a subtask.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// Read this file.
    Read(String),
    /// No file will follow.
    NoMore,
}

const READ: u8 = 1;
const NO_MORE: u8 = 2;

impl Event {
    pub(super) fn encode(&self) -> Vec<u8> {
        match self {
            Self::Read(name) => [&[READ], name.as_bytes()].concat(),
            Self::NoMore => vec![NO_MORE],
        }
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Self, OperatorError> {
        match bytes {
            [READ, name @ ..] => Ok(Self::Read(text(name)?)),
            [NO_MORE] => Ok(Self::NoMore),
            _ => Err(malformed()),
        }
    }
}

/// Appends a name.
pub(super) fn push_name(bytes: &mut Vec<u8>, name: &str) {
    let len = u32::try_from(name.len()).expect("a file name is far shorter than 4 GiB");
    bytes.extend_from_slice(&len.to_le_bytes());
    bytes.extend_from_slice(name.as_bytes());
}

/// Takes a name off the front.
pub(super) fn take_name<'a>(bytes: &mut &'a [u8]) -> Result<&'a str, OperatorError> {
    let (len, rest) = bytes.split_first_chunk::<4>().ok_or_else(malformed)?;
    let len = usize::try_from(u32::from_le_bytes(*len)).map_err(|_| malformed())?;
    let (name, rest) = rest.split_at_checked(len).ok_or_else(malformed)?;
    *bytes = rest;
    std::str::from_utf8(name).map_err(|_| malformed())
}

fn text(bytes: &[u8]) -> Result<String, OperatorError> {
    String::from_utf8(bytes.to_vec()).map_err(|_| malformed())
}

fn malformed() -> OperatorError {
    OperatorError::new(
        "the state of a folder source is not what it writes: its checkpoint is of another program",
    )
}

use core::fmt;

use crate::codec::{Malformed, Unencodable};
use crate::heap::HeapError;

/// Why a typed access failed. The state is as it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StateError {
    /// The heap refused.
    Heap(HeapError),
    /// What the heap holds is not what the codec writes.
    Malformed(Malformed),
    /// The key, the namespace or the value cannot be encoded.
    Unencodable(Unencodable),
}

impl fmt::Display for StateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Heap(error) => error.fmt(f),
            Self::Malformed(error) => error.fmt(f),
            Self::Unencodable(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for StateError {}

impl From<HeapError> for StateError {
    fn from(error: HeapError) -> Self {
        Self::Heap(error)
    }
}

impl From<Malformed> for StateError {
    fn from(error: Malformed) -> Self {
        Self::Malformed(error)
    }
}

impl From<Unencodable> for StateError {
    fn from(error: Unencodable) -> Self {
        Self::Unencodable(error)
    }
}

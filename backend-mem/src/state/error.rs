use core::fmt;

#[cfg(feature = "std")]
use crate::codec::CodecId;
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
    /// The state was restored with another codec.
    #[cfg(feature = "std")]
    Refused(std::boxed::Box<RefusedCodec>),
}

/// A restored state has keys or values of a codec that cannot be used as, or rewritten to, the one wanted.
#[cfg(feature = "std")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedCodec {
    /// The operator.
    pub operator: std::string::String,
    /// The state's name.
    pub state: std::string::String,
    /// Whether its keys differ; otherwise its values do.
    pub of_keys: bool,
    /// Name and version of the codec that wrote them.
    pub stored: (std::string::String, u16),
    /// The codec that is wanted.
    pub wanted: CodecId<'static>,
    /// What went wrong when values were rewritten; the heap is no use any more then.
    pub cause: Option<StateError>,
}

#[cfg(feature = "std")]
impl fmt::Display for RefusedCodec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { operator, state, of_keys, stored: (name, version), wanted, cause } = self;
        let what = if *of_keys { "keys" } else { "values" };
        write!(f, "state {state} of operator {operator} has {what} of codec {name} version {version}, ")?;
        match cause {
            Some(cause) => write!(f, "which could not be rewritten to {wanted}: {cause}"),
            None if *of_keys => {
                write!(f, "and {wanted} is wanted; keys stay of their codec: register that, or another state")
            }
            None => {
                write!(f, "and {wanted} has no migration for it; give it one, or register the codec of old")
            }
        }
    }
}

impl fmt::Display for StateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Heap(error) => error.fmt(f),
            Self::Malformed(error) => error.fmt(f),
            Self::Unencodable(error) => error.fmt(f),
            #[cfg(feature = "std")]
            Self::Refused(refused) => refused.fmt(f),
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

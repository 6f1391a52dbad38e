//! Typed handles on the states of a heap.
//!
//! A handle is a small value that knows how keys and values are encoded; the entries are the heap's. The key is
//! an argument of each call, and so is the namespace of a state that has one.

use core::fmt;

mod entries;
mod error;
mod namespace;
#[cfg(test)]
mod tests;
mod value;

pub use error::StateError;
pub use namespace::Namespace;
pub use value::ValueState;

pub(crate) use entries::Entries;

/// Shows a handle by its id.
fn debug(f: &mut fmt::Formatter<'_>, name: &str, id: crate::heap::StateId) -> fmt::Result {
    f.debug_struct(name).field("id", &id).finish_non_exhaustive()
}

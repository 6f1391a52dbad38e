//! State that belongs to a subtask and not to its keys, and state whose bytes only the operator understands.
//!
//! It lies in the same heap as all other state: a freeze takes it along in constant time, the memory limit counts
//! it, and a segment holds it. What differs is who gets it when a job is restored with another number of
//! subtasks ([`slackwater_core::assign`]): `restore_operator_state` in the module `segment` gives it out.
//!
//! | type | in a restore |
//! |---|---|
//! | [`SplitList`], [`RawOperatorState`] | each element goes to one subtask |
//! | [`UnionList`] | every subtask gets the elements of all |
//! | [`Broadcast`] | every subtask has the same entries and gets them again |
//! | [`RawKeyedState`] | bytes follow their key group |

mod broadcast;
mod list;
mod raw;
#[cfg(test)]
mod tests;

pub use broadcast::Broadcast;
pub use list::{OperatorList, SplitList, UnionList};
#[cfg(feature = "std")]
pub use raw::RawWriter;
pub use raw::{Raw, RawKeyedState, RawOperatorState, RawParts};

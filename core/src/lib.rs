//! The checkpoint protocol as state machines: no I/O, no clock, no thread, no allocation.
//!
//! A program feeds each machine events and carries out the actions it writes into a buffer.
#![no_std]
#![cfg_attr(not(test), forbid(clippy::std_instead_of_core))]

#[cfg(any(test, feature = "alloc"))]
extern crate alloc;
#[cfg(any(test, feature = "std", slackwater_loom))]
extern crate std;

pub mod assign;
pub mod bit_set;
pub mod channel_state;
pub mod coordinator;
mod draw;
pub mod durable;
pub mod edge;
pub mod format;
pub mod gate;
pub mod ids;
pub mod key_group;
pub mod machine;
pub mod queue;
pub mod reason;
mod recent_ids;
pub mod restart;
pub mod retained;
pub mod stop;
pub mod subtask;
#[doc(hidden)]
pub mod sync;
#[cfg(test)]
mod test_rng;
pub mod time;
pub mod two_phase;

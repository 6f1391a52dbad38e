//! Checkpoint storage through io_uring: several large writes in flight, around the page cache where the file
//! system lets them.
//!
//! [`UringDisk`] owns every buffer from its submission until the kernel has given it back. Only reads and
//! writes go through the ring; the few calls that create, sync, rename and remove are plain system calls on
//! the caller's thread, because a sync covers completed writes only and its errors must be clear.

mod block;
mod disk;
mod files;
mod ring;
mod unavailable;

pub use block::Block;
pub use disk::{UringDisk, UringOptions};
pub use files::Fallback;
pub use unavailable::UringUnavailable;

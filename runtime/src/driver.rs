//! Who calls `step`: threads here; a bare loop, an executor or a simulation elsewhere.

mod clock;
mod threads;

pub use clock::Clock;
pub use threads::{ActorPanicked, run_on_threads};

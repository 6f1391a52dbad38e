//! Who calls `step`: threads here; a bare loop, an executor or a simulation elsewhere.

mod clock;
mod supervised;
mod threads;

pub use clock::Clock;
pub use supervised::Moment;
pub use threads::run_on_threads;

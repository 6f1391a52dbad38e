//! Bugs that a simulation must find. Each is in the jobs that are put together while it is switched on, and in no other.

use std::cell::Cell;

thread_local! {
    static REPLAYS_LATE: Cell<bool> = const { Cell::new(false) };
}

/// In jobs that `assemble` puts together on this thread, what was in flight at the restored checkpoint is sent behind the
/// first new records.
pub fn replaying_late<T>(assemble: impl FnOnce() -> T) -> T {
    let _off = Off;
    REPLAYS_LATE.set(true);
    assemble()
}

pub(crate) fn replays_late() -> bool {
    REPLAYS_LATE.get()
}

/// Switches off however the call ends.
struct Off;

impl Drop for Off {
    fn drop(&mut self) {
        REPLAYS_LATE.set(false);
    }
}

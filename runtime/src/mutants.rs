//! Bugs that a simulation must find. Each is in the jobs that are put together while it is switched on, and in no other.

use std::cell::Cell;

thread_local! {
    static BUG: Cell<Option<Bug>> = const { Cell::new(None) };
}

/// A bug that takes the runtime itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// What was in flight at the restored checkpoint is sent behind the first new records.
    ReplayLate,
    /// What the coordinator of an operator sends behind its snapshot does not wait for that of the subtask.
    EventsNotHeld,
}

/// Puts a job together, on this thread, with a bug in it.
pub fn with_bug<T>(bug: Bug, assemble: impl FnOnce() -> T) -> T {
    let _off = Off;
    BUG.set(Some(bug));
    assemble()
}

pub(crate) fn has(bug: Bug) -> bool {
    BUG.get() == Some(bug)
}

/// Switches off however the call ends.
struct Off;

impl Drop for Off {
    fn drop(&mut self) {
        BUG.set(None);
    }
}

use core::num::NonZeroU32;
use core::ops::Range;

/// How many subtasks of an operator write their records in flight to one file (rule U16; Flink:
/// `max-subtasks-per-channel-state-file`). When one of them fails to, the others of its file fail with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedFile {
    /// At most so many share one.
    pub subtasks_max: NonZeroU32,
}

impl Default for SharedFile {
    fn default() -> Self {
        Self { subtasks_max: const { NonZeroU32::new(5).unwrap() } }
    }
}

impl SharedFile {
    /// The subtasks of `parallelism` that share the file of `subtask`, itself included.
    #[must_use]
    pub fn sharers(self, subtask: u32, parallelism: u32) -> Range<u32> {
        let first = subtask.saturating_sub(subtask % self.subtasks_max);
        first..first.saturating_add(self.subtasks_max.get()).min(parallelism)
    }
}

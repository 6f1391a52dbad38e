use super::{AssignError, Rescaling};
use crate::key_group::{MaxParallelism, range_of_subtask, subtask_of_key_group};

/// How records in flight find a new subtask when the number of subtasks changes; it follows from how the
/// channel's records are partitioned (rule U22).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChannelMapping {
    /// Each old subtask's go to one new subtask: any will do.
    RoundRobin,
    /// The first new subtask gets all.
    First,
    /// Every new subtask gets all and keeps its own (rule U24).
    Full,
    /// A new subtask gets those of all old ones that shared a key group with it, and keeps its own (rule U24).
    Range,
    /// They cannot be given to another.
    Unsupported,
}

/// Iterator over old subtasks, ascending.
#[derive(Clone, Debug)]
pub struct OldSubtasks {
    next: u32,
    end: u32,
    step: u32,
}

impl Rescaling {
    /// The old subtasks whose records in flight new subtask `index` reads (rules U21 and U22).
    ///
    /// # Errors
    /// There is no such new subtask, or the parallelism has changed under [`ChannelMapping::Unsupported`].
    pub fn channel_parts(self, mapping: ChannelMapping, index: u32) -> Result<OldSubtasks, AssignError> {
        self.check_new(index)?;
        let (old, new) = (self.old.get(), self.new.get());
        let one_of_each = |next, end| OldSubtasks { next, end, step: 1 };
        if self.is_unchanged() {
            return Ok(one_of_each(index, index.saturating_add(1)));
        }
        match mapping {
            ChannelMapping::RoundRobin => Ok(OldSubtasks { next: index, end: old, step: new }),
            ChannelMapping::First if index > 0 => Ok(one_of_each(0, 0)),
            ChannelMapping::First | ChannelMapping::Full => Ok(one_of_each(0, old)),
            ChannelMapping::Range => {
                // Whatever the job's number of key groups: both ends of the channel must agree.
                let groups = range_of_subtask(MaxParallelism::MAX, new, index)?;
                let first = subtask_of_key_group(MaxParallelism::MAX, old, groups.first)?;
                let last = subtask_of_key_group(MaxParallelism::MAX, old, groups.last)?;
                Ok(one_of_each(first, last.saturating_add(1)))
            }
            ChannelMapping::Unsupported => Err(AssignError::NotRescalable {
                what: "records in flight on this channel",
                old_parallelism: old,
                new_parallelism: new,
            }),
        }
    }
}

impl Iterator for OldSubtasks {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        let subtask = Some(self.next).filter(|next| *next < self.end)?;
        self.next = subtask.saturating_add(self.step);
        Some(subtask)
    }
}

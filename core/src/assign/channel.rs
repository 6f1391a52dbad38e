use super::{AssignError, Rescaling};
use crate::key_group::{MaxParallelism, range_of_subtask, subtask_of_key_group};

/// How records in flight find a new subtask when the number of subtasks changes; it follows from how the
/// channel's records are partitioned (rule U22).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChannelMapping {
    /// Each old subtask's go to one new subtask, in turn.
    RoundRobin,
    /// Each old subtask's go to one new subtask: any will do. In turn, as Flink does.
    Arbitrary,
    /// The first new subtask gets all.
    First,
    /// Every new subtask gets all and keeps its own (rule U24).
    Full,
    /// A new subtask gets those of all old ones that shared a key group with it, and keeps its own (rule U24).
    Range,
    /// They cannot be given to another.
    Unsupported,
}

impl ChannelMapping {
    /// Whether several new subtasks read the same records (rule U24).
    #[must_use]
    pub const fn is_ambiguous(self) -> bool {
        matches!(self, Self::Full | Self::Range)
    }
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
            ChannelMapping::RoundRobin | ChannelMapping::Arbitrary => {
                Ok(OldSubtasks { next: index, end: old, step: new })
            }
            ChannelMapping::First if index > 0 => Ok(one_of_each(0, 0)),
            ChannelMapping::First | ChannelMapping::Full => Ok(one_of_each(0, old)),
            ChannelMapping::Range => {
                // Flink counts in 32768 key groups whatever the job's number. Unless that divides them, as the
                // default does, it may miss an old subtask, so what the job's own number says is read, too.
                let (first, last) = self.sharing_with(MaxParallelism::MAX, index)?;
                let (own_first, own_last) = self.sharing_with(self.max_parallelism, index)?;
                Ok(one_of_each(first.min(own_first), last.max(own_last).saturating_add(1)))
            }
            ChannelMapping::Unsupported => Err(AssignError::NotRescalable {
                what: "records in flight on this channel",
                old_parallelism: old,
                new_parallelism: new,
            }),
        }
    }

    /// The first and last old subtask that shares one of so many key groups with new subtask `index`.
    pub(super) fn sharing_with(
        self,
        max_parallelism: MaxParallelism,
        index: u32,
    ) -> Result<(u32, u32), AssignError> {
        let groups = range_of_subtask(max_parallelism, self.new.get(), index)?;
        let owner = |group| subtask_of_key_group(max_parallelism, self.old.get(), group);
        Ok((owner(groups.first)?, owner(groups.last)?))
    }

    /// Whether new subtask `index` keeps a record that it replays and that the partitioner, asked again, sends to new
    /// subtask `chosen` (rule U24). Where several read the same records, each keeps its own.
    #[must_use]
    pub const fn keeps_replayed(self, mapping: ChannelMapping, index: u32, chosen: u32) -> bool {
        index == chosen || self.is_unchanged() || !mapping.is_ambiguous()
    }

    /// The mapping for all inputs of an operator, or all outputs (rule U26): they are stored by old subtask, so each new
    /// subtask must read the same ones for every input. None if there are no inputs.
    ///
    /// # Errors
    /// `ConflictingMappings`; `NotRescalable` as for [`channel_parts`](Self::channel_parts).
    pub fn common_mapping(self, mappings: &[ChannelMapping]) -> Result<Option<ChannelMapping>, AssignError> {
        let Some((first, others)) = mappings.split_first() else { return Ok(None) };
        for other in others.iter().filter(|other| *other != first) {
            for index in 0..self.new.get() {
                if !self.channel_parts(*first, index)?.eq(self.channel_parts(*other, index)?) {
                    return Err(AssignError::ConflictingMappings { one: *first, other: *other });
                }
            }
        }
        self.channel_parts(*first, 0).map(|_| Some(*first))
    }
}

/// The old channels whose records in flight are replayed on one new channel, as pairs of sender and receiver: every
/// one between the old subtasks that its two ends stand for. Both ends work out the same.
pub fn old_channels(senders: OldSubtasks, receivers: OldSubtasks) -> impl Iterator<Item = (u32, u32)> {
    senders.flat_map(move |sender| receivers.clone().map(move |receiver| (sender, receiver)))
}

/// Checks that records in flight were stored with the head of a chain alone (rule U20), since it reads the channels:
/// `stored` says for each operator of a chain, head first, whether there are any. Nothing is stored at a chain's tail,
/// because the queue behind it is its receiver's.
///
/// # Errors
/// `InFlightBehindHead`: the operators were chained otherwise when the checkpoint was taken.
pub fn check_in_flight_owners(stored: impl IntoIterator<Item = bool>) -> Result<(), AssignError> {
    match stored.into_iter().skip(1).position(|is_stored| is_stored) {
        Some(behind) => Err(AssignError::InFlightBehindHead { position: behind.saturating_add(1) }),
        None => Ok(()),
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

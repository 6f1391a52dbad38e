//! Edges between operators: how their records find a subtask, and what that means for records in flight.

use core::fmt;

use crate::assign::ChannelMapping;

/// How the records of an edge are spread over the subtasks that receive them (Flink: `StreamPartitioner`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Partitioner {
    /// To the subtask of the same index.
    Forward,
    /// In turn to the few subtasks that belong to the sender.
    Rescale,
    /// To every subtask.
    Broadcast,
    /// To the owner of the record's key group.
    KeyGroup,
    /// In turn to all subtasks.
    Rebalance,
    /// To any subtask, at random.
    Shuffle,
    /// To the first subtask.
    Global,
    /// To the subtask that a function of the job names.
    Custom,
}

impl Partitioner {
    /// How the records in flight of an old receiver find a new one (rule U23).
    #[must_use]
    pub const fn receiver_mapping(self) -> ChannelMapping {
        match self {
            Self::Forward | Self::Rescale | Self::Broadcast => ChannelMapping::Unsupported,
            Self::KeyGroup => ChannelMapping::Range,
            Self::Rebalance | Self::Shuffle => ChannelMapping::RoundRobin,
            Self::Global => ChannelMapping::First,
            Self::Custom => ChannelMapping::Full,
        }
    }

    /// Which new sender stands for an old one (rule U23): any will do, unless a receiver has its own senders.
    #[must_use]
    pub const fn sender_mapping(self) -> ChannelMapping {
        match self {
            Self::Forward | Self::Rescale | Self::Broadcast => ChannelMapping::Unsupported,
            Self::KeyGroup | Self::Rebalance | Self::Shuffle | Self::Global | Self::Custom => {
                ChannelMapping::Arbitrary
            }
        }
    }
}

/// An edge between two operators that are not chained.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edge {
    /// The operator that receives, as the job counts them.
    pub receiver: u16,
    /// How its records are spread.
    pub partitioner: Partitioner,
    /// Whether it leads from the writer of a sink to its committer, which relies on the order of barrier and output.
    pub is_to_committer: bool,
    /// Whether it leads back to an operator before its sender.
    pub is_feedback: bool,
}

impl Edge {
    /// Whether records in flight on it could be given to other subtasks, as far as the edge itself is concerned.
    const fn lets_overtake(self) -> bool {
        !matches!(self.partitioner.receiver_mapping(), ChannelMapping::Unsupported) && !self.is_to_committer
    }
}

/// Says for each of `edges`, in order, whether barriers must keep their place on it although the job lets them overtake
/// elsewhere (rule U27): on a broadcast or pointwise edge, on one to a committer, and on every edge to an operator that
/// has such an edge among its inputs. `is_forced` allows what nobody vouches for: iterations and custom partitioners.
///
/// That checkpoints are exactly-once, one at a time and no savepoints is for the options to see to.
///
/// # Errors
/// [`UnalignedRefused`]: an edge needs `is_forced`.
pub fn forced_aligned(
    edges: &[Edge],
    is_forced: bool,
) -> Result<impl Iterator<Item = bool> + '_, UnalignedRefused> {
    let unsure = |edge: &Edge| edge.is_feedback || edge.partitioner == Partitioner::Custom;
    if let Some(edge) = edges.iter().position(unsure).filter(|_| !is_forced) {
        return Err(UnalignedRefused { edge });
    }
    let keeps_order = |receiver| edges.iter().any(|edge| edge.receiver == receiver && !edge.lets_overtake());
    Ok(edges.iter().map(move |edge| keeps_order(edge.receiver)))
}

/// Barriers may overtake on this edge only if the job insists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnalignedRefused {
    /// Which edge, counted from 0.
    pub edge: usize,
}

impl fmt::Display for UnalignedRefused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let edge = self.edge;
        write!(
            f,
            "unaligned checkpoints are not safe with the iteration or custom partitioner of edge {edge}: force them, or do without"
        )
    }
}

impl core::error::Error for UnalignedRefused {}

#[cfg(test)]
mod tests {
    use std::string::ToString;
    use std::vec::Vec;

    use super::{Edge, Partitioner, UnalignedRefused, forced_aligned};
    use crate::assign::ChannelMapping;

    use ChannelMapping::{Arbitrary, First, Full, Range, RoundRobin, Unsupported};
    use Partitioner::{Broadcast, Custom, Forward, Global, KeyGroup, Rebalance, Rescale, Shuffle};

    fn edge(receiver: u16, partitioner: Partitioner) -> Edge {
        Edge { receiver, partitioner, is_to_committer: false, is_feedback: false }
    }

    fn forced(edges: &[Edge]) -> Vec<bool> {
        forced_aligned(edges, true).unwrap().collect()
    }

    #[test]
    fn u23_the_mapping_follows_from_the_partitioner() {
        let table = [
            (Forward, Unsupported, Unsupported),
            (Rescale, Unsupported, Unsupported),
            (Broadcast, Unsupported, Unsupported),
            (KeyGroup, Range, Arbitrary),
            (Rebalance, RoundRobin, Arbitrary),
            (Shuffle, RoundRobin, Arbitrary),
            (Global, First, Arbitrary),
            (Custom, Full, Arbitrary),
        ];
        for (partitioner, receiver, sender) in table {
            let found = (partitioner.receiver_mapping(), partitioner.sender_mapping());
            assert_eq!(found, (receiver, sender), "{partitioner:?}");
        }
    }

    #[test]
    fn u27_edges_that_cannot_be_rescaled_stay_aligned() {
        for (partitioner, stays) in [
            (Forward, true),
            (Rescale, true),
            (Broadcast, true),
            (KeyGroup, false),
            (Rebalance, false),
            (Shuffle, false),
            (Global, false),
            (Custom, false),
        ] {
            assert_eq!(forced(&[edge(1, partitioner)]), [stays], "{partitioner:?}");
        }
        let committer = Edge { is_to_committer: true, ..edge(1, Rebalance) };
        assert_eq!(forced(&[committer]), [true]);
    }

    #[test]
    fn u27_one_such_edge_keeps_all_inputs_of_its_receiver_aligned() {
        let edges =
            [edge(1, KeyGroup), edge(2, KeyGroup), edge(1, Broadcast), edge(3, Rebalance), edge(2, Forward)];
        assert_eq!(forced(&edges), [true, true, true, false, true]);
        assert_eq!(forced(&[]), []);
    }

    #[test]
    fn u27_iterations_and_custom_partitioners_must_be_forced() {
        let feedback = Edge { is_feedback: true, ..edge(1, Rebalance) };
        for unsure in [feedback, edge(4, Custom)] {
            let edges = [edge(1, KeyGroup), unsure];
            let refused = forced_aligned(&edges, false).err();
            assert_eq!(refused, Some(UnalignedRefused { edge: 1 }));
            assert!(refused.unwrap().to_string().contains("of edge 1"));
            assert_eq!(forced(&edges), [false, false]);
        }
        assert!(forced_aligned(&[edge(1, KeyGroup)], false).is_ok());
    }
}

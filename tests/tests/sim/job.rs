//! The graph of a simulated job: sources, operators with state by key, sinks.

use slackwater_core::assign::{AssignError, ChannelMapping, Rescaling};
use slackwater_core::coordinator::{Edge as GraphEdge, EdgePattern, JobGraph};
use slackwater_core::edge::{Edge, Partitioner, forced_aligned};
use slackwater_core::key_group::{
    KeyGroup, MaxParallelism, hash_of_i32, key_group_of_hash, range_of_subtask, subtask_of_key_group,
};
use slackwater_tests::rng::Rng;

use crate::record::{Record, SPLIT_SPAN, Split, key_of, mix};

pub(crate) type Graph = JobGraph<1, 8, 8>;

/// A job has this many tasks at least and at most.
const TASKS: std::ops::RangeInclusive<u16> = 3..=6;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Source,
    Keyed,
    Sink,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct JobEdge {
    pub(crate) from: u16,
    pub(crate) to: u16,
    pub(crate) partitioner: Partitioner,
    /// Barriers keep their place on it.
    pub(crate) is_forced: bool,
}

/// A job; the parallelism changes from restart to restart, nothing else does.
#[derive(Clone, Debug)]
pub(crate) struct Job {
    pub(crate) kinds: Vec<Kind>,
    pub(crate) edges: Vec<JobEdge>,
    pub(crate) parallelism: Vec<u16>,
    pub(crate) max_parallelism: MaxParallelism,
    /// The input of each vertex; nothing but for sources.
    pub(crate) splits: Vec<Vec<Split>>,
}

use Kind::{Keyed, Sink, Source};

type Shape = (&'static [Kind], &'static [(u16, u16)]);

const SHAPES: [Shape; 6] = [
    (&[Source, Keyed, Sink], &[(0, 1), (1, 2)]),
    (&[Source, Source, Keyed, Sink], &[(0, 2), (1, 2), (2, 3)]),
    (&[Source, Keyed, Keyed, Sink], &[(0, 1), (1, 2), (2, 3)]),
    (&[Source, Keyed, Sink, Sink], &[(0, 1), (1, 2), (1, 3)]),
    (&[Source, Keyed, Keyed, Sink], &[(0, 1), (0, 2), (1, 3), (2, 3)]),
    (&[Source, Source, Keyed, Keyed, Sink], &[(0, 2), (1, 2), (1, 3), (2, 4), (3, 4)]),
];

impl Job {
    pub(crate) fn random(rng: &mut Rng) -> Self {
        let (kinds, edges) = SHAPES[rng.index(SHAPES.len())];
        let groups = [6, 8, 12, 128, 196][rng.index(5)];
        let mut job = Self {
            kinds: kinds.to_vec(),
            edges: Vec::new(),
            parallelism: Vec::new(),
            max_parallelism: MaxParallelism::new(groups).expect("it is within bounds"),
            splits: Vec::new(),
        };
        let to_sinks: Vec<_> = kinds.iter().map(|_| to_sink(rng)).collect();
        for &(from, to) in edges {
            let is_keyed = kinds[usize::from(to)] == Keyed;
            let partitioner = if is_keyed { Partitioner::KeyGroup } else { to_sinks[usize::from(to)] };
            job.edges.push(JobEdge { from, to, partitioner, is_forced: false });
        }
        job.mark_forced();
        for (vertex, kind) in (0..).zip(kinds) {
            job.splits.push(if *kind == Source { splits(vertex, rng) } else { Vec::new() });
        }
        job.rescale(rng);
        job
    }

    fn mark_forced(&mut self) {
        let edge = |edge: &JobEdge| Edge {
            receiver: edge.to,
            partitioner: edge.partitioner,
            is_to_committer: false,
            is_feedback: false,
        };
        let edges: Vec<_> = self.edges.iter().map(edge).collect();
        let forced: Vec<_> = forced_aligned(&edges, true).expect("it was forced").collect();
        self.edges.iter_mut().zip(forced).for_each(|(edge, is_forced)| edge.is_forced = is_forced);
    }

    /// Another parallelism, perhaps the same.
    pub(crate) fn rescale(&mut self, rng: &mut Rng) {
        loop {
            self.parallelism = self.kinds.iter().map(|_| narrow(1 + rng.index(3))).collect();
            for edge in &self.edges {
                if edge.partitioner == Partitioner::Forward {
                    self.parallelism[usize::from(edge.to)] = self.parallelism[usize::from(edge.from)];
                }
            }
            let fits = |edge: &JobEdge| {
                edge.partitioner != Partitioner::Forward
                    || self.parallelism_of(edge.from) == self.parallelism_of(edge.to)
            };
            if TASKS.contains(&self.task_count()) && self.edges.iter().all(fits) {
                return;
            }
        }
    }

    pub(crate) fn task_count(&self) -> u16 {
        self.parallelism.iter().sum()
    }

    pub(crate) fn parallelism_of(&self, vertex: u16) -> u16 {
        self.parallelism[usize::from(vertex)]
    }

    pub(crate) fn kind_of(&self, vertex: u16) -> Kind {
        self.kinds[usize::from(vertex)]
    }

    pub(crate) fn vertices(&self) -> impl Iterator<Item = u16> + use<> {
        0..narrow(self.kinds.len())
    }

    /// Vertex and subtask of every task, in order.
    pub(crate) fn tasks(&self) -> impl Iterator<Item = (u16, u16)> + '_ {
        self.vertices().flat_map(|vertex| (0..self.parallelism_of(vertex)).map(move |index| (vertex, index)))
    }

    pub(crate) fn task_of(&self, vertex: u16, subtask: u16) -> u16 {
        self.parallelism.iter().take(usize::from(vertex)).sum::<u16>() + subtask
    }

    /// The channels that lead to a subtask: the edge and the sender's subtask of each.
    pub(crate) fn channels_to(&self, vertex: u16, subtask: u16) -> Vec<(usize, u16)> {
        let mut channels = Vec::new();
        for (number, edge) in self.edges.iter().enumerate().filter(|(_, edge)| edge.to == vertex) {
            let senders = 0..self.parallelism_of(edge.from);
            let reads = |sender: &u16| edge.partitioner != Partitioner::Forward || *sender == subtask;
            channels.extend(senders.filter(reads).map(|sender| (number, sender)));
        }
        channels
    }

    pub(crate) fn graph(&self) -> Graph {
        let mut graph = Graph::new();
        for parallelism in &self.parallelism {
            graph.add_vertex(*parallelism).expect("the graph has room");
        }
        for JobEdge { from, to, partitioner, .. } in &self.edges {
            let is_forward = *partitioner == Partitioner::Forward;
            let pattern = if is_forward { EdgePattern::Pointwise } else { EdgePattern::AllToAll };
            graph.add_edge(GraphEdge { from: *from, to: *to, pattern }).expect("the graph has room");
        }
        graph
    }

    pub(crate) fn key_group(&self, vertex: u16, record: Record) -> KeyGroup {
        let key = key_of(vertex, record.id);
        key_group_of_hash(hash_of_i32(key.cast_signed()), self.max_parallelism)
    }

    /// Which subtask of the receiver a record goes to; `turn` counts what the sender has sent on the edge.
    pub(crate) fn route(&self, edge: JobEdge, sender: u16, turn: u16, record: Record) -> u16 {
        let parallelism = self.parallelism_of(edge.to);
        match edge.partitioner {
            Partitioner::KeyGroup => {
                let group = self.key_group(edge.to, record);
                let owner = subtask_of_key_group(self.max_parallelism, parallelism.into(), group);
                narrow(owner.expect("the group is the job's") as usize)
            }
            Partitioner::Custom => narrow(mix(record.id ^ 77) as usize % usize::from(parallelism)),
            Partitioner::Forward => sender,
            Partitioner::Global => 0,
            Partitioner::Rebalance | Partitioner::Shuffle | Partitioner::Rescale | Partitioner::Broadcast => {
                turn % parallelism
            }
        }
    }

    /// From the parallelism of the vertex in `old` to that in this job.
    pub(crate) fn rescaling(&self, vertex: u16, old: &[u16]) -> Result<Rescaling, AssignError> {
        let new = self.parallelism_of(vertex);
        Rescaling::new(self.max_parallelism, old[usize::from(vertex)].into(), new.into())
    }

    pub(crate) fn owns(&self, vertex: u16, subtask: u16, group: KeyGroup) -> bool {
        let range =
            range_of_subtask(self.max_parallelism, self.parallelism_of(vertex).into(), subtask.into());
        range.expect("the subtask is there").contains(group)
    }

    /// How records in flight find their receiver, the same for all inputs of a vertex (rule U26).
    pub(crate) fn mapping_of(
        &self,
        vertex: u16,
        rescaling: Rescaling,
    ) -> Result<ChannelMapping, AssignError> {
        let edges = self.edges.iter().filter(|edge| edge.to == vertex);
        let mappings: Vec<_> = edges.map(|edge| edge.partitioner.receiver_mapping()).collect();
        Ok(rescaling.common_mapping(&mappings)?.unwrap_or(ChannelMapping::Unsupported))
    }
}

fn to_sink(rng: &mut Rng) -> Partitioner {
    use Partitioner::{Custom, Forward, Global, KeyGroup, Rebalance};
    [Rebalance, Rebalance, Custom, KeyGroup, Global, Forward][rng.index(6)]
}

fn splits(vertex: u32, rng: &mut Rng) -> Vec<Split> {
    let split = |number: u32| {
        let next = (vertex * 8 + number) * SPLIT_SPAN;
        Split { next, end: next + 20 + u32::try_from(rng.below(60)).expect("it is small") }
    };
    let count = 2 + vertex % 2;
    (0..count).map(split).collect()
}

pub(crate) fn narrow(value: usize) -> u16 {
    u16::try_from(value).expect("there are few of everything")
}

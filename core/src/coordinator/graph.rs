//! What the coordinator has to know of a job's graph (Flink: `DefaultCheckpointPlanCalculator`).

use core::fmt;

use heapless::Vec;

use super::TaskSet;
use crate::ids::TaskIndex;

/// Tasks, the vertices that they are subtasks of, and who reads from whom.
pub trait Graph<const TASK_WORDS: usize> {
    /// Whether predecessors are what they really are; if not, no task may finish before the job.
    const KNOWS_EDGES: bool;

    /// Every task.
    fn tasks(&self) -> TaskSet<TASK_WORDS>;

    /// The tasks from which `task` reads.
    fn predecessors(&self, task: TaskIndex) -> TaskSet<TASK_WORDS>;

    /// The subtasks of the vertex that `task` belongs to.
    fn vertex(&self, task: TaskIndex) -> TaskSet<TASK_WORDS>;
}

/// Tasks of which some are sources: all there is to know while no task finishes before the job does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sources<const TASK_WORDS: usize> {
    /// Every task.
    pub tasks: TaskSet<TASK_WORDS>,
    /// Those that read from no other.
    pub sources: TaskSet<TASK_WORDS>,
}

impl<const TASK_WORDS: usize> Graph<TASK_WORDS> for Sources<TASK_WORDS> {
    const KNOWS_EDGES: bool = false;

    fn tasks(&self) -> TaskSet<TASK_WORDS> {
        self.tasks
    }

    fn predecessors(&self, task: TaskIndex) -> TaskSet<TASK_WORDS> {
        if self.sources.contains(task.0) { TaskSet::empty() } else { self.sources }
    }

    fn vertex(&self, task: TaskIndex) -> TaskSet<TASK_WORDS> {
        core::iter::once(task.0).collect()
    }
}

/// Which subtasks of the upstream vertex a subtask reads from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EdgePattern {
    /// A share of them; with the same parallelism the one of the same index.
    Pointwise,
    /// All of them.
    AllToAll,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Vertex {
    first: u16,
    parallelism: u16,
}

/// An edge of the job's graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edge {
    /// The vertex that writes.
    pub from: u16,
    /// The vertex that reads.
    pub to: u16,
    /// Who reads from whom.
    pub pattern: EdgePattern,
}

/// Why a vertex or an edge cannot be added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InvalidGraph {
    /// There is no room for another vertex, or for so many tasks.
    TooManyTasks,
    /// There is no room for another edge.
    TooManyEdges,
    /// A vertex needs a task.
    NoTasks,
    /// An edge has to lead from one vertex to a later one.
    NotForwards,
}

impl fmt::Display for InvalidGraph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TooManyTasks => "the graph has no room for this vertex: give it more words or vertices",
            Self::TooManyEdges => "the graph has no room for this edge: give it more edges",
            Self::NoTasks => "a vertex needs at least one task",
            Self::NotForwards => "an edge must lead from a vertex to one that was added after it",
        })
    }
}

impl core::error::Error for InvalidGraph {}

/// Up to `VERTICES` vertices and `EDGES` edges. Vertices are added in topological order; their tasks are numbered
/// in the same order.
#[derive(Clone, Debug, Default)]
pub struct JobGraph<const TASK_WORDS: usize, const VERTICES: usize, const EDGES: usize> {
    vertices: Vec<Vertex, VERTICES>,
    edges: Vec<Edge, EDGES>,
    task_count: u16,
}

impl<const TASK_WORDS: usize, const VERTICES: usize, const EDGES: usize>
    JobGraph<TASK_WORDS, VERTICES, EDGES>
{
    /// A graph of nothing.
    #[must_use]
    pub const fn new() -> Self {
        Self { vertices: Vec::new(), edges: Vec::new(), task_count: 0 }
    }

    /// Adds a vertex of `parallelism` subtasks and gives its number.
    ///
    /// # Errors
    /// [`InvalidGraph`]; the graph is unchanged.
    pub fn add_vertex(&mut self, parallelism: u16) -> Result<u16, InvalidGraph> {
        if parallelism == 0 {
            return Err(InvalidGraph::NoTasks);
        }
        let count = self.task_count.checked_add(parallelism).ok_or(InvalidGraph::TooManyTasks)?;
        let number = u16::try_from(self.vertices.len()).map_err(|_| InvalidGraph::TooManyTasks)?;
        if usize::from(count) > TaskSet::<TASK_WORDS>::CAPACITY {
            return Err(InvalidGraph::TooManyTasks);
        }
        let vertex = Vertex { first: self.task_count, parallelism };
        self.vertices.push(vertex).map_err(|_| InvalidGraph::TooManyTasks)?;
        self.task_count = count;
        Ok(number)
    }

    /// Adds an edge.
    ///
    /// # Errors
    /// [`InvalidGraph`]; the graph is unchanged.
    pub fn add_edge(&mut self, edge: Edge) -> Result<(), InvalidGraph> {
        if edge.from >= edge.to || usize::from(edge.to) >= self.vertices.len() {
            return Err(InvalidGraph::NotForwards);
        }
        self.edges.push(edge).map_err(|_| InvalidGraph::TooManyEdges)
    }

    /// The edges that lead to a vertex.
    pub(super) fn edges_to(&self, vertex: u16) -> impl Iterator<Item = Edge> + '_ {
        self.edges.iter().filter(move |edge| edge.to == vertex).copied()
    }

    /// How many vertices there are.
    #[must_use]
    pub fn vertex_count(&self) -> u16 {
        u16::try_from(self.vertices.len()).unwrap_or(u16::MAX)
    }

    fn find(&self, task: TaskIndex) -> Option<(u16, Vertex)> {
        let vertices = (0u16..).zip(&self.vertices).map(|(number, vertex)| (number, *vertex));
        vertices.take_while(|(_, vertex)| vertex.first <= task.0).last()
    }
}

impl<const TASK_WORDS: usize, const VERTICES: usize, const EDGES: usize> Graph<TASK_WORDS>
    for JobGraph<TASK_WORDS, VERTICES, EDGES>
{
    const KNOWS_EDGES: bool = true;

    fn tasks(&self) -> TaskSet<TASK_WORDS> {
        TaskSet::first(self.task_count.into())
    }

    /// Rule T36.
    fn predecessors(&self, task: TaskIndex) -> TaskSet<TASK_WORDS> {
        let Some((number, reader)) = self.find(task) else { return TaskSet::empty() };
        let index = u32::from(task.0.wrapping_sub(reader.first));
        let read = self.edges_to(number).filter_map(|edge| {
            let writer = self.vertices.get(usize::from(edge.from))?;
            Some(writer.read_by(index, reader, edge.pattern))
        });
        read.flatten().collect()
    }

    fn vertex(&self, task: TaskIndex) -> TaskSet<TASK_WORDS> {
        self.find(task).into_iter().flat_map(|(_, vertex)| vertex.tasks()).collect()
    }
}

impl Vertex {
    fn tasks(self) -> core::ops::Range<u16> {
        self.first..self.first.saturating_add(self.parallelism)
    }

    /// The tasks of this vertex from which subtask `index` of `reader` reads.
    fn read_by(self, index: u32, reader: Self, pattern: EdgePattern) -> core::ops::Range<u16> {
        if pattern == EdgePattern::AllToAll {
            return self.tasks();
        }
        let share = |index: u32| {
            let scaled = index.saturating_mul(self.parallelism.into());
            scaled.checked_div(reader.parallelism.into()).and_then(|at| u16::try_from(at).ok())
        };
        let first = share(index).unwrap_or(0);
        let end = share(index.saturating_add(1)).unwrap_or(0).max(first.saturating_add(1));
        self.first.saturating_add(first)..self.first.saturating_add(end)
    }
}

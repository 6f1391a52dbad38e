//! Which operators of a job take over what a checkpoint has, as `core::assign` decides.

use slackwater_core::assign::{
    AssignError, JobOperator, MatchError, NonRestored, StoredOperator, operator_of, restore_chain,
};
use slackwater_core::coordinator::{Edge, EdgePattern, FinishedState, InvalidGraph, JobGraph};
use slackwater_core::ids::CheckpointId;
use slackwater_core::key_group::{InvalidParallelism, MaxParallelism};

use crate::checkpoint::{Manifest, RestoredStates, VertexPart};
use crate::error::JobError;
use crate::graph::{JobBuilder, Vertex};

/// Whether a checkpoint fits this job (rules R1 to R6 and P37). Gives what is dropped of it, a sentence for each operator.
///
/// # Errors
/// The first thing that does not fit.
pub(super) fn check(
    manifest: &Manifest,
    builder: &JobBuilder,
    max_parallelism: MaxParallelism,
    allow_non_restored: bool,
) -> Result<Vec<String>, JobError> {
    let checkpoint = manifest.id;
    let other = |what| JobError::OtherJob { checkpoint, what };
    if manifest.job_name != builder.name {
        return Err(other(format!("it is of {}, this is {}", manifest.job_name, builder.name)));
    }
    let stored = stored_operators(manifest).map_err(|error| other(error.to_string()))?;
    let chains: Vec<Vec<_>> =
        builder.vertices.iter().map(|vertex| chain(vertex, builder, max_parallelism)).collect();
    let dropped = check_operators(checkpoint, &stored, &chains, allow_non_restored)?;
    for (vertex, chain) in builder.vertices.iter().zip(&chains) {
        check_key(vertex, chain, &stored).map_err(other)?;
        restore_chain(chain, &stored, max_parallelism).map_err(|error| does_not_fit(checkpoint, error))?;
    }
    let states = RestoredStates::new(Some(manifest), &[]).with_previous(&builder.previous);
    check_in_flight(manifest, builder, &states).map_err(other)?;
    check_finished(builder, &states).map_err(other)?;
    Ok(dropped)
}

/// The operators of which a checkpoint has state. Keyed state is that of the first operator of a vertex.
fn stored_operators(manifest: &Manifest) -> Result<Vec<StoredOperator<&str>>, InvalidParallelism> {
    let max_parallelism = MaxParallelism::new(manifest.max_parallelism.into())?;
    let mut stored: Vec<StoredOperator<&str>> = Vec::new();
    for vertex in &manifest.vertices {
        let parallelism = u32::try_from(vertex.subtasks.len()).unwrap_or(u32::MAX);
        let is_keyed = vertex.subtasks.iter().any(|subtask| subtask.segment.is_some());
        let inline = vertex.subtasks.iter().flat_map(|subtask| &subtask.inline);
        let first = is_keyed.then_some(vertex.name.as_str());
        for id in first.into_iter().chain(inline.map(|state| state.operator.as_str())) {
            if !stored.iter().any(|operator| operator.id == id) {
                let is_keyed = is_keyed && id == vertex.name;
                stored.push(StoredOperator { id, parallelism, max_parallelism, has_state: true, is_keyed });
            }
        }
    }
    Ok(stored)
}

/// The operators of a vertex.
fn chain<'j>(
    vertex: &'j Vertex,
    builder: &'j JobBuilder,
    max_parallelism: MaxParallelism,
) -> Vec<JobOperator<&'j str>> {
    let parallelism = u32::try_from(vertex.signals.len()).unwrap_or(u32::MAX);
    let operator = |id: &'j String| JobOperator {
        id: id.as_str(),
        other_id: builder.previous.of(id),
        parallelism,
        max_parallelism: Some(max_parallelism),
    };
    vertex.operators.iter().map(operator).collect()
}

/// State without an operator would be lost silently (rule R3).
fn check_operators(
    checkpoint: CheckpointId,
    stored: &[StoredOperator<&str>],
    chains: &[Vec<JobOperator<&str>>],
    allow_non_restored: bool,
) -> Result<Vec<String>, JobError> {
    let job: Vec<_> = chains.iter().flatten().copied().collect();
    let non_restored = if allow_non_restored { NonRestored::Dropped } else { NonRestored::RefusedIfAny };
    let mut dropped = Vec::new();
    for operator in stored {
        match operator_of(operator, &job, non_restored) {
            Ok(Some(_)) => {}
            Ok(None) => dropped.push(dropped_state(checkpoint, &format!("operator {}", operator.id))),
            Err(error) => return Err(does_not_fit(checkpoint, error)),
        }
    }
    Ok(dropped)
}

/// Tells the user of state whose owner the job does not have.
pub(super) fn dropped_state(checkpoint: CheckpointId, owner: &str) -> String {
    format!("dropped what checkpoint {checkpoint} has of {owner}, which is not in the job")
}

/// Keyed state lies with the first operator of a vertex, which must have keys now.
fn check_key(
    vertex: &Vertex,
    chain: &[JobOperator<&str>],
    stored: &[StoredOperator<&str>],
) -> Result<(), String> {
    let without_key = chain.iter().skip(usize::from(vertex.is_keyed));
    for operator in without_key {
        let is_it = |stored: &StoredOperator<&str>| {
            let found = operator_of(stored, chain, NonRestored::Dropped);
            matches!(found, Ok(Some(found)) if found.id == operator.id)
        };
        if stored.iter().any(|stored| stored.is_keyed && is_it(stored)) {
            return Err(format!("operator {} has no keyed state here", operator.id));
        }
    }
    Ok(())
}

/// Records in flight were on their way to the first operator of a vertex, which must be the first of one now (rule U20).
fn check_in_flight(
    manifest: &Manifest,
    builder: &JobBuilder,
    states: &RestoredStates<'_>,
) -> Result<(), String> {
    let is_read = |name: &str| {
        let mut readers = builder.vertices.iter().filter(|vertex| !vertex.is_source);
        readers.any(|vertex| states.stored_name(&vertex.name) == name)
    };
    let has_some = |stored: &&VertexPart| stored.subtasks.iter().any(|part| part.in_flight.is_some());
    match manifest.vertices.iter().filter(has_some).find(|stored| !is_read(&stored.name)) {
        None => Ok(()),
        Some(stored) => Err(format!(
            "records are in flight to operator {}, which is not the first of a chain here: a savepoint has none",
            stored.name
        )),
    }
}

/// Who has emitted everything must not be sent anything (rule P37). A vertex that had finished in part goes on from all of
/// its state, so it counts as running.
fn check_finished(builder: &JobBuilder, states: &RestoredStates<'_>) -> Result<(), String> {
    let mut before: Option<(&Vertex, FinishedState)> = None;
    for vertex in &builder.vertices {
        let Some(is_drained) = states.is_drained(&vertex.operators) else {
            return Err(format!(
                "some operators chained behind {} had finished, others had not",
                vertex.name
            ));
        };
        let state = if is_drained { FinishedState::Fully } else { FinishedState::Running };
        if let Some((from, from_state)) = before.filter(|_| !vertex.is_source) {
            let graph = pair().expect("there is room for two vertices and an edge between them");
            if graph.check_finished(&[from_state, state]).is_err() {
                return Err(format!(
                    "operator {} had finished, but {}, from which it reads, would go on",
                    vertex.name, from.name
                ));
            }
        }
        before = Some((vertex, state));
    }
    Ok(())
}

/// Two vertices of which one reads from the other.
fn pair() -> Result<JobGraph<1, 2, 1>, InvalidGraph> {
    let mut graph = JobGraph::new();
    let (from, to) = (graph.add_vertex(1)?, graph.add_vertex(1)?);
    graph.add_edge(Edge { from, to, pattern: EdgePattern::AllToAll })?;
    Ok(graph)
}

fn does_not_fit(checkpoint: CheckpointId, error: MatchError<&str>) -> JobError {
    match error {
        MatchError::NoOperator { operator } => {
            JobError::NonRestoredState { checkpoint, owner: format!("operator {operator}") }
        }
        MatchError::Assign { error: AssignError::MaxParallelismDiffers { stored, wanted }, .. } => {
            JobError::OtherMaxParallelism { checkpoint, recorded: stored.get(), wanted: wanted.get() }
        }
        MatchError::Assign { .. } | MatchError::ChainDisagrees { .. } => {
            JobError::OtherJob { checkpoint, what: error.to_string() }
        }
    }
}

//! Which partitions of a state in the manifest go to which subtask.

use std::collections::BTreeMap;

use slackwater_core::assign::{AssignError, OperatorAssigner, Rescaling};
use slackwater_core::key_group::MaxParallelism;

use super::{InlineState, VertexPart};

/// What new subtask `index` of `parallelism` takes over of a state of an operator (rules R11 to R14).
///
/// # Errors
/// The state is its subtask's own and the parallelism another, or these subtasks cannot be.
pub(super) fn partitions(
    vertex: &VertexPart,
    (operator, name): (&str, &str),
    index: u16,
    parallelism: u16,
) -> Result<Vec<Vec<u8>>, AssignError> {
    let old = u32::try_from(vertex.subtasks.len()).unwrap_or(u32::MAX);
    // Partitions have no key group, so the job's number of them does not matter.
    let rescaling = Rescaling::new(MaxParallelism::MAX, old, parallelism.into())?;
    let mut assigner = OperatorAssigner::new(rescaling);
    for (stored, subtasks) in states(vertex, operator) {
        let Some(mode) = subtasks.iter().flatten().next().map(|state| state.redistribution.mode()) else {
            continue;
        };
        let count = |state: &InlineState| state.partitions.len() as u64;
        let counts: Vec<_> = subtasks.iter().map(|state| state.map(count)).collect();
        let assigned = assigner.next_state(mode, &counts)?;
        if stored == name {
            let parts = assigned.parts(index.into())?;
            return Ok(parts
                .flat_map(|part| {
                    let from = subtasks.get(part.subtask as usize).copied().flatten();
                    let partitions = from.map_or(&[][..], |state| &state.partitions).iter();
                    let (first, count) = (part.partitions.start, part.partitions.end - part.partitions.start);
                    let as_len = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
                    partitions.skip(as_len(first)).take(as_len(count)).cloned()
                })
                .collect());
        }
    }
    Ok(Vec::new())
}

/// The states of an operator by name, as every new subtask has to go through them: where one ends, the next begins.
fn states<'v>(vertex: &'v VertexPart, operator: &str) -> BTreeMap<&'v str, Vec<Option<&'v InlineState>>> {
    let mut states = BTreeMap::new();
    for (index, subtask) in vertex.subtasks.iter().enumerate() {
        for state in subtask.inline.iter().filter(|state| state.operator == operator) {
            let subtasks =
                states.entry(state.name.as_str()).or_insert_with(|| vec![None; vertex.subtasks.len()]);
            if let Some(place) = subtasks.get_mut(index) {
                *place = Some(state);
            }
        }
    }
    states
}

#[cfg(test)]
mod tests {
    use super::partitions;
    use crate::checkpoint::{InlineState, Redistribution, SubtaskPart, VertexPart};

    /// A vertex whose subtasks have so many partitions of each state, numbered through; none of what a subtask is without.
    fn vertex(states: &[(&str, Redistribution, &[Option<u8>])]) -> VertexPart {
        let mut subtasks = vec![SubtaskPart::default(); states[0].2.len()];
        for (name, redistribution, counts) in states {
            let mut next = 0;
            for (subtask, count) in subtasks.iter_mut().zip(*counts) {
                let Some(count) = count else { continue };
                let partitions = (next..next + count).map(|number| vec![number]).collect();
                next += count;
                subtask.inline.push(InlineState {
                    operator: "operator".into(),
                    name: (*name).into(),
                    redistribution: *redistribution,
                    partitions,
                });
            }
        }
        VertexPart { name: "operator".into(), subtasks }
    }

    fn spread(vertex: &VertexPart, name: &str, parallelism: u16) -> Vec<Vec<u8>> {
        let part = |index| partitions(vertex, ("operator", name), index, parallelism).unwrap().concat();
        (0..parallelism).map(part).collect()
    }

    #[test]
    fn r11_the_same_parallelism_leaves_split_state_where_it_is() {
        let vertex = vertex(&[("splits", Redistribution::Split, &[Some(3), Some(1)])]);
        assert_eq!(spread(&vertex, "splits", 2), [vec![0, 1, 2], vec![3]]);
    }

    #[test]
    fn r12_another_parallelism_spreads_split_state_evenly_and_in_order() {
        let big = vertex(&[("splits", Redistribution::Split, &[Some(3), Some(4)])]);
        assert_eq!(spread(&big, "splits", 3), [vec![0, 1, 2], vec![3, 4], vec![5, 6]]);
        assert_eq!(spread(&big, "splits", 1), [vec![0, 1, 2, 3, 4, 5, 6]]);
        let small = vertex(&[("splits", Redistribution::Split, &[Some(2)])]);
        assert_eq!(spread(&small, "splits", 3), [vec![0], vec![1], vec![]]);
    }

    #[test]
    fn r12_a_split_state_begins_where_the_one_before_ran_out() {
        let counts: &[Option<u8>] = &[Some(3), Some(4)];
        let vertex =
            vertex(&[("a", Redistribution::Split, counts), ("b", Redistribution::Split, &[Some(2), None])]);
        assert_eq!(spread(&vertex, "b", 3), [vec![], vec![0], vec![1]]);
    }

    #[test]
    fn r11_r12_union_state_goes_to_everyone_at_any_parallelism() {
        let vertex = vertex(&[("offsets", Redistribution::Union, &[Some(2), Some(1)])]);
        for parallelism in 1..4 {
            assert!(spread(&vertex, "offsets", parallelism).iter().all(|part| *part == [0, 1, 2]));
        }
    }

    #[test]
    fn r11_r12_broadcast_state_goes_to_everyone_once_and_from_those_that_have_it() {
        let vertex = vertex(&[("rules", Redistribution::Broadcast, &[Some(1), None, Some(1)])]);
        assert_eq!(spread(&vertex, "rules", 2), [vec![0], vec![1]]);
        assert_eq!(spread(&vertex, "rules", 3), [vec![0], vec![1], vec![1]], "the second had finished");
    }

    #[test]
    fn state_of_a_subtasks_own_stays_and_is_not_given_to_another() {
        let vertex = vertex(&[("own", Redistribution::Plain, &[Some(1), Some(1)])]);
        assert_eq!(spread(&vertex, "own", 2), [vec![0], vec![1]]);
        let refused = partitions(&vertex, ("operator", "own"), 0, 3).unwrap_err();
        assert!(refused.to_string().contains("from 2 subtasks to 3"), "{refused}");
    }

    #[test]
    fn what_is_not_stored_is_empty() {
        let vertex = vertex(&[("splits", Redistribution::Split, &[Some(1)])]);
        assert_eq!(spread(&vertex, "others", 2), [vec![], Vec::<u8>::new()]);
    }
}

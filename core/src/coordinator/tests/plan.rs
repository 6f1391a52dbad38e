//! Who takes part, and finished tasks: T33 to T37, P35, P36 and P38.

use std::vec;

use super::*;
use EdgePattern::{AllToAll, Pointwise};

const UNION: TaskReport =
    TaskReport { has_state: true, has_union_state: true, is_finished: false, was_deployed_finished: false };

/// Runs a job of this graph in which some tasks have finished.
fn job(graph: Flow, finished: &[u16]) -> Bench {
    let mut bench = Bench::of(MANUAL, graph, CheckpointId::FIRST);
    finished.iter().for_each(|task| drop(bench.set(0, TaskIndex(*task), TaskState::Finished)));
    bench
}

/// The tasks that the next checkpoint triggers.
fn triggered(bench: &mut Bench) -> TaskSet<1> {
    let number = bench.machine.next_id().0;
    match bench.start_kind(0, number, RequestKind::Configured)[..] {
        [Action::TriggerTasks { tasks, .. }] => tasks,
        ref other => panic!("{other:?}"),
    }
}

#[test]
fn t33_every_task_has_to_run_or_to_have_finished_where_that_is_allowed() {
    let reason = FailureReason::NotAllRequiredTasksRunning;
    let refusal = [failed(Some(RequestToken(9)), None, reason)];
    for task in ALL {
        let mut bench = Bench::new(MANUAL);
        bench.set(0, task, TaskState::Pending);
        assert_eq!(bench.request(0, 9), refusal, "{task:?} is pending");
        bench.set(0, task, TaskState::Finished);
        assert!(matches!(bench.request(0, 9)[..], [Action::PrepareLocation { .. }]));
        let mut bench = Bench::new(CoordinatorOptions { checkpoints_after_tasks_finish: false, ..MANUAL });
        bench.set(0, task, TaskState::Finished);
        assert_eq!(bench.request(0, 9), refusal, "{task:?} has finished");
    }
    let mut bench = Bench::new(MANUAL);
    bench.send(0, JobStopped);
    assert_eq!(bench.request(0, 9), refusal, "the job does not run");
}

#[test]
fn t34_with_all_tasks_running_sources_are_triggered_and_everybody_takes_part() {
    let graph = graph(&[2, 1, 3], &[(0, 2, AllToAll), (1, 2, AllToAll)]);
    let mut bench = job(graph, &[]);
    assert_eq!(triggered(&mut bench), set([0, 1, 2]));
    let five: Vec<_> = (0..5).map(TaskIndex).collect();
    assert_eq!(bench.acknowledge(0, 1, &five), []);
    assert_eq!(bench.acknowledge(0, 1, &[TaskIndex(5)]), [persist(1)]);
}

#[test]
fn t35_a_running_task_without_running_predecessors_is_triggered() {
    // Two sources, a task behind both, one behind that.
    let graph = graph(&[2, 1, 2, 1], &[(0, 2, AllToAll), (1, 2, AllToAll), (2, 3, AllToAll)]);
    for (finished, expected) in [
        (&[][..], &[0, 1, 2][..]),
        (&[0], &[1, 2]),
        (&[0, 1], &[2]),
        (&[0, 1, 2], &[3, 4]),
        (&[0, 1, 2, 3], &[4]),
        (&[0, 1, 2, 3, 4], &[5]),
    ] {
        let mut bench = job(graph.clone(), finished);
        assert_eq!(triggered(&mut bench), set(expected.iter().copied()), "{finished:?} have finished");
        let running = (0..6).filter(|task| !finished.contains(task)).map(TaskIndex);
        let told = bench.acknowledge(0, 1, &running.collect::<Vec<_>>());
        assert_eq!(told, [Action::PersistManifest { id: id(1), finished: set(finished.iter().copied()) }]);
    }
}

#[test]
fn t36_a_task_reads_from_all_or_from_its_share() {
    let predecessors = |writers: u16, readers: u16, pattern| -> Vec<Vec<u16>> {
        let graph = graph(&[writers, readers], &[(0, 1, pattern)]);
        (writers..writers + readers)
            .map(|task| graph.predecessors(TaskIndex(task)).iter().collect())
            .collect()
    };
    assert_eq!(predecessors(2, 2, AllToAll), [[0, 1], [0, 1]]);
    assert_eq!(predecessors(3, 3, Pointwise), [[0], [1], [2]]);
    assert_eq!(predecessors(4, 2, Pointwise), [[0, 1], [2, 3]]);
    assert_eq!(predecessors(5, 2, Pointwise), [vec![0, 1], vec![2, 3, 4]]);
    assert_eq!(predecessors(2, 4, Pointwise), [[0], [0], [1], [1]]);
    assert_eq!(predecessors(2, 3, Pointwise), [[0], [0], [1]]);
    // Any of several edges will do.
    let graph = graph(&[2, 1, 2], &[(0, 2, Pointwise), (1, 2, AllToAll)]);
    assert_eq!(triggered(&mut job(graph.clone(), &[0])), set([1, 2]));
    assert_eq!(triggered(&mut job(graph.clone(), &[0, 2])), set([1, 3]));
    assert_eq!(triggered(&mut job(graph, &[2])), set([0, 1]));
}

#[test]
fn t37_a_checkpoint_needs_somebody_to_wait_for() {
    let mut bench = job(chain(), &[0, 1, 2]);
    let reason = FailureReason::NotAllRequiredTasksRunning;
    assert_eq!(bench.request(0, 9), [failed(Some(RequestToken(9)), None, reason)]);
    assert_eq!(bench.machine.next_id(), id(1));
}

#[test]
fn p35_p36_a_vertex_with_union_state_finishes_as_a_whole_or_not_at_all() {
    let finished = TaskReport { is_finished: true, ..UNION };
    let plain = TaskReport { is_finished: true, has_union_state: false, ..UNION };
    let running = TaskReport { has_union_state: false, ..UNION };
    // A source of two subtasks, one of which may have finished before, and a sink.
    let cases: [(&str, &[u16], &[TaskReport], bool); 7] = [
        ("partly finished, with union state", &[0], &[UNION], false),
        ("partly finished, without", &[0], &[running], true),
        ("one reports its end, with union state", &[], &[finished, UNION], false),
        ("one reports its end, the other has the union state", &[], &[plain, UNION], false),
        ("one reports its end, without", &[], &[plain, running], true),
        ("both report their end", &[], &[finished, finished], true),
        ("both have finished", &[0, 1], &[], true),
    ];
    for (what, ended, reports, completes) in cases {
        let mut bench = job(graph(&[2, 1], &[(0, 1, AllToAll)]), ended);
        bench.start(0, 1);
        let sources = (0..2).filter(|task| !ended.contains(task));
        sources.zip(reports).for_each(|(task, report)| drop(bench.report(0, 1, TaskIndex(task), *report)));
        let told = bench.acknowledge(0, 1, &[TaskIndex(2)]);
        if completes {
            let finished = set(ended.iter().copied());
            assert_eq!(told, [Action::PersistManifest { id: id(1), finished }], "{what}");
        } else {
            let reason = FailureReason::CheckpointDeclinedTaskClosing;
            assert_eq!(told[0], failed(Some(token(1)), Some(1), reason), "{what}");
        }
    }
}

#[test]
fn p38_a_task_deployed_as_finished_takes_part_and_stays_finished() {
    let stands_in = TaskReport { was_deployed_finished: true, ..TaskReport::default() };
    let mut bench = job(graph(&[2, 1], &[(0, 1, AllToAll)]), &[]);
    assert_eq!(triggered(&mut bench), set([0, 1]), "it still forwards barriers");
    bench.report(0, 1, TaskIndex(0), stands_in);
    bench.report(0, 1, TaskIndex(1), stands_in);
    let finished = set([0, 1]);
    assert_eq!(bench.acknowledge(0, 1, &[TaskIndex(2)]), [Action::PersistManifest { id: id(1), finished }]);
}

#[test]
fn a_graph_takes_only_what_fits_and_edges_that_lead_forwards() {
    use crate::coordinator::InvalidGraph as Invalid;
    let mut graph = JobGraph::<1, 2, 1>::new();
    assert_eq!(graph.add_vertex(0), Err(Invalid::NoTasks));
    assert_eq!(graph.add_vertex(33), Err(Invalid::TooManyTasks));
    assert_eq!((graph.add_vertex(31), graph.add_vertex(2)), (Ok(0), Err(Invalid::TooManyTasks)));
    assert_eq!((graph.add_vertex(1), graph.add_vertex(1)), (Ok(1), Err(Invalid::TooManyTasks)));
    let edge = |from, to| Edge { from, to, pattern: Pointwise };
    for (from, to) in [(0, 0), (1, 0), (0, 2)] {
        assert_eq!(graph.add_edge(edge(from, to)), Err(Invalid::NotForwards));
    }
    assert_eq!(
        (graph.add_edge(edge(0, 1)), graph.add_edge(edge(0, 1))),
        (Ok(()), Err(Invalid::TooManyEdges))
    );
    assert_eq!(graph.vertex(TaskIndex(31)), set([31]));
    assert_eq!(graph.vertex(TaskIndex(7)).len(), 31);
}

//! How a job ends with a savepoint, as tables of events and the actions they give.

use std::vec::Vec;

use super::{StopAction, StopEvent, StopWithSavepoint};
use crate::bit_set::BitSet;
use crate::ids::{CheckpointId, SavepointFormat, TaskIndex};
use crate::machine::Rejected;
use crate::reason::FailureReason;
use crate::time::Now;

use StopAction::{Confirm, PausePeriodic, Refuse, RequestSavepoint, RestartJob, ResumePeriodic};
use StopEvent::{SavepointCompleted, SavepointFailed, StopRequested};

type Machine = StopWithSavepoint<1>;

const FORMAT: SavepointFormat = SavepointFormat::Native;
const SAVEPOINT: CheckpointId = CheckpointId(7);

fn send(machine: &mut Machine, event: StopEvent) -> Result<Vec<StopAction>, Rejected> {
    let mut out = heapless::Vec::<_, { Machine::ACTIONS_MAX }>::new();
    machine.on_event(Now::default(), event, &mut out)?;
    machine.check();
    Ok(out.into_iter().collect())
}

/// A job of two tasks.
fn run(table: &[(StopEvent, &[StopAction])]) -> Machine {
    let mut machine = Machine::new(BitSet::first(2));
    for (row, (event, actions)) in table.iter().enumerate() {
        assert_eq!(send(&mut machine, *event).as_deref(), Ok(*actions), "row {row}: {event:?}");
    }
    machine
}

const fn finished(task: u16) -> StopEvent {
    StopEvent::TaskFinished(TaskIndex(task))
}

const fn failed(task: u16) -> StopEvent {
    StopEvent::TaskFailed(TaskIndex(task))
}

const fn requested(drain: bool) -> (StopEvent, [StopAction; 2]) {
    let actions = [PausePeriodic, RequestSavepoint { drain, format: FORMAT }];
    (StopRequested { drain, format: FORMAT }, actions)
}

#[test]
fn x26_periodic_checkpoints_pause_then_the_savepoint_is_taken_then_the_tasks_end() {
    for drain in [true, false] {
        let (event, actions) = requested(drain);
        run(&[
            (event, &actions),
            (SavepointCompleted(SAVEPOINT), &[]),
            (finished(1), &[]),
            (finished(0), &[Confirm(SAVEPOINT)]),
            (failed(0), &[]),
        ]);
        // The news of the tasks may be faster.
        run(&[
            (finished(1), &[]),
            (event, &actions),
            (finished(0), &[]),
            (SavepointCompleted(SAVEPOINT), &[Confirm(SAVEPOINT)]),
        ]);
    }
}

#[test]
fn x26_a_failed_savepoint_lets_periodic_checkpoints_go_on_and_may_be_asked_for_again() {
    let (event, actions) = requested(true);
    let reason = FailureReason::CheckpointExpired;
    let failure: (StopEvent, &[StopAction]) = (SavepointFailed(reason), &[ResumePeriodic, Refuse(reason)]);
    run(&[(event, &actions), (failed(0), &[]), failure, (failed(1), &[]), (event, &actions), failure]);
}

#[test]
fn x26_a_task_that_dies_after_the_savepoint_restarts_the_job() {
    let (event, actions) = requested(false);
    let mut machine = run(&[
        (event, &actions),
        (SavepointCompleted(SAVEPOINT), &[]),
        (finished(0), &[]),
        (failed(1), &[RestartJob(SAVEPOINT)]),
        (finished(1), &[]),
    ]);
    for event in [event, SavepointCompleted(SAVEPOINT), SavepointFailed(FailureReason::CheckpointExpired)] {
        assert!(matches!(send(&mut machine, event), Err(Rejected::Unexpected { .. })), "{event:?}");
    }
}

#[test]
fn x26_nothing_is_taken_for_a_savepoint_that_nobody_asked_for() {
    let mut machine = run(&[]);
    assert!(matches!(send(&mut machine, SavepointCompleted(SAVEPOINT)), Err(Rejected::Unexpected { .. })));
    let (event, actions) = requested(true);
    let mut machine = run(&[(event, &actions)]);
    assert!(matches!(send(&mut machine, event), Err(Rejected::Unexpected { .. })));
}

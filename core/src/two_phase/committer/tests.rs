//! Each rule of the committer as a table of events and the actions they give.

use std::format;
use std::vec::Vec;

use super::{Committer, CommitterAction, CommitterEvent, CommitterOptions};
use crate::ids::CheckpointId;
use crate::machine::Rejected;
use crate::time::Now;

use CommitterEvent::{EndOfInput, Opened};

type Machine = Committer<1, 3>;
type Table<'a> = &'a [(CommitterEvent, &'a [CommitterAction])];

fn send(machine: &mut Machine, event: CommitterEvent) -> Result<Vec<CommitterAction>, Rejected> {
    let mut out = heapless::Vec::<_, { Machine::ACTIONS_MAX }>::new();
    machine.on_event(Now::default(), event, &mut out)?;
    machine.check();
    Ok(out.into_iter().collect())
}

fn go_on(machine: &mut Machine, table: Table<'_>) {
    for (row, (event, actions)) in table.iter().enumerate() {
        assert_eq!(send(machine, *event).as_deref(), Ok(*actions), "row {row}: {event:?}");
    }
}

fn run(options: CommitterOptions, table: Table<'_>) -> Machine {
    let mut machine = Machine::new(options);
    go_on(&mut machine, &[(Opened(None), &[])]);
    go_on(&mut machine, table);
    machine
}

fn run_usual(table: Table<'_>) -> Machine {
    run(CommitterOptions::default(), table)
}

const fn id(number: u64) -> CheckpointId {
    CheckpointId(number)
}

/// One of two writers has flushed.
const fn summary(number: u64, writer: u16, committables: u32) -> CommitterEvent {
    CommitterEvent::SummaryArrived { id: id(number), writer, writers: 2, committables }
}

const fn came(number: u64, writer: u16) -> CommitterEvent {
    CommitterEvent::CommittableArrived { id: id(number), writer }
}

const fn complete(number: u64) -> CommitterEvent {
    CommitterEvent::CompleteNotified(id(number))
}

const fn commit(number: u64, retries: u16) -> CommitterAction {
    CommitterAction::Commit { id: id(number), retries }
}

const fn returned(number: u64, retry: u32) -> CommitterEvent {
    CommitterEvent::CommitReturned { id: id(number), retry, failed: false }
}

const fn emit(number: u64) -> CommitterAction {
    CommitterAction::Emit(id(number))
}

/// Both writers have flushed one committable each for the checkpoint.
fn whole(machine: &mut Machine, number: u64) {
    let events = [summary(number, 0, 1), came(number, 0), summary(number, 1, 1), came(number, 1)];
    for event in events {
        assert_eq!(send(machine, event), Ok(Vec::new()));
    }
}

fn listed(machine: &Machine) -> Vec<(u64, u32)> {
    machine.batches().map(|batch| (batch.id.0, batch.committables)).collect()
}

fn is_refused(machine: &mut Machine, event: CommitterEvent) -> bool {
    let before = format!("{machine:?}");
    let refused =
        matches!(send(machine, event), Err(Rejected::Unexpected { .. } | Rejected::OutOfRange { .. }));
    assert_eq!(format!("{machine:?}"), before, "{event:?}");
    refused
}

#[test]
fn c11_a_summary_says_what_follows_and_nothing_else_may_come() {
    let mut machine = run_usual(&[]);
    assert!(is_refused(&mut machine, came(1, 0)), "no summary yet");
    go_on(&mut machine, &[(summary(1, 0, 2), &[]), (came(1, 0), &[])]);
    assert!(is_refused(&mut machine, came(1, 1)), "the other writer has announced nothing");
    assert!(is_refused(&mut machine, came(2, 0)), "another checkpoint");
    go_on(&mut machine, &[(came(1, 0), &[])]);
    assert!(is_refused(&mut machine, came(1, 0)), "one more than announced");
    let beyond = CommitterEvent::SummaryArrived { id: id(1), writer: 2, writers: 2, committables: 0 };
    assert!(is_refused(&mut machine, beyond));
    let other = CommitterEvent::SummaryArrived { id: id(1), writer: 1, writers: 3, committables: 0 };
    assert!(is_refused(&mut machine, other), "writers disagree");
    let many = CommitterEvent::SummaryArrived { id: id(1), writer: 1, writers: 33, committables: 0 };
    assert!(is_refused(&mut machine, many));
}

#[test]
fn c12_a_second_summary_of_a_writer_is_an_error_but_at_the_end_of_input() {
    let mut machine = run_usual(&[(summary(1, 0, 1), &[]), (summary(2, 0, 1), &[])]);
    assert!(is_refused(&mut machine, summary(1, 0, 1)));
    go_on(&mut machine, &[(EndOfInput, &[]), (summary(1, 0, 1), &[]), (came(1, 0), &[]), (came(1, 0), &[])]);
    assert!(is_refused(&mut machine, came(1, 0)));
    assert_eq!(listed(&machine), [(1, 2), (2, 0)]);
}

#[test]
fn c13_a_checkpoint_lists_everything_that_is_not_committed() {
    let mut machine = run_usual(&[]);
    whole(&mut machine, 2);
    whole(&mut machine, 1);
    assert_eq!(listed(&machine), [(1, 2), (2, 2)]);
    go_on(&mut machine, &[(complete(1), &[commit(1, 0)]), (returned(1, 1), &[commit(1, 1)])]);
    assert_eq!(listed(&machine), [(1, 1), (2, 2)], "what is to be tried again is still listed");
}

#[test]
fn c14_a_completion_commits_emits_and_forgets_each_checkpoint_up_to_it() {
    let mut machine = run_usual(&[]);
    (1..=3).for_each(|number| whole(&mut machine, number));
    go_on(
        &mut machine,
        &[
            (complete(2), &[commit(1, 0)]),
            (complete(1), &[]),
            (returned(1, 0), &[emit(1), commit(2, 0)]),
            (returned(2, 0), &[emit(2)]),
            (complete(1), &[]),
        ],
    );
    assert_eq!(listed(&machine), [(3, 2)]);
    assert!(is_refused(&mut machine, summary(2, 0, 0)), "that checkpoint is complete");
}

#[test]
fn c14_a_completion_before_every_writer_was_heard_is_an_error() {
    let mut machine = run_usual(&[(summary(1, 0, 1), &[])]);
    assert!(is_refused(&mut machine, complete(1)));
    go_on(&mut machine, &[(came(1, 0), &[])]);
    assert!(is_refused(&mut machine, complete(2)), "the other writer's summary is missing");
    go_on(&mut machine, &[(summary(1, 1, 0), &[]), (complete(2), &[commit(1, 0)])]);
}

#[test]
fn c15_what_asks_for_it_is_tried_again_up_to_the_limit() {
    let options = CommitterOptions { retries_max: 2, ..Default::default() };
    let mut machine = run(options, &[]);
    whole(&mut machine, 1);
    go_on(
        &mut machine,
        &[
            (complete(1), &[commit(1, 0)]),
            (returned(1, 2), &[commit(1, 1)]),
            (returned(1, 1), &[commit(1, 2)]),
        ],
    );
    assert!(is_refused(&mut machine, returned(1, 2)), "more than are left");
    assert!(is_refused(&mut machine, returned(2, 0)), "another checkpoint");
    go_on(&mut machine.clone(), &[(returned(1, 0), &[emit(1)])]);
    go_on(&mut machine, &[(returned(1, 1), &[CommitterAction::FailTask(id(1))])]);
    assert!(is_refused(&mut machine, complete(2)));
}

#[test]
fn c15_an_unknown_failure_fails_the_task_at_once() {
    let mut machine = run_usual(&[]);
    whole(&mut machine, 1);
    let failed = CommitterEvent::CommitReturned { id: id(1), retry: 1, failed: true };
    go_on(&mut machine, &[(complete(1), &[commit(1, 0)]), (failed, &[CommitterAction::FailTask(id(1))])]);
    assert!(is_refused(&mut run_usual(&[]), failed), "nothing is being committed");
}

#[test]
fn c16_restored_collectors_are_merged_and_committed_at_once() {
    let mut machine = Machine::new(CommitterOptions::default());
    let restored = |number, committables| CommitterEvent::Restored { id: id(number), committables };
    go_on(&mut machine, &[(restored(7, 2), &[]), (restored(5, 1), &[]), (restored(7, 3), &[])]);
    assert_eq!(listed(&machine), [(5, 1), (7, 5)]);
    assert!(is_refused(&mut machine, Opened(Some(id(6)))), "7 is later than that");
    assert!(is_refused(&mut machine, complete(7)), "not open");
    go_on(
        &mut machine,
        &[
            (Opened(Some(id(8))), &[commit(5, 0)]),
            (returned(5, 0), &[emit(5), commit(7, 0)]),
            (returned(7, 0), &[emit(7)]),
        ],
    );
    assert!(is_refused(&mut machine, restored(9, 1)));
    assert!(is_refused(&mut machine, summary(8, 0, 0)));
}

#[test]
fn c17_the_end_of_input_commits_only_where_there_are_no_checkpoints() {
    let mut with = run_usual(&[]);
    whole(&mut with, 1);
    go_on(&mut with, &[(EndOfInput, &[]), (complete(1), &[commit(1, 0)])]);
    let mut without = run(CommitterOptions { has_checkpoints: false, ..Default::default() }, &[]);
    whole(&mut without, 1);
    go_on(&mut without, &[(EndOfInput, &[commit(1, 0)]), (returned(1, 0), &[emit(1)])]);
}

#[test]
fn c18_committables_of_an_aborted_checkpoint_are_committed_with_the_next_one() {
    let mut machine = run_usual(&[]);
    whole(&mut machine, 1);
    go_on(&mut machine, &[(CommitterEvent::AbortNotified(id(1)), &[])]);
    whole(&mut machine, 2);
    go_on(&mut machine, &[(complete(2), &[commit(1, 0)]), (returned(1, 0), &[emit(1), commit(2, 0)])]);
}

#[test]
fn c12_more_checkpoints_than_fit_are_refused() {
    let mut machine = run_usual(&[]);
    (1..=3).for_each(|number| whole(&mut machine, number));
    assert!(matches!(send(&mut machine, summary(4, 0, 0)), Err(Rejected::OutOfRange { .. })));
    go_on(
        &mut machine,
        &[(complete(1), &[commit(1, 0)]), (returned(1, 0), &[emit(1)]), (summary(4, 0, 0), &[])],
    );
}

#[test]
fn c16_the_restored_checkpoint_itself_is_committed() {
    let mut machine = Machine::new(CommitterOptions::default());
    let restored = CommitterEvent::Restored { id: id(7), committables: 2 };
    go_on(&mut machine, &[(restored, &[]), (Opened(Some(id(7))), &[commit(7, 0)])]);
}

#[test]
fn c12_there_may_be_as_many_writers_as_the_committer_has_room_for() {
    let summary = |writers| CommitterEvent::SummaryArrived { id: id(1), writer: 3, writers, committables: 1 };
    run_usual(&[(summary(32), &[])]);
    let refused = send(&mut run_usual(&[]), summary(33));
    assert_eq!(refused, Err(Rejected::OutOfRange { what: "writer", value: 3, limit: 32 }));
    run_usual(&[(summary(31), &[])]);
}

/// An open committer that has checkpoints 5 and 6 whole, with something set wrong.
fn spoilt(spoil: impl FnOnce(&mut Machine)) -> Option<&'static str> {
    let mut machine = run_usual(&[]);
    whole(&mut machine, 5);
    whole(&mut machine, 6);
    assert_eq!(machine.broken_invariant(), None);
    spoil(&mut machine);
    machine.broken_invariant()
}

#[test]
fn each_broken_invariant_is_named() {
    for number in [5, 4] {
        let out_of_order = |machine: &mut Machine| machine.batches[1].as_mut().unwrap().id = id(number);
        assert_eq!(spoilt(out_of_order), Some("TI1"));
    }
    assert_eq!(spoilt(|machine| machine.batches[0] = None), Some("TI1"));
    assert_eq!(spoilt(|machine| machine.batches[1].as_mut().unwrap().writers = 1), Some("TI2"));
    assert_eq!(spoilt(|machine| machine.committing = Some(0)), Some("TI3"));
    let committing = |last_completed| {
        spoilt(|machine| (machine.committing, machine.last_completed) = (Some(0), Some(id(last_completed))))
    };
    assert_eq!([4, 5, 6].map(committing), [Some("TI3"), None, None]);
    let idle = |last_completed| spoilt(|machine| machine.last_completed = Some(id(last_completed)));
    assert_eq!([4, 5].map(idle), [None, Some("TI4")]);
}

#[test]
#[should_panic(expected = "TI3")]
fn check_panics_at_a_broken_invariant() {
    let mut machine = run_usual(&[]);
    machine.committing = Some(0);
    machine.check();
}

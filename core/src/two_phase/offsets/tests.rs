//! Each rule of committed offsets as a table of events and the actions they give.

use std::format;
use std::vec::Vec;

use super::{OffsetCommits, OffsetsAction, OffsetsEvent};
use crate::ids::CheckpointId;
use crate::machine::Rejected;
use crate::time::Now;

type Machine = OffsetCommits<3>;
type Table<'a> = &'a [(OffsetsEvent, &'a [OffsetsAction])];

fn send(machine: &mut Machine, event: OffsetsEvent) -> Result<Vec<OffsetsAction>, Rejected> {
    let mut out = heapless::Vec::<_, { Machine::ACTIONS_MAX }>::new();
    machine.on_event(Now::default(), event, &mut out)?;
    machine.check();
    Ok(out.into_iter().collect())
}

fn run(is_on: bool, table: Table<'_>) -> Machine {
    let mut machine = Machine::new(is_on);
    for (row, (event, actions)) in table.iter().enumerate() {
        assert_eq!(send(&mut machine, *event).as_deref(), Ok(*actions), "row {row}: {event:?}");
    }
    machine
}

const fn snapshot(id: u64) -> OffsetsEvent {
    OffsetsEvent::SnapshotTaken { id: CheckpointId(id), is_empty: false }
}

const fn empty(id: u64) -> OffsetsEvent {
    OffsetsEvent::SnapshotTaken { id: CheckpointId(id), is_empty: true }
}

const fn complete(id: u64) -> OffsetsEvent {
    OffsetsEvent::CompleteNotified(CheckpointId(id))
}

const fn committed(id: u64) -> OffsetsEvent {
    OffsetsEvent::OffsetsCommitted(CheckpointId(id))
}

const fn failed(id: u64) -> OffsetsEvent {
    OffsetsEvent::CommitFailed(CheckpointId(id))
}

const fn commit(id: u64) -> OffsetsAction {
    OffsetsAction::Commit(CheckpointId(id))
}

const fn forget(id: u64) -> OffsetsAction {
    OffsetsAction::Forget(CheckpointId(id))
}

#[test]
fn c19_offsets_are_remembered_with_their_checkpoint_if_they_are_to_be_told() {
    let machine = run(true, &[(snapshot(1), &[]), (empty(2), &[])]);
    assert_eq!(machine.remembered_count(), 2);
    let machine = run(false, &[(snapshot(1), &[]), (complete(1), &[])]);
    assert_eq!(machine.remembered_count(), 0);
}

#[test]
fn c19_the_oldest_is_pushed_out_when_there_is_no_room() {
    let machine = run(
        true,
        &[
            (snapshot(1), &[]),
            (snapshot(2), &[]),
            (snapshot(3), &[]),
            (snapshot(4), &[forget(1)]),
            (complete(1), &[]),
            (complete(2), &[commit(2)]),
            // What is being told may be pushed out as well: it is on its way.
            (snapshot(5), &[forget(2)]),
            (committed(2), &[forget(2)]),
        ],
    );
    assert_eq!(machine.remembered_count(), 3);
}

#[test]
fn c20_a_completion_tells_the_offsets_once_and_a_failure_leaves_them_to_a_later_one() {
    let machine = run(
        true,
        &[
            (complete(1), &[]),
            (snapshot(1), &[]),
            (snapshot(2), &[]),
            (snapshot(3), &[]),
            (complete(1), &[commit(1)]),
            (failed(1), &[]),
            (complete(2), &[commit(2)]),
            (complete(2), &[]),
            (committed(2), &[forget(2)]),
            (complete(2), &[]),
        ],
    );
    assert_eq!(machine.remembered_count(), 1);
}

#[test]
fn c20_nothing_to_tell_only_forgets_what_is_older() {
    let machine = run(
        true,
        &[
            (snapshot(1), &[]),
            (empty(2), &[]),
            (snapshot(3), &[]),
            (complete(2), &[forget(2)]),
            (complete(1), &[]),
        ],
    );
    assert_eq!(machine.remembered_count(), 1);
    run(
        true,
        &[
            (snapshot(1), &[]),
            (empty(2), &[]),
            (complete(1), &[commit(1)]),
            (complete(2), &[forget(2)]),
            (committed(1), &[]),
        ],
    );
}

#[test]
fn c20_one_commit_is_on_its_way_at_a_time_and_the_newest_waits() {
    run(
        true,
        &[
            (snapshot(1), &[]),
            (snapshot(2), &[]),
            (snapshot(3), &[]),
            (complete(1), &[commit(1)]),
            (complete(3), &[]),
            (complete(2), &[]),
            (failed(1), &[commit(3)]),
            (committed(3), &[forget(3)]),
        ],
    );
    run(
        true,
        &[
            (snapshot(1), &[]),
            (snapshot(2), &[]),
            (complete(1), &[commit(1)]),
            (complete(2), &[]),
            (committed(1), &[forget(1), commit(2)]),
        ],
    );
}

/// A reader that starts again has its positions from the checkpoint: nothing is asked of the origin, and it is told
/// nothing before a new checkpoint is complete.
#[test]
fn c21_a_restored_source_tells_nothing_of_its_own_accord() {
    run(true, &[(complete(2), &[]), (snapshot(3), &[]), (complete(2), &[]), (complete(3), &[commit(3)])]);
}

/// Records 0 to 9 before checkpoint 1, 10 to 19 before 2, 20 to 29 before 3: offsets are the next to read.
#[test]
fn h06_offsets_are_told_only_on_completion_and_never_go_back() {
    let next_to_read = |id: CheckpointId| 10 * id.0;
    let mut machine = Machine::new(true);
    let mut told = Vec::new();
    let abort = OffsetsEvent::AbortNotified(CheckpointId(3));
    for event in [snapshot(1), snapshot(2), complete(2), committed(2), complete(1), snapshot(3), abort] {
        for action in send(&mut machine, event).unwrap() {
            if let OffsetsAction::Commit(id) = action {
                told.push(next_to_read(id));
            }
        }
    }
    assert_eq!(told, [20]);
    assert_eq!(next_to_read(CheckpointId(2)), 20, "a restore from 2 reads this first");
}

#[test]
fn refused_events_change_nothing() {
    let mut machine = run(true, &[(snapshot(5), &[]), (snapshot(6), &[]), (complete(5), &[commit(5)])]);
    let before = format!("{machine:?}");
    for event in [snapshot(6), snapshot(4), committed(6), failed(4)] {
        assert!(matches!(send(&mut machine, event), Err(Rejected::Unexpected { .. })), "{event:?}");
    }
    assert_eq!(format!("{machine:?}"), before);
}

#[test]
fn c19_c20_offsets_that_were_pushed_out_are_not_told() {
    run(
        true,
        &[
            (snapshot(1), &[]),
            (snapshot(2), &[]),
            (snapshot(3), &[]),
            (complete(1), &[commit(1)]),
            (complete(2), &[]),
            (snapshot(4), &[forget(1)]),
            (snapshot(5), &[forget(2)]),
            (committed(1), &[forget(1)]),
            (complete(3), &[commit(3)]),
        ],
    );
}

/// Offsets of checkpoints 1 and 2, of which the first is being told, with something set wrong.
fn spoilt(spoil: impl FnOnce(&mut Machine)) -> Option<&'static str> {
    let mut machine = run(true, &[(snapshot(1), &[]), (snapshot(2), &[]), (complete(1), &[commit(1)])]);
    assert_eq!(machine.broken_invariant(), None);
    spoil(&mut machine);
    machine.broken_invariant()
}

#[test]
fn each_broken_invariant_is_named() {
    let id = |number| Some(CheckpointId(number));
    for number in [1, 0] {
        let out_of_order =
            |machine: &mut Machine| machine.remembered[1].as_mut().unwrap().id = CheckpointId(number);
        assert_eq!(spoilt(out_of_order), Some("OI1"));
    }
    assert_eq!(spoilt(|machine| machine.remembered[0] = None), Some("OI1"));
    assert_eq!(
        [0, 1, 2].map(|done| spoilt(|machine| machine.done = id(done))),
        [None, Some("OI2"), Some("OI2")]
    );
    let waiting =
        |waiting, committing| spoilt(|machine| (machine.waiting, machine.committing) = (waiting, committing));
    assert_eq!(waiting(id(2), id(1)), None);
    assert_eq!(waiting(id(2), None), Some("OI3"));
    assert_eq!(waiting(id(1), id(1)), Some("OI3"));
    assert_eq!(waiting(id(1), id(2)), Some("OI3"));
}

#[test]
#[should_panic(expected = "OI2")]
fn check_panics_at_a_broken_invariant() {
    let mut machine = run(true, &[(snapshot(1), &[])]);
    machine.done = Some(CheckpointId(1));
    machine.check();
}

//! Which splits go back when a reader alone starts again.

use std::vec::Vec;

use super::{SplitAssignments, SplitToken, SplitsAction, SplitsEvent};
use crate::ids::{CheckpointId, TaskIndex};
use crate::machine::Rejected;
use crate::time::Now;

type Machine = SplitAssignments<4>;

fn send(machine: &mut Machine, event: SplitsEvent) -> Result<Vec<SplitsAction>, Rejected> {
    let mut out = heapless::Vec::<_, { Machine::ACTIONS_MAX }>::new();
    machine.on_event(Now::default(), event, &mut out)?;
    machine.check();
    Ok(out.into_iter().collect())
}

const fn assigned(split: u64, reader: u16) -> SplitsEvent {
    SplitsEvent::Assigned { split: SplitToken(split), reader: TaskIndex(reader) }
}

const fn snapshot(id: u64) -> SplitsEvent {
    SplitsEvent::SnapshotTaken(CheckpointId(id))
}

const fn complete(id: u64) -> SplitsEvent {
    SplitsEvent::CompleteNotified(CheckpointId(id))
}

/// Resets a reader and takes back what it had.
fn reset(machine: &mut Machine, reader: u16, restored: Option<u64>) -> Vec<u64> {
    let event = SplitsEvent::ReaderReset { reader: TaskIndex(reader), restored: restored.map(CheckpointId) };
    assert_eq!(send(machine, event), Ok([SplitsAction::TakeReturned(TaskIndex(reader))].into()));
    core::iter::from_fn(|| machine.take_returned()).map(|split| split.0).collect()
}

/// Split 1 before checkpoint 1, split 2 before checkpoint 2, split 3 after it; split 4 is another reader's.
fn three_splits() -> Machine {
    let mut machine = Machine::default();
    for event in [assigned(1, 0), snapshot(1), assigned(2, 0), assigned(4, 1), snapshot(2), assigned(3, 0)] {
        assert_eq!(send(&mut machine, event), Ok(Vec::new()));
    }
    machine
}

#[test]
fn c22_a_reader_that_starts_again_gives_back_what_it_got_after_its_checkpoint() {
    for (restored, expected) in [(None, &[1, 2, 3][..]), (Some(1), &[2, 3]), (Some(2), &[3]), (Some(9), &[3])]
    {
        let mut machine = three_splits();
        assert_eq!(reset(&mut machine, 0, restored), expected, "{restored:?}");
        assert_eq!(reset(&mut machine, 0, restored), [0; 0], "once");
        assert_eq!(machine.count(), 4 - expected.len());
    }
}

#[test]
fn c22_what_a_complete_checkpoint_covers_is_forgotten() {
    let mut machine = three_splits();
    assert_eq!(send(&mut machine, complete(1)), Ok(Vec::new()));
    assert_eq!(machine.count(), 3);
    assert!(send(&mut machine, assigned(5, 1)).is_ok(), "there is room again");
    assert_eq!(send(&mut machine, complete(2)), Ok(Vec::new()));
    assert_eq!(reset(&mut machine, 0, Some(2)), [3]);
    assert_eq!(reset(&mut machine, 1, Some(2)), [5]);
}

#[test]
fn c22_a_split_is_given_out_once_and_no_more_than_fit() {
    let mut machine = three_splits();
    assert!(matches!(send(&mut machine, assigned(4, 0)), Err(Rejected::Unexpected { .. })));
    assert!(matches!(send(&mut machine, assigned(6, 0)), Err(Rejected::OutOfRange { limit: 4, .. })));
    assert_eq!(send(&mut machine, complete(2)), Ok(Vec::new()));
    assert!(matches!(send(&mut machine, snapshot(2)), Err(Rejected::Unexpected { .. })));
}

/// `three_splits`, with something set wrong.
fn spoilt(spoil: impl FnOnce(&mut Machine)) -> Option<&'static str> {
    let mut machine = three_splits();
    assert_eq!(machine.broken_invariant(), None);
    spoil(&mut machine);
    machine.broken_invariant()
}

#[test]
fn each_broken_invariant_is_named() {
    assert_eq!(spoilt(|machine| machine.assigned[1] = machine.assigned[0]), Some("RI1"));
    let completed = |id| spoilt(|machine| machine.completed = Some(CheckpointId(id)));
    assert_eq!([0, 1, 2].map(completed), [None, Some("RI2"), Some("RI2")]);
    let returned = |machine: &mut Machine| {
        machine.assigned.iter_mut().flatten().for_each(|split| split.is_returned = true);
        machine.completed = Some(CheckpointId(2));
    };
    assert_eq!(spoilt(returned), None);
}

#[test]
#[should_panic(expected = "RI2")]
fn check_panics_at_a_broken_invariant() {
    let mut machine = three_splits();
    machine.completed = Some(CheckpointId(1));
    machine.check();
}

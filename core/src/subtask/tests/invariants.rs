//! Each invariant, broken by hand, is reported under its id.

use super::super::State;
use super::super::snapshot::Input;
use super::*;

/// A subtask in the asynchronous part of checkpoint 1 and the synchronous part of 2, with something set wrong.
fn spoilt(spoil: impl FnOnce(&mut Machine)) -> Option<&'static str> {
    let mut machine = run(&[(perform(1), &steps(1)), (taken(1), &[persist(1)]), (perform(2), &steps(2))]);
    assert_eq!(machine.broken_invariant(), None);
    spoil(&mut machine);
    machine.broken_invariant()
}

fn first(machine: &mut Machine) -> &mut super::super::snapshot::Snapshot {
    machine.persisting[0].as_mut().unwrap()
}

#[test]
fn each_broken_invariant_is_named() {
    assert_eq!(spoilt(|machine| machine.persisting[1] = machine.persisting[0]), Some("SI1"));
    assert_eq!(spoilt(|machine| first(machine).id = id(3)), Some("SI2"));
    assert_eq!(spoilt(|machine| first(machine).awaited = PartSet::EMPTY), Some("SI2"));
    assert_eq!(spoilt(|machine| first(machine).id = id(2)), Some("SI3"));
    assert_eq!(spoilt(|machine| machine.last = Some(id(1))), Some("SI3"));
    let crowded = |machine: &mut Machine| {
        machine.persisting[1] = machine.persisting[0];
        machine.persisting[1].as_mut().unwrap().id = id(0);
    };
    assert_eq!(spoilt(crowded), Some("SI4"));
    assert_eq!(spoilt(|machine| machine.held = Some(barrier(3))), None);
    let held_after_the_end = |machine: &mut Machine| {
        machine.held = Some(barrier(3));
        machine.ending.data_ended = Some(true);
    };
    assert_eq!(spoilt(held_after_the_end), Some("SI5"));
    let held_when_stopped =
        |machine: &mut Machine| (machine.held, machine.state) = (Some(barrier(3)), State::Stopped);
    assert_eq!(spoilt(held_when_stopped), Some("SI5"));
    assert_eq!(spoilt(|machine| machine.state = State::Closing), Some("SI6"));
    assert_eq!(spoilt(|machine| machine.overtaking = Some((Millis(5), barrier(1)))), Some("SI7"));
    let captures_twice = |machine: &mut Machine| {
        first(machine).input = Input::Capturing;
        if let State::Snapshotting { snapshot, .. } = &mut machine.state {
            snapshot.input = Input::Capturing;
        }
    };
    assert_eq!(spoilt(captures_twice), Some("SI8"));
}

#[test]
#[should_panic(expected = "SI6")]
fn check_panics_at_a_broken_invariant() {
    let mut machine = run(&[]);
    machine.state = State::Closing;
    machine.check();
}

#[test]
fn a_failure_says_what_failed() {
    for (failure, said) in [
        (TaskFailure::Snapshot, "its state could not be frozen"),
        (TaskFailure::Notification, "an operator failed when it was told of it"),
        (TaskFailure::StopWithSavepoint, "stop with savepoint failed"),
        (TaskFailure::FullCheckpointUnsupported, "the backend cannot take full checkpoints"),
        (TaskFailure::SavepointFormatUnsupported, "the backend cannot take savepoints in this format"),
    ] {
        assert_eq!(format!("{failure}"), said);
    }
}

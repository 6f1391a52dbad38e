//! Each invariant, broken by hand, is reported under its id.

use super::super::checkpoint::{Checkpoint, Stage};
use super::super::requests::Request;
use super::super::schedule::Schedule;
use super::*;

/// A coordinator whose tasks have been told of checkpoint 1, with something set wrong.
fn spoilt(spoil: impl FnOnce(&mut Machine)) -> Option<&'static str> {
    let mut bench = Bench::new(MANUAL);
    bench.start(0, 1);
    assert_eq!(bench.machine.broken_invariant(), None);
    spoil(&mut bench.machine);
    bench.machine.broken_invariant()
}

fn first(machine: &mut Machine) -> &mut Checkpoint<1> {
    machine.checkpoints[0].as_mut().unwrap()
}

/// A second checkpoint in the same stage as the first one.
fn double(machine: &mut Machine) {
    machine.next_id = id(3);
    machine.checkpoints[1] = Some(Checkpoint { id: id(2), ..*first(machine) });
}

#[test]
fn each_broken_invariant_of_checkpoints_and_their_number_is_named() {
    assert_eq!(spoilt(double), None);
    assert_eq!(spoilt(|machine| machine.checkpoints[1] = machine.checkpoints[0]), Some("CI1"));
    assert_eq!(spoilt(|machine| first(machine).id = id(2)), Some("CI1"));
    assert_eq!(spoilt(|machine| machine.first_id = id(2)), Some("CI1"));
    assert_eq!(spoilt(|machine| machine.options.max_concurrent_checkpoints = 0), Some("CI2"));
    let forced = |machine: &mut Machine| {
        machine.options.max_concurrent_checkpoints = 0;
        first(machine).is_forced = true;
    };
    assert_eq!(spoilt(forced), None);
    let given_up = |machine: &mut Machine| {
        machine.options.max_concurrent_checkpoints = 0;
        first(machine).stage = Stage::Orphaned;
    };
    assert_eq!(spoilt(given_up), None);
    for stage in [Stage::AwaitingLocation, Stage::AwaitingCoordinators, Stage::AwaitingHooks] {
        let triggering = |machine: &mut Machine| {
            first(machine).stage = stage;
            double(machine);
        };
        assert_eq!(spoilt(|machine| first(machine).stage = stage), None);
        assert_eq!(spoilt(triggering), Some("CI3"));
    }
    let pointless = |latest| spoilt(|machine| machine.latest_subsuming = Some(id(latest)));
    assert_eq!([0, 1, 2].map(pointless), [None, None, Some("CI7")]);
    let savepoint = |machine: &mut Machine| {
        machine.latest_subsuming = Some(id(2));
        first(machine).kind = SnapshotKind::Savepoint(SavepointFormat::Native);
    };
    assert_eq!(spoilt(savepoint), None);
}

#[test]
fn each_broken_invariant_of_tasks_is_named() {
    assert_eq!(spoilt(|machine| first(machine).awaited = set([])), Some("CI4"));
    for stage in [Stage::AwaitingManifest, Stage::AwaitingTurn, Stage::AwaitingStore] {
        assert_eq!(spoilt(|machine| first(machine).stage = stage), Some("CI4"));
        let final_one =
            |machine: &mut Machine| (first(machine).stage, first(machine).awaited) = (stage, set([]));
        assert_eq!(spoilt(final_one), None);
    }
    let offered_twice = |machine: &mut Machine| {
        (first(machine).stage, first(machine).awaited) = (Stage::AwaitingStore, set([]));
        double(machine);
    };
    assert_eq!(spoilt(offered_twice), Some("CI4"));
    assert_eq!(spoilt(|machine| first(machine).awaited = set([0, 1, 2, 3])), Some("CI5"));
    assert_eq!(spoilt(|machine| first(machine).plan.triggered = set([0, 3])), Some("CI5"));
    assert_eq!(spoilt(|machine| first(machine).plan.triggered = set([])), Some("CI5"));
    assert_eq!(spoilt(|machine| machine.tasks.finished = set([2])), Some("CI9"));
}

#[test]
fn each_broken_invariant_of_requests_is_named() {
    let request = |token| Request {
        token,
        kind: SnapshotKind::Checkpoint,
        is_forced: false,
        requested_at: Millis(0),
        refused: None,
    };
    let asked_for = request(Some(RequestToken(9)));
    assert_eq!(spoilt(|machine| assert_eq!(machine.requests.add(asked_for), None)), None);
    assert_eq!(spoilt(|machine| assert_eq!(machine.requests.add(request(None)), None)), None);
    let periodic_while_off = |machine: &mut Machine| {
        machine.schedule = Schedule::new(0);
        machine.requests.add(request(None));
    };
    assert_eq!(spoilt(periodic_while_off), Some("CI6"));
    let after_the_end = |machine: &mut Machine| {
        let mut out = heapless::Vec::<_, { Machine::ACTIONS_MAX }>::new();
        machine.on_event(Now::default(), ShutDown, &mut out).unwrap();
        machine.requests.add(asked_for);
    };
    assert_eq!(spoilt(after_the_end), Some("CI6"));
}

#[test]
#[should_panic(expected = "CI2")]
fn check_panics_at_a_broken_invariant() {
    let mut bench = Bench::new(MANUAL);
    bench.start(0, 1);
    bench.machine.options.max_concurrent_checkpoints = 0;
    bench.machine.check();
}

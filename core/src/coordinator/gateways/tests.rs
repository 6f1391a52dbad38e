//! Rules P27 to P29, and every short row of events.

use std::collections::BTreeMap;
use std::vec;
use std::vec::Vec;

use super::{DeliveryTicket, Gateways, GatewaysAction as Action, GatewaysEvent as Event};
use crate::ids::CheckpointId;
use crate::machine::Rejected;
use crate::time::Now;

type Machine = Gateways<1, 2>;

/// Two subtasks.
#[derive(Clone)]
struct Bench(Machine);

impl Bench {
    fn new() -> Self {
        Self(Machine::new(2).unwrap())
    }

    fn try_send(&mut self, event: Event) -> Result<Vec<Action<1>>, Rejected> {
        let mut out = heapless::Vec::<_, { Machine::ACTIONS_MAX }>::new();
        self.0.on_event(Now::default(), event, &mut out)?;
        self.0.check();
        Ok(out.into_iter().collect())
    }

    fn send(&mut self, event: Event) -> Vec<Action<1>> {
        self.try_send(event).unwrap()
    }

    /// Sends an event to a subtask that is open; gives its ticket.
    fn deliver(&mut self, subtask: u16) -> DeliveryTicket {
        match self.send(Event::EventSent { subtask })[..] {
            [Action::Deliver(ticket)] => ticket,
            ref other => panic!("{other:?}"),
        }
    }

    /// Sends an event to a subtask that is closed.
    fn hold(&mut self, subtask: u16) -> (DeliveryTicket, CheckpointId) {
        match self.send(Event::EventSent { subtask })[..] {
            [Action::Hold { ticket, behind }] => (ticket, behind),
            ref other => panic!("{other:?}"),
        }
    }

    fn close(&mut self, number: u64) {
        assert_eq!(self.send(Event::SnapshotRequested(id(number))), [Action::TakeSnapshot(id(number))]);
        assert_eq!(self.send(Event::SnapshotTaken(id(number))), [Action::Acknowledge(id(number))]);
    }
}

const fn id(number: u64) -> CheckpointId {
    CheckpointId(number)
}

fn release(subtasks: &[u16]) -> Vec<Action<1>> {
    vec![Action::Release(subtasks.iter().copied().collect())]
}

#[test]
fn p27_gateways_close_together_when_the_state_is_there_and_not_before() {
    let mut bench = Bench::new();
    assert_eq!(bench.send(Event::SnapshotRequested(id(1))), [Action::TakeSnapshot(id(1))]);
    let ticket = bench.deliver(0);
    assert_eq!(bench.send(Event::Delivered(ticket)), []);
    assert_eq!(bench.send(Event::SnapshotTaken(id(1))), [Action::Acknowledge(id(1))]);
    assert_eq!(bench.hold(0).1, id(1));
    assert_eq!(bench.hold(1).1, id(1));
    assert!(bench.try_send(Event::SnapshotTaken(id(1))).is_err(), "it has answered");
}

#[test]
fn p27_a_state_that_comes_after_the_end_or_not_at_all_fails_the_part_and_closes_nothing() {
    let mut bench = Bench::new();
    bench.send(Event::SnapshotRequested(id(1)));
    assert_eq!(bench.send(Event::CheckpointEnded(id(1))), []);
    assert_eq!(bench.send(Event::SnapshotTaken(id(1))), [Action::Fail(id(1))]);
    bench.deliver(0);
    bench.send(Event::SnapshotRequested(id(2)));
    assert_eq!(bench.send(Event::SnapshotFailed(id(2))), [Action::Fail(id(2))]);
    bench.deliver(1);
}

#[test]
fn p27_a_coordinator_that_breaks_fails_the_job() {
    let mut bench = Bench::new();
    bench.send(Event::SnapshotRequested(id(1)));
    assert_eq!(bench.send(Event::CoordinatorBroke(id(1))), [Action::FailJob]);
    bench.deliver(0);
}

#[test]
fn p28_the_part_counts_when_all_that_was_sent_before_has_arrived() {
    let mut bench = Bench::new();
    let before = [bench.deliver(0), bench.deliver(1)];
    bench.send(Event::SnapshotRequested(id(1)));
    assert_eq!(bench.send(Event::SnapshotTaken(id(1))), [], "two are on their way");
    let (later, _) = bench.hold(0);
    assert_eq!(bench.send(Event::Delivered(before[1])), []);
    assert_eq!(
        bench.send(Event::Delivered(before[0])),
        [Action::Acknowledge(id(1))],
        "the later one does not count"
    );
    assert!(
        bench.try_send(Event::Delivered(before[0])).is_ok_and(|actions| actions.is_empty()),
        "the later one"
    );
    assert!(bench.try_send(Event::Delivered(later)).is_err(), "nothing is on its way");
}

#[test]
fn p28_an_event_that_does_not_arrive_fails_the_part_and_opens_the_gateways() {
    let mut bench = Bench::new();
    let (lost, slow) = (bench.deliver(0), bench.deliver(1));
    bench.send(Event::SnapshotRequested(id(1)));
    bench.send(Event::SnapshotTaken(id(1)));
    let failed = [release(&[0, 1]), vec![Action::Fail(id(1))]].concat();
    assert_eq!(bench.send(Event::DeliveryFailed(lost)), failed);
    bench.send(Event::SnapshotRequested(id(2)));
    assert_eq!(bench.send(Event::SnapshotTaken(id(2))), [], "the slow one is before this one, too");
    assert_eq!(bench.send(Event::Delivered(slow)), [Action::Acknowledge(id(2))]);
}

#[test]
fn p29_a_gateway_opens_with_its_own_subtasks_snapshot_or_all_with_the_end() {
    let mut bench = Bench::new();
    bench.close(1);
    bench.hold(0);
    assert_eq!(bench.send(Event::SubtaskSnapshotted { id: id(1), subtask: 0 }), release(&[0]));
    assert!(bench.0.may_deliver(0, id(1)) && !bench.0.may_deliver(1, id(1)));
    bench.deliver(0);
    bench.hold(1);
    assert_eq!(bench.send(Event::SubtaskSnapshotted { id: id(1), subtask: 0 }), [], "it is open");
    assert_eq!(bench.send(Event::CheckpointEnded(id(1))), release(&[1]));
    bench.deliver(1);
    assert_eq!(bench.send(Event::CheckpointEnded(id(1))), []);
}

#[test]
fn p29_what_is_held_behind_two_checkpoints_waits_for_both_whatever_their_order() {
    for newer_first in [false, true] {
        let mut bench = Bench::new();
        bench.close(1);
        let (_, first) = bench.hold(0);
        bench.send(Event::SnapshotRequested(id(2)));
        assert_eq!(bench.send(Event::SnapshotTaken(id(2))), [], "what is held has not arrived");
        let (_, second) = bench.hold(0);
        assert_eq!((first, second), (id(1), id(2)));
        bench.send(Event::CheckpointEnded(id(if newer_first { 2 } else { 1 })));
        assert_eq!(bench.0.may_deliver(0, first), !newer_first);
        assert!(!bench.0.may_deliver(0, second));
        bench.send(Event::CheckpointEnded(id(if newer_first { 1 } else { 2 })));
        assert!(bench.0.may_deliver(0, first) && bench.0.may_deliver(0, second));
    }
}

#[test]
fn p29_a_reset_opens_everything_and_forgets_what_is_on_its_way() {
    let mut bench = Bench::new();
    let old = bench.deliver(1);
    bench.send(Event::SnapshotRequested(id(1)));
    bench.send(Event::SnapshotTaken(id(1)));
    bench.send(Event::SubtaskReset { subtask: 0 });
    bench.deliver(0);
    bench.hold(1);
    assert_eq!(bench.send(Event::Reset), []);
    let new = bench.deliver(1);
    assert_eq!(bench.send(Event::Delivered(old)), [], "from before");
    bench.send(Event::SnapshotRequested(id(2)));
    assert_eq!(bench.send(Event::SnapshotTaken(id(2))), []);
    assert_eq!(bench.send(Event::Delivered(new)), [Action::Acknowledge(id(2))]);
}

#[test]
fn only_what_makes_sense_is_taken() {
    assert!(Machine::new(33).is_err());
    let mut bench = Bench::new();
    for event in [
        Event::EventSent { subtask: 2 },
        Event::SubtaskSnapshotted { id: id(1), subtask: 2 },
        Event::SubtaskReset { subtask: 2 },
        Event::Delivered(DeliveryTicket(0)),
        Event::DeliveryFailed(DeliveryTicket(1)),
    ] {
        assert!(bench.try_send(event).is_err(), "{event:?}");
    }
    bench.send(Event::SnapshotRequested(id(5)));
    assert!(bench.try_send(Event::SnapshotRequested(id(6))).is_err(), "5 is waiting");
    bench.send(Event::SnapshotTaken(id(5)));
    assert!(bench.try_send(Event::SnapshotRequested(id(5))).is_err());
    bench.close(6);
    assert_eq!(bench.send(Event::SnapshotRequested(id(7))), [Action::Fail(id(7))], "no room");
}

/// What is sent to one subtask, by number, and the barriers that reach it, as the subtask sees them.
#[derive(Clone)]
struct World {
    bench: Bench,
    held: Vec<(u32, DeliveryTicket, CheckpointId)>,
    on_the_way: BTreeMap<u32, DeliveryTicket>,
    arrived: Vec<u32>,
    sent: u32,
    /// For each checkpoint how many events belong before it, from when the state was given.
    cut: BTreeMap<u64, u32>,
    acknowledged: Vec<u64>,
    snapshotted: Vec<u64>,
    ended: Vec<u64>,
    next: u64,
}

/// Every row of up to `left` steps; gives how many there are. One subtask has to see its events cut exactly where the
/// coordinator gave its state.
fn explore(world: &World, left: u32) -> u64 {
    if left == 0 {
        return 1;
    }
    let steps: [fn(&mut World) -> bool; 5] = [
        World::send_one,
        World::take_snapshot,
        World::deliver_oldest,
        World::reach_barrier,
        World::end_oldest,
    ];
    let rows = steps.iter().map(|step| {
        let mut next = world.clone();
        if step(&mut next) { explore(&next, left - 1) } else { 0 }
    });
    rows.sum()
}

impl World {
    fn obey(&mut self, actions: Vec<Action<1>>) {
        for action in actions {
            match action {
                Action::Deliver(ticket) => drop(self.on_the_way.insert(self.sent, ticket)),
                Action::Hold { ticket, behind } => self.held.push((self.sent, ticket, behind)),
                Action::Release(_) => {
                    let machine = &self.bench.0;
                    let (free, held): (Vec<_>, Vec<_>) =
                        self.held.iter().partition(|(_, _, behind)| machine.may_deliver(0, *behind));
                    self.held = held;
                    self.on_the_way.extend(free.into_iter().map(|(event, ticket, _)| (event, ticket)));
                }
                Action::Acknowledge(id) => self.acknowledged.push(id.0),
                Action::TakeSnapshot(_) => {}
                Action::Fail(_) | Action::FailJob => panic!("{action:?}"),
            }
        }
    }

    fn send_one(&mut self) -> bool {
        self.sent += 1;
        let actions = self.bench.send(Event::EventSent { subtask: 0 });
        self.obey(actions);
        true
    }

    fn take_snapshot(&mut self) -> bool {
        let (number, is_busy) = (self.next, self.cut.keys().any(|cut| !self.acknowledged.contains(cut)));
        if is_busy || self.cut.len() - self.ended.len() >= 2 {
            return false;
        }
        self.next += 1;
        self.cut.insert(number, self.sent);
        let actions = self.bench.send(Event::SnapshotRequested(id(number)));
        self.obey(actions);
        let actions = self.bench.send(Event::SnapshotTaken(id(number)));
        self.obey(actions);
        true
    }

    fn deliver_oldest(&mut self) -> bool {
        let Some((event, ticket)) = self.on_the_way.pop_first() else { return false };
        self.arrived.push(event);
        let actions = self.bench.send(Event::Delivered(ticket));
        self.obey(actions);
        true
    }

    /// The barrier of the oldest checkpoint that was acknowledged reaches the subtask.
    fn reach_barrier(&mut self) -> bool {
        let open =
            self.acknowledged.iter().find(|id| !self.snapshotted.contains(id) && !self.ended.contains(id));
        let Some(&number) = open else { return false };
        let before: Vec<u32> = (1..=self.cut[&number]).collect();
        assert_eq!(self.arrived, before, "{number} cuts elsewhere");
        self.snapshotted.push(number);
        let actions = self.bench.send(Event::SubtaskSnapshotted { id: id(number), subtask: 0 });
        self.obey(actions);
        true
    }

    fn end_oldest(&mut self) -> bool {
        let Some(&number) = self.cut.keys().find(|id| !self.ended.contains(id)) else { return false };
        self.ended.push(number);
        if !self.acknowledged.contains(&number) {
            self.acknowledged.push(number); // Nobody waits for it any more.
        }
        let actions = self.bench.send(Event::CheckpointEnded(id(number)));
        self.obey(actions);
        true
    }
}

#[test]
fn p29_every_short_row_cuts_a_subtasks_events_where_the_state_was_given() {
    let world = World {
        bench: Bench(Machine::new(1).unwrap()),
        held: Vec::new(),
        on_the_way: BTreeMap::new(),
        arrived: Vec::new(),
        sent: 0,
        cut: BTreeMap::new(),
        acknowledged: Vec::new(),
        snapshotted: Vec::new(),
        ended: Vec::new(),
        next: 1,
    };
    let rows = explore(&world, 8);
    assert!(rows > 5_000, "{rows}");
}

#[test]
fn p29_a_checkpoint_is_forgotten_when_its_last_gateway_opens() {
    let mut bench = Bench::new();
    for number in 1..=5 {
        bench.close(number);
        for subtask in [0, 1] {
            let event = Event::SubtaskSnapshotted { id: id(number), subtask };
            assert_eq!(bench.send(event), release(&[subtask]));
        }
    }
}

#[test]
fn p28_the_delivery_of_an_event_that_was_not_sent_is_refused() {
    let mut bench = Bench::new();
    let sent = bench.deliver(0);
    bench.send(Event::SnapshotRequested(id(1)));
    assert_eq!(bench.send(Event::SnapshotTaken(id(1))), []);
    // The snapshot waits for what was sent before it, but nothing was sent since.
    let later = DeliveryTicket(sent.0 + 1);
    assert!(matches!(bench.try_send(Event::Delivered(later)), Err(Rejected::Unexpected { .. })));
    assert_eq!(bench.send(Event::Delivered(sent)), [Action::Acknowledge(id(1))]);
}

/// Gateways that checkpoint 1 has closed and checkpoint 2 is to close, with something set wrong.
fn spoilt(spoil: impl FnOnce(&mut Machine)) -> Option<&'static str> {
    let mut bench = Bench::new();
    bench.close(1);
    bench.send(Event::SnapshotRequested(id(2)));
    assert_eq!(bench.0.broken_invariant(), None);
    spoil(&mut bench.0);
    bench.0.broken_invariant()
}

#[test]
fn each_broken_invariant_is_named() {
    fn closing(machine: &mut Machine, index: usize) -> &mut super::Closing<1> {
        machine.checkpoints[index].as_mut().unwrap()
    }
    assert_eq!(spoilt(|machine| closing(machine, 0).stage = super::Stage::AwaitingSnapshot), Some("WI1"));
    assert_eq!(spoilt(|machine| closing(machine, 1).id = id(1)), Some("WI2"));
    assert_eq!(spoilt(|machine| machine.subtasks = super::SubtaskSet::first(1)), Some("WI3"));
    let closed_early = |machine: &mut Machine| closing(machine, 1).closed = super::SubtaskSet::first(1);
    assert_eq!(spoilt(closed_early), Some("WI4"));
}

#[test]
#[should_panic(expected = "WI2")]
fn check_panics_at_a_broken_invariant() {
    let mut bench = Bench::new();
    bench.close(1);
    bench.0.checkpoints[1] = bench.0.checkpoints[0];
    bench.0.check();
}

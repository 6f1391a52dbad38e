//! Seeded random walks of a coordinator, two sources and a sink behind a gate, with every message delayed, reordered
//! or, where that may happen, lost.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::vec::Vec;

use super::{
    Attempt, Coordinator, CoordinatorAction, CoordinatorEvent, CoordinatorOptions, Notification, RequestKind,
    RequestToken, Sources, TaskReport, TaskSet, TaskState, TriggerError,
};
use crate::gate::{Gate, GateAction, GateEvent, GateOptions};
use crate::ids::{Barrier, ChannelIndex, CheckpointId, TaskIndex};
use crate::subtask::{Part, PartSet, PartSizes, Subtask, SubtaskAction, SubtaskEvent, SubtaskOptions};
use crate::time::{Millis, Now};

const SINK: usize = 2;

type Machine = Coordinator<1, 4>;

#[derive(Clone, Copy, Debug)]
enum Message {
    ToCoordinator(CoordinatorEvent),
    ToTask(usize, SubtaskEvent),
}

#[derive(Clone, Copy, Debug)]
enum Mark {
    Barrier(Barrier),
    Cancel(CheckpointId),
}

struct World {
    random: u64,
    at: u64,
    coordinator: Machine,
    tasks: [Subtask<4>; 3],
    gate: Gate<1>,
    channels: [VecDeque<Mark>; 2],
    /// Delivered in any order.
    messages: Vec<Message>,
    requests: BTreeSet<u32>,
    acknowledged: BTreeMap<u64, BTreeSet<u16>>,
    complete: BTreeSet<u64>,
    aborted: BTreeSet<u64>,
    discarded: BTreeSet<u64>,
    /// The newest that the store was given.
    stored: u64,
}

impl World {
    fn new(seed: u64) -> Self {
        let options = CoordinatorOptions {
            interval: Some(Millis(20)),
            timeout: Millis(60),
            min_pause: Millis(seed % 3 * 5),
            max_concurrent_checkpoints: 1 + u16::try_from(seed % 3).unwrap(),
            tolerable_failed_checkpoints: 2,
            checkpoints_after_tasks_finish: false,
            seed,
            ..CoordinatorOptions::default()
        };
        let next_id = CheckpointId(1 + seed % 5 * 100);
        let graph = Sources { tasks: TaskSet::first(3), sources: TaskSet::first(2) };
        let coordinator = Coordinator::new(options, graph, next_id).unwrap();
        let mut world = Self {
            random: seed,
            at: 0,
            coordinator,
            tasks: core::array::from_fn(|task| {
                Subtask::new(if task == SINK { SubtaskOptions::INNER } else { SubtaskOptions::SOURCE })
            }),
            gate: Gate::<1>::new(2, GateOptions::ALIGNED).unwrap(),
            channels: Default::default(),
            messages: Vec::new(),
            requests: BTreeSet::new(),
            acknowledged: BTreeMap::new(),
            complete: BTreeSet::new(),
            aborted: BTreeSet::new(),
            discarded: BTreeSet::new(),
            stored: 0,
        };
        (0..3).for_each(|task| world.task(task, SubtaskEvent::Started));
        for attempt in (0..3).map(TaskIndex).map(Attempt::first) {
            world.coordinate(CoordinatorEvent::TaskChanged { attempt, state: TaskState::Running });
        }
        world.coordinate(CoordinatorEvent::JobStarted);
        world
    }

    fn draw(&mut self, below: usize) -> usize {
        self.random = self.random.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
        usize::try_from((self.random >> 33) % u64::try_from(below.max(1)).unwrap()).unwrap()
    }

    fn now(&self) -> Now {
        Now { monotonic: Millis(self.at), wall: Millis(self.at) }
    }

    fn step(&mut self) {
        match self.draw(24) {
            0..10 => self.deliver(),
            10..18 => {
                let channel = self.draw(2);
                self.read(channel);
            }
            18..21 => self.pass_time(),
            21 => {
                let token = u32::try_from(self.requests.len() + 1_000 * self.draw(1_000_000)).unwrap();
                if self.requests.insert(token) {
                    self.coordinate(CoordinatorEvent::CheckpointRequested {
                        request: RequestToken(token),
                        kind: RequestKind::Configured,
                    });
                }
            }
            22 if self.draw(8) == 0 => {
                let task = u16::try_from(self.draw(3)).unwrap();
                self.coordinate(CoordinatorEvent::TaskFailed(Attempt::first(TaskIndex(task))));
            }
            23 if self.draw(20) == 0 => {
                self.coordinate(CoordinatorEvent::JobStopped);
                self.coordinate(CoordinatorEvent::JobStarted);
            }
            _ => {}
        }
    }

    fn deliver(&mut self) {
        if self.messages.is_empty() {
            return;
        }
        let which = self.draw(self.messages.len());
        match self.messages.swap_remove(which) {
            Message::ToCoordinator(event) => self.coordinate(event),
            Message::ToTask(task, event) => self.task(task, event),
        }
    }

    /// The sink takes what is next from a channel, unless it is blocked.
    fn read(&mut self, index: usize) {
        let channel = ChannelIndex(u16::try_from(index).unwrap());
        if self.gate.is_blocked(channel) {
            return;
        }
        let event = match self.channels[index].pop_front() {
            Some(Mark::Barrier(barrier)) => GateEvent::BarrierArrived { channel, barrier },
            Some(Mark::Cancel(checkpoint)) => GateEvent::CancelArrived { channel, checkpoint },
            None => return,
        };
        let mut out = heapless::Vec::<_, { Gate::<1>::ACTIONS_MAX }>::new();
        self.gate.on_event(self.now(), event, &mut out).unwrap();
        self.gate.check();
        for action in out {
            match action {
                GateAction::TriggerCheckpoint { barrier, alignment } => {
                    self.task(SINK, SubtaskEvent::CheckpointTriggered { barrier, alignment });
                }
                GateAction::AbortCheckpoint { id, reason } => {
                    self.task(SINK, SubtaskEvent::AlignmentAborted { id, reason });
                }
                GateAction::Block(_) | GateAction::Resume(_) => {}
                GateAction::Overtake { .. }
                | GateAction::StartCapture { .. }
                | GateAction::StopCapture { .. }
                | GateAction::DropCapture(_)
                | GateAction::AbortCheckpoints { .. } => panic!("a gate that only aligns orders {action:?}"),
            }
        }
    }

    fn pass_time(&mut self) {
        self.at += u64::try_from(self.draw(12)).unwrap();
        while self.coordinator.next_deadline(self.now()).is_some_and(|deadline| deadline.0 <= self.at) {
            self.coordinate(CoordinatorEvent::DeadlineReached);
        }
    }

    fn task(&mut self, task: usize, event: SubtaskEvent) {
        let mut out = heapless::Vec::<_, { Subtask::<4>::ACTIONS_MAX }>::new();
        self.tasks[task].on_event(self.now(), event, &mut out).unwrap();
        self.tasks[task].check();
        for action in out {
            self.obey_task(task, action);
        }
    }

    fn obey_task(&mut self, task: usize, action: SubtaskAction) {
        let index = TaskIndex(u16::try_from(task).unwrap());
        match action {
            SubtaskAction::BroadcastBarrier(barrier) if task != SINK => {
                self.channels[task].push_back(Mark::Barrier(barrier));
            }
            SubtaskAction::BroadcastCancel(id) if task != SINK => {
                self.channels[task].push_back(Mark::Cancel(id));
            }
            SubtaskAction::SnapshotOperators(barrier) => {
                let parts = PartSet::only(Part::ManagedKeyed);
                self.task(
                    task,
                    SubtaskEvent::SnapshotTaken { id: barrier.id, parts, since: self.now().monotonic },
                );
            }
            SubtaskAction::Persist { id, .. } => {
                let fails = self.draw(12) == 0;
                let event = if fails {
                    SubtaskEvent::PersistFailed { id, reason: None }
                } else {
                    SubtaskEvent::PartPersisted { id, part: Part::ManagedKeyed, sizes: PartSizes::default() }
                };
                self.messages.push(Message::ToTask(task, event));
            }
            SubtaskAction::Acknowledge { id, .. } => {
                self.acknowledged.entry(id.0).or_default().insert(index.0);
                self.tell_coordinator(CoordinatorEvent::Acknowledged {
                    id,
                    by: Attempt::first(index),
                    report: TaskReport::default(),
                });
            }
            SubtaskAction::Decline { id, reason } => {
                self.tell_coordinator(CoordinatorEvent::Declined { id, by: Attempt::first(index), reason });
            }
            SubtaskAction::NotifyComplete(id) => assert!(self.complete.contains(&id.0)),
            SubtaskAction::NotifyAbort(id) => assert!(self.aborted.contains(&id.0)),
            SubtaskAction::FailTask { id, failure } => panic!("nothing failed at {id}: {failure}"),
            SubtaskAction::PrepareOperators(_)
            | SubtaskAction::BroadcastBarrier(_)
            | SubtaskAction::BroadcastCancel(_)
            | SubtaskAction::CancelPersist(_)
            | SubtaskAction::ReportIncomplete { .. }
            | SubtaskAction::NotifySubsume(_) => {}
            SubtaskAction::InjectBarrier(_)
            | SubtaskAction::EndData { .. }
            | SubtaskAction::OvertakeOutputs(_)
            | SubtaskAction::DropCapture(_)
            | SubtaskAction::ReopenGateways(_)
            | SubtaskAction::PersistInput(_)
            | SubtaskAction::StoreLocalState(_)
            | SubtaskAction::ConfirmLocalState(_)
            | SubtaskAction::DropLocalState(_)
            | SubtaskAction::Close => panic!("nothing asked for {action:?}"),
        }
    }

    fn tell_coordinator(&mut self, event: CoordinatorEvent) {
        self.messages.push(Message::ToCoordinator(event));
    }

    fn coordinate(&mut self, event: CoordinatorEvent) {
        let mut out = heapless::Vec::<_, { Machine::ACTIONS_MAX }>::new();
        self.coordinator.on_event(self.now(), event, &mut out).unwrap();
        self.coordinator.check();
        for action in out {
            self.obey_coordinator(action);
        }
    }

    fn obey_coordinator(&mut self, action: CoordinatorAction<1>) {
        match action {
            CoordinatorAction::PrepareLocation { id, .. } => {
                let fails = self.draw(12) == 0;
                let made = CoordinatorEvent::LocationPrepared(id);
                self.tell_coordinator(if fails {
                    CoordinatorEvent::LocationFailed { id, error: TriggerError::Io }
                } else {
                    made
                });
            }
            CoordinatorAction::TriggerTasks { barrier, tasks } => {
                assert!(!self.aborted.contains(&barrier.id.0));
                for task in tasks.iter().map(usize::from) {
                    self.messages.push(Message::ToTask(task, SubtaskEvent::TriggerReceived(barrier)));
                }
            }
            CoordinatorAction::PersistManifest { id, .. } => {
                assert_eq!(self.acknowledged.get(&id.0).map(BTreeSet::len), Some(3), "{id}");
                let fails = self.draw(12) == 0;
                let durable = CoordinatorEvent::ManifestPersisted(id);
                self.tell_coordinator(if fails { CoordinatorEvent::ManifestFailed(id) } else { durable });
            }
            CoordinatorAction::AddToStore(id) => {
                assert!(self.stored < id.0, "{id} is stored after {}", self.stored);
                let fails = self.draw(12) == 0;
                self.stored = if fails { self.stored } else { id.0 };
                self.tell_coordinator(if fails {
                    CoordinatorEvent::StoreFailed { id, may_be_stored: false }
                } else {
                    CoordinatorEvent::Stored { id, subsumed: None }
                });
            }
            CoordinatorAction::Notify { notification, .. } => self.notify(notification),
            CoordinatorAction::DiscardAcknowledged(id) => {
                assert!(!self.complete.contains(&id.0), "{id} is complete");
                assert!(self.discarded.insert(id.0), "{id} is discarded twice");
                self.tell_coordinator(CoordinatorEvent::CleaningEnded);
            }
            CoordinatorAction::DiscardLate { id, .. } => {
                assert!(!self.complete.contains(&id.0), "{id} is complete");
            }
            CoordinatorAction::RequestCompleted { request, .. } => assert!(self.requests.remove(&request.0)),
            CoordinatorAction::RequestFailed { request: Some(request), .. }
            | CoordinatorAction::RequestRefused { request: Some(request), .. } => {
                assert!(self.requests.remove(&request.0), "{request:?} is answered twice");
            }
            CoordinatorAction::RequestFailed { request: None, .. }
            | CoordinatorAction::RequestRefused { request: None, .. }
            | CoordinatorAction::KeepPart { .. }
            | CoordinatorAction::FailJob { .. } => {}
            CoordinatorAction::SnapshotOperatorCoordinators { .. }
            | CoordinatorAction::TriggerHooks { .. }
            | CoordinatorAction::RegisterShared { .. }
            | CoordinatorAction::RestoreHooks(_)
            | CoordinatorAction::CloseHooks => panic!("nobody has a use for {action:?}"),
        }
    }

    fn notify(&mut self, notification: Notification) {
        let event = match notification {
            Notification::Complete { id, .. } => {
                assert!(!self.aborted.contains(&id.0), "{id} was aborted");
                assert!(self.complete.insert(id.0), "{id} completes twice");
                SubtaskEvent::CompleteNotified(id)
            }
            Notification::Abort { id, latest_completed } => {
                assert!(!self.complete.contains(&id.0), "{id} is complete");
                assert!(self.aborted.insert(id.0), "{id} is aborted twice");
                SubtaskEvent::AbortNotified { id, latest_completed }
            }
        };
        for task in 0..3 {
            if self.draw(5) > 0 {
                self.messages.push(Message::ToTask(task, event)); // Rule P19: one in five is lost.
            }
        }
    }

    /// After the end every message is delivered: nothing may be left over.
    fn settle(&mut self) {
        self.coordinate(CoordinatorEvent::ShutDown);
        self.pass_time();
        while !self.messages.is_empty() || self.channels.iter().any(|channel| !channel.is_empty()) {
            self.deliver();
            let channel = self.draw(2);
            self.read(channel);
            let stuck = [0, 1].map(|channel| self.gate.is_blocked(ChannelIndex(channel)));
            if self.messages.is_empty() && stuck.contains(&true) {
                break; // The other channel's barrier never came: its source was not triggered, or had no room.
            }
        }
        assert!(self.coordinator.is_idle());
        assert!(self.requests.is_empty(), "without an answer: {:?}", self.requests);
        assert!(self.tasks.iter().all(|task| task.persisting_count() == 0));
        let ended = self.complete.len() + self.aborted.len();
        assert!(ended > 0);
    }
}

#[test]
fn random_walks_end_every_checkpoint_and_answer_every_request_once() {
    let mut complete = 0;
    for seed in 0..200 {
        let mut world = World::new(seed);
        (0..600).for_each(|_| world.step());
        world.settle();
        complete += world.complete.len();
    }
    assert!(complete > 200, "the walk must get somewhere: {complete}");
}

//! Every short row of events at a coordinator of two tasks, against an oracle that knows only what was ordered.
//!
//! The oracle holds that (1) ids strictly ascend, (2) each checkpoint ends exactly once, complete or aborted, and what the
//! tasks are told says the same, (3) it is complete only after its folder was made, both tasks acknowledged, its
//! manifest was durable and, unless it is a savepoint, the store took it, (4) the store gets ids in order, (5) each
//! request is answered exactly once, (6) an older checkpoint does not go on once a newer one is complete, unless its
//! manifest is being written, and (7) nothing of a complete checkpoint is discarded, and what is discarded is
//! discarded once.

use std::vec::Vec;

use super::{
    Attempt, Coordinator, CoordinatorAction as Action, CoordinatorEvent as Event, CoordinatorOptions,
    Notification, Participant, RequestKind, RequestToken, Sources, TaskReport, TaskSet, TaskState,
    TriggerError,
};
use crate::ids::{CheckpointId, SavepointFormat, TaskIndex};
use crate::reason::FailureReason;
use crate::time::{Millis, Now};

type Machine = Coordinator<1, 3, 2>;

/// Requests of one row.
const REQUESTS: usize = 3;
const TIMEOUT: Millis = Millis(100);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum End {
    #[default]
    Open,
    Complete,
    Aborted,
}

/// What the program has been told to do for one checkpoint, and what it has reported.
#[derive(Clone, Copy, Debug, Default)]
struct Record {
    is_savepoint: bool,
    /// Orders whose reports are still to come.
    awaits_location: bool,
    awaits_manifest: bool,
    awaits_store: bool,
    is_triggered: bool,
    acknowledged: [bool; 2],
    is_durable: bool,
    is_stored: bool,
    end: End,
    is_discarded: bool,
}

#[derive(Clone)]
struct World {
    machine: Machine,
    at: u64,
    records: [Record; REQUESTS],
    started: usize,
    /// Whether each request was made, and whether it was answered.
    requests: [(bool, bool); REQUESTS],
    cleaning: u32,
    stored: u64,
    log: [Option<Event>; 16],
    events: usize,
}

impl World {
    fn new(max_concurrent_checkpoints: u16) -> Self {
        let options = CoordinatorOptions {
            timeout: TIMEOUT,
            max_concurrent_checkpoints,
            tolerable_failed_checkpoints: u32::MAX,
            checkpoints_after_tasks_finish: false,
            ..CoordinatorOptions::default()
        };
        let graph = Sources { tasks: TaskSet::first(2), sources: TaskSet::first(1) };
        let machine = Machine::new(options, graph, CheckpointId::FIRST).unwrap();
        let mut world = Self {
            machine,
            at: 0,
            records: Default::default(),
            started: 0,
            requests: Default::default(),
            cleaning: 0,
            stored: 0,
            log: [None; 16],
            events: 0,
        };
        for attempt in [0, 1].map(TaskIndex).map(Attempt::first) {
            world.send(Event::TaskChanged { attempt, state: TaskState::Running });
        }
        world.send(Event::JobStarted);
        world.events = 0;
        world
    }

    fn send(&mut self, event: Event) {
        let mut out = heapless::Vec::<_, { Machine::ACTIONS_MAX }>::new();
        let now = Now { monotonic: Millis(self.at), wall: Millis(self.at) };
        if let Some(slot) = self.log.get_mut(self.events) {
            *slot = Some(event);
        }
        self.events += 1;
        let taken = self.machine.on_event(now, event, &mut out);
        assert!(taken.is_ok(), "{taken:?}: {:?}", self.log);
        out.iter().for_each(|action| self.judge(action));
        let complete = |record: &Record| record.end == End::Complete && !record.is_savepoint;
        let newest = self.records.iter().rposition(complete).unwrap_or(0);
        let lingers =
            |record: &Record| record.end == End::Open && !record.is_savepoint && !record.awaits_manifest;
        assert!(!self.records[..newest].iter().any(lingers), "subsumed, but goes on: {:?}", self.log);
    }

    fn record(&mut self, id: CheckpointId) -> &mut Record {
        let index = usize::try_from(id.0).unwrap() - 1;
        assert!(index < self.started, "{id} was never started: {:?}", self.log);
        &mut self.records[index]
    }

    fn judge(&mut self, action: &Action<1>) {
        match *action {
            Action::PrepareLocation { id, kind, .. } => {
                self.started += 1;
                assert_eq!(id.0, self.started as u64, "ids ascend");
                *self.record(id) =
                    Record { is_savepoint: kind.is_savepoint(), awaits_location: true, ..Record::default() };
            }
            Action::TriggerTasks { barrier, .. } => {
                let record = self.record(barrier.id);
                assert!(!record.is_triggered && record.end == End::Open);
                record.is_triggered = true;
            }
            Action::PersistManifest { id, .. } => {
                let record = self.record(id);
                assert!(record.is_triggered && record.acknowledged == [true; 2] && record.end == End::Open);
                record.awaits_manifest = true;
            }
            Action::AddToStore(id) => {
                assert!(self.stored < id.0, "{id} after {}: {:?}", self.stored, self.log);
                let record = self.record(id);
                assert!(record.is_durable && !record.is_savepoint && record.end == End::Open);
                record.awaits_store = true;
            }
            Action::Notify { notification, .. } => self.judge_notification(notification),
            Action::RequestCompleted { request, id } => {
                let record = self.record(id);
                assert!(record.is_durable && (record.is_savepoint || record.is_stored));
                if record.is_savepoint {
                    assert_eq!(record.end, End::Open); // No task hears of it.
                    record.end = End::Complete;
                }
                self.answer(request);
            }
            Action::RequestFailed { request: Some(request), .. }
            | Action::RequestRefused { request: Some(request), .. } => self.answer(request),
            Action::DiscardAcknowledged(id) => {
                let record = self.record(id);
                assert!(record.end != End::Complete && !record.is_discarded && !record.awaits_location);
                record.is_discarded = true;
                self.cleaning += 1;
            }
            Action::DiscardLate { id, by: Participant::Task(_), .. } => {
                let end = self.record(id).end;
                assert_eq!(end, End::Aborted, "{:?}", self.log);
            }
            Action::KeepPart { id, by } => {
                let task = usize::from(by.task.0);
                let record = self.record(id);
                assert!(!record.acknowledged[task] && record.end == End::Open);
                record.acknowledged[task] = true;
            }
            Action::RequestFailed { request: None, .. }
            | Action::RequestRefused { request: None, .. }
            | Action::DiscardLate { .. }
            | Action::SnapshotOperatorCoordinators { .. }
            | Action::TriggerHooks { .. }
            | Action::RegisterShared { .. }
            | Action::FailJob { .. }
            | Action::RestoreHooks(_)
            | Action::CloseHooks => panic!("{action:?}: {:?}", self.log),
        }
    }

    fn judge_notification(&mut self, notification: Notification) {
        let latest = self.machine.latest_completed();
        match notification {
            Notification::Complete { id, .. } => {
                let record = self.record(id);
                assert!(record.end == End::Open && record.is_stored);
                record.end = End::Complete;
            }
            Notification::Abort { id, latest_completed } => {
                assert_eq!(latest_completed, latest);
                let record = self.record(id);
                assert_eq!(record.end, End::Open, "{id}");
                record.end = End::Aborted;
            }
        }
    }

    fn answer(&mut self, request: RequestToken) {
        let (made, answered) = &mut self.requests[usize::try_from(request.0).unwrap()];
        assert!(*made && !*answered, "{request:?} is answered twice: {:?}", self.log);
        *answered = true;
    }

    /// What may happen next.
    fn choices(&self) -> Vec<Event> {
        let mut choices = Vec::new();
        if let Some(free) = self.requests.iter().position(|(made, _)| !made) {
            let request = RequestToken(u32::try_from(free).unwrap());
            let savepoint = RequestKind::Savepoint(SavepointFormat::Canonical);
            choices.extend(
                [RequestKind::Configured, savepoint].map(|kind| Event::CheckpointRequested { request, kind }),
            );
        }
        for (number, record) in (1..).zip(&self.records[..self.started]) {
            let id = CheckpointId(number);
            if record.awaits_location {
                let error = TriggerError::Io;
                choices.extend([Event::LocationPrepared(id), Event::LocationFailed { id, error }]);
            }
            if record.is_triggered && record.end != End::Complete {
                let report = TaskReport::default();
                let by = [0, 1].map(TaskIndex).map(Attempt::first);
                choices.extend(by.map(|by| Event::Acknowledged { id, by, report }));
                let reason = FailureReason::CheckpointDeclined;
                if record.end == End::Open {
                    choices.push(Event::Declined { id, by: by[1], reason });
                }
            }
            if record.awaits_manifest {
                choices.extend([Event::ManifestPersisted(id), Event::ManifestFailed(id)]);
            }
            if record.awaits_store {
                let may_be_stored = false;
                choices
                    .extend([Event::Stored { id, subsumed: None }, Event::StoreFailed { id, may_be_stored }]);
            }
        }
        if self.cleaning > 0 {
            choices.push(Event::CleaningEnded);
        }
        if self.machine.pending_count() > 0 {
            choices.push(Event::DeadlineReached);
        }
        choices
    }

    fn take(&mut self, event: Event) {
        if let Event::CheckpointRequested { request, .. } = event {
            self.requests[usize::try_from(request.0).unwrap()].0 = true;
        }
        if let Event::LocationPrepared(id) | Event::LocationFailed { id, .. } = event {
            self.record(id).awaits_location = false;
        }
        if let Event::ManifestPersisted(id) | Event::ManifestFailed(id) = event {
            self.record(id).awaits_manifest = false;
            self.record(id).is_durable = matches!(event, Event::ManifestPersisted(_));
        }
        if let Event::Stored { id, .. } | Event::StoreFailed { id, .. } = event {
            self.record(id).awaits_store = false;
            self.record(id).is_stored = matches!(event, Event::Stored { .. });
            self.stored = if self.record(id).is_stored { id.0 } else { self.stored };
        }
        self.cleaning -= u32::from(event == Event::CleaningEnded);
        self.at += if event == Event::DeadlineReached { TIMEOUT.0 } else { 0 };
        self.send(event);
    }

    /// Every row of `left` more events; gives how many there are.
    fn explore(&self, left: u32) -> u64 {
        let choices = self.choices();
        if left == 0 || choices.is_empty() {
            self.clone().settle();
            return 1;
        }
        let rows = choices.into_iter().map(|event| {
            let mut next = self.clone();
            next.take(event);
            next.explore(left - 1)
        });
        rows.sum()
    }

    /// Shuts the coordinator down and reports what it still waits for: nothing may be left over.
    fn settle(mut self) {
        self.send(Event::ShutDown);
        let reports = |event: &Event| {
            matches!(
                event,
                Event::LocationPrepared(_)
                    | Event::ManifestPersisted(_)
                    | Event::Stored { .. }
                    | Event::CleaningEnded
            )
        };
        while let Some(event) = self.choices().into_iter().find(reports) {
            self.take(event);
        }
        while self.machine.next_deadline(Now { monotonic: Millis(self.at), ..Now::default() }).is_some() {
            self.send(Event::DeadlineReached);
        }
        assert!(self.machine.is_idle(), "{:?}", self.log);
        assert!(self.requests.iter().all(|(made, answered)| made == answered), "{:?}", self.log);
        for record in &self.records[..self.started] {
            assert_ne!(record.end, End::Open, "{:?}", self.log);
            let is_lost = record.end == End::Aborted && record.is_triggered && !record.is_discarded;
            assert!(!is_lost, "files are left: {:?}", self.log);
        }
    }
}

/// How many events a row has: the unoptimised code is not fast enough for more.
const LENGTH: u32 = if cfg!(debug_assertions) { 8 } else { 9 };

#[test]
fn every_short_row_of_events_ends_each_checkpoint_once_and_answers_each_request_once() {
    let rows: u64 = [1, 2]
        .map(|max_concurrent_checkpoints| World::new(max_concurrent_checkpoints).explore(LENGTH))
        .iter()
        .sum();
    std::println!("{rows} rows of {LENGTH} events");
    assert!(rows > 600_000, "{rows}");
}

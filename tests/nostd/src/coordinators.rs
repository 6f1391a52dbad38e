//! The coordinator and what stands beside it.

use heapless::Vec;
use slackwater_core::coordinator::gateways::{DeliveryTicket, Gateways, GatewaysAction, GatewaysEvent};
use slackwater_core::coordinator::statistics::{RestoreFigures, Spread, Statistics, SubtaskFigures};
use slackwater_core::coordinator::{
    Attempt, Coordinator, CoordinatorAction, CoordinatorEvent, CoordinatorOptions, Edge, EdgePattern,
    FinishedState, Hooks, JobGraph, RequestKind, RequestToken, RestoredFrom, TaskReport, TaskState,
    TriggerError,
};
use slackwater_core::gate::{Gate, GateAction, GateEvent, GateOptions};
use slackwater_core::ids::{
    AlignmentOptions, ChannelIndex, Guarantee, SavepointFormat, SnapshotKind, TaskIndex,
};
use slackwater_core::time::Millis;

use crate::data::{Data, used};
use crate::machines::{EVENTS, reason};

pub(crate) fn coordinator(data: &mut Data) -> u32 {
    let options = CoordinatorOptions {
        interval: data.bit().then(|| Millis(data.long())),
        interval_during_backlog: data.bit().then(|| Millis(data.long())),
        timeout: Millis(data.long()),
        min_pause: Millis(data.long()),
        max_concurrent_checkpoints: data.short(),
        tolerable_failed_checkpoints: data.word(),
        alignment: AlignmentOptions {
            guarantee: if data.bit() { Guarantee::ExactlyOnce } else { Guarantee::AtLeastOnce },
            unaligned: data.bit(),
            aligned_timeout: data.bit().then(|| Millis(data.long())),
        },
        checkpoints_after_tasks_finish: data.bit(),
        operator_coordinators: data.short() & 3,
        hooks: data.short() & 3,
        seed: data.long(),
        ..CoordinatorOptions::default()
    };
    let mut graph = JobGraph::<2, 4, 4>::new();
    let mut sum = used(&graph.add_vertex(data.short())) ^ used(&graph.add_vertex(data.short()));
    let pattern = if data.bit() { EdgePattern::Pointwise } else { EdgePattern::AllToAll };
    sum ^= used(&graph.add_edge(Edge { from: data.short(), to: data.short(), pattern }));
    let Ok(mut machine) = Coordinator::<2, 4, 8, _>::new(options, graph, data.id()) else { return 0 };
    let mut actions = Vec::<CoordinatorAction<2>, 32>::new();
    sum ^= used(&machine.graph().check_finished(&[FinishedState::Fully, FinishedState::Partly]).is_ok());
    for _ in 0..EVENTS {
        let event = coordinator_event(data);
        sum ^= used(&machine.on_event(data.now(), event, &mut actions));
        sum ^= used(&actions) ^ used(&machine.next_deadline(data.now())) ^ used(&machine.latest_completed());
        actions.clear();
    }
    sum
}

fn coordinator_event(data: &mut Data) -> CoordinatorEvent {
    let (id, task, index) = (data.id(), TaskIndex(data.short()), data.short() & 3);
    let by = Attempt { task, number: data.short() & 1 };
    let error = if data.bit() { TriggerError::Io } else { TriggerError::Checkpoint(reason(data)) };
    match data.word() & 31 {
        0 => CoordinatorEvent::JobStarted,
        1 => CoordinatorEvent::JobStopped,
        2 => CoordinatorEvent::ShutDown,
        3 => CoordinatorEvent::CheckpointRequested { request: RequestToken(data.word()), kind: kind(data) },
        4 => CoordinatorEvent::LocationPrepared(id),
        5 => CoordinatorEvent::LocationFailed { id, error },
        6 => CoordinatorEvent::Declined { id, by, reason: reason(data) },
        7 => CoordinatorEvent::TaskFailed(by),
        8 => CoordinatorEvent::ManifestPersisted(id),
        9 => CoordinatorEvent::ManifestFailed(id),
        10 => CoordinatorEvent::DeadlineReached,
        11 => CoordinatorEvent::Stored { id, subsumed: data.bit().then(|| data.id()) },
        12 => CoordinatorEvent::StoreFailed { id, may_be_stored: data.bit() },
        13 => CoordinatorEvent::CleaningStarted,
        14 => CoordinatorEvent::CleaningEnded,
        15 => CoordinatorEvent::BacklogChanged { source: index, is_behind: data.bit() },
        16 => CoordinatorEvent::PeriodicPaused,
        17 => CoordinatorEvent::PeriodicResumed,
        18 => CoordinatorEvent::OperatorCoordinatorAcknowledged { id, coordinator: index },
        19 => CoordinatorEvent::OperatorCoordinatorFailed { id, coordinator: index, error },
        20 => CoordinatorEvent::HookAcknowledged { id, hook: index },
        21 => CoordinatorEvent::HookFailed { id, hook: index, error },
        22 => CoordinatorEvent::TriggerFailed { id, task, error },
        23 => CoordinatorEvent::Restored(
            data.bit().then(|| RestoredFrom { id: data.id(), is_unclaimed: data.bit() }),
        ),
        24..26 => CoordinatorEvent::TaskChanged { attempt: by, state: task_state(data) },
        _ => CoordinatorEvent::Acknowledged { id, by, report: report(data) },
    }
}

fn task_state(data: &mut Data) -> TaskState {
    if data.bit() {
        return TaskState::Running;
    }
    if data.bit() { TaskState::Finished } else { TaskState::Pending }
}

fn report(data: &mut Data) -> TaskReport {
    TaskReport {
        has_state: data.bit(),
        has_union_state: data.bit(),
        is_finished: data.bit(),
        was_deployed_finished: data.bit(),
    }
}

fn kind(data: &mut Data) -> RequestKind {
    let format = SavepointFormat::Native;
    match data.word() & 7 {
        0 => RequestKind::Full,
        1 => RequestKind::Incremental,
        2 => RequestKind::Savepoint(format),
        3 => RequestKind::Suspend(format),
        4 => RequestKind::Drain(format),
        _ => RequestKind::Configured,
    }
}

pub(crate) fn gateways(data: &mut Data) -> u32 {
    let Ok(mut machine) = Gateways::<2, 3>::new(data.short()) else { return 0 };
    let mut actions = Vec::<GatewaysAction<2>, 4>::new();
    let mut tickets = Vec::<DeliveryTicket, 8>::new();
    let mut sum = 0;
    for _ in 0..EVENTS {
        let Some(event) = gateways_event(data, &mut tickets) else { continue };
        sum ^= used(&machine.on_event(data.now(), event, &mut actions));
        sum ^= used(&actions) ^ used(&machine.may_deliver(data.short(), data.id()));
        for action in &actions {
            if let GatewaysAction::Deliver(ticket) | GatewaysAction::Hold { ticket, .. } = action {
                sum ^= used(&tickets.push(*ticket).is_ok());
            }
        }
        actions.clear();
    }
    sum
}

fn gateways_event(data: &mut Data, tickets: &mut Vec<DeliveryTicket, 8>) -> Option<GatewaysEvent> {
    let (id, subtask) = (data.id(), data.short());
    Some(match data.word() & 15 {
        0 => GatewaysEvent::SnapshotRequested(id),
        1 => GatewaysEvent::SnapshotTaken(id),
        2 => GatewaysEvent::SnapshotFailed(id),
        3 => GatewaysEvent::CoordinatorBroke(id),
        4 => GatewaysEvent::SubtaskSnapshotted { id, subtask },
        5 => GatewaysEvent::CheckpointEnded(id),
        6 => GatewaysEvent::SubtaskReset { subtask },
        7 => GatewaysEvent::Reset,
        8 => GatewaysEvent::Delivered(tickets.pop()?),
        9 => GatewaysEvent::DeliveryFailed(tickets.pop()?),
        _ => GatewaysEvent::EventSent { subtask },
    })
}

pub(crate) fn statistics(data: &mut Data) -> u32 {
    let mut statistics = Statistics::<3, 4>::new();
    let mut spread = Spread::default();
    let mut sum = 0;
    for _ in 0..EVENTS {
        let (id, at, kind) = (data.id(), Millis(data.long()), SnapshotKind::Checkpoint);
        match data.word() & 7 {
            0 => sum ^= used(&statistics.triggered(id, kind, at, data.word(), data.word())),
            1 => sum ^= used(&statistics.completed(id)),
            2 => sum ^= used(&statistics.failed(id, at, reason(data))),
            3 => statistics.failed_without_checkpoint(),
            4 => statistics.discarded(id),
            5 => statistics.restored(RestoreFigures { id, kind, at, state_size: data.long() }),
            _ => {
                let figures = SubtaskFigures {
                    state_size: data.long(),
                    is_complete: data.bit(),
                    ..SubtaskFigures::finished(TaskIndex(data.short()), at)
                };
                spread.add(&figures, Millis(data.long()));
                statistics.reported(id, &figures);
            }
        }
        sum ^= used(&statistics.counts()) ^ used(statistics.summary()) ^ used(&statistics.find(id).is_some());
    }
    sum ^ used(&statistics.history().count()) ^ used(&spread.duration.mean())
}

pub(crate) fn hooks(data: &mut Data) -> u32 {
    let mut bytes = [0; 16];
    data.fill(&mut bytes);
    let Ok(text) = core::str::from_utf8(&bytes) else { return 0 };
    let mut hooks = Hooks::<2>::new();
    let mut sum =
        used(&hooks.register(text)) ^ used(&hooks.register("first")) ^ used(&hooks.register("second"));
    sum ^= used(&hooks.restore_order(&[text, "second"], data.bit()));
    sum ^ used(&hooks.count())
}

/// What a small device needs: a gate of 4 channels and a coordinator of 8 tasks.
type SmallGate = Gate<1>;
type SmallCoordinator = Coordinator<1, 2, 4, JobGraph<1, 4, 4>>;
type SmallGateActions = Vec<GateAction<1>, { SmallGate::ACTIONS_MAX }>;
type SmallActions = Vec<CoordinatorAction<1>, { SmallCoordinator::ACTIONS_MAX }>;

/// Bytes of memory that the two machines may take, with the larger buffer: only one of them speaks at a time.
const SMALL_MAX: usize = 2048;
const BUFFERS: [usize; 2] = [size_of::<SmallGateActions>(), size_of::<SmallActions>()];
const LARGER_BUFFER: usize = if BUFFERS[0] < BUFFERS[1] { BUFFERS[1] } else { BUFFERS[0] };
const _: () = assert!(size_of::<SmallGate>() + size_of::<SmallCoordinator>() + LARGER_BUFFER <= SMALL_MAX);

/// Nothing but those, so that `.ci/nostd` can tell their size.
pub(crate) fn small(data: &mut Data) -> u32 {
    let mut graph = JobGraph::new();
    let mut sum = used(&graph.add_vertex(4)) ^ used(&graph.add_vertex(4));
    sum ^= used(&graph.add_edge(Edge { from: 0, to: 1, pattern: EdgePattern::AllToAll }));
    let options = CoordinatorOptions { interval: Some(Millis(data.long())), ..CoordinatorOptions::default() };
    let Ok(mut coordinator) = SmallCoordinator::new(options, graph, data.id()) else { return 0 };
    let (guarantee, unaligned) = (Guarantee::ExactlyOnce, data.bit());
    let options = GateOptions { guarantee, unaligned, count_ended_channels: true };
    let Ok(mut gate) = SmallGate::new(4, options) else { return 0 };
    let (mut gate_actions, mut actions) = (SmallGateActions::new(), SmallActions::new());
    for _ in 0..EVENTS {
        let event = coordinator_event(data);
        sum ^= used(&coordinator.on_event(data.now(), event, &mut actions)) ^ used(&actions);
        sum ^= used(&coordinator.next_deadline(data.now()));
        let channel = ChannelIndex(data.short());
        let event = match data.word() & 3 {
            0 => GateEvent::EndOfPartition { channel },
            1 => GateEvent::CancelArrived { channel, checkpoint: data.id() },
            _ => GateEvent::BarrierArrived { channel, barrier: data.barrier() },
        };
        sum ^= used(&gate.on_event(data.now(), event, &mut gate_actions)) ^ used(&gate_actions);
        sum ^= used(&gate.next_deadline(data.now()));
        actions.clear();
        gate_actions.clear();
    }
    sum
}

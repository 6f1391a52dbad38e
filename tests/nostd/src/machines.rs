use heapless::Vec;

use slackwater_core::assign::{ChannelMapping, OperatorAssigner, Rescaling};
use slackwater_core::bit_set::BitSet;
use slackwater_core::format::manifest::StateMode;
use slackwater_core::gate::{AlignmentMetrics, Gate, GateAction, GateEvent, GateOptions, Stash};
use slackwater_core::ids::{ChannelIndex, Guarantee, SavepointFormat, TaskIndex};
use slackwater_core::key_group::{
    KeyGroup, MaxParallelism, default_max_parallelism, hash_of_bool, hash_of_bytes, hash_of_i32, hash_of_i64,
    hash_of_str, key_group_of_hash, range_of_subtask, subtask_of_key_group,
};
use slackwater_core::reason::FailureReason;
use slackwater_core::restart::{ExponentialDelay, RestartEvent, RestartStrategy, Restarts};
use slackwater_core::stop::{StopEvent, StopWithSavepoint};
use slackwater_core::subtask::{
    Part, PartSet, PartSizes, Subtask, SubtaskAction, SubtaskEvent, SubtaskOptions,
};
use slackwater_core::time::Millis;
use slackwater_core::two_phase::committer::{Committer, CommitterEvent, CommitterOptions};
use slackwater_core::two_phase::offsets::{OffsetCommits, OffsetsEvent};
use slackwater_core::two_phase::splits::{SplitAssignments, SplitToken, SplitsEvent};
use slackwater_core::two_phase::{TransactionToken, Transactions, TwoPhase, TwoPhaseEvent, TwoPhaseOptions};

use crate::data::{Data, used};

/// Events that each firmware function feeds to its machine.
pub(crate) const EVENTS: usize = 64;

pub(crate) fn reason(data: &mut Data) -> FailureReason {
    let index = usize::from(data.short());
    FailureReason::ALL.get(index & 15).copied().unwrap_or(FailureReason::CheckpointExpired)
}

pub(crate) fn gate(data: &mut Data) -> u32 {
    let guarantee = if data.bit() { Guarantee::ExactlyOnce } else { Guarantee::AtLeastOnce };
    let options = GateOptions { guarantee, unaligned: data.bit(), count_ended_channels: data.bit() };
    let Ok(mut gate) = Gate::<2>::new(data.short(), options) else { return 0 };
    let mut actions = Vec::<GateAction<2>, 16>::new();
    let mut sum = 0u32;
    for _ in 0..EVENTS {
        let channel = ChannelIndex(data.short());
        let event = match data.word() & 15 {
            0 => GateEvent::EndOfPartition { channel },
            1 => GateEvent::CancelArrived { channel, checkpoint: data.id() },
            2 => GateEvent::BarrierAnnounced { channel, barrier: data.barrier() },
            3 => GateEvent::BarrierInjected(data.barrier()),
            4 => GateEvent::DeadlineReached,
            5 => GateEvent::StashOverflowed,
            _ => GateEvent::BarrierArrived { channel, barrier: data.barrier() },
        };
        sum ^= used(&gate.on_event(data.now(), event, &mut actions));
        sum ^= used(&actions) ^ used(&gate.next_deadline(data.now())) ^ used(&gate.is_blocked(channel));
        sum ^= used(&gate.current()) ^ used(&gate.is_finished()) ^ used(&gate.is_aligning());
        sum ^= used(&gate.progress(data.id()));
        gate.count_bytes(data.long());
        actions.clear();
    }
    sum
}

pub(crate) fn stash(data: &mut Data) -> u32 {
    let mut stash = Stash::<u32, 8>::new(data.long());
    let mut sum = 0u32;
    for _ in 0..EVENTS {
        let blocked = data.short();
        sum ^= used(&stash.push(ChannelIndex(data.short()), data.long(), data.word()));
        sum ^= used(&stash.pop(|channel| channel.0 == blocked)) ^ used(&stash.bytes());
    }
    sum
}

pub(crate) fn subtask(data: &mut Data) -> u32 {
    let options = SubtaskOptions {
        has_inputs: data.bit(),
        checkpoints_after_end: data.bit(),
        has_coordinators: data.bit(),
        keeps_local_state: data.bit(),
        ..SubtaskOptions::INNER
    };
    let mut subtask = Subtask::<3>::new(options);
    let mut actions = Vec::<SubtaskAction, 16>::new();
    let mut sum = 0u32;
    for _ in 0..EVENTS {
        let event = subtask_event(data);
        sum ^= used(&subtask.on_event(data.now(), event, &mut actions));
        sum ^= used(&actions) ^ used(&subtask.next_deadline(data.now())) ^ used(&subtask.persisting_count());
        actions.clear();
    }
    sum
}

fn subtask_event(data: &mut Data) -> SubtaskEvent {
    let alignment = AlignmentMetrics {
        duration: Millis(data.long()),
        start_delay: Millis(data.long()),
        ..AlignmentMetrics::ZERO
    };
    let (id, parts) = (data.id(), PartSet::only(Part::ManagedKeyed).with(Part::Transactions));
    match data.word() & 31 {
        0 => SubtaskEvent::Started,
        1 => SubtaskEvent::Stopped,
        2 => SubtaskEvent::TriggerReceived(data.barrier()),
        3 => SubtaskEvent::AlignmentAborted { id, reason: reason(data) },
        4 => SubtaskEvent::SnapshotTaken { id, parts, since: Millis(data.long()) },
        5 => SubtaskEvent::SnapshotFailed(id),
        6 => SubtaskEvent::PartPersisted {
            id,
            part: Part::ManagedKeyed,
            sizes: PartSizes { written_bytes: data.long(), state_bytes: data.long() },
        },
        7 => SubtaskEvent::PersistFailed { id, reason: data.bit().then(|| reason(data)) },
        8 => SubtaskEvent::AbortNotified { id, latest_completed: data.bit().then(|| data.id()) },
        9 => SubtaskEvent::CompleteNotified(id),
        10 => SubtaskEvent::SubsumeNotified(id),
        11 => SubtaskEvent::InputsFinished,
        12 => SubtaskEvent::DataEnded { drained: data.bit() },
        13 => SubtaskEvent::OutputsConsumed,
        14 => SubtaskEvent::InputCaptured { id, alignment },
        15 => SubtaskEvent::NotificationFailed(id),
        16 => SubtaskEvent::DeadlineReached,
        17 => SubtaskEvent::CheckpointInduced(data.barrier()),
        _ => SubtaskEvent::CheckpointTriggered { barrier: data.barrier(), alignment },
    }
}

pub(crate) fn two_phase(data: &mut Data) -> u32 {
    let options = TwoPhaseOptions {
        timeout: data.bit().then(|| Millis(data.long())),
        warn_percent: data.bit().then_some(80),
        ignores_failures_after_timeout: data.bit(),
    };
    let mut sink = TwoPhase::<4>::new(options);
    let mut actions = Vec::<_, 8>::new();
    let mut sum = 0u32;
    for _ in 0..EVENTS {
        let event = two_phase_event(data);
        sum ^= used(&sink.on_event(data.now(), event, &mut actions)) ^ used(&actions) ^ used(&sink.current());
        sum ^=
            used(&sink.is_durable(data.id())) ^ used(&sink.is_committed(data.id())) ^ used(&sink.has_room());
        actions.clear();
    }
    sum
}

fn two_phase_event(data: &mut Data) -> TwoPhaseEvent {
    let (id, token) = (data.id(), TransactionToken(data.long()));
    let transactions = Transactions { first: token, last: TransactionToken(data.long()) };
    match data.word() & 15 {
        0 => TwoPhaseEvent::Opened,
        1 => TwoPhaseEvent::PendingRestored { token, begun_at: Millis(data.long()) },
        2 => TwoPhaseEvent::CurrentRestored { token },
        3 => TwoPhaseEvent::Recovered(token),
        4 => TwoPhaseEvent::RecoverFailed(token),
        5 => TwoPhaseEvent::PreCommitted(token),
        6 => TwoPhaseEvent::PreCommitFailed(token),
        7 => TwoPhaseEvent::CompleteNotified(id),
        8 => TwoPhaseEvent::AbortNotified(id),
        9 => TwoPhaseEvent::Committed(transactions),
        10 => TwoPhaseEvent::CommitFailed(transactions),
        11 => TwoPhaseEvent::Finished,
        12 => TwoPhaseEvent::Closed,
        _ => TwoPhaseEvent::SnapshotRequested(id),
    }
}

/// The machines beside the transactions: committer, offsets, splits, and the end of a job.
pub(crate) fn notified(data: &mut Data) -> u32 {
    let options = CommitterOptions { retries_max: data.short(), has_checkpoints: data.bit() };
    let mut committer = Committer::<1, 4>::new(options);
    let mut offsets = OffsetCommits::<4>::new(data.bit());
    let mut splits = SplitAssignments::<8>::default();
    let mut stop = StopWithSavepoint::<2>::new(BitSet::first(usize::from(data.short())));
    let (mut commits, mut told, mut returned, mut stops) =
        (Vec::<_, 8>::new(), Vec::<_, 8>::new(), Vec::<_, 8>::new(), Vec::<_, 8>::new());
    let mut sum = 0u32;
    for _ in 0..EVENTS {
        let (id, reader) = (data.id(), TaskIndex(data.short()));
        let commit = match data.word() & 7 {
            0 => CommitterEvent::Restored { id, committables: data.word() },
            1 => CommitterEvent::Opened(data.bit().then_some(id)),
            2 => CommitterEvent::CommittableArrived { id, writer: data.short() },
            3 => CommitterEvent::CompleteNotified(id),
            4 => CommitterEvent::EndOfInput,
            5 => CommitterEvent::CommitReturned { id, retry: data.word(), failed: data.bit() },
            _ => {
                let (writer, writers, committables) = (data.short(), data.short(), data.word());
                CommitterEvent::SummaryArrived { id, writer, writers, committables }
            }
        };
        let tell = match data.word() & 3 {
            0 => OffsetsEvent::CompleteNotified(id),
            1 => OffsetsEvent::OffsetsCommitted(id),
            2 => OffsetsEvent::CommitFailed(id),
            _ => OffsetsEvent::SnapshotTaken { id, is_empty: data.bit() },
        };
        let split = match data.word() & 3 {
            0 => SplitsEvent::SnapshotTaken(id),
            1 => SplitsEvent::CompleteNotified(id),
            2 => SplitsEvent::ReaderReset { reader, restored: data.bit().then_some(id) },
            _ => SplitsEvent::Assigned { split: SplitToken(data.long()), reader },
        };
        let end = match data.word() & 7 {
            0 => StopEvent::StopRequested { drain: data.bit(), format: SavepointFormat::Native },
            1 => StopEvent::SavepointCompleted(id),
            2 => StopEvent::SavepointFailed(reason(data)),
            3 => StopEvent::TaskFailed(reader),
            _ => StopEvent::TaskFinished(reader),
        };
        sum ^= used(&committer.on_event(data.now(), commit, &mut commits)) ^ used(&commits);
        sum ^= used(&offsets.on_event(data.now(), tell, &mut told)) ^ used(&told);
        sum ^= used(&splits.on_event(data.now(), split, &mut returned)) ^ used(&splits.take_returned());
        sum ^= used(&stop.on_event(data.now(), end, &mut stops)) ^ used(&stops) ^ used(&returned);
        commits.clear();
        told.clear();
        returned.clear();
        stops.clear();
    }
    sum
}

/// Restarts by each strategy.
pub(crate) fn restarts(data: &mut Data) -> u32 {
    let (delay, interval) = (Millis(data.word().into()), Millis(data.long()));
    let strategy = match data.word() & 3 {
        0 => RestartStrategy::FixedDelay { attempts: data.word(), delay },
        1 => RestartStrategy::FailureRate { failures_max: data.short(), interval, delay },
        2 => RestartStrategy::None,
        _ => RestartStrategy::ExponentialDelay(ExponentialDelay {
            initial: delay,
            max: Millis(data.long()),
            multiplier_percent: data.word(),
            reset_after: interval,
            jitter_percent: data.word() & 127,
            attempts: data.word(),
        }),
    };
    let Ok(mut restarts) = Restarts::new(strategy, data.long()) else { return 0 };
    let mut actions = Vec::<_, 2>::new();
    let mut sum = 0u32;
    for _ in 0..EVENTS {
        let event = if data.bit() { RestartEvent::JobStarted } else { RestartEvent::JobFailed };
        sum ^= used(&restarts.on_event(data.now(), event, &mut actions)) ^ used(&actions);
        sum ^= used(&restarts.next_deadline(data.now())) ^ used(&restarts.restarts());
        actions.clear();
    }
    sum
}

pub(crate) fn assignment(data: &mut Data) -> u32 {
    let Ok(max_parallelism) = MaxParallelism::new(data.word()) else { return 0 };
    let Ok(rescaling) = Rescaling::new(max_parallelism, data.word(), data.word()) else { return 1 };
    let mut sum = 0;
    for part in rescaling.keyed_parts(data.word()).into_iter().flatten() {
        sum ^= used(&part);
    }
    for mapping in [ChannelMapping::RoundRobin, ChannelMapping::Range, ChannelMapping::Unsupported] {
        for part in rescaling.channel_parts(mapping, data.word()).into_iter().flatten() {
            sum ^= used(&part);
        }
    }
    let mut assigner = OperatorAssigner::new(rescaling);
    let counts = [Some(data.long()), None, Some(data.long())];
    for mode in [StateMode::Split, StateMode::Union, StateMode::Broadcast, StateMode::Plain] {
        let Ok(state) = assigner.next_state(mode, &counts) else { continue };
        sum ^= used(&state.len(data.word()));
        for part in state.parts(data.word()).into_iter().flatten() {
            sum ^= used(&part);
        }
    }
    sum
}

pub(crate) fn key_groups(data: &mut Data) -> u32 {
    let mut bytes = [0; 32];
    data.fill(&mut bytes);
    let text = core::str::from_utf8(&bytes).unwrap_or("word");
    let hash = hash_of_bytes(&bytes)
        ^ hash_of_str(text)
        ^ hash_of_bool(data.bit())
        ^ hash_of_i32(data.word().cast_signed())
        ^ hash_of_i64(data.long().cast_signed());
    let Ok(max_parallelism) = MaxParallelism::new(data.word()) else { return 0 };
    let group = key_group_of_hash(hash, max_parallelism);
    let Ok(range) = range_of_subtask(max_parallelism, data.word(), data.word()) else { return 1 };
    let owner = subtask_of_key_group(max_parallelism, data.word(), KeyGroup(data.short()));
    let shared = range.intersect(max_parallelism.all_key_groups());
    used(&group)
        ^ used(&owner)
        ^ used(&shared)
        ^ used(&range.iter().rev().next())
        ^ used(&default_max_parallelism(data.word()))
}

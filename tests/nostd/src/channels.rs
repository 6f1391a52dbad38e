use heapless::Vec;

use slackwater_core::assign::{Rescaling, check_in_flight_owners, old_channels};
use slackwater_core::channel_state::{
    ChannelState, ChannelStateAction, ChannelStateEvent, SharedFile, WriteFailure, restores_in_flight,
};
use slackwater_core::edge::{Edge, Partitioner, forced_aligned};
use slackwater_core::ids::ChannelIndex;
use slackwater_core::key_group::MaxParallelism;
use slackwater_core::queue::Position;
use slackwater_core::reason::FailureReason;

use crate::data::{Data, used};

/// Events that the capture is fed.
const EVENTS: usize = 64;

pub(crate) fn capture(data: &mut Data) -> u32 {
    let parts = [data.short(), data.short(), data.short()];
    let state =
        if data.bit() { ChannelState::<4, 2>::new(data.short()) } else { ChannelState::recovering(&parts) };
    let Ok(mut state) = state else { return 0 };
    let mut actions = Vec::<ChannelStateAction, 8>::new();
    let mut sum = 0u32;
    for _ in 0..EVENTS {
        let event = event(data);
        sum ^= used(&state.on_event(data.now(), event, &mut actions)) ^ used(&actions);
        let channel = ChannelIndex(data.short());
        sum ^=
            used(&state.is_capturing(channel)) ^ used(&state.status(channel)) ^ used(&state.is_replaying());
        sum ^= used(&state.outcome(data.id())) ^ used(&state.next_deadline(data.now()));
        actions.clear();
    }
    sum ^ used(&restores_in_flight(data.id(), data.bit().then(|| data.id())))
        ^ used(&SharedFile::default().sharers(data.word(), data.word()))
}

fn event(data: &mut Data) -> ChannelStateEvent {
    let channel = ChannelIndex(data.short());
    let (id, at) = (data.id(), position(data));
    match data.word() & 15 {
        0 => ChannelStateEvent::Started(id),
        1 => ChannelStateEvent::Stopped(id),
        2 => ChannelStateEvent::Aborted(id),
        3 => ChannelStateEvent::WriteFailed { id, failure: WriteFailure::SharedFile },
        4 => {
            let failure = WriteFailure::Own(FailureReason::CheckpointAsyncException);
            ChannelStateEvent::WriteFailed { id, failure }
        }
        5 => ChannelStateEvent::ResultTaken(id),
        6 => ChannelStateEvent::Replayed(channel),
        7 | 8 => ChannelStateEvent::BarrierAnnounced { channel, id, at },
        9 | 10 => ChannelStateEvent::BarrierSeen { channel, id, at },
        _ => ChannelStateEvent::QueueSeen { channel, first: position(data), end: at },
    }
}

fn position(data: &mut Data) -> Position {
    Position(usize::from(data.short()))
}

fn partitioner(data: &mut Data) -> Partitioner {
    match data.word() & 7 {
        0 => Partitioner::Forward,
        1 => Partitioner::Rescale,
        2 => Partitioner::Broadcast,
        3 => Partitioner::KeyGroup,
        4 => Partitioner::Rebalance,
        5 => Partitioner::Shuffle,
        6 => Partitioner::Global,
        _ => Partitioner::Custom,
    }
}

pub(crate) fn edges(data: &mut Data) -> u32 {
    let edges: [Edge; 4] = core::array::from_fn(|_| Edge {
        receiver: data.short(),
        partitioner: partitioner(data),
        is_to_committer: data.bit(),
        is_feedback: data.bit(),
    });
    let forced = forced_aligned(&edges, data.bit());
    forced.map_or(0, |edges| edges.fold(0, |sum, forced| sum ^ used(&forced)))
}

pub(crate) fn replay(data: &mut Data) -> u32 {
    let Ok(groups) = MaxParallelism::new(data.word()) else { return 0 };
    let (Ok(senders), Ok(receivers)) =
        (Rescaling::new(groups, data.word(), data.word()), Rescaling::new(groups, data.word(), data.word()))
    else {
        return 1;
    };
    let mappings = [partitioner(data).receiver_mapping(), partitioner(data).receiver_mapping()];
    let mut sum = used(&receivers.common_mapping(&mappings));
    sum ^= used(&receivers.keeps_replayed(mappings[0], data.word(), data.word()));
    sum ^= used(&check_in_flight_owners([data.bit(), data.bit()]));
    let (Ok(from), Ok(to)) = (
        senders.channel_parts(partitioner(data).sender_mapping(), data.word()),
        receivers.channel_parts(mappings[0], data.word()),
    ) else {
        return sum;
    };
    old_channels(from, to).fold(sum, |sum, channel| sum ^ used(&channel))
}

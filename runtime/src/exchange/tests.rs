use slackwater_core::ids::{Alignment, SnapshotKind};
use slackwater_core::key_group::{KeyGroup, MaxParallelism, subtask_of_key_group};
use slackwater_core::time::Millis;

use slackwater_mem::in_flight::{CapturedChannel, InFlight};

use super::*;
use crate::actor::Signal;
use crate::channel::{BOUND, Destination, Receiver, channel};
use crate::checkpoint::{Manifest, SubtaskPart, VertexPart};

const TIMEOUT: Alignment = Alignment::AlignedFor(Millis(100));

/// Takes the first byte of a record for its key group.
struct ByFirstByte;

impl Partition<[u8]> for ByFirstByte {
    fn choose(&mut self, record: &[u8], outputs: usize) -> usize {
        let max = MaxParallelism::new(128).unwrap();
        let group = KeyGroup(record[0].into());
        subtask_of_key_group(max, u32::try_from(outputs).unwrap(), group).unwrap() as usize
    }
}

fn barrier(id: u64, alignment: Alignment) -> Mark {
    let (id, kind) = (CheckpointId(id), SnapshotKind::Checkpoint);
    Mark::Barrier(Barrier { id, triggered_at: Millis(0), kind, alignment })
}

fn edge(mapping: ChannelMapping) -> Edge<[u8]> {
    Edge { receiver: "next".into(), mapping, codec: <[u8]>::codec() }
}

type Sending = Exchange<[u8], ByFirstByte>;

fn exchange(outputs: usize, edge: Edge<[u8]>) -> (Sending, Vec<Receiver<[u8]>>) {
    let ends = (0..outputs).map(|_| channel(&Signal::default(), &Destination::new(Signal::default()), 0));
    let (senders, receivers) = ends.unzip();
    (Exchange::new(senders, ByFirstByte, edge), receivers)
}

fn emit(exchange: &mut Sending, record: &[u8]) {
    exchange.process(record, &mut Cx::new(None, false));
}

/// A record that fills a batch.
fn large() -> Vec<u8> {
    vec![0; BATCH_TARGET]
}

/// What lies in a channel: records by themselves, marks by their name.
fn drain(receiver: &mut Receiver<[u8]>) -> Vec<String> {
    let mut all = Vec::new();
    while let Some(item) = receiver.consumer.pop() {
        match item {
            Item::Records(batch) => all.extend(
                (0..batch.len()).map(|i| String::from_utf8_lossy(batch.get(i).unwrap()).into_owned()),
            ),
            Item::Mark(mark) => all.push(format!("{mark:?}")),
        }
    }
    all
}

#[test]
fn an_overtaking_barrier_takes_no_place_and_says_what_lies_before_it() {
    let (mut exchange, mut receivers) = exchange(1, edge(ChannelMapping::Range));
    (0..3).for_each(|_| emit(&mut exchange, &large()));
    emit(&mut exchange, b"\0half");
    assert!(exchange.send(barrier(1, Alignment::Unaligned)));
    let consumer = &mut receivers[0].consumer;
    let (sent, at) = consumer.control().unwrap().overtaking.unwrap();
    assert_eq!((sent.id, at, consumer.len()), (CheckpointId(1), Position(4), 4), "three batches and a half");
}

#[test]
fn bug_b03_what_cannot_be_captured_is_not_overtaken_even_with_a_time_out() {
    for alignment in [Alignment::Unaligned, TIMEOUT] {
        let none = Edge { codec: None, ..edge(ChannelMapping::Range) };
        let (mut exchange, mut receivers) = exchange(1, none);
        emit(&mut exchange, b"\0one");
        assert!(exchange.send(barrier(1, alignment)));
        exchange.overtake(match barrier(1, Alignment::Unaligned) {
            Mark::Barrier(barrier) => barrier,
            Mark::EndOfData { .. } => unreachable!(),
        });
        assert_eq!(receivers[0].consumer.control(), None, "neither announced nor called");
        let kept = barrier(1, alignment.without_overtaking());
        assert_eq!(drain(&mut receivers[0]), ["\0one".to_owned(), format!("{kept:?}")]);
    }
}

#[test]
fn x10_a_barrier_in_its_place_is_announced_and_overtakes_when_it_is_told_to() {
    let (mut exchange, mut receivers) = exchange(1, edge(ChannelMapping::Range));
    emit(&mut exchange, b"\0one");
    assert!(exchange.send(barrier(1, TIMEOUT)));
    let control = receivers[0].consumer.control().unwrap();
    assert_eq!(control.announced.map(|(barrier, at)| (barrier.id, at)), Some((CheckpointId(1), Position(1))));
    let Mark::Barrier(unaligned) = barrier(1, Alignment::Unaligned) else { unreachable!() };
    exchange.overtake(Barrier { id: CheckpointId(2), ..unaligned });
    assert_eq!(receivers[0].consumer.control(), None, "there is none of checkpoint 2");
    exchange.overtake(unaligned);
    assert_eq!(receivers[0].consumer.control().unwrap().overtaking, Some((unaligned, Position(1))));
}

/// Else one subtask could have had the end of all its inputs at a checkpoint at which another had not.
#[test]
fn nothing_overtakes_the_end_of_the_data() {
    for alignment in [Alignment::Unaligned, TIMEOUT, Alignment::Aligned, Alignment::AtLeastOnce] {
        let (mut exchange, mut receivers) = exchange(1, edge(ChannelMapping::Range));
        emit(&mut exchange, b"\0last");
        assert!(exchange.send(Mark::EndOfData { is_drained: true }));
        assert!(exchange.send(barrier(1, alignment)));
        assert_eq!(receivers[0].consumer.control(), None);
        let aligned = if alignment.needs_channel_state() { Alignment::Aligned } else { alignment };
        let (end, kept) =
            (format!("{:?}", Mark::EndOfData { is_drained: true }), format!("{:?}", barrier(1, aligned)));
        assert_eq!(drain(&mut receivers[0]), ["\0last".to_owned(), end, kept]);
    }
}

/// However many barriers overtake while nobody takes anything: what each flushes must not use up the slots.
#[test]
fn barriers_overtake_a_stuck_channel_again_and_again() {
    let (mut exchange, receivers) = exchange(1, edge(ChannelMapping::Range));
    for id in 1..100 {
        while exchange.has_room() {
            emit(&mut exchange, b"\0some records");
            exchange.push_full();
        }
        assert!(exchange.send(barrier(id, Alignment::Unaligned)), "checkpoint {id}");
        exchange.push_full();
    }
    assert!(receivers[0].consumer.len() <= BOUND + 1);
}

/// What each old receiver had captured, by sender.
fn captured(receivers: &[&[(u16, &[&str])]]) -> Vec<Vec<InFlight>> {
    let in_flight = |channels: &&[(u16, &[&str])]| {
        let channels = channels.iter().map(|(sender, records)| {
            let mut batch = <[u8] as Record>::Batch::default();
            records.iter().for_each(|record| batch.push(record.as_bytes()));
            let batches = vec![<[u8]>::codec().unwrap().encode(&batch, 0).unwrap()];
            CapturedChannel { edge: 0, sender: *sender, batches }
        });
        InFlight { channels: channels.collect() }
    };
    vec![receivers.iter().map(in_flight).collect()]
}

fn manifest(receivers: usize) -> Manifest {
    Manifest {
        id: CheckpointId(1),
        job_id: 1,
        job_name: "job".into(),
        triggered_at: Millis(0),
        max_parallelism: 128,
        hash_seed: 0,
        is_finished: false,
        participants: Vec::new(),
        vertices: vec![VertexPart { name: "next".into(), subtasks: vec![SubtaskPart::default(); receivers] }],
    }
}

/// What each of the new receivers finds in its channels from all new senders.
fn replayed(
    captured: &[Vec<InFlight>],
    mapping: ChannelMapping,
    (senders, receivers): (u16, usize),
) -> Vec<Vec<String>> {
    let (mut found, manifest) = (vec![Vec::new(); receivers], manifest(captured[0].len()));
    for index in 0..senders {
        let info = SubtaskInfo {
            operator: "before".into(),
            index,
            parallelism: senders,
            max_parallelism: 128,
            attempt: 1,
        };
        let (mut exchange, mut ends) = exchange(receivers, edge(mapping));
        exchange.replay(&RestoredStates::new(Some(&manifest), captured), &info).unwrap();
        for (found, end) in found.iter_mut().zip(&mut ends) {
            found.extend(drain(end));
        }
    }
    found
}

#[test]
fn u21_the_same_parallelism_leaves_every_record_in_its_channel_and_order() {
    let captured = captured(&[&[(0, &["a", "b"]), (1, &["c"])], &[(1, &["d"])]]);
    assert_eq!(replayed(&captured, ChannelMapping::Range, (2, 2)), [vec!["a", "b", "c"], vec!["d"]]);
}

#[test]
fn u22_u24_by_key_group_each_new_subtask_keeps_its_own_and_none_is_lost_or_doubled() {
    // By their key groups, of 128: 33, then 48 and 64, then 97.
    let captured = captured(&[&[(0, &["!"])], &[(0, &["0", "@"]), (2, &["0"])], &[(1, &["a"])]]);
    assert_eq!(replayed(&captured, ChannelMapping::Range, (1, 1)), [vec!["!", "0", "@", "a", "0"]]);
    let mut two = replayed(&captured, ChannelMapping::Range, (3, 2));
    two.iter_mut().for_each(|part| part.sort_unstable());
    assert_eq!(two, [vec!["!", "0", "0"], vec!["@", "a"]]);
    let many = replayed(&captured, ChannelMapping::Range, (1, 128));
    assert_eq!((many.concat().len(), many[48].len(), many[64].len()), (5, 2, 1));
}

#[test]
fn u22_rebalanced_records_are_spread_once_each() {
    let receivers: [&[(u16, &[&str])]; 4] =
        [&[(0, &["a"])], &[(0, &["b"]), (1, &["c"])], &[(1, &["d"])], &[(0, &["e"])]];
    let captured = captured(&receivers);
    for parallelism in [(1, 1), (1, 3), (2, 2), (3, 4), (5, 7)] {
        let mut all = replayed(&captured, ChannelMapping::RoundRobin, parallelism).concat();
        all.sort_unstable();
        assert_eq!(all, ["a", "b", "c", "d", "e"], "{parallelism:?}");
    }
    let three = replayed(&captured, ChannelMapping::RoundRobin, (1, 3));
    assert_eq!(three, [vec!["a", "e"], vec!["b", "c"], vec!["d"]]);
}

#[test]
fn records_in_flight_are_not_dropped_in_silence() {
    let captured = captured(&[&[(0, &["a"])]]);
    let info =
        SubtaskInfo { operator: "before".into(), index: 0, parallelism: 1, max_parallelism: 128, attempt: 1 };
    let none = Edge { codec: None, ..edge(ChannelMapping::Range) };
    let (mut exchange, _receivers) = exchange(1, none);
    let refused =
        exchange.replay(&RestoredStates::new(Some(&manifest(1)), &captured), &info).unwrap_err().to_string();
    assert!(refused.contains("in flight to next") && refused.contains("codec"), "{refused}");
}

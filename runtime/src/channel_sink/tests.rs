use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use slackwater_core::ids::CheckpointId;

use super::{ChannelSink, Transaction, TransactionId, channel};
use crate::files::Files;
use crate::operator::{Severity, Sink, SubtaskInfo};
use crate::record::{Batch, PackedBytes};
use crate::sink_kit::KitDisk;

fn info(operator: &str, index: u16, attempt: u64) -> SubtaskInfo {
    SubtaskInfo { operator: operator.into(), index, parallelism: 2, max_parallelism: 128, attempt }
}

/// Takes these records and closes them under the checkpoint; what the checkpoint lists.
fn write(sink: &mut ChannelSink, records: &str, checkpoint: u64) -> Vec<Vec<u8>> {
    let files = &mut Files::default();
    for record in records.split(' ').filter(|record| !record.is_empty()) {
        sink.write(record.as_bytes(), files).unwrap();
    }
    sink.pre_commit(CheckpointId(checkpoint), files).unwrap()
}

fn commit(sink: &mut ChannelSink, checkpoint: u64) {
    sink.commit(CheckpointId(checkpoint), &mut Files::default()).unwrap();
}

fn text(transaction: Option<Transaction>) -> String {
    let transaction = transaction.expect("there is one");
    let records: Vec<_> = transaction.records().map(String::from_utf8_lossy).collect();
    format!("{}: {}", transaction.id(), records.join(" "))
}

#[derive(Default)]
struct Counter(AtomicU64);

impl Wake for Counter {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn records_come_together_when_their_checkpoint_is_complete_and_never_before() {
    let (output, records) = channel(4);
    let mut sink = output.sink(&info("out", 1, 7));
    assert_eq!(write(&mut sink, "a b", 1).len(), 1);
    assert_eq!(write(&mut sink, "", 2).len(), 1, "nothing new, and the old is still pending");
    assert_eq!(write(&mut sink, "c", 3).len(), 2);
    assert!(sink.is_sealed(CheckpointId(3)) && records.try_next().is_none());
    commit(&mut sink, 2);
    assert_eq!(text(records.try_next()), "7-1-1: a b");
    assert!(records.try_next().is_none());
    commit(&mut sink, 3);
    assert_eq!(text(records.try_next()), "7-1-3: c");
}

#[test]
fn a_full_channel_stops_the_sink_and_the_consumer_wakes_it() {
    let (output, records) = channel(1);
    let mut sink = output.sink(&info("out", 0, 1));
    let woken = Arc::new(Counter::default());
    sink.set_waker(Waker::from(Arc::clone(&woken)));
    for (id, record) in [(1, "a"), (2, "b")] {
        write(&mut sink, record, id);
    }
    commit(&mut sink, 2);
    let files = &mut Files::default();
    assert!(!sink.has_room(files) && !sink.is_committed(CheckpointId(2)));
    sink.poll(files).unwrap();
    assert!(!sink.has_room(files), "nobody has taken anything");
    assert_eq!((text(records.try_next()).as_str(), woken.0.load(Ordering::Relaxed)), ("1-0-1: a", 1));
    sink.poll(files).unwrap();
    assert!(sink.has_room(files) && sink.is_committed(CheckpointId(2)));
    assert_eq!(text(records.next()), "1-0-2: b");
}

#[test]
fn a_checkpoint_is_declined_while_the_consumer_is_too_far_behind_and_the_next_one_carries_all() {
    let (output, records) = channel(1);
    let mut sink = output.sink(&info("out", 0, 1));
    let files = &mut Files::default();
    let mut declined = None;
    for id in 1.. {
        sink.write(id.to_string().as_bytes(), files).unwrap();
        match sink.pre_commit(CheckpointId(id), files) {
            Ok(_) => commit(&mut sink, id),
            Err(error) => {
                declined = Some((id, error));
                break;
            }
        }
    }
    let (id, error) = declined.unwrap();
    assert_eq!(error.severity(), Severity::Declines);
    assert!(error.to_string().contains("the consumer of out is behind"), "{error}");
    let mut taken = vec![text(records.try_next())];
    sink.poll(files).unwrap();
    write(&mut sink, "", id + 1);
    commit(&mut sink, id + 1);
    while let Some(transaction) = records.try_next() {
        taken.push(text(Some(transaction)));
        sink.poll(files).unwrap();
    }
    let name = |record: u64| if record < id { record } else { id + 1 };
    let expected: Vec<_> = (1..=id).map(|record| format!("1-0-{}: {record}", name(record))).collect();
    assert_eq!(taken, expected);
}

// Rule C7.
#[test]
fn what_the_consumer_has_had_does_not_come_again_in_its_process_and_does_in_another() {
    let (output, records) = channel(4);
    let mut sink = output.sink(&info("out", 0, 1));
    let listed = write(&mut sink, "a", 1);
    commit(&mut sink, 1);
    assert_eq!(text(records.try_next()), "1-0-1: a");
    drop(sink);
    let disk = &mut KitDisk::default();
    let recover = |sink: &mut ChannelSink, disk: &mut KitDisk| {
        sink.recover(Some(CheckpointId(1)), &listed, disk).unwrap();
    };
    recover(&mut output.sink(&info("out", 0, 2)), disk);
    assert!(records.try_next().is_none());
    let (elsewhere, records) = channel(4);
    recover(&mut elsewhere.sink(&info("out", 0, 2)), disk);
    assert_eq!(text(records.try_next()), "1-0-1: a", "under its old name");
}

#[test]
fn an_older_checkpoint_than_the_consumer_has_records_of_is_refused() {
    let (output, _records) = channel(4);
    let mut sink = output.sink(&info("out", 0, 1));
    write(&mut sink, "a", 4);
    commit(&mut sink, 4);
    for restored in [None, Some(CheckpointId(3))] {
        let mut next = output.sink(&info("out", 0, 2));
        let error = next.recover(restored, &[], &mut KitDisk::default()).unwrap_err().to_string();
        assert!(error.contains("has had records of checkpoint 4"), "{error}");
    }
}

#[test]
fn a_channel_is_for_one_operator() {
    let (output, _records) = channel(4);
    let disk = &mut KitDisk::default();
    output.sink(&info("one", 0, 1)).recover(None, &[], disk).unwrap();
    let error = output.sink(&info("two", 0, 1)).recover(None, &[], disk).unwrap_err().to_string();
    assert!(error.contains("make another for two"), "{error}");
}

#[test]
fn a_consumer_that_is_gone_ends_the_job_and_sinks_that_are_gone_end_the_channel() {
    let (output, records) = channel(4);
    let mut sink = output.sink(&info("out", 0, 1));
    let mut context = Context::from_waker(Waker::noop());
    assert_eq!(records.poll_next(&mut context), Poll::Pending);
    write(&mut sink, "a", 1);
    commit(&mut sink, 1);
    drop(output);
    assert!(matches!(records.poll_next(&mut context), Poll::Ready(Some(_))));
    drop(sink);
    assert_eq!((records.poll_next(&mut context), records.next()), (Poll::Ready(None), None));

    let (output, records) = channel(4);
    let mut sink = output.sink(&info("out", 0, 1));
    drop(records);
    let error = sink.poll(&mut Files::default()).unwrap_err();
    assert_eq!(error.severity(), Severity::Ends, "no restart brings it back");
    assert!(error.to_string().contains("the consumer of out is gone"), "{error}");
}

#[test]
fn transactions_come_back_and_damaged_ones_are_refused() {
    let mut records = PackedBytes::default();
    [&b"one"[..], b"", b"two"].iter().for_each(|record| records.push(record));
    let id = TransactionId { attempt: 9, subtask: 3, checkpoint: CheckpointId(7) };
    let transaction = Transaction::new(id, records);
    let bytes = transaction.encode();
    assert_eq!(Transaction::decode(&bytes), Some(transaction));
    let shorter = (0..bytes.len()).filter_map(|len| Transaction::decode(&bytes[..len]));
    assert!(shorter.map(|shorter| shorter.records().count()).all(|count| count < 3));
    let mut newer = bytes;
    newer[0] = 2;
    assert_eq!(Transaction::decode(&newer), None);
}

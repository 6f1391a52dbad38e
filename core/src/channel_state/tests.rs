//! Rules of in-flight capture one by one, and the public bugs that struck it.

use std::vec::Vec;

use super::{
    CaptureOutcome, ChannelState, ChannelStateAction, ChannelStateEvent, ChannelStatus, SharedFile,
    WriteFailure, restores_in_flight,
};
use crate::ids::{ChannelIndex, CheckpointId};
use crate::machine::Rejected;
use crate::queue::{Consumer, Position, Producer, Queue};
use crate::reason::FailureReason;
use crate::time::Now;

use ChannelStateEvent::{Aborted, Replayed, ResultTaken, Started, Stopped};
use ChannelStatus::{Completed, Pending, Received};

type Machine = ChannelState<3, 2>;

const A: u16 = 0;
const B: u16 = 1;
const C: u16 = 2;

/// An action without what most tests do not ask about.
#[derive(Debug, PartialEq, Eq)]
enum Did {
    Report(u64),
    /// Checkpoint, channel, first place, place behind the last.
    Write(u64, u16, usize, usize),
    Finish(u64),
    Discard(u64),
    Decline(u64, FailureReason),
    Run,
}

use Did::{Decline, Discard, Finish, Report, Run, Write};

struct Bench(Machine);

impl Bench {
    fn new(channels: u16) -> Self {
        Self(Machine::new(channels).unwrap())
    }

    fn try_send(&mut self, event: ChannelStateEvent) -> Result<Vec<Did>, Rejected> {
        let mut out = heapless::Vec::<_, { Machine::ACTIONS_MAX }>::new();
        self.0.on_event(Now::default(), event, &mut out)?;
        self.0.check();
        Ok(out.into_iter().map(did).collect())
    }

    fn send(&mut self, event: ChannelStateEvent) -> Vec<Did> {
        self.try_send(event).unwrap()
    }

    fn refuses(&mut self, event: ChannelStateEvent) {
        let before = std::format!("{:?}", self.0);
        assert!(self.try_send(event).is_err(), "{event:?} in {before}");
        assert_eq!(std::format!("{:?}", self.0), before, "a refusal changes nothing");
    }

    fn start(&mut self, id: u64) -> Vec<Did> {
        self.send(Started(CheckpointId(id)))
    }

    fn stop(&mut self, id: u64) -> Vec<Did> {
        self.send(Stopped(CheckpointId(id)))
    }

    fn abort(&mut self, id: u64) -> Vec<Did> {
        self.send(Aborted(CheckpointId(id)))
    }

    fn queue(&mut self, channel: u16, first: usize, end: usize) -> Vec<Did> {
        self.send(queue_seen(channel, first, end))
    }

    fn seen(&mut self, channel: u16, id: u64, at: usize) -> Vec<Did> {
        self.send(barrier_seen(channel, id, at))
    }

    fn announced(&mut self, channel: u16, id: u64, at: usize) -> Vec<Did> {
        self.send(barrier_announced(channel, id, at))
    }

    fn status(&self, channel: u16) -> ChannelStatus {
        self.0.status(ChannelIndex(channel)).unwrap()
    }

    fn outcome(&self, id: u64) -> CaptureOutcome {
        self.0.outcome(CheckpointId(id))
    }

    /// Begins `id` with nothing waiting in any of the channels.
    fn start_empty(&mut self, id: u64, channels: u16) {
        assert_eq!(self.start(id), [Report(id)]);
        (0..channels).for_each(|channel| assert_eq!(self.queue(channel, 0, 0), []));
    }
}

fn did(action: ChannelStateAction) -> Did {
    match action {
        ChannelStateAction::ReportQueues(id) => Report(id.0),
        ChannelStateAction::Capture { id, channel, from, until } => Write(id.0, channel.0, from.0, until.0),
        ChannelStateAction::Finish(id) => Finish(id.0),
        ChannelStateAction::Discard(id) => Discard(id.0),
        ChannelStateAction::Decline { id, reason } => Decline(id.0, reason),
        ChannelStateAction::Run => Run,
    }
}

fn queue_seen(channel: u16, first: usize, end: usize) -> ChannelStateEvent {
    let (first, end) = (Position(first), Position(end));
    ChannelStateEvent::QueueSeen { channel: ChannelIndex(channel), first, end }
}

fn barrier_seen(channel: u16, id: u64, at: usize) -> ChannelStateEvent {
    let (channel, id, at) = (ChannelIndex(channel), CheckpointId(id), Position(at));
    ChannelStateEvent::BarrierSeen { channel, id, at }
}

fn barrier_announced(channel: u16, id: u64, at: usize) -> ChannelStateEvent {
    let (channel, id, at) = (ChannelIndex(channel), CheckpointId(id), Position(at));
    ChannelStateEvent::BarrierAnnounced { channel, id, at }
}

fn failed(id: u64, failure: WriteFailure) -> ChannelStateEvent {
    ChannelStateEvent::WriteFailed { id: CheckpointId(id), failure }
}

#[test]
fn u6_what_waits_and_what_arrives_is_written_until_the_barrier_is_seen() {
    let mut bench = Bench::new(2);
    assert_eq!(bench.seen(B, 1, 4), []);
    assert_eq!([bench.status(A), bench.status(B)], [Completed, Received]);
    assert_eq!(bench.start(1), [Report(1)]);
    assert_eq!([bench.status(A), bench.status(B)], [Pending, Received]);
    assert_eq!(bench.queue(A, 3, 5), [Write(1, A, 3, 5)]);
    assert_eq!(bench.queue(B, 2, 9), [Write(1, B, 2, 4)], "nothing from behind the barrier");
    assert!(bench.0.is_capturing(ChannelIndex(A)) && !bench.0.is_capturing(ChannelIndex(B)));
    // Each item once, however often the queue is reported, and delivered all the same.
    assert_eq!(bench.queue(A, 3, 5), []);
    assert_eq!(bench.queue(A, 4, 7), [Write(1, A, 5, 7)]);
    assert_eq!(bench.queue(A, 7, 7), []);
    assert_eq!(bench.seen(A, 1, 9), [Write(1, A, 7, 9)]);
    assert_eq!([bench.status(A), bench.status(B)], [Received, Received]);
    assert_eq!(bench.seen(A, 1, 9), [], "seen again: it is taken from its place, too");
    assert_eq!(bench.queue(A, 8, 20), []);
    assert_eq!(bench.stop(1), [Finish(1)]);
    assert_eq!([bench.status(A), bench.status(B)], [Completed, Completed]);
}

#[test]
fn u6_which_barriers_are_news() {
    // What came before, a barrier, and how the channel stands then.
    let before: [(&[ChannelStateEvent], u64, ChannelStatus); 9] = [
        (&[], 1, Received),
        (&[Stopped(CheckpointId(3))], 3, Completed),
        (&[Stopped(CheckpointId(3))], 2, Completed),
        (&[Stopped(CheckpointId(3))], 4, Received),
        (&[Started(CheckpointId(3))], 2, Pending),
        (&[Started(CheckpointId(3))], 3, Received),
        (&[Started(CheckpointId(3))], 4, Received),
        (&[barrier_seen(A, 3, 0), Stopped(CheckpointId(2))], 3, Received),
        (&[barrier_seen(A, 3, 0), Stopped(CheckpointId(3))], 3, Completed),
    ];
    for (events, id, status) in before {
        let mut bench = Bench::new(1);
        events.iter().for_each(|event| drop(bench.send(*event)));
        bench.seen(A, id, 0);
        assert_eq!(bench.status(A), status, "{id} after {events:?}");
    }
}

#[test]
fn u6_u7_an_announcement_bounds_the_capture_and_changes_no_status() {
    // Announced before the start, between the start and the report, and after it.
    for when in 0..3 {
        let mut bench = Bench::new(1);
        let mut written = Vec::new();
        for step in 0..3 {
            if step == when {
                written.extend(bench.announced(A, 1, 6));
                assert_eq!(bench.status(A), if step == 0 { Completed } else { Pending });
            }
            match step {
                0 => assert_eq!(bench.start(1), [Report(1)]),
                1 => written.extend(bench.queue(A, 2, 7)),
                _ => written.extend(bench.queue(A, 3, 9)),
            }
        }
        assert_eq!(bench.status(A), Pending);
        let want = if when == 2 { [Write(1, A, 2, 7)] } else { [Write(1, A, 2, 6)] };
        assert_eq!(written, want, "place 6 is the barrier's own, so it does not matter; 7 and 8 would");
        assert_eq!(bench.seen(A, 1, 6), []);
        assert_eq!(bench.status(A), Received);
        assert_eq!(bench.stop(1), [Finish(1)]);
    }
}

#[test]
fn u7_a_remembered_place_is_of_one_checkpoint_only() {
    let mut bench = Bench::new(1);
    bench.announced(A, 1, 2);
    bench.announced(A, 1, 2);
    assert_eq!(bench.start(2), [Report(2)]);
    assert_eq!(bench.queue(A, 0, 4), [Write(2, A, 0, 4)], "the barrier of 1 bounds nothing of 2");
    assert_eq!(bench.announced(A, 1, 2), []);
    assert_eq!(bench.announced(A, 2, 5), [Write(2, A, 4, 5)]);
    // An announcement of the next one is kept while this one is captured.
    assert_eq!([bench.announced(A, 3, 8), bench.announced(A, 2, 5)], [[], []]);
    assert_eq!(bench.seen(A, 2, 5), []);
    assert_eq!(bench.stop(2), [Finish(2)]);
    assert_eq!(bench.start(3), [Report(3)]);
    assert_eq!(bench.queue(A, 6, 9), [Write(3, A, 6, 8)]);
}

#[test]
fn u7_places_compare_across_the_wrap() {
    let start = usize::MAX - 1;
    let mut bench = Bench::new(2);
    bench.announced(B, 1, 3);
    assert_eq!(bench.start(1), [Report(1)]);
    assert_eq!(bench.queue(A, start, 1), [Write(1, A, start, 1)]);
    assert_eq!(bench.queue(B, start, 5), [Write(1, B, start, 3)]);
    bench.refuses(queue_seen(A, 2, 3));
    assert_eq!(bench.seen(A, 1, 2), [Write(1, A, 1, 2)]);
}

#[test]
fn u7_a_start_after_a_newer_barrier_is_declined_as_subsumed() {
    let mut bench = Bench::new(2);
    bench.seen(A, 3, 1);
    assert_eq!(bench.start(2), [Decline(2, FailureReason::CheckpointSubsumed)]);
    assert_eq!([bench.status(A), bench.status(B)], [Received, Completed], "no channel begins if one cannot");
    assert_eq!(bench.outcome(2), CaptureOutcome::Failed);
    assert_eq!(bench.start(3), [Report(3)]);
    // A newer start takes the place of one whose barriers never came.
    assert_eq!(bench.start(4), [Discard(3), Decline(3, FailureReason::CheckpointSubsumed), Report(4)]);
    assert_eq!(bench.start(3), [Decline(3, FailureReason::CheckpointSubsumed)]);
    assert_eq!(bench.stop(5), [Discard(4)]);
    assert_eq!(bench.start(5), [Decline(5, FailureReason::CheckpointSubsumed)]);
    // Without channels there is none to remember the newest.
    let mut bench = Bench::new(0);
    assert_eq!([bench.stop(3), bench.stop(1)], [[], []]);
    assert_eq!(bench.start(2), [Decline(2, FailureReason::CheckpointSubsumed)]);
}

#[test]
fn u8_the_item_in_work_is_captured_once() {
    let mut bench = Bench::new(1);
    bench.start(1);
    // Item 4 was popped, but is not processed to its end: its rest counts as waiting.
    assert_eq!(bench.queue(A, 4, 6), [Write(1, A, 4, 6)]);
    assert_eq!(bench.queue(A, 4, 6), []);
    assert_eq!(bench.queue(A, 5, 6), []);
    let mut bench = Bench::new(1);
    bench.seen(A, 1, 5);
    bench.start(1);
    assert_eq!(bench.queue(A, 4, 6), [Write(1, A, 4, 5)]);
}

#[test]
fn u9_the_last_barrier_finishes_and_an_abort_fails_for_good() {
    let mut bench = Bench::new(2);
    bench.start_empty(1, 2);
    bench.seen(A, 1, 0);
    assert_eq!(bench.outcome(1), CaptureOutcome::Capturing);
    bench.seen(B, 1, 0);
    assert_eq!(bench.outcome(1), CaptureOutcome::Capturing, "the gate says when it has every barrier");
    assert_eq!(bench.stop(1), [Finish(1)]);
    assert_eq!(bench.outcome(1), CaptureOutcome::Finished);
    bench.refuses(Started(CheckpointId(1)));
    assert_eq!(bench.send(ResultTaken(CheckpointId(1))), []);
    bench.refuses(ResultTaken(CheckpointId(1)));

    bench.start_empty(2, 2);
    bench.seen(A, 2, 0);
    assert_eq!(bench.stop(1), [], "late");
    assert_eq!(bench.outcome(2), CaptureOutcome::Capturing);
    assert_eq!(bench.abort(2), [Discard(2)]);
    assert_eq!(bench.outcome(2), CaptureOutcome::Failed, "who asks later is told");
    assert_eq!([bench.status(A), bench.status(B)], [Completed, Completed]);
    assert_eq!(bench.queue(B, 0, 9), [], "nothing more is written");
    assert_eq!(bench.stop(2), []);
    assert_eq!(bench.abort(2), []);

    // Aborted when it is captured, but not taken yet.
    bench.start_empty(3, 2);
    assert_eq!(bench.stop(3), [Finish(3)]);
    assert_eq!(bench.abort(3), [Discard(3)]);
    bench.refuses(ResultTaken(CheckpointId(3)));
}

#[test]
fn u9_a_capture_that_is_not_whole_is_not_finished() {
    let mut bench = Bench::new(2);
    bench.start(1);
    bench.queue(A, 0, 0);
    bench.refuses(Stopped(CheckpointId(1)));
    bench.queue(B, 0, 0);
    bench.refuses(Started(CheckpointId(1)));
    // A newer barrier where the part of 1 is whole, and where it is not.
    bench.queue(B, 0, 2);
    bench.seen(B, 2, 4);
    bench.seen(A, 1, 0);
    bench.seen(A, 2, 4);
    assert_eq!(bench.stop(1), [Discard(1), Decline(1, FailureReason::CheckpointSubsumed)]);
    assert_eq!(
        [bench.status(A), bench.status(B)],
        [Received, Received],
        "the newer barrier is not forgotten"
    );
    assert_eq!(bench.start(2), [Report(2)]);
    assert_eq!([bench.queue(A, 1, 5), bench.queue(B, 4, 5)], [std::vec![Write(2, A, 1, 4)], std::vec![]]);
    bench.seen(A, 3, 5);
    assert_eq!(bench.stop(2), [Finish(2)]);
}

#[test]
fn what_the_caller_forgets_is_refused() {
    let mut bench = Bench::new(2);
    bench.start(1);
    bench.refuses(queue_seen(A, 2, 1));
    bench.queue(A, 0, 5);
    // Items 5 and 6 were taken, but nobody had captured them.
    bench.refuses(queue_seen(A, 7, 9));
    // Items 3 and 4 were captured, though they lie behind the barrier at 2.
    bench.refuses(barrier_announced(A, 1, 2));
    bench.refuses(barrier_seen(A, 1, 2));
    for event in
        [queue_seen(2, 0, 0), barrier_announced(2, 1, 0), barrier_seen(2, 1, 0), Replayed(ChannelIndex(2))]
    {
        let rejected = Rejected::OutOfRange { what: "channel", value: 2, limit: 2 };
        assert_eq!(bench.try_send(event), Err(rejected));
    }
    assert_eq!(bench.0.status(ChannelIndex(2)), None);
    let limit = Rejected::OutOfRange { what: "number of channels", value: 4, limit: 4 };
    assert_eq!(Machine::new(4).err(), Some(limit));
    assert_eq!(Machine::recovering(&[0; 4]).err(), Some(limit));
}

#[test]
fn u15_results_are_bounded() {
    let mut bench = Bench::new(1);
    for id in [1, 2] {
        bench.start_empty(id, 1);
        assert_eq!(bench.stop(id), [Finish(id)]);
    }
    assert_eq!(bench.start(3), [Decline(3, FailureReason::TaskCheckpointFailure)]);
    assert_eq!(bench.status(A), Completed);
    bench.send(ResultTaken(CheckpointId(1)));
    assert_eq!(bench.start(4), [Report(4)]);
    // One that was given up gives its place up.
    bench.abort(4);
    bench.start_empty(5, 1);
    assert_eq!(bench.stop(5), [Finish(5)]);
    assert_eq!(bench.abort(2), [Discard(2)]);
    assert_eq!(bench.start(6), [Report(6)]);
    assert_eq!(bench.outcome(5), CaptureOutcome::Finished);
}

#[test]
fn u16_whoever_shares_the_file_fails_with_it() {
    let own = WriteFailure::Own(FailureReason::CheckpointAsyncException);
    let shared = FailureReason::ChannelStateSharedStreamException;
    let mut bench = Bench::new(1);
    bench.start_empty(1, 1);
    assert_eq!(bench.send(failed(2, own)), [], "nothing of 2 is being written");
    assert_eq!(bench.send(failed(1, own)), [Discard(1), Decline(1, FailureReason::CheckpointAsyncException)]);
    assert_eq!([bench.send(failed(1, own)), bench.stop(1)], [[], []], "once");
    bench.start_empty(2, 1);
    bench.stop(2);
    assert_eq!(bench.send(failed(2, WriteFailure::SharedFile)), [Discard(2), Decline(2, shared)]);
    assert!(!shared.counts() && !shared.is_preflight());

    let files = SharedFile::default();
    let sharers = [0, 4, 5, 11].map(|subtask| files.sharers(subtask, 12));
    assert_eq!(sharers, [0..5, 0..5, 5..10, 10..12]);
}

#[test]
fn u17_the_subtask_runs_when_every_channel_has_been_replayed() {
    let mut bench = Bench(Machine::recovering(&[2, 0, 1]).unwrap());
    assert!(bench.0.is_replaying());
    assert_eq!(bench.send(Replayed(ChannelIndex(A))), []);
    bench.refuses(Replayed(ChannelIndex(B)));
    assert_eq!(bench.send(Replayed(ChannelIndex(C))), []);
    assert!(bench.0.is_replaying(), "a channel that stands for two old ones has two ends");
    assert_eq!(bench.send(Replayed(ChannelIndex(A))), [Run]);
    assert!(!bench.0.is_replaying());
    bench.refuses(Replayed(ChannelIndex(A)));
    assert!(!Machine::recovering(&[0, 0]).unwrap().is_replaying());
}

#[test]
fn u18_nothing_is_captured_while_recovering() {
    let mut bench = Bench(Machine::recovering(&[1, 0]).unwrap());
    assert_eq!(bench.seen(A, 5, 0), []);
    assert_eq!(bench.status(A), Completed);
    assert_eq!(bench.start(5), [Decline(5, FailureReason::CheckpointDeclinedTaskNotReady)]);
    assert_eq!(bench.stop(5), []);
    assert!(bench.0.is_replaying());
    assert_eq!(bench.send(Replayed(ChannelIndex(A))), [Run]);
    assert_eq!(bench.start(6), [Report(6)]);
    // A barrier that came meanwhile is not forgotten, but its place is.
    let mut bench = Bench(Machine::recovering(&[1]).unwrap());
    bench.seen(A, 5, 0);
    bench.send(Replayed(ChannelIndex(A)));
    for id in [4, 5] {
        assert_eq!(bench.start(id), [Decline(id, FailureReason::CheckpointSubsumed)]);
    }
    assert_eq!(bench.start(6), [Report(6)]);
}

#[test]
fn u19_records_in_flight_of_one_checkpoint_can_be_left_out() {
    let answers = [None, Some(6), Some(7), Some(8)]
        .map(|without| restores_in_flight(CheckpointId(7), without.map(CheckpointId)));
    assert_eq!(answers, [true, true, false, true]);
}

/// What a queue holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Item {
    Record(u8),
    Mark,
}

#[test]
fn u13_marks_are_not_captured() {
    let queue = Queue::<Item, 8>::with_bound(6).unwrap();
    let (mut producer, mut consumer) = (Producer::claim(&queue).unwrap(), Consumer::claim(&queue).unwrap());
    for item in [Item::Record(1), Item::Mark, Item::Record(2), Item::Mark, Item::Record(3)] {
        producer.try_push(item).unwrap();
    }
    let mut bench = Bench::new(1);
    bench.seen(A, 1, 3);
    bench.start(1);
    let (end, control) = consumer.look();
    assert_eq!((end, control), (Position(5), None));
    let [Write(1, A, from, until)] = bench.queue(A, consumer.position().0, end.0)[..] else {
        panic!("nothing is captured")
    };
    let already = Position(from).since(consumer.position());
    let places = consumer.pending_until(Position(until)).skip(already);
    let records: Vec<_> = places.filter(|item| matches!(item, Item::Record(_))).copied().collect();
    assert_eq!(records, [Item::Record(1), Item::Record(2)]);
}

#[test]
fn bug_b04_an_abort_before_the_start_leaves_nothing_that_waits() {
    let mut bench = Bench::new(1);
    assert_eq!(bench.abort(1), []);
    assert_eq!(bench.start(1), [], "it is known to be over already, nobody need be told");
    assert_eq!(bench.queue(A, 0, 1), []);
    assert_eq!(bench.outcome(1), CaptureOutcome::Failed);
    bench.start(2);
    assert_eq!(bench.queue(A, 1, 3), [Write(2, A, 1, 3)]);
    bench.seen(A, 2, 3);
    assert_eq!(bench.stop(2), [Finish(2)]);
    assert_eq!(bench.outcome(2), CaptureOutcome::Finished);
    // An abort of a later one says nothing of this one.
    bench.abort(9);
    assert_eq!(bench.outcome(2), CaptureOutcome::Finished);
    // Nor does one that is long past stand in the way of those to come.
    assert_eq!(bench.start(10), [Report(10)]);
    // Far behind an aborted one no id is told from another, and each counts as aborted.
    bench.abort(1_000);
    assert_eq!(bench.start(11), []);
    assert_eq!(bench.outcome(10), CaptureOutcome::Capturing);
}

#[test]
fn bug_b05_a_newer_checkpoint_takes_over_and_nothing_of_the_older_stays() {
    let mut bench = Bench::new(2);
    bench.seen(A, 1, 0);
    bench.start(1);
    assert_eq!([bench.queue(A, 0, 0), bench.queue(B, 0, 1)], [std::vec![], std::vec![Write(1, B, 0, 1)]]);
    bench.seen(A, 2, 0);
    // The gate gives 1 up before it starts 2.
    assert_eq!(bench.abort(1), [Discard(1)]);
    assert_eq!(bench.start(2), [Report(2)]);
    assert_eq!([bench.queue(A, 0, 0), bench.queue(B, 1, 1)], [[], []]);
    assert_eq!(bench.seen(B, 1, 1), [], "late");
    assert_eq!(bench.status(B), Pending);
    assert_eq!(bench.queue(B, 1, 2), [Write(2, B, 1, 2)]);
    assert_eq!(bench.seen(B, 2, 2), []);
    assert_eq!(bench.stop(2), [Finish(2)]);
    assert_eq!([bench.outcome(1), bench.outcome(2)], [CaptureOutcome::Failed, CaptureOutcome::Finished]);
}

#[test]
fn bug_b06_a_cancel_between_a_barrier_and_the_start_wins() {
    let mut bench = Bench::new(2);
    bench.seen(A, 1, 3);
    assert_eq!(bench.abort(1), [], "the gate takes the cancel marker first");
    assert_eq!(bench.start(1), [], "the start that was on its way does nothing");
    assert_eq!(bench.outcome(1), CaptureOutcome::Failed);
    bench.seen(A, 2, 4);
    assert_eq!(bench.start(2), [Report(2)]);
    assert_eq!([bench.queue(A, 3, 4), bench.queue(B, 0, 0)], [std::vec![Write(2, A, 3, 4)], std::vec![]]);
    bench.seen(B, 2, 0);
    assert_eq!(bench.stop(2), [Finish(2)]);
}

//! A task with real channels whose barriers may overtake, and a chain that has room when the test says so.

use slackwater_core::coordinator::Notification;
use slackwater_core::ids::ChannelIndex;
use slackwater_core::queue::{Control, Position};
use slackwater_mem::in_flight::InFlight;

use super::*;
use crate::chain::Stage;
use crate::channel::{Destination, Item, Receiver, Sender, channel};
use crate::head::InputHead;
use crate::record::{Batch, PackedBytes, Record};

/// What the chain was given, in order: records, and what else it was called for.
type Given = Arc<Mutex<Vec<String>>>;

/// Records by channel.
type Channels = Vec<(u16, Vec<String>)>;

/// Takes everything down.
struct Notes {
    given: Given,
    has_room: Arc<AtomicBool>,
    /// Pieces of the rest.
    rest: usize,
}

impl Notes {
    fn note(&self, what: impl Into<String>) {
        lock(&self.given).push(what.into());
    }
}

impl Stage<[u8]> for Notes {
    fn process(&mut self, record: &[u8], _cx: &mut Cx) {
        self.note(String::from_utf8_lossy(record));
    }
}

impl ChainOps for Notes {
    fn has_room(&self) -> bool {
        true
    }

    fn make_room(&mut self, _cx: &mut Cx) {}

    fn flush(&mut self) -> bool {
        true
    }

    fn send(&mut self, mark: Mark) -> bool {
        let has_room = self.has_room.load(Ordering::Relaxed);
        if has_room {
            self.note(match mark {
                Mark::Barrier(barrier) => format!("barrier {}", barrier.id),
                Mark::EndOfData { .. } => "end of data".to_owned(),
            });
        }
        has_room
    }

    fn cancel(&mut self, id: CheckpointId) {
        self.note(format!("cancel {id}"));
    }

    fn end_of_data(&mut self, _cx: &mut Cx) -> bool {
        self.note("rest");
        self.rest -= 1;
        self.rest == 0
    }
}

/// A task, what it is given, and everybody whom it talks with.
struct Bench {
    task: Task,
    senders: Vec<Sender<[u8]>>,
    given: Given,
    has_room: Arc<AtomicBool>,
    mail: Mailbox<TaskMail>,
    writer: Mailbox<WriterMail>,
    coordinator: Mailbox<CoordinatorMail>,
    declined: Vec<u64>,
    acknowledged: Vec<u64>,
    shared: Shared,
    now: u64,
}

impl Bench {
    fn new(channels: usize) -> Self {
        Self::with(channels, GateOptions::UNALIGNED)
    }

    fn with(channels: usize, gate: GateOptions) -> Self {
        let signal = Signal::default();
        let to = Destination::new(signal.clone());
        let ends = (0u16..).take(channels).map(|index| channel(&Signal::default(), &to, index));
        let (senders, receivers): (Vec<_>, Vec<Receiver<[u8]>>) = ends.unzip();
        let (given, has_room) = (Given::default(), Arc::new(AtomicBool::new(true)));
        let (mail, coordinator) = (Mailbox::new(signal.clone()), Mailbox::new(Signal::default()));
        let (writer, shared) = (Mailbox::new(Signal::default()), Shared::default());
        let notes = Notes { given: Arc::clone(&given), has_room: Arc::clone(&has_room), rest: 10 };
        let task = Task::new(TaskParts {
            name: "overtaken".into(),
            index: TaskIndex(0),
            head: Box::new(InputHead::new(receivers, <[u8]>::codec(), Box::new(notes))),
            cx: Cx::new(None, false),
            signal,
            mail: mail.clone(),
            coordinator: coordinator.clone(),
            writer: writer.clone(),
            shared: shared.clone(),
            is_drained: false,
            loading: None,
            gate,
            operator_coordinator: None,
            buffer_timeout: Millis(100),
        });
        Self {
            task: task.unwrap(),
            senders,
            given,
            has_room,
            mail,
            coordinator,
            writer,
            declined: Vec::new(),
            acknowledged: Vec::new(),
            shared,
            now: 0,
        }
    }

    /// Sends records, one batch each.
    fn send(&mut self, channel: usize, records: &[&str]) {
        for record in records {
            let mut batch = PackedBytes::default();
            batch.push(record.as_bytes());
            self.push(channel, Item::Records(batch));
        }
    }

    fn push(&mut self, channel: usize, item: Item<PackedBytes>) -> Position {
        let at = self.senders[channel].producer.position();
        self.senders[channel].producer.push_overdraft(item).unwrap();
        self.senders[channel].tell();
        at
    }

    /// Sends a barrier that has overtaken all that lies in the channel.
    fn overtake(&mut self, channel: usize, id: u64) {
        let overtaking = Some((barrier(id, Alignment::Unaligned), self.senders[channel].producer.position()));
        self.senders[channel].producer.publish(Control { overtaking, ..Control::default() });
        self.senders[channel].tell();
    }

    fn cancel(&mut self, channel: usize, id: u64) {
        let cancelled = Some(CheckpointId(id));
        self.senders[channel].producer.publish(Control { cancelled, ..Control::default() });
        self.senders[channel].tell();
    }

    /// What the coordinator has heard of checkpoints that this task has no part in.
    fn declined(&mut self) -> Vec<u64> {
        self.hear();
        std::mem::take(&mut self.declined)
    }

    fn acknowledged(&mut self) -> Vec<u64> {
        self.hear();
        std::mem::take(&mut self.acknowledged)
    }

    fn hear(&mut self) {
        while let Some(mail) = self.coordinator.receive() {
            if let CoordinatorMail::Decline { id, .. } = mail {
                self.declined.push(id.0);
            } else if let CoordinatorMail::Acknowledge { id, .. } = mail {
                self.acknowledged.push(id.0);
            }
        }
    }

    /// Sends an aligned barrier on the first two channels.
    fn align(&mut self, id: u64) {
        for channel in [0, 1] {
            self.push(channel, aligned(id));
        }
    }

    fn steps(&mut self, steps: usize) {
        for _ in 0..steps {
            self.now += 1;
            let step = self.task.step(Now { monotonic: Millis(self.now), wall: Millis(self.now) });
            assert_ne!(step, Step::Finished, "{:?}", self.shared.failure());
        }
    }

    fn given(&self) -> Vec<String> {
        std::mem::take(&mut *lock(&self.given))
    }

    /// What the writer is to make durable of records in flight: the records of each channel.
    fn captured(&self) -> Vec<(u64, Channels)> {
        let mut captured = Vec::new();
        while let Some(mail) = self.writer.receive() {
            if let WriterMail::PersistInFlight { id, captured: in_flight, .. } = mail {
                captured.push((id.0, records_of(&in_flight)));
            }
        }
        captured
    }
}

fn records_of(in_flight: &InFlight) -> Channels {
    let codec = <[u8]>::codec().unwrap();
    let records = |batches: &[Vec<u8>]| {
        let mut records = Vec::new();
        let mut take = |record: &[u8]| records.push(String::from_utf8_lossy(record).into_owned());
        batches.iter().for_each(|batch| codec.decode(batch, &mut take).unwrap());
        records
    };
    in_flight.channels.iter().map(|channel| (channel.sender, records(&channel.batches))).collect()
}

const fn barrier(id: u64, alignment: Alignment) -> Barrier {
    Barrier { id: CheckpointId(id), triggered_at: Millis(0), kind: SnapshotKind::Checkpoint, alignment }
}

const fn aligned(id: u64) -> Item<PackedBytes> {
    Item::Mark(Mark::Barrier(barrier(id, Alignment::Aligned)))
}

const fn at_least_once(id: u64) -> Item<PackedBytes> {
    Item::Mark(Mark::Barrier(barrier(id, Alignment::AtLeastOnce)))
}

const END: Item<PackedBytes> = Item::Mark(Mark::EndOfData { is_drained: true });

fn strings(all: &[&str]) -> Vec<String> {
    all.iter().map(|one| (*one).to_owned()).collect()
}

#[test]
fn what_was_captured_is_written_behind_a_barrier_that_waits_for_room() {
    let mut bench = Bench::new(1);
    bench.send(0, &["a", "b"]);
    bench.overtake(0, 1);
    bench.has_room.store(false, Ordering::Relaxed);
    bench.steps(5);
    assert_eq!((bench.given(), bench.captured()), (vec![], vec![]), "the barrier goes ahead of all of it");
    bench.has_room.store(true, Ordering::Relaxed);
    bench.steps(5);
    assert_eq!(bench.given(), ["barrier 1", "a", "b"]);
    assert_eq!(bench.captured(), [(1, vec![(0, strings(&["a", "b"]))])]);
}

#[test]
fn b04_what_is_given_up_while_its_barrier_waits_for_room_is_not_written() {
    let mut bench = Bench::new(1);
    bench.send(0, &["a"]);
    bench.overtake(0, 1);
    bench.has_room.store(false, Ordering::Relaxed);
    bench.steps(5);
    let id = CheckpointId(1);
    bench.mail.send(TaskMail::Notify(Notification::Abort { id, latest_completed: None }));
    bench.steps(5);
    bench.has_room.store(true, Ordering::Relaxed);
    bench.steps(5);
    assert_eq!(bench.captured(), [], "nobody wants it");
    assert!(bench.given().contains(&"a".to_owned()), "but it is processed");

    bench.send(0, &["b"]);
    bench.overtake(0, 2);
    bench.steps(5);
    assert_eq!(bench.given(), ["barrier 2", "b"]);
    assert_eq!(bench.captured(), [(2, vec![(0, strings(&["b"]))])]);
}

/// What a channel is sent between the snapshot and its barrier was in flight, too; what comes behind the barrier was not.
#[test]
fn u8_records_before_a_barrier_that_comes_late_are_captured_as_they_come() {
    let mut bench = Bench::new(2);
    bench.send(0, &["a"]);
    bench.send(1, &["c"]);
    bench.overtake(0, 1);
    bench.send(0, &["b"]);
    bench.steps(5);
    bench.send(1, &["d", "e"]);
    bench.steps(10);
    assert_eq!(bench.given(), ["barrier 1", "a", "c", "b", "d", "e"], "nothing waits");
    assert_eq!(bench.captured(), [], "the other barrier has not come");
    bench.send(1, &["f"]);
    bench.overtake(1, 1);
    bench.send(1, &["g"]);
    bench.steps(10);
    assert_eq!(bench.given(), ["f", "g"]);
    let captured = vec![(0, strings(&["a"])), (1, strings(&["c", "d", "e", "f"]))];
    assert_eq!(bench.captured(), [(1, captured)]);
}

/// Half of the rest would lie before the barrier and half behind it, and a restore would emit the first half again.
#[test]
fn a_time_out_that_is_over_while_the_rest_is_emitted_waits_for_its_end() {
    let mut bench = Bench::new(2);
    let timed = barrier(1, Alignment::AlignedFor(Millis(6)));
    for channel in [0, 1] {
        bench.push(channel, END);
    }
    let at = bench.senders[0].producer.position();
    bench.senders[0].producer.publish(Control { announced: Some((timed, at)), ..Control::default() });
    bench.senders[0].tell();
    bench.steps(10);
    let given = bench.given();
    assert!(
        given.len() > 3 && given.iter().all(|given| given == "rest"),
        "no barrier, though it is due: {given:?}"
    );
    bench.push(0, Item::Mark(Mark::Barrier(timed)));
    bench.steps(20);
    let given = bench.given();
    let end = given.iter().position(|given| given == "end of data").unwrap();
    assert!(given[..end].iter().all(|given| given == "rest"), "{given:?}");
    assert_eq!(given[end..], ["end of data", "barrier 1"]);
}

#[test]
fn a01_a_blocked_channel_goes_on_when_the_others_have_ended() {
    let mut bench = Bench::new(2);
    bench.push(0, aligned(1));
    bench.send(0, &["a"]);
    bench.send(1, &["b"]);
    bench.push(1, END);
    bench.steps(10);
    assert_eq!(bench.given(), ["b"], "the barrier comes behind the end, too");
    bench.push(1, aligned(1));
    bench.push(0, END);
    bench.steps(30);
    let given = bench.given();
    assert_eq!(given[..3], ["barrier 1", "a", "rest"]);
    assert_eq!(given.last().unwrap(), "end of data");
}

#[test]
fn a04_a_stale_cancel_marker_leaves_the_newer_checkpoint_alone() {
    let mut bench = Bench::new(3);
    bench.align(3);
    bench.send(0, &["x"]);
    bench.send(1, &["y"]);
    bench.steps(5);
    bench.push(2, aligned(5));
    bench.send(2, &["z"]);
    bench.steps(5);
    bench.cancel(0, 4);
    bench.cancel(1, 3);
    bench.steps(10);
    assert_eq!(bench.given(), ["cancel 3", "x", "y"], "in its place, and once");
    bench.align(5);
    bench.steps(10);
    assert_eq!(bench.given(), ["barrier 5", "z"]);
    assert_eq!(bench.declined(), [3]);
}

#[test]
fn a05_a_task_that_skips_a_checkpoint_tells_those_behind_it_once() {
    let mut bench = Bench::new(2);
    let id = CheckpointId(7);
    bench.mail.send(TaskMail::Notify(Notification::Abort { id, latest_completed: None }));
    bench.steps(2);
    bench.align(7);
    bench.send(0, &["x"]);
    bench.steps(10);
    assert_eq!(bench.given(), ["cancel 7", "x"]);
    assert_eq!(bench.acknowledged(), []);
    bench.align(8);
    bench.steps(10);
    assert_eq!(bench.given(), ["barrier 8"]);
    assert_eq!(bench.acknowledged(), [8]);
}

/// Case B-01 (b), and B-02: one barrier overtakes, the other lies behind records and was only announced, or not even that.
#[test]
fn b01_b02_a_barrier_that_overtakes_meets_one_that_keeps_its_place() {
    for is_announced in [true, false] {
        let mut bench = Bench::new(2);
        let timed = barrier(1, Alignment::AlignedFor(Millis(1000)));
        bench.send(0, &["a1", "a2"]);
        let at = bench.push(0, Item::Mark(Mark::Barrier(timed)));
        if is_announced {
            let announced = Some((timed, at));
            bench.senders[0].producer.publish(Control { announced, ..Control::default() });
            bench.senders[0].tell();
        }
        bench.overtake(1, 1);
        bench.steps(1);
        bench.send(1, &["b"]);
        bench.steps(15);
        assert_eq!(bench.given()[0], "barrier 1", "before any record");
        assert_eq!(bench.captured(), [(1, vec![(0, strings(&["a1", "a2"]))])], "announced: {is_announced}");
    }
}

#[test]
fn b05_a_checkpoint_that_a_newer_one_replaces_is_declined_once_and_leaves_nothing() {
    let mut bench = Bench::new(2);
    bench.overtake(0, 1);
    bench.steps(3);
    bench.send(1, &["p"]);
    bench.steps(3);
    bench.overtake(0, 2);
    bench.steps(3);
    bench.overtake(1, 1);
    bench.steps(3);
    bench.send(1, &["q"]);
    bench.overtake(1, 2);
    bench.steps(10);
    let given = bench.given();
    let barriers: Vec<_> = given.iter().filter(|given| given.starts_with("barrier")).collect();
    assert_eq!(barriers, ["barrier 1", "barrier 2"]);
    assert_eq!(bench.declined(), [1]);
    assert_eq!(bench.captured(), [(2, vec![(1, strings(&["q"]))])]);
}

#[test]
fn b06_a_cancel_marker_that_comes_while_the_barrier_waits_for_room_wins_once() {
    let mut bench = Bench::new(2);
    bench.has_room.store(false, Ordering::Relaxed);
    bench.send(0, &["a"]);
    bench.overtake(0, 1);
    bench.steps(3);
    bench.cancel(1, 1);
    bench.steps(3);
    bench.has_room.store(true, Ordering::Relaxed);
    bench.steps(10);
    assert_eq!((bench.captured(), bench.declined()), (vec![], vec![1]));
    let given = bench.given();
    assert_eq!(given.iter().filter(|given| *given == "cancel 1").count(), 1, "{given:?}");
    (0..2).for_each(|channel| bench.overtake(channel, 2));
    bench.steps(10);
    assert_eq!(bench.given(), ["barrier 2"]);
    assert_eq!(bench.captured(), [(2, vec![])]);
}

/// The snapshot would say that the rest has been emitted, and the source behind the first channel would go on after a
/// restore: what it read again would never be emitted.
#[test]
fn an_end_behind_a_barrier_waits_for_the_snapshot_where_channels_do_not_wait() {
    let mut bench = Bench::with(2, GateOptions::AT_LEAST_ONCE);
    bench.push(0, at_least_once(1));
    bench.send(0, &["a"]);
    bench.push(0, END);
    bench.push(1, END);
    bench.steps(10);
    assert_eq!(bench.given(), ["a"], "the barrier is awaited on the other channel");
    bench.push(1, at_least_once(1));
    bench.steps(30);
    assert_eq!(bench.given()[..2], ["barrier 1", "rest"]);
}

/// All of the tasks of an operator see these ends before these barriers.
#[test]
fn an_end_ahead_of_a_barrier_does_not_wait_for_it() {
    let mut bench = Bench::with(2, GateOptions::AT_LEAST_ONCE);
    bench.push(0, END);
    bench.push(0, at_least_once(1));
    bench.steps(10);
    bench.push(1, END);
    bench.steps(5);
    assert_eq!(bench.given()[..2], ["rest", "rest"]);
    bench.push(1, at_least_once(1));
    bench.steps(30);
    assert_eq!(bench.given().last().unwrap(), "barrier 1");
}

#[test]
fn a_stop_that_is_given_up_ends_the_task_whatever_waits_for_room() {
    let mut bench = Bench::new(1);
    let kind = SnapshotKind::Suspend(SavepointFormat::Native);
    let stop = Barrier { kind, ..barrier(1, Alignment::Aligned) };
    bench.has_room.store(false, Ordering::Relaxed);
    bench.push(0, Item::Mark(Mark::Barrier(stop)));
    bench.steps(5);
    let id = CheckpointId(1);
    bench.mail.send(TaskMail::Notify(Notification::Abort { id, latest_completed: None }));
    let now = Now { monotonic: Millis(9), wall: Millis(9) };
    assert_eq!(bench.task.step(now), Step::Finished);
    let failure = bench.shared.failure().unwrap().to_string();
    assert!(failure.contains("checkpoint 1 ended the task"), "{failure}");
}

/// The order to write can wait behind a barrier of which the gate knows nothing.
#[test]
fn what_is_given_up_is_not_written_though_it_was_ordered_to_be() {
    let mut bench = Bench::new(2);
    bench.overtake(0, 1);
    bench.send(1, &["a"]);
    bench.steps(5);
    bench.has_room.store(false, Ordering::Relaxed);
    let waiting = SubtaskAction::BroadcastBarrier(barrier(9, Alignment::Aligned));
    bench.task.orders.push_back(Order::Machine(waiting));
    bench.overtake(1, 1);
    let control = bench.task.head.inputs().unwrap().look(ChannelIndex(1)).1.unwrap();
    bench.task.note_control(ChannelIndex(1), control).unwrap();
    let arrived = bench.task.unheard.pop_front().unwrap();
    bench.task.tell_gate(arrived).unwrap();
    let id = CheckpointId(1);
    let to_write = Order::Machine(SubtaskAction::PersistInput(id));
    assert!(bench.task.orders.contains(&to_write));
    bench.mail.send(TaskMail::Notify(Notification::Abort { id, latest_completed: None }));
    bench.steps(5);
    assert!(!bench.task.orders.contains(&to_write));
    bench.has_room.store(true, Ordering::Relaxed);
    bench.steps(5);
    assert_eq!((bench.given(), bench.captured()), (strings(&["barrier 1", "a", "barrier 9"]), vec![]));
}

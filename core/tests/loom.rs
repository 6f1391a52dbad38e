//! Every interleaving of two threads at a queue: the models are small enough to need no bound. Those of two senders and
//! a receiver are explored up to a number of preemptions.
//!
//! `.ci/loom` runs this, and demands that it fails for each mutant that the sources name.

/// A run that was meant to explore interleavings must not pass because there was nothing in it.
#[cfg(not(slackwater_loom))]
#[test]
fn loom_is_on_where_it_is_required() {
    assert!(
        std::env::var_os("REQUIRE_LOOM").is_none_or(|value| value != "1"),
        "REQUIRE_LOOM=1, but built without RUSTFLAGS=\"--cfg slackwater_loom\""
    );
}

#[cfg(slackwater_loom)]
#[path = "unaligned/receiver.rs"]
mod receiver;

#[cfg(test)]
#[cfg(slackwater_loom)]
mod models {
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    use loom::{sync::Arc, thread};
    use slackwater_core::gate::GateOptions;
    use slackwater_core::ids::{Alignment, Barrier, CheckpointId, SnapshotKind};
    use slackwater_core::queue::{Consumer, Control, News, Position, Producer, Queue, RoomWanted};
    use slackwater_core::time::Millis;

    use crate::receiver::{Item, Receiver};

    type Shared<T> = Arc<Queue<T, 4>>;

    fn ends<T>(bound: usize) -> (Producer<Shared<T>>, Consumer<Shared<T>>) {
        let queue = Arc::new(Queue::with_bound(bound).unwrap());
        (Producer::claim(queue.clone()).unwrap(), Consumer::claim(queue).unwrap())
    }

    fn barrier(id: u64) -> Barrier {
        Barrier {
            id: CheckpointId(id),
            triggered_at: Millis(id * 10),
            kind: SnapshotKind::Checkpoint,
            alignment: Alignment::Aligned,
        }
    }

    fn assert_whole(barrier: Barrier) {
        assert_eq!(barrier.triggered_at, Millis(barrier.id.0 * 10), "torn");
    }

    /// Explores `model`, which notes when it gets to what it is about, and demands that it does.
    fn explore(model: impl Fn(&AtomicUsize) + Sync + Send + 'static) {
        let reached = std::sync::Arc::new(AtomicUsize::new(0));
        let counter = reached.clone();
        loom::model(move || model(&counter));
        assert_ne!(reached.load(Relaxed), 0, "no interleaving gets there");
    }

    /// Boxes, so that an item taken twice or read too early is more than a wrong number.
    #[test]
    fn items_arrive_once_and_in_order() {
        loom::model(|| {
            let (mut producer, mut consumer) = ends(2);
            let pushing = thread::spawn(move || {
                (0..3).filter(|item| producer.try_push(Box::new(*item)).is_ok()).collect::<Vec<_>>()
            });
            let mut popped: Vec<i32> = (0..2).filter_map(|_| consumer.pop()).map(|item| *item).collect();
            let pushed = pushing.join().unwrap();
            popped.extend(std::iter::from_fn(|| consumer.pop()).map(|item| *item));
            assert_eq!(popped, pushed);
            assert!(pushed.starts_with(&[0, 1]), "there was room for two at least");
        });
    }

    /// RING3.
    #[test]
    fn a_slot_is_used_again_only_after_it_has_been_read() {
        loom::model(|| {
            let (mut producer, mut consumer) = ends(2);
            for item in 0..4 {
                producer.push_reserved(Box::new(item)).unwrap();
            }
            let pushing = thread::spawn(move || {
                (4..6).filter(|item| producer.push_reserved(Box::new(*item)).is_ok()).collect::<Vec<_>>()
            });
            let mut popped: Vec<i32> = (0..2).filter_map(|_| consumer.pop()).map(|item| *item).collect();
            assert_eq!(popped, [0, 1]);
            let pushed = pushing.join().unwrap();
            popped.extend(std::iter::from_fn(|| consumer.pop()).map(|item| *item));
            assert_eq!(popped[..4], [0, 1, 2, 3]);
            assert_eq!(popped[4..], pushed);
        });
    }

    /// It would rest for ever if nobody woke it.
    #[test]
    fn a_sender_that_rests_for_want_of_room_is_woken() {
        explore(|rested| {
            let (mut producer, mut consumer) = ends(1);
            producer.try_push(0).unwrap();
            let wanted = Arc::new(RoomWanted::new());
            let room = wanted.clone();
            let sending = thread::spawn(move || {
                loop {
                    if producer.try_push(1).is_ok() {
                        return false;
                    }
                    if !wanted.want() {
                        return true;
                    }
                }
            });
            assert_eq!(consumer.pop(), Some(0));
            let is_woken = room.made();
            let rests = sending.join().unwrap();
            rested.fetch_add(rests.into(), Relaxed);
            assert!(!rests || is_woken, "it rests, and nobody wakes it");
        });
    }

    /// The receiver takes the news before it looks, and rests when there are none.
    #[test]
    fn a_receiver_that_looks_where_it_was_told_misses_nothing() {
        explore(|rested| {
            let (mut producer, mut consumer) = ends(2);
            let news = Arc::new(News::<1>::new());
            let (told, rests) = (news.clone(), std::sync::Arc::new(AtomicUsize::new(0)));
            let counter = rests.clone();
            let receiving = thread::spawn(move || {
                let mut popped = Vec::new();
                while popped.len() < 2 {
                    if told.take().contains(0) {
                        popped.extend(std::iter::from_fn(|| consumer.pop()));
                    } else {
                        counter.fetch_add(1, Relaxed);
                        thread::park();
                    }
                }
                popped
            });
            for item in 0..2 {
                producer.try_push(item).unwrap();
                news.tell(0);
                receiving.thread().unpark();
            }
            assert_eq!(receiving.join().unwrap(), [0, 1]);
            rested.fetch_add(rests.load(Relaxed), Relaxed);
        });
    }

    #[test]
    fn what_a_receiver_is_told_of_is_there_for_it() {
        explore(|told| {
            let (mut producer, mut consumer) = ends(1);
            let news = Arc::new(News::<1>::new());
            let ours = news.clone();
            let sending = thread::spawn(move || {
                producer.try_push(7).unwrap();
                news.tell(0);
            });
            if ours.take().contains(0) {
                told.fetch_add(1, Relaxed);
                assert_eq!(consumer.pop(), Some(7));
            }
            sending.join().unwrap();
        });
    }

    #[test]
    fn the_newest_control_arrives_whole_and_nothing_older_after_it() {
        loom::model(|| {
            let (mut producer, mut consumer) = ends::<u8>(1);
            let publishing = thread::spawn(move || {
                for (id, position) in (1..4).zip(1..) {
                    let announced = Some((barrier(id), Position(position)));
                    producer.publish(Control { announced, ..Control::default() });
                }
            });
            let mut last = 0;
            let mut look = |consumer: &mut Consumer<_>| {
                if let Some((barrier, position)) = consumer.control().and_then(|new| new.announced) {
                    assert_whole(barrier);
                    assert_eq!(Ok(position.0), usize::try_from(barrier.id.0), "torn");
                    assert!(barrier.id.0 > last, "{} after {last}", barrier.id);
                    last = barrier.id.0;
                }
            };
            look(&mut consumer);
            look(&mut consumer);
            publishing.join().unwrap();
            look(&mut consumer);
            assert_eq!(last, 3, "the newest one is never lost");
        });
    }

    struct Counted(std::sync::Arc<AtomicUsize>);

    impl Drop for Counted {
        fn drop(&mut self) {
            self.0.fetch_add(1, Relaxed);
        }
    }

    /// Whichever end goes last takes the queue and what is left in it along.
    #[test]
    fn every_item_is_dropped_exactly_once() {
        loom::model(|| {
            let dropped = std::sync::Arc::new(AtomicUsize::new(0));
            let (mut producer, mut consumer) = ends(2);
            let counter = dropped.clone();
            let pushing = thread::spawn(move || {
                for _ in 0..2 {
                    assert!(producer.try_push(Counted(counter.clone())).is_ok());
                }
            });
            drop(consumer.pop());
            drop(consumer);
            pushing.join().unwrap();
            assert_eq!(dropped.load(Relaxed), 2);
        });
    }

    #[test]
    fn nothing_is_lost_at_the_end() {
        explore(|reached| {
            let (mut producer, mut consumer) = ends(2);
            let pushing = thread::spawn(move || {
                producer.try_push(Box::new(1)).unwrap();
                producer.try_push(Box::new(2)).unwrap();
            });
            let mut popped = Vec::new();
            for _ in 0..2 {
                let ended = consumer.is_abandoned();
                popped.extend(std::iter::from_fn(|| consumer.pop()).map(|item| *item));
                if ended {
                    reached.fetch_add(1, Relaxed);
                    assert_eq!(popped, [1, 2], "the producer was gone before the last look");
                }
            }
            pushing.join().unwrap();
        });
    }

    #[test]
    fn a_batch_in_the_reserved_slot_is_there_when_its_barrier_is_announced() {
        explore(|reached| {
            let (mut producer, mut consumer) = ends(1);
            producer.try_push(0).unwrap();
            producer.push_overdraft(1).unwrap();
            producer.push_overdraft(2).unwrap();
            let pushing = thread::spawn(move || {
                assert!(producer.push_overdraft(3).is_err() || producer.len() < 4);
                let at = producer.push_reserved(3);
                let announced = Some((barrier(1), producer.position()));
                producer.publish(Control { announced, ..Control::default() });
                at.is_ok()
            });
            let first = consumer.pop();
            assert_eq!(first, Some(0));
            if let Some((barrier, end)) = consumer.control().and_then(|new| new.announced) {
                assert_whole(barrier);
                let pending: Vec<_> = consumer.pending_until(end).copied().collect();
                assert_eq!(pending.len(), end.since(consumer.position()));
                reached.fetch_add(1, Relaxed);
                assert!(pending.starts_with(&[1, 2, 3]), "{pending:?}");
            }
            assert!(pushing.join().unwrap(), "the reserved slot was free");
        });
    }

    /// Rule U14, the receiver's part: processed before the barrier, or captured, or after it; never two.
    #[test]
    fn a_capture_takes_exactly_what_the_barrier_has_overtaken() {
        explore(|reached| {
            let (mut producer, mut consumer) = ends(2);
            producer.try_push(Box::new(0)).unwrap();
            let pushing = thread::spawn(move || {
                producer.push_overdraft(Box::new(1)).unwrap();
                let overtaking = Some((barrier(1), producer.position()));
                producer.publish(Control { overtaking, ..Control::default() });
                producer.push_overdraft(Box::new(2)).unwrap();
            });
            let mut before: Vec<i32> = consumer.pop().into_iter().map(|item| *item).collect();
            if let Some((_, end)) = consumer.control().and_then(|new| new.overtaking) {
                before.extend(consumer.pending_until(end).map(|item| **item));
                reached.fetch_add(1, Relaxed);
                assert_eq!(before, [0, 1]);
            }
            pushing.join().unwrap();
            let rest: Vec<i32> = std::iter::from_fn(|| consumer.pop()).map(|item| *item).collect();
            assert_eq!(rest, [1, 2], "what was captured is still delivered");
        });
    }

    type Channel = Arc<Queue<Item, 8>>;

    /// A record that is there from the start; then another one if `is_long`, the barrier, and a record behind it if
    /// `is_long`.
    fn sender(alignment: Alignment, is_long: bool) -> (impl FnOnce(), Consumer<Channel>) {
        let queue: Channel = Arc::new(Queue::with_bound(6).unwrap());
        let mut producer = Producer::claim(queue.clone()).unwrap();
        producer.try_push(Item::Record(0)).unwrap();
        let send = move || {
            if is_long {
                producer.try_push(Item::Record(1)).unwrap();
            }
            let barrier = Barrier { alignment, ..barrier(1) };
            let end = producer.position();
            if alignment.is_unaligned() {
                producer.publish(Control { overtaking: Some((barrier, end)), ..Control::default() });
            } else {
                producer.try_push(Item::Barrier(barrier)).unwrap();
                producer.publish(Control { announced: Some((barrier, end)), ..Control::default() });
            }
            if is_long {
                producer.try_push(Item::Record(2)).unwrap();
            }
        };
        (send, Consumer::claim(queue).unwrap())
    }

    /// Rule U14: whatever the senders do while the receiver visits these channels, each record is in the state, or
    /// captured, or comes after. The time-out strikes before the last visit.
    fn cut_is_exact(alignments: [Alignment; 2], visits: &[usize], reached: &AtomicUsize) {
        let (short, short_end) = sender(alignments[0], false);
        let (long, long_end) = sender(alignments[1], true);
        let mut receiver = Receiver::new(vec![short_end, long_end], GateOptions::UNALIGNED);
        let senders = [thread::spawn(short), thread::spawn(long)];
        for (left, channel) in (0..visits.len()).rev().zip(visits) {
            if left == 0 {
                receiver.set_time(1_000);
            }
            receiver.visit(*channel);
        }
        for sender in senders {
            sender.join().unwrap();
        }
        while receiver.visit(0) | receiver.visit(1) {}
        assert!(receiver.has_ended());
        assert_eq!(receiver.processed, [vec![0], vec![0, 1, 2]]);
        let cut = &receiver.cuts[&1];
        assert!(cut.is_complete);
        let covered = |channel: usize| [cut.state[channel].as_slice(), &cut.captured[channel]].concat();
        assert_eq!([covered(0), covered(1)], [vec![0], vec![0, 1]], "{cut:?}");
        let captures = cut.captured.iter().any(|captured| !captured.is_empty());
        reached.fetch_add(usize::from(captures == cut.is_unaligned), Relaxed);
    }

    fn explore_cuts(alignments: [Alignment; 2], visits: &'static [usize]) {
        let reached = std::sync::Arc::new(AtomicUsize::new(0));
        let counter = reached.clone();
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(2);
        builder.check(move || cut_is_exact(alignments, visits, &counter));
        assert_ne!(reached.load(Relaxed), 0, "no interleaving gets there");
    }

    #[test]
    fn u14_a_cut_through_two_senders_is_exact_when_barriers_keep_their_place() {
        explore_cuts([Alignment::Aligned; 2], &[1, 1, 1, 1]);
    }

    #[test]
    fn u14_a_cut_through_two_senders_is_exact_when_barriers_overtake() {
        explore_cuts([Alignment::Unaligned; 2], &[0, 1, 1]);
    }

    #[test]
    fn u14_a_cut_through_two_senders_is_exact_when_one_barrier_overtakes() {
        explore_cuts([Alignment::Unaligned, Alignment::AlignedFor(Millis(100))], &[0, 1, 1]);
    }

    #[test]
    fn u14_a_cut_through_two_senders_is_exact_when_barriers_turn() {
        explore_cuts([Alignment::AlignedFor(Millis(100)); 2], &[1, 0, 1]);
    }
}

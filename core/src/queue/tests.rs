//! The queue on one thread: what each kind of push may use, what is dropped, and where positions wrap.

use std::boxed::Box;
use std::cell::Cell;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::vec::Vec;

use super::*;
use crate::ids::{Barrier, CheckpointId};
use crate::time::Millis;

fn ends<T, const SLOTS: usize>(
    queue: &Queue<T, SLOTS>,
) -> (Producer<&Queue<T, SLOTS>>, Consumer<&Queue<T, SLOTS>>) {
    (Producer::claim(queue).unwrap(), Consumer::claim(queue).unwrap())
}

fn barrier(id: u64) -> Barrier {
    Barrier {
        id: CheckpointId(id),
        triggered_at: Millis(id * 10),
        kind: crate::ids::SnapshotKind::Checkpoint,
        alignment: crate::ids::Alignment::Aligned,
    }
}

#[test]
fn a_bound_leaves_room_for_the_overdraft_and_the_reserved_slot() {
    for bound in [0, 7, usize::MAX] {
        assert_eq!(
            Queue::<u8, 8>::with_bound(bound).map(|_| ()),
            Err(InvalidBound { bound, bound_max: 6 }),
            "{bound}"
        );
    }
    assert!(Queue::<u8, 8>::with_bound(6).is_ok());
}

#[test]
fn each_kind_of_push_stops_where_its_room_ends() {
    let queue = Queue::<u8, 8>::with_bound(3).unwrap();
    let (mut producer, mut consumer) = ends(&queue);
    for item in 0..3 {
        assert!(producer.has_room());
        assert_eq!(producer.try_push(item), Ok(Position(usize::from(item))));
    }
    assert!(!producer.has_room());
    assert_eq!(producer.try_push(3), Err(Full(3)));
    for item in 3..7 {
        producer.push_overdraft(item).unwrap();
    }
    assert_eq!(producer.push_overdraft(7), Err(Full(7)));
    producer.push_reserved(7).unwrap();
    assert_eq!(producer.push_reserved(8), Err(Full(8)));
    assert_eq!((producer.len(), consumer.len()), (8, 8));

    for item in 0..5 {
        assert_eq!(consumer.pop(), Some(item));
    }
    assert!(!producer.has_room(), "three items are left, as many as the bound");
    assert_eq!(consumer.pop(), Some(5));
    assert!(producer.has_room());
    assert_eq!([consumer.pop(), consumer.pop(), consumer.pop()], [Some(6), Some(7), None]);
    assert!(producer.is_empty() && consumer.is_empty());
}

#[test]
fn a_peek_leaves_the_item_where_it_is() {
    let queue = Queue::<u8, 4>::with_bound(1).unwrap();
    let (mut producer, mut consumer) = ends(&queue);
    assert_eq!(consumer.peek(), None);
    producer.try_push(5).unwrap();
    assert_eq!(consumer.peek(), Some(&5));
    assert_eq!(consumer.position(), Position(0));
    assert_eq!(consumer.pop(), Some(5));
    assert_eq!(consumer.position(), producer.position());
}

/// RING4.
#[test]
fn each_end_is_claimed_once_in_the_life_of_a_queue() {
    let queue = Queue::<u8, 4>::with_bound(1).unwrap();
    let (producer, consumer) = ends(&queue);
    assert!(!producer.is_abandoned() && !consumer.is_abandoned());
    assert_eq!(Producer::claim(&queue).map(|_| ()), Err(AlreadyClaimed));
    assert_eq!(Consumer::claim(&queue).map(|_| ()), Err(AlreadyClaimed));
    drop(producer);
    assert!(consumer.is_abandoned());
    assert!(Producer::claim(&queue).is_err(), "positions would start anew");
    drop(consumer);
    assert!(Consumer::claim(&queue).is_err(), "positions would start anew");
}

#[test]
fn an_end_that_was_never_claimed_is_not_gone() {
    let queue = Queue::<u8, 4>::with_bound(1).unwrap();
    let producer = Producer::claim(&queue).unwrap();
    assert!(!producer.is_abandoned());
    drop(Consumer::claim(&queue).unwrap());
    assert!(producer.is_abandoned());
}

#[test]
fn a_late_consumer_finds_what_was_pushed_before() {
    let queue = Queue::<u8, 4>::with_bound(2).unwrap();
    let mut producer = Producer::claim(&queue).unwrap();
    producer.try_push(1).unwrap();
    drop(producer);
    let mut consumer = Consumer::claim(&queue).unwrap();
    assert!(consumer.is_abandoned());
    assert_eq!([consumer.pop(), consumer.pop()], [Some(1), None]);
}

#[cfg(feature = "alloc")]
#[test]
fn a_shared_queue_lives_as_long_as_one_of_its_ends() {
    let queue = std::sync::Arc::new(Queue::<Box<u8>, 4>::with_bound(1).unwrap());
    let mut producer = Producer::claim(queue.clone()).unwrap();
    let mut consumer = Consumer::claim(queue).unwrap();
    producer.try_push(Box::new(7)).unwrap();
    drop(producer);
    assert_eq!(consumer.pop(), Some(Box::new(7)));
}

/// Notes its number when it is dropped, and then panics if told so.
struct Noted<'n> {
    number: usize,
    dropped: &'n Cell<[usize; 8]>,
    panics: bool,
}

impl Drop for Noted<'_> {
    fn drop(&mut self) {
        let mut dropped = self.dropped.get();
        dropped[self.number] += 1;
        self.dropped.set(dropped);
        assert!(!self.panics, "told to");
    }
}

/// RING2.
#[test]
fn items_that_nobody_took_are_dropped_once_with_the_queue() {
    let dropped = Cell::new([0; 8]);
    let queue = Queue::<_, 8>::with_bound(6).unwrap();
    let (mut producer, mut consumer) = ends(&queue);
    for number in 0..5 {
        assert!(producer.try_push(Noted { number, dropped: &dropped, panics: false }).is_ok());
    }
    drop(consumer.pop());
    drop((producer, consumer));
    assert_eq!(dropped.get(), [1, 0, 0, 0, 0, 0, 0, 0]);
    drop(queue);
    assert_eq!(dropped.get(), [1, 1, 1, 1, 1, 0, 0, 0]);
}

#[test]
fn an_item_whose_drop_panics_is_dropped_once_and_the_rest_too() {
    let dropped = Cell::new([0; 8]);
    let queue = Queue::<_, 8>::with_bound(6).unwrap();
    let mut producer = Producer::claim(&queue).unwrap();
    for number in 0..4 {
        assert!(producer.try_push(Noted { number, dropped: &dropped, panics: number == 1 }).is_ok());
    }
    drop(producer);
    assert!(catch_unwind(AssertUnwindSafe(|| drop(queue))).is_err());
    assert_eq!(dropped.get(), [1, 1, 1, 1, 0, 0, 0, 0]);
}

#[test]
fn items_without_a_size_are_counted_too() {
    let queue = Queue::<(), 4>::with_bound(2).unwrap();
    let (mut producer, mut consumer) = ends(&queue);
    producer.try_push(()).unwrap();
    producer.try_push(()).unwrap();
    assert_eq!(producer.try_push(()), Err(Full(())));
    assert_eq!([consumer.pop(), consumer.pop(), consumer.pop()], [Some(()), Some(()), None]);
}

#[test]
fn what_waits_before_a_position_is_captured_and_still_delivered() {
    let queue = Queue::<u8, 8>::with_bound(6).unwrap();
    let (mut producer, mut consumer) = ends(&queue);
    let positions: Vec<_> = (0..5).map(|item| producer.try_push(item).unwrap()).collect();
    assert_eq!(consumer.pop(), Some(0));
    let pending = |consumer: &mut Consumer<_>, end| {
        let pending = consumer.pending_until(end);
        let len = pending.len();
        let items: Vec<u8> = pending.copied().collect();
        assert_eq!(items.len(), len);
        items
    };
    assert_eq!(pending(&mut consumer, positions[3]), [1, 2]);
    assert_eq!(pending(&mut consumer, producer.position()), [1, 2, 3, 4]);
    assert_eq!(pending(&mut consumer, positions[0]), [], "all of them have been taken");
    assert_eq!(pending(&mut consumer, Position(100)), [1, 2, 3, 4], "not more than there is");
    assert_eq!(consumer.pop(), Some(1));
}

#[test]
fn control_gives_the_newest_of_each_kind_and_only_what_changed() {
    let queue = Queue::<u8, 4>::with_bound(1).unwrap();
    let (mut producer, mut consumer) = ends(&queue);
    assert_eq!((consumer.has_control(), consumer.control()), (false, None));
    let announced = |id| Control { announced: Some((barrier(id), Position(0))), ..Control::default() };
    let cancelled = |id| Control { cancelled: Some(CheckpointId(id)), ..Control::default() };
    for id in 1..100 {
        producer.publish(announced(id));
    }
    producer.publish(cancelled(7));
    assert!(consumer.has_control());
    assert_eq!(
        consumer.control(),
        Some(Control { cancelled: Some(CheckpointId(7)), ..announced(99) }),
        "a newer kind must not hide another"
    );
    assert_eq!((consumer.has_control(), consumer.control()), (false, None));
    producer.publish(cancelled(8));
    assert_eq!(consumer.control(), Some(cancelled(8)), "the announcement was seen before");
    producer.publish(cancelled(8));
    assert_eq!(consumer.control(), None, "nothing has changed");
}

#[test]
fn control_overtakes_a_full_data_lane() {
    let queue = Queue::<u8, 4>::with_bound(1).unwrap();
    let (mut producer, mut consumer) = ends(&queue);
    for item in 0..4 {
        producer.push_reserved(item).unwrap();
    }
    let overtaking = Some((barrier(1), producer.position()));
    producer.publish(Control { overtaking, ..Control::default() });
    let control = consumer.control().unwrap();
    assert_eq!(control.overtaking, overtaking);
    assert_eq!(consumer.pending_until(control.overtaking.unwrap().1).count(), 4);
}

#[test]
fn positions_compare_across_the_wrap() {
    let before = Position(usize::MAX - 1);
    let after = before.next().next().next();
    assert_eq!(after, Position(1));
    assert!(before.is_before(after) && !after.is_before(before) && !after.is_before(after));
    assert_eq!((after.since(before), before.since(after), after.since(after)), (3, 0, 0));
}

/// Random operations, against a plain deque, from starts around every wrap: of the ring, of the signed
/// distance, of the position itself.
#[test]
fn behaves_like_a_deque_with_a_bound_wherever_positions_start() {
    let wraps = [0, usize::MAX - 9, usize::MAX, isize::MAX.cast_unsigned() - 9, isize::MAX.cast_unsigned()];
    for (seed, start) in (1..).zip(wraps) {
        for bound in 1..=6 {
            run_against_a_deque(Position(start), bound, seed);
        }
    }
}

fn run_against_a_deque(start: Position, bound: usize, seed: u64) {
    let queue = Queue::<Box<u64>, 8>::starting_at(start, bound).unwrap();
    let (mut producer, mut consumer) = ends(&queue);
    let mut model = VecDeque::new();
    let mut random = seed;
    for item in 0..2_000 {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let (choice, pick) = ((random >> 33) % 8, usize::try_from((random >> 40) % 9).unwrap());
        let boxed = Box::new(item);
        match choice {
            0..=2 => {
                let at = producer.position();
                let (limit, pushed) = match choice {
                    0 => (bound, producer.try_push(boxed)),
                    1 => (7, producer.push_overdraft(boxed)),
                    _ => (8, producer.push_reserved(boxed)),
                };
                if model.len() < limit {
                    assert_eq!(pushed, Ok(at));
                    model.push_back(item);
                } else {
                    assert_eq!(pushed, Err(Full(Box::new(item))));
                }
            }
            3..=5 => assert_eq!(consumer.pop().map(|item| *item), model.pop_front()),
            6 => assert_eq!(consumer.peek().map(|item| **item), model.front().copied()),
            _ => {
                let end = Position(consumer.position().0.wrapping_add(pick));
                let pending: Vec<_> = consumer.pending_until(end).map(|item| **item).collect();
                assert_eq!(pending, model.iter().take(pick).copied().collect::<Vec<_>>());
            }
        }
        assert_eq!((producer.len(), consumer.len()), (model.len(), model.len()), "RING1");
        assert!(model.len() <= 8, "RING1");
        assert_eq!(producer.has_room(), model.len() < bound);
        assert_eq!(producer.position().since(consumer.position()), model.len());
    }
}

#[test]
fn each_queue_that_has_something_is_taken_once_and_again_when_more_has_come() {
    let news = News::<32>::new();
    [1023, 0, 31, 32, 0, 1024].into_iter().for_each(|queue| news.tell(queue));
    let of = |queues: &[u16]| queues.iter().copied().collect();
    assert_eq!(news.seen(), of(&[0, 31, 32, 1023]), "there is no queue 1024");
    assert_eq!(news.take(), of(&[0, 31, 32, 1023]));
    assert_eq!((news.seen(), news.take()), (of(&[]), of(&[])));
    news.tell(31);
    assert_eq!((news.seen(), news.take()), (of(&[31]), of(&[31])));
}

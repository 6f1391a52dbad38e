//! Two real threads at a queue: loom does not model every reordering that hardware does.

#![cfg(not(slackwater_loom))]

use std::thread;

use slackwater_core::ids::{Alignment, Barrier, CheckpointId, SnapshotKind};
use slackwater_core::queue::{Consumer, Control, Producer, Queue};
use slackwater_core::time::Millis;

const ITEMS: u64 = 500_000;
const ITEMS_PER_BARRIER: u64 = 97;

/// Each item is a box that knows its number, so that a slot read too early or twice cannot go unnoticed.
#[test]
fn two_threads_lose_repeat_and_tear_nothing() {
    let queue = Queue::<Box<(u64, u64)>, 16>::with_bound(10).unwrap();
    thread::scope(|scope| {
        scope.spawn(|| push_all(Producer::claim(&queue).unwrap()));
        scope.spawn(|| pop_all(Consumer::claim(&queue).unwrap()));
    });
}

fn push_all(mut producer: Producer<&Queue<Box<(u64, u64)>, 16>>) {
    for number in 0..ITEMS {
        let mut item = Box::new((number, !number));
        while let Err(full) =
            if number % 5 == 0 { producer.push_reserved(item) } else { producer.try_push(item) }
        {
            item = full.0;
            thread::yield_now();
        }
        if number % ITEMS_PER_BARRIER == 0 {
            let id = number / ITEMS_PER_BARRIER + 1;
            let barrier = Barrier {
                id: CheckpointId(id),
                triggered_at: Millis(!id),
                kind: SnapshotKind::Checkpoint,
                alignment: Alignment::Aligned,
            };
            let overtaking = Some((barrier, producer.position()));
            producer.publish(Control { overtaking, ..Control::default() });
        }
    }
}

fn pop_all(mut consumer: Consumer<&Queue<Box<(u64, u64)>, 16>>) {
    let (mut next, mut last_id) = (0, 0);
    loop {
        let ended = consumer.is_abandoned();
        if let Some((barrier, end)) = consumer.control().and_then(|new| new.overtaking) {
            assert_eq!(barrier.triggered_at.0, !barrier.id.0, "torn");
            assert!(barrier.id.0 > last_id, "{} after {last_id}", barrier.id);
            last_id = barrier.id.0;
            for (item, want) in consumer.pending_until(end).zip(next..) {
                assert_eq!(**item, (want, !want));
                assert!(want <= (last_id - 1) * ITEMS_PER_BARRIER, "captured beyond the barrier");
            }
        }
        let mut popped = false;
        while let Some(item) = consumer.pop() {
            assert_eq!(*item, (next, !next));
            next += 1;
            popped = true;
        }
        if ended {
            break;
        }
        if !popped {
            thread::yield_now();
        }
    }
    assert_eq!(next, ITEMS);
    assert_eq!(last_id, (ITEMS - 1) / ITEMS_PER_BARRIER + 1, "the newest barrier is never lost");
}

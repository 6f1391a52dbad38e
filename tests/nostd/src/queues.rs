use slackwater_core::queue::{Consumer, Control, Position, Producer, Queue};

use crate::data::{Data, used};

pub(crate) fn ring(data: &mut Data) -> u32 {
    let Ok(queue) = Queue::<[u32; 2], 8>::with_bound(usize::from(data.short())) else { return 0 };
    let (Ok(mut producer), Ok(mut consumer)) = (Producer::claim(&queue), Consumer::claim(&queue)) else {
        return 1;
    };
    let mut sum = 0u32;
    for _ in 0..32 {
        let item = [data.word(), data.word()];
        let pushed = match data.word() & 3 {
            0 => producer.push_overdraft(item),
            1 => producer.push_reserved(item),
            _ => producer.try_push(item),
        };
        let place = (data.barrier(), Position(usize::from(data.short())));
        let control = Control { announced: Some(place), overtaking: Some(place), cancelled: Some(data.id()) };
        producer.publish(control);
        sum ^= used(&pushed) ^ used(&consumer.look()) ^ used(&consumer.peek());
        let end = Position(usize::from(data.short()));
        sum ^= consumer.pending_until(end).fold(0, |sum, item| sum ^ used(item));
        sum ^= used(&producer.has_room()) ^ used(&consumer.len());
        if data.bit() {
            sum ^= used(&consumer.pop());
        }
    }
    drop(producer);
    sum ^ used(&consumer.is_abandoned())
}

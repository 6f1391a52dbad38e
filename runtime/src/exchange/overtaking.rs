//! In which form a barrier is sent, and how it overtakes.

use slackwater_core::ids::{Alignment, Barrier};
use slackwater_core::queue::Control;

use super::{Exchange, Outgoing};
use crate::channel::Mark;
use crate::record::Record;

impl<R: Record + ?Sized, P> Exchange<R, P> {
    /// Nothing overtakes records that cannot be written into a checkpoint (rule U4). Nor does it behind the end of the data:
    /// of the subtasks there one could have had the end of all its inputs at a checkpoint at which another had not, and
    /// would emit its rest again after a restore.
    pub(super) const fn in_form(&self, mark: Mark) -> Mark {
        let Mark::Barrier(barrier) = mark else { return mark };
        let alignment = match barrier.alignment {
            alignment if self.edge.codec.is_none() => alignment.without_overtaking(),
            alignment if self.has_ended && alignment.needs_channel_state() => Alignment::Aligned,
            alignment => alignment,
        };
        Mark::Barrier(Barrier { alignment, ..barrier })
    }
}

impl<R: Record + ?Sized> Outgoing<R> {
    /// Sends a mark behind all records, or lets it overtake them. False if there is no room.
    pub(super) fn send(&mut self, mark: Mark) -> bool {
        match mark {
            Mark::Barrier(barrier) if barrier.alignment.is_unaligned() => self.send_ahead(barrier),
            Mark::Barrier(barrier) if barrier.alignment.timeout().is_some() => self.send_announced(barrier),
            Mark::Barrier(_) | Mark::EndOfData { .. } => self.push_mark(mark).is_some(),
        }
    }

    /// The barrier itself takes no place in the queue.
    fn send_ahead(&mut self, barrier: Barrier) -> bool {
        if !self.push_rest() {
            return false;
        }
        let overtaking = Some((barrier, self.sender.producer.position()));
        self.publish(Control { overtaking, ..Control::default() });
        true
    }

    /// The barrier keeps its place, and the receiver knows that it could overtake (rule B10).
    fn send_announced(&mut self, barrier: Barrier) -> bool {
        let Some(at) = self.push_mark(Mark::Barrier(barrier)) else { return false };
        self.barrier = Some((barrier, at));
        self.publish(Control { announced: self.barrier, ..Control::default() });
        true
    }

    /// Lets a barrier that lies in the queue overtake what is before it (rule X10).
    pub(super) fn overtake(&mut self, barrier: Barrier) {
        if let Some((_, at)) = self.barrier.take_if(|(sent, _)| sent.id == barrier.id) {
            self.publish(Control { overtaking: Some((barrier, at)), ..Control::default() });
        }
    }

    pub(super) fn publish(&mut self, control: Control) {
        self.sender.producer.publish(control);
        self.sender.tell();
    }
}

//! What an operator's coordinator sends to its subtasks around a checkpoint (Flink: `OperatorCoordinatorHolder`,
//! `SubtaskGatewayImpl`).
//!
//! The coordinator's state belongs before the barrier, and so does every event that it sent before it gave its state;
//! what it sends later must reach a subtask behind the barrier. So the gateways to the subtasks are closed when the
//! state is there, each opens again when its subtask has taken its snapshot, and the coordinator's part counts only when
//! everything sent before has arrived. The work of each event is bounded by `SUBTASK_WORDS` and `PENDING`.
//!
//! # Invariants
//! - WI1: at most one checkpoint is waiting for the coordinator's state or for deliveries.
//! - WI2: no checkpoint is known twice.
//! - WI3: only gateways of the operator's subtasks are closed.
//! - WI4: a checkpoint that waits for the coordinator's state has closed no gateway.

mod steps;
#[cfg(test)]
mod tests;

use heapless::VecView;

use crate::bit_set::BitSet;
use crate::ids::CheckpointId;
use crate::machine::{Admission, Orders, Rejected, first_broken};
use crate::time::Now;

/// Subtasks of an operator.
pub type SubtaskSet<const SUBTASK_WORDS: usize> = BitSet<SUBTASK_WORDS>;

/// Says when an event was sent, for the report on its delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeliveryTicket(u64);

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GatewaysEvent {
    /// The checkpoint needs the coordinator's state.
    SnapshotRequested(CheckpointId),
    /// The coordinator has given it, or has none.
    SnapshotTaken(CheckpointId),
    /// The coordinator could not give it.
    SnapshotFailed(CheckpointId),
    /// The coordinator broke when it was asked.
    CoordinatorBroke(CheckpointId),
    /// The coordinator sends an event to a subtask.
    EventSent {
        /// The subtask.
        subtask: u16,
    },
    /// An event has arrived.
    Delivered(DeliveryTicket),
    /// An event will not arrive.
    DeliveryFailed(DeliveryTicket),
    /// A subtask has taken its snapshot, and said so by an event right behind it.
    SubtaskSnapshotted {
        /// The checkpoint.
        id: CheckpointId,
        /// The subtask.
        subtask: u16,
    },
    /// The checkpoint is complete, or off.
    CheckpointEnded(CheckpointId),
    /// A subtask starts again. What was held for it is dropped and reported as `DeliveryFailed`.
    SubtaskReset {
        /// The subtask.
        subtask: u16,
    },
    /// Coordinator and subtasks start again. What was held is dropped, nothing need be reported.
    Reset,
}

/// What the program must do, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GatewaysAction<const SUBTASK_WORDS: usize> {
    /// Ask the coordinator for its state, then report `SnapshotTaken`, `SnapshotFailed` or `CoordinatorBroke`.
    TakeSnapshot(CheckpointId),
    /// Pass the event on, then report `Delivered` or `DeliveryFailed` with this ticket.
    Deliver(DeliveryTicket),
    /// Keep the event, with its ticket and this checkpoint, until [`Gateways::may_deliver`] says otherwise.
    Hold {
        /// Goes with the report on its delivery.
        ticket: DeliveryTicket,
        /// The newest checkpoint behind whose barrier it has to stay.
        behind: CheckpointId,
    },
    /// Pass on what is held for these subtasks and may be delivered now, in the order in which it was sent.
    Release(SubtaskSet<SUBTASK_WORDS>),
    /// The coordinator's part of the checkpoint counts.
    Acknowledge(CheckpointId),
    /// The coordinator has no part in the checkpoint, which so fails.
    Fail(CheckpointId),
    /// Restore the whole job: nobody knows what the coordinator's state is.
    FailJob,
}

/// The gateways from one operator's coordinator to up to `32 * SUBTASK_WORDS` subtasks, with up to `PENDING` checkpoints
/// at once.
#[derive(Clone, Debug)]
pub struct Gateways<const SUBTASK_WORDS: usize, const PENDING: usize> {
    admission: Admission,
    subtasks: SubtaskSet<SUBTASK_WORDS>,
    checkpoints: [Option<Closing<SUBTASK_WORDS>>; PENDING],
    /// Tickets count the snapshots before; those below this one belong to a time before a reset.
    first_ticket: DeliveryTicket,
    ticket: DeliveryTicket,
    /// Events sent since the last snapshot that have not arrived.
    undelivered: u32,
}

/// Gateways that a checkpoint has closed.
#[derive(Clone, Copy, Debug)]
struct Closing<const SUBTASK_WORDS: usize> {
    id: CheckpointId,
    stage: Stage,
    closed: SubtaskSet<SUBTASK_WORDS>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    AwaitingSnapshot,
    AwaitingDeliveries {
        /// The last one of events that were sent before the snapshot.
        ticket: DeliveryTicket,
        undelivered: u32,
    },
    Acknowledged,
}

impl<const SUBTASK_WORDS: usize, const PENDING: usize> Gateways<SUBTASK_WORDS, PENDING> {
    /// The most actions that one event gives.
    pub const ACTIONS_MAX: usize = 2;

    /// Open gateways to `count` subtasks.
    ///
    /// # Errors
    /// [`Rejected::OutOfRange`]: more subtasks than fit.
    pub fn new(count: u16) -> Result<Self, Rejected> {
        let limit = SubtaskSet::<SUBTASK_WORDS>::CAPACITY;
        if usize::from(count) > limit {
            let (value, limit) = (count.into(), limit as u64);
            return Err(Rejected::OutOfRange { what: "last subtask", value, limit });
        }
        Ok(Self {
            admission: Admission::default(),
            subtasks: SubtaskSet::first(count.into()),
            checkpoints: [None; PENDING],
            first_ticket: DeliveryTicket(0),
            ticket: DeliveryTicket(0),
            undelivered: 0,
        })
    }

    /// Takes an event and writes what must be done into `out`, in order.
    ///
    /// # Errors
    /// [`Rejected`]; the machine is unchanged.
    pub fn on_event(
        &mut self,
        now: Now,
        event: GatewaysEvent,
        out: &mut VecView<GatewaysAction<SUBTASK_WORDS>>,
    ) -> Result<(), Rejected> {
        self.admission.admit(now, out, Self::ACTIONS_MAX)?;
        self.validate(event)?;
        let mut orders = Orders::new(out, Self::ACTIONS_MAX);
        self.step(event, &mut orders);
        self.admission.conclude(&orders, self.broken_invariant())
    }

    fn step(&mut self, event: GatewaysEvent, orders: &mut Orders<'_, GatewaysAction<SUBTASK_WORDS>>) {
        use GatewaysEvent as E;
        match event {
            E::SnapshotRequested(id) => self.on_requested(id, orders),
            E::SnapshotTaken(id) => self.on_taken(id, orders),
            E::SnapshotFailed(id) => self.on_failed(id, orders),
            E::CoordinatorBroke(id) => {
                self.open_all(id, orders);
                orders.push(GatewaysAction::FailJob);
            }
            E::EventSent { subtask } => self.on_sent(subtask, orders),
            E::Delivered(ticket) => self.on_delivered(ticket, true, orders),
            E::DeliveryFailed(ticket) => self.on_delivered(ticket, false, orders),
            E::SubtaskSnapshotted { id, subtask } => self.open(id, subtask, orders),
            E::CheckpointEnded(id) => self.open_all(id, orders),
            E::SubtaskReset { subtask } => self.on_subtask_reset(subtask),
            E::Reset => self.on_reset(),
        }
    }

    /// Whether an event that was held behind the checkpoint `behind` may go to the subtask.
    #[must_use]
    pub fn may_deliver(&self, subtask: u16, behind: CheckpointId) -> bool {
        !self.closed_at(subtask).any(|id| id <= behind)
    }

    /// Asserts every invariant.
    ///
    /// # Panics
    /// If one does not hold.
    pub fn check(&self) {
        assert_eq!(self.broken_invariant(), None);
    }

    fn broken_invariant(&self) -> Option<&'static str> {
        let all = || self.checkpoints.iter().flatten();
        let is_once = |id| all().filter(|other| other.id == id).count() == 1;
        let has_closed_early = |other: &Closing<SUBTASK_WORDS>| {
            other.stage == Stage::AwaitingSnapshot && !other.closed.is_empty()
        };
        first_broken(&[
            ("WI1", all().filter(|other| other.stage != Stage::Acknowledged).count() <= 1),
            ("WI2", all().all(|other| is_once(other.id))),
            ("WI3", all().all(|other| other.closed.is_subset(&self.subtasks))),
            ("WI4", !all().any(has_closed_early)),
        ])
    }
}

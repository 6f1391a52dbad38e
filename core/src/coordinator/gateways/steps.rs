//! Bodies of the gateways' edges.

use super::{Closing, DeliveryTicket, Gateways, GatewaysAction, GatewaysEvent, Stage, SubtaskSet};
use crate::ids::CheckpointId;
use crate::machine::{Orders, Rejected};

impl<const SUBTASK_WORDS: usize, const PENDING: usize> Gateways<SUBTASK_WORDS, PENDING> {
    pub(super) fn validate(&self, event: GatewaysEvent) -> Result<(), Rejected> {
        use GatewaysEvent as E;
        if let E::EventSent { subtask } | E::SubtaskSnapshotted { subtask, .. } | E::SubtaskReset { subtask } =
            event
            && !self.subtasks.contains(subtask)
        {
            return unexpected("the operator has no such subtask");
        }
        if let E::SnapshotRequested(id) = event {
            let mut all = self.checkpoints.iter().flatten();
            if all.any(|other| other.id >= id || other.stage != Stage::Acknowledged) {
                return unexpected(
                    "an earlier checkpoint is still waiting for the coordinator, or a later one is known",
                );
            }
        }
        if let E::SnapshotTaken(id) | E::SnapshotFailed(id) = event
            && self.find(id).is_some_and(|closing| closing.stage != Stage::AwaitingSnapshot)
        {
            return unexpected("the coordinator has answered already");
        }
        if let E::Delivered(ticket) | E::DeliveryFailed(ticket) = event
            && ticket >= self.first_ticket
            && (ticket > self.ticket || self.undelivered_until(ticket) == 0)
        {
            return unexpected("no such event is on its way");
        }
        Ok(())
    }

    /// Rule P27.
    pub(super) fn on_requested(
        &mut self,
        id: CheckpointId,
        orders: &mut Orders<'_, GatewaysAction<SUBTASK_WORDS>>,
    ) {
        let Some(free) = self.checkpoints.iter_mut().find(|slot| slot.is_none()) else {
            return orders.push(GatewaysAction::Fail(id));
        };
        *free = Some(Closing { id, stage: Stage::AwaitingSnapshot, closed: SubtaskSet::empty() });
        orders.push(GatewaysAction::TakeSnapshot(id));
    }

    /// All gateways close, or none, if the checkpoint has ended meanwhile (rules P27 and P28).
    pub(super) fn on_taken(
        &mut self,
        id: CheckpointId,
        orders: &mut Orders<'_, GatewaysAction<SUBTASK_WORDS>>,
    ) {
        let (subtasks, ticket) = (self.subtasks, self.ticket);
        let undelivered = self.undelivered;
        let Some(closing) = self.find_mut(id) else { return orders.push(GatewaysAction::Fail(id)) };
        closing.closed = subtasks;
        closing.stage = Stage::AwaitingDeliveries { ticket, undelivered };
        self.ticket = DeliveryTicket(ticket.0.wrapping_add(1));
        self.undelivered = 0;
        self.acknowledge_if_delivered(id, orders);
    }

    pub(super) fn on_failed(
        &mut self,
        id: CheckpointId,
        orders: &mut Orders<'_, GatewaysAction<SUBTASK_WORDS>>,
    ) {
        self.forget(id);
        orders.push(GatewaysAction::Fail(id));
    }

    /// Rule P29.
    pub(super) fn on_sent(&mut self, subtask: u16, orders: &mut Orders<'_, GatewaysAction<SUBTASK_WORDS>>) {
        self.undelivered = self.undelivered.saturating_add(1);
        let ticket = self.ticket;
        orders.push(match self.closed_at(subtask).max() {
            Some(behind) => GatewaysAction::Hold { ticket, behind },
            None => GatewaysAction::Deliver(ticket),
        });
    }

    /// An event that was sent before the snapshot and does not arrive fails the checkpoint (rule P28).
    pub(super) fn on_delivered(
        &mut self,
        delivered: DeliveryTicket,
        arrived: bool,
        orders: &mut Orders<'_, GatewaysAction<SUBTASK_WORDS>>,
    ) {
        let mut waiting = None;
        for closing in self.checkpoints.iter_mut().flatten() {
            if let Stage::AwaitingDeliveries { ticket, undelivered } = &mut closing.stage
                && delivered <= *ticket
            {
                *undelivered = undelivered.saturating_sub(1);
                waiting = Some(closing.id);
            }
        }
        match waiting {
            Some(id) if arrived => self.acknowledge_if_delivered(id, orders),
            Some(id) => {
                self.open_all(id, orders);
                orders.push(GatewaysAction::Fail(id));
            }
            None if delivered >= self.first_ticket => self.undelivered = self.undelivered.saturating_sub(1),
            None => {}
        }
    }

    fn acknowledge_if_delivered(
        &mut self,
        id: CheckpointId,
        orders: &mut Orders<'_, GatewaysAction<SUBTASK_WORDS>>,
    ) {
        let Some(closing) = self.find_mut(id) else { return };
        if let Stage::AwaitingDeliveries { undelivered: 0, .. } = closing.stage {
            closing.stage = Stage::Acknowledged;
            orders.push(GatewaysAction::Acknowledge(id));
        }
    }

    /// Opens one gateway (rule P29).
    pub(super) fn open(
        &mut self,
        id: CheckpointId,
        subtask: u16,
        orders: &mut Orders<'_, GatewaysAction<SUBTASK_WORDS>>,
    ) {
        let Some(closing) = self.find_mut(id) else { return };
        let is_over = closing.stage == Stage::Acknowledged;
        if !closing.closed.remove(subtask) {
            return;
        }
        if is_over && closing.closed.is_empty() {
            self.forget(id);
        }
        orders.push(GatewaysAction::Release([subtask].into_iter().collect()));
    }

    /// Opens what the checkpoint has closed (rule P29).
    pub(super) fn open_all(
        &mut self,
        id: CheckpointId,
        orders: &mut Orders<'_, GatewaysAction<SUBTASK_WORDS>>,
    ) {
        let closed = self.find(id).map_or(SubtaskSet::empty(), |closing| closing.closed);
        self.forget(id);
        if !closed.is_empty() {
            orders.push(GatewaysAction::Release(closed));
        }
    }

    /// What was held for it has gone with the attempt before.
    pub(super) fn on_subtask_reset(&mut self, subtask: u16) {
        for closing in self.checkpoints.iter_mut().flatten() {
            closing.closed.remove(subtask);
        }
    }

    pub(super) fn on_reset(&mut self) {
        self.checkpoints = [None; PENDING];
        self.ticket = DeliveryTicket(self.ticket.0.wrapping_add(1));
        self.first_ticket = self.ticket;
        self.undelivered = 0;
    }

    /// What the checkpoint was waiting for, a later one has to wait for.
    fn forget(&mut self, id: CheckpointId) {
        for slot in &mut self.checkpoints {
            if let Some(closing) = slot.take_if(|closing| closing.id == id)
                && let Stage::AwaitingDeliveries { undelivered, .. } = closing.stage
            {
                self.undelivered = self.undelivered.saturating_add(undelivered);
            }
        }
    }

    /// Checkpoints that keep the gateway to `subtask` closed.
    pub(super) fn closed_at(&self, subtask: u16) -> impl Iterator<Item = CheckpointId> + '_ {
        let closing = self.checkpoints.iter().flatten();
        closing.filter(move |closing| closing.closed.contains(subtask)).map(|closing| closing.id)
    }

    /// How many events are on their way where one of this ticket is counted.
    fn undelivered_until(&self, delivered: DeliveryTicket) -> u32 {
        let waiting = self.checkpoints.iter().flatten().find_map(|closing| match closing.stage {
            Stage::AwaitingDeliveries { ticket, undelivered } if delivered <= ticket => Some(undelivered),
            Stage::AwaitingDeliveries { .. } | Stage::AwaitingSnapshot | Stage::Acknowledged => None,
        });
        waiting.unwrap_or(self.undelivered)
    }

    fn find(&self, id: CheckpointId) -> Option<&Closing<SUBTASK_WORDS>> {
        self.checkpoints.iter().flatten().find(|closing| closing.id == id)
    }

    fn find_mut(&mut self, id: CheckpointId) -> Option<&mut Closing<SUBTASK_WORDS>> {
        self.checkpoints.iter_mut().flatten().find(|closing| closing.id == id)
    }
}

const fn unexpected(what: &'static str) -> Result<(), Rejected> {
    Err(Rejected::Unexpected { what })
}

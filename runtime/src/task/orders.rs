//! Carries out what the machine orders, one after the other; an order that has to wait for room is tried
//! again in the next step, and nothing else is taken before it is done.

use slackwater_core::durable::DiskError;
use slackwater_core::gate::GateEvent;
use slackwater_core::ids::CheckpointId;
use slackwater_core::reason::FailureReason;
use slackwater_core::subtask::{Part, PartSet, SubtaskAction, SubtaskEvent};

use slackwater_mem::HeapError;

use super::parts::Frozen;
use super::{Order, Task};
use crate::channel::Mark;
use crate::error::JobError;
use crate::mail::{CoordinatorMail, WriterMail};
use crate::telemetry;

/// What a subtask persists, segment and sealed output together, is one part for the machine.
const PART: Part = Part::ManagedKeyed;

impl Task {
    /// Carries out orders until one has to wait. True if any was carried out.
    pub(super) fn do_orders(&mut self) -> Result<bool, JobError> {
        let mut did_any = false;
        while let Some(order) = self.orders.front().copied() {
            let is_done = match order {
                Order::SendEndOfData { is_drained } => self.send_end_of_data(is_drained)?,
                Order::Prepare | Order::Machine(SubtaskAction::PrepareOperators(_)) => {
                    did_any = true;
                    self.prepare()?
                }
                Order::Machine(action) => self.act(action)?,
            };
            if !is_done {
                break;
            }
            self.orders.pop_front();
            did_any = true;
        }
        Ok(did_any)
    }

    /// Tells the machine and the coordinator what has become true meanwhile.
    pub(super) fn after_orders(&mut self) -> Result<(), JobError> {
        let chain = self.head.chain();
        let committed = self.parts.committed(|id| chain.is_committed(id));
        if let Some(id) = committed {
            self.coordinator.send(CoordinatorMail::Committed { id, task: self.index });
        }
        // One seal can make several checkpoints durable: nothing else would call for the others.
        while let Some(id) = self.newly_durable() {
            let sizes = self.parts.sizes(id);
            self.tell_machine(SubtaskEvent::PartPersisted { id, part: PART, sizes })?;
            self.do_orders()?;
        }
        Ok(())
    }

    fn newly_durable(&mut self) -> Option<CheckpointId> {
        let chain = self.head.chain();
        self.parts.durable(|id| chain.is_sealed(id))
    }

    /// Carries out one action; false if it has to wait for room.
    fn act(&mut self, action: SubtaskAction) -> Result<bool, JobError> {
        match action {
            // The one is seen to by the caller, of the other nobody wants to know.
            SubtaskAction::PrepareOperators(_) | SubtaskAction::NotifySubsume(_) => {}
            SubtaskAction::EndData { drain } => self.end_data(drain),
            SubtaskAction::InjectBarrier(barrier) => self.tell_gate(GateEvent::BarrierInjected(barrier))?,
            SubtaskAction::BroadcastBarrier(barrier) => {
                return Ok(self.head.chain().send(Mark::Barrier(barrier)));
            }
            SubtaskAction::ReopenGateways(id) => self.reopen_gateways(id),
            SubtaskAction::SnapshotOperators(barrier) => self.snapshot(barrier.id)?,
            SubtaskAction::BroadcastCancel(id) => self.head.chain().cancel(id),
            SubtaskAction::Persist { id, parts: _ } => self.persist(id)?,
            SubtaskAction::PersistInput(id) => self.persist_input(id)?,
            SubtaskAction::CancelPersist(id) => {
                self.parts.forget(id);
                self.writer.send(WriterMail::Abandon { id, task: self.index });
            }
            SubtaskAction::Acknowledge { id, metrics, .. } => {
                let (task, part) = (self.index, Box::new(self.parts.acknowledge(id)));
                self.coordinator.send(CoordinatorMail::Acknowledge { id, task, part, metrics });
            }
            SubtaskAction::Decline { id, reason } => self.decline(id, reason),
            SubtaskAction::NotifyComplete(id) => self.commit(id)?,
            SubtaskAction::NotifyAbort(id) => {
                self.parts.forget(id);
                self.head.chain().abort(id);
            }
            SubtaskAction::ReportIncomplete { id, metrics } => {
                self.coordinator.send(CoordinatorMail::Incomplete { id, task: self.index, metrics });
            }
            // Some are carried out at once, and what this subtask is like gives no reason for the others.
            SubtaskAction::OvertakeOutputs(_)
            | SubtaskAction::DropCapture(_)
            | SubtaskAction::FailTask { .. }
            | SubtaskAction::StoreLocalState(_)
            | SubtaskAction::ConfirmLocalState(_)
            | SubtaskAction::DropLocalState(_)
            | SubtaskAction::Close => return Err(self.failed(format!("cannot be done here: {action:?}"))),
        }
        Ok(true)
    }

    fn snapshot(&mut self, id: CheckpointId) -> Result<(), JobError> {
        let _freezing = telemetry::in_snapshot(&self.name, id);
        let mut states = Vec::new();
        self.head.snapshot(id, &mut states, &mut self.cx);
        self.check_failure()?;
        let frozen = match self.cx.declined.take() {
            None => self.freeze()?,
            Some(why) => {
                self.shared.note(format!("{}: {why}", self.name));
                Frozen::Refused
            }
        };
        self.parts.take(id, frozen, states);
        let (parts, since) = (PartSet::only(PART), self.cx.now.monotonic);
        self.tell_machine(SubtaskEvent::SnapshotTaken { id, parts, since })
    }

    fn freeze(&mut self) -> Result<Frozen, JobError> {
        match self.cx.freeze() {
            Ok(Some(snapshot)) => Ok(Frozen::State(Box::new(snapshot))),
            Ok(None) => Ok(Frozen::Nothing),
            // The disk is behind with earlier ones: this checkpoint fails, the task need not.
            Err(HeapError::TooManySnapshots) => Ok(Frozen::Refused),
            Err(error) => Err(self.failed(error.to_string())),
        }
    }

    fn persist(&mut self, id: CheckpointId) -> Result<(), JobError> {
        match self.parts.persist(id) {
            Frozen::State(snapshot) => {
                self.writer.send(WriterMail::Persist { id, task: self.index, snapshot });
            }
            Frozen::Nothing => {}
            Frozen::Refused => {
                self.tell_machine(SubtaskEvent::PersistFailed { id, reason: None })?;
            }
        }
        Ok(())
    }

    fn persist_input(&mut self, id: CheckpointId) -> Result<(), JobError> {
        let captured = self.take_captured(id)?;
        self.writer.send(WriterMail::PersistInFlight { id, task: self.index, captured });
        Ok(())
    }

    fn decline(&mut self, id: CheckpointId, reason: FailureReason) {
        let cause: Option<DiskError> = self.parts.cause(id);
        self.parts.forget(id);
        self.coordinator.send(CoordinatorMail::Decline { id, task: self.index, reason, cause });
    }

    fn commit(&mut self, id: CheckpointId) -> Result<(), JobError> {
        self.head.chain().commit(id, &mut self.cx);
        self.parts.committing(id);
        self.check_failure()
    }

    pub(super) fn failed(&self, message: String) -> JobError {
        JobError::Operator { task: self.name.clone(), operator: self.name.clone(), message }
    }
}

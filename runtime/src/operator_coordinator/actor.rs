//! A coordinator of an operator as an actor, with the gateways to its subtasks.

use std::collections::VecDeque;
use std::task::Waker;

use heapless::Vec as FixedVec;
use slackwater_core::coordinator::gateways::{
    DeliveryTicket, Gateways, GatewaysAction, GatewaysEvent, SubtaskSet,
};
use slackwater_core::coordinator::{Notification, Participant};
use slackwater_core::ids::CheckpointId;
use slackwater_core::time::Now;

use super::{OperatorCoordinator, Subtasks};
use crate::actor::{Actor, Mailbox, Parked, ParkedOn, Signal, Step};
use crate::coordinator::PENDING;
use crate::error::JobError;
use crate::mail::{CoordinatorMail, OperatorCoordinatorMail, TaskMail};
use crate::operator::OperatorError;
use crate::shared::Shared;

/// Words of a set of subtasks: as many as the job's coordinator knows tasks.
const SUBTASK_WORDS: usize = 64;
/// Messages that one step takes.
const MAIL_PER_STEP: usize = 64;

type Machine = Gateways<SUBTASK_WORDS, PENDING>;

/// The way from a subtask to the coordinator of its operator.
pub(crate) struct ToCoordinator {
    pub(crate) mail: Mailbox<OperatorCoordinatorMail>,
    /// Which of the operator's subtasks it is.
    pub(crate) subtask: u16,
}

/// What a coordinator needs to become an actor.
pub(crate) struct OperatorCoordinatorParts {
    /// The operator.
    pub(crate) name: String,
    /// Which of the job's coordinators of operators it is.
    pub(crate) index: u16,
    pub(crate) coordinator: Box<dyn OperatorCoordinator>,
    /// The subtasks of its operator.
    pub(crate) tasks: Vec<Mailbox<TaskMail>>,
    pub(crate) job: Mailbox<CoordinatorMail>,
    pub(crate) signal: Signal,
    pub(crate) mail: Mailbox<OperatorCoordinatorMail>,
    pub(crate) shared: Shared,
}

/// A coordinator of an operator.
pub(crate) struct OperatorCoordinatorActor {
    parts: OperatorCoordinatorParts,
    name: String,
    is_started: bool,
    gateways: Box<Machine>,
    /// Events that have to stay behind a barrier, in the order in which they were sent.
    held: VecDeque<Held>,
    /// What the coordinator has given for the checkpoint that waits for its part.
    state: Option<Vec<u8>>,
    /// Why it has given nothing.
    refused: Option<OperatorError>,
    /// Nothing is held.
    #[cfg(feature = "mutants")]
    holds_nothing: bool,
}

/// An event that has to stay behind the barrier of a checkpoint.
struct Held {
    subtask: u16,
    ticket: DeliveryTicket,
    behind: CheckpointId,
    event: Vec<u8>,
}

impl OperatorCoordinatorActor {
    pub(crate) fn new(parts: OperatorCoordinatorParts) -> Result<Self, JobError> {
        let count = u16::try_from(parts.tasks.len()).unwrap_or(u16::MAX);
        let gateways = Machine::new(count).map_err(|_| JobError::CapacityExceeded {
            what: "subtasks of one operator with a coordinator",
            wanted: parts.tasks.len(),
            limit: SubtaskSet::<SUBTASK_WORDS>::CAPACITY,
        })?;
        let name = format!("{} coordinator", parts.name);
        Ok(Self {
            parts,
            name,
            is_started: false,
            gateways: Box::new(gateways),
            held: VecDeque::new(),
            state: None,
            refused: None,
            #[cfg(feature = "mutants")]
            holds_nothing: crate::mutants::has(crate::mutants::Bug::EventsNotHeld),
        })
    }

    fn advance(&mut self, now: Now) -> Result<Step, JobError> {
        let mut did_something = !self.is_started;
        if !std::mem::replace(&mut self.is_started, true) {
            self.call(now, |coordinator, subtasks| coordinator.start(now, subtasks))?;
        }
        for _ in 0..MAIL_PER_STEP {
            let Some(mail) = self.parts.mail.receive() else { break };
            did_something = true;
            self.on_mail(now, mail)?;
        }
        if self.parts.coordinator.next_deadline().is_some_and(|at| at <= now.monotonic) {
            did_something = true;
            self.call(now, |coordinator, subtasks| coordinator.on_deadline(now, subtasks))?;
        }
        if did_something {
            return Ok(Step::Progress);
        }
        let deadline = self.parts.coordinator.next_deadline();
        Ok(Step::Parked(Parked { deadline, on: ParkedOn::Mail }))
    }

    fn on_mail(&mut self, now: Now, mail: OperatorCoordinatorMail) -> Result<(), JobError> {
        match mail {
            OperatorCoordinatorMail::Snapshot(id) => {
                self.tell_gateways(now, GatewaysEvent::SnapshotRequested(id))
            }
            OperatorCoordinatorMail::Notify(Notification::Complete { id, .. }) => {
                self.tell_gateways(now, GatewaysEvent::CheckpointEnded(id))?;
                self.parts.coordinator.on_complete(id);
                Ok(())
            }
            OperatorCoordinatorMail::Notify(Notification::Abort { id, .. }) => {
                self.tell_gateways(now, GatewaysEvent::CheckpointEnded(id))?;
                self.parts.coordinator.on_abort(id);
                Ok(())
            }
            OperatorCoordinatorMail::Snapshotted { id, subtask } => {
                self.tell_gateways(now, GatewaysEvent::SubtaskSnapshotted { id, subtask })
            }
            OperatorCoordinatorMail::Delivered(ticket) => {
                self.tell_gateways(now, GatewaysEvent::Delivered(ticket))
            }
            OperatorCoordinatorMail::Request { subtask, request } => {
                self.call(now, |coordinator, subtasks| coordinator.on_request(subtask, &request, subtasks))
            }
        }
    }

    /// Calls the coordinator and passes on what it sends.
    fn call(
        &mut self,
        now: Now,
        body: impl FnOnce(&mut dyn OperatorCoordinator, &mut Subtasks<'_>) -> Result<(), OperatorError>,
    ) -> Result<(), JobError> {
        let (mut sent, count) = (Vec::new(), u16::try_from(self.parts.tasks.len()).unwrap_or(u16::MAX));
        body(&mut *self.parts.coordinator, &mut Subtasks::new(count, &mut sent))
            .map_err(|error| self.failed(&error))?;
        sent.into_iter().try_for_each(|(subtask, event)| self.send(now, subtask, event))
    }

    fn send(&mut self, now: Now, subtask: u16, event: Vec<u8>) -> Result<(), JobError> {
        if usize::from(subtask) >= self.parts.tasks.len() {
            let what = format!("it sent an event to subtask {subtask}, which is not there");
            return Err(self.failed(&OperatorError::new(what)));
        }
        let mut event = Some(event);
        for action in self.ask_gateways(now, GatewaysEvent::EventSent { subtask })? {
            #[cfg(feature = "mutants")]
            if let (true, GatewaysAction::Hold { ticket, .. }) = (self.holds_nothing, action) {
                self.deliver(subtask, ticket, event.take());
                continue;
            }
            if let GatewaysAction::Deliver(ticket) = action {
                self.deliver(subtask, ticket, event.take());
            } else if let GatewaysAction::Hold { ticket, behind } = action {
                let event = event.take().unwrap_or_default();
                self.held.push_back(Held { subtask, ticket, behind, event });
            } else {
                self.act(now, action)?;
            }
        }
        Ok(())
    }

    fn deliver(&self, subtask: u16, ticket: DeliveryTicket, event: Option<Vec<u8>>) {
        if let (Some(task), Some(event)) = (self.parts.tasks.get(usize::from(subtask)), event) {
            task.send(TaskMail::OperatorEvent { ticket, event });
        }
    }

    fn tell_gateways(&mut self, now: Now, event: GatewaysEvent) -> Result<(), JobError> {
        let mut actions = self.ask_gateways(now, event)?.into_iter();
        actions.try_for_each(|action| self.act(now, action))
    }

    fn ask_gateways(
        &mut self,
        now: Now,
        event: GatewaysEvent,
    ) -> Result<FixedVec<GatewaysAction<SUBTASK_WORDS>, { Machine::ACTIONS_MAX }>, JobError> {
        let mut actions = FixedVec::new();
        let told = self.gateways.on_event(now, event, &mut actions);
        told.map_err(|rejected| JobError::machine(&self.name, rejected)).map(|()| actions)
    }

    fn act(&mut self, now: Now, action: GatewaysAction<SUBTASK_WORDS>) -> Result<(), JobError> {
        match action {
            GatewaysAction::TakeSnapshot(id) => self.snapshot(now, id)?,
            GatewaysAction::Release(subtasks) => self.release(&subtasks),
            GatewaysAction::Acknowledge(id) => {
                let state = self.state.take();
                self.answer(id, Ok(state));
            }
            GatewaysAction::Fail(id) => {
                let refused = self.refused.take();
                let refused = refused.unwrap_or_else(|| OperatorError::new("the checkpoint has ended"));
                self.answer(id, Err(refused));
            }
            // Events are sent, and coordinators asked, in one place each.
            GatewaysAction::Deliver(_) | GatewaysAction::Hold { .. } | GatewaysAction::FailJob => {}
        }
        Ok(())
    }

    fn snapshot(&mut self, now: Now, id: CheckpointId) -> Result<(), JobError> {
        match self.parts.coordinator.snapshot(id) {
            Ok(state) => {
                (self.state, self.refused) = (state, None);
                self.tell_gateways(now, GatewaysEvent::SnapshotTaken(id))
            }
            Err(error) => {
                (self.state, self.refused) = (None, Some(error));
                self.tell_gateways(now, GatewaysEvent::SnapshotFailed(id))
            }
        }
    }

    /// Passes on what is held for these subtasks and need not be any longer.
    fn release(&mut self, subtasks: &SubtaskSet<SUBTASK_WORDS>) {
        for held in std::mem::take(&mut self.held) {
            if subtasks.contains(held.subtask) && self.gateways.may_deliver(held.subtask, held.behind) {
                self.deliver(held.subtask, held.ticket, Some(held.event));
            } else {
                self.held.push_back(held);
            }
        }
    }

    fn answer(&self, id: CheckpointId, answer: Result<Option<Vec<u8>>, OperatorError>) {
        let by = Participant::OperatorCoordinator(self.parts.index);
        self.parts.job.send(CoordinatorMail::ParticipantAnswered { id, by, answer });
    }

    fn failed(&self, error: &OperatorError) -> JobError {
        JobError::operator(&self.name, &self.parts.name, error)
    }
}

impl Actor for OperatorCoordinatorActor {
    fn step(&mut self, now: Now) -> Step {
        if self.parts.shared.is_over() {
            return Step::Finished;
        }
        self.advance(now).unwrap_or_else(|error| {
            self.parts.shared.fail(error);
            Step::Finished
        })
    }

    fn set_waker(&mut self, waker: Waker) {
        self.parts.signal.set(waker);
    }

    fn name(&self) -> &str {
        &self.name
    }
}

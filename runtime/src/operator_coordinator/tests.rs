use slackwater_core::coordinator::{Notification, Participant};
use slackwater_core::ids::CheckpointId;
use slackwater_core::time::Now;

use super::{OperatorCoordinator, OperatorCoordinatorActor, OperatorCoordinatorParts, Subtasks};
use crate::actor::{Actor, Mailbox, Signal, Step};
use crate::mail::{CoordinatorMail, OperatorCoordinatorMail, TaskMail};
use crate::operator::OperatorError;
use crate::shared::Shared;

/// Passes each request on to the subtask that its first byte names; its state is how many it has passed on.
struct Switch(u8);

impl OperatorCoordinator for Switch {
    fn restore(&mut self, _state: Option<&[u8]>) -> Result<(), OperatorError> {
        Ok(())
    }

    fn on_request(
        &mut self,
        _subtask: u16,
        request: &[u8],
        subtasks: &mut Subtasks<'_>,
    ) -> Result<(), OperatorError> {
        self.0 += 1;
        subtasks.send(request[0].into(), request.to_vec());
        Ok(())
    }

    fn snapshot(&mut self, checkpoint: CheckpointId) -> Result<Option<Vec<u8>>, OperatorError> {
        if checkpoint == CheckpointId(13) {
            Err(OperatorError::new("bad luck"))
        } else {
            Ok(Some(vec![self.0]))
        }
    }
}

type Answer = Result<Option<Vec<u8>>, OperatorError>;

struct Harness {
    actor: OperatorCoordinatorActor,
    mail: Mailbox<OperatorCoordinatorMail>,
    tasks: Vec<Mailbox<TaskMail>>,
    job: Mailbox<CoordinatorMail>,
    shared: Shared,
}

impl Harness {
    fn new() -> Self {
        let signal = Signal::default();
        let (mail, job, shared) =
            (Mailbox::new(signal.clone()), Mailbox::new(Signal::default()), Shared::default());
        let tasks: Vec<_> = (0..2).map(|_| Mailbox::new(Signal::default())).collect();
        let actor = OperatorCoordinatorActor::new(OperatorCoordinatorParts {
            name: "switch".into(),
            index: 4,
            coordinator: Box::new(Switch(0)),
            tasks: tasks.clone(),
            job: job.clone(),
            signal,
            mail: mail.clone(),
            shared: shared.clone(),
        });
        Self { actor: actor.unwrap(), mail, tasks, job, shared }
    }

    fn tell(&mut self, mail: OperatorCoordinatorMail) {
        self.mail.send(mail);
        while self.actor.step(Now::default()) == Step::Progress {}
    }

    fn request(&mut self, subtask: u8, number: u8) {
        self.tell(OperatorCoordinatorMail::Request { subtask: 0, request: vec![subtask, number] });
    }

    /// The numbers that a subtask has got, which it confirms.
    fn arrived(&mut self, subtask: usize) -> Vec<u8> {
        let mut numbers = Vec::new();
        while let Some(TaskMail::OperatorEvent { ticket, event }) = self.tasks[subtask].receive() {
            numbers.push(event[1]);
            self.tell(OperatorCoordinatorMail::Delivered(ticket));
        }
        numbers
    }

    fn answer(&self) -> Option<(u64, Answer)> {
        let mail = self.job.receive()?;
        let CoordinatorMail::ParticipantAnswered { id, by: Participant::OperatorCoordinator(4), answer } =
            mail
        else {
            panic!("{mail:?}");
        };
        Some((id.0, answer))
    }
}

const fn snapshot(id: u64) -> OperatorCoordinatorMail {
    OperatorCoordinatorMail::Snapshot(CheckpointId(id))
}

const fn snapshotted(id: u64, subtask: u16) -> OperatorCoordinatorMail {
    OperatorCoordinatorMail::Snapshotted { id: CheckpointId(id), subtask }
}

#[test]
fn p28_the_coordinator_answers_when_all_it_has_sent_before_has_arrived() {
    let mut harness = Harness::new();
    harness.request(0, 1);
    harness.request(1, 2);
    harness.tell(snapshot(1));
    assert_eq!(harness.answer(), None);
    assert_eq!(harness.arrived(1), [2]);
    assert_eq!(harness.answer(), None);
    assert_eq!(harness.arrived(0), [1]);
    assert_eq!(harness.answer(), Some((1, Ok(Some(vec![2])))));
}

#[test]
fn p29_what_is_sent_after_the_snapshot_waits_for_that_of_its_subtask() {
    let mut harness = Harness::new();
    harness.tell(snapshot(1));
    assert_eq!(harness.answer(), Some((1, Ok(Some(vec![0])))));
    (1..=3).for_each(|number| harness.request(number % 2, number));
    assert_eq!((harness.arrived(0), harness.arrived(1)), (vec![], vec![]));
    harness.tell(snapshotted(1, 1));
    assert_eq!((harness.arrived(0), harness.arrived(1)), (vec![], vec![1, 3]));
    harness.request(1, 4);
    assert_eq!(harness.arrived(1), [4], "open again");
    harness.tell(snapshotted(1, 0));
    assert_eq!(harness.arrived(0), [2]);
}

#[test]
fn p29_the_end_of_the_checkpoint_opens_every_gateway() {
    let id = CheckpointId(1);
    let ends = [
        Notification::Abort { id, latest_completed: None },
        Notification::Complete { id, last_subsumed: None },
    ];
    for end in ends {
        let mut harness = Harness::new();
        harness.tell(snapshot(1));
        (1..=2).for_each(|number| harness.request(number % 2, number));
        harness.tell(OperatorCoordinatorMail::Notify(end));
        assert_eq!((harness.arrived(0), harness.arrived(1)), (vec![2], vec![1]));
        harness.tell(snapshotted(1, 0));
        harness.tell(snapshot(2));
        assert_eq!(harness.answer().unwrap().0, 1);
        assert_eq!(harness.answer(), Some((2, Ok(Some(vec![2])))));
    }
}

#[test]
fn p30_a_coordinator_without_its_state_fails_the_checkpoint_alone() {
    let mut harness = Harness::new();
    harness.tell(snapshot(13));
    assert_eq!(harness.answer(), Some((13, Err(OperatorError::new("bad luck")))));
    harness.request(0, 1);
    assert_eq!(harness.arrived(0), [1]);
    harness.tell(snapshot(14));
    assert_eq!(harness.answer(), Some((14, Ok(Some(vec![1])))));
}

#[test]
fn an_event_to_nobody_ends_the_job() {
    let mut harness = Harness::new();
    harness.request(2, 1);
    assert_eq!(harness.actor.step(Now::default()), Step::Finished);
    let failure = harness.shared.failure().unwrap().to_string();
    assert!(failure.contains("switch coordinator: it sent an event to subtask 2"), "{failure}");
}

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use slackwater_core::ids::{Alignment, CheckpointId, SavepointFormat, SnapshotKind};
use slackwater_core::time::Millis;

use super::*;
use crate::actor::lock;
use crate::chain::ChainOps;
use crate::checkpoint::InlineState;

mod overtaken;

/// An idle source whose sink is sealed when the test says so.
struct Idle {
    is_sealed: Arc<AtomicBool>,
    /// What the chain was asked for.
    calls: Calls,
}

impl Head for Idle {
    fn poll(&mut self, _blocked: &ChannelSet<CHANNEL_WORDS>, _cx: &mut Cx) -> Poll {
        Poll::Empty
    }

    fn channels(&self) -> usize {
        0
    }

    fn snapshot(&mut self, _id: CheckpointId, _states: &mut Vec<InlineState>, _cx: &mut Cx) {}

    fn chain(&mut self) -> &mut dyn ChainOps {
        self
    }
}

impl ChainOps for Idle {
    fn has_room(&self) -> bool {
        true
    }

    fn make_room(&mut self, _cx: &mut Cx) {}

    fn flush(&mut self) -> bool {
        true
    }

    fn send(&mut self, mark: Mark) -> bool {
        let is_barrier = matches!(mark, Mark::Barrier(_));
        lock(&self.calls).push(if is_barrier { "barrier" } else { "end of data" });
        true
    }

    fn cancel(&mut self, _id: CheckpointId) {}

    fn prepare(&mut self, _cx: &mut Cx) -> bool {
        lock(&self.calls).push("prepare");
        true
    }

    fn is_sealed(&self, _id: CheckpointId) -> bool {
        self.is_sealed.load(Ordering::Relaxed)
    }
}

fn step_until_parked(task: &mut Task) {
    while task.step(Now::default()) == Step::Progress {}
}

type Calls = Arc<Mutex<Vec<&'static str>>>;

/// An idle task, and the box of the coordinator.
fn idle(
    is_sealed: &Arc<AtomicBool>,
    calls: &Calls,
    mail: &Mailbox<TaskMail>,
) -> (Task, Mailbox<CoordinatorMail>) {
    let coordinator = Mailbox::new(Signal::default());
    let task = Task::new(TaskParts {
        name: "idle".into(),
        index: TaskIndex(0),
        head: Box::new(Idle { is_sealed: Arc::clone(is_sealed), calls: Arc::clone(calls) }),
        cx: Cx::new(None, false),
        signal: Signal::default(),
        mail: mail.clone(),
        coordinator: coordinator.clone(),
        writer: Mailbox::new(Signal::default()),
        shared: Shared::default(),
        is_drained: false,
        loading: None,
        gate: GateOptions::ALIGNED,
        buffer_timeout: Millis(100),
        operator_coordinator: None,
    });
    (task.unwrap(), coordinator)
}

const fn trigger(id: u64, kind: SnapshotKind) -> TaskMail {
    TaskMail::Trigger(Barrier {
        id: CheckpointId(id),
        triggered_at: Millis(0),
        kind,
        alignment: Alignment::Aligned,
    })
}

#[test]
fn h04_all_checkpoints_that_one_seal_makes_durable_are_acknowledged_at_once() {
    let (is_sealed, mail) = (Arc::new(AtomicBool::new(false)), Mailbox::new(Signal::default()));
    let (mut task, coordinator) = idle(&is_sealed, &Calls::default(), &mail);
    [1, 2, 3].into_iter().for_each(|id| mail.send(trigger(id, SnapshotKind::Checkpoint)));
    step_until_parked(&mut task);
    assert!(coordinator.receive().is_none());
    is_sealed.store(true, Ordering::Relaxed);
    mail.send(TaskMail::Written(0));
    step_until_parked(&mut task);
    for expected in [1, 2, 3].map(CheckpointId) {
        let acknowledged = coordinator.receive();
        let is_it = matches!(acknowledged, Some(CoordinatorMail::Acknowledge { id, .. }) if id == expected);
        assert!(is_it, "{acknowledged:?} instead of {expected}");
    }
}

#[test]
fn x9_what_operators_keep_back_goes_out_before_barriers_and_before_the_end_of_data() {
    let suspend = SnapshotKind::Suspend(SavepointFormat::Native);
    for (kind, expected) in [
        (SnapshotKind::Checkpoint, &["prepare", "barrier"][..]),
        (suspend, &["prepare", "end of data", "prepare", "barrier"]),
    ] {
        let (calls, mail) = (Calls::default(), Mailbox::new(Signal::default()));
        let (mut task, _coordinator) = idle(&Arc::default(), &calls, &mail);
        mail.send(trigger(1, kind));
        step_until_parked(&mut task);
        assert_eq!(*lock(&calls), expected, "{kind:?}");
    }
}

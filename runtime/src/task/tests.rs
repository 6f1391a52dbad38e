use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use slackwater_core::ids::{Alignment, CheckpointId, SnapshotKind};
use slackwater_core::time::Millis;

use super::*;
use crate::chain::ChainOps;
use crate::checkpoint::InlineState;

/// An idle source whose sink is sealed when the test says so.
struct Idle {
    is_sealed: Arc<AtomicBool>,
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

    fn flush(&mut self) {}

    fn send(&mut self, _mark: Mark) -> bool {
        true
    }

    fn cancel(&mut self, _id: CheckpointId) {}

    fn is_sealed(&self, _id: CheckpointId) -> bool {
        self.is_sealed.load(Ordering::Relaxed)
    }
}

fn step_until_parked(task: &mut Task) {
    while task.step(Now::default()) == Step::Progress {}
}

#[test]
fn all_checkpoints_that_one_seal_makes_durable_are_acknowledged_at_once() {
    let is_sealed = Arc::new(AtomicBool::new(false));
    let (mail, coordinator) = (Mailbox::new(Signal::default()), Mailbox::new(Signal::default()));
    let mut task = Task::new(TaskParts {
        name: "idle".into(),
        index: TaskIndex(0),
        head: Box::new(Idle { is_sealed: Arc::clone(&is_sealed) }),
        cx: Cx::new(None, false),
        signal: Signal::default(),
        mail: mail.clone(),
        coordinator: coordinator.clone(),
        writer: Mailbox::new(Signal::default()),
        shared: Shared::default(),
        is_drained: false,
        loading: None,
        gate: GateOptions::ALIGNED,
    })
    .unwrap();
    for id in [1, 2, 3].map(CheckpointId) {
        mail.send(TaskMail::Trigger(Barrier {
            id,
            triggered_at: Millis(0),
            kind: SnapshotKind::Checkpoint,
            alignment: Alignment::Aligned,
        }));
    }
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

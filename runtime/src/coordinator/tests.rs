use slackwater_core::coordinator::CoordinatorOptions;
use slackwater_core::retained::RetentionPolicy;
use slackwater_core::subtask::SnapshotMetrics;

use super::*;
use crate::mail::{CoordinatorMail, TaskMail, WriterMail};

mod cases;

/// A coordinator of two tasks; the test plays the tasks and the writer.
struct Bench {
    actor: CoordinatorActor,
    mail: Mailbox<CoordinatorMail>,
    tasks: Vec<Mailbox<TaskMail>>,
    writer: Mailbox<WriterMail>,
    shared: Shared,
    now: Now,
}

impl Bench {
    fn new(max_concurrent_checkpoints: u16) -> Self {
        Self::with(CoordinatorOptions { max_concurrent_checkpoints, ..Self::options() })
    }

    fn options() -> CoordinatorOptions {
        CoordinatorOptions {
            interval: Some(Millis(10)),
            timeout: Millis(60_000),
            min_pause: Millis(0),
            tolerable_failed_checkpoints: 0,
            seed: 1,
            ..CoordinatorOptions::default()
        }
    }

    fn with(options: CoordinatorOptions) -> Self {
        let mailbox = || Mailbox::new(Signal::default());
        let (mail, writer, shared) =
            (Mailbox::new(Signal::default()), Mailbox::new(Signal::default()), Shared::default());
        let tasks = vec![mailbox(), mailbox()];
        let vertex = VertexPart { name: "vertex".into(), subtasks: vec![SubtaskPart::default(); 2] };
        let actor = CoordinatorActor::new(CoordinatorParts {
            options,
            next_id: CheckpointId::FIRST,
            tasks: tasks.clone(),
            sources: vec![TaskIndex(0), TaskIndex(1)],
            writer: writer.clone(),
            signal: Signal::default(),
            mail: mail.clone(),
            shared: shared.clone(),
            template: Manifest {
                id: CheckpointId(0),
                job_id: 1,
                job_name: "job".into(),
                triggered_at: Millis(0),
                max_parallelism: 128,
                hash_seed: 0,
                is_finished: false,
                participants: Vec::new(),
                vertices: vec![vertex],
            },
            retention: Retention::new(3, RetentionPolicy::RetainOnCancellation).unwrap(),
            newest_folder: None,
            loading: BTreeSet::new(),
            participants: Participants::default(),
        });
        Self { actor: actor.unwrap(), mail, tasks, writer, shared, now: Now::default() }
    }

    fn step(&mut self) {
        while self.actor.step(self.now) == Step::Progress {}
    }

    fn send(&mut self, mail: CoordinatorMail) {
        self.mail.send(mail);
        self.step();
    }

    /// Begins the next periodic checkpoint.
    fn begin(&mut self) -> CheckpointId {
        loop {
            self.now.monotonic = self.now.monotonic.after(Millis(10));
            self.step();
            if let Some(WriterMail::PrepareLocation { id, .. }) = self.writer.receive() {
                self.send(CoordinatorMail::LocationPrepared(id, Ok(())));
                return id;
            }
        }
    }

    /// Every task has emitted everything and acknowledges.
    fn acknowledge(&mut self, id: CheckpointId) {
        for task in [0, 1].map(TaskIndex) {
            let part = Box::new(SubtaskPart { is_drained: true, ..SubtaskPart::default() });
            self.send(CoordinatorMail::Acknowledge { id, task, part, metrics: SnapshotMetrics::default() });
        }
    }
}

#[test]
fn a_finished_checkpoint_that_completes_late_does_not_hold_up_the_end() {
    let mut bench = Bench::new(2);
    let (older, newer) = (bench.begin(), bench.begin());
    bench.acknowledge(older);
    bench.acknowledge(newer);
    bench.send(CoordinatorMail::ManifestPersisted(newer, Ok(())));
    bench.send(CoordinatorMail::Committed { id: newer, task: TaskIndex(0) });
    // The first task has nothing to report for it.
    bench.send(CoordinatorMail::ManifestPersisted(older, Ok(())));
    assert!(!bench.shared.is_over());
    bench.send(CoordinatorMail::Committed { id: newer, task: TaskIndex(1) });
    assert!(bench.shared.is_over());
    assert!(bench.shared.failure().is_none());
    assert_eq!(crate::shared::Observer::new(bench.shared).progress().last_checkpoint, Some(newer));
    assert!(bench.tasks.iter().all(|task| task.receive().is_some()));
}

//! Bugs that users of other systems reported in public.

use slackwater_core::durable::OperationKind;

use super::*;
use crate::shared::Observer;

impl Bench {
    /// Tolerates failures.
    fn tolerant() -> Self {
        Self::with(CoordinatorOptions { tolerable_failed_checkpoints: 100, ..Self::options() })
    }

    /// Lets a millisecond pass; a checkpoint that has begun.
    fn tick(&mut self) -> Option<CheckpointId> {
        self.now.monotonic = self.now.monotonic.after(Millis(1));
        self.step();
        let mut begun = None;
        while let Some(mail) = self.writer.receive() {
            if let WriterMail::PrepareLocation { id, .. } = mail {
                begun = Some(id);
            }
        }
        begun
    }

    /// The next checkpoint that begins within so many milliseconds.
    fn next(&mut self, within: u64) -> Option<CheckpointId> {
        (0..within).find_map(|_| self.tick())
    }

    fn decline(&mut self, id: CheckpointId, cause: Option<DiskError>) {
        let (task, reason) = (TaskIndex(1), FailureReason::CheckpointAsyncException);
        self.send(CoordinatorMail::Decline { id, task, reason, cause });
    }

    fn prepared(&mut self, id: CheckpointId) {
        self.send(CoordinatorMail::LocationPrepared(id, Ok(())));
    }

    /// Both tasks acknowledge, with more to come.
    fn acknowledge_running(&mut self, id: CheckpointId) {
        for task in [0, 1].map(TaskIndex) {
            let (part, metrics) = (Box::default(), SnapshotMetrics::default());
            self.send(CoordinatorMail::Acknowledge { id, task, part, metrics });
        }
    }

    /// Whether the writer is to store the manifest.
    fn stores(&self, id: CheckpointId) -> bool {
        let mut mail = std::iter::from_fn(|| self.writer.receive());
        mail.any(|mail| matches!(mail, WriterMail::PersistManifest { id: stored, .. } if stored == id))
    }

    fn complete(&mut self, id: CheckpointId) {
        self.prepared(id);
        self.acknowledge_running(id);
        assert!(self.stores(id));
        self.send(CoordinatorMail::ManifestPersisted(id, Ok(())));
        assert_eq!(self.newest(), Some(id));
    }

    fn newest(&self) -> Option<CheckpointId> {
        Observer::new(self.shared.clone()).progress().last_checkpoint
    }
}

#[test]
fn c01_parts_that_come_for_a_checkpoint_that_is_over_complete_nothing() {
    let mut bench = Bench::tolerant();
    let first = bench.next(20).unwrap();
    bench.prepared(first);
    bench.decline(first, None);
    bench.acknowledge_running(first);
    assert!(!bench.stores(first));
    let second = bench.next(20).unwrap();
    assert!(second > first);
    bench.complete(second);
    bench.acknowledge_running(first);
    bench.acknowledge_running(second);
    assert_eq!((bench.newest(), bench.shared.failure()), (Some(second), None));
}

#[test]
fn c02_the_cadence_goes_on_after_everything_pending_was_given_up() {
    let mut bench = Bench::tolerant();
    let first = bench.next(20).unwrap();
    bench.prepared(first);
    assert_eq!(bench.next(100), None, "one at a time");
    bench.decline(first, None);
    for _ in 0..3 {
        let next = bench.next(20).expect("the next one begins");
        bench.complete(next);
    }
}

#[test]
fn c03_a_checkpoint_that_expires_before_its_folder_is_there_leaves_the_way_free() {
    let options = CoordinatorOptions { timeout: Millis(50), ..Bench::options() };
    let mut bench = Bench::with(CoordinatorOptions { tolerable_failed_checkpoints: 100, ..options });
    let first = bench.next(20).unwrap();
    let second = bench.next(100).expect("the first one expires");
    bench.prepared(first);
    let is_first = |mail: TaskMail| matches!(mail, TaskMail::Trigger(barrier) if barrier.id == first);
    assert!(!std::iter::from_fn(|| bench.tasks[0].receive()).any(is_first), "nobody begins it");
    assert!(second > first);
    bench.complete(second);
}

#[test]
fn c04_no_periodic_checkpoint_begins_within_the_pause() {
    let mut bench = Bench::with(CoordinatorOptions { min_pause: Millis(500), ..Bench::options() });
    let mut next = bench.next(600).unwrap();
    for _ in 0..5 {
        (0..37).for_each(|_| assert_eq!(bench.tick(), None));
        bench.complete(next);
        let completed = bench.now.monotonic;
        next = bench.next(600).unwrap();
        let passed = bench.now.monotonic.since(completed);
        assert!((Millis(500)..Millis(511)).contains(&passed), "{passed:?}");
    }
}

#[test]
fn c05_a_checkpoint_that_cannot_be_stored_is_not_announced_and_the_next_one_is_another() {
    let full = DiskError { operation: OperationKind::Write, errno: DiskError::NO_SPACE };
    let fail: [fn(&mut Bench, CheckpointId, DiskError); 3] = [
        |bench, id, full| bench.send(CoordinatorMail::LocationPrepared(id, Err(full))),
        |bench, id, full| {
            bench.prepared(id);
            bench.decline(id, Some(full));
        },
        |bench, id, full| {
            bench.prepared(id);
            bench.acknowledge_running(id);
            bench.send(CoordinatorMail::ManifestPersisted(id, Err(full)));
        },
    ];
    for fail in fail {
        let mut bench = Bench::tolerant();
        let first = bench.next(20).unwrap();
        fail(&mut bench, first, full);
        assert_eq!((bench.newest(), bench.shared.failure()), (None, None));
        let second = bench.next(40).expect("the job goes on");
        assert!(second > first);
        bench.complete(second);

        let mut strict = Bench::new(1);
        let first = strict.next(20).unwrap();
        fail(&mut strict, first, full);
        let failure = strict.shared.failure();
        let is_it = matches!(failure, Some(JobError::Checkpoint { cause: Some(cause), .. }) if cause == full);
        assert!(is_it, "it counts, and the cause is named: {failure:?}");
    }
}

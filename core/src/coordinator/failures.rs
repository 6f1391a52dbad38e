//! Counts consecutive failures (Flink: `CheckpointFailureManager`).

use super::checkpoint::Failure;
use crate::ids::{CheckpointId, SnapshotKind};
use crate::recent_ids::RecentIds;

/// How many checkpoints in a row have failed (rule F1).
#[derive(Clone, Copy, Debug)]
pub(super) struct Failures {
    tolerable: u32,
    consecutive: u32,
    counted: RecentIds,
    last_succeeded: Option<CheckpointId>,
}

impl Failures {
    /// `u32::MAX` tolerates any number.
    pub(super) fn new(tolerable: u32) -> Self {
        Self { tolerable, consecutive: 0, counted: RecentIds::default(), last_succeeded: None }
    }

    /// Whether the job has to fail because of this failure, of a checkpoint that may not have got an id yet.
    pub(super) fn failed(&mut self, id: Option<CheckpointId>, kind: SnapshotKind, failure: Failure) -> bool {
        match failure.is_of_task() {
            false if kind.is_savepoint() => false, // Rule F4.
            true if kind.is_synchronous() => true, // Rule F5.
            _ => self.count(id, failure),
        }
    }

    /// Rules F6 and F8.
    fn count(&mut self, id: Option<CheckpointId>, failure: Failure) -> bool {
        if id.is_some() && id <= self.last_succeeded {
            return false;
        }
        let is_known = id.is_some_and(|id| self.counted.contains(id) || self.counted.has_forgotten(id));
        if failure.reason.counts() && !is_known {
            id.into_iter().for_each(|id| self.counted.insert(id));
            self.consecutive = self.consecutive.saturating_add(1);
        }
        let exceeded = self.consecutive > self.tolerable;
        if exceeded {
            self.clear();
        }
        exceeded
    }

    /// A late success of an older checkpoint does not end the row (rule F7).
    pub(super) fn succeeded(&mut self, id: CheckpointId) {
        if Some(id) > self.last_succeeded {
            self.last_succeeded = Some(id);
            self.clear();
        }
    }

    fn clear(&mut self) {
        self.consecutive = 0;
        self.counted = RecentIds::default();
    }
}

impl Failure {
    /// Whether a task has caused it; otherwise it is the coordinator's own (rule F3).
    pub(super) const fn is_of_task(&self) -> bool {
        self.task.is_some() && !self.reason.is_preflight()
    }
}

#[cfg(test)]
mod tests {
    use super::{Failure, Failures};
    use crate::ids::{CheckpointId, SavepointFormat, SnapshotKind, TaskIndex};
    use crate::reason::FailureReason::{
        self, CheckpointAsyncException, CheckpointDeclined, CheckpointExpired, IoException, TaskFailure,
    };

    const SAVEPOINT: SnapshotKind = SnapshotKind::Savepoint(SavepointFormat::Canonical);

    impl Failures {
        fn of_job(&mut self, id: u64, reason: FailureReason) -> bool {
            self.failed(Some(CheckpointId(id)), SnapshotKind::Checkpoint, reason.into())
        }

        fn of_task(&mut self, id: u64, kind: SnapshotKind, reason: FailureReason) -> bool {
            self.failed(Some(CheckpointId(id)), kind, Failure { reason, task: Some(TaskIndex(1)) })
        }
    }

    #[test]
    fn f1_the_largest_number_of_tolerable_failures_means_any_number() {
        let mut failures = Failures::new(u32::MAX);
        failures.consecutive = u32::MAX;
        assert!(!failures.of_job(1, CheckpointExpired));
        assert_eq!(Failures::new(0).last_succeeded, None);
    }

    #[test]
    fn f3_a_failure_is_the_tasks_if_a_task_saw_the_checkpoint_and_is_named() {
        let task = Some(TaskIndex(1));
        for (reason, task, expected) in [
            (CheckpointDeclined, task, true),
            (CheckpointDeclined, None, false),
            (CheckpointExpired, None, false),
            (IoException, task, false),
        ] {
            assert_eq!(Failure { reason, task }.is_of_task(), expected, "{reason} {task:?}");
        }
    }

    #[test]
    fn f4_the_coordinators_own_failures_of_savepoints_are_ignored() {
        for kind in [SAVEPOINT, SnapshotKind::Drain(SavepointFormat::Native)] {
            let mut failures = Failures::new(0);
            assert!(!failures.failed(Some(CheckpointId(1)), kind, CheckpointExpired.into()));
            assert!(!failures.failed(None, kind, IoException.into()));
            assert_eq!(failures.consecutive, 0);
        }
        assert!(Failures::new(0).of_job(1, CheckpointExpired));
    }

    #[test]
    fn f5_a_task_that_fails_a_stop_with_savepoint_fails_the_job_and_a_plain_savepoint_counts() {
        let mut failures = Failures::new(1);
        assert!(failures.of_task(1, SnapshotKind::Suspend(SavepointFormat::Native), TaskFailure));
        assert_eq!(failures.consecutive, 0);
        assert!(!failures.of_task(2, SAVEPOINT, CheckpointDeclined));
        assert!(failures.of_task(3, SAVEPOINT, CheckpointDeclined));
    }

    #[test]
    fn f6_each_checkpoint_counts_once_and_only_after_the_last_success() {
        let mut failures = Failures::new(1);
        assert!(!failures.of_job(5, CheckpointExpired));
        assert!(!failures.of_job(5, CheckpointAsyncException));
        assert!(failures.of_job(6, CheckpointExpired));
        assert_eq!(failures.consecutive, 0);
        failures.succeeded(CheckpointId(7));
        assert!(!failures.of_job(6, CheckpointExpired));
        assert_eq!(failures.consecutive, 0);
    }

    #[test]
    fn f6_without_an_id_each_failure_counts() {
        let mut failures = Failures::new(1);
        failures.succeeded(CheckpointId(7));
        assert!(!failures.failed(None, SnapshotKind::Checkpoint, IoException.into()));
        assert!(failures.failed(None, SnapshotKind::Checkpoint, IoException.into()));
    }

    #[test]
    fn f7_a_late_success_of_an_older_checkpoint_does_not_reset() {
        let mut failures = Failures::new(1);
        failures.succeeded(CheckpointId(7));
        assert!(!failures.of_job(8, CheckpointExpired));
        failures.succeeded(CheckpointId(6));
        assert!(failures.of_job(9, CheckpointExpired));
    }

    #[test]
    fn f8_tolerable_failures_are_survived_and_the_next_one_is_not() {
        for tolerable in 0..5 {
            let mut failures = Failures::new(tolerable);
            let survived = (1..).take_while(|&id| !failures.of_job(id, CheckpointExpired)).count();
            assert_eq!(survived, tolerable as usize);
        }
    }

    #[test]
    fn g2_only_reasons_that_say_something_of_the_job_count() {
        let counting = FailureReason::ALL.iter().filter(|reason| reason.counts()).map(|reason| reason.name());
        let expected = [
            "IO_EXCEPTION",
            "CHECKPOINT_ASYNC_EXCEPTION",
            "CHECKPOINT_EXPIRED",
            "CHECKPOINT_DECLINED",
            "FINALIZE_CHECKPOINT_FAILURE",
        ];
        assert!(counting.eq(expected));
    }
}

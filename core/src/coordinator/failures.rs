//! Counts consecutive failures (Flink: `CheckpointFailureManager`).

use crate::ids::CheckpointId;
use crate::reason::FailureReason;
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

    /// Whether the job has to fail because of this failure (rules F6 and F8).
    pub(super) fn failed(&mut self, id: CheckpointId, reason: FailureReason) -> bool {
        if Some(id) <= self.last_succeeded {
            return false;
        }
        let is_known = self.counted.contains(id) || self.counted.has_forgotten(id);
        if reason.counts() && !is_known {
            self.counted.insert(id);
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

#[cfg(test)]
mod tests {
    use super::Failures;
    use crate::ids::CheckpointId;
    use crate::reason::FailureReason::{self, CheckpointAsyncException, CheckpointExpired};

    #[test]
    fn f6_each_checkpoint_counts_once_and_only_after_the_last_success() {
        let mut failures = Failures::new(1);
        assert!(!failures.failed(CheckpointId(5), CheckpointExpired));
        assert!(!failures.failed(CheckpointId(5), CheckpointAsyncException));
        assert!(failures.failed(CheckpointId(6), CheckpointExpired));
        assert_eq!(failures.consecutive, 0);
        failures.succeeded(CheckpointId(7));
        assert!(!failures.failed(CheckpointId(6), CheckpointExpired));
        assert_eq!(failures.consecutive, 0);
    }

    #[test]
    fn f7_a_late_success_of_an_older_checkpoint_does_not_reset() {
        let mut failures = Failures::new(1);
        failures.succeeded(CheckpointId(7));
        assert!(!failures.failed(CheckpointId(8), CheckpointExpired));
        failures.succeeded(CheckpointId(6));
        assert!(failures.failed(CheckpointId(9), CheckpointExpired));
    }

    #[test]
    fn f8_tolerable_failures_are_survived_and_the_next_one_is_not() {
        for tolerable in 0..5 {
            let mut failures = Failures::new(tolerable);
            let survived =
                (1..).take_while(|&id| !failures.failed(CheckpointId(id), CheckpointExpired)).count();
            assert_eq!(survived, tolerable as usize);
        }
        let mut failures = Failures::new(u32::MAX);
        failures.consecutive = u32::MAX;
        assert!(!failures.failed(CheckpointId(1), CheckpointExpired));
    }

    #[test]
    fn only_reasons_that_say_something_of_the_job_count() {
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

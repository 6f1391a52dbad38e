//! Why a checkpoint, or the request for one, failed (Flink: `CheckpointFailureReason`).

use core::fmt;

macro_rules! reasons {
    ($($(#[doc = $doc:literal])+ $name:ident = $text:literal, preflight: $pre:literal, counts: $counts:literal;)+) => {
        /// Why a checkpoint, or the request for one, failed.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum FailureReason { $($(#[doc = $doc])+ $name,)+ }

        impl FailureReason {
            /// Every reason, in order of declaration.
            pub const ALL: &'static [Self] = &[$(Self::$name,)+];

            /// The name under which users of Flink know it.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$name => $text,)+ }
            }

            /// Whether it strikes before any task has seen the checkpoint.
            #[must_use]
            pub const fn is_preflight(self) -> bool {
                match self { $(Self::$name => $pre,)+ }
            }

            /// Whether it counts against the tolerable number of consecutive failures.
            #[must_use]
            pub const fn counts(self) -> bool {
                match self { $(Self::$name => $counts,)+ }
            }
        }
    };
}

reasons! {
    /// A periodic request came while periodic triggering was off.
    PeriodicSchedulerShutdown = "PERIODIC_SCHEDULER_SHUTDOWN", preflight: true, counts: false;
    /// The queue of requests is full.
    TooManyCheckpointRequests = "TOO_MANY_CHECKPOINT_REQUESTS", preflight: true, counts: false;
    /// As many checkpoints are pending as may be; requests wait for that here, so only the name is kept.
    TooManyConcurrentCheckpoints = "TOO_MANY_CONCURRENT_CHECKPOINTS", preflight: true, counts: false;
    /// The last completion is too recent for a periodic request.
    MinimumTimeBetweenCheckpoints = "MINIMUM_TIME_BETWEEN_CHECKPOINTS", preflight: true, counts: false;
    /// A task that has to take part is not running.
    NotAllRequiredTasksRunning = "NOT_ALL_REQUIRED_TASKS_RUNNING", preflight: true, counts: false;
    /// The storage location could not be prepared or written.
    IoException = "IO_EXCEPTION", preflight: true, counts: true;
    /// A savepoint was asked for while some running task has an output that blocks until it is complete.
    BlockingOutputExist = "BLOCKING_OUTPUT_EXIST", preflight: true, counts: false;
    /// The asynchronous part of a task's snapshot failed.
    CheckpointAsyncException = "CHECKPOINT_ASYNC_EXCEPTION", preflight: false, counts: true;
    /// Another subtask that writes its records in flight to the same file has failed.
    ChannelStateSharedStreamException = "CHANNEL_STATE_SHARED_STREAM_EXCEPTION", preflight: false, counts: false;
    /// The checkpoint did not complete in time.
    CheckpointExpired = "CHECKPOINT_EXPIRED", preflight: false, counts: true;
    /// A later checkpoint completed first.
    CheckpointSubsumed = "CHECKPOINT_SUBSUMED", preflight: false, counts: false;
    /// A task declined.
    CheckpointDeclined = "CHECKPOINT_DECLINED", preflight: false, counts: true;
    /// A task was not running when it was asked.
    CheckpointDeclinedTaskNotReady = "CHECKPOINT_DECLINED_TASK_NOT_READY", preflight: false, counts: false;
    /// A task was closing when it was asked.
    CheckpointDeclinedTaskClosing = "CHECKPOINT_DECLINED_TASK_CLOSING", preflight: false, counts: false;
    /// A newer barrier arrived during alignment.
    CheckpointDeclinedSubsumed = "CHECKPOINT_DECLINED_SUBSUMED", preflight: false, counts: false;
    /// A cancel marker arrived.
    CheckpointDeclinedOnCancellationBarrier = "CHECKPOINT_DECLINED_ON_CANCELLATION_BARRIER", preflight: false, counts: false;
    /// A channel ended during alignment and ended channels do not count as aligned.
    CheckpointDeclinedInputEndOfStream = "CHECKPOINT_DECLINED_INPUT_END_OF_STREAM", preflight: false, counts: false;
    /// What came from blocked channels no longer fitted into the stash.
    CheckpointDeclinedAlignmentLimitExceeded = "CHECKPOINT_DECLINED_ALIGNMENT_LIMIT_EXCEEDED", preflight: false, counts: false;
    /// The coordinator was shut down.
    CheckpointCoordinatorShutdown = "CHECKPOINT_COORDINATOR_SHUTDOWN", preflight: false, counts: false;
    /// The coordinator was suspended because the job left the running state.
    CheckpointCoordinatorSuspend = "CHECKPOINT_COORDINATOR_SUSPEND", preflight: false, counts: false;
    /// A region of the job is restarted.
    JobFailoverRegion = "JOB_FAILOVER_REGION", preflight: false, counts: false;
    /// A task died before it had acknowledged.
    TaskFailure = "TASK_FAILURE", preflight: false, counts: false;
    /// A task could not take the trigger.
    TaskCheckpointFailure = "TASK_CHECKPOINT_FAILURE", preflight: false, counts: false;
    /// A notification was for a task that nobody knows.
    UnknownTaskCheckpointNotificationFailure = "UNKNOWN_TASK_CHECKPOINT_NOTIFICATION_FAILURE", preflight: false, counts: false;
    /// All tasks had acknowledged, but the manifest could not be made durable. It counts, unlike in older releases
    /// of Flink (FLINK-32347): a job whose checkpoints all end so would go on unprotected for ever.
    FinalizeCheckpointFailure = "FINALIZE_CHECKPOINT_FAILURE", preflight: false, counts: true;
    /// Triggering failed for a reason that has no name of its own.
    TriggerCheckpointFailure = "TRIGGER_CHECKPOINT_FAILURE", preflight: false, counts: false;
}

impl fmt::Display for FailureReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::FailureReason;

    #[test]
    fn reasons_are_those_of_the_protocols_table() {
        let rows = include_str!("../PROTOCOL.md").lines().filter_map(|line| line.strip_prefix("| `"));
        let reasons = rows.filter_map(|row| {
            let mut cells = row.split('|').map(str::trim);
            let name = cells.next()?.trim_end_matches('`');
            let mut is_yes = || cells.next().is_some_and(|cell| cell == "yes");
            Some((name, is_yes(), is_yes()))
        });
        let known =
            FailureReason::ALL.iter().map(|reason| (reason.name(), reason.is_preflight(), reason.counts()));
        let (stated, known): (BTreeSet<_>, BTreeSet<_>) = (reasons.collect(), known.collect());
        assert_eq!(stated, known);
    }
}

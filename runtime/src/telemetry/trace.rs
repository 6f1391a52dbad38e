//! Spans and events through the `tracing` facade, or nothing at all.

#[cfg(not(feature = "tracing"))]
pub(crate) use silent::{Span, Trace, in_recovery, in_snapshot, passed_over, persisting, restarting};
#[cfg(feature = "tracing")]
pub(crate) use spoken::{Span, Trace, in_recovery, in_snapshot, passed_over, persisting, restarting};

#[cfg(feature = "tracing")]
mod spoken {
    use std::collections::BTreeMap;

    use slackwater_core::ids::{CheckpointId, SnapshotKind, TaskIndex};
    use slackwater_core::reason::FailureReason;
    use slackwater_core::time::Millis;
    pub(crate) use tracing::Span;
    use tracing::span::EnteredSpan;
    use tracing::{debug, debug_span, info, info_span, warn};

    use crate::shared::Progress;
    use crate::statistics::{CheckpointFigures, RestoreFigures, SubtaskFigures};
    use crate::supervisor::Restart;

    /// What listeners know all of it by.
    const TARGET: &str = "slackwater";

    /// The spans of one job's checkpoints under way.
    #[derive(Debug, Default)]
    pub(crate) struct Trace {
        job: String,
        checkpoints: BTreeMap<CheckpointId, Span>,
    }

    impl Trace {
        pub(crate) fn new(job: &str) -> Self {
            Self { job: job.to_owned(), checkpoints: BTreeMap::new() }
        }

        /// Says something within the span of a checkpoint, if that is still open.
        fn within(&self, id: CheckpointId, say: impl FnOnce()) {
            self.checkpoints.get(&id).map_or_else(Span::none, Span::clone).in_scope(say);
        }

        pub(crate) fn restored(&self, from: &RestoreFigures) {
            let (job, id) = (&self.job, from.id.0);
            info!(target: TARGET, job, checkpoint = id, state_bytes = from.state_size, "going on from a checkpoint");
        }

        pub(crate) fn triggered(&mut self, id: CheckpointId, kind: SnapshotKind) {
            let span = info_span!(target: TARGET, parent: None, "checkpoint", job = self.job, id = id.0, kind = ?kind);
            self.checkpoints.insert(id, span);
        }

        pub(crate) fn reported(
            &self,
            id: CheckpointId,
            operator: &str,
            index: u16,
            figures: &SubtaskFigures,
        ) {
            self.within(id, || {
                debug!(
                    target: TARGET,
                    operator,
                    subtask = index,
                    start_delay_ms = figures.start_delay.0,
                    alignment_ms = figures.alignment.0,
                    sync_ms = figures.synchronous.0,
                    async_ms = figures.asynchronous.0,
                    state_bytes = figures.state_size,
                    is_complete = figures.is_complete,
                    "subtask reported"
                );
            });
        }

        pub(crate) fn completed(&mut self, figures: &CheckpointFigures, progress: &Progress) {
            self.within(figures.id, || {
                info!(
                    target: TARGET,
                    duration_ms = figures.duration().0,
                    state_bytes = figures.state_size,
                    written_bytes = figures.checkpointed_size,
                    source_records = progress.source_records,
                    "checkpoint complete"
                );
            });
            self.checkpoints.remove(&figures.id);
        }

        pub(crate) fn failed(&mut self, id: Option<CheckpointId>, reason: FailureReason) {
            let span = id.and_then(|id| self.checkpoints.remove(&id)).unwrap_or_else(Span::none);
            span.in_scope(|| warn!(target: TARGET, job = self.job, %reason, "checkpoint failed"));
        }

        pub(crate) fn committed(&self, id: CheckpointId, took: Millis) {
            debug!(target: TARGET, job = self.job, checkpoint = id.0, commit_ms = took.0, "sinks have committed");
        }
    }

    /// While it lives a job is being recovered.
    pub(crate) fn in_recovery(job: &str) -> EnteredSpan {
        info_span!(target: TARGET, "recovery", job).entered()
    }

    /// A newer checkpoint is not sound.
    pub(crate) fn passed_over(id: CheckpointId, reason: &str) {
        warn!(target: TARGET, checkpoint = id.0, reason, "checkpoint passed over");
    }

    /// A job has failed and will start again.
    pub(crate) fn restarting(job: &str, restart: &Restart) {
        let (delay_ms, attempt) = (restart.delay.0, restart.start);
        warn!(target: TARGET, job, cause = %restart.cause, delay_ms, attempt, "the job has failed and starts again");
    }

    /// While it lives a subtask's state is being frozen.
    pub(crate) fn in_snapshot(subtask: &str, id: CheckpointId) -> EnteredSpan {
        debug_span!(target: TARGET, "snapshot", subtask, checkpoint = id.0).entered()
    }

    /// Lives as long as the writer writes a subtask's segment.
    pub(crate) fn persisting(task: TaskIndex, id: CheckpointId) -> Span {
        debug_span!(target: TARGET, parent: None, "persist", task = task.0, checkpoint = id.0)
    }
}

#[cfg(not(feature = "tracing"))]
mod silent {
    use slackwater_core::ids::{CheckpointId, SnapshotKind, TaskIndex};
    use slackwater_core::reason::FailureReason;
    use slackwater_core::time::Millis;

    use crate::shared::Progress;
    use crate::statistics::{CheckpointFigures, RestoreFigures, SubtaskFigures};
    use crate::supervisor::Restart;

    /// No span.
    #[derive(Debug)]
    pub(crate) struct Span;

    /// Tells nobody.
    #[derive(Debug, Default)]
    pub(crate) struct Trace;

    impl Trace {
        pub(crate) const fn new(_job: &str) -> Self {
            Self
        }

        pub(crate) const fn restored(&self, _from: &RestoreFigures) {}

        pub(crate) const fn triggered(&mut self, _id: CheckpointId, _kind: SnapshotKind) {}

        pub(crate) const fn reported(
            &self,
            _id: CheckpointId,
            _operator: &str,
            _index: u16,
            _figures: &SubtaskFigures,
        ) {
        }

        pub(crate) const fn completed(&mut self, _figures: &CheckpointFigures, _progress: &Progress) {}

        pub(crate) const fn failed(&mut self, _id: Option<CheckpointId>, _reason: FailureReason) {}

        pub(crate) const fn committed(&self, _id: CheckpointId, _took: Millis) {}
    }

    pub(crate) const fn in_recovery(_job: &str) -> Span {
        Span
    }

    pub(crate) const fn passed_over(_id: CheckpointId, _reason: &str) {}

    pub(crate) const fn restarting(_job: &str, _restart: &Restart) {}

    pub(crate) const fn in_snapshot(_subtask: &str, _id: CheckpointId) -> Span {
        Span
    }

    pub(crate) const fn persisting(_task: TaskIndex, _id: CheckpointId) -> Span {
        Span
    }
}

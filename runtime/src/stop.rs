//! Stopping a job with a savepoint (rule X26).

use slackwater_core::ids::CheckpointId;

use crate::mail::CoordinatorMail;
use crate::savepoint::{Answer, Controller, SavepointError};
use crate::shared::Shared;

/// What happens to what is still in the operators when a job stops.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StopMode {
    /// It stays there, in the savepoint: the job can go on from it as if nothing had happened.
    #[default]
    Suspend,
    /// The operators emit it, as at the end of the input, and sinks commit it. For a job that is to end for good: started
    /// from that savepoint it has finished.
    Drain,
}

impl Controller {
    /// Stops the job with a savepoint in `folder`, a path on the job's disk that is made and must be empty. No record
    /// behind the savepoint is processed, sinks commit what it covers, and then the job ends:
    /// [`Report::stopped_with`](crate::Report::stopped_with).
    ///
    /// If the savepoint fails before any source has stopped reading, the job goes on; later, the job fails.
    #[must_use]
    pub fn stop(&self, folder: &str, mode: StopMode) -> Stop {
        let order = StopOrder {
            folder: folder.to_owned(),
            mode,
            saved: Answer::default(),
            stopped: Answer::default(),
        };
        let stop =
            Stop { saved: order.saved.clone(), stopped: order.stopped.clone(), shared: self.shared.clone() };
        self.mail.send(CoordinatorMail::Stop(order));
        stop
    }
}

/// A stop that was asked for.
#[derive(Clone, Debug)]
pub struct Stop {
    saved: Answer,
    stopped: Answer,
    shared: Shared,
}

impl Stop {
    /// The number of the savepoint once everything is committed and the job ends, or why it does not end so; nothing
    /// while it is on its way.
    #[must_use]
    pub fn result(&self) -> Option<Result<CheckpointId, SavepointError>> {
        // In this order: a job that ends answers first.
        let is_over = self.shared.is_over();
        let early = || match self.saved.get() {
            Some(Ok(savepoint)) => SavepointError::NotStopped { savepoint },
            Some(Err(_)) | None => SavepointError::JobEnded,
        };
        self.stopped.get().or_else(|| is_over.then(|| Err(early())))
    }
}

/// What the coordinator is asked for.
#[derive(Clone, Debug)]
pub(crate) struct StopOrder {
    pub(crate) folder: String,
    pub(crate) mode: StopMode,
    /// Whether the savepoint is there.
    pub(crate) saved: Answer,
    /// Whether the job has stopped.
    pub(crate) stopped: Answer,
}

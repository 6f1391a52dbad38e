//! Hooks: code of yours that takes part in every checkpoint of a job, once for the whole job.

use std::fmt;

use slackwater_core::coordinator::Participant;
use slackwater_core::ids::CheckpointId;
use slackwater_core::time::Millis;

use crate::actor::Mailbox;
use crate::mail::CoordinatorMail;
use crate::operator::OperatorError;

/// Called when a checkpoint begins, and when the job starts (Flink: `MasterTriggerRestoreHook`): to have another system
/// take its own snapshot, say. What it gives lies in the checkpoint.
///
/// The coordinator calls it between other things, so no call may wait for long. A hook that has to wait keeps the
/// [`HookAnswer`], lets a thread of its own do the work, and answers from there. No barrier is sent before every hook has
/// answered. The checkpoint fails if one answers with an error, or not within the checkpoint's time-out.
pub trait MasterHook: Send + 'static {
    /// A checkpoint begins, at this wall-clock time: starts what belongs to it, and answers when that is done (rule P32).
    fn trigger(&mut self, checkpoint: CheckpointId, triggered_at: Millis, answer: HookAnswer);

    /// The job starts from a checkpoint, with the state that the hook had given for it, if any. Hooks that had given one
    /// come first, in the order in which they were registered then; if none had, no hook is called (rule P33). May wait.
    ///
    /// # Errors
    /// The job does not start.
    fn restore(&mut self, checkpoint: CheckpointId, state: Option<&[u8]>) -> Result<(), OperatorError>;

    /// The job starts without a checkpoint (rule P34). May wait.
    ///
    /// # Errors
    /// The job does not start.
    fn reset(&mut self) -> Result<(), OperatorError> {
        Ok(())
    }

    /// The job has ended, well or not: called once, and nothing after it (rule T14).
    fn close(&mut self) {}
}

/// What a hook owes for one checkpoint. Dropped without an answer, it fails the checkpoint.
#[must_use = "the checkpoint waits for the answer"]
pub struct HookAnswer {
    checkpoint: CheckpointId,
    hook: u16,
    /// None once it has been given.
    coordinator: Option<Mailbox<CoordinatorMail>>,
}

impl HookAnswer {
    pub(crate) const fn new(
        checkpoint: CheckpointId,
        hook: u16,
        coordinator: Mailbox<CoordinatorMail>,
    ) -> Self {
        Self { checkpoint, hook, coordinator: Some(coordinator) }
    }

    /// The checkpoint that waits for it.
    #[must_use]
    pub const fn checkpoint(&self) -> CheckpointId {
        self.checkpoint
    }

    /// The hook's part is done: with a state that goes into the checkpoint, or without, or not at all. From any thread.
    /// Nobody listens if the checkpoint was given up meanwhile.
    pub fn give(mut self, state: Result<Option<Vec<u8>>, OperatorError>) {
        self.send(state);
    }

    fn send(&mut self, answer: Result<Option<Vec<u8>>, OperatorError>) {
        if let Some(coordinator) = self.coordinator.take() {
            let (id, by) = (self.checkpoint, Participant::Hook(self.hook));
            coordinator.send(CoordinatorMail::ParticipantAnswered { id, by, answer });
        }
    }
}

impl Drop for HookAnswer {
    fn drop(&mut self) {
        self.send(Err(OperatorError::new("it has dropped its answer")));
    }
}

impl fmt::Debug for HookAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HookAnswer").field("checkpoint", &self.checkpoint).finish_non_exhaustive()
    }
}

/// A hook under its name.
pub(crate) struct NamedHook {
    pub(crate) name: String,
    pub(crate) hook: Box<dyn MasterHook>,
}

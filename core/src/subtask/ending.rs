//! How a subtask ends: what it has to wait for, and the savepoint with which a job stops (rules X26 to X29).

use super::SubtaskOptions;
use crate::ids::CheckpointId;

/// What is known of a subtask's end.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Ending {
    /// No record follows; whether the operators are finished.
    pub(super) data_ended: Option<bool>,
    pub(super) inputs_finished: bool,
    pub(super) outputs_consumed: bool,
    /// The savepoint with which the job stops.
    pub(super) savepoint: Option<CheckpointId>,
    /// The first checkpoint taken after the data had ended: it or a later one has to complete.
    pub(super) final_min: Option<CheckpointId>,
    pub(super) final_completed: bool,
}

impl Ending {
    /// Whether the operators have emitted all they had.
    pub(super) const fn is_finished(&self) -> bool {
        matches!(self.data_ended, Some(true))
    }

    /// A checkpoint that the subtask takes part in (rule X4).
    pub(super) fn take_part(&mut self, id: CheckpointId, is_synchronous: bool, options: &SubtaskOptions) {
        if is_synchronous {
            self.savepoint = Some(id);
        }
        if options.checkpoints_after_end && self.data_ended.is_some() {
            self.final_min.get_or_insert(id);
        }
    }

    /// A complete checkpoint (rule X23). Only the savepoint counts where there is one.
    pub(super) fn complete(&mut self, id: CheckpointId) {
        self.final_completed |= match self.savepoint {
            Some(savepoint) => savepoint == id,
            None => self.final_min.is_some_and(|first| first <= id),
        };
    }

    /// Whether the subtask waits for nothing any more (rule X28).
    pub(super) const fn may_close(&self, options: &SubtaskOptions) -> bool {
        let has_ended = self.data_ended.is_some() && (self.inputs_finished || !options.has_inputs);
        let awaits_checkpoint = options.checkpoints_after_end || self.savepoint.is_some();
        let is_consumed = self.outputs_consumed || !options.checkpoints_after_end;
        has_ended && is_consumed && (self.final_completed || !awaits_checkpoint)
    }
}

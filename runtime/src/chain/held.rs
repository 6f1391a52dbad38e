//! Sinks that must not begin before all restored state has been verified.

use std::any::Any;
use std::fmt;

use slackwater_core::ids::{CheckpointId, TaskIndex};

use crate::files::BlockingFiles;
use crate::operator::{OperatorError, Sink};

/// A sink of any type, on its way to the owner of the disk and back.
pub(crate) trait AnySink: Send {
    /// See [`Sink::recover`].
    fn recover(
        &mut self,
        restored: Option<CheckpointId>,
        pending: &[Vec<u8>],
        files: &mut dyn BlockingFiles,
    ) -> Result<Vec<String>, OperatorError>;

    /// Itself, to be turned into what it was.
    fn into_any(self: Box<Self>) -> Box<dyn Any>;
}

impl<S: Sink> AnySink for S {
    fn recover(
        &mut self,
        restored: Option<CheckpointId>,
        pending: &[Vec<u8>],
        files: &mut dyn BlockingFiles,
    ) -> Result<Vec<String>, OperatorError> {
        Sink::recover(self, restored, pending, files)
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

/// The sink that recovers for all subtasks of its operator, later.
pub(crate) struct HeldSink {
    pub(crate) operator: String,
    pub(crate) sink: Box<dyn AnySink>,
    /// What the checkpoint lists of its operator.
    pub(crate) pending: Vec<Vec<u8>>,
}

/// Held sinks with the subtask of each.
pub(crate) type HeldSinks = Vec<(TaskIndex, HeldSink)>;

impl HeldSink {
    pub(crate) fn recover(
        &mut self,
        restored: Option<CheckpointId>,
        files: &mut dyn BlockingFiles,
    ) -> Result<Vec<String>, OperatorError> {
        self.sink.recover(restored, &self.pending, files)
    }
}

impl fmt::Debug for HeldSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HeldSink").field("operator", &self.operator).finish_non_exhaustive()
    }
}

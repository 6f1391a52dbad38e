//! A sink as the end of a chain.

use slackwater_core::ids::CheckpointId;

use crate::chain::{ChainOps, Cx, Stage};
use crate::channel::Mark;
use crate::checkpoint::{InlineState, Redistribution, RestoredStates};
use crate::files::{BlockingFiles, FileEvent, FileRequest, FileTicket, Files};
use crate::operator::{OperatorError, Sink};

/// Name of the state that holds a sink's pending transactions.
const PENDING: &str = "pending";

/// A [`Sink`] and its way to the writer.
pub(crate) struct SinkStage<S> {
    name: String,
    sink: S,
    files: Files,
}

impl<S> SinkStage<S> {
    pub(crate) fn new(name: String, sink: S) -> Self {
        Self { name, sink, files: Files::default() }
    }
}

impl<S: Sink> Stage<S::In> for SinkStage<S> {
    #[inline]
    fn process(&mut self, record: &S::In, cx: &mut Cx) {
        if let Err(error) = self.sink.write(record, &mut self.files) {
            cx.fail(&self.name, error);
        }
    }
}

impl<S: Sink> ChainOps for SinkStage<S> {
    #[inline]
    fn has_room(&self) -> bool {
        self.sink.has_room(&self.files)
    }

    fn make_room(&mut self) {}

    fn flush(&mut self) {}

    fn send(&mut self, _mark: Mark) -> bool {
        true
    }

    fn cancel(&mut self, _id: CheckpointId) {}

    fn snapshot(&mut self, id: CheckpointId, states: &mut Vec<InlineState>, cx: &mut Cx) {
        match self.sink.pre_commit(id, &mut self.files) {
            Ok(partitions) => states.push(InlineState {
                operator: self.name.clone(),
                name: PENDING.to_owned(),
                redistribution: Redistribution::Split,
                partitions,
            }),
            Err(error) => cx.fail(&self.name, error),
        }
    }

    fn is_sealed(&self, id: CheckpointId) -> bool {
        self.sink.is_sealed(id)
    }

    fn commit(&mut self, id: CheckpointId, cx: &mut Cx) {
        if let Err(error) = self.sink.commit(id, &mut self.files) {
            cx.fail(&self.name, error);
        }
    }

    fn abort(&mut self, id: CheckpointId) {
        self.sink.abort(id);
    }

    fn is_committed(&self, id: CheckpointId) -> bool {
        self.sink.is_committed(id)
    }

    fn recover(
        &mut self,
        restored: &RestoredStates<'_>,
        files: &mut dyn BlockingFiles,
    ) -> Result<Vec<String>, OperatorError> {
        self.sink.recover(restored.checkpoint(), &restored.partitions(&self.name, PENDING), files)
    }

    fn take_request(&mut self) -> Option<(FileTicket, FileRequest)> {
        self.files.take_request()
    }

    fn written(&mut self, bytes: usize) {
        self.files.written(bytes);
    }

    fn on_file(&mut self, event: FileEvent, cx: &mut Cx) {
        if let Err(error) = self.sink.on_file(event, &mut self.files) {
            cx.fail(&self.name, error);
        }
    }
}

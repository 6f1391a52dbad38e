//! A sink as the end of a chain.

use slackwater_core::ids::CheckpointId;

use crate::chain::{ChainOps, Cx, HeldSink, Stage};
use crate::channel::Mark;
use crate::checkpoint::{InlineState, Redistribution, RestoredStates};
use crate::files::{BlockingFiles, FileEvent, FileRequest, FileTicket, Files};
use crate::operator::{OperatorError, Severity, Sink};
use crate::record::{Batch, Record};

/// Name of the state that holds a sink's pending transactions.
const PENDING: &str = "pending";

/// A [`Sink`] and its way to the writer.
pub(crate) struct SinkStage<S: Sink> {
    name: String,
    /// None while it recovers elsewhere.
    sink: Option<S>,
    files: Files,
    /// Records that wait until all subtasks of the operator may begin.
    held: Option<<S::In as Record>::Batch>,
}

/// Bytes of records that may wait for their sink before its task does.
const HELD_LEN_MAX: usize = 4 << 20;

impl<S: Sink> SinkStage<S> {
    pub(crate) fn new(name: String, sink: S) -> Self {
        Self { name, sink: Some(sink), files: Files::default(), held: None }
    }

    fn write(&mut self, record: &S::In, cx: &mut Cx) {
        let written = self.sink.as_mut().map_or(Ok(()), |sink| sink.write(record, &mut self.files));
        if let Err(error) = written {
            cx.fail(&self.name, error);
        }
    }
}

impl<S: Sink> Stage<S::In> for SinkStage<S> {
    #[inline]
    fn process(&mut self, record: &S::In, cx: &mut Cx) {
        match &mut self.held {
            None => self.write(record, cx),
            Some(held) => held.push(record),
        }
    }
}

impl<S: Sink> ChainOps for SinkStage<S> {
    #[inline]
    fn has_room(&self) -> bool {
        match (&self.held, &self.sink) {
            (None, Some(sink)) => sink.has_room(&self.files),
            (Some(held), _) => held.size() < HELD_LEN_MAX,
            (None, None) => false,
        }
    }

    fn make_room(&mut self, cx: &mut Cx) {
        let polled = self.sink.as_mut().map_or(Ok(()), |sink| sink.poll(&mut self.files));
        if let Err(error) = polled {
            cx.fail(&self.name, error);
        }
    }

    fn flush(&mut self) -> bool {
        true
    }

    fn send(&mut self, _mark: Mark) -> bool {
        true
    }

    fn cancel(&mut self, _id: CheckpointId) {}

    fn snapshot(&mut self, id: CheckpointId, states: &mut Vec<InlineState>, cx: &mut Cx) {
        let (Some(sink), None) = (&mut self.sink, &self.held) else {
            return cx
                .fail(&self.name, OperatorError::new("a checkpoint came before the sink had recovered"));
        };
        match sink.pre_commit(id, &mut self.files) {
            Ok(partitions) => states.push(InlineState {
                operator: self.name.clone(),
                name: PENDING.to_owned(),
                redistribution: Redistribution::Split,
                partitions,
            }),
            Err(error) if error.severity() == Severity::Declines => cx.declined = Some(error),
            Err(error) => cx.fail(&self.name, error),
        }
    }

    fn is_sealed(&self, id: CheckpointId) -> bool {
        self.sink.as_ref().is_some_and(|sink| sink.is_sealed(id))
    }

    fn commit(&mut self, id: CheckpointId, cx: &mut Cx) {
        let committed = self.sink.as_mut().map_or(Ok(()), |sink| sink.commit(id, &mut self.files));
        if let Err(error) = committed {
            cx.fail(&self.name, error);
        }
    }

    fn abort(&mut self, id: CheckpointId) {
        if let Some(sink) = &mut self.sink {
            sink.abort(id);
        }
    }

    fn is_committed(&self, id: CheckpointId) -> bool {
        self.sink.as_ref().is_some_and(|sink| sink.is_committed(id))
    }

    fn recover(
        &mut self,
        restored: &RestoredStates<'_>,
        files: &mut dyn BlockingFiles,
    ) -> Result<Vec<String>, OperatorError> {
        let pending = restored.partitions(&self.name, PENDING);
        let sink = self.sink.as_mut();
        sink.map_or(Ok(Vec::new()), |sink| sink.recover(restored.checkpoint(), &pending, files))
    }

    fn hold(&mut self, restored: &RestoredStates<'_>, recovers: bool) -> Option<HeldSink> {
        self.held = Some(Default::default());
        let sink = if recovers { self.sink.take() } else { None };
        let pending = restored.partitions(&self.name, PENDING);
        sink.map(|sink| HeldSink { operator: self.name.clone(), sink: Box::new(sink), pending })
    }

    fn release(&mut self, recovered: Option<HeldSink>, cx: &mut Cx) {
        let recovered = recovered.and_then(|held| held.sink.into_any().downcast::<S>().ok());
        if let Some(sink) = recovered {
            self.sink = Some(*sink);
        }
        let held = self.held.take().unwrap_or_default();
        let mut records = (0..held.len()).filter_map(|index| held.get(index));
        records.by_ref().for_each(|record| self.write(record, cx));
    }

    fn take_request(&mut self) -> Option<(FileTicket, FileRequest)> {
        self.files.take_request()
    }

    fn written(&mut self, bytes: usize) {
        self.files.written(bytes);
    }

    fn on_file(&mut self, event: FileEvent, cx: &mut Cx) {
        let noted = self.sink.as_mut().map_or(Ok(()), |sink| sink.on_file(event, &mut self.files));
        if let Err(error) = noted {
            cx.fail(&self.name, error);
        }
    }
}

//! Operators chained inside a subtask: a record passes from one to the next by a call.

use slackwater_core::ids::{Barrier, CheckpointId};
use slackwater_core::key_group::KeyGroup;
use slackwater_core::time::{Millis, Now};
use slackwater_mem::{Heap, HeapError, Snapshot};

use crate::channel::Mark;
use crate::checkpoint::{InlineState, RestoredStates};
use crate::files::{BlockingFiles, FileEvent, FileRequest, FileTicket};
use crate::operator::{OperatorError, SubtaskInfo};
use crate::output::{Output, Receive};
use crate::record::Record;

mod held;
mod keyed;
mod sink;
mod transform;

pub(crate) use held::{HeldSink, HeldSinks};
pub(crate) use keyed::KeyedStage;
pub(crate) use sink::SinkStage;
pub(crate) use transform::TransformStage;

/// What all operators of a subtask share while they run.
#[derive(Debug)]
pub(crate) struct Cx {
    pub(crate) now: Now,
    /// Only where operators have keyed state.
    pub(crate) heap: Option<Heap>,
    /// Some of that state has yet to come.
    pub(crate) is_loading: bool,
    /// The key group of it that a record waits for.
    pub(crate) wanted: Option<KeyGroup>,
    /// The first error; nothing more is processed once there is one.
    pub(crate) failure: Option<(String, OperatorError)>,
    /// Why the checkpoint that is being taken has to be declined.
    pub(crate) declined: Option<OperatorError>,
}

impl Cx {
    pub(crate) fn new(heap: Option<Heap>, is_loading: bool) -> Self {
        Self { now: Now::default(), heap, is_loading, wanted: None, failure: None, declined: None }
    }

    /// Whether a key group's state has come; asks for it if not.
    pub(crate) fn has_state(&mut self, group: KeyGroup) -> bool {
        let is_awaited = self.heap.as_ref().is_some_and(|heap| heap.is_awaited(group));
        if is_awaited {
            self.wanted = Some(group);
        }
        !is_awaited
    }

    pub(crate) fn fail(&mut self, operator: &str, error: OperatorError) {
        self.failure.get_or_insert_with(|| (operator.to_owned(), error));
    }

    /// Whether there is memory for a few records, or no snapshot to wait for.
    pub(crate) fn has_memory(&mut self) -> bool {
        let Some(heap) = &mut self.heap else { return true };
        let bytes = RESERVE_BYTES.min(heap.options().memory_limit_bytes / RESERVE_SHARE);
        !matches!(heap.reserve(bytes), Err(HeapError::SnapshotHolds { .. }))
    }

    /// Freezes the keyed state; none if there is nothing in it.
    pub(crate) fn freeze(&mut self) -> Result<Option<Snapshot>, HeapError> {
        let snapshot = self.heap.as_mut().map(Heap::freeze).transpose()?;
        Ok(snapshot.filter(|snapshot| snapshot.states().any(|state| state.entries > 0)))
    }
}

/// What a few records must find free in the heap while a snapshot is written: they wait for it before they
/// begin, since none can stop half way. One that takes more may be refused, which ends the job.
const RESERVE_BYTES: u64 = 1 << 20;
/// But no more than one of so many bytes of the heap.
const RESERVE_SHARE: u64 = 8;

/// An operator and all that follow it, as seen by what comes before.
pub(crate) trait Stage<R: Record + ?Sized>: ChainOps {
    /// Takes a record; there is always room for the one in work.
    fn process(&mut self, record: &R, cx: &mut Cx);

    /// Whether the state that the record's key may have is there; asks for it if not.
    fn has_state(&mut self, _record: &R, _cx: &mut Cx) -> bool {
        true
    }
}

/// What does not depend on the type of records. A stage does its own part and passes the call on.
pub(crate) trait ChainOps: Send {
    /// Whether the next record may start.
    fn has_room(&self) -> bool;

    /// Tries again what stood in the way of room, and lets the sink go on.
    fn make_room(&mut self, cx: &mut Cx);

    /// Sends half-filled batches as far as there is room. True if nothing is left.
    fn flush(&mut self) -> bool;

    /// Sends a mark on every output, behind all records. False: call again when there is more room.
    fn send(&mut self, mark: Mark) -> bool;

    /// Lets a barrier that lies in the outputs overtake the records before it.
    fn overtake(&mut self, _barrier: Barrier) {}

    /// Sends a cancel marker on every output.
    fn cancel(&mut self, id: CheckpointId);

    /// Prepares the operators of subtask `info`, head to tail. Restored keyed state is in the heap already.
    fn open(
        &mut self,
        _restored: &RestoredStates<'_>,
        _info: &SubtaskInfo,
        _cx: &mut Cx,
    ) -> Result<(), OperatorError> {
        Ok(())
    }

    /// Sends again what was in flight to the next vertex at the restored checkpoint, before anything else is sent.
    ///
    /// # Errors
    /// It cannot be read, or not be given to so many subtasks.
    fn replay(&mut self, _states: &RestoredStates<'_>, _info: &SubtaskInfo) -> Result<(), OperatorError> {
        Ok(())
    }

    /// Tells the operators that all restored state is in the heap.
    fn on_restored(&mut self, _cx: &mut Cx) -> Result<(), OperatorError> {
        Ok(())
    }

    /// Lets the operators emit what must travel ahead of a barrier, head to tail, a bounded piece per call (rule X9). True
    /// when all is emitted.
    fn prepare(&mut self, _cx: &mut Cx) -> bool {
        true
    }

    /// The monotonic time at which an operator wants to be called although no record comes.
    fn next_deadline(&self) -> Option<Millis> {
        None
    }

    /// Calls the operators whose time has come; there is room behind.
    fn on_deadline(&mut self, _cx: &mut Cx) {}

    /// Lets the operators emit the rest, head to tail, a bounded piece per call. True when all is emitted.
    fn end_of_data(&mut self, _cx: &mut Cx) -> bool {
        true
    }

    /// Adds the states that go into the manifest.
    fn snapshot(&mut self, _id: CheckpointId, _states: &mut Vec<InlineState>, _cx: &mut Cx) {}

    /// Whether what belongs to the checkpoint outside the heap is durable.
    fn is_sealed(&self, _id: CheckpointId) -> bool {
        true
    }

    /// The checkpoint is complete.
    fn commit(&mut self, _id: CheckpointId, _cx: &mut Cx) {}

    /// The checkpoint is off.
    fn abort(&mut self, _id: CheckpointId) {}

    /// Whether everything up to the checkpoint is committed.
    fn is_committed(&self, _id: CheckpointId) -> bool {
        true
    }

    /// Before the job starts, once per operator: see `Sink::recover`.
    fn recover(
        &mut self,
        _restored: &RestoredStates<'_>,
        _files: &mut dyn BlockingFiles,
    ) -> Result<Vec<String>, OperatorError> {
        Ok(Vec::new())
    }

    /// Lets the sink wait until [`ChainOps::release`], and gives it away if it is the one that recovers.
    fn hold(&mut self, _restored: &RestoredStates<'_>, _recovers: bool) -> Option<HeldSink> {
        None
    }

    /// Lets the sink begin; with the sink if it was given away.
    fn release(&mut self, _recovered: Option<HeldSink>, _cx: &mut Cx) {}

    /// What the sink asks of the writer.
    fn take_request(&mut self) -> Option<(FileTicket, FileRequest)> {
        None
    }

    /// So many appended bytes are with the disk.
    fn written(&mut self, _bytes: usize) {}

    /// A request of the sink has ended.
    fn on_file(&mut self, _event: FileEvent, _cx: &mut Cx) {}
}

/// Passes the calls of [`ChainOps`] that a stage has no part in to `self.next`.
macro_rules! pass_on {
    () => {
        fn has_room(&self) -> bool {
            self.next.has_room()
        }
        fn make_room(&mut self, cx: &mut Cx) {
            self.next.make_room(cx);
        }
        fn flush(&mut self) -> bool {
            self.next.flush()
        }
        fn send(&mut self, mark: crate::channel::Mark) -> bool {
            self.next.send(mark)
        }
        fn overtake(&mut self, barrier: slackwater_core::ids::Barrier) {
            self.next.overtake(barrier);
        }
        fn cancel(&mut self, id: CheckpointId) {
            self.next.cancel(id);
        }
        fn replay(
            &mut self,
            states: &crate::checkpoint::RestoredStates<'_>,
            info: &crate::operator::SubtaskInfo,
        ) -> Result<(), OperatorError> {
            self.next.replay(states, info)
        }
        fn is_sealed(&self, id: CheckpointId) -> bool {
            self.next.is_sealed(id)
        }
        fn commit(&mut self, id: CheckpointId, cx: &mut Cx) {
            self.next.commit(id, cx);
        }
        fn abort(&mut self, id: CheckpointId) {
            self.next.abort(id);
        }
        fn is_committed(&self, id: CheckpointId) -> bool {
            self.next.is_committed(id)
        }
        fn recover(
            &mut self,
            restored: &crate::checkpoint::RestoredStates<'_>,
            files: &mut dyn crate::files::BlockingFiles,
        ) -> Result<Vec<String>, OperatorError> {
            self.next.recover(restored, files)
        }
        fn hold(
            &mut self,
            restored: &crate::checkpoint::RestoredStates<'_>,
            recovers: bool,
        ) -> Option<crate::chain::HeldSink> {
            self.next.hold(restored, recovers)
        }
        fn release(&mut self, recovered: Option<crate::chain::HeldSink>, cx: &mut Cx) {
            self.next.release(recovered, cx);
        }
        fn take_request(&mut self) -> Option<(crate::files::FileTicket, crate::files::FileRequest)> {
            self.next.take_request()
        }
        fn written(&mut self, bytes: usize) {
            self.next.written(bytes);
        }
        fn on_file(&mut self, event: crate::files::FileEvent, cx: &mut Cx) {
            self.next.on_file(event, cx);
        }
    };
}
pub(crate) use pass_on;

/// Passes what an operator emits to the next stage.
pub(crate) struct Emit<'a, R: Record + ?Sized> {
    pub(crate) next: &'a mut dyn Stage<R>,
    pub(crate) cx: &'a mut Cx,
    /// How many records have passed.
    pub(crate) records: u64,
}

impl<R: Record + ?Sized> Receive<R> for Emit<'_, R> {
    #[inline]
    fn receive(&mut self, record: &R) {
        self.records += 1;
        self.next.process(record, self.cx);
    }

    fn has_room(&self) -> bool {
        self.next.has_room()
    }
}

/// A function that makes any number of records of each.
pub(crate) struct FlatMapStage<F, O: Record + ?Sized> {
    pub(crate) function: F,
    pub(crate) next: Box<dyn Stage<O>>,
}

impl<I, O, F> Stage<I> for FlatMapStage<F, O>
where
    I: Record + ?Sized,
    O: Record + ?Sized,
    F: FnMut(&I, &mut Output<'_, O>) + Send,
{
    fn process(&mut self, record: &I, cx: &mut Cx) {
        (self.function)(record, &mut Output::new(&mut Emit { next: &mut *self.next, cx, records: 0 }));
    }
}

impl<F: Send, O: Record + ?Sized> ChainOps for FlatMapStage<F, O> {
    pass_on!();

    fn open(
        &mut self,
        restored: &RestoredStates<'_>,
        info: &SubtaskInfo,
        cx: &mut Cx,
    ) -> Result<(), OperatorError> {
        self.next.open(restored, info, cx)
    }

    fn snapshot(&mut self, id: CheckpointId, states: &mut Vec<InlineState>, cx: &mut Cx) {
        self.next.snapshot(id, states, cx);
    }

    fn on_restored(&mut self, cx: &mut Cx) -> Result<(), OperatorError> {
        self.next.on_restored(cx)
    }

    fn prepare(&mut self, cx: &mut Cx) -> bool {
        self.next.prepare(cx)
    }

    fn next_deadline(&self) -> Option<Millis> {
        self.next.next_deadline()
    }

    fn on_deadline(&mut self, cx: &mut Cx) {
        self.next.on_deadline(cx);
    }

    fn end_of_data(&mut self, cx: &mut Cx) -> bool {
        self.next.end_of_data(cx)
    }
}

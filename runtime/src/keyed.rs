//! Processing by key, with state.

use std::fmt;

use slackwater_core::time::Now;
use slackwater_mem::{Codec, Heap};

use crate::chain::{Cx, Stage};
use crate::operator::{OperatorError, SubtaskInfo};
use crate::record::Record;

/// Processes records that carry the same key one after the other, with state that checkpoints cover
/// (Flink: `KeyedProcessFunction`). One instance per subtask; it sees only keys of its own key groups.
pub trait KeyedProcess: Send + 'static {
    /// How keys are told apart, spread over subtasks and stored.
    type Key: Codec + 'static;
    /// What it takes.
    type In: Record + ?Sized;
    /// What it emits.
    type Out: Record + ?Sized;

    /// Registers its states. Restored entries are there already, but for a job with
    /// [`lazy_restore`](crate::JobOptions::lazy_restore).
    ///
    /// # Errors
    /// Ends the job.
    fn open(&mut self, setup: &mut Setup<'_>) -> Result<(), OperatorError>;

    /// All restored entries are there, those included that records have changed since then: called once, before the
    /// first checkpoint, for whoever wants to look at all of them.
    ///
    /// # Errors
    /// Ends the job.
    fn on_restored(&mut self, setup: &mut Setup<'_>) -> Result<(), OperatorError> {
        let _nothing = setup;
        Ok(())
    }

    /// Takes a record.
    ///
    /// # Errors
    /// Ends the job.
    fn process(
        &mut self,
        key: &<Self::Key as Codec>::Item,
        record: &Self::In,
        context: &mut Context<'_, Self::Out>,
    ) -> Result<(), OperatorError>;

    /// A barrier is about to be sent: emits what must travel ahead of it, a bounded piece per call (rule X9). For a process
    /// that keeps something outside its states. Waits for no room, so what it keeps has to be bounded; called until it is
    /// done, and no record comes in between.
    ///
    /// # Errors
    /// Ends the job.
    fn before_barrier(&mut self, context: &mut Context<'_, Self::Out>) -> Result<Rest, OperatorError> {
        let _nothing = context;
        Ok(Rest::Done)
    }

    /// No more records follow: emits what is left, a bounded piece per call (about one page of state).
    /// Not called again in a job restored from a checkpoint taken after it was done.
    ///
    /// # Errors
    /// Ends the job.
    fn on_end_of_data(&mut self, context: &mut Context<'_, Self::Out>) -> Result<Rest, OperatorError> {
        let _nothing = context;
        Ok(Rest::Done)
    }
}

/// Whether an operator has more to emit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rest {
    /// Call again.
    More,
    /// Everything is emitted.
    Done,
}

/// What an operator prepares itself with.
#[derive(Debug)]
pub struct Setup<'a> {
    /// The state of the subtask.
    pub heap: &'a mut Heap,
    /// Which instance this is.
    pub info: &'a SubtaskInfo,
}

/// What a keyed process works with.
pub struct Context<'a, R: Record + ?Sized> {
    next: &'a mut dyn Stage<R>,
    cx: &'a mut Cx,
}

impl<'a, R: Record + ?Sized> Context<'a, R> {
    pub(crate) fn new(next: &'a mut dyn Stage<R>, cx: &'a mut Cx) -> Self {
        Self { next, cx }
    }

    /// Passes a record on.
    #[inline]
    pub fn emit(&mut self, record: &R) {
        self.next.process(record, self.cx);
    }

    /// Whether everything behind has room for another record.
    #[inline]
    #[must_use]
    pub fn has_room(&self) -> bool {
        self.next.has_room()
    }

    /// The state of the subtask, for reading.
    #[inline]
    #[must_use]
    pub const fn heap(&self) -> &Heap {
        self.cx.heap.as_ref().expect("a subtask with a keyed process has a heap")
    }

    /// The state of the subtask.
    #[inline]
    #[must_use]
    pub const fn heap_mut(&mut self) -> &mut Heap {
        self.cx.heap.as_mut().expect("a subtask with a keyed process has a heap")
    }

    /// The time at the start of the current step.
    #[must_use]
    pub const fn now(&self) -> Now {
        self.cx.now
    }
}

impl<R: Record + ?Sized> fmt::Debug for Context<'_, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Context")
    }
}

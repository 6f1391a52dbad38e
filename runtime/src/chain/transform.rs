//! A transform as a stage of a chain.

use slackwater_core::ids::CheckpointId;
use slackwater_core::time::Millis;

use crate::chain::{ChainOps, Cx, Emit, Stage, pass_on};
use crate::checkpoint::{InlineState, RestoredStates};
use crate::keyed::Rest;
use crate::list_state::{ListStates, RestoredLists};
use crate::operator::{OperatorError, SubtaskInfo};
use crate::output::Output;
use crate::transform::Transform;

/// A [`Transform`] and what follows it.
pub(crate) struct TransformStage<T: Transform> {
    name: String,
    transform: T,
    /// The rest has been emitted.
    is_done: bool,
    next: Box<dyn Stage<T::Out>>,
}

impl<T: Transform> TransformStage<T> {
    pub(crate) const fn new(name: String, transform: T, next: Box<dyn Stage<T::Out>>) -> Self {
        Self { name, transform, is_done: false, next }
    }

    /// Lets the transform emit something; what it said, unless that was an error.
    fn call<R>(
        &mut self,
        cx: &mut Cx,
        body: impl FnOnce(&mut T, &mut Output<'_, T::Out>) -> Result<R, OperatorError>,
    ) -> Option<R> {
        let mut emit = Emit { next: &mut *self.next, cx, records: 0 };
        let called = body(&mut self.transform, &mut Output::new(&mut emit));
        called.map_err(|error| cx.fail(&self.name, error)).ok()
    }
}

impl<T: Transform> Stage<T::In> for TransformStage<T> {
    #[inline]
    fn process(&mut self, record: &T::In, cx: &mut Cx) {
        let now = cx.now;
        self.call(cx, |transform, out| transform.on_record(record, now, out));
    }
}

impl<T: Transform> ChainOps for TransformStage<T> {
    pass_on!();

    fn open(
        &mut self,
        restored: &RestoredStates<'_>,
        info: &SubtaskInfo,
        cx: &mut Cx,
    ) -> Result<(), OperatorError> {
        if let Some(lists) = RestoredLists::of(&self.name, info, restored) {
            self.transform.restore(&lists)?;
        }
        self.next.open(restored, info, cx)
    }

    fn snapshot(&mut self, id: CheckpointId, states: &mut Vec<InlineState>, cx: &mut Cx) {
        // Tail to head (rule X11).
        self.next.snapshot(id, states, cx);
        if let Err(error) = self.transform.snapshot(&mut ListStates::new(&self.name, states)) {
            cx.fail(&self.name, error);
        }
    }

    fn on_restored(&mut self, cx: &mut Cx) -> Result<(), OperatorError> {
        self.next.on_restored(cx)
    }

    fn prepare(&mut self, cx: &mut Cx) -> bool {
        self.call(cx, T::before_barrier) == Some(Rest::Done) && self.next.prepare(cx)
    }

    fn end_of_data(&mut self, cx: &mut Cx) -> bool {
        self.is_done = self.is_done || self.call(cx, T::on_end_of_data) == Some(Rest::Done);
        self.is_done && self.next.end_of_data(cx)
    }

    fn next_deadline(&self) -> Option<Millis> {
        self.transform.next_deadline().into_iter().chain(self.next.next_deadline()).min()
    }

    fn on_deadline(&mut self, cx: &mut Cx) {
        let now = cx.now;
        if self.transform.next_deadline().is_some_and(|at| at <= now.monotonic) {
            self.call(cx, |transform, out| transform.on_deadline(now, out));
        }
        self.next.on_deadline(cx);
    }
}

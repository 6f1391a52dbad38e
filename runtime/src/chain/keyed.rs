//! A keyed process as a stage of a chain.

use slackwater_core::ids::CheckpointId;
use slackwater_core::key_group::{MaxParallelism, key_group_of_hash};
use slackwater_core::time::Millis;
use slackwater_mem::Codec;

use crate::chain::{ChainOps, Cx, Stage, pass_on};
use crate::checkpoint::{InlineState, RestoredStates};
use crate::keyed::{Context, KeyedProcess, Rest, Setup};
use crate::operator::{OperatorError, SubtaskInfo};

/// A [`KeyedProcess`] with the function that gives the key of a record.
pub(crate) struct KeyedStage<P: KeyedProcess, K> {
    info: SubtaskInfo,
    process: P,
    key: K,
    max_parallelism: MaxParallelism,
    /// The rest has been emitted.
    is_done: bool,
    next: Box<dyn Stage<P::Out>>,
}

impl<P: KeyedProcess, K> KeyedStage<P, K> {
    pub(crate) fn new(info: &SubtaskInfo, process: P, key: K, next: Box<dyn Stage<P::Out>>) -> Self {
        let max_parallelism = MaxParallelism::new(info.max_parallelism.into());
        let max_parallelism = max_parallelism.expect("the job has been validated");
        Self { info: info.clone(), process, key, max_parallelism, is_done: false, next }
    }
}

impl<P, K> Stage<P::In> for KeyedStage<P, K>
where
    P: KeyedProcess,
    K: Fn(&P::In) -> &<P::Key as Codec>::Item + Send,
{
    fn process(&mut self, record: &P::In, cx: &mut Cx) {
        let mut context = Context::new(&mut *self.next, cx);
        if let Err(error) = self.process.process((self.key)(record), record, &mut context) {
            cx.fail(&self.info.operator, error);
        }
    }

    fn has_state(&mut self, record: &P::In, cx: &mut Cx) -> bool {
        let hash = P::Key::key_group_hash((self.key)(record));
        cx.has_state(key_group_of_hash(hash, self.max_parallelism))
    }
}

impl<P: KeyedProcess, K: Send> ChainOps for KeyedStage<P, K> {
    pass_on!();

    fn open(
        &mut self,
        restored: &RestoredStates<'_>,
        info: &SubtaskInfo,
        cx: &mut Cx,
    ) -> Result<(), OperatorError> {
        let heap = cx.heap.as_mut().expect("a subtask with a keyed process has a heap");
        self.process.open(&mut Setup { heap, info: &self.info })?;
        self.next.open(restored, info, cx)
    }

    fn snapshot(&mut self, id: CheckpointId, states: &mut Vec<InlineState>, cx: &mut Cx) {
        self.next.snapshot(id, states, cx);
    }

    fn on_restored(&mut self, cx: &mut Cx) -> Result<(), OperatorError> {
        let heap = cx.heap.as_mut().expect("a subtask with a keyed process has a heap");
        self.process.on_restored(&mut Setup { heap, info: &self.info })?;
        self.next.on_restored(cx)
    }

    fn prepare(&mut self, cx: &mut Cx) -> bool {
        match self.process.before_barrier(&mut Context::new(&mut *self.next, cx)) {
            Ok(Rest::More) => return false,
            Ok(Rest::Done) => {}
            Err(error) => {
                cx.fail(&self.info.operator, error);
                return false;
            }
        }
        self.next.prepare(cx)
    }

    fn next_deadline(&self) -> Option<Millis> {
        self.next.next_deadline()
    }

    fn on_deadline(&mut self, cx: &mut Cx) {
        self.next.on_deadline(cx);
    }

    fn end_of_data(&mut self, cx: &mut Cx) -> bool {
        if !self.is_done {
            match self.process.on_end_of_data(&mut Context::new(&mut *self.next, cx)) {
                Ok(Rest::More) => return false,
                Ok(Rest::Done) => self.is_done = true,
                Err(error) => {
                    cx.fail(&self.info.operator, error);
                    return false;
                }
            }
        }
        self.next.end_of_data(cx)
    }
}

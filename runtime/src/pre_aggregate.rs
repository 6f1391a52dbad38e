//! Aggregation in front of an exchange: records of one key become one before they travel.
//!
//! What is kept is bounded and is no part of any checkpoint: it is emitted before each barrier, when it has been kept for
//! too long, and at the end. A job's results do not depend on it, only how many records go through the exchange.

mod table;
#[cfg(test)]
mod tests;

use slackwater_core::time::{Millis, Now};

use self::table::Table;
use crate::keyed::Rest;
use crate::operator::OperatorError;
use crate::output::Output;
use crate::record::Record;
use crate::transform::Transform;

/// How records of one key become one.
pub trait Combine: Send + 'static {
    /// What comes.
    type In: Record + ?Sized;
    /// What is passed on: a key with a partial result.
    type Out: Record + ?Sized;
    /// What records of one key come to; by default what no records come to.
    type Partial: Copy + Default + Send;

    /// The bytes that tell the key of a record from others.
    fn key(record: &Self::In) -> &[u8];

    /// Adds a record.
    fn add(partial: &mut Self::Partial, record: &Self::In);

    /// Passes a partial result on.
    fn emit(&mut self, key: &[u8], partial: &Self::Partial, out: &mut Output<'_, Self::Out>);
}

/// How much is kept, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PreAggregateOptions {
    /// Partial results in each subtask, at most 65536; rounded up to a power of two. What finds no place among them is
    /// passed on. More than fit the caches of a core make it slow.
    pub keys: usize,
    /// Bytes for those keys that are longer than 16 bytes, in each subtask.
    pub long_key_bytes: usize,
    /// After this time of no barrier what is kept is passed on all the same.
    pub delay: Millis,
}

impl Default for PreAggregateOptions {
    /// 8192 keys, 256 KiB of long ones, 100 ms.
    fn default() -> Self {
        Self { keys: 8192, long_key_bytes: 256 << 10, delay: Millis(100) }
    }
}

/// The most partial results in one subtask: they are emitted in one step.
const KEYS_MAX: usize = 1 << 16;
/// The most bytes of long keys in one subtask.
const LONG_KEY_BYTES_MAX: usize = 16 << 20;

/// Aggregates before an exchange.
pub(crate) struct PreAggregate<C: Combine> {
    combine: C,
    table: Table<C::Partial>,
    delay: Millis,
    /// When the first of what is kept came.
    since: Millis,
}

impl<C: Combine> PreAggregate<C> {
    pub(crate) fn new(combine: C, options: PreAggregateOptions) -> Self {
        let (keys, bytes) = (options.keys.min(KEYS_MAX), options.long_key_bytes.min(LONG_KEY_BYTES_MAX));
        Self { combine, table: Table::new(keys, bytes), delay: options.delay, since: Millis(0) }
    }

    fn pass_on(&mut self, out: &mut Output<'_, C::Out>) {
        let combine = &mut self.combine;
        self.table.drain(&mut |key, partial| combine.emit(key, &partial, out));
    }
}

impl<C: Combine> Transform for PreAggregate<C> {
    type In = C::In;
    type Out = C::Out;

    #[inline]
    fn on_record(
        &mut self,
        record: &C::In,
        now: Now,
        out: &mut Output<'_, C::Out>,
    ) -> Result<(), OperatorError> {
        if self.table.is_empty() {
            self.since = now.monotonic;
        }
        let combine = &mut self.combine;
        let mut gives_way = |key: &[u8], partial| combine.emit(key, &partial, out);
        self.table.add(C::key(record), |partial| C::add(partial, record), &mut gives_way);
        Ok(())
    }

    fn before_barrier(&mut self, out: &mut Output<'_, C::Out>) -> Result<Rest, OperatorError> {
        self.pass_on(out);
        Ok(Rest::Done)
    }

    fn next_deadline(&self) -> Option<Millis> {
        (!self.table.is_empty()).then(|| self.since.after(self.delay))
    }

    fn on_deadline(&mut self, _now: Now, out: &mut Output<'_, C::Out>) -> Result<(), OperatorError> {
        self.pass_on(out);
        Ok(())
    }
}

//! The operators of simulated jobs: a keyed process for each kind of state, and one that keeps records back.

use std::fmt::Display;

use slackwater::key_group::MaxParallelism;
use slackwater::keyed::{Context, KeyedProcess, Rest, Setup};
use slackwater::mem::{
    Bytes, Decode, Heap, ListState, MapState, Plain, ScanCursor, Timers, Value, ValueState,
};
use slackwater::operator::OperatorError;
use slackwater::output::Output;
use slackwater::time::{Millis, Now};
use slackwater::transform::Transform;

use crate::hooks::{Hooks, Place};
use crate::plan::{Keyed, Mutant};
use crate::record::{counted, number_of, split_of, tallied};

/// Records are held until one comes whose number is so much higher.
const HELD: i64 = 9;
/// Records that one call emits at the end.
const REST_PER_CALL: usize = 5;

type Counts = ValueState<Bytes, Plain<u64>>;

/// A process with its state, once it is open.
pub(crate) struct Process {
    kind: Keyed,
    hooks: Hooks,
    state: Option<State>,
    /// All of the state is there, and may be looked at.
    is_restored: bool,
    /// How far the end has come.
    cursor: ScanCursor,
}

enum State {
    Count(Counts),
    Tally(MapState<Bytes, Bytes, Plain<u64>>),
    Hold(Timers<Bytes, Bytes>),
    /// With the number of records of each key.
    Gather(ListState<Bytes, Bytes>, Counts),
    /// The last number of each split.
    Ordered(MapState<Bytes, Plain<u16>, Plain<u64>>),
}

impl Process {
    pub(crate) fn new(kind: Keyed, hooks: Hooks) -> Self {
        Self { kind, hooks, state: None, is_restored: false, cursor: ScanCursor::default() }
    }

    fn register(&self, setup: &mut Setup<'_>) -> Result<State, OperatorError> {
        let max = MaxParallelism::new(u32::from(setup.info.max_parallelism)).map_err(refused)?;
        let (heap, operator) = (&mut *setup.heap, setup.info.operator.as_str());
        Ok(match self.kind {
            Keyed::Count => State::Count(Counts::register(heap, operator, "counts", max).map_err(refused)?),
            Keyed::Tally => State::Tally(MapState::register(heap, operator, "seen", max).map_err(refused)?),
            Keyed::Hold => State::Hold(Timers::register(heap, operator, "held", max).map_err(refused)?),
            Keyed::Gather => State::Gather(
                ListState::register(heap, operator, "records", max).map_err(refused)?,
                Counts::register(heap, operator, "numbers", max).map_err(refused)?,
            ),
            Keyed::Ordered => {
                State::Ordered(MapState::register(heap, operator, "last", max).map_err(refused)?)
            }
        })
    }
}

impl KeyedProcess for Process {
    type Key = Bytes;
    type In = [u8];
    type Out = [u8];

    fn open(&mut self, setup: &mut Setup<'_>) -> Result<(), OperatorError> {
        self.hooks.at(Place::Open)?;
        self.state = Some(self.register(setup)?);
        Ok(())
    }

    fn on_restored(&mut self, _setup: &mut Setup<'_>) -> Result<(), OperatorError> {
        self.is_restored = true;
        Ok(())
    }

    fn process(
        &mut self,
        key: &[u8],
        record: &[u8],
        context: &mut Context<'_, [u8]>,
    ) -> Result<(), OperatorError> {
        self.hooks.at(Place::Process)?;
        match self.state.as_mut().expect("open comes first") {
            State::Count(counts) => {
                let count = increment(counts, context.heap_mut(), key)?;
                context.emit(&counted(record, count));
            }
            State::Tally(seen) => {
                let count = seen.get(context.heap(), key, record).map_err(refused)?.unwrap_or(0) + 1;
                seen.put(context.heap_mut(), key, record, &count).map_err(refused)?;
                context.emit(&tallied(record, count));
            }
            State::Hold(timers) => {
                let now = i64::try_from(number_of(record)).expect("four digits");
                let is_new = timers.add(context.heap_mut(), now, (key, record)).map_err(refused)?;
                if !is_new {
                    self.hooks.note("records that were held already");
                }
                while self.is_restored && release(timers, now - HELD, context)? {}
            }
            State::Gather(records, numbers) => {
                records.add(context.heap_mut(), key, record).map_err(refused)?;
                increment(numbers, context.heap_mut(), key)?;
            }
            State::Ordered(last) => {
                let (split, number) = (split_of(record), number_of(record));
                let before = last.get(context.heap(), key, &split).map_err(refused)?;
                // A fork gives two records the same number.
                if before.is_some_and(|before| before > number) && self.hooks.is_ordered() {
                    let key = String::from_utf8_lossy(key);
                    self.hooks.violate(format!(
                        "record {number} of key {key}, split {split}, came behind {before:?}"
                    ));
                }
                last.put(context.heap_mut(), key, &split, &number).map_err(refused)?;
                context.emit(record);
            }
        }
        Ok(())
    }

    fn on_end_of_data(&mut self, context: &mut Context<'_, [u8]>) -> Result<Rest, OperatorError> {
        self.hooks.at(Place::EndOfData)?;
        match self.state.as_mut().expect("open comes first") {
            State::Count(_) | State::Tally(_) | State::Ordered(_) => Ok(Rest::Done),
            State::Hold(timers) => {
                for _ in 0..REST_PER_CALL {
                    if !release(timers, i64::MAX, context)? {
                        let left = context.heap().len(timers.id());
                        if left > 0 {
                            self.hooks.violate(format!("{left} timers are left that were never due"));
                        }
                        return Ok(Rest::Done);
                    }
                }
                Ok(Rest::More)
            }
            State::Gather(records, numbers) => {
                let mut keys = Vec::new();
                let mut note = |key: Value<'_>, _: Value<'_>| keys.push(Bytes::decode(&key));
                let more = context.heap().scan(numbers.id(), &mut self.cursor, &mut note).map_err(refused)?;
                for key in keys {
                    let key = key.map_err(refused)?;
                    let found: Result<Vec<_>, _> =
                        records.get(context.heap(), &key[..]).map_err(refused)?.collect();
                    found.map_err(refused)?.iter().for_each(|record| context.emit(record));
                }
                Ok(if more { Rest::More } else { Rest::Done })
            }
        }
    }
}

/// Keeps records back until there are enough, for a while, or until a barrier comes.
pub(crate) struct Bundle {
    kept: Vec<Vec<u8>>,
    kept_max: usize,
    deadline: Option<Millis>,
    hooks: Hooks,
}

/// How long records are kept back.
const KEPT_FOR: Millis = Millis(30);

impl Bundle {
    pub(crate) const fn new(kept_max: usize, hooks: Hooks) -> Self {
        Self { kept: Vec::new(), kept_max, deadline: None, hooks }
    }

    fn flush(&mut self, out: &mut Output<'_, [u8]>) {
        self.deadline = None;
        self.kept.drain(..).for_each(|record| out.emit(&record));
    }
}

impl Transform for Bundle {
    type In = [u8];
    type Out = [u8];

    fn on_record(
        &mut self,
        record: &[u8],
        now: Now,
        out: &mut Output<'_, [u8]>,
    ) -> Result<(), OperatorError> {
        self.hooks.at(Place::Function)?;
        self.kept.push(record.to_vec());
        self.deadline.get_or_insert_with(|| now.monotonic.after(KEPT_FOR));
        if self.kept.len() > self.kept_max {
            self.flush(out);
        }
        Ok(())
    }

    fn before_barrier(&mut self, out: &mut Output<'_, [u8]>) -> Result<Rest, OperatorError> {
        if !self.kept.is_empty() {
            self.hooks.note("bundles that a barrier has opened");
        }
        if !self.hooks.has(Mutant::NoFlushBeforeBarrier) {
            self.flush(out);
        }
        Ok(Rest::Done)
    }

    fn on_end_of_data(&mut self, out: &mut Output<'_, [u8]>) -> Result<Rest, OperatorError> {
        self.flush(out);
        Ok(Rest::Done)
    }

    fn next_deadline(&self) -> Option<Millis> {
        self.deadline
    }

    fn on_deadline(&mut self, _now: Now, out: &mut Output<'_, [u8]>) -> Result<(), OperatorError> {
        self.hooks.note("bundles that time has opened");
        self.flush(out);
        Ok(())
    }
}

fn increment(counts: &Counts, heap: &mut Heap, key: &[u8]) -> Result<u64, OperatorError> {
    let mut count = 0;
    let updated = counts.update(heap, key, |before| {
        count = before.unwrap_or(0) + 1;
        count
    });
    updated.map_err(refused).map(|()| count)
}

/// Emits a record that was held, if one is due.
fn release(
    timers: &mut Timers<Bytes, Bytes>,
    up_to: i64,
    context: &mut Context<'_, [u8]>,
) -> Result<bool, OperatorError> {
    let due = timers.pop_due(context.heap_mut(), up_to).map_err(refused)?;
    let is_due = due.is_some();
    due.into_iter().for_each(|timer| context.emit(&timer.key.1));
    Ok(is_due)
}

fn refused(error: impl Display) -> OperatorError {
    OperatorError::new(error.to_string())
}

//! Operators that keep records back.

use std::task::Waker;

use slackwater_core::time::{Millis, Now};

use super::{Collect, Committed, Disk, END, Numbers, assert_exact, drive, options, run};
use crate::actor::{Parked, ParkedOn, Step, lock};
use crate::graph::JobBuilder;
use crate::job::{Job, JobOptions};
use crate::keyed::{Context, KeyedProcess, Rest, Setup};
use crate::mem::Plain;
use crate::operator::{OperatorError, Source, SourceStatus};
use crate::output::Output;
use crate::savepoint::{RestoreFrom, RestoreMode};
use crate::stop::StopMode;
use crate::transform::Transform;

/// Keeps up to so many numbers back, gives them away in pieces, the last one first.
struct Keep {
    kept: Vec<u64>,
    kept_max: usize,
    since: Millis,
}

/// How many numbers a piece has.
const PIECE: usize = 3;
/// For how long numbers may be kept.
const DELAY: Millis = Millis(20);

impl Keep {
    const fn new(kept_max: usize) -> Self {
        Self { kept: Vec::new(), kept_max, since: Millis(0) }
    }

    fn piece(&mut self, mut emit: impl FnMut(&u64)) -> Rest {
        let left = self.kept.len().saturating_sub(PIECE);
        self.kept.drain(left..).rev().for_each(|number| emit(&number));
        if left == 0 { Rest::Done } else { Rest::More }
    }

    fn take(&mut self, number: u64, now: Now, emit: impl FnMut(&u64)) {
        if self.kept.is_empty() {
            self.since = now.monotonic;
        }
        if self.kept.len() == self.kept_max {
            self.piece(emit);
        }
        self.kept.push(number);
    }
}

impl Transform for Keep {
    type In = u64;
    type Out = u64;

    fn on_record(&mut self, record: &u64, now: Now, out: &mut Output<'_, u64>) -> Result<(), OperatorError> {
        self.take(*record, now, |number| out.emit(number));
        Ok(())
    }

    fn before_barrier(&mut self, out: &mut Output<'_, u64>) -> Result<Rest, OperatorError> {
        Ok(self.piece(|number| out.emit(number)))
    }

    fn next_deadline(&self) -> Option<Millis> {
        (!self.kept.is_empty()).then(|| self.since.after(DELAY))
    }

    fn on_deadline(&mut self, _now: Now, out: &mut Output<'_, u64>) -> Result<(), OperatorError> {
        self.piece(|number| out.emit(number));
        Ok(())
    }
}

/// The same by key, outside its state.
struct KeepByKey(Keep);

impl KeyedProcess for KeepByKey {
    type Key = Plain<u64>;
    type In = u64;
    type Out = u64;

    fn open(&mut self, _setup: &mut Setup<'_>) -> Result<(), OperatorError> {
        Ok(())
    }

    fn process(
        &mut self,
        _key: &u64,
        record: &u64,
        context: &mut Context<'_, u64>,
    ) -> Result<(), OperatorError> {
        let now = context.now();
        self.0.take(*record, now, |number| context.emit(number));
        Ok(())
    }

    fn before_barrier(&mut self, context: &mut Context<'_, u64>) -> Result<Rest, OperatorError> {
        Ok(self.0.piece(|number| context.emit(number)))
    }

    fn on_end_of_data(&mut self, context: &mut Context<'_, u64>) -> Result<Rest, OperatorError> {
        Ok(self.0.piece(|number| context.emit(number)))
    }
}

fn collect(committed: &Committed) -> Collect {
    Collect { committed: committed.clone(), current: Vec::new(), pending: Vec::new() }
}

/// Numbers, each doubled, kept back by three operators one behind the other.
fn job(committed: &Committed) -> JobBuilder {
    let committed = committed.clone();
    let mut job = JobBuilder::new("kept", 128);
    job.source("source", 2, |info| Numbers {
        next: info.index.into(),
        end: END,
        step: info.parallelism.into(),
    })
    .transform("first", |_| Keep::new(50))
    .flat_map("double", |number: &u64, out: &mut Output<'_, u64>| out.emit(&(number * 2)))
    .transform("second", |_| Keep::new(7))
    .key_by::<Plain<u64>, _>(|number: &u64| number)
    .process("third", 3, |_| KeepByKey(Keep::new(20)))
    .sink("collect", move |_| collect(&committed));
    job
}

#[test]
fn x9_what_operators_keep_back_travels_ahead_of_the_barrier_however_often_the_job_dies() {
    for cut in [7, 23, 40, 41, 42, 43, 44, 57, 100] {
        let (disk, committed) = (Disk::new(), Committed::default());
        let mut resumed = 0;
        for attempt in 1.. {
            let assembled = Job::assemble(job(&committed), disk.clone(), Now::default(), &options(attempt));
            let mut job = match assembled {
                Err(crate::JobError::AlreadyFinished { .. }) => break,
                job => job.unwrap(),
            };
            resumed += u64::from(job.resumed_from.is_some());
            let mut left = cut + attempt * 5;
            drive(&mut job.take_actors(), || {
                left -= 1;
                left == 0
            });
        }
        assert!(resumed > 0, "cut after {cut} rounds");
        assert_exact(&committed);
    }
}

/// Emits a batch of numbers, then nothing for ever.
struct Batch(bool);

impl Source for Batch {
    type Out = u64;

    fn restore(&mut self, _splits: Vec<Vec<u8>>) -> Result<(), OperatorError> {
        Ok(())
    }

    fn read(&mut self, out: &mut Output<'_, u64>) -> Result<SourceStatus, OperatorError> {
        if !std::mem::replace(&mut self.0, true) {
            (0..4096).for_each(|number| out.emit(&number));
        }
        Ok(SourceStatus::More)
    }

    fn snapshot(&mut self) -> Vec<Vec<u8>> {
        Vec::new()
    }
}

#[test]
fn an_idle_task_rests_until_what_it_keeps_back_is_due() {
    let committed = Committed::default();
    let mut builder = JobBuilder::new("idle", 128);
    let to = committed.clone();
    builder
        .source("batch", 1, |_| Batch(false))
        .rebalance("spread", 1)
        .transform("keep", |_| Keep::new(100))
        .sink("collect", move |_| collect(&to));
    let options = JobOptions { interval: None, ..options(1) };
    let mut job = Job::assemble(builder, Disk::new(), Now::default(), &options).unwrap();
    let mut actors = job.take_actors();
    actors.iter_mut().for_each(|actor| actor.set_waker(Waker::noop().clone()));
    let now = |millis| Now { monotonic: Millis(millis), wall: Millis(millis) };
    for _ in 0..5 {
        actors[0].step(now(5));
    }
    while actors[1].step(now(5)) == Step::Progress {}
    let parked = Step::Parked(Parked { deadline: Some(Millis(25)), on: ParkedOn::Input });
    assert_eq!(actors[1].step(now(24)), parked);
    assert_eq!(actors[1].step(now(25)), Step::Progress);
    while actors[1].step(now(25)) == Step::Progress {}
    assert_eq!(actors[1].step(now(25)), Step::parked(ParkedOn::Input));
    assert!(lock(&committed).is_empty(), "not before a checkpoint");
}

#[test]
fn x27_a_suspended_job_keeps_nothing_back() {
    for rounds in [3_u64, 20, 31, 50] {
        let (disk, committed) = (Disk::new(), Committed::default());
        let mut assembled =
            Job::assemble(job(&committed), disk.clone(), Now::default(), &options(1)).unwrap();
        let (controller, mut left, mut stop) = (assembled.controller(), rounds, None);
        drive(&mut assembled.take_actors(), || {
            left = left.saturating_sub(1);
            if left == 0 && stop.is_none() {
                stop = Some(controller.stop("saved", StopMode::Suspend));
            }
            false
        });
        assert!(stop.unwrap().result().unwrap().is_ok());
        let report = assembled.report().unwrap();
        assert_eq!(lock(&committed).len() as u64, report.source_records, "after {rounds} rounds");
        let from = RestoreFrom { folder: "saved".to_owned(), mode: RestoreMode::NoClaim };
        let options = JobOptions { restore_from: Some(from), ..options(2) };
        run(Job::assemble(job(&committed), disk, Now::default(), &options).unwrap()).unwrap();
        assert_exact(&committed);
    }
}

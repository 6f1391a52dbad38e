//! As a job, with checkpoints.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Waker;
use std::thread;
use std::time::Duration;

use slackwater::driver::Clock;
use slackwater::files::{BlockingFiles, FileEvent, Files};
use slackwater::ids::CheckpointId;
use slackwater::key_group::MaxParallelism;
use slackwater::keyed::{Context, KeyedProcess, Setup};
use slackwater::mem::{Plain, ValueState};
use slackwater::operator::{OperatorError, Sink, Source, SourceStatus};
use slackwater::output::Output;
use slackwater::{AssembledJob, Job, JobBuilder, JobOptions, Report};
use slackwater_core::durable::Disk;
use slackwater_mem::FrozenRun;

use super::{Arrivals, Delays, Event, Pace, Plan, REST, Total};
use crate::Failed;
use crate::stopwatch::Stopwatch;

/// From one call of the observer to the next.
const TICK: Duration = Duration::from_millis(10);

/// What a run came to.
#[derive(Clone, Debug)]
pub struct Ran {
    /// The records' delays.
    pub delays: Delays,
    /// What the job says.
    pub report: Report,
}

/// Runs the job on `disk`. `observe` is called every 10 ms, with how many subtasks of sources and sinks have begun.
///
/// # Errors
/// The job fails.
pub fn run<D>(plan: &Plan, disk: D, observe: &mut dyn FnMut(&Seen<'_>)) -> Result<Ran, Failed>
where
    D: Disk<Frozen = FrozenRun> + Send + 'static,
{
    let (clock, total, timer) = (Stopwatch::start(), Total::default(), Timer::default());
    let begun = Arc::new(AtomicU32::new(0));
    let builder = builder(*plan, clock, &total, &timer, &begun);
    let options = JobOptions {
        interval: Some(plan.interval),
        buffer_timeout: plan.buffer_timeout,
        ..JobOptions::new(1)
    };
    let job = Job::assemble(builder, disk, Clock::start().now(), &options)?;
    let (observer, controller) = (job.observer(), job.controller());
    let mut look = || {
        let begun = begun.load(Ordering::Relaxed);
        observe(&Seen { begun, observer: &observer, controller: &controller });
    };
    let report = timer.run(job, &mut look)?;
    Ok(Ran { delays: plan.delays(&total), report })
}

/// What an observer sees of a job that runs.
#[derive(Debug)]
pub struct Seen<'a> {
    /// Subtasks of sources and sinks that have taken their first step.
    pub begun: u32,
    /// Its progress.
    pub observer: &'a slackwater::Observer,
    /// Whom to ask for its end.
    pub controller: &'a slackwater::savepoint::Controller,
}

fn builder(plan: Plan, clock: Stopwatch, total: &Total, timer: &Timer, begun: &Arc<AtomicU32>) -> JobBuilder {
    let mut job = JobBuilder::new("delays", key_groups(plan.subtasks.counts));
    let (total, sleepers) = (Arc::clone(total), Arc::clone(&timer.sleepers));
    let [begin_source, begin_sink] = [Beginning::new(begun), Beginning::new(begun)];
    job.source("source", plan.subtasks.sources, move |info| Paced {
        pace: Pace::new(plan, clock, info.index),
        sleepers: Arc::clone(&sleepers),
        sleeper: None,
        beginning: begin_source.clone(),
    })
    .key_by::<Plain<u64>, _>(|event: &Event| &event.key)
    .process("count", plan.subtasks.counts, |_| Count::default())
    .rebalance("spread", plan.subtasks.sinks)
    .sink("sink", move |_| Timed {
        arrivals: Arrivals::new(&plan, clock, &total),
        beginning: begin_sink.clone(),
    });
    job
}

/// What Flink takes if it is not told: half as many again as subtasks, rounded up.
fn key_groups(subtasks: u16) -> u32 {
    (u32::from(subtasks) * 3 / 2).next_power_of_two().clamp(128, 32_768)
}

/// Counts a subtask in its first step.
#[derive(Clone)]
struct Beginning {
    begun: Option<Arc<AtomicU32>>,
}

impl Beginning {
    fn new(begun: &Arc<AtomicU32>) -> Self {
        Self { begun: Some(Arc::clone(begun)) }
    }

    fn step(&mut self) {
        if let Some(begun) = self.begun.take() {
            begun.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Wakes sources that rest: a thread that knows the time.
#[derive(Clone, Default)]
struct Timer {
    sleepers: Arc<Mutex<Vec<Arc<Sleeper>>>>,
}

struct Sleeper {
    sleeps: AtomicBool,
    waker: Waker,
}

impl Timer {
    /// Runs a job beside the timer.
    fn run(&self, job: AssembledJob, observe: &mut dyn FnMut()) -> Result<Report, Failed> {
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    thread::park_timeout(REST);
                    self.wake();
                }
            });
            let report = job.run(TICK, observe);
            is_over.store(true, Ordering::Relaxed);
            Ok(report?)
        })
    }

    fn wake(&self) {
        for sleeper in &*self.sleepers.lock().unwrap_or_else(PoisonError::into_inner) {
            if sleeper.sleeps.swap(false, Ordering::AcqRel) {
                sleeper.waker.wake_by_ref();
            }
        }
    }
}

struct Paced {
    pace: Pace,
    sleepers: Arc<Mutex<Vec<Arc<Sleeper>>>>,
    sleeper: Option<Arc<Sleeper>>,
    beginning: Beginning,
}

impl Source for Paced {
    type Out = Event;

    fn set_waker(&mut self, waker: Waker) {
        let sleeper = Arc::new(Sleeper { sleeps: AtomicBool::new(false), waker });
        self.sleepers.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(&sleeper));
        self.sleeper = Some(sleeper);
    }

    fn restore(&mut self, _splits: Vec<Vec<u8>>) -> Result<(), OperatorError> {
        Err(OperatorError::beyond_restart("a measurement starts afresh: give it an empty folder"))
    }

    fn read(&mut self, out: &mut Output<'_, Event>) -> Result<SourceStatus, OperatorError> {
        self.beginning.step();
        if !self.pace.look() {
            return Ok(SourceStatus::Ended);
        }
        while out.has_room()
            && let Some(event) = self.pace.next()
        {
            out.emit(&event);
        }
        if !self.pace.rests() {
            return Ok(SourceStatus::More);
        }
        if let Some(sleeper) = &self.sleeper {
            sleeper.sleeps.store(true, Ordering::Release);
        }
        Ok(SourceStatus::Idle)
    }

    fn snapshot(&mut self) -> Vec<Vec<u8>> {
        vec![self.pace.made.to_le_bytes().to_vec()]
    }
}

#[derive(Default)]
struct Count(Option<ValueState<Plain<u64>, Plain<u64>>>);

impl KeyedProcess for Count {
    type Key = Plain<u64>;
    type In = Event;
    type Out = Event;

    fn open(&mut self, setup: &mut Setup<'_>) -> Result<(), OperatorError> {
        let max = MaxParallelism::new(setup.info.max_parallelism.into()).map_err(refused)?;
        let count = ValueState::register(setup.heap, &setup.info.operator, "count", max);
        self.0 = Some(count.map_err(refused)?);
        Ok(())
    }

    fn process(
        &mut self,
        key: &u64,
        event: &Event,
        context: &mut Context<'_, Event>,
    ) -> Result<(), OperatorError> {
        let count = self.0.as_ref().ok_or_else(|| OperatorError::new("open comes first"))?;
        count.update(context.heap_mut(), key, |before| before.unwrap_or(0) + 1).map_err(refused)?;
        context.emit(event);
        Ok(())
    }
}

fn refused(error: impl std::fmt::Display) -> OperatorError {
    OperatorError::beyond_restart(error.to_string())
}

/// Has nothing to commit.
struct Timed {
    arrivals: Arrivals,
    beginning: Beginning,
}

impl Sink for Timed {
    type In = Event;

    fn poll(&mut self, _files: &mut Files) -> Result<(), OperatorError> {
        self.beginning.step();
        Ok(())
    }

    fn recover(
        &mut self,
        _restored: Option<CheckpointId>,
        _pending: &[Vec<u8>],
        _files: &mut dyn BlockingFiles,
    ) -> Result<Vec<String>, OperatorError> {
        Ok(Vec::new())
    }

    #[inline]
    fn write(&mut self, event: &Event, _files: &mut Files) -> Result<(), OperatorError> {
        self.arrivals.arrived(event);
        Ok(())
    }

    fn pre_commit(&mut self, _id: CheckpointId, _files: &mut Files) -> Result<Vec<Vec<u8>>, OperatorError> {
        Ok(Vec::new())
    }

    fn is_sealed(&self, _checkpoint: CheckpointId) -> bool {
        true
    }

    fn commit(&mut self, _checkpoint: CheckpointId, _files: &mut Files) -> Result<(), OperatorError> {
        Ok(())
    }

    fn is_committed(&self, _checkpoint: CheckpointId) -> bool {
        true
    }

    fn on_file(&mut self, _event: FileEvent, _files: &mut Files) -> Result<(), OperatorError> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use slackwater_mem::MemDisk;

    use super::super::Load;
    use super::super::tests::plan;
    use super::*;

    #[test]
    fn all_records_come_through_and_checkpoints_complete() {
        for load in [Load::PerSecond(10_000), Load::Full] {
            let ran = run(&plan(load), MemDisk::new(), &mut |_| {}).unwrap();
            assert_eq!(ran.report.records, 2 * ran.report.source_records);
            assert!(ran.report.checkpoints_completed >= 1, "{:?}", ran.report);
            assert!((1..=ran.report.source_records).contains(&ran.delays.histogram.count()));
        }
    }
}

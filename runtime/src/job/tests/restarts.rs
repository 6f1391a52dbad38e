//! Jobs that fail in user code and start again, on virtual time and with threads.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicUsize, Ordering};

use slackwater_core::key_group::MaxParallelism;
use slackwater_core::restart::RestartStrategy;
use slackwater_mem::{Plain, ValueState};

use super::*;
use crate::driver::{Clock, Moment};
use crate::keyed::{Context, KeyedProcess, Rest, Setup};
use crate::statistics::{CheckpointStatistics, HISTORY};
use crate::supervisor::{Restart, Supervisor, Verdict};

/// Where user code is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    Make,
    Restore,
    Read,
    SourceSnapshot,
    FlatMap,
    Open,
    OnRestored,
    Process,
    EndOfData,
    Recover,
    Write,
    PreCommit,
    Commit,
}

use Place::{
    Commit, EndOfData, FlatMap, Make, OnRestored, Open, PreCommit, Process, Read, Recover, Restore,
    SourceSnapshot, Write,
};

const PLACES: [Place; 13] = [
    Make,
    Restore,
    Read,
    SourceSnapshot,
    FlatMap,
    Open,
    OnRestored,
    Process,
    EndOfData,
    Recover,
    Write,
    PreCommit,
    Commit,
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fall {
    Panic,
    Error,
}

/// Calls that fail, and the operators that are alive.
#[derive(Clone, Default)]
struct Traps {
    /// What becomes of a call and after how many more.
    set: Arc<Mutex<BTreeMap<Place, (u64, Fall)>>>,
    alive: Arc<AtomicUsize>,
}

impl Traps {
    fn set(&self, place: Place, calls: u64, fall: Fall) {
        lock(&self.set).insert(place, (calls, fall));
    }

    fn call(&self, place: Place) -> Result<(), OperatorError> {
        let mut set = lock(&self.set);
        let Some((calls, fall)) = set.get_mut(&place) else { return Ok(()) };
        *calls -= 1;
        let fall = *fall;
        if set.get(&place).is_some_and(|(calls, _)| *calls > 0) {
            return Ok(());
        }
        set.remove(&place);
        drop(set);
        assert!(fall == Fall::Error, "trapped in {place:?}");
        Err(OperatorError::new(format!("trapped in {place:?}")))
    }

    /// One more operator.
    fn operator(&self) -> Alive {
        self.call(Make).unwrap();
        self.alive.fetch_add(1, Ordering::Relaxed);
        Alive(Arc::clone(&self.alive))
    }
}

struct Alive(Arc<AtomicUsize>);

impl Drop for Alive {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// An operator with traps.
struct Trapped<O> {
    operator: O,
    traps: Traps,
    _alive: Alive,
}

impl<O> Trapped<O> {
    fn new(operator: O, traps: &Traps) -> Self {
        Self { operator, traps: traps.clone(), _alive: traps.operator() }
    }
}

impl Source for Trapped<Numbers> {
    type Out = u64;

    fn restore(&mut self, splits: Vec<Vec<u8>>) -> Result<(), OperatorError> {
        self.traps.call(Restore)?;
        self.operator.restore(splits)
    }

    fn read(&mut self, out: &mut Output<'_, u64>) -> Result<SourceStatus, OperatorError> {
        self.traps.call(Read)?;
        self.operator.read(out)
    }

    fn snapshot(&mut self) -> Vec<Vec<u8>> {
        self.traps.call(SourceSnapshot).unwrap();
        self.operator.snapshot()
    }
}

/// Counts the records of a key, and passes numbers on doubled.
#[derive(Default)]
struct Doubling(Option<ValueState<Plain<u64>, Plain<u64>>>);

impl KeyedProcess for Trapped<Doubling> {
    type Key = Plain<u64>;
    type In = (u64, u64);
    type Out = u64;

    fn open(&mut self, setup: &mut Setup<'_>) -> Result<(), OperatorError> {
        self.traps.call(Open)?;
        let max = MaxParallelism::new(setup.info.max_parallelism.into()).unwrap();
        self.operator.0 = ValueState::register(setup.heap, &setup.info.operator, "seen", max).ok();
        Ok(())
    }

    fn on_restored(&mut self, _setup: &mut Setup<'_>) -> Result<(), OperatorError> {
        self.traps.call(OnRestored)
    }

    fn process(
        &mut self,
        key: &u64,
        record: &(u64, u64),
        context: &mut Context<'_, u64>,
    ) -> Result<(), OperatorError> {
        self.traps.call(Process)?;
        let mut seen = 0;
        let updated = self.operator.0.unwrap().update(context.heap_mut(), key, |before| {
            seen = before.unwrap_or(0);
            seen + 1
        });
        updated.map_err(|error| OperatorError::new(error.to_string()))?;
        // The n-th number of its key is known beforehand: state and positions belong together.
        if seen * KEYS + key != record.1 {
            return Err(OperatorError::beyond_restart(format!("{seen} records before {}", record.1)));
        }
        context.emit(&(record.1 * 2));
        Ok(())
    }

    fn on_end_of_data(&mut self, _context: &mut Context<'_, u64>) -> Result<Rest, OperatorError> {
        self.traps.call(EndOfData)?;
        Ok(Rest::Done)
    }
}

impl Sink for Trapped<Collect> {
    type In = u64;

    fn recover(
        &mut self,
        restored: Option<CheckpointId>,
        pending: &[Vec<u8>],
        files: &mut dyn BlockingFiles,
    ) -> Result<Vec<String>, OperatorError> {
        self.traps.call(Recover)?;
        self.operator.recover(restored, pending, files)
    }

    fn write(&mut self, record: &u64, files: &mut Files) -> Result<(), OperatorError> {
        self.traps.call(Write)?;
        self.operator.write(record, files)
    }

    fn pre_commit(&mut self, id: CheckpointId, files: &mut Files) -> Result<Vec<Vec<u8>>, OperatorError> {
        self.traps.call(PreCommit)?;
        self.operator.pre_commit(id, files)
    }

    fn is_sealed(&self, checkpoint: CheckpointId) -> bool {
        self.operator.is_sealed(checkpoint)
    }

    fn commit(&mut self, checkpoint: CheckpointId, files: &mut Files) -> Result<(), OperatorError> {
        self.traps.call(Commit)?;
        self.operator.commit(checkpoint, files)
    }

    fn is_committed(&self, checkpoint: CheckpointId) -> bool {
        self.operator.is_committed(checkpoint)
    }

    fn on_file(&mut self, event: FileEvent, files: &mut Files) -> Result<(), OperatorError> {
        self.operator.on_file(event, files)
    }
}

const KEYS: u64 = 50;

/// One source, so that the numbers of each key come in order.
fn trapped_job(committed: &Committed, traps: &Traps) -> JobBuilder {
    let (committed, mut job) = (Arc::clone(committed), JobBuilder::new("trapped", 16));
    let (at_source, at_map, at_keys, at_sink) = (traps.clone(), traps.clone(), traps.clone(), traps.clone());
    job.source("source", 1, move |_| Trapped::new(Numbers { next: 0, end: END, step: 1 }, &at_source))
        .flat_map("pair", move |number: &u64, out: &mut Output<'_, (u64, u64)>| {
            at_map.call(FlatMap).unwrap();
            out.emit(&(number % KEYS, *number));
        })
        .key_by::<Plain<u64>, _>(|pair: &(u64, u64)| &pair.0)
        .process("double", 2, move |_| Trapped::new(Doubling::default(), &at_keys))
        .sink("collect", move |_| {
            let (committed, current, pending) = (Arc::clone(&committed), Vec::new(), Vec::new());
            Trapped::new(Collect { committed, current, pending }, &at_sink)
        });
    job
}

const DELAY: Millis = Millis(70);

fn options() -> JobOptions {
    let restart = Some(RestartStrategy::FixedDelay { attempts: 5, delay: DELAY });
    JobOptions { restart, memory_limit_bytes: 8 << 20, ..super::options(1) }
}

/// A supervised job on virtual time.
struct Bench {
    disk: Disk,
    committed: Committed,
    traps: Traps,
    options: JobOptions,
    restarts: Vec<Restart>,
    /// Resumed from, for each start that succeeded.
    starts: Vec<Option<CheckpointId>>,
    /// Of each of these, when it had ended.
    statistics: Vec<CheckpointStatistics>,
    now: Millis,
}

impl Bench {
    fn new() -> Self {
        Self::with(options())
    }

    fn with(options: JobOptions) -> Self {
        let (disk, committed, traps) = (Disk::new(), Committed::default(), Traps::default());
        let (restarts, starts, statistics) = (Vec::new(), Vec::new(), Vec::new());
        Self { disk, committed, traps, options, restarts, starts, statistics, now: Millis(0) }
    }

    fn trap(self, place: Place, calls: u64, fall: Fall) -> Self {
        self.traps.set(place, calls, fall);
        self
    }

    fn now(&self) -> Now {
        Now { monotonic: self.now, wall: self.now }
    }

    fn assemble(&self, attempt: u64) -> Result<AssembledJob, JobError> {
        let options = JobOptions { attempt, ..self.options.clone() };
        Job::assemble(trapped_job(&self.committed, &self.traps), self.disk.clone(), self.now(), &options)
    }

    fn run(&mut self) -> Result<Report, JobError> {
        let mut supervisor = Supervisor::new(&self.options)?;
        loop {
            let verdict = match self.assemble(supervisor.attempt()) {
                Err(error) => supervisor.on_not_started(self.now(), error),
                Ok(mut job) => {
                    supervisor.on_started(self.now(), &job)?;
                    self.starts.push(job.resumed_from);
                    self.drive(job.take_actors());
                    let verdict = supervisor.on_ended(self.now(), &job);
                    self.statistics.push(job.observer().checkpoints());
                    verdict
                }
            };
            assert_eq!(self.traps.alive.load(Ordering::Relaxed), 0, "an operator outlives its attempt");
            match verdict {
                Verdict::Finished(report) => return Ok(*report),
                Verdict::Failed(error) => return Err(error),
                Verdict::Restart(restart) => {
                    self.now = restart.at;
                    self.restarts.push(restart);
                }
            }
        }
    }

    fn drive(&mut self, mut actors: Vec<Box<dyn Actor>>) {
        let mut finished = vec![false; actors.len()];
        for _ in 0..100_000 {
            self.now = self.now.after(Millis(1));
            let now = self.now();
            for (actor, finished) in actors.iter_mut().zip(&mut finished) {
                *finished = *finished || actor.step(now) == Step::Finished;
            }
            if finished.iter().all(|finished| *finished) {
                return;
            }
        }
        panic!("the job does not end");
    }
}

#[test]
fn a_panic_or_an_error_anywhere_in_user_code_restarts_the_job_and_it_is_exact() {
    let mut resumed = 0;
    for place in PLACES {
        for (calls, fall) in [(1, Fall::Error), (4, Fall::Panic), (30, Fall::Error), (6_000, Fall::Panic)] {
            let mut bench = Bench::new().trap(place, calls, fall);
            if matches!(place, Restore | OnRestored | Recover | Make | Open) {
                // Something to restore.
                bench = bench.trap(Process, 15_000, Fall::Panic);
            }
            let report = bench.run().unwrap_or_else(|error| panic!("{place:?} {fall:?} {calls}: {error}"));
            assert_eq!(report.restarts, bench.restarts.len() as u64);
            assert!(report.restarts <= 2, "{:?}", bench.restarts);
            for restart in &bench.restarts {
                let says = restart.to_string();
                assert!(says.contains("trapped in"), "{says}");
                assert!(restart.delay == DELAY && says.contains("; restarting in 70 ms, attempt "), "{says}");
            }
            resumed += bench.starts.iter().flatten().count();
            assert_exact(&bench.committed);
        }
    }
    assert!(resumed > 20, "{resumed}");
}

#[test]
fn each_place_is_trapped() {
    for place in PLACES {
        let mut bench = Bench::new().trap(place, 1, Fall::Panic);
        if place == Restore {
            bench = bench.trap(Process, 15_000, Fall::Panic);
        }
        let report = bench.run().unwrap();
        let expected = 1 + u64::from(place == Restore);
        assert_eq!((report.restarts, lock(&bench.traps.set).len()), (expected, 0), "{place:?}");
        let causes: Vec<String> = report.causes.iter().map(|cause| cause.error.to_string()).collect();
        let named = ["source (1/1)", "double (1/2)", "double (2/2)"];
        let is_named = |cause: &String| named.iter().any(|name| cause.starts_with(name));
        assert!(causes.iter().all(is_named), "{place:?}: {causes:?}");
    }
}

#[test]
fn a_job_goes_on_from_its_newest_checkpoint_under_a_new_number() {
    let mut bench = Bench::new().trap(Process, 15_000, Fall::Panic);
    let report = bench.run().unwrap();
    let [None, Some(resumed)] = bench.starts[..] else { panic!("{:?}", bench.starts) };
    assert!(resumed > CheckpointId(1) && report.last_checkpoint > Some(resumed));
    assert_eq!(report.resumed_from, None, "this run began afresh");
    // What was read behind the checkpoint is read again, and nothing else is.
    let again = report.source_records - END;
    assert!(again > 0 && again < END / 2, "{report:?}");
    let cause = &bench.restarts[0];
    assert!(cause.cause.to_string().starts_with("double ("), "{}", cause.cause);
    assert_eq!((cause.start, report.causes[0].times), (2, 1));
    let bytes = crate::blocking::Blocking::new(&mut bench.disk)
        .list(&format!("trapped/chk-{}", report.last_checkpoint.unwrap()))
        .unwrap();
    assert!(bytes.iter().any(|entry| entry.name == "1-2.seg"), "{bytes:?}");
}

#[test]
fn a_strategy_that_allows_no_more_ends_the_job_with_the_cause() {
    let mut bench = Bench::new();
    bench.options.restart = Some(RestartStrategy::FixedDelay { attempts: 2, delay: Millis(5) });
    let mut supervisor = Supervisor::new(&bench.options).unwrap();
    let mut fail = || {
        bench.traps.set(Open, 2, Fall::Panic);
        bench.now = bench.now.after(Millis(5));
        supervisor.on_not_started(bench.now(), bench.assemble(1).unwrap_err())
    };
    assert!(matches!(fail(), Verdict::Restart(Restart { start: 2, .. })));
    assert!(matches!(fail(), Verdict::Restart(Restart { start: 3, .. })));
    let Verdict::Failed(failure) = fail() else { panic!("it goes on") };
    assert!(matches!(failure, JobError::GivenUp { restarts: 2, .. }));
    let says = failure.to_string();
    assert!(says.starts_with("double (2/2) panicked: trapped in Open; 2 restart(s) did not help"), "{says}");
}

#[test]
fn m2_m3_m4_the_figures_of_checkpoints_go_on_over_restarts() {
    let mut bench = Bench::new().trap(Process, 5_000, Fall::Panic).trap(Write, 15_000, Fall::Error);
    let report = bench.run().unwrap();
    assert_eq!((report.restarts, bench.statistics.len()), (2, 3));
    let last = bench.statistics.last().unwrap();
    assert_eq!(last.counts.completed, report.checkpoints_completed);
    assert_eq!(last.summary.state_size.count, last.counts.completed);
    assert_eq!(last.counts.restored, bench.starts.iter().flatten().count() as u64);
    assert_eq!(last.latest_restored.map(|from| from.id), bench.starts.last().copied().flatten());
    assert!(last.latest_restored.is_some() && report.checkpoints_failed == 0);
    for pair in bench.statistics.windows(2) {
        assert!(pair[0].counts.in_progress == 0, "what was under way failed with the job: {:?}", pair[0]);
        assert!(pair[0].counts.completed > 0 && pair[0].counts.completed < pair[1].counts.completed);
        let ids = |statistics: &CheckpointStatistics| -> Vec<_> {
            let figures = statistics.history.iter().map(|record| record.figures);
            figures.map(|figures| (figures.id, figures.triggered_at)).collect()
        };
        let (before, after) = (ids(&pair[0]), ids(&pair[1]));
        let left = before.len().min(HISTORY.saturating_sub(new_in(pair)));
        assert!(after.ends_with(&before[..left]), "{after:?} behind {before:?}");
    }
}

/// How many checkpoints have ended between two looks.
fn new_in(pair: &[CheckpointStatistics]) -> usize {
    let ended = |statistics: &CheckpointStatistics| statistics.counts.completed + statistics.counts.failed;
    usize::try_from(ended(&pair[1]) - ended(&pair[0])).unwrap()
}

#[test]
fn l1_without_checkpoints_and_without_a_word_a_job_does_not_restart() {
    let mut bench = Bench::with(JobOptions { restart: None, interval: None, ..options() });
    bench.traps.set(Read, 3, Fall::Panic);
    assert_eq!(bench.run().unwrap_err().to_string(), "source (1/1) panicked: trapped in Read");
}

#[test]
fn l1_with_checkpoints_and_without_a_word_a_job_restarts_after_a_second_and_later() {
    let mut bench = Bench::with(JobOptions { restart: None, ..options() });
    for place in [Make, Open, Read, FlatMap, Process, Write, PreCommit, Commit] {
        bench.traps.set(place, 1, Fall::Panic);
    }
    assert_eq!(bench.run().unwrap().restarts, 8);
    assert_exact(&bench.committed);
    let delays: Vec<u64> = bench.restarts.iter().map(|restart| restart.delay.0).collect();
    assert!((1_000..=1_100).contains(&delays[0]), "{delays:?}");
    assert!(delays[7] > 10_000 && delays.is_sorted(), "{delays:?}");
}

#[test]
fn what_no_restart_helps_against_ends_the_job_at_once() {
    let mut bench = Bench::new();
    bench.options.max_concurrent_checkpoints = 0;
    assert!(matches!(bench.run(), Err(JobError::InvalidJob { .. })));
    let mut bench = Bench::new();
    bench.options.restart =
        Some(RestartStrategy::FailureRate { failures_max: 0, interval: Millis(1), delay: Millis(1) });
    assert!(matches!(bench.run(), Err(JobError::InvalidJob { .. })));
    let mut bench = Bench::new();
    run(bench.assemble(1).unwrap()).unwrap();
    assert!(matches!(bench.run(), Err(JobError::AlreadyFinished { .. })));
    assert!(bench.restarts.is_empty());
}

/// Refuses its input.
struct Refusing;

impl Source for Refusing {
    type Out = u64;

    fn restore(&mut self, _splits: Vec<Vec<u8>>) -> Result<(), OperatorError> {
        Ok(())
    }

    fn read(&mut self, _out: &mut Output<'_, u64>) -> Result<SourceStatus, OperatorError> {
        Err(OperatorError::beyond_restart("this is no input: give another"))
    }

    fn snapshot(&mut self) -> Vec<Vec<u8>> {
        Vec::new()
    }
}

#[test]
fn an_error_beyond_restart_and_a_stop_end_a_job_that_would_restart() {
    let refused = || {
        let mut job = JobBuilder::new("refused", 16);
        let (committed, current, pending) = (Committed::default(), Vec::new(), Vec::new());
        let mut sink = Some(Collect { committed, current, pending });
        job.source("source", 1, |_| Refusing).sink("collect", move |_| sink.take().unwrap());
        job
    };
    let job = Job::assemble(refused(), Disk::new(), Now::default(), &options()).unwrap();
    let mut supervisor = Supervisor::new(&options()).unwrap();
    supervisor.on_started(Now::default(), &job).unwrap();
    let failure = run_to_end(job, &mut supervisor);
    assert_eq!(
        failure,
        Verdict::Failed(JobError::Refused {
            task: "source (1/1)".into(),
            operator: "source".into(),
            message: "this is no input: give another".into(),
        })
    );

    let bench = Bench::new();
    let job = bench.assemble(1).unwrap();
    job.observer().stop();
    let mut supervisor = Supervisor::new(&options()).unwrap();
    supervisor.on_started(Now::default(), &job).unwrap();
    assert_eq!(run_to_end(job, &mut supervisor), Verdict::Failed(JobError::Stopped));
}

fn run_to_end(mut job: AssembledJob, supervisor: &mut Supervisor) -> Verdict {
    drive(&mut job.take_actors(), || false);
    supervisor.on_ended(Now { monotonic: Millis(9_999), wall: Millis(0) }, &job)
}

#[test]
fn a_disk_that_says_no_ends_the_first_start_and_restarts_a_job_that_has_run() {
    let error = || {
        JobError::disk(
            "folder",
            DiskError {
                operation: slackwater_core::durable::OperationKind::CreateFolder,
                errno: DiskError::NO_SPACE,
            },
        )
    };
    let mut supervisor = Supervisor::new(&options()).unwrap();
    assert_eq!(supervisor.on_not_started(Now::default(), error()), Verdict::Failed(error()));
    let mut supervisor = Supervisor::new(&options()).unwrap();
    let job = Bench::new().trap(Read, 1, Fall::Panic).assemble(1).unwrap();
    supervisor.on_started(Now::default(), &job).unwrap();
    assert!(matches!(run_to_end(job, &mut supervisor), Verdict::Restart(_)));
    let later = Now { monotonic: Millis(20_000), wall: Millis(0) };
    let verdict = supervisor.on_not_started(later, error());
    assert!(matches!(verdict, Verdict::Restart(Restart { start: 3, .. })), "{verdict:?}");
}

#[test]
fn a_failure_behind_the_last_checkpoint_is_made_good_and_the_job_is_finished() {
    // The third commit of a task is of a checkpoint after the data has ended.
    let mut finished_before = 0;
    for calls in 1..12 {
        let mut bench = Bench::new().trap(Commit, calls, Fall::Panic);
        bench.options.interval = None;
        let report = bench.run().unwrap();
        finished_before += usize::from(report.restarts == 1 && bench.starts.len() == 1);
        assert_exact(&bench.committed);
    }
    assert!(finished_before > 0);
}

#[test]
fn threads_restart_a_job_too_and_leave_nothing_behind() {
    let bench = Bench::new();
    let (traps, mut told) = (bench.traps.clone(), Vec::new());
    let options = JobOptions {
        restart: Some(RestartStrategy::FixedDelay { attempts: 99, delay: Millis(1) }),
        ..bench.options.clone()
    };
    for (number, place) in PLACES.into_iter().enumerate() {
        traps.set(place, 1 + number as u64, if number % 2 == 0 { Fall::Panic } else { Fall::Error });
    }
    let supervisor = Supervisor::new(&options).unwrap();
    let mut assemble = |attempt, _now| bench.assemble(attempt);
    let report = supervisor.run(Clock::start(), Duration::from_millis(20), &mut assemble, &mut |moment| {
        match moment {
            Moment::Started(job) => assert!(!job.observer().is_over()),
            Moment::Restarting(restart) => told.push(restart.clone()),
            Moment::Running(_) | Moment::Ended(_) | Moment::Waiting => {}
        }
        ControlFlow::Continue(())
    });
    let report = report.unwrap();
    assert_eq!(report.restarts, told.len() as u64);
    assert!(told.len() > 5, "{told:?}");
    assert_eq!(traps.alive.load(Ordering::Relaxed), 0);
    assert_exact(&bench.committed);
}

#[test]
fn a_supervised_job_can_be_stopped_while_it_runs_and_while_it_waits() {
    for while_waiting in [false, true] {
        let bench = Bench::new();
        bench.traps.set(Read, 5, Fall::Panic);
        let options = JobOptions {
            restart: Some(RestartStrategy::FixedDelay { attempts: 9, delay: Millis(3_600_000) }),
            ..bench.options.clone()
        };
        let supervisor = Supervisor::new(&options).unwrap();
        let mut assemble = |attempt, _now| bench.assemble(attempt);
        let ended = supervisor.run(Clock::start(), Duration::from_millis(1), &mut assemble, &mut |moment| {
            let stops = match moment {
                Moment::Started(_) => !while_waiting,
                Moment::Waiting => while_waiting,
                Moment::Running(_) | Moment::Ended(_) | Moment::Restarting(_) => false,
            };
            if stops { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        assert_eq!(ended, Err(JobError::Stopped));
        assert_eq!(bench.traps.alive.load(Ordering::Relaxed), 0);
    }
}

//! Jobs that are stopped with a savepoint, and go on from it.

use super::keyed::{assert_tallied, flip, keyed_job};
use super::*;
use crate::job::OnCancellation;
use crate::keyed::{Context, KeyedProcess, Rest, Setup};
use crate::recovery::find;
use crate::savepoint::{RestoreFrom, RestoreMode, SavepointError};
use crate::stop::{Stop, StopMode};
use slackwater_core::key_group::MaxParallelism;
use slackwater_mem::{Plain, ValueState};

const FOLDER: &str = "saved/one";

fn small(attempt: u64) -> JobOptions {
    JobOptions { memory_limit_bytes: 64 << 20, ..options(attempt) }
}

fn start(builder: JobBuilder, disk: &Disk, options: &JobOptions) -> AssembledJob {
    Job::assemble(builder, disk.clone(), Now::default(), options).unwrap()
}

fn from_savepoint(attempt: u64, mode: RestoreMode) -> JobOptions {
    JobOptions { restore_from: Some(RestoreFrom { folder: FOLDER.to_owned(), mode }), ..small(attempt) }
}

/// Drives a job to its end; after some rounds it is asked to stop.
fn stop_after(job: &mut AssembledJob, rounds: u64, mode: StopMode) -> Stop {
    let (controller, mut left) = (job.controller(), rounds);
    let mut stop = None;
    drive(&mut job.take_actors(), || {
        left = left.saturating_sub(1);
        if left == 0 {
            stop.get_or_insert_with(|| controller.stop(FOLDER, mode));
        }
        false
    });
    stop.unwrap()
}

#[test]
fn x27_a_suspended_job_commits_what_the_savepoint_covers_and_goes_on_from_it() {
    for (rounds, parallelism) in [(1, 2), (5, 2), (17, 1), (30, 3), (31, 2)] {
        for mode in [RestoreMode::NoClaim, RestoreMode::Claim] {
            let (mut disk, committed) = (Disk::new(), Committed::default());
            let mut job = start(keyed_job(&committed, 2), &disk, &small(1));
            let stop = stop_after(&mut job, rounds, StopMode::Suspend);
            let id = stop.result().unwrap().unwrap();
            let report = job.report().unwrap();
            assert_eq!(report.stopped_with, Some(id));
            assert!(report.source_records < END, "{report:?}");
            let shown = lock(&committed).len() as u64;
            assert_eq!(shown, report.source_records, "all that was read is committed, and nothing else");
            let found = find(&mut disk, "saved/one/tally").unwrap().newest.unwrap();
            assert_eq!((found.id, found.is_finished), (id, false));

            let job = start(keyed_job(&committed, parallelism), &disk, &from_savepoint(2, mode));
            assert_eq!(job.resumed_from, Some(id), "newer than any checkpoint of its own");
            let report = run(job).unwrap();
            assert_eq!((report.stopped_with, report.source_records), (None, END - shown));
            assert_tallied(&committed);
        }
    }
}

#[test]
fn x26_no_checkpoint_starts_between_the_savepoint_and_the_end() {
    let (mut disk, committed) = (Disk::new(), Committed::default());
    let mut job = start(keyed_job(&committed, 2), &disk, &small(1));
    let id = stop_after(&mut job, 33, StopMode::Suspend).result().unwrap().unwrap();
    let found = find(&mut disk, "tally").unwrap();
    assert!(found.last_id < Some(id) && found.last_id.is_some(), "{found:?}");
}

/// Emits how often it has seen each key, at the end only.
struct AtTheEnd {
    seen: Option<ValueState<Plain<i64>, Plain<u64>>>,
}

impl KeyedProcess for AtTheEnd {
    type Key = Plain<i64>;
    type In = (i64, u64);
    type Out = u64;

    fn open(&mut self, setup: &mut Setup<'_>) -> Result<(), OperatorError> {
        let max = MaxParallelism::new(setup.info.max_parallelism.into()).unwrap();
        self.seen = Some(ValueState::register(setup.heap, &setup.info.operator, "seen", max).unwrap());
        Ok(())
    }

    fn process(
        &mut self,
        key: &i64,
        _record: &(i64, u64),
        context: &mut Context<'_, u64>,
    ) -> Result<(), OperatorError> {
        let updated = self.seen.unwrap().update(context.heap_mut(), key, |seen| seen.unwrap_or(0) + 1);
        updated.map_err(|error| OperatorError::new(error.to_string()))
    }

    fn on_end_of_data(&mut self, context: &mut Context<'_, u64>) -> Result<Rest, OperatorError> {
        let mut all = Vec::new();
        for key in 0..10 {
            all.extend(self.seen.unwrap().get(context.heap(), &key).ok().flatten());
        }
        all.iter().for_each(|seen| context.emit(seen));
        Ok(Rest::Done)
    }
}

fn rest_job(committed: &Committed) -> JobBuilder {
    let committed = Arc::clone(committed);
    let mut job = JobBuilder::new("rest", 128);
    job.source("source", 2, |info| Numbers { next: info.index.into(), end: END, step: 2 })
        .flat_map("pair", |number: &u64, out: &mut Output<'_, (i64, u64)>| {
            out.emit(&(number.cast_signed() % 10, *number));
        })
        .key_by::<Plain<i64>, _>(|pair: &(i64, u64)| &pair.0)
        .process("count", 2, |_| AtTheEnd { seen: None })
        .sink("collect", move |_| Collect {
            committed: Arc::clone(&committed),
            current: Vec::new(),
            pending: Vec::new(),
        });
    job
}

#[test]
fn x27_a_drained_job_emits_the_rest_before_the_savepoint_and_has_finished() {
    let (mut disk, committed) = (Disk::new(), Committed::default());
    let mut job = start(rest_job(&committed), &disk, &small(1));
    let id = stop_after(&mut job, 20, StopMode::Drain).result().unwrap().unwrap();
    let report = job.report().unwrap();
    assert_eq!(report.stopped_with, Some(id));
    assert!(report.source_records < END);
    assert_eq!(lock(&committed).iter().sum::<u64>(), report.source_records);
    let found = find(&mut disk, "saved/one/rest").unwrap().newest.unwrap();
    assert_eq!((found.id, found.is_finished), (id, true));
    let shown = lock(&committed).clone();
    let again = Job::assemble(
        rest_job(&committed),
        disk.clone(),
        Now::default(),
        &from_savepoint(2, RestoreMode::NoClaim),
    );
    assert_eq!(again.unwrap_err(), JobError::AlreadyFinished { checkpoint: id });
    assert_eq!(*lock(&committed), shown);
}

#[test]
fn x27_operators_of_a_suspended_job_keep_what_they_would_emit_at_the_end() {
    let (disk, committed) = (Disk::new(), Committed::default());
    let mut job = start(rest_job(&committed), &disk, &small(1));
    stop_after(&mut job, 20, StopMode::Suspend).result().unwrap().unwrap();
    assert!(lock(&committed).is_empty());
    run(start(rest_job(&committed), &disk, &from_savepoint(2, RestoreMode::NoClaim))).unwrap();
    assert_eq!(*lock(&committed), [END / 10; 10]);
}

#[test]
fn x26_a_job_whose_savepoint_cannot_begin_goes_on_and_can_be_asked_again() {
    let (disk, committed) = (Disk::new(), Committed::default());
    let mut job = start(keyed_job(&committed, 2), &disk, &small(1));
    let controller = job.controller();
    let (mut taken, mut stops) = (None, Vec::new());
    drive(&mut job.take_actors(), || {
        let taken = taken.get_or_insert_with(|| controller.savepoint(FOLDER));
        if taken.result().is_some() && stops.is_empty() {
            stops.push(controller.stop(FOLDER, StopMode::Suspend));
        } else if stops.len() == 1 && stops.iter().all(|stop: &Stop| stop.result().is_some()) {
            stops.push(controller.stop("saved/two", StopMode::Suspend));
        }
        false
    });
    let refused = stops[0].result().unwrap().unwrap_err();
    assert!(refused.to_string().contains("not empty"), "{refused}");
    assert!(stops[1].result().unwrap().is_ok());
    assert!(job.report().unwrap().stopped_with.is_some());
}

#[test]
fn a_job_that_ends_already_is_not_stopped_again() {
    let (disk, committed) = (Disk::new(), Committed::default());
    let mut job = start(keyed_job(&committed, 2), &disk, &small(1));
    let controller = job.controller();
    let mut stops = Vec::new();
    drive(&mut job.take_actors(), || {
        if stops.is_empty() {
            stops.push(controller.stop(FOLDER, StopMode::Suspend));
            stops.push(controller.stop("saved/two", StopMode::Drain));
        }
        false
    });
    assert!(stops[0].result().unwrap().is_ok());
    assert_eq!(stops[1].result(), Some(Err(SavepointError::AlreadyEnding)));
    assert_eq!(
        controller.stop("saved/three", StopMode::Suspend).result(),
        Some(Err(SavepointError::JobEnded))
    );
}

#[test]
fn s10_a_stopped_job_leaves_its_checkpoints_or_takes_them_along() {
    for (on_cancellation, is_left) in [(OnCancellation::Keep, true), (OnCancellation::Delete, false)] {
        let (mut disk, committed) = (Disk::new(), Committed::default());
        let options = JobOptions { on_cancellation, ..small(1) };
        let mut job = start(keyed_job(&committed, 2), &disk, &options);
        let id = stop_after(&mut job, 40, StopMode::Suspend).result().unwrap().unwrap();
        assert!(job.report().unwrap().checkpoints_completed > 0);
        assert_eq!(!find(&mut disk, "tally").unwrap().retained.is_empty(), is_left, "{on_cancellation:?}");
        assert_eq!(find(&mut disk, "saved/one/tally").unwrap().retained, [id]);
        run(start(keyed_job(&committed, 2), &disk, &from_savepoint(2, RestoreMode::NoClaim))).unwrap();
        assert_tallied(&committed);
    }
}

#[test]
fn a_job_is_asked_to_stop_before_all_its_state_is_there() {
    let (disk, committed) = (Disk::new(), Committed::default());
    let mut job = start(keyed_job(&committed, 2), &disk, &small(1));
    keyed::drive_rounds(&mut job, 25);
    let lazily = JobOptions { lazy_restore: true, ..small(2) };
    let mut job = start(keyed_job(&committed, 2), &disk, &lazily);
    let id = stop_after(&mut job, 1, StopMode::Suspend).result().unwrap().unwrap();
    assert!(id > job.resumed_from.unwrap());
    let again = from_savepoint(3, RestoreMode::Claim);
    match Job::assemble(keyed_job(&committed, 2), disk, Now::default(), &again) {
        // All input was through before all state was there.
        Err(JobError::AlreadyFinished { checkpoint }) => assert_eq!(checkpoint, id),
        job => drop(run(job.unwrap()).unwrap()),
    }
    assert_tallied(&committed);
}

#[test]
fn a_damaged_savepoint_that_is_newer_than_all_checkpoints_is_named() {
    let (mut disk, committed) = (Disk::new(), Committed::default());
    let mut job = start(keyed_job(&committed, 2), &disk, &small(1));
    stop_after(&mut job, 40, StopMode::Suspend).result().unwrap().unwrap();
    let manifest = find(&mut disk, "saved/one/tally").unwrap().newest.unwrap();
    let segment = crate::recovery::segments(&manifest).next().unwrap();
    flip(&mut disk, &crate::paths::join("saved/one/tally", &segment.file_name), 5000);
    let options = from_savepoint(2, RestoreMode::NoClaim);
    let refused = Job::assemble(keyed_job(&committed, 2), disk, Now::default(), &options).unwrap_err();
    assert!(matches!(refused, JobError::NoSavepoint { damaged: Some(_), .. }), "{refused}");
}

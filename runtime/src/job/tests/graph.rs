//! Jobs that go on with another graph than the checkpoint was taken with.

use super::keyed::{Tally, assert_tallied, drive_rounds, pair};
use super::*;
use slackwater_mem::Plain;

fn collect(committed: &Committed) -> impl FnMut(&SubtaskInfo) -> Collect + Send + 'static {
    let committed = Arc::clone(committed);
    move |_| Collect { committed: Arc::clone(&committed), current: Vec::new(), pending: Vec::new() }
}

fn numbers(info: &SubtaskInfo) -> Numbers {
    Numbers { next: info.index.into(), end: END, step: info.parallelism.into() }
}

/// The names of the operators of a tally.
struct Names {
    source: &'static str,
    tally: &'static str,
    sink: &'static str,
}

const NAMES: Names = Names { source: "source", tally: "tally", sink: "collect" };

fn tally(committed: &Committed, names: &Names) -> JobBuilder {
    let mut job = JobBuilder::new("tally", 128);
    job.source(names.source, 2, numbers)
        .flat_map("pair", pair)
        .key_by::<Plain<i64>, _>(|pair: &(i64, u64)| &pair.0)
        .process(names.tally, 2, |_| Tally { seen: None })
        .sink(names.sink, collect(committed));
    job
}

fn small(attempt: u64) -> JobOptions {
    JobOptions { memory_limit_bytes: 64 << 20, ..options(attempt) }
}

fn assemble_job(builder: JobBuilder, disk: &Disk, options: &JobOptions) -> Result<AssembledJob, JobError> {
    Job::assemble(builder, disk.clone(), Now::default(), options)
}

/// A disk with checkpoints of a tally that was dropped in the middle.
fn interrupted() -> (Disk, Committed) {
    let (disk, committed) = (Disk::new(), Committed::default());
    drive_rounds(&mut assemble_job(tally(&committed, &NAMES), &disk, &small(1)).unwrap(), 45);
    (disk, committed)
}

#[test]
fn r1_state_follows_operators_that_have_other_names() {
    for lazy_restore in [false, true] {
        let (disk, committed) = interrupted();
        let names = Names { source: "origin", tally: "count", sink: "output" };
        let mut job = tally(&committed, &names);
        for (operator, previous) in [("origin", "source"), ("count", "tally"), ("output", "collect")] {
            job.previously(operator, previous);
        }
        let mut job = assemble_job(job, &disk, &JobOptions { lazy_restore, ..small(2) }).unwrap();
        let resumed_from = job.resumed_from;
        assert!(resumed_from.is_some());
        let observer = job.observer();
        drive(&mut job.take_actors(), || observer.progress().last_checkpoint.is_some());
        // From its own checkpoints on nobody has to know the names of before.
        match assemble_job(tally(&committed, &names), &disk, &small(3)) {
            Err(JobError::AlreadyFinished { checkpoint }) => assert!(Some(checkpoint) > resumed_from),
            job => {
                let job = job.unwrap();
                assert!(job.resumed_from > resumed_from, "{:?}", job.resumed_from);
                run(job).unwrap();
            }
        }
        assert_tallied(&committed);
    }
}

#[test]
fn r1_an_operator_is_taken_by_its_own_name_first() {
    let (disk, committed) = interrupted();
    let mut job = tally(&committed, &NAMES);
    job.previously("tally", "something");
    run(assemble_job(job, &disk, &small(2)).unwrap()).unwrap();
    assert_tallied(&committed);
}

#[test]
fn r3_state_without_an_operator_is_refused_or_dropped_and_said() {
    let (disk, committed) = interrupted();
    let changed = || tally(&committed, &Names { sink: "other", ..NAMES });
    let refused = assemble_job(changed(), &disk, &small(2)).unwrap_err();
    assert!(
        matches!(&refused, JobError::NonRestoredState { owner, .. } if owner == "operator collect"),
        "{refused}"
    );
    assert!(!refused.to_string().contains('\n'), "{refused}");
    let allowed = JobOptions { allow_non_restored_state: true, ..small(2) };
    let report = run(assemble_job(changed(), &disk, &allowed).unwrap()).unwrap();
    assert!(report.resumed_from.is_some());
    assert!(
        report.notes.iter().any(|note| note.contains("collect") && note.contains("dropped")),
        "{report:?}"
    );
}

#[test]
fn r7_operators_are_added_and_begin_with_nothing() {
    let (disk, committed) = interrupted();
    let mut job = JobBuilder::new("tally", 128);
    job.source("source", 2, numbers)
        .flat_map("pair", pair)
        .rebalance("spread", 3)
        .flat_map("same", |pair: &(i64, u64), out: &mut Output<'_, (i64, u64)>| out.emit(pair))
        .key_by::<Plain<i64>, _>(|pair: &(i64, u64)| &pair.0)
        .process("tally", 3, |_| Tally { seen: None })
        .sink("collect", collect(&committed));
    let doubled = Committed::default();
    job.source("more", 2, numbers)
        .flat_map("double", |number: &u64, out: &mut Output<'_, u64>| out.emit(&(number * 2)))
        .sink("more output", collect(&doubled));
    let job = assemble_job(job, &disk, &small(2)).unwrap();
    assert!(job.resumed_from.is_some());
    run(job).unwrap();
    assert_tallied(&committed);
    assert_exact(&doubled);
}

#[test]
fn state_follows_operators_that_are_chained_elsewhere() {
    let (disk, committed) = interrupted();
    // The sink runs in subtasks of its own now, and the function behind it.
    let apart = || {
        let mut job = JobBuilder::new("tally", 128);
        job.source("source", 2, numbers)
            .rebalance("early", 1)
            .flat_map("pair", pair)
            .key_by::<Plain<i64>, _>(|pair: &(i64, u64)| &pair.0)
            .process("tally", 2, |_| Tally { seen: None })
            .rebalance("late", 3)
            .sink("collect", collect(&committed));
        job
    };
    let mut job = assemble_job(apart(), &disk, &small(2)).unwrap();
    let resumed_from = job.resumed_from;
    assert!(resumed_from.is_some());
    drive_rounds(&mut job, 40);
    // And back.
    let job = assemble_job(tally(&committed, &NAMES), &disk, &small(3)).unwrap();
    assert!(job.resumed_from > resumed_from, "{:?}", job.resumed_from);
    run(job).unwrap();
    assert_tallied(&committed);
}

#[test]
fn keyed_state_is_not_given_to_an_operator_without_a_key() {
    let (disk, committed) = interrupted();
    let mut job = JobBuilder::new("tally", 128);
    job.source("source", 2, numbers)
        .flat_map("pair", pair)
        .rebalance("tally", 2)
        .flat_map("number", |pair: &(i64, u64), out: &mut Output<'_, u64>| out.emit(&pair.1))
        .sink("collect", collect(&committed));
    let refused = assemble_job(job, &disk, &small(2)).unwrap_err();
    assert!(matches!(refused, JobError::OtherJob { .. }), "{refused}");
    assert!(refused.to_string().contains("tally has no keyed state"), "{refused}");
}

/// Two pipelines of which one ends early, stopped when it has.
fn half_finished() -> (Disk, Committed, Committed) {
    let (disk, short, long) = (Disk::new(), Committed::default(), Committed::default());
    let mut job = assemble_job(two_pipelines(&short, &long, false), &disk, &small(1)).unwrap();
    let shown = Arc::clone(&short);
    drive(&mut job.take_actors(), || lock(&shown).len() == 10);
    (disk, short, long)
}

fn two_pipelines(short: &Committed, long: &Committed, between: bool) -> JobBuilder {
    let mut job = JobBuilder::new("two", 128);
    let stream = job.source("short", 1, |_| Numbers { next: 0, end: 10, step: 1 });
    let stream = if between { stream.rebalance("between", 1) } else { stream };
    stream.rebalance("apart", 1).sink("short output", collect(short));
    job.source("long", 2, numbers)
        .flat_map("double", |number: &u64, out: &mut Output<'_, u64>| out.emit(&(number * 2)))
        .sink("long output", collect(long));
    job
}

#[test]
fn p37_nothing_is_put_before_an_operator_that_had_finished() {
    let (disk, short, long) = half_finished();
    let refused = assemble_job(two_pipelines(&short, &long, true), &disk, &small(2)).unwrap_err();
    assert!(refused.to_string().contains("apart had finished, but between"), "{refused}");
    let job = assemble_job(two_pipelines(&short, &long, false), &disk, &small(3)).unwrap();
    assert!(job.resumed_from.is_some());
    run(job).unwrap();
    assert_exact(&long);
    assert_eq!(*lock(&short), (0..10).collect::<Vec<_>>());
}

#[test]
fn names_of_before_that_make_no_sense_are_refused() {
    for (operator, previous, words) in [
        ("nobody", "somebody", "no operator nobody"),
        ("tally", "source", "another operator has that name"),
        ("collect", "old", "two operators"),
    ] {
        let mut job = tally(&Committed::default(), &NAMES);
        job.previously("pair", "old");
        job.previously(operator, previous);
        let refused = assemble_job(job, &Disk::new(), &small(1)).unwrap_err().to_string();
        assert!(refused.contains(words), "{refused}");
    }
}

//! Savepoints: taken while a job works, and started from.

use super::keyed::{assert_tallied, drive_rounds, flip, keyed_job};
use super::*;
use crate::recovery::find;
use crate::savepoint::{RestoreFrom, RestoreMode, Savepoint, SavepointError};

const FOLDER: &str = "saved/one";
/// Where the checkpoint of the savepoint lies.
const BASE: &str = "saved/one/tally";

fn start(disk: &Disk, committed: &Committed, parallelism: u16, options: &JobOptions) -> AssembledJob {
    let options = JobOptions { memory_limit_bytes: 64 << 20, ..options.clone() };
    Job::assemble(keyed_job(committed, parallelism), disk.clone(), Now::default(), &options).unwrap()
}

/// Without checkpoints of its own.
fn alone(attempt: u64) -> JobOptions {
    JobOptions { interval: None, min_pause: Millis(0), ..options(attempt) }
}

fn from_savepoint(attempt: u64, mode: RestoreMode) -> JobOptions {
    let from = RestoreFrom { folder: FOLDER.to_owned(), mode };
    JobOptions { restore_from: Some(from), ..options(attempt) }
}

/// Drives a job for some rounds, then until a savepoint is answered that is asked for, or to the end.
fn take(job: &mut AssembledJob, rounds: u64, goes_on: bool) -> Savepoint {
    let (controller, mut left) = (job.controller(), rounds);
    let mut savepoint = None;
    drive(&mut job.take_actors(), || {
        left = left.saturating_sub(1);
        let is_due = left == 0;
        let answer =
            is_due.then(|| savepoint.get_or_insert_with(|| controller.savepoint(FOLDER))).map(|s| s.result());
        !goes_on && answer.flatten().is_some()
    });
    savepoint.unwrap()
}

/// A disk with a savepoint of a job that was dropped then.
fn saved() -> (Disk, Committed, CheckpointId) {
    let (disk, committed) = (Disk::new(), Committed::default());
    let mut job = start(&disk, &committed, 2, &alone(1));
    let id = take(&mut job, 5, false).result().unwrap().unwrap();
    assert!(lock(&committed).is_empty(), "a savepoint commits nothing");
    (disk, committed, id)
}

#[test]
fn v2_a_savepoint_lies_in_a_folder_of_its_own_that_reads_like_any() {
    let (mut disk, _, id) = saved();
    assert_eq!(find(&mut disk, "tally").unwrap().last_id, None, "nothing of it lies with the job's");
    let found = find(&mut disk, BASE).unwrap();
    assert_eq!(found.retained, [id]);
    let manifest = found.newest.unwrap();
    let segments = crate::recovery::segments(&manifest);
    assert!(segments.into_iter().all(|segment| segment.file_name.starts_with(&format!("chk-{id}/"))));
}

#[test]
fn v6_a_job_goes_on_from_a_savepoint_at_any_parallelism_and_leaves_it_alone() {
    for parallelism in [1, 2, 5] {
        for lazy_restore in [false, true] {
            let (mut disk, committed, id) = saved();
            let options = JobOptions { lazy_restore, ..from_savepoint(2, RestoreMode::NoClaim) };
            let job = start(&disk, &committed, parallelism, &options);
            assert_eq!(job.resumed_from, Some(id));
            let report = run(job).unwrap();
            assert_tallied(&committed);
            assert!(report.checkpoints_completed > 0 && report.last_checkpoint > Some(id), "{report:?}");
            assert_eq!(find(&mut disk, BASE).unwrap().newest.map(|manifest| manifest.id), Some(id));
        }
    }
}

#[test]
fn v5_a_claimed_savepoint_is_one_of_the_jobs_checkpoints_and_goes_as_they_do() {
    let (mut disk, committed, id) = saved();
    let mut job = start(&disk, &committed, 2, &from_savepoint(2, RestoreMode::Claim));
    assert_eq!(job.resumed_from, Some(id));
    assert_eq!(find(&mut disk, BASE).unwrap().last_id, None, "it was moved");
    assert_eq!(find(&mut disk, "tally").unwrap().retained, [id]);
    drive_rounds(&mut job, 3);
    // Killed before it had a checkpoint of its own, the job finds what it has claimed.
    let job = start(&disk, &committed, 2, &from_savepoint(3, RestoreMode::Claim));
    assert_eq!(job.resumed_from, Some(id));
    run(job).unwrap();
    assert_tallied(&committed);
    assert!(!find(&mut disk, "tally").unwrap().retained.contains(&id));
}

#[test]
fn a_job_with_checkpoints_of_its_own_goes_on_from_those() {
    let (disk, committed, id) = saved();
    let mut job = start(&disk, &committed, 2, &from_savepoint(2, RestoreMode::NoClaim));
    drive_rounds(&mut job, 60);
    let job = start(&disk, &committed, 3, &from_savepoint(3, RestoreMode::NoClaim));
    assert!(job.resumed_from > Some(id), "{:?}", job.resumed_from);
    run(job).unwrap();
    assert_tallied(&committed);
}

#[test]
fn damaged_checkpoints_of_a_jobs_own_that_it_passes_over_for_its_savepoint_are_reported() {
    let (mut disk, committed, id) = saved();
    let mut job = start(&disk, &committed, 2, &from_savepoint(2, RestoreMode::NoClaim));
    drive_rounds(&mut job, 60);
    let mut own = find(&mut disk, "tally").unwrap().retained;
    assert!(!own.is_empty());
    own.iter().for_each(|own| flip(&mut disk, &format!("tally/chk-{own}/_metadata"), 40));
    let job = start(&disk, &committed, 3, &from_savepoint(3, RestoreMode::NoClaim));
    assert_eq!(job.resumed_from, Some(id));
    let mut passed_over: Vec<CheckpointId> = job.passed_over.iter().map(|it| it.id).collect();
    passed_over.sort_unstable();
    own.sort_unstable();
    assert_eq!(passed_over, own);
}

#[test]
fn v1_checkpoints_go_on_beside_a_savepoint_which_does_not_enter_the_store() {
    let (mut disk, committed) = (Disk::new(), Committed::default());
    let mut job = start(&disk, &committed, 2, &options(1));
    let id = take(&mut job, 15, true).result().unwrap().unwrap();
    assert_tallied(&committed);
    let report = job.report().unwrap();
    assert!(report.last_checkpoint > Some(id) && report.checkpoints_failed == 0, "{report:?}");
    assert!(!find(&mut disk, "tally").unwrap().retained.contains(&id));
    assert_eq!(find(&mut disk, BASE).unwrap().retained, [id]);
}

#[test]
fn a_savepoint_is_not_put_where_something_lies_and_the_job_goes_on() {
    let (disk, committed) = (Disk::new(), Committed::default());
    let mut job = start(&disk, &committed, 2, &options(1));
    let (controller, mut asked) = (job.controller(), Vec::new());
    drive(&mut job.take_actors(), || {
        if asked.len() < 2 && asked.iter().all(|savepoint: &Savepoint| savepoint.result().is_some()) {
            asked.push(controller.savepoint(FOLDER));
        }
        false
    });
    job.report().unwrap();
    assert_tallied(&committed);
    let answers: Vec<_> = asked.iter().map(|savepoint| savepoint.result().unwrap()).collect();
    assert!(answers[0].is_ok());
    let refused = answers[1].unwrap_err().to_string();
    assert!(refused.contains("not empty"), "{refused}");
    assert_eq!(controller.savepoint("late").result(), Some(Err(SavepointError::JobEnded)));
}

#[test]
fn a_savepoint_that_is_missing_or_damaged_is_an_error_of_one_line() {
    let (mut disk, committed, _) = saved();
    let options = |folder: &str| {
        let from = RestoreFrom { folder: folder.to_owned(), mode: RestoreMode::NoClaim };
        JobOptions { restore_from: Some(from), ..alone(2) }
    };
    let refuse = |disk: &Disk, folder| {
        let job = Job::assemble(keyed_job(&committed, 2), disk.clone(), Now::default(), &options(folder));
        job.unwrap_err().to_string()
    };
    let missing = refuse(&disk, "elsewhere");
    assert!(missing.contains("no savepoint of this job in elsewhere/tally"), "{missing}");
    let manifest = find(&mut disk, BASE).unwrap().newest.unwrap();
    let segment = crate::recovery::segments(&manifest).next().unwrap();
    flip(&mut disk, &crate::paths::join(BASE, &segment.file_name), 5000);
    let damaged = refuse(&disk, FOLDER);
    assert!(damaged.starts_with(&format!("savepoint {} in {BASE} is not sound", manifest.id)), "{damaged}");
    assert!(!damaged.contains('\n'), "{damaged}");
}

#[test]
fn a_claimed_savepoint_that_is_damaged_is_named_where_it_lies_now() {
    let (mut disk, committed, id) = saved();
    drop(start(&disk, &committed, 2, &from_savepoint(2, RestoreMode::Claim)));
    let manifest = find(&mut disk, "tally").unwrap().newest.unwrap();
    let segment = crate::recovery::segments(&manifest).next().unwrap();
    flip(&mut disk, &crate::paths::join("tally", &segment.file_name), 5000);
    for mode in [RestoreMode::Claim, RestoreMode::NoClaim] {
        let again = from_savepoint(3, mode);
        let refused = Job::assemble(keyed_job(&committed, 2), disk.clone(), Now::default(), &again);
        let refused = refused.unwrap_err().to_string();
        assert!(
            refused.starts_with(&format!("savepoint {id} in tally is not sound (tally/chk-")),
            "{refused}"
        );
        assert!(refused.contains(&format!("there is none in {BASE}")), "{refused}");
    }
}

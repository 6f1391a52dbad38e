//! The power goes before, during and after every operation while a savepoint is taken, and while a job starts from one.
//! A savepoint that was answered is there, whole, whatever becomes of the job; one that a job claims is always either its
//! owner's or the job's.

use slackwater::recovery::find;
use slackwater::savepoint::RestoreMode;
use slackwater::stop::StopMode;
use slackwater::word_count::Emit;
use slackwater_core::ids::CheckpointId;
use slackwater_mem::sim::{Image, SimOptions};
use slackwater_tests::aftermath::{Promise, expect_finished};
use slackwater_tests::crash::{Recorded, Sim, Suite, disk_of};
use slackwater_tests::sim_job::{CHECKPOINTS, RunEnd, SimJob};

const FOLDER: &str = "saved/one";

fn base() -> String {
    format!("{FOLDER}/{CHECKPOINTS}")
}

/// Tries a test's images, some of them at every kind of operation that gives a name.
fn cut_everywhere(
    name: &'static str,
    recorded: Recorded,
    check: impl Fn(&Recorded, &Image) -> Result<(), String> + Sync,
) {
    let suite = Suite { test: ("power_cut_savepoint", name), images: 10_000, percent: 6 };
    if let Some(tally) = suite.power_cuts(&[recorded], check) {
        let kinds = ["CreateFolder", "Rename", "SyncFolder"];
        assert!(kinds.iter().all(|kind| tally.cuts_at(kind) > 0), "{tally}");
    }
}

/// The savepoint that lies there, which is never anything but sound.
fn savepoint(disk: &mut Sim) -> Result<Option<CheckpointId>, String> {
    let found = find(disk, &base()).map_err(|error| error.to_string())?;
    match found.passed_over.first() {
        Some(damaged) => Err(format!("savepoint {} is not sound: {}", damaged.id, damaged.reason)),
        None => Ok(found.newest.map(|manifest| manifest.id)),
    }
}

#[test]
fn a_savepoint_that_was_answered_survives_and_the_job_goes_on_without_it() {
    let job = SimJob::small(6, Emit::Updates).saving_in(FOLDER);
    let recorded = Recorded::new(job);
    let (id, at) = recorded.run.saved.expect("the job took a savepoint");
    let check = |recorded: &Recorded, image: &Image| {
        let there = savepoint(&mut disk_of(image))?;
        if there != Some(id) && (there.is_some() || image.operation() > at) {
            return Err(format!("{there:?} lies there, savepoint {id} was answered after operation {at}"));
        }
        recorded.crash(image, 0)
    };
    cut_everywhere("a_savepoint_that_was_answered_survives_and_the_job_goes_on_without_it", recorded, check);
}

/// A job that has recorded its start from a savepoint.
fn started_from(mode: RestoreMode) -> (Recorded, CheckpointId) {
    let disk = Sim::new(SimOptions::default());
    let mut job = SimJob::small(7, Emit::Updates).only_last().saving_at_last_in(FOLDER);
    let saved = job.run(disk.clone(), None).expect("nothing happens to it");
    let (id, _) = saved.saved.expect("the job took a savepoint");
    let left = disk.image_after_power_cut(1);
    let mut job = SimJob::small(7, Emit::Updates).starting_from(FOLDER, mode);
    job.skip_starts(1);
    let recorded = Recorded::on(&mut job, &left, |disk| disk, &Promise::default());
    let recorded = recorded.expect("nothing happens to it");
    assert!(matches!(recorded.run.end, RunEnd::Finished), "{:?}", recorded.run);
    assert_eq!(recorded.run.resumed_from, Some(id));
    (recorded, id)
}

/// Starts the job again as it was started before.
fn goes_on(recorded: &Recorded, image: &Image, id: CheckpointId) -> Result<Sim, String> {
    let (mut job, mut disk) = (recorded.job.clone(), disk_of(image));
    let run = job.run(disk.clone(), None)?;
    if run.resumed_from < Some(id) {
        return Err(format!("the job does not go on from savepoint {id}, nor from what followed: {run:?}"));
    }
    expect_finished(&run, &job, &mut disk)?;
    Ok(disk)
}

#[test]
fn v5_a_claimed_savepoint_is_its_owners_or_the_jobs_whenever_the_power_goes() {
    let (recorded, id) = started_from(RestoreMode::Claim);
    let check = |recorded: &Recorded, image: &Image| goes_on(recorded, image, id).map(drop);
    cut_everywhere(
        "v5_a_claimed_savepoint_is_its_owners_or_the_jobs_whenever_the_power_goes",
        recorded,
        check,
    );
}

#[test]
fn v6_a_savepoint_that_is_not_claimed_stays_whatever_happens_to_the_job() {
    let (recorded, id) = started_from(RestoreMode::NoClaim);
    let check = |recorded: &Recorded, image: &Image| {
        let before = savepoint(&mut disk_of(image))?;
        let after = savepoint(&mut goes_on(recorded, image, id)?)?;
        if (before, after) != (Some(id), Some(id)) {
            return Err(format!("{before:?} lay there, {after:?} is left, it was {id}"));
        }
        Ok(())
    };
    cut_everywhere("v6_a_savepoint_that_is_not_claimed_stays_whatever_happens_to_the_job", recorded, check);
}

/// Stops a job and tries what any crash of that leaves: the job starts again as from then on, with the savepoint if it
/// is there.
fn stop_and_go_on(name: &'static str, mode: RestoreMode) {
    let recorded = Recorded::new(SimJob::small(8, Emit::Updates).stopping_in(FOLDER, StopMode::Suspend));
    let (id, at) = recorded.run.saved.expect("the job was stopped");
    let check = |recorded: &Recorded, image: &Image| {
        let mut disk = disk_of(image);
        let is_stopped = image.operation() > at;
        let mut job = recorded.job.clone().without_savepoint();
        if savepoint(&mut disk)?.is_some() {
            job = job.starting_from(FOLDER, mode);
        } else if is_stopped {
            return Err(format!("savepoint {id} is not there, the job stopped after operation {at}"));
        }
        let run = job.run(disk.clone(), None)?;
        if is_stopped && run.resumed_from != Some(id) {
            return Err(format!("the job does not go on from savepoint {id}: {run:?}"));
        }
        expect_finished(&run, &job, &mut disk)
    };
    cut_everywhere(name, recorded, check);
}

#[test]
fn x27_a_stopped_job_goes_on_exactly_whenever_the_power_goes() {
    stop_and_go_on("x27_a_stopped_job_goes_on_exactly_whenever_the_power_goes", RestoreMode::NoClaim);
}

#[test]
fn x27_a_stopped_job_claims_its_savepoint_and_goes_on_exactly_whenever_the_power_goes() {
    let name = "x27_a_stopped_job_claims_its_savepoint_and_goes_on_exactly_whenever_the_power_goes";
    stop_and_go_on(name, RestoreMode::Claim);
}

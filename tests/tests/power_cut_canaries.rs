//! The machinery that makes a checkpoint durable, with one mistake in it: the power cuts must find each.
//!
//! Every mistake is made on purpose by a layer between the job and the disk; the job that starts again afterwards
//! makes none.
#![expect(clippy::print_stdout, reason = "a test says what it has found")]

use slackwater::word_count::Emit;
use slackwater_core::durable::{DiskError, OperationKind};
use slackwater_mem::sim::{Crash, Fault, Image, Lies, PowerCuts, SimOptions, When};
use slackwater_tests::buggy_disk::{Bug, buggy};
use slackwater_tests::crash::{Recorded, Sim};
use slackwater_tests::sim_job::SimJob;

/// Images that are tried before a mistake counts as not found.
const IMAGES: u64 = 1_000;

fn job(seed: u64) -> SimJob {
    SimJob::small(seed, Emit::Updates)
}

/// Tries a run until an image shows that something is lost; what it shows.
fn lost(recorded: &Recorded) -> Option<String> {
    let tried = recorded.cuts().images(IMAGES).check(|image| recorded.crash(image, 0));
    tried.err().map(|failure| failure.to_string())
}

/// Runs a job that makes a mistake.
fn run_with(bug: Bug, job: SimJob) -> Recorded {
    Recorded::new_on(job, &Sim::new(SimOptions::default()), |disk| buggy(disk, bug))
}

fn expect_found(bug: Bug) {
    let found = (1..4).find_map(|seed| lost(&run_with(bug, job(seed))));
    let found = found.unwrap_or_else(|| panic!("{bug:?} was not found"));
    println!("{bug:?}: {found}");
}

#[test]
fn the_layer_alone_does_no_harm() {
    assert_eq!(lost(&run_with(Bug::None, job(1))), None);
}

#[test]
fn a_missing_sync_of_bytes_is_found() {
    [Bug::SegmentNotSynced, Bug::ManifestNotSynced, Bug::PartNotSynced].into_iter().for_each(expect_found);
}

#[test]
fn a_missing_sync_of_a_name_is_found() {
    [Bug::SegmentNameNotSynced, Bug::ManifestNameNotSynced, Bug::PartNameNotSynced, Bug::CommitNotSynced]
        .into_iter()
        .for_each(expect_found);
}

#[test]
fn a_missing_sync_of_a_new_folder_is_found() {
    [Bug::TopFolderNotSynced, Bug::CheckpointFolderNotSynced].into_iter().for_each(expect_found);
}

#[test]
fn an_acknowledgement_before_the_sync_is_found() {
    expect_found(Bug::AcknowledgedBeforeSync);
}

#[test]
fn a_commit_before_the_checkpoint_is_complete_is_found() {
    expect_found(Bug::CommittedBeforeComplete);
}

#[test]
fn a_deletion_before_its_discard_was_recorded_is_found() {
    [Bug::DiscardNotSynced, Bug::DeletedBeforeDiscardRecorded].into_iter().for_each(expect_found);
}

/// A kernel that says that all is well the second time, and a program that asks a second time.
#[test]
fn a_sync_that_is_tried_again_is_found() {
    let lies = Lies { sync_again: true, ..Lies::default() };
    let disk = || Sim::new(SimOptions { lies, ..SimOptions::default() });
    let sound = disk();
    Recorded::new_on(job(1), &sound, |disk| buggy(disk, Bug::SyncTriedAgain));
    let history = (1..).zip(sound.history());
    let syncs = history.filter(|(_, submitted)| submitted.kind == OperationKind::SyncFile).take(6);
    let found = syncs.map(|(operation, submitted)| {
        let disk = disk();
        disk.inject(operation, Fault::Error(DiskError::IO));
        let recorded = Recorded::new_on(job(1), &disk, |disk| buggy(disk, Bug::SyncTriedAgain));
        let found = lost(&recorded).is_some();
        println!("{:?} of {} tried again: found {found}", submitted.kind, submitted.path);
        (submitted.path, found)
    });
    let found: Vec<_> = found.collect();
    for file in [".seg", "_metadata.inprogress", ".tmp"] {
        assert!(found.iter().any(|(path, found)| path.ends_with(file) && *found), "{file}: {found:?}");
    }
}

/// A start after a kill that believes what it sees, durable or not.
#[test]
fn a_start_that_takes_a_killed_process_at_its_word_is_found() {
    let recorded = Recorded::new(job(1));
    let killed = PowerCuts::of(&recorded.log).crash(Crash::Process);
    // Only a kill between the rename of a manifest and the sync of its folder leaves something to get wrong.
    let is_renamed =
        |image: &Image| image.when() == When::After && image.submitted().path.contains("_metadata");
    let images = (0..killed.places()).filter_map(|number| killed.image(number));
    let renamed = images.filter(|image| is_renamed(image) && image.submitted().kind == OperationKind::Rename);
    let resumed = renamed.map(|image| recorded.recovery(&image, |disk| buggy(disk, Bug::ResumedUnsynced)));
    let found = resumed.filter_map(|next| lost(&next)).next().expect("ResumedUnsynced was not found");
    println!("ResumedUnsynced: {found}");
}

#[test]
fn every_mistake_has_a_test() {
    let text = include_str!("power_cut_canaries.rs");
    for bug in Bug::ALL {
        assert!(text.contains(&format!("Bug::{bug:?}")), "{bug:?} is not tried");
    }
}

//! The power goes before, during and after every operation of a word count: of its checkpoints, its commits, the
//! deletion of what is no longer kept, and its recovery. After each, the newest checkpoint that was announced is
//! there, or a newer one that is whole; nothing retained is gone; the job goes on and its output is exact.
//!
//! `SLACKWATER_POWER_CUTS=100000` tries so many images instead of 10,000; a failure prints the command that repeats it.
#![expect(clippy::print_stdout, reason = "a test says what it has tried")]

use slackwater::Compression;
use slackwater::word_count::Emit;
use slackwater_mem::sim::{Crash, Tally, When};
use slackwater_tests::crash::{CHANGES, Recorded, Suite};
use slackwater_tests::sim_job::SimJob;

/// Images of the whole suite; each test has its share of them. Those of a second power cut, in the middle of what follows
/// the first, come on top.
const IMAGES: u64 = 10_000;

/// Jobs of every kind, each recorded once.
fn recorded() -> Vec<Recorded> {
    let jobs = [
        SimJob::small(1, Emit::Updates),
        SimJob::small(2, Emit::Final),
        SimJob::small(3, Emit::Updates).compressed(Compression::Lz4),
        SimJob::small(4, Emit::Final).compressed(Compression::Zstd),
        SimJob::small(5, Emit::Updates).restoring_lazily(),
    ];
    jobs.map(Recorded::new).into()
}

/// Where the power has to have gone, or the test has shown nothing.
fn expect_cuts_at(tally: &Tally, kinds: &[&str]) {
    println!("{tally}");
    for kind in kinds {
        for when in [When::Before, When::During, When::After] {
            assert!(
                tally.cuts.contains_key(&((*kind).to_owned(), when)),
                "{when} {kind} is missing: {tally}"
            );
        }
    }
    assert!(tally.vanished_names > 0 && tally.reordered > 0, "{tally}");
}

/// What the power has to have taken.
fn expect_lost(tally: &Tally) {
    assert!(tally.torn_writes > 0 && tally.lost_writes > 0 && tally.lost_lengths > 0, "{tally}");
}

const fn suite(name: &'static str, percent: u64) -> Suite {
    Suite { test: ("power_cut", name), images: IMAGES, percent }
}

#[test]
fn i04_the_power_goes_at_every_operation_of_a_job() {
    let suite = suite("i04_the_power_goes_at_every_operation_of_a_job", 67);
    let recorded = recorded();
    // What is kept is less than that, so some are deleted.
    assert!(recorded.iter().all(|recorded| recorded.history.len() > 3));
    if let Some(tally) = suite.power_cuts(&recorded, |recorded, image| recorded.crash(image, 25)) {
        expect_cuts_at(&tally, &CHANGES);
        expect_lost(&tally);
    }
}

#[test]
fn i04_the_power_goes_again_at_every_operation_of_a_recovery() {
    let suite = suite("i04_the_power_goes_again_at_every_operation_of_a_recovery", 25);
    let recoveries: Vec<_> =
        recorded().iter().flat_map(|recorded| recorded.recoveries(Crash::Power)).collect();
    if let Some(tally) = suite.power_cuts(&recoveries, |recorded, image| recorded.crash(image, 10)) {
        expect_cuts_at(&tally, &["CreateFolder", "Rename", "SyncFolder", "Remove"]);
        assert!(tally.cuts_at("Read") > 0 && tally.cuts_at("OpenFile") > 0, "{tally}");
    }
}

/// A process that was killed leaves more that is not durable than one that lost power: the next one must not take
/// it for durable.
#[test]
fn i04_the_power_goes_at_every_operation_of_a_recovery_from_a_kill() {
    let name = "i04_the_power_goes_at_every_operation_of_a_recovery_from_a_kill";
    let suite = suite(name, 30);
    let recoveries: Vec<_> =
        recorded().iter().flat_map(|recorded| recorded.recoveries(Crash::Process)).collect();
    if let Some(tally) = suite.power_cuts(&recoveries, |recorded, image| recorded.crash(image, 10)) {
        expect_cuts_at(&tally, &["CreateFolder", "Rename", "SyncFolder", "Remove"]);
        expect_lost(&tally);
    }
}

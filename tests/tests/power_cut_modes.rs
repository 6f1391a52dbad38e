//! The power goes at every operation of jobs whose barriers pass records in other ways than by aligning.
#![expect(clippy::print_stdout, reason = "a test says what it has tried")]

use slackwater::CheckpointingMode;
use slackwater::word_count::Emit;
use slackwater_core::time::Millis;
use slackwater_tests::crash::{Recorded, Suite};
use slackwater_tests::sim_job::{Modes, SimJob};

/// Images of the whole suite; each test has its share of them.
const IMAGES: u64 = 10_000;

/// Tries a test's images of such jobs: what is left is whole, the job goes on, and its output is what it promises.
fn holds_when_the_power_goes(name: &'static str, modes: Modes, percent: u64) {
    let suite = Suite { test: ("power_cut_modes", name), images: IMAGES, percent };
    let jobs = [SimJob::small(21, Emit::Updates), SimJob::small(22, Emit::Final)];
    let recorded = jobs.map(|job| Recorded::new(job.in_modes(modes)));
    assert!(recorded.iter().all(|recorded| recorded.history.len() > 3));
    if let Some(tally) = suite.power_cuts(&recorded, |recorded, image| recorded.crash(image, 10)) {
        println!("{tally}");
        let kinds = ["CreateFile", "Write", "SyncFile", "Rename", "SyncFolder"];
        assert!(kinds.iter().all(|kind| tally.cuts_at(kind) > 0), "{tally}");
    }
}

#[test]
fn u14_unaligned_checkpoints_are_exact_when_the_power_goes() {
    let modes = Modes { unaligned: true, ..Modes::default() };
    holds_when_the_power_goes("u14_unaligned_checkpoints_are_exact_when_the_power_goes", modes, 3);
}

#[test]
fn b18_checkpoints_that_turn_unaligned_are_exact_when_the_power_goes() {
    let modes = Modes { unaligned: true, aligned_checkpoint_timeout: Millis(3), ..Modes::default() };
    holds_when_the_power_goes("b18_checkpoints_that_turn_unaligned_are_exact_when_the_power_goes", modes, 3);
}

#[test]
fn g3_at_least_once_loses_nothing_when_the_power_goes() {
    let modes = Modes { mode: CheckpointingMode::AtLeastOnce, ..Modes::default() };
    holds_when_the_power_goes("g3_at_least_once_loses_nothing_when_the_power_goes", modes, 3);
}

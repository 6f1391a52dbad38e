//! Whole jobs of the real runtime in a simulation: random graphs of the real operators, heaps, writers and sinks, on a
//! simulated disk, on virtual time, with actors in an order that a seed chooses. Processes die, the power goes, user
//! code panics, the disk is full, slow or fails, checkpoints rot, savepoints are taken and started from, at any
//! parallelism. Hooks and coordinators of sources take part in checkpoints, and have to be at the same cut. What is committed in the end is what a run without failures commits.
//!
//! `SLACKWATER_JOB_SIM_SEEDS=50000` tries more; `SLACKWATER_JOB_SIM_SEED=7` repeats one and says what happens.
#![expect(clippy::print_stderr, reason = "a failing seed prints the command that repeats it")]

use std::env;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

#[path = "job_sim/actors.rs"]
mod actors;
#[path = "job_sim/coverage.rs"]
mod coverage;
#[path = "job_sim/cut.rs"]
mod cut;
#[path = "job_sim/disk.rs"]
mod disk;
#[path = "job_sim/folder.rs"]
mod folder;
#[path = "job_sim/graph.rs"]
mod graph;
#[path = "job_sim/hooks.rs"]
mod hooks;
#[path = "job_sim/ledger.rs"]
mod ledger;
#[path = "job_sim/operators.rs"]
mod operators;
#[path = "job_sim/oracle.rs"]
mod oracle;
#[path = "job_sim/plan.rs"]
mod plan;
#[path = "job_sim/process.rs"]
mod process;
#[path = "job_sim/record.rs"]
mod record;
#[path = "job_sim/run.rs"]
mod run;
#[path = "job_sim/sink.rs"]
mod sink;
#[path = "job_sim/source.rs"]
mod source;
#[path = "job_sim/tamper.rs"]
mod tamper;
#[path = "job_sim/world.rs"]
mod world;

use coverage::Coverage;
use hooks::PlannedPanic;
use plan::{Mutant, Plan};
use world::World;

/// Seeds of a run without the variable.
const SEEDS: u64 = 1_000;
const FAILURES_SHOWN: usize = 10;
/// Within so many seeds each bug must be found.
const SEEDS_OF_MUTANT: u64 = 2_000;

/// What must have happened at least once in a hundred seeds.
const EXERCISED: [&str; 34] = [
    "kills",
    "power cuts",
    "rescales",
    "restores",
    "lazy restores",
    "starts from nothing",
    "starts with a savepoint",
    "starts that failed",
    "restarts by the supervisor",
    "jobs that were given up",
    "panics of user code",
    "errors of user code",
    "full disks",
    "slow disks",
    "failed operations of the disk",
    "damaged checkpoints",
    "checkpoints passed over",
    "complete checkpoints",
    "recovered transactions",
    "aborted checkpoints, in sinks",
    "savepoints",
    "suspended jobs",
    "drained jobs",
    "bundles that a barrier has opened",
    "bundles that time has opened",
    "restores of records in flight",
    "answers of hooks at once",
    "answers of hooks that came later",
    "states of hooks at the same cut",
    "checkpoints that hooks or coordinators have refused",
    "requests to coordinators",
    "restored coordinators",
    "power cuts of jobs with hooks",
    "power cuts of jobs with coordinators",
];

fn number(variable: &str) -> Option<u64> {
    env::var(variable).ok().map(|value| value.parse().expect("the variable is a number"))
}

/// Runs one seed; a broken invariant is a failure like any other.
fn run(plan: Plan) -> (Result<(), String>, Coverage) {
    let result = catch_unwind(AssertUnwindSafe(|| {
        let mut world = World::new(plan);
        let verdict = world.run();
        let mut coverage = world.coverage.clone();
        coverage.merge(&world.hooks.coverage());
        (verdict, coverage)
    }));
    result.unwrap_or_else(|_| (Err("something panicked".to_owned()), Coverage::default()))
}

/// Panics that are planned say nothing.
fn hush() {
    let others = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        if !info.payload().is::<PlannedPanic>() {
            others(info);
        }
    }));
}

/// Runs seeds on every processor, until `is_enough` of a failure. Gives the failures and what was exercised.
fn each(
    seeds: u64,
    mutant: Option<Mutant>,
    is_enough: impl Fn(usize) -> bool + Sync,
) -> (Vec<(u64, String)>, Coverage) {
    let next = AtomicU64::new(0);
    let found = Mutex::new((Vec::new(), Coverage::default()));
    let work = || {
        while let Some(seed) = Some(next.fetch_add(1, Ordering::Relaxed)).filter(|seed| *seed < seeds) {
            let (verdict, coverage) = run(Plan::of(seed, mutant));
            let mut found = found.lock().expect("nobody panics with it");
            found.1.merge(&coverage);
            if let Err(error) = verdict {
                found.0.push((seed, error));
                if is_enough(found.0.len()) {
                    next.store(seeds, Ordering::Relaxed);
                }
            }
        }
    };
    let threads = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(work))));
    let (mut failures, coverage) = found.into_inner().expect("nobody panics with it");
    failures.sort();
    (failures, coverage)
}

#[test]
fn job_sim_what_is_committed_is_what_a_run_without_failures_commits() {
    hush();
    if let Some(seed) = number("SLACKWATER_JOB_SIM_SEED") {
        let plan = Plan { is_traced: true, ..Plan::of(seed, None) };
        eprintln!("{plan:#?}");
        run(plan).0.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        return;
    }
    let seeds = number("SLACKWATER_JOB_SIM_SEEDS").unwrap_or(SEEDS);
    let (failures, coverage) = each(seeds, None, |failures| failures >= FAILURES_SHOWN);
    for (seed, error) in &failures {
        let rerun = "cargo test -p slackwater-tests --test job_sim -- --nocapture job_sim_what";
        eprintln!("seed {seed}: {error}\nSLACKWATER_JOB_SIM_SEED={seed} {rerun}");
    }
    println!("{seeds} seeds");
    for (what, times) in coverage.iter() {
        println!("{times:>9} {what}");
    }
    assert!(failures.is_empty(), "seeds that failed: {}", failures.len());
    let rare: Vec<_> = EXERCISED.iter().filter(|what| coverage.of(what) * 100 < seeds).collect();
    assert!(seeds < 100 || rare.is_empty(), "too rare: {rare:?}");
}

#[test]
fn job_sim_finds_each_bug_that_is_switched_on() {
    hush();
    let mut missed = Vec::new();
    for mutant in Mutant::ALL {
        match each(SEEDS_OF_MUTANT, Some(mutant), |_| true).0.first() {
            Some((seed, error)) => println!("{mutant:?}: seed {seed}: {error}"),
            None => missed.push(mutant),
        }
    }
    assert!(missed.is_empty(), "not found: {missed:?}");
}

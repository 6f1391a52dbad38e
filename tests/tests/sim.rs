//! The whole protocol in a simulation: coordinator, tasks in a random graph, channels, and sinks that commit in two
//! phases, driven by the machines of `slackwater-core` on virtual time. Messages are delayed, overtake each other and get
//! lost; tasks and processes die, checkpoints expire, are declined and damaged; jobs are restored with another
//! parallelism. What is committed in the end is what a run without failures commits.
//!
//! `SLACKWATER_SIM_SEEDS=20000` tries more runs. A failure prints the command that repeats it.
#![expect(clippy::print_stderr, reason = "a failing seed prints the command that repeats it")]

use std::env;
use std::panic::{AssertUnwindSafe, catch_unwind};

#[path = "sim/control.rs"]
mod control;
#[path = "sim/effects.rs"]
mod effects;
#[path = "sim/end.rs"]
mod end;
#[path = "sim/event.rs"]
mod event;
#[path = "sim/faults.rs"]
mod faults;
#[path = "sim/files.rs"]
mod files;
#[path = "sim/job.rs"]
mod job;
#[path = "sim/oracle.rs"]
mod oracle;
#[path = "sim/plan.rs"]
mod plan;
#[path = "sim/record.rs"]
mod record;
#[path = "sim/restore.rs"]
mod restore;
#[path = "sim/sink.rs"]
mod sink;
#[path = "sim/storage.rs"]
mod storage;
#[path = "sim/task.rs"]
mod task;
#[path = "sim/task_capture.rs"]
mod task_capture;
#[path = "sim/task_flow.rs"]
mod task_flow;
#[path = "sim/task_input.rs"]
mod task_input;
#[path = "sim/task_orders.rs"]
mod task_orders;
#[path = "sim/task_output.rs"]
mod task_output;
#[path = "sim/world.rs"]
mod world;

use plan::{Coverage, Mutant, Plan};
use world::World;

/// Seeds of a run without the variable.
const SEEDS: u64 = 200;
const FAILURES_SHOWN: u32 = 10;
/// Within so many seeds each bug must be found.
const SEEDS_OF_MUTANT: u64 = 2_000;

fn number(variable: &str) -> Option<u64> {
    env::var(variable).ok().map(|value| value.parse().expect("the variable is a number"))
}

/// What must have happened at least once in a hundred seeds.
const EXERCISED: [&str; 30] = [
    "dead tasks",
    "dead processes",
    "power cuts",
    "failovers",
    "restores",
    "starts from nothing",
    "rescales",
    "rescaled records in flight",
    "fallbacks to an older checkpoint",
    "complete checkpoints",
    "declines",
    "expired checkpoints",
    "subsumed checkpoints",
    "failed folders",
    "failed operations of the disk",
    "files that were being written at a death",
    "failed manifests",
    "lost notifications",
    "lost triggers",
    "lost reports",
    "late acknowledgements",
    "cancel markers",
    "alignments that timed out",
    "announced barriers called",
    "overtaken records",
    "overtaking while it waits for room",
    "captured records",
    "replayed records",
    "recovered transactions",
    "savepoints",
];

/// Runs one seed; a broken invariant is a failure like any other.
fn run(plan: Plan, coverage: &mut Coverage) -> Result<(), String> {
    let result = catch_unwind(AssertUnwindSafe(|| {
        let mut world = World::new(plan)?;
        let verdict = world.run();
        coverage.merge(&world.coverage);
        verdict
    }));
    result.unwrap_or_else(|_| Err("a machine is broken".to_owned()))
}

/// Runs these plans. A failure says how to repeat it; the first few are shown.
fn check(plans: impl IntoIterator<Item = Plan>, coverage: &mut Coverage) {
    let mut failures = 0;
    for plan in plans {
        let seed = plan.seed;
        if let Err(error) = run(plan, coverage) {
            failures += 1;
            eprintln!(
                "seed {seed}: {error}\nSLACKWATER_SIM_SEED={seed} cargo test -p slackwater-tests --test sim -- --nocapture"
            );
        }
        assert!(failures < FAILURES_SHOWN, "and so on");
    }
    assert_eq!(failures, 0, "seeds that failed");
}

#[test]
fn sim_what_is_committed_is_what_a_run_without_failures_commits() {
    let mut coverage = Coverage::default();
    if let Some(seed) = number("SLACKWATER_SIM_SEED") {
        let plan = Plan { is_traced: true, ..Plan::of(seed, None) };
        println!("{plan:#?}");
        return check([plan], &mut coverage);
    }
    let seeds = number("SLACKWATER_SIM_SEEDS").unwrap_or(SEEDS);
    check((0..seeds).map(|seed| Plan::of(seed, None)), &mut coverage);
    println!("{seeds} seeds");
    for (what, times) in coverage.iter() {
        println!("{times:>9} {what}");
    }
    let is_rare = |what: &&&str| coverage.of(what) * 100 < seeds;
    let rare: Vec<_> = EXERCISED.iter().filter(is_rare).collect();
    assert!(seeds < 100 || rare.is_empty(), "too rare: {rare:?}");
}

#[test]
fn sim_finds_each_bug_that_is_switched_on() {
    let mut missed = Vec::new();
    for mutant in Mutant::ALL {
        let found = (0..SEEDS_OF_MUTANT)
            .map(|seed| Plan::of(seed, Some(mutant)))
            .find_map(|plan| Some((plan.seed, run(plan, &mut Coverage::default()).err()?)));
        match found {
            Some((seed, error)) => println!("{mutant:?}: seed {seed}: {error}"),
            None => missed.push(mutant),
        }
    }
    assert!(missed.is_empty(), "not found: {missed:?}");
}

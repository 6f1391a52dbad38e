//! A disk on which something goes wrong: an operation that fails, a write that ends early or lands elsewhere without
//! saying so, a bit that rots. The job goes on or gives up; what starts afterwards has lost nothing that was announced,
//! or, where bytes were damaged, takes the newest checkpoint that verifies; the output is exact.
//!
//! `SLACKWATER_FAULT=n` tries one fault alone.
#![expect(clippy::print_stdout, reason = "a test says what it has tried")]

use std::collections::BTreeMap;
use std::env;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use slackwater::Compression;
use slackwater::word_count::Emit;
use slackwater_core::durable::{DiskError, OperationKind};
use slackwater_mem::sim::rng::Rng;
use slackwater_mem::sim::{Crash, Fault, PowerCuts, SimOptions};
use slackwater_tests::aftermath::Promise;
use slackwater_tests::crash::{Recorded, Sim, disk_of, is_of_checkpoint};
use slackwater_tests::sim_job::{CHECKPOINTS, RunEnd, SimJob};

const ERRORS: [Fault; 2] = [Fault::Error(DiskError::IO), Fault::Error(DiskError::NO_SPACE)];
const DAMAGES: [Fault; 3] = [Fault::ShortWrite, Fault::MisdirectedInFile, Fault::MisdirectedToFile];

/// How often something happened, by what it was.
type Counts = BTreeMap<String, u64>;

/// Numbers the trials, does them on every processor, and counts what they say they have tried.
fn each(test: &str, count: u64, trial: impl Fn(u64) -> Result<Counts, String> + Sync) -> Counts {
    let only: Option<u64> = env::var("SLACKWATER_FAULT").ok().and_then(|text| text.parse().ok());
    let next = AtomicU64::new(only.unwrap_or(0));
    let end = only.map_or(count, |number| number + 1);
    let counts = Mutex::new(Counts::new());
    let work = || {
        while let Some(number) = Some(next.fetch_add(1, Ordering::Relaxed)).filter(|number| *number < end) {
            let tried = trial(number).unwrap_or_else(|error| {
                let rerun = "cargo test -p slackwater-tests --test power_cut_faults";
                panic!("fault {number}: {error}\nrerun with: SLACKWATER_FAULT={number} {rerun} {test}")
            });
            let mut counts = counts.lock().expect("no trial has failed");
            tried.into_iter().for_each(|(what, often)| *counts.entry(what).or_default() += often);
        }
    };
    let threads = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(work))));
    let counts = counts.into_inner().expect("no trial has failed");
    println!("{test}: {counts:#?}");
    counts
}

fn once(what: impl Into<String>) -> Counts {
    Counts::from([(what.into(), 1)])
}

/// Runs a job on an empty disk with one fault; the disk with it, as it is afterwards.
fn run_with(mut job: SimJob, operation: u64, fault: Fault) -> Result<(Recorded, Sim), String> {
    let disk = Sim::new(SimOptions { seed: operation, ..SimOptions::default() });
    disk.inject(operation, fault);
    let recorded = Recorded::on(&mut job, &disk, |disk| disk, &Promise::default())?;
    Ok((recorded, disk))
}

/// Crashes at the end of a run, or anywhere in it.
fn crash(recorded: &Recorded, rng: &mut Rng) -> Result<(), String> {
    let crash = if rng.chance(50) { Crash::Power } else { Crash::Process };
    let cuts = PowerCuts::of(&recorded.log).crash(crash).seed(rng.any());
    let numbers = [cuts.places() - 1, rng.below(cuts.places())];
    let mut images = numbers.into_iter().filter_map(|number| cuts.image(number));
    images.try_for_each(|image| recorded.crash(&image, 10).map_err(|error| format!("{image}: {error}")))
}

/// Operations of a run without faults, and some more: one with a fault may have others.
fn operations(job: &SimJob) -> u64 {
    Recorded::new(job.clone()).log.len() as u64
}

#[test]
fn i01_i03_an_error_at_any_operation_loses_nothing() {
    let job = SimJob::small(1, Emit::Updates);
    let counts = each("i01_i03_an_error_at_any_operation_loses_nothing", operations(&job) * 2, |number| {
        let (operation, fault) = (1 + number / 2, ERRORS[usize::from(number % 2 == 1)]);
        let (recorded, disk) = run_with(job.clone(), operation, fault)?;
        if matches!(recorded.run.end, RunEnd::Finished) {
            recorded.job.check_output(&mut disk.clone())?;
        }
        crash(&recorded, &mut Rng::new(number))?;
        let injected = disk.injected();
        Ok(injected
            .iter()
            .map(|(submitted, fault)| (format!("{fault:?} of {:?}", submitted.kind), 1))
            .collect())
    });
    if env::var_os("SLACKWATER_FAULT").is_none() {
        for kind in ["CreateFolder", "CreateFile", "Write", "SyncFile", "SyncFolder", "Rename", "Remove"] {
            for fault in ERRORS {
                let what = format!("{fault:?} of {kind}");
                assert!(counts.contains_key(&what), "{what} was not tried: {counts:?}");
            }
        }
    }
}

/// Writes to checkpoints alone: what a sink has written carries no checksum.
#[test]
fn writes_that_end_early_or_land_elsewhere_are_found_by_the_next_start() {
    let job = SimJob::small(1, Emit::Updates).compressed(Compression::Lz4);
    let disk = Sim::new(SimOptions { seed: 0, ..SimOptions::default() });
    job.clone().run(disk.clone(), None).expect("nothing goes wrong");
    let history = (1..).zip(disk.history());
    let is_tried = |operation: &u64| {
        history.clone().any(|(number, submitted)| {
            number == *operation && submitted.kind == OperationKind::Write && is_of_checkpoint(&submitted)
        })
    };
    let writes: Vec<u64> = (1..disk.operations()).filter(is_tried).collect();
    let test = "writes_that_end_early_or_land_elsewhere_are_found_by_the_next_start";
    let counts = each(test, writes.len() as u64 * 12, |number| {
        let trial = usize::try_from(number).expect("few writes");
        let (operation, fault) = (writes[trial / 12], DAMAGES[trial % 3]);
        let (mut rng, mut job) = (Rng::new(number), job.clone());
        let disk = Sim::new(SimOptions { seed: 0, ..SimOptions::default() });
        disk.inject(operation, fault);
        let recorded = Recorded::on(&mut job, &disk, |disk| disk, &Promise::default())?;
        let cuts = PowerCuts::of(&recorded.log).seed(number);
        let after = rng.below(cuts.places());
        let Some(image) = cuts.image(if trial % 2 == 0 { cuts.places() - 1 } else { after }) else {
            return Ok(Counts::new());
        };
        let is_damaged =
            recorded.start_on_damage(&disk_of(&image)).map_err(|error| format!("{image}: {error}"))?;
        let mut tried = once(format!("{fault:?}"));
        tried.extend(is_damaged.then(|| (format!("passed over for {fault:?}"), 1)));
        Ok(tried)
    });
    expect_all(&counts, &["ShortWrite", "MisdirectedInFile", "MisdirectedToFile"]);
    expect_all(&counts, &["passed over for ShortWrite", "passed over for MisdirectedInFile"]);
    expect_all(&counts, &["passed over for MisdirectedToFile"]);
}

/// After a crash anywhere, one bit of one file of a checkpoint is the other one.
#[test]
fn a_bit_that_rots_costs_one_checkpoint_at_most() {
    let recorded = Recorded::new(SimJob::small(2, Emit::Updates).compressed(Compression::Zstd));
    let cuts = PowerCuts::of(&recorded.log);
    let counts = each("a_bit_that_rots_costs_one_checkpoint_at_most", 600, |number| {
        let mut rng = Rng::new(number);
        let Some(image) = cuts.image(rng.below(cuts.places())) else { return Ok(Counts::new()) };
        let paths: Vec<_> = image.paths().into_iter().filter(|path| path.starts_with(CHECKPOINTS)).collect();
        let Some(path) = paths.get(rng.index(paths.len())) else { return Ok(Counts::new()) };
        let len = image.read_file(path).map_or(0, |bytes| bytes.len());
        let disk = disk_of(&image);
        disk.flip_bit(path, rng.index(len * 8)).map_err(|error| error.to_string())?;
        let is_passed_over =
            recorded.start_on_damage(&disk).map_err(|error| format!("{image}, {path}: {error}"))?;
        Ok(once(if is_passed_over { "passed over for a bit" } else { "a bit nobody needs" }))
    });
    expect_all(&counts, &["passed over for a bit"]);
}

fn expect_all(counts: &Counts, expected: &[&str]) {
    if env::var_os("SLACKWATER_FAULT").is_none() {
        expected
            .iter()
            .for_each(|what| assert!(counts.contains_key(*what), "{what} was not tried: {counts:?}"));
    }
}

/// Case I-03: a sync that has failed is not tried again, what it was for is never published, and the next checkpoint
/// writes files of its own.
#[test]
fn i03_a_failed_sync_fails_that_checkpoint_for_good_and_the_next_one_is_whole() {
    let job = SimJob::small(1, Emit::Final).tolerating(3);
    let plain = Sim::new(SimOptions::default());
    job.clone().run(plain.clone(), None).expect("nothing goes wrong");
    let is_sync = |kind| matches!(kind, OperationKind::SyncFile | OperationKind::SyncFolder);
    // Later ones belong to its deletion.
    let first = (1..).zip(plain.history()).take_while(|(_, submitted)| submitted.path != "wordcount/chk-2");
    let syncs = first
        .filter(|(_, submitted)| is_sync(submitted.kind) && submitted.path.starts_with("wordcount/chk-1"));
    let mut tried = 0;
    for (operation, submitted) in syncs {
        let (recorded, disk) = run_with_seed(job.clone(), operation, Fault::Error(DiskError::IO));
        let run = &recorded.run;
        assert!(matches!(run.end, RunEnd::Finished), "{submitted:?}: {run:?}");
        assert_eq!(run.failed, 1, "{submitted:?}");
        assert!(
            run.completed.iter().all(|id| id.0 != 1) && run.completed.len() > 1,
            "{submitted:?}: {run:?}"
        );
        let synced = disk.history().into_iter().filter(|other| other.kind == OperationKind::SyncFile);
        let mut paths: Vec<_> = synced.map(|other| other.path).collect();
        let count = paths.len();
        paths.sort();
        paths.dedup();
        assert_eq!(paths.len(), count, "a file was synced twice after {submitted:?} had failed");
        crash(&recorded, &mut Rng::new(operation)).unwrap_or_else(|error| panic!("{submitted:?}: {error}"));
        tried += 1;
    }
    assert!(tried > 3, "only {tried} syncs");
}

/// Case I-01: a disk that is full for a while costs the checkpoints of that while; nothing of them is published, the
/// one before can be restored, and the next works without a new start.
#[test]
fn i01_a_full_disk_fails_that_checkpoint_and_the_next_one_works() {
    let job = SimJob::small(1, Emit::Final).tolerating(3);
    let plain = Sim::new(SimOptions::default());
    job.clone().run(plain.clone(), None).expect("nothing goes wrong");
    let of_second = (1..).zip(plain.history()).filter(|(_, submitted)| {
        let fills = matches!(submitted.kind, OperationKind::CreateFile | OperationKind::Write);
        fills && submitted.path.starts_with("wordcount/chk-2/")
    });
    let mut tried = 0;
    for (operation, submitted) in of_second {
        let (recorded, disk) = run_with_seed(job.clone(), operation, Fault::Error(DiskError::NO_SPACE));
        let run = &recorded.run;
        assert!(matches!(run.end, RunEnd::Finished), "{submitted:?}: {run:?}");
        assert_eq!(run.failed, 1, "{submitted:?}");
        assert_eq!(run.completed.first().map(|id| id.0), Some(1));
        assert!(
            run.completed.iter().all(|id| id.0 != 2) && run.completed.len() > 1,
            "{submitted:?}: {run:?}"
        );
        assert!(!disk.names("wordcount/chk-2").contains(&"_metadata".to_owned()), "{submitted:?}");
        recorded.job.check_output(&mut disk.clone()).expect("the output is exact");
        crash(&recorded, &mut Rng::new(operation)).unwrap_or_else(|error| panic!("{submitted:?}: {error}"));
        tried += 1;
    }
    assert!(tried > 3, "only {tried} operations");
}

/// As the run without a fault, up to the fault.
fn run_with_seed(mut job: SimJob, operation: u64, fault: Fault) -> (Recorded, Sim) {
    let disk = Sim::new(SimOptions::default());
    disk.inject(operation, fault);
    let recorded = Recorded::on(&mut job, &disk, |disk| disk, &Promise::default());
    (recorded.expect("the job ends"), disk)
}

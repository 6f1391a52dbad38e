//! A disk that hangs, is full or fails costs checkpoints, never records: they flow on meanwhile, and the next checkpoint
//! after that works. What fails a task restarts the job.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::cell::Cell;

use slackwater::restart::RestartStrategy;
use slackwater::{Job, JobError, JobOptions, Progress, Supervisor};
use slackwater_core::durable::DiskError;
use slackwater_core::time::Millis;
use slackwater_mem::FrozenRun;
use slackwater_mem::sim::{Fault, SimDisk, SimOptions};
use slackwater_tests::hanging_disk::{Hanging, Hangs, hanging};
use slackwater_tests::numbers::{CHECKPOINTS, Numbers, OUTPUT};
use slackwater_tests::supervised::Supervised;

type Sim = SimDisk<FrozenRun>;

/// Far more than any attempt takes.
const STEPS_MAX: u64 = 3_000_000;
/// A checkpoint that takes longer is given up; no other takes nearly as long.
const TIMEOUT: Millis = Millis(400);
/// How often there is trouble: more often than snapshots could be kept.
const TIMES: u64 = 8;
/// Checkpoints that fail each time.
const FAILING: u64 = 3;
/// Numbers that the source emits at a time: enough to fill a batch now and then.
const AT_ONCE: u64 = 300;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trouble {
    Hangs,
    IsFull,
    Fails,
}

/// Makes trouble again and again, each time until some checkpoints have failed, and lets some complete in between.
struct Troublemaker {
    trouble: Trouble,
    disk: Sim,
    hangs: Hangs,
    is_on: bool,
    /// Completed, or failed, checkpoints at which it goes on.
    next: u64,
    /// Records when the trouble began.
    records: u64,
    times: u64,
    /// Records that came through during each time of trouble.
    flowed: Vec<u64>,
}

impl Troublemaker {
    fn new(trouble: Trouble, disk: &Sim, hangs: &Hangs) -> Self {
        let (disk, hangs) = (disk.clone(), hangs.clone());
        Self { trouble, disk, hangs, is_on: false, next: 2, records: 0, times: 0, flowed: Vec::new() }
    }

    fn observe(&mut self, progress: Progress) {
        if self.is_on && self.trouble == Trouble::Fails {
            // Whatever comes next.
            let next = self.disk.operations() + 1;
            self.disk.inject(next, Fault::Error(DiskError::IO));
        }
        if self.is_on && progress.checkpoints_failed >= self.next {
            self.is_on = false;
            self.times += 1;
            self.next = progress.checkpoints_completed + 2;
            self.flowed.push(progress.records - self.records);
            self.hangs.set(Hanging::Nothing);
            self.disk.set_capacity(u64::MAX);
        } else if !self.is_on && !self.is_done() && progress.checkpoints_completed >= self.next {
            self.is_on = true;
            self.next = progress.checkpoints_failed + FAILING;
            self.records = progress.records;
            match self.trouble {
                Trouble::Hangs => self.hangs.set(Hanging::Everything),
                Trouble::IsFull => self.disk.set_capacity(0),
                Trouble::Fails => {}
            }
        }
    }

    const fn is_done(&self) -> bool {
        self.times == TIMES
    }
}

fn options() -> JobOptions {
    JobOptions { timeout: TIMEOUT, tolerable_failed_checkpoints: u32::MAX, ..Numbers::options(1) }
}

fn records_flow(trouble: Trouble, seed: u64) {
    let (disk, hangs) = (Sim::new(SimOptions { seed, ..SimOptions::default() }), Hangs::default());
    let (numbers, options) = (Numbers::many_at_once(AT_ONCE), options());
    let mut maker = Troublemaker::new(trouble, &disk, &hangs);
    let mut assemble = |attempt, now| {
        let disk = hanging(disk.clone(), hangs.clone());
        Job::assemble(numbers.job(false), disk, now, &JobOptions { attempt, ..options.clone() })
    };
    let mut supervised = Supervised::new(seed, STEPS_MAX);
    let report = supervised.run(Supervisor::new(&options).unwrap(), &mut assemble, &mut |job| {
        maker.observe(job.observer().progress());
        if maker.is_done() && !maker.is_on {
            numbers.end();
        }
        false
    });
    let report = report.unwrap_or_else(|error| panic!("{trouble:?} {seed}: {error:?}"));
    assert_eq!((report.restarts, maker.times), (0, TIMES), "{trouble:?} {seed}");
    assert!(report.checkpoints_failed >= FAILING * TIMES, "{report:?}");
    assert!(report.checkpoints_completed > 2 * TIMES, "{report:?}");
    assert!(maker.flowed.iter().sum::<u64>() > TIMES * AT_ONCE, "{trouble:?} {seed}: {:?}", maker.flowed);
    // Time-outs take long enough for every one of them to show it.
    let least = if trouble == Trouble::Hangs { AT_ONCE } else { 0 };
    assert!(maker.flowed.iter().all(|records| *records >= least), "{trouble:?} {seed}: {:?}", maker.flowed);
    numbers.check().unwrap();
}

#[test]
fn records_flow_while_a_checkpoint_hangs_until_it_is_given_up_and_the_next_ones_work() {
    (0..3).for_each(|seed| records_flow(Trouble::Hangs, seed));
}

#[test]
fn records_flow_while_the_disk_is_full_and_the_next_checkpoints_work() {
    (0..3).for_each(|seed| records_flow(Trouble::IsFull, seed));
}

#[test]
fn records_flow_while_every_operation_fails_and_the_next_checkpoints_work() {
    (0..3).for_each(|seed| records_flow(Trouble::Fails, seed));
}

/// What is left in the folder of the checkpoints when a job is through.
fn folders(disk: &Sim) -> Vec<String> {
    disk.names(CHECKPOINTS)
}

#[test]
fn f8_more_failed_checkpoints_in_a_row_than_are_tolerated_restart_the_job() {
    for seed in 0..4 {
        let disk = Sim::new(SimOptions { seed, ..SimOptions::default() });
        let numbers = Numbers::default();
        let restart = Some(RestartStrategy::FixedDelay { attempts: 9, delay: Millis(500) });
        let options = JobOptions { tolerable_failed_checkpoints: 2, restart, ..options() };
        let attempts = Cell::new(0);
        let mut assemble = |attempt, now| {
            attempts.set(attempts.get() + 1);
            if attempts.get() == 3 {
                // Somebody has made room.
                disk.set_capacity(u64::MAX);
            }
            Job::assemble(numbers.job(false), disk.clone(), now, &JobOptions { attempt, ..options.clone() })
        };
        let mut supervised = Supervised::new(seed, STEPS_MAX);
        let supervisor = Supervisor::new(&options).unwrap();
        let report = supervised.run(supervisor, &mut assemble, &mut |job| {
            match (attempts.get(), job.observer().progress().checkpoints_completed) {
                (1, 3) => disk.set_capacity(0),
                (3, 6) => numbers.end(),
                _ => {}
            }
            false
        });
        let report = report.unwrap_or_else(|error| panic!("{seed}: {error:?}"));
        assert_eq!(report.restarts, 2, "{seed}: {report:?}");
        for restart in &supervised.restarts {
            assert!(matches!(restart.cause, JobError::Checkpoint { .. }), "{}", restart.cause);
            assert!(restart.to_string().contains("no space left on the disk"), "{restart}");
        }
        numbers.check().unwrap();
        assert!(folders(&disk).len() <= options.num_retained + 1, "{seed}: {:?}", folders(&disk));
    }
}

#[test]
fn a_sink_that_cannot_write_its_output_restarts_the_job_until_it_can() {
    for seed in 0..4 {
        let disk = Sim::new(SimOptions { seed, ..SimOptions::default() });
        let numbers = Numbers::default();
        let restart = Some(RestartStrategy::FixedDelay { attempts: 9, delay: Millis(500) });
        let options = JobOptions { restart, ..options() };
        let (mut attempts, mut is_full) = (0, false);
        let mut assemble = |attempt, now| {
            attempts += 1;
            if attempts == 4 {
                disk.set_capacity(u64::MAX);
            }
            Job::assemble(numbers.job(true), disk.clone(), now, &JobOptions { attempt, ..options.clone() })
        };
        let mut supervised = Supervised::new(seed, STEPS_MAX);
        let supervisor = Supervisor::new(&options).unwrap();
        let report = supervised.run(supervisor, &mut assemble, &mut |job| {
            let progress = job.observer().progress();
            if progress.checkpoints_completed >= 3 && !std::mem::replace(&mut is_full, true) {
                disk.set_capacity(0);
            }
            if is_full && job.resumed_from.is_some() && progress.checkpoints_completed == 3 {
                numbers.end();
            }
            false
        });
        let report = report.unwrap_or_else(|error| panic!("{seed}: {error:?}"));
        assert_eq!(report.restarts, 3, "{report:?}");
        let outputs = supervised.restarts.iter().filter(
            |restart| matches!(&restart.cause, JobError::Output { path, .. } if path.starts_with(OUTPUT)),
        );
        assert!(outputs.count() > 0, "{:?}", supervised.restarts);
        numbers.check_files(&mut disk.clone()).unwrap();
    }
}

#[test]
fn a_sink_whose_commits_are_far_behind_declines_checkpoints_and_the_job_goes_on() {
    let (disk, hangs) = (Sim::new(SimOptions { seed: 1, ..SimOptions::default() }), Hangs::default());
    let (numbers, options) = (Numbers::default(), options());
    let mut assemble = |attempt, now| {
        let disk = hanging(disk.clone(), hangs.clone());
        Job::assemble(numbers.job(true), disk, now, &JobOptions { attempt, ..options.clone() })
    };
    let (mut completed, mut records) = (0, 0);
    let mut supervised = Supervised::new(1, STEPS_MAX);
    let report = supervised.run(Supervisor::new(&options).unwrap(), &mut assemble, &mut |job| {
        let progress = job.observer().progress();
        match progress.checkpoints_failed {
            0 if progress.checkpoints_completed == 2 => hangs.set(Hanging::RenamesBelow(OUTPUT.to_owned())),
            3 if records == 0 => (completed, records) = (progress.checkpoints_completed, progress.records),
            9.. => {
                hangs.set(Hanging::Nothing);
                if records > 0 && progress.checkpoints_completed > completed + 3 {
                    numbers.end();
                }
            }
            _ => {}
        }
        false
    });
    let report = report.unwrap();
    assert_eq!(report.restarts, 0, "{report:?}");
    assert!((60..70).contains(&completed), "{completed} before the first was declined: {:?}", report.notes);
    assert!(report.records > records, "{report:?}");
    let says = |note: &String| note.contains("disk is behind with the commits of earlier ones");
    assert!(report.notes.iter().any(says), "{:?}", report.notes);
    numbers.check_files(&mut disk.clone()).unwrap();
}

#[test]
fn the_folders_of_attempts_that_complete_nothing_do_not_pile_up() {
    let disk = Sim::new(SimOptions::default());
    let numbers = Numbers::default();
    let restart = Some(RestartStrategy::FixedDelay { attempts: 200, delay: Millis(5) });
    // Checkpoints begin, and their tasks panic while segments are written.
    let options = JobOptions { restart, ..options() };
    let (mut most, mut starts) = (0, 0);
    let mut assemble = |attempt, now| {
        starts += 1;
        most = most.max(folders(&disk).len());
        numbers.panic_after(if starts > 150 { 0 } else { 40 });
        Job::assemble(numbers.job(false), disk.clone(), now, &JobOptions { attempt, ..options.clone() })
    };
    let mut supervised = Supervised::new(3, STEPS_MAX);
    let supervisor = Supervisor::new(&options).unwrap();
    let report = supervised.run(supervisor, &mut assemble, &mut |job| {
        if job.observer().progress().checkpoints_completed == 5 {
            numbers.end();
        }
        false
    });
    let report = report.unwrap();
    assert_eq!(report.restarts, 150);
    assert!(most <= 8, "{most} folders");
    assert!(folders(&disk).len() <= options.num_retained, "{:?}", folders(&disk));
    numbers.check().unwrap();
}

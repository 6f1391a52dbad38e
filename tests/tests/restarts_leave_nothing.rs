//! Restarts in one process leave no memory, no mapping and no thread behind, however many there are:
//! `SLACKWATER_RESTARTS=10000` for more of them.
//!
//! One test alone in its process, since it looks at all of that.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::ops::ControlFlow;
use std::time::Duration;
use std::{env, fs};

use allocation_counter::measure;
use slackwater::driver::Clock;
use slackwater::restart::RestartStrategy;
use slackwater::{Job, JobError, JobOptions, Supervisor};
use slackwater_core::time::Millis;
use slackwater_mem::{FrozenRun, MemDisk};
use slackwater_tests::numbers::{Numbers, silence_expected_panics};
use slackwater_tests::supervised::{Stopped, Supervised};

const STEPS_MAX: u64 = 1_000_000;
/// Until buffers that are kept have their size.
const WARM_UP: u32 = 200;
/// Of the names of the newest checkpoints, and the like.
const SLACK_LEN: i64 = 16 << 10;

fn options(restarts: u32) -> JobOptions {
    let restart = Some(RestartStrategy::FixedDelay { attempts: restarts, delay: Millis(1) });
    JobOptions { restart, memory_limit_bytes: 1 << 20, ..Numbers::options(1) }
}

/// Lets a job fail so often, each time after some records; by chance a checkpoint completes before.
fn restart(disk: &MemDisk<FrozenRun>, first: u64, restarts: u32) {
    let (numbers, options) = (Numbers::without_output(), JobOptions { attempt: first, ..options(restarts) });
    let mut assemble = |attempt: u64, now| {
        numbers.panic_after(1 + attempt * 7 % 43);
        Job::assemble(numbers.job(false), disk.clone(), now, &JobOptions { attempt, ..options.clone() })
    };
    let mut supervised = Supervised::new(first, STEPS_MAX);
    let ended = supervised.run(Supervisor::new(&options).unwrap(), &mut assemble, &mut |_| false);
    let Err(Stopped::Failed(JobError::GivenUp { restarts: count, cause })) = ended else {
        panic!("{ended:?}")
    };
    assert!(matches!(*cause, JobError::Panicked { .. }), "{cause}");
    assert_eq!(count, u64::from(restarts));
}

/// The same with threads.
fn restart_on_threads(restarts: u32) {
    let (disk, numbers, options) = (MemDisk::new(), Numbers::without_output(), options(restarts));
    let mut assemble = |attempt: u64, now| {
        numbers.panic_after(1 + attempt * 7 % 43);
        Job::assemble(numbers.job(false), disk.clone(), now, &JobOptions { attempt, ..options.clone() })
    };
    let supervisor = Supervisor::new(&options).unwrap();
    let mut observe = |_: slackwater::driver::Moment<'_>| ControlFlow::Continue(());
    let ended = supervisor.run(Clock::start(), Duration::from_millis(50), &mut assemble, &mut observe);
    assert!(matches!(ended, Err(JobError::GivenUp { .. })), "{ended:?}");
}

fn threads() -> usize {
    fs::read_dir("/proc/self/task").unwrap().count()
}

/// Whether so many threads are left. One that has been joined is listed for a moment longer.
fn are_left(count: usize) -> bool {
    (0..20_000).any(|_| {
        std::thread::yield_now();
        threads() == count
    })
}

fn mappings() -> usize {
    fs::read_to_string("/proc/self/maps").unwrap().lines().count()
}

#[test]
fn restarts_leave_no_memory_no_mapping_and_no_thread() {
    let wanted = env::var("SLACKWATER_RESTARTS").ok().and_then(|text| text.parse().ok());
    let restarts: u32 = wanted.unwrap_or(800);
    silence_expected_panics();
    let disk = MemDisk::new();
    restart(&disk, 1, WARM_UP);
    let mapped = mappings();
    let left = measure(|| restart(&disk, 1 << 32, restarts));
    assert!(left.count_total > u64::from(restarts), "the allocator is counted: {left:?}");
    assert!(left.bytes_current < SLACK_LEN, "{left:?}");
    assert!(mappings() < mapped + 8, "{} mappings instead of {mapped}", mappings());

    let running = threads();
    restart_on_threads(3);
    let mapped = mappings();
    restart_on_threads(restarts / 4);
    assert!(are_left(running), "{} threads instead of {running}", threads());
    // Stacks of threads that have ended are kept for the next.
    assert!(mappings() < mapped + 32, "{} mappings instead of {mapped}", mappings());
}

//! A job that runs for long and panics again and again: exact, its memory flat, and no file left that no retained
//! checkpoint lists.
//!
//! A few seconds by default; `SLACKWATER_SOAK_SECONDS=600` for as long as that (and `SLACKWATER_SOAK_SEED=7` for other
//! panics), best with `--release -- --nocapture`. One test alone in its process, whose memory it looks at.
#![expect(clippy::print_stdout, reason = "a test says what it has done")]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::path::Path;
use std::time::Duration;
use std::{env, fs};

use slackwater::driver::{Clock, Moment};
use slackwater::recovery;
use slackwater::restart::RestartStrategy;
use slackwater::{Job, JobOptions, Supervisor};
use slackwater_core::time::Millis;
use slackwater_mem::sim::rng::Rng;
use slackwater_mem::{FrozenRun, MmapDisk};
use slackwater_tests::numbers::{CHECKPOINTS, Numbers, OUTPUT, silence_expected_panics};

const TICK: Duration = Duration::from_millis(10);
/// Numbers that are emitted each second at the most.
const RATE: u64 = 8_000;
/// Numbers that a job which was behind may emit at once. It does not make up for more: at full speed each attempt would
/// panic before its first checkpoint.
const BEHIND_MAX: u64 = RATE / 5;
/// From here on memory is compared.
const SETTLED: Millis = Millis(60_000);
/// What memory may grow by from then on, in bytes: the output's names, and whatever the allocator has not given back.
const GROWTH_MAX: u64 = 32 << 20;

fn setting(name: &str, otherwise: u64) -> u64 {
    env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

/// Memory of this process, in bytes.
fn resident() -> u64 {
    let statm = fs::read_to_string("/proc/self/statm").unwrap();
    statm.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
}

/// Looks at the job from outside.
struct Soak {
    numbers: Numbers,
    clock: Clock,
    until: Millis,
    last_look: Millis,
    /// Numbers that may be emitted so far.
    allowed: u64,
    rng: Rng,
    settled: Option<u64>,
    peak: u64,
    next_line: Millis,
    restarts: u64,
    checkpoints: u64,
}

impl Soak {
    fn on(&mut self, moment: &Moment<'_>) {
        let now = self.clock.now().monotonic;
        self.allow(now);
        if now >= self.until {
            self.numbers.panic_after(0);
            self.numbers.end();
        }
        match moment {
            Moment::Started(_) => self.arm(now),
            Moment::Ended(job) => self.checkpoints += job.observer().progress().checkpoints_completed,
            Moment::Restarting(_) => self.restarts += 1,
            Moment::Running(_) | Moment::Waiting => {}
        }
        let memory = resident();
        if now >= SETTLED {
            self.settled.get_or_insert(memory);
            self.peak = self.peak.max(memory);
        }
        if now >= self.next_line {
            self.next_line = now.after(Millis(30_000));
            println!(
                "# {} s: {} numbers, {} checkpoints, {} restarts, {} KiB",
                now.0 / 1000,
                self.numbers.emitted(),
                self.checkpoints,
                self.restarts,
                memory >> 10
            );
        }
    }

    /// Lets the numbers of the time since the last look be emitted.
    fn allow(&mut self, now: Millis) {
        let more = now.since(self.last_look).0 * RATE / 1000;
        self.last_look = now;
        self.allowed = (self.allowed + more).min(self.numbers.emitted() + BEHIND_MAX);
        self.numbers.allow(self.allowed);
    }

    /// The next panic: after some records, or at a checkpoint.
    fn arm(&mut self, now: Millis) {
        if now >= self.until {
            return;
        }
        if self.rng.chance(20) {
            self.numbers.panic_at_snapshot();
        }
        self.numbers.panic_after(1 + self.rng.below(4 * RATE));
    }
}

/// Everything below the folder of the checkpoints is of a complete one that its manifest lists.
fn nothing_is_left_over(root: &Path, retained: usize) {
    let mut disk = MmapDisk::<FrozenRun>::new(root).unwrap();
    let found = recovery::find(&mut disk, CHECKPOINTS).unwrap();
    assert!(found.passed_over.is_empty() && found.incomplete.is_empty(), "{found:?}");
    assert_eq!(found.retained.len(), retained, "{found:?}");
    let mut listed = BTreeSet::new();
    for id in found.retained {
        let manifest = recovery::read_manifest(&mut disk, CHECKPOINTS, id).unwrap().unwrap().unwrap();
        assert_eq!(recovery::verify_files(&mut disk, CHECKPOINTS, &manifest), Vec::new());
        listed.insert(format!("chk-{id}/_metadata"));
        let subtasks = manifest.vertices.iter().flat_map(|vertex| &vertex.subtasks);
        listed.extend(subtasks.filter_map(|subtask| subtask.segment.as_ref()).map(|it| it.file_name.clone()));
    }
    let mut there = BTreeSet::new();
    for folder in fs::read_dir(root.join(CHECKPOINTS)).unwrap().map(Result::unwrap) {
        for file in fs::read_dir(folder.path()).unwrap().map(Result::unwrap) {
            let (folder, file) = (folder.file_name(), file.file_name());
            there.insert(format!("{}/{}", folder.to_string_lossy(), file.to_string_lossy()));
        }
    }
    assert_eq!(there, listed);
    let hidden = fs::read_dir(root.join(OUTPUT)).unwrap().map(|entry| entry.unwrap().file_name());
    let hidden: Vec<_> = hidden.filter(|name| name.to_string_lossy().starts_with('.')).collect();
    assert!(hidden.is_empty(), "{hidden:?}");
}

#[test]
fn a_job_that_panics_again_and_again_stays_exact_and_small() {
    silence_expected_panics();
    let (seconds, seed) = (setting("SLACKWATER_SOAK_SECONDS", 4), setting("SLACKWATER_SOAK_SEED", 1));
    let place = tempfile::tempdir().unwrap();
    let restart = Some(RestartStrategy::FixedDelay { attempts: u32::MAX, delay: Millis(20) });
    let options = JobOptions { interval: Some(Millis(200)), restart, ..Numbers::options(1) };
    let (numbers, clock) = (Numbers::default(), Clock::start());
    let mut soak = Soak {
        numbers: numbers.clone(),
        clock,
        until: Millis(seconds * 1000),
        last_look: Millis(0),
        allowed: 0,
        rng: Rng::new(seed),
        settled: None,
        peak: 0,
        next_line: Millis(0),
        restarts: 0,
        checkpoints: 0,
    };
    let mut assemble = |attempt, now| {
        let disk = MmapDisk::<FrozenRun>::new(place.path()).unwrap();
        Job::assemble(numbers.job(true), disk, now, &JobOptions { attempt, ..options.clone() })
    };
    let supervisor = Supervisor::new(&options).unwrap();
    let report = supervisor.run(clock, TICK, &mut assemble, &mut |moment| {
        soak.on(&moment);
        ControlFlow::Continue(())
    });
    let report = report.unwrap();
    println!(
        "# {} numbers, {} checkpoints completed, {} failed, {} restarts",
        numbers.emitted(),
        report.checkpoints_completed,
        report.checkpoints_failed,
        report.restarts
    );
    assert!(report.restarts > 0 && report.checkpoints_completed > 0, "{report:?}");
    numbers.check_files(&mut MmapDisk::<FrozenRun>::new(place.path()).unwrap()).unwrap();
    nothing_is_left_over(place.path(), options.num_retained);
    if let Some(settled) = soak.settled {
        println!("# memory: {} KiB after a minute, at most {} KiB later", settled >> 10, soak.peak >> 10);
        assert!(soak.peak < settled + GROWTH_MAX, "memory grew from {settled} to {} bytes", soak.peak);
    }
}

//! The power goes at every operation of the disk in a word count's first three checkpoints: what is committed
//! in the end is the plain count, and no checkpoint that was announced is lost.
//!
//! `SLACKWATER_SIM_SEEDS=50` tries more runs. A failure prints the seed and the operation for a run of its own.

use std::env;
use std::fmt;

use slackwater::word_count::Emit;
use slackwater_core::durable::DiskError;
use slackwater_mem::FrozenRun;
use slackwater_tests::rng::Rng;
use slackwater_tests::sim_disk::{Cut, Lies, SimDisk, SimOptions};
use slackwater_tests::sim_job::{Run, RunEnd, SimJob};

type Sim = SimDisk<FrozenRun>;

const CHECKPOINTS: usize = 3;
const SEEDS: u64 = 2;

/// One operation of one run at which something happens to the job.
#[derive(Clone, Copy, Debug)]
struct Trial {
    emit: Emit,
    seed: u64,
    operation: u64,
    lies: Lies,
}

/// What the job goes on with after an interruption.
#[derive(Clone, Copy)]
enum Loss {
    Power,
    Process,
}

impl Trial {
    fn disk(&self) -> Sim {
        Sim::new(SimOptions { seed: self.seed, lies: self.lies, ..SimOptions::default() })
    }

    /// Choices of this trial alone.
    fn rng(&self) -> Rng {
        Rng::new(self.seed ^ (self.operation << 32))
    }

    /// Interrupts the job at the operation, perhaps once more when it has started again, then lets it finish.
    fn interrupt(&self, cut: Cut, loss: Loss) -> Result<(), String> {
        let (mut rng, mut job) = (self.rng(), SimJob::new(self.seed, self.emit));
        let mut disk = self.disk();
        disk.cut_power(cut);
        let mut run = job.run(&disk)?;
        let mut announced = run.announced;
        if rng.chance(30) && is_interrupted(&run) {
            disk = loss.image(&disk, &mut rng);
            disk.cut_power(Cut::Before(1 + rng.below(60)));
            run = job.run(&disk)?;
            expect_resumed(&run, announced)?;
            announced = announced.max(run.announced);
        }
        finish(&mut job, run, announced, &loss.image(&disk, &mut rng), &mut rng)
    }

    /// Kills the job at the operation, and cuts the power soon after its next start. What that start went on from
    /// counts as announced: the sinks have committed what it covers.
    fn kill_then_cut(&self) -> Result<(), String> {
        let (mut rng, mut job) = (self.rng(), SimJob::new(self.seed, self.emit));
        let disk = self.disk();
        disk.cut_power(Cut::After(self.operation));
        let killed = job.run(&disk)?;
        let left = disk.image_after_kill(rng.any());
        // How long the next start takes until it announces something.
        let undisturbed = job.clone().run(&left.image_after_kill(rng.any()))?;
        let until = undisturbed.operations.first().copied().unwrap_or(1);
        left.cut_power(Cut::Before(1 + rng.below(until)));
        let run = job.run(&left)?;
        expect_resumed(&run, killed.announced)?;
        let announced = killed.announced.max(run.announced).max(run.resumed_from);
        finish(&mut job, run, announced, &left.image_after_power_cut(rng.any()), &mut rng)
    }

    /// Lets the operation fail; the job may go on or give up, then it starts again.
    fn fail(&self, errno: i32) -> Result<(), String> {
        let (mut rng, mut job) = (self.rng(), SimJob::new(self.seed, self.emit));
        let disk = self.disk();
        disk.fail(self.operation, errno);
        let run = job.run(&disk)?;
        if matches!(run.end, RunEnd::Finished) {
            job.check_output(&disk)?;
        }
        let loss = if rng.chance(50) { Loss::Power } else { Loss::Process };
        let announced = run.announced;
        finish(&mut job, run, announced, &loss.image(&disk, &mut rng), &mut rng)
    }
}

impl Loss {
    fn image(self, disk: &Sim, rng: &mut Rng) -> Sim {
        match self {
            Self::Power => disk.image_after_power_cut(rng.any()),
            Self::Process => disk.image_after_kill(rng.any()),
        }
    }
}

/// How to run one trial alone.
impl fmt::Display for Trial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { emit, seed, operation, .. } = self;
        write!(
            f,
            "{emit:?}, rerun with: SLACKWATER_SIM_SEED={seed} SLACKWATER_SIM_OPERATION={operation} \
             cargo test -p slackwater-tests --test power_cut"
        )
    }
}

const fn is_interrupted(run: &Run) -> bool {
    matches!(run.end, RunEnd::PowerCut)
}

fn expect_resumed(run: &Run, announced: Option<slackwater_core::ids::CheckpointId>) -> Result<(), String> {
    // A start that was itself interrupted may not have got as far as that.
    let is_told = run.resumed_from.is_some() || !is_interrupted(run) || run.announced.is_some();
    if is_told && run.resumed_from < announced {
        return Err(format!("{announced:?} was announced, the next run: {run:?}"));
    }
    Ok(())
}

/// Runs the job to its end on what an interruption left, after which the output is right and stays.
fn finish(
    job: &mut SimJob,
    before: Run,
    announced: Option<slackwater_core::ids::CheckpointId>,
    disk: &Sim,
    rng: &mut Rng,
) -> Result<(), String> {
    let run = job.run(disk)?;
    expect_resumed(&run, announced)?;
    if !matches!(run.end, RunEnd::Finished) {
        return Err(format!("the job cannot finish: {:?}, before that {:?}", run.end, before.end));
    }
    job.check_output(disk)?;
    job.check_output(&disk.image_after_power_cut(rng.any()))
        .map_err(|error| format!("the finished job's output does not survive a power cut: {error}"))
}

fn number(variable: &str) -> Option<u64> {
    env::var(variable).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{variable} is not a number")))
}

fn seeds() -> Vec<u64> {
    let count = number("SLACKWATER_SIM_SEEDS").unwrap_or(SEEDS);
    number("SLACKWATER_SIM_SEED").map_or_else(|| (0..count).collect(), |seed| vec![seed])
}

/// The operations up to the announcement of the third checkpoint in a run that nothing interrupts.
fn operations(seed: u64, emit: Emit, lies: Lies) -> Vec<Trial> {
    let trial = |operation| Trial { emit, seed, operation, lies };
    if let Some(operation) = number("SLACKWATER_SIM_OPERATION") {
        return vec![trial(operation)];
    }
    let (disk, mut job) = (trial(0).disk(), SimJob::new(seed, emit));
    let run = job.run(&disk).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    assert!(matches!(run.end, RunEnd::Finished), "seed {seed}: {:?}", run.end);
    job.check_output(&disk).unwrap_or_else(|error| panic!("seed {seed}, uninterrupted: {error}"));
    let count = run.operations.get(CHECKPOINTS - 1);
    let count = count.unwrap_or_else(|| panic!("seed {seed}: only {} checkpoints", run.operations.len()));
    (1..=*count).map(trial).collect()
}

fn each_operation(emit: Emit, seeds: &[u64], check: impl Fn(&Trial) -> Result<(), String>) {
    for trial in seeds.iter().flat_map(|seed| operations(*seed, emit, Lies::default())) {
        check(&trial).unwrap_or_else(|error| panic!("{error}\n{trial}"));
    }
}

fn cut_before_and_after(trial: &Trial) -> Result<(), String> {
    trial.interrupt(Cut::Before(trial.operation), Loss::Power)?;
    trial.interrupt(Cut::After(trial.operation), Loss::Power)
}

#[test]
fn final_counts_survive_a_power_cut_at_every_operation() {
    each_operation(Emit::Final, &seeds(), cut_before_and_after);
}

#[test]
fn updates_survive_a_power_cut_at_every_operation() {
    each_operation(Emit::Updates, &seeds(), cut_before_and_after);
}

#[test]
fn updates_survive_a_kill_at_every_operation() {
    each_operation(Emit::Updates, &seeds()[..1], |trial| {
        trial.interrupt(Cut::After(trial.operation), Loss::Process)
    });
}

#[test]
fn what_was_restored_after_a_kill_survives_a_power_cut_that_follows() {
    each_operation(Emit::Updates, &seeds(), Trial::kill_then_cut);
}

#[test]
fn an_error_at_any_operation_never_makes_a_wrong_count() {
    each_operation(Emit::Updates, &seeds()[..1], |trial| {
        trial.fail(DiskError::IO)?;
        trial.fail(DiskError::NO_SPACE)
    });
}

/// How many operations of a lying disk it takes to find it out; none if it is never found out.
fn found_out(lies: Lies) -> Option<usize> {
    let trials = operations(0, Emit::Updates, lies);
    trials.iter().position(|trial| cut_before_and_after(trial).is_err())
}

#[test]
fn a_disk_that_ignores_the_sync_of_files_is_found_out() {
    assert!(found_out(Lies { sync_file: true, sync_folder: false }).is_some());
}

#[test]
fn a_disk_that_ignores_the_sync_of_folders_is_found_out() {
    assert!(found_out(Lies { sync_file: false, sync_folder: true }).is_some());
}

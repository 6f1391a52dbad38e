//! What is done to a sink: rows of checkpoints and their fates, and ways of dying in between.

use super::bench::{Bench, Halt};
use super::{Broken, Exercised, Promise, Subject};

/// What becomes of a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// It is complete, and the sinks hear of it at once.
    Notified,
    /// It is complete, and the sinks hear of it when the next one has begun.
    NotifiedLate,
    /// It is complete, and the sinks never hear of it.
    NotificationLost,
    /// All sinks have pre-committed, and then it is off.
    Aborted,
    /// Only the first sink has pre-committed when it is off.
    Declined,
}

const FATES: [Fate; 5] =
    [Fate::Notified, Fate::NotifiedLate, Fate::NotificationLost, Fate::Aborted, Fate::Declined];

/// Checkpoints of a script.
const CHECKPOINTS: usize = 3;
/// Numbers that come before a checkpoint, if any do.
const NUMBERS: u64 = 3;
/// Numbers of subtasks before and after the first and the second restart.
const PARALLELISM: [[u16; 3]; 3] = [[2, 2, 2], [2, 1, 3], [1, 2, 1]];

/// A row of checkpoints, and which of them nothing is written before.
#[derive(Clone, Copy, Debug)]
pub(super) struct Script {
    fates: [Fate; CHECKPOINTS],
    empty: Option<usize>,
    parallelism: [u16; 3],
}

impl Script {
    pub(super) fn all() -> impl Iterator<Item = Self> {
        let empty = [None, Some(0), Some(1), Some(2)];
        // These three lengths have no factor in common, so everything meets everything.
        (0..FATES.len().pow(3)).map(move |row| Self {
            fates: [FATES[row % 5], FATES[row / 5 % 5], FATES[row / 25]],
            empty: empty[row % empty.len()],
            parallelism: PARALLELISM[row % PARALLELISM.len()],
        })
    }

    /// Plays the script to its end, or to the moment at which the process dies or a sink fails.
    fn play<S: Subject>(&self, bench: &mut Bench<S>) -> Result<(), Halt> {
        let mut late = None;
        for (index, fate) in self.fates.iter().enumerate() {
            bench.write(if self.empty == Some(index) { 0 } else { NUMBERS })?;
            let id = bench.begin();
            match fate {
                Fate::Declined => bench.pre_commit(id, 1)?,
                Fate::Notified | Fate::NotifiedLate | Fate::NotificationLost | Fate::Aborted => {
                    bench.pre_commit(id, usize::MAX)?;
                }
            }
            if let Some(earlier) = late.take() {
                bench.notify(earlier)?;
            }
            match fate {
                Fate::Aborted | Fate::Declined => bench.abort(id)?,
                Fate::Notified => {
                    bench.complete(id)?;
                    bench.notify(id)?;
                }
                Fate::NotifiedLate => {
                    bench.complete(id)?;
                    late = Some(id);
                }
                Fate::NotificationLost => bench.complete(id)?,
            }
        }
        bench.write(1)
    }

    fn completes(&self) -> usize {
        self.fates.iter().filter(|fate| !matches!(fate, Fate::Aborted | Fate::Declined)).count()
    }
}

/// Tries one script in all ways.
#[derive(Debug)]
pub(super) struct Runner<'e> {
    pub(super) script: Script,
    pub(super) exercised: &'e mut Exercised,
}

impl Runner<'_> {
    pub(super) fn run_all<S: Subject>(&mut self, make: &mut impl FnMut() -> S) -> Result<(), Broken> {
        let operations = self.killed(make(), None, 0)?;
        for kill in 0..operations {
            self.killed(make(), Some(kill), kill % 7)?;
        }
        self.commits_fail(make())?;
        if self.script.completes() > 1 {
            self.older_is_restored(make())?;
        }
        Ok(())
    }

    /// Dies after so many operations, or at the end; the first recovery dies after `cut` more, and is done again.
    fn killed<S: Subject>(&mut self, subject: S, kill: Option<usize>, cut: usize) -> Result<usize, Broken> {
        let mut bench = self.start(subject)?;
        bench.light(kill);
        let played = self.script.play(&mut bench);
        let operations = bench.operations();
        match played {
            Err(Halt::Killed) => self.exercised.kills += 1,
            played => expect_no_failure(&bench, played)?,
        }
        bench.light(Some(cut));
        match bench.restart(self.script.parallelism[1]) {
            Err(Halt::Killed) => self.exercised.recoveries_cut_short += 1,
            recovered => {
                self.exercised.recoveries_repeated += 1;
                expect_no_failure(&bench, recovered)?;
            }
        }
        bench.light(None);
        let recovered = bench.restart(self.script.parallelism[2]);
        expect_no_failure(&bench, recovered)?;
        self.finish(bench)?;
        Ok(operations)
    }

    /// The first two commits fail, wherever they are tried; the job restarts after each.
    fn commits_fail<S: Subject>(&mut self, subject: S) -> Result<(), Broken> {
        const FAILURES: u32 = 2;
        let mut bench = self.start(subject)?;
        bench.fail_commits(FAILURES);
        let mut halted = self.script.play(&mut bench);
        // The end of the script is a death, too.
        for parallelism in (0..=FAILURES as usize).map(|turn| self.script.parallelism[turn % 3]) {
            match halted {
                Err(Halt::Broken(broken)) => return Err(broken),
                Err(Halt::Failed(_)) => self.exercised.commits_failed += 1,
                Err(Halt::Killed) | Ok(()) => {}
            }
            halted = bench.restart(parallelism);
        }
        expect_no_failure(&bench, halted)?;
        bench.fail_commits(0);
        self.finish(bench)
    }

    /// The newest complete checkpoint turns out to be damaged: the one before is restored.
    fn older_is_restored<S: Subject>(&mut self, subject: S) -> Result<(), Broken> {
        let mut bench = self.start(subject)?;
        let played = self.script.play(&mut bench);
        expect_no_failure(&bench, played)?;
        bench.pass_over_newest();
        match bench.restart(self.script.parallelism[1]) {
            Err(Halt::Failed(_)) => {
                self.exercised.refused += 1;
                Ok(())
            }
            Err(Halt::Broken(broken)) if broken.promise == Promise::HoldsBack => {
                Err(Broken { promise: Promise::TakesBack, ..broken })
            }
            recovered => {
                expect_no_failure(&bench, recovered)?;
                self.exercised.taken_back += 1;
                self.finish(bench)
            }
        }
    }

    fn start<S: Subject>(&mut self, subject: S) -> Result<Bench<S>, Broken> {
        self.exercised.runs += 1;
        let mut bench = Bench::new(subject);
        let started = bench.restart(self.script.parallelism[0]);
        expect_no_failure(&bench, started)?;
        Ok(bench)
    }

    /// Everything that was ever written is written again where it was lost, and committed.
    fn finish<S: Subject>(&mut self, mut bench: Bench<S>) -> Result<(), Broken> {
        let ended = bench.run_to_the_end(NUMBERS * (CHECKPOINTS as u64 + 1));
        expect_no_failure(&bench, ended)?;
        self.exercised.notifications_lost += bench.counts.notifications_lost();
        self.exercised.aborted += bench.counts.aborted;
        self.exercised.empty_transactions += bench.counts.empty_transactions;
        Ok(())
    }
}

/// A sink that fails although nothing is wrong breaks a promise, too.
fn expect_no_failure<S: Subject>(bench: &Bench<S>, done: Result<(), Halt>) -> Result<(), Broken> {
    match done {
        Ok(()) => Ok(()),
        Err(Halt::Broken(broken)) => Err(broken),
        Err(Halt::Failed(error)) => Err(bench.broken(Promise::GoesOn, error.to_string())),
        Err(Halt::Killed) => Err(bench.broken(Promise::GoesOn, "it goes on without end".to_owned())),
    }
}

//! What the user code of a simulated job shares with the simulation: failures that are planned, and what is noted.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use slackwater::operator::OperatorError;
use slackwater_tests::rng::Rng;

use crate::coverage::Coverage;
use crate::plan::Mutant;

/// Where user code can fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Read,
    Position,
    Restore,
    Function,
    Open,
    Process,
    EndOfData,
    Write,
    PreCommit,
    Commit,
    Recover,
    Event,
    HandOut,
    Coordinate,
    RestoreCoordinator,
    Trigger,
    RestoreHook,
}

/// How it fails there, and after how many calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    calls: u64,
    panics: bool,
}

/// What a planned panic carries.
pub(crate) struct PlannedPanic;

/// Shared by all user code of all runs of a seed.
#[derive(Clone, Debug)]
pub(crate) struct Hooks {
    inner: Arc<Mutex<Inner>>,
}

#[derive(Debug)]
struct Inner {
    mutant: Option<Mutant>,
    /// Records of a key and a split come in their order.
    is_ordered: bool,
    planned: Option<(Place, Failure)>,
    /// Planned failures that have happened and nobody has asked for.
    failed: u64,
    /// A checkpoint was refused by whoever takes part in it.
    has_refused: bool,
    /// Sinks that were told to commit, before and after they did.
    commits: u64,
    violation: Option<String>,
    coverage: Coverage,
}

impl Place {
    const ALL: [Self; 17] = [
        Self::Read,
        Self::Position,
        Self::Restore,
        Self::Function,
        Self::Open,
        Self::Process,
        Self::EndOfData,
        Self::Write,
        Self::PreCommit,
        Self::Commit,
        Self::Recover,
        Self::Event,
        Self::HandOut,
        Self::Coordinate,
        Self::RestoreCoordinator,
        Self::Trigger,
        Self::RestoreHook,
    ];

    pub(crate) fn random(rng: &mut Rng) -> Self {
        Self::ALL[rng.index(Self::ALL.len())]
    }

    /// Called for each record.
    const fn is_frequent(self) -> bool {
        matches!(self, Self::Read | Self::Function | Self::Process | Self::Write)
    }
}

impl Failure {
    pub(crate) fn random(rng: &mut Rng) -> Self {
        Self { calls: rng.below(40), panics: rng.chance(50) }
    }
}

impl Hooks {
    pub(crate) fn new(mutant: Option<Mutant>, is_ordered: bool) -> Self {
        let inner = Inner {
            mutant,
            is_ordered,
            planned: None,
            failed: 0,
            has_refused: false,
            commits: 0,
            violation: None,
            coverage: Coverage::default(),
        };
        Self { inner: Arc::new(Mutex::new(inner)) }
    }

    pub(crate) fn has(&self, mutant: Mutant) -> bool {
        self.lock().mutant == Some(mutant)
    }

    pub(crate) fn is_ordered(&self) -> bool {
        self.lock().is_ordered
    }

    /// What was in flight may now come from another sender than what follows.
    pub(crate) fn expect_no_order(&self) {
        self.lock().is_ordered = false;
    }

    /// Lets user code fail at its n-th call from now on.
    pub(crate) fn plan(&self, place: Place, failure: Failure) {
        let calls = if place.is_frequent() { failure.calls } else { failure.calls / 10 };
        self.lock().planned = Some((place, Failure { calls, ..failure }));
    }

    pub(crate) fn forget_plan(&self) {
        self.lock().planned = None;
    }

    /// User code is there: fails if that was planned.
    pub(crate) fn at(&self, place: Place) -> Result<(), OperatorError> {
        let mut inner = self.lock();
        let Some((planned, failure)) = &mut inner.planned else { return Ok(()) };
        if *planned != place {
            return Ok(());
        }
        if failure.calls > 0 {
            failure.calls -= 1;
            return Ok(());
        }
        let panics = failure.panics;
        inner.planned = None;
        inner.failed += 1;
        inner.coverage.note(if panics { "panics of user code" } else { "errors of user code" });
        drop(inner);
        if panics {
            std::panic::panic_any(PlannedPanic);
        }
        Err(OperatorError::new("planned"))
    }

    /// Whether user code has failed as planned since this was last asked.
    pub(crate) fn take_failed(&self) -> bool {
        std::mem::take(&mut self.lock().failed) > 0
    }

    /// A checkpoint has failed, planned or not, and the job goes on.
    pub(crate) fn note_refused(&self) {
        let mut inner = self.lock();
        (inner.failed, inner.has_refused) = (0, true);
        inner.coverage.note("checkpoints that hooks or coordinators have refused");
    }

    pub(crate) fn has_refused(&self) -> bool {
        self.lock().has_refused
    }

    pub(crate) fn note_commit(&self) {
        self.lock().commits += 1;
    }

    pub(crate) fn commits(&self) -> u64 {
        self.lock().commits
    }

    pub(crate) fn note(&self, what: &'static str) {
        self.lock().coverage.note(what);
    }

    pub(crate) fn coverage(&self) -> Coverage {
        self.lock().coverage.clone()
    }

    /// Something has happened that must not; the first one counts.
    pub(crate) fn violate(&self, what: impl Into<String>) {
        self.lock().violation.get_or_insert_with(|| what.into());
    }

    /// What must not have happened, if something of that kind has.
    pub(crate) fn verdict(&self) -> Result<(), String> {
        self.lock().violation.clone().map_or(Ok(()), Err)
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

//! Whether those who take part in checkpoints beside the subtasks are at the same cut as these: what hooks have given, and
//! what they get back.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use slackwater::checkpoint::{Manifest, ParticipantKind};
use slackwater::hook::{HookAnswer, MasterHook};
use slackwater::operator::OperatorError;
use slackwater_core::ids::CheckpointId;
use slackwater_core::time::Millis;
use slackwater_tests::rng::Rng;

use crate::hooks::{Hooks, Place};
use crate::world::Verdict;

/// How often, of a hundred steps, a hook that owes an answer gives it.
const ANSWERS: u64 = 15;

/// Shared by all hooks and sources of all runs of a seed; clones are the same.
#[derive(Clone)]
pub(crate) struct Cut {
    hooks: Hooks,
    inner: Arc<Mutex<Inner>>,
}

#[derive(Default)]
struct Inner {
    /// How far the sources have come.
    read: u64,
    /// What each hook has ever given for a checkpoint of that number.
    given: BTreeMap<(String, CheckpointId), BTreeSet<Vec<u8>>>,
    /// What was given back in this start.
    restored: BTreeMap<String, Option<Vec<u8>>>,
    reset: BTreeSet<String>,
    closed: BTreeSet<String>,
    /// Answers that hooks owe.
    owed: Vec<(HookAnswer, Option<Vec<u8>>)>,
    /// Nobody owes an answer any more.
    is_calm: bool,
}

impl Cut {
    pub(crate) fn new(hooks: Hooks) -> Self {
        Self { hooks, inner: Arc::default() }
    }

    /// A start of the job begins.
    pub(crate) fn on_start(&self, is_calm: bool) {
        let mut inner = self.lock();
        (inner.restored, inner.reset, inner.closed) = Default::default();
        inner.read = 0;
        inner.is_calm = is_calm;
        let owed = std::mem::take(&mut inner.owed);
        drop(inner);
        // To a job that is gone.
        drop(owed);
    }

    /// Sources have read on.
    pub(crate) fn note_read(&self, read: u64) {
        self.lock().read += read;
    }

    /// The job has been put together from this checkpoint, whose sources had come so far.
    pub(crate) fn expect_restored(
        &self,
        names: &[String],
        from: Option<(&Manifest, u64)>,
    ) -> Result<(), String> {
        let mut inner = self.lock();
        let Some((manifest, read)) = from else {
            let is_reset = |name: &String| inner.reset.contains(name);
            return match names.iter().find(|name| !is_reset(name)) {
                Some(name) => Err(format!("{name} was not reset")),
                None => Ok(()),
            };
        };
        inner.read = read;
        let states: Vec<_> =
            manifest.participants.iter().filter(|part| part.kind == ParticipantKind::Hook).collect();
        for part in &states {
            if inner.restored.get(&part.name) != Some(&Some(part.state.clone())) {
                return Err(format!(
                    "{} was not given back its state of checkpoint {}",
                    part.name, manifest.id
                ));
            }
            let (of, counted) = decode(&part.state);
            if of != manifest.id || counted > read {
                let (name, id) = (&part.name, manifest.id);
                return Err(format!(
                    "{name} had counted {counted} for checkpoint {of}; sources had read {read} at {id}"
                ));
            }
            self.hooks.note("states of hooks at the same cut");
        }
        let is_expected = if states.is_empty() { 0 } else { names.len() };
        if inner.restored.len() == is_expected {
            Ok(())
        } else {
            Err(format!("{} hooks were restored, not {is_expected}", inner.restored.len()))
        }
    }

    /// A job has ended by itself.
    pub(crate) fn expect_closed(&self, names: &[String]) -> Verdict {
        let inner = self.lock();
        match names.iter().find(|name| !inner.closed.contains(*name)) {
            Some(name) => Err(format!("{name} was not closed")),
            None => Ok(()),
        }
    }

    /// After each step: one that owes an answer may give it.
    pub(crate) fn answer(&self, rng: &mut Rng) {
        let mut inner = self.lock();
        if inner.owed.is_empty() || !rng.chance(ANSWERS) {
            return;
        }
        let (answer, state) = inner.owed.remove(0);
        drop(inner);
        answer.give(Ok(state));
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A hook that counts what the sources have read; at times it answers late, without a state, or not at all.
pub(crate) struct Meter {
    name: String,
    cut: Cut,
    rng: Rng,
}

impl Meter {
    pub(crate) const fn new(name: String, cut: Cut, rng: Rng) -> Self {
        Self { name, cut, rng }
    }

    fn expect_open(&self) {
        if self.cut.lock().closed.contains(&self.name) {
            self.cut.hooks.violate(format!("{} is called after it was closed", self.name));
        }
    }
}

impl MasterHook for Meter {
    fn trigger(&mut self, checkpoint: CheckpointId, _triggered_at: Millis, answer: HookAnswer) {
        self.expect_open();
        let Cut { hooks, inner } = &self.cut;
        if let Err(error) = hooks.at(Place::Trigger) {
            hooks.note_refused();
            return answer.give(Err(error));
        }
        let mut inner = inner.lock().unwrap_or_else(PoisonError::into_inner);
        let state = self.rng.chance(85).then(|| encode(checkpoint, inner.read));
        if let Some(state) = &state {
            inner.given.entry((self.name.clone(), checkpoint)).or_default().insert(state.clone());
        }
        let way = if inner.is_calm { 0 } else { self.rng.below(100) };
        match way {
            0..70 => {
                drop(inner);
                hooks.note("answers of hooks at once");
                answer.give(Ok(state));
            }
            70..98 => {
                hooks.note("answers of hooks that came later");
                inner.owed.push((answer, state));
            }
            _ => {
                drop(inner);
                hooks.note_refused();
                drop(answer);
            }
        }
    }

    fn restore(&mut self, checkpoint: CheckpointId, state: Option<&[u8]>) -> Result<(), OperatorError> {
        let Cut { hooks, .. } = &self.cut;
        hooks.at(Place::RestoreHook)?;
        let mut inner = self.cut.lock();
        let given = inner.given.get(&(self.name.clone(), checkpoint));
        if state.is_some_and(|state| !given.is_some_and(|given| given.contains(state))) {
            hooks.violate(format!("{} never gave what it got back for checkpoint {checkpoint}", self.name));
        }
        if inner.restored.insert(self.name.clone(), state.map(<[u8]>::to_vec)).is_some() {
            hooks.violate(format!("{} was restored twice", self.name));
        }
        Ok(())
    }

    fn reset(&mut self) -> Result<(), OperatorError> {
        self.cut.hooks.at(Place::RestoreHook)?;
        self.cut.lock().reset.insert(self.name.clone());
        Ok(())
    }

    fn close(&mut self) {
        self.expect_open();
        self.cut.hooks.note("hooks that were closed");
        self.cut.lock().closed.insert(self.name.clone());
    }
}

fn encode(checkpoint: CheckpointId, read: u64) -> Vec<u8> {
    [checkpoint.0.to_le_bytes(), read.to_le_bytes()].concat()
}

fn decode(state: &[u8]) -> (CheckpointId, u64) {
    let number = |at: usize| u64::from_le_bytes(state[at..at + 8].try_into().expect("eight bytes"));
    (CheckpointId(number(0)), number(8))
}

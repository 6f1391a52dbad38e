//! Deaths and restarts: of tasks, of everything, and on purpose with another parallelism.

use std::collections::BTreeSet;

use slackwater_core::coordinator::{CoordinatorEvent, RestoredFrom, TaskState};
use slackwater_core::ids::CheckpointId;
use slackwater_core::retained::{Recovery, RecoveryAction, RecoveryEvent, RestoreEntry, RetainedEvent};

use crate::control::{Control, KIND};
use crate::event::Event;
use crate::job::narrow;
use crate::plan::{Fault, Mutant};
use crate::restore::Restore;
use crate::storage::Checkpoint;
use crate::task::{Cx, Verdict};
use crate::world::{Phase, World};

impl World {
    pub(crate) fn strike(&mut self, fault: Fault) -> Verdict {
        self.trace(&fault);
        self.skew_ms = self.rng.below(100);
        match fault {
            Fault::KillTask => {
                self.coverage.note("dead tasks");
                let victim = narrow(self.rng.index(self.tasks.len()));
                self.kill(victim);
                Ok(())
            }
            Fault::Rescale => {
                self.stop_tasks(true)?;
                self.tell_coordinator(CoordinatorEvent::ShutDown)
            }
            Fault::KillProcess { with_power, .. } => self.kill_process(with_power),
        }
    }

    /// Somebody has noticed that a task is dead, or the job has failed: all tasks start again.
    pub(crate) fn fail_over(&mut self) -> Verdict {
        if self.phase != Phase::Running {
            return Ok(());
        }
        self.coverage.note("failovers");
        let attempt = self.control.attempt;
        let dead = self.tasks.iter().filter(|task| task.is_dead).map(|task| task.index);
        for task in dead.collect::<Vec<_>>() {
            self.tell_coordinator(CoordinatorEvent::TaskFailed(self.control.by(task, attempt)))?;
        }
        self.stop_tasks(false)
    }

    fn stop_tasks(&mut self, rescales: bool) -> Verdict {
        let attempt = self.control.attempt;
        for task in 0..narrow(self.tasks.len()) {
            let (attempt, state) = (self.control.by(task, attempt), TaskState::Pending);
            self.tell_coordinator(CoordinatorEvent::TaskChanged { attempt, state })?;
        }
        self.tell_coordinator(CoordinatorEvent::JobStopped)?;
        self.end_run(false)?;
        self.phase = Phase::Settling { rescales };
        Ok(())
    }

    /// The tasks are gone, and perhaps the coordinator with them. What they had under way has happened or never will.
    fn end_run(&mut self, with_control: bool) -> Verdict {
        self.tasks.clear();
        self.idle.clear();
        for (at, event) in std::mem::take(&mut self.events) {
            let is_kept = !with_control && !event.is_of_tasks();
            if is_kept {
                self.events.insert(at, event);
            } else if self.rng.chance(50) {
                self.happens_unheard(event)?;
            }
        }
        self.ledger.lose_open();
        Ok(())
    }

    fn happens_unheard(&mut self, event: Event) -> Verdict {
        if let Event::Commit { name, transactions } = event {
            self.coverage.note("commits that nobody heard of");
            self.commit(name, transactions)?;
        }
        Ok(())
    }

    fn kill_process(&mut self, with_power: bool) -> Verdict {
        self.coverage.note("dead processes");
        self.end_run(true)?;
        if with_power {
            self.coverage.note("power cuts");
        }
        if self.storage.files.is_busy() {
            self.coverage.note("files that were being written at a death");
        }
        self.storage.files.restart(with_power, self.rng.any());
        let newest = self.storage.newest();
        if let Some(newest) = newest
            && self.rng.chance(self.plan.chances.damage)
        {
            let is_unreadable = self.rng.chance(40);
            self.storage.damage(newest, is_unreadable)?;
        }
        self.micros += self.rng.below(20_000);
        if self.rng.chance(60) {
            self.job.rescale(&mut self.rng);
        }
        self.recover()
    }

    /// Restores when nothing is under way that could still become the newest checkpoint.
    pub(crate) fn settle(&mut self) -> Verdict {
        match self.phase {
            Phase::Settling { rescales: false } if self.control.machine.pending_count() == 0 => {
                let plan =
                    self.control.store.restore(RestoreEntry::LatestToAll { allow_non_restored: false }, None);
                let plan = plan.map_err(|rejected| rejected.to_string())?;
                let from = plan.checkpoint.map(|id| RestoredFrom { id, is_unclaimed: false });
                self.tell_coordinator(CoordinatorEvent::Restored(from))?;
                self.control.attempt += 1;
                self.restart(plan.checkpoint)
            }
            Phase::Settling { rescales: true } if self.control.machine.is_idle() => {
                self.events.clear();
                self.job.rescale(&mut self.rng);
                self.recover()
            }
            Phase::Running | Phase::Settling { .. } | Phase::Over => Ok(()),
        }
    }

    /// A new process looks for the newest checkpoint that verifies.
    fn recover(&mut self) -> Verdict {
        let mut recovery = Recovery::new();
        let mut retained = BTreeSet::new();
        let mut passed_over = None;
        let mut may_delete = true;
        for id in self.storage.folders().into_iter().rev() {
            let looks = self.tell_recovery(&mut recovery, RecoveryEvent::FolderFound(id))?;
            let is_thorough = looks.contains(&RecoveryAction::Verify(id));
            let verdict = self.storage.verdict(id, is_thorough)?;
            for action in self.tell_recovery(&mut recovery, RecoveryEvent::Examined(verdict))? {
                match action {
                    RecoveryAction::Restore(id) | RecoveryAction::Retain(id) => {
                        retained.insert(id);
                    }
                    RecoveryAction::PassOver(id, _) => passed_over = passed_over.max(Some(id)),
                    RecoveryAction::StopDeleting => may_delete = false,
                    RecoveryAction::NoteRemains(_)
                    | RecoveryAction::Verify(_)
                    | RecoveryAction::ReadManifest(_) => {}
                }
            }
        }
        let chosen = self.choose(&recovery, &retained)?;
        if let Some(id) = chosen.filter(|_| !self.plan.has(Mutant::RestoredUnsynced)) {
            // A start that fails is tried again.
            while self.storage.keep(id).is_err() {
                self.coverage.note("failed starts");
            }
        }
        chosen.into_iter().for_each(|id| self.storage.announce(id));
        if let Some(newest) = passed_over {
            self.coverage.note("fallbacks to an older checkpoint");
            self.ledger.take_back(chosen, newest);
        }
        self.control = Control::new(&self.plan, &self.job, recovery.next_id())?;
        if !may_delete {
            self.tell_store(RetainedEvent::UnreadableManifestFound)?;
        }
        for id in retained {
            self.tell_store(RetainedEvent::CheckpointRecovered { id, kind: KIND })?;
        }
        let from = chosen.map(|id| RestoredFrom { id, is_unclaimed: false });
        self.tell_coordinator(CoordinatorEvent::Restored(from))?;
        self.restart(chosen)
    }

    /// What was complete must not be lost unless somebody has damaged it. A newer one may have become complete unheard.
    fn choose(
        &self,
        recovery: &Recovery,
        retained: &BTreeSet<CheckpointId>,
    ) -> Result<Option<CheckpointId>, String> {
        let (chosen, whole) = (recovery.chosen(), self.storage.newest_whole());
        if chosen < whole {
            return Err(format!("{chosen:?} is restored, but {whole:?} was complete"));
        }
        if self.plan.has(Mutant::OlderRestored) && retained.len() > 1 {
            return Ok(retained.iter().next().copied());
        }
        Ok(chosen)
    }

    fn tell_recovery(
        &self,
        recovery: &mut Recovery,
        event: RecoveryEvent,
    ) -> Result<heapless::Vec<RecoveryAction, { Recovery::ACTIONS_MAX }>, String> {
        let mut actions = heapless::Vec::new();
        let told = recovery.on_event(self.now(), event, &mut actions);
        told.map_err(|rejected| format!("recovery: {event:?}: {rejected}"))?;
        recovery.check();
        Ok(actions)
    }

    /// Starts new tasks, from a checkpoint or from nothing.
    pub(crate) fn restart(&mut self, from: Option<CheckpointId>) -> Verdict {
        let checkpoint = from.map(|id| self.storage.read(id)).transpose()?;
        self.run += 1;
        self.trace(&("restart from", from, &self.job.parallelism));
        self.make_tasks(checkpoint.as_ref())?;
        self.idle = vec![false; self.tasks.len()];
        self.note_kinds();
        self.phase = Phase::Running;
        for task in 0..narrow(self.tasks.len()) {
            let run = self.run;
            let (start, told) = (self.rng.below(4_000), self.rng.below(4_000));
            self.after(start, Event::Start { run, task });
            self.after(told, Event::TaskChanged { run, task, state: TaskState::Running });
        }
        self.tell_coordinator(CoordinatorEvent::JobStarted)
    }

    fn make_tasks(&mut self, checkpoint: Option<&Checkpoint>) -> Verdict {
        let restore = Restore { plan: &self.plan, job: &self.job, checkpoint };
        restore.note(&mut self.coverage);
        self.ledger.abort_all_but(&restore.listed());
        let mut effects = Vec::new();
        let mut cx = Cx {
            now: self.now(),
            rng: &mut self.rng,
            plan: &self.plan,
            job: &self.job,
            coverage: &mut self.coverage,
            ledger: &mut self.ledger,
            effects: &mut effects,
        };
        self.tasks = restore.tasks(self.run, &mut cx)?;
        if effects.is_empty() { Ok(()) } else { Err(format!("a restore wants {effects:?}")) }
    }
}

//! What tasks want of the world: messages, files and transactions, each done after a while, lost or failed.

use slackwater_core::coordinator::{CoordinatorEvent, TaskReport, TaskState};

use crate::event::Event;
use crate::plan::Mutant;
use crate::task::{Cx, Effect, Flow, Task, Verdict};
use crate::world::World;

impl World {
    /// Lets a task do something and carries out what it wants. A task that is gone does nothing.
    pub(crate) fn with_task<R: Default>(
        &mut self,
        (run, index): (u32, u16),
        act: impl FnOnce(&mut Task, &mut Cx<'_>) -> Result<R, String>,
    ) -> Result<R, String> {
        let now = self.now();
        let Some(task) = self.tasks.get_mut(usize::from(index)) else { return Ok(R::default()) };
        if run != self.run || task.is_dead || task.flow == Flow::Finished {
            return Ok(R::default());
        }
        let mut effects = Vec::new();
        let mut cx = Cx {
            now,
            rng: &mut self.rng,
            plan: &self.plan,
            job: &self.job,
            coverage: &mut self.coverage,
            ledger: &mut self.ledger,
            effects: &mut effects,
        };
        let done = act(task, &mut cx)?;
        self.idle.fill(false);
        effects.into_iter().try_for_each(|effect| self.carry_out(index, effect))?;
        Ok(done)
    }

    fn carry_out(&mut self, task: u16, effect: Effect) -> Verdict {
        let (run, attempt) = (self.run, self.control.attempt);
        match effect {
            Effect::Acknowledge { id, is_finished, files } => {
                if self.is_report_lost() {
                    return Ok(());
                }
                let report =
                    TaskReport { has_state: !files.is_empty(), is_finished, ..TaskReport::default() };
                let delay = self.delay();
                self.after(delay, Event::Acknowledged { id, task, attempt, report, files });
            }
            Effect::Decline { id, reason } => {
                self.coverage.note("declines");
                if self.is_report_lost() {
                    return Ok(());
                }
                let by = self.control.by(task, attempt);
                let delay = self.delay();
                self.after(delay, Event::Coordinator(CoordinatorEvent::Declined { id, by, reason }));
            }
            Effect::Persist { name, part, content } => {
                if self.rng.chance(self.plan.chances.failed_part) {
                    self.fail_operation();
                }
                self.storage.write(name, part, content);
                if self.plan.has(Mutant::AcknowledgeBeforeSync) {
                    self.after(0, Event::Persisted { name, part, is_good: true });
                }
            }
            Effect::Flush(name) => {
                let is_slow = self.rng.chance(self.plan.chances.slow_flush);
                let delay = if is_slow { self.rng.below(80_000) } else { self.delay() };
                self.after(delay, Event::Flush(name));
            }
            Effect::Commit { name, transactions } => {
                let delay = self.delay();
                self.after(delay, Event::Commit { name, transactions });
            }
            Effect::Finished => {
                self.coverage.note("finished tasks");
                self.after(6_000, Event::TaskChanged { run, task, state: TaskState::Finished });
            }
            Effect::Fail => self.kill(task),
        }
        Ok(())
    }

    /// One of the next operations of the disk fails, whosever it is.
    pub(crate) fn fail_operation(&mut self) {
        self.coverage.note("failed operations of the disk");
        let in_operations = self.rng.below(6);
        self.storage.files.fail(in_operations);
    }

    fn is_report_lost(&mut self) -> bool {
        let is_lost = self.rng.chance(self.plan.chances.lost_report);
        if is_lost {
            self.coverage.note("lost reports");
        }
        is_lost
    }

    /// A task dies; after a while somebody notices.
    pub(crate) fn kill(&mut self, task: u16) {
        if let Some(task) = self.tasks.get_mut(usize::from(task)) {
            task.is_dead = true;
            let (run, delay) = (self.run, self.rng.below(15_000));
            self.after(delay, Event::FailOver { run });
        }
    }
}

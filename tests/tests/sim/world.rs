//! A job on virtual time: a seeded scheduler lets tasks take steps and delivers messages.

use std::collections::{BTreeMap, VecDeque};

use slackwater_core::coordinator::{CoordinatorEvent, RequestKind, RequestToken};
use slackwater_core::durable::Failure;
use slackwater_core::ids::CheckpointId;
use slackwater_core::time::{Millis, Now};
use slackwater_core::two_phase::{TransactionToken, Transactions};
use slackwater_tests::rng::Rng;

use crate::control::Control;
use crate::event::Event;
use crate::files::Role;
use crate::job::{Job, Kind};
use crate::oracle::Output;
use crate::plan::{CALM_MS, Chances, Coverage, Fault, Mode, Mutant, Plan};
use crate::storage::{Ledger, Storage, TransactionName};
use crate::task::{Flow, Mail, Task, Verdict};

/// Far more than any run here takes.
const STEPS_MAX: u64 = 400_000;
const WALL_START_MS: u64 = 1_700_000_000_000;
/// A step takes up to this long.
const STEP_MICROS_MAX: u64 = 300;
/// How long a death waits for a manifest.
const MANIFEST_WAIT_MS: u64 = 60;
/// A task may have dallied by chance, but not so often.
const IDLE_ROUNDS_MAX: u32 = 20;
/// How often the end is asked for where there are no periodic checkpoints.
const ASK_AGAIN_MICROS: u64 = 25_000;

/// How far the job is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Running,
    /// The tasks are gone; the coordinator has to settle what is under way before anything is restored.
    Settling {
        rescales: bool,
    },
    Over,
}

pub(crate) struct World {
    pub(crate) plan: Plan,
    pub(crate) job: Job,
    pub(crate) rng: Rng,
    pub(crate) micros: u64,
    /// The wall clock jumps with every fault.
    pub(crate) skew_ms: u64,
    sequence: u64,
    pub(crate) events: BTreeMap<(u64, u64), Event>,
    pub(crate) coverage: Coverage,
    pub(crate) ledger: Ledger,
    pub(crate) storage: Storage,
    pub(crate) control: Control,
    pub(crate) tasks: Vec<Task>,
    pub(crate) idle: Vec<bool>,
    idle_rounds: u32,
    pub(crate) phase: Phase,
    pub(crate) run: u32,
    faults: VecDeque<(u64, Fault)>,
    requests: VecDeque<(u64, RequestKind)>,
    ask_at: u64,
    tokens: u32,
}

impl World {
    pub(crate) fn new(plan: Plan) -> Result<Self, String> {
        let is_exact = plan.mode != Mode::AtLeastOnce;
        let ledger = Ledger::new(Output::of(&plan.job), is_exact);
        let control = Control::new(&plan, &plan.job, CheckpointId::FIRST)?;
        let mut world = Self {
            job: plan.job.clone(),
            rng: Rng::new(plan.seed ^ 0x51A_C0DE),
            micros: 0,
            skew_ms: 0,
            sequence: 0,
            events: BTreeMap::new(),
            coverage: Coverage::default(),
            ledger,
            storage: Storage::new(plan.seed),
            control,
            tasks: Vec::new(),
            idle: Vec::new(),
            idle_rounds: 0,
            phase: Phase::Running,
            run: 0,
            faults: plan.faults.iter().copied().collect(),
            requests: plan.requests.iter().copied().collect(),
            ask_at: 0,
            tokens: 0,
            plan,
        };
        world.restart(None)?;
        Ok(world)
    }

    /// Runs the job to its end and compares what is committed.
    pub(crate) fn run(&mut self) -> Verdict {
        for _ in 0..STEPS_MAX {
            self.micros += self.rng.below(STEP_MICROS_MAX);
            if self.micros > CALM_MS * 1000 {
                self.plan.chances = Chances::default();
                // Barriers that expire faster than slow tasks take them leave no turn for records.
                self.plan.idle_percent.fill(0);
            }
            self.deliver_due()?;
            self.drive_files()?;
            self.on_faults()?;
            self.ask()?;
            self.drive_coordinator()?;
            self.settle()?;
            if self.phase == Phase::Over {
                return self.end();
            }
            if !self.step_one()? {
                self.wait()?;
            }
        }
        let flows: Vec<_> = self.tasks.iter().map(|task| (task.flow, &task.blocked)).collect();
        Err(format!("the job does not end: {flows:?}"))
    }

    pub(crate) const fn now(&self) -> Now {
        let ms = self.micros / 1000;
        Now { monotonic: Millis(ms), wall: Millis(WALL_START_MS + self.skew_ms + ms) }
    }

    pub(crate) fn at(&mut self, micros: u64, event: Event) {
        self.sequence += 1;
        self.events.insert((micros, self.sequence), event);
    }

    pub(crate) fn after(&mut self, micros: u64, event: Event) {
        self.at(self.micros + micros, event);
    }

    /// How long a message takes: they overtake each other.
    pub(crate) fn delay(&mut self) -> u64 {
        let is_slow = self.rng.chance(self.plan.chances.slow_message);
        self.rng.below(if is_slow { 60_000 } else { 2_000 })
    }

    fn deliver_due(&mut self) -> Verdict {
        while let Some(entry) = self.events.first_entry().filter(|entry| entry.key().0 <= self.micros) {
            let event = entry.remove();
            self.deliver(event)?;
        }
        Ok(())
    }

    /// Tells the story of the one seed that is repeated.
    pub(crate) fn trace(&self, what: &dyn std::fmt::Debug) {
        if self.plan.is_traced {
            eprintln!("{:>9} us  {what:?}", self.micros);
        }
    }

    pub(crate) fn deliver(&mut self, event: Event) -> Verdict {
        self.trace(&event);
        match event {
            Event::Coordinator(event) => self.tell_coordinator(event),
            Event::Acknowledged { id, task, attempt, report, files } => {
                self.on_acknowledged(id, (task, attempt), report, files)
            }
            Event::Mail { run, task, mail } => self.with_task((run, task), |task, cx| task.receive(mail, cx)),
            Event::Start { run, task } => self.with_task((run, task), |task, cx| task.start(cx)),
            Event::TaskChanged { run, task, state } => self.on_task_changed(run, task, state),
            Event::Persisted { name, part, is_good } => {
                let mail = Mail::Persisted { id: name.id, part, is_good };
                self.with_task((name.run, name.task), |task, cx| task.receive(mail, cx))
            }
            Event::Flush(name) => {
                // What was closed earlier is flushed with it.
                (0..=name.number).for_each(|number| self.ledger.flush(TransactionName { number, ..name }));
                let mail = Mail::Flushed(TransactionToken(name.number));
                self.with_task((name.run, name.task), |task, cx| task.receive(mail, cx))
            }
            Event::Commit { name, transactions } => {
                self.commit(name, transactions)?;
                let mail = Mail::Committed(transactions);
                self.with_task((name.run, name.task), |task, cx| task.receive(mail, cx))
            }
            Event::Manifest { id, is_good, may_exist } => self.on_manifest(id, is_good, may_exist),
            Event::Discarded(id) => self.on_discarded(id),
            Event::Cleaned(id) => self.on_cleaned(id),
            Event::FailOver { run } if run == self.run => self.fail_over(),
            Event::FailOver { .. } => Ok(()),
        }
    }

    pub(crate) fn commit(&mut self, name: TransactionName, done: Transactions) -> Verdict {
        let names = (done.first.0..=done.last.0).map(|number| TransactionName { number, ..name });
        names.into_iter().try_for_each(|name| self.ledger.commit(name))
    }

    fn on_faults(&mut self) -> Verdict {
        // A death waits for some moment in which a manifest is on its way, but not for long.
        let is_writing = self.storage.files.is_writing_manifest() && self.rng.chance(15);
        let is_due = |(at, fault): &mut (u64, Fault)| {
            let awaits = matches!(fault, Fault::KillProcess { at_manifest: true, .. }) && !is_writing;
            (*at + if awaits { MANIFEST_WAIT_MS } else { 0 }) * 1000 <= self.micros
        };
        match self.faults.pop_front_if(is_due) {
            Some((_, fault)) if self.phase == Phase::Running => self.strike(fault),
            Some(_) | None => Ok(()),
        }
    }

    /// Asks for checkpoints that are not periodic, and for the last one where none are.
    fn ask(&mut self) -> Verdict {
        let is_due = |(at, _): &mut (u64, RequestKind)| *at * 1000 <= self.micros;
        if let Some((_, kind)) = self.requests.pop_front_if(is_due) {
            return self.request(kind);
        }
        let is_drained = |task: &Task| !matches!(task.flow, Flow::New | Flow::Running | Flow::Ending);
        let is_at_end = self.plan.interval_ms.is_none()
            && self.phase == Phase::Running
            && self.ask_at <= self.micros
            && self.tasks.iter().all(is_drained);
        if is_at_end {
            self.ask_at = self.micros + ASK_AGAIN_MICROS;
            return self.request(RequestKind::Configured);
        }
        Ok(())
    }

    fn request(&mut self, kind: RequestKind) -> Verdict {
        if self.phase != Phase::Running {
            return Ok(());
        }
        self.tokens += 1;
        let request = RequestToken(self.tokens);
        self.control.requests.insert(request);
        self.tell_coordinator(CoordinatorEvent::CheckpointRequested { request, kind })
    }

    /// Lets one task that may have something to do take a step; false if there is none.
    fn step_one(&mut self) -> Result<bool, String> {
        let is_ready = |index: &usize| !self.idle[*index];
        let ready: Vec<_> = (0..self.tasks.len()).filter(is_ready).collect();
        if ready.is_empty() {
            return Ok(false);
        }
        let index = ready[self.rng.index(ready.len())];
        let vertex = usize::from(self.tasks[index].vertex);
        if self.rng.chance(self.plan.idle_percent[vertex]) {
            return Ok(true);
        }
        let task = (self.run, self.tasks[index].index);
        let is_busy = {
            let idle = self.idle.clone();
            let is_busy = self.with_task(task, Task::step)?;
            if !is_busy {
                self.idle = idle;
            }
            is_busy
        };
        if is_busy {
            self.idle_rounds = 0;
        } else if let Some(idle) = self.idle.get_mut(index) {
            *idle = true;
        }
        Ok(true)
    }

    /// Lets the disk go on, and reports what became of files.
    pub(crate) fn drive_files(&mut self) -> Verdict {
        for (role, result) in self.storage.files.advance() {
            let delay = self.delay();
            match role {
                // This bug has reported it already.
                Role::Part(..) if self.plan.has(Mutant::AcknowledgeBeforeSync) => {}
                Role::Part(name, part) => {
                    self.after(delay, Event::Persisted { name, part, is_good: result.is_ok() });
                }
                Role::Manifest(id) => {
                    if result.is_ok() {
                        self.storage.announce(id);
                    }
                    let may_exist = matches!(result, Err(Failure::Disk { name_may_exist: true, .. }));
                    self.after(delay, Event::Manifest { id, is_good: result.is_ok(), may_exist });
                }
            }
        }
        Ok(())
    }

    /// Nobody has anything to do: the clock goes to the next moment at which that changes.
    fn wait(&mut self) -> Verdict {
        if self.storage.files.is_busy() {
            return Ok(());
        }
        let now = self.now();
        let deadlines = self.tasks.iter().flat_map(|task| {
            [task.gate.next_deadline(now), task.machine.next_deadline(now)].into_iter().flatten()
        });
        let deadlines = deadlines.chain(self.control.machine.next_deadline(now)).map(|at| at.0 * 1000);
        let events = self.events.keys().next().map(|(at, _)| *at);
        let faults = self.faults.front().map(|(at, _)| at * 1000);
        let requests = self.requests.front().map(|(at, _)| at * 1000);
        let asks = (self.ask_at > self.micros).then_some(self.ask_at);
        let next = deadlines.chain(events).chain(faults).chain(requests).chain(asks).min();
        self.idle.fill(false);
        let Some(next) = next else {
            if self.idle_rounds < IDLE_ROUNDS_MAX {
                self.idle_rounds += 1;
                return Ok(());
            }
            let flows: Vec<_> = self.tasks.iter().map(|task| (task.flow, &task.blocked)).collect();
            return Err(format!("nobody can go on: {flows:?}"));
        };
        self.micros = self.micros.max(next);
        Ok(())
    }

    pub(crate) fn note_kinds(&mut self) {
        for task in &self.tasks {
            self.coverage.note(match task.kind() {
                Kind::Source => "sources",
                Kind::Keyed => "keyed operators",
                Kind::Sink => "sinks",
            });
        }
    }
}

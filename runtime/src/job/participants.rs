//! Restores those who take part in checkpoints beside the tasks, and makes actors of coordinators of operators.

use std::ops::Range;

use slackwater_core::coordinator::Hooks;
use slackwater_core::coordinator::{InvalidHooks, ParticipantSet};

use crate::actor::{Actor, Guarded, Mailbox, Signal};
use crate::checkpoint::{Manifest, ParticipantKind, ParticipantPart};
use crate::error::JobError;
use crate::graph::JobBuilder;
use crate::hook::NamedHook;
use crate::mail::{CoordinatorMail, OperatorCoordinatorMail, TaskMail};
use crate::operator::OperatorError;
use crate::operator_coordinator::{
    OperatorCoordinator, OperatorCoordinatorActor, OperatorCoordinatorParts, ToCoordinator,
};
use crate::panics::call_operator;
use crate::participants::Participants;
use crate::shared::Shared;

/// Hooks, and coordinators of operators.
#[derive(Default)]
pub(super) struct JobParticipants {
    hooks: Vec<NamedHook>,
    coordinated: Vec<Coordinated>,
}

/// A coordinator, and which of the job's subtasks are its operator's.
struct Coordinated {
    operator: String,
    coordinator: Box<dyn OperatorCoordinator>,
    tasks: Range<usize>,
    signal: Signal,
    mail: Mailbox<OperatorCoordinatorMail>,
}

/// Hooks of a job: as many as the coordinator can tell apart.
const HOOKS: usize = ParticipantSet::CAPACITY;

/// Whether hooks and coordinators have names that tell them apart, and every state that a checkpoint has of some is one
/// of theirs (rules P31 and P33).
///
/// # Errors
/// The first thing that does not match.
pub(super) fn check(builder: &JobBuilder, manifest: Option<&Manifest>) -> Result<(), JobError> {
    let hooks = registered(&builder.hooks)?;
    let Some(manifest) = manifest else { return Ok(()) };
    let other = |what| Err(JobError::OtherJob { checkpoint: manifest.id, what });
    for part in manifest.participants.iter().filter(|part| part.kind == ParticipantKind::OperatorCoordinator)
    {
        let mut with = builder.vertices.iter().filter(|vertex| vertex.coordinator.is_some());
        if !with.any(|vertex| vertex.name == part.name) {
            return other(format!("operator {} has no coordinator here", part.name));
        }
    }
    let states = states(manifest, ParticipantKind::Hook);
    match hooks.restore_order(&names(&states), false) {
        Err(InvalidHooks::UnknownState(index)) => {
            other(format!("hook {} is missing here", states.get(index).map_or("", |part| &part.name)))
        }
        Ok(_) | Err(InvalidHooks::BlankName | InvalidHooks::TooMany) if hooks.count() > 0 => Ok(()),
        // Without hooks nothing is restored, but what is there must not get lost in silence.
        _ => states.first().map_or(Ok(()), |part| other(format!("hook {} is missing here", part.name))),
    }
}

/// Takes hooks and coordinators out of a job that is otherwise ready, and restores them.
///
/// # Errors
/// What one of them says.
pub(super) fn restore(
    builder: &mut JobBuilder,
    manifest: Option<&Manifest>,
    shared: &Shared,
) -> Result<JobParticipants, JobError> {
    let mut hooks = std::mem::take(&mut builder.hooks);
    restore_hooks(&mut hooks, manifest)?;
    let (mut coordinated, mut first) = (Vec::new(), 0);
    for vertex in &mut builder.vertices {
        let tasks = first..first + vertex.signals.len();
        first = tasks.end;
        let Some(mut coordinator) = vertex.coordinator.take() else { continue };
        if let Some(manifest) = manifest {
            let states = states(manifest, ParticipantKind::OperatorCoordinator);
            let state = states.iter().find(|part| part.name == vertex.name).map(|part| part.state.as_slice());
            call(&vertex.name, "coordinator", || coordinator.restore(state))?;
        }
        let signal = Signal::default();
        shared.watch(signal.clone());
        let (operator, mail) = (vertex.name.clone(), Mailbox::new(signal.clone()));
        coordinated.push(Coordinated { operator, coordinator, tasks, signal, mail });
    }
    Ok(JobParticipants { hooks, coordinated })
}

/// In the order of the states, then the others; without a checkpoint they are reset (rules P33 and P34).
fn restore_hooks(hooks: &mut [NamedHook], manifest: Option<&Manifest>) -> Result<(), JobError> {
    let Some(manifest) = manifest else {
        let mut hooks = hooks.iter_mut();
        return hooks.try_for_each(|named| call(&named.name, "hook", || named.hook.reset()));
    };
    let states = states(manifest, ParticipantKind::Hook);
    let order = registered(hooks)?.restore_order(&names(&states), false).map_err(invalid)?;
    for restore in order {
        let Some(named) = hooks.get_mut(usize::from(restore.hook)) else { continue };
        let state = restore.state.and_then(|index| states.get(index)).map(|part| part.state.as_slice());
        call(&named.name, "hook", || named.hook.restore(manifest.id, state))?;
    }
    Ok(())
}

fn registered(hooks: &[NamedHook]) -> Result<Hooks<'_, HOOKS>, JobError> {
    let mut registered = Hooks::new();
    for named in hooks {
        if registered.register(&named.name).map_err(invalid)?.is_none() {
            return Err(JobError::InvalidJob { what: format!("two hooks are named {}", named.name) });
        }
    }
    Ok(registered)
}

fn states(manifest: &Manifest, kind: ParticipantKind) -> Vec<&ParticipantPart> {
    manifest.participants.iter().filter(|part| part.kind == kind).collect()
}

fn names<'a>(states: &[&'a ParticipantPart]) -> Vec<&'a str> {
    states.iter().map(|part| part.name.as_str()).collect()
}

fn invalid(error: InvalidHooks) -> JobError {
    JobError::InvalidJob { what: error.to_string() }
}

/// Calls a hook, or a coordinator of an operator.
fn call(name: &str, what: &str, call: impl FnOnce() -> Result<(), OperatorError>) -> Result<(), JobError> {
    call_operator(&format!("{name} {what}"), name, call)
}

impl JobParticipants {
    /// The way from a subtask to the coordinator of its operator.
    pub(super) fn of_task(&self, index: u16) -> Option<ToCoordinator> {
        let index = usize::from(index);
        let its = self.coordinated.iter().find(|coordinated| coordinated.tasks.contains(&index))?;
        let subtask = u16::try_from(index - its.tasks.start).ok()?;
        Some(ToCoordinator { mail: its.mail.clone(), subtask })
    }

    /// As the coordinator of the job knows them; the hooks are its own.
    pub(super) fn for_coordinator(&mut self) -> Participants {
        let coordinators = self.coordinated.iter().map(|its| (its.operator.clone(), its.mail.clone()));
        Participants::new(std::mem::take(&mut self.hooks), coordinators.collect())
    }

    /// The coordinators of operators as actors.
    ///
    /// # Errors
    /// An operator has too many subtasks.
    pub(super) fn actors(
        self,
        tasks: &[(Signal, Mailbox<TaskMail>)],
        job: &Mailbox<CoordinatorMail>,
        shared: &Shared,
    ) -> Result<Vec<Box<dyn Actor>>, JobError> {
        let actor = |(index, its): (u16, Coordinated)| {
            let tasks = tasks.get(its.tasks).unwrap_or_default();
            let parts = OperatorCoordinatorParts {
                name: its.operator,
                index,
                coordinator: its.coordinator,
                tasks: tasks.iter().map(|(_, mail)| mail.clone()).collect(),
                job: job.clone(),
                signal: its.signal,
                mail: its.mail,
                shared: shared.clone(),
            };
            OperatorCoordinatorActor::new(parts)
                .map(|actor| Box::new(Guarded::new(actor, shared.clone())) as Box<dyn Actor>)
        };
        (0u16..).zip(self.coordinated).map(actor).collect()
    }
}

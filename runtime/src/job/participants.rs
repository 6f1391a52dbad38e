//! Restores those who take part in checkpoints beside the tasks, and makes actors of coordinators of operators.

use std::ops::Range;

use slackwater_core::coordinator::Hooks;
use slackwater_core::coordinator::{InvalidHooks, ParticipantSet};

use super::matching::dropped_state;
use crate::actor::{Actor, Guarded, Mailbox, Signal};
use crate::checkpoint::{Manifest, ParticipantKind, ParticipantPart, RestoredStates};
use crate::error::JobError;
use crate::graph::{JobBuilder, Vertex};
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
/// of theirs (rules P31 and P33). Gives what is dropped of it, a sentence for each that is not in the job.
///
/// # Errors
/// The first thing that does not match.
pub(super) fn check(
    builder: &JobBuilder,
    manifest: Option<&Manifest>,
    allow_non_restored: bool,
) -> Result<Vec<String>, JobError> {
    registered(&builder.hooks)?;
    let Some(manifest) = manifest else { return Ok(Vec::new()) };
    let mut dropped = Vec::new();
    for part in &manifest.participants {
        let (is_there, owner) = match part.kind {
            ParticipantKind::Hook => {
                (builder.hooks.iter().any(|named| named.name == part.name), format!("hook {}", part.name))
            }
            ParticipantKind::OperatorCoordinator => {
                let mut with = builder.vertices.iter().filter(|vertex| vertex.coordinator.is_some());
                let is_there = with.any(|vertex| stored_name(&vertex.name, builder, manifest) == part.name);
                (is_there, format!("the coordinator of operator {}", part.name))
            }
        };
        match (is_there, allow_non_restored) {
            (true, _) => {}
            (false, true) => dropped.push(dropped_state(manifest.id, &owner)),
            (false, false) => return Err(JobError::NonRestoredState { checkpoint: manifest.id, owner }),
        }
    }
    Ok(dropped)
}

/// The name that an operator had when the checkpoint was taken.
fn stored_name<'a>(operator: &'a str, builder: &'a JobBuilder, manifest: &'a Manifest) -> &'a str {
    RestoredStates::new(Some(manifest), &[]).with_previous(&builder.previous).stored_name(operator)
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
    let states = manifest.map(|manifest| {
        let states = states(manifest, ParticipantKind::OperatorCoordinator);
        let state_of = |vertex: &Vertex| {
            let stored = stored_name(&vertex.name, builder, manifest);
            states.iter().find(|part| part.name == stored).map(|part| part.state.as_slice())
        };
        builder.vertices.iter().map(state_of).collect::<Vec<_>>()
    });
    let (mut coordinated, mut first) = (Vec::new(), 0);
    for (index, vertex) in builder.vertices.iter_mut().enumerate() {
        let tasks = first..first + vertex.signals.len();
        first = tasks.end;
        let Some(mut coordinator) = vertex.coordinator.take() else { continue };
        if let Some(states) = &states {
            let state = states.get(index).copied().flatten();
            call(&vertex.name, "coordinator", || coordinator.restore(state))?;
        }
        let signal = Signal::default();
        shared.watch(signal.clone());
        let (operator, mail) = (vertex.name.clone(), Mailbox::new(signal.clone()));
        coordinated.push(Coordinated { operator, coordinator, tasks, signal, mail });
    }
    Ok(JobParticipants { hooks, coordinated })
}

/// In the order of the states, then the others; without a checkpoint they are reset (rules P33 and P34). States of hooks
/// that are not there have been allowed to be dropped.
fn restore_hooks(hooks: &mut [NamedHook], manifest: Option<&Manifest>) -> Result<(), JobError> {
    let Some(manifest) = manifest else {
        let mut hooks = hooks.iter_mut();
        return hooks.try_for_each(|named| call(&named.name, "hook", || named.hook.reset()));
    };
    let states = states(manifest, ParticipantKind::Hook);
    let order = registered(hooks)?.restore_order(&names(&states), true).map_err(invalid)?;
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

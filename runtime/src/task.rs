//! A subtask as an actor: takes records, carries out what its machines order, in order.

use std::collections::VecDeque;
use std::task::Waker;

use slackwater_core::gate::{ChannelSet, Gate, GateEvent, GateOptions};
use slackwater_core::ids::{Barrier, CheckpointId, TaskIndex};
use slackwater_core::subtask::{Subtask, SubtaskAction, SubtaskEvent, SubtaskOptions};
use slackwater_core::time::{Millis, Now};

use crate::actor::{Actor, Mailbox, Parked, ParkedOn, Signal, Step};
use crate::chain::Cx;
use crate::channel::Mark;
use crate::error::JobError;
use crate::head::{CHANNEL_WORDS, Head, Poll};
use crate::mail::{CoordinatorMail, TaskMail, WriterMail};
use crate::operator_coordinator::ToCoordinator;
use crate::shared::Shared;

mod barriers;
mod capture;
mod ending;
mod events;
mod flushing;
mod input;
mod loading;
mod orders;
mod parts;
mod prepare;
#[cfg(test)]
mod tests;

use capture::Capture;
use flushing::Flushing;
pub(crate) use loading::Loading;
use parts::Parts;

/// Checkpoints of one subtask that may be under way at the same time.
const PENDING: usize = 8;
/// Messages that one step takes.
const MAIL_PER_STEP: usize = 64;

type Machine = Subtask<PENDING>;

/// What a subtask needs to become an actor.
pub(crate) struct TaskParts {
    pub(crate) name: String,
    pub(crate) index: TaskIndex,
    pub(crate) head: Box<dyn Head>,
    pub(crate) cx: Cx,
    pub(crate) signal: Signal,
    pub(crate) mail: Mailbox<TaskMail>,
    pub(crate) coordinator: Mailbox<CoordinatorMail>,
    pub(crate) writer: Mailbox<WriterMail>,
    pub(crate) shared: Shared,
    /// The checkpoint that it is restored from was taken after it had emitted everything.
    pub(crate) is_drained: bool,
    /// What of its state has yet to come.
    pub(crate) loading: Option<Loading>,
    /// How it treats its channels.
    pub(crate) gate: GateOptions,
    /// How long a record may wait for its batch to fill up.
    pub(crate) buffer_timeout: Millis,
    /// Whom its source asks, if there is somebody.
    pub(crate) operator_coordinator: Option<ToCoordinator>,
}

/// A subtask.
pub(crate) struct Task {
    name: String,
    index: TaskIndex,
    head: Box<dyn Head>,
    cx: Cx,
    signal: Signal,
    mail: Mailbox<TaskMail>,
    coordinator: Mailbox<CoordinatorMail>,
    writer: Mailbox<WriterMail>,
    shared: Shared,
    gate: Gate<CHANNEL_WORDS>,
    blocked: ChannelSet<CHANNEL_WORDS>,
    /// What the gate has yet to hear, in order.
    unheard: VecDeque<GateEvent>,
    /// Only where barriers may overtake.
    capture: Option<Box<Capture>>,
    machine: Machine,
    /// What has to be done before anything else is taken, oldest first.
    orders: VecDeque<Order>,
    parts: Parts,
    flow: Flow,
    /// Channels on which no records follow.
    ended: ChannelSet<CHANNEL_WORDS>,
    /// The newest checkpoint whose barrier has come ahead of the end on a channel and was awaited on others then.
    ends_behind: Option<CheckpointId>,
    /// One of them ended for a savepoint: the operators keep what they have.
    is_suspended: bool,
    /// Barriers of checkpoints that the coordinator has triggered here and that have not been begun.
    triggers: VecDeque<Barrier>,
    bytes_seen: u64,
    flushing: Flushing,
    /// What of its state has yet to come.
    loading: Option<Loading>,
    operator_coordinator: Option<ToCoordinator>,
}

/// Something to do, possibly later than it was ordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    Machine(SubtaskAction),
    /// Emit what operators keep back.
    Prepare,
    /// Pass on that no records follow.
    SendEndOfData {
        is_drained: bool,
    },
}

/// How far the flow of records has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flow {
    /// The machine has not been started.
    New,
    Running {
        /// The rest was emitted before the checkpoint that the job is restored from.
        skips_rest: bool,
    },
    /// No records follow; the operators emit the rest.
    Ending,
    /// Nothing is emitted any more; that no records follow is on its way.
    SendingEnd,
    /// Barriers may still come.
    Ended,
}

impl Task {
    pub(crate) fn new(mut parts: TaskParts) -> Result<Self, JobError> {
        let channels = parts.head.channels();
        let count = u16::try_from(channels).unwrap_or(u16::MAX);
        let gate = Gate::new(count, parts.gate);
        let gate = gate.map_err(|_| JobError::CapacityExceeded {
            what: "channels of one subtask",
            wanted: channels,
            limit: ChannelSet::<CHANNEL_WORDS>::CAPACITY,
        })?;
        let inputs = parts.head.inputs().filter(|_| parts.gate.unaligned);
        let capture = inputs.and_then(|inputs| {
            inputs.watch();
            Capture::new(count)
        });
        let options = if channels == 0 { SubtaskOptions::SOURCE } else { SubtaskOptions::INNER };
        let has_coordinators = parts.operator_coordinator.is_some();
        let options = SubtaskOptions { has_coordinators, ..options };
        Ok(Self {
            name: parts.name,
            index: parts.index,
            head: parts.head,
            cx: parts.cx,
            signal: parts.signal,
            mail: parts.mail,
            coordinator: parts.coordinator,
            writer: parts.writer,
            shared: parts.shared,
            gate,
            blocked: ChannelSet::empty(),
            unheard: VecDeque::new(),
            capture,
            machine: Machine::new(options),
            orders: VecDeque::new(),
            parts: Parts::new(parts.is_drained),
            flow: Flow::New,
            ended: ChannelSet::empty(),
            ends_behind: None,
            is_suspended: false,
            triggers: VecDeque::new(),
            bytes_seen: 0,
            flushing: Flushing::new(parts.buffer_timeout),
            loading: parts.loading,
            operator_coordinator: parts.operator_coordinator,
        })
    }

    /// One step: messages, orders, then records.
    fn advance(&mut self) -> Result<Step, JobError> {
        let started = self.start()?;
        let got_mail = self.take_mail()? | self.load()?;
        if self.is_damaged() {
            return Ok(Step::parked(ParkedOn::Mail));
        }
        self.head.chain().make_room(&mut self.cx);
        self.check_failure()?;
        let was_due = self.serve_barrier_deadline()?;
        let did_orders = was_due | self.do_orders()? | self.begin_triggered()?;
        self.after_orders()?;
        let did_orders = did_orders | self.serve_deadline()?;
        let waits_for_room = !self.orders.is_empty();
        let flowed = if waits_for_room { None } else { self.flow()? };
        self.pass_requests()?;
        let did_something = started || got_mail || did_orders || flowed == Some(Flowed::On);
        if did_something {
            if self.flushing.is_due(self.cx.now.monotonic) {
                self.flush();
            }
            return Ok(Step::Progress);
        }
        let is_flushed = self.flush();
        if (waits_for_room || flowed == Some(Flowed::NoRoom) || !is_flushed) && self.signal.want_room() {
            return Ok(Step::Progress);
        }
        if flowed == Some(Flowed::NoRoom) && !self.cx.has_memory() {
            // The heap has asked its snapshots for what it needs; the writer answers by a wake-up.
            self.writer.wake();
        }
        let on = match flowed {
            None | Some(Flowed::NoRoom) => ParkedOn::Room,
            Some(Flowed::Empty | Flowed::On) => ParkedOn::Input,
            Some(Flowed::Over) => ParkedOn::Mail,
        };
        let deadline = self.operator_deadline().into_iter().chain(self.barrier_deadline()).min();
        Ok(Step::Parked(Parked { deadline, on }))
    }

    fn flush(&mut self) -> bool {
        self.flushing.flushed(self.cx.now.monotonic);
        self.head.chain().flush()
    }

    fn start(&mut self) -> Result<bool, JobError> {
        if self.flow != Flow::New {
            return Ok(false);
        }
        self.flow = Flow::Running { skips_rest: self.parts.is_drained() };
        self.tell_machine(SubtaskEvent::Started)?;
        Ok(true)
    }

    /// Moves records on by about one batch.
    fn flow(&mut self) -> Result<Option<Flowed>, JobError> {
        let flowed = match self.flow {
            Flow::Running { skips_rest: true } if self.head.channels() == 0 => {
                self.end_of_data();
                Flowed::On
            }
            Flow::Running { .. } if self.is_over() => {
                self.end_of_data();
                Flowed::On
            }
            Flow::New | Flow::Running { .. } => self.poll()?,
            // The rest is about all keys.
            Flow::Ending if self.loading.is_some() => Flowed::NoRoom,
            Flow::Ending => self.emit_rest()?,
            Flow::SendingEnd => Flowed::NoRoom,
            Flow::Ended if self.head.channels() == 0 => Flowed::Over,
            Flow::Ended => self.poll()?,
        };
        Ok(Some(flowed))
    }

    fn poll(&mut self) -> Result<Flowed, JobError> {
        if !self.unheard.is_empty() {
            self.hear()?;
            return Ok(Flowed::On);
        }
        let poll = self.head.poll(&self.blocked, &mut self.cx);
        self.check_failure()?;
        Ok(match poll {
            Poll::Processed(records) => {
                self.count(records);
                Flowed::On
            }
            Poll::Empty => Flowed::Empty,
            Poll::NoRoom => Flowed::NoRoom,
            Poll::Ended(records) => {
                self.count(records);
                self.end_of_data();
                Flowed::On
            }
            Poll::Marked(channel, Mark::Barrier(barrier), at) => {
                self.on_barrier(channel, barrier, at)?;
                Flowed::On
            }
            Poll::Marked(channel, Mark::EndOfData { is_drained }, _) => {
                self.channel_ended(channel, is_drained);
                Flowed::On
            }
            Poll::Control(channel, control) => {
                self.on_control(channel, control)?;
                Flowed::On
            }
            Poll::Unreported(channel) => {
                self.report(channel)?;
                Flowed::On
            }
        })
    }

    fn count(&mut self, records: u64) {
        let is_source = self.head.channels() == 0;
        let bytes = self.head.bytes_read();
        let new_bytes = bytes.saturating_sub(self.bytes_seen);
        self.bytes_seen = bytes;
        if is_source {
            self.shared.add_input(records, new_bytes);
        } else {
            self.gate.count_bytes(new_bytes);
            self.shared.add_records(records);
        }
    }

    fn check_failure(&mut self) -> Result<(), JobError> {
        match self.cx.failure.take() {
            None => Ok(()),
            Some((operator, error)) => Err(JobError::operator(&self.name, &operator, &error)),
        }
    }
}

/// What moving records on came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flowed {
    On,
    Empty,
    NoRoom,
    Over,
}

impl Actor for Task {
    fn step(&mut self, now: Now) -> Step {
        if self.shared.is_over() {
            return Step::Finished;
        }
        self.cx.now = now;
        self.advance().unwrap_or_else(|error| {
            self.shared.fail(error);
            Step::Finished
        })
    }

    fn set_waker(&mut self, waker: Waker) {
        self.signal.set(waker);
    }

    fn name(&self) -> &str {
        &self.name
    }
}

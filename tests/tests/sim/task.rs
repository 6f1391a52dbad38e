//! A subtask: its gate, its checkpoint machine, the capture of its inputs, and an operator.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use slackwater_core::channel_state::ChannelState;
use slackwater_core::coordinator::Notification;
use slackwater_core::gate::{AlignmentMetrics, Gate, GateEvent};
use slackwater_core::ids::{Barrier, CheckpointId};
use slackwater_core::queue::{Consumer, Control, Position, Producer, Queue};
use slackwater_core::reason::FailureReason;
use slackwater_core::subtask::{Part, Subtask, SubtaskAction};
use slackwater_core::time::Now;
use slackwater_core::two_phase::{TransactionToken, Transactions};
use slackwater_tests::rng::Rng;

use crate::job::Job;
use crate::plan::{Coverage, Plan};
use crate::record::{KeyState, Record, Split};
use crate::sink::Sink;
use crate::storage::{Content, FileName, InFlight, Ledger, TransactionName};

pub(crate) const SLOTS: usize = 8;
pub(crate) type Channel = Arc<Queue<Item, SLOTS>>;
pub(crate) type TaskGate = Gate<1, 4>;
pub(crate) type Machine = Subtask<3>;
pub(crate) type Capture = ChannelState<8, 4>;

/// What lies in a channel.
#[derive(Clone, Debug)]
pub(crate) enum Item {
    Records(Vec<Record>),
    Barrier(Barrier),
    /// No records follow; barriers still do.
    EndOfData,
    EndOfPartition,
}

/// What a task is told.
#[derive(Clone, Debug)]
pub(crate) enum Mail {
    Trigger(Barrier),
    Notify(Notification),
    Persisted { id: CheckpointId, part: Part, is_good: bool },
    Flushed(TransactionToken),
    Committed(Transactions),
}

/// What a task wants of the world.
#[derive(Clone, Debug)]
pub(crate) enum Effect {
    Acknowledge { id: CheckpointId, is_finished: bool, files: Vec<FileName> },
    Decline { id: CheckpointId, reason: FailureReason },
    Persist { name: FileName, part: Part, content: Content },
    Flush(TransactionName),
    Commit { name: TransactionName, transactions: Transactions },
    Finished,
    Fail,
}

/// What a task may use while it is its turn.
pub(crate) struct Cx<'w> {
    pub(crate) now: Now,
    pub(crate) rng: &'w mut Rng,
    pub(crate) plan: &'w Plan,
    /// With the parallelism of this run.
    pub(crate) job: &'w Job,
    pub(crate) coverage: &'w mut Coverage,
    pub(crate) ledger: &'w mut Ledger,
    pub(crate) effects: &'w mut Vec<Effect>,
}

pub(crate) type Verdict = Result<(), String>;

#[derive(Debug)]
pub(crate) enum Operator {
    Source(Vec<Split>),
    /// Keeps the last result back until there is another one, or a barrier.
    Keyed {
        states: BTreeMap<u32, KeyState>,
        held: Option<Record>,
    },
    Sink(Box<Sink>),
}

#[derive(Debug)]
pub(crate) struct Input {
    pub(crate) edge: usize,
    pub(crate) sender: u16,
    pub(crate) consumer: Consumer<Channel>,
    /// How many records of the oldest item are processed.
    pub(crate) processed: usize,
    /// Barriers that have overtaken: nothing is to be reported where they lie.
    pub(crate) void: Vec<(CheckpointId, Position)>,
    pub(crate) announced: Option<(Barrier, Position)>,
    /// Read from the control lane in the middle of an event.
    pub(crate) control: Option<Control>,
    pub(crate) has_ended: bool,
    /// What is replayed, one list for each old channel.
    pub(crate) replay: VecDeque<VecDeque<Record>>,
}

#[derive(Debug)]
pub(crate) struct Output {
    pub(crate) edge: usize,
    pub(crate) receiver: u16,
    pub(crate) producer: Producer<Channel>,
    pub(crate) batch: Vec<Record>,
    /// The last barrier that lies in the channel.
    pub(crate) barrier: Option<(Barrier, Position)>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Order {
    Machine(SubtaskAction),
    EndOfData,
    EndOfPartition,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flow {
    New,
    Running,
    /// That no record follows is on its way.
    Ending,
    Drained,
    Closing,
    Finished,
}

pub(crate) struct Task {
    pub(crate) index: u16,
    pub(crate) vertex: u16,
    pub(crate) subtask: u16,
    pub(crate) run: u32,
    pub(crate) is_dead: bool,
    pub(crate) gate: TaskGate,
    pub(crate) machine: Machine,
    pub(crate) capture: Capture,
    pub(crate) operator: Operator,
    pub(crate) inputs: Vec<Input>,
    pub(crate) outputs: Vec<Output>,
    pub(crate) turn: u16,
    pub(crate) blocked: BTreeSet<u16>,
    pub(crate) gate_events: VecDeque<GateEvent>,
    pub(crate) is_in_gate: bool,
    pub(crate) orders: VecDeque<Order>,
    /// Outputs to which the barrier at the front of the orders was sent.
    pub(crate) sent_to: usize,
    pub(crate) triggers: VecDeque<Barrier>,
    pub(crate) frozen: BTreeMap<CheckpointId, Vec<(Part, Content)>>,
    pub(crate) captured: BTreeMap<CheckpointId, InFlight>,
    pub(crate) alignments: BTreeMap<CheckpointId, AlignmentMetrics>,
    pub(crate) flow: Flow,
    pub(crate) is_consumed: bool,
}

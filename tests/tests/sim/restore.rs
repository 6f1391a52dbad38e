//! Makes the tasks of a run, from nothing or from a checkpoint, with the same parallelism or another.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use slackwater_core::assign::{AssignError, ChannelMapping, OperatorAssigner, Rescaling, old_channels};
use slackwater_core::format::manifest::StateMode;
use slackwater_core::gate::GateOptions;
use slackwater_core::ids::Guarantee;
use slackwater_core::key_group::{KeyGroupRange, hash_of_i32, key_group_of_hash};
use slackwater_core::queue::{Consumer, Producer, Queue};
use slackwater_core::subtask::SubtaskOptions;

use crate::job::{Job, Kind, narrow};
use crate::plan::{Coverage, Mutant, Plan};
use crate::record::{KeyState, Record, Split};
use crate::sink::Sink;
use crate::storage::{Checkpoint, Content, SinkState, TransactionName};
use crate::task::{Capture, Channel, Cx, Flow, Input, Machine, Operator, Output, Task, TaskGate};

/// What a run starts from.
pub(crate) struct Restore<'r> {
    pub(crate) plan: &'r Plan,
    /// With the new parallelism.
    pub(crate) job: &'r Job,
    pub(crate) checkpoint: Option<&'r Checkpoint>,
}

type Replay = VecDeque<VecDeque<Record>>;

impl Restore<'_> {
    /// The contents that the old subtasks of a vertex stored; none for one that had finished.
    fn stored(&self, vertex: u16) -> Vec<Option<&[Content]>> {
        let Some(checkpoint) = self.checkpoint else { return Vec::new() };
        let before: u16 = checkpoint.parallelism.iter().take(usize::from(vertex)).sum();
        let count = checkpoint.parallelism[usize::from(vertex)];
        let tasks = before..before + count;
        tasks.map(|task| checkpoint.parts.get(&task).map(Vec::as_slice)).collect()
    }

    fn rescaling(&self, vertex: u16) -> Result<Option<Rescaling>, AssignError> {
        let old = self.checkpoint.map(|checkpoint| &checkpoint.parallelism);
        old.map(|old| self.job.rescaling(vertex, old)).transpose()
    }

    /// Gives out a list of every old subtask, as split state.
    fn share<T: Clone>(
        &self,
        (vertex, subtask): (u16, u16),
        list: impl Fn(&Content) -> Option<Vec<T>>,
    ) -> Result<Vec<T>, AssignError> {
        let Some(rescaling) = self.rescaling(vertex)? else { return Ok(Vec::new()) };
        let of_subtask = |contents: &[Content]| contents.iter().find_map(&list).unwrap_or_default();
        let lists: Vec<_> = self.stored(vertex).into_iter().map(|stored| stored.map(of_subtask)).collect();
        let counts: Vec<_> = lists.iter().map(|list| list.as_ref().map(|list| list.len() as u64)).collect();
        let mut assigner = OperatorAssigner::new(rescaling);
        let parts = assigner.next_state(StateMode::Split, &counts)?.parts(subtask.into())?;
        let mut shared = Vec::new();
        for part in parts {
            let old = lists[part.subtask as usize].as_ref();
            let wanted = usize::try_from(part.partitions.start).unwrap_or(0)
                ..usize::try_from(part.partitions.end).unwrap_or(0);
            shared.extend(old.and_then(|list| list.get(wanted)).unwrap_or_default().iter().cloned());
        }
        Ok(shared)
    }

    fn splits(&self, vertex: u16, subtask: u16) -> Result<Vec<Split>, AssignError> {
        if self.checkpoint.is_none() {
            let all = self.job.splits[usize::from(vertex)].iter();
            let step = usize::from(self.job.parallelism_of(vertex));
            return Ok(all.skip(usize::from(subtask)).step_by(step).copied().collect());
        }
        self.share((vertex, subtask), |content| match content {
            Content::Splits(splits) => Some(splits.clone()),
            Content::Keyed(_) | Content::Sink(_) | Content::Input(_) => None,
        })
    }

    fn sink_states(&self, vertex: u16, subtask: u16) -> Result<Vec<SinkState>, AssignError> {
        self.share((vertex, subtask), |content| match content {
            Content::Sink(state) => Some(vec![state.clone()]),
            Content::Splits(_) | Content::Keyed(_) | Content::Input(_) => None,
        })
    }

    fn keyed(&self, vertex: u16, subtask: u16) -> Result<BTreeMap<u32, KeyState>, AssignError> {
        let mut states = BTreeMap::new();
        let Some(rescaling) = self.rescaling(vertex)? else { return Ok(states) };
        let stored = self.stored(vertex);
        for part in rescaling.keyed_parts(subtask.into())? {
            for content in stored[part.subtask as usize].unwrap_or_default() {
                if let Content::Keyed(old) = content {
                    let is_in = |key: &u32| self.is_in(*key, part.key_groups);
                    states.extend(
                        old.iter().filter(|(key, _)| is_in(key)).map(|(key, state)| (*key, state.clone())),
                    );
                }
            }
        }
        Ok(states)
    }

    fn is_in(&self, key: u32, range: KeyGroupRange) -> bool {
        range.contains(key_group_of_hash(hash_of_i32(key.cast_signed()), self.job.max_parallelism))
    }

    /// What is replayed on a channel, one list for each old channel that it stands for (rules U21 to U24).
    fn in_flight(
        &self,
        vertex: u16,
        subtask: u16,
        (edge, sender): (usize, u16),
    ) -> Result<Replay, AssignError> {
        let from = self.job.edges[edge].from;
        let (Some(receivers), Some(senders)) = (self.rescaling(vertex)?, self.rescaling(from)?) else {
            return Ok(Replay::new());
        };
        let stored = self.stored(vertex);
        let has_any =
            |contents: &&[Content]| contents.iter().any(|content| matches!(content, Content::Input(_)));
        if !stored.iter().flatten().any(has_any) || self.plan.has(Mutant::InFlightForgotten) {
            return Ok(Replay::new());
        }
        let mapping = self.job.mapping_of(vertex, receivers)?;
        let sender_mapping = self.job.edges[edge].partitioner.sender_mapping();
        let old = old_channels(
            senders.channel_parts(sender_mapping, sender.into())?,
            receivers.channel_parts(mapping, subtask.into())?,
        );
        let mut replay = Replay::new();
        for (old_sender, old_receiver) in old {
            let contents = stored[old_receiver as usize].unwrap_or_default();
            let old_channel = (edge, narrow(old_sender as usize));
            let records = contents.iter().filter_map(|content| match content {
                Content::Input(in_flight) => in_flight.get(&old_channel),
                Content::Splits(_) | Content::Keyed(_) | Content::Sink(_) => None,
            });
            let records = records.flatten().flatten().copied();
            let keeps = |record: &Record| self.keeps((vertex, subtask), edge, (receivers, mapping), *record);
            replay.push_back(records.filter(keeps).collect());
        }
        Ok(replay)
    }

    fn keeps(
        &self,
        (vertex, subtask): (u16, u16),
        edge: usize,
        (receivers, mapping): (Rescaling, ChannelMapping),
        record: Record,
    ) -> bool {
        let chosen = self.job.route(self.job.edges[edge], 0, 0, record);
        if self.plan.has(Mutant::KeyGroupsTwice) && mapping == ChannelMapping::Range {
            let group = self.job.key_group(vertex, record);
            let before = slackwater_core::key_group::KeyGroup(group.0.saturating_sub(1));
            return self.job.owns(vertex, subtask, group) || self.job.owns(vertex, subtask, before);
        }
        receivers.keeps_replayed(mapping, subtask.into(), chosen.into())
    }

    /// Every transaction that the checkpoint lists and that is to be committed.
    pub(crate) fn listed(&self) -> BTreeSet<TransactionName> {
        let contents = self.checkpoint.into_iter().flat_map(|checkpoint| checkpoint.parts.values().flatten());
        let pending = contents.filter_map(|content| match content {
            Content::Sink(state) => Some(state.pending.iter().map(|(name, _)| *name)),
            Content::Splits(_) | Content::Keyed(_) | Content::Input(_) => None,
        });
        pending.flatten().collect()
    }

    /// All tasks of a run, with their channels.
    pub(crate) fn tasks(&self, run: u32, cx: &mut Cx<'_>) -> Result<Vec<Task>, String> {
        let mut ends = BTreeMap::new();
        let mut tasks = Vec::new();
        for (vertex, subtask) in self.job.tasks() {
            let mut inputs = Vec::new();
            for (edge, sender) in self.job.channels_to(vertex, subtask) {
                let queue: Channel =
                    Arc::new(Queue::with_bound(self.plan.bound).map_err(|error| error.to_string())?);
                let producer = Producer::claim(Arc::clone(&queue)).map_err(|error| error.to_string())?;
                let consumer = Consumer::claim(queue).map_err(|error| error.to_string())?;
                ends.insert((edge, sender, subtask), producer);
                let replay = self.in_flight(vertex, subtask, (edge, sender));
                let replay = replay.map_err(|error| error.to_string())?;
                inputs.push(input((edge, sender), consumer, replay));
            }
            tasks.push(self.task((run, vertex, subtask), inputs, cx)?);
        }
        for ((edge, sender, receiver), producer) in ends {
            let from = self.job.task_of(self.job.edges[edge].from, sender);
            let output = Output { edge, receiver, producer, batch: Vec::new(), barrier: None };
            tasks[usize::from(from)].outputs.push(output);
        }
        Ok(tasks)
    }

    fn task(
        &self,
        (run, vertex, subtask): (u32, u16, u16),
        inputs: Vec<Input>,
        cx: &mut Cx<'_>,
    ) -> Result<Task, String> {
        let index = self.job.task_of(vertex, subtask);
        let alignment = self.plan.alignment();
        let guarantee: Guarantee = alignment.guarantee;
        let options = GateOptions { guarantee, unaligned: alignment.unaligned, count_ended_channels: true };
        let gate = TaskGate::new(narrow(inputs.len()), options).map_err(|error| error.to_string())?;
        let parts: Vec<_> = inputs.iter().map(|input| narrow(input.replay.len())).collect();
        let capture = Capture::recovering(&parts).map_err(|error| error.to_string())?;
        let of_task = if inputs.is_empty() { SubtaskOptions::SOURCE } else { SubtaskOptions::INNER };
        Ok(Task {
            index,
            vertex,
            subtask,
            run,
            is_dead: false,
            gate,
            machine: Machine::new(of_task),
            capture,
            operator: self.operator((run, vertex, subtask), cx)?,
            inputs,
            outputs: Vec::new(),
            turn: narrow(cx.rng.index(8)),
            blocked: BTreeSet::new(),
            gate_events: VecDeque::new(),
            is_in_gate: false,
            orders: VecDeque::new(),
            sent_to: 0,
            triggers: VecDeque::new(),
            frozen: BTreeMap::new(),
            captured: BTreeMap::new(),
            alignments: BTreeMap::new(),
            flow: Flow::New,
            is_consumed: false,
        })
    }

    fn operator(&self, (run, vertex, subtask): (u32, u16, u16), cx: &mut Cx<'_>) -> Result<Operator, String> {
        let of_assign = |error: AssignError| error.to_string();
        Ok(match self.job.kind_of(vertex) {
            Kind::Source => Operator::Source(self.splits(vertex, subtask).map_err(of_assign)?),
            Kind::Keyed => {
                let states = self.keyed(vertex, subtask).map_err(of_assign)?;
                Operator::Keyed { states, held: None }
            }
            Kind::Sink => {
                let states = self.sink_states(vertex, subtask).map_err(of_assign)?;
                Operator::Sink(Box::new(Sink::open((run, self.job.task_of(vertex, subtask)), &states, cx)?))
            }
        })
    }

    /// Notes what a restore with another parallelism had to give to others.
    pub(crate) fn note(&self, coverage: &mut Coverage) {
        let Some(checkpoint) = self.checkpoint else { return coverage.note("starts from nothing") };
        coverage.note("restores");
        if checkpoint.parallelism != self.job.parallelism {
            coverage.note("rescales");
            let contents = checkpoint.parts.values().flatten();
            let in_flight =
                contents.filter(|content| matches!(content, Content::Input(found) if !found.is_empty()));
            coverage.add("rescaled records in flight", in_flight.count() as u64);
        }
        if checkpoint.parts.len() < usize::from(checkpoint.parallelism.iter().sum::<u16>()) {
            coverage.note("restores after tasks have finished");
        }
    }
}

fn input((edge, sender): (usize, u16), consumer: Consumer<Channel>, replay: Replay) -> Input {
    Input {
        edge,
        sender,
        consumer,
        processed: 0,
        void: Vec::new(),
        announced: None,
        control: None,
        has_ended: false,
        replay,
    }
}

//! What was in flight at a checkpoint is in flight again after its restore: it is sent before any other record, so that
//! barriers pass it like all others.

use std::fmt::Display;

use slackwater_core::assign::{AssignError, ChannelMapping, OldSubtasks, Rescaling, old_channels};
use slackwater_core::key_group::MaxParallelism;
use slackwater_mem::in_flight::InFlight;

#[cfg(feature = "mutants")]
use super::Outgoing;
use super::{BATCH_TARGET, Exchange, Partition};
use crate::channel::{BOUND, Item};
use crate::checkpoint::RestoredStates;
use crate::operator::{OperatorError, SubtaskInfo};
use crate::record::{Batch, ForeignRecords, Record, RecordCodec};

/// What the old receivers had captured, and who gets it.
struct Captured<'m, R: ?Sized> {
    of_receivers: &'m [InFlight],
    codec: RecordCodec<R>,
    mapping: ChannelMapping,
    /// The old senders that the new one stands for.
    senders: OldSubtasks,
    receivers: Rescaling,
}

impl<R: Record + ?Sized, P: Partition<R>> Exchange<R, P> {
    /// Each new sender sends what those of old that it stands for had sent, each new receiver gets what is its own now
    /// (rules U21 to U25).
    pub(super) fn send_again(
        &mut self,
        states: &RestoredStates<'_>,
        info: &SubtaskInfo,
    ) -> Result<(), OperatorError> {
        let Some(captured) = self.captured(states, info)? else { return Ok(()) };
        for index in 0..self.outputs.len() {
            let batches = self.batches_of(&captured, index)?;
            #[cfg(feature = "mutants")]
            if crate::mutants::has(crate::mutants::Bug::ReplayLate) {
                self.outputs[index].late = joined::<R>(&batches.0);
                continue;
            }
            for batch in batches.0 {
                let pushed = self.outputs[index].sender.producer.try_push(Item::Records(batch));
                pushed.map_err(|full| self.failed(&full))?;
                self.outputs[index].sender.tell();
            }
        }
        Ok(())
    }

    /// None if nothing was in flight to the receiver.
    fn captured<'m>(
        &self,
        states: &RestoredStates<'m>,
        info: &SubtaskInfo,
    ) -> Result<Option<Captured<'m, R>>, OperatorError> {
        let of_receivers = states.in_flight(&self.edge.receiver);
        let channels = of_receivers.iter().flat_map(|in_flight| &in_flight.channels);
        let Some(last_sender) = channels.map(|channel| channel.sender).max() else { return Ok(None) };
        let no_codec = "their stream no longer has a codec: name the one that it had";
        let codec = self.edge.codec.ok_or_else(|| self.failed(&no_codec))?;
        let of_assign = |error: AssignError| self.failed(&error);
        // Which sender is all the same, so it does not depend on key groups.
        let senders =
            Rescaling::new(MaxParallelism::MAX, u32::from(last_sender) + 1, info.parallelism.into());
        let senders = senders.map_err(of_assign)?.channel_parts(ChannelMapping::Arbitrary, info.index.into());
        let max = MaxParallelism::new(info.max_parallelism.into()).expect("the job has been validated");
        let receivers = Rescaling::new(max, count(of_receivers.len()), count(self.outputs.len()));
        Ok(Some(Captured {
            codec,
            mapping: self.edge.mapping,
            senders: senders.map_err(of_assign)?,
            receivers: receivers.map_err(of_assign)?,
            of_receivers,
        }))
    }

    /// What is to be sent to one receiver.
    fn batches_of(
        &mut self,
        captured: &Captured<'_, R>,
        index: usize,
    ) -> Result<Batches<R::Batch>, OperatorError> {
        let (receivers, mapping) = (captured.receivers, captured.mapping);
        let old = receivers.channel_parts(mapping, count(index)).map_err(|error| self.failed(&error))?;
        let mut batches = Batches(Vec::new());
        for (sender, receiver) in old_channels(captured.senders.clone(), old) {
            let (partition, outputs) = (&mut self.partition, self.outputs.len());
            let mut take = |record: &R| {
                // Where several read the same, each keeps its own (rule U24).
                let chosen = if mapping.is_ambiguous() { partition.choose(record, outputs) } else { index };
                if receivers.keeps_replayed(mapping, count(index), count(chosen)) {
                    batches.push(record);
                }
            };
            let read = captured.read((sender, receiver), &mut take);
            read.map_err(|foreign| self.failed(&foreign))?;
        }
        Ok(batches)
    }

    fn failed(&self, what: &dyn Display) -> OperatorError {
        OperatorError::new(format!("records in flight to {}: {what}", self.edge.receiver))
    }
}

impl<R: Record + ?Sized> Captured<'_, R> {
    /// Reads the records of one old channel, in order.
    fn read(&self, (sender, receiver): (u32, u32), take: &mut dyn FnMut(&R)) -> Result<(), ForeignRecords> {
        let in_flight = self.of_receivers.get(receiver as usize);
        let channels = in_flight.into_iter().flat_map(|in_flight| &in_flight.channels);
        let mine = channels.filter(|channel| u32::from(channel.sender) == sender);
        let mut batches = mine.flat_map(|channel| &channel.batches);
        batches.try_for_each(|bytes| self.codec.decode(bytes, take))
    }
}

/// The batches of one channel. They fit into its queue; the last one may be large.
struct Batches<B>(Vec<B>);

impl<B> Batches<B> {
    fn push<R: Record<Batch = B> + ?Sized>(&mut self, record: &R)
    where
        B: Batch<R>,
    {
        let is_full = self.0.last().is_none_or(|last| last.size() >= BATCH_TARGET);
        if is_full && self.0.len() < BOUND {
            self.0.push(B::default());
        }
        if let Some(last) = self.0.last_mut() {
            last.push(record);
        }
    }
}

#[cfg(feature = "mutants")]
impl<R: Record + ?Sized> Outgoing<R> {
    /// The bug: what was in flight comes behind new records.
    pub(super) fn send_late(&mut self) {
        let late = std::mem::take(&mut self.late);
        (0..late.len()).filter_map(|index| late.get(index)).for_each(|record| self.growing.push(record));
    }
}

#[cfg(feature = "mutants")]
fn joined<R: Record + ?Sized>(batches: &[R::Batch]) -> R::Batch {
    let mut joined = R::Batch::default();
    for batch in batches {
        (0..batch.len()).filter_map(|index| batch.get(index)).for_each(|record| joined.push(record));
    }
    joined
}

fn count(len: usize) -> u32 {
    u32::try_from(len).unwrap_or(u32::MAX)
}

use core::fmt;
use std::collections::VecDeque;
use std::string::String;
use std::vec::Vec;

use slackwater_core::durable::{Completion, Disk, FileWriter, Frozen, Names, Tokens, Work};
use slackwater_core::format::segment::{SegmentHeader, SegmentHeaderLayout};
use slackwater_core::key_group::KeyGroup;
use zerocopy::IntoBytes;

use super::compression::check_compression;
use super::error::WriteError;
use super::{SegmentRef, SegmentSpec};
use crate::arena::{ArenaHandle, DefaultArena};
use crate::heap::StateId;
use crate::snapshot::{FrozenRun, Snapshot};

mod capture;
mod chunks;
mod plan;
mod tail;
#[cfg(test)]
mod tests;

use capture::Captured;
use chunks::{ChunkWriter, Taken};
use plan::GroupPlan;
use tail::Tail;

/// Runs at least this long go out where they lie; shorter ones are gathered in the disk's blocks.
const DIRECT_LEN_MIN: usize = 128 << 10;
/// No run is longer: several writes in flight are worth more than a longer one.
const RUN_LEN_MAX: usize = 1 << 20;

/// Writes a snapshot to a segment and makes it durable.
///
/// Each key group of the snapshot is given up when the disk has read it to the end, the rest when the last of
/// its frames has been submitted, their guards as the disk is through with them. A key group that the heap has
/// no memory to copy is copied out of turn. Each key group's list of pages and the indexes written so far are
/// kept in memory, 28 bytes a page, at most 8 MiB of copies, and a chunk if the segment is compressed, which then is
/// done here.
pub struct SegmentWriter<D: Disk<Frozen = FrozenRun<A>>, A: ArenaHandle = DefaultArena> {
    file: FileWriter<D, String>,
    file_name: String,
    header: SegmentHeader,
    snapshot: Option<Snapshot<A>>,
    /// Those of it that were ever written.
    states: Vec<StateId>,
    /// The next key group to plan; [`KeyGroup::NONE`] behind the last one.
    next_group: Option<KeyGroup>,
    group: GroupPlan,
    /// Key groups that have been sent or captured, but may still be read by the disk.
    sent: Vec<KeyGroup>,
    captured: Captured,
    /// Something was given up since last asked.
    has_relief: bool,
    runs: VecDeque<FrozenRun<A>>,
    /// None where frames are stored as they are.
    chunks: Option<ChunkWriter>,
    /// Bytes of the first run that have been taken.
    run_sent: usize,
    /// Whether the checksums of the first run's frames are known.
    run_is_summed: bool,
    /// Bytes to be written before the next run: the header, a captured key group, at last the tail. If there are none,
    /// the newest chunk is.
    pending: Vec<u8>,
    pending_sent: usize,
    tail: Tail,
    error: Option<WriteError>,
    result: Option<Result<SegmentRef, WriteError>>,
}

impl<D: Disk<Frozen = FrozenRun<A>>, A: ArenaHandle + 'static> SegmentWriter<D, A> {
    /// Will write `snapshot` as `spec` says. Counts the pages, which takes a step for each and for each key
    /// group and state.
    #[must_use]
    pub fn new(snapshot: Snapshot<A>, spec: SegmentSpec) -> Self {
        let log2 = |size: usize| u8::try_from(size.trailing_zeros()).unwrap_or(0);
        let header = SegmentHeader {
            block_size_log2: log2(D::ALIGNMENT),
            frame_size_log2: log2(snapshot.frame_size()),
            compression: spec.compression,
            file_id: spec.file_id,
            job_id: spec.job_id,
            checkpoint: spec.checkpoint.0,
            epoch: snapshot.epoch().into(),
            attempt: spec.attempt,
            hash_seed: snapshot.hash_seed(),
            subtask: spec.subtask,
            max_parallelism: spec.max_parallelism.get().into(),
            key_groups: snapshot.key_groups(),
        };
        let mut block = header.encode().as_bytes().to_vec();
        block.resize(D::ALIGNMENT.max(SegmentHeaderLayout::LEN), 0);
        let path = match spec.folder.as_str() {
            "" => spec.file_name.clone(),
            folder => [folder, "/", &spec.file_name].concat(),
        };
        let states: Vec<_> = snapshot.written_states().collect();
        let len = tail::file_len(&snapshot, &states, &header);
        let mut file = FileWriter::new(Names::Final { path }, len);
        let error = check_compression(spec.compression).err().map(WriteError::Unsupported);
        if error.is_some() {
            file.abandon();
        }
        Self {
            file,
            file_name: spec.file_name,
            header,
            next_group: Some(header.key_groups.first),
            snapshot: Some(snapshot),
            states,
            group: GroupPlan::default(),
            sent: Vec::new(),
            captured: Captured::default(),
            has_relief: false,
            runs: VecDeque::new(),
            chunks: ChunkWriter::new(spec.compression),
            run_sent: 0,
            run_is_summed: false,
            pending: block,
            pending_sent: 0,
            tail: Tail::default(),
            error,
            result: None,
        }
    }

    /// How it ended; none while it has not.
    pub const fn result(&self) -> Option<&Result<SegmentRef, WriteError>> {
        self.result.as_ref()
    }

    /// Whether a heap that waits for memory should try again: something was given up since last asked.
    pub const fn take_relief(&mut self) -> bool {
        core::mem::replace(&mut self.has_relief, false)
    }

    /// Nobody wants the segment any more: what is there of it is removed.
    pub fn abandon(&mut self) {
        self.file.abandon();
        self.let_go();
        self.settle();
    }

    /// Submits bytes until the disk takes no more.
    fn pump(&mut self, disk: &mut D, tokens: &mut Tokens) {
        while self.file.takes_bytes() {
            let goes_on = if let Some(goes_on) = self.send_pending(disk, tokens) {
                goes_on
            } else if let Some(run) = self.runs.pop_front() {
                self.send_run(run, disk, tokens)
            } else {
                self.plan_next()
            };
            if !goes_on {
                return;
            }
        }
    }

    /// Says whether the disk took any; none if nothing is pending.
    fn send_pending(&mut self, disk: &mut D, tokens: &mut Tokens) -> Option<bool> {
        let pending = match &self.chunks {
            Some(chunks) if self.pending.is_empty() => chunks.chunk(),
            Some(_) | None => &self.pending,
        };
        let rest = pending.get(self.pending_sent..).filter(|rest| !rest.is_empty())?;
        let taken = self.file.append(rest, disk, tokens);
        self.pending_sent += taken;
        Some(taken > 0)
    }

    /// Bytes to be written next.
    fn set_pending(&mut self, bytes: Vec<u8>) {
        (self.pending, self.pending_sent) = (bytes, 0);
    }

    /// Sends a run, or puts what the disk did not take of it back to the front. What is to wait is summed up before: that
    /// costs nothing while the disk is busy.
    fn send_run(&mut self, run: FrozenRun<A>, disk: &mut D, tokens: &mut Tokens) -> bool {
        if !core::mem::replace(&mut self.run_is_summed, true) {
            let next = self.runs.front().map_or(&[][..], FrozenRun::bytes);
            self.group.sum_up(run.bytes(), next, &self.header);
        }
        if self.chunks.is_some() {
            self.compress(run, disk, tokens);
            return true;
        }
        let (position, len) = (self.file.position(), run.len());
        let is_aligned = position.is_multiple_of(D::ALIGNMENT as u64) && len.is_multiple_of(D::ALIGNMENT);
        if self.run_sent == 0 && is_aligned && len >= DIRECT_LEN_MIN {
            self.send_direct(run, disk, tokens)
        } else {
            self.send_copied(run, disk, tokens)
        }
    }

    /// Bytes of the first run have been taken; its rest goes back to the front.
    fn took_of_run(&mut self, run: FrozenRun<A>, taken: usize) {
        self.run_sent += taken;
        if self.run_sent < run.len() {
            self.runs.push_front(run);
        } else {
            (self.run_sent, self.run_is_summed) = (0, false);
        }
    }

    /// Takes frames of a run into the next chunk, and puts the others back to the front. A chunk is made where it is
    /// written from, if there is room.
    fn compress(&mut self, run: FrozenRun<A>, disk: &mut D, tokens: &mut Tokens) {
        self.set_pending(Vec::new());
        let Some(chunks) = &mut self.chunks else { return };
        let rest = run.bytes().get(self.run_sent..).unwrap_or_default();
        let spare = self.file.spare(chunks.len_max(), disk, tokens).unwrap_or_default();
        let Taken { frames, in_place } = chunks.take(rest, (&self.header, self.group.number()), spare);
        self.file.commit(in_place);
        self.group.add_chunks(in_place + chunks.chunk().len());
        self.took_of_run(run, frames);
    }

    /// The chunks of a whole key group, but for the last if it is shorter.
    fn chunks_of(&mut self, mut frames: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        let Some(chunks) = &mut self.chunks else { return bytes };
        let of = (&self.header, self.group.number());
        while !frames.is_empty() {
            let taken = chunks.take(frames, of, &mut []).frames;
            bytes.extend_from_slice(chunks.chunk());
            frames = frames.get(taken..).unwrap_or_default();
        }
        self.group.add_chunks(bytes.len());
        bytes
    }

    /// Makes the last chunk of the key group in work; says whether there is one to be written.
    fn end_chunks(&mut self) -> bool {
        let Some(chunks) = &mut self.chunks else { return false };
        chunks.end((&self.header, self.group.number()));
        self.group.add_chunks(chunks.chunk().len());
        let is_made = !chunks.chunk().is_empty();
        self.set_pending(Vec::new());
        is_made
    }

    fn send_direct(&mut self, run: FrozenRun<A>, disk: &mut D, tokens: &mut Tokens) -> bool {
        match self.file.append_frozen(run, disk, tokens) {
            Ok(()) => {
                self.run_is_summed = false;
                true
            }
            Err(run) => {
                self.runs.push_front(run);
                false
            }
        }
    }

    fn send_copied(&mut self, run: FrozenRun<A>, disk: &mut D, tokens: &mut Tokens) -> bool {
        let rest = run.bytes().get(self.run_sent..).unwrap_or_default();
        let taken = self.file.append(rest, disk, tokens);
        self.took_of_run(run, taken);
        taken > 0
    }

    /// Ends the key group in work and lines up the next one, or the tail. False when the file is complete.
    fn plan_next(&mut self) -> bool {
        let planned = self.try_plan_next();
        planned.unwrap_or_else(|what| {
            self.error = Some(WriteError::TooLarge { what });
            self.file.abandon();
            false
        })
    }

    fn try_plan_next(&mut self) -> Result<bool, &'static str> {
        if self.end_chunks() {
            return Ok(true);
        }
        self.sent.extend(self.group.key_group());
        self.give_up_sent();
        self.tail.add(core::mem::take(&mut self.group), &self.header)?;
        let Some(snapshot) = &self.snapshot else {
            self.file.seal();
            return Ok(false);
        };
        let Some(group) = self.next_group else {
            let tail = self.tail.encode(snapshot, &self.header)?;
            self.set_pending(tail);
            self.snapshot = None;
            return Ok(true);
        };
        self.next_group = self.behind(group);
        if let Some((plan, bytes)) = self.captured.take(group) {
            self.group = plan;
            self.group.move_to(self.tail.frame_count())?;
            self.group.sum_up(&bytes, &[], &self.header);
            let bytes = if self.chunks.is_some() { self.chunks_of(&bytes) } else { bytes };
            self.set_pending(bytes);
            return Ok(true);
        }
        (self.group, self.runs) = GroupPlan::of(snapshot, &self.states, group, self.tail.frame_count())?;
        Ok(true)
    }

    /// Lets the heap write to key groups that the disk has read to the end.
    fn give_up_sent(&mut self) {
        if let Some(snapshot) = &mut self.snapshot {
            let before = self.sent.len();
            self.sent.retain(|group| !snapshot.key_group_done(*group));
            self.has_relief |= self.sent.len() < before;
        }
    }

    /// Copies the key group that the heap waits for, if its turn is still to come.
    fn capture_wanted(&mut self) {
        let Some(snapshot) = &self.snapshot else { return };
        let Some(group) = snapshot.wanted_key_group() else { return };
        if self.next_group.is_none_or(|next| group < next) || self.captured.knows(group) {
            return;
        }
        let Ok((plan, runs)) = GroupPlan::of(snapshot, &self.states, group, 0) else { return };
        if self.captured.add(group, plan, runs) {
            self.sent.push(group);
            self.give_up_sent();
        }
    }

    /// What is planned after `group`: the states that are not kept by key come last.
    fn behind(&self, group: KeyGroup) -> Option<KeyGroup> {
        let last = self.header.key_groups.last;
        match group {
            KeyGroup::NONE => None,
            KeyGroup(group) if group < last.0 => Some(KeyGroup(group + 1)),
            KeyGroup(_) => Some(KeyGroup::NONE),
        }
    }

    /// Drops all that keeps frames frozen, but for what is in flight.
    fn let_go(&mut self) {
        self.snapshot = None;
        self.runs.clear();
        self.captured = Captured::default();
        self.has_relief = true;
    }

    fn settle(&mut self) {
        let Some(ended) = self.file.result() else { return };
        if self.result.is_some() {
            return;
        }
        self.let_go();
        self.result = Some(match (self.error, ended) {
            (Some(error), _) => Err(error),
            (None, Err(failure)) => Err(WriteError::File(failure)),
            (None, Ok(len)) => Ok(SegmentRef {
                file_name: self.file_name.clone(),
                file_id: self.header.file_id,
                len,
                used_len: len,
                footer_checksum: self.tail.footer_checksum(),
                key_groups: self.header.key_groups,
            }),
        });
    }
}

impl<D: Disk<Frozen = FrozenRun<A>>, A: ArenaHandle + 'static> Work<D> for SegmentWriter<D, A> {
    fn advance(&mut self, disk: &mut D, tokens: &mut Tokens) {
        self.capture_wanted();
        self.pump(disk, tokens);
        self.file.advance(disk, tokens);
        self.settle();
    }

    fn on_completion(&mut self, completion: Completion<D::Block>, disk: &mut D) {
        self.file.on_completion(completion, disk);
        self.give_up_sent();
        // Without the snapshot, what was in flight may have been the last of it.
        self.has_relief |= self.snapshot.is_none();
        self.settle();
    }

    fn is_done(&self) -> bool {
        self.result.is_some()
    }
}

impl<D: Disk<Frozen = FrozenRun<A>>, A: ArenaHandle> fmt::Debug for SegmentWriter<D, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SegmentWriter")
            .field("file", &self.file)
            .field("next_group", &self.next_group)
            .field("result", &self.result)
            .finish_non_exhaustive()
    }
}

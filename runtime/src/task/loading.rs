//! Keyed state that comes while the task works already: key group by key group, the one that a record waits for first.

use slackwater_core::ids::CheckpointId;
use slackwater_core::key_group::KeyGroup;
use slackwater_mem::Heap;
use slackwater_mem::segment::{KeyGroupBytes, KeyGroupReader, RestoreError, SegmentRestore};

use super::Task;
use crate::error::JobError;
use crate::mail::{CoordinatorMail, WriterMail};
use crate::recovery::damage_of;

/// What of a subtask's state has yet to come.
#[derive(Debug)]
pub(crate) struct Loading {
    checkpoint: CheckpointId,
    restores: Vec<SegmentRestore>,
    /// Key groups that the writer is reading.
    asked: Vec<KeyGroup>,
    /// The checkpoint is damaged; the writer ends the job.
    is_over: bool,
}

/// Key groups that are read ahead, so that the disk has something to do while one of them is taken in.
const ASKED_MAX: usize = 2;

impl Loading {
    /// None if nothing has yet to come.
    pub(crate) fn new(checkpoint: CheckpointId, restores: Vec<SegmentRestore>) -> Option<Self> {
        let loading = Self { checkpoint, restores, asked: Vec::new(), is_over: false };
        (!loading.is_done()).then_some(loading)
    }

    fn is_done(&self) -> bool {
        self.restores.iter().all(SegmentRestore::is_done)
    }

    /// What is to be read next: the key group that is wanted, or any.
    fn next(&mut self, wanted: Option<KeyGroup>) -> Option<KeyGroupReader> {
        let is_asked = |group: &KeyGroup| self.asked.contains(group);
        let has_room = self.asked.len() < ASKED_MAX;
        let wanted = wanted.filter(|group| !is_asked(group));
        let any = || self.restores.iter().flat_map(SegmentRestore::awaited).find(|group| !is_asked(group));
        let group = wanted.or_else(|| if has_room { any() } else { None })?;
        let reader = self.restores.iter().find_map(|restore| restore.reader(group))?;
        self.asked.push(group);
        Some(reader)
    }

    fn take(&mut self, read: &KeyGroupBytes, heap: &mut Heap) -> Result<(), RestoreError> {
        self.asked.retain(|group| *group != read.group());
        self.restores.iter_mut().try_for_each(|restore| restore.take(read, heap))
    }
}

impl Task {
    /// Asks the writer for what has yet to come; true if all has come just now.
    pub(super) fn load(&mut self) -> Result<bool, JobError> {
        let Some(loading) = &mut self.loading else { return Ok(false) };
        while !loading.is_over
            && let Some(reader) = loading.next(self.cx.wanted)
        {
            let reader = Box::new(reader);
            self.writer.send(WriterMail::ReadKeyGroup { task: self.index, reader });
        }
        let is_done = loading.is_done();
        if is_done {
            self.loading = None;
            (self.cx.is_loading, self.cx.wanted) = (false, None);
            let restored = self.head.chain().on_restored(&mut self.cx);
            restored.map_err(|error| JobError::operator(&self.name, &self.name, &error))?;
            self.coordinator.send(CoordinatorMail::Restored(self.index));
        }
        Ok(is_done)
    }

    /// Whether the state that the job was restored from is known to be damaged.
    pub(super) fn is_damaged(&self) -> bool {
        self.loading.as_ref().is_some_and(|loading| loading.is_over)
    }

    /// Takes in a key group that was read.
    pub(super) fn on_key_group(&mut self, read: Result<KeyGroupBytes, RestoreError>) -> Result<(), JobError> {
        let (Some(loading), Some(heap)) = (&mut self.loading, &mut self.cx.heap) else { return Ok(()) };
        let taken = read.and_then(|read| loading.take(&read, heap));
        let Err(error) = taken else {
            self.cx.wanted = self.cx.wanted.filter(|group| heap.is_awaited(*group));
            return Ok(());
        };
        let (checkpoint, message) = (loading.checkpoint, damage_of(loading.checkpoint, error)?);
        loading.is_over = true;
        self.writer.send(WriterMail::NoteDamage { checkpoint, message });
        Ok(())
    }
}

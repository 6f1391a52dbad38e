//! The files that several checkpoints share (Flink: `SharedStateRegistryImpl`).

use heapless::Vec;

use super::{FileKey, FileToken, Ownership};
use crate::ids::CheckpointId;
use crate::machine::Rejected;

/// Files by key; each remembers the first and the last checkpoint that uses it, instead of counting (rule S14).
#[derive(Clone, Debug)]
pub(super) struct Files<const FILES: usize> {
    /// By key.
    entries: Vec<Entry, FILES>,
}

/// A file that a checkpoint may use.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    pub(super) key: FileKey,
    pub(super) file: FileToken,
    pub(super) created_by: CheckpointId,
    pub(super) last_used: CheckpointId,
    pub(super) ownership: Ownership,
    pub(super) stage: Stage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// The key stands for it.
    Current {
        /// Whether a checkpoint that uses it was acknowledged by every task (rule S21).
        is_confirmed: bool,
    },
    /// The key stands for another file now; earlier checkpoints may use this one still.
    Superseded,
    /// Nobody uses it; its deletion has yet to be ordered.
    Condemned,
    /// Its deletion has been ordered.
    Gone,
}

/// A file as a checkpoint refers to it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reference {
    pub(super) checkpoint: CheckpointId,
    pub(super) key: FileKey,
    /// None: whatever the key stands for.
    pub(super) file: Option<FileToken>,
    pub(super) ownership: Ownership,
}

/// What a reference does to the registry (rule S16).
#[derive(Clone, Copy, Debug)]
pub(super) enum Effect {
    /// The entry at this index is used once more.
    Use(usize),
    /// As `Use`, and the file that came with the reference is not needed.
    UseInstead(usize, FileToken),
    /// The file is new.
    Create(FileToken),
}

impl Entry {
    /// Whether the checkpoint may use it.
    pub(super) fn may_be_used_by(&self, id: CheckpointId) -> bool {
        self.created_by <= id && id <= self.last_used
    }

    /// Whether it lies in the folder of the checkpoint, and goes with it.
    pub(super) fn is_inside(&self, id: CheckpointId) -> bool {
        self.ownership == Ownership::InsideCheckpoint && self.created_by == id
    }

    pub(super) const fn is_condemned(&self) -> bool {
        matches!(self.stage, Stage::Condemned)
    }
}

impl<const FILES: usize> Files<FILES> {
    pub(super) const fn new() -> Self {
        Self { entries: Vec::new() }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter()
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Entry> {
        self.entries.iter_mut()
    }

    /// Those that a checkpoint may use.
    pub(super) fn live(&self) -> impl Iterator<Item = &Entry> {
        self.iter().filter(|entry| !entry.is_condemned())
    }

    /// What a reference would do; nothing is changed.
    pub(super) fn effect_of(&self, reference: &Reference) -> Result<Effect, Rejected> {
        let first = self.first_of(reference.key);
        let entries = (first..).zip(self.entries.get(first..).unwrap_or_default());
        let by_key = || entries.clone().take_while(|(_, entry)| entry.key == reference.key);
        let current = by_key().find(|(_, entry)| matches!(entry.stage, Stage::Current { .. }));
        let Some(file) = reference.file else {
            let unknown = Rejected::Unexpected { what: "a placeholder for a file that was never registered" };
            return current.map(|(index, _)| Effect::Use(index)).ok_or(unknown);
        };
        if let Some((index, _)) = by_key().find(|(_, entry)| entry.file == file) {
            return Ok(Effect::Use(index));
        }
        if let Some((index, Entry { stage: Stage::Current { is_confirmed: true }, .. })) = current {
            return Ok(Effect::UseInstead(index, file));
        }
        if self.entries.is_full() {
            let limit = FILES as u64;
            return Err(Rejected::OutOfRange { what: "number of shared files", value: limit, limit });
        }
        Ok(Effect::Create(file))
    }

    /// Carries out what [`effect_of`](Self::effect_of) said. The file to use, if the registry is sound.
    pub(super) fn apply(&mut self, reference: &Reference, effect: Effect) -> Option<FileToken> {
        let Reference { checkpoint, key, ownership, .. } = *reference;
        let index = match effect {
            Effect::Use(index) | Effect::UseInstead(index, _) => index,
            Effect::Create(file) => {
                let (created_by, last_used) = (checkpoint, checkpoint);
                let stage = Stage::Superseded;
                self.insert(Entry { key, file, created_by, last_used, ownership, stage })?
            }
        };
        let entry = self.entries.get_mut(index)?;
        entry.created_by = entry.created_by.min(checkpoint);
        entry.last_used = entry.last_used.max(checkpoint);
        entry.ownership = entry.ownership.max(ownership);
        let file = entry.file;
        if !matches!(entry.stage, Stage::Current { .. }) {
            entry.stage = Stage::Superseded;
            self.hand_over_key(index);
        }
        Some(file)
    }

    /// Puts an entry before those of its key; the others move up. Its index, if there is room.
    fn insert(&mut self, entry: Entry) -> Option<usize> {
        let index = self.first_of(entry.key);
        if self.entries.is_full() {
            return None;
        }
        let mut moving = entry;
        self.entries.iter_mut().skip(index).for_each(|entry| core::mem::swap(entry, &mut moving));
        self.entries.push(moving).ok().map(|()| index)
    }

    fn first_of(&self, key: FileKey) -> usize {
        self.entries.partition_point(|entry| entry.key < key)
    }

    /// Whether the entries are in order, and a key stands for at most one file.
    pub(super) fn is_in_order(&self) -> bool {
        let mut last = None;
        self.iter().all(|entry| {
            let is_current = matches!(entry.stage, Stage::Current { .. });
            let (key, had_current) = last.unwrap_or((entry.key, false));
            let had_current = had_current && key == entry.key;
            last = Some((entry.key, had_current || is_current));
            key <= entry.key && !(had_current && is_current)
        })
    }

    /// The key stands for the file that the latest checkpoint uses: late news of an older one change nothing.
    fn hand_over_key(&mut self, to: usize) {
        let Some(Entry { key, last_used, .. }) = self.entries.get(to).copied() else { return };
        let is_current =
            |entry: &&mut Entry| entry.key == key && matches!(entry.stage, Stage::Current { .. });
        if let Some(current) = self.entries.iter_mut().find(is_current) {
            if current.last_used > last_used {
                return;
            }
            current.stage = Stage::Superseded;
        }
        if let Some(entry) = self.entries.get_mut(to) {
            entry.stage = Stage::Current { is_confirmed: false };
        }
    }

    /// Every task has acknowledged `id`: what it was the last to use is part of a checkpoint (rule S21).
    pub(super) fn confirm(&mut self, id: CheckpointId) {
        for entry in self.iter_mut().filter(|entry| entry.last_used == id) {
            if matches!(entry.stage, Stage::Current { .. }) {
                entry.stage = Stage::Current { is_confirmed: true };
            }
        }
    }

    /// Lets go of what `is_unused`: what is ours is condemned, the rest forgotten (rules S17 and S22).
    pub(super) fn release(&mut self, is_unused: impl Fn(&Entry) -> bool) {
        for entry in self.iter_mut().filter(|entry| !entry.is_condemned() && is_unused(entry)) {
            entry.stage = Stage::Condemned;
        }
        self.forget(|entry| entry.is_condemned() && entry.ownership == Ownership::Foreign);
    }

    /// Drops entries; their files stay where they are.
    pub(super) fn forget(&mut self, is_dropped: impl Fn(&Entry) -> bool) {
        self.entries.retain(|entry| !is_dropped(entry));
    }

    /// Takes out a file that may go now.
    pub(super) fn take(&mut self, may_go: impl Fn(&Entry) -> bool) -> Option<FileToken> {
        let entry = self.iter_mut().find(|entry| may_go(entry))?;
        entry.stage = Stage::Gone;
        let file = entry.file;
        self.forget(|entry| entry.stage == Stage::Gone);
        Some(file)
    }
}

//! A key group of a state being written: its head, its directory, its pages.

use slackwater_core::key_group::KeyGroup;
use zerocopy::{FromBytes, IntoBytes};

use super::tables::{HEAD_LEN, Head, INLINE_DEPTH_MAX, Walk, directory_index, state_at};
use super::{Heap, HeapError, StateId, page};
use crate::arena::{ArenaHandle, FrameId};

/// What the heap answers when its own bytes make no sense.
pub(super) const BROKEN: HeapError =
    HeapError::Broken { what: "a page, directory or table is not what it was" };

/// A key group whose head is writable.
#[derive(Clone, Copy, Debug)]
pub(super) struct Group {
    pub(super) state: StateId,
    pub(super) group: KeyGroup,
    chunk: FrameId,
    offset: usize,
}

/// A hash page of a key group.
#[derive(Clone, Copy, Debug)]
pub(super) struct PageAt {
    pub(super) frame: FrameId,
    /// Its lpn if the overflow table holds it, 0 if the directory does.
    pub(super) overflow_lpn: u32,
}

impl<A: ArenaHandle> Heap<A> {
    pub(super) fn walk(&self) -> Walk<'_> {
        let (frames, awaited) = (self.frames.view(), self.awaited());
        Walk { frames, root: self.root, key_groups: self.options.key_groups, awaited }
    }

    /// Makes the way from the root to a head writable, and with it the head. What is writable has writable
    /// ancestors, so a writable chunk is enough.
    pub(super) fn open(&mut self, state: StateId, group: KeyGroup) -> Result<Group, HeapError> {
        let (chunk_at, offset) = self.walk().head_at(group);
        let table = self.walk().table(state);
        let chunk =
            if table.is_none() { FrameId::NONE } else { FrameId(self.frames.view().u32(table, chunk_at)) };
        if !chunk.is_none() && self.frames.is_writable(chunk) {
            return Ok(Group { state, group, chunk, offset });
        }
        let table = self.writable_table(state)?;
        let chunk =
            if chunk.is_none() { self.frames.take_zeroed(0)? } else { self.frames.make_writable(chunk)? };
        self.set_number(table, chunk_at, chunk.0)?;
        self.refresh_near(state);
        Ok(Group { state, group, chunk, offset })
    }

    fn writable_table(&mut self, state: StateId) -> Result<FrameId, HeapError> {
        self.root = self.frames.make_writable(self.root)?;
        let table = self.walk().table(state);
        let writable = if table.is_none() {
            self.frames.take_zeroed(self.order_of_bytes(self.walk().table_len()))?
        } else {
            self.frames.make_writable(table)?
        };
        self.set_number(self.root, state_at(state) + 4, writable.0)?;
        Ok(writable)
    }

    /// Writes a number into a writable run.
    pub(super) fn set_number(&mut self, run: FrameId, offset: usize, number: u32) -> Result<(), HeapError> {
        let place = self.frames.write(run).and_then(|run| run.get_mut(offset..offset + 4)).ok_or(BROKEN)?;
        place.copy_from_slice(&number.to_le_bytes());
        Ok(())
    }

    /// Counts an entry more or less.
    pub(super) fn count(&mut self, at: Group, more: bool) -> Result<(), HeapError> {
        self.count_many(at, if more { 1 } else { -1 })
    }

    /// Counts so many entries more.
    pub(super) fn count_many(&mut self, at: Group, change: i64) -> Result<(), HeapError> {
        let changed = |number: u64| number.wrapping_add_signed(change);
        let head = self.head_mut(at)?;
        head.entries = u32::try_from(changed(head.entries.get().into())).map_err(|_| BROKEN)?.into();
        let entries = changed(self.walk().entries(at.state));
        let table = self.walk().table(at.state);
        let place = self.frames.write(table).and_then(|table| table.first_chunk_mut()).ok_or(BROKEN)?;
        *place = entries.to_le_bytes();
        Ok(())
    }

    pub(super) fn head(&self, at: Group) -> &Head {
        self.walk().head_in(at.chunk, at.offset)
    }

    pub(super) fn head_mut(&mut self, at: Group) -> Result<&mut Head, HeapError> {
        let end = at.offset + HEAD_LEN;
        let bytes =
            self.frames.write(at.chunk).and_then(|chunk| chunk.get_mut(at.offset..end)).ok_or(BROKEN)?;
        Head::mut_from_bytes(bytes).map_err(|_| BROKEN)
    }

    /// The order of the smallest run with so many bytes.
    pub(super) fn order_of_bytes(&self, bytes: usize) -> u8 {
        let frames = bytes.div_ceil(self.frames.geometry().frame_size());
        u8::try_from(frames.next_power_of_two().trailing_zeros()).unwrap_or(u8::MAX)
    }

    /// Moves a run to a larger one, whose rest is zero. The caller puts that in its stead.
    pub(super) fn enlarge(&mut self, run: FrameId, order: u8) -> Result<FrameId, HeapError> {
        let larger = self.frames.take_zeroed(order)?;
        let (from, to) = self.frames.read_and_write(run, larger).ok_or(BROKEN)?;
        to.get_mut(..from.len()).ok_or(BROKEN)?.copy_from_slice(from);
        self.frames.retire(run);
        Ok(larger)
    }

    /// The order of a run of `2^log2` numbers.
    pub(super) fn order_of_entries(&self, log2: u8) -> u8 {
        (log2 + 2).saturating_sub(self.frames.geometry().frame_size_log2)
    }

    /// Makes the directory writable.
    pub(super) fn writable_directory(&mut self, at: Group) -> Result<(), HeapError> {
        let head = self.head(at);
        if head.depth > INLINE_DEPTH_MAX {
            let directory = FrameId(head.directory.get());
            if !self.frames.is_writable(directory) {
                let moved = self.frames.make_writable_of(at.group, directory)?;
                self.head_mut(at)?.directory = moved.0.into();
            }
        }
        Ok(())
    }

    /// Points the entries for a prefix of `depth` bits in the writable directory at a page.
    pub(super) fn set_directory(
        &mut self,
        at: Group,
        prefix: u64,
        depth: u8,
        frame: FrameId,
    ) -> Result<(), HeapError> {
        let head = self.head_mut(at)?;
        let start = directory_index(prefix, head.depth);
        let end = start + (1 << head.depth.saturating_sub(depth));
        if head.depth <= INLINE_DEPTH_MAX {
            head.inline.get_mut(start..end).ok_or(BROKEN)?.fill(frame.0.into());
            return Ok(());
        }
        let directory = FrameId(head.directory.get());
        let bytes =
            self.frames.write(directory).and_then(|run| run.get_mut(start * 4..end * 4)).ok_or(BROKEN)?;
        for entry in bytes.chunks_exact_mut(4) {
            entry.copy_from_slice(&frame.0.to_le_bytes());
        }
        Ok(())
    }

    /// Doubles the directory.
    pub(super) fn double_directory(&mut self, at: Group) -> Result<(), HeapError> {
        let depth = self.head(at).depth;
        if depth < INLINE_DEPTH_MAX {
            let head = self.head_mut(at)?;
            let old = head.inline;
            for (index, entry) in head.inline.iter_mut().enumerate() {
                *entry = old.get(index / 2).copied().unwrap_or_default();
            }
            head.depth += 1;
            return Ok(());
        }
        let run = self.frames.take_zeroed(self.order_of_entries(depth + 1))?;
        if depth == INLINE_DEPTH_MAX {
            let inline = self.head(at).inline;
            double(inline.as_bytes(), self.frames.write(run).ok_or(BROKEN)?);
        } else {
            let old = FrameId(self.head(at).directory.get());
            let (old, doubled) = self.frames.read_and_write(old, run).ok_or(BROKEN)?;
            double(old, doubled);
        }
        let head = self.head_mut(at)?;
        let old = FrameId(head.directory.get());
        head.directory = run.0.into();
        head.depth = depth + 1;
        if depth > INLINE_DEPTH_MAX {
            self.frames.retire_of(at.group, old);
        }
        Ok(())
    }

    /// Makes a page writable, in its place or in another.
    pub(super) fn writable_page(&mut self, at: Group, page: PageAt) -> Result<FrameId, HeapError> {
        if self.frames.is_writable(page.frame) {
            return Ok(page.frame);
        }
        // First what points to the page, so that nothing can fail once it has moved.
        if page.overflow_lpn == 0 {
            self.writable_directory(at)?;
        } else {
            self.writable_overflow(at)?;
        }
        let moved = self.frames.make_writable_of(at.group, page.frame)?;
        let epoch = self.frames.epoch();
        let bytes = self.frames.write(moved).ok_or(BROKEN)?;
        page::thaw(bytes, epoch).ok_or(BROKEN)?;
        if moved != page.frame {
            let header = page::Page::new(bytes).ok_or(BROKEN)?.header();
            let (prefix, depth) = (header.hash_prefix.get(), header.local_depth);
            if page.overflow_lpn == 0 {
                self.set_directory(at, prefix, depth, moved)?;
            } else {
                self.set_overflow(at, page.overflow_lpn, moved.0)?;
            }
        }
        Ok(moved)
    }
}

/// Writes each entry of a directory twice, as many as have room.
fn double(entries: &[u8], doubled: &mut [u8]) {
    let (entries, _) = entries.as_chunks::<4>();
    let (pairs, _) = doubled.as_chunks_mut::<8>();
    for ([a, b, c, d], pair) in entries.iter().zip(pairs) {
        *pair = [*a, *b, *c, *d, *a, *b, *c, *d];
    }
}

//! Setting and removing entries of a tree.

use slackwater_core::format::page::{
    Content, OverflowRef, TREE_ENTRY_LEN_MIN, TreeEntry, TreeKey, TreePage, tree_entry_len_max,
};

use super::node::{self, Identity};
use super::range::Position;
use super::search::Probe;
use super::{Path, Place, Tree, note};
use crate::arena::{ArenaHandle, FrameId};
use crate::heap::group::{BROKEN, Group};
use crate::heap::overflow::chain_of;
use crate::heap::{Heap, HeapError, tables};

/// More steps than it takes to make room for any entry.
const STEPS_MAX: usize = 64;

/// Where an entry goes.
struct Target {
    lpn: u32,
    index: usize,
    /// Whether its key is there.
    is_there: bool,
    /// Of the value that is there.
    old_chain: Option<OverflowRef>,
    fit: Fit,
}

/// Where there is room for an entry.
enum Fit {
    /// In the bytes of the value that it replaces.
    InOld,
    /// In the page, perhaps when that is made anew.
    InPage,
    Nowhere,
}

impl<A: ArenaHandle> Heap<A> {
    pub(super) fn tree(&self, at: Group) -> Tree<'_> {
        Tree::new(self.frames.view(), self.head(at))
    }

    pub(super) const fn tree_frame_size(&self) -> usize {
        self.frames.geometry().frame_size()
    }

    /// Sets the value of a key and says whether the key is new.
    pub(in crate::heap) fn tree_put(
        &mut self,
        at: Group,
        key: &[u8],
        value: &[u8],
    ) -> Result<bool, HeapError> {
        let probe = Probe::at(key, self.tree_frame_size());
        let key_out = !probe.tail.is_empty();
        let known_key =
            if key_out { self.tree(at).find(key).and_then(|entry| entry.key.chain) } else { None };
        let value_out = self.value_overflows(&probe, value);
        let parts = self.write_chains(at, 0, (probe.tail, key_out, known_key), (value, value_out))?;
        let key = TreeKey { prefix: &[], rest: probe.inline, chain: chain_of(&parts.key) };
        let placed = self.tree_place(at, &probe, &TreeEntry { key, value: parts.value });
        if placed.is_err() {
            self.give_up(at, &parts, known_key)?;
        }
        placed
    }

    /// Whether a value goes to a chain: beside its key it has no room in a page.
    fn value_overflows(&self, probe: &Probe<'_>, value: &[u8]) -> bool {
        let chain = if probe.tail.is_empty() { 0 } else { OverflowRef::LEN };
        let len = TREE_ENTRY_LEN_MIN + probe.inline.len() + chain + value.len();
        len > tree_entry_len_max(self.tree_frame_size())
    }

    /// Puts an entry into its leaf, in place of the one of its key, and says whether there was none.
    fn tree_place(&mut self, at: Group, probe: &Probe<'_>, entry: &TreeEntry<'_>) -> Result<bool, HeapError> {
        for _ in 0..STEPS_MAX {
            if self.head(at).directory.get() == 0 {
                self.plant(at)?;
            }
            let target = self.tree_target(at, probe, entry).ok_or(BROKEN)?;
            match target.fit {
                Fit::InOld => {
                    let Content::Inline(value) = entry.value else { return Err(BROKEN) };
                    let frame = self.writable_node(at, target.lpn)?;
                    let bytes = self.frames.write_frame(frame).ok_or(BROKEN)?;
                    node::shorten_value(bytes, target.index, value).ok_or(BROKEN)?;
                }
                Fit::InPage => self.put_entry(at, &target, entry)?,
                Fit::Nowhere => {
                    self.make_tree_room(at, probe)?;
                    continue;
                }
            }
            return Ok(!target.is_there);
        }
        Err(BROKEN)
    }

    fn tree_target(&self, at: Group, probe: &Probe<'_>, entry: &TreeEntry<'_>) -> Option<Target> {
        let frame_size = self.tree_frame_size();
        let Place { lpn, page, index, is_there } = self.tree(at).seek(probe, |_, _| {})?;
        let replaced = is_there.then_some(index);
        let old = if is_there { Some(page.entry(index)?.value) } else { None };
        let fit = match (&old, &entry.value) {
            (Some(Content::Inline(old)), Content::Inline(value)) if value.len() <= old.len() => Fit::InOld,
            _ if node::has_room(&page, frame_size, entry) => Fit::InPage,
            _ if node::has_room_when_filled(&page, frame_size, entry, replaced)? => Fit::InPage,
            _ => Fit::Nowhere,
        };
        Some(Target { lpn, index, is_there, old_chain: old.as_ref().and_then(chain_of), fit })
    }

    /// Puts an entry into a page that has room for it.
    fn put_entry(&mut self, at: Group, target: &Target, entry: &TreeEntry<'_>) -> Result<(), HeapError> {
        let frame = self.writable_node(at, target.lpn)?;
        if target.old_chain.is_some() {
            self.writable_overflow(at)?;
        }
        // From here on nothing fails.
        if target.is_there {
            self.frames
                .write_frame(frame)
                .and_then(|bytes| node::remove(bytes, target.index))
                .ok_or(BROKEN)?;
            self.free_content(at, target.old_chain)?;
        } else {
            self.count(at, true)?;
        }
        self.insert_or_fill(frame, target.index, entry)
    }

    /// Adds an entry to a writable page, which is made anew if that is what it takes.
    pub(super) fn insert_or_fill(
        &mut self,
        frame: FrameId,
        index: usize,
        entry: &TreeEntry<'_>,
    ) -> Result<(), HeapError> {
        let page = TreePage::of(self.frames.view().frame(frame)).ok_or(BROKEN)?;
        if !node::has_room(&page, self.tree_frame_size(), entry) {
            let prefix_len = node::prefix_len_for(&page, Some(&entry.key), None).ok_or(BROKEN)?;
            self.refill(frame, prefix_len)?;
        }
        self.frames.write_frame(frame).and_then(|bytes| node::insert(bytes, index, entry)).ok_or(BROKEN)
    }

    /// Makes a writable page anew, without garbage and with that prefix.
    pub(super) fn refill(&mut self, frame: FrameId, prefix_len: usize) -> Result<(), HeapError> {
        self.frames.save(frame).ok_or(BROKEN)?;
        let (saved, bytes) = self.frames.saved_and_write(frame).ok_or(BROKEN)?;
        let page = TreePage::of(saved).ok_or(BROKEN)?;
        node::fill(bytes, &Identity::of(&page), page.entries(), prefix_len).ok_or(BROKEN)
    }

    /// Makes the first page of a tree: an empty leaf.
    fn plant(&mut self, at: Group) -> Result<(), HeapError> {
        let (lpn, frame) = self.take_lpn_page(at)?;
        let identity = self.node_identity(at, lpn, 0, 0);
        let bytes = self.frames.write_frame(frame).ok_or(BROKEN)?;
        node::fill(bytes, &identity, core::iter::empty(), 0).ok_or(BROKEN)?;
        self.head_mut(at)?.directory = lpn.into();
        Ok(())
    }

    pub(super) const fn node_identity(&self, at: Group, lpn: u32, level: u8, first_child: u32) -> Identity {
        let epoch = self.frames.epoch();
        Identity { state_id: at.state.0, key_group: at.group.0, lpn, epoch, level, first_child }
    }

    /// Makes a page writable, in its place or in another.
    pub(super) fn writable_node(&mut self, at: Group, lpn: u32) -> Result<FrameId, HeapError> {
        let frame = tables::overflow_frame(self.frames.view(), self.head(at), lpn);
        if frame.is_none() {
            return Err(BROKEN);
        }
        if self.frames.is_writable(frame) {
            return Ok(frame);
        }
        self.writable_overflow(at)?;
        let moved = self.frames.make_writable_of(at.group, frame)?;
        self.set_overflow(at, lpn, moved.0)?;
        let epoch = self.frames.epoch();
        self.frames.write(moved).and_then(|bytes| node::thaw(bytes, epoch)).ok_or(BROKEN)?;
        Ok(moved)
    }

    /// Removes a key and says whether it was there.
    pub(in crate::heap) fn tree_remove(&mut self, at: Group, key: &[u8]) -> Result<bool, HeapError> {
        let probe = Probe::at(key, self.tree_frame_size());
        let mut path = Path::new();
        let place = self.tree(at).seek(&probe, |lpn, child| note(&mut path, lpn, child));
        match place {
            Some(place) if place.is_there => {
                let position = Position { lpn: place.lpn, index: place.index };
                self.tree_take_out(at, position, &path).map(|()| true)
            }
            Some(_) | None => Ok(false),
        }
    }

    /// Takes an entry out. Fails before anything has changed or not at all.
    pub(in crate::heap) fn tree_take_out(
        &mut self,
        at: Group,
        position: Position,
        path: &Path,
    ) -> Result<(), HeapError> {
        let frame = self.writable_node(at, position.lpn)?;
        let page = TreePage::of(self.frames.view().frame(frame)).ok_or(BROKEN)?;
        let entry = page.entry(position.index).ok_or(BROKEN)?;
        let (key, value, is_last) = (entry.key.chain, chain_of(&entry.value), page.slots().len() == 1);
        if key.is_some() || value.is_some() {
            self.writable_overflow(at)?;
        }
        self.frames.write_frame(frame).and_then(|bytes| node::remove(bytes, position.index)).ok_or(BROKEN)?;
        self.free_content(at, key)?;
        self.free_content(at, value)?;
        self.count(at, false)?;
        if self.head(at).entries.get() == 0 {
            self.retire_overflow(at);
            *self.head_mut(at)? = tables::EMPTY_HEAD;
        } else if is_last {
            self.prune(at, path)?;
        }
        Ok(())
    }
}

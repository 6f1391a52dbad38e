//! Making room: splitting the pages on the way to a key, the highest that needs it first.

use slackwater_core::format::page::{Content, OverflowRef, TreeEntry, TreeKey, TreePage};

use super::node::{self, Identity};
use super::search::{Probe, lower_bound};
use crate::arena::{ArenaHandle, FrameId};
use crate::heap::group::{BROKEN, Group};
use crate::heap::{Heap, HeapError};

/// Where a page is cut in two.
#[derive(Clone, Copy, Debug)]
struct Cut {
    page: u32,
    /// The inner page above, and which of its children the page is; none for the root.
    parent: Option<(u32, usize)>,
    /// Slots that stay.
    left_end: usize,
    /// The first slot that goes: of a leaf the next one, of an inner page the one behind the separator.
    right_start: usize,
}

/// What a parent is told of a page that was cut.
struct Name<'a> {
    /// The page, as it was before.
    page: FrameId,
    cut: &'a Cut,
    probe: &'a Probe<'a>,
    /// Of the separator, if it has one that is not in the page.
    chain: Option<OverflowRef>,
    /// Of the new page.
    lpn: u32,
}

impl Cut {
    const fn is_of_leaf(&self) -> bool {
        self.left_end == self.right_start
    }
}

impl<A: ArenaHandle> Heap<A> {
    /// Splits the highest page on the way to the probe that may lack room. Afterwards the tree is as good as
    /// before, and an entry at the probe has more room.
    pub(super) fn make_tree_room(&mut self, at: Group, probe: &Probe<'_>) -> Result<(), HeapError> {
        let cut = self.choose_cut(at, probe).ok_or(BROKEN)?;
        let (lpn, right) = self.take_lpn_page(at)?;
        let split = self.split_node(at, &cut, probe, (lpn, right));
        if split.is_err() {
            self.give_lpn_page(at, lpn)?;
        }
        split
    }

    fn choose_cut(&self, at: Group, probe: &Probe<'_>) -> Option<Cut> {
        let tree = self.tree(at);
        let (mut lpn, mut parent) = (tree.root_lpn(), None);
        loop {
            let page = tree.page(lpn)?;
            let (index, is_there) = lower_bound(&page, probe, tree);
            let count = page.slots().len();
            if !page.is_inner() {
                // An entry behind all others, or before them, makes a page of its own: keys that come in order
                // fill their pages.
                let is_at_end = !is_there && (index == 0 || index == count);
                let cut = if is_at_end { index } else { middle(&page) };
                return Some(Cut { page: lpn, parent, left_end: cut, right_start: cut });
            }
            let child = index + usize::from(is_there);
            if node::is_crowded(&page, self.tree_frame_size()) {
                let cut = match child {
                    0 => 0,
                    child if child == count => count.checked_sub(1)?,
                    _ => middle(&page),
                };
                return Some(Cut { page: lpn, parent, left_end: cut, right_start: cut + 1 });
            }
            parent = Some((lpn, child));
            lpn = page.child(child)?;
        }
    }

    /// Moves what is right of the cut to the new page, and names that in the parent. Fails before anything
    /// has changed or not at all.
    fn split_node(
        &mut self,
        at: Group,
        cut: &Cut,
        probe: &Probe<'_>,
        (right_lpn, right): (u32, FrameId),
    ) -> Result<(), HeapError> {
        let left = self.writable_node(at, cut.page)?;
        let chain = self.separator_chain(at, cut, probe)?;
        let (parent, index) = match self.writable_parent(at, cut, left) {
            Ok(parent) => parent,
            Err(error) => return self.free_content(at, chain).and(Err(error)),
        };
        let name = Name { page: left, cut, probe, chain, lpn: right_lpn };
        self.add_name(parent, index, &name)?;
        self.share_entries(at, cut, left, (right_lpn, right))
    }

    /// The page above, writable, and where the separator belongs in it. For a root that is a new one.
    fn writable_parent(
        &mut self,
        at: Group,
        cut: &Cut,
        page: FrameId,
    ) -> Result<(FrameId, usize), HeapError> {
        if let Some((parent, child)) = cut.parent {
            return Ok((self.writable_node(at, parent)?, child));
        }
        let level = TreePage::of(self.frames.view().frame(page)).ok_or(BROKEN)?.header().local_depth;
        let (lpn, root) = self.take_lpn_page(at)?;
        let identity = self.node_identity(at, lpn, level + 1, cut.page);
        let bytes = self.frames.write(root).ok_or(BROKEN)?;
        node::fill(bytes, &identity, core::iter::empty(), 0).ok_or(BROKEN)?;
        self.head_mut(at)?.directory = lpn.into();
        Ok((root, 0))
    }

    /// Puts the separator and the new page's name into the parent, which is made anew if that is what it takes.
    fn add_name(&mut self, parent: FrameId, index: usize, name: &Name<'_>) -> Result<(), HeapError> {
        let frame_size = self.tree_frame_size();
        let prefix_len = self.with_name(parent, name, |above, entry| {
            let above = TreePage::of(above)?;
            let has_room = node::has_room(&above, frame_size, entry);
            if has_room { Some(None) } else { node::prefix_len_for(&above, Some(&entry.key), None).map(Some) }
        })?;
        if let Some(prefix_len) = prefix_len {
            self.refill(parent, prefix_len)?;
        }
        self.with_name(parent, name, |above, entry| node::insert(above, index, entry))
    }

    /// Lends the parent and the entry that is to go into it.
    fn with_name<R>(
        &mut self,
        parent: FrameId,
        name: &Name<'_>,
        with: impl FnOnce(&mut [u8], &TreeEntry<'_>) -> Option<R>,
    ) -> Result<R, HeapError> {
        let (page, above) = self.frames.read_and_write(name.page, parent).ok_or(BROKEN)?;
        let (mut next, lpn) = ([0], name.lpn.to_le_bytes());
        let page = TreePage::of(page).ok_or(BROKEN)?;
        let key = separator(&page, name.cut, name.probe, &mut next).ok_or(BROKEN)?;
        let key = TreeKey { chain: name.chain.or(key.chain), ..key };
        with(above, &TreeEntry { key, value: Content::Inline(&lpn) }).ok_or(BROKEN)
    }

    /// Leaves the entries on each side of the cut to its page.
    fn share_entries(
        &mut self,
        at: Group,
        cut: &Cut,
        left: FrameId,
        (right_lpn, right): (u32, FrameId),
    ) -> Result<(), HeapError> {
        self.frames.save(left).ok_or(BROKEN)?;
        let saved = TreePage::of(self.frames.view().frame(left)).ok_or(BROKEN)?;
        let (level, count) = (saved.header().local_depth, saved.slots().len());
        let first_child = if cut.is_of_leaf() { 0 } else { saved.child(cut.right_start).ok_or(BROKEN)? };
        let identity = self.node_identity(at, right_lpn, level, first_child);
        self.fill_part(right, &identity, cut.right_start, count)?;
        if cut.left_end == count {
            return Ok(());
        }
        let identity = Identity::of(&TreePage::of(self.frames.view().frame(left)).ok_or(BROKEN)?);
        self.fill_part(left, &identity, 0, cut.left_end)
    }

    /// Makes a page of some entries of the saved one.
    fn fill_part(
        &mut self,
        frame: FrameId,
        identity: &Identity,
        start: usize,
        end: usize,
    ) -> Result<(), HeapError> {
        let (saved, bytes) = self.frames.saved_and_write(frame).ok_or(BROKEN)?;
        let page = TreePage::of(saved).ok_or(BROKEN)?;
        let key = |index: usize| page.entry(index).map(|entry| entry.key);
        let ends = key(start).filter(|_| start + 1 < end).zip(end.checked_sub(1).and_then(key));
        let prefix_len = ends.map_or(0, |(first, last)| node::common_len(&first, &last));
        let entries = (start..end).map_while(|index| page.entry(index));
        node::fill(bytes, identity, entries, prefix_len).ok_or(BROKEN)
    }

    /// Writes the chain of a separator of a leaf that the bytes in pages do not give.
    fn separator_chain(
        &mut self,
        at: Group,
        cut: &Cut,
        probe: &Probe<'_>,
    ) -> Result<Option<OverflowRef>, HeapError> {
        let page = self.tree(at).page(cut.page).ok_or(BROKEN)?;
        if !cut.is_of_leaf() {
            return Ok(None);
        }
        let (left, right) = neighbours(&page, cut, probe).ok_or(BROKEN)?;
        if node::byte_at(&right, node::common_len(&left, &right)).is_some() {
            return Ok(None);
        }
        match right.chain {
            Some(chain) => self.copy_chain(at, &chain).map(Some),
            None => self.write_chain(at, probe.tail, 0).map(Some),
        }
    }
}

/// The slot where a page's bytes are half on either side; both sides get one.
fn middle(page: &TreePage<'_>) -> usize {
    let total: usize = page.entries().map(|entry| entry.record_len()).sum();
    let mut left = 0;
    let index = page.entries().position(|entry| {
        left += entry.record_len();
        left * 2 >= total
    });
    index.map_or(1, |index| index + 1).clamp(1, page.slots().len().saturating_sub(1).max(1))
}

/// The keys on both sides of a cut through a leaf, the one that wants room among them.
fn neighbours<'a>(page: &TreePage<'a>, cut: &Cut, probe: &Probe<'a>) -> Option<(TreeKey<'a>, TreeKey<'a>)> {
    let wanted = TreeKey { prefix: &[], rest: probe.inline, chain: None };
    let key = |index: usize| page.entry(index).map_or(wanted, |entry| entry.key);
    Some((cut.left_end.checked_sub(1).map_or(wanted, key), key(cut.right_start)))
}

/// What parts the two sides of a cut. Its chain, if it has one, is the caller's to write, but for an inner page.
fn separator<'a>(
    page: &TreePage<'a>,
    cut: &Cut,
    probe: &Probe<'a>,
    next: &'a mut [u8; 1],
) -> Option<TreeKey<'a>> {
    if !cut.is_of_leaf() {
        return Some(page.entry(cut.left_end)?.key);
    }
    let (left, right) = neighbours(page, cut, probe)?;
    let common = node::common_len(&left, &right);
    if node::byte_at(&right, common).is_none() {
        return Some(TreeKey { chain: None, ..right });
    }
    if cut.right_start < page.slots().len() {
        return Some(node::front(&right, common + 1));
    }
    // As low as possible: what comes between goes to the new page.
    *next = [node::byte_at(&left, common).map_or(0, |byte| byte.saturating_add(1))];
    Some(TreeKey { prefix: probe.inline.get(..common)?, rest: next, chain: None })
}

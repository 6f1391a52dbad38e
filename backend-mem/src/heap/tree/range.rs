//! Going through a tree in order.

use slackwater_core::format::page::{TreeEntry, TreePage};

use super::search::{Probe, lower_bound};
use super::{Path, Place, Tree, note};
use crate::heap::Value;

/// Iterator over entries of a key group of an ordered state, key first, in the order of the keys' bytes.
#[derive(Clone, Debug)]
pub struct Entries<'h> {
    tree: Tree<'h>,
    path: Path,
    leaf: Option<(u32, TreePage<'h>)>,
    /// The next entry's place in the leaf.
    index: usize,
    /// The place in the leaf that the iteration does not go beyond.
    limit: usize,
    /// The leaf and the place in it where the iteration ends; none if it goes to the last entry.
    end: Option<(u32, usize)>,
}

/// Where an entry is.
#[derive(Clone, Copy, Debug)]
pub(in crate::heap) struct Position {
    pub(super) lpn: u32,
    pub(super) index: usize,
}

impl<'h> Entries<'h> {
    /// All entries.
    #[inline]
    pub(crate) fn all(tree: Tree<'h>) -> Self {
        let mut entries = Self { tree, path: Path::new(), leaf: None, index: 0, limit: 0, end: None };
        let leaf = entries.first_leaf(tree.root_lpn());
        entries.enter(leaf, 0);
        entries
    }

    /// From a key on; without it if `is_excluded`.
    pub(crate) fn from(tree: Tree<'h>, key: &[u8], is_excluded: bool) -> Self {
        let probe = Probe::at(key, tree.frames.frame_size());
        let mut path = Path::new();
        let place = tree.seek(&probe, |lpn, child| note(&mut path, lpn, child));
        let index = place.map_or(0, |place| place.index + usize::from(is_excluded && place.is_there));
        let mut entries = Self { tree, path, leaf: None, index: 0, limit: 0, end: None };
        entries.enter(place.map(|place| (place.lpn, place.page)), index);
        entries
    }

    /// Those whose keys begin with `prefix`.
    pub(crate) fn within(tree: Tree<'h>, prefix: &[u8]) -> Self {
        let mut entries = Self::from(tree, prefix, false);
        let probe = Probe::behind(prefix, tree.frames.frame_size());
        entries.end = entries.end_for(&probe);
        entries.enter(entries.leaf, entries.index);
        entries
    }

    /// Goes on at a place of a leaf.
    fn enter(&mut self, leaf: Option<(u32, TreePage<'h>)>, index: usize) {
        self.leaf = leaf;
        self.index = index;
        self.limit = match (leaf, self.end) {
            (Some((lpn, _)), Some((last, end))) if lpn == last => end,
            (Some((_, page)), _) => page.slots().len(),
            (None, _) => 0,
        };
    }

    /// Where the keys below a probe end: most often in the leaf that the iteration begins with.
    fn end_for(&self, probe: &Probe<'_>) -> Option<(u32, usize)> {
        let (lpn, page) = self.leaf?;
        let (index, _) = lower_bound(&page, probe, self.tree);
        if index < page.slots().len() {
            return Some((lpn, index));
        }
        let Place { lpn, index, .. } = self.tree.seek(probe, |_, _| {})?;
        Some((lpn, index))
    }

    /// The next entry and where it is. The iteration stays before it.
    #[inline]
    fn peek(&mut self) -> Option<(Position, TreeEntry<'h>)> {
        loop {
            let (lpn, page) = self.leaf?;
            if self.index < self.limit {
                return Some((Position { lpn, index: self.index }, page.entry(self.index)?));
            }
            if self.end.is_some_and(|(last, _)| last == lpn) {
                return None;
            }
            let leaf = self.next_leaf();
            self.enter(leaf, 0);
        }
    }

    /// The next entry's key and value, and where it is. The iteration stays before it.
    #[inline]
    pub(in crate::heap) fn peek_values(&mut self) -> Option<(Position, (Value<'h>, Value<'h>))> {
        let (position, entry) = self.peek()?;
        let Tree { frames, head } = self.tree;
        let key = Value::of_tree_key(&entry.key, frames, head);
        Some((position, (key, Value::of(entry.value, frames, head))))
    }

    /// The key behind the next entry, if that is in the same leaf.
    #[inline]
    pub(in crate::heap) fn key_behind(&self) -> Option<Value<'h>> {
        let entry = self.leaf?.1.entry(self.index + 1)?;
        Some(Value::of_tree_key(&entry.key, self.tree.frames, self.tree.head))
    }

    /// What `with` makes of the next entry's value and its key without the first `len` bytes; all keys have so many.
    #[inline]
    pub(crate) fn next_behind<R>(
        &mut self,
        len: usize,
        with: impl FnOnce(&Value<'h>, &Value<'h>) -> R,
    ) -> Option<R> {
        if let Some((key, value)) = self.inline_behind(len) {
            self.index += 1;
            return Some(with(&Value::inline(key), &Value::inline(value)));
        }
        let (key, value) = self.any_behind(len)?;
        Some(with(&key, &value))
    }

    /// The usual case: the entry lies in one page, and the bytes left out begin with all that its key shares with the
    /// page's others.
    #[inline]
    fn inline_behind(&self, len: usize) -> Option<(&'h [u8], &'h [u8])> {
        let (_, page) = self.leaf.as_ref().filter(|_| self.index < self.limit)?;
        let (key, value) = page.inline_entry(self.index)?;
        Some((key.get(len.checked_sub(page.prefix().len())?..)?, value))
    }

    #[inline(never)]
    fn any_behind(&mut self, len: usize) -> Option<(Value<'h>, Value<'h>)> {
        let (key, value) = self.next()?;
        Some((key.split_at_checked(len).map_or(key, |(_, behind)| behind), value))
    }

    /// The way to the leaf of the next entry.
    pub(in crate::heap) fn into_path(self) -> Path {
        self.path
    }

    fn next_leaf(&mut self) -> Option<(u32, TreePage<'h>)> {
        let lpn = loop {
            let (lpn, child) = self.path.pop()?;
            let page = self.tree.page(lpn)?;
            if child < page.slots().len() {
                self.path.push((lpn, child + 1)).ok()?;
                break page.child(child + 1)?;
            }
        };
        self.first_leaf(lpn)
    }

    /// The first leaf below a page.
    #[inline]
    fn first_leaf(&mut self, mut lpn: u32) -> Option<(u32, TreePage<'h>)> {
        loop {
            let page = self.tree.page(lpn)?;
            if !page.is_inner() {
                return Some((lpn, page));
            }
            self.path.push((lpn, 0)).ok()?;
            lpn = page.child(0)?;
        }
    }
}

impl<'h> Iterator for Entries<'h> {
    type Item = (Value<'h>, Value<'h>);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let (_, entry) = self.peek_values()?;
        self.index += 1;
        Some(entry)
    }
}

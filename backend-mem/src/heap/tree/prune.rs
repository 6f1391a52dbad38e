//! Taking pages out of a tree that have become empty.

use slackwater_core::format::page::TreePage;

use super::{Path, node};
use crate::arena::ArenaHandle;
use crate::heap::group::{BROKEN, Group};
use crate::heap::{Heap, HeapError};

impl<A: ArenaHandle> Heap<A> {
    /// Takes out the empty leaf at the end of a path, and the inner pages that lead to nothing else. If there
    /// is no memory for that they stay, and the next entry of their range finds them.
    pub(super) fn prune(&mut self, at: Group, path: &Path) -> Result<(), HeapError> {
        let has_others = |lpn: u32| self.tree(at).page(lpn).is_some_and(|page| !page.slots().is_empty());
        let Some((parent, child)) = path.iter().rev().find(|(lpn, _)| has_others(*lpn)).copied() else {
            return Ok(());
        };
        let writable =
            self.writable_node(at, parent).and_then(|frame| self.writable_overflow(at).map(|()| frame));
        let frame = match writable {
            Ok(frame) => frame,
            Err(HeapError::MemoryLimit { .. } | HeapError::SnapshotHolds { .. }) => return Ok(()),
            Err(error) => return Err(error),
        };
        let page = TreePage::of(self.frames.view().frame(frame)).ok_or(BROKEN)?;
        let pruned = page.child(child).ok_or(BROKEN)?;
        let slot = child.saturating_sub(1);
        let first_child = page.child(usize::from(child == 0)).ok_or(BROKEN)?;
        let chain = page.entry(slot).ok_or(BROKEN)?.key.chain;
        let bytes = self.frames.write(frame).ok_or(BROKEN)?;
        node::set_first_child(bytes, first_child).ok_or(BROKEN)?;
        node::remove(bytes, slot).ok_or(BROKEN)?;
        self.free_content(at, chain)?;
        self.give_line(at, pruned)?;
        self.lower_root(at)
    }

    /// Gives back a page and those below it, of which each is the only child of the one above.
    fn give_line(&mut self, at: Group, top: u32) -> Result<(), HeapError> {
        let mut next = Some(top);
        while let Some(lpn) = next {
            let page = self.tree(at).page(lpn).ok_or(BROKEN)?;
            debug_assert!(page.slots().is_empty(), "it leads to one empty leaf");
            next = if page.is_inner() { page.child(0) } else { None };
            self.give_lpn_page(at, lpn)?;
        }
        Ok(())
    }

    /// Puts the only child of a root in its place.
    fn lower_root(&mut self, at: Group) -> Result<(), HeapError> {
        loop {
            let root = self.head(at).directory.get();
            let page = self.tree(at).page(root).ok_or(BROKEN)?;
            if !page.is_inner() || !page.slots().is_empty() {
                return Ok(());
            }
            let child = page.child(0).ok_or(BROKEN)?;
            self.head_mut(at)?.directory = child.into();
            self.give_lpn_page(at, root)?;
        }
    }
}

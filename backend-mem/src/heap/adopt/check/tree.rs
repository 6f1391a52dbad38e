//! The pages of an ordered state: one tree, whose keys ascend from the first leaf to the last.

use std::vec::Vec;

use slackwater_core::format::page::{Content, PageView, TreeKey, TreePage};
use slackwater_core::format::segment::IndexRow;

use super::{CheckedPage, Defect, LPN_OVERFLOW, SectionPages, defect};

/// The last key or separator on the way through a tree.
#[derive(Default)]
struct Before {
    key: Vec<u8>,
    kind: Kind,
    /// Room for the next key.
    buf: Vec<u8>,
}

/// What a key is in its tree.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Kind {
    #[default]
    None,
    /// Of an entry.
    Entry,
    /// Between two children: entries to its right may be equal.
    Separator,
}

impl<'a, F: Fn(&IndexRow) -> CheckedPage<'a>> SectionPages<'a, F> {
    /// Checks that the pages make one tree, and their chains. Gives its entries. `first` is for errors.
    pub(super) fn check_tree(&mut self, first: &'a IndexRow) -> Result<u64, Defect> {
        let lpn = first.lpn.get();
        if lpn & LPN_OVERFLOW == 0 {
            return Err(defect(first, "lpn of an ordered page", LPN_OVERFLOW.into(), lpn.into()));
        }
        let root = self.reach(first, self.head.root_lpn.get())?;
        let level = u64::from(self.head.depth);
        if level != u64::from(root.depth) {
            return Err(defect(root, "level of a root", level, root.depth.into()));
        }
        self.check_subtree(root, &mut Before::default())
    }

    /// Checks a page and those below it. Goes no deeper than there are levels.
    fn check_subtree(&mut self, row: &'a IndexRow, before: &mut Before) -> Result<u64, Defect> {
        let Some(page) = tree_page((self.page)(row).bytes) else {
            return Err(defect(row, "type of a page of a tree", 3, row.kind.into()));
        };
        if !page.is_inner() {
            for entry in page.entries() {
                self.check_key(row, &entry.key, before, Kind::Entry)?;
                self.check_chain(row, &entry.value, None, &mut Vec::new())?;
            }
            return Ok(page.slots().len() as u64);
        }
        let mut entries = self.check_child(row, &page, 0, before)?;
        for (index, entry) in page.entries().enumerate() {
            self.check_key(row, &entry.key, before, Kind::Separator)?;
            entries += self.check_child(row, &page, index + 1, before)?;
        }
        Ok(entries)
    }

    fn check_child(
        &mut self,
        row: &'a IndexRow,
        page: &TreePage<'a>,
        index: usize,
        before: &mut Before,
    ) -> Result<u64, Defect> {
        let child = self.reach(row, page.child(index).unwrap_or(0))?;
        let level = u64::from(row.depth).saturating_sub(1);
        if u64::from(child.depth) != level {
            return Err(defect(child, "level of a child", level, child.depth.into()));
        }
        self.check_subtree(child, before)
    }

    /// Checks the chain of a key, and that the key is above the one before.
    fn check_key(
        &mut self,
        row: &'a IndexRow,
        key: &TreeKey<'a>,
        before: &mut Before,
        kind: Kind,
    ) -> Result<(), Defect> {
        if let Some(chain) = key.chain {
            self.check_chain(row, &Content::Overflow(chain), None, &mut before.buf)?;
        }
        self.tree_key(key, &mut before.buf);
        let order = before.buf.cmp(&before.key);
        let may_be_equal = matches!((before.kind, kind), (Kind::None, _) | (Kind::Separator, Kind::Entry));
        if order.is_lt() || order.is_eq() && !may_be_equal {
            return Err(defect(row, "order of the keys of a tree", 1, 0));
        }
        core::mem::swap(&mut before.key, &mut before.buf);
        before.kind = kind;
        Ok(())
    }

    /// Puts the bytes of a key, whose chain has been checked, into `buf`.
    pub(crate) fn tree_key(&self, key: &TreeKey<'_>, buf: &mut Vec<u8>) {
        buf.clear();
        buf.extend_from_slice(key.prefix);
        buf.extend_from_slice(key.rest);
        for chunk in key.chain.iter().flat_map(|chain| self.chunks(chain)) {
            buf.extend_from_slice(chunk);
        }
    }
}

fn tree_page(bytes: &[u8]) -> Option<TreePage<'_>> {
    match PageView::parse(bytes) {
        Ok(PageView::Tree(page)) => Some(page),
        Ok(PageView::Hash(_) | PageView::Overflow(_)) | Err(_) => None,
    }
}

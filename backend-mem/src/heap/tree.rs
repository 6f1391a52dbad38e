//! Ordered states: in each key group a tree of pages in which entries ascend by the bytes of their keys.
//!
//! The pages are named by lpn and lie in the overflow table, as chains do: a leaf that is copied on write
//! changes one entry of that table and no other page. A page is split before an entry that it has no room for,
//! inner pages on the way down, so that each step leaves a tree that is whole and a failure costs nothing.
//! A page that becomes empty goes; pages are not merged otherwise.

use core::cmp::Ordering;

use slackwater_core::format::page::{Content, TREE_LEVELS_MAX, TreeEntry, TreePage};

mod node;
mod prune;
mod range;
mod search;
mod split;
#[cfg(test)]
mod tests;
mod write;

pub use range::Entries;

use search::{Probe, lower_bound};

use super::Value;
use super::tables::{self, Head};
use super::tags::prefetch;
use crate::arena::FrameView;

/// Bytes that come from memory at once.
const LINE: usize = 64;

/// The inner pages from the root to a leaf: the lpn of each, and which child the way goes on with.
type Path = heapless::Vec<(u32, usize), { TREE_LEVELS_MAX as usize + 1 }>;

fn note(path: &mut Path, lpn: u32, child: usize) {
    let noted = path.push((lpn, child));
    debug_assert!(noted.is_ok(), "a tree has no more levels than that");
}

/// Asks for all that a search in a page reads but records: one after the other, its steps would wait for each.
#[inline]
fn prefetch_search(frame: &[u8]) {
    for line in 0..frame.len() / 4 / LINE {
        prefetch(frame.as_ptr().wrapping_add(line * LINE));
    }
    prefetch(frame.as_ptr().wrapping_add(frame.len().saturating_sub(LINE)));
}

/// A tree being read. Its root's lpn stands where a hash state has its directory; 0 if nothing was written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tree<'a> {
    frames: FrameView<'a>,
    head: &'a Head,
}

/// Where a key is or belongs.
#[derive(Clone, Copy, Debug)]
struct Place<'a> {
    lpn: u32,
    page: TreePage<'a>,
    /// How many keys of the page are below.
    index: usize,
    /// Whether the next one is the key.
    is_there: bool,
}

impl<'a> Tree<'a> {
    pub(crate) const fn new(frames: FrameView<'a>, head: &'a Head) -> Self {
        Self { frames, head }
    }

    fn root_lpn(self) -> u32 {
        self.head.directory.get()
    }

    #[inline]
    fn page(self, lpn: u32) -> Option<TreePage<'a>> {
        TreePage::of(self.frame(lpn))
    }

    #[inline]
    fn frame(self, lpn: u32) -> &'a [u8] {
        self.frames.frame(tables::overflow_frame(self.frames, self.head, lpn))
    }

    /// Goes down to the leaf for a probe, and tells of each inner page on the way.
    #[inline]
    fn seek(self, probe: &Probe<'_>, mut on_inner: impl FnMut(u32, usize)) -> Option<Place<'a>> {
        let mut lpn = self.root_lpn();
        for _ in 0..=TREE_LEVELS_MAX {
            let frame = self.frame(lpn);
            prefetch_search(frame);
            let page = TreePage::of(frame)?;
            let (index, is_there) = lower_bound(&page, probe, self);
            if !page.is_inner() {
                return Some(Place { lpn, page, index, is_there });
            }
            // What equals a separator lies behind it.
            let child = index + usize::from(is_there);
            on_inner(lpn, child);
            lpn = page.child(child)?;
        }
        None
    }

    /// The entry of a key.
    #[inline]
    pub(super) fn find(self, key: &[u8]) -> Option<TreeEntry<'a>> {
        let place = self.seek(&Probe::at(key, self.frames.frame_size()), |_, _| {})?;
        if place.is_there { place.page.entry(place.index) } else { None }
    }

    /// The value of a key.
    #[inline]
    pub(super) fn value(self, key: &[u8]) -> Option<Value<'a>> {
        self.find(key).map(|entry| Value::of(entry.value, self.frames, self.head))
    }

    /// Compares the bytes of a chain with others; `longer` if it goes on behind them.
    fn compare_chain(self, chain: Content<'a>, mut other: &[u8], longer: Ordering) -> Ordering {
        for chunk in Value::of(chain, self.frames, self.head).chunks() {
            let (front, behind) = other.split_at(chunk.len().min(other.len()));
            let order = chunk.get(..front.len()).unwrap_or_default().cmp(front);
            if order.is_ne() {
                return order;
            }
            if chunk.len() > front.len() {
                return longer;
            }
            other = behind;
        }
        if other.is_empty() { Ordering::Equal } else { Ordering::Less }
    }
}

//! Visiting entries page by page.

use slackwater_core::format::page::Content;
use slackwater_core::key_group::KeyGroup;

use super::hash::Hasher;
use super::page::Page;
use super::tables::{self, Head, Walk, directory_entry, directory_index};
use super::{HeapError, ScanCursor, StateId, StateKind, Value};
use crate::arena::{FrameId, FrameView};

/// Visits the entries of the page that the cursor stands on, and moves it on. Says whether there is more.
pub(super) fn step(
    walk: Walk<'_>,
    hasher: Hasher,
    state: StateId,
    cursor: &mut ScanCursor,
    each: &mut dyn FnMut(KeyGroup, Value<'_>, Value<'_>),
) -> Result<bool, HeapError> {
    walk.row(state)?.expect(StateKind::Hash, state)?;
    let groups = walk.groups_of(state);
    for group in groups.iter().skip(usize::from(cursor.groups_done)) {
        let head = walk.head(state, group)?;
        if head.pages.get() > 0 {
            let first = directory_entry(walk.frames, head, directory_index(cursor.position, head.depth));
            let end = visit(walk.frames, head, first, |page_prefix, key, value| {
                // A page that has grown since may hold what was visited before.
                if cursor.position == page_prefix || hasher.of_content(&key) >= cursor.position {
                    each(group, Value::of(key, walk.frames, head), Value::of(value, walk.frames, head));
                }
            });
            if let Some(end) = end {
                cursor.position = end;
                return Ok(true);
            }
        }
        cursor.position = 0;
        cursor.groups_done += 1;
        if head.pages.get() > 0 {
            return Ok(usize::from(cursor.groups_done) < groups.len());
        }
    }
    Ok(false)
}

/// Visits the records of a page and of those linked behind it. Gives the first prefix behind, if there is one.
pub(crate) fn visit<'a>(
    frames: FrameView<'a>,
    head: &'a Head,
    first: FrameId,
    mut each: impl FnMut(u64, Content<'a>, Content<'a>),
) -> Option<u64> {
    let mut page = Page::new(frames.frame(first))?;
    let (prefix, depth) = (page.header().hash_prefix.get(), page.header().local_depth);
    loop {
        page.places().for_each(|place| each(prefix, place.key, place.value));
        let next = page.header().right_lpn.get();
        let frame = tables::overflow_frame(frames, head, next);
        if next == 0 || frame.is_none() {
            break;
        }
        page = Page::new(frames.frame(frame))?;
    }
    prefix.checked_add((1_u64 << 63).checked_shr(u32::from(depth.checked_sub(1)?))?)
}

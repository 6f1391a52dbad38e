//! Whether pages that come from outside make a heap: all that look-ups and changes rely on, beyond what makes
//! each of them a page. A file may have been forged with the right checksums.

use std::vec;
use std::vec::Vec;

use slackwater_core::format::FormatError;
use slackwater_core::format::page::{
    Content, FRAME_SIZE_MAX, FRAME_SIZE_MIN, NO_PAGE, OverflowPage, OverflowRef, PAGE_TYPE_HASH,
    PAGE_TYPE_HASH_FIXED, PageView, TreePage, TreeSlot, tree_entry_len_max,
};
use slackwater_core::format::segment::{IndexRow, SectionHead};

use crate::heap::Hasher;
use crate::heap::grow::{DEPTH_MAX, DEPTH_SLACK, directory_lpn};
use crate::heap::hash::same;
pub(crate) use crate::heap::page::Fixed;
use crate::heap::page::{Layout, Page, SlotPage, slots_usable};
use crate::heap::tables::LPN_OVERFLOW;

mod tree;

/// A page that passed for one, as far as it can be told alone.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CheckedPage<'a> {
    pub(crate) bytes: &'a [u8],
    /// Whether a record refers to a chain.
    pub(crate) has_chains: bool,
}

/// What is wrong, and with which page. Offsets count from the page's start.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Defect {
    pub(crate) row: IndexRow,
    pub(crate) error: FormatError,
}

/// Entries that an overflow table may have for each page, beside those of the smallest.
const ENTRIES_PER_PAGE_MAX: usize = 16;

/// Whether directory and overflow table of the pages are in proportion to them. Those of a heap from which most
/// has been removed may not be, and those of a forged file might fill the memory.
pub(crate) fn is_dense(rows: &[IndexRow]) -> bool {
    let linked = rows.partition_point(|row| row.lpn.get() & LPN_OVERFLOW == 0);
    let depth = rows.iter().take(linked).map(|row| row.depth).max().unwrap_or(0);
    let depth_max = u32::from(DEPTH_SLACK) + linked.checked_ilog2().unwrap_or(0);
    let last = rows.last().map_or(0, |row| row.lpn.get());
    let index = if last & LPN_OVERFLOW == 0 { 0 } else { last & !LPN_OVERFLOW };
    depth <= DEPTH_MAX
        && u32::from(depth) <= depth_max
        && index as usize / ENTRIES_PER_PAGE_MAX <= rows.len().max(FRAME_SIZE_MIN)
}

/// Checks the records of a page that has passed [`PageView::check`]: they do not overlap, each is found by its
/// hash and no other of its page is found in its place; and that the page has the shape of all pages of its state,
/// if these hold records of one size. Says whether any record refers to a chain. Work: one look-up for each.
pub(crate) fn check_records(bytes: &[u8], hasher: Hasher, shape: Option<Fixed>) -> Result<bool, FormatError> {
    let Some(page) = Page::new(bytes) else { return Err(corrupt("page", 0, 1, 0)) };
    let own_shape = match page.layout() {
        Layout::Fixed(fixed) => Some(fixed),
        Layout::Records { .. } => None,
    };
    if own_shape != shape {
        let slots = |shape: Option<Fixed>| shape.map_or(0, |fixed| fixed.slots() as u64);
        return Err(corrupt("slots of records of one size", 4, slots(shape), slots(own_shape)));
    }
    let (prefix, depth) = (page.header().hash_prefix.get(), u32::from(page.header().local_depth));
    let usable = slots_usable(usize::from(page.header().n_slots.get()));
    if page.count() > usable {
        return Err(corrupt("slots in use", 6, usable as u64, page.count() as u64));
    }
    if let Some(fixed) = shape {
        return check_fixed(bytes, &fixed, hasher, (prefix, depth)).map(|()| false);
    }
    let (mut taken, mut has_chains) = (Taken::default(), false);
    for place in page.places() {
        let hash = hasher.of_content(&place.key);
        if (hash ^ prefix).leading_zeros() < depth {
            return Err(corrupt("hash of a key", place.offset, prefix, hash));
        }
        if !taken.take(place.offset, place.len()) {
            return Err(corrupt("record that overlaps another", place.offset, 0, 1));
        }
        // The search compares fingerprints, so this one is right if the record is found.
        let found =
            page.find(hash, |key| is_same(&key, &place.key)).map_or(u64::MAX, |found| found.slot as u64);
        if found != place.slot as u64 {
            return Err(corrupt("slot where a key is found", place.offset, place.slot as u64, found));
        }
        has_chains |= is_chain(&place.key) || is_chain(&place.value);
    }
    Ok(has_chains)
}

/// The same for records of one size, which cannot overlap and have no chains.
fn check_fixed(
    bytes: &[u8],
    fixed: &Fixed,
    hasher: Hasher,
    (prefix, depth): (u64, u32),
) -> Result<(), FormatError> {
    let Some(page) = SlotPage::new(bytes, fixed) else { return Err(corrupt("page", 0, 1, 0)) };
    let Some((slot, hash, found)) = page.first_misplaced(&hasher, (prefix, depth)) else { return Ok(()) };
    let offset = fixed.slot_at(slot);
    if (hash ^ prefix).leading_zeros() < depth {
        return Err(corrupt("hash of a key", offset, prefix, hash));
    }
    let found = found.map_or(u64::MAX, |found| found as u64);
    Err(corrupt("slot where a key is found", offset, slot as u64, found))
}

/// Checks that the records of an ordered page, which has passed [`PageView::check`], do not overlap, and that
/// two as long as any of them fit into an empty page. Says whether any of them refers to a chain.
pub(crate) fn check_entries(page: &TreePage<'_>) -> Result<bool, FormatError> {
    let (mut taken, mut has_chains) = (Taken::default(), false);
    let len_max = tree_entry_len_max(page.records_end() + page.prefix().len());
    for (slot, entry) in page.slots().iter().zip(page.entries()) {
        let offset = usize::from(slot.offset.get());
        if !taken.take(offset, entry.record_len()) {
            return Err(corrupt("record that overlaps another", offset, 0, 1));
        }
        let len = entry.record_len() + TreeSlot::LEN + page.prefix().len();
        if len > len_max {
            return Err(corrupt("length of an entry", offset, len_max as u64, len as u64));
        }
        has_chains |= entry.has_chains();
    }
    Ok(has_chains)
}

/// Whether two keys of a page are one, or have the same bytes or chain.
#[inline]
fn is_same(one: &Content<'_>, other: &Content<'_>) -> bool {
    match (one, other) {
        (Content::Inline(one), Content::Inline(other)) => {
            // Nearly every search ends at the record that it started from.
            core::ptr::eq(*one, *other) || same(one, other)
        }
        (one, other) => one == other,
    }
}

/// Makes room for so many more, and not for twice as many as before: the pages may be forged, and while memory is moved there
/// is both.
fn make_room<T>(items: &mut Vec<T>, more: usize) {
    if items.capacity() - items.len() < more {
        items.reserve_exact(more.max(items.len() / 4));
    }
}

fn is_hash_page(row: &IndexRow) -> bool {
    matches!(u16::from(row.kind), PAGE_TYPE_HASH | PAGE_TYPE_HASH_FIXED)
}

const fn is_chain(content: &Content<'_>) -> bool {
    matches!(content, Content::Overflow(_))
}

/// The bytes of a page that belong to a record, as bits.
struct Taken([u64; FRAME_SIZE_MAX / 64]);

impl Default for Taken {
    fn default() -> Self {
        Self([0; FRAME_SIZE_MAX / 64])
    }
}

impl Taken {
    /// Takes bytes and says whether none of them was taken.
    fn take(&mut self, offset: usize, len: usize) -> bool {
        let (mut at, end) = (offset, offset + len);
        let mut were_free = true;
        while at < end {
            let Some(word) = self.0.get_mut(at / 64) else { return false };
            let count = (64 - at % 64).min(end - at);
            let bits = (u64::MAX >> (64 - count)) << (at % 64);
            were_free &= *word & bits == 0;
            *word |= bits;
            at += count;
        }
        were_free
    }
}

/// The pages of a state in a key group, each checked alone, to be checked together: prefixes cover the hashes
/// exactly, every page is reached once, chains have the length and keys the hash that their records say, no key
/// occurs twice, and entries are as many as the index says.
pub(crate) struct SectionPages<'a, F> {
    head: &'a SectionHead,
    rows: &'a [IndexRow],
    /// Where the pages of the overflow table begin among the rows.
    linked: usize,
    page: F,
    seen: Vec<bool>,
}

impl<'a, F: Fn(&IndexRow) -> CheckedPage<'a>> SectionPages<'a, F> {
    /// `page` finds a row's page.
    pub(crate) fn new(head: &'a SectionHead, rows: &'a [IndexRow], page: F) -> Self {
        let linked = rows.partition_point(|row| row.lpn.get() & LPN_OVERFLOW == 0);
        Self { head, rows, linked, page, seen: vec![false; rows.len() - linked] }
    }

    /// Checks all of it. Memory: the longest key in a chain, a few bytes for each page.
    pub(crate) fn check(&mut self, hasher: Hasher) -> Result<(), Defect> {
        let (of_directory, linked) = self.rows.split_at(self.linked);
        let mut entries = 0;
        if self.head.root_lpn == 0 {
            self.check_directory(of_directory)?;
            for row in of_directory {
                entries += self.check_bucket(row, hasher)?;
            }
        } else if let Some(row) = self.rows.first() {
            entries = self.check_tree(row)?;
        }
        if let Some((row, _)) = linked.iter().zip(&self.seen).find(|(_, seen)| !**seen) {
            return Err(defect(row, "page that nothing refers to", 1, 0));
        }
        match self.rows.first() {
            Some(row) if entries != self.head.entry_count.get() => {
                Err(defect(row, "entries of a state", self.head.entry_count.get(), entries))
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Every hash belongs to one page of the directory.
    fn check_directory(&self, rows: &[IndexRow]) -> Result<(), Defect> {
        let mut places = Vec::with_capacity(rows.len());
        for row in rows {
            let (prefix, depth) = self.place_of(row);
            if !is_hash_page(row) || depth > DEPTH_MAX {
                return Err(defect(row, "page of a directory", u64::from(DEPTH_MAX), depth.into()));
            }
            let lpn = directory_lpn(prefix, depth);
            if lpn != row.lpn.get() {
                return Err(defect(row, "lpn of a page of a directory", lpn.into(), row.lpn.get().into()));
            }
            places.push((prefix, depth, row));
        }
        places.sort_unstable_by_key(|(prefix, ..)| *prefix);
        // Where the next page has to begin; 2^64 when the last one has ended.
        let mut covered = 0_u128;
        for (prefix, depth, row) in &places {
            if u128::from(*prefix) != covered {
                return Err(defect(row, "prefix of a page of a directory", low(covered), *prefix));
            }
            covered += 1 << (64 - u32::from(*depth));
        }
        match self.rows.first() {
            Some(row) if covered != 1 << 64 => Err(defect(row, "end of a directory", 0, low(covered))),
            Some(_) | None => Ok(()),
        }
    }

    fn place_of(&self, row: &IndexRow) -> (u64, u8) {
        Page::new((self.page)(row).bytes)
            .map_or((0, u8::MAX), |page| (page.header().hash_prefix.get(), page.header().local_depth))
    }

    /// Checks a page of the directory, those linked behind it, and their chains. Gives their entries.
    fn check_bucket(&mut self, first: &'a IndexRow, hasher: Hasher) -> Result<u64, Defect> {
        let place = self.place_of(first);
        let (mut row, mut entries) = (first, 0);
        let (mut keys, mut buf) = (Vec::new(), Vec::new());
        loop {
            let CheckedPage { bytes, has_chains } = (self.page)(row);
            let Some(page) = Page::new(bytes) else { return Err(defect(row, "page", 1, 0)) };
            let next = page.header().right_lpn.get();
            entries += page.count() as u64;
            let is_alone = next == 0 && core::ptr::eq(row, first);
            if has_chains || !is_alone {
                let before = keys.len();
                make_room(&mut keys, page.count());
                keys.extend(page.places().map(|place| (hasher.of_content(&place.key), place.key)));
                for place in page.places().filter(|_| has_chains) {
                    self.check_chain(row, &place.value, None, &mut buf)?;
                    self.check_chain(row, &place.key, Some(hasher), &mut buf)?;
                }
                let has_long_keys = keys.iter().skip(before).any(|(_, key)| is_chain(key));
                if is_alone && !has_long_keys {
                    return Ok(entries);
                }
            }
            if next == 0 {
                break;
            }
            row = self.reach(row, next)?;
            if !is_hash_page(row) || self.place_of(row) != place {
                return Err(defect(row, "prefix of a linked page", place.0, self.place_of(row).0));
            }
        }
        self.check_distinct(first, &mut keys)?;
        Ok(entries)
    }

    /// The linked page `lpn`, which `row` refers to and nothing else does.
    fn reach(&mut self, row: &IndexRow, lpn: u32) -> Result<&'a IndexRow, Defect> {
        let linked = self.rows.get(self.linked..).unwrap_or_default();
        let found = linked.binary_search_by_key(&lpn, |row| row.lpn.get());
        let found = found.ok().and_then(|at| Some((linked.get(at)?, self.seen.get_mut(at)?)));
        let Some((found, seen)) = found else {
            return Err(defect(row, "page that another refers to", u64::MAX, lpn.into()));
        };
        if core::mem::replace(seen, true) {
            return Err(defect(found, "page that two others refer to", 0, 1));
        }
        Ok(found)
    }

    /// Checks the chain of a key or a value of `owner`, if it has one; the hash if it is a key's.
    fn check_chain(
        &mut self,
        owner: &'a IndexRow,
        content: &Content<'_>,
        hasher: Option<Hasher>,
        buf: &mut Vec<u8>,
    ) -> Result<(), Defect> {
        let Content::Overflow(reference) = content else { return Ok(()) };
        buf.clear();
        let (mut next, mut last, mut len) = (reference.first_lpn.get(), NO_PAGE, 0);
        while next != NO_PAGE {
            let row = self.reach(owner, next)?;
            let Some(page) = overflow_page((self.page)(row).bytes) else {
                return Err(defect(row, "type of a page of a chain", 5, row.kind.into()));
            };
            len += page.bytes().len() as u64;
            if hasher.is_some() {
                buf.extend_from_slice(page.bytes());
            }
            (last, next) = (next, page.next_lpn().unwrap_or(NO_PAGE));
        }
        if len != u64::from(reference.len.get()) {
            return Err(defect(owner, "length of a chain", reference.len.get().into(), len));
        }
        let digest = reference.digest.get();
        if hasher.is_none() && digest != 0 && digest != u64::from(last) {
            return Err(defect(owner, "last page of a chain", last.into(), digest));
        }
        match hasher.map(|hasher| hasher.of(buf)) {
            Some(hash) if hash != digest => Err(defect(owner, "digest of a key", hash, digest)),
            Some(_) | None => Ok(()),
        }
    }

    /// No key of pages linked to each other is there twice. Each page alone has passed.
    fn check_distinct(&self, row: &IndexRow, keys: &mut [(u64, Content<'a>)]) -> Result<(), Defect> {
        keys.sort_unstable_by_key(|(hash, _)| *hash);
        for alike in keys.chunk_by_mut(|a, b| a.0 == b.0).filter(|alike| alike.len() > 1) {
            alike.sort_unstable_by(|a, b| self.bytes_of(&a.1).cmp(self.bytes_of(&b.1)));
            let mut pairs = alike.iter().zip(alike.iter().skip(1));
            if pairs.any(|(a, b)| self.bytes_of(&a.1).eq(self.bytes_of(&b.1))) {
                return Err(defect(row, "records of one key", 1, 2));
            }
        }
        Ok(())
    }

    /// The bytes of a key whose chain has been checked.
    fn bytes_of<'s>(&'s self, content: &Content<'a>) -> impl Iterator<Item = u8> + use<'s, 'a, F> {
        let (inline, reference) = match *content {
            Content::Inline(bytes) => (bytes, None),
            Content::Overflow(reference) => (&[] as &[u8], Some(reference)),
        };
        let chunks = reference.into_iter().flat_map(|reference| self.chunks(&reference));
        inline.iter().copied().chain(chunks.flatten().copied())
    }

    /// The bytes of a key or value; in `buf` if it has a chain. The chain has been checked.
    pub(crate) fn bytes<'b>(&self, content: Content<'b>, buf: &'b mut Vec<u8>) -> &'b [u8] {
        match content {
            Content::Inline(bytes) => bytes,
            Content::Overflow(reference) => {
                buf.clear();
                self.chunks(&reference).for_each(|chunk| buf.extend_from_slice(chunk));
                buf
            }
        }
    }

    /// The parts of a chain that has been checked.
    fn chunks(&self, reference: &OverflowRef) -> impl Iterator<Item = &'a [u8]> + use<'_, 'a, F> {
        let mut next = reference.first_lpn.get();
        core::iter::from_fn(move || {
            let at = self.rows.binary_search_by_key(&next, |row| row.lpn.get()).ok()?;
            let page = overflow_page((self.page)(self.rows.get(at)?).bytes)?;
            next = page.next_lpn().unwrap_or(NO_PAGE);
            Some(page.bytes())
        })
    }
}

fn overflow_page(bytes: &[u8]) -> Option<OverflowPage<'_>> {
    match PageView::parse(bytes) {
        Ok(PageView::Overflow(page)) => Some(page),
        Ok(PageView::Hash(_) | PageView::Tree(_)) | Err(_) => None,
    }
}

const fn corrupt(what: &'static str, offset: usize, expected: u64, found: u64) -> FormatError {
    FormatError::Corrupt { what, offset: offset as u64, expected, found }
}

const fn defect(row: &IndexRow, what: &'static str, expected: u64, found: u64) -> Defect {
    Defect { row: *row, error: corrupt(what, 0, expected, found) }
}

/// The low half, for an error's text.
fn low(number: u128) -> u64 {
    u64::try_from(number & u128::from(u64::MAX)).unwrap_or(u64::MAX)
}

//! Finding a key's place in a page.

use core::cmp::Ordering;

use slackwater_core::format::page::{
    Content, TREE_HINTS, TreeKey, TreePage, tree_head_padded, tree_hint_distance, tree_key_len_max,
};

use zerocopy::little_endian::U32;

use super::Tree;
use crate::heap::hash::same;

/// Keys of more words than that are left to `cmp`.
const WORDS_MAX: usize = 8;

/// A place among keys.
#[derive(Clone, Copy, Debug)]
pub(super) struct Probe<'k> {
    /// As much of the key as pages hold.
    pub(super) inline: &'k [u8],
    /// The rest, which lies in a chain.
    pub(super) tail: &'k [u8],
    /// Behind all keys that begin with it, rather than right before it.
    behind: bool,
}

impl<'k> Probe<'k> {
    /// Where a key is or would be.
    #[inline]
    pub(super) fn at(key: &'k [u8], frame_size: usize) -> Self {
        let (inline, tail) = key.split_at(key.len().min(tree_key_len_max(frame_size)));
        Self { inline, tail, behind: false }
    }

    /// Behind all keys that begin with `prefix`.
    #[inline]
    pub(super) fn behind(prefix: &'k [u8], frame_size: usize) -> Self {
        Self { behind: true, ..Self::at(prefix, frame_size) }
    }

    /// Whether it is right before a key that lies in pages to the end.
    #[inline]
    const fn is_short_key(&self) -> bool {
        self.tail.is_empty() && !self.behind
    }

    /// How a key of a page stands to the probe, of which `rest` is left behind the page's prefix.
    #[inline(never)]
    fn compare(&self, key: &TreeKey<'_>, rest: &[u8], tree: Tree<'_>) -> Ordering {
        if self.tail.is_empty() && self.behind && key.rest.starts_with(rest) {
            return Ordering::Less;
        }
        compare_bytes(key.rest, rest).then_with(|| match key.chain {
            None if self.tail.is_empty() => Ordering::Equal,
            None => Ordering::Less,
            Some(chain) => {
                let longer = if self.behind { Ordering::Less } else { Ordering::Greater };
                let order = tree.compare_chain(Content::Overflow(chain), self.tail, longer);
                if order.is_eq() && self.behind { longer } else { order }
            }
        })
    }
}

/// As `cmp`, without a call for short keys, which most are.
#[inline]
fn compare_bytes(bytes: &[u8], other: &[u8]) -> Ordering {
    let len = bytes.len().min(other.len());
    let (Some(front), Some(other_front)) = (bytes.get(..len), other.get(..len)) else {
        return Ordering::Equal;
    };
    compare_fronts(front, other_front).then(bytes.len().cmp(&other.len()))
}

/// Compares byte strings of one length.
#[inline]
fn compare_fronts(bytes: &[u8], other: &[u8]) -> Ordering {
    const WORD: usize = size_of::<u64>();
    let number = |word: &[u8; WORD]| u64::from_le_bytes(*word).swap_bytes();
    if bytes.len() > WORDS_MAX * WORD {
        return bytes.cmp(other);
    }
    let (words, _) = bytes.as_chunks();
    for (word, other) in words.iter().zip(other.as_chunks().0) {
        if word != other {
            return number(word).cmp(&number(other));
        }
    }
    // What precedes the last bytes in their word is equal.
    match (bytes.last_chunk(), other.last_chunk()) {
        (Some(last), Some(other)) => number(last).cmp(&number(other)),
        _ => short(bytes).cmp(&short(other)),
    }
}

/// Up to seven bytes as a number, the first one being the highest.
#[inline]
fn short(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// How many keys of a page are below the probe, and whether the next one is its key.
#[inline]
pub(super) fn lower_bound(page: &TreePage<'_>, probe: &Probe<'_>, tree: Tree<'_>) -> (usize, bool) {
    let slots = page.slots();
    let rest = match probe.inline.split_at_checked(page.prefix().len()) {
        Some((front, rest)) if same(front, page.prefix()) => rest,
        _ => return (if is_above(page.prefix(), probe) { 0 } else { slots.len() }, false),
    };
    // A missing byte is 0 in a head; behind all that begin with the probe it counts as the highest.
    let padding = if probe.behind && probe.tail.is_empty() { u8::MAX } else { 0 };
    let wanted = tree_head_padded(rest, padding);
    let (mut low, mut high) = between_hints(page, wanted);
    while low < high {
        let middle = low + (high - low) / 2;
        let Some(slot) = slots.get(middle) else { break };
        let order = slot.head.get().cmp(&wanted).then_with(|| match page.key(slot) {
            Some(TreeKey { rest: key, chain: None, .. }) if probe.is_short_key() => compare_bytes(key, rest),
            Some(key) => probe.compare(&key, rest, tree),
            None => Ordering::Less,
        });
        match order {
            Ordering::Less => low = middle + 1,
            Ordering::Greater => high = middle,
            Ordering::Equal => return (middle, true),
        }
    }
    (low, false)
}

/// Whether all keys with a prefix that the probe does not have are above it.
fn is_above(prefix: &[u8], probe: &Probe<'_>) -> bool {
    if prefix.starts_with(probe.inline) { !probe.behind } else { prefix > probe.inline }
}

/// The slots among which one with that head must be.
#[inline]
fn between_hints(page: &TreePage<'_>, wanted: u32) -> (usize, usize) {
    let (count, hints) = (page.slots().len(), page.hints());
    let distance = tree_hint_distance(count);
    let Some(hints) = hints.first_chunk::<TREE_HINTS>().filter(|_| distance != 0) else { return (0, count) };
    // Two sums as wide as the hints: each is done in vectors.
    let hints = hints.map(U32::get);
    let below = hints.iter().map(|hint| u32::from(*hint < wanted)).sum::<u32>() as usize;
    let not_above = hints.iter().map(|hint| u32::from(*hint <= wanted)).sum::<u32>() as usize;
    let low = if below == 0 { 0 } else { distance * below + 1 };
    let high = if not_above == TREE_HINTS { count } else { distance * (not_above + 1) };
    (low, high)
}

#[cfg(test)]
mod tests {
    use std::vec;
    use std::vec::Vec;

    use super::*;

    #[test]
    fn bytes_compare_by_words_as_they_do_one_by_one() {
        let keys: Vec<Vec<u8>> = [0, 1, 2, 6, 7, 8, 9, 15, 16, 17, 23, 64, 65]
            .into_iter()
            .flat_map(|len| {
                let changed = (0..len).flat_map(move |at| [0, 2, 255].map(|byte| (at, byte)));
                core::iter::once(vec![1; len]).chain(changed.map(move |(at, byte)| {
                    let mut key = vec![1; len];
                    key[at] = byte;
                    key
                }))
            })
            .collect();
        for key in &keys {
            for other in &keys {
                assert_eq!(compare_bytes(key, other), key.cmp(other), "{key:?} and {other:?}");
            }
        }
    }
}

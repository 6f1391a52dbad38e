//! What must be true of the bytes of an ordered page.

use super::super::super::error::{FormatError, corrupt, expect_eq, expect_within, expect_zero};
use super::super::{Content, KEY_LEN_MAX, NO_PAGE, OverflowRef, PAGE_TYPE_LEAF, PageHeader, VALUE_LEN_MAX};
use super::{
    TREE_LEVELS_MAX, TreeEntry, TreeKey, TreePage, TreeSlot, tree_head, tree_hint_distance, tree_key_len_max,
    tree_slots_offset,
};

impl<'a> TreePage<'a> {
    pub(in super::super) fn parse(frame: &'a [u8], header: &'a PageHeader) -> Result<Self, FormatError> {
        let is_leaf = header.page_type.get() == PAGE_TYPE_LEAF;
        let levels = if is_leaf { (0, 0) } else { (1, u64::from(TREE_LEVELS_MAX)) };
        expect_within("level of an ordered page", 10, levels, header.local_depth.into())?;
        expect_eq("slots in use", 6, header.n_slots.get().into(), header.n_used.get().into())?;
        expect_eq("hash prefix of an ordered page", 16, 0, header.hash_prefix.get())?;
        let first_children = if is_leaf { (0, 0) } else { (1, u64::from(NO_PAGE - 1)) };
        expect_within("first child of an ordered page", 40, first_children, header.left_lpn.get().into())?;
        expect_zero("unused fields of an ordered page", 44, frame.get(44..52).unwrap_or(&[]))?;
        expect_zero("reserved fields of the page header", 54, frame.get(54..PageHeader::LEN).unwrap_or(&[]))?;

        let slots_len = usize::from(header.n_slots.get()).saturating_mul(TreeSlot::LEN);
        let slots_end = tree_slots_offset(frame.len()).saturating_add(slots_len) as u64;
        let prefix_len = u64::from(header.prefix_len.get());
        let prefix_at = (frame.len() as u64).saturating_sub(prefix_len);
        expect_within("end of the slots", 4, (0, prefix_at), slots_end)?;
        expect_within("top of the records", 36, (slots_end, prefix_at), header.heap_top.get().into())?;
        expect_within("length of the prefix", 52, (0, tree_key_len_max(frame.len()) as u64), prefix_len)?;
        Self::of(frame).ok_or_else(|| corrupt("end of the slots", 4, frame.len() as u64, slots_end))
    }

    /// Checks every entry, their order as far as the page alone shows it, hints, and that the records and the
    /// garbage account for every byte above `heap_top`.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn check(&self) -> Result<(), FormatError> {
        let mut taken = usize::from(self.header.garbage.get());
        let mut before = None;
        for (index, slot) in self.slots.iter().enumerate() {
            let at = self.slot_at(index);
            let entry = self.checked_entry(index, slot, at)?;
            if before.is_some_and(|before| !may_follow(&before, &entry.key)) {
                return Err(corrupt("order of an ordered page", at, 0, index as u64));
            }
            taken = taken.saturating_add(entry.record_len());
            before = Some(entry.key);
        }
        let room = self.records_end().saturating_sub(usize::from(self.header.heap_top.get()));
        expect_eq("bytes of records and garbage", 36, room as u64, taken as u64)?;
        self.check_hints()
    }

    fn slot_at(&self, index: usize) -> usize {
        index.saturating_mul(TreeSlot::LEN).saturating_add(tree_slots_offset(self.frame.len()))
    }

    fn checked_entry(&self, index: usize, slot: &TreeSlot, at: usize) -> Result<TreeEntry<'a>, FormatError> {
        let (top, end) = (self.header.heap_top.get(), self.records_end() as u64);
        expect_within("offset of a record", at, (top.into(), end), slot.offset.get().into())?;
        let entry = self.entry(index).ok_or_else(|| corrupt("end of a record", at, end, u64::MAX))?;
        expect_eq("head of a key", at, tree_head(entry.key.rest).into(), slot.head.get().into())?;
        self.check_key(&entry.key, at)?;
        if self.is_inner() {
            let child = self.child(index.saturating_add(1)).unwrap_or(0);
            expect_within("child of an ordered page", at, (1, u64::from(NO_PAGE - 1)), child.into())?;
        } else if let Content::Overflow(chain) = entry.value {
            check_chain(&chain, VALUE_LEN_MAX, at)?;
        }
        Ok(entry)
    }

    fn check_key(&self, key: &TreeKey<'_>, at: usize) -> Result<(), FormatError> {
        let inline_max = tree_key_len_max(self.frame.len());
        let inline = key.prefix.len().saturating_add(key.rest.len()) as u64;
        match key.chain {
            None => expect_within("length of a key", at, (0, inline_max as u64), inline),
            Some(chain) => {
                expect_eq("length of a long key in the page", at, inline_max as u64, inline)?;
                check_chain(&chain, KEY_LEN_MAX.saturating_sub(inline_max), at)
            }
        }
    }

    fn check_hints(&self) -> Result<(), FormatError> {
        let distance = tree_hint_distance(self.slots.len());
        if distance == 0 {
            return Ok(());
        }
        let hinted = self.slots.iter().skip(distance).step_by(distance);
        for ((hint, slot), at) in self.hints.iter().zip(hinted).zip((PageHeader::LEN..).step_by(4)) {
            expect_eq("hint", at, slot.head.get().into(), hint.get().into())?;
        }
        Ok(())
    }
}

/// Whether a key may stand behind another. Two whose parts in the page are equal may differ in their chains.
fn may_follow(before: &TreeKey<'_>, key: &TreeKey<'_>) -> bool {
    before.rest < key.rest || (before.rest == key.rest && key.chain.is_some())
}

fn check_chain(chain: &OverflowRef, len_max: usize, at: usize) -> Result<(), FormatError> {
    expect_within("length of an overflow chain", at, (1, len_max as u64), chain.len.get().into())?;
    expect_eq("digest in an ordered page", at, 0, chain.digest.get())?;
    expect_within(
        "first page of an overflow chain",
        at,
        (0, u64::from(NO_PAGE - 1)),
        chain.first_lpn.get().into(),
    )
}

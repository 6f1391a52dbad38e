use std::vec;
use std::vec::Vec;

use slackwater_core::format::page::{PageView, TAG_DIRTY};

use super::room::SLOTS_MIN;
use super::*;
use crate::heap::hash::Hasher;

const IDENTITY: Identity = Identity { state_id: 1, key_group: 2, prefix: 0, depth: 0, lpn: 1, epoch: 3 };
const HASHER: Hasher = Hasher::new(5);

fn hash_of(key: &Content<'_>) -> u64 {
    HASHER.of_content(key)
}

fn page(frame_size: usize, record: usize) -> Vec<u8> {
    let mut bytes = vec![0xee; frame_size];
    let slots = slots_for(frame_size, 1, record).unwrap();
    init(&mut bytes, IDENTITY, Layout::Records { slots }).unwrap();
    bytes
}

fn slot_of(bytes: &[u8], key: &[u8]) -> Option<usize> {
    let page = Page::new(bytes).unwrap();
    page.find(HASHER.of(key), |content| content == Content::Inline(key)).map(|place| place.slot)
}

fn check(bytes: &[u8]) {
    PageView::parse(bytes).unwrap().check().unwrap();
}

#[test]
fn slots_fill_a_page_whatever_the_size_of_a_record() {
    for frame_size in [256, 1024, 4096, 16_384] {
        for record in 4..=frame_size / 4 + 4 {
            let slots = slots_for(frame_size, 1, record).unwrap();
            assert!(records_offset_min(slots) + record <= frame_size);
            // Records of that size fill the page up to less than one record and one row of tags.
            let taken = records_offset_min(slots) + slots_usable(slots) * record;
            assert!(slots == SLOTS_MIN || taken <= frame_size, "{frame_size} {record}");
            assert!(taken + 2 * record + 40 > frame_size, "{frame_size} {record} {slots}");
        }
    }
    assert_eq!(slots_for(256, 10, 500), None);
}

#[test]
fn removal_leaves_every_other_record_reachable() {
    let mut bytes = page(4096, 12);
    let mut keys: Vec<[u8; 4]> = Vec::new();
    let mut number = 0_u32;
    let value = [1_u8; 4];
    for round in 0..6 {
        while Page::new(&bytes).unwrap().has_room(12) {
            let key = number.to_le_bytes();
            number += 1;
            insert(&mut bytes, HASHER.of(&key), &Content::Inline(&key), &Content::Inline(&value)).unwrap();
            keys.push(key);
        }
        check(&bytes);
        for _ in 0..20 {
            let key = keys.swap_remove((round * 17) % keys.len());
            let slot = slot_of(&bytes, &key).unwrap();
            remove(&mut bytes, slot, hash_of).unwrap();
            assert!(slot_of(&bytes, &key).is_none());
            assert!(keys.iter().all(|key| slot_of(&bytes, key).is_some()));
        }
        check(&bytes);
        let old = bytes.clone();
        init(&mut bytes, IDENTITY, Page::new(&old).unwrap().layout()).unwrap();
        fill(Page::new(&old).unwrap(), &mut bytes, hash_of, |_| true).unwrap();
        assert!(keys.iter().all(|key| slot_of(&bytes, key).is_some()));
    }
}

#[test]
fn only_what_changed_since_the_snapshot_is_dirty() {
    let mut bytes = page(1024, 10);
    for key in 0..20_u8 {
        insert(&mut bytes, HASHER.of(&[key]), &Content::Inline(&[key]), &Content::Inline(&[0; 5])).unwrap();
    }
    let dirty = |bytes: &[u8]| {
        let PageView::Hash(page) = PageView::parse(bytes).unwrap() else { panic!("a hash page") };
        page.records().filter(|record| record.as_ref().unwrap().dirty).count()
    };
    assert_eq!(dirty(&bytes), 20);
    thaw(&mut bytes, 9).unwrap();
    assert_eq!(dirty(&bytes), 0);
    let header = Page::new(&bytes).unwrap().header();
    assert_eq!((header.epoch.get(), header.delta_base.get()), (9, 8));
    let slot = slot_of(&bytes, &[7]).unwrap();
    set_value(&mut bytes, slot, &[1; 3]).unwrap();
    assert_eq!(dirty(&bytes), 1);
    check(&bytes);
    let slot = slot_of(&bytes, &[8]).unwrap();
    remove(&mut bytes, slot, hash_of).unwrap();
    // The slot that became empty keeps the mark without a fingerprint.
    let tags = &bytes[TAGS_OFFSET..][..Page::new(&bytes).unwrap().slots()];
    assert!(tags.contains(&TAG_DIRTY));
    check(&bytes);
}

/// Every key of one byte is looked for in both ways, in pages of few and of many slots, full and not.
#[test]
fn a_search_by_address_finds_what_a_search_by_the_header_finds() {
    for (frame_size, value_width) in [(256, 40), (256, 0), (1024, 5), (4096, 13), (4096, 900)] {
        let fixed = Fixed::new(frame_size, 1, value_width).unwrap();
        let count = u8::try_from(slots_usable(fixed.slots())).unwrap();
        let mut bytes = vec![0; frame_size];
        init(&mut bytes, IDENTITY, Layout::Fixed(fixed)).unwrap();
        let value = |key: u8| vec![key ^ 0x5a; value_width];
        for key in 0..count {
            insert_fixed(&mut bytes, fixed, HASHER.of(&[key]), &[key], &value(key)).unwrap();
        }
        thaw(&mut bytes, 9).unwrap();
        for key in 0..=u8::MAX {
            let hash = HASHER.of(&[key]);
            let expected = (key < count).then(|| value(key));
            let found = SlotPage::new(&bytes, &fixed).unwrap().find(hash, &[key]);
            assert_eq!(found.map(|(_, value)| value), expected.as_deref());
            assert_eq!(found.map(|(slot, _)| slot), slot_of(&bytes, &[key]));
            assert_eq!(slot_of(&bytes, &[key]).is_some(), expected.is_some());
            assert_eq!(find_mut(&mut bytes, &fixed, hash, &[key]).map(|value| value.to_vec()), expected);
            let dirty = |slot: usize| bytes[TAGS_OFFSET + slot] & TAG_DIRTY != 0;
            assert!(slot_of(&bytes, &[key]).is_none_or(dirty), "what may be written counts as changed");
        }
        assert_eq!(SlotPage::new(&bytes, &fixed).unwrap().find(HASHER.of(&[1]), &[1, 0]), None);
    }
}

#[test]
fn a_page_too_short_for_its_shape_is_not_searched() {
    let fixed = Fixed::new(1024, 8, 8).unwrap();
    let mut bytes = [0x01; 512];
    assert!(SlotPage::new(&bytes, &fixed).is_none());
    assert!(find_mut(&mut bytes, &fixed, 1, &[1; 8]).is_none());
    assert!(SlotPage::new(&bytes, &Fixed::NONE).unwrap().find(1, &[]).is_none(), "a page of no slots");
    assert!(SlotPage::new(&bytes[..64], &Fixed::NONE).is_none());
}

#[test]
fn bytes_that_are_no_page_give_nothing() {
    for filler in [0_u8, 0x55, 0x7f, 0xff] {
        let mut bytes = vec![filler; 256];
        if let Some(page) = Page::new(&bytes) {
            assert!(page.find(12_345, |_| true).is_none_or(|place| place.offset < 256));
            let _count = page.places().count();
        }
        assert!(remove(&mut bytes, 9_999, hash_of).is_none());
    }
    assert!(Page::new(&[0; 10]).is_none());
}

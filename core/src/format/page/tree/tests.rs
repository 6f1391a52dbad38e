use std::vec;
use std::vec::Vec;

use zerocopy::IntoBytes;

use super::super::{NO_PAGE, PAGE_FORMAT, PAGE_TYPE_LEAF, PageView};
use super::*;
use crate::format::FormatError;

/// A page written by hand, as FORMAT.md says: the entries' keys begin with `prefix`.
fn page(frame_size: usize, prefix: &[u8], entries: &[(&[u8], &[u8])]) -> Vec<u8> {
    let mut frame = vec![0; frame_size];
    let mut top = frame_size - prefix.len();
    frame[top..].copy_from_slice(prefix);
    let mut slots = Vec::new();
    for (rest, value) in entries {
        let record = [&u16::try_from(value.len()).unwrap().to_le_bytes(), *rest, value].concat();
        top -= record.len();
        frame[top..top + record.len()].copy_from_slice(&record);
        slots.push(TreeSlot {
            offset: u16::try_from(top).unwrap().into(),
            key_len: u16::try_from(rest.len()).unwrap().into(),
            head: tree_head(rest).into(),
        });
    }
    let slots_at = tree_slots_offset(frame_size);
    frame[slots_at..slots_at + slots.as_bytes().len()].copy_from_slice(slots.as_bytes());
    let distance = tree_hint_distance(slots.len());
    for (index, slot) in slots.iter().skip(distance).step_by(distance.max(1)).take(TREE_HINTS).enumerate() {
        if slots_at > 64 && distance > 0 {
            frame[64 + 4 * index..68 + 4 * index].copy_from_slice(slot.head.as_bytes());
        }
    }
    let (header, _) = PageHeader::mut_from_prefix(&mut frame).unwrap();
    header.page_type = PAGE_TYPE_LEAF.into();
    header.format = PAGE_FORMAT;
    header.frame_size_log2 = u8::try_from(frame_size.trailing_zeros()).unwrap();
    header.n_slots = u16::try_from(slots.len()).unwrap().into();
    header.n_used = header.n_slots;
    header.heap_top = u16::try_from(top).unwrap().into();
    header.prefix_len = u16::try_from(prefix.len()).unwrap().into();
    frame
}

fn checked(frame: &[u8]) -> Result<TreePage<'_>, FormatError> {
    let PageView::Tree(page) = PageView::parse(frame)? else { panic!("not an ordered page") };
    page.check()?;
    Ok(page)
}

#[track_caller]
fn is_corrupt(frame: &[u8], wrong: &str) {
    match checked(frame) {
        Err(FormatError::Corrupt { what, .. }) => assert_eq!(what, wrong),
        other => panic!("{other:?}"),
    }
}

#[test]
fn entries_are_read_back_in_order() {
    let frame = page(256, b"pre", &[(b"", b"1"), (b"a", b""), (b"abcdef", b"333")]);
    let page = checked(&frame).unwrap();
    let keys: Vec<_> = page.entries().map(|entry| [entry.key.prefix, entry.key.rest].concat()).collect();
    assert_eq!(keys, [b"pre".as_slice(), b"prea", b"preabcdef"]);
    assert_eq!(page.entry(2).unwrap().value, Content::Inline(b"333"));
    assert_eq!(page.slots()[2].head.get(), 0x6162_6364);
    assert!(page.entry(3).is_none());
}

#[test]
fn a_long_key_is_part_in_the_page_and_part_in_a_chain() {
    let inline_max = tree_key_len_max(256);
    let reference = OverflowRef { first_lpn: 7.into(), len: 900.into(), digest: 0.into() };
    let rest = vec![9_u8; inline_max - 3];
    let key = [rest.as_slice(), reference.as_bytes()].concat();
    let mut frame = page(256, b"pre", &[(&key, b"v")]);
    frame[64 + 3] |= 0x80;
    let entry = checked(&frame).unwrap().entry(0).unwrap();
    assert_eq!(entry.key, TreeKey { prefix: b"pre", rest: &rest, chain: Some(reference) });
    assert_eq!((entry.key.len(), entry.value), (inline_max + 900, Content::Inline(b"v".as_slice())));
    let short = page(256, b"pre", &[(&key[1..], b"v")]);
    let mut short = short;
    short[64 + 3] |= 0x80;
    is_corrupt(&short, "length of a long key in the page");
}

#[test]
fn keys_out_of_order_are_corrupt() {
    is_corrupt(&page(256, b"", &[(b"b", b""), (b"a", b"")]), "order of an ordered page");
    is_corrupt(&page(256, b"", &[(b"a", b""), (b"a", b"")]), "order of an ordered page");
    is_corrupt(&page(256, b"", &[(b"a\0", b""), (b"a", b"")]), "order of an ordered page");
    checked(&page(256, b"", &[(b"a", b""), (b"a\0", b""), (b"a\0\0\0\0\0", b""), (b"b", b"")])).unwrap();
}

#[test]
fn heads_and_hints_must_be_those_of_the_keys() {
    let keys: Vec<[u8; 4]> = (0..40_u32).map(|number| (number * 3).swap_bytes().to_le_bytes()).collect();
    let entries: Vec<(&[u8], &[u8])> = keys.iter().map(|key| (key.as_slice(), b"v".as_slice())).collect();
    let frame = page(1024, b"", &entries);
    let page = checked(&frame).unwrap();
    assert_eq!(page.hints()[0], page.slots()[2].head);
    let mut hint = frame.clone();
    hint[64 + 8] ^= 1;
    is_corrupt(&hint, "hint");
    let mut head = frame;
    head[128 + 8 * 7 + 4] ^= 1;
    is_corrupt(&head, "head of a key");
}

#[test]
fn an_inner_page_names_its_children() {
    let child = |lpn: u32| lpn.to_le_bytes();
    let mut frame = page(256, b"", &[(b"g", &child(5)), (b"p", &child(6))]);
    let (header, _) = PageHeader::mut_from_prefix(&mut frame).unwrap();
    header.page_type = PAGE_TYPE_INNER.into();
    header.local_depth = 1;
    header.left_lpn = 4.into();
    let page = checked(&frame).unwrap();
    assert_eq!([0, 1, 2, 3].map(|index| page.child(index)), [Some(4), Some(5), Some(6), None]);
    frame[40..44].copy_from_slice(&NO_PAGE.to_le_bytes());
    is_corrupt(&frame, "first child of an ordered page");
    frame[40..44].copy_from_slice(&child(4));
    let value = frame.len() - 4;
    frame[value..].copy_from_slice(&child(0));
    is_corrupt(&frame, "child of an ordered page");
}

#[test]
fn no_byte_of_an_ordered_page_makes_the_view_panic() {
    for page_type in [PAGE_TYPE_LEAF, PAGE_TYPE_INNER] {
        let mut frame = page(256, b"pre", &[(b"", b"1234"), (b"a", b"5678"), (b"abcdef", b"9abc")]);
        frame[..2].copy_from_slice(&page_type.to_le_bytes());
        if page_type == PAGE_TYPE_INNER {
            (frame[10], frame[40]) = (1, 9);
        }
        checked(&frame).unwrap();
        for at in 0..frame.len() {
            for value in 0..=255 {
                let mut frame = frame.clone();
                frame[at] = value;
                let Ok(PageView::Tree(page)) = PageView::parse(&frame) else { continue };
                let is_sound = page.check().is_ok();
                let count = page.entries().count();
                assert!(count <= page.slots().len() && (!is_sound || count == page.slots().len()));
                assert!((0..=count + 1).filter_map(|index| page.child(index)).count() <= count + 1);
            }
        }
    }
}

#[test]
fn two_entries_fit_whatever_their_size() {
    for frame_size in [256, 512, 1024, 4096, 16384] {
        let room = frame_size - tree_slots_offset(frame_size);
        assert!(2 * tree_entry_len_max(frame_size) <= room);
        let longest = TREE_ENTRY_LEN_MIN + tree_key_len_max(frame_size) + 2 * OverflowRef::LEN;
        assert_eq!(longest, tree_entry_len_max(frame_size));
    }
}

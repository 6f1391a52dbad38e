use super::*;
use std::vec;
use std::vec::Vec;
use zerocopy::IntoBytes;

/// A hash page of 256 bytes with one record.
fn page_with_one_record() -> Vec<u8> {
    let mut frame = vec![0; 256];
    let mut header = PageHeader::new_zeroed_for_tests();
    header.n_slots = U16::new(8);
    header.n_used = U16::new(1);
    header.heap_top = U16::new(256 - 12);
    frame[..64].copy_from_slice(header.as_bytes());
    frame[64 + 3] = 9 | TAG_DIRTY;
    frame[72..80].fill(TAG_PADDING);
    frame[80 + 6..80 + 8].copy_from_slice(&244_u16.to_le_bytes());
    frame[244..].copy_from_slice(b"\x03\0\x05\0keyvalue");
    frame
}

impl PageHeader {
    fn new_zeroed_for_tests() -> Self {
        let mut header = Self::read_from_bytes(&[0; 64]).unwrap();
        header.page_type = U16::new(PAGE_TYPE_HASH);
        header.format = PAGE_FORMAT;
        header.frame_size_log2 = 8;
        header
    }
}

fn only_record(frame: &[u8]) -> Result<Record<'_>, FormatError> {
    let PageView::Hash(page) = PageView::parse(frame)? else { panic!("not a hash page") };
    page.check()?;
    let mut records = page.records();
    let record = records.next().unwrap()?;
    assert!(records.next().is_none());
    Ok(record)
}

#[test]
fn a_record_is_read_back() {
    let frame = page_with_one_record();
    let record = only_record(&frame).unwrap();
    assert_eq!((record.slot, record.fingerprint, record.dirty), (3, 9, true));
    assert_eq!(record.key, Content::Inline(b"key"));
    assert_eq!(record.value, Content::Inline(b"value"));
}

#[test]
fn an_overflow_reference_is_read_back() {
    let mut frame = page_with_one_record();
    let reference = OverflowRef { first_lpn: U32::new(7), len: U32::new(5000), digest: U64::new(0) };
    let top = 256 - 4 - 3 - 16;
    frame[36] = 233;
    frame[86] = 233;
    frame[top..top + 7].copy_from_slice(b"\x03\0\x10\x80key");
    frame[top + 7..].copy_from_slice(reference.as_bytes());
    assert_eq!(only_record(&frame).unwrap().value, Content::Overflow(reference));
}

#[test]
fn a_record_below_the_top_is_corrupt() {
    let mut frame = page_with_one_record();
    frame[86] = 200;
    assert!(matches!(only_record(&frame), Err(FormatError::Corrupt { what: "offset of a record", .. })));
}

#[test]
fn no_byte_of_a_page_makes_the_view_panic() {
    let frame = page_with_one_record();
    for at in 0..frame.len() {
        for value in 0..=255 {
            let mut frame = frame.clone();
            frame[at] = value;
            if let Ok(PageView::Hash(page)) = PageView::parse(&frame) {
                assert!(page.records().count() <= 88);
            }
        }
    }
}

#[test]
fn a_newer_page_is_unsupported_not_corrupt() {
    let mut frame = page_with_one_record();
    frame[2] = PAGE_FORMAT + 1;
    let error = PageView::parse(&frame).unwrap_err();
    assert_eq!(error, FormatError::Unsupported { what: "page format", value: 2 });
}

#[test]
fn an_overflow_page_gives_its_bytes_and_successor() {
    let mut frame = vec![0; 256];
    let mut header = PageHeader::new_zeroed_for_tests();
    header.page_type = U16::new(PAGE_TYPE_OVERFLOW);
    frame[..64].copy_from_slice(header.as_bytes());
    frame[64..75].copy_from_slice(b"\x09\0\0\0\x03\0\0\0abc");
    let PageView::Overflow(page) = PageView::parse(&frame).unwrap() else { panic!("not an overflow page") };
    assert_eq!((page.next_lpn(), page.bytes()), (Some(9), b"abc".as_slice()));
    frame[68] = 185;
    assert!(PageView::parse(&frame).is_err());
}

#[test]
fn fingerprints_are_never_empty_nor_padding() {
    for bits in 0..=u64::from(u8::MAX) {
        assert!((1..=FINGERPRINT_MAX).contains(&fingerprint(bits << 32)));
    }
}

#[test]
fn layouts_have_no_gaps() {
    for layout in crate::format::LAYOUTS {
        let end = layout.fields.iter().fold(0, |end, field| {
            assert_eq!(field.offset, end, "{}.{}", layout.name, field.name);
            end + field.size
        });
        assert_eq!(end, layout.size, "{}", layout.name);
    }
}

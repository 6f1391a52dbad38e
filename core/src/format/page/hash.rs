use zerocopy::FromBytes;
use zerocopy::little_endian::U16;

use super::super::error::{FormatError, corrupt, expect_eq, expect_within};
use super::{
    FINGERPRINT_MAX, KEY_LEN_MAX, LEN_MASK, LEN_OVERFLOW, NO_PAGE, OverflowRef, PAGE_TYPE_HASH_FIXED,
    PageHeader, RecordHead, TAG_DIRTY, TAG_EMPTY, TAG_MASK, TAG_PADDING, TAGS_OFFSET, VALUE_LEN_MAX,
    offs_offset, records_offset_min, tags_len,
};

/// A hash page of either type: `n_slots` slots, each empty or holding a record.
#[derive(Clone, Copy, Debug)]
pub struct HashPage<'a> {
    frame: &'a [u8],
    header: &'a PageHeader,
    /// One for each slot, then the padding.
    tags: &'a [u8],
    slots: Slots<'a>,
}

/// Where the records are.
#[derive(Clone, Copy, Debug)]
enum Slots<'a> {
    /// Where these offsets say, one for each slot.
    Offsets(&'a [U16]),
    /// In the slots themselves, each of so many bytes, the first of which are the key.
    Fixed { bytes: &'a [u8], stride: usize, key_width: usize },
}

/// A key or a value, or where it lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content<'a> {
    /// The bytes themselves.
    Inline(&'a [u8]),
    /// A chain of overflow pages of the same state and key group.
    Overflow(OverflowRef),
}

/// A record of a hash page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// The slot it is in.
    pub slot: u16,
    /// Its fingerprint.
    pub fingerprint: u8,
    /// Whether it changed since the page's `delta_base`.
    pub dirty: bool,
    /// The key.
    pub key: Content<'a>,
    /// The value.
    pub value: Content<'a>,
}

impl Record<'_> {
    /// Bytes that a record of any size takes in the page.
    #[must_use]
    pub const fn len_in_page(&self) -> usize {
        RecordHead::LEN.saturating_add(self.key.len_in_page()).saturating_add(self.value.len_in_page())
    }
}

impl Content<'_> {
    /// Length of the key or value itself.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "an empty key is a key like any other")]
    pub const fn len(&self) -> usize {
        match self {
            Self::Inline(bytes) => bytes.len(),
            Self::Overflow(reference) => reference.len.get() as usize,
        }
    }

    pub(super) const fn len_in_page(&self) -> usize {
        match self {
            Self::Inline(bytes) => bytes.len(),
            Self::Overflow(_) => OverflowRef::LEN,
        }
    }
}

impl<'a> HashPage<'a> {
    pub(super) fn parse(frame: &'a [u8], header: &'a PageHeader) -> Result<Self, FormatError> {
        expect_within("slots", 4, (1, frame.len() as u64), u64::from(header.n_slots.get()))?;
        let depth = u32::from(header.local_depth);
        expect_within("local depth", 10, (0, 64), u64::from(depth))?;
        let beyond_prefix = u64::MAX.checked_shr(depth).unwrap_or(0);
        expect_eq("hash bits beyond the prefix", 16, 0, header.hash_prefix.get() & beyond_prefix)?;

        let (tags, slots) = if header.page_type.get() == PAGE_TYPE_HASH_FIXED {
            Self::fixed_slots(frame, header)?
        } else {
            Self::offsets(frame, header)?
        };
        let page = Self { frame, header, tags, slots };
        page.check_tags()?;
        Ok(page)
    }

    fn offsets(frame: &'a [u8], header: &PageHeader) -> Result<(&'a [u8], Slots<'a>), FormatError> {
        let count = usize::from(header.n_slots.get());
        let records_min = records_offset_min(count);
        let top = u64::from(header.heap_top.get());
        let (tags, behind) = split_tags(frame, count, records_min)?;
        expect_within("top of the records", 36, (records_min as u64, frame.len() as u64), top)?;
        match <[U16]>::ref_from_prefix_with_elems(behind, count) {
            Ok((offsets, _)) => Ok((tags, Slots::Offsets(offsets))),
            Err(_) => Err(corrupt("end of the slots", 4, frame.len() as u64, records_min as u64)),
        }
    }

    fn fixed_slots(frame: &'a [u8], header: &PageHeader) -> Result<(&'a [u8], Slots<'a>), FormatError> {
        let (count, stride) = (usize::from(header.n_slots.get()), usize::from(header.stride.get()));
        let (key_width, len) = (usize::from(header.key_width.get()), count.saturating_mul(stride));
        expect_within("width of keys", 54, (0, stride as u64), key_width as u64)?;
        expect_eq("top of the records", 36, 0, header.heap_top.get().into())?;
        expect_eq("garbage", 38, 0, header.garbage.get().into())?;
        let end = offs_offset(count).saturating_add(len);
        let (tags, behind) = split_tags(frame, count, end)?;
        let bytes = behind.get(..len).unwrap_or_default();
        Ok((tags, Slots::Fixed { bytes, stride, key_width }))
    }

    fn check_tags(&self) -> Result<(), FormatError> {
        let slots = usize::from(self.header.n_slots.get());
        let (tags, padding) = self.tags.split_at_checked(slots).unwrap_or((self.tags, &[]));
        // Without a branch for each tag, as a restore does this for every page.
        let is_high = |tag: &u8| tag & TAG_MASK > FINGERPRINT_MAX;
        if tags.iter().fold(false, |any, tag| any | is_high(tag)) {
            let high = tags.iter().zip(TAGS_OFFSET..).find(|(tag, _)| is_high(tag));
            let (tag, at) = high.map_or((TAG_PADDING, TAGS_OFFSET), |(tag, at)| (*tag, at));
            return Err(corrupt("fingerprint", at, FINGERPRINT_MAX.into(), (tag & TAG_MASK).into()));
        }
        for (tag, at) in padding.iter().zip(TAGS_OFFSET.saturating_add(slots)..) {
            expect_eq("padding tag", at, u64::from(TAG_PADDING), u64::from(*tag))?;
        }
        let used: u64 = tags.chunks(usize::from(u8::MAX)).map(used_of).sum();
        expect_eq("slots in use", 6, used, u64::from(self.header.n_used.get()))
    }

    /// The header.
    #[must_use]
    pub const fn header(&self) -> &'a PageHeader {
        self.header
    }

    /// The records in the order of their slots.
    #[must_use]
    pub const fn records(&self) -> Records<'a> {
        Records { page: *self, slot: 0 }
    }

    /// Checks every record, and that records of any size and the garbage account for every byte above `heap_top`.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn check(&self) -> Result<(), FormatError> {
        if let Slots::Fixed { .. } = self.slots {
            return Ok(());
        }
        let mut taken = usize::from(self.header.garbage.get());
        for record in self.records() {
            taken = taken.saturating_add(record?.len_in_page());
        }
        let room = self.frame.len().saturating_sub(usize::from(self.header.heap_top.get()));
        expect_eq("bytes of records and garbage", 36, room as u64, taken as u64)
    }

    fn record(&self, slot: u16, tag: u8) -> Option<Result<Record<'a>, FormatError>> {
        let index = usize::from(slot);
        match self.slots {
            Slots::Offsets(offsets) => {
                let offset = offsets.get(index)?.get();
                Some(self.record_at(slot, tag, usize::from(offset)))
            }
            Slots::Fixed { bytes, stride, key_width } => {
                let record = bytes.get(index.checked_mul(stride)?..)?.get(..stride)?;
                let (key, value) = record.split_at_checked(key_width)?;
                let (key, value) = (Content::Inline(key), Content::Inline(value));
                Some(Ok(Record {
                    slot,
                    fingerprint: tag & TAG_MASK,
                    dirty: tag & TAG_DIRTY != 0,
                    key,
                    value,
                }))
            }
        }
    }

    fn record_at(&self, slot: u16, tag: u8, offset: usize) -> Result<Record<'a>, FormatError> {
        let top = u64::from(self.header.heap_top.get());
        expect_within("offset of a record", offset, (top, self.frame.len() as u64), offset as u64)?;
        let cut = || corrupt("end of a record", offset, self.frame.len() as u64, u64::MAX);
        let bytes = self.frame.get(offset..).ok_or_else(cut)?;
        let (head, bytes) = RecordHead::ref_from_prefix(bytes).map_err(|_| cut())?;
        let (key, bytes) = content(head.key_len.get(), bytes, offset, KEY_LEN_MAX)?;
        let (value, _) = content(head.value_len.get(), bytes, offset, VALUE_LEN_MAX)?;
        if let Content::Overflow(reference) = value {
            expect_within("digest of a value", offset, (0, u32::MAX.into()), reference.digest.get())?;
        }
        Ok(Record { slot, fingerprint: tag & TAG_MASK, dirty: tag & TAG_DIRTY != 0, key, value })
    }
}

/// Slots in use among 255 at most, so that they can be counted in bytes, many at once.
fn used_of(tags: &[u8]) -> u64 {
    let count = |used: u8, tag: &u8| used.wrapping_add(u8::from(tag & TAG_MASK != TAG_EMPTY));
    tags.iter().fold(0, count).into()
}

/// The tags of so many slots, and what stands behind them; the slots end at `end`.
fn split_tags(frame: &[u8], slots: usize, end: usize) -> Result<(&[u8], &[u8]), FormatError> {
    expect_within("end of the slots", 4, (0, frame.len() as u64), end as u64)?;
    let tagged = frame.get(TAGS_OFFSET..).and_then(|behind| behind.split_at_checked(tags_len(slots)));
    tagged.ok_or_else(|| corrupt("end of the slots", 4, frame.len() as u64, end as u64))
}

/// Takes a key or a value off the front of `bytes`. `offset` is that of the record, for errors.
fn content(
    len_and_flag: u16,
    bytes: &[u8],
    offset: usize,
    len_max: usize,
) -> Result<(Content<'_>, &[u8]), FormatError> {
    let len = usize::from(len_and_flag & LEN_MASK);
    let Some((content, rest)) = bytes.split_at_checked(len) else {
        return Err(corrupt("end of a record", offset, bytes.len() as u64, len as u64));
    };
    if len_and_flag & LEN_OVERFLOW == 0 {
        return Ok((Content::Inline(content), rest));
    }
    let Ok(reference) = OverflowRef::read_from_bytes(content) else {
        return Err(corrupt("length of an overflow reference", offset, OverflowRef::LEN as u64, len as u64));
    };
    let len = u64::from(reference.len.get());
    expect_within("length of an overflow chain", offset, (1, len_max as u64), len)?;
    if reference.first_lpn.get() == NO_PAGE {
        return Err(corrupt("first page of an overflow chain", offset, 0, u64::from(NO_PAGE)));
    }
    Ok((Content::Overflow(reference), rest))
}

/// Iterator over the records of a hash page.
#[derive(Clone, Debug)]
pub struct Records<'a> {
    page: HashPage<'a>,
    slot: u16,
}

impl<'a> Iterator for Records<'a> {
    type Item = Result<Record<'a>, FormatError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let slot = self.slot;
            let tag = *self.page.tags.get(usize::from(slot))?;
            if slot >= self.page.header.n_slots.get() {
                return None;
            }
            self.slot = slot.saturating_add(1);
            if tag & TAG_MASK != TAG_EMPTY {
                return self.page.record(slot, tag);
            }
        }
    }
}

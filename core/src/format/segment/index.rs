use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, IntoBytes};

use super::super::checksum::{Checksum, Identity, PART_INDEX};
use super::super::error::{FormatError, corrupt, expect_eq, expect_within};
use super::super::layout::layout;
use super::super::page::{
    PAGE_TYPE_HASH, PAGE_TYPE_HASH_FIXED, PAGE_TYPE_INNER, PAGE_TYPE_LEAF, PAGE_TYPE_OVERFLOW,
};
use super::super::sink::Sink;
use super::{EncodeError, KeyGroupRow, SegmentHeader};

layout! {
    /// Begins the pages of one state in the index of a key group; its rows follow.
    pub struct SectionHead {
        /// The state.
        pub state_id: U16,
        /// Leading bits of the hash that the state's directory of this key group uses; of an ordered state the level
        /// of the root.
        pub depth: u8,
        /// 0.
        pub reserved: u8,
        /// Rows that follow, at least one.
        pub row_count: U32,
        /// Entries of the state in this key group.
        pub entry_count: U64,
        /// An lpn above all that are in use.
        pub next_lpn: U32,
        /// Root of the tree of an ordered state; 0 for one found by hash.
        pub root_lpn: U32,
    }
}

layout! {
    /// A page and where its frame lies. Rows ascend by lpn.
    pub struct IndexRow {
        /// The page.
        pub lpn: U32,
        /// Its local depth, or of an ordered page its level; 0 for an overflow page.
        pub depth: u8,
        /// Its page type.
        pub kind: u8,
        /// None is defined: 0.
        pub flags: U16,
        /// Which file, as the footer numbers them: 0, this one.
        pub file_no: U32,
        /// Which frame of the file.
        pub frame_no: U32,
        /// Checksum of the frame.
        pub checksum: U32,
    }
}

/// The pages of one state in one key group.
#[derive(Clone, Copy, Debug)]
pub struct Section<'a> {
    /// What they have in common.
    pub head: &'a SectionHead,
    /// The pages, ascending by lpn.
    pub rows: &'a [IndexRow],
}

/// The index of one key group: sections, ascending by state.
#[derive(Clone, Copy, Debug)]
pub struct IndexView<'a> {
    bytes: &'a [u8],
}

impl<'a> IndexView<'a> {
    /// Checks the index that the footer's `row` speaks of, all of it: checksum, order, ranges.
    ///
    /// That each frame of the key group has exactly one row, the caller checks: rows are as many as frames
    /// (checked here), and what is left is to see that none occurs twice.
    ///
    /// # Errors
    /// `Corrupt`, or `Unsupported` for kinds of pages and references this build cannot read. Offsets are
    /// those in the file.
    pub fn parse(bytes: &'a [u8], header: &SegmentHeader, row: &KeyGroupRow) -> Result<Self, FormatError> {
        Self::check(bytes, header, row).map_err(|error| error.within(row.index_offset.get()))?;
        Ok(Self { bytes })
    }

    fn check(bytes: &'a [u8], header: &SegmentHeader, row: &KeyGroupRow) -> Result<(), FormatError> {
        expect_eq("length of an index", 0, u64::from(row.index_len.get()), bytes.len() as u64)?;
        let identity = header.identity(PART_INDEX).of_key_group(row.key_group.get());
        let found = identity.checksum(bytes);
        expect_eq("checksum of an index", 0, u64::from(row.index_checksum.get()), u64::from(found))?;

        let mut rest = bytes;
        let mut states_from = 0_u64;
        let (mut sections, mut frames) = (0_u64, 0_u64);
        while !rest.is_empty() {
            let at = bytes.len().saturating_sub(rest.len());
            let (section, behind) = split_section(rest, at)?;
            section.check(at, row)?;
            let state = u64::from(section.head.state_id.get());
            expect_within("order of states in an index", at, (states_from, u16::MAX.into()), state)?;
            states_from = state.saturating_add(1);
            sections = sections.saturating_add(1);
            frames = frames.saturating_add(section.rows.len() as u64);
            rest = behind;
        }
        expect_eq("sections of an index", 0, u64::from(row.section_count.get()), sections)?;
        expect_eq("rows of an index", 0, u64::from(row.frame_count.get()), frames)
    }

    /// The sections.
    #[must_use]
    pub const fn sections(&self) -> Sections<'a> {
        Sections { rest: self.bytes }
    }
}

impl Section<'_> {
    fn check(&self, at: usize, row: &KeyGroupRow) -> Result<(), FormatError> {
        expect_within("depth", at, (0, 64), u64::from(self.head.depth))?;
        expect_eq("reserved byte of a section", at, 0, u64::from(self.head.reserved))?;
        let root = self.head.root_lpn.get();
        if root != 0 && self.rows.binary_search_by_key(&root, |entry| entry.lpn.get()).is_err() {
            return Err(corrupt("root of a section", at, 0, root.into()));
        }
        expect_within("rows of a section", at, (1, u32::MAX.into()), self.rows.len() as u64)?;
        let mut lpns_from = 0_u64;
        let row_starts = (at.saturating_add(SectionHead::LEN)..).step_by(IndexRow::LEN);
        let lpns_to = u64::from(self.head.next_lpn.get());
        for (entry, at) in self.rows.iter().zip(row_starts) {
            entry.check(at, row, self.head.depth)?;
            let lpn = u64::from(entry.lpn.get());
            expect_within("lpn in an index", at, (lpns_from, lpns_to.saturating_sub(1)), lpn)?;
            lpns_from = lpn.saturating_add(1);
        }
        Ok(())
    }
}

impl IndexRow {
    fn check(&self, at: usize, row: &KeyGroupRow, depth_max: u8) -> Result<(), FormatError> {
        if self.file_no.get() != 0 {
            return Err(FormatError::Unsupported {
                what: "file reference",
                value: self.file_no.get().into(),
            });
        }
        let depth_max = match u16::from(self.kind) {
            PAGE_TYPE_HASH_FIXED | PAGE_TYPE_HASH | PAGE_TYPE_INNER => depth_max,
            PAGE_TYPE_LEAF | PAGE_TYPE_OVERFLOW => 0,
            other => return Err(FormatError::Unsupported { what: "kind of page", value: other.into() }),
        };
        expect_within("local depth in an index", at, (0, depth_max.into()), self.depth.into())?;
        expect_eq("flags in an index", at, 0, u64::from(self.flags.get()))?;
        let first = u64::from(row.first_frame.get());
        let last = first.saturating_add(u64::from(row.frame_count.get())).saturating_sub(1);
        expect_within("frame of a page", at, (first, last), u64::from(self.frame_no.get()))
    }
}

fn split_section(bytes: &[u8], at: usize) -> Result<(Section<'_>, &[u8]), FormatError> {
    let cut = |needed: usize| corrupt("length of a section", at, needed as u64, bytes.len() as u64);
    let Ok((head, rest)) = SectionHead::ref_from_prefix(bytes) else {
        return Err(cut(SectionHead::LEN));
    };
    let count = head.row_count.get() as usize;
    let Ok((rows, rest)) = <[IndexRow]>::ref_from_prefix_with_elems(rest, count) else {
        return Err(cut(count.saturating_mul(IndexRow::LEN)));
    };
    Ok((Section { head, rows }, rest))
}

/// Iterator over the sections of an index.
#[derive(Clone, Debug)]
pub struct Sections<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for Sections<'a> {
    type Item = Section<'a>;

    fn next(&mut self) -> Option<Section<'a>> {
        let (section, rest) = split_section(self.rest, 0).ok()?;
        self.rest = rest;
        Some(section)
    }
}

/// Writes the index of one key group.
#[derive(Debug)]
pub struct IndexEncoder<S> {
    sink: S,
    checksum: Checksum,
    len: u64,
    states_from: u32,
    sections: u16,
}

impl<S: Sink> IndexEncoder<S> {
    /// Of `key_group` in the segment `header`.
    #[must_use]
    pub fn new(sink: S, header: &SegmentHeader, key_group: u16) -> Self {
        let identity: Identity = header.identity(PART_INDEX).of_key_group(key_group);
        Self { sink, checksum: Checksum::new(&identity), len: 0, states_from: 0, sections: 0 }
    }

    /// Writes the pages of a state. States ascend, and so do the lpns in `rows`.
    ///
    /// # Errors
    /// The order is wrong, or the sink fails.
    pub fn section(&mut self, mut head: SectionHead, rows: &[IndexRow]) -> Result<(), EncodeError<S::Error>> {
        let state = u32::from(head.state_id.get());
        if state < self.states_from {
            return Err(EncodeError::WrongOrder { what: "states of an index ascend" });
        }
        if rows.is_empty() {
            return Err(EncodeError::WrongOrder { what: "a state without pages has no section" });
        }
        if !rows.is_sorted_by(|row, next| row.lpn.get() < next.lpn.get()) {
            return Err(EncodeError::WrongOrder { what: "rows of a section ascend" });
        }
        let count = u32::try_from(rows.len())
            .map_err(|_| EncodeError::TooLong { what: "section", len_max: u64::from(u32::MAX) })?;
        head.row_count = U32::new(count);
        self.states_from = state.saturating_add(1);
        self.sections = self.sections.saturating_add(1);
        self.write(head.as_bytes())?;
        self.write(rows.as_bytes())
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), EncodeError<S::Error>> {
        self.checksum.update(bytes);
        self.len = self.len.saturating_add(bytes.len() as u64);
        self.sink.write(bytes).map_err(EncodeError::Sink)
    }

    /// Puts what the footer must say of this index into `row`: length, checksum, number of sections.
    ///
    /// # Errors
    /// The index is longer than 4 GiB.
    pub fn finish(self, row: &mut KeyGroupRow) -> Result<(), EncodeError<S::Error>> {
        let len_max = u64::from(u32::MAX);
        let len = u32::try_from(self.len).map_err(|_| EncodeError::TooLong { what: "index", len_max })?;
        row.index_len = U32::new(len);
        row.index_checksum = U32::new(self.checksum.get());
        row.section_count = U16::new(self.sections);
        Ok(())
    }
}

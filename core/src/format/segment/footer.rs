use core::str;

use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, IntoBytes};

use super::super::checksum::PART_FOOTER;
use super::super::error::{FormatError, corrupt, expect_eq, expect_within};
use super::super::layout::layout;
use super::{Compression, Distribution, SegmentHeader, SegmentTrailer};
use crate::key_group::KeyGroup;

mod encode;

pub use encode::{Footer, FooterEncoder};

layout! {
    /// The start of the footer. The key groups' rows follow, then the states.
    pub struct FooterHead {
        /// Checksum in the segment's header.
        pub header_checksum: U32,
        /// Key groups that have pages.
        pub key_group_count: U32,
        /// States.
        pub state_count: U32,
        /// Other files that the index rows refer to: 0.
        pub file_count: U32,
        /// Frames in this file.
        pub frame_count: U64,
        /// Bytes of all indexes.
        pub index_len: U64,
        /// Entries of all states.
        pub entry_count: U64,
        /// Bytes in which the frames are stored.
        pub data_len: U64,
    }
}

layout! {
    /// Where a key group lies. Rows ascend by key group; frames and indexes lie in the same order, without gaps.
    /// The last one may be of [`KeyGroup::NONE`]: there lie the states that are not kept by key.
    pub struct KeyGroupRow {
        /// The key group.
        pub key_group: U16,
        /// States that have pages in it.
        pub section_count: U16,
        /// Length of its index.
        pub index_len: U32,
        /// Where its index begins in the file.
        pub index_offset: U64,
        /// Where its frames, or the chunks of them, begin in the file.
        pub data_offset: U64,
        /// Bytes in which they are stored.
        pub data_len: U64,
        /// Its first frame.
        pub first_frame: U32,
        /// Its frames.
        pub frame_count: U32,
        /// Checksum of its index.
        pub index_checksum: U32,
        /// Deltas on top: 0.
        pub delta_count: U32,
    }
}

layout! {
    /// A state of the registry. Operator, state, key codec and value codec follow by name, in UTF-8.
    pub struct StateHead {
        /// The number that pages and indexes use. States ascend by it.
        pub state_id: U16,
        /// How its entries are found: [`STATE_KIND_HASH`] or [`STATE_KIND_ORDERED`].
        pub kind: u8,
        /// Who gets its entries in a restore: the number of a [`Distribution`].
        pub distribution: u8,
        /// Length of the operator's name.
        pub operator_len: U16,
        /// Length of the state's name.
        pub state_len: U16,
        /// Length of the key codec's name.
        pub key_codec_len: U16,
        /// Version of the key codec.
        pub key_codec_version: U16,
        /// Length of the value codec's name.
        pub value_codec_len: U16,
        /// Version of the value codec.
        pub value_codec_version: U16,
        /// Length of every key in bytes, or [`WIDTH_ANY`].
        pub key_width: U16,
        /// Length of every value in bytes, or [`WIDTH_ANY`].
        pub value_width: U16,
        /// Entries in all key groups of the segment.
        pub entry_count: U64,
    }
}

/// [`StateHead::kind`] of a state in hash pages.
pub const STATE_KIND_HASH: u8 = 0;
/// [`StateHead::kind`] of a state in ordered pages.
pub const STATE_KIND_ORDERED: u8 = 1;
/// The width of keys or values that may have any length.
pub const WIDTH_ANY: u16 = u16::MAX;

/// A state of the registry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StateEntry<'a> {
    /// The number that pages and indexes use.
    pub state_id: u16,
    /// How its entries are found.
    pub kind: u8,
    /// Who gets its entries in a restore.
    pub distribution: Distribution,
    /// The operator.
    pub operator: &'a str,
    /// The state.
    pub state: &'a str,
    /// Name of the key codec.
    pub key_codec: &'a str,
    /// Version of the key codec.
    pub key_codec_version: u16,
    /// Name of the value codec.
    pub value_codec: &'a str,
    /// Version of the value codec.
    pub value_codec_version: u16,
    /// Length of every key in bytes, if all have the same.
    pub key_width: Option<u16>,
    /// Length of every value in bytes, if all have the same.
    pub value_width: Option<u16>,
    /// Entries in all key groups of the segment.
    pub entry_count: u64,
}

/// The footer's counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FooterTotals {
    /// Key groups that have pages.
    pub key_group_count: u32,
    /// States.
    pub state_count: u32,
    /// Frames in this file.
    pub frame_count: u64,
    /// Bytes in which they are stored.
    pub data_len: u64,
    /// Bytes of all indexes.
    pub index_len: u64,
    /// Entries of all states.
    pub entry_count: u64,
}

/// A footer, all of it checked against the header and the trailer.
#[derive(Clone, Copy, Debug)]
pub struct FooterView<'a> {
    head: &'a FooterHead,
    key_groups: &'a [KeyGroupRow],
    states: &'a [u8],
}

impl<'a> FooterView<'a> {
    /// Checks the footer `bytes`: its checksum, and that frames, indexes, footer and trailer lie in order
    /// without gaps, so that every byte of the file belongs to something.
    ///
    /// # Errors
    /// `Corrupt`, or `Unsupported` for references to other files. Offsets are those in the file.
    pub fn parse(
        bytes: &'a [u8],
        header: &SegmentHeader,
        trailer: &SegmentTrailer,
    ) -> Result<Self, FormatError> {
        Self::check(bytes, header, trailer).map_err(|error| error.within(trailer.footer_offset))
    }

    fn check(bytes: &'a [u8], header: &SegmentHeader, trailer: &SegmentTrailer) -> Result<Self, FormatError> {
        expect_eq("length of the footer", 0, trailer.footer_len, bytes.len() as u64)?;
        if header.file_id != trailer.file_id {
            let low =
                |id: u128| u64::from_le_bytes(id.to_le_bytes().first_chunk().copied().unwrap_or([0; 8]));
            return Err(corrupt("file id of the trailer", 0, low(header.file_id), low(trailer.file_id)));
        }
        let found = header.identity(PART_FOOTER).checksum(bytes);
        expect_eq("checksum of the footer", 0, u64::from(trailer.footer_checksum), u64::from(found))?;
        let cut = || corrupt("length of the footer", 0, FooterHead::LEN as u64, bytes.len() as u64);
        let (head, rest) = FooterHead::ref_from_prefix(bytes).map_err(|_| cut())?;
        let count = head.key_group_count.get() as usize;
        let (key_groups, states) =
            <[KeyGroupRow]>::ref_from_prefix_with_elems(rest, count).map_err(|_| cut())?;
        let footer = Self { head, key_groups, states };
        footer.check_head(header)?;
        footer.check_key_groups(header)?;
        footer.check_states()?;
        footer.check_places(header, trailer)?;
        Ok(footer)
    }

    fn check_head(&self, header: &SegmentHeader) -> Result<(), FormatError> {
        let of_header = header.encode().checksum.get();
        expect_eq("checksum of the header", 0, u64::from(of_header), self.head.header_checksum.get().into())?;
        match self.head.file_count.get() {
            0 => Ok(()),
            count => Err(FormatError::Unsupported { what: "number of other files", value: count.into() }),
        }
    }

    fn check_key_groups(&self, header: &SegmentHeader) -> Result<(), FormatError> {
        let last = u64::from(header.key_groups.last.0);
        let mut groups_from = u64::from(header.key_groups.first.0);
        let mut frames = 0_u64;
        let mut data_end = header.block_size();
        let mut index_end = data_end.saturating_add(self.head.data_len.get());
        for (row, at) in self.key_groups.iter().zip((FooterHead::LEN..).step_by(KeyGroupRow::LEN)) {
            if row.delta_count.get() != 0 {
                let value = u64::from(row.delta_count.get());
                return Err(FormatError::Unsupported { what: "number of deltas", value });
            }
            let group = u64::from(row.key_group.get());
            let last = if row.key_group.get() == KeyGroup::NONE.0 { group } else { last };
            expect_within("key group", at, (groups_from, last), group)?;
            expect_within("frames of a key group", at, (1, u32::MAX.into()), row.frame_count.get().into())?;
            expect_eq("first frame of a key group", at, frames, u64::from(row.first_frame.get()))?;
            expect_eq("place of a key group", at, data_end, row.data_offset.get())?;
            row.check_data_len(header, at)?;
            expect_eq("place of an index", at, index_end, row.index_offset.get())?;
            groups_from = group.saturating_add(1);
            frames = frames.saturating_add(u64::from(row.frame_count.get()));
            data_end = data_end.saturating_add(row.data_len.get());
            index_end = index_end.saturating_add(u64::from(row.index_len.get()));
        }
        expect_eq("frames of the segment", 16, frames, self.head.frame_count.get())?;
        let data_len = data_end.saturating_sub(header.block_size());
        expect_eq("bytes of all frames", 40, data_len, self.head.data_len.get())?;
        let index_len = index_end.saturating_sub(data_end);
        expect_eq("length of the indexes", 24, index_len, self.head.index_len.get())
    }

    fn check_states(&self) -> Result<(), FormatError> {
        let states_at = self.key_groups.as_bytes().len().saturating_add(FooterHead::LEN);
        let mut rest = self.states;
        let (mut ids_from, mut count, mut entries) = (0_u64, 0_u64, 0_u64);
        while !rest.is_empty() {
            let at = states_at.saturating_add(self.states.len().saturating_sub(rest.len()));
            let (state, behind) = split_state(rest, at)?;
            expect_within("order of states", at, (ids_from, u16::MAX.into()), state.state_id.into())?;
            ids_from = u64::from(state.state_id).saturating_add(1);
            count = count.saturating_add(1);
            entries = entries.saturating_add(state.entry_count);
            rest = behind;
        }
        expect_eq("number of states", 8, count, self.head.state_count.get().into())?;
        expect_eq("number of entries", 32, entries, self.head.entry_count.get())
    }

    /// The footer lies behind the indexes, and the file ends with the block that holds the trailer.
    fn check_places(&self, header: &SegmentHeader, trailer: &SegmentTrailer) -> Result<(), FormatError> {
        let data_end = header.block_size().saturating_add(self.head.data_len.get());
        let index_end = data_end.saturating_add(self.head.index_len.get());
        expect_eq("place of the footer", 0, index_end, trailer.footer_offset)?;
        let file_len = SegmentTrailer::file_len(trailer.footer_offset, trailer.footer_len, header);
        expect_eq("length of the file", 0, file_len, trailer.file_len)
    }

    /// The counts.
    #[must_use]
    pub const fn totals(&self) -> FooterTotals {
        FooterTotals {
            key_group_count: self.head.key_group_count.get(),
            state_count: self.head.state_count.get(),
            frame_count: self.head.frame_count.get(),
            data_len: self.head.data_len.get(),
            index_len: self.head.index_len.get(),
            entry_count: self.head.entry_count.get(),
        }
    }

    /// The key groups that have pages, ascending.
    #[must_use]
    pub const fn key_groups(&self) -> &'a [KeyGroupRow] {
        self.key_groups
    }

    /// The states, ascending by number.
    #[must_use]
    pub const fn states(&self) -> States<'a> {
        States { rest: self.states }
    }
}

impl KeyGroupRow {
    /// Frames that are stored as they are take their own length.
    fn check_data_len(&self, header: &SegmentHeader, at: usize) -> Result<(), FormatError> {
        let frames_len = u64::from(self.frame_count.get()).saturating_mul(header.frame_size());
        match header.compression {
            Compression::None => {
                expect_eq("bytes of a key group's frames", at, frames_len, self.data_len.get())
            }
            Compression::Lz4 | Compression::Zstd => Ok(()),
        }
    }
}

/// Iterator over the states of a footer.
#[derive(Clone, Debug)]
pub struct States<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for States<'a> {
    type Item = StateEntry<'a>;

    fn next(&mut self) -> Option<StateEntry<'a>> {
        let (state, rest) = split_state(self.rest, 0).ok()?;
        self.rest = rest;
        Some(state)
    }
}

fn split_state(bytes: &[u8], at: usize) -> Result<(StateEntry<'_>, &[u8]), FormatError> {
    let Ok((head, rest)) = StateHead::ref_from_prefix(bytes) else {
        return Err(corrupt("length of a state", at, StateHead::LEN as u64, bytes.len() as u64));
    };
    if !matches!(head.kind, STATE_KIND_HASH | STATE_KIND_ORDERED) {
        return Err(FormatError::Unsupported { what: "kind of state", value: head.kind.into() });
    }
    let Some(distribution) = Distribution::from_number(head.distribution) else {
        return Err(FormatError::Unsupported {
            what: "distribution of a state",
            value: head.distribution.into(),
        });
    };
    if distribution != Distribution::ByKey && head.kind != STATE_KIND_HASH {
        let what = "kind of a state that is not kept by key";
        return Err(FormatError::Unsupported { what, value: head.kind.into() });
    }
    let width = |width: U16| Some(width.get()).filter(|width| *width != WIDTH_ANY);
    let (operator, rest) = split_name(rest, head.operator_len, at)?;
    let (state, rest) = split_name(rest, head.state_len, at)?;
    let (key_codec, rest) = split_name(rest, head.key_codec_len, at)?;
    let (value_codec, rest) = split_name(rest, head.value_codec_len, at)?;
    let entry = StateEntry {
        state_id: head.state_id.get(),
        kind: head.kind,
        distribution,
        operator,
        state,
        key_codec,
        key_codec_version: head.key_codec_version.get(),
        value_codec,
        value_codec_version: head.value_codec_version.get(),
        key_width: width(head.key_width),
        value_width: width(head.value_width),
        entry_count: head.entry_count.get(),
    };
    Ok((entry, rest))
}

/// Takes a name off the front of `bytes`; `at` is the offset for errors.
fn split_name(bytes: &[u8], len: U16, at: usize) -> Result<(&str, &[u8]), FormatError> {
    let len = usize::from(len.get());
    let Some((name, rest)) = bytes.split_at_checked(len) else {
        return Err(corrupt("length of a name", at, len as u64, bytes.len() as u64));
    };
    match str::from_utf8(name) {
        Ok(name) => Ok((name, rest)),
        Err(error) => Err(corrupt("UTF-8 of a name", at, len as u64, error.valid_up_to() as u64)),
    }
}

use zerocopy::IntoBytes;
use zerocopy::little_endian::{U16, U32, U64};

use super::super::super::checksum::{Checksum, PART_FOOTER};
use super::super::super::sink::Sink;
use super::super::{EncodeError, SegmentHeader, name_len};
use super::{FooterHead, FooterTotals, KeyGroupRow, StateEntry, StateHead, WIDTH_ANY};

/// What a written footer is known by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Footer {
    /// Its length.
    pub len: u64,
    /// Its checksum.
    pub checksum: u32,
}

/// Writes a footer: first the key groups, then the states, as many as were announced.
#[derive(Debug)]
pub struct FooterEncoder<S> {
    sink: S,
    checksum: Checksum,
    len: u64,
    groups_from: u32,
    states_from: u32,
    groups_left: u32,
    states_left: u32,
}

impl<S: Sink> FooterEncoder<S> {
    /// Of the segment `header`, with `totals`.
    ///
    /// # Errors
    /// The sink fails.
    pub fn new(
        sink: S,
        header: &SegmentHeader,
        totals: &FooterTotals,
    ) -> Result<Self, EncodeError<S::Error>> {
        let mut encoder = Self {
            sink,
            checksum: Checksum::new(&header.identity(PART_FOOTER)),
            len: 0,
            groups_from: 0,
            states_from: 0,
            groups_left: totals.key_group_count,
            states_left: totals.state_count,
        };
        let head = FooterHead {
            header_checksum: header.encode().checksum,
            key_group_count: U32::new(totals.key_group_count),
            state_count: U32::new(totals.state_count),
            file_count: U32::new(0),
            frame_count: U64::new(totals.frame_count),
            index_len: U64::new(totals.index_len),
            entry_count: U64::new(totals.entry_count),
            data_len: U64::new(totals.data_len),
        };
        encoder.write(head.as_bytes())?;
        Ok(encoder)
    }

    /// Writes the row of a key group; they ascend.
    ///
    /// # Errors
    /// The order or the number is wrong, or the sink fails.
    pub fn key_group(&mut self, row: &KeyGroupRow) -> Result<(), EncodeError<S::Error>> {
        let group = u32::from(row.key_group.get());
        let Some(left) = self.groups_left.checked_sub(1).filter(|_| group >= self.groups_from) else {
            return Err(EncodeError::WrongOrder {
                what: "key groups of a footer ascend, as many as announced",
            });
        };
        (self.groups_left, self.groups_from) = (left, group.saturating_add(1));
        self.write(row.as_bytes())
    }

    /// Writes a state; their numbers ascend.
    ///
    /// # Errors
    /// The order or the number is wrong, a name is longer than 65535 bytes, or the sink fails.
    pub fn state(&mut self, state: &StateEntry<'_>) -> Result<(), EncodeError<S::Error>> {
        let id = u32::from(state.state_id);
        let left =
            self.states_left.checked_sub(1).filter(|_| id >= self.states_from && self.groups_left == 0);
        let Some(left) = left else {
            return Err(EncodeError::WrongOrder {
                what: "states of a footer ascend, as many as announced, behind the key groups",
            });
        };
        let head = StateHead {
            state_id: U16::new(state.state_id),
            kind: state.kind,
            distribution: state.distribution.number(),
            operator_len: U16::new(name_len("operator name", state.operator)?),
            state_len: U16::new(name_len("state name", state.state)?),
            key_codec_len: U16::new(name_len("key codec name", state.key_codec)?),
            key_codec_version: U16::new(state.key_codec_version),
            value_codec_len: U16::new(name_len("value codec name", state.value_codec)?),
            value_codec_version: U16::new(state.value_codec_version),
            key_width: U16::new(state.key_width.unwrap_or(WIDTH_ANY)),
            value_width: U16::new(state.value_width.unwrap_or(WIDTH_ANY)),
            entry_count: U64::new(state.entry_count),
        };
        (self.states_left, self.states_from) = (left, id.saturating_add(1));
        self.write(head.as_bytes())?;
        for name in [state.operator, state.state, state.key_codec, state.value_codec] {
            self.write(name.as_bytes())?;
        }
        Ok(())
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), EncodeError<S::Error>> {
        self.checksum.update(bytes);
        self.len = self.len.saturating_add(bytes.len() as u64);
        self.sink.write(bytes).map_err(EncodeError::Sink)
    }

    /// Ends the footer.
    ///
    /// # Errors
    /// Fewer parts were written than announced.
    pub fn finish(self) -> Result<Footer, EncodeError<S::Error>> {
        if self.groups_left > 0 || self.states_left > 0 {
            return Err(EncodeError::WrongOrder { what: "a footer has as many parts as it announces" });
        }
        Ok(Footer { len: self.len, checksum: self.checksum.get() })
    }
}

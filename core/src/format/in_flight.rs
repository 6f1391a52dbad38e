//! Records in flight: what an unaligned checkpoint has captured of the channels into one subtask.
//!
//! ```text
//! header | a row for each channel | batches, channel after channel | tail
//! ```
//!
//! It is a file of its own, or an element of the manifest if it is small. What the bytes of a batch mean is known to the
//! channel alone. A batch is under a checksum that knows whose it is; that of the tail covers everything, and it is what a
//! manifest remembers of a file.

use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, IntoBytes};

use super::checksum::{Checksum, Identity, PART_BATCH, PART_IN_FLIGHT};
use super::error::{FormatError, corrupt, expect_eq, expect_magic, expect_within};
use super::layout::layout;
use super::{VERSION, VERSION_MIN};

mod encode;
#[cfg(test)]
mod tests;
mod views;

pub use encode::InFlightEncoder;
pub use views::{Batches, ChannelView, Channels};

/// First bytes of captured records.
pub const IN_FLIGHT_MAGIC: [u8; 8] = *b"SLKWFLT\0";
/// Their last bytes.
pub const IN_FLIGHT_TAIL_MAGIC: [u8; 4] = *b"SLKF";

layout! {
    /// The start of captured records; the channels' rows follow.
    pub struct InFlightHeaderLayout {
        /// [`IN_FLIGHT_MAGIC`].
        pub magic: [u8; 8],
        /// [`VERSION`].
        pub version: U16,
        /// None is defined: 0.
        pub flags: U16,
        /// The subtask that they were on their way to.
        pub subtask: U32,
        /// An id of their own, as a file has.
        pub file_id: [u8; 16],
        /// The job.
        pub job_id: [u8; 16],
        /// The checkpoint.
        pub checkpoint: U64,
        /// The attempt of the subtask.
        pub attempt: U64,
        /// Rows that follow, at least one.
        pub channel_count: U32,
        /// 0.
        pub reserved: U32,
    }
}

layout! {
    /// A channel that had records in flight. Rows ascend by edge, then by sender.
    pub struct ChannelRow {
        /// Which input of the operator, counted from 0.
        pub edge: U16,
        /// The subtask that sent them.
        pub sender: U16,
        /// Its batches, at least one.
        pub batch_count: U32,
        /// Bytes of these, their heads included.
        pub len: U64,
    }
}

layout! {
    /// Begins a batch; `len` bytes follow.
    pub struct BatchHead {
        /// Bytes that follow.
        pub len: U32,
        /// Of the length and the bytes.
        pub checksum: U32,
    }
}

layout! {
    /// The last bytes of captured records.
    pub struct InFlightTail {
        /// Length of all of it.
        pub len: U64,
        /// Of all bytes before it.
        pub checksum: U32,
        /// [`IN_FLIGHT_TAIL_MAGIC`].
        pub magic: [u8; 4],
    }
}

/// Whose records they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InFlightHeader {
    /// The subtask that they were on their way to.
    pub subtask: u32,
    /// An id of their own, as a file has.
    pub file_id: u128,
    /// The job.
    pub job_id: u128,
    /// The checkpoint.
    pub checkpoint: u64,
    /// The attempt of the subtask.
    pub attempt: u64,
}

impl InFlightHeader {
    /// The bytes at the start, before the rows of so many channels.
    #[must_use]
    pub fn encode(&self, channel_count: u32) -> InFlightHeaderLayout {
        InFlightHeaderLayout {
            magic: IN_FLIGHT_MAGIC,
            version: U16::new(VERSION),
            flags: U16::new(0),
            subtask: U32::new(self.subtask),
            file_id: self.file_id.to_le_bytes(),
            job_id: self.job_id.to_le_bytes(),
            checkpoint: U64::new(self.checkpoint),
            attempt: U64::new(self.attempt),
            channel_count: U32::new(channel_count),
            reserved: U32::new(0),
        }
    }
}

impl ChannelRow {
    /// Of a channel whose batches have these lengths in bytes.
    #[must_use]
    pub fn new(edge: u16, sender: u16, lengths: impl IntoIterator<Item = usize>) -> Self {
        let (mut count, mut len) = (0_u32, 0_u64);
        for batch in lengths {
            count = count.saturating_add(1);
            len = len.saturating_add(BatchHead::LEN as u64).saturating_add(batch as u64);
        }
        Self {
            edge: U16::new(edge),
            sender: U16::new(sender),
            batch_count: U32::new(count),
            len: U64::new(len),
        }
    }

    /// By what rows ascend.
    const fn place(&self) -> (u16, u16) {
        (self.edge.get(), self.sender.get())
    }
}

impl BatchHead {
    /// Of batch `number` of a channel, counted from 0; none of more than 4 GiB.
    #[must_use]
    pub fn new(header: &InFlightHeaderLayout, row: &ChannelRow, number: u32, bytes: &[u8]) -> Option<Self> {
        let mut head = Self { len: U32::new(u32::try_from(bytes.len()).ok()?), checksum: U32::new(0) };
        head.checksum = U32::new(head.sum(header, row, number, bytes));
        Some(head)
    }

    /// What the checksum should be.
    #[must_use]
    pub fn sum(&self, header: &InFlightHeaderLayout, row: &ChannelRow, number: u32, bytes: &[u8]) -> u32 {
        let (edge, sender) = row.place();
        let identity = header.identity(PART_BATCH).of_key_group(sender).of_page(edge, number);
        let mut checksum = Checksum::new(&identity);
        checksum.update(self.len.as_bytes());
        checksum.update(bytes);
        checksum.get()
    }
}

/// The length in bytes of captured records that have these rows.
#[must_use]
pub fn encoded_len(rows: &[ChannelRow]) -> u64 {
    let fixed =
        InFlightHeaderLayout::LEN.saturating_add(InFlightTail::LEN).saturating_add(rows.as_bytes().len());
    rows.iter().fold(fixed as u64, |len, row| len.saturating_add(row.len.get()))
}

/// Captured records, all of them checked.
#[derive(Clone, Copy, Debug)]
pub struct InFlightView<'a> {
    header: &'a InFlightHeaderLayout,
    rows: &'a [ChannelRow],
    batches: &'a [u8],
    checksum: u32,
}

impl<'a> InFlightView<'a> {
    /// Checks all of it: lengths, order, every checksum. What the view then gives is sound.
    ///
    /// # Errors
    /// `Corrupt`, or `Unsupported` for a newer version.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, FormatError> {
        let Ok((header, rest)) = InFlightHeaderLayout::ref_from_prefix(bytes) else {
            let len_min = InFlightHeaderLayout::LEN as u64;
            return Err(corrupt("length of captured records", 0, len_min, bytes.len() as u64));
        };
        header.check_kind(|as_of_ours| check_tail(bytes, as_of_ours).is_ok())?;
        let checksum = check_tail(bytes, header)?;
        header.check()?;
        let count = header.channel_count.get() as usize;
        let cut = || corrupt("number of channels", 64, rest.len() as u64, count as u64);
        let (rows, rest) = <[ChannelRow]>::ref_from_prefix_with_elems(rest, count).map_err(|_| cut())?;
        let batches_len = rest.len().checked_sub(InFlightTail::LEN).ok_or_else(cut)?;
        let view = Self { header, rows, batches: rest.get(..batches_len).unwrap_or(&[]), checksum };
        view.check_channels()?;
        Ok(view)
    }

    fn check_channels(&self) -> Result<(), FormatError> {
        let rows_at = InFlightHeaderLayout::LEN;
        let batches_at = rows_at.saturating_add(self.rows.as_bytes().len());
        let (mut rest, mut from) = (self.batches, 0_u64);
        for (row, at) in self.rows.iter().zip((rows_at..).step_by(ChannelRow::LEN)) {
            let place =
                u64::from(row.edge.get()).saturating_mul(1 << 16).saturating_add(row.sender.get().into());
            expect_within("order of channels", at, (from, u64::MAX), place)?;
            expect_within("batches of a channel", at, (1, u64::MAX), row.batch_count.get().into())?;
            from = place.saturating_add(1);
            let cut = || corrupt("bytes of a channel", at, rest.len() as u64, row.len.get());
            let len = usize::try_from(row.len.get()).map_err(|_| cut())?;
            let (bytes, behind) = rest.split_at_checked(len).ok_or_else(cut)?;
            let base = batches_at.saturating_add(self.batches.len().saturating_sub(rest.len()));
            self.check_batches(row, bytes).map_err(|error| error.within(base as u64))?;
            rest = behind;
        }
        let at = batches_at.saturating_add(self.batches.len().saturating_sub(rest.len()));
        expect_eq("bytes behind the batches", at, 0, rest.len() as u64)
    }

    /// Checks the batches of a channel, which are all of `bytes`.
    fn check_batches(&self, row: &ChannelRow, bytes: &[u8]) -> Result<(), FormatError> {
        let mut rest = bytes;
        for number in 0..row.batch_count.get() {
            let at = bytes.len().saturating_sub(rest.len());
            let (head, batch, behind) = views::split(rest, at)?;
            let found = head.sum(self.header, row, number, batch);
            expect_eq("checksum of a batch", at.saturating_add(4), head.checksum.get().into(), found.into())?;
            rest = behind;
        }
        let at = bytes.len().saturating_sub(rest.len());
        expect_eq("bytes behind the batches of a channel", at, 0, rest.len() as u64)
    }

    /// Whose records they are.
    #[must_use]
    pub const fn header(&self) -> InFlightHeader {
        InFlightHeader {
            subtask: self.header.subtask.get(),
            file_id: u128::from_le_bytes(self.header.file_id),
            job_id: u128::from_le_bytes(self.header.job_id),
            checkpoint: self.header.checkpoint.get(),
            attempt: self.header.attempt.get(),
        }
    }

    /// The checksum of all of it.
    #[must_use]
    pub const fn checksum(&self) -> u32 {
        self.checksum
    }

    /// The rows of the channels.
    #[must_use]
    pub const fn rows(&self) -> &'a [ChannelRow] {
        self.rows
    }

    /// The channels, ascending by edge and sender.
    #[must_use]
    pub fn channels(&self) -> Channels<'a> {
        Channels::new(self.rows, self.batches)
    }
}

impl InFlightHeaderLayout {
    const fn identity(&self, part: u8) -> Identity {
        Identity::new(part, u128::from_le_bytes(self.file_id), self.checkpoint.get())
    }

    /// The version comes first: what a newer one means by the rest is not known. Unless all else `is_of_ours`: then the
    /// number is what is damaged.
    fn check_kind(&self, is_of_ours: impl FnOnce(&Self) -> bool) -> Result<(), FormatError> {
        expect_magic("magic of captured records", 0, IN_FLIGHT_MAGIC, self.magic)?;
        let version = self.version.get();
        if version > VERSION && !is_of_ours(&Self { version: U16::new(VERSION), ..*self }) {
            let what = "version of captured records";
            return Err(FormatError::Unsupported { what, value: version.into() });
        }
        expect_within("version of captured records", 8, (VERSION_MIN.into(), VERSION.into()), version.into())
    }

    fn check(&self) -> Result<(), FormatError> {
        expect_eq("flags of captured records", 10, 0, self.flags.get().into())?;
        expect_within("number of channels", 64, (1, u64::MAX), self.channel_count.get().into())?;
        expect_eq("reserved field of captured records", 68, 0, self.reserved.get().into())
    }
}

/// Checks the end of captured records of which `header` is the start, and gives their checksum.
fn check_tail(bytes: &[u8], header: &InFlightHeaderLayout) -> Result<u32, FormatError> {
    let len = bytes.len() as u64;
    let at = bytes.len().saturating_sub(InFlightTail::LEN);
    let Ok((before, tail)) = InFlightTail::ref_from_suffix(bytes) else {
        return Err(corrupt("length of captured records", 0, InFlightTail::LEN as u64, len));
    };
    let magics = (u32::from_le_bytes(IN_FLIGHT_TAIL_MAGIC), u32::from_le_bytes(tail.magic));
    expect_eq("end of captured records", at.saturating_add(12), magics.0.into(), magics.1.into())?;
    expect_eq("length of captured records", at, len, tail.len.get())?;
    let mut checksum = Checksum::new(&header.identity(PART_IN_FLIGHT));
    checksum.update(header.as_bytes());
    checksum.update(before.get(InFlightHeaderLayout::LEN..).unwrap_or(&[]));
    checksum.update(tail.len.as_bytes());
    let at = at.saturating_add(8);
    expect_eq("checksum of captured records", at, checksum.get().into(), tail.checksum.get().into())?;
    Ok(checksum.get())
}

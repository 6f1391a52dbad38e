use zerocopy::FromBytes;

use super::super::error::{FormatError, corrupt};
use super::{BatchHead, ChannelRow};

/// A channel and what was in flight on it.
#[derive(Clone, Copy, Debug)]
pub struct ChannelView<'a> {
    /// Which input of the operator, counted from 0.
    pub edge: u16,
    /// The subtask that sent it.
    pub sender: u16,
    bytes: &'a [u8],
}

impl<'a> ChannelView<'a> {
    /// The batches, oldest first.
    #[must_use]
    pub const fn batches(&self) -> Batches<'a> {
        Batches { rest: self.bytes }
    }
}

/// Iterator over the channels of captured records.
#[derive(Clone, Debug)]
pub struct Channels<'a> {
    rows: &'a [ChannelRow],
    rest: &'a [u8],
}

impl<'a> Channels<'a> {
    pub(super) const fn new(rows: &'a [ChannelRow], rest: &'a [u8]) -> Self {
        Self { rows, rest }
    }
}

impl<'a> Iterator for Channels<'a> {
    type Item = ChannelView<'a>;

    fn next(&mut self) -> Option<ChannelView<'a>> {
        let (row, rows) = self.rows.split_first()?;
        let (bytes, rest) = self.rest.split_at_checked(usize::try_from(row.len.get()).ok()?)?;
        (self.rows, self.rest) = (rows, rest);
        Some(ChannelView { edge: row.edge.get(), sender: row.sender.get(), bytes })
    }
}

/// Iterator over the batches of a channel.
#[derive(Clone, Debug)]
pub struct Batches<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for Batches<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let (_, batch, rest) = split(self.rest, 0).ok()?;
        self.rest = rest;
        Some(batch)
    }
}

/// Takes a batch off the front of `bytes`, which lie at `at`.
pub(super) fn split(bytes: &[u8], at: usize) -> Result<(&BatchHead, &[u8], &[u8]), FormatError> {
    let Ok((head, rest)) = BatchHead::ref_from_prefix(bytes) else {
        return Err(corrupt("length of a batch", at, BatchHead::LEN as u64, bytes.len() as u64));
    };
    let Some((batch, behind)) = rest.split_at_checked(head.len.get() as usize) else {
        return Err(corrupt("length of a batch", at, rest.len() as u64, head.len.get().into()));
    };
    Ok((head, batch, behind))
}

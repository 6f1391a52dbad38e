use zerocopy::IntoBytes;
use zerocopy::little_endian::U64;

use super::super::segment::EncodeError;
use super::super::sink::{Sink, Summed};
use super::*;

/// Writes captured records: the rows say what follows, then come the batches in the order of the rows.
///
/// `R` are the rows, which the encoder keeps to hold the batches against them.
#[derive(Debug)]
pub struct InFlightEncoder<S, R> {
    sink: Summed<S>,
    header: InFlightHeaderLayout,
    rows: R,
    /// The channel in work.
    channel: usize,
    /// Batches of it so far.
    number: u32,
    /// Bytes of these, their heads included.
    len: u64,
}

impl<S: Sink, R: AsRef<[ChannelRow]>> InFlightEncoder<S, R> {
    /// Writes the header and the rows.
    ///
    /// # Errors
    /// There is no row, one is of no batch, or they do not ascend; or the sink fails.
    pub fn new(sink: S, header: &InFlightHeader, rows: R) -> Result<Self, EncodeError<S::Error>> {
        let all = rows.as_ref();
        if all.is_empty() || all.iter().any(|row| row.batch_count.get() == 0) {
            return Err(EncodeError::WrongOrder { what: "a channel without batches has no row" });
        }
        if !all.is_sorted_by(|row, next| row.place() < next.place()) {
            return Err(EncodeError::WrongOrder { what: "channels ascend by edge and sender" });
        }
        let len_max = u32::MAX.into();
        let count = u32::try_from(all.len())
            .map_err(|_| EncodeError::TooLong { what: "list of channels", len_max })?;
        let header = header.encode(count);
        let mut sink = Summed::new(sink, &header.identity(PART_IN_FLIGHT));
        sink.write(header.as_bytes()).map_err(EncodeError::Sink)?;
        sink.write(all.as_bytes()).map_err(EncodeError::Sink)?;
        Ok(Self { sink, header, rows, channel: 0, number: 0, len: 0 })
    }

    /// Writes the next batch.
    ///
    /// # Errors
    /// The rows say nothing of it, it is longer than 4 GiB, or the sink fails.
    pub fn batch(&mut self, bytes: &[u8]) -> Result<(), EncodeError<S::Error>> {
        let wrong = EncodeError::WrongOrder { what: "batches are as many, and as long, as the rows say" };
        let Some(row) = self.rows.as_ref().get(self.channel).copied() else { return Err(wrong) };
        let len_max = u32::MAX.into();
        let head = BatchHead::new(&self.header, &row, self.number, bytes)
            .ok_or(EncodeError::TooLong { what: "batch", len_max })?;
        self.sink.write(head.as_bytes()).map_err(EncodeError::Sink)?;
        self.sink.write(bytes).map_err(EncodeError::Sink)?;
        self.number = self.number.saturating_add(1);
        self.len = self.len.saturating_add(BatchHead::LEN as u64).saturating_add(bytes.len() as u64);
        if self.number == row.batch_count.get() {
            if self.len != row.len.get() {
                return Err(wrong);
            }
            (self.channel, self.number, self.len) = (self.channel.saturating_add(1), 0, 0);
        }
        Ok(())
    }

    /// What has been written so far, for a sink that is emptied meanwhile.
    pub const fn sink_mut(&mut self) -> &mut S {
        self.sink.sink_mut()
    }

    /// Writes the end. Gives the sink back, and the checksum of all of it.
    ///
    /// # Errors
    /// A batch is missing, or the sink fails.
    pub fn finish(mut self) -> Result<(S, u32), EncodeError<S::Error>> {
        if self.channel < self.rows.as_ref().len() {
            return Err(EncodeError::WrongOrder { what: "every batch is written" });
        }
        let len = self.sink.len().saturating_add(InFlightTail::LEN as u64);
        self.sink.write(U64::new(len).as_bytes()).map_err(EncodeError::Sink)?;
        self.sink.finish(&IN_FLIGHT_TAIL_MAGIC).map_err(EncodeError::Sink)
    }
}

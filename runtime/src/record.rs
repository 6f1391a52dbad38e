//! What travels: records, one by one for operators, in batches for channels.

use std::fmt;

use slackwater_mem::Bytes;

mod codec;

pub(crate) use codec::ForeignRecords;
pub use codec::RecordCodec;

/// Something that travels through a job.
///
/// Implemented for every `T: Clone + Send` (a batch is a `Vec<T>`) and for byte strings `[u8]` (a batch is
/// one [`PackedBytes`]), so that words travel without an allocation each. Operators see records by reference.
pub trait Record: 'static {
    /// Many records in one piece of memory.
    type Batch: Batch<Self>;

    /// How records that a barrier overtakes are written into the checkpoint; none for types that do not say, whose streams
    /// may name one ([`Stream::codec`](crate::graph::Stream::codec)).
    #[must_use]
    fn codec() -> Option<RecordCodec<Self>> {
        None
    }
}

/// Many records in one piece of memory.
pub trait Batch<R: ?Sized>: Default + Send + 'static {
    /// Appends a record.
    fn push(&mut self, record: &R);

    /// The record at `index`, if there are so many.
    fn get(&self, index: usize) -> Option<&R>;

    /// How many records.
    fn len(&self) -> usize;

    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// About how many bytes of memory they take; decides when a batch is sent.
    fn size(&self) -> usize;
}

impl<T: Clone + Send + 'static> Record for T {
    type Batch = Vec<T>;
}

impl<T: Clone + Send + 'static> Batch<T> for Vec<T> {
    fn push(&mut self, record: &T) {
        Self::push(self, record.clone());
    }

    fn get(&self, index: usize) -> Option<&T> {
        self.as_slice().get(index)
    }

    fn len(&self) -> usize {
        Self::len(self)
    }

    fn size(&self) -> usize {
        Self::len(self).saturating_mul(size_of::<T>().max(1))
    }
}

impl Record for [u8] {
    type Batch = PackedBytes;

    fn codec() -> Option<RecordCodec<Self>> {
        Some(RecordCodec::of::<Bytes>())
    }
}

/// Byte strings one behind the other.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct PackedBytes {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Batch<[u8]> for PackedBytes {
    fn push(&mut self, record: &[u8]) {
        self.bytes.extend_from_slice(record);
        self.ends.push(self.bytes.len());
    }

    fn get(&self, index: usize) -> Option<&[u8]> {
        let end = *self.ends.get(index)?;
        let start = index.checked_sub(1).map_or(0, |before| self.ends[before]);
        Some(&self.bytes[start..end])
    }

    fn len(&self) -> usize {
        self.ends.len()
    }

    fn size(&self) -> usize {
        self.bytes.len() + self.ends.len() * size_of::<usize>()
    }
}

impl fmt::Debug for PackedBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PackedBytes")
            .field("records", &self.ends.len())
            .field("bytes", &self.bytes.len())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::{Batch, PackedBytes, Record};

    fn round_trip<R: Record + ?Sized>(records: &[&R]) -> <R as Record>::Batch {
        let mut batch = R::Batch::default();
        for record in records {
            batch.push(record);
        }
        assert_eq!(batch.len(), records.len());
        batch
    }

    #[test]
    fn byte_strings_come_back_whole_empty_ones_too() {
        let words: [&[u8]; 4] = [b"", b"one", b"", b"\0two"];
        let batch: PackedBytes = round_trip::<[u8]>(&words);
        for (index, word) in words.iter().enumerate() {
            assert_eq!(batch.get(index), Some(*word));
        }
        assert_eq!(batch.get(4), None);
    }

    #[test]
    fn sized_records_come_back_in_order() {
        let batch = round_trip::<(u32, u64)>(&[&(1, 2), &(3, 4)]);
        assert_eq!(Batch::get(&batch, 1), Some(&(3, 4)));
        assert_eq!(Batch::size(&batch), 2 * size_of::<(u32, u64)>());
    }
}

//! What a channel carries, and how it lies in a checkpoint.

use slackwater_core::ids::CheckpointId;

use crate::record::{Batch, PackedBytes};

/// Names a transaction for ever: no other one of the job has this id, whatever crashes and starts again.
///
/// Ids of one attempt and subtask ascend in the order in which the transactions come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TransactionId {
    /// The start of the job in which its records came.
    pub attempt: u64,
    /// The subtask of the sink.
    pub subtask: u16,
    /// The checkpoint that closed it.
    pub checkpoint: CheckpointId,
}

/// Records that became visible together; never none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transaction {
    id: TransactionId,
    records: PackedBytes,
}

const VERSION: u8 = 1;

impl Transaction {
    pub(super) const fn new(id: TransactionId, records: PackedBytes) -> Self {
        Self { id, records }
    }

    /// Its name.
    #[must_use]
    pub const fn id(&self) -> TransactionId {
        self.id
    }

    /// Its records, in order.
    pub fn records(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.records.len()).filter_map(|index| self.records.get(index))
    }

    /// Version (one byte), attempt (8), subtask (2), checkpoint (8), then each record behind its length (4); numbers are
    /// little-endian.
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![VERSION];
        bytes.extend(self.id.attempt.to_le_bytes());
        bytes.extend(self.id.subtask.to_le_bytes());
        bytes.extend(self.id.checkpoint.0.to_le_bytes());
        for record in self.records() {
            let len =
                u32::try_from(record.len()).expect("a record that long would not have fitted a manifest");
            bytes.extend(len.to_le_bytes());
            bytes.extend(record);
        }
        bytes
    }

    /// Reads what [`Transaction::encode`] wrote; none for any other bytes.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let (&[VERSION], rest) = bytes.split_first_chunk::<1>()? else { return None };
        let (attempt, rest) = rest.split_first_chunk::<8>()?;
        let (subtask, rest) = rest.split_first_chunk::<2>()?;
        let (checkpoint, mut rest) = rest.split_first_chunk::<8>()?;
        let mut records = PackedBytes::default();
        while let Some((len, behind)) = rest.split_first_chunk::<4>() {
            let (record, behind) = behind.split_at_checked(u32::from_le_bytes(*len) as usize)?;
            records.push(record);
            rest = behind;
        }
        let id = TransactionId {
            attempt: u64::from_le_bytes(*attempt),
            subtask: u16::from_le_bytes(*subtask),
            checkpoint: CheckpointId(u64::from_le_bytes(*checkpoint)),
        };
        (rest.is_empty() && !records.is_empty()).then_some(Self { id, records })
    }
}

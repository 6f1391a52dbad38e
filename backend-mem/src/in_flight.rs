//! Records in flight: what an unaligned checkpoint captures, to a file or into the manifest, and back.
//!
//! [`InFlightWriter`] is the work of writing a file of them; what is small is [encoded](InFlight::encode) for the manifest
//! instead, in the same format. [`read`] gives them back from either. It waits for the disk, and takes whatever bytes it
//! finds: damage is an error, never a panic, and it needs at most [`MEMORY_PER_BYTE`] times their length of memory and
//! [`MEMORY_FIXED`].

use std::string::String;
use std::vec::Vec;

use slackwater_core::durable::Disk;
use slackwater_core::format::in_flight::{ChannelRow, InFlightEncoder, InFlightView, encoded_len};
use slackwater_core::format::{EncodeError, FormatError, manifest};

#[cfg(test)]
mod tests;
mod write;

pub use slackwater_core::format::in_flight::InFlightHeader;

pub use crate::segment::{MEMORY_FIXED, RestoreCause, RestoreError, WriteError};
pub use write::{InFlightSpec, InFlightWriter};

use crate::segment::{read_file, same};

/// Bytes of memory that a reader may take for each byte of captured records: those read, which may have room for as many
/// more, and the batches, of which an empty one has 8 bytes in the file and 24 in memory.
pub const MEMORY_PER_BYTE: usize = 6;

/// Captured records of up to so many bytes lie in the manifest (rule S25).
pub const INLINE_LEN_MAX: u64 = 20 << 10;

/// The records in flight to one subtask.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InFlight {
    /// The channels that had any, in any order.
    pub channels: Vec<CapturedChannel>,
}

/// What was in flight on one channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CapturedChannel {
    /// Which input of the operator, counted from 0.
    pub edge: u16,
    /// The subtask that sent it.
    pub sender: u16,
    /// Batches of records, oldest first. What their bytes mean is known to the channel.
    pub batches: Vec<Vec<u8>>,
}

/// Captured records that are durable, as a manifest remembers them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoredInFlight {
    /// They lie in the manifest.
    Inline(Vec<u8>),
    /// They are a file.
    File(InFlightRef),
}

/// A file of captured records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InFlightRef {
    /// Its path, relative to the job's folder.
    pub file_name: String,
    /// Its id.
    pub file_id: u128,
    /// Its length in bytes.
    pub len: u64,
    /// The checksum of all of it.
    pub checksum: u32,
}

impl InFlight {
    /// Whether no records were in flight: then nothing is stored.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.channels.iter().all(|channel| channel.batches.is_empty())
    }

    /// The length of these records as bytes of a manifest or a file.
    #[must_use]
    pub fn encoded_len(&self) -> u64 {
        encoded_len(&self.rows())
    }

    /// These records as bytes for the manifest.
    ///
    /// # Errors
    /// There are none, or a batch is longer than 4 GiB.
    pub fn encode(self, header: &InFlightHeader) -> Result<Vec<u8>, WriteError> {
        let captured = self.in_order();
        let mut encoder = InFlightEncoder::new(Vec::new(), header, captured.rows()).map_err(unfit)?;
        for batch in captured.channels.iter().flat_map(|channel| &channel.batches) {
            encoder.batch(batch).map_err(unfit)?;
        }
        Ok(encoder.finish().map_err(unfit)?.0)
    }

    /// The records that these bytes are.
    ///
    /// # Errors
    /// They are damaged, cut short, or of a newer version.
    pub fn decode(bytes: &[u8]) -> Result<Self, FormatError> {
        let view = InFlightView::parse(bytes)?;
        let mut channels = Vec::with_capacity(view.rows().len());
        channels.extend(view.channels().map(|channel| {
            let mut batches = Vec::with_capacity(channel.batches().count());
            batches.extend(channel.batches().map(<[u8]>::to_vec));
            CapturedChannel { edge: channel.edge, sender: channel.sender, batches }
        }));
        Ok(Self { channels })
    }

    /// The same with channels ascending, none twice, none empty.
    fn in_order(mut self) -> Self {
        self.channels.retain(|channel| !channel.batches.is_empty());
        self.channels.sort_by_key(CapturedChannel::place);
        self.channels.dedup_by(|later, earlier| {
            let is_same = later.place() == earlier.place();
            if is_same {
                earlier.batches.append(&mut later.batches);
            }
            is_same
        });
        self
    }

    fn rows(&self) -> Vec<ChannelRow> {
        let row = |channel: &CapturedChannel| {
            ChannelRow::new(channel.edge, channel.sender, channel.batches.iter().map(Vec::len))
        };
        self.channels.iter().map(row).collect()
    }
}

impl CapturedChannel {
    const fn place(&self) -> (u16, u16) {
        (self.edge, self.sender)
    }
}

impl StoredInFlight {
    /// Its length in bytes.
    #[must_use]
    pub const fn len(&self) -> u64 {
        match self {
            Self::Inline(bytes) => bytes.len() as u64,
            Self::File(file) => file.len,
        }
    }

    /// Whether it has no bytes, which is never so.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The same for a manifest's encoder.
    #[must_use]
    pub fn as_manifest(&self) -> manifest::InFlight<'_> {
        match self {
            Self::Inline(bytes) => manifest::InFlight::Inline(bytes),
            Self::File(file) => manifest::InFlight::File(manifest::InFlightRef {
                file_name: &file.file_name,
                file_id: file.file_id,
                len: file.len,
                checksum: file.checksum,
            }),
        }
    }
}

impl From<manifest::InFlight<'_>> for StoredInFlight {
    fn from(stored: manifest::InFlight<'_>) -> Self {
        match stored {
            manifest::InFlight::Inline(bytes) => Self::Inline(bytes.to_vec()),
            manifest::InFlight::File(file) => Self::File(InFlightRef {
                file_name: file.file_name.into(),
                file_id: file.file_id,
                len: file.len,
                checksum: file.checksum,
            }),
        }
    }
}

/// Reads captured records, all of which are checked. Waits for the disk.
///
/// # Errors
/// The first thing that is wrong, with the path of the file; `path` is that of the manifest if they lie there.
pub fn read<D: Disk>(disk: &mut D, path: &str, stored: &StoredInFlight) -> Result<InFlight, RestoreError> {
    let failed = |cause| RestoreError { path: String::from(path), cause };
    match stored {
        StoredInFlight::Inline(bytes) => InFlight::decode(bytes).map_err(|error| failed(error.into())),
        StoredInFlight::File(file) => {
            let bytes = read_checked(disk, path, file)?;
            InFlight::decode(&bytes).map_err(|error| failed(error.into()))
        }
    }
}

/// Reads a file of captured records from the first byte to the last and checks all of it. Waits for the disk.
///
/// # Errors
/// The first thing that is wrong.
pub fn verify<D: Disk>(disk: &mut D, path: &str, expected: &InFlightRef) -> Result<(), RestoreError> {
    read_checked(disk, path, expected).map(drop)
}

/// The bytes of a file, which are as they were written.
fn read_checked<D: Disk>(disk: &mut D, path: &str, expected: &InFlightRef) -> Result<Vec<u8>, RestoreError> {
    let bytes = read_file(disk, path, expected.len)?;
    let check = || {
        same("length", expected.len, bytes.len() as u64)?;
        let view = InFlightView::parse(&bytes)?;
        same("file id", expected.file_id, view.header().file_id)?;
        same("checksum", expected.checksum, view.checksum())
    };
    check().map_err(|cause| RestoreError { path: String::from(path), cause })?;
    Ok(bytes)
}

/// Why the format does not take them.
fn unfit(error: EncodeError<core::convert::Infallible>) -> WriteError {
    let what = match error {
        EncodeError::Sink(never) => match never {},
        EncodeError::WrongOrder { what } | EncodeError::TooLong { what, .. } => what,
    };
    WriteError::TooLarge { what }
}

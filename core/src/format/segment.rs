//! A segment: the keyed state of one subtask as of one epoch, in one file.
//!
//! ```text
//! header block | key groups' frames | indexes, one for each key group | footer | zeros | trailer
//! ```
//!
//! Frames lie one behind the other, or compressed in [chunks](Chunks) that no two key groups share. The header tells what the file is, the trailer (its last 64 bytes) where the footer lies, the footer where
//! each key group's frames and index lie. The footer's checksum covers the indexes' and the header's, an
//! index covers its frames': it stands for the whole file, and it is what a manifest remembers.

mod chunk;
mod compression;
mod distribution;
mod footer;
mod header;
mod index;
mod trailer;

pub use chunk::{CHUNK_LEN_MAX, Chunk, ChunkHead, Chunks};
pub use compression::{COMPRESSION_LZ4, COMPRESSION_NONE, COMPRESSION_ZSTD, Compression};
pub use distribution::Distribution;
pub use footer::{
    Footer, FooterEncoder, FooterHead, FooterTotals, FooterView, KeyGroupRow, STATE_KIND_HASH,
    STATE_KIND_ORDERED, StateEntry, StateHead, States, WIDTH_ANY,
};
pub use header::{SegmentHeader, SegmentHeaderLayout};
pub use index::{IndexEncoder, IndexRow, IndexView, Section, SectionHead, Sections};
pub use trailer::{SegmentTrailer, SegmentTrailerLayout};

#[cfg(test)]
mod tests;

/// The smallest block in bytes; the file's length is a multiple of its block size.
pub const BLOCK_SIZE_MIN: usize = 512;
/// The largest block in bytes.
pub const BLOCK_SIZE_MAX: usize = 64 * 1024;
/// First bytes of a segment.
pub const SEGMENT_MAGIC: [u8; 8] = *b"SLKWSEG\0";
/// First bytes of a segment's trailer.
pub const TRAILER_MAGIC: [u8; 8] = *b"SLKWEND\0";

/// Why an encoder refused, or could not go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EncodeError<E> {
    /// The sink failed.
    Sink(E),
    /// The parts came in an order, or in a number, that the format does not have.
    WrongOrder {
        /// Which rule.
        what: &'static str,
    },
    /// A name or a count does not fit its field.
    TooLong {
        /// Which.
        what: &'static str,
        /// How long it may be.
        len_max: u64,
    },
}

impl<E: core::fmt::Display> core::fmt::Display for EncodeError<E> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Sink(error) => error.fmt(f),
            Self::WrongOrder { what } => write!(f, "parts encoded in the wrong order: {what}"),
            Self::TooLong { what, len_max } => write!(f, "{what} is longer than {len_max}"),
        }
    }
}

impl<E: core::error::Error> core::error::Error for EncodeError<E> {}

/// The length of a name as its field holds it.
pub(crate) fn name_len<E>(what: &'static str, name: &str) -> Result<u16, EncodeError<E>> {
    u16::try_from(name.len()).map_err(|_| EncodeError::TooLong { what, len_max: u64::from(u16::MAX) })
}
